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
from treepool.placement.plan.future import Holder
from treepool.placement.plan.timeline import LAST, NEVER, UNPLANNED, end_of
from treepool.placement.plan.units import COUNT, Sweep, Units
from treepool.placement.plan.views import STRIDE, Views
from treepool.placement.request.vertices import Request

#: How many times are tried before whole cells are ruled out.
_STEPS = 32

#: Work in units of Timeline.should_yield: for a step to the next time, and a choice.
_STEP, _CHOICE = 5, 50


class Found(NamedTuple):
    """A selection for a request, and when its resources are free."""

    start: float
    selection: Selection


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
    sweep: Optional[Sweep] = None
    steps, passed = 0, -math.inf
    while time < min(before, NEVER):
        if steps >= _STEPS and time > passed:
            cell = yield from views.cell(time, leave)
            passed, most = cell.start, units.of_view(cell)
            if timeline.should_yield(COUNT * len(cell.index.buckets)):
                yield
            if most < need:
                units.course.note(time, most)
                time = timeline.next_end(passed)
                continue
        end = end_of(time, request.duration)
        if sweep is None:
            sweep = Sweep(views, units, (yield from views.view(time, end, leave)))
        else:
            yield from sweep.advance(time, end)
        if units.free >= need:
            found = yield from sweep.choice(request)
            if found is not None and found.selection is not None:
                sweep.keep()
                return Found(time, found.selection)
            if found is not None and not units.exact:
                yield from sweep.become_exact()
            if timeline.should_yield(_CHOICE):
                yield
        units.course.note(time, units.free)
        steps += 1
        if timeline.should_yield(_STEP):
            yield
        time = timeline.next_end(time)
    if sweep is not None:
        sweep.keep()
    if before <= NEVER:
        return None
    last = yield from views.choice(NEVER, UNPLANNED, request, leave)
    return None if last.selection is None else Found(NEVER, last.selection)


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
