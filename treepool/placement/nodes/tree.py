"""Locality trees of node types: their domains, and who may have slices of GPUs (MIG instances).

They are the compiled form of an RFC 49 topo, see compile.py. A domain is two bitmasks: its cores
and its GPUs. A NodeType is one tree of domains. All ranks with the same topo and the same R_lite
children share it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Iterator, Mapping, Optional

import attrs

from treepool.placement.nodes.distances import Apart
from treepool.placement.nodes.link_table import LinkTable
from treepool.rfc import idset
from treepool.rfc.idset import union

#: The name of the root domain of every tree.
NODE = "node"

#: The prefix of localities whose GPUs are slices of a GPU: instances of NVIDIA's MIG.
MIG = "mig-"

#: The memory of GPUs, where nothing is known of it.
UNKNOWN: Mapping[int, int] = MappingProxyType({})


@attrs.frozen(eq=False)
class Domain:
    """One instance of a locality, or the node itself (the root, named "node").

    ``cores`` and ``gpus`` are bitmasks of the ids here that R has, nested domains included.
    ``own_cores`` and ``own_gpus`` are those that no nested domain holds. ``open_gpus`` are those
    that an amount asked of this domain may take: slices of GPUs are only for requests that ask
    for them in their MIG locality, or that take whole domains. ``ncores`` and ``ngpus`` are the
    numbers of ``cores`` and ``open_gpus``. ``whole`` is False when the enclosing instance kept ids
    that the topo lists here. ``children`` are in order of their lowest id.

    ``memory`` is the local memory in bytes, HBM included; it is 0 where the topo gives none.
    ``cxl`` is the CXL memory in the domain or around it, in bytes. ``capacity`` is the own memory
    of a memory tier, None for other domains. ``apart`` says how far the children are from each
    other, see distances.py; it is empty where this makes no difference.
    """

    name: str
    cores: int
    gpus: int
    whole: bool
    memory: int = 0
    children: tuple[Domain, ...] = ()
    cxl: int = 0
    capacity: Optional[int] = None
    apart: Apart[Domain] = attrs.field(factory=dict)
    #: The MIG domains inside this one, at any depth.
    mig: tuple[Domain, ...] = attrs.field(init=False)
    open_gpus: int = attrs.field(init=False)
    own_cores: int = attrs.field(init=False)
    own_gpus: int = attrs.field(init=False)
    ncores: int = attrs.field(init=False)
    ngpus: int = attrs.field(init=False)

    @mig.default
    def _mig(self) -> tuple[Domain, ...]:
        found: list[Domain] = []
        for child in self.children:
            found += (child, *child.mig) if child.name.startswith(MIG) else child.mig
        return tuple(found)

    @open_gpus.default
    def _open_gpus(self) -> int:
        return self.gpus & ~union(domain.gpus for domain in self.mig)

    @own_cores.default
    def _own_cores(self) -> int:
        return self.cores & ~union(child.cores for child in self.children)

    @own_gpus.default
    def _own_gpus(self) -> int:
        return self.gpus & ~union(child.gpus for child in self.children)

    @ncores.default
    def _ncores(self) -> int:
        return idset.size(self.cores)

    @ngpus.default
    def _ngpus(self) -> int:
        return idset.size(self.open_gpus)

    def walk(self) -> Iterator[Domain]:
        """This domain and all domains inside it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


#: For cores and for GPUs: the topo's ids of those that R calls 0, 1, 2, ... (-1: not in R); None if
#: R uses the topo's ids.
Physical = tuple[Optional[tuple[int, ...]], Optional[tuple[int, ...]]]


@attrs.frozen(eq=False)
class NodeType:
    """A kind of node: its tree, and the RFC 49 topo that an allocation's key gives for it.

    ``storage`` is the capacity in bytes of the largest storage, 0 if there is none.
    ``localities`` are the names in the topo, including those of domains of which R has nothing.
    """

    root: Domain
    topo: Mapping[str, Any]
    storage: int = 0
    localities: frozenset[str] = frozenset()
    #: The topo's ids of R's cores and of its GPUs, see Physical.
    physical: Physical = (None, None)
    #: Whether the enclosing instance kept some of the node, according to an allocated R.
    partial: bool = False
    #: Whether nobody knows which part that is.
    unsure: bool = False
    #: The cores and GPUs (the topo's ids) that no instance has, because the site keeps them.
    site: tuple[int, int] = (0, 0)
    #: What connects the GPUs, if the key says it.
    links: Optional[LinkTable] = None
    #: The memory in bytes of each GPU for which the key gives it, by id.
    gpu_memory: Mapping[int, int] = UNKNOWN
    #: Answers of on_node.levels.amount_levels() and on_node.place.OnNode.
    levels: dict[Any, dict[Domain, int]] = attrs.field(factory=dict, init=False)
    #: Answers of on_node.place.able_domains().
    able: dict[Any, Any] = attrs.field(factory=dict, init=False)
    #: The answer of nodes.usable.
    places: dict[None, Any] = attrs.field(factory=dict, init=False)
    #: Answers of nodes.kept.without_kept().
    seen: dict[int, NodeType] = attrs.field(factory=dict, init=False)
    parent: dict[Domain, Optional[Domain]] = attrs.field(init=False)
    #: For each domain: itself and the domains around it, the innermost first, the root last.
    around: dict[Domain, tuple[Domain, ...]] = attrs.field(init=False)
    #: For each domain, the innermost MIG domain that it is or is in, else the root. An amount that
    #: is asked in a realm takes GPUs of that realm only.
    realm: dict[Domain, Domain] = attrs.field(init=False)
    named: dict[str, tuple[Domain, ...]] = attrs.field(init=False)
    #: The place of each domain, parents before children.
    order: dict[Domain, int] = attrs.field(init=False)

    def gpus_with(self, memory: int) -> int:
        """The GPUs that are known to have at least *memory* bytes; all GPUs if it is 0."""
        if not memory:
            return self.root.gpus
        known = sum(1 << gpu for gpu, size in self.gpu_memory.items() if size >= memory)
        return self.root.gpus & known

    @parent.default
    def _parents(self) -> dict[Domain, Optional[Domain]]:
        parents: dict[Domain, Optional[Domain]] = {self.root: None}
        for domain in self.root.walk():
            for child in domain.children:
                parents[child] = domain
        return parents

    @around.default
    def _around(self) -> dict[Domain, tuple[Domain, ...]]:
        around: dict[Domain, tuple[Domain, ...]] = {}
        for domain, parent in self.parent.items():  # parents come first
            around[domain] = (domain,) if parent is None else (domain, *around[parent])
        return around

    @realm.default
    def _realms(self) -> dict[Domain, Domain]:
        realms = dict.fromkeys(self.root.walk(), self.root)
        for domain in self.root.mig:  # outer ones first
            realms.update(dict.fromkeys(domain.walk(), domain))
        return realms

    @named.default
    def _by_name(self) -> dict[str, tuple[Domain, ...]]:
        names: dict[str, list[Domain]] = {}
        for domain in self.root.walk():
            if domain is not self.root:
                names.setdefault(domain.name, []).append(domain)
        return {name: tuple(domains) for name, domains in names.items()}

    @order.default
    def _places(self) -> dict[Domain, int]:
        return {domain: place for place, domain in enumerate(self.root.walk())}


def part_of(node_type: NodeType, cores: int, gpus: int) -> NodeType:
    """A kind of node that has only these *cores* and *gpus* (bitmasks) of *node_type*."""
    return attrs.evolve(node_type, root=_part_of(node_type.root, cores, gpus))


def _part_of(domain: Domain, cores: int, gpus: int) -> Domain:
    has_cores, has_gpus = domain.cores & cores, domain.gpus & gpus
    inside = {child: _part_of(child, cores, gpus) for child in domain.children}
    inside = {child: part for child, part in inside.items() if part.cores or part.gpus}
    apart = {
        inside[one]: {inside[other]: far for other, far in row.items() if other in inside}
        for one, row in domain.apart.items()
        if one in inside
    }
    return attrs.evolve(
        domain,
        cores=has_cores,
        gpus=has_gpus,
        whole=domain.whole and has_cores == domain.cores and has_gpus == domain.gpus,
        children=tuple(inside.values()),
        apart=apart,
    )


def lowest_id(domain: Domain) -> tuple[int, int, int, int]:
    """A sort key for siblings: by lowest core, those without cores last, then by lowest GPU."""
    return (
        not domain.cores,
        idset.lowest(domain.cores) if domain.cores else 0,
        not domain.gpus,
        idset.lowest(domain.gpus) if domain.gpus else 0,
    )


def around(domain: Domain, cores: int, gpus: int) -> Domain:
    """The smallest domain in *domain* that has all of *cores* and *gpus*."""
    for child in domain.children:
        if not cores & ~child.cores and not gpus & ~child.gpus:
            return around(child, cores, gpus)
    return domain
