"""Fitness: how good a placement is, from 0 to 1: the formula, and its weights alpha and beta.

    fitness = (1 - alpha) * intra + alpha * inter
    intra   = beta * links + (1 - beta) * memory

``intra`` and ``inter`` are divided by what an idle cluster could give the same request. A job that
could not sit better therefore has 1. Before that division,

- ``links`` is the slowest link between the GPUs of a slot over the fastest link on the node;
- ``memory`` is the fraction of a slot's cores and GPUs that are in one memory domain. If the key
  has distances, the rest counts too: the nearer it is, the more, and the farthest counts nothing;
- ``inter`` is the fewest nodes that could hold the job over the nodes that it has. With a fabric,
  it is the fewest domains that could hold as many nodes over the domains that the job spans,
  averaged over the levels of the fabric.

A term without a meaning is omitted: ``links`` without a link table or with fewer than two GPUs per
slot, ``inter`` for a job on one node.

Alpha is 0.3 and beta is 0.5. (The design that these weights come from uses 0.7 for alpha, because
its nodes are on different switches.)
"""

from __future__ import annotations

from typing import Iterable, Iterator, Optional, Sequence

import attrs

from treepool.placement.nodes.distances import nearness
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.link_table import LinkTable, smallest_link
from treepool.placement.nodes.state import Held
from treepool.placement.nodes.tree import Domain, NodeType
from treepool.rfc import idset

#: The weights of ``inter`` against ``intra``, and of links against memory.
ALPHA, BETA = 0.3, 0.5

#: Localities that are memory domains: the first one that a node has counts, else the node itself.
MEMORY_DOMAINS = ("numa", "socket")


@attrs.frozen
class Fitness:
    """How good a placement is; each part is from 0 to 1, None where it has no meaning.

    ``memory``, ``links`` and ``inter`` are not yet divided by those of ``ideal``, which is what an
    idle cluster could give the same request. It is None if it is not known, or if this is it.
    """

    memory: float
    links: Optional[float] = None
    inter: Optional[float] = None
    ideal: Optional[Fitness] = None

    @property
    def _intra(self) -> float:
        if self.links is None:
            return self.memory
        return BETA * self.links + (1 - BETA) * self.memory

    @property
    def intra(self) -> float:
        """How good the placement is within the nodes, measured against the ideal."""
        return self._intra if self.ideal is None else _share(self._intra, self.ideal._intra)

    @property
    def total(self) -> float:
        """How good the placement is overall."""
        if self.inter is None:
            return self.intra
        ideal = None if self.ideal is None else self.ideal.inter
        inter = self.inter if ideal is None else _share(self.inter, ideal)
        return ALPHA * inter + (1 - ALPHA) * self.intra


def _share(part: float, ideal: float) -> float:
    """*part* of *ideal*; 1 if it is more: policies may prefer nodes on which jobs sit worse."""
    return 1.0 if part >= ideal else part / ideal


@attrs.frozen
class Share:
    """What a job has on some nodes of one type: the same cores and GPUs (bitmasks) on each node."""

    node_type: NodeType
    nodes: int
    cores: int
    gpus: int
    nslots: int


def shares_of(parts: Iterable[Held], nslots: int, inventory: Inventory) -> Iterator[Share]:
    """What a job that holds *parts* has on each node type.

    The job's *nslots* slots are divided among the nodes in proportion to cores.
    """
    listed = list(parts)
    everything = sum(idset.size(ranks) * idset.size(cores) for ranks, cores, _ in listed)
    for ranks, cores, gpus in listed:
        kinds: dict[NodeType, int] = {}
        for (_, node_type), having in inventory.kinds(ranks):
            if node_type is not None:
                kinds[node_type] = kinds.get(node_type, 0) + idset.size(having)
        here = max(1, round(nslots * idset.size(cores) / max(1, everything)))
        for node_type, count in kinds.items():
            yield Share(node_type, count, cores, gpus, here)


def of_job(
    shares: Iterable[Share],
    ideal: Optional[Fitness] = None,
    spread: Optional[float] = None,
) -> Fitness:
    """The fitness of a job: the average over its nodes; *ideal* is that on an idle cluster.

    *spread* is its ``inter``, if the pool has a fabric.
    """
    listed = list(shares)
    nodes = sum(share.nodes for share in listed)
    memory = sum(share.nodes * memory_locality(share) for share in listed) / nodes
    known = [(s.nodes, fit) for s in listed if (fit := link_fitness(s)) is not None]
    links = None
    if known:
        links = sum(count * fit for count, fit in known) / sum(count for count, _ in known)
    inter = None
    if nodes > 1:
        inter = _fewest_nodes(listed) / nodes if spread is None else spread
    return Fitness(memory, links, inter, ideal)


def spread_of(inventory: Inventory, ranks: int) -> float:
    """The fewest domains that could hold as many nodes as *ranks* (bitmask) over those they span.

    That is averaged over the localities. Nodes of other types than the job has do not count. A node
    that is in no domain of a locality is a domain of its own.
    """
    shares = [fewest / spanned for spanned, fewest in domains_of(inventory, ranks).values()]
    return sum(shares) / len(shares) if shares else 1.0


def domains_of(inventory: Inventory, ranks: int) -> dict[str, tuple[int, int]]:
    """Of each locality above the nodes, how many domains *ranks* (bitmask) span, and the fewest
    that could hold as many; see ``spread_of``."""
    fabric = inventory.fabric
    if fabric is None:
        return {}
    kinds = frozenset(node_type for (_, node_type), _ in inventory.kinds(ranks) if node_type)
    found = {}
    for locality in fabric.localities:
        left, fewest = idset.size(ranks), 0
        for size in fabric.sizes(locality, kinds, inventory.types):
            if left <= 0:
                break
            left -= size
            fewest += 1
        found[locality] = fabric.spanned(ranks, locality), fewest + max(0, left)
    return found


def memory_locality(share: Share) -> float:
    """The fraction of each slot's cores and GPUs in one memory domain, averaged over the slots.

    The slots of a node are equal, and the job decides which core belongs to which slot. As many
    slots as possible therefore count as whole in a domain. The remaining slots count by the largest
    remaining part in one domain.
    """
    domains = memory_domains(share.node_type)
    have = [(idset.size(d.cores & share.cores), idset.size(d.gpus & share.gpus)) for d in domains]
    ncores, ngpus = idset.size(share.cores), idset.size(share.gpus)
    slots = max(1, share.nslots)
    cores, gpus = max(1, ncores // slots), ngpus // slots
    whole = 0
    rest: list[int] = []
    for c, g in have:
        fits = min(c // cores, g // gpus if gpus else slots, slots - whole)
        whole += fits
        rest.append(c - fits * cores + g - fits * gpus)
    left = ncores + ngpus - whole * (cores + gpus)
    if whole == slots or left <= 0:
        return 1.0
    part = min(1.0, _gathered(share.node_type, domains, rest) * (slots - whole) / left)
    return (whole + (slots - whole) * part) / slots


def _gathered(node_type: NodeType, domains: Sequence[Domain], have: Sequence[int]) -> float:
    """The most of what *domains* have that is in one of them; what is near to it counts in part."""
    siblings: dict[Optional[Domain], list[tuple[Domain, int]]] = {}
    for domain, number in zip(domains, have):
        if number:
            siblings.setdefault(node_type.parent[domain], []).append((domain, number))
    most = 0.0
    for parent, inside in siblings.items():
        near = nearness(parent.apart if parent is not None else {})
        for center, _ in inside:
            most = max(most, sum(number * near(center, other) for other, number in inside))
    return most


def memory_domains(node_type: NodeType) -> tuple[Domain, ...]:
    """The memory domains of a node: its NUMA domains, else its sockets, else itself."""
    for name in MEMORY_DOMAINS:
        if name in node_type.named:
            return node_type.named[name]
    return (node_type.root,)


def link_fitness(share: Share) -> Optional[float]:
    """The slowest link between a slot's GPUs divided by the fastest on the node; None if unknown.

    It is not known which GPU belongs to which slot of a node, so all GPUs count as one slot's. The
    result is None if no slot has more than one GPU.
    """
    table = share.node_type.links
    ngpus = idset.size(share.gpus)
    if table is None or ngpus < 2 or ngpus <= share.nslots:
        return None
    largest = largest_link(table)
    if not largest:
        return None
    return (smallest_link(table, share.gpus) or 0.0) / largest


def largest_link(table: LinkTable) -> float:
    """The bandwidth of the fastest link between two GPUs, in GB/s; 0 if there is none."""
    return max((gbps for row in table.gbps for gbps in row), default=0.0)


def _fewest_nodes(shares: list[Share]) -> int:
    """The fewest nodes, of the largest size among *shares*, that could hold the whole job."""
    cores = sum(s.nodes * idset.size(s.cores) for s in shares)
    gpus = sum(s.nodes * idset.size(s.gpus) for s in shares)
    most_cores = max(s.node_type.root.ncores for s in shares)
    most_gpus = max(idset.size(s.node_type.root.gpus) for s in shares)
    return max(-(-cores // most_cores), -(-gpus // most_gpus) if gpus else 1)
