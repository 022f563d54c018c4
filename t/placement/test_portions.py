"""A choice in portions of work is the same choice, and no portion is much larger than allowed."""

import random

import pytest

from placement.test_plan import NOW, Case
from treepool import Pool, parse_shape
from treepool.placement.allocation import parts_of
from treepool.placement.effort import Interrupted, Portion
from treepool.placement.on_node import fit
from treepool.rfc.jobspec import from_resources

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
    "slot=2/[core=2;numa{x}]", "node=3+/slot=1/gpu=1", "slot=4/node=2/core=2",
)  # fmt: skip


def used_pool(seed, fabric):
    """A pool of 32 nodes on which most states are different."""
    chance = random.Random(seed)
    key = {"writer": "TreePool", "children": [{"ranks": "0-31", "topo": TOPO}]}
    pool = Pool({
        "version": 1,
        "execution": {
            "R_lite": [{"rank": "0-31", "children": {"core": "0-15", "gpu": "0-3"}}],
            "nodelist": ["n[0-31]"],
        },
        "scheduling": {**key, **({"fabric": SWITCHES} if fabric else {})},
    })  # fmt: skip
    for rank in range(32):
        pool.occupy(-1 - rank, (((rank,), chance.getrandbits(14), chance.getrandbits(3)),))
    return pool


def request_of(pool, shape, **options):
    spec = from_resources(parse_shape(shape), duration=100.0, options=options or None)
    return pool.parse_resource_request(spec)


def in_portions(choose):
    """What *choose* returns if it may compute one fit at a time, and how many portions it took."""
    for attempt in range(10_000):
        with Portion(1):
            return choose(), attempt
    raise AssertionError("it has no end")


@pytest.mark.parametrize("fabric", [False, True])
@pytest.mark.parametrize("options", [{}, {"locality": "required"}])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_choice_that_is_interrupted_is_the_same(shape, options, fabric):
    if shape.startswith("switch") and not fabric:
        return
    whole, parts = used_pool(shape, fabric), used_pool(shape, fabric)
    for jobid, other in enumerate(("slot=1/core=2", shape, "slot=2/gpu=1", shape)):
        wanted = whole.choice(request_of(whole, other, **options))
        asked = request_of(parts, other, **options)
        found, _ = in_portions(lambda asked=asked: parts.choice(asked))
        assert (found.selection is None) == (wanted.selection is None)
        assert found.gave_up == wanted.gave_up
        if wanted.selection is not None:
            assert parts_of(found.selection) == parts_of(wanted.selection)
            for pool in (whole, parts):
                pool.alloc(jobid, request_of(pool, other, **options))


def test_nothing_is_interrupted_outside_a_portion():
    pool = used_pool(1, True)
    asked = request_of(pool, "slot=9/[core=1;gpu=1]")
    _, attempts = in_portions(lambda: pool.choice(asked))
    assert attempts > 5
    assert used_pool(1, True).choice(asked).selection is not None
    with pytest.raises(Interrupted):
        fresh = used_pool(1, True)
        portion = Portion(0)
        portion.__enter__()
        try:
            fresh.choice(request_of(fresh, "slot=1/core=1"))
        finally:
            portion.__exit__(None, None, None)


@pytest.mark.parametrize("shape", SHAPES)
def test_no_step_of_a_pass_computes_more_fits_than_a_portion_has_room_for(monkeypatch, shape):
    monkeypatch.setattr("treepool.placement.plan.timeline._SLICE", 32)
    case = Case(nodes=1)
    case.pool = pool = used_pool(shape, True)
    case.queue = type(case.queue)(pool, case, lambda: case.now)
    case.runs(1, "slot=1/core=1", NOW + 50)
    request = request_of(pool, shape)
    job = case.queue.plan.kinds.waiting(7, 16, request, frozenset(), "", case.now, case.now)
    case.queue.add(job)
    fits, before = [], fit.computed
    for _ in case.queue.run():
        fits.append(fit.computed - before)
        before = fit.computed
    assert max(fits) <= 1 + 2 * 32 // 4  # a fit is work of 4 at least, and two slices may join
