"""RFC 14 and 25: what is read of a jobspec, and what is not a jobspec."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Iterable, Iterator, Optional

import pytest

from rfc.vertices import CORE, slot, vertex
from treepool.errors import InvalidJobspec
from treepool.rfc import constraint, count, jobspec
from treepool.rfc.jobspec import Vertex

#: The example files of RFC 14 and RFC 25, by name.
EXAMPLES = json.loads((Path(__file__).parent / "data" / "rfc14-jobspecs.json").read_text())


def job(
    resources: Any, version: int = 1, system: Optional[dict[str, Any]] = None
) -> dict[str, Any]:
    """A jobspec like those of the RFCs around *resources*, with *system* attributes added."""
    common = {"duration": 3600.0, "cwd": "/home/flux", "environment": {"HOME": "/home/flux"}}
    return {
        "version": version,
        "resources": resources,
        "tasks": [{"command": ["app"], "slot": "default", "count": {"per_slot": 1}}],
        "attributes": {"system": {**common, **(system or {})}},
    }


def rejection(value: Any) -> str:
    """The message with which *value* is refused as a jobspec; it is one line."""
    with pytest.raises(InvalidJobspec) as caught:
        jobspec.read(value)
    assert str(caught.value).isprintable()
    return str(caught.value)


# ---- What is read ----


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_rfc_14_and_25(name: str) -> None:
    source = EXAMPLES[name]
    read = jobspec.read(source)
    assert [v.type for v in walk(read.resources)] == types_in(source["resources"])
    assert read.version == source["version"]
    assert read.duration == source["attributes"]["system"]["duration"]
    assert jobspec.read(json.dumps(source)) == read
    assert jobspec.resource_problems(source["resources"]) == []


def walk(vertices: Iterable[Vertex]) -> Iterator[Vertex]:
    """All of *vertices*, each before its children."""
    for v in vertices:
        yield v
        yield from walk(v.children)


def types_in(resources: list[dict[str, Any]]) -> list[str]:
    """The types of a resource list, in the same order."""
    return [t for v in resources for t in (v["type"], *types_in(v.get("with", [])))]


def test_every_key_of_a_vertex_is_read() -> None:
    memory = {"type": "memory", "count": "2-8:2:*", "unit": "GB", "id": "0-3", "exclusive": False}
    source = [{"type": "slot", "count": 4, "label": "task", "exclusive": True, "with": [memory]}]
    (read,) = jobspec.read(job(source)).resources
    child = Vertex("memory", count.parse("2-8:2:*"), unit="GB", id="0-3", exclusive=False)
    assert read == Vertex("slot", count.parse(4), (child,), exclusive=True, label="task")


def test_a_missing_key_of_a_vertex_is_none() -> None:
    _, read = jobspec.read(job([slot(1, CORE), CORE])).resources
    assert (read.children, read.exclusive, read.unit, read.label, read.id) == ((), *[None] * 4)


def test_a_vertex_knows_its_place() -> None:
    resources = [CORE, vertex("node", 1, CORE, slot(1, CORE))]
    assert jobspec.read(job(resources)).resources[1].children[1].pointer == "/resources/1/with/1"


def test_what_flux_submit_writes_is_read() -> None:
    """``flux submit --dry-run -N2 -n4 -c8 -g1 -x --requires='a,^b host:foo[1-3] or -rank:0-3'``"""
    cores = [{"type": "core", "count": 8}, {"type": "gpu", "count": 1}]
    task = {"type": "slot", "count": 2, "with": cores, "label": "task"}
    constraints = {
        "or": [
            {"and": [{"properties": ["a", "^b"]}, {"hostlist": ["foo[1-3]"]}]},
            {"not": [{"ranks": ["0-3"]}]},
        ]
    }
    read = jobspec.read(
        {
            "resources": [{"type": "node", "count": 2, "exclusive": True, "with": [task]}],
            "tasks": [{"command": ["hostname"], "slot": "task", "count": {"per_slot": 1}}],
            "attributes": {
                "system": {
                    "duration": 0,
                    "environment": {"SHELL": "/bin/bash"},
                    "cwd": "/tmp",
                    "shell": {"options": {"rlimit": {"cpu": -1}}},
                    "constraints": constraints,
                }
            },
            "version": 1,
        }
    )
    assert read.resources[0].exclusive is True
    assert read.duration == 0.0
    assert read.constraint == constraint.parse(constraints)


def test_version_1_may_have_any_shape_because_flux_submits_all_as_version_1() -> None:
    shape = [slot(2, vertex("socket", 1, exclusive=True))]
    assert jobspec.read(job(shape)).version == 1


def test_tasks_may_be_missing_and_labels_if_tasks_are() -> None:
    source = job([vertex("slot", 1, CORE)])
    assert "label" in rejection(source)
    source["tasks"] = []
    assert jobspec.read(source).resources[0].label is None
    del source["tasks"]
    assert jobspec.read(source).resources[0].label is None


@pytest.mark.parametrize("constraints", [{}, {"and": []}])
def test_a_constraint_that_matches_all_is_none(constraints: dict[str, Any]) -> None:
    assert jobspec.read(job([CORE], system={"constraints": constraints})).constraint is None


def test_options_are_kept_as_they_are() -> None:
    options = {"locality": "required", "site": {"x": [1, None]}}
    assert jobspec.read(job([CORE], system={"treepool": options})).options == options
    assert jobspec.read(job([CORE])).options == {}


@pytest.mark.parametrize("attributes", [None, {}, {"system": {}}, {"user": {"a": 1}}])
def test_canonical_jobspecs_need_no_system_attributes(attributes: Any) -> None:
    source = {**job([CORE], 999), "attributes": attributes}
    assert jobspec.read(source).duration == 0.0


def test_equal_jobspecs_are_the_same_key_of_a_dict() -> None:
    one = jobspec.read(job([slot(1, CORE)], system={"treepool": {"a": []}}))
    other = jobspec.read(job([slot(1, CORE)], system={"treepool": {"a": []}}))
    assert {one: "remembered"}[other] == "remembered"
    assert one != jobspec.read(job([slot(1, CORE)]))


# ---- What is rejected, with its pointer ----


@pytest.mark.parametrize("key", ["version", "resources", "attributes"])
def test_a_missing_key_is_named(key: str) -> None:
    source = job([CORE])
    del source[key]
    assert rejection(source) == f"key {key!r} is missing"


def test_version_1_requires_a_duration() -> None:
    source = job([CORE])
    del source["attributes"]["system"]["duration"]
    assert rejection(source) == "/attributes/system: key 'duration' is missing"
    del source["attributes"]["system"]
    assert rejection(source) == "/attributes: key 'system' is missing"
    source["attributes"] = None
    assert rejection(source) == "/attributes: must be an object, not null"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": "1"}, "/version: must be an integer, not '1'"),
        ({"version": True}, "/version: must be an integer, not true"),
        ({"version": 0}, "/version: must be at least 1 and at most 2147483647, not 0"),
        ({"version": 10**5000}, "/version: an integer of 16610 bits is out of range"),
        ({"attributes": {"system": None}}, "/attributes/system: must be an object, not null"),
        ({"resources": None}, "/resources: must be an array, not null"),
        ({"resources": []}, "/resources: must not be empty"),
    ],
)
def test_an_error_names_its_place(changes: dict[str, Any], message: str) -> None:
    assert rejection({**job([CORE]), **changes}) == message


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("duration", "60", "must be a number, not '60'"),
        ("duration", -1, "must be at least 0, not -1"),
        ("duration", math.nan, "nan is out of range"),
        ("duration", 10**400, "an integer of 1329 bits is out of range"),
        ("treepool", None, "must be an object, not null"),
        ("treepool", {1: 2}, "a key must be a string, not 1"),
        ("constraints", {"props": []}, "unknown constraint operator 'props'"),
    ],
)
def test_a_wrong_system_attribute_is_named(key: str, value: Any, reason: str) -> None:
    assert rejection(job([CORE], system={key: value})) == f"/attributes/system/{key}: {reason}"


@pytest.mark.parametrize(
    ("wrong", "place", "reason"),
    [
        (1, "", "must be an object, not 1"),
        (
            {**CORE, "cuont": 1},
            "/cuont",
            "unknown key (did you mean 'count'?); known are type, count",
        ),
        ({7: 1}, "", "a key must be a string, not 7"),
        ({**CORE, "x" * 1000: 1}, f"/{'x' * 57}...", "unknown key"),
        ({"type": "", "count": 1}, "/type", "must not be empty"),
        ({"type": "core", "count": 0}, "/count", ""),
        ({**CORE, "exclusive": 1}, "/exclusive", "must be true or false, not 1"),
        ({**CORE, "unit": 1}, "/unit", "must be a string, not 1"),
        ({**CORE, "label": None}, "/label", "must be a string, not null"),
        ({**CORE, "with": []}, "/with", "must not be empty"),
        (vertex("slot", 1, CORE), "", "key 'label' is missing"),
        ({"type": "slot", "count": 1, "label": "a"}, "", "key 'with' is missing"),
        (slot(1, CORE, label="used"), "/label", "another vertex has the label 'used'"),
    ],
)
def test_a_wrong_vertex_is_named(wrong: Any, place: str, reason: str) -> None:
    resources = [vertex("node", 1, slot(1, CORE, label="used"), wrong)]
    message = rejection(job(resources))
    assert message.startswith(f"/resources/0/with/1{place}: {reason}")
    problem = jobspec.resource_problems(resources)[0]
    assert message == f"/resources{problem}"


# ---- The smallest jobspec ----


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_resource_list_becomes_a_jobspec(name: str) -> None:
    resources = EXAMPLES[name]["resources"]
    made = jobspec.from_resources(resources, 60.0, {"ranks": ["0-3"]}, options={"locality": "none"})
    read = jobspec.read(json.dumps(made))
    assert read.resources == jobspec.read(job(resources)).resources
    assert read.duration == 60.0
    assert read.constraint == constraint.parse({"ranks": ["0-3"]})
    assert read.options == {"locality": "none"}


def test_the_smallest_jobspec_runs_one_task_in_each_slot() -> None:
    assert jobspec.from_resources([slot(2, CORE, label="task")]) == {
        "version": 1,
        "resources": [slot(2, CORE, label="task")],
        "tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 0.0}},
    }
    two = jobspec.from_resources(EXAMPLES["14/use_case_2.4"]["resources"])
    assert [task["slot"] for task in two["tasks"]] == ["read-db", "db"]


@pytest.mark.parametrize(
    ("resources", "duration", "message"),
    [
        ([CORE], 0.0, "/resources: there is no slot for a task to run in"),
        (
            [vertex("node", 1, vertex("slots", 2, CORE))],
            0.0,
            "/resources: there is no slot for a task to run in, only 'slots' (did you mean 'slot'",
        ),
        ([], 0.0, "/resources: must not be empty"),
        (
            [vertex("slot", 1, CORE)],
            0.0,
            "/resources/0: key 'label' is missing",
        ),
        ([slot(1, CORE)], -1.0, "/attributes/system/duration: must be at least 0"),
    ],
)
def test_resources_that_would_make_an_invalid_jobspec_are_refused(
    resources: Any, duration: float, message: str
) -> None:
    with pytest.raises(InvalidJobspec) as caught:
        jobspec.from_resources(resources, duration)
    assert str(caught.value).startswith(message)
