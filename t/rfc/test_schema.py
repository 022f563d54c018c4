"""The JSON Schemas in ``schemas/`` and treepool's readers agree on what is valid.

A schema knows less than the reader of its format. So the reader refuses whatever the schema does,
and both accept the examples.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from depth import examples, some
from fuzz.seeds import SNAPSHOT, VECTORS, small_R
from schemas import SCHEMAS, validator
from treepool import parse_shape
from treepool.cli import vectors
from treepool.rfc import jobcheck, jobspec
from treepool.rfc.findings import pointer_to
from treepool.rfc.rset import ResourceSet
from treepool.rfc.scheduling import SchedulingKey
from treepool.view import snapshot

DATA = Path(__file__).parent / "data"
#: What finds the problems of each format.
READERS = {
    "rfc14-jobspec": jobcheck.problems,
    "rfc14-resources": jobspec.resource_problems,
    "rfc20-rset": ResourceSet.problems,
    "rfc49-scheduling": SchedulingKey.problems,
    "testvectors": vectors.problems,
    "snapshot": snapshot.problems,
}


#: The schemas of what treepool reads; output.json is of what it prints (t/cli/test_json.py).
READ = [name for name in SCHEMAS if name != "output"]
VALIDATORS = {name: validator(name) for name in READ}


def load(name: str) -> Any:
    return json.loads((DATA / f"{name}.json").read_text())


def slot(count: Any = 1, **keys: Any) -> dict[str, Any]:
    core = {"type": "core", "count": 1, "unit": "x", "exclusive": False, "id": "0"}
    return {"type": "slot", "count": count, "label": "task", "with": [core], **keys}


R = load("rfc20-example1")
JOBSPEC = {
    "version": 2,
    "resources": [slot({"min": 2, "max": 8, "operator": "*", "operand": 2})],
    "tasks": [
        {
            "command": ["app"],
            "slot": "task",
            "count": {"per_resource": {"type": "core", "count": 1}},
            "distribution": "x",
            "attributes": {"environment": {"A": None}, "x": "y"},
        }
    ],
    "attributes": {
        "user": {"x": 1},
        "system": {
            "duration": 60.5,
            "cwd": "/",
            "environment": {"A": "B"},
            "dependencies": [{"scheme": "afterok", "value": "f1"}],
            "constraints": {"properties": ["a"]},
            "job": {"name": "x"},
            "shell": {"options": {"verbose": 1}},
            "files": {},
            "treepool": {"locality": "none"},
        },
    },
}
JOBSPEC_V1 = jobspec.from_resources(parse_shape("slot=2/[core=8;gpu=1]"))
#: Good documents of each format, with every key that the schema names.
GOOD: dict[str, list[Any]] = {
    "rfc14-jobspec": [JOBSPEC, JOBSPEC_V1, *load("rfc14-jobspecs").values()],
    "rfc14-resources": [
        JOBSPEC["resources"],
        *([slot(count)] for count in (1, "1", "2-8", "3+", "2-16:2:*", "1,4,9", "[1-4]")),
        [slot({"min": 1})],
        parse_shape("node{x}/[slot{a}/core;slot{b}/gpu]"),
    ],
    "rfc20-rset": [R, small_R(), {**R, "scheduling": {"writer": "fluxion", "children": 3}}],
    "rfc49-scheduling": [
        small_R()["scheduling"],
        load("rfc49-cluster-a"),
        load("rfc49-cluster-b"),
    ],
    "testvectors": [json.loads(VECTORS)],
    "snapshot": [json.loads(SNAPSHOT)],
}


def accepts(name: str, document: Any) -> bool:
    return bool(VALIDATORS[name].is_valid(document))


@pytest.mark.parametrize("name", READ)
def test_a_schema_is_a_draft_2020_12_schema_with_its_name_in_its_id(name):
    Draft202012Validator.check_schema(SCHEMAS[name])
    assert SCHEMAS[name]["$id"] == f"urn:treepool:{name}"
    assert set(READ) == set(READERS) == set(GOOD)


@pytest.mark.parametrize(
    ("name", "document"), [(name, document) for name in GOOD for document in GOOD[name]]
)
def test_schema_and_reader_accept_the_examples(name, document):
    assert READERS[name](document) == []
    assert [e.message for e in VALIDATORS[name].iter_errors(document)] == []


def inside(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in *document* but itself."""
    found = []
    items = enumerate(document) if isinstance(document, list) else []
    for key, value in document.items() if isinstance(document, dict) else items:
        found += [(*path, key), *inside(value, (*path, key))]
    return found


def changed(document: Any, path: tuple[Any, ...], change: Any) -> Any:
    """A copy of *document* after ``change(parent, key)`` of the value at *path*."""
    document = parent = copy.deepcopy(document)
    for key in path[:-1]:
        parent = parent[key]
    change(parent, path[-1])
    return document


def delete(parent: Any, key: Any) -> None:
    del parent[key]


def put(value: Any) -> Any:
    def change(parent: Any, key: Any) -> None:
        parent[key] = value

    return change


def add_key(parent: Any, key: Any) -> None:
    if isinstance(parent[key], dict):
        parent[key]["unheard of"] = 1


#: Values of every type, each at the edge of some rule.
VALUES = (None, True, 0, 1, -1, 1.5, 1e16, "", "x", "0-", "01", "[0", "1-2:", "0", [], [None], {})
CHANGES = (delete, add_key, *map(put, VALUES))
TRIED = some(CHANGES)


@pytest.mark.parametrize("name", GOOD)
def test_the_reader_refuses_every_example_with_one_change_that_the_schema_refuses(name):
    refused = 0
    for document in GOOD[name][:2]:
        for path in some(inside(document), 2):
            for change in TRIED:
                wrong = changed(document, path, change)
                if not accepts(name, wrong):
                    refused += 1
                    assert READERS[name](wrong), (path, change)
    assert refused > 10


@pytest.mark.parametrize("name", GOOD)
def test_the_reader_names_the_place_of_what_is_wrong(name):
    document = GOOD[name][0]
    for path in inside(document):
        wrong = changed(document, path, put(None))
        at = pointer_to("", *path)
        if not accepts(name, wrong):
            assert at in [problem.pointer for problem in READERS[name](wrong)]


WORDS = st.sampled_from(
    sorted({str(key) for name in GOOD for d in GOOD[name] for path in inside(d) for key in path})
)
JSON = st.recursive(
    st.sampled_from(VALUES) | WORDS | st.text(max_size=3),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(WORDS, below, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("name", GOOD)
@given(data=st.data())
@settings(max_examples=examples(100), deadline=None)
def test_a_document_that_the_reader_accepts_keeps_to_the_schema(name, data):
    document = data.draw(st.sampled_from(GOOD[name]))
    for _ in range(data.draw(st.integers(1, 3))):
        paths = inside(document)
        if not paths:
            break
        value = put(data.draw(JSON))
        change = data.draw(st.sampled_from([delete, add_key, value, value]))
        document = changed(document, data.draw(st.sampled_from(paths)), change)
    problems = READERS[name](document)
    assert all(str(problem).isprintable() for problem in problems)
    assert problems or accepts(name, document)
