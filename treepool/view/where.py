"""Where a job is: the addresses and the order of its nodes in the fabric, the domain of each task.

The *topology order* of nodes is that of a walk through the fabric: nodes of one switch are next to
each other, then those of the next switch of the same rack. Domains and nodes that are equal in that
are in the order of their ranks.
"""

from __future__ import annotations

from collections import Counter
from typing import Iterator, Sequence

import attrs

from treepool.placement.nodes.fabric_tree import Fabric
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.tree import NODE, NodeType, around
from treepool.rfc import idset, taskmap
from treepool.rfc.rset import ResourceSet
from treepool.rfc.taskmap import Taskmap
from treepool.view.nodewords import title


@attrs.frozen
class Task:
    """A task, by its number in the job: its share of the job's cores of the node, and the smallest
    domain that has them."""

    task: int
    cores: int
    domain: str


@attrs.frozen
class Place:
    """A node of a job: its ``number`` among them by rank, and its ``position`` in topology order.

    ``path`` has the locality and the name of each domain around the node, the largest first.
    """

    rank: int
    number: int
    position: int
    host: str
    path: tuple[tuple[str, str], ...]
    cores: int
    gpus: int
    tasks: tuple[Task, ...] = ()

    @property
    def address(self) -> str:
        """The names of the domains and the host, such as ``x1000.x1000c0r1.n3``."""
        return ".".join([*(name.replace(".", "_") for _, name in self.path), self.host])

    @property
    def pattern(self) -> str:
        """What the names in the address are, such as ``cell.switch.node``."""
        return ".".join([*(locality for locality, _ in self.path), NODE])


def places(R: ResourceSet, tasks: Taskmap = (), members: int = idset.EVERY) -> list[Place]:
    """The nodes of *R* that are *members* (bitmask of ranks), in topology order.

    They are those of a job, with this task map, or of an instance.

    The tasks of a node get its cores in contiguous shares, in order, as ``bind`` deals them. Raises
    InvalidKey for a key that does not fit R.
    """
    inventory = Inventory.of(R)
    ranks = list(idset.iterate(inventory.ranks & members))
    number = {rank: i for i, rank in enumerate(ranks)}
    mine: list[list[int]] = [[] for _ in ranks]
    for node, some in taskmap.tasks_of(tasks):
        if node < len(mine):
            mine[node].extend(some)
    fabric, leaf = inventory.fabric, dict.fromkeys(ranks, 0)
    if fabric is not None:  # its domains are numbered in the order of a walk
        leaf = {rank: fabric.homes[rank][0] for rank in ranks}
        names = _names(fabric)
    found = []
    for position, rank in enumerate(sorted(ranks, key=lambda rank: (leaf[rank], rank))):
        node_type = inventory.types[rank]
        assert node_type is not None
        path = [names[d] for d in fabric.around(leaf[rank])[::-1]] if fabric is not None else []
        found.append(
            Place(
                rank,
                number[rank],
                position,
                inventory.hosts[rank] or f"rank{rank}",
                tuple(pair for pair in path if pair[0]),
                node_type.root.cores,
                node_type.root.gpus,
                tuple(_tasks(node_type, mine[number[rank]])),
            )
        )
    return found


def _names(fabric: Fabric) -> list[tuple[str, str]]:
    """The locality and the name of each domain; those without a name are numbered: ``switch3``."""
    met: Counter[str] = Counter()
    found = []
    for locality, name in zip(fabric.locality, fabric.name):
        found.append((locality, name or f"{locality}{met[locality]}"))
        met[locality] += 1
    return found


def _tasks(node_type: NodeType, numbers: Sequence[int]) -> Iterator[Task]:
    root = node_type.root
    for number, cores in zip(numbers, idset.shares(root.cores, max(len(numbers), 1))):
        yield Task(number, cores, title(node_type, around(root, cores, 0)))
