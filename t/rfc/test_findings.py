"""The problems of a document: their order, their number and their wording."""

from __future__ import annotations

import json

import pytest

from fuzz.seeds import JOBSPECS, small_R
from treepool.errors import Problem
from treepool.rfc import findings
from treepool.rfc.jobcheck import problems
from treepool.rfc.jobspec import resource_problems
from treepool.rfc.rset import ResourceSet


def test_indexes_in_pointers_are_sorted_as_numbers():
    mixed = [Problem(p, "") for p in ("/a/10", "/a/9", "/b", "/a", "", "/a/9/x")]
    places = [p.pointer for p in findings.limited(mixed)]
    assert places == ["", "/a", "/a/9", "/a/9/x", "/a/10", "/b"]


def test_after_a_hundred_problems_the_rest_is_counted():
    found = resource_problems([{"type": "core", "count": 0}] * 130)
    assert len(found) == 101
    assert found[-1] == Problem("", "at least 30 more problems, not shown")


def test_what_is_quoted_from_the_document_is_short_and_on_one_line():
    name = "\x1b[31m\n" + "x" * 500
    for vertex in ({"type": "core", "count": 1, name: 1}, {"type": "core", "count": name}):
        (problem,) = resource_problems([vertex])
        assert str(problem).isprintable() and len(str(problem)) < 200


@pytest.mark.parametrize("value", [{1: 2}, [1 << 20_000], {"a": (1, 2)}, {"a": {None: 1}}, b"x"])
def test_what_is_not_json_is_a_problem_and_not_a_crash(value):
    assert resource_problems([value])


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "/0/count: a count is positive, not 0"),
        ("1-2:", "/0/count: '1-2:' is not an integer, range or idset of positive integers"),
        ({}, "/0/count: a count range needs a min"),
        ({"min": 0}, "/0/count/min: min of a count range is positive, not 0"),
        ({"min": 1, "operand": 2}, "/0/count: a count range has operator and operand, or neither"),
        ({"min": 1, "step": 2}, "/0/count/step: unknown key 'step' in a count range"),
    ],
)
def test_a_problem_of_a_count_names_the_wrong_part(count, expected):
    assert [str(p) for p in resource_problems([{"type": "core", "count": count}])] == [expected]


R, JOBSPEC = small_R(), json.loads(JOBSPECS[0])


@pytest.mark.parametrize("number", [1.0, 4.0, 1e300, True, 1 << 64])
@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        (R, "/version"),
        (R, "/execution/nslots"),
        (R, "/scheduling/children/0/topo/socket/0/numa/0/memory"),
        (JOBSPEC, "/version"),
        (JOBSPEC, "/resources/0/count"),
        (JOBSPEC, "/tasks/0/count/per_slot"),
    ],
)
def test_an_integer_has_no_decimal_point_and_64_bits(document, pointer, number):
    copied = json.loads(json.dumps(document))
    *way, last = [int(key) if key.isdecimal() else key for key in pointer[1:].split("/")]
    inner = copied
    for key in way:
        inner = inner[key]
    inner[last] = number
    found = ResourceSet.problems(copied) if document is R else problems(copied)
    assert [problem.pointer for problem in found] == [pointer]
