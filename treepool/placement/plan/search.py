"""The search: the earliest start of a waiting job in the profile, and what it lacks until then.

What is free only grows when something ends, so these are the times to try. Between them the search
counts the units of the request that the nodes could serve; only when there are enough is a choice
made. This is how the *shadow time* of a job is found in the backfill literature.

The number of units that a request lacked when it was last searched predicts whether another search
is due: not until as many units have become free.
"""

from __future__ import annotations

from typing import Callable, Generator, Iterable, NamedTuple, Optional, Sequence

from treepool.placement.choose.selection import Selection
from treepool.placement.nodes.state import NodeState
from treepool.placement.plan.jobs import Holder, JobClass, Waiting
from treepool.placement.plan.profile import PRESENT, Change, Profile
from treepool.placement.plan.views import LOOK, Units, Views
from treepool.placement.request.vertices import Request

#: How many times a search tries to place a hard request, before it takes the time after all ends.
TRIES = 8

#: On the ranks of changes with more of them than this, all is taken for free.
_MOST_COUNTED = 64


class Start(NamedTuple):
    """A selection for a request, and when its resources are free."""

    time: float
    selection: Selection


def earliest_start(
    views: Views,
    job: Waiting,
    leave: frozenset[Holder],
    begin: float,
    before: Optional[float] = None,
) -> Generator[None, None, tuple[Optional[Start], int]]:
    """The earliest start of *job* from *begin* on and before *before*, None if there is none; and
    how many units it lacked until then, at least 1.

    The job asks for its strict request until its patience ends, and then for the relaxed one.
    """
    first, lack = None, 1
    if begin < job.patience:
        until = job.patience if before is None else min(before, job.patience)
        strict = until if job.job_class.relaxed is not None else before
        first, lack = yield from _earliest(views, job, job.request, leave, begin, strict)
    if first is None and job.job_class.relaxed is not None:
        begin = max(begin, job.patience)
        if before is None or begin < before:
            first, _ = yield from _earliest(views, job, job.relaxed, leave, begin, before)
        lack = 1  # the numbers of two requests cannot be compared
    return first, lack


def _earliest(
    views: Views,
    job: Waiting,
    request: Request,
    leave: frozenset[Holder],
    begin: float,
    before: Optional[float],
) -> Generator[None, None, tuple[Optional[Start], int]]:
    profile, length = views.profile, job.length
    units = Units(request, profile)
    view = yield from views.at(begin, begin + length, leave)
    yield from views.count(view, units)
    most = tries = 0
    while True:
        if view.free >= units.need:
            choice = yield from views.choice(view, request)
            job.job_class.gave_up = choice.gave_up
            if choice.selection is not None:
                views.keep(view)
                return Start(view.start, choice.selection), max(1, units.need - most)
            tries += 1
            if not units.exact:
                units.become_exact()
                yield from views.count(view, units)
        most = max(most, min(view.free, units.need - 1))
        following = profile.next_end(view.start)
        if following is not None and tries >= TRIES and job.job_class.hard:
            following = profile.ends.times[-1]
        if following is None or (before is not None and following >= before):
            views.keep(view)
            return None, max(1, units.need - most)
        yield from views.turn(view, following, following + length, leave)


def gained_now(
    profile: Profile,
    job_class: JobClass,
    length: float,
    changes: Iterable[Change],
    now: float,
    leave: frozenset[Holder],
) -> Generator[None, None, int]:
    """How many units a job that starts *now* may use of the room that *changes* made."""
    units = _counted(profile, job_class)
    near = [change for change in changes if change.start < now + length]

    def states(rank: int, change: Change) -> Iterable[Optional[NodeState]]:
        return (profile.state(rank, PRESENT, now + length, leave),)

    return (yield from _gained(profile, near, units, states))


def gained_later(
    profile: Profile,
    job_class: JobClass,
    length: float,
    changes: Iterable[Change],
    times: tuple[float, float],
    leave: frozenset[Holder],
) -> Generator[None, None, int]:
    """How many units became free for a job that starts between two *times*, at the best of them.

    A rank has most room at the first time, or when something ends on it.
    """
    units, (begin, until) = _counted(profile, job_class), times
    near = [c for c in changes if c.end > begin and c.start - length < until]

    def states(rank: int, change: Change) -> Iterable[Optional[NodeState]]:
        first, last = max(begin, change.start - length), min(until, change.end)
        starts = [first, *(s.end for s in profile.spans(rank) if first < s.end < last)]
        return (profile.state(rank, start, start + length, leave) for start in starts)

    return (yield from _gained(profile, near, units, states))


def _counted(profile: Profile, job_class: JobClass) -> Units:
    units = Units(job_class.relaxed or job_class.request, profile)
    units.exact = True
    return units


def _gained(
    profile: Profile,
    changes: Sequence[Change],
    units: Units,
    states_on: Callable[[int, Change], Iterable[Optional[NodeState]]],
) -> Generator[None, None, int]:
    """The sum over all ranks of *changes* of the most units in one of the states on each."""
    up = profile.pool.situation.index.up
    idle = profile.pool.inventory.idle_index.state_of
    best: dict[int, int] = {}
    for change in changes:
        wide = len(change.ranks) > _MOST_COUNTED
        for rank in change.ranks:
            if up[rank]:
                states = (idle[rank],) if wide else states_on(rank, change)
                gained = max(units.on(rank, state) for state in states)
                best[rank] = max(best.get(rank, 0), gained)
            if profile.meter.spend(0 if wide else LOOK):
                yield
        if wide and profile.meter.spend(len(change.ranks) // 8):
            yield
    return sum(best.values())
