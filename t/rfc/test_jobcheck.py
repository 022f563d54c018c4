"""jobcheck.py checks a whole jobspec against RFC 14 and 25."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from treepool import parse_shape
from treepool.rfc import jobcheck, jobspec

DATA = Path(__file__).parent / "data"

#: Every example and use case of RFC 14 and RFC 25, from the YAML files beside their texts.
EXAMPLES = json.loads((DATA / "rfc14-jobspecs.json").read_text())

CORE = {"type": "core", "count": 1}
GOOD = {
    "version": 999,
    "resources": [{"type": "slot", "count": 2, "label": "a", "with": [CORE]}],
    "tasks": [{"command": ["app", "-v"], "slot": "a", "count": {"per_slot": 1}}],
    "attributes": {"system": {"duration": 60}},
}
V1 = {**GOOD, "version": 1}


def problems(document):
    return [str(problem) for problem in jobcheck.problems(document)]


def changed(document, pointer, value):
    """A copy of *document* with *value* at *pointer*, or without that key if it is DELETED."""
    document = copy.deepcopy(document)
    *path, last = [int(t) if t.isdecimal() else t for t in pointer.split("/")[1:]]
    here = document
    for token in path:
        here = here[token]
    if value is DELETED:
        del here[last]
    else:
        here[last] = value
    return document


DELETED = object()


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_rfc_14_and_25_are_valid(name):
    assert problems(EXAMPLES[name]) == []


@pytest.mark.parametrize(
    ("pointer", "value", "expected"),
    [
        ("/version", DELETED, "key 'version' is missing"),
        ("/version", 0, "/version: must be at least 1 and at most 2147483647, not 0"),
        ("/tasks", [], "/tasks: must not be empty"),
        ("/tasks/0/slot", "b", "/tasks/0/slot: no slot has the label 'b'; the labels are 'a'"),
        ("/tasks/0/command", "app", "/tasks/0/command: must be an array, not 'app'"),
        ("/tasks/0/command", ["a", 1], "/tasks/0/command/1: must be a string, not 1"),
        (
            "/tasks/0/count",
            {},
            "/tasks/0/count: must have exactly one of per_slot, per_resource and total",
        ),
        (
            "/tasks/0/count",
            {"per_node": 1},
            "/tasks/0/count/per_node: unknown key; known are per_slot, per_resource, total",
        ),
        (
            "/tasks/0/count",
            {"per_slot": 0},
            "/tasks/0/count/per_slot: must be at least 1, not 0",
        ),
        (
            "/tasks/0/nice",
            1,
            "/tasks/0/nice: unknown key; known are command, slot, count, distribution, attributes",
        ),
        ("/attributes", DELETED, "key 'attributes' is missing"),
        ("/attributes/site", {}, "/attributes/site: unknown key; known are system, user"),
        ("/attributes/system/cwd", 1, "/attributes/system/cwd: must be a string, not 1"),
        (
            "/attributes/system/environment",
            ["A=1"],
            "/attributes/system/environment: must be an object, not an array",
        ),
        (
            "/attributes/system/dependencies",
            [{"scheme": "afterok"}],
            "/attributes/system/dependencies/0: key 'value' is missing",
        ),
        (
            "/attributes/system/job",
            {"name": 1},
            "/attributes/system/job/name: must be a string, not 1",
        ),
    ],
)  # fmt: skip
def test_a_violation_of_rfc_14_is_a_problem_with_its_pointer(pointer, value, expected):
    assert problems(GOOD) == []
    assert problems(changed(GOOD, pointer, value)) == [expected]


@pytest.mark.parametrize(
    ("pointer", "value", "expected"),
    [
        ("/attributes", {}, "/attributes: key 'system' is missing"),
        ("/attributes", None, "/attributes: must be an object, not null"),
        ("/attributes/system", {}, "/attributes/system: key 'duration' is missing"),
        ("/tasks", GOOD["tasks"] * 2, "/tasks: must have exactly one task in version 1 (RFC 25)"),
        ("/tasks/0/count", {"per_slot": 2}, "/tasks/0/count/per_slot: must be 1, not 2"),
        (
            "/tasks/0/count",
            {"per_resource": {"type": "core", "count": 1}},
            "/tasks/0/count/per_resource: is not a key of version 1 (RFC 25)",
        ),
        ("/tasks/0/distribution", "x", "/tasks/0/distribution: is not a key of version 1 (RFC 25)"),
    ],
)  # fmt: skip
def test_version_1_also_follows_rfc_25(pointer, value, expected):
    assert problems(V1) == []
    assert problems(changed(GOOD, pointer, value)) == []
    assert problems(changed(V1, pointer, value)) == [expected]


def test_all_problems_are_reported_once_and_in_order():
    document = changed(V1, "/tasks/0/slot", "x")
    document["resources"][0]["with"] = [{"type": "core", "count": "5-1"}]
    document["attributes"] = {"system": {"duration": -1}, "x": 1}
    del document["tasks"][0]["count"]
    assert [line.partition(": ")[0] for line in problems(document)] == [
        "/attributes/system/duration",
        "/attributes/x",
        "/resources/0/with/0/count",
        "/tasks/0",
    ]
    assert problems(changed(document, "/resources", V1["resources"]))[-1].startswith(
        "/tasks/0/slot"
    )


@pytest.mark.parametrize("version", ["1", 0, 1.0, True])
def test_an_invalid_version_is_not_version_1(version):
    (line,) = problems({**GOOD, "version": version, "attributes": {"system": {}}})
    assert line.startswith("/version: ")


@pytest.mark.parametrize("kind", ["", "gpu"])
def test_a_task_can_only_count_resources_of_its_slot(kind):
    count = {"per_resource": {"type": kind, "count": 1}}
    at = "/tasks/0/count/per_resource/type"
    assert problems(changed(GOOD, "/tasks/0/count", count)) == [
        f"{at}: slot 'a' has no resource of type {kind!r}"
    ]
    elsewhere = changed(changed(GOOD, "/tasks/0/count", count), "/tasks/0/slot", "b")
    assert [line.partition(": ")[0] for line in problems(elsewhere)] == ["/tasks/0/slot"]


def test_problems_that_only_the_reader_finds_are_reported():
    two = [{**GOOD["resources"][0]}, {**GOOD["resources"][0]}]
    assert problems({**GOOD, "resources": two}) == [
        "/resources/1/label: another vertex has the label 'a'"
    ]
    wrong = {"constraints": {"gpu": []}, "duration": 1}
    (line,) = problems(changed(GOOD, "/attributes/system", wrong))
    assert line.startswith("/attributes/system/constraints")


def test_a_jobspec_without_tasks_is_a_problem_but_is_read():
    bare = {key: value for key, value in V1.items() if key != "tasks"}
    assert problems(bare) == ["key 'tasks' is missing"]
    assert jobspec.read(bare).resources


# ---- warnings ----

SECOND = "/resources/0/with/1: a second vertex beside the first"


BEYOND_V1 = {"14/example2": "/resources/0", "25/use_case_2.1": "/tasks/0/count/total"}


@pytest.mark.parametrize("name", BEYOND_V1)
def test_examples_of_the_rfcs_that_rfc_25_does_not_allow_have_a_warning(name):
    (line,) = jobcheck.warnings(EXAMPLES[name])
    assert line.startswith(f"{BEYOND_V1[name]}")


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in BEYOND_V1])
def test_the_examples_have_no_warning(name):
    assert jobcheck.warnings(EXAMPLES[name]) == []


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("slot=2/core=4", []),
        ("node=2/slot=2/[core=4;gpu=1]", []),
        ("slot/node", ["/resources/0/with/0: 'node' in slot"]),
        ("socket/slot/core", ["/resources/0: 'socket' at the top"]),
        ("node/slot/numa/core", ["/resources/0/with/0/with/0: 'numa' in slot"]),
        ("node=1-2/slot/core", ["/resources/0/count: a range of 'node'"]),
        ("slot/gpu", ["/resources/0/with: no core in slot"]),
        ("node/[slot{a}/core;slot{b}/core]", [SECOND]),
    ],
)  # fmt: skip
def test_a_graph_that_rfc_25_does_not_have_is_a_warning_in_version_1(shape, expected):
    document = {**V1, "resources": parse_shape(shape)}
    found = jobcheck.warnings(document)
    suffix = "; RFC 25 has no such resources in version 1"
    assert found == [line + suffix for line in expected]
    assert jobcheck.warnings({**document, "version": 2}) == []


def test_an_unknown_key_of_the_jobspec_is_a_warning():
    assert problems({**GOOD, "task": []}) == []
    assert jobcheck.warnings({**GOOD, "task": []}) == [
        "/task: unknown key; RFC 14 has version, resources, tasks, attributes, "
        "and Flux refuses others"
    ]


@pytest.mark.parametrize(
    ("pointer", "value", "said"),
    [
        ("/resources/0/count", "2", "/resources/0/count: the text '2' as a count"),
        ("/resources/0/count", {"min": 2, "max": 2}, "/resources/0/count: an object as a count"),
        (
            "/resources/0/with/0/exclusive",
            True,
            "/resources/0/with/0/exclusive: an exclusive 'core'",
        ),
        ("/resources/0/with/0/id", "0", "/resources/0/with/0/id: an id of 'core'"),
        ("/resources/0/with", [CORE, CORE], "/resources/0/with/1: a second 'core' in slot"),
    ],
)
def test_what_rfc_25_has_not_in_a_vertex_is_a_warning(pointer, value, said):
    (line,) = jobcheck.warnings(changed(V1, pointer, value))
    assert line == f"{said}; RFC 25 has no such resources in version 1"


TWO_NODES = changed(
    V1, "/resources", [{"type": "node", "count": 2, "with": V1["resources"]}]
)  # of two slots each


@pytest.mark.parametrize(
    ("document", "least", "said"), [(V1, 1, "1"), (TWO_NODES, 2, "2, a task on each node")]
)
def test_in_version_1_each_node_needs_a_task(document, least, said):
    at = "/tasks/0/count"
    assert problems(changed(document, at, {"total": least})) == []
    (line,) = problems(changed(document, at, {"total": least - 1}))
    assert line == f"/tasks/0/count/total: must be at least {said}, not {least - 1}"
    assert problems({**changed(TWO_NODES, at, {"total": 1}), "version": 999}) == []


@pytest.mark.parametrize(("document", "most"), [(V1, 2), (TWO_NODES, 4)])
def test_more_tasks_than_slots_are_a_warning_in_version_1(document, most):
    at = "/tasks/0/count"
    assert jobcheck.warnings(changed(document, at, {"total": most})) == []
    (line,) = jobcheck.warnings(changed(document, at, {"total": most + 1}))
    assert line == (
        f"/tasks/0/count/total: {most + 1} tasks; "
        f"RFC 25 has at most one task in each of {most} slots in version 1"
    )


def test_a_working_directory_is_absolute():
    (line,) = problems(changed(V1, "/attributes/system/cwd", "work"))
    assert line == "/attributes/system/cwd: must be an absolute path, not 'work'"
