"""What waiting jobs are told: ``t_estimate`` and ``reason_pending`` (RFC 27), kept up to date."""

from __future__ import annotations

import math
import time
from collections import deque
from itertools import islice
from typing import Generator, Iterator, Optional

from flux.job import JobID

from treepool.flux.submissions import Submissions
from treepool.placement.plan.forecast import Forecast
from treepool.placement.plan.jobs import FAR, JobClass, Waiting
from treepool.placement.plan.queue import Queue
from treepool.placement.plan.reason import Room, why_waiting
from treepool.rfc.windows import MAX_TIME

#: Seconds between two annotations of a job, unless its estimate changes.
_INTERVAL = 5.0

#: Jobs of each queue that get a reason every time; and how many of all jobs do in turn.
_FIRST, _ROUND = 64, 256

#: Starts from this time on are not told (seconds since the epoch): where it is the year 10000 on
#: them, ``flux jobs`` fails to show the time, and lists no job at all.
_AFTER_ALL = MAX_TIME - 86400

#: Most jobs of a fifo queue that get an estimate.
_MAX_ESTIMATES = 1024


class Annotator:
    """Annotates the jobs of *queue*, whose *submissions* have what they were told."""

    def __init__(self, queue: Queue, submissions: Submissions) -> None:
        self._queue = queue
        self._submissions = submissions
        self._forecast = Forecast(queue.pool, queue.windows)
        #: The jobs that get a reason in turn, and when the next turn of all jobs begins.
        self._turn: deque[int] = deque()
        self._next_turn = 0.0
        #: Whether the estimates may have changed.
        self._estimating = True

    @property
    def next_time(self) -> float:
        """When to run again although nothing changes (monotonic seconds); infinity if never."""
        return 0.0 if self._turn or self._may_estimate else self._next_turn

    @property
    def _may_estimate(self) -> bool:
        """Whether estimates may have changed, and can be made.

        Until a pass has ended, jobs may have lost reservations of which they get others.
        """
        return self._estimating and self._queue.settled

    def changed(self) -> None:
        """Take note that what the jobs are to be told may have changed."""
        self._estimating = True
        self._next_turn = 0.0

    def run(self) -> Iterator[None]:
        """Tell the jobs what has changed; yields between steps."""
        if self._may_estimate:
            self._estimating = False
            yield from self._tell_estimates()
        yield from self._tell_reasons()

    def _tell_estimates(self) -> Iterator[None]:
        estimates: dict[int, Optional[float]] = {}
        complete = yield from self._estimate(estimates)
        jobs, now = self._queue.jobs, time.time()
        for count, jobid in enumerate(list(jobs), 1):
            told = jobid in jobs and self._submissions[jobid].told.get("t_estimate")
            if told and (complete or told < now):
                estimates.setdefault(jobid, None)
            if count % _MAX_ESTIMATES == 0:
                yield
        for count, (jobid, start) in enumerate(estimates.items(), 1):
            if jobid in jobs:
                known = start is not None and start < min(_AFTER_ALL, now + FAR)
                self._tell(jobid, t_estimate=start if known else None)
            if count % _FIRST == 0:
                yield
        yield

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
                        self._submissions[job.jobid].code = why.code
                        self._tell(job.jobid, reason_pending=why.message)
            yield

    def _estimate(self, estimates: dict[int, Optional[float]]) -> Generator[None, None, bool]:
        """Add to *estimates* when jobs start, those of fifo queues one after another.

        Returns whether these are all: not if the pool changed meanwhile.
        """
        reserved = dict(self._queue.reservations)
        estimates.update((made.job.jobid, made.start) for made in reserved.values())
        lines = [
            list(islice(jobs, int(min(rule.depth, _MAX_ESTIMATES))))
            for _, rule, jobs in self._queue.lines()
            if rule.policy == "fifo"
        ]
        if not any(lines):
            return True
        now = time.time()
        yield from self._forecast.begin(now, reserved.values())
        for line in lines:
            yield from self._forecast.starts(line, now, estimates)
            for job in line:
                if job.jobid not in reserved:
                    self._forecast.remove(job.jobid)
            if self._forecast.stale:
                return False
        return True

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

    def _tell(self, jobid: int, **annotations: object) -> None:
        submission = self._submissions[jobid]
        changed = submission.tell(annotations)
        if "reason_pending" in changed:
            submission.told_why = time.monotonic()
        elif changed:  # the reason may name the time
            submission.told_why = -math.inf


def name_of(jobid: int) -> str:
    """The job id in Flux's usual form."""
    return str(JobID(jobid).f58)
