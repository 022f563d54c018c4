"""The search: the earliest start of a waiting job in the profile.

What is free only grows when something ends, so these are the times to try. Most are ruled out by
numbers alone (supply.py). At the others the search looks at the nodes: it counts the units of the
request that they could serve, and only when there are enough is a choice made. Where jobs are small
many times have to be tried, so several are tried at once: twice as many each time, and once there
are enough units for some of them, half as many each time. This is how the *shadow time* of a job is
found in the backfill literature.
"""

from __future__ import annotations

import math
from itertools import chain, islice
from typing import Generator, Iterator, NamedTuple, Optional

from treepool.placement.choose.selection import Choice, Selection
from treepool.placement.plan.jobs import Sight, Waiting
from treepool.placement.plan.views import Units, View, Views
from treepool.placement.request.vertices import Request
from treepool.rfc import idset

#: How many times it is tried to place a request that needs a search on nodes, before the time after
#: all ends is taken.
TRIES = 8


class Start(NamedTuple):
    """A selection for a request, and when its resources are free."""

    time: float
    selection: Selection


def earliest_start(
    views: Views,
    job: Waiting,
    sight: Sight,
    begin: float,
    before: float = math.inf,
    own: float = math.inf,
) -> Generator[None, None, Optional[Start]]:
    """The earliest start of *job* from *begin* on and before *before*, None if there is none.

    The job asks for its strict request until its patience ends, and then for the relaxed one. What
    *job* has reserved, which begins at *own*, counts as free by its *sight*.
    """
    first = None
    if begin < job.patience:
        until = before if job.job_class.relaxed is None else min(before, job.patience)
        first = yield from _earliest(views, job, job.request, sight, begin, until, own)
    if first is None and job.job_class.relaxed is not None:
        begin = max(begin, job.patience)
        first = yield from _earliest(views, job, job.relaxed, sight, begin, before, own)
    return first


def _earliest(
    views: Views,
    job: Waiting,
    request: Request,
    sight: Sight,
    begin: float,
    before: float,
    own: float,
) -> Generator[None, None, Optional[Start]]:
    """As ``earliest_start`` for one *request*."""
    profile = views.profile
    # How long it would be if it ends with its window depends on its start.
    length = job.length if job.until == math.inf else 0.0
    units = Units(request, profile)
    cores, gpus = units.least
    view, tries, time = None, 0, begin
    known: object = None
    times: Iterator[float] = iter(())
    number, growing = 1, True
    while True:
        supply = yield from profile.settled(units.within, sight.preempts)
        if known != (supply, supply.version):
            known = supply, supply.version
            times = supply.starts(time, length - sight.tail, cores, gpus, before, own)
        some = list(islice(times, number))
        if not some:
            break
        time, last = some[0], some[-1]
        # What ends before the last of them, and what begins after an end of the first, is left out.
        if view is None:
            view = yield from views.at(last, job.end(time), sight)
            yield from views.count(view, units)
        else:
            yield from views.turn(view, last, job.end(time), sight)
        if view.free < units.need:  # nor are there enough at any of these times
            time = last
            number = number * 2 if growing else max(1, number // 2)
            continue
        growing = last == time
        if not growing:
            times, number = chain(some, times), len(some) // 2
            continue
        choice = yield from views.choice(view, request)
        job.job_class.gave_up = choice.gave_up
        if choice.selection is not None and time > begin and not job.job_class.searched:
            choice = yield from _sparing(views, view, request, choice)
        if choice.selection is not None:
            found = Start(view.start, choice.selection)
            if sight.preempts and profile.yields.upto(time):
                found = yield from _without_preempting(views, view, request, found)
            views.keep(view)
            return found
        tries, number = tries + 1, 1
        if not units.exact:
            units.become_exact()
            yield from views.count(view, units)
        if tries >= TRIES and job.job_class.searched:
            known, time = None, max(time, profile.ends.last)
            if time == view.start:
                break
    if view is not None:
        views.keep(view)
    return None


def _without_preempting(
    views: Views, view: View, request: Request, found: Start
) -> Generator[None, None, Start]:
    """*found*, for which preemptible jobs may have to end, or a start at the same time without."""
    yield from views.turn(view, found.time, view.end, view.sight._replace(preempts=False))
    choice = yield from views.choice(view, request)
    return found if choice.selection is None else Start(found.time, choice.selection)


def _sparing(
    views: Views, view: View, request: Request, choice: Choice
) -> Generator[None, None, Choice]:
    """*choice*, which *request* gets in *view*, or an equal one that takes fewer of the nodes which
    have now what they will have then: other jobs can use these meanwhile."""
    now = views.profile.pool.situation.index.buckets
    there = view.situation.index
    spare = idset.union(ranks & now.get(state, 0) for state, ranks in there.buckets.items())
    if choice.selection is None or not spare & choice.selection.ranks:
        return choice
    return (yield from views.choice(views.like(view, there.deferring(spare)), request))
