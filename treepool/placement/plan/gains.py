"""Gains: where there is more room than before, and what waiting jobs could use of it."""

from __future__ import annotations

import math
from typing import Generator

import attrs

from treepool.placement.on_node.fit import NOTHING, assess
from treepool.placement.plan.course import NO_USE, Use
from treepool.placement.plan.earliest import end_of
from treepool.placement.plan.jobs import Kind, Reservation
from treepool.placement.plan.timeline import Change, Holder, Timeline
from treepool.rfc import idset

#: Work, in terms of Timeline.tired: finding out what a group of nodes could serve.
_WORK = 5

#: More units than any request needs.
_MANY = 1 << 40


#: From when on a node, or several alike, could serve more units of a request than at any earlier
#: start; and how many.
_Steps = tuple[tuple[float, int], ...]


@attrs.frozen(eq=False)
class Gain:
    """A change that made room, and what jobs could use of it.

    ``known`` has that by the kind and length of the jobs, and for starts before some time.
    """

    change: Change
    #: The ranks of the change, as a bitmask.
    ranks: int
    known: dict[tuple[Kind, float, float], tuple[_Steps, ...]] = attrs.field(factory=dict)


class Gains:
    """The gains of a timeline, in order; readers remember how far they have read.

    A *use* of a gain is what a job of some kind could use of its ranks for some seconds, where it
    starts from *now* on but before *before*. A job that could not start between two times before
    the change, because it lacked more units than the use has, still cannot; otherwise it may
    between the times of the use.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._gains: list[Gain] = []
        self._start = 0

    def __bool__(self) -> bool:
        return bool(self._gains)

    @property
    def end(self) -> int:
        """The number of gains so far."""
        return self._start + len(self._gains)

    def add(self, change: Change) -> None:
        """Add a change that made room."""
        self._gains.append(Gain(change, idset.from_ids(change.ranks)))

    def since(self, position: int) -> list[Gain]:
        """The gains from the number *position* on."""
        return self._gains[position - self._start :]

    def taken(self, ranks: int) -> None:
        """Note that somebody took some of the room on *ranks*, a bitmask."""
        for gain in self._gains:
            if gain.known and gain.ranks & ranks:
                gain.known.clear()

    def trim(self, position: int) -> None:
        """Forget the gains before the number *position*, which all have read."""
        del self._gains[: position - self._start]
        self._start = position

    def use(
        self, gain: Gain, kind: Kind, length: float, now: float, before: float
    ) -> Generator[None, None, Use]:
        """The use of *gain* by a job that has no reservation."""
        steps = yield from self._steps(gain.change, kind, length, now, before, kind.leave)
        return _use(steps, gain.change, now, before)

    def use_beside(
        self, gain: Gain, reservation: Reservation, now: float
    ) -> Generator[None, None, Use]:
        """The use of *gain* by the job of *reservation*, if it starts earlier than reserved."""
        job, change, before = reservation.job, gain.change, reservation.start
        if gain.ranks & reservation.ranks:
            leave = job.kind.leave | {job.jobid}
            steps = yield from self._steps(change, job.kind, job.length, now, before, leave)
        else:  # jobs of the same kind and length share the work
            last = self._timeline.last_start(before)
            key = job.kind, job.length, last
            known = gain.known.get(key)
            if known is None:
                args = change, job.kind, job.length, now, last, job.kind.leave
                known = gain.known[key] = yield from self._steps(*args)
            steps = known
        return _use(steps, change, now, before)

    def _steps(
        self,
        change: Change,
        kind: Kind,
        length: float,
        now: float,
        before: float,
        leave: frozenset[Holder],
    ) -> Generator[None, None, tuple[_Steps, ...]]:
        """What the groups of nodes of *change* could serve."""
        timeline, ask = self._timeline, kind.request.ask
        within = timeline.pool.inventory.matching(kind.request.constraint)
        up = timeline.pool.situation.index.up
        # The first start with which the job reaches into the change.
        first = max(now, math.nextafter(change.start - length, math.inf))
        last = min(before, change.end)  # a job that ends late makes room now
        groups = []
        for ranks in timeline.groups(change) if first < before else ():
            if within is None:
                count = sum(up[rank] for rank in ranks)
            else:
                count = sum(up[rank] and rank in within for rank in ranks)
            if not count:
                continue
            rank = ranks[0]
            ends = {span.end for span in timeline.spans(rank) if first < span.end < last}
            steps, most = [], 0
            for time in (first, *sorted(ends)):
                state = timeline.state(rank, time, end_of(time, length), leave)
                found = NOTHING if state is None else assess(state, ask)
                units = _MANY if found.gave_up else len(found.steps)
                if units > most:
                    most = units
                    steps.append((time, units * count))
                    if not ask.fill:
                        break
            if steps:
                groups.append(tuple(steps))
            if timeline.tired(_WORK):
                yield
        return tuple(groups)


def _use(groups: tuple[_Steps, ...], change: Change, now: float, before: float) -> Use:
    start, units = math.inf, 0
    for steps in groups:
        if steps[0][0] < before:
            start = min(start, steps[0][0])
            units += max(units for time, units in steps if time < before)
    if not units:
        return NO_USE
    return Use(start, max(min(before, change.end), math.nextafter(now, math.inf)), units)
