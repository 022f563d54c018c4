"""What a task is bound to: cores, the nearest GPUs, memory by numactl, and NICs for NCCL and UCX.

Flux gives a job cores and GPUs of a node, but does not divide them among the tasks. Tasks take
contiguous shares of the cores, in order, as slots do.
"""

from __future__ import annotations

from typing import Optional, Sequence

import attrs

from treepool.discovery.machine import Machine
from treepool.discovery.task import Task
from treepool.errors import InvalidHardware
from treepool.rfc import idset
from treepool.rfc.links import MAX_DISTANCE

#: How tasks get their GPUs: the GPUs nearest to the cores of each task, or in order of their ids.
GPU_ORDER = ("nearest", "order")

#: Memory policies, as in numactl.
MEMORY = ("local", "interleave", "preferred", "bind")

#: Most pairs of a task and a GPU that are compared; this many take 0.1 s.
_MAX_PAIRS = 1 << 16


@attrs.frozen
class Binding:
    """What a task is bound to: cores, PUs and NUMA nodes (bitmasks), and GPUs in the task's order.

    PUs and NUMA nodes have the operating system's numbers.
    """

    cores: int
    pus: int
    numa: int
    gpus: tuple[int, ...]


def bind(
    task: Task,
    affinity: int = 0,
    visible: Optional[Sequence[int]] = None,
    gpu_order: str = "nearest",
    allowed: int = 0,
) -> Binding:
    """The binding for *task*.

    *allowed* has all PUs that the operating system lets this job use, 0 if not known. Cores that it
    keeps for itself are left out before the rest is divided among the tasks.

    *affinity* has the PUs that the task may use now, and *visible* the GPUs that it sees now. If
    these are only a part of the job's, they stay as they are: something else, such as the job shell
    with ``cpu-affinity=per-task``, has already divided the job's resources. *gpu_order* is one of
    GPU_ORDER.
    """
    job_pus = pus_of(task.machine, task.cores)
    job_pus = job_pus & allowed or job_pus
    task = attrs.evolve(task, cores=cores_of(task.machine, job_pus))
    pus = affinity & job_pus
    if not pus or pus == job_pus:
        pus = pus_of(task.machine, idset.shares(task.cores, task.tasks)[task.index]) & job_pus
    cores = cores_of(task.machine, pus)
    given = idset.from_ids(visible) & task.gpus if visible is not None else 0
    if given and given != task.gpus:
        gpus = given
    elif gpu_order == "nearest":
        gpus = _nearest_share(task)
    else:
        gpus = idset.shares(task.gpus, task.tasks)[task.index]
    ordered = list(idset.iterate(gpus))
    if gpu_order == "nearest":
        ordered.sort(key=lambda gpu: (distance(task.machine, cores, gpu), gpu))
    return Binding(cores, pus, numa_of(task.machine, cores), tuple(ordered))


def _nearest_share(task: Task) -> int:
    """The GPUs of the task if each task gets the GPUs nearest to its cores.

    Each task gets as many GPUs as it would in order. Every task of the node computes the same
    division, the nearest pair of a task and a GPU first, so together they use each GPU. The
    division uses the shares of cores in order and ignores affinity, because a task does not know
    the affinity of the others.
    """
    gpus = list(idset.iterate(task.gpus))
    if task.tasks == 1 or not 1 < len(gpus) <= _MAX_PAIRS // task.tasks:
        return idset.shares(task.gpus, task.tasks)[task.index]
    in_order = idset.shares(task.gpus, task.tasks)
    wanted = [idset.size(part) for part in in_order]
    # If tasks share GPUs, each GPU serves as many tasks as it would in order.
    serves = {gpu: sum(part >> gpu & 1 for part in in_order) for gpu in gpus}
    # Tasks that share cores are equally far from a GPU.
    parts = idset.shares(task.cores, task.tasks)
    far = {part: {gpu: distance(task.machine, part, gpu) for gpu in gpus} for part in set(parts)}
    pairs = ((far[part][gpu], i, gpu) for i, part in enumerate(parts) for gpu in gpus)
    found = 0
    for _, i, gpu in sorted(pairs):
        if wanted[i] and serves[gpu]:
            wanted[i] -= 1
            serves[gpu] -= 1
            found |= 1 << gpu if i == task.index else 0
    return found


def distance(machine: Machine, cores: int, gpu: int) -> tuple[int, int]:
    """How far a GPU is from *cores*: a smaller value is nearer.

    From nearest to farthest: the GPU is near some of the cores (the more of them, the nearer), in a
    socket with some of them, in an unknown location, or elsewhere.
    """
    near = near_cores(machine, gpu)
    if near & cores:
        return 0, -idset.size(near & cores)
    if not near:
        return 2, 0
    return (1 if sockets_of(machine, near) & sockets_of(machine, cores) else 3), 0


def near_cores(machine: Machine, gpu: int) -> int:
    """The cores near a GPU, 0 if they are not known."""
    return next((g.cores for g in machine.gpus if g.id == gpu), 0)


def sockets_of(machine: Machine, cores: int) -> int:
    """The sockets that have some of *cores*, by their index in the machine (bitmask)."""
    sockets = [r.cores for r in machine.regions if r.kind == "socket"]
    return idset.from_ids(i for i, socket in enumerate(sockets) if socket & cores)


def numa_of(machine: Machine, cores: int) -> int:
    """The NUMA nodes that have some of *cores*, by the operating system's numbers (bitmask)."""
    return idset.from_ids(n for n, here in machine.numa_nodes.items() if here & cores)


def pus_of(machine: Machine, cores: int) -> int:
    """The PUs of *cores*, by the operating system's numbers (bitmask)."""
    return idset.from_ids(pu for core in idset.iterate(cores) for pu in machine.pus.get(core, ()))


def cores_of(machine: Machine, pus: int) -> int:
    """The cores that have some of *pus* (bitmasks)."""
    return idset.from_ids(
        core for core, here in machine.pus.items() if any(pus >> pu & 1 for pu in here)
    )


#: The variables that tell communication libraries which NICs to use, and the libraries.
NIC_VARIABLES = {"NCCL_IB_HCA": "NCCL and RCCL", "UCX_NET_DEVICES": "UCX"}


def nic_settings(machine: Machine, gpus: Sequence[int], names: Sequence[str]) -> dict[str, str]:
    """The variables *names*, some of NIC_VARIABLES, for a task with these *gpus*.

    They list the NICs nearest to the GPUs, beginning with those of the first GPU. Raises
    InvalidHardware if no NIC is known.
    """
    links = machine.links
    nics = list(dict.fromkeys(n for gpu in gpus for n in (links.nics_of(gpu) if links else ())))
    rdma = [nic for nic in nics if nic in machine.rdma_ports]
    # NCCL only knows RDMA ports. Without "=" it would take all names that begin like one of these.
    # UCX needs the number of the port. Most devices have one port, number 1.
    values = {
        "NCCL_IB_HCA": "=" + ",".join(rdma) if rdma else "",
        "UCX_NET_DEVICES": ",".join(f"{nic}:1" if nic in rdma else nic for nic in nics),
    }
    for name in names:
        if not values[name]:
            kind = "RDMA port" if nics else "NIC"
            raise InvalidHardware(f"{name}: no {kind} is known to be near the task's GPUs")
    return {name: values[name] for name in names}


def numactl_option(machine: Machine, binding: Binding, policy: str) -> str:
    """numactl's option for *policy*, one of MEMORY, with the NUMA nodes of the binding.

    Linux refuses NUMA nodes without memory, so they are left out; if none of the binding has any,
    the nearest that have it are named. ``preferred`` names a single NUMA node: the one nearest to
    all cores if distances are known, otherwise the one with the most cores. Raises InvalidHardware
    if the NUMA nodes of the machine are not known.
    """
    if policy == "local":
        return "--localalloc"
    if not binding.numa:
        raise InvalidHardware(f"memory policy {policy}: the NUMA nodes of this node are not known")
    nodes = _with_memory(machine, binding)
    if policy == "preferred":
        share = {
            node: idset.size(machine.numa_nodes[node] & binding.cores)
            for node in idset.iterate(binding.numa)
        }

        def far(node: int) -> int:
            """The sum of the cores' distances from *node*."""
            return sum(
                number * machine.distances.get((other, node), MAX_DISTANCE * (other != node))
                for other, number in share.items()
            )

        return f"--preferred={min(nodes, key=lambda node: (far(node), node))}"
    word = {"interleave": "--interleave", "bind": "--membind"}[policy]
    return f"{word}={idset.encode(idset.from_ids(nodes))}"


def _with_memory(machine: Machine, binding: Binding) -> list[int]:
    """The NUMA nodes of the binding that have memory; if none has, the nearest ones that have.

    If distances are not known, those of the same socket are the nearest. If no size is known, all
    NUMA nodes of the binding count.
    """
    have = {region.cores for region in machine.regions if region.kind == "numa" and region.memory}
    usable = {node for node, cores in machine.numa_nodes.items() if cores in have}
    own = list(idset.iterate(binding.numa))
    if own_usable := [node for node in own if node in usable]:
        return own_usable
    sockets = sockets_of(machine, binding.cores)

    def far(node: int) -> tuple[int, bool]:
        nearest = min(machine.distances.get((here, node), MAX_DISTANCE) for here in own)
        return nearest, not sockets & sockets_of(machine, machine.numa_nodes[node])

    place = {node: far(node) for node in sorted(usable)}
    least = min(place.values(), default=None)
    return [node for node, at in place.items() if at == least] or own
