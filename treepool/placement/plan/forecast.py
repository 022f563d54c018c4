"""Estimates of when jobs start that have no reservation, because others must start before them."""

from __future__ import annotations

import math
from typing import Iterable, Iterator, Mapping, Optional

from treepool.placement.allocation import parts_of
from treepool.placement.plan.earliest import Units, earliest, end_of
from treepool.placement.plan.jobs import Waiting
from treepool.placement.plan.plan import Plan
from treepool.placement.plan.timeline import NEVER
from treepool.placement.plan.window import Window
from treepool.placement.pool import Pool


class Forecast:
    """Looks ahead on a timeline of its own, so that nothing it tries affects the queue.

    *windows* are those of the queue, as they are at any time.
    """

    def __init__(self, pool: Pool, windows: Optional[Mapping[str, Window]] = None) -> None:
        self._plan = Plan(pool)
        self._windows = {} if windows is None else windows

    def starts(
        self, jobs: Iterable[Waiting], now: float, found: dict[int, float]
    ) -> Iterator[None]:
        """Add to *found* the starts of *jobs* (by job id) if they start one after another.

        Ends early when the pool changes, and at the first job that cannot be planned.
        """
        plan = self._plan
        plan.follow()
        while plan.is_behind:
            yield
            plan.follow()
        plan.trim_all()
        plan.set_windows(window for window in self._windows.values() if window.end > now)
        journal, timeline, start = plan.pool.journal, plan.timeline, now
        position, added = journal.end, []
        try:
            for job in jobs:
                request, units = job.request, Units(job.request, plan.pool.inventory)
                leave = job.kind.leave
                place = yield from earliest(plan.views, request, leave, start, math.inf, units)
                if place is None or place.start >= NEVER or journal.end != position:
                    return
                start = found[job.jobid] = place.start
                end = min(end_of(start, job.request.duration), NEVER)
                timeline.add(job.jobid, start, end, parts_of(place.selection))
                added.append(job.jobid)
                yield
        finally:
            for jobid in added:
                timeline.remove(jobid)
