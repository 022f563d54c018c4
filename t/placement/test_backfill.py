"""The time of a reservation: the first at which a job fits, found without trying them all."""

import math
import random

import pytest

from treepool import Pool, parse_shape
from treepool.errors import InsufficientResources
from treepool.placement.plan import backfill
from treepool.placement.plan.backfill import Plan
from treepool.rfc.jobspec import from_resources

NOW = 100.0
SHAPES = ("slot=1/core=1", "slot=1/core=3", "slot=2/core=2", "slot=1/node{x}", "slot=5/core=4")


def pool_of(nodes):
    return Pool({
        "version": 1,
        "execution": {
            "R_lite": [{"rank": f"0-{nodes - 1}", "children": {"core": "0-7"}}],
            "nodelist": [f"n[0-{nodes - 1}]"],
        },
    })  # fmt: skip


def request(pool, shape):
    return pool.parse_resource_request(from_resources(parse_shape(shape), duration=10))


def crowded(chance, nodes):
    """A pool full of jobs, some of which are late, without end, or end together."""
    pool, jobid = pool_of(nodes), 0
    while True:
        jobid += 1
        try:
            pool.alloc(jobid, request(pool, chance.choice(SHAPES)))
        except InsufficientResources:
            return pool
        end = chance.choice((0, NOW - 5, NOW, NOW + 7, NOW + chance.randint(1, 30)))
        pool.update_expiration(jobid, end)


def first_by_stepping(pool, shape):
    """The first time at which *shape* fits as jobs end one after another."""
    then = pool.copy()
    ends = sorted((max(end, NOW) if end else math.inf, job) for job, end in then.job_end_times())
    for time in sorted({NOW, *(end for end, _ in ends)}):
        while ends and ends[0][0] <= time:
            then.free(ends.pop(0)[1])
        try:
            then.copy().alloc(9999, request(then, shape))
        except InsufficientResources:
            continue
        return time
    return None


@pytest.mark.parametrize("seed", range(60))
def test_it_is_the_time_that_stepping_finds(seed):
    chance = random.Random(seed)
    pool = crowded(chance, chance.randint(3, 6))
    if seed % 5 == 0:
        pool.mark_down("0")
    before = pool.copy_allocated()
    for shape in ("slot=1/core=1", "slot=2/core=8", "slot=2/node{x}", "slot=9/core=2"):
        found = Plan(pool).reserve(9999, request(pool, shape), NOW)
        expected = first_by_stepping(pool, shape)
        assert (found and found.start) == expected
    assert pool.copy_allocated() == before


def test_of_many_running_jobs_few_are_tried(monkeypatch):
    pool = pool_of(128)
    for jobid in range(1, 1025):
        pool.alloc(jobid, request(pool, "slot=1/core=1"))
        pool.update_expiration(jobid, NOW + jobid)
    tried = []
    fits = backfill._fits
    monkeypatch.setattr(backfill, "_fits", lambda *args: tried.append(1) or fits(*args))
    found = Plan(pool).reserve(9999, request(pool, "slot=600/core=1"), NOW)
    assert found.start == NOW + 600
    assert len(tried) <= 2 * math.log2(1024) + 2


def test_an_idle_pool_has_room_now():
    pool = pool_of(2)
    assert Plan(pool).reserve(1, request(pool, "slot=2/node{x}"), NOW).start == NOW
