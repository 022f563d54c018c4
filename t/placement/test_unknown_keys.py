"""Keys that RFC 49 does not define travel with the topology, and change no placement."""

from __future__ import annotations

import copy
import json

import pytest

from made import alloc, nodes
from treepool import subinstance
from treepool.cli.validate import _of_key
from treepool.errors import InvalidJobspec
from treepool.placement.pool import Pool

NODE = {
    "vendor": "x",
    "core": "0-99",
    "l3": [],
    "tags": ["a", 1],
    "storage": [{"path": "/s", "capacity": 100, "tier": {"class": 0}}],
    "socket": [
        {"cores": "0-3", "gpus": "0", "memory": 32, "serial": 17},
        {"cores": "4-7", "gpus": "1", "memory": 32, "numa": [], "node": {"x": None}},
    ],
}
KEY = {
    "writer": "TreePool",
    "children": [{"ranks": "0-1", "topo": NODE, "name": "thin"}],
    "site": {"a": [1]},
}


def an_R(key):
    return {**nodes("0-1", gpus="0-1"), "scheduling": copy.deepcopy(key)}


def allocated(pool, jobid, shape):
    return alloc(pool, jobid, shape).to_dict()


def test_a_pool_has_the_key_that_it_was_made_from():
    assert Pool(an_R(KEY)).to_dict()["scheduling"] == KEY
    assert json.loads(Pool(json.dumps(an_R(KEY))).encode())["scheduling"] == KEY


def test_an_allocated_R_and_its_sub_instance_carry_them():
    R = allocated(Pool(an_R(KEY)), 1, "slot/node{x}")
    entry = {**KEY["children"][0], "ranks": "0"}
    assert R["scheduling"]["children"] == [entry]
    assert R["scheduling"]["site"] == KEY["site"]
    assert subinstance(R)["scheduling"]["children"] == [entry]


def test_they_change_no_placement():
    plain = {"socket": [{k: s[k] for k in ("cores", "gpus", "memory")} for s in NODE["socket"]]}
    plain["storage"] = [{"path": "/s", "capacity": 100}]
    pools = [
        Pool(an_R({"writer": "TreePool", "children": [{"ranks": "0-1", "topo": topo}]}))
        for topo in (NODE, plain)
    ]
    shapes = [
        "slot/[core=2;gpu=1]",
        "slot/socket{x}",
        "slot/[core=2;storage=50]",
        "slot/[core;memory=33]",
    ]
    for jobid, shape in enumerate(shapes):
        one, other = (allocated(pool, jobid, shape)["execution"] for pool in pools)
        assert one == other


def test_an_empty_list_of_domains_is_no_locality():
    pool = Pool(an_R(KEY))
    with pytest.raises(InvalidJobspec, match="l3"):
        allocated(pool, 1, "slot/l3{x}")
    assert _of_key(KEY) == "2 ranks: 2 x [8 cores, 2 GPUs, 2 socket]"
