"""What is prepared in steps is the choice that would have been made at once."""

import itertools
import random

import pytest

from depth import some
from made import asked, nodes
from treepool.placement.allocation import parts_of
from treepool.placement.effort import PER_REQUEST
from treepool.placement.pool import Pool
from work import Lines

TOPO = {
    "socket": [
        {"cores": "0-7", "gpus": "0-1", "numa": [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7"}]},
        {"cores": "8-15", "gpus": "2-3"},
    ]
}
SWITCHES = {"rack": [{"switch": [{"ranks": f"{r}-{r + 3}"} for r in range(0, 32, 4)]}]}

SHAPES = (
    "slot=3/[core=2;gpu=1]", "slot=2-7/[core=1;gpu=2]", "node=5/slot=1/core=3", "slot=1/core=1-9",
    "switch=2/node=2/slot=1/core=2", "slot=9/core=5", "slot=2/socket/numa=2/core=1",
    "slot=2/[core=2;numa{x}]", "node=3+/slot=1/gpu=1", "slot=4/node=2/core=2", "slot=1+/core=1+",
    "slot=3/[numa/core=1;core=1-3]", "slot=1/core=2",
)  # fmt: skip


def used_pool(seed, fabric):
    """A pool of 32 nodes on which most states are different."""
    chance = random.Random(seed)
    having = {"driver:1": "0-9,20-25", "driver:2": "10-19"}
    below = SWITCHES if fabric else None
    pool = Pool(nodes("0-31", "0-15", "0-3", TOPO, fabric=below, properties=having))
    for rank in range(32):
        pool.occupy(-1 - rank, ((1 << rank, chance.getrandbits(14), chance.getrandbits(3)),))
    return pool


def request_of(pool, shape, options):
    return asked(pool, shape, duration=100.0, **options)


def granted(choice):
    return None if choice.selection is None else parts_of(choice.selection)


@pytest.mark.parametrize("options", [{}, {"locality": "required"}, {"same": "driver"}])
@pytest.mark.parametrize(
    ("shape", "fabric"),
    [
        (shape, fabric)
        for shape in some(SHAPES, 3)
        for fabric in (False, True)
        if fabric or not shape.startswith("switch")
    ],
)
def test_a_choice_that_was_prepared_is_the_same(shape, fabric, options):
    pool, fresh = used_pool(shape, fabric), used_pool(shape, fabric)
    asked = request_of(pool, shape, options)
    expected = fresh.choice(request_of(fresh, shape, options))
    for work in pool.situation.prepare(asked):
        assert 0 < work < PER_REQUEST
    assert list(pool.situation.prepare(asked)) == []
    found = pool.choice(asked)
    assert granted(found) == granted(expected)
    assert (found.gave_up, found.effort) == (expected.gave_up, expected.effort)


@pytest.mark.parametrize("shape", some(SHAPES, 3))
def test_what_is_prepared_may_be_left_alone_and_change_meanwhile(shape):
    pool, fresh = used_pool(shape, True), used_pool(shape, True)
    for jobid, options in enumerate(({}, {"same": "driver"}, {"locality": "required"})):
        asked = request_of(pool, shape, options)
        for number, _ in enumerate(pool.situation.prepare(asked)):
            if number in (1, 4):
                for each in (pool, fresh):
                    each.choice(request_of(each, "slot=2/core=1", {}))
                    each.alloc(100 * number + 10 * jobid, request_of(each, "slot/core=1", {}))
            if number == 5:
                break
        expected = fresh.choice(request_of(fresh, shape, options))
        assert granted(pool.choice(asked)) == granted(expected)


def test_few_states_are_looked_at_for_a_job_that_few_can_serve():
    pool = used_pool(1, False)
    assert len(list(pool.situation.prepare(request_of(pool, "slot/core=2", {})))) < 4


@pytest.mark.parametrize("options", [{}, {"within": "switch"}, {"same": "driver"}])
@pytest.mark.parametrize("shape", ["slot/core", "node=3/slot/core=2"])
def test_a_first_choice_below_switches_is_made_in_small_steps(shape, options):
    """Whatever the number of nodes: what all of them are in was once counted in one step."""
    ranks = 3072
    switches = [{"ranks": f"{r}-{r + 15}"} for r in range(0, ranks, 16)]
    racks = {"rack": [{"switch": switches[r : r + 16]} for r in range(0, len(switches), 16)]}
    having = {"driver:1": f"0-{ranks - 9}", "driver:2": f"{ranks - 8}-{ranks - 1}"}
    pool = Pool(nodes(f"0-{ranks - 1}", "0-15", fabric=racks, properties=having))
    asked = request_of(pool, shape, options)
    steps = pool.situation.prepare(asked)
    more = True
    while more:
        with Lines(most=5 * ranks):
            more = next(steps, None) is not None
    with Lines(most=5 * ranks):
        assert pool.choice(asked).selection is not None


@pytest.mark.parametrize("fabric", [False, True])
@pytest.mark.parametrize("shape", ["slot=1500/[core=2;gpu=1]", "node=100/slot=4/core=2"])
def test_what_a_job_takes_of_hundreds_of_states_is_chosen_before_it_is_placed(shape, fabric):
    ranks = 600
    switches = {"switch": [{"ranks": f"{r}-{r + 5}"} for r in range(0, ranks, 6)]}
    pool = Pool(nodes(f"0-{ranks - 1}", "0-31", "0-3", TOPO, fabric=switches if fabric else None))
    for rank in range(ranks):
        pool.occupy(-1 - rank, ((1 << rank, (1 << 16) + rank << 8, 0),))
    asked = request_of(pool, shape, {})
    assert all(0 < work < PER_REQUEST for work in pool.situation.prepare(asked))
    found = pool.choice(asked)
    with Lines(most=20 * ranks):
        assert granted(found)


def seemingly_equal(ranks):
    """A pool where a slot of four cores is local on rank 0 alone, whose switch has idle nodes.

    All others seem to be equal to it, and are tried first.
    """
    topo = {"socket": [{"cores": f"{8 * i}-{8 * i + 7}"} for i in range(4)]}
    switches = {"switch": [{"ranks": f"{r}-{r + 9}"} for r in range(0, ranks, 10)]}
    pool = Pool(nodes(f"0-{ranks - 1}", "0-31", topo=topo, fabric=switches))
    pairs = itertools.product(itertools.combinations(range(8), 2), repeat=2)
    free = [{0, 1, 2, 3, 4, 5, 6, 7}] + [
        {*one, *(8 + i for i in two), 16, 17, 24, 25} for one, two in itertools.islice(pairs, ranks)
    ]
    for rank in (0, *range(10, ranks)):
        taken = sum(1 << core for core in range(32) if core not in free[rank])
        pool.occupy(-1 - rank, ((1 << rank, taken, 0),))
    return pool


def test_nodes_that_only_seemed_equal_are_looked_at_in_small_steps():
    ranks = 200
    pool = seemingly_equal(ranks)
    asked = request_of(pool, "slot/core=4", {})
    steps, more = pool.situation.prepare(asked), True
    while more:
        with Lines(most=100 * ranks):
            more = next(steps, None) is not None
    with Lines(most=100 * ranks):
        assert pool.choice(asked).selection.ranks == 1


@pytest.mark.parametrize("change", ["down", "taken", "free"])
def test_nodes_that_seem_equal_may_change_while_they_are_looked_at(change):
    ranks = 100
    for number in range(0, ranks, 9):
        pool = seemingly_equal(ranks)
        asked = request_of(pool, "slot/core=4", {})
        steps = pool.situation.prepare(asked)
        for _ in range(number):
            next(steps, None)
        for rank in range(20, 60):
            if change == "down":
                pool.mark_down(str(rank))
            elif change == "free":
                pool.free(-1 - rank)
            else:
                pool.occupy(1000 + rank, ((1 << rank, (1 << 32) - 1, 0),))
        with Lines(most=100 * ranks * ranks):
            for _ in steps:
                pass
        assert pool.choice(asked).selection is not None
