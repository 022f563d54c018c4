"""Levels: when a slot is local: in the smallest kind of domain with enough cores, GPUs, memory.

An amount goes into the smallest domain that has it free. The domain is found by walking down from
the scope of the amount. Among equal domains, the walk prefers the one that leaves whole domains
whole.
"""

from __future__ import annotations

from typing import Callable, Container, Iterator, Optional, Sequence

import attrs

from treepool.placement.effort import Effort, metered
from treepool.placement.gpus.graph import graph_of, has_clique
from treepool.placement.nodes.compile import TIERS
from treepool.placement.nodes.tree import Domain, NodeType
from treepool.placement.request.need import Need
from treepool.rfc import idset

#: Two numbers that are compared in order: (GPUs, cores), or (0, domains).
Amount = tuple[int, int]

#: How many answers a node type remembers: far more than a site has different needs at a time.
MAX_MEMO = 1024


def levels_of(root: Domain, hosts: Callable[[Domain], bool]) -> dict[Domain, int]:
    """For each domain that could host something, how far it is from the smallest kind that could.

    *hosts* says whether a domain of an idle node could host it. A domain can if a domain inside it
    can. A kind (a locality) can if some domain of it can, anywhere in *root*. The level of a domain
    is the number of such kinds inside it, one inside the other. It is 0 when the domain is not
    divided into domains of a kind that could. On a regular tree, the level counts the kinds of
    domain above the smallest kind that fits.
    """
    able: list[Domain] = []
    levels: dict[Domain, int] = {}

    def find(domain: Domain) -> None:
        if hosts(domain):
            able.append(domain)
            for child in domain.children:
                find(child)

    def inside(domain: Domain) -> int:
        found = max(((child.name in kinds) + inside(child) for child in domain.children), default=0)
        levels[domain] = found
        return found

    find(root)
    kinds = {domain.name for domain in able}
    inside(root)
    return {domain: levels[domain] for domain in able}


def amount_levels(
    node_type: NodeType,
    need: Need,
    scope: Optional[Domain] = None,
    effort: Optional[Effort] = None,
) -> dict[Domain, int]:
    """The levels of the domains that could host *need*'s amount when it is asked of *scope*.

    Without a scope, the amount is asked of the node. All the domains are in the scope's realm: an
    amount that is asked outside a MIG domain does not go into it. *effort* counts the search for
    joined GPUs. Raises GaveUp if it takes too long.
    """
    realm = node_type.root if scope is None else node_type.realm[scope]

    def compute(spent: Effort) -> dict[Domain, int]:
        usable, graph = usable_gpus(node_type, realm, need), graph_of(node_type.links, need.demand)

        def hosts(domain: Domain) -> bool:
            spent.count(0)
            gpus = domain.gpus & usable
            return (
                node_type.realm[domain] is realm
                and domain.ncores >= need.cores
                and idset.size(gpus) >= need.gpus
                and memory_for(domain, need) >= need.memory
                and (graph is None or has_clique(graph, gpus, need.gpus, spent))
            )

        return levels_of(realm, hosts)

    memory = need.memory, need.allow_cxl, need.gpu_memory
    key = realm, need.cores, need.gpus, memory, need.demand
    return metered(node_type.levels, MAX_MEMO, key, compute, effort)


def split_types(types: Sequence[NodeType], need: Need) -> frozenset[NodeType]:
    """The *types* on which a slot of *need* is split, though it would not have to be on another.

    There, what could host an amount of *need* is divided into domains of a kind of which some
    domain of another type could. A type without domains of that kind does not split it.
    """
    split: set[NodeType] = set()
    for amount in _amounts(need):
        able = {node_type: amount_levels(node_type, amount) for node_type in types}
        kinds = {domain.name for levels in able.values() for domain in levels}
        split.update(
            node_type
            for node_type, levels in able.items()
            if levels and all(_is_divided(domain, kinds) for domain in levels)
        )
    return frozenset(split)


def _amounts(need: Need) -> Iterator[Need]:
    """The amounts that *need* asks for, itself or of domains, without the memory of tiers."""
    if need.takes_amount:
        yield need
    for part in need.parts:
        if not part.whole:
            inside = part.need
            yield from _amounts(attrs.evolve(inside, memory=0) if part.name in TIERS else inside)


def _is_divided(domain: Domain, kinds: Container[str]) -> bool:
    return any(child.name in kinds or _is_divided(child, kinds) for child in domain.children)


def memory_for(domain: Domain, need: Need) -> int:
    """The bytes of memory of *domain* that count for what *need* asks."""
    return domain.memory + domain.cxl if need.allow_cxl else domain.memory


def has_memory(scope: Domain, need: Need) -> bool:
    """Whether *scope* has the memory that *need* asks of it; a tier counts its own capacity."""
    have = memory_for(scope, need) if scope.capacity is None else scope.capacity
    return have >= need.memory


def has_capacity(node_type: NodeType, scope: Domain, need: Need) -> bool:
    """Whether *scope* has the memory, and the node the storage, that *need* asks of *scope*.

    No domain inside *scope* has more memory than *scope* itself.
    """
    return has_memory(scope, need) and need.storage <= node_type.storage


def asked_of(scope: Domain, need: Need) -> Need:
    """*need* as asked of the domains in *scope*, without memory if *scope* is a memory tier.

    The memory of a tier is near to all domains in it.
    """
    return need if scope.capacity is None else attrs.evolve(need, memory=0)


def usable_gpus(node_type: NodeType, scope: Domain, need: Need) -> int:
    """The GPUs that *need*'s amount may take when it is asked of *scope*.

    These are the GPUs of the scope's realm that have the demanded memory.
    """
    gpus = node_type.realm[scope].open_gpus
    return gpus & node_type.gpus_with(need.gpu_memory) if need.gpu_memory else gpus


def has_free(domain: Domain, need: Need, cores: int, gpus: int) -> bool:
    """Whether *domain* has the cores and GPUs of *need*'s amount free."""
    return (
        idset.size(domain.cores & cores) >= need.cores
        and idset.size(domain.gpus & gpus) >= need.gpus
    )


def free_in(domain: Domain, cores: int, gpus: int) -> Amount:
    """How much is free in *domain*, GPUs first: domains with the least free are used first."""
    return idset.size(domain.gpus & gpus), idset.size(domain.cores & cores)
