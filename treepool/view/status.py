"""What ``treepool status`` says of each GPU and job of a pool, and in which order.

This module computes the contents of each line. The caller that prints the lines lays them out.
"""

from __future__ import annotations

from typing import Any, Iterator, Sequence

import attrs

from treepool.placement.held import domains_of
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.parts import on_hosts, ranks_in
from treepool.placement.nodes.tree import NodeType, around
from treepool.rfc import idset
from treepool.view import nodewords, words
from treepool.view.jobs import Job, JobLine, Running
from treepool.view.picture import Picture
from treepool.view.totals import DOWN, DRAINED


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
        parts = running.job.parts
        placed = inventory.hostlist(ranks_in(parts)), on_hosts(parts, inventory)
        yield JobLine.of(running, *placed, domains_of(inventory.types, parts))
