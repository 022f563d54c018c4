"""A line: the waiting jobs of a Flux queue and its virtual queues; who gets the next reservation.

Jobs without a reservation stand in groups of one class, and in these by their length: what waits
is tried once per class and length. Places are kept instead of jobs: a place has the job id.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from heapq import merge
from itertools import chain, islice
from typing import Iterator, Mapping, Optional, Union

from treepool.placement.plan.jobs import JobClass, Place, Rule, Waiting

#: Most jobs in a block of a group.
_BLOCK = 64


class Group:
    """The jobs of one class in one line that have no reservation, in the order of the line; and
    which of those that are shorter than some length comes first.

    They may be tens of thousands, and all of another length.
    """

    def __init__(self, job_class: JobClass, line: Line) -> None:
        self.job_class = job_class
        self.line = line
        self.places: list[Place] = []
        #: The jobs by length, in blocks; of each block the last job, and the first place.
        self._blocks: list[list[tuple[float, Place]]] = []
        self._lasts: list[tuple[float, Place]] = []
        self._firsts: list[Place] = []

    def add(self, job: Waiting) -> None:
        """Add *job*."""
        insort(self.places, job.place)
        if not self._blocks:
            self._set(0, 0, [[(job.length, job.place)]])
            return
        i = min(bisect_left(self._lasts, (job.length, job.place)), len(self._lasts) - 1)
        block = self._blocks[i]
        insort(block, (job.length, job.place))
        half = len(block) // 2
        self._set(i, i + 1, [block] if len(block) <= _BLOCK else [block[:half], block[half:]])

    def remove(self, job: Waiting) -> None:
        """Remove *job*."""
        del self.places[bisect_left(self.places, job.place)]
        i = bisect_left(self._lasts, (job.length, job.place))
        block = self._blocks[i]
        del block[bisect_left(block, (job.length, job.place))]
        self._set(i, i + 1, [block] if block else [])

    def _set(self, start: int, end: int, blocks: list[list[tuple[float, Place]]]) -> None:
        """Replace the blocks from number *start* up to number *end*."""
        self._blocks[start:end] = blocks
        self._lasts[start:end] = [block[-1] for block in blocks]
        self._firsts[start:end] = [min(place for _, place in block) for block in blocks]

    def first(self, shorter: float = math.inf) -> Optional[Place]:
        """The place of the first job that is *shorter* than so many seconds; None if none is."""
        if shorter == math.inf:
            return self.places[0] if self.places else None
        i = bisect_left(self._lasts, (shorter, ()))
        partly = self._blocks[i] if i < len(self._blocks) else ()
        able = (place for length, place in partly if length < shorter)
        return min(chain(self._firsts[:i], able), default=None)

    def next(self) -> Optional[Place]:
        """The place of the next job that may be able to start; None if there is none.

        Under fifo none is, but once somebody has to see whether the class can be served at all.
        """
        servable = self.job_class.servable
        if servable is False or (servable and self.line.rule.policy == "fifo"):
            return None
        return self.first(self.job_class.stuck_from)


class Line:
    """The waiting jobs of a line, which follow *rule*; *jobs* are those of all lines."""

    def __init__(self, name: str, rule: Rule, jobs: Mapping[int, Waiting]) -> None:
        self.name = name
        self.rule = rule
        self._jobs = jobs
        #: All jobs without a reservation, and the same by class; and those that have one.
        self._others: list[Place] = []
        self.groups: dict[JobClass, Group] = {}
        self.reserved: list[Place] = []
        #: Those of them that wait only for jobs that they preempt.
        self.preempting: set[int] = set()

    def add(self, job: Waiting) -> Group:
        """Add *job*, which has no reservation; returns its group."""
        insort(self._others, job.place)
        group = self.groups.setdefault(job.job_class, Group(job.job_class, self))
        group.add(job)
        return group

    def remove(self, job: Waiting) -> None:
        """Remove *job*, which has no reservation."""
        del self._others[bisect_left(self._others, job.place)]
        group = self.groups[job.job_class]
        group.remove(job)
        if not group.places:
            del self.groups[job.job_class]

    def reserve(self, job: Waiting) -> None:
        """Take note that *job* has a reservation now."""
        self.remove(job)
        insort(self.reserved, job.place)

    def unreserve(self, job: Waiting) -> None:
        """Take note that *job* has no reservation any more, and leaves the line."""
        del self.reserved[bisect_left(self.reserved, job.place)]

    def behind(self, place: Place) -> list[Place]:
        """The jobs with a reservation behind *place*, in order."""
        return self.reserved[bisect_left(self.reserved, place) :]

    def passes(self, place: Place) -> bool:
        """Whether a job at *place* is ahead of one that has a reservation."""
        return bool(self.reserved) and place < self.reserved[-1]

    def keeps_order(self, old: Place, new: Place) -> bool:
        """Whether a job with a reservation passes none if it moves from *old* to *new*, and no job
        without one passes it."""
        others = [place for place in self.reserved if place != old]
        same = bisect_left(others, old) == bisect_left(others, new)
        return same and not (self._others and self._others[0] < new)

    def in_order(self) -> Iterator[Waiting]:
        """The jobs that can be served, as far as is known, in order."""
        reserved = filter(self._is_servable, self.reserved)
        return (self._jobs[place[1]] for place in merge(reserved, self._others_in_order()))

    def _others_in_order(self) -> Iterator[Place]:
        """The jobs without a reservation that can be served, as far as is known, in order.

        Tens of thousands may be between two of them that wait for nodes that are down.
        """
        passed = 0
        for place in self._others:
            if self._is_servable(place):
                yield place
                continue
            passed += 1
            if passed > len(self.groups):
                able = [group.places for group in self._able()]
                yield from merge(*(places[bisect_left(places, place) :] for places in able))
                return

    def _able(self) -> Iterator[Group]:
        """The groups of jobs that can be served, as far as is known."""
        return (group for own, group in self.groups.items() if own.servable is not False)

    def _is_servable(self, place: Place) -> bool:
        return self._jobs[place[1]].job_class.servable is not False

    def head(self) -> Optional[Waiting]:
        """The first job that can be served, as far as is known."""
        reserved = next(filter(self._is_servable, self.reserved), None)
        both = (place for place in (reserved, self._first_other()) if place is not None)
        place = min(both, default=None)
        return None if place is None else self._jobs[place[1]]

    def _first_other(self) -> Optional[Place]:
        """The first job without a reservation that can be served, as far as is known."""
        for place in islice(self._others, 1 + len(self.groups)):
            if self._is_servable(place):
                return place
        return min((group.places[0] for group in self._able()), default=None)

    def next(self) -> Optional[Place]:
        """The place of the job that is next to get a reservation; None if none is to get one."""
        if len(self.reserved) - len(self.preempting) >= self.rule.reservations:
            return None
        return self._first_other()


#: What the next job to look at may come from.
Source = Union[Group, Line]
