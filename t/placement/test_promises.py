"""The promises of the plan (doc/design.md, "In time"): each rule in one case, and random histories.

Every pass of every case is judged, see promises.py.
"""

from __future__ import annotations

import math

import attrs
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from depth import deep, some
from placement.promises import FAR, NOW, History, Site, nothing_could_be_earlier, pool_of
from treepool.placement.plan.forecast import Forecast
from treepool.placement.plan.jobs import POLICIES, Rule, at_length, finish
from treepool.placement.plan.windows import Window
from treepool.rfc import idset
from treepool.rfc.constraint import Constraint
from work import Lines

DAY = 86400.0

#: An event needs a byte for what it is and a few for its choices.
EVENTS = st.lists(st.binary(min_size=12, max_size=12), min_size=40, max_size=40)


@settings(max_examples=5000 if deep() else 60, deadline=None, report_multiple_bugs=False)
@given(st.binary(min_size=4, max_size=4), EVENTS)
def test_no_history_breaks_a_promise(site, events):
    with pytest.MonkeyPatch.context() as patch:
        # A pass yields wherever it may, so that it is left there.
        patch.setattr("treepool.placement.plan.profile.SLICE", 1)
        history = History(site)
        try:
            for event in events:
                history.happen(event)
            history.over()
        except BaseException:
            note("\n".join(history.story))
            raise


def site_of(policy="easy", nodes=2, depth=None, rules=None, **kind):
    """A site of a few nodes of 8 cores, at NOW."""
    rule = Rule(policy, POLICIES[policy] if depth is None else depth)
    return Site(pool_of(nodes, **kind), rule, rules)


def waits(site, jobid, shape, duration=100.0, *args, **options):
    """Submit a job; whether it waits."""
    site.submit(jobid, shape, duration, *args, **options)
    site.run()
    return jobid in site.queue.jobs


each_policy = pytest.mark.parametrize("policy", ["fifo", "easy", "conservative"])


# ---- Reservations ----


def test_a_reservation_is_at_the_first_end_that_frees_enough():
    site = site_of("conservative")
    site.runs(1, "slot=1/core=6", NOW + 10)
    site.runs(2, "slot=1/core=6", NOW + 20)
    assert waits(site, 3, "slot=1/core=8")
    assert waits(site, 4, "slot=2/core=8")
    assert site.starts() == {3: NOW + 10, 4: NOW + 110}


@each_policy
def test_behind_a_job_without_a_limit_nobody_can_be_told_a_start(policy):
    site = site_of(policy, nodes=1)
    site.runs(1, "slot=1/core=8", NOW + 100)
    assert waits(site, 2, "slot=1/core=8", 0.0)
    assert waits(site, 3, "slot=1/core=1", queue="other")
    assert site.starts()[2] == NOW + 100
    assert NOW + FAR < site.starts()[3] < math.inf


def test_a_job_of_higher_priority_takes_the_reservations_of_those_behind_it():
    site = site_of("conservative", nodes=1)
    site.runs(1, "slot=1/core=8", NOW + 100)
    for jobid in 2, 3, 4:
        assert waits(site, jobid, "slot=1/core=8", 50.0)
    assert waits(site, 5, "slot=1/core=8", 50.0, priority=17)
    assert site.starts() == {5: NOW + 100, 2: NOW + 150, 3: NOW + 200, 4: NOW + 250}
    site.prioritize(4, 18)
    site.run()
    assert site.starts() == {4: NOW + 100, 5: NOW + 150, 2: NOW + 200, 3: NOW + 250}


@pytest.mark.parametrize(("depth", "reserved"), [(1, {2}), (2, {2, 3}), (math.inf, {2, 3, 4, 5})])
def test_conservative_has_reservations_for_as_many_jobs_as_its_depth(depth, reserved):
    site = site_of("conservative", nodes=1, depth=depth)
    site.runs(1, "slot=1/core=8", NOW + 100)
    for jobid in 2, 3, 4, 5:
        assert waits(site, jobid, "slot=1/core=8")
    assert set(site.starts()) == reserved


# ---- Who may pass ----


@each_policy
@pytest.mark.parametrize(("length", "in_time"), [(100.0, True), (101.0, False), (0.0, False)])
def test_a_job_passes_the_first_one_if_that_starts_as_early_and_not_under_fifo(
    policy, length, in_time
):
    site = site_of(policy, nodes=1)
    site.runs(1, "slot=1/core=4", NOW + 100)
    assert waits(site, 2, "slot=1/core=8")
    assert waits(site, 3, "slot=1/core=1", length) != (in_time and policy != "fifo")


@each_policy
def test_a_job_that_starts_is_said_to_be_immediate_reserved_or_backfilled(policy):
    site = site_of(policy, nodes=1)
    site.runs(1, "slot=1/core=4", NOW + 100)
    assert not waits(site, 2, "slot=1/core=1")
    assert waits(site, 3, "slot=1/core=8")
    assert waits(site, 4, "slot=1/core=1", 50.0) == (policy == "fifo")
    assert not waits(site, 5, "slot=1/core=1", 50.0, priority=17)
    assert not waits(site, 6, "slot=1/core=1", 50.0, queue="other")
    site.run(until=NOW + 100)
    for jobid in set(site.running):
        site.end(jobid)
    site.run()
    expected = {2: "immediate", 3: "reserved", 5: "immediate", 6: "immediate"}
    assert site.hows == {**expected, **({} if policy == "fifo" else {4: "backfilled"})}


def test_under_easy_only_the_first_job_is_not_delayed():
    for policy, passes in ("easy", True), ("conservative", False):
        site = site_of(policy, nodes=2)
        site.runs(1, "slot=1/core=8", NOW + 100)
        site.runs(2, "slot=1/core=4", NOW + 50)
        assert waits(site, 3, "slot=2/core=5")
        assert site.starts() == {3: NOW + 100}
        assert waits(site, 4, "slot=1/core=6", 50.0)
        assert waits(site, 5, "slot=1/core=3", 90.0) != passes


def test_queues_do_not_hold_each_other_up_but_keep_to_all_reservations():
    site = site_of(nodes=1, rules={"batch": Rule("fifo", 1), "debug": Rule("fifo", 1)})
    site.runs(1, "slot=1/core=4", NOW + 100)
    assert waits(site, 2, "slot=1/core=8", queue="batch")
    assert not waits(site, 3, "slot=1/core=1", 50.0, queue="debug")
    assert waits(site, 4, "slot=1/core=1", 150.0, queue="debug")


def test_priority_decides_in_the_line_of_a_virtual_queue_and_its_parent():
    site = Site(pool_of(1), Rule("fifo", 8), virtual={"v": "batch", "w": "batch"})
    site.runs(1, "slot=1/core=4", NOW + 100)
    assert waits(site, 2, "slot=1/core=8", queue="batch")
    assert not waits(site, 3, "slot=1/core=1", priority=17, queue="v")
    assert waits(site, 4, "slot=1/core=1", queue="w")
    site.cancel(2)
    site.run()
    assert 4 in site.running


# ---- Who cannot be held to a promise ----


@pytest.mark.parametrize("loss", ["later limit", "window", "node down"])
def test_a_job_that_lost_its_reservation_is_not_passed_by_those_behind_it(loss):
    site = site_of("conservative", nodes=2)
    site.runs(1, "slot=1/core=8", NOW + 100)
    site.runs(2, "slot=1/core=8", NOW + 150)
    for jobid, priority, duration in (10, 20, 100.0), (11, 18, 100.0), (12, 16, DAY):
        assert waits(site, jobid, "slot=1/core=8", duration, priority=priority)
    assert site.starts() == {10: NOW + 100, 11: NOW + 150, 12: NOW + 200}
    if loss == "later limit":
        site.limit(1, NOW + 120)
    elif loss == "window":
        site.set_windows([Window("w", 0b1, NOW + 110, NOW + 120)])
    else:
        site.lose("0")
    site.run()
    expected = {10: 120, 11: 150, 12: 220} if loss != "node down" else {10: 150, 11: 250, 12: 350}
    assert site.starts() == {jobid: NOW + start for jobid, start in expected.items()}


@pytest.mark.parametrize("delay", [1 / 128, 0.5, 1.0])
def test_a_start_that_is_up_to_a_second_late_leaves_the_plan_as_it_is(delay):
    site = site_of("conservative", nodes=1)
    site.runs(1, "slot=1/core=8", NOW + 100)
    for jobid in 2, 3, 4:
        assert waits(site, jobid, "slot=1/core=8")
    site.now = NOW + 100 + delay
    site.end(1)
    site.run()
    assert list(site.running) == [2]
    assert site.starts() == {3: NOW + 200, 4: NOW + 300}


@pytest.mark.parametrize("freed", ["then", "later"])
@pytest.mark.parametrize("beyond", ["job ahead", "window"])
def test_a_job_that_is_late_is_planned_again_where_it_would_be_in_the_way(beyond, freed):
    site = site_of("conservative", nodes=2)
    site.runs(1, "slot=1/core=8", NOW + 100)
    site.runs(2, "slot=1/core=8", NOW + 200)
    if beyond == "window":
        site.set_windows([Window("w", 0b11, NOW + 200, NOW + 300)])
    else:
        assert waits(site, 3, "slot=2/core=8")
    assert waits(site, 4, "slot=1/core=8") and site.starts()[4] == NOW + 100
    site.now = NOW + 150
    if freed == "later":
        site.run()
    site.end(1)
    site.run()
    assert site.starts()[4] == NOW + 300
    assert not waits(site, 5, "slot=1/core=8", 50.0)
    assert 4 in site.queue.jobs


def test_of_jobs_that_are_late_the_one_that_was_to_start_first_starts_first():
    site = site_of("conservative", nodes=1)
    site.runs(1, "slot=1/core=8", NOW + 100)
    assert waits(site, 2, "slot=1/core=8", priority=15)
    assert waits(site, 3, "slot=1/core=8", priority=15)
    site.now = NOW + 150
    site.end(1)
    site.run(until=NOW + 250)
    assert list(site.running) == [2]
    assert site.starts() == {3: NOW + 350}


def test_a_job_that_was_late_is_planned_no_longer_than_its_limit_when_the_clock_is_set_back():
    site = site_of("conservative", nodes=1)
    site.runs(1, "slot=1/core=8", NOW + 100)
    assert waits(site, 2, "slot=1/core=8") and waits(site, 3, "slot=1/core=8")
    for seconds in 50, 70:
        site.run(until=NOW + 100 + seconds)
        assert site.starts() == {2: NOW + 100, 3: NOW + 200 + seconds}
    site.now = NOW + 50
    nothing_could_be_earlier(site)
    assert site.starts() == {2: NOW + 100, 3: NOW + 200}


# ---- Nodes and windows ----


@each_policy
def test_a_job_that_waits_for_nodes_that_are_down_is_told_so_and_holds_up_nobody(policy):
    site = site_of(policy)
    site.lose("1")
    assert waits(site, 2, "slot=2/core=8")
    assert site.starts() == {}
    assert "down" in site.why(2)
    assert not waits(site, 3, "slot=1/core=8")
    site.end(3)
    site.up("1")
    site.run()
    assert 2 in site.running


@each_policy
def test_what_the_pool_can_no_longer_do_is_refused_whoever_is_ahead(policy):
    site = site_of(policy, nodes=3)
    site.runs(1, "slot/core=8", NOW + 100)
    assert waits(site, 2, "node=3/slot/core", priority=20)
    assert waits(site, 3, "node=2/slot/core=8", 0.0) or policy != "fifo"
    assert waits(site, 4, "node=3/slot/core")
    site.lose("2", for_good=True)
    site.run()
    assert set(site.refusals) == {2, 4}
    assert "3 nodes" in site.refusals[4]


@each_policy
def test_no_job_starts_that_would_reach_into_a_window(policy):
    site = site_of(policy)
    site.set_windows([Window("maint", 0b11, NOW + 60, NOW + 90)])
    assert not waits(site, 1, "slot/core=1", 60.0)
    assert waits(site, 2, "slot/core=1", 61.0)
    assert "maint" in site.why(2)
    assert site.queue.next_time <= NOW + 90
    site.end(1)
    site.run(until=NOW + 90)
    assert 2 in site.running


def test_a_window_is_open_to_its_users_and_queues():
    site = site_of(nodes=1)
    window = Window("w", 0b1, NOW, NOW + 500, frozenset([7]), frozenset(["debug"]))
    site.set_windows([window])
    assert waits(site, 1, "slot/core=1", user=8)
    assert site.starts() == {1: NOW + 500}
    assert not waits(site, 2, "slot/core=1", user=7)
    assert not waits(site, 3, "slot/core=1", user=8, queue="debug")


# ---- Starts that fail ----


def test_a_job_whose_start_raises_leaves_the_queue_and_holds_nothing(monkeypatch):
    site = site_of(nodes=1)
    started, failures = site.started, []

    def broken(job, allocation, how):
        if job.jobid == 1:
            raise KeyError("what nobody thought of")
        started(job, allocation, how)

    monkeypatch.setattr(site, "started", broken)
    monkeypatch.setattr(site, "failed", lambda job, error: failures.append(job.jobid))
    assert not waits(site, 1, "slot/core=8")
    assert failures == [1]
    assert not waits(site, 2, "slot/core=8")
    assert list(site.running) == [2]


# ---- Reasons and estimates ----


def test_a_reason_names_what_is_in_the_way():
    site = site_of("easy", nodes=2)
    site.runs(1, "slot=1/core=4", NOW + 100)
    assert waits(site, 2, "slot=2/node{x}", 1000.0)
    assert "1 of 2 nodes" in site.why(2)
    assert waits(site, 3, "slot/core=8", 1000.0)
    assert "2" in site.why(3)
    site.set_rules(Rule("fifo", 8), {})
    assert waits(site, 4, "slot/core=1")
    assert "2" in site.why(4) and "ahead" in site.why(4)


def test_a_reason_says_that_jobs_without_limits_are_in_the_way():
    site = site_of()
    site.runs(1, "slot=1/core=8", 0.0)
    assert waits(site, 2, "slot=2/core=8")
    assert "limit" in site.why(2)


# ---- Promise 3: nobody holds the others up ----

#: The lines of treepool that may run between two yields: some 20 ms.
STEP = 200_000

#: ... and until a plain job starts, whatever others have submitted: some 0.6 s.
SOON = 5_000_000


def uneven(nodes):
    """Nodes with three kinds of NUMA domain, on each of which some small jobs run."""
    cores = ("0-10", "11-15", "16-30", "31-33", "34-39", "40-47", "48-61", "62-79")
    numa = [{"cores": ids} for ids in cores]
    topo = {"socket": [{"numa": numa[:4]}, {"numa": numa[4:]}]}
    site = Site(pool_of(nodes, cores=80, topo=topo), Rule("easy", 1))
    for jobid in range(6 * nodes):
        shape = f"slot=1/core={1 + jobid % 3}"
        site.runs(jobid + 1, shape, NOW + 1000 + jobid, constraints={"ranks": [str(jobid % nodes)]})
    return site


def switches(nodes):
    """Switches of 16 nodes below one another, in 16 families of nodes; a core of each is in use."""
    fabric = {"switch": [{"ranks": f"{r}-{r + 15}"} for r in range(0, nodes, 16)]}
    families = {f"driver_{r}": idset.encode_ids(range(r, nodes, 16)) for r in range(16)}
    site = Site(pool_of(nodes, fabric=fabric, **families), Rule("easy", 1))
    site.runs(1, f"node={nodes}/slot/core=2", NOW + 1000)
    return site


def searching(number):
    """One of many requests that need a search on uneven nodes."""
    cores = 1 + number % 3, 1 + number // 3 % 4, 1 + number // 12 % 3
    parts = "[numa=3/core={};numa=2/core={};numa=2/core={}]".format(*cores)
    return f"node/slot={3 + number // 36}/{parts}"


#: A site, and the shapes and options of jobs that are hard to place there.
HARD = {
    "many searches": (lambda: uneven(16), searching, {}),
    "one search": (lambda: uneven(16), "slot=13/[socket=2/[numa=3/core;core];core=2]".format, {}),
    "families and switches": (
        lambda: switches(256),
        lambda number: f"node={8 + number % 4}/slot/core={5 + number // 4 % 2}",
        {"same": "driver", "segment": "switch:1"},
    ),
}


@pytest.mark.depth
@pytest.mark.parametrize("kind", HARD)
@pytest.mark.parametrize("steps", [0, 3, 40])
def test_a_plain_job_does_not_wait_for_the_hard_ones_of_another_user(kind, steps):
    make, shape, options = HARD[kind]
    site = make()
    for number in range(100):
        site.submit(1000 + number, shape(number), 100.0 + number, user=1, **options)
    site.leave(steps)
    site.submit(2000, "slot=1/core=1", 10.0, user=2)
    work, spent = site.queue.run(), 0
    while 2000 not in site.running:
        with Lines(most=STEP) as lines:
            next(work, None)
        spent += lines.count
        assert spent < SOON


def test_jobs_that_are_cancelled_together_make_no_long_step():
    site = site_of(nodes=1)
    site.runs(1, "slot/core=8", NOW + 1000)
    request = site.request("slot/core=8", 100.0)
    for jobid in range(2, 3002):
        site.add(jobid, request)
    finish(site.queue.run())
    for jobid in range(2, 3001):
        site.cancel(jobid)
    with Lines(most=STEP // 20) as lines:
        for _ in site.queue.run():
            lines.count = 0
    assert list(site.queue.reservations) == [3001]


@pytest.mark.parametrize(
    "shape", some(["slot=3/[numa=3/core;numa=2/core;numa=2/core]", "slot/core=80"])
)
def test_thousands_of_requests_that_all_differ_make_no_long_step(shape):
    site = uneven(1)
    request = site.request(shape, 100.0)
    for number in range(2000):
        constraint = Constraint("properties", (f"^x{number}",))
        site.add(1000 + number, attrs.evolve(request, constraint=constraint))
    with Lines(most=STEP // 4) as lines:
        for _ in zip(range(30), site.queue.run()):
            lines.count = 0


@pytest.mark.depth
def test_it_takes_no_longer_to_add_a_job_if_thousands_wait_for_nodes_that_are_down():
    site = site_of(nodes=2)
    site.lose("1")
    for jobid in range(1, 3001):
        site.submit(jobid, "node=2/slot/core=8")
    site.run()
    with Lines(most=2000):
        site.submit(3001, "node=2/slot/core=8")


@pytest.mark.depth
def test_the_first_jobs_of_a_queue_are_found_behind_thousands_that_wait_for_nodes_that_are_down():
    site = site_of("conservative", nodes=2)
    site.runs(1, "slot/core=4", NOW + 100, constraints={"ranks": ["0"]})
    site.lose("1")
    for jobid in range(2, 3002):
        site.submit(jobid, "node=2/slot/core=8")
        if jobid == 1000:
            assert waits(site, 5000, "slot/core=8", priority=15)
    assert waits(site, 5001, "slot/core=8", priority=14)
    site.leave(1)
    with Lines(most=2000):
        ((_, _, jobs),) = site.queue.lines()
        assert [job.jobid for job in jobs] == [5000, 5001]


def test_it_takes_no_longer_to_add_a_job_if_thousands_like_it_have_other_lengths():
    site = site_of(nodes=1)
    site.runs(1, "slot/core=8", NOW + 1000)
    request = site.request("slot/core=8")
    for jobid in range(2, 3002):
        site.add(jobid, at_length(request, float(jobid)))
    finish(site.queue.run())
    with Lines(most=2000):
        site.submit(3002, "slot/core=8", 5000.5)


@pytest.mark.depth
@pytest.mark.parametrize("shape", ["node=1152/slot/core=8", "slot=9216/core=1"])
def test_requests_for_all_nodes_that_all_differ_make_no_long_step_when_a_node_goes_down(shape):
    site = site_of(nodes=1152)
    site.run()
    for number in range(40):
        site.submit(1 + number, shape, constraints={"properties": [f"^x{number}"]})
    site.lose("1")
    with Lines(most=STEP // 2) as lines:
        for _ in site.queue.run():
            lines.count = 0
    assert not site.running


@pytest.mark.depth
def test_requests_that_can_never_be_served_any_more_make_no_long_step_beside_thousands_of_jobs():
    site = site_of(nodes=2, fast="1")
    site.runs(1, "slot=2/node{x}", NOW + 1000)
    for jobid in range(2, 3002):
        site.submit(jobid, "slot/core=8")
    for number in range(40):
        constraints = {"properties": ["fast", f"^x{number}"]}
        site.submit(4000 + number, "slot/core=8", constraints=constraints)
    site.run()
    site.lose("1", for_good=True)
    with Lines(most=STEP // 10) as lines:
        for _ in site.queue.run():
            lines.count = 0
    assert len(site.refusals) == 40


def test_a_forecast_makes_no_long_step():
    site = site_of("conservative", nodes=1000)
    site.runs(1, "node=1000/slot/core=8", NOW + 10)
    for jobid in range(2, 22):
        site.submit(jobid, "node=1000/slot/core=8")
    site.run()
    reserved = list(site.queue.reservations.values())
    assert len(reserved) == 20
    windows = [Window(f"w{i}", (1 << 1000) - 1, NOW + DAY, NOW + 2 * DAY) for i in range(20)]
    forecast = Forecast(site.pool.copy())
    with Lines(most=STEP // 10) as lines:
        for _ in forecast.begin(NOW, reserved, windows):
            lines.count = 0
