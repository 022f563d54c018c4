"""The timeline: what is held on each rank, by whom, and when.

A *span* holds cores and GPUs of a rank from one time to another. Running jobs, reservations and
windows all consist of spans. A job can use what the rank has, except for what is in a span that
overlaps the time of the job. What changes spans and what reads them must agree: both are in this
file.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from itertools import chain
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

import attrs

from treepool.placement.effort import Portion
from treepool.placement.jobs import held_without, ranks_in
from treepool.placement.journal import Journal
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.state import Held, NodeState
from treepool.placement.plan.future import PRESENT, Future, Futures, Holder, Span
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

#: After so many attempts, the portion of work for a choice is doubled.
_ATTEMPTS = 64

#: A future of so many spans takes the time of one unit of work.
_SPANS = 8

#: So many ranks get or lose a span in the time of one unit of work.
_RANKS = 8


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


class Timeline:
    """The spans on the ranks of a pool."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.holdings: dict[Holder, Holding] = {}
        #: The spans on each rank that has some, by holder: one has one span on a rank at most.
        self._spans: dict[int, dict[Holder, Span]] = {}
        #: For each rank with spans, the sum of their hashes (64 bits). Ranks with equal sums have
        #: equal spans; to compare these took 11 ms for 1,024 ranks with 128 spans each.
        self._sums: dict[int, int] = {}
        self._inventory = pool.inventory
        self._futures = Futures(len(pool.inventory.types))
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

    def portion(self, attempt: int) -> Portion:
        """The work for *attempt* (from 0) at a choice, before a yield and another attempt.

        Late attempts may do more, so that there is an end whatever happens between them.
        """
        return Portion(max(_SLICE - self._work, _SLICE // 2, 1) << attempt // _ATTEMPTS)

    # -- spans

    def add(self, holder: Holder, start: float, end: float, parts: tuple[Held, ...]) -> Holding:
        """Let *holder*, which holds nothing yet, hold *parts* from *start* to *end*."""
        self._serial += 1
        ranks = ranks_in(parts)
        holding = Holding(holder, start, end, parts, self._serial, ranks)
        for those, cores, gpus in parts:
            span = holding.span(cores, gpus)
            for rank in those:
                self._spans.setdefault(rank, {})[holder] = span
                self._sums[rank] = self._sums.get(rank, 0) + span.hash
        self.spend(len(ranks) // _RANKS)
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
        for rank in (ranks := ranks_in(parts)):
            spans = self._spans[rank]
            span = spans.pop(holding.holder)
            if spans:
                self._sums[rank] -= span.hash
            else:
                del self._spans[rank], self._sums[rank]
        self.spend(len(ranks) // _RANKS)
        change = Change(holding.start, holding.end, ranks, parts)
        self.journal.note((change,))
        return change

    def spans(self, rank: int) -> list[Span]:
        """The spans on *rank*, in no order."""
        return list(self._spans.get(rank, {}).values())

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
        low, high = sorted(map(self.ended_by, ends))
        ended = chain.from_iterable(those for _, those in self._ending.entries[low:high])
        low, high = sorted(map(self.planned_before, starts))
        begun = chain.from_iterable(those for _, those in self._starting.entries[low:high])
        return set(ended), set(begun)

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
            for span in self.spans(group[0])
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
        if self._inventory is not inventory:
            self._renew(inventory)
        node_type = inventory.types[rank]
        if node_type is None:
            return None
        cores, gpus = node_type.root.cores, node_type.root.gpus
        spans = self._spans.get(rank)
        if spans is None:
            return inventory.states.get(node_type, cores, gpus)
        if start < end:
            known = self._sums[rank]
            contents = node_type, _without(known, spans, leave) if leave else known
            future = self._futures.made.get(contents)
            if future is None and self._futures.should_make(contents):
                future = self.future(rank, leave)
            if future is not None:
                return future.state(start, end)
        for begins, ends, its_cores, its_gpus, holder, _ in spans.values():
            if ends > start and begins < end and holder not in leave:
                cores &= ~its_cores
                gpus &= ~its_gpus
        return inventory.states.get(node_type, cores, gpus)

    def future(self, rank: int, leave: frozenset[Holder] = frozenset()) -> Optional[Future]:
        """The future of *rank* without the spans of *leave*; None if there is no such node."""
        inventory = self.pool.situation.inventory
        if self._inventory is not inventory:
            self._renew(inventory)
        node_type = inventory.types[rank]
        if node_type is None:
            return None
        spans = self._spans.get(rank, {})
        contents = node_type, _without(self._sums.get(rank, 0), spans, leave)
        future = self._futures.made.get(contents)
        if future is None:
            self.spend(len(spans) // _SPANS)
            others = [span for span in spans.values() if span.holder not in leave]
            future = Future(node_type, others, inventory.states)
            self._futures.keep(contents, future)
        return future

    def _renew(self, inventory: Inventory) -> None:
        """Forget all futures, as nodes were added, removed or described anew."""
        self._inventory = inventory
        self._futures = Futures(len(inventory.types))


def _without(known: int, spans: Mapping[Holder, Span], leave: frozenset[Holder]) -> int:
    """The sum of the hashes of *spans*, which is *known*, without those of *leave*."""
    for holder in leave:
        span = spans.get(holder)
        if span is not None:
            known -= span.hash
    return known


def finish(work: Iterator[Any]) -> None:
    """Run a generator to its end."""
    for _ in work:
        pass
