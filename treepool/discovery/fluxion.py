"""Fluxion's key in an R (RFC 40) as a key of RFC 49: its nodes as topos, what is above as fabric.

========================================  ==========================================================
in Fluxion's graph                        in the key
========================================  ==========================================================
``socket``, ``numanode``, ``die``,        localities ``socket``, ``numa``, ``die``, ``group``,
``group``, ``cache`` called L3            ``l3``, as ``levels.py`` chooses from hwloc's
``core``, ``gpu``                         cores and GPUs; a GPU is near the cores of the vertex that
                                          it is in
``memory`` with a unit                    ``memory`` of that vertex
``cluster``                               the whole fabric
others around nodes: ``rack``, ...        localities of the fabric
all others                                are left out, with a warning for each type
========================================  ==========================================================

A node is the one of R with its name, or else with its rank: in the R of a sub-instance, Flux has
renumbered the ranks, but not those of the graph.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Any, Mapping, Optional, Sequence

import attrs

from treepool.discovery import key
from treepool.discovery.key import Encoded, Nodes
from treepool.discovery.levels import topo_of
from treepool.discovery.machine import Gpu, Machine, Region
from treepool.discovery.sites import read as sites
from treepool.discovery.sites.locations import Site
from treepool.errors import InvalidHardware, InvalidKey
from treepool.rfc import idset, jgf, scheduling
from treepool.rfc.count import BYTES, to_bytes
from treepool.rfc.findings import Findings, shown
from treepool.rfc.jgf import Vertex
from treepool.rfc.quote import printable, shortened
from treepool.rfc.rset import ResourceSet

#: The kinds of region by the types of Fluxion, or the basenames of its caches.
_KINDS = {
    "socket": "socket",
    "package": "socket",
    "die": "die",
    "numanode": "numa",
    "numa": "numa",
    "group": "group",
    "l3cache": "l3",
    "l3": "l3",
}

#: Most regions in a node; large nodes have some 200.
_MAX_REGIONS = 512

#: Most names in a warning, and most types with a warning of their own.
_MOST_NAMES, _MOST_TYPES = 8, 64


def has_graph(key: Optional[Mapping[str, Any]]) -> bool:
    """Whether *key*, ``scheduling`` of an R, is one of Fluxion with a graph."""
    return key is not None and "graph" in key and not scheduling.is_treepool(key)


def encode(
    R: ResourceSet, levels: Optional[Sequence[str]] = None, properties: bool = False
) -> Encoded:
    """*R*, which has Fluxion's key, with the key of RFC 49 instead.

    *levels* and *properties* are as in ``encode.encode``. The warnings name each type of vertex
    that is left out. Raises InvalidKey or InvalidHardware.
    """
    findings = Findings()
    roots = jgf.read(findings, R.scheduling, "/scheduling")
    findings.check(InvalidKey)
    graph = _Graph(R, roots)
    nodes = [
        Nodes(idset.from_ids(ranks), topo_of(machine, levels)) for machine, ranks in graph.kinds()
    ]
    encoded = key.encode_into(attrs.evolve(R, scheduling=None), nodes, properties)
    warnings = [*graph.warnings(), *encoded.warnings]
    new = encoded.R
    if graph.site.locations:
        fabric, about_fabric = sites.fabric_of(graph.site, R.hosts, R.mask)
        new = attrs.evolve(new, scheduling={**(new.scheduling or {}), "fabric": fabric})
        warnings += about_fabric
    return attrs.evolve(encoded, R=new, warnings=tuple(warnings))


@attrs.frozen
class _Node:
    """What one node has: its cores, regions and GPUs. Equal nodes are of one kind."""

    cores: int
    regions: tuple[Region, ...]
    gpus: tuple[Gpu, ...]


class _Graph:
    """The nodes of R in the graph with these *roots*, where they are, and what is left out."""

    def __init__(self, R: ResourceSet, roots: Sequence[Vertex]) -> None:
        self.R = R
        self.site = Site(frozenset(R.hosts))
        #: How many vertices of each type are left out.
        self.left: Counter[str] = Counter()
        #: The properties of nodes that R does not have.
        self.properties: dict[str, None] = {}
        #: The nodes that R does not have, and those with GPUs of the same id.
        self.strange: list[str] = []
        self.twice: list[str] = []
        self._hosts = dict(zip(R.ranks, R.hosts))
        names = Counter(R.hosts)
        self._ranks = {host: rank for rank, host in self._hosts.items() if names[host] == 1}
        self._found: dict[int, _Node] = {}
        for root in roots:
            self._place(root, ())
        if not self._found:
            raise InvalidHardware("Fluxion's graph has none of the nodes of R")

    def _place(self, vertex: Vertex, above: tuple[Vertex, ...]) -> bool:
        """Read the nodes in *vertex*, which is in those *above*; whether there are any."""
        if vertex.type == "node":
            self._add(vertex, above)
            return True
        has_nodes = False
        for inner in vertex.inside:
            has_nodes |= self._place(inner, (*above, vertex))
        if not has_nodes and vertex.type != "cluster":
            outside = " outside nodes" if vertex.type in ("core", "gpu", "memory") else ""
            self.left[vertex.type + outside] += 1
        return has_nodes

    def _add(self, vertex: Vertex, above: tuple[Vertex, ...]) -> None:
        rank = self._ranks.get(vertex.name, vertex.rank)
        if rank not in self._hosts:
            self.strange.append(vertex.name)
            return
        if rank in self._found:
            raise InvalidHardware(
                f"Fluxion's graph has rank {rank} twice, {shown(vertex.name)} too"
            )
        node = _NodeReader(vertex, self.left)
        if node.twice:
            self.twice.append(vertex.name)
        self._found[rank] = _Node(node.cores, tuple(node.regions), tuple(node.gpus))
        location = tuple((v.type, v.name) for v in above if v.type != "cluster")
        if location:
            self.site.put(self._hosts[rank], location)
        for name in vertex.properties:
            if not self.R.properties.get(name, 0) >> rank & 1:
                self.properties[name] = None

    def kinds(self) -> list[tuple[Machine, list[int]]]:
        """The machines with cores, each with the ranks that are like it."""
        alike: dict[_Node, list[int]] = {}
        for rank, node in self._found.items():
            if node.cores:
                alike.setdefault(node, []).append(rank)
        return [
            (Machine("", node.cores, node.regions, gpus=node.gpus), ranks)
            for node, ranks in alike.items()
        ]

    def warnings(self) -> list[str]:
        """A line for each type of vertex that is left out, and for what is missing."""
        lines = [
            f"left out of Fluxion's graph: {count} of type {printable(shortened(name))}"
            for name, count in sorted(self.left.items())[:_MOST_TYPES]
        ]
        if len(self.left) > _MOST_TYPES:
            more = len(self.left) - _MOST_TYPES
            lines.append(f"left out of Fluxion's graph: vertices of {more} more types")
        for what, names in (
            ("left out of Fluxion's graph: properties that nodes lack in R", [*self.properties]),
            ("left out of Fluxion's graph: nodes that R lacks", self.strange),
            ("GPUs of one id in several places belong to the node itself", self.twice),
        ):
            if names:
                lines.append(f"{what}: {_listed(names)}")
        flat = self.R.mask & ~idset.from_ids(r for r, node in self._found.items() if node.cores)
        if flat:
            lines.append(
                f"Fluxion's graph has no cores of ranks {idset.encode(flat)}: they stay flat"
            )
        return lines


def _listed(names: Sequence[str]) -> str:
    every = [printable(shortened(name)) for name in names]
    more = len(every) - _MOST_NAMES
    return ", ".join(every[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


@attrs.frozen
class _Part:
    """A part of a node: its cores; the bytes of memory and the GPUs of no region inside it."""

    cores: int
    memory: int
    gpus: tuple[int, ...]


class _NodeReader:
    """Reads the vertices of one node. *left* counts those that are left out, by type."""

    def __init__(self, node: Vertex, left: Counter[str]) -> None:
        self.regions: list[Region] = []
        self.gpus: list[Gpu] = []
        self._left = left
        self._ids: dict[str, list[int]] = {"core": [], "gpu": []}
        whole = self._read(node)
        self.cores = whole.cores
        if whole.memory and whole.cores:
            self.regions.append(Region("node", whole.cores, whole.memory))
        if len(self.regions) > _MAX_REGIONS:
            what = f"more than {_MAX_REGIONS} sockets, NUMA nodes, groups and caches"
            raise InvalidHardware(f"node {shown(node.name)} has {what}")
        cores, gpus = (Counter(ids) for ids in self._ids.values())
        for number, count in cores.items():
            if count > 1:
                raise InvalidHardware(f"node {shown(node.name)} has core {number} twice")
        #: The GPUs whose id stands for several, as those of two vendors may.
        self.twice = [number for number, count in gpus.items() if count > 1]
        self.gpus = [
            *(gpu for gpu in self.gpus if gpus[gpu.id] == 1),
            *(Gpu(number, cores=self.cores) for number in self.twice),
        ]
        self.gpus.sort(key=lambda gpu: gpu.id)

    def _read(self, vertex: Vertex) -> _Part:
        """What is in *vertex*. A GPU is near the cores of the smallest vertex that has any.

        A NUMA node without cores is around those of *vertex*: hwloc has memory beside cores.
        """
        own: dict[str, list[int]] = {"core": [], "gpu": []}
        parts = []
        memory = 0
        for inner in vertex.inside:
            if inner.type in own and inner.size == 1:
                own[inner.type].append(inner.id)
            elif inner.type == "memory" and inner.unit in BYTES and inner.size > 0:
                memory += to_bytes(inner.size, inner.unit)
            else:
                parts.append((inner, self._region(inner)))
                continue
            for one in islice(jgf.walk(inner), 1, None):
                self._left[one.type] += 1
        for what, ids in own.items():
            self._ids[what] += ids
        cores = idset.union((idset.from_ids(own["core"]), *(part.cores for _, part in parts)))
        memory += sum(part.memory for _, part in parts)
        gpus = (*own["gpu"], *(number for _, part in parts for number in part.gpus))
        if not cores:
            return _Part(0, memory, gpus)
        self.gpus += (Gpu(number, cores=cores) for number in gpus)
        if any(_kind(inner) == "numa" and not part.cores for inner, part in parts):
            self.regions.append(Region("numa", cores, memory))
            memory = 0
        return _Part(cores, memory, ())

    def _region(self, vertex: Vertex) -> _Part:
        """As _read, of a vertex that is a region, or else left out."""
        part = self._read(vertex)
        kind = _kind(vertex)
        if kind is None or not (part.cores or kind == "numa"):
            self._left[vertex.type] += 1
        if kind is None or not part.cores:
            return part
        self.regions.append(Region(kind, part.cores, part.memory))
        return attrs.evolve(part, memory=0)


def _kind(vertex: Vertex) -> Optional[str]:
    """The kind of region that *vertex* is, if it is one."""
    return _KINDS.get(vertex.type) or _KINDS.get(vertex.basename.lower())
