"""The earliest time at which a request fits beside everything that is planned.

That time is the present, or the end of a holding. An upper bound of the units that free cores and
GPUs could serve rules out most of these times. The search has three stages:

1. Marks are views that ignore what is planned, so later marks have more free. Doubling steps and
   bisection find the last mark that is too early.
2. From there, the ends of holdings are tried one after another.
3. After some of these, whole cells (see Views.cell) are ruled out at once.
"""

from __future__ import annotations

import math
from typing import Generator, NamedTuple, Optional

from treepool.placement.choose.selection import Selection
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.state import NodeState
from treepool.placement.on_node.fit import assess, possible
from treepool.placement.plan.course import Course
from treepool.placement.plan.future import Holder
from treepool.placement.plan.timeline import LAST, NEVER, UNPLANNED, Timeline
from treepool.placement.plan.views import STRIDE, View, Views
from treepool.placement.request.vertices import Request

#: How many times are tried before whole cells are ruled out.
_STEPS = 32

#: Work in units of Timeline.should_yield: for a step to the next time, a choice, and the units of a
#: state.
_STEP, _CHOICE, _COUNT = 5, 50, 2


class Found(NamedTuple):
    """A selection for a request, and when its resources are free."""

    start: float
    selection: Selection


def end_of(start: float, duration: float) -> float:
    """The end of a job that starts at *start*: infinity if its *duration* is 0, or at NEVER."""
    return start + duration if duration > 0 and start < NEVER else math.inf


class Units:
    """Counts the units of a request (slots, domains or nodes) that the nodes of a view could serve.

    It counts an upper bound by the numbers of free cores and GPUs, and after ``become_exact`` the
    units that really fit.
    """

    def __init__(self, request: Request, inventory: Inventory) -> None:
        ask = request.ask
        self.ask = ask
        self.within = inventory.matching(request.constraint)
        self.exact = False
        #: The free units at the times that a search found to be too early.
        self.course = Course(request.least_asks)
        #: The units of the view that ``count`` was called with. ``moved`` keeps them up to date.
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
        """Take note that *rank* changed from state *old* to *new*, in the view that was counted."""
        if old is not new and (self.within is None or rank in self.within):
            self.free -= 0 if old is None else self.of(old)
            self.free += 0 if new is None else self.of(new)

    def become_exact(self, timeline: Timeline, view: View) -> Generator[None, None, None]:
        """From now on count the units that really fit, and count those of *view*."""
        self.exact = True
        self._known.clear()
        for state in list(view.index.buckets):
            self.of(state)
            if timeline.should_yield(10 * _COUNT):
                yield
        self.count(view)

    def _bound(self, state: NodeState) -> int:
        ask = self.ask
        if not possible(state, ask):
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
    """The earliest start of *request* from *begin* on and before *before*; None if there is none.

    The start is NEVER if the request must wait for jobs without a time limit. If *before* is
    infinity, None means that the request cannot even start after all jobs have ended, because
    resources that it needs are down. *units* counts for this request and was not used before. Its
    ``course`` then says how close the request came to an earlier start.
    """
    timeline, need = views.timeline, units.course.need
    time = begin
    if before == math.inf:
        time = yield from _skip_ahead(views, units, leave, begin)
    view: Optional[View] = None
    steps, passed = 0, -math.inf
    while time < min(before, NEVER):
        if steps >= _STEPS and time > passed:
            cell = yield from views.cell(time, leave)
            passed, most = cell.start, units.of_view(cell)
            if timeline.should_yield(_COUNT * len(cell.index.buckets)):
                yield
            if most < need:
                units.course.note(time, most)
                time = timeline.next_end(passed)
                continue
        end = end_of(time, request.duration)
        if view is None:
            view = yield from views.view(time, end, leave)
            views.detach(view)
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
            if timeline.should_yield(_CHOICE):
                yield
        units.course.note(time, units.free)
        steps += 1
        if timeline.should_yield(_STEP):
            yield
        time = timeline.next_end(time)
    if view is not None:
        views.keep(view)
    if before <= NEVER:
        return None
    view = yield from views.view(NEVER, UNPLANNED, leave)
    last = views.choice(view, request).selection
    return None if last is None else Found(NEVER, last)


def _skip_ahead(
    views: Views, units: Units, leave: frozenset[Holder], begin: float
) -> Generator[None, None, float]:
    """A time from *begin* on, shortly before the first at which enough *units* may be free.

    It is found by marks: doubling steps, then bisection. If nothing is planned, units only become
    free with time.
    """
    timeline, time, missed = views.timeline, begin, 0
    low, high, step = timeline.ended_by(begin), timeline.ended_by(LAST) + 1, STRIDE
    while high - low > STRIDE:
        middle = timeline.end_between(low, min(low + step, (low + high) // 2), high)
        if middle == low:
            break
        ended, view = yield from views.mark(low, middle, high, leave)
        free = units.of_view(view)
        if free >= units.course.need:
            high = ended
        else:
            low, time, missed = ended, view.start, free
            step *= 2
        yield
        high = min(high, timeline.ended_by(LAST) + 1)  # jobs may have ended early meanwhile
    if time > begin:
        units.course.note(begin, missed)
    return time
