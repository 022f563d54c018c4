"""Locality trees: the compiled form of an RFC 49 topo on a kind of node.

A domain is two bitmasks, its cores and its GPUs. A NodeType is one tree of domains, shared by all
ranks that have the same topo and the same R_lite children.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Iterator, Mapping, Optional

import attrs

from treepool.placement.nodes.links import LinkTable
from treepool.placement.nodes.memory import TIERS, amounts_in
from treepool.rfc import idset, units
from treepool.rfc.idset import union
from treepool.rfc.topo import nested

#: Name of the root domain of every tree.
NODE = "node"

#: How the names of localities begin whose GPUs are slices of one: instances of NVIDIA's MIG.
MIG = "mig-"

_UNKNOWN: Mapping[int, int] = MappingProxyType({})


@attrs.frozen(eq=False)
class Domain:
    """One instance of a locality, or the node itself (the root, named "node").

    ``cores`` and ``gpus`` are bitmasks of the ids here that R has, nested domains included;
    ``own_cores`` and ``own_gpus`` those that no nested domain holds. ``open_gpus`` are those that
    an amount asked of this domain may have: slices of GPUs are only for who asks them of their
    MIG locality, or takes whole domains. ``ncores`` and ``ngpus`` are the numbers of ``cores`` and
    ``open_gpus``. ``whole`` is False when the enclosing instance kept ids that the topo lists here.
    ``children`` are in order of their lowest id.

    ``memory`` (bytes, 0 where the topo has no such data) is the local memory, HBM included;
    ``cxl`` the CXL memory in it or around it. ``capacity`` is what a memory tier has of its own,
    None for other domains.
    """

    name: str
    cores: int
    gpus: int
    whole: bool
    memory: int = 0
    children: tuple[Domain, ...] = ()
    cxl: int = 0
    capacity: Optional[int] = None
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
        """This domain and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


@attrs.frozen(eq=False)
class NodeType:
    """A kind of node: its tree, and the RFC 49 topo that an allocation's key gives for it.

    ``storage`` is the capacity in bytes of the largest storage, 0 if there is none.
    ``localities`` are the names in the topo, also of domains that R has nothing of.
    """

    root: Domain
    topo: Mapping[str, Any]
    storage: int = 0
    localities: frozenset[str] = frozenset()
    #: The topo's ids of cores 0, 1, 2, ... (-1: not in R) where R calls them otherwise, else None.
    physical: Optional[tuple[int, ...]] = None
    #: Whether the enclosing instance kept some of the node, as an allocated R tells.
    partial: bool = False
    #: The cores and GPUs of the topo, in its ids, that no instance has: the site keeps them.
    site: tuple[int, int] = (0, 0)
    #: What connects the GPUs, if the key says so.
    links: Optional[LinkTable] = None
    #: The bytes of memory of each GPU of which the key says it, by id.
    gpu_memory: Mapping[int, int] = _UNKNOWN
    #: What on_node/ works out per need and remembers here.
    memo: dict[Any, Any] = attrs.field(factory=dict)
    parent: dict[Domain, Optional[Domain]] = attrs.field(init=False)
    #: For each domain the innermost MIG domain that it is or is in, else the root: amounts asked
    #: in a realm take GPUs of that realm alone.
    realm: dict[Domain, Domain] = attrs.field(init=False)
    named: dict[str, tuple[Domain, ...]] = attrs.field(init=False)

    def gpus_with(self, memory: int) -> int:
        """The GPUs that are known to have *memory* (bytes) or more; all of them if it is 0."""
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
) -> NodeType:
    """The NodeType of a valid RFC 49 *topo* on a node of which R has *cores* and *gpus*.

    Without a topo the node is flat: a root and nothing below. Ids that R has and the topo does
    not mention belong to the root; ids of the topo that R does not have are left out. Where R
    counts cores anew, *physical* has the topo's id of each, -1 where R has none. *links* is the
    table of such nodes, if there is one, and *gpu_memory* the bytes of each GPU, where known.

    In an allocated R, *site* has the cores and GPUs that the site keeps; the other ids that R lacks
    the enclosing instance kept. Without *site* the site keeps all of them.
    """
    if topo is None:
        root = Domain(NODE, cores, gpus, True)
        return NodeType(root, flat_topo(cores, gpus), links=links, gpu_memory=gpu_memory)
    ids = _Ids(cores, gpus, physical)
    ids.site = _lacking(topo, ids) if site is None else site
    inside = amounts_in(NODE, topo)
    children = _children(topo, ids, 0)
    root = Domain(NODE, cores, gpus, True, inside.local, children, inside.cxl)
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


def _lacking(topo: Mapping[str, Any], ids: _Ids) -> tuple[int, int]:
    """The cores and GPUs of *topo* that R does not have."""
    cores, gpus = _listed(topo)
    return cores & ~ids.cores, gpus & ~ids.gpus


class _Ids:
    """What R has of a node, in the ids of the topo; cores may have other ids in R."""

    def __init__(self, cores: int, gpus: int, physical: Optional[tuple[int, ...]]) -> None:
        self.gpus = gpus
        #: What the site keeps of the topo.
        self.site = (0, 0)
        if physical is None:
            self.cores, self._in_r = cores, None
        else:
            self._in_r = {p: core for core, p in enumerate(physical) if p >= 0}
            self.cores = idset.from_ids(self._in_r)

    def in_r(self, cores: int) -> int:
        """The ids in R of *cores* of the topo."""
        if self._in_r is None:
            return cores
        return idset.from_ids(self._in_r[core] for core in idset.iterate(cores))


def flat_topo(cores: int, gpus: int) -> dict[str, Any]:
    """The RFC 49 topo of a node without localities."""
    topo = {"cores": idset.encode(cores)}
    if gpus:
        topo["gpus"] = idset.encode(gpus)
    return topo


def _children(topo: Mapping[str, Any], ids: _Ids, cxl: int) -> tuple[Domain, ...]:
    """The domains in *topo*, around which is so much CXL memory."""
    found = [_domain(name, item, ids, cxl) for name, item in nested(topo)]
    # A domain of which R has nothing is not ours to place on.
    found = [d for d in found if d.cores or d.gpus]
    return tuple(sorted(found, key=lowest_id))


def _domain(name: str, topo: Mapping[str, Any], ids: _Ids, cxl: int) -> Domain:
    listed_cores, listed_gpus = _listed(topo)
    cores, gpus = ids.cores & listed_cores, ids.gpus & listed_gpus
    missing = listed_cores & ~cores, listed_gpus & ~gpus
    whole = not (missing[0] & ~ids.site[0] or missing[1] & ~ids.site[1])
    inside = amounts_in(name, topo)
    around = cxl + (inside.own if name == "cxl" else 0)
    return Domain(
        name,
        ids.in_r(cores),
        gpus,
        whole,
        inside.local,
        _children(topo, ids, around),
        cxl + inside.cxl,
        inside.own if name in TIERS else None,
    )


def _names(topo: Mapping[str, Any]) -> Iterator[str]:
    for name, item in nested(topo):
        yield name
        yield from _names(item)


def _storage(topo: Mapping[str, Any]) -> int:
    """The largest storage of a node in bytes, wherever in the topo it stands."""
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
    """Order of siblings: by lowest core, those without cores last, then by lowest GPU."""
    return (
        not domain.cores,
        idset.lowest(domain.cores) if domain.cores else 0,
        not domain.gpus,
        idset.lowest(domain.gpus) if domain.gpus else 0,
    )
