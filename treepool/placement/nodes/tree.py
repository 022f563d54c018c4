"""Locality trees: the compiled form of an RFC 49 topo for a node type.

A domain is two bitmasks: its cores and its GPUs. A NodeType is one tree of domains. All ranks with
the same topo and the same R_lite children share it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Iterator, Mapping, Optional

import attrs

from treepool.placement.nodes.distances import Apart, Places, apart, places_in
from treepool.placement.nodes.links import LinkTable
from treepool.placement.nodes.memory import TIERS, amounts_in
from treepool.rfc import idset, units
from treepool.rfc.idset import union
from treepool.rfc.links import Distances
from treepool.rfc.topo import nested

#: The name of the root domain of every tree.
NODE = "node"

#: The prefix of localities whose GPUs are slices of a GPU: instances of NVIDIA's MIG.
MIG = "mig-"

_UNKNOWN: Mapping[int, int] = MappingProxyType({})


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
    #: The topo's ids of R's cores 0, 1, 2, ... (-1: not in R); None if R uses the topo's ids.
    physical: Optional[tuple[int, ...]] = None
    #: Whether the enclosing instance kept some of the node, according to an allocated R.
    partial: bool = False
    #: The cores and GPUs (the topo's ids) that no instance has, because the site keeps them.
    site: tuple[int, int] = (0, 0)
    #: What connects the GPUs, if the key says it.
    links: Optional[LinkTable] = None
    #: The memory in bytes of each GPU for which the key gives it, by id.
    gpu_memory: Mapping[int, int] = _UNKNOWN
    #: Answers of on_node.levels.amount_levels() and on_node.domains' group_levels().
    levels: dict[Any, dict[Domain, int]] = attrs.field(factory=dict)
    #: Answers of on_node.search.able_domains().
    able: dict[Any, frozenset[Domain]] = attrs.field(factory=dict)
    #: The answer of nodes.usable.
    places: dict[None, Any] = attrs.field(factory=dict)
    parent: dict[Domain, Optional[Domain]] = attrs.field(init=False)
    #: For each domain: itself and the domains around it, the innermost first, the root last.
    around: dict[Domain, tuple[Domain, ...]] = attrs.field(init=False)
    #: For each domain, the innermost MIG domain that it is or is in, else the root. An amount that
    #: is asked in a realm takes GPUs of that realm only.
    realm: dict[Domain, Domain] = attrs.field(init=False)
    named: dict[str, tuple[Domain, ...]] = attrs.field(init=False)

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
        around: dict[Domain, tuple[Domain, ...]] = {self.root: (self.root,)}
        for domain in self.root.walk():
            for child in domain.children:
                around[child] = (child, *around[domain])
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


def compile_topo(
    topo: Optional[Mapping[str, Any]],
    cores: int,
    gpus: int,
    physical: Optional[tuple[int, ...]] = None,
    links: Optional[LinkTable] = None,
    gpu_memory: Mapping[int, int] = _UNKNOWN,
    site: Optional[tuple[int, int]] = None,
    distances: Optional[Distances] = None,
) -> NodeType:
    """The NodeType of a valid RFC 49 *topo* on a node for which R has *cores* and *gpus*.

    Without a topo, the node is flat: a root and nothing below it. Ids that R has and the topo does
    not mention belong to the root. Ids of the topo that R does not have are omitted. If R renumbers
    cores, *physical* holds the topo's id of each core, -1 where R has none. *links* is the link
    table of such nodes, if there is one. *gpu_memory* holds the memory of each GPU in bytes, where
    known.

    In an allocated R, *site* holds the cores and GPUs that the site keeps; the enclosing instance
    kept the other ids that R lacks. Without *site*, the site keeps all ids that R lacks.
    *distances* are between the memory domains of the topo, if known.
    """
    if topo is None:
        root = Domain(NODE, cores, gpus, True)
        return NodeType(root, flat_topo(cores, gpus), links=links, gpu_memory=gpu_memory)
    ids = _Ids(cores, gpus, physical)
    ids.site = _missing(topo, ids) if site is None else site
    if distances is not None:
        ids.distances, ids.places = distances, places_in(topo, distances)
    inside = amounts_in(NODE, topo)
    children, between = _children(topo, ids, 0)
    root = Domain(NODE, cores, gpus, True, inside.local, children, inside.cxl, None, between)
    return NodeType(
        root,
        topo,
        _storage(topo),
        frozenset(_names(topo)),
        physical,
        site is not None,
        ids.site,
        links,
        gpu_memory,
    )


def _missing(topo: Mapping[str, Any], ids: _Ids) -> tuple[int, int]:
    """The cores and GPUs of *topo* that R does not have."""
    cores, gpus = _listed(topo)
    return cores & ~ids.cores, gpus & ~ids.gpus


class _Ids:
    """What R has of a node, in the topo's ids; cores may have other ids in R."""

    def __init__(self, cores: int, gpus: int, physical: Optional[tuple[int, ...]]) -> None:
        self.gpus = gpus
        #: The cores and GPUs of the topo that the site keeps.
        self.site = (0, 0)
        self.distances: Optional[Distances] = None
        self.places: Places = {}
        if physical is None:
            self.cores, self._in_r = cores, None
        else:
            self._in_r = {p: core for core, p in enumerate(physical) if p >= 0}
            self.cores = idset.from_ids(self._in_r)

    def in_r(self, cores: int) -> int:
        """The ids in R of the topo's *cores*."""
        if self._in_r is None:
            return cores
        return idset.from_ids(self._in_r[core] for core in idset.iterate(cores))


def flat_topo(cores: int, gpus: int) -> dict[str, Any]:
    """The RFC 49 topo of a node without localities."""
    topo = {"cores": idset.encode(cores)}
    if gpus:
        topo["gpus"] = idset.encode(gpus)
    return topo


def _children(
    topo: Mapping[str, Any], ids: _Ids, cxl: int
) -> tuple[tuple[Domain, ...], Apart[Domain]]:
    """The domains in *topo*, and how far apart they are; *cxl* is the memory around, in bytes."""
    inside = list(nested(topo))
    found = [(_domain(name, item, ids, cxl), ids.places.get(id(item), ())) for name, item in inside]
    # Drop the domains of which R has nothing: nothing can be placed there.
    found = [(d, places) for d, places in found if d.cores or d.gpus]
    between = apart(found, ids.distances) if ids.distances is not None else {}
    return tuple(sorted((d for d, _ in found), key=lowest_id)), between


def _domain(name: str, topo: Mapping[str, Any], ids: _Ids, cxl: int) -> Domain:
    listed_cores, listed_gpus = _listed(topo)
    cores, gpus = ids.cores & listed_cores, ids.gpus & listed_gpus
    missing = listed_cores & ~cores, listed_gpus & ~gpus
    whole = not (missing[0] & ~ids.site[0] or missing[1] & ~ids.site[1])
    inside = amounts_in(name, topo)
    around = cxl + (inside.own if name == "cxl" else 0)
    children, between = _children(topo, ids, around)
    return Domain(
        name,
        ids.in_r(cores),
        gpus,
        whole,
        inside.local,
        children,
        cxl + inside.cxl,
        inside.own if name in TIERS else None,
        between,
    )


def _names(topo: Mapping[str, Any]) -> Iterator[str]:
    for name, item in nested(topo):
        yield name
        yield from _names(item)


def _storage(topo: Mapping[str, Any]) -> int:
    """The largest storage of a node in bytes, anywhere in the topo."""
    sizes = [
        units.to_bytes(item["capacity"], item.get("unit", "GiB"))
        for item in topo.get("storage", [])
    ]
    return max([*sizes, *(_storage(item) for _, item in nested(topo))], default=0)


def _listed(topo: Mapping[str, Any]) -> tuple[int, int]:
    """All cores and GPUs that *topo* mentions, nested domains included."""
    cores = idset.decode(topo.get("cores", ""))
    gpus = idset.decode(topo.get("gpus", ""))
    for _, item in nested(topo):
        inner_cores, inner_gpus = _listed(item)
        cores |= inner_cores
        gpus |= inner_gpus
    return cores, gpus


def lowest_id(domain: Domain) -> tuple[int, int, int, int]:
    """A sort key for siblings: by lowest core, those without cores last, then by lowest GPU."""
    return (
        not domain.cores,
        idset.lowest(domain.cores) if domain.cores else 0,
        not domain.gpus,
        idset.lowest(domain.gpus) if domain.gpus else 0,
    )
