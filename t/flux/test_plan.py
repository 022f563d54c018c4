"""Reservations and backfill, on a pool alone."""

import math
import random

import attrs
import pytest

from treepool import Pool, parse_shape
from treepool.errors import InfeasibleRequest, InsufficientResources
from treepool.placement.plan.backfill import Plan

NOW = 1000.0


def pool_of(nodes=2, cores=8):
    return Pool({
        "version": 1,
        "execution": {
            "R_lite": [{"rank": f"0-{nodes - 1}" if nodes > 1 else "0",
                        "children": {"core": f"0-{cores - 1}"}}],
            "nodelist": [f"n[0-{nodes - 1}]"],
        },
    })  # fmt: skip


def asking(pool, shape, duration=0.0):
    """(request, kind) of a job, as the scheduler has them."""
    system = {"duration": duration}
    spec = {"version": 1, "resources": parse_shape(shape), "tasks": [],
            "attributes": {"system": system}}  # fmt: skip
    request = pool.parse_resource_request(spec)
    return request, attrs.evolve(request, duration=0.0)


def run(pool, jobid, shape, end):
    """Have a job run until *end*."""
    pool.alloc(jobid, asking(pool, shape)[0])
    pool.update_expiration(jobid, end)


def start(plan, jobid, shape, duration):
    return plan.start(jobid, *asking(plan.pool, shape, duration), NOW).dumps()


def reserve(plan, jobid, shape, duration=100):
    found = plan.reserve(jobid, asking(plan.pool, shape, duration)[0], NOW)
    return None if found is None else found.start


def test_a_reservation_is_at_the_first_end_that_frees_enough():
    pool = pool_of()
    run(pool, 1, "slot=1/core=6", NOW + 10)
    run(pool, 2, "slot=1/core=6", NOW + 20)
    plan = Plan(pool)
    assert reserve(plan, 3, "slot=1/core=8") == NOW + 10
    assert reserve(Plan(pool), 3, "slot=2/core=8") == NOW + 20


def test_one_that_waits_for_a_job_without_end_is_at_infinity():
    pool = pool_of()
    run(pool, 1, "slot=1/core=8", 0)
    assert reserve(Plan(pool), 2, "slot=2/core=8") == math.inf


def test_one_that_waits_for_a_node_that_is_down_gets_none():
    pool = pool_of()
    pool.mark_down("1")
    assert reserve(Plan(pool), 2, "slot=2/core=8") is None


def test_a_job_that_is_late_to_end_ends_now():
    pool = pool_of()
    run(pool, 1, "slot=1/core=8", NOW - 50)
    assert reserve(Plan(pool), 2, "slot=2/core=8") == NOW


def test_a_later_reservation_waits_for_the_earlier_one():
    pool = pool_of(1)
    run(pool, 1, "slot=1/core=8", NOW + 10)
    plan = Plan(pool)
    assert reserve(plan, 2, "slot=1/core=5", 100) == NOW + 10
    assert reserve(plan, 3, "slot=1/core=3", 100) == NOW + 10
    assert reserve(plan, 4, "slot=1/core=4", 100) == NOW + 110


def test_a_hole_before_a_reservation_is_used():
    pool = pool_of(1)
    run(pool, 1, "slot=1/core=4", NOW + 100)
    run(pool, 2, "slot=1/core=4", NOW + 10)
    plan = Plan(pool)
    assert reserve(plan, 3, "slot=1/core=8") == NOW + 100
    assert reserve(plan, 4, "slot=1/core=4", 90) == NOW + 10
    assert reserve(plan, 5, "slot=1/core=4", 91) == NOW + 200


def test_a_short_job_passes_and_a_long_one_does_not():
    pool = pool_of(1)
    run(pool, 1, "slot=1/core=4", NOW + 100)
    plan = Plan(pool)
    reserve(plan, 2, "slot=1/core=8")
    with pytest.raises(InsufficientResources):
        start(plan, 3, "slot=1/core=1", 101)
    with pytest.raises(InsufficientResources):
        start(plan, 4, "slot=1/core=1", 0)
    assert start(plan, 5, "slot=1/core=1", 100) == "rank0/core4"
    assert plan.current


def test_a_long_job_passes_beside_what_is_reserved():
    pool = pool_of(2)
    run(pool, 1, "slot=1/core=4", NOW + 100)
    plan = Plan(pool)
    plan.reserve(2, asking(pool, "slot=1/core=6", 100)[0], NOW, not_before=NOW + 100)
    assert start(plan, 3, "slot=1/core=2", 0) == "rank0/core[6-7]"
    assert start(plan, 4, "slot=1/core=8", 0) == "rank1/core[0-7]"


def test_among_jobs_without_end_the_reserved_one_is_kept_free_for():
    pool = pool_of(2)
    run(pool, 1, "slot=1/core=8", 0)
    plan = Plan(pool)
    assert reserve(plan, 2, "slot=2/core=8", 0) == math.inf
    with pytest.raises(InsufficientResources):
        start(plan, 3, "slot=1/core=1", 0)
    assert start(plan, 4, "slot=1/core=1", 1e6) == "rank1/core0"


def test_a_reservation_whose_time_has_passed_is_kept_free_for_as_before():
    pool = pool_of(2)
    run(pool, 1, "slot=1/core=8", NOW + 10)
    plan = Plan(pool)
    assert reserve(plan, 2, "slot=2/core=8", 100) == NOW + 10
    late = NOW + 200  # and job 1 still holds its node: housekeeping, say
    with pytest.raises(InsufficientResources):
        plan.start(3, *asking(pool, "slot=1/core=1", 1000), late)


def test_what_the_pool_can_never_do_is_said():
    plan = Plan(pool_of())
    with pytest.raises(InfeasibleRequest):
        start(plan, 1, "slot=1/core=9", 0)


def test_a_plan_is_over_when_the_pool_changes():
    pool = pool_of()
    plan = Plan(pool)
    pool.mark_down("1")
    assert not plan.current


@pytest.mark.parametrize("seed", range(30))
def test_no_reservation_moves_back_whatever_is_started_beside_it(seed):
    chance = random.Random(seed)
    pool = pool_of(3)
    for jobid in range(1, 5):
        try:
            run(pool, jobid, f"slot=1/core={chance.randint(2, 8)}", NOW + chance.randint(1, 100))
        except InsufficientResources:
            continue
    plan = Plan(pool)
    waiting = []
    for jobid in range(10, 13):
        shape, duration = f"slot={chance.randint(1, 3)}/core={chance.randint(4, 8)}", 50
        waiting.append((jobid, shape, duration, reserve(plan, jobid, shape, duration)))
    for jobid in range(20, 40):
        shape = f"slot={chance.randint(1, 2)}/core={chance.randint(1, 4)}"
        try:
            start(plan, jobid, shape, chance.choice([0, 5, 50, 500]))
        except InsufficientResources:
            continue
    for held in plan.reservations:
        for other in plan.reservations:
            if held is not other and held.start < other.end and other.start < held.end:
                assert not _overlap(held.parts, other.parts)
    ends = {job: end or math.inf for job, end in pool.job_end_times()}
    for jobid, _, _, begin in waiting:
        (held,) = [r for r in plan.reservations if r.jobid == jobid]
        then = pool.copy()
        for job, end in ends.items():
            if end <= begin:
                then.free(job)
        others = _size(then.copy_allocated())
        then.occupy(jobid, held.parts)
        assert _size(then.copy_allocated()) - others == _cores(held.parts), "all of it is free"


def _overlap(some, others):
    return any(set(a[0]) & set(b[0]) and a[1] & b[1] for a in some for b in others)


def _cores(parts):
    return sum(len(ranks) * bin(cores).count("1") for ranks, cores, _ in parts)


def _size(resources):
    return sum(bin(e.ranks).count("1") * bin(e.cores).count("1") for e in resources.entries)
