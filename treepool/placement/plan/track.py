"""Tracks: what is known about earlier starts of a job that has a reservation."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Iterator, Mapping

import attrs

from treepool.placement.jobs import ranks_in
from treepool.placement.nodes.state import Held
from treepool.placement.plan.course import Course, Use
from treepool.placement.plan.gains import Gain, Gains
from treepool.placement.plan.jobs import Reservation
from treepool.placement.plan.timeline import Change

#: Most gains that are kept to compute their uses again before a search.
_MAX_GAINED = 64


@attrs.define(eq=False)
class Track:
    """How close a job with a reservation comes to an earlier start.

    ``course`` includes all gains before number ``seen``. ``base`` is the course without the latest
    gains that are of use to the job, ``gained``. ``unfinished`` means that a move was left before
    the search was over. ``tried`` is the end of the timeline's journal when the job was last tried
    to start.
    """

    seen: int
    course: Course
    tried: int = -1
    unfinished: bool = False
    base: Course = attrs.field(factory=lambda: Course(0))
    gained: list[Gain] = attrs.field(factory=list)
    #: The last answer of ``gain_counts``, and the number of gains then.
    _counted: tuple[int, Mapping[int, int]] = (-1, {})

    def add(self, gain: Gain, uses: list[Use]) -> None:
        """Note the *uses* that the job has of *gain*."""
        if not uses:
            return
        if len(self.gained) >= _MAX_GAINED:
            self.gained.clear()
        if not self.gained:
            self.base = Course(self.course.need, self.course)
        self.gained.append(gain)
        for use in uses:
            self.course.add(use)

    def note_search(self, begin: float, end: float, course: Course) -> None:
        """Note the *course* of a search for starts from *begin* up to *end*."""
        self.gained.clear()
        self.course.replace(begin, end, course)

    def gain_counts(self, gains: Gains) -> Mapping[int, int]:
        """For each rank, the number of gains that ``base`` may not include."""
        if self._counted[0] != gains.end:
            unknown = *self.gained, *gains.since(self.seen)
            ranks = chain.from_iterable(gain.change.ranks for gain in unknown)
            self._counted = gains.end, Counter(ranks)
        return self._counted[1]


def room_left(old: Reservation, new: Reservation) -> Iterator[Change]:
    """Where there is more room after a reservation has moved from *old* to *new*."""
    held = {rank: (cores, gpus) for ranks, cores, gpus in new.parts for rank in ranks}
    kept: list[Held] = []
    others: list[Held] = []
    for ranks, cores, gpus in old.parts:
        same = tuple(rank for rank in ranks if held.get(rank) == (cores, gpus))
        left = tuple(rank for rank in ranks if held.get(rank) != (cores, gpus))
        if same:
            kept.append((same, cores, gpus))
        if left:
            others.append((left, cores, gpus))
    if others:
        yield Change(old.start, old.end, ranks_in(others), tuple(others))
    if kept and new.end < old.end:
        yield Change(max(old.start, new.end), old.end, ranks_in(kept), tuple(kept))
