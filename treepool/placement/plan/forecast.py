"""Forecasts: when jobs without a reservation start, because others must start before them."""

from __future__ import annotations

import math
from typing import Container, Generator, Iterable, Iterator, Mapping, MutableMapping, Optional

from treepool.placement.allocation import parts_of
from treepool.placement.nodes.state import Held
from treepool.placement.plan.jobs import FAR, Reservation, Waiting
from treepool.placement.plan.profile import Profile
from treepool.placement.plan.search import earliest_start
from treepool.placement.plan.views import Views
from treepool.placement.plan.windows import Window
from treepool.placement.pool import Pool


class Forecast:
    """Plans jobs on *pool*, a copy that does not change, so that nothing here affects the queue."""

    def __init__(
        self, pool: Pool, terms: Optional[Mapping[int, tuple[float, float]]] = None
    ) -> None:
        self._profile = Profile(pool)
        self._profile.terms.update(terms or {})
        self._views = Views(self._profile)

    def begin(
        self, now: float, reserved: Iterable[Reservation] = (), windows: Iterable[Window] = ()
    ) -> Iterator[None]:
        """Follow the pool and the *windows*, and keep to the *reserved* starts of waiting jobs.

        Afterwards, jobs can be added.
        """
        profile = self._profile
        profile.follow(now)
        while profile.is_behind:
            yield
            profile.follow(now)
        for window in windows:
            if window.end > now:
                parts = window.parts(profile.pool.inventory)
                profile.hold(window.name, window.start, window.end, parts, True)
                yield
        for made in reserved:
            self._hold(made.job, made.start, made.parts)
            yield

    def starts(
        self,
        jobs: Iterable[Waiting],
        begin: float,
        found: MutableMapping[int, Optional[float]],
        passing: Container[str] = (),
    ) -> Generator[None, None, dict[str, float]]:
        """Plan *jobs*, and add their starts to *found*, which has those of reserved jobs.

        The jobs of a Flux queue start one after another from *begin* on; in queues whose jobs may
        be *passing* others, as early as each can. Returns for each queue when a job behind them can
        start at the earliest: infinity if it cannot be told because of one that cannot be told.
        Jobs behind that one are not planned.
        """
        begins: dict[str, float] = {}
        for job in jobs:
            earliest = begins.setdefault(job.queue, begin)
            if job.jobid not in found:
                if earliest == math.inf:
                    continue
                found[job.jobid] = yield from self.add(job, earliest)
            if job.queue not in passing:
                start = found[job.jobid]
                told = start is not None and start <= begin + FAR
                begins[job.queue] = max(earliest, start) if start and told else math.inf
            yield
        return begins

    def add(self, job: Waiting, begin: float) -> Generator[None, None, Optional[float]]:
        """Plan *job* as early as possible from *begin* on, beside those that were added before.

        Returns its start; None if it cannot be planned.
        """
        first = yield from earliest_start(self._views, job, job.sight, begin)
        if first is None:
            return None
        self._hold(job, first.time, parts_of(first.selection))
        return first.time

    def _hold(self, job: Waiting, start: float, parts: tuple[Held, ...]) -> None:
        self._profile.hold(job.jobid, start, job.end(start), parts, True, job.job_class.terms)

    def remove(self, jobid: int) -> tuple[Held, ...]:
        """Forget a job that was added; returns what it would have had."""
        parts = self._profile.holdings[jobid].parts
        self._profile.drop(jobid)
        return parts
