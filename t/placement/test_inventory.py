"""The inventory: nodes by rank, and the ranks on a host."""

from __future__ import annotations

import tracemalloc

import pytest

from made import alloc, asked, nodes
from treepool.placement.pool import Pool
from treepool.rfc import idset, rset
from treepool.rfc.constraint import parse
from work import Lines


def R_of(ranks, hosts):
    return nodes(ranks, "0-3", nodelist=[hosts])


def test_ranks_may_be_far_apart():
    last = rset.MAX_RANKS - 1
    pool = Pool(R_of(f"0,{last}", "a,b"))
    assert alloc(pool, 1, "slot=1/core", {"hostlist": ["b"]}).ranks == (last,)
    pool.free(1)
    pool.remove_ranks("0")
    assert idset.encode(pool.ranks) == str(last)


def test_a_hostlist_takes_no_memory_for_the_square_of_the_hosts():
    last = (1 << 15) - 1
    pool = Pool(R_of(f"0-{last}", f"h[0-{last}]"))
    request = asked(pool, "slot=1/core", {"hostlist": [f"h[1-{last}]"]})
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
    found = [matching(pool, hostlist=[host])[0] for host in ("a", "b", "c", "x", "[0-9]", "a,c")]
    assert found == [{0, 2}, {1}, {3}, set(), set(), {0, 2, 3}]
    assert alloc(pool, 1, "slot=2/node", {"hostlist": ["a"]}).ranks == (0, 2)
    assert idset.encode(pool.up) == "0-3"


def matching(pool, **constraint):
    """The ranks that *constraint* matches, and the lines of treepool that this took."""
    with Lines() as work:
        found = pool.inventory.matching(parse(constraint))
    return set(idset.iterate(found)), work.count


@pytest.mark.parametrize(
    "text",
    [
        "h[1-1000000]",
        "h[1-99999999999999999999]",
        "h[1-1000]x,h[1-1000000]-ib,h[1-16]",
        ",".join(["h[1-1000000]"] * 100),
        ",".join(f"h[1-{1000000 + i}]" for i in range(100)),
    ],
    ids=lambda text: text[:40],
)
def test_a_hostlist_costs_its_text_and_the_nodes_it_matches(text):
    """The hosts that the text denotes and the pool lacks cost nothing."""
    pool = Pool(R_of("0-15", "h[1-16]"))
    ranks, lines = matching(pool, hostlist=[text])
    assert ranks == set(range(16))
    assert lines < 1000 + 20 * len(text)


def test_hosts_that_are_matched_again_and_again_are_not_looked_at_again_and_again():
    """Each of many hostlists matches every node; the lines follow the length of the text."""
    number = 4096
    hosts = ",".join(f"h{i * 999 % number}" for i in range(number))
    pool = Pool(R_of(f"0-{number - 1}", hosts))
    pool.inventory.matching(parse({"hostlist": ["h[0-9999]"]}))  # makes the index
    many = [{"hostlist": [f"h[0-{number + i}]"]} for i in range(100)]
    for constraint in {"or": many}, {"and": many}, {"hostlist": [m["hostlist"][0] for m in many]}:
        ranks, lines = matching(pool, **constraint)
        assert ranks == set(range(number))
        assert lines < 100 * number / 8


def test_ranks_beyond_the_pool_cost_nothing():
    pool = Pool(R_of("0-15", "h[1-16]"))
    tracemalloc.start()
    try:
        ranks, lines = matching(pool, ranks=[f"0,2,5-{4_000_000 + i}" for i in range(1000)])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert ranks == {0, 2, *range(5, 16)}
    assert lines < 200_000
    assert peak < 4 << 20  # 500 KB for each set as a mask
