"""The kinds of the jobs that wait: jobs whose requests differ only in their duration."""

from __future__ import annotations

import math
from typing import Iterator, Optional

import attrs

from treepool.placement.choose.strict import relaxed
from treepool.placement.plan.future import Holder
from treepool.placement.plan.jobs import Kind, Waiting
from treepool.placement.pool import Pool
from treepool.placement.request.vertices import Request


class Kinds:
    """The kinds of which jobs wait for resources of *pool*."""

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
        """The kind of a job with *request*, and *later* a relaxed one; equal ones share it."""
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
        """A job as it is *now*: its request is strict if it has not waited for long enough."""
        last = relaxed(request)
        if now < submitted + request.wait:
            first = attrs.evolve(self._pool.strict(request), duration=request.duration)
            if first != last:
                kind = self.of(first, leave, attrs.evolve(last, duration=0.0))
                patience = submitted + request.wait
                return Waiting(jobid, priority, first, kind, queue, patience)
        return Waiting(jobid, priority, last, self.of(last, leave), queue)

    def relaxed(self, job: Waiting) -> Waiting:
        """*job* once it has waited for long enough."""
        kind = self.of(job.relaxed, job.kind.leave)
        return attrs.evolve(job, request=job.relaxed, kind=kind, patience=math.inf)

    def acquire(self, kind: Kind) -> None:
        """One more job of *kind* waits."""
        if kind.njobs == 0:
            kind.forget()
            self._kinds[kind.request, kind.leave, kind.relaxed] = kind
        kind.njobs += 1

    def release(self, kind: Kind) -> None:
        """One job less of *kind* waits."""
        kind.njobs -= 1
        if kind.njobs == 0:
            self._kinds.pop((kind.request, kind.leave, kind.relaxed), None)
