"""Forecasts: when jobs without a reservation start, because others must start before them."""

from __future__ import annotations

from typing import Generator, Iterable, Iterator, Mapping, MutableMapping, Optional

from treepool.placement.allocation import parts_of
from treepool.placement.nodes.state import Held
from treepool.placement.plan.jobs import FAR, Reservation, Waiting
from treepool.placement.plan.profile import Profile
from treepool.placement.plan.search import earliest_start
from treepool.placement.plan.views import Views
from treepool.placement.plan.windows import Window
from treepool.placement.pool import Pool


class Forecast:
    """Plans jobs in a profile of its own, so that nothing that it plans affects the queue.

    *windows* is the mapping of the queue, which changes with the windows.
    """

    def __init__(self, pool: Pool, windows: Optional[Mapping[str, Window]] = None) -> None:
        self._profile = Profile(pool)
        self._views = Views(self._profile)
        self._windows = {} if windows is None else windows
        #: Where the journal of the pool was at ``begin``.
        self._position = 0

    @property
    def stale(self) -> bool:
        """Whether the pool has changed since ``begin``."""
        return self._profile.pool.journal.end != self._position

    def begin(self, now: float, reserved: Iterable[Reservation] = ()) -> Iterator[None]:
        """Follow the pool and the windows, and keep to the *reserved* starts of waiting jobs.

        Afterwards, jobs can be added. Those that were added before are forgotten.
        """
        profile = self._profile
        for holder, holding in list(profile.holdings.items()):
            if holding.planned:
                profile.drop(holder)
                yield
        while True:
            profile.follow(now)
            profile.gains.clear()
            profile.broken.clear()
            if not profile.is_behind:
                break
            yield
        self._position = profile.pool.journal.end
        for window in self._windows.values():
            if window.end > now:
                parts = window.parts(profile.pool.inventory)
                profile.hold(window.name, window.start, window.end, parts, True)
        for made in reserved:
            self._hold(made.job, made.start, made.parts)
            yield

    def starts(
        self,
        jobs: Iterable[Waiting],
        begin: float,
        found: MutableMapping[int, Optional[float]],
        passing: bool = False,
    ) -> Generator[None, None, Optional[float]]:
        """Plan *jobs*, and add their starts to *found*, which has those of reserved jobs.

        They start one after another from *begin* on, or as early as each can if jobs may be
        *passing* others. Returns when a job behind them can start at the earliest; None if it
        cannot be told. Jobs that had started before ``begin`` ended are left out.
        """
        now = begin
        for job in jobs:
            start = found.get(job.jobid)
            if start is None:
                if job.jobid in self._profile.holdings:
                    continue
                start = yield from self.add(job, begin)
                if self.stale:
                    return None
                found[job.jobid] = start
            if not passing:
                if start is None or start > now + FAR:
                    return None
                begin = max(begin, start)
            yield
        return begin

    def add(self, job: Waiting, begin: float) -> Generator[None, None, Optional[float]]:
        """Plan *job* as early as possible from *begin* on, beside those that were added before.

        Returns its start; None if it cannot be planned.
        """
        first, _ = yield from earliest_start(self._views, job, job.job_class.leave, begin)
        if first is None:
            return None
        self._hold(job, first.time, parts_of(first.selection))
        return first.time

    def _hold(self, job: Waiting, start: float, parts: tuple[Held, ...]) -> None:
        if job.jobid not in self._profile.holdings:
            self._profile.hold(job.jobid, start, start + job.length, parts, True)

    def remove(self, jobid: int) -> None:
        """Forget a job that was added, if it was."""
        holding = self._profile.holdings.get(jobid)
        if holding is not None and holding.planned:
            self._profile.drop(jobid)
