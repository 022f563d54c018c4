"""The inventory: nodes by rank, and the ranks on a host."""

from __future__ import annotations

import tracemalloc

from treepool import Pool, parse_shape
from treepool.rfc import idset, rset


def R_of(ranks, hosts):
    execution = {
        "R_lite": [{"rank": ranks, "children": {"core": "0-3"}}],
        "nodelist": [hosts],
        "properties": {"p": ranks},
    }
    key = {
        "writer": "TreePool",
        "children": [{"ranks": ranks, "topo": {"n": [{"cores": "0-1"}, {"cores": "2-3"}]}}],
    }
    return {"version": 1, "execution": execution, "scheduling": key}


def spec(shape, **system):
    return {
        "version": 1,
        "resources": parse_shape(shape),
        "tasks": [],
        "attributes": {"system": {"duration": 0, **system}},
    }


def test_ranks_may_be_far_apart():
    last = rset.MAX_RANKS - 1
    pool = Pool(R_of(f"0,{last}", "a,b"))
    request = pool.parse_resource_request(spec("slot=1/core", constraints={"hostlist": ["b"]}))
    assert pool.alloc(1, request).ranks == (last,)
    pool.free(1)
    pool.remove_ranks("0")
    assert idset.encode(pool.ranks) == str(last)


def test_a_hostlist_takes_no_memory_for_the_square_of_the_hosts():
    nodes = 1 << 15
    pool = Pool(R_of(f"0-{nodes - 1}", f"h[0-{nodes - 1}]"))
    request = pool.parse_resource_request(
        spec("slot=1/core", constraints={"hostlist": [f"h[1-{nodes - 1}]"]})
    )
    tracemalloc.start()
    try:
        allocation = pool.alloc(1, request)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert allocation.ranks == (1,)
    assert peak < 20 << 20  # a mask for each host: 67 MB, and 62 GB on a million nodes


def test_brokers_that_share_a_host_are_all_on_it():
    pool = Pool(R_of("0-3", "a,b,a,c"))
    assert [list(pool.inventory.ranks_on(host)) for host in "abcx"] == [[0, 2], [1], [3], []]
    request = pool.parse_resource_request(spec("slot=2/node", constraints={"hostlist": ["a"]}))
    assert pool.alloc(1, request).ranks == (0, 2)
    assert idset.encode(pool.up) == "0-3"
