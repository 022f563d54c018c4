"""A lane: the waiting jobs of one kind in one line, in order.

A hundred thousand jobs may wait in one lane. They are in blocks, and a block without a job that is
short enough is skipped as a whole.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from itertools import islice
from typing import Iterator, Optional

from treepool.placement.plan.jobs import Kind, Place, Waiting

#: Most jobs of a block.
_MAX_BLOCK = 512


class _Block:
    """Jobs in order. None is shorter than ``shortest``."""

    __slots__ = ("jobs", "shortest")

    def __init__(self, jobs: list[tuple[Place, Waiting]]) -> None:
        self.jobs = jobs
        self.shortest = min((job.length for _, job in jobs), default=math.inf)


class Lane:
    """The waiting jobs of one kind in one line."""

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
        """Remove *job*, which is in the lane."""
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
        """The first job behind the place *after* with a length below *shorter*, in seconds."""
        number = begin = 0
        if after is not None:
            number = max(0, bisect_right(self._firsts, after) - 1)
            if self._blocks:
                jobs = self._blocks[number].jobs
                begin = bisect_left(jobs, (after,))
                begin += begin < len(jobs) and jobs[begin][0] == after
        for block in self._blocks[number:]:
            if block.shortest < shorter:
                for _, job in islice(block.jobs, begin, None):
                    if job.length < shorter:
                        return job
            begin = 0
        return None
