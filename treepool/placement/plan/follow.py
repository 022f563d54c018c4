"""Following a pool: its running jobs become spans of the timeline."""

from __future__ import annotations

import math
from collections import deque
from contextlib import suppress
from typing import Callable, Container

from treepool.errors import PoolConflict
from treepool.placement.journal import of_rank
from treepool.placement.plan.future import PRESENT
from treepool.placement.plan.gains import Gains
from treepool.placement.plan.timeline import NEVER, Change, Timeline

#: Entries of the pool's journal that are followed at a time: some 5 ms.
_MAX_ENTRIES = 256


class Follower:
    """Keeps the running jobs of *timeline* like those of its pool, and notes *gains*.

    *void* is called with each of the *reserved* jobs whose reservation no longer holds. *renewed*
    is called when nodes went up or down, or with True when they may be other nodes.
    """

    def __init__(
        self,
        timeline: Timeline,
        gains: Gains,
        reserved: Container[object],
        void: Callable[[int], None],
        renewed: Callable[[bool], None],
    ) -> None:
        self._timeline = timeline
        self._gains = gains
        self._reserved = reserved
        self._void = void
        self._renewed = renewed
        self._position = -1
        self._inventory = timeline.pool.inventory
        #: Entries of the pool's journal that are to be followed, in order.
        self._entries: deque[int] = deque()

    @property
    def is_behind(self) -> bool:
        """Whether some changes of the pool are not known yet."""
        return bool(self._entries) or self._position != self._timeline.pool.journal.end

    def follow(self) -> None:
        """Take note of what changed in the pool, or of a part of it if that is much."""
        journal, timeline = self._timeline.pool.journal, self._timeline
        if self._position != journal.end:
            entries = journal.since(self._position)
            self._position = journal.end
            if entries is None:  # any job and any node may have changed
                timeline.journal.note(())
                if self._inventory is not timeline.pool.inventory:
                    self._inventory = timeline.pool.inventory
                    self._renewed(True)
                jobs = {jobid for jobid, _ in timeline.pool.job_end_times()}
                jobs.update(holder for holder in timeline.holdings if isinstance(holder, int))
                self._entries.clear()
                self._entries.extend(sorted(jobs))
                self._entries.extend(map(of_rank, range(len(timeline.pool.situation.index.up))))
            else:
                self._entries.extend(entries)
        ranks: dict[int, None] = {}
        for _ in range(min(len(self._entries), _MAX_ENTRIES)):
            entry = self._entries.popleft()
            if entry >= 0:
                self._follow_job(entry)
            else:
                ranks[-1 - entry] = None
        if ranks:
            self._follow_ranks(list(ranks))

    def _follow_job(self, jobid: int) -> None:
        timeline = self._timeline
        if jobid in self._reserved:  # it was started
            self._void(jobid)
        old, job = timeline.holdings.get(jobid), timeline.pool.job(jobid)
        end = NEVER if job is None else (job.end_time or NEVER)
        if old is not None:
            if job is not None and old.end == end:
                if old.parts == job.parts:
                    return
                with suppress(PoolConflict):  # if it holds something else now, it is another job
                    self._gains.add(timeline.shrink(jobid, job.parts))
                    return
            change = timeline.remove(jobid)
            if job is None or job.parts != old.parts:
                self._gains.add(change)
            elif end < old.end:
                self._gains.add(Change(end, old.end, old.ranks, old.parts))
        if job is not None:
            timeline.add(jobid, PRESENT, end, job.parts)
            for holder in timeline.overlapping(PRESENT, end, job.parts):
                if holder in self._reserved:
                    self._void(int(holder))

    def _follow_ranks(self, ranks: list[int]) -> None:
        timeline, up = self._timeline, self._timeline.pool.situation.index.up
        timeline.journal.note((Change(PRESENT, math.inf, tuple(ranks)),))
        self._renewed(False)
        came = tuple(rank for rank in ranks if up[rank])
        if came:
            self._gains.add(Change(PRESENT, math.inf, came))
        for rank in ranks:
            for span in () if up[rank] else timeline.spans(rank):
                if span.holder in self._reserved:
                    self._void(int(span.holder))
