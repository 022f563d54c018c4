"""Submissions that wait for topology: which are judged, and when."""

from collections import deque
from types import SimpleNamespace
from unittest.mock import Mock

from hypothesis import given, settings
from hypothesis import strategies as st

from treepool.errors import InfeasibleRequest
from treepool.flux.options import Options
from treepool.flux.submissions import Submission, Submissions
from treepool.rfc.queues import Queues
from work import Lines


class Job(tuple):
    """A job that is judged: (job id, priority)."""

    relaxed = ()


class Queue:
    """Keeps the jobs that are judged, as (job id, priority)."""

    def __init__(self):
        self.jobs, self.judged = {}, []
        self.pool = SimpleNamespace(parse_resource_request=dict, check_feasibility=dict)

    def waiting(self, jobid, priority, *_):
        return Job((jobid, priority))

    def add(self, job):
        self.jobs[job[0]] = job
        self.judged.append(job)

    def remove(self, jobid):
        return self.jobs.pop(jobid, None)


class Request:
    """What a job was answered."""

    def __init__(self):
        self.answers = []

    def cancel(self):
        self.answers.append("cancelled")

    def deny(self, reason):
        self.answers.append(reason)


class Held:
    """Submissions; the first nodes send their topology with ``release``."""

    def __init__(self):
        self.queue, self.inbox = Queue(), deque()
        self.topology = SimpleNamespace(starts=True, unknown=1, asks=True)
        inbox = SimpleNamespace(put=self.inbox.append)
        windows = SimpleNamespace(admitted=lambda *_: frozenset())
        configuration = SimpleNamespace(
            queues=Queues.of(lambda key, default: default), options=Options()
        )
        context = SimpleNamespace(
            queue=self.queue,
            configuration=configuration,
            inbox=inbox,
            numbers=Mock(refused=0),
        )
        self.submissions = Submissions(context, self.topology, windows, Mock())

    def __len__(self):
        return self.submissions.deferred

    def take(self, jobid, priority=16):
        request = Request()
        self.submissions.take(Submission(request, jobid, priority, 0, 0.0, {}))
        return request

    def release(self, unknown=0, found=False):
        """The first nodes are known; those in *unknown* are being asked, and more was *found*."""
        self.topology.starts, self.topology.unknown = False, unknown
        self.topology.asks = unknown > 0
        self.submissions.release(found)

    def next(self):
        """One step of judging; returns whether there was one."""
        if self.inbox and not self.inbox[0]():
            self.inbox.popleft()
        return bool(self.inbox)

    def ready(self):
        """(job id, priority) of all that are judged now, in this order."""
        while self.next():
            pass
        judged, self.queue.judged = self.queue.judged, []
        return judged


def test_all_wait_for_the_first_nodes_and_are_judged_in_the_order_of_the_queue():
    held = Held()
    for jobid, priority in ((1, 16), (4, 16), (3, 31), (2, 16), (5, 0)):
        held.take(jobid, priority)
    held.submissions.release()  # some nodes are known, not all that were up first
    assert (len(held), held.ready()) == (5, [])
    held.submissions.prioritize([(4, 20), (4, 15), (2, 16), (6, 9)])
    held.release()
    held.submissions.prioritize([(1, 30), (2, 17)])
    held.submissions.cancel(3)
    assert held.ready() == [(1, 30), (2, 17), (4, 15), (5, 0)]
    assert len(held) == 0


def test_one_that_comes_later_waits_for_no_node():
    held = Held()
    held.release(unknown=0b10)  # another came up meanwhile
    held.take(1)
    assert held.ready() == [(1, 16)]


def test_one_that_is_cancelled_is_not_judged():
    held = Held()
    requests = [held.take(jobid) for jobid in (1, 2)]
    held.submissions.cancel(1)
    held.release()
    for _ in range(2):
        held.submissions.cancel(2)
    assert [request.answers for request in requests] == [["cancelled"], ["cancelled"]]
    assert held.ready() == []


def test_no_step_is_long_with_50000_jobs_also_if_most_were_cancelled():
    held = Held()
    for jobid in range(50_000):
        held.take(jobid)
    with Lines(most=100) as work:
        held.release()
    assert work.count < 40
    for jobid in range(49_000):
        held.submissions.cancel(jobid)
    for _ in range(10):
        with Lines(most=100):
            held.next()
    assert len(held.ready()) == 1000


def test_one_that_cannot_be_served_is_judged_again_at_each_answer_and_denied_after_the_last():
    held = Held()
    held.queue.pool.check_feasibility = Mock(side_effect=InfeasibleRequest("too few nodes"))
    requests = [held.take(jobid) for jobid in (1, 2)]
    held.release(unknown=0b110)  # other nodes came up
    held.ready()
    held.release(unknown=0b110)
    assert (len(held), held.ready(), requests[0].answers) == (2, [], [])
    held.queue.pool.check_feasibility.side_effect = [None, InfeasibleRequest("too few nodes")]
    held.release(unknown=0b100, found=True)
    assert (held.ready(), len(held), requests[1].answers) == ([(1, 16)], 1, [])
    held.queue.pool.check_feasibility.side_effect = InfeasibleRequest("too few nodes")
    held.release(found=True)
    held.ready()
    assert requests[1].answers == ["too few nodes"]
    assert len(held) == 0


@settings(deadline=None)
@given(st.data())
def test_whatever_happens_to_them_each_is_judged_once_after_all_before_it(data):
    held, waiting, starts = Held(), {}, True
    for _ in range(data.draw(st.integers(1, 40))):
        jobid, priority = data.draw(st.integers(1, 6)), data.draw(st.integers(0, 3))
        step = data.draw(st.sampled_from(["take", "cancel", "prioritize", "release", "next"]))
        if step == "take" and starts and jobid not in waiting:
            held.take(jobid, priority)
            waiting[jobid] = priority
        elif step == "cancel":
            held.submissions.cancel(jobid)
            waiting.pop(jobid, None)
        elif step == "prioritize":
            held.submissions.prioritize([(jobid, priority)])
            if jobid in waiting:
                waiting[jobid] = priority
        elif step == "release":
            held.release()
            starts = False
        elif step == "next":
            held.next()
            for judged, its_priority in held.queue.judged:
                assert not starts
                assert (-its_priority, judged) == min((-p, job) for job, p in waiting.items())
                del waiting[judged]
            held.queue.judged.clear()
        assert len(held) == len(waiting)
    held.release()
    assert len(held.ready()) == len(waiting)
