"""Changes of windows while jobs wait: each job has the leave that the windows give it."""

import pytest

from generators import outcome
from placement.test_plan import NOW, Case, at_once  # noqa: F401
from treepool.placement.plan.forecast import Forecast
from treepool.placement.plan.windows import Conflicts, Window, change_windows

FOR_NOBODY = Window("kept", 0b1, NOW, NOW + 500)


def test_what_stands_against_a_new_window_is_told():
    case = Case(nodes=2)
    case.runs(1, "slot=2/node{x}", NOW + 100)
    case.submit(2, "slot=1/node{x}", 50)
    new = Window("new", 0b11, NOW + 120, NOW + 130)
    told = outcome(change_windows(case.queue, [new], lambda jobid: (0, ("",)), "new"))
    assert told == Conflicts(reserved=(2,))
    case.run()
    assert case.starts() == {2: NOW + 130}


def test_an_estimate_respects_the_windows_of_the_moment():
    case = Case(nodes=1, policy="fifo")
    for windows, start in (((FOR_NOBODY,), NOW + 500), ((), NOW)):
        case.queue.set_windows((FOR_NOBODY,))
        case.submit(1, "slot/core=1")
        job = case.queue.jobs[1]
        case.queue.set_windows(windows)
        forecast, found = Forecast(case.pool), {}
        outcome(forecast.begin(NOW, windows=windows))
        outcome(forecast.starts([job], NOW, found))
        assert found == {1: start}
        case.queue.remove(1)


@pytest.mark.parametrize("end, against", [(NOW + 60, ()), (NOW + 61, (1,)), (0, (1,))])
def test_running_jobs_that_may_still_run_at_its_start_are_told(end, against):
    case = Case(nodes=2)
    case.runs(1, "slot=1/node{x}", end)
    new = Window("new", 0b01, NOW + 60, NOW + 130)
    told = outcome(change_windows(case.queue, [new], lambda jobid: (0, ("",)), "new"))
    assert told == Conflicts(running=against)


@pytest.mark.parametrize("owner", [(7, ("",)), (0, ("line", "other")), (0, ("",), "bank")])
def test_running_jobs_that_a_new_window_admits_are_not_told(owner):
    case = Case(nodes=2)
    for jobid in (1, 2):
        case.runs(jobid, "slot=1/node{x}", 0)
    whom = frozenset([7]), frozenset(["line"]), frozenset(["bank"])
    new, owners = Window("new", 0b11, NOW, NOW + 9, *whom), {1: owner, 2: (8, ("",))}
    told = outcome(change_windows(case.queue, [new], owners.__getitem__, "new"))
    assert told == Conflicts(running=(2,))


def test_the_work_between_two_steps_is_bounded():
    case = Case(nodes=1)
    case.queue.set_windows([FOR_NOBODY])
    for jobid in range(300):
        case.submit(jobid, "slot/core=1")
    assert sum(1 for _ in change_windows(case.queue, [], lambda jobid: (0, ("",)))) >= 4
