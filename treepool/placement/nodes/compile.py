"""From an RFC 49 topo to a node type: its tree, cut to what R has of the node.

Localities with a name in TIERS are memory tiers: memory other than the ordinary memory of cores. A
tier is a domain inside the domain that it is near to. It has the same cores and GPUs, and encloses
everything else in that domain. Its ``memory`` in the topo is the capacity of the tier. HBM is the
nearest memory and counts as local. CXL memory counts for requests that allow it. NVM and GPU memory
count only for requests that name them.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Optional

import attrs

from treepool.placement.nodes.distances import Apart, Places, apart, places_in
from treepool.placement.nodes.link_table import LinkTable
from treepool.placement.nodes.tree import NODE, UNKNOWN, Domain, NodeType, Physical, lowest_id
from treepool.rfc import idset
from treepool.rfc.count import to_bytes
from treepool.rfc.links import Distances
from treepool.rfc.topo import nested


def compile_topo(
    topo: Optional[Mapping[str, Any]],
    cores: int,
    gpus: int,
    physical: Physical = (None, None),
    links: Optional[LinkTable] = None,
    gpu_memory: Mapping[int, int] = UNKNOWN,
    site: Optional[tuple[int, int]] = None,
    distances: Optional[Distances] = None,
) -> NodeType:
    """The NodeType of a valid RFC 49 *topo* on a node for which R has *cores* and *gpus*.

    Without a topo, the node is flat: a root and nothing below it. Ids that R has and the topo does
    not mention belong to the root. Ids of the topo that R does not have are omitted. *physical* has
    the topo's ids of R's cores and GPUs if R renumbers them. *links* is the link table of such
    nodes, if there is one, in R's ids. *gpu_memory* holds the memory of each GPU in bytes, where
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
    """What R has of a node, in the topo's ids; cores and GPUs may have other ids in R."""

    def __init__(self, cores: int, gpus: int, physical: Physical) -> None:
        #: The cores and GPUs of the topo that the site keeps.
        self.site = (0, 0)
        self.distances: Optional[Distances] = None
        self.places: Places = {}
        self._in_r = tuple(map(_inverse, physical))
        self.cores, self.gpus = (
            mask if ids is None else idset.from_ids(ids)
            for mask, ids in zip((cores, gpus), self._in_r)
        )

    def in_r(self, cores: int, gpus: int) -> tuple[int, int]:
        """The ids in R of the topo's *cores* and *gpus*."""
        moved_cores, moved_gpus = (
            mask if ids is None else idset.from_ids(ids[one] for one in idset.iterate(mask))
            for mask, ids in zip((cores, gpus), self._in_r)
        )
        return moved_cores, moved_gpus


def _inverse(physical: Optional[tuple[int, ...]]) -> Optional[dict[int, int]]:
    return None if physical is None else {p: one for one, p in enumerate(physical) if p >= 0}


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
        *ids.in_r(cores, gpus),
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
        to_bytes(item["capacity"], item.get("unit", "GiB")) for item in topo.get("storage", [])
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


#: Localities that are memory tiers.
TIERS = frozenset(("hbm", "cxl", "nvm", "gpumem"))


@attrs.frozen
class Amounts:
    """Bytes of memory in a domain, nested domains included.

    ``ordinary`` is the larger of what the domain lists and what the domains in it have. ``hbm`` and
    ``cxl`` are the memory of such tiers in the domain, itself included. ``own`` is what the domain
    lists.
    """

    ordinary: int
    hbm: int
    cxl: int
    own: int

    @property
    def local(self) -> int:
        """The bytes that count for a request for memory."""
        return self.ordinary + self.hbm


def amounts_in(name: str, topo: Mapping[str, Any]) -> Amounts:
    """The memory in a domain called *name* with the RFC 49 JSON *topo*."""
    own = int(topo.get("memory", 0)) << 30
    inside = [amounts_in(inner, item) for inner, item in nested(topo)]
    ordinary = sum(amounts.ordinary for amounts in inside)
    return Amounts(
        ordinary=ordinary if name in TIERS else max(own, ordinary),
        hbm=sum(amounts.hbm for amounts in inside) + (own if name == "hbm" else 0),
        cxl=sum(amounts.cxl for amounts in inside) + (own if name == "cxl" else 0),
        own=own,
    )
