"""A whole jobspec against RFC 14, and RFC 25 for version 1: every problem, and what is unusual.

``schemas/rfc14-jobspec.json`` has the rules about one value. The rules about two values are here: a
task names a slot, and what it counts is in that slot. ``jobspec.read`` adds the first problem of
what it reads more exactly (counts, labels, constraints). A scheduler reads a jobspec more
leniently, by ``jobspec.read`` alone, because flux-core lets through some that break RFC 14.

RFC 25 allows four resource graphs in version 1 (``slot>core``, ``node>slot>core``, each with gpu
beside core). flux-core submits every graph as version 1, and RFC 14 has an example of another one
with that version, so another graph is a warning and no problem.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Optional

from treepool.errors import InvalidInput, InvalidJobspec, Problem
from treepool.rfc import jobspec, schema
from treepool.rfc.findings import Findings, place, shown
from treepool.rfc.jobspec import Vertex

#: The keys of a jobspec.
_KEYS = ("version", "resources", "tasks", "attributes")

#: What RFC 25 allows inside each type of vertex, "" being the resource list.
_INSIDE_V1 = {"": ("node", "slot"), "node": ("slot",), "slot": ("core", "gpu")}


def problems(document: Any) -> list[Problem]:
    """Everything that the schema and the cross-references find wrong in *document*, by place.

    Also the first thing that the reader stumbles over elsewhere.
    """
    findings = Findings()
    problem = first_problem(document)
    if problem is not None:
        findings.form.append(problem)
    for wrong in _tasks(document):
        if findings.enough:
            break
        findings.note(wrong.pointer, wrong.message)
    return findings.merged(schema.violations(document, "rfc14-jobspec"))


def first_problem(document: Any, read: Any = jobspec.read) -> Optional[Problem]:
    """The problem for which *read* refuses *document*, None if it does not."""
    try:
        read(document)
    except InvalidInput as e:
        pointer, _, message = str(e).partition(": ")
        return Problem("" if pointer == "/" else pointer, message)
    return None


def warnings(document: Mapping[str, Any]) -> list[str]:
    """What is unusual in valid jobspec *document*, one short line each with its JSON pointer."""
    lines = [
        f"{place('', key)}: unknown key; RFC 14 has {', '.join(_KEYS)}, and Flux refuses others"
        for key in list(document)[: len(_KEYS) + 1]
        if key not in _KEYS
    ][:1]
    if document["version"] == 1:
        problem = _beyond_v1(jobspec.read(document).resources)
        if problem is not None:
            lines.append(f"{problem}; RFC 25 has no such resources in version 1")
    return lines


def _tasks(document: Any) -> Iterator[Problem]:
    """Tasks that name no slot, or count a type of resource that is not in their slot."""
    tasks = document.get("tasks") if isinstance(document, Mapping) else None
    if not isinstance(tasks, list):
        return
    try:
        slots = _slots(jobspec.read_resources(document.get("resources", [])))
    except InvalidJobspec:
        return
    for i, task in enumerate(tasks):
        if not isinstance(task, dict) or not isinstance(task.get("slot"), str):
            continue
        name = task["slot"]
        if name not in slots:
            known = (
                f"they are {', '.join(map(shown, list(slots)[:8]))}" if slots else "there is none"
            )
            yield Problem(f"/tasks/{i}/slot", f"no slot has the label {shown(name)}; {known}")
            continue
        count = task.get("count")
        counted = count.get("per_resource") if isinstance(count, dict) else None
        kind = counted.get("type") if isinstance(counted, dict) else None
        if isinstance(kind, str) and kind not in slots[name]:
            at = f"/tasks/{i}/count/per_resource/type"
            yield Problem(at, f"slot {shown(name)} has no resource of type {shown(kind)}")


def _slots(vertices: tuple[Vertex, ...]) -> dict[str, set[str]]:
    """The types of vertices in each slot, by its label."""
    found: dict[str, set[str]] = {}
    for vertex in vertices:
        if vertex.type == "slot" and vertex.label is not None:
            found[vertex.label] = _types(vertex.children)
        found.update(_slots(vertex.children))
    return found


def _types(vertices: tuple[Vertex, ...]) -> set[str]:
    return {v.type for v in vertices}.union(*(_types(v.children) for v in vertices))


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
        below = _beyond_v1(vertex.children, vertex.type)
        if below is not None:
            return below
    if inside == "slot" and all(vertex.type != "core" for vertex in vertices):
        return Problem(vertices[0].pointer.rpartition("/")[0], "no core in slot")
    if inside in ("", "node") and len(vertices) > 1:
        return Problem(vertices[1].pointer, "a second vertex beside the first")
    return None
