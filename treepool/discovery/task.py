"""A task of a job: which cores and GPUs of its node R means, also if Flux counts them from zero.

In a sub-instance, Flux counts the cores of each node from zero, and its GPUs, too, if it is kept
from all others (attribute ``constrained-resources``). If the broker is bound to cores, its hwloc
XML is restricted to these cores, and lacks the GPUs near other cores. Otherwise the XML describes
the whole node.
"""

from __future__ import annotations

from typing import Iterable, Mapping, Optional, Sequence, TypeVar

import attrs

from treepool.discovery.machine import MIG, Gpu, Machine
from treepool.errors import InvalidHardware, InvalidInput, InvalidR
from treepool.rfc import idset
from treepool.rfc.findings import shown_ids
from treepool.rfc.rset import ResourceSet, RLiteEntry
from treepool.rfc.scheduling import SOME, AllocatedIds, KeyEntry, SchedulingKey

#: Most tasks of a job on a node, and most GPUs of a node.
MAX_TASKS = 1 << 12
MAX_GPUS = 1 << 10

_Entry = TypeVar("_Entry", KeyEntry, RLiteEntry)


@attrs.frozen
class Task:
    """A task of a job on one node: what the job has of the *machine*, and which task it is.

    ``cores`` has ids of the machine's cores, and ``gpus`` ids of GPUs in R (bitmasks), which the
    machine's GPUs have, too. ``index`` is the task's number, from 0, among the ``tasks`` that the
    job has on the node. ``system`` has the cores that R says the site keeps for the operating
    system. ``node_gpus`` are all GPUs of the node (bitmask), 0 if they are not all known.
    ``contained`` are the GPUs that programs number 0, 1, 2, ..., if the job is kept from all
    others; None if they number the GPUs of the node by their ids.
    """

    machine: Machine
    cores: int
    gpus: int = 0
    index: int = 0
    tasks: int = 1
    system: int = 0
    node_gpus: int = 0
    contained: Optional[tuple[int, ...]] = None


def task_of(
    R: ResourceSet,
    rank: int,
    machine: Machine,
    index: int = 0,
    tasks: int = 1,
    instance_cores: Optional[int] = None,
    contained: bool = False,
) -> Task:
    """The task of the job of *R* on the node with this *rank* and *machine*.

    An id has up to three forms: in R, in the topo of the key, and on the *machine*.

    ==================  ============================================================================
    R to topo           the n-th id of R is the n-th that ``allocated`` of the key has, or the same
                        id if there are not as many
    R to machine        a core has the same id if the machine has just the cores of a sub-instance,
                        as many as *instance_cores*; otherwise the id of the topo
    topo to machine     a GPU has the same id; the task's machine gets the ids of R
    ==================  ============================================================================

    If the machine does not know the cores near a GPU, they are those of the key. If the key has
    NICs, its links count. *contained* says whether the job is kept from GPUs that it does not have:
    its programs then number those that it has from zero (flux-core PR 7806).

    Raises InvalidR if R has no such rank, or has cores that the machine does not have; InvalidKey
    for a malformed key; InvalidHardware if nothing says which cores R refers to.
    """
    entry = _of(R.entries, rank)
    if entry is None:
        raise InvalidR(f"R has ranks {shown_ids(R.mask)}, not {rank}")
    if not 0 <= index < tasks <= MAX_TASKS:
        raise InvalidInput(f"there is no local task {index} of {tasks} (at most {MAX_TASKS})")
    if entry.gpus.bit_length() > MAX_GPUS:
        raise InvalidR(f"rank {rank} has GPUs {shown_ids(entry.gpus)}, more than any node")
    key = R.key()
    described, told = _described(key, rank)
    topo_cores = _in_topo(entry.cores, told.cores)
    of_instance = idset.size(machine.cores) == instance_cores
    if instance_cores is not None and not of_instance and topo_cores == entry.cores:
        # Where the key has no ``allocated``, the cores are the first of the node.
        some = described is not None and described.allocated == SOME
        if key is None or some or entry.cores & (entry.cores + 1):
            raise InvalidHardware(
                f"cores {shown_ids(entry.cores)} are counted among {instance_cores} of the node's "
                f"{idset.size(machine.cores)} cores, and no key says which these are"
            )
    cores = entry.cores if of_instance else topo_cores
    if cores & ~machine.cores:
        raise InvalidR(
            f"rank {rank} has cores {shown_ids(cores)}, but this machine only "
            f"{shown_ids(machine.cores)}"
        )
    topo_gpus = _in_topo(entry.gpus, told.gpus)
    gpu_of = dict(zip(idset.iterate(topo_gpus), idset.iterate(entry.gpus)))
    near = _near_gpus(described, gpu_of, topo_cores, cores)
    links = key.links_of(described.topo) if key is not None and described is not None else None
    if topo_gpus != entry.gpus:
        machine = _with_ids_of_R(machine, gpu_of)
        if links is not None:
            there = {new: old for old, new in gpu_of.items()}
            links = links.renumbered([there.get(i, -1) for i in range(entry.gpus.bit_length())])
    machine = _completed(machine, near)
    if links is not None and links.nics:
        machine = attrs.evolve(machine, links=links)  # these decided where the job was placed
    known = machine.gpu_ids
    return Task(
        machine,
        cores,
        entry.gpus,
        index,
        tasks,
        system=told.site_cores & machine.cores & ~cores,
        node_gpus=0 if topo_gpus != entry.gpus or entry.gpus & ~known else known,
        contained=tuple(idset.iterate(entry.gpus)) if contained else None,
    )


def has_instances(R: ResourceSet, rank: int) -> bool:
    """Whether the key of *R* says that the job has MIG instances on the node with this *rank*."""
    entry = _of(R.entries, rank)
    described, told = _described(R.key(), rank)
    gpus = _in_topo(entry.gpus, told.gpus) if entry is not None else 0
    domains = described.tree.walk() if described is not None else ()
    return any(one.locality.startswith(MIG) and gpus & one.gpus for one in domains)


def with_ids_of_node(machine: Machine, bus_ids: Sequence[str], by_bus: bool = False) -> Machine:
    """*machine* with its GPUs numbered as on the whole node.

    A broker inside a job may know only the GPUs near its cores, and numbers these from zero. R and
    the environment keep the numbers of the whole node, which are those of the vendor's own tools.
    If these are not known, or *by_bus*, the order is that of *bus_ids*, those of all GPUs of the
    node; others are then dropped, and all are assumed to have as many partitions.
    """
    own = {gpu.number: gpu for gpu in machine.gpus}
    vendors = {gpu.vendor for gpu in machine.gpus}
    if not by_bus and -1 not in own and len(own) == len(machine.gpus) and len(vendors) == 1:
        gpus = [attrs.evolve(gpu, id=number) for number, gpu in sorted(own.items())]
        return attrs.evolve(machine, gpus=tuple(gpus))
    parts_at = {bus_id: [gpu for gpu in machine.gpus if gpu.pci == bus_id] for bus_id in bus_ids}
    most = max(map(len, parts_at.values()), default=0)
    gpus = [
        attrs.evolve(gpu, id=place * most + part)
        for place, bus_id in enumerate(bus_ids)
        for part, gpu in enumerate(parts_at[bus_id])
    ]
    return attrs.evolve(machine, gpus=tuple(gpus))


def has_renumbered_gpus(R: ResourceSet, rank: int) -> bool:
    """Whether *R* counts the GPUs of *rank* from zero, and its key has their ids on the node.

    The vendors' tools may then count from zero, too.
    """
    return _described(R.key(), rank)[1].gpus != 0


def _of(entries: Iterable[_Entry], rank: int) -> Optional[_Entry]:
    """The one of *entries* that has *rank*."""
    return next((entry for entry in entries if rank >= 0 and entry.ranks >> rank & 1), None)


def _described(key: Optional[SchedulingKey], rank: int) -> tuple[Optional[KeyEntry], AllocatedIds]:
    """The entry of *rank* in the key, if it has one, and which ids of its topo the rank has."""
    entry = _of(key.children, rank) if key is not None else None
    return entry, (entry.allocated if entry is not None else None) or SOME


def _in_topo(ids: int, allocated: int) -> int:
    """The topo's ids of *ids* of R, in the same order: those *allocated*, if they are as many."""
    return allocated if idset.size(allocated) == idset.size(ids) else ids


def _with_ids_of_R(machine: Machine, new: Mapping[int, int]) -> Machine:
    """*machine* with those of its GPUs that have a *new* id, in the order of these ids."""
    gpus = (attrs.evolve(gpu, id=new[gpu.id]) for gpu in machine.gpus if gpu.id in new)
    return attrs.evolve(machine, gpus=tuple(sorted(gpus, key=lambda gpu: gpu.id)))


def _near_gpus(
    described: Optional[KeyEntry], gpu_of: Mapping[int, int], topo_cores: int, cores: int
) -> dict[int, int]:
    """The job's cores in the smallest domain of the topo around each of its GPUs, by ids of R.

    *gpu_of* has the ids of R by those of the topo; *topo_cores* are *cores* of the machine.
    """
    near: dict[int, int] = {}
    to_machine = idset.by_position(topo_cores, cores)
    for domain in described.tree.walk() if described is not None else ():
        if domain.cores:
            gpus = (new for gpu, new in gpu_of.items() if domain.gpus >> gpu & 1)
            # A smaller domain comes later.
            near.update(dict.fromkeys(gpus, to_machine(domain.cores & topo_cores)))
    return near


def _completed(machine: Machine, near: Mapping[int, int]) -> Machine:
    """*machine* with the cores *near* GPUs added where it does not know them."""
    known = {gpu.id: gpu for gpu in machine.gpus}
    for i, cores in near.items():
        gpu = known.get(i) or Gpu(i)
        if cores and not gpu.cores:
            known[i] = attrs.evolve(gpu, cores=cores)
    return attrs.evolve(machine, gpus=tuple(known[i] for i in sorted(known)))
