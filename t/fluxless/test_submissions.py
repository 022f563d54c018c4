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
    """Submissions; ``hold`` says for which ranks one waits, ``release`` which are not known yet."""

    def __init__(self):
        self.queue, self.inbox = Queue(), deque()
        self.topology = SimpleNamespace(awaited=None, unknown=0)
        inbox = SimpleNamespace(put=self.inbox.append)
        windows = SimpleNamespace(admitted=lambda *_: frozenset())
        configuration = SimpleNamespace(
            queues=Queues.of(lambda key, default: default), options=Options()
        )
        rest = windows, configuration, inbox, Mock(), Mock(), Mock(refused=0)
        self.submissions = Submissions(Mock(), self.queue, self.topology, *rest)

    def __len__(self):
        return self.submissions.deferred

    def hold(self, jobid, ranks, priority=16):
        self.topology.awaited = ranks
        self.submissions.take(Submission(Request(), jobid, priority, 0, 0.0, {}))

    def release(self, unknown):
        self.topology.awaited, self.topology.unknown = unknown or None, unknown
        self.submissions.release()

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


def test_each_waits_for_its_own_ranks_only():
    held = Held()
    held.hold(1, 0b011)
    held.hold(2, 0b100)
    held.hold(3, 0)
    assert (len(held), held.ready()) == (3, [])
    held.release(0b010)
    assert held.ready() == [(2, 16), (3, 16)]
    held.release(0b100)
    assert held.ready() == [(1, 16)]
    assert len(held) == 0


def test_one_that_is_cancelled_is_not_judged():
    held = Held()
    for jobid in (1, 2, 3):
        held.hold(jobid, jobid & 1)
    held.release(1)  # 2 is ready, the others wait
    requests = [held.submissions[jobid].request for jobid in (1, 2)]
    for jobid in (1, 2, 2):
        held.submissions.cancel(jobid)
    assert [request.answers for request in requests] == [["cancelled"], ["cancelled"]]
    held.release(0)
    assert held.ready() == [(3, 16)]


def test_a_release_looks_at_groups_and_not_at_each_of_50000_jobs():
    held = Held()
    for jobid in range(50_000):
        held.hold(jobid, 0b01 if jobid % 2 else 0b11)
    with Lines(most=100) as work:
        held.release(0b10)
    assert work.count < 40
    assert len(held.ready()) == 25_000


def test_no_step_is_long_also_if_most_of_50000_jobs_were_cancelled():
    held = Held()
    for jobid in range(50_000):
        held.hold(jobid, 0)
    held.release(0)
    for jobid in range(49_000):
        held.submissions.cancel(jobid)
    for _ in range(10):
        with Lines(most=100):
            held.next()
    assert len(held.ready()) == 1000


def test_groups_that_wait_for_the_same_ranks_are_joined():
    held = Held()
    for jobid in range(200):  # one after another, 200 nodes send what they are
        held.hold(jobid, (1 << 201) - (1 << jobid))
        held.release((1 << 201) - (2 << jobid))
    with Lines(most=100):
        held.release(1 << 200)
    held.release(0)
    assert [jobid for jobid, _ in held.ready()] == list(range(200))


def test_they_are_judged_in_the_order_of_the_queue():
    held = Held()
    for jobid, priority, ranks in ((1, 16, 1), (4, 16, 2), (3, 31, 2), (2, 16, 0), (5, 0, 1)):
        held.hold(jobid, ranks, priority)
    held.release(1)
    held.submissions.prioritize([(4, 20), (4, 15), (2, 16)])
    held.release(0)
    held.submissions.prioritize([(1, 30), (2, 17)])
    assert held.ready() == [(3, 31), (1, 30), (2, 17), (4, 15), (5, 0)]
    assert len(held) == 0


def test_one_that_cannot_be_served_is_held_until_all_nodes_are_known():
    held = Held()
    held.queue.pool.check_feasibility = Mock(side_effect=InfeasibleRequest("too few nodes"))
    held.hold(1, 0b01)
    request = held.submissions[1].request
    held.release(0b10)  # another node came up
    held.ready()
    assert (len(held), request.answers) == (1, [])
    held.release(0)
    held.ready()
    assert request.answers == ["too few nodes"]
    assert len(held) == 0


@settings(deadline=None)
@given(st.data())
def test_whatever_happens_to_them_each_is_judged_once_after_all_before_it_that_are_ready(data):
    held, waiting = Held(), {}
    for _ in range(data.draw(st.integers(1, 40))):
        jobid, priority = data.draw(st.integers(1, 6)), data.draw(st.integers(0, 3))
        step = data.draw(st.sampled_from(["hold", "cancel", "prioritize", "release", "next"]))
        if step == "hold" and jobid not in waiting and jobid not in held.queue.jobs:
            held.hold(jobid, 0, priority)
            waiting[jobid] = [priority, False]
        elif step == "cancel":
            held.submissions.cancel(jobid)
            waiting.pop(jobid, None)
        elif step == "prioritize":
            held.submissions.prioritize([(jobid, priority)])
            if jobid in waiting:
                waiting[jobid][0] = priority
        elif step == "release":
            held.release(0)
            for one in waiting.values():
                one[1] = True
        elif step == "next":
            held.next()
            for judged, its_priority in held.queue.judged:
                first = min((-p, job) for job, (p, is_ready) in waiting.items() if is_ready)
                assert (-its_priority, judged) == first
                del waiting[judged]
            held.queue.judged.clear()
        assert len(held) == len(waiting)
    held.release(0)
    assert len(held.ready()) == len(waiting)
