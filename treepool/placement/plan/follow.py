"""Follows a pool: its running jobs become holdings of the timeline."""

from __future__ import annotations

import math
from collections import deque
from contextlib import suppress
from typing import Callable, Container, Iterable

from treepool.errors import PoolConflict
from treepool.placement.journal import of_rank
from treepool.placement.plan.future import PRESENT, Holder
from treepool.placement.plan.gains import Gains
from treepool.placement.plan.timeline import NEVER, Change, Timeline

#: Work for an entry of the pool's journal, see Timeline.should_yield.
_ENTRY = 2


class Follower:
    """Keeps the running jobs of *timeline* equal to those of its pool, and adds to *gains*.

    It calls *void* with each of the *reserved* jobs whose reservation no longer holds. It calls
    *nodes_changed* with False when nodes went up or down, with True when the pool has other nodes.
    If there is much to do, a call of ``follow`` does only a part of it.
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
        #: The limits and the planned ends of jobs that started a little late.
        self.late: dict[int, tuple[float, float]] = {}
        #: Entries of the pool's journal that are still to be followed, in order.
        self._entries: deque[int] = deque()
        #: Jobs whose reservations no longer hold, if they still have one.
        self._invalid: deque[int] = deque()

    @property
    def is_behind(self) -> bool:
        """Whether there are changes of the pool that the timeline does not have yet."""
        is_read = self._position == self._timeline.pool.journal.end
        return not is_read or bool(self._entries or self._invalid)

    def follow(self) -> None:
        """Follow the changes of the pool, or some of them if there are many."""
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
        while self._entries:
            entry = self._entries.popleft()
            if entry >= 0:
                self._follow_job(entry)
            else:
                ranks[of_rank(entry)] = None  # it is its own inverse
            if timeline.should_yield(_ENTRY):
                break
        if ranks:
            self._follow_ranks(list(ranks))
        while self._invalid:
            jobid = self._invalid.popleft()
            if jobid in self._reserved:
                self._void(jobid)
            if timeline.should_yield(1):
                break

    def invalidate(self, holders: Iterable[Holder]) -> None:
        """Let ``follow`` give up the reservations of *holders*, as far as these are such jobs."""
        self._invalid.extend(int(holder) for holder in holders if holder in self._reserved)

    def _follow_job(self, jobid: int) -> None:
        timeline = self._timeline
        if jobid in self._reserved:  # the job was started
            self._void(jobid)
        old, job = timeline.holdings.get(jobid), timeline.pool.job(jobid)
        # A limit may be later than any time that is planned: then the job has none.
        end = NEVER if job is None else min(job.end_time or NEVER, NEVER)
        if jobid in self.late:
            limit, planned = self.late[jobid]
            end = planned if end == limit else end
            if job is None:
                del self.late[jobid]
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
            self.invalidate(timeline.overlapping(PRESENT, end, job.parts))

    def _follow_ranks(self, ranks: list[int]) -> None:
        timeline, up = self._timeline, self._timeline.pool.situation.index.up
        timeline.journal.note((Change(PRESENT, math.inf, tuple(ranks)),))
        self._nodes_changed(False)
        now_up = tuple(rank for rank in ranks if up[rank])
        if now_up:
            self._gains.add(Change(PRESENT, math.inf, now_up))
        down = (rank for rank in ranks if not up[rank])
        self.invalidate({span.holder: 1 for rank in down for span in timeline.spans(rank)})
