"""schema.py: documents against the JSON Schemas, and how what is wrong is worded."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import examples
from treepool.errors import InvalidJobspec, InvalidR, Problem
from treepool.rfc import findings, schema

DATA = Path(__file__).parent / "data"
NAMES = sorted(path.stem for path in schema.data_folder("schemas").glob("*.json"))
SLOT = {"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 1}]}
R = json.loads((DATA / "rfc20-example1.json").read_text())
VECTORS = {
    "title": "some",
    "source": "RFC 49",
    "cluster": {"R": R},
    "vectors": [
        {
            "id": "A1",
            "shape": "slot/core",
            "options": {"topology_policy": "restricted"},
            "expect": {"R_lite": [{"rank": "19", "children": {"core": "0"}}], "nslots": 1},
            "rationale": "It is the lowest core.",
        },
        {"id": "A2", "shape": "slot/[", "expect": {"error": "invalid"}, "rationale": "No shape."},
        {"id": "A3", "jobspec": {}, "expect": {"error": "invalid"}, "rationale": "No jobspec."},
        {"id": "A4", "free": "A1", "rationale": "It ends."},
        {"id": "A5", "down": "19-20"},
        {"id": "A6", "up": "20"},
    ],
}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda below: st.lists(below) | st.dictionaries(st.text(), below),
    max_leaves=20,
)


def told(document: object, name: str) -> list[str]:
    """The problems as lines."""
    return [str(p) for p in schema.problems(document, name)]


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_a_draft_2020_12_schema_with_its_name_in_its_id(name):
    from jsonschema import Draft202012Validator

    document = json.loads((schema.data_folder("schemas") / f"{name}.json").read_text())
    Draft202012Validator.check_schema(document)
    assert document["$id"] == f"urn:treepool:{name}"


def test_the_examples_of_the_rfcs_keep_to_the_schemas():
    assert schema.problems(R, "rfc20-rset") == []
    for cluster in "ab":
        key = json.loads((DATA / f"rfc49-cluster-{cluster}.json").read_text())
        assert schema.problems(key, "rfc49-scheduling") == []
        assert schema.problems({**R, "scheduling": key}, "rfc20-rset") == []


def test_the_schema_of_r_looks_into_the_key_of_treepool_only():
    key = {"writer": "TreePool", "children": 3}
    assert told({**R, "scheduling": key}, "rfc20-rset") == [
        "/scheduling/children: must be an array, not 3"
    ]
    assert told({**R, "scheduling": {**key, "writer": "fluxion"}}, "rfc20-rset") == []
    assert told({**R, "scheduling": {"children": 3}}, "rfc20-rset") == []
    assert told({**R, "scheduling": {"writer": 1}}, "rfc20-rset") == [
        "/scheduling/writer: must be a string, not 1"
    ]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda v: v.update(version=2), "/version: must be 1, not 2"),
        (lambda v: v.pop("version"), "/: key 'version' is missing"),
        (
            lambda v: v["execution"].update(starttime=-1),
            "/execution/starttime: must be at least 0, not -1",
        ),
        (
            lambda v: v["execution"].update(R_lite=None),
            "/execution/R_lite: must be an array, not null",
        ),
        (lambda v: v["execution"].pop("nodelist"), "/execution: key 'nodelist' is missing"),
        (
            lambda v: v["execution"].update(nodelist=[None]),
            "/execution/nodelist/0: must be a string, not null",
        ),
        (
            lambda v: v["execution"]["R_lite"][0].update(rank="0-"),
            "/execution/R_lite/0/rank: '0-' is not an RFC 22 idset with at least one id",
        ),
        (
            lambda v: v["execution"]["R_lite"][0]["children"].update(cpu="0"),
            "/execution/R_lite/0/children/cpu: unknown key; known are core, gpu",
        ),
        (
            lambda v: v["execution"].update(properties={"a|b": "19"}),
            "/execution/properties/a|b: unknown key; its name is not allowed here",
        ),
        (
            lambda v: v["execution"].update(nslots=True),
            "/execution/nslots: must be an integer, not true",
        ),
    ],
)
def test_a_problem_has_a_pointer_and_says_what_is_expected(change, expected):
    document = copy.deepcopy(R)
    change(document)
    assert told(document, "rfc20-rset") == [expected]


@pytest.mark.parametrize("text", ["0", "0-3", "1,3-4", "[1,3]", "10-20,30", "999999", "0-3,7"])
def test_the_schema_accepts_idsets(text):
    document = copy.deepcopy(R)
    document["execution"]["R_lite"][0]["children"]["core"] = text
    assert told(document, "rfc20-rset") == []


@pytest.mark.parametrize(
    "text", ["", "[]", "[0", "0]", "01", "0-", "-1", "0,,1", "0 ", "a", "[0][1]"]
)
def test_the_schema_rejects_what_is_no_idset(text):
    document = copy.deepcopy(R)
    document["execution"]["R_lite"][0]["children"]["core"] = text
    assert len(told(document, "rfc20-rset")) == 1


@pytest.mark.parametrize(
    "count",
    [1, "1", "2-8", "3+", "2-16:2:*", "1,4,9", "[1-4]", {"min": 1}, {"min": 2, "max": 8},
     {"min": 2, "max": 8, "operator": "*", "operand": 2}],
)  # fmt: skip
def test_every_form_of_count_of_rfc_14_is_accepted(count):
    assert told([{**SLOT, "count": count}], "rfc14-resources") == []


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "/0/count: must be at least 1, not 0"),
        ("0", "/0/count: '0' is not an RFC 22 idset or RFC 45 range of positive integers"),
        ("1-2:", "/0/count: '1-2:' is not an RFC 22 idset or RFC 45 range of positive integers"),
        (
            [],
            "/0/count: must be a positive integer, an RFC 22 idset or RFC 45 range of positive "
            "integers or a range object, not an array",
        ),
        ({}, "/0/count: key 'min' is missing"),
        ({"min": 0}, "/0/count/min: must be at least 1, not 0"),
        ({"min": 1, "operand": 2}, "/0/count: key 'operand' needs key 'operator' too"),
        (
            {"min": 1, "step": 2},
            "/0/count/step: unknown key; known are min, max, operator, operand",
        ),
    ],
)
def test_of_several_alternatives_the_message_is_about_the_one_meant(count, expected):
    assert told([{**SLOT, "count": count}], "rfc14-resources") == [expected]


def test_a_slot_has_a_label_and_something_in_it():
    assert told([{"type": "slot", "count": 1}], "rfc14-resources") == [
        "/0: key 'label' is missing",
        "/0: key 'with' is missing",
    ]
    assert told([{"count": 1}], "rfc14-resources") == ["/0: key 'type' is missing"]


def test_every_problem_is_reported_by_place():
    vertex = {"type": "core", "count": 0}
    assert [p.pointer for p in schema.problems([vertex] * 12, "rfc14-resources")] == [
        f"/{i}/count" for i in range(12)
    ]


def test_after_a_hundred_problems_the_rest_is_counted():
    found = schema.problems([{"type": "core", "count": 0}] * 130, "rfc14-resources")
    assert len(found) == 101
    assert found[-1] == Problem("", "at least 30 more problems, not shown")


def test_what_is_quoted_from_the_document_is_short_and_on_one_line():
    name = "\x1b[31m\n" + "x" * 500
    (problem,) = schema.problems([{"type": "core", "count": 1, name: 1}], "rfc14-resources")
    assert str(problem).isprintable() and len(str(problem)) < 200
    (problem,) = schema.problems([{"type": "core", "count": name}], "rfc14-resources")
    assert str(problem).isprintable() and len(str(problem)) < 200


def test_vectors_of_every_kind_are_accepted():
    assert told(VECTORS, "testvectors") == []


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({}, ["/vectors/0: key 'expect' is missing", "/vectors/0: key 'id' is missing",
              "/vectors/0: key 'rationale' is missing", "/vectors/0: key 'shape' is missing"]),
        ({"id": "x", "free": "y", "shape": "z"},
         ["/vectors/0/shape: unknown key; known are id, free, rationale"]),
        ({"id": "x", "jobspec": {}, "expect": {}, "rationale": "r"},
         ["/vectors/0/expect: key 'R_lite' is missing"]),
        ({"id": "x", "shape": "", "expect": {"error": "no"}, "rationale": "r"},
         ["/vectors/0/expect/error: must be one "
          "of 'invalid', 'infeasible', 'insufficient', not 'no'"]),
        ({"id": "x", "down": "a"},
         ["/vectors/0/down: 'a' is not an RFC 22 idset with at least one id"]),
        ({"id": "x", "shape": "", "options": [], "expect": {"error": "invalid"}, "rationale": "r"},
         ["/vectors/0/options: must be an object, not an array"]),
    ],
)  # fmt: skip
def test_a_mistyped_vector_is_no_vector(step, expected):
    assert told({**VECTORS, "vectors": [step]}, "testvectors") == expected


def test_a_steps_options_are_those_of_a_job_whatever_their_values():
    step = {**VECTORS["vectors"][0], "options": {"same": 5, "topology_policy": "strict"}}
    assert told({**VECTORS, "vectors": [step]}, "testvectors") == []
    (problem,) = told({**VECTORS, "vectors": [{**step, "options": {"alpha": 1}}]}, "testvectors")
    assert problem.startswith("/vectors/0/options: must be one of 'locality', 'level', ")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"locality": "none", "policy": "best-locality", "alpha": 0, "beta": 0.5}, []),
        ({"same": "driver"},
         ["/options/same: unknown key; known are locality, policy, alpha, beta"]),
        ({"alpha": 1.5}, ["/options/alpha: must be at most 1, not 1.5"]),
        ({"beta": "0.5"}, ["/options/beta: must be a number, not '0.5'"]),
    ],
)  # fmt: skip
def test_a_files_options_are_those_of_a_pool(options, expected):
    assert told({**VECTORS, "options": options}, "testvectors") == expected


def test_check_raises_the_error_asked_for_with_the_first_problem():
    schema.check([SLOT], "rfc14-resources", InvalidJobspec)
    with pytest.raises(InvalidJobspec, match=r"^/0/count: must be at least 1, not 0$"):
        schema.check([{**SLOT, "count": 0}], "rfc14-resources", InvalidJobspec)


def test_a_document_of_great_depth_is_a_problem_and_no_crash():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    assert told(deep, "rfc14-resources") == ["/: document: nested deeper than 64 levels"]


def test_the_deepest_document_there_may_be_is_checked():
    domain: dict = {"cores": 0}
    for _ in range(29):
        domain = {"numa": [domain]}
    key = {"writer": "TreePool", "children": [{"ranks": "0", "topo": domain}]}
    (problem,) = schema.problems({**R, "scheduling": key}, "rfc20-rset")
    assert problem.message == "must be a string, not 0"


@pytest.mark.parametrize("value", [{1: 2}, [1 << 20_000], {"a": (1, 2)}, {"a": {None: 1}}, b"x"])
def test_what_is_no_json_is_a_problem_and_no_crash(value):
    assert told([value], "rfc14-resources")


def test_a_schema_is_found_in_the_package_before_one_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(schema, "_PACKAGE", tmp_path / "site" / "treepool")
    (tmp_path / "site" / "schemas").mkdir(parents=True)
    assert schema.data_folder("schemas") == tmp_path / "site" / "schemas"
    (tmp_path / "site" / "treepool" / "schemas").mkdir(parents=True)
    assert schema.data_folder("schemas") == tmp_path / "site" / "treepool" / "schemas"
    with pytest.raises(FileNotFoundError, match="testvectors"):
        schema.data_folder("testvectors")


def test_reading_a_good_r_does_not_import_jsonschema():
    key = json.loads((DATA / "rfc49-cluster-a.json").read_text())
    key["children"][0]["ranks"] = "19-22"
    script = (
        "import sys; from treepool.rfc.rset import ResourceSet\n"
        "ResourceSet.read(sys.argv[1]).key(); assert 'jsonschema' not in sys.modules"
    )
    text = json.dumps({**R, "scheduling": key})
    root = str(Path(schema.__file__).parents[2])
    subprocess.run(
        [sys.executable, "-c", script, text], check=True, env={"PYTHONPATH": root}, timeout=60
    )


@pytest.mark.parametrize("name", NAMES)
@given(document=JSON)
@settings(max_examples=examples(30), deadline=None)
def test_no_document_whatever_makes_a_check_fail_in_another_way(name, document):
    for problem in schema.problems(document, name):
        assert str(problem).isprintable()
    try:
        schema.check(document, name, InvalidR)
    except InvalidR as e:
        assert e.args


def test_places_are_sorted_as_numbers():
    mixed = [Problem(p, "") for p in ("/a/10", "/a/9", "/b", "/a", "", "/a/9/x")]
    assert [p.pointer for p in findings.limited(mixed)] == [
        "",
        "/a",
        "/a/9",
        "/a/9/x",
        "/a/10",
        "/b",
    ]


def test_a_key_in_an_R_counts_like_a_key_alone():
    """jsonschema checks what a reference leads to with a class of its own choice."""
    topo = {"n": [{"cores": str(i)} for i in range(60_000)]}
    key = {"writer": "TreePool", "children": [{"ranks": "0", "topo": topo}]}
    children = {"core": "0"}
    R = {
        "version": 1,
        "execution": {"R_lite": [{"rank": "0", "children": children}], "nodelist": ["h"]},
        "scheduling": key,
    }
    too_many = [Problem("", "has too many values")]
    assert schema.problems(key, "rfc49-scheduling") == too_many
    assert schema.problems(R, "rfc20-rset") == too_many
