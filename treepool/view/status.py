"""What ``treepool status`` says of each GPU, job and user, and in which order.

This module computes the contents of each line. The caller that prints the lines lays them out.
"""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Optional, Sequence

import attrs

from treepool.placement.choose.fitness import memory_domains
from treepool.placement.held import ranks_in
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.kept import kept_cores
from treepool.placement.nodes.parts import on_hosts, short_form
from treepool.placement.nodes.state import Held
from treepool.placement.nodes.tree import Domain, NodeType, around
from treepool.placement.pool import Pool
from treepool.rfc import hostlist, idset
from treepool.view import nodewords, words
from treepool.view.model import DOWN, DRAINED, Job
from treepool.view.picture import Picture


@attrs.frozen
class Running:
    """A job of the instance: what it holds, its owner, its name and its state in Flux's words.

    ``since`` is when it started or, if it waits, was submitted, in seconds since the epoch.
    ``due`` is when it ends at the latest or, if it waits, starts, 0 if that is not known. ``note``
    is why it waits. ``fitness`` is from 0 to 1, None if it is not known. ``id`` is Flux's.
    """

    job: Job
    user: str
    title: str
    state: str
    since: float
    note: str = ""
    fitness: Optional[float] = None
    id: int = 0
    due: float = 0.0


@attrs.frozen
class GpuLine:
    """One GPU: ``memory`` is in GiB, 0 if not known; ``job`` and ``user`` are "" if it is free.

    ``domain`` is the smallest domain that has it, such as "numa 3"; "" if it is the node itself.
    """

    host: str
    rank: int
    gpu: int
    model: str
    memory: int
    state: str
    job: str
    user: str
    domain: str


@attrs.frozen
class JobLine:
    """One job: ``placement`` in Flux's short form, ``summary`` the same by hosts, for people.

    ``hosts`` is a hostlist, ``domains`` are the domains that it has on a node.
    ``fitness`` is from 0 to 1, None for a job that holds nothing, or of which it is not known.
    """

    job: str
    user: str
    name: str
    state: str
    since: float
    nodes: int
    cores: int
    gpus: int
    placement: str
    hosts: str
    summary: str
    domains: str
    fitness: Optional[float]
    note: str


def gpu_lines(picture: Picture, jobs: Sequence[Running]) -> Iterator[GpuLine]:
    """A line for each GPU, by rank and id."""
    cluster = picture.cluster
    users = {running.job.name: running.user for running in jobs}
    holders: dict[tuple[int, int], Job] = {}
    for job in picture.jobs:  # one of them may stand for what no job of *jobs* has
        for ranks, _, gpus in job.parts:
            for gpu in idset.iterate(gpus):
                holders.update(((rank, gpu), job) for rank in idset.iterate(ranks))
    models = [_models(cluster.links[i], node_type) for i, node_type in enumerate(cluster.types)]
    places = [_places(node_type) for node_type in cluster.types]
    for rank in cluster.ranks:
        kind = cluster.type_of[rank]
        node_type = cluster.types[kind]
        status = cluster.status[rank]
        for gpu in idset.iterate(node_type.root.gpus):
            model, memory = models[kind].get(gpu, ("", 0))
            holder = holders.get((rank, gpu))
            free = status if status in (DOWN, DRAINED) else "free"
            yield GpuLine(
                words.plain(cluster.hosts[rank]),
                rank,
                gpu,
                words.plain(model),
                memory,
                "used" if holder else free,
                holder.name if holder else "",
                words.plain(users.get(holder.name, "")) if holder else "",
                places[kind][gpu],
            )


def _places(node_type: NodeType) -> dict[int, str]:
    """The smallest domain that has each GPU, "" if it is the node."""
    found = {}
    for gpu in idset.iterate(node_type.root.gpus):
        inside = around(node_type.root, 0, 1 << gpu)
        found[gpu] = "" if inside is node_type.root else nodewords.title(node_type, inside)
    return found


def _models(links: Any, node_type: NodeType) -> dict[int, tuple[str, int]]:
    """The model and memory (GiB) of each GPU, where the key has them."""
    found = {}
    for device in links.devices if links else ():
        for gpu in idset.iterate(device.gpus & node_type.root.gpus):
            found[gpu] = device.model, device.memory
    return found


def job_lines(inventory: Inventory, jobs: Sequence[Running]) -> Iterator[JobLine]:
    """A line for each job of the nodes of *inventory*, in the given order."""
    for running in jobs:
        job = running.job
        yield JobLine(
            job.name,
            words.plain(running.user),
            words.plain(running.title),
            running.state,
            running.since,
            len(job.ranks),
            job.ncores,
            job.ngpus,
            short_form(job.parts),
            hosts_of(inventory, job.parts),
            on_hosts(job.parts, inventory),
            domains_of(inventory.types, job.parts),
            running.fitness if job.parts else None,
            words.plain(running.note, words.MAX_LIST),
        )


def hosts_of(inventory: Inventory, parts: Iterable[Held]) -> str:
    """The hosts of *parts*, as a hostlist."""
    return hostlist.encode(dict.fromkeys(filter(None, inventory.hosts_of(ranks_in(parts)))))


def domains_of(types: Sequence[Any], parts: Iterable[Held]) -> str:
    """The memory domains that a job uses on the nodes of *parts*; *types* is by rank."""
    return "; ".join(sorted({_domains(types, part) for part in parts} - {""}))


def _domains(types: Sequence[Any], part: Held) -> str:
    """The memory domains that a job uses on the first node of *part*."""
    ranks, cores, gpus = part
    first = idset.lowest(ranks)
    node_type = types[first] if first < len(types) else None
    if node_type is None:
        return ""
    found: Sequence[Domain] = [
        d for d in memory_domains(node_type) if d.cores & cores or d.gpus & gpus
    ]
    if found == [node_type.root] or not found:
        return ""
    domains = memory_domains(node_type)
    return f"{found[0].name} {idset.encode_ids([domains.index(d) for d in found])}"


def cores_kept(pool: Pool) -> int:
    """The free cores of nodes that are up that are kept for jobs with GPUs."""
    return sum(
        idset.size(state.cores & kept_cores(state.type, pool.gpu_cores)) * idset.size(ranks)
        for state, ranks in pool.situation.index.buckets.items()
        if pool.gpu_cores
    )
