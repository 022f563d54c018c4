"""A task of a job: which cores and GPUs of its node R means, also if Flux counts them from zero.

In a sub-instance, Flux counts the cores of each node from zero, and its GPUs, too, if it is kept
from all others (attribute ``constrained-resources``). If the broker is bound to cores, its hwloc
XML is restricted to these cores, and lacks the GPUs near other cores. Otherwise the XML describes
the whole node.
"""

from __future__ import annotations

from typing import Mapping, Optional, Sequence

import attrs

from treepool.discovery.machine import MIG, Gpu, Machine
from treepool.errors import InvalidHardware, InvalidInput, InvalidR
from treepool.rfc import idset
from treepool.rfc.findings import shown_ids
from treepool.rfc.idset import union
from treepool.rfc.rset import ResourceSet
from treepool.rfc.scheduling import SOME, AllocatedIds, KeyEntry, SchedulingKey

#: Most tasks of a job on a node, and most GPUs of a node.
MAX_TASKS = 1 << 12
MAX_GPUS = 1 << 10


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

    For a job of a sub-instance, *instance_cores* is how many cores of the node that instance has.
    If the machine has as many, its cores have the same ids as in R. If not, only treepool's key
    says which cores R refers to (``allocated``). The key also says which GPUs these are if R counts
    them from zero, and which cores the GPUs are near if the machine does not.

    *contained* says whether the job is kept from GPUs that it does not have: its programs then
    number those that it has from zero (flux-core PR 7806).

    Raises InvalidR if R has no such rank, or has cores that the machine does not have; InvalidKey
    for a malformed key; InvalidHardware if nothing says which cores R refers to.
    """
    entry = next((e for e in R.entries if rank >= 0 and e.ranks >> rank & 1), None)
    if entry is None:
        raise InvalidR(f"R has ranks {shown_ids(R.mask)}, not {rank}")
    if not 0 <= index < tasks <= MAX_TASKS:
        raise InvalidInput(f"there is no local task {index} of {tasks} (at most {MAX_TASKS})")
    if entry.gpus.bit_length() > MAX_GPUS:
        raise InvalidR(f"rank {rank} has GPUs {shown_ids(entry.gpus)}, more than any node")
    key = R.key()
    described, told = _described(key, rank), _allocated(key, rank)
    allocated = told or SOME
    gpu_in_topo = _gpus_in_topo(entry.gpus, allocated)
    renumbered = any(gpu != one for gpu, one in gpu_in_topo.items())
    cores, in_topo = entry.cores, allocated.cores
    if idset.size(in_topo) != idset.size(cores):
        in_topo = cores
    if instance_cores is None or idset.size(machine.cores) != instance_cores:
        # The key has no ``allocated`` if the cores are the first cores of the node.
        first = key is not None and told != SOME and cores & (cores + 1) == 0
        proven = in_topo != cores or first
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
    near = _near_by_topo(described, dict(zip(idset.iterate(in_topo), idset.iterate(cores))))
    links = key.links_of(described.topo) if key is not None and described is not None else None
    if renumbered:
        machine = _with_ids_of_R(machine, gpu_in_topo)
        near = {gpu: near[one] for gpu, one in gpu_in_topo.items() if one in near}
        order = [gpu_in_topo.get(gpu, -1) for gpu in range(entry.gpus.bit_length())]
        links = links.renumbered(order) if links is not None else None
    machine = _completed(machine, entry.gpus, near)
    if links is not None and links.nics:
        machine = attrs.evolve(machine, links=links)  # these decided where the job was placed
    system = allocated.site_cores & machine.cores & ~cores
    known = idset.from_ids(gpu.id for gpu in machine.gpus)
    node_gpus = 0 if renumbered or entry.gpus & ~known else known
    kept = tuple(idset.iterate(entry.gpus)) if contained else None
    return Task(machine, cores, entry.gpus, index, tasks, system, node_gpus, kept)


def has_instances(R: ResourceSet, rank: int) -> bool:
    """Whether the key of *R* says that the job has MIG instances on the node with this *rank*."""
    mine = union(entry.gpus for entry in R.entries if rank >= 0 and entry.ranks >> rank & 1)
    key = R.key()
    gpus = idset.from_ids(_gpus_in_topo(mine, _allocated(key, rank) or SOME).values())
    there = _described(key, rank)
    domains = there.tree.walk() if there is not None else ()
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
    told = _allocated(R.key(), rank)
    return told is not None and told.gpus != 0


def _described(key: Optional[SchedulingKey], rank: int) -> Optional[KeyEntry]:
    """The entry of *rank*; None if the key has none."""
    return next((e for e in key.children if e.ranks >> rank & 1), None) if key else None


def _allocated(key: Optional[SchedulingKey], rank: int) -> Optional[AllocatedIds]:
    """What the key says about the ids that *rank* has; None if it says nothing."""
    entries = key.children if key is not None else ()
    return next((e.allocated for e in entries if e.ranks >> rank & 1), None)


def _gpus_in_topo(gpus: int, allocated: AllocatedIds) -> dict[int, int]:
    """The topo's id of each of the *gpus* of R."""
    same = idset.size(allocated.gpus) != idset.size(gpus)
    return dict(zip(idset.iterate(gpus), idset.iterate(gpus if same else allocated.gpus)))


def _with_ids_of_R(machine: Machine, old: Mapping[int, int]) -> Machine:
    """*machine* with those of its GPUs that are in *old*, which has their ids there by new ids."""
    known = {gpu.id: gpu for gpu in machine.gpus}
    gpus = (attrs.evolve(known[was], id=new) for new, was in sorted(old.items()) if was in known)
    return attrs.evolve(machine, gpus=tuple(gpus))


def _near_by_topo(there: Optional[KeyEntry], core_of: Mapping[int, int]) -> dict[int, int]:
    """For each GPU in the topo of *there*, those of the job's cores that are in its domain.

    *core_of* has the machine's ids of the job's cores by the topo's ids.
    """
    near: dict[int, int] = {}
    for domain in there.tree.walk() if there is not None else ():
        if not domain.cores:
            continue
        mine = idset.from_ids(core_of[c] for c in idset.iterate(domain.cores) if c in core_of)
        for gpu in idset.iterate(domain.gpus):
            near[gpu] = mine  # a smaller domain comes later
    return near


def _completed(machine: Machine, gpus: int, near: Mapping[int, int]) -> Machine:
    """*machine* with the cores near *gpus* added from *near* where it does not know them."""
    known = {gpu.id: gpu for gpu in machine.gpus}
    for i in idset.iterate(gpus):
        if near.get(i) and not (i in known and known[i].cores):
            known[i] = attrs.evolve(known.get(i) or Gpu(i), cores=near[i])
    return attrs.evolve(machine, gpus=tuple(known[i] for i in sorted(known)))
