"""Run by Flux's Python: checks of whose turn it is in a scheduler without a broker."""

import errno
import gc
import math
import time
import weakref
from collections import deque
from unittest.mock import Mock, patch

import checks
import flux
from adapter import R, spec
from running import Alone

import attrs  # isort: skip
from treepool.errors import InvalidOption
from treepool.flux.annotate import Annotator
from treepool.flux.config import Configuration
from treepool.flux.garbage import Garbage, let_go
from treepool.flux.intake import Intake
from treepool.flux.numbers import Passes
from treepool.flux.pending import Pending
from treepool.flux.pool import TreepoolPool
from treepool.flux.runner import Inbox, Precedence, Runner
from treepool.flux.sched import TreepoolScheduler
from treepool.flux.submissions import Submission
from treepool.flux.windows import Windows
from treepool.placement.plan.jobs import Rule
from treepool.placement.plan.queue import Queue
from treepool.rfc.windows import clock


def scheduler_of_two_jobs():
    """A scheduler without a broker: jobs 1 and 2 wait with priority 16, as all nodes are down.

    Each wants two nodes.
    """
    scheduler = object.__new__(TreepoolScheduler)
    scheduler._resources = TreepoolPool(R)
    scheduler._resources.mark_down("all")
    scheduler._garbage = Garbage()
    scheduler._numbers = Mock(passes=Passes())
    scheduler.cancelling, scheduler.ending = 0, False
    scheduler.inbox, scheduler._precedence = deque(), Precedence()
    scheduler._cancels = Precedence()
    scheduler._held_back = Mock(known=True)
    scheduler._intake, scheduler._configuration = Mock(), Mock()
    pending = scheduler._pending = Pending(scheduler._intake, Mock(), Mock(), Mock())
    queue = scheduler.queue = Queue(scheduler.pool, scheduler, time.time)
    scheduler._queue = []
    scheduler._passes = scheduler._annotations = Mock()
    scheduler._annotator = Annotator(queue, pending.request_of)
    pending.begin(queue, scheduler._annotator)
    jobspec = spec(cores=120, tasks=2)
    for jobid in (1, 2):
        request = scheduler.resources.parse_resource_request(jobspec).request
        pending._submissions[jobid] = Submission(Mock(), jobid, 16, 0, 0.0, jobspec)
        queue.add(queue.waiting(jobid, 16, request, frozenset(), "", 0.0, time.time()))
    return scheduler


def applied(scheduler):
    """Let all be applied that passes wait for; returns how many steps that took."""
    return sum(1 for _ in iter(scheduler._pending.apply, False))


def judged_again(scheduler):
    """The submissions that are judged again after the localities of the pool changed."""
    scheduler._on_topology(True)
    applied(scheduler)
    return [call.args[0] for call in scheduler._intake.held.hold.call_args_list]


def check_a_job_that_is_judged_again_keeps_the_priority_it_was_given_meanwhile():
    scheduler = scheduler_of_two_jobs()
    scheduler.prioritize([(1, 5)])
    applied(scheduler)
    scheduler.prioritize([(2, 20)])  # not applied yet
    again = judged_again(scheduler)
    assert {each.jobid: each.priority for each in again} == {1: 5, 2: 20}


def check_a_job_that_is_judged_again_is_told_that_what_it_was_told_is_void():
    scheduler = scheduler_of_two_jobs()
    list(scheduler.forecast())
    again = judged_again(scheduler)
    assert [each.jobid for each in again] == [1, 2]
    for each in again:
        told, void = [call.args[0]["sched"] for call in each.request.annotate.call_args_list]
        assert told == {"reason_pending": "nodes are down or drained: 0 of 2 slots up"}
        assert void == {"reason_pending": None}


def check_jobs_are_judged_again_in_steps():
    scheduler = scheduler_of_two_jobs()
    scheduler._on_topology(True)
    left = []
    while scheduler._pending.apply():
        left.append(sorted(scheduler.queue.jobs))
    # First they are put in order, last they are released.
    assert left == [[1, 2], [1, 2], [2], [], []]
    assert scheduler._intake.release.call_count == 1


def check_jobs_to_be_judged_again_are_not_forgotten_when_the_rest_of_the_queue_is_cancelled():
    scheduler = scheduler_of_two_jobs()
    scheduler._intake.held.cancel = Mock(return_value=None)
    scheduler._pending.judge_again()
    work = scheduler.schedule()
    while 1 in scheduler.queue.jobs:
        next(work)
    scheduler.cancel(2)
    list(work)
    assert scheduler._intake.release.call_count == 1


def check_a_new_priority_is_forgotten_with_the_request_that_it_was_for():
    scheduler = scheduler_of_two_jobs()
    pending, submission = scheduler._pending, scheduler._pending._submissions[1]
    cancelled = pending.cancel(1)  # it is no longer in the queue
    pending._intake.held.cancel = Mock(return_value=cancelled)
    scheduler.prioritize([(1, 20)])
    assert pending.cancel(1) is submission
    request = scheduler.resources.parse_resource_request(submission.jobspec).request
    waiting = scheduler.queue.waiting
    pending._submissions[1] = submission
    scheduler.queue.add(waiting(1, 16, request, frozenset(), "", 0.0, time.time()))
    applied(scheduler)
    assert scheduler.queue.jobs[1].priority == 16


def check_what_keeps_coming_holds_passes_back_for_a_tenth_of_a_second_and_then_half_the_time():
    scheduler, steps, now = scheduler_of_two_jobs(), [], [1000.0]
    scheduler.inbox.append("there is always more")

    def work():
        while True:
            steps.append(now[0])
            yield

    scheduler.queue = Mock(run=work, next_time=math.inf)
    with patch("treepool.flux.runner.time.monotonic", lambda: now[0]):
        for _ in range(1000):
            now[0] += 0.001
            for _ in zip(range(1), scheduler.schedule()):
                pass
        assert 0.09 < steps[0] - 1000.0 < 0.11
        assert max(later - step for step, later in zip(steps, steps[1:])) < 0.11
        assert 450 <= len(steps) <= 550
        scheduler.inbox.clear()
        next(scheduler.schedule())
        scheduler.inbox.append("a new submission")
        assert not list(scheduler.schedule())


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
    made = object.__new__(Windows)
    made._handle, made._changes = Mock(), deque()
    made.end()
    made._enqueue(Mock(msg="late"))
    assert made._handle.respond_error.call_args.args[:2] == ("late", errno.ENOSYS)
    assert not made._changes


def check_a_full_collection_comes_when_nothing_is_to_do_and_at_most_every_ten_minutes():
    scheduler = scheduler_of_two_jobs()
    now = [1000.0]
    clock = patch("treepool.flux.garbage.time.monotonic", lambda: now[0])
    with clock, patch("treepool.flux.garbage.gc") as gc:
        scheduler._garbage.begin()
        counts = []
        for now[0] in (1000.0, 1599.0, 1601.0, 1602.0, 2202.0):
            scheduler.idle()
            counts.append(gc.collect.call_count)
    assert counts == [0, 0, 1, 1, 2]


def check_a_priority_that_changes_while_a_job_is_held_back_is_kept():
    judged, inbox, discovery = [], Mock(), Mock(unknown=0b1)
    intake = Intake(Mock(), Mock(), inbox, judged.append, Mock(), Mock())
    intake._pool, intake._discovery = Mock(), discovery
    intake.take(Submission(Mock(), 7, 16, 0, 0.0, {}))
    pending = Pending(intake, Mock(), Mock(), Mock())
    pending.prioritize([(7, 31)])
    discovery.unknown = 0
    intake.release()
    (judge_next,) = inbox.put.call_args.args
    assert not judged
    while judge_next():  # it is put in order first
        pass
    assert [(job.jobid, job.priority) for job in judged] == [(7, 31)]


def check_nodes_that_come_up_wait_for_what_arrived_before_them():
    scheduler = scheduler_of_two_jobs()
    reactor = Alone()
    scheduler.inbox = Inbox(reactor, Runner(reactor, Mock()), Mock())
    scheduler._intake.filtered = lambda data: data
    seen = []
    scheduler.inbox.put(lambda: seen.append(scheduler.pool.up))
    scheduler._apply_resource_update({"up": "0"})
    scheduler.inbox.put(lambda: seen.append(scheduler.pool.up))
    reactor.run()
    assert seen == [0, 0b1]


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


class Reactor:
    """Runs the forecasts of a scheduler, by a clock that stands still."""

    def __init__(self, scheduler):
        self.scheduler = scheduler
        scheduler._annotations = self
        self.now, self.timer = 100.0, math.inf

    def wake(self, wait=0.0):
        self.timer = min(self.timer, self.now + max(0.0, wait))

    def event(self):
        """Something happens, and a pass has ended."""
        self.scheduler.queue.follow()
        self.scheduler._annotator.changed()
        self.during()

    def wait(self):
        """Wait for the timer; returns the time."""
        self.now, self.timer = self.timer, math.inf
        self.during()
        return self.now

    def during(self):
        with patch("treepool.flux.annotate.time.monotonic", lambda: self.now):
            list(self.scheduler.forecast())

    def told(self, jobid):
        """The reasons that a job has been told."""
        calls = self.scheduler._pending.request_of(jobid).annotate.call_args_list
        return [call.args[0]["sched"]["reason_pending"] for call in calls]


def check_a_reason_that_changes_soon_is_told_when_nothing_else_happens():
    scheduler = scheduler_of_two_jobs()
    reactor = Reactor(scheduler)
    reactor.event()
    scheduler.resources.mark_up("0")
    reactor.now += 1
    reactor.event()
    for jobid in (1, 2):
        assert reactor.told(jobid) == ["nodes are down or drained: 0 of 2 slots up"]
    assert reactor.wait() == 105.0
    for jobid in (1, 2):
        assert reactor.told(jobid)[1:] == ["nodes are down or drained: 1 of 2 slots up"]
    # What was told last is looked at once more, and there is nothing to tell.
    while reactor.timer < math.inf:
        assert reactor.wait() <= 110.0
    assert [len(reactor.told(jobid)) for jobid in (1, 2)] == [2, 2]


def check_estimates_change_with_the_plan_not_while_it_is_made():
    scheduler = scheduler_of_two_jobs()
    queue, pool = scheduler.queue, scheduler.pool
    queue.set_rules(Rule("conservative", 8), {})
    scheduler.resources.mark_up("0-1")
    pool.alloc(9, queue.jobs[1].request)
    pool.update_expiration(9, time.time() + 1000)
    list(queue.run())
    list(scheduler.forecast())
    first = {jobid: queue.reservations[jobid].start for jobid in (1, 2)}
    queue.prioritize(2, 20)
    with patch("treepool.placement.plan.profile.SLICE", 1):
        lost = False
        for _ in queue.run():  # it may be left here, for messages
            scheduler._annotator.changed()
            list(scheduler.forecast())
            lost |= 1 not in queue.reservations
    scheduler._annotator.changed()
    list(scheduler.forecast())
    assert lost
    last = {jobid: queue.reservations[jobid].start for jobid in (1, 2)}
    assert last[2] == first[1] < last[1]
    for jobid in (1, 2):
        calls = scheduler._pending.request_of(jobid).annotate.call_args_list
        told = [call.args[0]["sched"].get("t_estimate", 0) for call in calls]
        assert [estimate for estimate in told if estimate != 0] == [first[jobid], last[jobid]]


def check_a_reason_with_a_time_changes_with_the_estimate():
    scheduler = scheduler_of_two_jobs()
    queue, pool = scheduler.queue, scheduler.pool
    queue.set_rules(Rule("conservative", 8), {})
    scheduler.resources.mark_up("0-1")
    pool.alloc(9, queue.jobs[1].request)
    now = time.time()
    for end in (now + 1000, now + 5000):
        pool.update_expiration(9, end)
        list(queue.run())
        scheduler._annotator.changed()
        list(scheduler.forecast())
        told = {}
        for call in scheduler._pending.request_of(1).annotate.call_args_list:
            told.update(call.args[0]["sched"])
        assert told["t_estimate"] == end
        assert told["reason_pending"].endswith(f" at {clock(end, now)}"), told


def check_an_estimate_stays_if_the_pool_changes_before_it_is_made_again():
    scheduler = scheduler_of_two_jobs()
    queue, pool = scheduler.queue, scheduler.pool
    scheduler.resources.mark_up("0-1")
    pool.alloc(9, queue.jobs[1].request)
    end = time.time() + 1000
    for number in range(8):
        pool.update_expiration(9, end + 2 * number)
        list(queue.run())
        scheduler._annotator.changed()
        for step, _ in enumerate(scheduler.forecast(), 1):
            if step == number:
                pool.update_expiration(9, end + 2 * number + 1)
    calls = scheduler._pending.request_of(2).annotate.call_args_list
    told = [call.args[0]["sched"].get("t_estimate", 0) for call in calls]
    told = [start for start in told if start != 0]  # without what has only a reason
    assert None not in told and told == sorted(told), told
    assert told[0] == end + 60 and told[-1] == end + 14 + 60


def check_every_job_is_told_its_reason_when_nothing_else_happens():
    scheduler = scheduler_of_two_jobs()
    queue = scheduler.queue
    for jobid in range(3, 1000):
        waiting = scheduler._pending._submissions
        waiting[jobid] = attrs.evolve(waiting[1], request=Mock())
        queue.add(attrs.evolve(queue.jobs[1], jobid=jobid))
    reactor = Reactor(scheduler)
    reactor.event()
    assert reactor.told(999) == []
    while reactor.timer < math.inf:
        reactor.wait()
    assert all(len(reactor.told(jobid)) == 1 for jobid in queue.jobs)


if __name__ == "__main__":
    checks.run(globals())
