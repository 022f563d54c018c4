"""What pictures show: nodes and what jobs hold there.

Like the pool itself, a picture identifies a node by how it looks: nodes of one type and status on
which the same jobs hold the same ids share one Look. Everything is computed per Look instead of
per node, so a picture of 100,000 nodes costs little more than one of a hundred.

A model is made from a Pool and from what its jobs hold, and uses only their public names. It
therefore does not matter whether a command or a live instance made them.
"""

from __future__ import annotations

from itertools import islice
from typing import Mapping, Optional

import attrs

from treepool.placement.nodes.fabric_tree import Fabric
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.tree import NodeType
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.links import Links
from treepool.view.totals import (
    DOWN,
    DRAINED,
    FULL,
    IDLE,
    MAX_DRAINS,
    PARTLY,
    UP,
    Drained,
    Totals,
    by_reason,
)

#: Name of the job that stands for everything allocated in the pool that no given job holds.
OTHER = "other"

#: A job's place in the model's jobs, and its cores and GPUs on one node (bitmasks).
Holding = tuple[int, int, int]


@attrs.frozen(eq=False)
class Layout:
    """How a node looks, whichever jobs are on it: what each holder has (cores, GPUs).

    ``touching`` has, for each holder, the earlier ones whose ids are next to its own, and ``greys``
    the colour that it has where it stands for several jobs.
    """

    number: int
    type: int
    status: str
    held: tuple[tuple[int, int], ...]
    totals: Totals
    touching: tuple[tuple[int, ...], ...]
    greys: tuple[int, ...]

    @property
    def state(self) -> str:
        """The node's state in words, one of STATES."""
        if self.status != UP:
            return self.status
        return IDLE if self.totals.idle else FULL if self.totals.full else PARTLY


@attrs.frozen(eq=False)
class Look:
    """How a node looks: its layout, and the place in the model's jobs of each holder in it."""

    number: int
    layout: Layout
    jobs: tuple[int, ...]


def drained_in(reasons: Mapping[str, str], pool: Pool) -> tuple[Drained, ...]:
    """The nodes of *pool* that are drained, by *reasons* for idsets of ranks: the first reasons."""
    hosts = pool.inventory.hosts
    here = ((mask & pool.ranks, reason) for mask, reason in by_reason(reasons))
    each = ((tuple(idset.iterate(mask)), reason) for mask, reason in here if mask)
    found = (Drained(ranks, tuple(hosts[r] for r in ranks), reason) for ranks, reason in each)
    return tuple(islice(found, MAX_DRAINS))


@attrs.frozen(eq=False)
class Cluster:
    """The nodes of a pool, which no job changes.

    ``types`` are the kinds of node, the most frequent first. ``type_of`` has, by rank, the place in
    ``types``, -1 for a rank that is not in the pool; ``status`` and ``hosts`` are by rank, too.
    ``links`` has the link table of each type's GPUs, if known. ``properties`` has the number of
    nodes with each property. ``fabric`` is the tree above the nodes, if there is one.
    """

    types: tuple[NodeType, ...]
    ranks_of_type: tuple[tuple[int, ...], ...]
    type_of: tuple[int, ...]
    status: tuple[str, ...]
    hosts: tuple[str, ...]
    links: tuple[Optional[Links], ...]
    properties: tuple[tuple[str, int], ...]
    fabric: Optional[Fabric]

    @classmethod
    def of(cls, pool: Pool, drained: int = 0) -> Cluster:
        """The nodes of *pool*; the ranks in bitmask *drained* count as drained.

        They count as drained even if they are up, because Flux may tell the pool a moment later.
        """
        inventory = pool.inventory
        known = sorted(inventory.node_types.items(), key=lambda item: -idset.size(item[1]))
        place = {node_type: i for i, (node_type, _) in enumerate(known)}
        status = [UP] * len(inventory.types)
        for rank in idset.iterate(pool.copy_down().mask):
            status[rank] = DOWN
        for rank in idset.iterate(drained & inventory.ranks):
            status[rank] = DRAINED
        properties = inventory.resource_set.properties
        return cls(
            tuple(node_type for node_type, _ in known),
            tuple(tuple(idset.iterate(ranks)) for _, ranks in known),
            tuple(-1 if t is None else place[t] for t in inventory.types),
            tuple(status),
            tuple(inventory.hosts),
            tuple(_links_of(inventory, node_type) for node_type, _ in known),
            tuple(sorted((name, idset.size(mask)) for name, mask in properties.items())),
            inventory.fabric,
        )

    @property
    def ranks(self) -> tuple[int, ...]:
        """All ranks, ascending."""
        return tuple(rank for rank, node_type in enumerate(self.type_of) if node_type >= 0)


def _links_of(inventory: Inventory, node_type: NodeType) -> Optional[Links]:
    links = inventory.key.links_of(node_type.topo) if inventory.key else None
    ids = node_type.physical[1]
    return links if links is None or ids is None else links.renumbered(ids)
