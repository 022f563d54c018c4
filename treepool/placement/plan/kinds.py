"""The kinds of the waiting jobs: jobs of one kind differ only in their duration."""

from __future__ import annotations

import math
from typing import Generator, Iterator, Optional

import attrs

from treepool.placement.choose.strict import relaxed
from treepool.placement.plan.course import Use
from treepool.placement.plan.future import Holder
from treepool.placement.plan.gains import Gain
from treepool.placement.plan.jobs import Kind, Waiting
from treepool.placement.plan.timeline import Timeline
from treepool.placement.pool import Pool
from treepool.placement.request.vertices import Request


class Kinds:
    """The kinds of the jobs that wait for resources of *pool*, and how many of each wait."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._kinds: dict[tuple[Request, frozenset[Holder], Optional[Request]], Kind] = {}

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds.values())

    def of(
        self,
        request: Request,
        leave: frozenset[Holder] = frozenset(),
        later: Optional[Request] = None,
    ) -> Kind:
        """The kind of a job that asks for *request*, and *later* for a relaxed one, if not None."""
        plain = attrs.evolve(request, duration=0.0)
        return self._kinds.get((plain, leave, later)) or Kind(plain, leave, later)

    def waiting(
        self,
        jobid: int,
        priority: int,
        request: Request,
        leave: frozenset[Holder],
        queue: str,
        submitted: float,
        now: float,
    ) -> Waiting:
        """A job as it is *now*: strict while its patience lasts, relaxed afterwards."""
        last = relaxed(request)
        if now < submitted + request.wait:
            first = attrs.evolve(self._pool.strict(request), duration=request.duration)
            if first != last:
                kind = self.of(first, leave, attrs.evolve(last, duration=0.0))
                patience = submitted + request.wait
                return Waiting(jobid, priority, first, kind, queue, patience)
        return Waiting(jobid, priority, last, self.of(last, leave), queue)

    def relaxed(self, job: Waiting) -> Waiting:
        """*job* as it is when its patience has ended."""
        kind = self.of(job.relaxed, job.kind.leave)
        return attrs.evolve(job, request=job.relaxed, kind=kind, patience=math.inf)

    def acquire(self, kind: Kind) -> None:
        """Count one more waiting job of *kind*."""
        if kind.njobs == 0:
            kind.forget()
            self._kinds[kind.request, kind.leave, kind.relaxed] = kind
        kind.njobs += 1

    def release(self, kind: Kind) -> None:
        """Count one waiting job of *kind* less."""
        kind.njobs -= 1
        if kind.njobs == 0:
            self._kinds.pop((kind.request, kind.leave, kind.relaxed), None)

    def reconsider(self, gain: Gain, timeline: Timeline, now: float) -> Iterator[None]:
        """Forget what is known about the kinds that *gain* may help."""
        soon = math.nextafter(now, math.inf)
        for kind in list(self):
            if kind.stuck < math.inf:
                uses = yield from _uses(gain, timeline, kind, kind.stuck, now, soon)
                kind.lacking -= sum(use.units for use in uses)
                if kind.lacking <= 0:
                    kind.stuck = math.inf
            for floor in kind.floors:
                if floor.time > now and (
                    yield from _uses(gain, timeline, kind, floor.length, now, floor.time)
                ):
                    kind.floors = []
                    break


def _uses(
    gain: Gain, timeline: Timeline, kind: Kind, length: float, now: float, before: float
) -> Generator[None, None, list[Use]]:
    """What jobs of *kind* could use of *gain*."""
    request, leave = kind.request, kind.leave
    ranks = yield from gain.serving(timeline, request.ask, length, leave, now, before)
    if timeline.should_yield(1):
        yield
    if not ranks:
        return []
    return (yield from gain.uses(timeline, ranks, request, length, leave, now, before))
