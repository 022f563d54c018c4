"""Why a job waits, in a few words, for ``annotations.sched.reason_pending`` (RFC 27)."""

from __future__ import annotations

from typing import Callable, Generator, Optional

import attrs

from treepool.placement.nodes.rankset import RankSet
from treepool.placement.plan.future import PRESENT
from treepool.placement.plan.jobs import Kind, Waiting
from treepool.placement.plan.plan import Plan
from treepool.placement.plan.queue import Queue
from treepool.placement.plan.timeline import NEVER, UNPLANNED, end_of
from treepool.placement.plan.units import Units
from treepool.placement.request.need import SLOT
from treepool.placement.request.vertices import Request
from treepool.rfc import idset
from treepool.rfc.windows import clock

#: Gives the name of a job id, such as its F58 form.
NameOf = Callable[[int], str]


@attrs.frozen
class Room:
    """What jobs of a kind would find at some time if nothing was planned.

    ``units`` are on ``ranks``. Not ``together`` are two nodes in two switches if the job asks for
    two nodes in one switch.
    """

    units: int
    ranks: RankSet
    together: bool


def why_waiting(
    queue: Queue,
    job: Waiting,
    now: float,
    name_of: NameOf = str,
    known: Optional[dict[Kind, Room]] = None,
) -> Generator[None, None, str]:
    """Why *job*, which waits in *queue*, has not started.

    *known* keeps what is free for each kind of job, for calls that follow soon.
    """
    plan = queue.plan
    unit = unit_of(job.request)
    need = job.request.least_asks
    if not (yield from plan.is_servable(job.kind)):
        up = yield from _room(plan, job, NEVER)
        apart = ", but not together" if up.units >= need else ""
        return f"nodes are down or drained: {min(up.units, need)} of {need} {unit} up{apart}"
    ahead = queue.ahead(job)
    if ahead is not None:
        return f"{name_of(ahead.jobid)} is ahead in the queue"
    window = yield from _window(queue, job, now)
    reservation = plan.reservations.get(job.jobid)
    later = ""
    if reservation is not None and now < reservation.start < NEVER:
        later = f", {need} at {clock(reservation.start, now)}"
    elif reservation is not None and reservation.start >= NEVER:
        later = ", the rest is held by jobs without a time limit"
    if window is not None:
        return f"window {window}{later}"
    if job.kind.relaxed is not None:
        later_job = attrs.evolve(job, request=job.relaxed)
        if (yield from queue.plan.selection(later_job, now)) is not None:
            if reservation is not None and now < reservation.start < job.patience:
                return f"no close place is free until {clock(reservation.start, now)}"
            return f"no close place is free, any will do at {clock(job.patience, now)}"
    known = {} if known is None else known
    room = known.get(job.kind)
    if room is None:
        room = known[job.kind] = yield from _room(plan, job, PRESENT)
    if room.units < need:
        return f"{room.units} of {need} {unit} free now{later}"
    if not room.together:
        return f"enough {unit} are free now, but not together{later}"
    end = end_of(now, job.request.duration)
    for other in list(plan.reservations.values()):
        if other.job is not job and other.start < end:
            if any(rank in room.ranks for ranks, _, _ in other.parts for rank in ranks):
                return f"what is free is reserved for {name_of(other.job.jobid)}{later}"
            if plan.timeline.should_yield(sum(len(ranks) for ranks, _, _ in other.parts)):
                yield
    return f"others are late to end{later}" if reservation else "about to be looked at"


def unit_of(request: Request) -> str:
    """The name of what ``Request.least_asks`` counts."""
    if request.nodes is not None:
        return "nodes"
    return "slots" if request.ask.group.name == SLOT else f"{request.ask.group.name} domains"


def _room(plan: Plan, job: Waiting, start: float) -> Generator[None, None, Room]:
    """What *job* would find at *start* if what is planned is ignored."""
    choice = yield from plan.views.choice(start, UNPLANNED, job.request)
    view = yield from plan.views.view(start, UNPLANNED)
    units = Units(job.request, plan.pool.inventory)
    plan.views.detach(view)  # otherwise a search might advance it between two yields
    yield from units.become_exact(plan.timeline, view)
    plan.views.keep(view)
    buckets = view.index.buckets.items()
    ranks = idset.union(having.mask() for state, having in buckets if units.of(state))
    if units.within is not None:
        ranks &= units.within.mask()
    together = choice.selection is not None or choice.gave_up
    return Room(units.free, RankSet.from_mask(ranks), together)


def _window(queue: Queue, job: Waiting, now: float) -> Generator[None, None, Optional[str]]:
    """The first window in the way, if *job* could start now without windows; otherwise None."""
    plan = queue.plan
    end = end_of(now, job.request.duration)
    closed = [w for w in plan.windows.values() if w.start < end and w.name not in job.kind.leave]
    if not closed:
        return None
    kind = attrs.evolve(job.kind, leave=job.kind.leave | {w.name for w in closed})
    if (yield from plan.selection(attrs.evolve(job, kind=kind), now)) is None:
        return None
    return min(closed, key=lambda w: w.start).name
