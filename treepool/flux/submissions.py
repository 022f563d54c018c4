"""Jobs before and in the queue: deferred until topology is known, judged, denied, judged again.

======== ==================================================== ======================================
state    the job                                              next
======== ==================================================== ======================================
deferred waits for the topology of nodes, or until the window ready
         opens that it was submitted for
ready    is to be judged, in the order of the queue           waiting; over if it is denied; or
                                                              deferred again
waiting  is in the queue                                      over if it starts, is denied or is
                                                              cancelled; ready if it may ask for
                                                              something else now
over     is forgotten
======== ==================================================== ======================================

The meaning of a jobspec depends on the localities and the options of the pool:
``same_numa=required`` is a level if there are NUMA domains, and ``numa`` is an unknown word if
there are none. All submissions are therefore deferred until the nodes that were up first have sent
their topology, or are known to have none; the first job of the queue may need all of them. After
that each is judged at once, and deferred only if it is refused while nodes are asked. If the
meaning changes, all are judged again.
"""

from __future__ import annotations

import math
import time
from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Callable, Final, Iterable, Iterator, Mapping, Optional

import attrs

from treepool.errors import InfeasibleRequest, InvalidInput, Reason
from treepool.flux.context import Context, Origin
from treepool.placement.plan.jobs import Place, Waiting, at_length
from treepool.placement.plan.windows import Window
from treepool.rfc import idset
from treepool.rfc.queues import inner
from treepool.rfc.times import clock

if TYPE_CHECKING:  # they import flux, and this does not
    from treepool.flux.topology import Topology
    from treepool.flux.windows import Windows

#: Why a job waits, if that is no Reason: it is deferred or ready, or nobody has looked yet.
DEFERRED, UNKNOWN = "deferred", "unknown"

#: Why it waits if the window that it was submitted for is still to open.
OPENS: Final = "opens"

#: Places in the queue, as a heap. A job has one more place there for each new priority: only the
#: latest counts.
Heap = list[Place]


@attrs.define(eq=False)
class Submission:
    """A job as the scheduler was asked to allocate it; *request* still needs an answer.

    *t_submit* is in seconds since the epoch.
    """

    request: Any
    jobid: int
    priority: int
    userid: int
    t_submit: float
    jobspec: Mapping[str, Any]
    #: Where it is deferred or ready; None while it waits in the queue.
    heap: Optional[Heap] = None
    #: The annotations that it has; when it was last told why it waits (monotonic seconds), and the
    #: code of that reason.
    told: dict[str, Any] = attrs.field(factory=dict)
    told_why: float = -math.inf
    code: str = UNKNOWN
    #: The window that it waits for, if it was submitted for one that is not open yet.
    window: Optional[Window] = None

    @property
    def queue(self) -> str:
        """The Flux queue of the job, "" if it is in none."""
        return str(inner(self.jobspec, "attributes", "system").get("queue") or "")

    @property
    def origin(self) -> Origin:
        """Its user, its Flux queue and its bank."""
        system = inner(self.jobspec, "attributes", "system")
        return self.userid, self.queue, str(system.get("bank") or "")

    @property
    def place(self) -> Place:
        """Its place in the order of the queue."""
        return -self.priority, self.jobid

    def tell(self, annotations: Mapping[str, Any]) -> set[str]:
        """Annotate the job with those of *annotations* that it has not; returns which."""
        changes = {name: it for name, it in annotations.items() if self.told.get(name) != it}
        if changes:
            self.told.update(changes)
            self.request.annotate({"sched": changes})
        return set(changes)

    def withdraw(self) -> None:
        """Take back what it was told."""
        self.tell(dict.fromkeys(self.told))
        self.code = UNKNOWN


class Submissions:
    """The jobs that are not over yet.

    *failed* is called for a job on which treepool itself fails. What was deferred is done in its
    turn in the inbox; the numbers count those that are denied.
    """

    def __init__(
        self,
        context: Context,
        topology: Topology,
        windows: Windows,
        failed: Callable[[int, Exception], None],
    ) -> None:
        self._context, self._queue = context, context.queue
        self._topology = topology
        self._windows = windows
        self._failed = failed
        self._jobs: dict[int, Submission] = {}
        #: Those that came before the first nodes were known, those that were refused while nodes
        #: are asked, and those that wait for a window to open; and the heaps that are ready. Tens
        #: of thousands of jobs may be deferred: whole heaps become ready.
        self._held: Heap = []
        self._refused: Heap = []
        self._early: Heap = []
        self._ready: list[Heap] = []
        #: Jobs that were submitted for a window that is open.
        self._inside: dict[int, None] = {}
        #: Jobs in the queue that are to be judged again; None if all are judged.
        self._outdated: Optional[deque[int]] = None
        #: Jobs that have another priority than in the queue: those that get it now, all before the
        #: next pass, and those that changed since these began.
        self._moved: dict[int, None] = {}
        self._moved_since: dict[int, None] = {}

    def __getitem__(self, jobid: int) -> Submission:
        return self._jobs[jobid]

    def __contains__(self, jobid: int) -> bool:
        return jobid in self._jobs

    def get(self, jobid: int) -> Optional[Submission]:
        """A job; None if it is over."""
        return self._jobs.get(jobid)

    def last(self) -> Optional[int]:
        """The job that came last; None if there is none."""
        return next(reversed(self._jobs), None)

    @property
    def deferred(self) -> int:
        """How many jobs are not in the queue yet."""
        return len(self._jobs) - len(self._queue.jobs)

    def waits(self) -> Iterator[tuple[str, int, str]]:
        """Of each job: the queue in whose order it stands, its user, and why it waits (a code)."""
        line_of, jobs = self._context.configuration.queues.line, self._queue.jobs
        for submission in list(self._jobs.values()):
            job = jobs.get(submission.jobid)
            if job is not None:
                yield job.queue, job.user, submission.code
            elif submission.jobid in self._jobs:
                code = DEFERRED if submission.window is None else OPENS
                yield line_of(submission.queue), submission.userid, code

    def origin_of(self, jobid: int) -> Optional[Origin]:
        """The origin of a job that waits or has resources; None if there is no such job."""
        submission = self._jobs.get(jobid)
        return self._context.origins.get(jobid) if submission is None else submission.origin

    def user_of(self, jobid: int) -> Optional[int]:
        """The user of a job that waits or has resources; None if there is no such job."""
        origin = self.origin_of(jobid)
        return None if origin is None else origin[0]

    @property
    def defers(self) -> bool:
        """Whether a job that came now would be deferred until the topology of nodes is known."""
        return self._topology.starts

    @property
    def defers_refused(self) -> bool:
        """Whether one that were refused now would be."""
        return self._topology.asks

    # -- what the job manager tells

    def take(self, submission: Submission) -> None:
        """Judge *submission*, now or when its meaning is clear."""
        self._jobs[submission.jobid] = submission
        if self.defers:
            _put(submission, self._held)
        else:
            self._judge(submission)

    def cancel(self, jobid: int) -> None:
        """End a job that is cancelled."""
        self._queue.remove(jobid)
        if jobid in self._jobs:
            self.leave(jobid).request.cancel()

    def prioritize(self, jobs: Iterable[tuple[int, int]]) -> None:
        """Take note of new priorities, by job id."""
        for jobid, priority in jobs:
            submission = self._jobs.get(jobid)
            if submission is None:
                continue
            submission.priority = priority
            if submission.heap is None:
                self._moved_since[jobid] = None
            else:
                heappush(submission.heap, submission.place)

    # -- from one state to another

    def release(self, found: bool = False) -> None:
        """Make ready what may be judged now, with those that are still refused if *found* more."""
        if not self.defers:
            held, self._held = self._held, []
            self._judge_soon(held)
            if found or not self._topology.unknown:
                refused, self._refused = self._refused, []
                self._judge_soon(refused)

    def _judge_soon(self, heap: Heap) -> None:
        """Make the jobs of *heap* ready."""
        if heap:
            self._ready.append(heap)
            self._context.inbox.put(self._judge_next)

    def _judge_next(self) -> bool:
        """Judge the first of the jobs that are ready; returns whether there are more."""
        heap = min(self._ready, default=[])
        if heap:
            place = heappop(heap)
            submission = self._jobs.get(place[1])
            if submission and submission.heap is heap and submission.place == place:
                self._judge(submission)
        self._ready = [heap for heap in self._ready if heap]
        return bool(self._ready)

    def _judge(self, submission: Submission) -> None:
        """Queue a job, or deny it with the reason if it can never run."""
        submission.heap = submission.window = None
        try:
            job, window = self.waiting(submission)
            self._queue.pool.check_feasibility(job.relaxed)
            if window is not None and window.start > time.time():
                self._wait_for(window, submission)
                return
            if window is not None:
                self._inside[submission.jobid] = None
                submission.withdraw()
            self._queue.add(job)
        except (InvalidInput, InfeasibleRequest) as e:
            self._deny(submission, str(e))
        except Exception as e:  # a user's jobspec must not affect other jobs, whatever it breaks
            self._failed(submission.jobid, e)

    def _wait_for(self, window: Window, submission: Submission) -> None:
        """Let a job wait until *window* opens."""
        submission.window = window
        _put(submission, self._early)
        reason = str(opens(window, time.time()))
        submission.tell({"reason_pending": reason, "t_estimate": window.start})

    def windows_changed(self) -> None:
        """Judge jobs again that were submitted for a window: it may be open, over or elsewhere."""
        if self._inside:
            self._outdated = deque(dict.fromkeys((*(self._outdated or ()), *self._inside)))
            self._inside = {}
        early, self._early = self._early, []
        self._judge_soon(early)

    def refuse(self, jobid: int, reason: str) -> None:
        """Deny a job that left the queue because it can never run."""
        self._jobs[jobid].withdraw()
        self._deny(self._jobs[jobid], reason)

    def _deny(self, submission: Submission, reason: str) -> None:
        """Deny a job, or defer it if more nodes will be known."""
        if self.defers_refused:
            submission.withdraw()
            _put(submission, self._refused)
        else:
            self._context.numbers.refused += 1
            self.leave(submission.jobid).request.deny(reason)

    def leave(self, jobid: int) -> Submission:
        """Forget a job that is over; returns its submission."""
        for known in (self._moved, self._moved_since, self._inside):
            known.pop(jobid, None)
        return self._jobs.pop(jobid)

    # -- changes of all that wait

    def judge_again(self) -> None:
        """Let ``apply`` judge all waiting jobs again, which may ask for something else now."""
        self._outdated = deque(self._queue.jobs)

    @property
    def is_behind(self) -> bool:
        """Whether ``apply`` is to be called before the next pass.

        A pass between two of its steps could start a job that one ahead of it, which is to be
        judged again or gets another priority, holds back.
        """
        return bool(self._moved) or self._outdated is not None

    @property
    def come(self) -> bool:
        """Whether jobs got other priorities since the last ``begin``."""
        return bool(self._moved_since)

    def begin(self) -> None:
        """Let ``apply`` give the jobs their new priorities."""
        self._moved, self._moved_since = self._moved_since, self._moved

    def apply(self) -> None:
        """Do one step of what concerns all jobs."""
        if self._outdated:
            self._take_out(self._outdated.popleft())
        elif self._outdated is not None:
            self._outdated = None
            self.release()
        elif self._moved:
            jobid, _ = self._moved.popitem()
            self._queue.prioritize(jobid, self._jobs[jobid].priority)

    def _take_out(self, jobid: int) -> None:
        """Take a job out of the queue, if it is still there, to be judged again."""
        if self._queue.remove(jobid) is not None:
            self._jobs[jobid].withdraw()
            _put(self._jobs[jobid], self._held)

    def waiting(self, submission: Submission) -> tuple[Waiting, Optional[Window]]:
        """The job as the queue sees it now, and the window that it was submitted for, if any.

        Such a job runs on nodes of the window, and ends with it. Raises InvalidJobspec.
        """
        user, queue, bank = submission.origin
        owner = user, self._context.configuration.queues.lineage(queue), bank
        jobspec, now = submission.jobspec, time.time()
        name = inner(jobspec, "attributes", "system", "treepool").get("window")
        window = self._windows.of_job(name, owner) if isinstance(name, str) else None
        if window is not None:
            jobspec = _on_ranks(jobspec, window.ranks)
        request = self._queue.pool.parse_resource_request(jobspec)
        until = math.inf
        if window is not None:
            until = window.end
            length = until - max(now, window.start)
            request = at_length(request, min(request.duration or length, length))
        terms = self._context.configuration.options.preemption.terms(jobspec, owner[1])
        job = self._queue.waiting(
            submission.jobid,
            submission.priority,
            request,
            self._windows.admitted(*owner),
            owner[1][0],
            submission.t_submit,
            now,
            user,
            terms,
            until,
        )
        return job, window


def _put(submission: Submission, heap: Heap) -> None:
    """Put a job on *heap*, in its place in the queue."""
    submission.heap = heap
    heappush(heap, submission.place)


def opens(window: Window, now: float) -> Reason:
    """Why a job waits that was submitted for *window*."""
    return Reason(OPENS, f"window {window.title} opens at {clock(window.start, now)}", window.title)


def _on_ranks(jobspec: Mapping[str, Any], ranks: int) -> dict[str, Any]:
    """*jobspec*, constrained to *ranks* (bitmask)."""
    attributes = inner(jobspec, "attributes")
    system = inner(attributes, "system")
    its: dict[str, Any] = {"ranks": [idset.encode(ranks)]}
    if "constraints" in system:
        its = {"and": [its, system["constraints"]]}
    return {**jobspec, "attributes": {**attributes, "system": {**system, "constraints": its}}}
