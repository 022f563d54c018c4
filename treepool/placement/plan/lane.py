"""A lane: waiting jobs of one kind and queue, in their order.

The jobs are in blocks that know their shortest job, so the next job that is short enough is found
without looking at all that are not. A hundred thousand jobs may wait in one lane.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from typing import Iterator, Optional

from treepool.placement.plan.jobs import Kind, Place, Waiting

#: Most jobs of a block.
_MAX_BLOCK = 512


class _Block:
    """Jobs in their order; ``shortest`` is not more than the length of any."""

    __slots__ = ("jobs", "shortest")

    def __init__(self, jobs: list[tuple[Place, Waiting]]) -> None:
        self.jobs = jobs
        self.shortest = min((job.length for _, job in jobs), default=math.inf)


class Lane:
    """Waiting jobs of one kind in one queue."""

    __slots__ = ("kind", "_blocks", "_firsts")

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self._blocks: list[_Block] = []
        #: The place of the first job of each block.
        self._firsts: list[Place] = []

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def add(self, job: Waiting) -> None:
        """Add *job*."""
        entry = job.place, job
        if not self._blocks:
            self._blocks, self._firsts = [_Block([entry])], [job.place]
            return
        number = max(0, bisect_right(self._firsts, job.place) - 1)
        block = self._blocks[number]
        insort(block.jobs, entry)
        block.shortest = min(block.shortest, job.length)
        self._firsts[number] = block.jobs[0][0]
        if len(block.jobs) > _MAX_BLOCK:
            half = _Block(block.jobs[_MAX_BLOCK // 2 :])
            self._blocks[number : number + 1] = [_Block(block.jobs[: _MAX_BLOCK // 2]), half]
            self._firsts.insert(number + 1, half.jobs[0][0])

    def remove(self, job: Waiting) -> None:
        """Remove *job*, which is here."""
        number = bisect_right(self._firsts, job.place) - 1
        block = self._blocks[number]
        del block.jobs[bisect_left(block.jobs, (job.place,))]
        if not block.jobs:
            del self._blocks[number], self._firsts[number]
            return
        self._firsts[number] = block.jobs[0][0]
        if job.length == block.shortest:
            block.shortest = min(job.length for _, job in block.jobs)

    def jobs(self) -> Iterator[tuple[Place, Waiting]]:
        """The jobs with their places, in order."""
        for block in self._blocks:
            yield from block.jobs

    def first(self, after: Optional[Place] = None, shorter: float = math.inf) -> Optional[Waiting]:
        """The first job behind the place *after* that is *shorter* than so many seconds."""
        number = start = 0
        if after is not None:
            number = max(0, bisect_right(self._firsts, after) - 1)
            if self._blocks:
                jobs = self._blocks[number].jobs
                start = bisect_left(jobs, (after,))
                start += start < len(jobs) and jobs[start][0] == after
        for block in self._blocks[number:]:
            if block.shortest < shorter:
                for place in range(start, len(block.jobs)):
                    job = block.jobs[place][1]
                    if job.length < shorter:
                        return job
            start = 0
        return None
