"""Check that a task runs where its job was placed: what counts as wrong, and the words for it."""

from __future__ import annotations

from typing import Iterator, Optional, Sequence

import attrs

from treepool.discovery import binding
from treepool.discovery.task import Task
from treepool.rfc import idset
from treepool.rfc.findings import shown_ids
from treepool.rfc.quote import amount


@attrs.frozen
class Misalignment:
    """One difference between a task and its allocation.

    ``kind`` is ``cores`` (the task may run on cores that the job does not have), ``numa`` (it spans
    more NUMA nodes than its share of the job's cores), ``gpus`` (it sees GPUs that the job does not
    have, or none although the job has some), ``shared`` (nothing tells its cores and GPUs from
    those of other tasks), or ``socket`` (one of its GPUs is in a socket where it has no core).
    ``message`` is one line.
    """

    kind: str
    message: str


def check(
    task: Task, affinity: int, visible: Optional[Sequence[int]], gpus_known: bool = True
) -> list[Misalignment]:
    """What is wrong with a task that may use PUs *affinity* (bitmask) and sees GPUs *visible*.

    *visible* is None for all GPUs of the node. GPUs are checked only if *gpus_known*.
    """
    found = [*_cores(task, affinity), *_numa(task, affinity)]
    if gpus_known:
        if visible is None:
            visible = [gpu.id for gpu in task.machine.gpus] or list(idset.iterate(task.gpus))
        found += [*_gpus(task, visible), *_shared(task, affinity, visible)]
        found += _sockets(task, affinity, visible)
    return found


def _cores(task: Task, affinity: int) -> Iterator[Misalignment]:
    outside = affinity & ~binding.pus_of(task.machine, task.cores)
    if not outside:
        return
    cores = binding.cores_of(task.machine, outside)
    system = cores & task.system
    if system:
        kept = f"may run on cores {shown_ids(system)}, which the site keeps for the system"
        yield Misalignment("cores", kept)
    outside &= ~binding.pus_of(task.machine, system)
    cores &= ~system
    if not outside:
        return
    what = f"cores {shown_ids(cores)}" if cores else f"PUs {shown_ids(outside)}"
    yield Misalignment("cores", f"may run on {what}; the job has cores {shown_ids(task.cores)}")


def _numa(task: Task, affinity: int) -> Iterator[Misalignment]:
    """A task on more NUMA nodes than the share of cores that ``treepool bind`` would give it."""
    cores = binding.cores_of(task.machine, affinity) & task.cores
    spanned = binding.numa_of(task.machine, cores)
    own = idset.shares(task.cores, task.tasks)[task.index]
    needed = idset.size(binding.numa_of(task.machine, own))
    if idset.size(spanned) > needed > 0:
        would_do = "one would" if needed == 1 else f"{needed} would"
        yield Misalignment("numa", f"spans NUMA nodes {shown_ids(spanned)}, though {would_do} do")


def _gpus(task: Task, visible: Sequence[int]) -> Iterator[Misalignment]:
    foreign = idset.from_ids(visible) & ~task.gpus
    if foreign:
        have = f"GPUs {shown_ids(task.gpus)}" if task.gpus else "no GPU"
        yield Misalignment("gpus", f"sees GPUs {shown_ids(foreign)}; the job has {have}")
    if task.gpus and not idset.from_ids(visible) & task.gpus:
        yield Misalignment("gpus", f"sees none of the job's GPUs {shown_ids(task.gpus)}")


def _shared(task: Task, affinity: int, visible: Sequence[int]) -> Iterator[Misalignment]:
    """More cores and more GPUs than the task's share, so that others may use the same.

    A task that has cores of its own may see all GPUs in an order of its own.
    """
    cores = binding.cores_of(task.machine, affinity) & task.cores
    gpus = idset.from_ids(visible) & task.gpus
    own = [idset.shares(ids, task.tasks)[task.index] for ids in (task.cores, task.gpus)]
    ncores, ngpus = map(idset.size, own)
    if idset.size(cores) > ncores and idset.size(gpus) > ngpus:
        mine = f"its share is {amount(ncores, 'core')} and {amount(ngpus, 'GPU')}"
        has = f"cores {shown_ids(cores)} and GPUs {shown_ids(gpus)}"
        yield Misalignment("shared", f"shares {has} with other tasks; {mine}")


def _sockets(task: Task, affinity: int, visible: Sequence[int]) -> Iterator[Misalignment]:
    """GPUs in other sockets than the cores.

    A task is assumed to use the first GPUs that it sees, as many as are its share.
    """
    machine = task.machine
    here = binding.sockets_of(machine, binding.cores_of(machine, affinity))
    mine = [gpu for gpu in visible if task.gpus >> gpu & 1]
    count = idset.size(idset.shares(task.gpus, task.tasks)[task.index])
    for gpu in mine[:count]:
        there = binding.sockets_of(machine, binding.near_cores(machine, gpu))
        if here and there and not here & there:
            yield Misalignment(
                "socket",
                f"its cores are in {_named(here)}, its GPU {gpu} in {_named(there)}",
            )


def _named(sockets: int) -> str:
    several = idset.size(sockets) > 1
    return f"socket{'s' if several else ''} {shown_ids(sockets)}"
