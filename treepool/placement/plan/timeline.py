"""The timeline: what is held on each rank, by whom, and when.

A *span* holds cores and GPUs of a rank from one time to another. Running jobs, reservations and
windows all consist of spans. A job can use what the rank has, except for what is in a span that
overlaps the time of the job.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from typing import Any, Iterable, Iterator, NamedTuple, Optional, Sequence

import attrs

from treepool.placement.jobs import held_without, ranks_in
from treepool.placement.journal import Journal
from treepool.placement.nodes.state import Held, NodeState
from treepool.placement.plan.future import PRESENT, Future, Holder, Span
from treepool.placement.plan.holding import Holding, Times
from treepool.placement.pool import Pool

#: The end of a job without a time limit, in seconds since the epoch: after every real end.
NEVER = 1e18

#: The last time before NEVER.
LAST = math.nextafter(NEVER, 0)

#: The end of a view that ignores reservations and windows: before any of them begins.
UNPLANNED = -1e300

#: Work between two yields. To move this many ranks takes about 5 ms.
_SLICE = 512

#: How many times the state of a rank is computed from its spans before its future is made.
_ASKED = 4


def end_of(start: float, duration: float) -> float:
    """The end of a job that starts at *start*: infinity if its *duration* is 0, or at NEVER."""
    return start + duration if duration > 0 and start < NEVER else math.inf


class Change(NamedTuple):
    """Something changed on ``ranks`` between ``start`` and ``end``.

    If there is more room, ``parts`` is what became free. If that is not known, it is empty.
    """

    start: float
    end: float
    ranks: tuple[int, ...]
    parts: tuple[Held, ...] = ()


def _known(holding: Holding, cores: int, gpus: int) -> int:
    """The hash of a span of *holding*.

    It is that of a text: for Python, the integers 1 << 61 and 1 have equal hashes.
    """
    return hash((holding.serial, f"{cores:x} {gpus:x}"))


class Timeline:
    """The spans on the ranks of a pool."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.holdings: dict[Holder, Holding] = {}
        self._spans: dict[int, list[Span]] = {}
        #: For each rank with spans, the sum of their hashes (64 bits). Ranks with equal sums have
        #: equal spans; to compare these took 11 ms for 1,024 ranks with 128 spans each.
        self._sums: dict[int, int] = {}
        #: A future costs as much as several answers. So only ranks that are asked for repeatedly
        #: have one; ``_asked`` counts the questions since the spans of the rank changed.
        self._futures: dict[int, Future] = {}
        self._asked: dict[int, int] = {}
        self._inventory = pool.inventory
        #: Ends of all holdings and starts of the planned ones.
        self._ending = Times()
        self._starting = Times()
        self._serial = 0
        #: All changes, those that made room and those that took it.
        self.journal: Journal[Change] = Journal()
        self._work = 0

    def spend(self, work: int) -> None:
        """Count *work* that was done where no yield is possible."""
        self._work += work

    def should_yield(self, work: int) -> bool:
        """Whether it is time to yield, after *work* more since the last question."""
        self.spend(work)
        if self._work < _SLICE:
            return False
        self._work = 0
        return True

    # -- spans

    def add(self, holder: Holder, start: float, end: float, parts: tuple[Held, ...]) -> Holding:
        """Let *holder*, which holds nothing yet, hold *parts* from *start* to *end*."""
        self._serial += 1
        ranks = ranks_in(parts)
        holding = Holding(holder, start, end, parts, self._serial, ranks)
        for those, cores, gpus in parts:
            span, known = Span(start, end, cores, gpus, holder), _known(holding, cores, gpus)
            for rank in those:
                self._spans.setdefault(rank, []).append(span)
                self._sums[rank] = self._sums.get(rank, 0) + known
            self._forget(those)
        self.holdings[holder] = holding
        self._ending.add(end, holding)
        if start > PRESENT:
            self._starting.add(start, holding)
        self.journal.note((Change(start, end, ranks),))
        return holding

    def remove(self, holder: Holder) -> Change:
        """Remove all spans of *holder*; returns where there is more room now."""
        holding = self.holdings.pop(holder)
        self._ending.remove(holding.end, holding)
        if holding.start > PRESENT:
            self._starting.remove(holding.start, holding)
        return self._drop(holding, holding.parts)

    def shrink(self, holder: Holder, parts: tuple[Held, ...]) -> Change:
        """Let *holder*, a running job, hold only *parts* of what it holds.

        Only the other ranks change. Raises PoolConflict, and changes nothing, if it does not hold
        *parts*. Returns where there is more room now.
        """
        holding = self.holdings[holder]
        freed = held_without(int(holder), holding.parts, parts)
        self.holdings[holder] = attrs.evolve(holding, parts=parts, ranks=ranks_in(parts))
        self._ending.replace(holding.end, self.holdings[holder])
        return self._drop(holding, freed)

    def _drop(self, holding: Holding, parts: tuple[Held, ...]) -> Change:
        """Drop the spans of *holding* on the ranks of *parts*; returns the change."""
        for ranks, cores, gpus in parts:
            known = _known(holding, cores, gpus)
            for rank in ranks:
                others = [span for span in self._spans[rank] if span.holder != holding.holder]
                if others:
                    self._spans[rank] = others
                    self._sums[rank] -= known
                else:
                    del self._spans[rank], self._sums[rank]
            self._forget(ranks)
        change = Change(holding.start, holding.end, ranks_in(parts), parts)
        self.journal.note((change,))
        return change

    def _forget(self, ranks: Iterable[int]) -> None:
        """Forget the futures of *ranks*, whose spans changed."""
        for rank in ranks:
            self._futures.pop(rank, None)
            self._asked.pop(rank, None)

    def spans(self, rank: int) -> list[Span]:
        """The spans on *rank*, in no order."""
        return self._spans.get(rank, [])

    def ended_by(self, time: float) -> int:
        """The number of holdings that have ended at *time*."""
        return bisect_right(self._ending.times, time)

    def planned_before(self, time: float) -> int:
        """The number of planned holdings that begin before *time*."""
        return bisect_left(self._starting.times, time)

    def next_start_from(self, time: float) -> float:
        """The first time from *time* on at which a planned holding begins; infinity if none."""
        times = self._starting.times
        i = bisect_left(times, time)
        return times[i] if i < len(times) else math.inf

    def ranks_between(
        self, ends: tuple[float, float], starts: tuple[float, float]
    ) -> tuple[set[int], set[int]]:
        """The ranks of holdings that end between two times, or are to begin between two others."""
        ended: set[int] = set()
        begun: set[int] = set()
        low, high = sorted(map(self.ended_by, ends))
        for _, those in self._ending.entries[low:high]:
            ended.update(those)
        low, high = sorted(map(self.planned_before, starts))
        for _, those in self._starting.entries[low:high]:
            begun.update(those)
        return ended, begun

    def ranks_of(self, holder: Holder) -> tuple[int, ...]:
        """The ranks that *holder* has at any time; none if it holds nothing."""
        holding = self.holdings.get(holder)
        return () if holding is None else holding.ranks

    def end_of_first(self, number: int) -> float:
        """The time at which the first *number* holdings, at least one, have ended."""
        return self._ending.times[number - 1]

    def end_between(self, low: int, number: int, high: int) -> int:
        """How many holdings have ended at the time at which the first *number* have.

        If that is *high* or more, because many end at one time, how many have ended before, but at
        least *low*.
        """
        time = self.end_of_first(number)
        ended = self.ended_by(time)
        return ended if ended < high else max(low, bisect_left(self._ending.times, time))

    def next_end(self, after: float) -> float:
        """The first time later than *after* at which a holding ends; NEVER if none."""
        times = self._ending.times
        i = bisect_right(times, after)
        return times[i] if i < len(times) else NEVER

    def clear_until(self, end: float) -> bool:
        """Whether no planned holding begins before *end*."""
        return self.next_start_from(PRESENT) >= end

    def overlapping(
        self,
        start: float,
        end: float,
        parts: Iterable[Held],
        leave: frozenset[Holder] = frozenset(),
    ) -> set[Holder]:
        """The holders, except *leave*, whose planned spans need some of *parts* in this time."""
        return {
            span.holder
            for ranks, cores, gpus in parts
            for group in self.groups(ranks)
            for span in self._spans.get(group[0], ())
            if PRESENT < span.start < end and span.end > start
            if cores & span.cores or gpus & span.gpus
            if span.holder not in leave
        }

    def groups(self, ranks: Sequence[int]) -> Iterable[Sequence[int]]:
        """*ranks* in groups with equal states at all times.

        Most ranks of a large job are in one group.
        """
        if len(ranks) == 1:
            return (ranks,)
        found: dict[tuple[object, int], list[int]] = {}
        types, sums = self.pool.inventory.types, self._sums
        for rank in ranks:
            found.setdefault((types[rank], sums.get(rank, 0)), []).append(rank)
        return found.values()

    def state(
        self, rank: int, start: float, end: float, leave: frozenset[Holder] = frozenset()
    ) -> Optional[NodeState]:
        """What is free on *rank* throughout the time from *start* to *end*; None without a node."""
        inventory = self.pool.situation.inventory
        if self._inventory is not inventory:  # nodes were added, removed or described anew
            self._inventory = inventory
            self._futures.clear()
        node_type = inventory.types[rank]
        if node_type is None:
            return None
        future = self._futures.get(rank)
        if future is None:
            asked = self._asked[rank] = self._asked.get(rank, 0) + 1
            future = self.future(rank) if asked > _ASKED else None
        if future and start < end and (not leave or leave.isdisjoint(future.planned)):
            return future.state(start, end)
        cores, gpus = node_type.root.cores, node_type.root.gpus
        for begins, ends, its_cores, its_gpus, holder in self._spans.get(rank, ()):
            if ends > start and begins < end and holder not in leave:
                cores &= ~its_cores
                gpus &= ~its_gpus
        return inventory.states.get(node_type, cores, gpus)

    def future(self, rank: int, leave: frozenset[Holder] = frozenset()) -> Optional[Future]:
        """The future of *rank* without the spans of *leave*; None if there is no such node."""
        inventory = self.pool.inventory
        future = self._futures.get(rank) if self._inventory is inventory else None
        node_type = inventory.types[rank]
        if node_type is None:
            return None
        spans = self._spans.get(rank, ())
        if future is None:
            future = self._futures[rank] = Future(node_type, spans, inventory.states)
        if leave.isdisjoint(future.planned):
            return future
        others = [span for span in spans if span.holder not in leave]
        return Future(node_type, others, inventory.states)


def finish(work: Iterator[Any]) -> None:
    """Run a generator to its end."""
    for _ in work:
        pass
