"""Jobs that start late, or lose their reservation, are not passed by those behind them."""

import pytest

from placement.test_plan import NOW, Case, at_once  # noqa: F401
from treepool.placement.plan.windows import Window

DAY = 86400.0


def three(**rule):
    """Jobs 10 to 12 of one line wait one after another for the one node; 12 is a day long."""
    case = Case(nodes=1, **rule)
    case.runs(1, "slot=1/core=8", NOW + 100)
    for jobid, priority, duration in (10, 20, 100.0), (11, 18, 100.0), (12, 16, DAY):
        case.submit(jobid, "slot=1/core=8", duration, priority)
    assert case.starts() == {10: NOW + 100, 11: NOW + 200, 12: NOW + 300}
    return case


def starts_one_after_another(case, delay):
    """When the jobs start if each ends at its limit, and that is told with a *delay*."""
    begun = {}
    case.started = lambda job, allocation: begun.setdefault(job.jobid, case.now)
    while case.queue.jobs:
        ((jobid, end),) = case.pool.job_end_times()
        case.now = end + delay
        case.pool.free(jobid)
        case.run()
    return begun


@pytest.mark.parametrize("delay", [0.0, 0.01, 0.9, 5.0, 60.0])
def test_jobs_that_start_late_do_so_in_the_order_that_was_promised(delay):
    begun = starts_one_after_another(three(), delay)
    for number, jobid in enumerate((10, 11, 12), 1):
        assert begun[jobid] == pytest.approx(NOW + 100 * number + delay * number)


def test_a_start_that_is_a_little_late_leaves_the_plan_as_it_is():
    case = three()
    case.now = NOW + 100.01
    case.pool.free(1)
    case.run()
    assert case.starts() == {11: NOW + 200, 12: NOW + 300}


def test_a_limit_that_is_changed_counts_in_full_though_the_job_started_late():
    case = three()
    case.now = NOW + 100.01
    case.pool.free(1)
    case.run()
    case.pool.update_expiration(10, NOW + 203.5)
    case.run()
    assert case.starts() == {11: NOW + 203.5, 12: NOW + 303.5}


def test_a_job_that_lost_its_reservation_to_a_later_limit_is_not_passed():
    case = three()
    case.pool.update_expiration(1, NOW + 103)
    case.run()
    assert case.starts() == {10: NOW + 103, 11: NOW + 203, 12: NOW + 303}


def test_a_job_that_lost_its_reservation_to_a_window_is_not_delayed_by_those_behind_it():
    case = three()
    case.queue.set_windows([Window("w", 0b1, NOW + 199, NOW + 200)])
    case.run()
    assert case.starts() == {10: NOW + 200, 11: NOW + 300, 12: NOW + 400}


def test_a_job_that_lost_its_reservation_to_a_node_is_not_delayed_by_those_behind_it():
    case = Case(nodes=2)
    case.runs(1, "slot=1/core=8", NOW + 100)
    case.runs(2, "slot=1/core=8", NOW + 150)
    for jobid, priority, duration in (10, 20, 100.0), (11, 18, 100.0), (12, 16, DAY):
        case.submit(jobid, "slot=1/core=8", duration, priority)
    assert case.starts() == {10: NOW + 100, 11: NOW + 150, 12: NOW + 200}
    case.pool.mark_down("0")
    case.run()
    assert case.starts() == {10: NOW + 150, 11: NOW + 250, 12: NOW + 350}


def test_a_job_that_lost_its_reservation_delays_nobody_if_it_cannot_be_served():
    case = Case(nodes=2)
    case.runs(1, "slot=2/core=8", NOW + 100)
    case.submit(10, "slot=2/core=8", priority=20)
    case.submit(11, "slot=1/core=8", priority=18)
    case.pool.mark_down("0")
    case.run()
    assert case.starts() == {11: NOW + 100}
    case.pool.free(1)
    case.run()
    assert 11 in case.got
