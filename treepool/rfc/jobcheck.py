"""Checks a whole jobspec against RFC 14, and against RFC 25 if it has version 1.

``jobspec.read_into`` reads what a scheduler needs of a jobspec, and is lenient because flux-core
accepts some that break RFC 14. This module checks the rest: tasks, the attributes that RFC 14
defines, that each task names a slot, and that the slot has the resources that the task counts.
Where the text of RFC 14 and its own schema differ, this module follows the text.

RFC 25 allows four resource graphs in version 1 (``slot>core``, ``node>slot>core``, each with gpu
beside core). flux-core submits every graph as version 1, and RFC 14 has an example of another one
with that version. Another graph is therefore a warning and not a problem. So are more tasks than
slots: RFC 25 forbids them, and has them in its use case 2.1.
"""

from __future__ import annotations

from typing import Any, Mapping, Optional

from treepool.errors import Problem
from treepool.rfc import jobspec
from treepool.rfc.findings import Findings, Reader, Readers, pointer_to, shown
from treepool.rfc.jobspec import Vertex, fewest, walk

#: The keys of a jobspec.
_KEYS = ("version", "resources", "tasks", "attributes")

#: What RFC 25 allows inside each type of vertex, "" being the resource list.
_INSIDE_V1 = {"": ("node", "slot"), "node": ("slot",), "slot": ("core", "gpu")}


def problems(document: Any) -> list[Problem]:
    """All problems of jobspec *document*, in the order of their places."""
    findings = Findings()
    found = jobspec.read_into(findings, document, labels_required=True)
    if isinstance(document, dict):
        good = not any(p.pointer.startswith("/resources") for p in findings.problems())
        vertices = found.resources if good and "resources" in document else None
        checker = _Checker(findings, found.version == 1, vertices)
        readers = {"tasks": checker.tasks, "attributes": checker.attributes}
        findings.members(document, "", readers, required=("tasks",))
    return findings.problems()


def warnings(document: Mapping[str, Any]) -> list[str]:
    """What is unusual in valid jobspec *document*: one short line each, with its JSON pointer."""
    known = ", ".join(_KEYS)
    lines = [
        f"{pointer_to('', key)}: unknown key; RFC 14 has {known}, and Flux refuses others"
        for key in list(document)[: len(_KEYS) + 1]
        if key not in _KEYS
    ][:1]
    if document["version"] == 1:
        vertices = jobspec.read(document).resources
        problem = _beyond_v1(vertices) or _not_an_integer(document["resources"])
        total, slots = document["tasks"][0]["count"].get("total", 1), fewest("slot", vertices)
        if problem is not None:
            lines.append(f"{problem}; RFC 25 has no such resources in version 1")
        elif total > slots:
            most = f"RFC 25 has at most one task in each of {shown(slots)} slots in version 1"
            lines.append(f"/tasks/0/count/total: {shown(total)} tasks; {most}")
    return lines


class _Checker:
    """Checks what ``jobspec.read_into`` does not look at.

    *vertices* are the resources; None if they are not known.
    """

    def __init__(
        self, findings: Findings, version_1: bool, vertices: Optional[tuple[Vertex, ...]]
    ) -> None:
        self.findings = findings
        self.version_1 = version_1
        #: The types of vertices in each slot, by its label, if they are known.
        self.slots = None if vertices is None else _slots(vertices)
        #: The fewest nodes that the job can have, as far as the resources tell.
        self.nodes = fewest("node", vertices or ())
        #: The slot of the task at hand, if it is known.
        self.of_task: Optional[str] = None

    def tasks(self, value: object, at: str) -> None:
        """``tasks``: one or more in RFC 14, exactly one in RFC 25."""
        self.findings.items(value, at, self.task, least=1)
        if self.version_1 and isinstance(value, list) and len(value) > 1:
            self.findings.note(at, "must have exactly one task in version 1 (RFC 25)")

    def task(self, value: object, at: str) -> None:
        self.of_task = None
        string = self.findings.string
        readers: Readers = {
            "command": lambda v, at: self.findings.items(v, at, string, least=1),
            "slot": self.slot,
            "count": self.count,
            "distribution": self.not_in_version_1(string),
            "attributes": self.not_in_version_1(self.task_attributes),
        }
        required = ("command", "slot", "count")
        self.findings.members(value, at, readers, required, closed=True)

    def slot(self, value: object, at: str) -> None:
        """The label of the slot that a task runs in."""
        label = self.findings.string(value, at)
        if self.slots is None or not isinstance(value, str):
            return
        if label in self.slots:
            self.of_task = label
        else:
            known = ", ".join(map(shown, list(self.slots)[:8]))
            known = f"the labels are {known}" if known else "there is none"
            self.findings.note(at, f"no slot has the label {shown(label)}; {known}")

    def counted(self, value: object, at: str) -> None:
        """The type of resource that a task counts. Its slot has such a resource."""
        kind, slot = self.findings.string(value, at), self.of_task
        types = self.slots[slot] if self.slots and slot is not None else None
        if isinstance(value, str) and types is not None and kind not in types:
            self.findings.note(at, f"slot {shown(slot)} has no resource of type {shown(kind)}")

    def count(self, value: object, at: str) -> None:
        """How many tasks there are."""

        def per_slot(value: object, at: str) -> int:
            if self.version_1:
                return self.findings.one_of(value, at, (1,))
            return self.findings.integer(value, at, least=1)

        def per_resource(value: object, at: str) -> None:
            readers: Readers = {
                "type": self.counted,
                "count": lambda v, at: self.findings.integer(v, at, least=1),
            }
            self.findings.members(value, at, readers, required=readers)

        readers: Readers = {
            "per_slot": per_slot,
            "per_resource": self.not_in_version_1(per_resource),
            "total": self.total,
        }
        self.findings.members(value, at, readers, closed=True)
        if isinstance(value, dict) and len(value) != 1:
            self.findings.note(at, "must have exactly one of per_slot, per_resource and total")

    def total(self, value: object, at: str) -> None:
        """How many tasks the job has: in version 1 at least one on each node.

        Flux fails a job that has fewer.
        """
        number = self.findings.integer(value, at, least=1)
        if self.version_1 and 1 <= number < self.nodes:
            note = f"must be at least {shown(self.nodes)}, a task on each node, not {shown(number)}"
            self.findings.note(at, note)

    def cwd(self, value: object, at: str) -> None:
        """The working directory, an absolute path."""
        path = self.findings.string(value, at)
        if isinstance(value, str) and not path.startswith("/"):
            self.findings.note(at, f"must be an absolute path, not {shown(path)}")

    def not_in_version_1(self, read: Reader[Any]) -> Reader[Any]:
        """*read*, for a key that RFC 25 does not allow."""
        if not self.version_1:
            return read
        return lambda value, at: self.findings.note(at, "is not a key of version 1 (RFC 25)")

    def task_attributes(self, value: object, at: str) -> None:
        self.findings.members(value, at, {"environment": self.environment})
        if isinstance(value, dict):
            others = {k: v for k, v in value.items() if k != "environment"}
            self.findings.values(others, at, self.findings.string)

    def attributes(self, value: object, at: str) -> None:
        """``attributes`` of the jobspec; null is left to ``jobspec.read_into``."""
        if isinstance(value, dict):
            readers = {"system": self.system, "user": self.any_object}
            self.findings.members(value, at, readers, closed=True)

    def system(self, value: object, at: str) -> None:
        """What RFC 14 defines of ``attributes.system``; other keys are for other programs."""
        string = self.findings.string
        readers: Readers = {
            **dict.fromkeys(("queue", "bank", "project"), string),
            "cwd": self.cwd,
            "preemptible-after": self.findings.number,
            "environment": self.environment,
            "dependencies": lambda v, at: self.findings.items(v, at, self.dependency, least=1),
            "job": lambda v, at: self.findings.values(v, at, string),
            "shell": lambda v, at: self.findings.members(v, at, {"options": self.any_object}),
            "files": self.any_object,
        }
        self.findings.members(value, at, readers)

    def dependency(self, value: object, at: str) -> None:
        """A dependency (RFC 26)."""
        readers = {"scheme": self.findings.string, "value": self.findings.string}
        self.findings.members(value, at, readers, required=readers)

    def environment(self, value: object, at: str) -> None:
        """Variables to set, or to unset (null)."""

        def variable(value: object, at: str) -> None:
            if value is not None and not isinstance(value, str):
                self.findings.mistyped(at, "a string or null", value)

        self.findings.values(value, at, variable)

    def any_object(self, value: object, at: str) -> None:
        """An object with any keys."""
        self.findings.members(value, at, {})


def _slots(vertices: tuple[Vertex, ...]) -> dict[str, set[str]]:
    """The types of vertices in each slot, by its label."""
    return {
        slot.label: {vertex.type for vertex in walk(slot.children)}
        for slot in walk(vertices)
        if slot.type == "slot" and slot.label is not None
    }


def _beyond_v1(vertices: tuple[Vertex, ...], inside: str = "") -> Optional[Problem]:
    """The first of *vertices*, in a vertex of type *inside*, that RFC 25 does not allow."""
    allowed = _INSIDE_V1.get(inside, ())
    for vertex in vertices:
        what = shown(vertex.type)
        if vertex.type not in allowed:
            where = f"in {inside}" if inside else "at the top"
            return Problem(vertex.pointer, f"{what} {where}")
        if not vertex.count.fixed:
            return Problem(f"{vertex.pointer}/count", f"a range of {what}")
        if vertex.id is not None:
            return Problem(f"{vertex.pointer}/id", f"an id of {what}")
        if vertex.exclusive is not None and vertex.type != "node":
            return Problem(f"{vertex.pointer}/exclusive", f"an exclusive {what}")
        below = _beyond_v1(vertex.children, vertex.type)
        if below is not None:
            return below
    if inside == "slot" and all(vertex.type != "core" for vertex in vertices):
        return Problem(vertices[0].pointer.rpartition("/")[0], "no core in slot")
    if inside in ("", "node") and len(vertices) > 1:
        return Problem(vertices[1].pointer, "a second vertex beside the first")
    for i, vertex in enumerate(vertices):
        if any(vertex.type == other.type for other in vertices[:i]):
            return Problem(vertex.pointer, f"a second {shown(vertex.type)} in {inside}")
    return None


def _not_an_integer(resources: Any, at: str = "/resources") -> Optional[Problem]:
    """The first count in valid *resources* that is a text or an object."""
    for i, vertex in enumerate(resources):
        count = vertex["count"]
        if not isinstance(count, int):
            form = f"the text {shown(count)}" if isinstance(count, str) else shown(count)
            return Problem(f"{at}/{i}/count", f"{form} as a count")
        below = _not_an_integer(vertex.get("with", ()), f"{at}/{i}/with")
        if below is not None:
            return below
    return None
