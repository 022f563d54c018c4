"""The timeline: what is free on each rank at any time from now on.

A *span* holds cores and GPUs of a rank from one time to another. Running jobs, reservations and
windows are all made of spans. What a job could use on a rank from *start* to *end* is what the rank
has, without every span that overlaps this time.

A *view* is an index of the nodes for one such time. It is what the choice of nodes works on, so the
future is searched like the present. A view is made from the view that differs least from it, and it
follows later changes by a log. Its cost therefore follows what changes, not the number of nodes or
of jobs. All methods that may take long are generators: they yield after a few milliseconds of work,
and may be resumed after the timeline has changed.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from typing import Any, Callable, Generator, Iterable, Iterator, NamedTuple, Optional, Union

import attrs

from treepool.placement.choose.choice import Choice, Situation
from treepool.placement.nodes.index import NodeIndex
from treepool.placement.nodes.state import Held, NodeState
from treepool.placement.pool import Pool
from treepool.placement.request.vertices import Request
from treepool.rfc import idset

#: When a job without a time limit ends, in seconds since the epoch: after all that have one.
NEVER = 1e18

#: The start of a view in the present: what running jobs hold counts, however late they are.
PRESENT = -math.inf

#: The end of a view that ignores reservations and windows: before all of these begin.
UNPLANNED = -1e300

#: Who holds a span: a job, or a window by its name.
Holder = Union[int, str]

#: Most views that are kept (some 0.3 MB each at 11,136 nodes).
MAX_VIEWS = 64

#: Most requests whose order of candidates a view keeps.
_MAX_CANDIDATES = 4

#: Entries of the log that are kept for views to catch up with.
_MAX_LOG = 4096

#: Work between two yields: so many ranks are moved in some 5 ms.
_SLICE = 512

#: Ends of spans in a cell.
STRIDE = 256


class Span(NamedTuple):
    """Cores and GPUs (bitmasks) of a rank that *holder* has from ``start`` up to ``end``."""

    start: float
    end: float
    cores: int
    gpus: int
    holder: Holder


class Change(NamedTuple):
    """Something changed on ``ranks`` between ``start`` and ``end``."""

    start: float
    end: float
    ranks: tuple[int, ...]


@attrs.frozen(eq=False)
class Holding:
    """All spans of one holder; ``serial`` is unique. A running job's ``start`` is PRESENT."""

    holder: Holder
    start: float
    end: float
    parts: tuple[Held, ...]
    serial: int
    #: The ranks of all parts.
    ranks: tuple[int, ...]


#: Called with a rank, and its state before and after; None while it is down.
Watcher = Callable[[int, Optional[NodeState], Optional[NodeState]], None]


class View:
    """What is free throughout the time from ``start`` to ``end``, by node state.

    The spans of the holders in ``leave`` do not count.
    """

    __slots__ = ("start", "end", "leave", "situation", "position")

    def __init__(
        self,
        start: float,
        end: float,
        leave: frozenset[Holder],
        situation: Situation,
        position: int,
    ) -> None:
        self.start = start
        self.end = end
        self.leave = leave
        self.situation = situation
        #: Up to where the view has followed the timeline's log.
        self.position = position

    @property
    def index(self) -> NodeIndex:
        """The nodes by their states."""
        return self.situation.index


class Timeline:
    """The spans on the ranks of a pool, and views of them."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.holdings: dict[Holder, Holding] = {}
        self._spans: dict[int, list[Span]] = {}
        #: Ends of all holdings and starts of the planned ones, ascending: (time, serial, ranks).
        self._ending: list[tuple[float, int, tuple[int, ...]]] = []
        self._starting: list[tuple[float, int, tuple[int, ...]]] = []
        self._serial = 0
        self._log: list[Change] = []
        self._log_start = 0
        self._views: list[View] = []
        #: The answer of ``groups``, for the same change of a timeline with as many changes.
        self._grouped: Optional[tuple[Change, int, list[list[int]]]] = None
        #: The times that divide the timeline into cells, ascending.
        self._bounds: list[float] = []
        #: Ranks moved and selections tried so far, for tests that count work instead of time.
        self.moved = self.tried = 0
        self._work = 0

    def tired(self, work: int) -> bool:
        """Whether it is time to yield, after so much more *work*."""
        self._work += work
        if self._work < _SLICE:
            return False
        self._work = 0
        return True

    # -- spans

    def add(self, holder: Holder, start: float, end: float, parts: tuple[Held, ...]) -> Holding:
        """Hold *parts* for *holder*, who holds nothing yet, from *start* to *end*."""
        self._serial += 1
        ranks = tuple(rank for those, _, _ in parts for rank in those)
        holding = Holding(holder, start, end, parts, self._serial, ranks)
        for those, cores, gpus in parts:
            span = Span(start, end, cores, gpus, holder)
            for rank in those:
                self._spans.setdefault(rank, []).append(span)
        self.holdings[holder] = holding
        insort(self._ending, (end, holding.serial, ranks))
        if start > PRESENT:
            insort(self._starting, (start, holding.serial, ranks))
        self._note(Change(start, end, ranks))
        return holding

    def remove(self, holder: Holder) -> Change:
        """Drop all spans of *holder*; returns where there is more room now."""
        holding = self.holdings.pop(holder)
        for ranks, _, _ in holding.parts:
            for rank in ranks:
                left = [span for span in self._spans[rank] if span.holder != holder]
                if left:
                    self._spans[rank] = left
                else:
                    del self._spans[rank]
        del self._ending[bisect_left(self._ending, (holding.end, holding.serial))]
        if holding.start > PRESENT:
            del self._starting[bisect_left(self._starting, (holding.start, holding.serial))]
        change = Change(holding.start, holding.end, holding.ranks)
        self._note(change)
        return change

    def touch(self, ranks: tuple[int, ...]) -> Change:
        """Take note that *ranks* went up or down."""
        change = Change(PRESENT, math.inf, ranks)
        self._note(change)
        return change

    def forget(self) -> None:
        """Drop all views, because the nodes themselves changed."""
        self._views.clear()
        self._log_start += len(self._log)
        self._log.clear()

    @property
    def changes(self) -> int:
        """The number of changes so far."""
        return self._log_start + len(self._log)

    def spans(self, rank: int) -> list[Span]:
        """The spans on *rank*, in no order."""
        return self._spans.get(rank, [])

    def place(self, time: float) -> int:
        """How many holders' times have ended at *time*."""
        return bisect_right(self._ending, (time, math.inf))

    def time_at(self, place: int) -> float:
        """The time at which the first *place* holders' times, at least one, have ended."""
        return self._ending[place - 1][0]

    def next_end(self, after: float) -> Optional[float]:
        """The first time later than *after* at which some holder's time ends."""
        place = self.place(after)
        return self._ending[place][0] if place < len(self._ending) else None

    def next_start(self, after: float) -> Optional[float]:
        """The first time later than *after* at which something that is planned begins."""
        place = bisect_right(self._starting, (after, math.inf))
        return self._starting[place][0] if place < len(self._starting) else None

    def clear_until(self, end: float) -> bool:
        """Whether nothing is planned that begins before *end*."""
        return not self._starting or self._starting[0][0] >= end

    def overlapping(
        self,
        start: float,
        end: float,
        parts: Iterable[Held],
        leave: frozenset[Holder] = frozenset(),
    ) -> set[Holder]:
        """Who has planned to use some of *parts* between *start* and *end*, except for *leave*."""
        return {
            span.holder
            for ranks, cores, gpus in parts
            for rank in ranks
            for span in self._spans.get(rank, ())
            if PRESENT < span.start < end and span.end > start
            if cores & span.cores or gpus & span.gpus
            if span.holder not in leave
        }

    def groups(self, change: Change) -> list[list[int]]:
        """The ranks of *change*, those together that are the same at any time.

        The ranks of a large job mostly are.
        """
        known = self._grouped
        if known is None or known[0] is not change or known[1] != self.changes:
            found: dict[tuple[object, ...], list[int]] = {}
            types = self.pool.inventory.types
            for rank in change.ranks:
                found.setdefault((types[rank], *map(id, self.spans(rank))), []).append(rank)
            known = self._grouped = change, self.changes, list(found.values())
        return known[2]

    def state(
        self, rank: int, start: float, end: float, leave: frozenset[Holder] = frozenset()
    ) -> Optional[NodeState]:
        """What *rank* could give throughout the time from *start* to *end*."""
        node_type = self.pool.inventory.types[rank]
        if node_type is None:
            return None
        cores, gpus = node_type.root.cores, node_type.root.gpus
        for begins, ends, its_cores, its_gpus, holder in self._spans.get(rank, ()):
            if ends > start and begins < end and holder not in leave:
                cores &= ~its_cores
                gpus &= ~its_gpus
        return self.pool.inventory.states.get(node_type, cores, gpus)

    def _note(self, change: Change) -> None:
        self._log.append(change)
        if len(self._log) > _MAX_LOG:
            half = len(self._log) // 2
            del self._log[:half]
            self._log_start += half
            self._views = [v for v in self._views if v.position >= self._log_start]

    # -- views

    def view(
        self, start: float, end: float, leave: frozenset[Holder] = frozenset()
    ) -> Generator[None, None, View]:
        """The view of the time from *start* to *end*."""
        end = self._same_start(end)
        base = self._nearest(start, end, leave)
        if base is not None:
            self.take(base)
            yield from self.refresh(base)
            self.keep(base)
            if (base.start, base.end, base.leave) == (start, end, leave):
                return base
        situation = self.pool.situation if base is None else base.situation
        position = self.changes if base is None else base.position
        copy = Situation(situation.inventory, situation.index.copy(), situation.policy)
        view = View(start, end, leave, copy, position)
        ranks = self._between(base, view)
        yield from self._move(view, ranks)
        yield from self.refresh(view)
        self.keep(view)
        return view

    def take(self, view: View) -> None:
        """Take *view* away from all others, in order to advance it."""
        self._views.remove(view)

    def keep(self, view: View) -> None:
        """Keep *view*, which was taken, for others to begin from."""
        if len(self._views) >= MAX_VIEWS:
            del self._views[0]
        self._views.append(view)

    def advance(
        self, view: View, start: float, end: float, watch: Watcher
    ) -> Generator[None, None, None]:
        """Turn *view* into the one of another time, and tell *watch* which nodes change."""
        before = View(view.start, view.end, view.leave, view.situation, view.position)
        view.start, view.end = start, self._same_start(end)
        yield from self._move(view, self._between(before, view), watch)
        yield from self.refresh(view, watch)

    def mark(
        self, low: int, middle: int, high: int, leave: frozenset[Holder]
    ) -> Generator[None, None, tuple[int, View]]:
        """A view without what is planned, and its place (see ``place``) between *low* and *high*.

        It is one that exists near *middle*, or else a new one.
        """
        best: Optional[tuple[int, int, View]] = None
        for view in self._views:
            if view.end == UNPLANNED and view.leave == leave and PRESENT < view.start < NEVER:
                place = self.place(view.start)
                if low < place < high and (best is None or abs(place - middle) < best[0]):
                    best = abs(place - middle), place, view
        if best is not None and best[0] <= (high - low) // 4:
            yield from self.refresh(best[2])
            return best[1:]
        time = self.time_at(middle)
        view = yield from self.view(time, UNPLANNED, leave)
        return self.place(time), view

    def cell(self, time: float, leave: frozenset[Holder]) -> Generator[None, None, View]:
        """What is free at most at any time in the cell around *time*; its ``start`` is its end.

        Only what is planned for the whole cell counts. Cells begin and end at the same times for
        all who ask, so that they share the views.
        """
        bounds = self._bounds
        place = bisect_right(bounds, time)
        high = bounds[place] if place < len(bounds) else math.inf
        most = self.place(time) + STRIDE
        if self.place(min(high, math.nextafter(NEVER, 0))) > 2 * STRIDE + most:
            high = math.inf
        if high == math.inf:
            high = self.time_at(min(most, self.place(math.nextafter(NEVER, 0))))
            if high > time:
                bounds.insert(place, high)
        low = bounds[place - 1] if place else UNPLANNED
        return (yield from self.view(max(high, time), low, leave))

    def refresh(self, view: View, watch: Optional[Watcher] = None) -> Generator[None, None, None]:
        """Let *view* follow what has changed since it was used last."""
        while view.position < self.changes:
            if view.position < self._log_start:  # while this generator was waiting
                dirty = set(idset.iterate(self.pool.ranks))
            else:
                dirty = set()
                for change in self._log[view.position - self._log_start :]:
                    if change.start < view.end and change.end > view.start:
                        dirty.update(change.ranks)
            view.position = self.changes
            yield from self._move(view, dirty, watch)

    def _same_start(self, end: float) -> float:
        """The latest end with which a view is the same as with *end*."""
        if end == UNPLANNED:
            return end
        place = bisect_left(self._starting, (end,))
        return self._starting[place][0] if place < len(self._starting) else math.inf

    def _nearest(self, start: float, end: float, leave: frozenset[Holder]) -> Optional[View]:
        """The view that differs least from the one wanted; None stands for the pool's own index.

        The pool's own index is the view of the present without what is planned.
        """
        ending, starting = self._ending, self._starting
        place, planned = bisect_right(ending, (start, math.inf)), bisect_left(starting, (end,))
        best, least = None, place + planned
        for view in self._views:
            differ = sum(
                len(self.holdings[h].ranks) for h in leave ^ view.leave if h in self.holdings
            )
            differ += abs(bisect_right(ending, (view.start, math.inf)) - place)
            differ += abs(bisect_left(starting, (view.end,)) - planned)
            differ += self.changes - view.position
            if differ <= least:
                best, least = view, differ
        return best

    def _between(self, one: Optional[View], other: View) -> set[int]:
        """The ranks on which the two views may differ; None stands for the pool's own index."""
        start, end = (PRESENT, UNPLANNED) if one is None else (one.start, one.end)
        ranks: set[int] = set()
        ending, starting = self._ending, self._starting
        first, last = sorted((start, other.start))
        low, high = bisect_right(ending, (first, math.inf)), bisect_right(ending, (last, math.inf))
        for _, _, those in ending[low:high]:
            ranks.update(those)
        first, last = sorted((end, other.end))
        for _, _, those in starting[
            bisect_left(starting, (first,)) : bisect_left(starting, (last,))
        ]:
            ranks.update(those)
        left = frozenset() if one is None else one.leave
        for holder in left ^ other.leave:
            if holder in self.holdings:
                ranks.update(self.holdings[holder].ranks)
        return ranks

    def _move(
        self, view: View, ranks: Iterable[int], watch: Optional[Watcher] = None
    ) -> Generator[None, None, None]:
        """Put *ranks* of *view* into their states."""
        index, up = view.index, self.pool.situation.index.up
        for rank in ranks:
            state = self.state(rank, view.start, view.end, view.leave)
            if state is not None:
                old = index.state_of[rank] if index.up[rank] else None
                new = state if up[rank] else None
                if state is not index.state_of[rank] or old is not new:
                    index.put(rank, state, bool(up[rank]))
                if watch is not None:
                    watch(rank, old, new)
            self.moved += 1
            if self.tired(1):
                yield

    def choice(self, view: View, request: Request) -> Choice:
        """What *request* would get in *view*, which must be refreshed."""
        self.tried += 1
        kept = view.situation.kept
        while len(kept) > _MAX_CANDIDATES:
            del kept[next(iter(kept))]
        return view.situation.choice(request)


def finish(work: Iterator[Any]) -> None:
    """Run a generator to its end."""
    for _ in work:
        pass
