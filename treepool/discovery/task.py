"""A task of a job: which cores and GPUs of its node's machine the job's R refers to.

In a sub-instance, Flux counts the cores of each node from zero, but does not renumber GPUs. If the
broker is bound to cores, its hwloc XML is restricted to these cores, and lacks the GPUs near other
cores. Otherwise the XML describes the whole node.
"""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

import attrs

from treepool.discovery.machine import MIG, Gpu, Machine
from treepool.errors import InvalidHardware, InvalidInput, InvalidR
from treepool.rfc import idset, topo
from treepool.rfc.findings import shown_ids
from treepool.rfc.idset import union
from treepool.rfc.rset import ResourceSet
from treepool.rfc.scheduling import AllocatedCores, SchedulingKey

#: Most tasks of a job on a node, and most GPUs of a node.
MAX_TASKS = 1 << 12
MAX_GPUS = 1 << 10


@attrs.frozen
class Task:
    """A task of a job on one node: what the job has of the *machine*, and which task it is.

    ``cores`` has ids of the machine's cores, and ``gpus`` ids of GPUs in R (bitmasks). ``index`` is
    the task's number, from 0, among the ``tasks`` that the job has on the node. ``system`` has the
    cores that R says the site keeps for the operating system.
    """

    machine: Machine
    cores: int
    gpus: int = 0
    index: int = 0
    tasks: int = 1
    system: int = 0


def task_of(
    R: ResourceSet,
    rank: int,
    machine: Machine,
    index: int = 0,
    tasks: int = 1,
    instance_cores: Optional[int] = None,
) -> Task:
    """The task of the job of *R* on the node with this *rank* and *machine*.

    For a job of a sub-instance, *instance_cores* is how many cores of the node that instance has.
    If the machine has as many, its cores have the same ids as in R. If not, only treepool's key
    says which cores R refers to (``allocated``). The key also says which cores the GPUs are near,
    if the machine does not. Raises InvalidR if R has no such rank, or has cores that the machine
    does not have; InvalidKey for a malformed key; InvalidHardware if nothing says which cores R
    refers to.
    """
    entry = next((e for e in R.entries if rank >= 0 and e.ranks >> rank & 1), None)
    if entry is None:
        raise InvalidR(f"R has ranks {shown_ids(R.ranks)}, not {rank}")
    if not 0 <= index < tasks <= MAX_TASKS:
        raise InvalidInput(f"there is no local task {index} of {tasks} (at most {MAX_TASKS})")
    if entry.gpus.bit_length() > MAX_GPUS:
        raise InvalidR(f"rank {rank} has GPUs {shown_ids(entry.gpus)}, more than any node")
    key = R.key()
    topo_of_rank, allocated = _topo(key, rank), _allocated(key, rank)
    cores, in_topo = entry.cores, allocated.cores
    if idset.size(in_topo) != idset.size(cores):
        in_topo = cores
    if instance_cores is None or idset.size(machine.cores) != instance_cores:
        # The key has no ``allocated`` if the cores are the first cores of the node.
        proven = in_topo != cores or (key is not None and cores & (cores + 1) == 0)
        if instance_cores is not None and not proven:
            raise InvalidHardware(
                f"cores {shown_ids(cores)} are counted among {instance_cores} of the node's "
                f"{idset.size(machine.cores)} cores, and no key says which these are"
            )
        cores = in_topo
    if cores & ~machine.cores:
        raise InvalidR(
            f"rank {rank} has cores {shown_ids(cores)}, but this machine only "
            f"{shown_ids(machine.cores)}"
        )
    near = _near_by_topo(topo_of_rank, dict(zip(idset.iterate(in_topo), idset.iterate(cores))))
    machine = _completed(machine, entry.gpus, near)
    links = key.links_of(topo_of_rank) if key is not None and topo_of_rank is not None else None
    if links is not None and links.nics:
        machine = attrs.evolve(machine, links=links)  # these decided where the job was placed
    system = allocated.site_cores & machine.cores & ~cores
    return Task(machine, cores, entry.gpus, index, tasks, system)


def has_instances(R: ResourceSet, rank: int) -> bool:
    """Whether the key of *R* says that the job has MIG instances on the node with this *rank*."""
    gpus = union(entry.gpus for entry in R.entries if rank >= 0 and entry.ranks >> rank & 1)
    found = _topo(R.key(), rank)
    domains = topo.walk(found) if found is not None else ()
    return any(name.startswith(MIG) and gpus & topo.ids(d)[1] for name, d in domains)


def with_bus_order(machine: Machine, bus_ids: Sequence[str]) -> Machine:
    """*machine* with its GPUs numbered as on the whole node, which has GPUs with these *bus_ids*.

    A broker inside a job may know only the GPUs near its cores, and numbers these from zero. R and
    the environment keep the numbers of the whole node. GPUs that are not in *bus_ids* are dropped.
    All GPUs of the node are assumed to have as many partitions as those of *machine*.
    """
    parts_at = {bus_id: [gpu for gpu in machine.gpus if gpu.pci == bus_id] for bus_id in bus_ids}
    most = max(map(len, parts_at.values()), default=0)
    gpus = [
        attrs.evolve(gpu, id=place * most + part)
        for place, bus_id in enumerate(bus_ids)
        for part, gpu in enumerate(parts_at[bus_id])
    ]
    return attrs.evolve(machine, gpus=tuple(gpus))


def _topo(key: Optional[SchedulingKey], rank: int) -> Optional[Mapping[str, Any]]:
    """The topo of *rank*; None if the key has none."""
    return next((e.topo for e in key.children if e.ranks >> rank & 1), None) if key else None


def _allocated(key: Optional[SchedulingKey], rank: int) -> AllocatedCores:
    """What the key says about the cores that *rank* has; empty sets if it says nothing."""
    entries = key.allocated if key is not None else ()
    return next((a for a in entries if a.ranks >> rank & 1), AllocatedCores(0, 0))


def _near_by_topo(found: Optional[Mapping[str, Any]], core_of: Mapping[int, int]) -> dict[int, int]:
    """For each GPU in topo *found*, those of the job's cores that are in its domain.

    *core_of* has the machine's ids of the job's cores by the topo's ids.
    """
    near: dict[int, int] = {}
    for _, domain in topo.walk(found) if found is not None else ():
        if "cores" not in domain or "gpus" not in domain:
            continue
        cores = idset.decode(domain["cores"])
        mine = idset.from_ids(core_of[c] for c in idset.iterate(cores) if c in core_of)
        for gpu in idset.iterate(idset.decode(domain["gpus"])):
            near[gpu] = mine  # a smaller domain comes later
    return near


def _completed(machine: Machine, gpus: int, near: Mapping[int, int]) -> Machine:
    """*machine* with the cores near *gpus* added from *near* where it does not know them."""
    known = {gpu.id: gpu for gpu in machine.gpus}
    for i in idset.iterate(gpus):
        if near.get(i) and not (i in known and known[i].cores):
            known[i] = attrs.evolve(known.get(i) or Gpu(i), cores=near[i])
    return attrs.evolve(machine, gpus=tuple(known[i] for i in sorted(known)))
