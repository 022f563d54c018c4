"""What is wrong with a file of test vectors."""

import json

import pytest

from treepool.cli import vectors
from treepool.cli.files import data_folder
from treepool.placement.options import OPTIONS
from treepool.placement.request import job_options

SCHEMA = json.loads((data_folder("schemas") / "testvectors.json").read_text())


def told(document):
    return [str(problem) for problem in vectors.problems(document)]


def test_the_options_of_a_job_are_those_of_the_schema():
    assert SCHEMA["$defs"]["job_options"]["propertyNames"]["enum"] == list(job_options.CHECKS)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({}, ["/vectors/0: key 'expect' is missing", "/vectors/0: key 'id' is missing",
              "/vectors/0: key 'rationale' is missing", "/vectors/0: key 'shape' is missing"]),
        (5, ["/vectors/0: must be an object, not 5"]),
        ({"id": "x", "free": "x", "shape": "z"},
         ["/vectors/0/free: no earlier step has id 'x'",
          "/vectors/0/shape: unknown key; known are free, id, rationale"]),
        ({"id": "x", "jobspec": {}, "expect": {}, "rationale": "r"},
         ["/vectors/0/expect: key 'R_lite' is missing"]),
        ({"id": "x", "shape": "", "expect": {"error": "no"}, "rationale": "r"},
         ["/vectors/0/expect/error: must be one "
          "of 'invalid', 'infeasible', 'insufficient', not 'no'"]),
        ({"id": "x", "down": "a"},
         ["/vectors/0/down: 'a' is not an id or range in idset 'a'"]),
        ({"id": "a b", "up": "0"}, ["/vectors/0/id: 'a b' is not the id of a vector"]),
        ({"id": "x", "shape": "", "options": [], "expect": {"error": "invalid"}, "rationale": "r"},
         ["/vectors/0/options: must be an object, not an array"]),
    ],
)  # fmt: skip
def test_a_mistyped_step_is_a_problem(cluster_a, step, expected):
    cluster_a["vectors"] = [step]
    assert told(cluster_a) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"locality": "none", "policy": "packing", "straddle": 0.5}, []),
        ({"same": "driver"},
         ["/options/same: unknown key; known are locality, policy, straddle, "
          "gpu_cores, mix, job_key"]),
        ({"straddle": -1}, ["/options/straddle: must be at least 0 and at most 1000, not -1"]),
        ({"straddle": "0.5"}, ["/options/straddle: must be a number, not '0.5'"]),
    ],
)  # fmt: skip
def test_a_files_options_are_those_of_a_pool(cluster_a, options, expected):
    assert told({**cluster_a, "options": options}) == expected


def test_the_options_of_a_pool_are_those_of_the_schema(cluster_a):
    described = SCHEMA["$defs"]["pool_options"]["properties"]
    assert list(described) == list(OPTIONS)
    for name, option in OPTIONS.items():
        elsewhere = described[name].get("$ref")
        schema = SCHEMA["$defs"][elsewhere[8:]] if elsewhere else described[name]
        assert schema.get("enum", []) == list(option.choices)
        assert schema.get("maximum") == option.most
    cluster_a["options"] = {"straddle": 4, "mix": "1*slot/gpu"}
    assert vectors.problems(cluster_a) == []
    cluster_a["options"] = {"mix": "1*slot/sockt{x}"}
    (problem,) = vectors.problems(cluster_a)
    assert problem.pointer == "/options"
    assert "did you mean 'socket'?" in problem.message
