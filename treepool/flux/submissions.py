"""Submissions that cannot be judged yet, because the topology of some nodes is still to come.

What a jobspec means depends on the localities of the pool: ``same_numa=require`` is a level where
there are NUMA domains, and ``numa`` is an unknown word where there are none. So a submission waits
until every node that was asked for its topology when it came has told it, or is known not to.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Optional

import attrs


@attrs.frozen
class Submission:
    """A job as the scheduler was asked to allocate it; *request* is to be answered."""

    request: Any
    jobid: int
    priority: int
    t_submit: float
    jobspec: Mapping[str, Any]


class Submissions:
    """Submissions in the order of arrival, with the ranks (bitmask) that each waits for."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[Submission, int]] = {}
        self._ready: dict[int, Submission] = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._ready)

    @property
    def ready(self) -> bool:
        """Whether there is one to be judged."""
        return bool(self._ready)

    def hold(self, submission: Submission, ranks: int) -> None:
        """Keep *submission* until all of *ranks* are known; at least until ``release``."""
        self._waiting[submission.jobid] = submission, ranks

    def release(self, unknown: int) -> None:
        """Make those ready that wait for none of the ranks *unknown*."""
        for jobid, (submission, ranks) in list(self._waiting.items()):
            if not ranks & unknown:
                del self._waiting[jobid]
                self._ready[jobid] = submission

    def next(self) -> Optional[Submission]:
        """Take out the first that is ready; None if there is none."""
        return self._ready.pop(next(iter(self._ready))) if self._ready else None

    def cancel(self, jobid: int) -> Optional[Submission]:
        """Take out that of job *jobid*; None if it is not here."""
        held = self._waiting.pop(jobid, None)
        return held[0] if held else self._ready.pop(jobid, None)

    def prioritize(self, jobs: Iterable[tuple[int, int]]) -> None:
        """Take note of new priorities, by job id."""
        for jobid, priority in jobs:
            if jobid in self._waiting:
                submission, ranks = self._waiting[jobid]
                self._waiting[jobid] = attrs.evolve(submission, priority=priority), ranks
            elif jobid in self._ready:
                ready = self._ready[jobid]
                self._ready[jobid] = attrs.evolve(ready, priority=priority)
