"""What pictures show: nodes, the words for their states, why drained, what jobs hold, totals.

Like the pool itself, a picture identifies a node by how it looks: nodes of one type and status on
which the same jobs hold the same ids share one Look. Everything is computed per Look instead of
per node, so a picture of 100,000 nodes costs little more than one of a hundred.

A model is made from a Pool and from what its jobs hold, and uses only their public names. It
therefore does not matter whether a command or a live instance made them.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Optional

import attrs

from treepool.placement.allocation import Allocation
from treepool.placement.held import size
from treepool.placement.nodes.fabric_tree import Fabric
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.state import Held
from treepool.placement.nodes.tree import NodeType
from treepool.placement.pool import Pool
from treepool.rfc import hostlist, idset
from treepool.rfc.links import Links
from treepool.view import words

#: Whether jobs may use a node: it is up, down, or drained by an administrator.
UP, DOWN, DRAINED = "up", "down", "drained"

#: The state of a node that is up: nothing allocated, something allocated, or no core left.
IDLE, PARTLY, FULL = "idle", "partial", "full"

#: All states of a node, in the order of Totals.
STATES = (IDLE, PARTLY, FULL, DOWN, DRAINED)

#: Longest reason for which nodes were drained, and most reasons that are told.
_MAX_REASON, _MAX_DRAINS = 200, 16

#: Name of the job that stands for everything allocated in the pool that no given job holds.
OTHER = "other"


#: A job's place in the model's jobs, and its cores and GPUs on one node (bitmasks).
Holding = tuple[int, int, int]


class Totals(NamedTuple):
    """Numbers of a cluster, or of one node of it.

    Each node is counted in exactly one state, from idle to drained. Free resources are those that a
    job could get now; a node that is down or drained has none. Used resources are those that jobs
    hold, also on such nodes. The rest of ``cores`` and ``gpus`` is out of service.
    ``gpus_stranded`` of the free GPUs cannot be used by the jobs of the site's mix, see
    placement/choose/mix.py; a GPU that some of them can use counts in part.
    """

    nodes: int
    idle: int
    partly: int
    full: int
    down: int
    drained: int
    cores: int
    cores_free: int
    cores_used: int
    gpus: int
    gpus_free: int
    gpus_used: int
    gpus_stranded: float

    @property
    def amounts(self) -> list[Amount]:
        """The cores and, if there are any, the GPUs, as Amounts."""
        found = [Amount("cores", self.cores, self.cores_free, self.cores_used)]
        if self.gpus:
            gpus = self.gpus, self.gpus_free, self.gpus_used
            found.append(Amount("GPUs", *gpus, int(self.gpus_stranded)))
        return found

    @property
    def states(self) -> list[tuple[str, int]]:
        """How many nodes are in each state, by its name; states without nodes are left out."""
        numbers = self.idle, self.partly, self.full, self.down, self.drained
        return [(state, number) for state, number in zip(STATES, numbers) if number]

    @property
    def line(self) -> str:
        """The numbers in one line."""
        states = ", ".join(f"{number:,} {state}" for state, number in self.states)
        amounts = []
        for amount in self.amounts:
            text = f"{amount.used:,} of {amount.total:,} {amount.name} used, {amount.free:,} free"
            text += f" ({amount.stranded:,} stranded)" if amount.stranded else ""
            amounts.append(text)
        nodes = words.count(self.nodes, "node")
        return f"{nodes}: {states}; {'; '.join(amounts)}" if self.nodes else nodes

    def plus(self, other: Totals, times: int = 1) -> Totals:
        """The sum of these numbers and *times* those of *other*."""
        return Totals._make(a + times * b for a, b in zip(self, other))


@attrs.frozen
class Amount:
    """The cores or the GPUs of Totals: free (some stranded), used, out of service."""

    name: str
    total: int
    free: int
    used: int
    stranded: int = 0

    @property
    def away(self) -> int:
        """The amount on nodes that are down or drained that no job holds."""
        return self.total - self.free - self.used


NOTHING = Totals(*[0] * len(Totals._fields))


@attrs.frozen
class Job:
    """A job as pictures show it: its name, what it asked for, and what it holds.

    ``parts`` are (ranks, cores, GPUs), all three as bitmasks. ``nslots`` is 0 if not known.
    """

    name: str
    asked: str
    parts: tuple[Held, ...]
    nslots: int = 0

    @classmethod
    def of(cls, name: str, asked: str, held: Allocation) -> Job:
        """The job *name* that holds the allocation *held*."""
        return cls(name, asked, held.parts, held.nslots)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The job's ranks, ascending."""
        return tuple(idset.iterate(idset.union(ranks for ranks, _, _ in self.parts)))

    @property
    def ncores(self) -> int:
        """How many cores the job holds."""
        return size(self.parts)[0]

    @property
    def ngpus(self) -> int:
        """How many GPUs the job holds."""
        return size(self.parts)[1]


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


@attrs.frozen
class Drained:
    """Nodes that were drained for the same reason, "" if none was given."""

    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    reason: str

    @property
    def line(self) -> str:
        """Which nodes, and why: "n[0-1]: broken"."""
        hosts = words.listed(hostlist.encode(self.hosts))
        return f"{hosts}: {words.plain(self.reason, _MAX_REASON) or 'no reason was given'}"

    def to_dict(self) -> dict[str, Any]:
        """The nodes and the reason as JSON."""
        ranks, hosts = idset.encode_ids(self.ranks), hostlist.encode(self.hosts)
        return {"ranks": ranks, "hosts": hosts, "reason": self.reason}


def drained_in(reasons: Mapping[str, str], pool: Pool) -> tuple[Drained, ...]:
    """The nodes of *pool* that are drained, by *reasons* for idsets of ranks: the first reasons."""
    hosts, together = pool.inventory.hosts, dict.fromkeys(reasons.values(), 0)
    for ranks, reason in reasons.items():
        together[reason] |= idset.decode(ranks) & pool.ranks
    found = sorted((idset.lowest(mask), mask, reason) for reason, mask in together.items() if mask)
    each = ((tuple(idset.iterate(mask)), reason) for _, mask, reason in found[:_MAX_DRAINS])
    return tuple(Drained(ranks, tuple(hosts[r] for r in ranks), reason) for ranks, reason in each)


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
