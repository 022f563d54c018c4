"""The earliest time at which a request fits beside everything that is planned.

The time is now, or the end of some span. These times are not tried one by one. An upper bound of
how many units of the request the free cores and GPUs could serve rules out most of them: first at
some marks along the timeline, which ignore reservations and therefore only ever gain, then step by
step from the last mark that is too early.
"""

from __future__ import annotations

import math
from typing import Generator, NamedTuple, Optional

from treepool.placement.choose.selection import Selection
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.state import NodeState
from treepool.placement.on_node.fit import assess
from treepool.placement.plan.course import Course
from treepool.placement.plan.timeline import NEVER, UNPLANNED, Holder, Timeline
from treepool.placement.plan.views import STRIDE, View, Views
from treepool.placement.request.vertices import Request

#: Times that are tried one by one before whole cells are ruled out.
_STEPS = 32

#: Work, in terms of Timeline.tired: a step to the next time, a choice, counting the units of a
#: state.
_STEP, _CHOICE, _COUNT = 5, 50, 2


class Found(NamedTuple):
    """A selection for a request, and when its resources are free."""

    start: float
    selection: Selection


def end_of(start: float, duration: float) -> float:
    """When a job that begins at *start* ends; a *duration* of 0 means never."""
    return start + duration if duration > 0 and start < NEVER else math.inf


def wanted(request: Request) -> int:
    """The fewest units (see Units) that serve *request*."""
    if request.nodes is None:
        return request.units.minimum
    if request.spans:
        return request.nodes.minimum * request.units.minimum
    return request.nodes.minimum


class Units:
    """How many units of a request the nodes of a view could serve: slots, domains or nodes.

    An upper bound by numbers of cores and GPUs, or the exact number once ``exact`` is set.
    """

    def __init__(self, request: Request, inventory: Inventory, exact: bool = False) -> None:
        ask = request.ask
        self.ask = ask
        self.within = inventory.matching(request.constraint)
        self.exact = exact
        #: The units that were free at the times that were too early.
        self.course = Course(wanted(request))
        #: The units of the view that was counted, as far as ``moved`` was told of its changes.
        self.free = 0
        most = ask.group.count.maximum if ask.fill else 1
        self._most = 1 << 30 if most is None else most
        self._known: dict[NodeState, int] = {}

    def of(self, state: NodeState) -> int:
        """The units of one node in *state*."""
        known = self._known.get(state)
        if known is None:
            known = self._known[state] = self._exact(state) if self.exact else self._bound(state)
        return known

    def of_view(self, view: View) -> int:
        """The units of all nodes of *view* that are up."""
        within = self.within
        return sum(
            units * ranks.count(within)
            for state, ranks in view.index.buckets.items()
            for units in (self.of(state),)
            if units
        )

    def count(self, view: View) -> None:
        """Set ``free`` to the units of *view*."""
        self.free = self.of_view(view)

    def moved(self, rank: int, old: Optional[NodeState], new: Optional[NodeState]) -> None:
        """Follow a change of the view that was counted."""
        if old is not new and (self.within is None or rank in self.within):
            self.free -= 0 if old is None else self.of(old)
            self.free += 0 if new is None else self.of(new)

    def become_exact(self, timeline: Timeline, view: View) -> Generator[None, None, None]:
        """Count the units that really fit from now on, those of *view* first."""
        self.exact = True
        self._known.clear()
        for state in list(view.index.buckets):
            self.of(state)
            if timeline.tired(10 * _COUNT):
                yield
        self.count(view)

    def _bound(self, state: NodeState) -> int:
        ask = self.ask
        if state.ncores < ask.min_cores or state.ngpus < ask.min_gpus:
            return 0
        if ask.whole and not state.idle:
            return 0
        if not ask.fill:
            return 1
        units = min(self._most, state.ncores // ask.min_cores)
        return min(units, state.ngpus // ask.min_gpus) if ask.min_gpus else units

    def _exact(self, state: NodeState) -> int:
        if not self._bound(state):
            return 0
        found = assess(state, self.ask)
        return self._bound(state) if found.gave_up else len(found.steps)


def earliest(
    views: Views,
    request: Request,
    leave: frozenset[Holder],
    begin: float,
    before: float,
    units: Units,
) -> Generator[None, None, Optional[Found]]:
    """Where *request* can start first, not earlier than *begin* and earlier than *before*.

    If it must wait for jobs without a time limit, that is at NEVER. None if it cannot start even
    after all jobs have ended, because resources that it needs are down. *units* are new ones of the
    request; afterwards, their ``course`` says how close it came to an earlier start.
    """
    timeline, need = views.timeline, wanted(request)
    time = begin
    if before == math.inf:
        time = yield from _skipped(views, units, need, leave, begin)
    view: Optional[View] = None
    steps, passed = 0, -math.inf
    while time < min(before, NEVER):
        if steps >= _STEPS and time > passed:
            cell = yield from views.cell(time, leave)
            passed, most = cell.start, units.of_view(cell)
            if timeline.tired(_COUNT * len(cell.index.buckets)):
                yield
            if most < need:
                units.course.note(time, most)
                time = timeline.next_end(passed) or NEVER
                continue
        end = end_of(time, request.duration)
        if view is None:
            view = yield from views.view(time, end, leave)
            views.take(view)
            units.count(view)
        else:
            yield from views.advance(view, time, end, units.moved)
        if units.free >= need:
            found = views.choice(view, request)
            if found.selection is not None:
                views.keep(view)
                return Found(time, found.selection)
            if not units.exact:
                yield from units.become_exact(timeline, view)
            if timeline.tired(_CHOICE):
                yield
        units.course.note(time, units.free)
        steps += 1
        if timeline.tired(_STEP):
            yield
        time = timeline.next_end(time) or NEVER
    if before <= NEVER:
        return None
    view = yield from views.view(NEVER, UNPLANNED, leave)
    last = views.choice(view, request).selection
    return None if last is None else Found(NEVER, last)


def _skipped(
    views: Views, units: Units, need: int, leave: frozenset[Holder], begin: float
) -> Generator[None, None, float]:
    """A time from *begin* on, before the first at which *need* units may be free, but close to it.

    Without what is planned, the free units only grow with time, so marks are tried by doubling
    steps and then by bisection.
    """
    timeline = views.timeline
    first = low = timeline.place(begin)
    missed = 0
    high, step = timeline.place(math.nextafter(NEVER, 0)) + 1, STRIDE
    while high - low > STRIDE:
        place, view = yield from views.mark(low, min(low + step, (low + high) // 2), high, leave)
        free = units.of_view(view)
        if free >= need:
            high = place
        else:
            low = place
            step *= 2
            missed = free
        yield
    if low == first:
        return begin
    units.course.note(begin, missed)
    return max(begin, timeline.time_at(low))
