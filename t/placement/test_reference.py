"""The reference itself serves RFC 49's vectors, so that it is worth agreeing with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from placement.reference import ReferencePool, r_lite
from placement.strategies import jobspec
from treepool.rfc.shape import parse_shape

VECTORS = Path(__file__).parents[2] / "testvectors"


@pytest.mark.parametrize("name", ["rfc49-cluster-a", "rfc49-cluster-b"])
def test_the_reference_gives_what_the_vectors_expect(name):
    vectors = json.loads((VECTORS / f"{name}.json").read_text())
    R = vectors["cluster"]["R"]
    # No vector needs more than a few nodes, and the reference looks at all of them.
    assert len(R["execution"]["R_lite"]) == 1
    R["execution"]["R_lite"][0]["rank"] = R["scheduling"]["children"][0]["ranks"] = "0-15"
    pool = ReferencePool({**R, "execution": {**R["execution"], "nodelist": ["n[0-15]"]}})
    for jobid, vector in enumerate(vectors["vectors"], 1):
        want = pool.wanted(jobspec(parse_shape(vector["shape"])))
        taken = pool.serve(want).ids
        pool.register(jobid, taken)
        assert r_lite(taken) == vector["expect"]["R_lite"], vector["id"]
