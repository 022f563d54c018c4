"""Changes of windows while jobs wait: each job has the leave that the windows give it."""

import pytest

from generators import outcome
from placement.test_plan import NOW, Case, at_once  # noqa: F401
from treepool.placement.plan.forecast import Forecast
from treepool.placement.plan.windows import Conflicts, Window, change_windows

FOR_SEVEN = Window("kept", 0b1, NOW, NOW + 500, frozenset([7]))
FOR_NOBODY = Window("kept", 0b1, NOW, NOW + 500)


class Waiting(Case):
    """A node, and a job of user 7 that waits for the window *first* to end."""

    def __init__(self, *first):
        super().__init__(nodes=1)
        self.queue.set_windows(first)
        self.users = {}
        self.wait(1, 7)

    def wait(self, jobid, user):
        self.users[jobid] = user
        self.submit(jobid, "slot/core=1", user=user)

    def change(self, *windows, name=""):
        change = change_windows(self.queue, windows, lambda jobid: (self.users[jobid], ("",)), name)
        against = outcome(change)
        self.run()
        return against


def test_a_job_that_waits_may_use_a_window_that_becomes_its_own():
    case = Waiting(FOR_NOBODY)
    case.wait(2, 8)
    case.change(FOR_SEVEN)
    assert 1 in case.got
    assert case.starts() == {2: NOW + 500}


def test_leave_of_an_old_window_is_none_of_a_new_one_with_its_name():
    other = Window("other", 0b1, NOW, NOW + 10)
    case = Waiting(other, FOR_SEVEN)
    assert case.starts() == {1: NOW + 10}
    case.change(other)
    case.change(FOR_NOBODY)
    assert case.got == {}
    assert case.starts() == {1: NOW + 500}


def test_a_job_keeps_priority_and_request():
    case = Waiting(FOR_NOBODY, Window("other", 0b1, NOW, NOW + 10))
    case.queue.prioritize(1, 30)
    before = case.queue.jobs[1]
    case.change(FOR_SEVEN, Window("other", 0b1, NOW, NOW + 10))
    after = case.queue.jobs[1]
    assert after.job_class.admitted == {"kept"}
    assert (after.priority, after.request) == (30, before.request)


def two_queues_wait():
    """Job 2 of user 7, and job 3 in another queue, which would take the place of job 2."""
    case = Case(nodes=1, depth=1)
    case.runs(1, "slot/core=8", NOW + 100)
    case.submit(2, "slot/core=8", user=7)
    case.submit(3, "slot/core=8", queue="other")
    assert case.starts() == {2: NOW + 100, 3: NOW + 200}
    return case


def change(case, *windows):
    users = {2: 7}
    outcome(change_windows(case.queue, windows, lambda jobid: (users.get(jobid, 0), ("",))))
    case.run()


def test_a_job_that_is_admitted_to_a_new_window_keeps_its_reservation():
    case = two_queues_wait()
    change(case, Window("later", 0b1, NOW + 5000, NOW + 6000, frozenset([7])))
    assert case.queue.jobs[2].job_class.admitted == {"later"}
    assert case.starts() == {2: NOW + 100, 3: NOW + 200}


def test_the_end_of_a_window_costs_no_reservation_when_the_next_one_comes():
    case = two_queues_wait()
    change(case, Window("soon", 0b1, NOW - 5, NOW + 5, frozenset([7])))
    case.now = NOW + 6
    case.run()
    change(case, Window("later", 0b1, NOW + 5000, NOW + 6000))
    assert case.starts() == {2: NOW + 100, 3: NOW + 200}


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
