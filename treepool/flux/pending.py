"""The jobs that wait: from their submission to their place in the queue, and what they are now.

What a jobspec means depends on the localities and the options of the pool. If these change, all
jobs that wait are judged again.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from typing import Any, Callable, Iterable, Optional

import attrs

from treepool.flux.annotate import Annotator
from treepool.flux.config import Configuration
from treepool.flux.intake import Intake
from treepool.flux.submissions import Submission
from treepool.flux.windows import Windows
from treepool.placement.plan.jobs import Place, Waiting
from treepool.placement.plan.queue import Queue
from treepool.placement.plan.windows import Owner
from treepool.placement.request.vertices import Request


class Pending:
    """The jobs that wait, in the queue or on their way there; *refused* counts those denied."""

    def __init__(
        self,
        intake: Intake,
        windows: Windows,
        configuration: Configuration,
        refused: Callable[[], None],
    ) -> None:
        self._intake = intake
        self._windows = windows
        self._configuration = configuration
        self._refused = refused
        self._queue: Queue
        self._annotator: Annotator
        #: The submission of each job in the queue.
        self._submissions: dict[int, Submission] = {}
        #: New priorities that are to be applied, by job id.
        self._priorities: dict[int, int] = {}
        #: Jobs in the queue that are to be judged again: some by id, the others in a heap.
        self._unordered: deque[int] = deque()
        self._outdated: list[Place] = []
        #: Whether there are such jobs, or were some that wait for the next release.
        self._judging = False

    def begin(self, queue: Queue, annotator: Annotator) -> None:
        """Let jobs wait in *queue*, and be told by *annotator*."""
        self._queue, self._annotator = queue, annotator

    def judge(self, submission: Submission) -> None:
        """Queue a job, or deny it with the reason if it can never run."""
        pool, jobid, priority = self._queue.pool, submission.jobid, submission.priority
        try:
            userid, queue = submission.userid, submission.queue
            request = pool.parse_resource_request(submission.jobspec)
            pool.check_feasibility(request)
            job = self.waiting(jobid, priority, userid, queue, request, submission.t_submit)
            self._submissions[jobid] = submission
            self._queue.add(job)
        except Exception as e:  # a user's jobspec must not affect other jobs, whatever it breaks
            self._submissions.pop(jobid, None)
            self._deny(submission, str(e) or type(e).__name__)

    def refuse(self, job: Waiting, reason: str) -> None:
        """Deny *job*, which left the queue because it can never run."""
        self._annotator.withdraw(job.jobid)
        self._deny(attrs.evolve(self.leave(job.jobid), priority=job.priority), reason)

    def _deny(self, submission: Submission, reason: str) -> None:
        """Deny a job, or judge it again when more nodes are known."""
        if not self._intake.hold(submission):
            self._refused()
            submission.request.deny(reason)

    def judge_again(self) -> None:
        """Let ``apply`` judge all waiting jobs again, which may ask for something else now.

        They are judged in the order of the queue. Passes may come in between, and must not start a
        job that one ahead of it holds back.
        """
        self._unordered, self._outdated = deque(self._queue.jobs), []
        self._judging = True

    def _put_in_order(self, jobid: int) -> None:
        """Put a job, if it is still in the queue, among those that are judged again."""
        job = self._queue.jobs.get(jobid)
        if job is not None:
            priority = self._priorities.get(jobid, job.priority)
            heapq.heappush(self._outdated, attrs.evolve(job, priority=priority).place)

    def _take_out(self, jobid: int) -> None:
        """Take a job out of the queue, if it is still there, to be judged again."""
        job = self._queue.remove(jobid)
        if job is not None:
            self._annotator.withdraw(jobid)
            priority = self._priorities.pop(jobid, job.priority)
            # It waits for no node, only for the next release.
            self._intake.held.hold(attrs.evolve(self.leave(jobid), priority=priority), 0)

    def waiting(
        self,
        jobid: int,
        priority: int,
        userid: int,
        queue: str,
        request: Request,
        submitted: float,
    ) -> Waiting:
        """The job as the queue sees it now; *queue* is its Flux queue."""
        queues = self._configuration.queues
        leave, line = self._windows.admitted(userid, queues.lineage(queue)), queues.line(queue)
        return self._queue.waiting(
            jobid, priority, request, leave, line, submitted, time.time(), userid
        )

    def leave(self, jobid: int) -> Submission:
        """Forget a job that left the queue; returns its submission."""
        self._annotator.forget(jobid)
        self._priorities.pop(jobid, None)
        return self._submissions.pop(jobid)

    def cancel(self, jobid: int) -> Optional[Submission]:
        """Forget a job, wherever it waits; returns its submission, None if there is none."""
        self._priorities.pop(jobid, None)  # a later request for the job has a priority of its own
        submission = self._intake.held.cancel(jobid)
        return submission if self._queue.remove(jobid) is None else self.leave(jobid)

    def prioritize(self, jobs: Iterable[tuple[int, int]]) -> None:
        """Take note of new priorities, by job id."""
        self._intake.held.prioritize(jobs)
        self._priorities.update(jobs)

    def apply(self) -> bool:
        """Apply to the queue one thing that concerns all jobs; returns whether there was one.

        No pass may come before the last of them is applied.
        """
        if self._unordered:
            self._put_in_order(self._unordered.popleft())
        elif self._outdated:
            self._take_out(heapq.heappop(self._outdated)[1])
        elif self._judging:
            self._judging = False
            self._intake.release()
        elif self._priorities:
            self._queue.prioritize(*self._priorities.popitem())
        else:
            return False
        return True

    def request_of(self, jobid: int) -> Any:
        """The AllocRequest of a job in the queue."""
        return self._submissions[jobid].request

    def owner_of(self, job: Waiting) -> Owner:
        """The user and the Flux queues of a job in the queue."""
        submission = self._submissions[job.jobid]
        return submission.userid, self._configuration.queues.lineage(submission.queue)

    def user_of(self, jobid: int) -> Optional[int]:
        """The user of a job; None if it does not wait."""
        submission = self._submissions.get(jobid) or self._intake.held.get(jobid)
        return None if submission is None else submission.userid
