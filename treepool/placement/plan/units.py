"""Counts the units of a request that nodes could serve: at one time, and from one to the next."""

from __future__ import annotations

from itertools import count
from typing import Generator, Optional

from treepool.placement.choose.choice import Choice
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.state import NodeState
from treepool.placement.on_node.fit import most_units, units_in
from treepool.placement.plan.course import Course
from treepool.placement.plan.timeline import Timeline
from treepool.placement.plan.views import View, Views
from treepool.placement.request.vertices import Request

#: Work in units of Timeline.should_yield for the units of a state.
COUNT = 2

#: A sweep that has passed changes of more ranks than this takes another view, which is closer.
_FAR = 64


class Units:
    """Counts the units of a request (slots, domains or nodes) that the nodes of a view could serve.

    It counts an upper bound by the numbers of free cores and GPUs, and after ``become_exact`` the
    units that really fit.
    """

    def __init__(self, request: Request, inventory: Inventory) -> None:
        self.ask = request.ask
        self.within = inventory.matching(request.constraint)
        self.exact = False
        #: The free units at the times that a search found to be too early.
        self.course = Course(request.least_asks)
        #: The units of the view that ``count`` was called with, or those of a sweep.
        self.free = 0
        self._known: dict[NodeState, int] = {}

    def of(self, state: NodeState) -> int:
        """The units of one node in *state*."""
        known = self._known.get(state)
        if known is None:
            exact = units_in(state, self.ask) if self.exact else None
            known = most_units(state, self.ask) if exact is None else exact
            self._known[state] = known
        return known

    def of_view(self, view: View) -> int:
        """The units of all nodes of *view* that are up."""
        within, cores, gpus = self.within, self.ask.min_cores, self.ask.min_gpus
        return sum(
            self.of(state) * ranks.count(within)
            for state, ranks in view.index.buckets.items()
            if state.ncores >= cores and state.ngpus >= gpus
        )

    def count(self, view: View) -> None:
        """Set ``free`` to the units of *view*."""
        self.free = self.of_view(view)

    def become_exact(self, timeline: Timeline, view: View) -> Generator[None, None, None]:
        """From now on count the units that really fit, and count those of *view*."""
        self.exact = True
        self._known.clear()
        for state in list(view.index.buckets):
            with timeline.portion(0) as portion:
                self.of(state)
            if timeline.should_yield(COUNT + portion.done):
                yield
        self.count(view)


class Sweep:
    """Follows the units of a request from one start to the next, all for the same *leave*.

    It has a view of the first start, and looks only at the ranks on which something ends or begins
    between two starts. To move these ranks in a view takes twice as long.
    """

    def __init__(self, views: Views, units: Units, view: View) -> None:
        self._views, self._units = views, units
        self._start, self._end, self._leave = view.start, view.end, view.leave
        views.detach(view)
        self._take(view)
        units.count(view)

    def _take(self, view: View) -> None:
        self._view = view
        #: Up to where the units follow the timeline's journal.
        self._seen = view.position
        #: The units of the ranks where they differ from those in the view, and how many ranks may
        #: differ at all.
        self._moved: dict[int, int] = {}
        self._passed = 0

    def keep(self) -> None:
        """Leave the view to other users, at the end of the search."""
        self._views.keep(self._view)

    def advance(self, start: float, end: float) -> Generator[None, None, None]:
        """Turn to the time from *start*, which is later than the last one, to *end*."""
        timeline, units, moved, leave = self._views.timeline, self._units, self._moved, self._leave
        ended, begun = timeline.ranks_between((self._start, start), (self._end, end))
        self._start, self._end = start, end
        self._passed += len(ended) + len(begun)
        index, within = self._view.index, units.within
        state_of, up = index.state_of, index.up
        for rank in ended | begun:
            if not up[rank] or (within is not None and rank not in within):
                continue
            before = moved.get(rank)
            if before is None:
                there = state_of[rank]
                before = 0 if there is None else units.of(there)
            if before or rank in ended:  # otherwise there is even less
                state = timeline.state(rank, start, end, leave)
                after = 0 if state is None else units.of(state)
                if after != before:
                    moved[rank] = after
                    units.free += after - before
            if timeline.should_yield(1):
                yield

    def choice(self, request: Request) -> Generator[None, None, Optional[Choice]]:
        """What *request* would get at the present start; None if too few units are free."""
        for attempt in count():
            view = yield from self._current()
            if self._units.free < self._units.course.need:
                return None
            found = yield from self._views.attempt(view, request, attempt)
            if found is not None:
                return found
        raise AssertionError("unreachable")

    def become_exact(self) -> Generator[None, None, None]:
        """From now on count the units that really fit."""
        yield from self._units.become_exact(self._views.timeline, self._view)

    def _current(self) -> Generator[None, None, View]:
        """The view of the present start, by which the units are counted anew if need be."""
        view, views, seen = self._view, self._views, self._seen
        if self._passed > _FAR:
            views.keep(view)
            view = yield from views.view(self._start, self._end, self._leave)
            views.detach(view)
        else:
            yield from views.advance(view, self._start, self._end)
        self._take(view)
        if view.position != seen:
            self._units.count(view)
        return view
