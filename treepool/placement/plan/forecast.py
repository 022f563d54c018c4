"""Forecasts: when jobs without a reservation start, because others must start before them."""

from __future__ import annotations

from typing import Generator, Iterable, Iterator, Mapping, MutableMapping, Optional

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
        #: The jobs that are planned here, and where the journal of the pool was before.
        self._planned: set[int] = set()
        self._position = 0

    @property
    def stale(self) -> bool:
        """Whether the pool has changed since ``begin``."""
        return self._plan.pool.journal.end != self._position

    def begin(self, now: float, reserved: Iterable[Reservation] = ()) -> Iterator[None]:
        """Follow the pool and the windows, and keep to the *reserved* starts of waiting jobs.

        Afterwards, jobs can be added. Those that were added before are forgotten.
        """
        plan = self._plan
        for jobid in list(self._planned):
            self.remove(jobid)
        plan.follow()
        while plan.is_behind:
            yield
            plan.follow()
        self._position = plan.pool.journal.end
        plan.trim_all()
        plan.set_windows(window for window in self._windows.values() if window.end > now)
        for made in reserved:
            if not self._has_started(made.job):
                self._hold(made)
            yield

    def starts(
        self,
        jobs: Iterable[Waiting],
        begin: float,
        found: MutableMapping[int, Optional[float]],
        passing: bool = False,
    ) -> Generator[None, None, float]:
        """Plan *jobs*, and add their starts to *found*, which has those of reserved jobs.

        They start one after another from *begin* on, or as early as each can if jobs may be
        *passing* others. Returns when a job behind them can start at the earliest: NEVER if it
        cannot be told, because one of them waits for one without a time limit or cannot be planned,
        or because the forecast is stale. Jobs that had started before ``begin`` ended are left out.
        """
        for job in jobs:
            if self._has_started(job):
                continue
            start = found.get(job.jobid)
            if start is None:
                start = yield from self.add(job, begin)
                if self.stale:
                    return NEVER
                found[job.jobid] = start
            if not passing:
                if start is None or start >= NEVER:
                    return NEVER
                begin = max(begin, start)
            yield
        return begin

    def add(self, job: Waiting, begin: float) -> Generator[None, None, Optional[float]]:
        """Plan *job* as early as possible from *begin* on, beside those that were added before.

        Returns its start: NEVER if it waits for a job without a time limit, None if it cannot be
        planned.
        """
        found, _ = yield from earliest_start(self._plan.views, job, job.kind.leave, begin)
        if found is None:
            return None
        self._hold(Reservation.of(job, found))
        return found.start

    def _has_started(self, job: Waiting) -> bool:
        """Whether *job* runs, as far as the timeline has followed the pool."""
        return job.jobid in self._plan.timeline.holdings and job.jobid not in self._planned

    def _hold(self, made: Reservation) -> None:
        self._plan.timeline.add(made.job.jobid, made.start, made.end, made.parts)
        self._planned.add(made.job.jobid)

    def remove(self, jobid: int) -> None:
        """Forget a job that was added, if it was."""
        if jobid in self._planned:
            self._planned.remove(jobid)
            self._plan.timeline.remove(jobid)
