"""The profile: who holds what on each rank and when; late jobs; how much work a step may do.

Running jobs hold until their limits, windows and reservations from their start to their end. A job
that is over its limit still runs: it counts for what is free at PRESENT, and is expected to end at
any moment. The profile is changed by one holding at a time and is true after each change.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from contextlib import suppress
from typing import Iterable, NamedTuple, Optional, Sequence

import attrs

from treepool.errors import PoolConflict
from treepool.placement.held import Journal, held_without, of_rank, ranks_in
from treepool.placement.nodes.state import Held, NodeState
from treepool.placement.plan.jobs import CENTURY, FAR, Holder
from treepool.placement.pool import Pool

#: The start of a job that would begin at once: before the end of every job that runs, late or not.
PRESENT = -1e15

#: Seconds by which an end may differ from the planned one without a change of plan.
LATE = 1.0

#: Work between two yields, in units of about 10 us.
SLICE = 512


class Span(NamedTuple):
    """Cores and GPUs (bitmasks) of a rank that ``holder`` has from ``start`` up to ``end``."""

    start: float
    end: float
    cores: int
    gpus: int
    holder: Holder


@attrs.frozen(eq=False)
class Holding:
    """All spans of a holder. ``planned`` are reservations and windows, not running jobs."""

    start: float
    end: float
    parts: tuple[Held, ...]
    planned: bool

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of all parts."""
        return ranks_in(self.parts)


class Change(NamedTuple):
    """What is free on ``ranks`` between ``start`` and ``end`` has changed."""

    start: float
    end: float
    ranks: Sequence[int]


class Times:
    """The starts or the ends of holdings, ascending."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self._holders: list[Holder] = []

    def add(self, time: float, holder: Holder) -> None:
        """Add the *time* of *holder*."""
        i = bisect_right(self.times, time)
        self.times.insert(i, time)
        self._holders.insert(i, holder)

    def remove(self, time: float, holder: Holder) -> None:
        """Remove what was added."""
        i = self._holders.index(holder, bisect_left(self.times, time))
        del self.times[i], self._holders[i]

    def by(self, time: float) -> list[Holder]:
        """Those whose time is *time* or before."""
        return self._holders[: bisect_right(self.times, time)]

    def holders(self, first: int, last: int) -> list[Holder]:
        """Those of the times from number *first* up to number *last*."""
        return self._holders[first:last]


class Meter:
    """Counts work, and says when it is time to let others work: the one place that decides so."""

    def __init__(self) -> None:
        #: All the work so far, and what it was at the last yield.
        self.total = self._yielded = 0

    def owe(self, work: int) -> None:
        """Count *work* that was done where no yield is possible."""
        self.total += work

    def spend(self, work: int) -> bool:
        """Count *work*; whether to yield now."""
        self.total += work
        if self.total - self._yielded < SLICE:
            return False
        self._yielded = self.total
        return True


class Profile:
    """The holdings on the ranks of *pool*. Call ``follow`` when the pool has changed."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.meter = Meter()
        self.holdings: dict[Holder, Holding] = {}
        #: The spans on each rank: a holder has at most one.
        self._spans: dict[int, dict[Holder, Span]] = {}
        self.ends, self.starts = Times(), Times()
        #: All changes, for views that follow them.
        self.log: Journal[Change] = Journal()
        #: Since somebody last looked: changes that made room, planned holdings that no longer hold,
        #: ranks that went up or down, and whether the pool has other nodes.
        self.gains: list[Change] = []
        self.broken: list[Holder] = []
        self.nodes_changed = self.nodes_replaced = False
        self._position = -1
        self._inventory = pool.inventory
        #: Entries of the pool's journal that are still to be followed.
        self._entries: deque[int] = deque()

    # -- holdings

    def hold(
        self, holder: Holder, start: float, end: float, parts: tuple[Held, ...], planned: bool
    ) -> None:
        """Let *holder*, which holds nothing yet, hold *parts* from *start* to *end*."""
        for ranks, cores, gpus in parts:
            span = Span(start, end, cores, gpus, holder)
            for rank in ranks:
                self._spans.setdefault(rank, {})[holder] = span
        self.holdings[holder] = holding = Holding(start, end, parts, planned)
        self.ends.add(end, holder)
        if planned:
            self.starts.add(start, holder)
        self._changed(Change(start, end, holding.ranks))

    def drop(self, holder: Holder) -> Change:
        """Remove all that *holder* holds; returns where there is more room now."""
        holding = self.holdings.pop(holder)
        self.ends.remove(holding.end, holder)
        if holding.planned:
            self.starts.remove(holding.start, holder)
        return self._freed(holder, holding, holding.ranks)

    def _freed(self, holder: Holder, holding: Holding, ranks: Sequence[int]) -> Change:
        for rank in ranks:
            spans = self._spans[rank]
            del spans[holder]
            if not spans:
                del self._spans[rank]
        change = Change(holding.start, holding.end, ranks)
        self._changed(change)
        return change

    def _changed(self, change: Change) -> None:
        self.log.note((change,))
        self.meter.owe(1 + len(change.ranks) // 8)

    # -- what is free

    def state(
        self, rank: int, start: float, end: float, leave: frozenset[Holder]
    ) -> Optional[NodeState]:
        """What is free on *rank* from *start* to *end*, if those in *leave* hold nothing.

        None where the pool has no such rank.
        """
        inventory = self.pool.situation.inventory
        node_type = inventory.types[rank]
        if node_type is None:
            return None
        cores, gpus = node_type.root.cores, node_type.root.gpus
        for begins, ends, its_cores, its_gpus, holder in self._spans.get(rank, _NONE).values():
            if ends > start and begins < end and holder not in leave:
                cores &= ~its_cores
                gpus &= ~its_gpus
        return inventory.states.get(node_type, cores, gpus)

    def spans(self, rank: int) -> Iterable[Span]:
        """The spans on *rank*."""
        return self._spans.get(rank, _NONE).values()

    def ended_by(self, time: float) -> int:
        """The number of holdings that have ended at *time*."""
        return bisect_right(self.ends.times, time)

    def planned_before(self, time: float) -> int:
        """The number of planned holdings that begin before *time*."""
        return bisect_left(self.starts.times, time)

    def next_end(self, after: float) -> Optional[float]:
        """The first time later than *after* at which something ends; None if there is none."""
        i = self.ended_by(after)
        return self.ends.times[i] if i < len(self.ends.times) else None

    def next_start(self, after: float) -> Optional[float]:
        """The first time later than *after* at which something planned begins; None if none."""
        i = bisect_right(self.starts.times, after)
        return self.starts.times[i] if i < len(self.starts.times) else None

    def ranks_between(self, ends: tuple[float, float], starts: tuple[float, float]) -> set[int]:
        """The ranks on which something ends between two times, or is planned to begin between two
        others."""
        low, high = sorted(map(self.ended_by, ends))
        first, last = sorted(map(self.planned_before, starts))
        holders = self.ends.holders(low, high) + self.starts.holders(first, last)
        return {rank for h in holders for ranks, _, _ in self.holdings[h].parts for rank in ranks}

    def in_the_way(
        self, start: float, end: float, parts: Iterable[Held], leave: frozenset[Holder]
    ) -> set[Holder]:
        """The planned holders, but those in *leave*, that need some of *parts* in this time."""
        near = (
            span
            for ranks, cores, gpus in parts
            for rank in ranks
            for span in self.spans(rank)
            if span.start < end and span.end > start and (cores & span.cores or gpus & span.gpus)
        )
        holders = {span.holder for span in near}
        return {h for h in holders if h not in leave and self.holdings[h].planned}

    # -- following the pool

    @property
    def is_behind(self) -> bool:
        """Whether the pool has changed in ways that ``follow`` has left for the next call."""
        return self._position != self.pool.journal.end or bool(self._entries)

    def follow(self, now: float) -> None:
        """Follow the changes of the pool, or some of them if there are many."""
        journal = self.pool.journal
        if self._position != journal.end:
            entries = journal.since(self._position)
            self._position = journal.end
            if entries is None:
                self._entries = self._all()
            else:
                self._entries.extend(entries)
        while self._entries:
            entry = self._entries.popleft()
            if entry >= 0:
                self._follow_job(entry, now)
            else:
                self._follow_rank(of_rank(entry), now)  # it is its own inverse
            if self.meter.spend(2):
                return

    def _all(self) -> deque[int]:
        """Entries for all jobs and ranks: any of them may have changed."""
        self.log.note(())
        self.nodes_changed = True
        if self._inventory is not self.pool.inventory:
            self._inventory, self.nodes_replaced = self.pool.inventory, True
        jobs = {jobid for jobid, _ in self.pool.job_end_times()}
        jobs.update(holder for holder in self.holdings if isinstance(holder, int))
        ranks = range(len(self.pool.situation.index.up))
        return deque([*sorted(jobs), *map(of_rank, ranks)])

    def _follow_job(self, jobid: int, now: float) -> None:
        old, job = self.holdings.get(jobid), self.pool.job(jobid)
        if old is not None and old.planned:
            if job is None:
                return
            self.gains.append(self.drop(jobid))  # another scheduler started it
            self.broken.append(jobid)
            old = None
        if job is None:
            if old is not None:
                self.gains.append(self.drop(jobid))
            return
        end = min(job.end_time or now + CENTURY, now + CENTURY)
        if old is not None:
            kept = abs(old.end - end) <= LATE or min(old.end, end) > now + FAR
            if kept and old.parts == job.parts:
                return
            if kept:
                with suppress(PoolConflict):  # if it holds something else now, it is another job
                    ranks = ranks_in(held_without(jobid, old.parts, job.parts))
                    self.holdings[jobid] = attrs.evolve(old, parts=job.parts)
                    self.gains.append(self._freed(jobid, old, ranks))
                    return
            change = self.drop(jobid)
            if end < old.end or old.parts != job.parts:
                self.gains.append(change)
        self.hold(jobid, PRESENT, end, job.parts, False)
        self.broken.extend(self.in_the_way(PRESENT, end, job.parts, frozenset()))

    def _follow_rank(self, rank: int, now: float) -> None:
        change = Change(PRESENT, now + 2 * CENTURY, (rank,))
        self._changed(change)
        self.nodes_changed = True
        if self.pool.situation.index.up[rank]:
            self.gains.append(change)
        else:
            spans = self.spans(rank)
            self.broken.extend(s.holder for s in spans if self.holdings[s.holder].planned)


_NONE: dict[Holder, Span] = {}
