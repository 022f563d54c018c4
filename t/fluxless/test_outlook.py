"""What whoever asks is told of starts to come: in one queue, and beside the others."""

import time
from itertools import islice
from unittest.mock import Mock

import pytest

from depth import some
from generators import outcome
from made import nodes
from placement.promises import NOW, Site
from treepool.flux.outlook import Outlook
from treepool.placement.plan.forecast import Forecast
from treepool.placement.plan.jobs import Rule, finish
from treepool.placement.pool import Pool

R = nodes()


class Case(Site):
    """A queue on a node of 8 cores, of which a job has 4 for 100 seconds; nothing can be denied."""

    def __init__(self, policy, depth=8):
        super().__init__(Pool(R), Rule(policy, depth))
        self.runs(1, "slot=1/core=4", NOW + 100)
        self.outlook = Outlook(self.queue)

    def job(self, jobid, shape, duration, queue):
        request = self.request(shape, duration)
        return self.queue.waiting(jobid, 16, request, frozenset(), queue, NOW, NOW)

    def submit(self, jobid, shape, duration, queue):
        super().submit(jobid, shape, duration, queue=queue)
        finish(self.queue.run())


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(time, "time", lambda: NOW)


@pytest.mark.parametrize("policy", ["fifo", "easy", "conservative"])
@pytest.mark.parametrize("waiting", [0, 1])
def test_a_new_job_respects_the_reservations_of_other_queues(policy, waiting):
    case = Case(policy)
    case.submit(2, "slot=1/core=1", 10.0, "debug")  # so that there are two queues
    case.submit(3, "slot=1/core=8", 50.0, "batch")
    assert case.queue.reservations[3].start == NOW + 100
    for jobid in range(4, 4 + waiting):
        case.submit(jobid, "slot=1/core=2", 200.0, "debug")
    for queue in ("debug", "other"):  # nothing waits in the other one
        new = case.job(99, "slot=1/core=1", 150.0, queue)
        assert outcome(case.outlook.start_of_new(new)).start == NOW + 150


def test_jobs_of_other_queues_are_ahead_though_they_have_no_reservation():
    case = Case("fifo", depth=1)
    for jobid, queue in enumerate(["batch"] * 3 + ["debug"] * 2, 2):
        case.submit(jobid, "slot=1/core=8", 50.0, queue)
    assert {made: one.start for made, one in case.queue.reservations.items()} == {
        2: NOW + 100,
        5: NOW + 150,
    }
    assert outcome(case.outlook.starts(0.0)) == {3: NOW + 200, 4: NOW + 250, 6: NOW + 300}
    assert outcome(case.outlook.start(case.queue.jobs[6])) == NOW + 300
    new = case.job(99, "slot=1/core=8", 50.0, "debug")
    assert outcome(case.outlook.start_of_new(new)).start == NOW + 350


@pytest.mark.parametrize("policy", some(["fifo", "easy"]))
def test_a_new_job_is_behind_all_though_others_have_left_that_were_planned(policy):
    case = Case(policy, depth=1)
    for jobid in range(2, 302):
        case.queue.add(case.job(jobid, "slot=1/core=8", 50.0, "batch"))
    finish(case.queue.run())
    new = case.job(999, "slot=1/core=8", 50.0, "batch")
    assert outcome(case.outlook.start_of_new(new)).start == "many"
    other = case.job(999, "slot=1/core=8", 50.0, "debug")
    assert outcome(case.outlook.start_of_new(other)).start == NOW + 100 + 257 * 50
    for jobid in range(2, 102):
        case.queue.remove(jobid)
    finish(case.queue.run())
    assert outcome(case.outlook.start_of_new(new)).start == NOW + 100 + 200 * 50


@pytest.mark.parametrize("policy", ["fifo", "easy"])
def test_who_has_no_estimate_is_told_why(policy):
    case = Case(policy)
    case.submit(2, "slot=1/core=8", 0.0, "batch")  # it starts later, and has no limit
    case.submit(3, "slot=1/core=8", 50.0, "batch")
    case.submit(4, "slot=1/core=8", 50.0, "batch")
    jobs = case.queue.jobs
    told = [outcome(case.outlook.start(jobs[jobid])) for jobid in (2, 3, 4)]
    assert told[0] == NOW + 100
    assert told[1:] == ["unlimited", "ahead" if policy == "fifo" else "unlimited"]
    new = case.job(99, "slot=1/core=8", 50.0, "batch")
    assert outcome(case.outlook.start_of_new(new)).start == told[2]


@pytest.mark.parametrize("policy", ["fifo", "easy", "conservative"])
def test_annotations_have_what_is_told_to_who_asks_of_jobs_without_a_reservation(policy):
    case = Case(policy)
    for jobid in range(2, 14):
        case.submit(jobid, "slot=1/core=8", 50.0, "batch")
    case.submit(14, "slot=1/core=8", 50.0, "debug")
    case.submit(15, "slot=1/core=1", 0.0, "batch")  # it may have none behind it
    case.submit(16, "slot=1/core=8", 50.0, "batch")
    told = outcome(case.outlook.starts(0.0))
    jobs = case.queue.jobs
    wanted = {jobid: outcome(case.outlook.start(jobs[jobid])) for jobid in range(2, 17)}
    reserved = set(case.queue.reservations)
    assert told == {
        jobid: start
        for jobid, start in wanted.items()
        if jobid not in reserved and not isinstance(start, str)
    }
    assert len(told) >= 5 and isinstance(wanted[16], str)


def test_annotations_are_planned_again_once_something_changed():
    case = Case("fifo")
    for jobid in (2, 3):
        case.submit(jobid, "slot=1/core=8", 50.0, "batch")
    assert outcome(case.outlook.starts(0.0)) == {3: NOW + 150}
    case.pool.update_expiration(1, NOW + 500)
    finish(case.queue.run())
    assert outcome(case.outlook.starts(0.0)) == {3: NOW + 150}, "that plan serves"
    assert outcome(case.outlook.starts(time.monotonic())) == {3: NOW + 550}


def test_who_needs_nodes_that_are_away_is_told_so():
    case = Case("easy")
    case.pool.mark_down("0")
    case.submit(2, "slot=1/core=8", 10.0, "batch")
    assert outcome(case.outlook.start(case.queue.jobs[2])) == "nodes"
    assert (
        outcome(case.outlook.start_of_new(case.job(3, "slot/core", 1.0, "batch"))).start == "nodes"
    )


@pytest.mark.parametrize("steps", range(1, 5))
def test_who_waits_for_a_plan_that_another_began_goes_on_with_it(steps):
    """The other may have used up his share of the time, and do no step for a minute."""
    case = Case("fifo")
    case.submit(2, "slot=1/core=8", 50.0, "batch")
    jobs = [case.job(jobid, "slot=1/core=8", 50.0, "batch") for jobid in (98, 99)]
    other, mine = map(case.outlook.start_of_new, jobs)
    for _ in islice(other, steps):
        pass
    finished = [None]

    def work():
        finished[0] = yield from mine

    assert sum(1 for _ in islice(work(), 1000)) < 1000
    assert finished[0].start == NOW + 150
    assert outcome(other).start == NOW + 150


def test_a_plan_that_fails_is_an_error_to_who_began_it_and_to_nobody_else(monkeypatch):
    case = Case("fifo")
    new = case.job(99, "slot=1/core=8", 50.0, "batch")
    planned = Forecast.begin
    monkeypatch.setattr(Forecast, "begin", Mock(side_effect=[ArithmeticError]))
    other, mine = case.outlook.start_of_new(new), case.outlook.start_of_new(new)
    next(other)
    next(mine)
    monkeypatch.setattr(Forecast, "begin", planned)
    assert outcome(mine).start == NOW + 100
    with pytest.raises(ArithmeticError):
        outcome(other)
