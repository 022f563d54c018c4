"""Views: what is free throughout some time, in the form that the choice of nodes needs.

A view is an index of the nodes, like the pool's own. The choice of nodes therefore works on a time
to come as it does on the present. A new view is a copy of the most similar one, in which only the
nodes that differ are moved. A view follows later changes by the journal of the timeline. The cost
depends on what changes, not on the number of nodes or jobs.

Methods that may take long are generators. They yield every few milliseconds, and may be resumed
after the timeline has changed.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import count
from typing import Callable, Generator, Iterable, Optional

from treepool.placement.choose.choice import Choice, Situation
from treepool.placement.nodes.index import NodeIndex
from treepool.placement.plan.future import PRESENT, Holder
from treepool.placement.plan.portions import prepared
from treepool.placement.plan.timeline import LAST, NEVER, UNPLANNED, Timeline
from treepool.placement.request.vertices import Request
from treepool.rfc import idset

#: Most views that are kept. One takes about 0.3 MB at 11,136 nodes.
MAX_VIEWS = 64

#: For how many requests a view keeps the candidates.
_MAX_CANDIDATES = 4

#: Ends of holdings in a cell.
STRIDE = 256

#: Bounds of cells that have passed before they are forgotten.
_MAX_PASSED = 64


class View:
    """What is free throughout the time from ``start`` to ``end``.

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
        #: Up to where the view has followed the journal of the timeline.
        self.position = position

    @property
    def index(self) -> NodeIndex:
        """The nodes by their states."""
        return self.situation.index


class Views:
    """The latest views of a timeline."""

    def __init__(self, timeline: Timeline, is_behind: Callable[[], bool]) -> None:
        self.timeline = timeline
        #: Whether the pool has changed in ways that the timeline has not followed yet.
        self._is_behind = is_behind
        self._views: list[View] = []
        #: The times that divide the timeline into cells, ascending.
        self._bounds: list[float] = []
        #: Ranks moved and choices made so far, for tests that count work instead of time.
        self.moved = self.tried = 0

    def view(
        self, start: float, end: float, leave: frozenset[Holder] = frozenset()
    ) -> Generator[None, None, View]:
        """The view of the time from *start* to *end*."""
        timeline, inventory = self.timeline, self.timeline.pool.inventory
        if self._views and self._views[-1].situation.inventory is not inventory:
            self._views.clear()  # nodes were added, removed or described anew
        base = self._nearest(start, end, leave)
        if base is not None:
            yield from self._refreshed(base)
            if (base.start, base.leave) == (start, leave) and not self._begins(base.end, end):
                return base
        situation = timeline.pool.situation if base is None else base.situation
        position = timeline.journal.end if base is None else base.position
        copy = Situation(situation.inventory, situation.index.copy(), situation.policy)
        view = View(start, end, leave, copy, position)
        yield from self._move(view, self._between(base, view))
        yield from self.refresh(view)
        self.keep(view)
        return view

    def detach(self, view: View) -> None:
        """Withhold *view* from other users, in order to change it."""
        if view in self._views:  # it is not if the nodes were replaced meanwhile
            self._views.remove(view)

    def keep(self, view: View) -> None:
        """Offer *view*, which is new or was detached, as a base for others.

        If the nodes were replaced meanwhile, it is of no use.
        """
        if view.situation.inventory is not self.timeline.pool.inventory:
            return
        if len(self._views) >= MAX_VIEWS:
            del self._views[0]
        self._views.append(view)

    def advance(self, view: View, start: float, end: float) -> Generator[None, None, None]:
        """Turn *view*, which is detached, into the one of another time."""
        yield from self.refresh(view)  # otherwise a span that is gone would stay in it
        before = View(view.start, view.end, view.leave, view.situation, view.position)
        view.start, view.end = start, end
        yield from self._move(view, self._between(before, view))
        yield from self.refresh(view)

    def mark(
        self, low: int, middle: int, high: int, leave: frozenset[Holder]
    ) -> Generator[None, None, tuple[int, View]]:
        """A view that ignores what is planned, and how many holdings have ended at its start.

        That number is between *low* and *high*: an existing view near *middle*, or a new one there.
        """
        best: Optional[tuple[int, int, View]] = None
        for view in self._views:
            if view.end == UNPLANNED and view.leave == leave and PRESENT < view.start < NEVER:
                ended = self.timeline.ended_by(view.start)
                if low < ended < high and (best is None or abs(ended - middle) < best[0]):
                    best = abs(ended - middle), ended, view
        if best is not None and best[0] <= (high - low) // 4:
            yield from self._refreshed(best[2])
            return best[1:]
        time = self.timeline.end_of_first(middle)
        view = yield from self.view(time, UNPLANNED, leave)
        return self.timeline.ended_by(time), view

    def cell(self, time: float, leave: frozenset[Holder]) -> Generator[None, None, View]:
        """An upper bound of what is free at any time in the cell around *time*.

        Its ``start`` is the end of the cell, and its ``end`` the beginning: a running job or a
        reservation counts only if it lasts throughout the cell. All searches use the same cells,
        so that they share the views.
        """
        bounds, timeline = self._bounds, self.timeline
        if len(bounds) > _MAX_PASSED and bounds[_MAX_PASSED] < time:
            del bounds[:_MAX_PASSED]
        place = bisect_right(bounds, time)
        high = bounds[place] if place < len(bounds) else math.inf
        most = timeline.ended_by(time) + STRIDE
        if timeline.ended_by(min(high, LAST)) > 2 * STRIDE + most:
            high = math.inf
        if high == math.inf:
            high = timeline.end_of_first(min(most, timeline.ended_by(LAST)))
            if high > time:
                bounds.insert(place, high)
        low = bounds[place - 1] if place else UNPLANNED
        return (yield from self.view(max(high, time), low, leave))

    def refresh(self, view: View) -> Generator[None, None, None]:
        """Let *view* follow the changes of the timeline since its last use."""
        timeline = self.timeline
        while view.position < timeline.journal.end:
            changes = timeline.journal.since(view.position)
            dirty: set[int] = set()
            for change in changes or ():
                if change.start < view.end and change.end > view.start:
                    dirty.update(change.ranks)
            if changes is None:
                dirty.update(idset.iterate(timeline.pool.ranks))
            view.position = timeline.journal.end
            yield from self._move(view, dirty)

    def _refreshed(self, view: View) -> Generator[None, None, None]:
        """Refresh *view*, which is detached meanwhile."""
        self.detach(view)
        yield from self.refresh(view)
        self.keep(view)

    def _begins(self, one: float, other: float) -> bool:
        """Whether a planned holding begins between the ends of two views."""
        return self.timeline.planned_before(one) != self.timeline.planned_before(other)

    def _nearest(self, start: float, end: float, leave: frozenset[Holder]) -> Optional[View]:
        """The view that differs least from the requested one; None stands for the pool's index.

        The pool's index is the view of the present that ignores what is planned.
        """
        timeline, changes = self.timeline, self.timeline.journal.end
        ended, planned = timeline.ended_by(start), timeline.planned_before(end)
        best, least = None, ended + planned
        for view in self._views:
            differ = changes - view.position
            if differ > least:  # True of most: each further term costs as much as moving a rank
                continue
            differ += abs(timeline.ended_by(view.start) - ended)
            if differ > least:
                continue
            differ += abs(timeline.planned_before(view.end) - planned)
            if view.leave != leave and differ <= least:
                differ += sum(len(timeline.ranks_of(h)) for h in leave ^ view.leave)
            if differ <= least:
                best, least = view, differ
        return best

    def _between(self, one: Optional[View], other: View) -> set[int]:
        """The ranks on which the two views may differ; None stands for the pool's index."""
        if one is None and self._is_behind():
            return set(idset.iterate(self.timeline.pool.ranks))
        start, end = (PRESENT, UNPLANNED) if one is None else (one.start, one.end)
        ended, begun = self.timeline.ranks_between((start, other.start), (end, other.end))
        ranks = ended | begun
        leave = frozenset() if one is None else one.leave
        for holder in leave ^ other.leave:
            ranks.update(self.timeline.ranks_of(holder))
        return ranks

    def _move(self, view: View, ranks: Iterable[int]) -> Generator[None, None, None]:
        """Put *ranks* of *view* into the states that the timeline gives them."""
        index, timeline = view.index, self.timeline
        up = timeline.pool.situation.index.up
        state_of, up_then = index.state_of, index.up
        start, end, leave = view.start, view.end, view.leave
        for rank in ranks:
            state = timeline.state(rank, start, end, leave)
            if state is None:
                continue
            if state is not state_of[rank] or up[rank] != up_then[rank]:
                index.put(rank, state, bool(up[rank]))
            self.moved += 1
            if timeline.should_yield(1):
                yield

    def choice(
        self, start: float, end: float, request: Request, leave: frozenset[Holder] = frozenset()
    ) -> Generator[None, None, Choice]:
        """What *request* would get from *start* to *end*; that is still so when this returns."""
        for attempt in count():
            view = yield from self.view(start, end, leave)
            if view.situation.inventory is not self.timeline.pool.inventory:
                continue  # the nodes were replaced meanwhile
            found = yield from self.attempt(view, request, attempt)
            if found is not None:
                return found
        raise AssertionError("unreachable")

    def attempt(
        self, view: View, request: Request, attempt: int
    ) -> Generator[None, None, Optional[Choice]]:
        """What *request* would get in *view*, which must be up to date.

        None, after a yield, if that is too much work for *attempt* (from 0).
        """
        kept = view.situation.kept
        while len(kept) > _MAX_CANDIDATES:
            del kept[next(iter(kept))]
        found = None
        with self.timeline.portion(attempt) as portion:
            found = view.situation.choice(request)
            self.tried += 1
        self.timeline.spend(portion.done)
        if found is None:
            yield from prepared(self.timeline, view.index, portion)
        return found
