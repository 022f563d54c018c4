"""How close a job came to an earlier start, and when more room may bring it there."""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import NamedTuple, Optional

#: Most parts of a course.
_MAX_PARTS = 128


class Use(NamedTuple):
    """Units of a request that nodes with more room could serve, if it starts between two times."""

    start: float
    end: float
    units: int


class Course:
    """The most units of a request that may be free in each part of the time before its start.

    ``need`` units are wanted, and only where gains were added there may be as many.
    """

    __slots__ = ("need", "_starts", "_most")

    def __init__(self, need: int, like: Optional[Course] = None) -> None:
        self.need = need
        self._starts: list[float] = like._starts.copy() if like else []
        self._most: list[int] = like._most.copy() if like else []

    def note(self, time: float, units: int) -> None:
        """From *time* on, later than all times before, up to *units* are free: not enough."""
        self._append(time, min(units, self.need - 1))
        self._simplify()

    def add(self, use: Use) -> None:
        """Note that *use* may be made in addition."""
        for place in range(self._split(use.start), self._split(use.end)):
            self._most[place] += use.units
        self._simplify()

    def chance(self, now: float) -> Optional[tuple[float, float]]:
        """The first time after *now* without a break in which there may be enough."""
        begin = math.inf
        ends = [*self._starts[1:], math.inf]
        for start, end, most in zip(self._starts, ends, self._most):
            if most >= self.need:
                if end > now:
                    begin = min(begin, start)
            elif begin < math.inf:
                return begin, start
        return (begin, math.inf) if begin < math.inf else None

    def replace(self, begin: float, end: float, other: Course) -> None:
        """Take *other* for the time from *begin* up to *end*, for which it was made."""
        first, last = self._split(begin), self._split(end)
        self._starts[first:last] = other._starts
        self._most[first:last] = other._most
        self._simplify()

    def cut(self, time: float) -> None:
        """Forget the parts from *time* on."""
        place = bisect_left(self._starts, time)
        del self._starts[place:], self._most[place:]

    def _split(self, time: float) -> int:
        """The place of the part that begins at *time*, which is made if there is none.

        The parts do not reach back before the first one, which was in the present once.
        """
        place = bisect_left(self._starts, time)
        if place > 0 and (place == len(self._starts) or self._starts[place] > time):
            self._starts.insert(place, time)
            self._most.insert(place, self._most[place - 1])
        return place

    def _append(self, time: float, most: int) -> None:
        if self._most and self._most[-1] == most:
            return
        self._starts.append(time)
        self._most.append(most)

    def _simplify(self) -> None:
        """If there are many parts, join those with a similar lack, or else two each."""
        if len(self._starts) <= _MAX_PARTS:
            return
        parts = list(zip(self._starts, self._most))
        self._starts, self._most = [], []
        for start, most in parts:
            if self._most and self._lack(most) == self._lack(self._most[-1]):
                self._most[-1] = max(most, self._most[-1])
            else:
                self._append(start, most)
        if len(self._starts) > _MAX_PARTS // 2:
            self._starts = self._starts[::2]
            self._most = [max(self._most[i : i + 2]) for i in range(0, len(self._most), 2)]

    def _lack(self, units: int) -> int:
        return max(0, self.need - units).bit_length()
