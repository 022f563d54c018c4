"""Groups in groups (``segment=cell:4,switch:2``), equal parts (``within=switch:2:balanced``).

The oracle tries every way to divide the job among the switches; it knows nothing of rooms.
"""

from collections import Counter
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import examples
from made import alloc, asked, nodes
from treepool.errors import InfeasibleRequest, InsufficientResources, InvalidJobspec
from treepool.placement.choose.strict import strict
from treepool.placement.pool import Pool
from treepool.rfc import idset

#: Of each cell: the numbers of free nodes of its switches.
FREE = st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=3), min_size=1, max_size=3)


def pool_of(cells):
    """Nodes below switches of five, of which so many are free; and the switch of each rank."""
    switches, fabric, busy, rank = {}, [], [], 0
    for number, cell in enumerate(cells):
        inside = []
        for place, free in enumerate(cell):
            ranks = range(rank, rank + 5)
            switches.update(dict.fromkeys(ranks, (number, place)))
            inside.append({"ranks": f"{rank}-{rank + 4}"})
            busy += ranks[free:]
            rank += 5
        fabric.append({"switch": inside})
    pool = Pool(nodes(f"0-{rank - 1}", "0-1", fabric={"cell": fabric}))
    if busy:
        pool.mark_down(",".join(map(str, busy)))
    return pool, switches


def taken(pool, switches, shape, **options):
    """How many nodes the job gets of each switch; None if it has to wait or never fits."""
    try:
        got = alloc(pool, 1, shape, **options)
    except (InsufficientResources, InfeasibleRequest):
        return None
    return Counter(switches[rank] for ranks, _, _ in got.parts
                   for rank in idset.iterate(ranks))  # fmt: skip


def divisions(cells, wanted):
    """All ways to have *wanted* nodes on the switches."""
    names = [(number, place) for number, cell in enumerate(cells) for place in range(len(cell))]
    ways = product(*(range(cells[n][p] + 1) for n, p in names))
    return ({s: k for s, k in zip(names, way) if k} for way in ways if sum(way) == wanted)


def is_grouped(division, outer, inner):
    """Whether the nodes make groups of *outer* in a cell, of groups of *inner* below a switch."""
    cells = Counter()
    for (cell, _), number in division.items():
        if number % inner:
            return False
        cells[cell] += number
    return all(number % outer == 0 for number in cells.values())


@settings(max_examples=examples(200), deadline=None)
@given(FREE, st.sampled_from([(2, 1), (4, 2), (6, 2), (6, 3), (4, 4), (3, 1)]), st.integers(1, 3))
def test_groups_in_groups_are_found_whenever_there_is_a_way(cells, sizes, number):
    outer, inner = sizes
    pool, switches = pool_of(cells)
    wanted = outer * number
    found = taken(
        pool, switches, f"node={wanted}/slot/core=2", segment=f"cell:{outer},switch:{inner}"
    )
    ways = [way for way in divisions(cells, wanted) if is_grouped(way, outer, inner)]
    assert (found is not None) == bool(ways)
    assert found is None or is_grouped(found, outer, inner)


@settings(max_examples=examples(200), deadline=None)
@given(FREE, st.integers(2, 9), st.integers(2, 4))
def test_equal_parts_are_found_whenever_there_is_a_way_and_as_few_as_possible(cells, wanted, most):
    pool, switches = pool_of(cells)
    within = f"switch:{most}:balanced"
    found = taken(pool, switches, f"node={wanted}/slot/core=2", within=within)
    ways = [
        way
        for way in divisions(cells, wanted)
        if len(way) <= most and max(way.values()) - min(way.values()) <= 1
    ]
    assert (found is not None) == bool(ways)
    if found is not None:
        assert dict(found) in ways
        cells_of = [{cell for cell, _ in way} for way in (dict(found), *ways)]
        # The smallest domain comes first: in one cell rather than on fewer switches of two.
        together = len(found) == 1 or len(cells_of[0]) == min(map(len, cells_of))
        assert together or min(map(len, cells_of)) > 1
        alike = [way for way, there in zip(ways, cells_of[1:]) if there <= cells_of[0]]
        assert len(found) == min(map(len, alike))


@pytest.mark.parametrize("wait", [{}, {"wait": 60}])
def test_parts_are_equal_also_on_fewer_switches(wait):
    pool, _ = pool_of([[5, 5, 5, 5]])
    request = asked(pool, "node=6/slot/core=2", within="switch:4:balanced", switches=2, **wait)
    now = strict(request, pool.copy_idle().situation) if wait else request
    got = pool.alloc(1, now)
    assert sorted(Counter(rank // 5 for rank in got.ranks).values()) == [3, 3]


@pytest.mark.parametrize(
    "option, why",
    [
        ({"segment": "cell:4,switch:3"}, "groups of 3 nodes do not divide those of 4"),
        ({"segment": "switch:2,switch:2"}, "'switch' is named twice"),
        ({"segment": "cell:4,rack:2"}, "'rack' is not a locality above the nodes"),
        ({"segment": "cell:4,"}, "is not a locality and a number of nodes"),
        ({"segment": "cell:5,switch:1"}, "segments of 5 nodes do not divide the 8 nodes of"),
        ({"within": "switch:2:even"}, "'2:even' is not a number of domains"),
    ],
)
def test_what_makes_no_groups_is_refused_with_the_reason(option, why):
    pool, _ = pool_of([[5, 5], [5, 5]])
    with pytest.raises(InvalidJobspec, match=why):
        asked(pool, "node=8/slot/core=2", **option)


def test_groups_may_be_named_in_any_order():
    pool, switches = pool_of([[5, 5], [5, 5]])
    one = taken(pool, switches, "node=8/slot/core", segment="switch:2,cell:4")
    pool, switches = pool_of([[5, 5], [5, 5]])
    assert one == taken(pool, switches, "node=8/slot/core", segment="cell:4,switch:2") is not None


def test_a_refusal_says_which_group_does_not_fit():
    pool, _ = pool_of([[5, 5], [5]])
    for segment, why in (
        ("cell:12,switch:6", "no switch has 6 nodes: the largest has 5"),
        ("cell:12,switch:4", "no cell has room for 3 segments: the largest has room for 2"),
    ):
        with pytest.raises(InfeasibleRequest, match=why):
            pool.check_feasibility(asked(pool, "node=12/slot/core", segment=segment))
    with pytest.raises(InfeasibleRequest, match="in 2 switch domains at most, balanced"):
        within = "switch:2:balanced"
        pool.check_feasibility(asked(pool, "node=11/slot/core", within=within))
