"""RFC 14 and 25 jobspecs: what scheduling reads of them, what may be missing, one made of a shape.

This module reads what scheduling needs: the resource list, and from ``attributes.system`` the
duration, the RFC 31 constraint and treepool's own options. ``jobcheck`` checks the rest. ``tasks``
may be missing, and slots need labels only if there are tasks.

Flux submits every form of resource list as version 1. RFC 25's restrictions of the resource graph
are therefore not enforced, but its required ``duration`` is.
"""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping, Optional, Sequence, Union

import attrs

from treepool.errors import InvalidCount, InvalidJobspec, Problem
from treepool.rfc import constraint, count, document
from treepool.rfc.constraint import Constraint
from treepool.rfc.count import Count
from treepool.rfc.findings import Findings, Readers, pointer_to, shown
from treepool.rfc.quote import did_you_mean

#: Deepest nesting of resource vertices accepted.
MAX_DEPTH = 32

#: Most vertices in one resource list.
MAX_VERTICES = 4096

#: Largest version accepted: Flux reads it into a C int.
MAX_VERSION = (1 << 31) - 1

_ONE = Count(1, 1)


@attrs.frozen
class Vertex:
    """One RFC 14 resource vertex: *count* of *type*, each with its *children*.

    ``exclusive`` is None if the jobspec does not say. ``unit`` is the unit of ``count``, for memory
    and storage. ``pointer`` is the JSON pointer of the vertex in its document, for messages.
    """

    type: str
    count: Count
    children: tuple[Vertex, ...] = ()
    exclusive: Optional[bool] = None
    unit: Optional[str] = None
    label: Optional[str] = None
    id: Optional[str] = None
    pointer: str = attrs.field(default="", eq=False)


def walk(vertices: Iterable[Vertex]) -> Iterator[Vertex]:
    """*vertices* and all below them, parents first."""
    for vertex in vertices:
        yield vertex
        yield from walk(vertex.children)


def fewest(kind: str, vertices: Iterable[Vertex]) -> int:
    """The smallest number of vertices of type *kind* that *vertices* allow."""
    return sum(
        vertex.count.minimum * (vertex.type == kind or fewest(kind, vertex.children))
        for vertex in vertices
    )


@attrs.frozen
class Jobspec:
    """The parts of an RFC 14 jobspec that a scheduler needs.

    ``duration`` is in seconds, 0 for unlimited or unset. ``constraint`` is None if every rank
    satisfies it. ``options`` is ``attributes.system.treepool``, empty if absent. Its values are not
    checked.
    """

    resources: tuple[Vertex, ...]
    duration: float = 0.0
    constraint: Optional[Constraint] = None
    options: Mapping[str, Any] = attrs.field(factory=dict, hash=False)
    version: int = 1


def read(jobspec: Union[Mapping[str, Any], str]) -> Jobspec:
    """The jobspec in a dict or in JSON text.

    Raises InvalidJobspec. The message starts with the JSON pointer of the problem, or with the line
    and column if a text is not JSON.
    """
    if isinstance(jobspec, str):
        jobspec = document.load(jobspec, InvalidJobspec, "jobspec")
    findings = Findings()
    spec = read_into(findings, dict(jobspec) if isinstance(jobspec, Mapping) else jobspec)
    findings.check(InvalidJobspec)
    return spec


def read_into(findings: Findings, jobspec: object, labels_required: bool = False) -> Jobspec:
    """The jobspec *jobspec*, a JSON value; its problems are noted in *findings*.

    Slots need labels if there are tasks, or if *labels_required*.
    """
    reader = _Reader(findings, labels_required)
    readers: Readers = {
        "version": reader.read_version,
        "tasks": reader.tasks,
        "resources": reader.resources,
        "attributes": reader.attributes,
    }
    required = ("version", "resources", "attributes")
    members = findings.members(jobspec, "", readers, required)
    system = members.get("attributes", {})
    # flux-core's queue-update plugin sets {}, which RFC 31 defines to match all.
    stated = system.get("constraints", Constraint())
    return Jobspec(
        resources=members.get("resources", ()),
        duration=system.get("duration", 0.0),
        constraint=None if stated == Constraint() else stated,
        options=system.get("treepool", {}),
        version=reader.version,
    )


def resource_problems(resources: object) -> list[Problem]:
    """All problems of an RFC 14 resource list; their pointers start at the list."""
    findings = Findings()
    _Reader(findings, labels_required=True).resources(resources, "")
    return findings.problems()


def from_resources(
    resources: Sequence[object],
    duration: float = 0.0,
    constraints: Optional[Mapping[str, Any]] = None,
    options: Optional[Mapping[str, Any]] = None,
) -> dict[str, Any]:
    """The smallest jobspec that asks for *resources*, running ``true`` once in each slot.

    *duration* is in seconds, *constraints* is an RFC 31 object, and *options* are treepool's own.
    The version is 1, as in all jobspecs of Flux. Raises InvalidJobspec if the result is not valid.
    """
    system: dict[str, Any] = {"duration": duration}
    if constraints is not None:
        system["constraints"] = constraints
    if options is not None:
        system["treepool"] = options
    findings = Findings()
    vertices = _Reader(findings, labels_required=True).resources(resources, "/resources")
    findings.check(InvalidJobspec)
    jobspec: dict[str, Any] = {
        "version": 1,
        "resources": resources,
        "tasks": [
            {"command": ["true"], "slot": label, "count": {"per_slot": 1}}
            for label in [v.label for v in walk(vertices) if v.type == "slot"]
        ],
        "attributes": {"system": system},
    }
    if not jobspec["tasks"]:
        hints = ((v.type, did_you_mean(v.type, ("slot",))) for v in walk(vertices))
        only = next((f", only {shown(name)}{hint}" for name, hint in hints if hint), "")
        raise InvalidJobspec(f"/resources: there is no slot for a task to run in{only}")
    read(jobspec)
    return jobspec


class _Reader:
    """Reads one jobspec, and keeps what later parts of it depend on."""

    def __init__(self, findings: Findings, labels_required: bool) -> None:
        self.findings = findings
        self.labels_required = labels_required
        self.version = 0
        self.labels: set[str] = set()
        self.vertices = 0
        self.depth = 0
        self.vertex_readers: Readers = {
            "type": lambda v, at: findings.string(v, at, least=1),
            "count": self.count,
            "unit": findings.string,
            "exclusive": findings.boolean,
            "with": self.resources,
            "label": self.label,
            "id": findings.string,
        }

    def read_version(self, value: object, at: str) -> None:
        """``version``."""
        self.findings.integer(value, at, 1, MAX_VERSION)
        self.version = value if type(value) is int else 0

    def tasks(self, value: object, at: str) -> None:
        """Read whether there are tasks, which name slots by their labels.

        flux-core's own pool tests leave them out.
        """
        self.labels_required |= bool(self.findings.items(value, at, lambda task, at: task))

    def resources(self, value: object, at: str) -> tuple[Vertex, ...]:
        """resources: '[' vertex (',' vertex)* ']'"""
        self.vertices += len(value) if isinstance(value, list) else 0
        if self.depth == MAX_DEPTH:
            self.findings.note(at, f"resource nesting depth is above {MAX_DEPTH}")
            return ()
        if self.vertices > MAX_VERTICES:
            self.findings.note(at, f"more than {MAX_VERTICES} vertices")
            return ()
        self.depth += 1
        vertices = tuple(self.findings.items(value, at, self.vertex, least=1))
        self.depth -= 1
        return vertices

    def vertex(self, value: object, at: str) -> Vertex:
        """vertex: an object with ``type`` and ``count``, and in a slot ``with``"""
        required = ["type", "count"]
        if isinstance(value, dict) and value.get("type") == "slot":
            required += ["label", "with"] if self.labels_required else ["with"]
        members = self.findings.members(value, at, self.vertex_readers, required, closed=True)
        return Vertex(
            type=members.get("type", ""),
            count=members.get("count", _ONE),
            children=members.get("with", ()),
            exclusive=members.get("exclusive"),
            unit=members.get("unit"),
            label=members.get("label"),
            id=members.get("id"),
            pointer=at,
        )

    def count(self, value: object, at: str) -> Count:
        """The count of a vertex."""
        try:
            return count.parse(value)
        except InvalidCount as e:
            self.findings.note(pointer_to(at, *e.keys), str(e))
            return _ONE

    def label(self, value: object, at: str) -> str:
        """The label of a vertex, which no other vertex has."""
        label = self.findings.string(value, at)
        if isinstance(value, str) and label in self.labels:
            self.findings.note(at, f"another vertex has the label {shown(label)}")
        elif isinstance(value, str):
            self.labels.add(label)
        return label

    def attributes(self, value: object, at: str) -> dict[str, Any]:
        """What is read of ``attributes.system``. RFC 14 lets ``attributes`` be null, RFC 25 not."""
        required = ("system",) if self.version == 1 else ()
        if required or isinstance(value, dict):
            members = self.findings.members(value, at, {"system": self.system}, required)
            return dict(members.get("system", {}))
        if value is not None:
            self.findings.mistyped(at, "an object or null", value)
        return {}

    def system(self, value: object, at: str) -> dict[str, Any]:
        """What is read of ``attributes.system``, by key."""
        readers: Readers = {
            "duration": self.findings.number,
            "constraints": lambda v, at: constraint.read_into(self.findings, v, at),
            "treepool": lambda v, at: self.findings.values(v, at, lambda option, at: option),
        }
        required = ("duration",) if self.version == 1 else ()
        return self.findings.members(value, at, readers, required)
