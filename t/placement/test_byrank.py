"""Values by rank are the same in a list and in what stands for one where ranks are far apart."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import examples
from treepool import Pool, parse_shape
from treepool.errors import PoolConflict
from treepool.placement.nodes.byrank import Sparse, filled, items, mapped, ranks_of
from treepool.rfc import idset

VALUES = st.lists(st.sampled_from((None, None, "a", "b")), min_size=1, max_size=40)


def sparse_of(values):
    found = Sparse(len(values), None)
    for rank, value in enumerate(values):
        if value is not None:
            found[rank] = value
    return found


@settings(max_examples=examples(100))
@given(VALUES, st.integers(0, 1 << 40))
def test_a_sparse_one_reads_like_a_list(values, among):
    sparse, among = sparse_of(values), among & (1 << len(values)) - 1
    assert list(sparse) == list(sparse.copy()) == values
    assert len(sparse) == len(values)
    assert {(r, v) for r, v in items(sparse) if v} == {(r, v) for r, v in items(values) if v}
    assert list(mapped(str, sparse)) == mapped(str, values)
    for found in (ranks_of(values, among), ranks_of(sparse, among)):
        assert {value: list(ranks) for value, ranks in found.items()} == {
            value: having
            for value in ("a", "b")
            if (having := [r for r, v in enumerate(values) if v == value and among >> r & 1])
        }


def test_a_copy_is_independent():
    one = sparse_of([None, "a"])
    other = one.copy()
    other[0] = "b"
    assert list(one) == [None, "a"]


def test_a_rank_above_all_is_in_neither():
    for values in ([None] * 3, Sparse(3, None)):
        with pytest.raises(IndexError):
            values[3]
        with pytest.raises(IndexError):
            values[3] = "a"


def test_only_few_ranks_far_apart_make_a_sparse_one():
    assert isinstance(filled(1 << 22, 1000, 0), Sparse)
    assert isinstance(filled(1 << 22, 1 << 20, 0), list)
    assert isinstance(filled(1 << 16, 1, 0), list)


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


def answers(ranks):
    """What a pool of two nodes says to calls of every kind, with *ranks* called first and last."""
    first, last = ranks
    pool = Pool(R_of(f"{first},{last}", "a,b"))
    said = []

    def alloc(jobid, shape, **system):
        found = pool.alloc(jobid, pool.parse_resource_request(spec(shape, **system)))
        said.append(found.to_dict())
        return found

    alloc(1, "slot=1/n{x}")
    held = alloc(2, "slot=1/core=3", constraints={"hostlist": ["b"]})
    alloc(3, "slot=1/core", constraints={"properties": ["p"]})
    said += [pool.copy_allocated().to_dict(), pool.up == pool.ranks]
    pool.mark_down(str(last))
    said += [pool.copy_down().to_dict(), pool.copy().to_dict(), pool.dumps()]
    pool.mark_up("all")
    pool.free(2, held)
    pool.register_alloc(2, held)
    with pytest.raises(PoolConflict, match="not in the pool"):
        pool.register_alloc(9, R_of(str(first + 1), "x"))
    pool.replace_key(pool.to_dict()["scheduling"])
    said.append(pool.copy_allocated().to_dict())
    pool.remove_ranks(str(first))
    said += [pool.to_dict(), pool.copy_allocated().to_dict()]
    pool.free(3)
    alloc(4, "slot=1/core")
    said.append(pool.copy_idle().to_dict())
    return said


def test_a_pool_of_far_ranks_answers_as_one_of_near_ranks():
    far = 1 << 22
    moved = str(answers((0, far))).replace(str(far), "7")
    assert moved == str(answers((0, 7)))


def test_a_hostlist_takes_no_memory_for_the_square_of_the_hosts():
    import tracemalloc

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
