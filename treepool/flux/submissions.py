"""Submissions that cannot be checked yet, because the topology of some nodes is not known.

The meaning of a jobspec depends on the localities of the pool: ``same_numa=required`` is a level if
there are NUMA domains, and ``numa`` is an unknown word if there are none. A submission therefore
waits for every node that was being asked for its topology when the submission arrived. The wait
ends when each of these nodes has sent its topology, or is known to have none.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Iterable, Mapping, Optional

import attrs


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
class _Place:
    """The place of a submission, which stays when its priority changes; None once it is gone."""

    submission: Optional[Submission]


class Submissions:
    """Submissions, in groups that wait for the same ranks (bitmask).

    Tens of thousands of jobs may arrive between two changes of what is known. A release therefore
    moves whole groups: it looks at no job of a group that becomes ready or goes on waiting. Groups
    are ready in the order in which they were begun, the jobs of a group in the order of arrival.
    """

    def __init__(self) -> None:
        self._places: dict[int, _Place] = {}
        self._waiting: dict[int, deque[_Place]] = {}
        self._ready: deque[deque[_Place]] = deque()

    def __len__(self) -> int:
        return len(self._places)

    @property
    def ready(self) -> bool:
        """Whether there is a submission that can be checked now."""
        while self._ready:
            group = self._ready[0]
            while group:
                if group[0].submission is not None:
                    return True
                group.popleft()
            self._ready.popleft()
        return False

    def hold(self, submission: Submission, ranks: int) -> None:
        """Keep *submission* until all of *ranks* are known, and at least until ``release``."""
        place = self._places[submission.jobid] = _Place(submission)
        self._waiting.setdefault(ranks, deque()).append(place)

    def release(self, unknown: int) -> None:
        """Make ready all submissions that wait for none of the ranks *unknown*."""
        waiting, self._waiting = self._waiting, {}
        for ranks, group in waiting.items():
            awaited = ranks & unknown
            if not awaited:
                self._ready.append(group)
            elif awaited in self._waiting:  # the later group is joined to the earlier one
                self._waiting[awaited].extend(group)
            else:
                self._waiting[awaited] = group

    def next(self) -> Optional[Submission]:
        """Remove and return the first submission that is ready; None if there is none."""
        return self._removed(self._ready[0].popleft()) if self.ready else None

    def get(self, jobid: int) -> Optional[Submission]:
        """The submission of job *jobid*; None if it is not here."""
        place = self._places.get(jobid)
        return None if place is None else place.submission

    def cancel(self, jobid: int) -> Optional[Submission]:
        """Remove and return the submission of job *jobid*; None if it is not here."""
        place = self._places.get(jobid)
        return None if place is None else self._removed(place)

    def _removed(self, place: _Place) -> Optional[Submission]:
        """Remove and return the submission in *place*."""
        submission, place.submission = place.submission, None
        if submission is not None:
            del self._places[submission.jobid]
        return submission

    def prioritize(self, jobs: Iterable[tuple[int, int]]) -> None:
        """Apply new priorities, by job id."""
        for jobid, priority in jobs:
            place = self._places.get(jobid)
            if place is not None and place.submission is not None:
                place.submission = attrs.evolve(place.submission, priority=priority)
