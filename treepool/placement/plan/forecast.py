"""Forecasts: when jobs without a reservation start, because others must start before them."""

from __future__ import annotations

from typing import Generator, Iterable, Iterator, Mapping, Optional

from treepool.placement.plan.jobs import Reservation, Waiting, earliest_start
from treepool.placement.plan.plan import Plan
from treepool.placement.plan.timeline import NEVER
from treepool.placement.plan.window import Window
from treepool.placement.pool import Pool


class Forecast:
    """Plans jobs on a timeline of its own, so that nothing that it plans affects the queue.

    *windows* is the mapping of the queue, which changes with the windows.
    """

    def __init__(self, pool: Pool, windows: Optional[Mapping[str, Window]] = None) -> None:
        self._plan = Plan(pool)
        self._windows = {} if windows is None else windows

    def starts(
        self, jobs: Iterable[Waiting], now: float, found: dict[int, float]
    ) -> Iterator[None]:
        """Add to *found*, by job id, the starts of *jobs* if they start one after another.

        Stops when the pool changes, and at the first job that cannot be planned.
        """
        yield from self.begin(now)
        journal = self._plan.pool.journal
        position, start, added = journal.end, now, []
        try:
            for job in jobs:
                planned = yield from self.add(job, start)
                if planned is not None:
                    added.append(job.jobid)
                if planned is None or planned >= NEVER or journal.end != position:
                    return
                start = found[job.jobid] = planned
                yield
        finally:
            for jobid in added:
                self.remove(jobid)

    def begin(self, now: float) -> Iterator[None]:
        """Follow the pool and the windows. Afterwards, jobs can be added."""
        plan = self._plan
        plan.follow()
        while plan.is_behind:
            yield
            plan.follow()
        plan.trim_all()
        plan.set_windows(window for window in self._windows.values() if window.end > now)

    def hold(self, made: Reservation) -> None:
        """Plan a reservation of a job that is not planned yet."""
        self._plan.timeline.add(made.job.jobid, made.start, made.end, made.parts)

    def add(self, job: Waiting, begin: float) -> Generator[None, None, Optional[float]]:
        """Plan *job* as early as possible from *begin* on, beside those that were added before.

        Returns its start: NEVER if it waits for a job without a time limit, None if it cannot be
        planned.
        """
        found, _ = yield from earliest_start(self._plan.views, job, job.kind.leave, begin)
        if found is None:
            return None
        self.hold(Reservation.of(job, found))
        return found.start

    def remove(self, jobid: int) -> None:
        """Remove a job that was added, or whose reservation was held."""
        self._plan.timeline.remove(jobid)
