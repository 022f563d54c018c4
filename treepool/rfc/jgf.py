"""Fluxion's key (RFC 40): the graph of a cluster's resources in JSON Graph Format, as trees.

    {"graph": {"nodes": [{"id": "0", "metadata": {"type": "cluster"}},
                         {"id": "1", "metadata": {"type": "node", "name": "n0", "rank": 0}},
                         {"id": "2", "metadata": {"type": "core", "id": 0, "rank": 0}}],
               "edges": [{"source": "0", "target": "1"}, {"source": "1", "target": "2"}]}}

RFC 40 wants every key of a vertex. Fluxion 0.54 leaves out those with a default, and so may a file
here: ``basename`` is the type, ``name`` the basename and the id (without one, that of the vertex),
``size`` 1, ``rank`` -1 (none). An edge without ``metadata`` is one of containment. Before Fluxion
0.38 the subsystem of an edge was a key of its ``name``. Edges of other subsystems, such as power,
are ignored, as are unknown keys.
"""

from __future__ import annotations

from typing import Any, Iterator, Optional

import attrs

from treepool.rfc.findings import Findings, Readers, shown

#: Deepest nesting of vertices, and most vertices.
MAX_DEPTH, MAX_VERTICES = 64, 1 << 22

#: Highest id of a core or GPU.
MAX_ID = (1 << 16) - 1

#: Largest size of a vertex, in its unit.
MAX_SIZE = 1 << 62

_CONTAINMENT = "containment"

#: The vertices whose ids are those of R.
_WITH_ID = ("core", "gpu")


@attrs.define(eq=False)
class Vertex:
    """One resource and those inside it.

    ``id`` is that of the core or GPU in R, 0 for other types. ``rank`` is the broker's, -1 if none
    is given. ``size`` counts in ``unit``. ``properties`` are names.
    """

    type: str
    name: str
    basename: str
    id: int
    rank: int
    size: int
    unit: str
    properties: tuple[str, ...]
    inside: list[Vertex] = attrs.field(factory=list)


def read(findings: Findings, scheduling: object, at: str) -> list[Vertex]:
    """The vertices that are in no other, of the key *scheduling* at JSON pointer *at*.

    Problems are noted in *findings*, and the result is then of no use.
    """
    reader = _Reader(findings)
    findings.members(scheduling, at, {"graph": reader.graph}, required=("graph",))
    return reader.roots


class _Reader:
    """Reads one graph."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.roots: list[Vertex] = []
        self._vertices: dict[str, Vertex] = {}
        self._around: dict[str, str] = {}
        text, number = findings.string, self._number
        self._of_vertex: Readers = {"id": text, "metadata": self._metadata}
        self._of_metadata: Readers = {
            "type": lambda v, at: findings.string(v, at, least=1),
            "basename": text,
            "name": text,
            "id": number,
            "rank": number,
            "size": number,
            "unit": text,
            "properties": lambda v, at: tuple(findings.values(v, at, lambda v, at: None)),
        }
        self._of_edge: Readers = {"source": text, "target": text, "metadata": self._subsystem}

    def _number(self, value: object, at: str) -> int:
        return self.findings.integer(value, at, least=-MAX_SIZE, most=MAX_SIZE)

    def graph(self, value: object, at: str) -> None:
        """The whole graph."""
        readers: Readers = {
            "nodes": lambda v, at: self.findings.items(v, at, self.vertex),
            "edges": lambda v, at: self.findings.items(v, at, self.edge),
        }
        nodes = value.get("nodes") if isinstance(value, dict) else None
        if isinstance(nodes, list) and len(nodes) > MAX_VERTICES:
            self.findings.note(f"{at}/nodes", f"has more than {MAX_VERTICES} vertices")
            return
        self.findings.members(value, at, readers, required=readers)
        if not len(self.findings):
            self.roots = [v for name, v in self._vertices.items() if name not in self._around]
            self._check_depth(at)

    def vertex(self, value: object, at: str) -> None:
        """One of ``nodes``."""
        found = self.findings.members(value, at, self._of_vertex, required=self._of_vertex)
        vertex = found.get("metadata")
        if vertex is None or "id" not in found:
            return
        if not vertex.name:
            vertex.name = f"{vertex.basename}{found['id']}"
        if self._vertices.setdefault(found["id"], vertex) is not vertex:
            self.findings.note(f"{at}/id", f"{shown(found['id'])} is an earlier vertex too")

    def _metadata(self, value: object, at: str) -> Optional[Vertex]:
        found = self.findings.members(value, at, self._of_metadata, required=("type",))
        kind, number = found.get("type", ""), found.get("id", -1)
        basename = found.get("basename", kind)
        if kind in _WITH_ID and not 0 <= number <= MAX_ID:
            if "id" in found:
                self.findings.note(f"{at}/id", f"must be 0 to {MAX_ID} for a {kind}, not {number}")
            else:
                self.findings.note(at, f"key 'id' is missing, which a {kind} needs")
        return Vertex(
            kind,
            found.get("name") or (f"{basename}{number}" if "id" in found else ""),
            basename,
            number,
            found.get("rank", -1),
            found.get("size", 1),
            found.get("unit", ""),
            found.get("properties", ()),
        )

    def edge(self, value: object, at: str) -> None:
        """One of ``edges``: note what its target is inside of."""
        found = self.findings.members(value, at, self._of_edge, required=("source", "target"))
        if found.get("metadata", _CONTAINMENT) != _CONTAINMENT:
            return
        ends = [found.get(end, "") for end in ("source", "target")]
        for end, name in zip(("source", "target"), ends):
            if name not in self._vertices:
                if not len(self.findings):  # otherwise that vertex may be the one with a problem
                    self.findings.note(f"{at}/{end}", f"there is no vertex {shown(name)}")
                return
        source, target = ends
        outer = self._around.setdefault(target, source)
        if outer != source:
            both = f"{shown(outer)} and {shown(source)}"
            self.findings.note(f"{at}/target", f"vertex {shown(target)} is in both {both}")
        else:
            self._vertices[source].inside.append(self._vertices[target])

    def _subsystem(self, value: object, at: str) -> str:
        """The subsystem of an edge that leads inwards; "" of others."""
        readers: Readers = {
            "subsystem": self.findings.string,
            "name": lambda v, at: self.findings.values(v, at, self.findings.string),
        }
        found = self.findings.members(value, at, readers)
        name = found.get("name", {})
        if "subsystem" in found or not name:
            return str(found.get("subsystem", _CONTAINMENT))
        return _CONTAINMENT if name.get(_CONTAINMENT, "in") != "in" else ""

    def _check_depth(self, at: str) -> None:
        level, count = self.roots, 0
        for _ in range(MAX_DEPTH):
            count += len(level)
            level = [inner for vertex in level for inner in vertex.inside]
        if level:
            self.findings.note(f"{at}/edges", f"vertices are nested deeper than {MAX_DEPTH} levels")
        elif count < len(self._vertices):
            self.findings.note(f"{at}/edges", "some vertices are inside themselves")


def walk(vertex: Vertex) -> Iterator[Vertex]:
    """*vertex* and all vertices in it, outer ones first."""
    level: list[Any] = [vertex]
    while level:
        yield from level
        level = [inner for one in level for inner in one.inside]
