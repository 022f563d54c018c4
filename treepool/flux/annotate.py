"""Which waiting jobs are told t_estimate, t_reserved and reason_pending (RFC 27), and how often.

``t_reserved`` is the ``t_estimate`` of a job that has a reservation."""

from __future__ import annotations

import math
import time
from collections import deque
from itertools import islice
from typing import Iterator, Optional

from flux.job import JobID

from treepool.flux.context import Context
from treepool.flux.outlook import Outlook
from treepool.flux.runner import Work
from treepool.flux.submissions import Submissions
from treepool.placement.plan.jobs import FAR, JobClass, Waiting
from treepool.placement.plan.reason import Room, why_waiting
from treepool.rfc.times import LATEST

#: How long both tasks pause, as a multiple of the work, so that they do not slow down starts.
_PAUSE = 10

#: Seconds between two annotations of a job, unless its estimate changes.
_INTERVAL = 5.0

#: Jobs of each queue that get a reason every time; and how many of all jobs do in turn.
_FIRST, _ROUND = 64, 256

#: Starts from this time on are not told (seconds since the epoch): where it is the year 10000 on
#: them, ``flux jobs`` fails to show the time, and lists no job at all.
_AFTER_ALL = LATEST - 86400


class Annotator:
    """Annotates the jobs in the queue, whose *submissions* have what they were told.

    Reservations and reasons are told at once, or in turn. Estimates of other jobs take long to
    make, and are the work of a task of their own.
    """

    def __init__(self, context: Context, submissions: Submissions, outlook: Outlook) -> None:
        self._queue = context.queue
        self._annotations = context.runner.task("annotations", self._annotate, _PAUSE)
        self._estimates = context.runner.task("estimates", self._estimate, _PAUSE)
        self._submissions = submissions
        self._outlook = outlook
        #: The jobs that get a reason in turn, and when the next turn of all jobs begins.
        self._turn: deque[int] = deque()
        self._next_turn = 0.0
        #: Whether reservations and estimates may have changed, and when (monotonic seconds).
        self._reserving = self._estimating = True
        self._changed = 0.0
        #: The jobs that were told their reservation, or an estimate.
        self._reserved: set[int] = set()
        self._estimated: set[int] = set()

    @property
    def _may_tell_reserved(self) -> bool:
        """Whether reservations may have changed, and are complete.

        Until a pass has ended, jobs may have lost reservations of which they get others.
        """
        return self._reserving and self._queue.settled

    def changed(self) -> None:
        """A pass has ended: what the jobs are to be told may have changed."""
        self._reserving = self._estimating = True
        self._changed = time.monotonic()
        self._next_turn = 0.0
        self._annotations.wake()
        self._estimates.wake()

    def _annotate(self) -> Work:
        """Tell the jobs their reservations, and why they wait."""
        if self._may_tell_reserved:
            self._reserving = False
            yield from self._tell_reserved()
        yield from self._tell_reasons()
        again = 0.0 if self._turn or self._may_tell_reserved else self._next_turn
        self._annotations.wake(again - time.monotonic())

    def _estimate(self) -> Work:
        """Tell the first jobs of each queue that have no reservation when they will start.

        Until nothing has changed meanwhile; other tasks have their turn after each step.
        """
        while self._estimating:
            self._estimating = False
            for _ in self._tell_estimates():
                yield 0.0
            yield 0.0

    def _tell_reserved(self) -> Iterator[None]:
        reservations, old = self._queue.reservations, self._reserved
        self._reserved = {made.job.jobid for made in reservations.values()}
        for count, jobid in enumerate([*self._reserved, *(old - self._reserved)], 1):
            made = reservations.get(jobid)
            only = made is None and jobid in self._estimated
            names = ["t_reserved"] if only else ["t_reserved", "t_estimate"]
            self._tell_start(jobid, None if made is None else made.start, *names)
            if count % _FIRST == 0:
                yield
        yield

    def _tell_estimates(self) -> Iterator[None]:
        starts = yield from self._outlook.starts(self._changed)
        old, self._estimated = self._estimated, set(starts)
        for count, jobid in enumerate([*starts, *(old - set(starts))], 1):
            if jobid not in self._queue.reservations:
                self._tell_start(jobid, starts.get(jobid), "t_estimate")
            if count % _FIRST == 0:
                yield

    def _tell_start(self, jobid: int, start: Optional[float], *names: str) -> None:
        """Tell a job that waits when it starts, None if not known, by annotations of *names*."""
        if jobid not in self._queue.jobs:
            return
        if start is not None and start >= min(_AFTER_ALL, time.time() + FAR):
            start = None
        submission = self._submissions[jobid]
        if "t_reserved" in submission.tell(dict.fromkeys(names, start)):  # the reason names it
            submission.told_why = -math.inf

    def _tell_reasons(self) -> Iterator[None]:
        jobs = self._queue.jobs
        free: dict[JobClass, Room] = {}
        for job in self._round():
            if job.jobid in jobs:
                due = self._submissions[job.jobid].told_why + _INTERVAL
                if due > time.monotonic():
                    self._next_turn = min(self._next_turn, due)
                else:
                    why = yield from why_waiting(self._queue, job, time.time(), name_of, free)
                    if job.jobid in jobs:
                        submission = self._submissions[job.jobid]
                        submission.code = why.code
                        if submission.tell({"reason_pending": why.message}):
                            submission.told_why = time.monotonic()
            yield

    def _round(self) -> list[Waiting]:
        """The jobs that get a reason now."""
        jobs, turn = self._queue.jobs, self._turn
        lines = (islice(line, _FIRST) for _, _, line in self._queue.lines())
        found = {job.jobid: job for line in lines for job in line}
        if not turn and self._next_turn <= time.monotonic():
            self._next_turn = math.inf
            turn.extend(jobs)
        for _ in range(min(len(turn), _ROUND)):
            jobid = turn.popleft()
            if jobid in jobs:
                found[jobid] = jobs[jobid]
        return list(found.values())


def name_of(jobid: int) -> str:
    """The job id in Flux's usual form."""
    return str(JobID(jobid).f58)
