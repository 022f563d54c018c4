"""Run by Flux's Python: checks of the module's parts beside each other, without a broker."""

import errno
import gc
import re
import time
import weakref
from random import Random
from unittest.mock import Mock, patch

import checks
import flux
from flux.scheduler import Scheduler
from loaded import BOTH, Loaded, asked_later
from manager import SUCCESS

from treepool.errors import InvalidOption
from treepool.flux.config import Configuration
from treepool.flux.garbage import let_go
from treepool.flux.heldback import HeldBack
from treepool.flux.hello import held_of
from treepool.flux.protocol import PRIVATE, Protocol
from treepool.flux.runner import Precedence
from treepool.flux.sched import TreepoolScheduler
from treepool.placement.held import add_held, held_in
from treepool.placement.plan import profile
from treepool.placement.pool import Pool
from treepool.rfc.times import clock
from work import Lines

#: Why a job on both nodes waits, of which so many are up.
DOWN = "nodes are down or drained: {} of 2 nodes up"


def two_waiting(**table):
    """The module with both nodes down, and two jobs that wait for both."""
    here = Loaded(up=(), **table)
    jobs = here.submit(), here.submit()
    here.rest()
    return here, jobs


# -- a job manager that may have given the scheduler up


def check_a_job_that_is_cancelled_behind_the_question_is_no_sign_of_it():
    here = Loaded()
    short, last = here.submit(), here.submit()
    here.rest()
    asked = asked_later(here.handle, "job-manager.alloc-query")
    here.manager.free(short)  # within a second
    while not asked:
        here.handle.turn()
    here.manager.cancel(last)
    asked[0].add({"alloc_pending": 0})
    here.rest()
    later = here.submit()
    here.rest()
    assert later.R


def check_it_is_noticed_however_long_a_commit_takes():
    for seconds in (0.1, 1.2):
        here = Loaded()
        jobs = [here.submit() for _ in range(6)]
        here.handle.services["job-manager.alloc-query"] = lambda _: [{"alloc_pending": 0}]
        commit = here.handle.commit

        def late(here=here, commit=commit, seconds=seconds):
            here.clock.more += seconds
            commit()

        def comes_back(msg, here=here):
            if msg.answers[-1]["type"] == SUCCESS:
                here.manager.free(here.manager.jobs[msg.answers[-1]["id"]])

        here.handle.commit, here.handle.on_answer = late, comes_back
        here.rest()
        assert sum(job.R is not None for job in jobs) == 1
        assert "has given this scheduler up" in here.handle.logged[-1][1]


# -- changes of many jobs


def a_head_before(others):
    """A job for both nodes, of which one is used, waits before jobs that would find room."""
    here = Loaded(policy="fifo")
    here.submit("slot/core=8", duration=600)
    here.rest()
    jobs = [here.submit(), *(here.submit("slot/core=8") for _ in range(others))]
    here.rest()
    here.clock.chance = Random(1)  # from now on time passes while the module works
    return here, jobs


def check_new_priorities_for_all_jobs_let_none_of_them_pass_another():
    here, jobs = a_head_before(400)
    here.manager.prioritize([[job.jobid, 26] for job in jobs])
    here.rest()
    assert not any(job.R for job in jobs)


def check_a_configuration_by_which_all_jobs_are_judged_again_does_not_either():
    here, jobs = a_head_before(400)
    here.configure(policy="fifo", locality="required")
    here.rest()
    assert not any(job.R for job in jobs)


def window_changes(here, shape, hosts):
    """A window for user 7 that is open is changed while jobs come; returns the jobs."""
    now = here.clock.now
    entry = {"name": "w", "hosts": hosts, "start": now, "end": now + 600, "users": [7]}
    here.send("sched-treepool.window-add", entry)
    jobs = [here.submit(shape, duration=10) for _ in range(400)]
    here.rest()
    here.clock.chance = Random(1)
    entry = {**entry, "end": now + 900, "replaces": True}
    changed = here.send("sched-treepool.window-add", entry)
    while here.handle.turn():
        if len(jobs) < 600:  # each asks for a pass
            jobs.append(here.submit(shape, duration=10))
    assert changed.answers
    return jobs


def check_a_window_that_is_changed_while_it_is_open_lets_nobody_in_meanwhile():
    here = Loaded()
    jobs = window_changes(here, "slot/core", "n[0-1]")
    assert not any(job.R for job in jobs)
    here.wait(901)
    assert sum(job.R is not None for job in jobs) == 16


def check_nor_do_spare_nodes_move_there():
    here = Loaded(nodes=4, spares="1")
    window_changes(here, "slot=2/node{x}", "n[1-3]")
    said = [line for _, line in here.handle.logged if line.startswith("spare nodes")]
    assert said == ["spare nodes: n3", "spare nodes: n0"]


# -- names of flux-core


def check_each_private_name_of_flux_core_that_is_overridden_is_looked_for_at_load():
    own = {*vars(Protocol), *vars(TreepoolScheduler)}
    overridden = {n for n in own if re.match("_[a-z]", n) and hasattr(Scheduler, n)}
    assert overridden <= set(PRIVATE)


# -- the clock


def check_a_clock_that_is_set_forward_ends_a_window_although_nothing_else_happens():
    here = Loaded()
    now = here.clock.now
    entry = {"name": "w", "hosts": "n[0-1]", "start": now, "end": now + 3600}
    here.send("sched-treepool.window-add", entry)
    here.rest()
    job = here.submit()
    here.rest()
    assert job.R is None
    here.clock.now, here.clock.more = now + 7200, here.clock.more - 7200 + 6  # six seconds later
    here.rest()
    assert job.R


# -- jobs that are judged again


def check_jobs_are_judged_again_in_the_order_of_the_queue_with_the_priorities_they_have_by_then():
    here, _ = two_waiting()
    here.manager.prioritize([[1, 5]])
    here.rest()
    here.configure(locality="required")
    here.manager.prioritize([[2, 3]])  # not applied yet
    here.rest()
    assert [(job.jobid, job.priority) for job in here.queue.jobs.values()] == [(1, 5), (2, 3)]
    here.configure(locality="none")
    here.manager.prioritize([[2, 20]])
    here.rest()
    assert [(job.jobid, job.priority) for job in here.queue.jobs.values()] == [(2, 20), (1, 5)]


def check_a_job_that_is_judged_again_is_told_that_what_it_was_told_is_void():
    here, jobs = two_waiting()
    here.configure(locality="required")
    here.rest()
    for job in jobs:
        assert here.told(job)[:2] == [{"reason_pending": DOWN.format(0)}, {"reason_pending": None}]


def check_a_job_that_is_cancelled_before_its_turn_is_not_judged_again():
    here, jobs = two_waiting()
    here.configure(locality="required")
    here.manager.cancel(jobs[0])
    here.rest()
    assert list(here.queue.jobs) == [2]
    assert not here.scheduler._submissions.deferred


def check_a_job_whose_attributes_are_no_table_is_denied():
    # flux-core refuses them, unless plugins of the job manager are taken out.
    here = Loaded()
    for bad in ("x", {"system": "x"}, [1]):
        job = here.submit(attributes=bad)
        here.rest()
        assert job.answer == 2 and not here.queue.jobs


# -- what comes before what


def check_what_keeps_coming_holds_passes_back_for_a_tenth_of_a_second_and_then_half_the_time():
    precedence, now, open_at = Precedence(), [1000.0], []
    with patch.object(time, "monotonic", lambda: now[0]):
        for _ in range(1000):
            now[0] += 0.001
            if not precedence.waits(True):
                open_at.append(now[0])
        assert 0.09 < open_at[0] - 1000.0 < 0.11
        assert max(later - when for when, later in zip(open_at, open_at[1:])) < 0.11
        assert 450 <= len(open_at) <= 550
        assert not precedence.waits(False)
        assert precedence.waits(True), "a new submission"


def check_nodes_that_come_up_wait_for_what_arrived_before_them():
    here, seen = Loaded(up=()), []
    put, pool = here.scheduler.inbox.put, here.scheduler.pool
    put(lambda: seen.append(pool.up))
    here.scheduler._apply_resource_update({"up": "0"})
    put(lambda: seen.append(pool.up))
    here.rest()
    assert seen == [0, 0b1]


def check_queues_that_are_no_tables_are_refused_and_not_left_to_the_questions():
    none = Mock(conf_get=dict, attr_get=Mock(side_effect=OSError))
    configuration, queue = Configuration(none, Mock(), ()), Mock()
    for queues, place in ((None, "queues"), ([], "queues"), ({"a": "b"}, "queues.a")):
        try:
            configuration.follow({"queues": queues}, queue, True)
        except InvalidOption as e:
            assert str(e).startswith(f"configuration: {place}: must be a table, not"), e
        else:
            raise AssertionError(queues)
    assert configuration.get("queues", "none") == "none"


def check_a_change_of_windows_that_comes_during_the_unload_is_refused():
    here = Loaded()
    here.scheduler.end()
    entry = {"name": "late", "hosts": "n0", "start": here.clock.now, "end": here.clock.now + 9}
    msg = here.send("sched-treepool.window-add", entry)
    here.rest()
    assert [number for number, _ in msg.errors] == [errno.ENOSYS]


def check_a_future_that_is_let_go_is_free_without_a_garbage_collection():
    handle = flux.Flux("loop://")
    gone = []

    def answered(future, kept):
        assert future.get() == {"n": 1}
        handle.reactor_stop()
        if kept:
            return
        let_go(future)

    gc.disable()
    handle.msg_watcher_create(
        lambda h, _, msg, __: h.respond(msg, {"n": 1}), topic_glob="x"
    ).start()
    for kept in (True, False):
        future = handle.rpc("x", {})
        future.then(answered, kept)
        ref = weakref.ref(future)
        del future
        handle.reactor_run()
        gone.append(ref() is None)
    assert gone == [False, True]  # the first one is why there is let_go


def check_what_is_held_back_is_taken_and_given_back_in_steps():
    nodes, inbox = 3000, []
    whole = [{"rank": f"0-{nodes - 1}", "children": {"core": "0-95"}}]
    execution = {"R_lite": whole, "nodelist": [f"n[0-{nodes - 1}]"]}
    pool = Pool({"version": 1, "execution": execution})

    def of(rank):
        return {"rank": str(rank), "children": {"core": f"{rank % 40}-{40 + rank // 60}"}}

    every = [of(rank) for rank in range(nodes)]
    answers = [every, every[:-1], every[1000:]]
    future = Mock(get=lambda: {"allocated": {"execution": {"R_lite": answers.pop(0)}}})
    future.then = lambda callback, *_, **__: callback(future)
    handle = Mock(rpc=lambda *_: future)
    held = HeldBack(Mock(handle=handle, pool=pool, inbox=Mock(put=inbox.append)))
    for first, last in ((0, nodes), (0, nodes - 1), (1000, nodes)):
        held.ask()
        act, more = inbox.pop(), True
        while more:
            with Lines(most=20 * nodes):
                more = act()
        assert held.known
        has = {}
        add_held(has, pool.held_back)
        expected = {}
        add_held(expected, held_in(held_of({"R_lite": every[first:last]}).entries))
        assert has == expected


# -- what waiting jobs are told


def check_a_reason_that_changes_soon_is_told_when_nothing_else_happens():
    here, jobs = two_waiting()
    here.clock.now += 1
    here.manager.mark(True, {0})
    here.rest()
    for job in jobs:
        assert here.told(job) == [{"reason_pending": DOWN.format(0)}]
    while any(len(here.told(job)) < 2 for job in jobs):
        here.wait()
    assert here.clock.now <= 1_700_000_011
    for job in jobs:
        assert here.told(job)[1:] == [{"reason_pending": DOWN.format(1)}]


def one_runs(**table):
    """The module, and three jobs of a minute on both nodes, of which the first one runs."""
    here = Loaded(**table)
    jobs = [here.submit() for _ in range(3)]
    here.rest()
    assert jobs[0].R
    return here, jobs


def estimates(here, job):
    return [told["t_estimate"] for told in here.told(job) if "t_estimate" in told]


def check_estimates_change_with_the_plan_not_while_it_is_made():
    here, jobs = one_runs(policy="conservative", **{"reservation-depth": "8"})
    first = {job.jobid: here.queue.reservations[job.jobid].start for job in jobs[1:]}
    here.manager.prioritize([[3, 20]])
    lost, here.clock.chance = False, Random(1)  # time passes, so that messages come in between
    with patch.object(profile, "SLICE", 1):
        for _ in range(1000):
            here.handle.turn()
            lost |= 2 not in here.queue.reservations
            here.scheduler._annotator._reserving = True
            here.scheduler._annotator._annotations.wake()
    assert lost
    here.rest()
    last = {job.jobid: here.queue.reservations[job.jobid].start for job in jobs[1:]}
    assert last[3] == first[2] < last[2]
    for job in jobs[1:]:
        assert estimates(here, job) == [first[job.jobid], last[job.jobid]]


def check_jobs_without_a_reservation_have_estimates_until_these_are_unknown():
    here, jobs = one_runs(policy="easy")
    more = here.submit()
    here.wait(5)
    end = here.queue.reservations[2].start
    assert set(here.queue.reservations) == {2}
    assert [job.told.get("t_reserved") for job in (*jobs[1:], more)] == [end, None, None]
    assert [estimates(here, job) for job in (*jobs[1:], more)] == [[end], [end + 60], [end + 120]]
    here.manager.expire(jobs[0], 0)  # it has no limit any more
    here.wait(5)
    assert [estimates(here, job)[-1] for job in (*jobs[1:], more)] == 3 * [None]
    here.manager.expire(jobs[0], end + 7)
    here.wait(5)
    last = [estimates(here, job)[-1] for job in (*jobs[1:], more)]
    assert last == [end + 7, end + 67, end + 127]


def check_a_reason_with_a_time_changes_with_the_estimate():
    here, jobs = one_runs(policy="conservative", **{"reservation-depth": "8"})
    now = here.clock.now
    for end in (now + 1000, now + 5000):
        here.manager.expire(jobs[0], end)
        here.wait(5)
        assert jobs[1].told["t_estimate"] == end
        told = jobs[1].told["reason_pending"]
        assert told.endswith(f" at {clock(end, here.clock.now)}"), told


def check_an_estimate_stays_if_the_pool_changes_before_it_is_made_again():
    here, jobs = one_runs(policy="fifo")
    end = here.clock.now + 1000
    for number in range(8):
        here.manager.expire(jobs[0], end + 2 * number)
        for _ in range(number):
            here.handle.turn()
        here.manager.expire(jobs[0], end + 2 * number + 1)
        here.wait(1)
    here.wait(5)
    told = estimates(here, jobs[2])
    assert None not in told and told == sorted(told), told
    assert told[-1] == end + 15 + 60


def check_every_job_is_told_its_reason_when_nothing_else_happens():
    here = Loaded(up=())
    jobs = [here.submit(BOTH) for _ in range(1000)]
    here.rest()
    while not all(here.told(job) for job in jobs):
        here.wait()
    assert all(len(here.told(job)) == 1 for job in jobs)


if __name__ == "__main__":
    checks.run(globals())
