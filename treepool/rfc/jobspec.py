"""RFC 14 jobspecs (and RFC 25, version 1): what a job asks for.

Read is what scheduling needs: the resource list, and from ``attributes.system`` the duration, the
RFC 31 constraint and treepool's own options. The rest (the tasks, the environment, which the job
manager takes out before the scheduler sees it) is for others to check. So ``tasks`` may be missing;
slots need a label only where there are tasks to name them.

Flux submits every shape of resource list as version 1, so RFC 25's restrictions of the resource
graph are not enforced; its required ``duration`` is.
"""

from __future__ import annotations

import math
from typing import Any, Mapping, Optional, Sequence, Union

import attrs

from treepool.errors import InvalidCount, InvalidJobspec
from treepool.rfc import constraint, count, document
from treepool.rfc.constraint import Constraint
from treepool.rfc.count import Count
from treepool.rfc.findings import shown

#: Deepest nesting of resource vertices accepted.
MAX_DEPTH = 32

#: Most vertices in one resource list.
MAX_VERTICES = 4096

#: Largest version accepted: Flux reads it into a C int.
MAX_VERSION = (1 << 31) - 1

#: The keys of an RFC 14 resource vertex.
VERTEX_KEYS = ("type", "count", "unit", "exclusive", "with", "label", "id")


@attrs.frozen
class Vertex:
    """One RFC 14 resource vertex: *count* of *type*, each with its *children*.

    ``exclusive`` is None where the jobspec does not say, ``unit`` is what ``count`` is in (memory
    and storage), ``pointer`` the JSON pointer of the vertex in what was read, for messages.
    """

    type: str
    count: Count
    children: tuple[Vertex, ...] = ()
    exclusive: Optional[bool] = None
    unit: Optional[str] = None
    label: Optional[str] = None
    id: Optional[str] = None
    pointer: str = attrs.field(default="", eq=False)


@attrs.frozen
class Jobspec:
    """What a scheduler reads of an RFC 14 jobspec.

    ``duration`` is in seconds, 0 for unlimited or unset. ``constraint`` is None if every rank
    satisfies it. ``options`` is ``attributes.system.treepool``, empty if absent; its values are as
    they came, unchecked.
    """

    resources: tuple[Vertex, ...]
    duration: float = 0.0
    constraint: Optional[Constraint] = None
    options: Mapping[str, Any] = attrs.field(factory=dict, hash=False)
    version: int = 1


def read(jobspec: Union[Mapping[str, Any], str]) -> Jobspec:
    """The jobspec in a dict or in JSON text.

    Raises InvalidJobspec; the message starts with the JSON pointer of what is wrong (for a text
    that is no JSON, with its line and column).
    """
    if isinstance(jobspec, str):
        jobspec = document.load(jobspec, InvalidJobspec, "jobspec")
    if not isinstance(jobspec, Mapping):
        raise _wrong("", "a jobspec is an object", jobspec)
    for key in ("version", "resources", "attributes"):
        if key not in jobspec:
            raise InvalidJobspec(f"/: the required key {key} is missing")
    version = jobspec["version"]
    if not _is_integer(version):
        raise _wrong("/version", "the version is an integer", version)
    if not 1 <= version <= MAX_VERSION:
        raise InvalidJobspec(f"/version: the version is from 1 to {MAX_VERSION}")
    system = _system(jobspec["attributes"], version)
    # flux-core's own pool tests leave out tasks and labels.
    labels_required = bool(_tasks(jobspec))
    return Jobspec(
        resources=_Reader(labels_required).resources(jobspec["resources"], "/resources"),
        duration=_duration(system, version),
        constraint=_constraint(system),
        options=_options(system),
        version=version,
    )


def read_resources(resources: Sequence[object]) -> tuple[Vertex, ...]:
    """The vertices of an RFC 14 resource list; their pointers start at the list.

    Raises InvalidJobspec for a list that breaks RFC 14, with the JSON pointer of the vertex.
    """
    return _Reader(labels_required=True).resources(resources, "")


def from_resources(
    resources: Sequence[object],
    duration: float = 0.0,
    constraints: Optional[Mapping[str, Any]] = None,
    options: Optional[Mapping[str, Any]] = None,
) -> dict[str, Any]:
    """The smallest jobspec that asks for *resources*, running ``true`` once in each slot.

    *duration* is in seconds, *constraints* an RFC 31 object, *options* treepool's own. The version
    is 1, as Flux gives all jobspecs. Raises InvalidJobspec if the result would not be valid.
    """
    system: dict[str, Any] = {"duration": duration}
    if constraints is not None:
        system["constraints"] = constraints
    if options is not None:
        system["treepool"] = options
    vertices = _Reader(labels_required=True).resources(resources, "/resources")
    jobspec: dict[str, Any] = {
        "version": 1,
        "resources": resources,
        "tasks": [
            {"command": ["true"], "slot": label, "count": {"per_slot": 1}}
            for label in _slot_labels(vertices)
        ],
        "attributes": {"system": system},
    }
    if not jobspec["tasks"]:
        raise InvalidJobspec("/resources: there is no slot for a task to run in")
    read(jobspec)
    return jobspec


class _Reader:
    """Reads one resource list, counting vertices and collecting labels on the way."""

    def __init__(self, labels_required: bool) -> None:
        self.labels_required = labels_required
        self.labels: set[str] = set()
        self.vertices = 0

    def resources(self, value: object, pointer: str, depth: int = 1) -> tuple[Vertex, ...]:
        """resources: '[' vertex (',' vertex)* ']'"""
        if not isinstance(value, list):
            raise _wrong(pointer, "a resource list is a list", value)
        if not value:
            raise InvalidJobspec(f"{pointer or '/'}: a resource list has at least one vertex")
        if depth > MAX_DEPTH:
            raise InvalidJobspec(f"{pointer}: resource nesting depth is above {MAX_DEPTH}")
        self.vertices += len(value)
        if self.vertices > MAX_VERTICES:
            raise InvalidJobspec(f"{pointer or '/'}: more than {MAX_VERTICES} vertices")
        return tuple(self.vertex(v, f"{pointer}/{i}", depth) for i, v in enumerate(value))

    def vertex(self, value: object, pointer: str, depth: int) -> Vertex:
        """vertex: an object of VERTEX_KEYS, of which ``type`` and ``count`` are required."""
        if not isinstance(value, dict):
            raise _wrong(pointer, "a resource vertex is an object", value)
        for key in value:
            if key not in VERTEX_KEYS:
                known = ", ".join(VERTEX_KEYS)
                raise InvalidJobspec(
                    f"{pointer}: unknown key {shown(key)}; a resource vertex has {known}"
                )
        for key in ("type", "count"):
            if key not in value:
                raise InvalidJobspec(f"{pointer}: the required key {key} is missing")
        kind = _string(value, "type", pointer)
        if not kind:
            raise InvalidJobspec(f"{pointer}/type: a resource type is not empty")
        exclusive = value.get("exclusive")
        if "exclusive" in value and not isinstance(exclusive, bool):
            raise _wrong(f"{pointer}/exclusive", "exclusive is true or false", exclusive)
        label = self.label(value, kind, pointer)
        children: tuple[Vertex, ...] = ()
        if "with" in value:
            children = self.resources(value["with"], f"{pointer}/with", depth + 1)
        elif kind == "slot":
            raise InvalidJobspec(f"{pointer}: a slot has resources under the key with")
        return Vertex(
            type=kind,
            count=_count(value["count"], f"{pointer}/count"),
            children=children,
            exclusive=exclusive,
            unit=_string(value, "unit", pointer),
            label=label,
            id=_string(value, "id", pointer),
            pointer=pointer,
        )

    def label(self, vertex: dict[str, object], kind: str, pointer: str) -> Optional[str]:
        label = _string(vertex, "label", pointer)
        if label is None:
            if kind == "slot" and self.labels_required:
                raise InvalidJobspec(f"{pointer}: the required key label of a slot is missing")
        elif label in self.labels:
            raise InvalidJobspec(f"{pointer}/label: another vertex has the label {shown(label)}")
        else:
            self.labels.add(label)
        return label


def _slot_labels(vertices: Sequence[Vertex]) -> list[str]:
    labels: list[str] = []
    for vertex in vertices:
        if vertex.type == "slot" and vertex.label is not None:
            labels.append(vertex.label)
        labels += _slot_labels(vertex.children)
    return labels


def _tasks(jobspec: Mapping[str, Any]) -> list[object]:
    tasks = jobspec.get("tasks", [])
    if not isinstance(tasks, list):
        raise _wrong("/tasks", "tasks is a list", tasks)
    return tasks


def _system(attributes: object, version: int) -> dict[str, Any]:
    """``attributes.system``; RFC 14's schema lets attributes be null, RFC 25 requires system."""
    if attributes is None:
        attributes = {}
    if not isinstance(attributes, dict):
        raise _wrong("/attributes", "attributes is an object", attributes)
    if "system" not in attributes:
        if version == 1:
            raise InvalidJobspec("/attributes: the required key system is missing")
        return {}
    system = attributes["system"]
    if not isinstance(system, dict):
        raise _wrong("/attributes/system", "system is an object", system)
    return system


def _duration(system: dict[str, Any], version: int) -> float:
    pointer = "/attributes/system/duration"
    if "duration" not in system:
        if version == 1:
            raise InvalidJobspec("/attributes/system: the required key duration is missing")
        return 0.0
    value = system["duration"]
    if not _is_integer(value) and not isinstance(value, float):
        raise _wrong(pointer, "a duration is a number of seconds", value)
    try:
        duration = float(value)
    except OverflowError:
        duration = math.inf
    if not 0 <= duration < math.inf:
        raise InvalidJobspec(f"{pointer}: a duration is finite and not negative")
    return duration


def _constraint(system: dict[str, Any]) -> Optional[Constraint]:
    if "constraints" not in system:
        return None
    parsed = constraint.parse(system["constraints"])
    # flux-core's queue-update plugin sets {}, which RFC 31 defines to match all.
    return None if parsed == Constraint() else parsed


def _options(system: dict[str, Any]) -> dict[str, Any]:
    pointer = "/attributes/system/treepool"
    options = system.get("treepool", {})
    if not isinstance(options, dict):
        raise _wrong(pointer, "treepool options are an object", options)
    for key in options:
        if not isinstance(key, str):
            raise _wrong(pointer, "the key of an option is a string", key)
    return dict(options)


def _count(value: object, pointer: str) -> Count:
    try:
        return count.parse(value)
    except InvalidCount as e:
        raise InvalidJobspec(f"{pointer}: {e}") from None


def _string(vertex: dict[str, object], key: str, pointer: str) -> Optional[str]:
    """The string under *key* of *vertex*, None if there is none."""
    if key not in vertex:
        return None
    value = vertex[key]
    if not isinstance(value, str):
        raise _wrong(f"{pointer}/{key}", f"{key} is a string", value)
    return value


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _wrong(pointer: str, rule: str, value: object) -> InvalidJobspec:
    return InvalidJobspec(f"{pointer or '/'}: {rule}, not {shown(value)}")
