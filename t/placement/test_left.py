"""What comes between two steps of a pass does not lose a job, its place, or room for it."""

import pytest

from placement.test_plan import NOW, Case
from placement.test_wait import Run
from treepool.errors import InfeasibleRequest, InsufficientResources
from treepool.placement.plan.change import change_windows
from treepool.placement.plan.jobs import Waiting
from treepool.placement.plan.line import Rule
from treepool.placement.plan.reason import why_waiting
from treepool.placement.plan.timeline import finish
from treepool.placement.plan.window import Window, admitting
from treepool.rfc.jobspec import from_resources
from treepool.rfc.shape import parse_shape


@pytest.fixture(autouse=True)
def step_by_step(monkeypatch):
    """A pass yields wherever it may."""
    monkeypatch.setattr("treepool.placement.plan.timeline._SLICE", 1)


def at_each_yield(make, between):
    """What *make* gives, as often as its pass has yields, after *between* came at one of them."""
    number = 0
    while True:
        number += 1
        case = make()
        work = case.queue.run()
        if sum(1 for _ in zip(range(number), work)) < number:
            return
        between(case)
        yield case


def add(case, jobid, shape, priority, queue=""):
    """Add a job, and leave the queue as it is."""
    spec = from_resources(parse_shape(shape), duration=100)
    request = case.pool.parse_resource_request(spec)
    case.queue.add(Waiting(jobid, priority, request, case.queue.plan.kinds.of(request), queue))


def test_a_chance_is_not_forgotten_if_the_pass_ends_while_it_is_looked_at():
    def make():
        case = Case(nodes=4, policy="conservative")
        for jobid in (1, 2, 3, 4):
            case.runs(jobid, "slot=1/core=8", NOW + 100 * jobid)
        case.submit(10, "slot=2/core=8")
        case.submit(11, "slot=1/core=8")
        case.pool.update_expiration(2, NOW + 50)
        return case

    def between(case):
        add(case, 99, "slot=1/core=8", 31, "other")
        case.queue.remove(99)

    uninterrupted = make()
    uninterrupted.run()
    found = list(at_each_yield(make, between))
    for case in found:
        case.run()
        assert case.starts() == uninterrupted.starts() == {10: NOW + 150, 11: NOW + 50}
    assert len(found) > 5


def late():
    """Job 11 may start though its reservation has come and another holder is late."""
    case = Case(nodes=5, policy="conservative")
    for jobid in (1, 2, 3, 4, 5):
        case.runs(jobid, "slot=1/core=8", NOW + 100)
    case.submit(10, "slot=2/core=8", priority=20)
    case.submit(11, "slot=2/core=8", priority=16)
    case.now = NOW + 100
    for jobid in (1, 2, 3, 5):
        case.pool.free(jobid)
    return case


@pytest.mark.parametrize("gap", range(1, 8))
def test_a_job_with_a_new_priority_can_be_cancelled_while_it_is_started(gap):
    def between(case):
        case.queue.prioritize(11, 17)
        for _ in zip(range(gap), case.queue.run()):
            pass
        case.queue.remove(11)

    for case in at_each_yield(late, between):
        had = 11 in case.got
        case.run()
        assert case.pool.has_job(11) == had


@pytest.mark.parametrize("gap", range(1, 8))
def test_a_reservation_that_moves_is_of_the_job_as_it_is_now(gap):
    def make():
        case = Case(nodes=4, policy="conservative")
        for jobid in (1, 2, 3, 4):
            case.runs(jobid, "slot=1/core=8", NOW + 100 * jobid)
        case.submit(10, "slot=1/core=8", priority=30)
        case.submit(11, "slot=2/core=8", priority=16)
        case.submit(12, "slot=3/core=8", priority=10)
        case.pool.update_expiration(2, NOW + 50)
        return case

    def between(case):
        case.queue.prioritize(11, 20)
        for _ in zip(range(gap), case.queue.run()):
            pass
        case.queue.prioritize(11, 17)

    for case in at_each_yield(make, between):
        finish(case.queue.run())
        for jobid, reservation in case.queue.plan.reservations.items():
            assert reservation.job is case.queue.jobs[jobid]
        for jobid in list(case.queue.jobs):
            case.queue.remove(jobid)


def test_reservations_are_given_up_in_steps():
    case = Case(nodes=1, depth=1000)
    case.runs(1, "slot=1/core=8", 0)
    for jobid in range(10, 210):
        case.submit(jobid, "slot=1/core=8")
    case.submit(300, "slot=1/core=8", priority=31, queue="other")
    assert len(case.starts()) == 201
    spec = from_resources(parse_shape("slot=1/core=8"), duration=1)
    request = case.pool.parse_resource_request(spec)
    kind = case.queue.plan.kinds.of(request, frozenset())
    case.queue.add(Waiting(400, 31, request, kind))
    left = [201]
    for _ in case.queue.run():
        left.append(len(case.starts()))
        if left[-1] == 1:
            break
    assert max(one - other for one, other in zip(left, left[1:])) <= 64
    case.run()
    assert len(case.starts()) == 202


def test_room_on_some_nodes_counts_though_a_window_takes_others():
    def make():
        case = Case(nodes=4, policy="conservative", depth=8)
        case.runs(1, "slot=2/core=8", 0)
        case.runs(2, "slot=2/core=8", NOW + 400)
        case.submit(10, "slot=1/core=8", duration=100)
        case.run()
        case.pool.free(1)
        return case

    def between(case):
        case.queue.set_windows([Window("w", 0b1, NOW - 1, NOW + 10000)])

    for case in at_each_yield(make, between):
        case.run()
        assert 10 in case.got


def test_a_job_that_ends_while_a_start_is_searched_makes_it_no_later():
    def make():
        case = Case(nodes=2, policy="easy", depth=1)
        case.runs(1, "slot=1/core=8", NOW + 61)
        case.runs(2, "slot=1/core=8", 0)
        case.run()
        for jobid, duration, shape in (5, 100, "slot=1/core=8"), (6, 1000, "slot=1/core=7"):
            spec = from_resources(parse_shape(shape), duration=duration)
            request = case.pool.parse_resource_request(spec)
            kind = case.queue.plan.kinds.of(request, frozenset())
            case.queue.add(Waiting(jobid, 16, request, kind))
        return case

    for case in at_each_yield(make, lambda case: case.pool.free(1)):
        case.run()
        assert list(case.got) == [5]
        assert case.starts() == {6: NOW + 100}


@pytest.mark.parametrize("policy", ["easy", "conservative"])
def test_room_that_only_makes_a_place_close_is_noticed(policy):
    run = Run(policy, nodes=2, fabric={"switch": [{"ranks": "0-1"}]})
    run.runs(5, [1], 0)
    sockets = {}
    for jobid in (1, 2, 3, 4):
        allocation = run.pool.alloc(jobid, run.request("slot/core=1", 0.0))
        run.pool.update_expiration(jobid, NOW + 1000)
        sockets.setdefault(allocation.parts[0][1] > 0b11, []).append(jobid)
    run.step()
    run.waits(9, "slot/core=2", wait=500)
    for socket in sockets.values():
        run.pool.free(socket[0])
        run.step(run.now + 1)
    assert run.placed == {}
    run.pool.free(sockets[False][1])
    run.step(run.now + 1)
    assert run.placed == {9: [0]}


def test_a_job_whose_reservation_is_past_starts_anywhere_once_it_has_waited():
    run = Run()
    run.runs(1, [0, 1], 0)
    run.runs(2, [4, 5], NOW + 100)  # ends late
    run.waits(3, "node=4/slot/core=4", wait=300)
    run.step(NOW + 100)
    run.step(NOW + 101)
    assert run.placed == {}
    run.step(NOW + 300)
    assert run.placed == {3: [2, 3, 6, 7]}


def test_what_is_noted_of_waits_does_not_grow_with_changes_of_priority():
    run = Run()
    run.runs(1, [0, 1, 2, 3], 0)
    run.runs(2, [4, 5, 6, 7], 0)
    for jobid in (10, 11, 12):
        run.waits(jobid, "node=4/slot/core=4", wait=1e8)
    for number in range(1000):
        run.queue.prioritize(12, 17 + number % 2)
    assert len(run.queue._lines._patience) < 100


@pytest.mark.parametrize(("depth", "planned"), [(1, [10]), (8, [10, 11, 12])])
def test_a_job_that_goes_to_another_lane_while_others_are_looked_at_is_looked_at_once(
    depth, planned
):
    def window(*users):
        return Window("w", 0b1, NOW + 500, NOW + 600, frozenset(users))

    users = {10: 8, 11: 7, 12: 8}

    def make():
        case = Case(nodes=1, policy="easy", depth=depth)
        case.runs(1, "slot=1/core=8", 0)
        case.queue.set_windows([window(7)])
        request = case.pool.parse_resource_request(from_resources(parse_shape("slot=1/core=8")))
        for jobid, user in users.items():
            leave = admitting([window(7)], user, "")
            kind = case.queue.plan.kinds.of(request, leave)
            case.queue.add(Waiting(jobid, 16, request, kind))
        return case

    def between(case):
        windows = [window(7, 8)]
        finish(change_windows(case.queue, windows, lambda job: (users[job.jobid], "")))

    for case in at_each_yield(make, between):
        case.run()
        assert list(case.starts()) == planned
        assert list(case.queue.jobs) == [10, 11, 12] and case.got == {}


def test_a_job_that_comes_ahead_of_what_is_looked_at_is_first():
    def make():
        case = Case(nodes=2)
        case.runs(1, "slot=1/core=8", 0)
        for jobid, shape in (10, "slot=2/core=8"), (11, "slot=1/core=8"):
            spec = from_resources(parse_shape(shape), duration=100)
            request = case.pool.parse_resource_request(spec)
            kind = case.queue.plan.kinds.of(request, frozenset())
            case.queue.add(Waiting(jobid, 16, request, kind))
        return case

    came = []

    def between(case):
        came.append(11 in case.got)
        spec = from_resources(parse_shape("slot=1/core=8"), duration=100)
        request = case.pool.parse_resource_request(spec)
        kind = case.queue.plan.kinds.of(request, frozenset())
        case.queue.add(Waiting(99, 31, request, kind))

    for case in at_each_yield(make, between):
        case.run()
        assert list(case.got) == [11 if came[-1] else 99]
    assert False in came


def with_200_reservations():
    case = Case(nodes=1, depth=1000)
    case.runs(1, "slot=1/core=8", 0)
    for jobid in range(10, 210):
        case.submit(jobid, "slot=1/core=8")
    assert len(case.starts()) == 200
    return case


def longest_fall(case):
    """The most reservations that are given up between two yields, until none is left."""
    falls = []
    work = case.queue.run()
    while case.starts():
        before = len(case.starts())
        next(work)
        falls.append(before - len(case.starts()))
    return max(falls)


def test_reservations_of_a_queue_that_gets_another_rule_are_given_up_in_steps():
    case = with_200_reservations()
    case.queue.set_rules(Rule("fifo"), {})
    assert len(case.starts()) == 200
    assert longest_fall(case) <= 64
    case.run()
    assert case.starts() == {}


def test_reservations_on_nodes_that_are_replaced_are_given_up_in_steps(monkeypatch):
    monkeypatch.setattr("treepool.placement.plan.follow._ENTRY", 8)
    case = with_200_reservations()
    children = [{"ranks": "0", "topo": {"socket": [{"cores": "0-3"}, {"cores": "4-7"}]}}]
    case.pool.replace_key({"writer": "TreePool", "children": children})
    assert longest_fall(case) <= 64
    case.run()
    assert len(case.starts()) == 200


def with_jobs_that_can_never_run():
    """Jobs 10 to 59 need both nodes, of which one is removed; 60 and 61, ahead of them, wait."""
    case = Case(nodes=2, policy="fifo")
    case.runs(1, "node=2/slot/core=8", NOW + 100)
    for jobid in range(10, 62):
        shape, priority = ("node=2/slot/core=8", 16) if jobid < 60 else ("slot/core=8", 20)
        case.submit(jobid, shape, priority=priority, queue="other" if jobid % 2 else "")
    case.pool.remove_ranks("1")
    return case


def test_jobs_that_can_never_run_any_more_are_refused_in_steps():
    case = with_jobs_that_can_never_run()
    told = [len(case.got) for _ in case.queue.run()]
    assert set(case.got) == set(range(10, 60))
    assert max(after - before for before, after in zip(told, told[1:])) == 1


def test_all_jobs_that_can_never_run_are_refused_though_the_pass_is_left():
    def between(case):
        for jobid in (11, 58):
            case.queue.remove(jobid)
        add(case, 99, "slot=1/core=8", 31)

    found = list(at_each_yield(with_jobs_that_can_never_run, between))
    for case in found:
        case.run()
        assert set(case.queue.jobs) == {60, 61, 99}
        assert set(case.got) >= set(range(10, 60)) - {11, 58}
    assert len(found) > 50


def test_jobs_on_which_the_check_fails_hold_up_no_other(monkeypatch):
    case = with_jobs_that_can_never_run()
    check = case.pool.check_feasibility

    def fail(request):
        if request.nodes is not None:
            raise RuntimeError("a bug")
        check(request)

    monkeypatch.setattr(case.pool, "check_feasibility", fail)
    monkeypatch.setattr(case, "failed", lambda job, error: case.got.update({job.jobid: str(error)}))
    case.run()
    assert case.got == dict.fromkeys(range(10, 60), "a bug")
    assert set(case.queue.jobs) == {60, 61}


def test_a_job_that_can_never_run_is_refused_though_it_may_use_a_window_meanwhile():
    def make():
        case = Case(nodes=3, policy="easy", depth=1)
        case.runs(1, "slot=3/core=8", NOW + 1000)
        case.submit(9, "slot=1/core=8")
        case.submit(10, "slot=3/core=8")
        case.pool.remove_ranks("2")
        return case

    def between(case):
        window = Window("w", 0b1, NOW + 5000, NOW + 6000, frozenset({7}))
        finish(change_windows(case.queue, [window], lambda job: (7 if job.jobid == 10 else 8, "")))
        if 10 in case.queue.jobs:
            case.why(10)

    found = list(at_each_yield(make, between))
    for case in found:
        case.run()
        assert list(case.queue.jobs) == [9]
        assert list(case.got) == [10]
    assert len(found) > 5


def test_a_job_that_is_due_is_tried_again_if_the_pass_was_left_while_it_was_tried():
    def make():
        rules = {"other": Rule("easy", 1)}
        case = Case(nodes=6, policy="conservative", rules=rules)
        for jobid in (1, 2, 3, 4, 5):
            case.runs(jobid, "slot=1/core=8", NOW + 100)
        case.runs(6, "slot=1/core=8", 0)
        case.submit(10, "slot=2/core=8", priority=20)
        case.submit(11, "slot=2/core=8", priority=16)
        case.submit(98, "slot=6/core=8", priority=31, queue="other")
        case.now = NOW + 100
        for jobid in (1, 2, 3, 5):
            case.pool.free(jobid)
        return case

    found = list(at_each_yield(make, lambda case: add(case, 99, "slot=6/core=8", 31, "other")))
    for case in found:
        case.run()
        assert set(case.got) == {10, 11}
    assert len(found) > 50


@pytest.mark.parametrize("steps", range(12))
def test_what_a_question_found_before_the_nodes_were_replaced_is_not_noted_afterwards(steps):
    def key(*switches):
        topo = {"socket": [{"cores": "0-3"}, {"cores": "4-7"}]}
        return {
            "writer": "TreePool",
            "children": [{"ranks": "0-7", "topo": topo}],
            "fabric": {"switch": [{"ranks": ranks} for ranks in switches]},
        }

    case = Case(nodes=8, policy="easy", depth=1)
    case.pool.replace_key(key("0-3", "4-7"))
    for jobid in range(100, 108):
        case.runs(jobid, "slot/node{x}", NOW + 500)
    case.submit(9, "slot=6/node{x}")  # it has the one reservation
    case.submit(10, "switch=1/node=4/slot=1/core=2")
    case.pool.mark_down("3,7")  # no switch has four nodes that are up
    case.queue.follow()
    while case.queue.plan.is_behind:
        case.queue.follow()
    question = why_waiting(case.queue, case.queue.jobs[10], case.now)
    for _ in zip(range(steps), question):
        pass
    case.pool.replace_key(key("0-2,4", "3,5-7"))  # one switch has now
    case.run()
    finish(question)
    case.queue.remove(9)
    for jobid in range(100, 107):
        if jobid != 103:
            case.pool.free(jobid)
    case.run()
    assert 10 in case.got


@pytest.mark.parametrize("error", [ValueError, InfeasibleRequest, InsufficientResources])
def test_a_job_whose_owner_raises_when_it_is_told_of_the_start_holds_nothing(monkeypatch, error):
    def started(job, allocation):
        raise error("a bug")

    case = Case()
    monkeypatch.setattr(case, "started", started)
    monkeypatch.setattr(case, "failed", lambda job, error: case.got.update({job.jobid: str(error)}))
    assert case.submit(10, "slot=1/core=8") == "a bug"
    assert not case.queue.jobs
    assert not case.pool.has_job(10)


def test_a_plan_is_behind_until_all_reservations_that_do_not_hold_are_given_up(monkeypatch):
    monkeypatch.setattr("treepool.placement.plan.timeline._SLICE", 1)
    case = with_200_reservations()
    case.pool.mark_down("0")
    case.queue.follow()
    assert len(case.starts()) > 190
    while case.queue.plan.is_behind:
        case.queue.follow()
    assert case.starts() == {}


def late_before_a_window():
    """Job 10 can start where it has a reservation, but would now reach into a window there."""
    case = Case(nodes=3)
    for jobid, end in ((1, 100), (2, 100), (3, 300)):
        case.runs(jobid, "slot=1/core=8", NOW + end)
    case.queue.set_windows([Window("w", 0b11, NOW + 200, NOW + 250)])
    case.submit(10, "slot=2/core=8")
    case.now = NOW + 101
    case.pool.free(1)
    case.pool.free(2)
    return case


def a_node_goes_down(case):
    case.pool.mark_down("0")


def a_window_comes(case):
    windows = case.queue.plan.windows.values()
    case.queue.set_windows([*windows, Window("x", 0b1, NOW + 150, NOW + 160)])


@pytest.mark.parametrize("between", [a_node_goes_down, a_window_comes])
def test_a_job_that_loses_its_reservation_while_it_is_started_waits(between):
    found = list(at_each_yield(late_before_a_window, between))
    for case in found:
        case.run()
        assert 10 in case.queue.jobs
    assert len(found) > 3


def test_a_job_that_comes_ahead_of_reservations_during_a_pass_is_planned_before_them():
    def make():
        case = Case(nodes=1)
        case.runs(1, "slot=1/core=8", NOW + 100)
        case.submit(20, "slot=1/core=8", priority=5)
        case.submit(21, "slot=1/core=8", priority=1)
        add(case, 30, "slot=1/core=8", 3)
        return case

    found = list(at_each_yield(make, lambda case: add(case, 40, "slot=1/core=7", 10)))
    for case in found:
        case.run()
        assert case.starts() == {40: NOW + 100, 20: NOW + 200, 30: NOW + 300, 21: NOW + 400}
    assert len(found) > 3
