"""From a topo to a node type: what R has of it, and which memory counts: HBM, CXL, NVM, of GPUs.

Localities with a name in TIERS are memory tiers: memory other than the ordinary memory of cores. A
tier is a domain inside the domain that it is near to. It has the same cores and GPUs, and encloses
everything else in that domain. Its ``memory`` in the topo is the capacity of the tier. HBM is the
nearest memory and counts as local. CXL memory counts for requests that allow it. NVM and GPU memory
count only for requests that name them.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Optional

from treepool.placement.nodes.distances import Apart, Places, apart, places_in
from treepool.placement.nodes.link_table import LinkTable
from treepool.placement.nodes.tree import NODE, UNKNOWN, Domain, NodeType, Physical, lowest_id
from treepool.rfc import idset
from treepool.rfc.links import Distances
from treepool.rfc.scheduling import SOME, AllocatedIds
from treepool.rfc.topo import Topo, read


def compile_topo(
    topo: Optional[Mapping[str, Any]],
    cores: int,
    gpus: int,
    physical: Physical = (None, None),
    links: Optional[LinkTable] = None,
    gpu_memory: Mapping[int, int] = UNKNOWN,
    told: Optional[AllocatedIds] = None,
    distances: Optional[Distances] = None,
    tree: Optional[Tree] = None,
) -> NodeType:
    """The NodeType of a valid RFC 49 *topo* on a node for which R has *cores* and *gpus*.

    Without a topo, the node is flat: a root and nothing below it. Ids that R has and the topo does
    not mention belong to the root. Ids of the topo that R does not have are omitted. *physical* has
    the topo's ids of R's cores and GPUs if R renumbers them. *links* is the link table of such
    nodes, if there is one, in R's ids. *gpu_memory* holds the memory of each GPU in bytes, where
    known.

    In an allocated R, *told* holds the cores and GPUs that the site keeps; the enclosing instance
    kept the other ids that R lacks. Without *told*, the site keeps all ids that R lacks. If nobody
    knows which ids these are, no domain is whole.
    *distances* are between the memory domains of the topo, if known. *tree* is that of the topo, if
    it has been read.
    """
    if topo is None:
        root = Domain(NODE, cores, gpus, True)
        return NodeType(root, flat_topo(cores, gpus), links=links, gpu_memory=gpu_memory)
    node, memories = tree or tree_of(read(topo))
    ids = _Ids(cores, gpus, physical, memories)
    missing = node.cores & ~ids.cores, node.gpus & ~ids.gpus
    ids.site = missing if told is None else (told.site_cores, told.site_gpus)
    ids.unsure = told == SOME and missing != (0, 0)
    if distances is not None:
        ids.distances, ids.places = distances, places_in(node, distances)
    children, between = _inside(node, ids, 0)
    memory = _memory(node, memories)
    root = Domain(NODE, cores, gpus, True, memory.local, children, memory.cxl, None, between)
    return NodeType(
        root,
        topo,
        node.storage,
        node.localities,
        physical,
        told is not None,
        ids.unsure,
        ids.site,
        links,
        gpu_memory,
    )


class _Ids:
    """What R has of a node, in the topo's ids; cores and GPUs may have other ids in R."""

    def __init__(self, cores: int, gpus: int, physical: Physical, memory: _Memories) -> None:
        #: The memory of the topo's domains.
        self.memory = memory
        #: The cores and GPUs of the topo that the site keeps.
        self.site = (0, 0)
        #: Whether the ids that R has may be others in the topo.
        self.unsure = False
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


#: Localities that are memory tiers.
TIERS = frozenset(("hbm", "cxl", "nvm", "gpumem"))


class _Memory(NamedTuple):
    """Bytes of memory in a domain, nested domains included.

    ``ordinary`` is the larger of what the domain lists and what the domains in it have. ``hbm`` and
    ``cxl`` are the memory of such tiers in the domain, itself included.
    """

    ordinary: int
    hbm: int
    cxl: int

    @property
    def local(self) -> int:
        """The bytes that count for a request for memory."""
        return self.ordinary + self.hbm


#: The memory of the domains of a topo that have others inside.
_Memories = Mapping[Topo, _Memory]

#: What a topo says, and its memory, once for all kinds of nodes that have it.
Tree = tuple[Topo, _Memories]


def tree_of(topo: Topo) -> Tree:
    """*topo*, and the memory in it."""
    known: dict[Topo, _Memory] = {}

    def visit(one: Topo) -> None:
        for inner in one.inside:
            if inner.inside:
                visit(inner)
        ordinary, hbm, cxl = map(sum, zip((0, 0, 0), *(_memory(i, known) for i in one.inside)))
        known[one] = _with_inside(one, ordinary, hbm, cxl)

    visit(topo)
    return topo, known


def _with_inside(topo: Topo, ordinary: int, hbm: int, cxl: int) -> _Memory:
    """The memory of *topo*, of which the domains in it have some."""
    return _Memory(
        ordinary if topo.locality in TIERS else max(topo.memory, ordinary),
        hbm + (topo.memory if topo.locality == "hbm" else 0),
        cxl + (topo.memory if topo.locality == "cxl" else 0),
    )


def _memory(topo: Topo, known: _Memories) -> _Memory:
    return known.get(topo) or _with_inside(topo, 0, 0, 0)


def _inside(topo: Topo, ids: _Ids, cxl: int) -> tuple[tuple[Domain, ...], Apart[Domain]]:
    """The domains in *topo*, and how far apart they are; *cxl* is the memory around, in bytes.

    Domains of which R has nothing are left out: nothing can be placed there.
    """
    around = cxl + (topo.memory if topo.locality == "cxl" else 0)
    cores, gpus = ids.cores, ids.gpus
    there = [
        (_domain(one, ids, around), ids.places.get(one, ()))
        for one in topo.inside
        if one.cores & cores or one.gpus & gpus
    ]
    between = apart(there, ids.distances) if ids.distances is not None else {}
    return tuple(sorted((domain for domain, _ in there), key=lowest_id)), between


def _domain(topo: Topo, ids: _Ids, cxl: int) -> Domain:
    """The domain of *topo*; *cxl* is the memory around it, in bytes."""
    cores, gpus = ids.cores & topo.cores, ids.gpus & topo.gpus
    missing = topo.cores & ~cores, topo.gpus & ~gpus
    whole = not (ids.unsure or missing[0] & ~ids.site[0] or missing[1] & ~ids.site[1])
    children, between = _inside(topo, ids, cxl)
    memory = _memory(topo, ids.memory)
    return Domain(
        topo.locality,
        *ids.in_r(cores, gpus),
        whole,
        memory.local,
        children,
        cxl + memory.cxl,
        topo.memory if topo.locality in TIERS else None,
        between,
    )
