"""Follows a pool: its running jobs become holdings of the timeline."""

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

#: Most entries of the pool's journal that one call follows. They take about 5 ms.
_MAX_ENTRIES = 256


class Follower:
    """Keeps the running jobs of *timeline* equal to those of its pool, and adds to *gains*.

    It calls *void* with each of the *reserved* jobs whose reservation no longer holds. It calls
    *nodes_changed* with False when nodes went up or down, with True when the pool has other nodes.
    """

    def __init__(
        self,
        timeline: Timeline,
        gains: Gains,
        reserved: Container[object],
        void: Callable[[int], None],
        nodes_changed: Callable[[bool], None],
    ) -> None:
        self._timeline = timeline
        self._gains = gains
        self._reserved = reserved
        self._void = void
        self._nodes_changed = nodes_changed
        self._position = -1
        self._inventory = timeline.pool.inventory
        #: Entries of the pool's journal that are still to be followed, in order.
        self._entries: deque[int] = deque()

    @property
    def is_behind(self) -> bool:
        """Whether there are changes of the pool that the timeline does not have yet."""
        return bool(self._entries) or self._position != self._timeline.pool.journal.end

    def follow(self) -> None:
        """Follow the changes of the pool; if there are many, only some of them."""
        journal, timeline = self._timeline.pool.journal, self._timeline
        if self._position != journal.end:
            entries = journal.since(self._position)
            self._position = journal.end
            if entries is None:  # any job and any node may have changed
                timeline.journal.note(())
                if self._inventory is not timeline.pool.inventory:
                    self._inventory = timeline.pool.inventory
                    self._nodes_changed(True)
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
                ranks[of_rank(entry)] = None  # it is its own inverse
        if ranks:
            self._follow_ranks(list(ranks))

    def _follow_job(self, jobid: int) -> None:
        timeline = self._timeline
        if jobid in self._reserved:  # the job was started
            self._void(jobid)
        old, job = timeline.holdings.get(jobid), timeline.pool.job(jobid)
        # A limit may be later than any time that is planned: then the job has none.
        end = NEVER if job is None else min(job.end_time or NEVER, NEVER)
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
        self._nodes_changed(False)
        now_up = tuple(rank for rank in ranks if up[rank])
        if now_up:
            self._gains.add(Change(PRESENT, math.inf, now_up))
        for rank in ranks:
            for span in () if up[rank] else timeline.spans(rank):
                if span.holder in self._reserved:
                    self._void(int(span.holder))
