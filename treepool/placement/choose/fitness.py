"""Fitness: how good a placement is, from 0 to 1, to be reported and to choose nodes by.

    fitness = (1 - alpha) * intra + alpha * inter
    intra   = beta * links + (1 - beta) * memory

``links`` is the smallest link between the GPUs of a slot over the largest on the node. ``memory``
is the share of a slot's cores and GPUs that are in one memory domain, ``inter`` the fewest nodes
that could hold the job over those it has. What has no meaning drops out: ``links`` without a link
table or with fewer than two GPUs a slot, ``inter`` for a job on one node.

By default alpha is 0.3 and beta 0.5. (The design that these come from takes 0.7 for the nodes,
because there they are of different switches; here they are not.) 0.7 suits jobs whose GPUs talk
much, 0.3 those whose cores feed them.
"""

from __future__ import annotations

from typing import Iterable, Iterator, Optional, Sequence

import attrs

from treepool.placement.nodes.byrank import ByRank
from treepool.placement.nodes.links import LinkTable, smallest_link
from treepool.placement.nodes.tree import Domain, NodeType
from treepool.rfc import idset

#: The weights by default.
ALPHA, BETA = 0.3, 0.5

#: Localities that are memory domains, the first that a node has; without one the node is one.
MEMORY_DOMAINS = ("numa", "socket")


@attrs.frozen
class Weights:
    """How much nodes count beside what is on them (``alpha``), and links beside memory (``beta``).

    Both are from 0 to 1.
    """

    alpha: float = ALPHA
    beta: float = BETA


#: What counts unless a pool says otherwise.
DEFAULT = Weights()


@attrs.frozen
class Fitness:
    """How good a placement is; each part is from 0 to 1, None where it has no meaning."""

    memory: float
    links: Optional[float] = None
    inter: Optional[float] = None
    weights: Weights = DEFAULT

    @property
    def intra(self) -> float:
        """How good it is on the nodes."""
        if self.links is None:
            return self.memory
        beta = self.weights.beta
        return beta * self.links + (1 - beta) * self.memory

    @property
    def total(self) -> float:
        """How good it is in all."""
        if self.inter is None:
            return self.intra
        alpha = self.weights.alpha
        return alpha * self.inter + (1 - alpha) * self.intra


@attrs.frozen
class Share:
    """What a job has on some nodes of one type: on each *cores* and *gpus* (bitmasks) of slots."""

    node_type: NodeType
    nodes: int
    cores: int
    gpus: int
    nslots: int


def shares_of(
    parts: Iterable[tuple[Sequence[int], int, int]],
    nslots: int,
    types: ByRank[Optional[NodeType]],
) -> Iterator[Share]:
    """What a job has on each kind of node: *parts* are (ranks, cores, GPUs), *types* by rank.

    Its *nslots* slots are shared out by cores.
    """
    listed = list(parts)
    everything = sum(len(ranks) * idset.size(cores) for ranks, cores, _ in listed)
    for ranks, cores, gpus in listed:
        kinds: dict[NodeType, int] = {}
        for rank in ranks:
            node_type = types[rank] if rank < len(types) else None
            if node_type is not None:
                kinds[node_type] = kinds.get(node_type, 0) + 1
        here = max(1, round(nslots * idset.size(cores) / max(1, everything)))
        for node_type, count in kinds.items():
            yield Share(node_type, count, cores, gpus, here)


def of_job(shares: Iterable[Share], weights: Weights = DEFAULT) -> Fitness:
    """The fitness of a job, the average over its nodes."""
    listed = list(shares)
    nodes = sum(share.nodes for share in listed)
    memory = sum(share.nodes * memory_locality(share) for share in listed) / nodes
    known = [(s.nodes, fit) for s in listed if (fit := link_fitness(s)) is not None]
    links = None
    if known:
        links = sum(count * fit for count, fit in known) / sum(count for count, _ in known)
    inter = _fewest_nodes(listed) / nodes if nodes > 1 else None
    return Fitness(memory, links, inter, weights)


def on_node(share: Share, weights: Weights = DEFAULT) -> Fitness:
    """The fitness of what one node would give."""
    return Fitness(memory_locality(share), link_fitness(share), None, weights)


def memory_locality(share: Share) -> float:
    """The share of each slot's cores and GPUs in one memory domain, averaged over the slots.

    The slots of a node are alike, and which core is whose is the job's to say: as many slots as
    can are counted whole into a domain, and what remains by its largest part in one domain.
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
    part = min(1.0, max(rest, default=0) * (slots - whole) / left)
    return (whole + (slots - whole) * part) / slots


def memory_domains(node_type: NodeType) -> tuple[Domain, ...]:
    """The memory domains of a node: its NUMA domains, else its sockets, else itself."""
    for name in MEMORY_DOMAINS:
        if name in node_type.named:
            return node_type.named[name]
    return (node_type.root,)


def link_fitness(share: Share) -> Optional[float]:
    """The smallest link between a slot's GPUs over the largest on the node; None if neither.

    Of several slots on a node whose GPUs are not told apart, all GPUs count as one slot's, unless
    each has just one.
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
    """GB/s between the pair of GPUs that is joined best."""
    return max((gbps for row in table.gbps for gbps in row), default=0.0)


def _fewest_nodes(shares: list[Share]) -> int:
    """The fewest nodes, as large as the largest of these, that could hold all that the job has."""
    cores = sum(s.nodes * idset.size(s.cores) for s in shares)
    gpus = sum(s.nodes * idset.size(s.gpus) for s in shares)
    most_cores = max(s.node_type.root.ncores for s in shares)
    most_gpus = max(idset.size(s.node_type.root.gpus) for s in shares)
    return max(-(-cores // most_cores), -(-gpus // most_gpus) if gpus else 1)
