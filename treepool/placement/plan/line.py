"""Lines: the waiting jobs of one Flux queue, in order, and the rule that they follow."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, insort
from typing import Iterator, Optional

import attrs

from treepool.placement.plan.jobs import Kind, Place, Waiting
from treepool.placement.plan.lane import Lane

#: The policies of a line, and how many of its waiting jobs get a start time by default. Under fifo
#: these times are only estimates, because no job passes the first one that waits.
POLICIES: dict[str, float] = {"fifo": 8, "easy": 1, "conservative": 64}

#: Jobs whose requests are relaxed, or whose reservations are given up, between two yields.
STRIDE = 64


@attrs.frozen
class Rule:
    """The rule of a line: its policy, and how many of its jobs may have a reservation."""

    policy: str = "fifo"
    depth: float = POLICIES["fifo"]


#: The rule of lines for which none is given.
FIFO = Rule()


class Line:
    """The waiting jobs of one Flux queue."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        #: The jobs without a reservation, by kind, and those that have one, in order.
        self.lanes: dict[Kind, Lane] = {}
        self.reserved: list[tuple[Place, Waiting]] = []
        #: Jobs (by id) without a reservation that came ahead of some that have one.
        self.overriding: set[int] = set()
        #: Jobs that lost their reservation while others behind them had one. These must not gain
        #: from the loss.
        self.fallen: set[int] = set()

    @property
    def reserving(self) -> bool:
        """Whether one more job may get a reservation."""
        return self.rule.policy != "fifo" and len(self.reserved) < self.rule.depth

    def add(self, job: Waiting) -> None:
        """Add *job*, which has no reservation."""
        lane = self.lanes.get(job.kind)
        if lane is None:
            lane = self.lanes[job.kind] = Lane(job.kind)
        lane.add(job)

    def remove(self, job: Waiting) -> None:
        """Remove *job*, which has no reservation."""
        lane = self.lanes[job.kind]
        lane.remove(job)
        if not lane:
            del self.lanes[job.kind]
        self.overriding.discard(job.jobid)
        self.fallen.discard(job.jobid)

    def reserve(self, job: Waiting) -> None:
        """Move *job*, which now has a reservation, to those that have one."""
        self.remove(job)
        insort(self.reserved, (job.place, job))

    def unreserve(self, job: Waiting) -> None:
        """Remove *job*, which had a reservation."""
        del self.reserved[bisect_left(self.reserved, (job.place,))]

    def behind(self, job: Waiting) -> list[Waiting]:
        """The jobs with a reservation that are behind *job*."""
        return [other for place, other in self.reserved if place > job.place]

    def head(self) -> Optional[Waiting]:
        """The first job that can be served, as far as is known; None if there is none."""
        return next(self.in_order(), None)

    def in_order(self) -> Iterator[Waiting]:
        """All jobs that can be served, as far as is known, in order."""
        lanes = [lane.jobs() for lane in self.lanes.values() if lane.kind.servable is not False]
        return (job for _, job in heapq.merge(self.reserved, *lanes))

    def next(self, lane: Lane, after: Optional[Place] = None) -> Optional[Waiting]:
        """The next job of *lane* behind *after* that may start or get a reservation, if any."""
        if lane.kind.servable is False:
            return None
        if self.rule.policy == "fifo":
            job = lane.first(after)
            passed = job and self.reserved and job.place > self.reserved[0][0]
            return None if passed else job
        return lane.first(after, math.inf if self.reserving else lane.kind.stuck)
