"""Submissions that cannot be checked yet, because the topology of some nodes is not known.

The meaning of a jobspec depends on the localities of the pool: ``same_numa=required`` is a level if
there are NUMA domains, and ``numa`` is an unknown word if there are none. A submission therefore
waits for every node that was being asked for its topology when the submission arrived. The wait
ends when each of these nodes has sent its topology, or is known to have none.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from itertools import count
from typing import Any, Iterable, Mapping, Optional

import attrs

from treepool.placement.plan.jobs import Place


@attrs.frozen
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

    @property
    def queue(self) -> str:
        """The Flux queue of the job, "" if it is in none."""
        attributes = self.jobspec.get("attributes") or {}
        return str((attributes.get("system") or {}).get("queue") or "")


@attrs.define(eq=False)
class _Held:
    """What is here of a job: a submission, which may get another priority; None once it is gone.

    ``place`` is its place in the queue, once it is put in order.
    """

    submission: Optional[Submission]
    place: Optional[Place] = None


class Submissions:
    """Submissions, in groups that wait for the same ranks (bitmask).

    Tens of thousands of jobs may arrive between two changes of what is known. A release therefore
    moves whole groups: it looks at no job of a group that becomes ready or goes on waiting. Those
    that are ready are put in the order of the queue, one at a time, before the first is checked.
    """

    def __init__(self) -> None:
        self._held: dict[int, _Held] = {}
        self._waiting: dict[int, deque[_Held]] = {}
        #: Groups that are ready and to be put in order; and a heap of those that are in order. The
        #: heap has one more entry for each new priority: only that of the latest place counts.
        self._unordered: deque[deque[_Held]] = deque()
        self._ordered: list[tuple[Place, int, _Held]] = []
        self._count = count()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def ready(self) -> bool:
        """Whether there is a submission that can be checked now."""
        while self._unordered:
            group = self._unordered[0]
            while group:
                if group[0].submission is not None:
                    return True
                group.popleft()
            self._unordered.popleft()
        while self._ordered:
            place, _, held = self._ordered[0]
            if held.submission is not None and held.place == place:
                return True
            heappop(self._ordered)
        return False

    def hold(self, submission: Submission, ranks: int) -> None:
        """Keep *submission* until all of *ranks* are known, and at least until ``release``."""
        held = self._held[submission.jobid] = _Held(submission)
        self._waiting.setdefault(ranks, deque()).append(held)

    def release(self, unknown: int) -> None:
        """Make ready all submissions that wait for none of the ranks *unknown*."""
        waiting, self._waiting = self._waiting, {}
        for ranks, group in waiting.items():
            awaited = ranks & unknown
            if not awaited:
                self._unordered.append(group)
            elif awaited in self._waiting:  # the later group is joined to the earlier one
                self._waiting[awaited].extend(group)
            else:
                self._waiting[awaited] = group

    def next(self) -> Optional[Submission]:
        """Remove and return the first submission that is ready.

        None if there is none, or if one of them was put in order instead, which takes less time.
        """
        if not self.ready:
            return None
        if self._unordered:
            self._put_in_order(self._unordered[0].popleft())
            return None
        return self._removed(heappop(self._ordered)[2])

    def _put_in_order(self, held: _Held) -> None:
        assert held.submission is not None
        held.place = -held.submission.priority, held.submission.jobid
        heappush(self._ordered, (held.place, next(self._count), held))

    def get(self, jobid: int) -> Optional[Submission]:
        """The submission of job *jobid*; None if it is not here."""
        held = self._held.get(jobid)
        return None if held is None else held.submission

    def cancel(self, jobid: int) -> Optional[Submission]:
        """Remove and return the submission of job *jobid*; None if it is not here."""
        held = self._held.get(jobid)
        return None if held is None else self._removed(held)

    def _removed(self, held: _Held) -> Optional[Submission]:
        """Remove and return the submission in *held*."""
        submission, held.submission = held.submission, None
        if submission is not None:
            del self._held[submission.jobid]
        return submission

    def prioritize(self, jobs: Iterable[tuple[int, int]]) -> None:
        """Apply new priorities, by job id."""
        for jobid, priority in jobs:
            held = self._held.get(jobid)
            if held is not None and held.submission is not None:
                held.submission = attrs.evolve(held.submission, priority=priority)
                if held.place is not None:
                    self._put_in_order(held)
