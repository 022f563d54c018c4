"""Reservations, backfill, windows and reasons: each rule in one case."""

import math
import random
from itertools import islice

import pytest

from depth import examples
from generators import outcome
from placement.promises import NOW, Site, pool_of
from treepool import parse_shape
from treepool.placement.allocation import parts_of
from treepool.placement.held import Journal
from treepool.placement.nodes.parts import short_form
from treepool.placement.plan.forecast import Forecast
from treepool.placement.plan.jobs import FAR, Rule, finish
from treepool.placement.plan.windows import Window
from treepool.rfc.jobspec import from_resources


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Reservations move at once."""
    monkeypatch.setattr("treepool.placement.plan.queue.SWEEP", 0.0)


class Case(Site):
    """A queue on a few nodes of 8 cores, which is not judged: tests change the pool themselves."""

    def __init__(self, nodes=2, policy="conservative", depth=8, rules=None):
        super().__init__(pool_of(nodes), Rule(policy, depth), rules)
        self.got = {}

    def started(self, job, allocation, how):
        self.got[job.jobid] = allocation.dumps()

    def refused(self, job, reason):
        self.got[job.jobid] = reason

    def submit(self, jobid, shape, duration=100.0, **more):
        super().submit(jobid, shape, duration, **more)
        self.run()
        return self.got.get(jobid)

    def run(self):
        finish(self.queue.run())


@pytest.mark.parametrize("end", [5e17, 1e18, 1e300])
def test_one_that_waits_for_a_job_that_ends_later_than_any_time_waits_for_one_without_end(end):
    case = Case()
    case.runs(1, "slot=1/core=8", NOW + 50)
    case.pool.update_expiration(1, end)
    case.submit(2, "slot=2/core=8")
    assert case.starts()[2] > NOW + FAR
    assert case.why(2) == "1 of 2 slots free now, the rest is held by jobs without a time limit"
    case.submit(3, "slot=1/core=8", duration=1e300)
    case.submit(4, "slot=1/core=8")
    assert case.got == {4: "rank1/core[0-7]"}, "only jobs that end pass it"


def test_a_plan_follows_other_options_of_its_pool():
    case = Case(nodes=2)
    case.runs(1, "slot=1/core=4", NOW + 100)
    case.pool.set_options(policy="worst-fit")
    assert case.submit(2, "slot=1/core=1") == "rank1/core0"
    case.pool.set_options()
    assert case.submit(3, "slot=1/core=1") == "rank0/core4"


def test_the_window_that_is_named_is_one_of_the_nodes_that_the_job_would_get():
    case = Case()
    case.runs(1, "slot=1/core=8", NOW + 1000)
    case.queue.set_windows(
        [Window("elsewhere", 0b1, NOW, NOW + 500), Window("here", 0b10, NOW + 50, NOW + 250)]
    )
    case.submit(2, "slot=1/core=8")
    assert case.why(2).startswith("window here, ")


def some_queue(seed, policy, depth=math.inf):
    """A queue of random jobs on three nodes, of which some run."""
    chance = random.Random(seed)
    case = Case(nodes=3, policy=policy, depth=depth)
    for jobid in range(1, 20):
        shape = chance.choice(SHAPES)
        case.submit(jobid, shape, duration=chance.choice([0.0, 10.0, 20.0, 50.0]))
    return case, chance


SHAPES = ("slot=1/core=3", "slot=2/core=5", "slot=1/core=8", "slot=2/node/core=4", "slot=3/node{x}")


@pytest.mark.parametrize("seed", range(examples(100)))
def test_jobs_added_to_a_forecast_start_when_conservative_reserves_them(seed):
    """Once all of them are planned in the same state: at the same start, a reservation takes nodes
    that are busy when it is made, and jobs that start later may leave others free (seed 32)."""
    case, _ = some_queue(seed, "conservative")
    started = -1
    while started < len(case.got):
        started = len(case.got)
        for rule in Rule("fifo", 1), Rule("conservative", math.inf):
            case.queue.set_rules(rule, {})
            case.run()
    forecast = Forecast(case.pool.copy())
    finish(forecast.begin(NOW))
    waiting = sorted(case.queue.jobs.values(), key=lambda job: job.place)
    assert {j.jobid: outcome(forecast.add(j, NOW)) for j in waiting} == case.starts()


@pytest.mark.parametrize("policy", ["easy", "conservative"])
@pytest.mark.parametrize("seed", range(examples(100)))
def test_what_a_job_would_get_now_is_what_it_gets_when_it_is_submitted(seed, policy):
    case, chance = some_queue(seed, policy, 2)
    for jobid in range(100, 110):
        shape, length = chance.choice(SHAPES), chance.choice([0.0, 5.0, 30.0])
        spec = from_resources(parse_shape(shape), duration=length)
        request = case.pool.parse_resource_request(spec)
        job = case.queue.waiting(jobid, 16, request, frozenset(), "", NOW, NOW)
        said = outcome(case.queue.selection(job))
        got = case.submit(jobid, shape, length)
        assert (said is None) == (got is None)
        if said is not None:
            assert short_form(parts_of(said)) == got


def test_a_forecast_keeps_to_the_reservations_of_all_queues():
    case = Case(nodes=1, policy="fifo", rules={"other": Rule("conservative", 8)})
    case.runs(1, "slot/core=8", NOW + 10)
    case.submit(2, "slot/core=8", 30, queue="other")
    case.submit(3, "slot/core=8", 30)
    case.submit(4, "slot/core=8", 30)
    case.submit(5, "slot/core=8", 30, queue="other")
    made = case.queue.reservations
    assert case.starts() == {2: NOW + 10, 3: NOW + 40, 5: NOW + 70}
    forecast, found = Forecast(case.pool), case.starts()
    finish(forecast.begin(NOW, made.values()))
    finish(forecast.starts([case.queue.jobs[3], case.queue.jobs[4]], NOW, found))
    assert found == {2: NOW + 10, 3: NOW + 40, 5: NOW + 70, 4: NOW + 100}


def test_a_queue_is_settled_when_a_pass_has_ended_and_nothing_changed_since():
    case = Case(nodes=2)
    assert not case.queue.settled
    case.submit(1, "slot=2/core=8")
    assert case.queue.settled
    case.submit(2, "slot=2/core=8")
    case.pool.free(1)
    assert not case.queue.settled
    case.run()
    assert case.queue.settled


def test_nothing_is_kept_of_jobs_that_left():
    case = Case(nodes=1, policy="easy", depth=1)
    case.runs(99, "slot/core=8", 0)
    for jobid in range(1, 9):
        case.submit(jobid, f"slot/core={jobid}")
    for jobid in range(1, 9):
        case.queue.remove(jobid)
    case.run()
    assert not list(case.queue.classes) and not case.queue.reservations
    assert list(case.queue.profile.holdings) == [99]


def test_a_reader_that_keeps_up_with_the_journal_never_reads_everything_again():
    journal, seen = Journal(), 0
    for jobid in range(20_000):
        journal.note([jobid])
        assert journal.since(seen) == [jobid]
        seen = journal.end
    assert journal.since(0) is None


def searching(case, shape):
    """A pass that looks for the first start of a job with *shape*, id 700."""
    spec = from_resources(parse_shape(shape), duration=100.0)
    request = case.pool.parse_resource_request(spec)
    case.queue.add(case.queue.waiting(700, 16, request, frozenset(), "", NOW, NOW))
    return islice(case.queue.run(), 1000)


@pytest.mark.parametrize("before", [0, 5, 300])
def test_a_search_passes_many_ends_at_one_time(before):
    case = Case(nodes=80)
    for jobid in range(640):
        case.runs(jobid, "slot=1/core=1", NOW + min(1 + jobid, 1 + before))
    assert sum(1 for _ in searching(case, "slot=80/core=8")) < 1000
    assert case.starts() == {700: NOW + 1 + before}


@pytest.mark.parametrize(("duration", "end"), [(0, 150), (20, 120), (100, 150)])
def test_a_job_ends_with_its_pool_at_the_latest_even_if_it_had_to_wait(duration, end):
    case = Case(nodes=1)
    case.runs(1, "slot/core=8", NOW + 100)
    case.pool.set_expiration(NOW + 150)
    case.submit(2, "slot/core=8", duration)
    case.now = NOW + 100
    case.pool.free(1)
    case.run()
    assert dict(case.pool.job_end_times()) == {2: NOW + end}
