"""Submissions that cannot be checked yet, because the topology of some nodes is not known.

The meaning of a jobspec depends on the localities of the pool: ``same_numa=required`` is a level if
there are NUMA domains, and ``numa`` is an unknown word if there are none. A submission therefore
waits for every node that was being asked for its topology when the submission arrived. The wait
ends when each of these nodes has sent its topology, or is known to have none.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Optional

import attrs


@attrs.frozen
class Submission:
    """A job as the scheduler was asked to allocate it; *request* still needs an answer."""

    request: Any
    jobid: int
    priority: int
    userid: int
    jobspec: Mapping[str, Any]

    @property
    def queue(self) -> str:
        """The Flux queue of the job, "" if it is in none."""
        attributes = self.jobspec.get("attributes") or {}
        return str((attributes.get("system") or {}).get("queue") or "")


class Submissions:
    """Submissions in the order of arrival, with the ranks (bitmask) that each waits for."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[Submission, int]] = {}
        self._ready: dict[int, Submission] = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._ready)

    @property
    def ready(self) -> bool:
        """Whether there is a submission that can be checked now."""
        return bool(self._ready)

    def hold(self, submission: Submission, ranks: int) -> None:
        """Keep *submission* until all of *ranks* are known, and at least until ``release``."""
        self._waiting[submission.jobid] = submission, ranks

    def release(self, unknown: int) -> None:
        """Make ready all submissions that wait for none of the ranks *unknown*."""
        for jobid, (submission, ranks) in list(self._waiting.items()):
            if not ranks & unknown:
                del self._waiting[jobid]
                self._ready[jobid] = submission

    def next(self) -> Optional[Submission]:
        """Remove and return the first submission that is ready; None if there is none."""
        return self._ready.pop(next(iter(self._ready))) if self._ready else None

    def cancel(self, jobid: int) -> Optional[Submission]:
        """Remove and return the submission of job *jobid*; None if it is not here."""
        held = self._waiting.pop(jobid, None)
        return held[0] if held else self._ready.pop(jobid, None)

    def prioritize(self, jobs: Iterable[tuple[int, int]]) -> None:
        """Apply new priorities, by job id."""
        for jobid, priority in jobs:
            if jobid in self._waiting:
                submission, ranks = self._waiting[jobid]
                self._waiting[jobid] = attrs.evolve(submission, priority=priority), ranks
            elif jobid in self._ready:
                ready = self._ready[jobid]
                self._ready[jobid] = attrs.evolve(ready, priority=priority)
