"""What the scheduler counts is what there is; a pass is timed without what comes in between."""

import random
import time
from unittest.mock import Mock

import pytest

from generators import outcome
from made import nodes
from placement.promises import Site
from treepool import parse_shape
from treepool.errors import InsufficientResources
from treepool.flux.numbers import Passes, Steps, free_of
from treepool.placement.plan.jobs import finish
from treepool.placement.pool import Pool
from treepool.rfc.jobspec import from_resources
from treepool.view.picture import Picture

TOPO = {"socket": [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1-2"}]}
R = nodes("0-5", "0-8", "0-3", TOPO)
R["scheduling"]["children"][0]["ranks"] = "0-4"
SHAPES = ("slot=1/core=1", "slot=2/[core=2;gpu=1]", "slot=1/node{x}", "slot=1/gpu=2", "slot/core=5")


@pytest.mark.parametrize("seed", range(30))
def test_what_is_free_and_stranded_is_what_a_picture_counts(seed):
    chance, pool = random.Random(seed), Pool(R)
    for jobid in range(chance.randint(0, 14)):
        spec = from_resources(parse_shape(chance.choice(SHAPES)))
        try:
            pool.alloc(jobid, pool.parse_resource_request(spec))
        except InsufficientResources:
            continue
    pool.mark_down(str(chance.randint(0, 5)))
    totals, found = Picture.of(pool, []).totals, outcome(free_of(pool))
    assert found["cores"] == totals.cores_free
    assert found["gpus"] == totals.gpus_free
    assert found["gpus_stranded"] == pytest.approx(totals.gpus_stranded)


def test_a_pass_that_is_interrupted_is_one_pass_and_waiting_does_not_count(monkeypatch):
    passes, clock = Passes(), [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])

    def work(*steps):
        for seconds in steps:
            clock[0] += seconds
            yield

    interrupted = passes.timed(work(1.0, 2.0))
    next(interrupted)
    clock[0] += 100.0
    interrupted.close()
    assert passes.to_dict()["count"] == 0
    assert list(passes.timed(work(3.0, 4.0))) == [None, None]
    assert passes.to_dict() == {
        "count": 1,
        "sum": 8.0,
        "median": 8.0,
        "p99": 8.0,
        "worst": 8.0,
    }


def test_a_pass_that_is_over_at_once_is_a_pass_too():
    site = Site(Pool(R))
    site.submit(1, "slot=1/core=1")
    passes = Passes()
    for _ in range(2):  # at the second look nothing is left to do
        finish(passes.timed(site.queue.run()))
        assert passes.to_dict()["count"] == 1


def test_what_is_free_is_that_of_one_moment():
    nodes = {"rank": "0-99", "children": {"core": "0-99"}}
    pool = Pool({"version": 1, "execution": {"R_lite": [nodes], "nodelist": ["n[0-99]"]}})
    for used in range(1, 100):  # the state of each node is another
        pool.occupy(used, [(1 << used, (1 << used) - 1, 0)])
    before, counting = outcome(free_of(pool)), free_of(pool)
    next(counting)
    for jobid, _ in pool.job_end_times():
        pool.free(jobid)
    assert outcome(counting) == before


def test_a_step_is_the_work_between_two_looks_for_events(monkeypatch):
    clock, calls = [5.0], []
    monkeypatch.setattr(time, "thread_time", lambda: clock[0])
    steps = Steps(Mock(prepare_watcher_create=lambda call: calls.append(call) or Mock()))
    calls[0]()  # the first step begins
    for seconds in (0.001, 0.03, 0.02):
        clock[0] += seconds
        calls[0]()
    told = {"count": 3, "long": 1, "sum": pytest.approx(0.051), "worst": pytest.approx(0.03)}
    assert steps.to_dict() == told
