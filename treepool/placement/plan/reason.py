"""Why a job waits; the message is for ``annotations.sched.reason_pending`` (RFC 27)."""

from __future__ import annotations

from heapq import nsmallest
from typing import Callable, Generator, Optional

import attrs

from treepool.errors import Reason
from treepool.placement.nodes.parts import ranks_in
from treepool.placement.plan.jobs import FAR, JobClass, Sight, Waiting
from treepool.placement.plan.profile import PRESENT, Profile
from treepool.placement.plan.queue import Queue
from treepool.placement.plan.views import Units, View
from treepool.placement.pool import IN_USE, Pool
from treepool.placement.request.form import Fill
from treepool.placement.request.need import SLOT
from treepool.placement.request.vertices import Request
from treepool.rfc.times import clock
from treepool.rfc.windows import SPARES

#: Gives the name of a job id, such as its F58 form.
NameOf = Callable[[int], str]

#: Jobs that are to end for one, by name.
_MOST_NAMED = 4

#: Reservations that are looked at, to name the one that is in the way.
_MOST = 64


@attrs.frozen
class Room:
    """What jobs of a class would find now if nothing was planned: ``units`` on some nodes.

    Not ``together`` are two nodes in two switches if the job asks for two nodes in one switch.
    """

    units: Units
    number: int
    together: bool


def why_waiting(
    queue: Queue,
    job: Waiting,
    now: float,
    name_of: NameOf = str,
    known: Optional[dict[JobClass, Room]] = None,
) -> Generator[None, None, Reason]:
    """Why *job*, which waits in *queue*, has not started.

    *known* keeps what is free for each class, for calls that follow soon. Nothing is tried for a
    request that needs a search: to tell why it waits must not take the time of other jobs.
    """
    own, need = job.job_class, job.request.least_asks
    if not (own.searched or (yield from queue.is_servable(own))) or own.servable is False:
        return _down(job.request, Units(job.request, queue.profile).in_situation(queue.idle()))
    ahead = queue.ahead(job)
    if ahead is not None:
        return is_ahead(name_of(ahead.jobid))
    made = queue.reservations.get(job.jobid)
    ending = sorted(filter(queue.pool.has_job, made.victims)) if made is not None else []
    if made is not None and ending:
        names = ", ".join(map(name_of, ending[:_MOST_NAMED])) + ", ..." * (
            len(ending) > _MOST_NAMED
        )
        message = f"preempts {names}, asked to end at {clock(made.asked, now)}"
        return Reason("preempting", message, name_of(ending[0]), len(ending))
    later = ""
    if made is not None and made.start > now:
        later = f", {need} at {clock(made.start, now)}"
        if made.start > now + FAR:
            later = ", the rest is held by jobs without a time limit"
    if own.searched:
        what = "the search for a place was given up" if own.gave_up else "no place is free now"
        message = f"{what}: the request needs a search, which comes after other jobs{later}"
        return Reason("search", message)
    window = yield from _window(queue, job, now)
    if window == SPARES:
        return Reason("window", f"what is free is kept as spare{later}", window)
    if window is not None:
        return Reason("window", f"window {window}{later}", window)
    if own.relaxed is not None:
        impatient = attrs.evolve(job, request=job.relaxed)
        if (yield from queue.selection(impatient)) is not None:
            message = f"no close place is free, any will do at {clock(job.patience, now)}"
            if made is not None and now < made.start < job.patience:
                message = f"no close place is free until {clock(made.start, now)}"
            return Reason("wait", message)
    known = {} if known is None else known
    room = known.get(own)
    if room is None:
        room = known[own] = yield from _room(queue, job)
    if room.number < need or not room.together:
        return _taken(job.request, room.number, later)
    holder = yield from _holder(queue, job, room, now)
    if holder is None:
        late = Reason("late", f"others are late to end{later}")
        return late if made else Reason("soon", "about to be looked at")
    # Of two jobs whose reservations are in each other's way only one names the other.
    is_behind = made is not None and holder.place > job.place
    name = "other jobs" if is_behind else name_of(holder.jobid)
    return Reason("reserved", f"what is free is reserved for {name}{later}", name)


def why_not_now(pool: Pool, request: Request) -> Reason:
    """Why *pool*, without a queue, cannot serve *request* now, which an idle pool could serve."""
    units = Units(request, Profile(pool))
    if pool.up != pool.ranks:
        idle = pool.copy_idle()
        choice = idle.choice(request)
        if choice.selection is None and not choice.gave_up:
            return _down(request, units.in_situation(idle.situation))
    if units.ask.searched:  # no number tells whether there is a place
        return IN_USE
    units.become_exact()
    return _taken(request, units.in_situation(pool.situation))


def _down(request: Request, up: int) -> Reason:
    """The reason where the nodes that are up, which have *up* units, could not serve *request*."""
    unit, need = unit_of(request), request.least_asks
    apart = ", but not together" if up >= need else ""
    message = f"nodes are down or drained: {min(up, need)} of {need} {unit} up{apart}"
    return Reason("down", message, unit, need, min(up, need))


def _taken(request: Request, free: int, later: str = "") -> Reason:
    """The reason where others have what *request* needs, of which *free* units are free."""
    unit, need = unit_of(request), request.least_asks
    if free < need:
        kept = " without cores kept for jobs with GPUs" if request.ask.spare else ""
        message = f"{free} of {need} {unit} free now{kept}{later}"
        return Reason("in-use", message, unit, need, free)
    return Reason("apart", f"enough {unit} are free now, but not together{later}", unit)


def is_ahead(name: str) -> Reason:
    """The reason of a job for which the queue's policy makes it wait for the job called *name*."""
    return Reason("ahead", f"{name} is ahead in the queue", name)


def unit_of(request: Request) -> str:
    """The name of what ``Request.least_asks`` counts."""
    if not isinstance(request.form, Fill):
        return "nodes"
    return "slots" if request.ask.group.name == SLOT else f"{request.ask.group.name} domains"


def _holder(
    queue: Queue, job: Waiting, room: Room, now: float
) -> Generator[None, None, Optional[Waiting]]:
    """The first job of the queue for which some of *room* is reserved while *job* would run.

    That is a job ahead of *job*, if there is one.
    """
    for other in nsmallest(_MOST, queue.reservations.values(), key=lambda made: made.job.place):
        if other.job is not job and other.start < job.end(now):
            number = yield from queue.views.gained(ranks_in(other.parts), room.units)
            if number:
                return other.job
    return None


def _room(queue: Queue, job: Waiting) -> Generator[None, None, Room]:
    """What *job* would find now if what is planned is ignored."""
    units, pool = Units(job.request, queue.profile), queue.pool
    view = View(PRESENT, PRESENT, Sight(), pool.situation, queue.profile.log.end)
    units.become_exact()
    yield from queue.views.count(view, units)
    if view.free < units.need:
        return Room(units, view.free, False)
    choice = yield from queue.views.choice(view, job.request)
    return Room(units, view.free, choice.selection is not None or choice.gave_up)


def _window(queue: Queue, job: Waiting, now: float) -> Generator[None, None, Optional[str]]:
    """The first window on the nodes where *job* could start now without windows; None if none."""
    end, admitted = job.end(now), job.job_class.admitted
    closed = [w for w in queue.windows.values() if w.start < end and w.name not in admitted]
    if not closed:
        return None
    own = attrs.evolve(job.job_class, admitted=admitted | {w.name for w in closed})
    selection = yield from queue.selection(attrs.evolve(job, job_class=own))
    if selection is None:
        return None
    there = [window for window in closed if window.ranks & selection.ranks]
    return min(there, key=lambda w: w.start).title if there else None
