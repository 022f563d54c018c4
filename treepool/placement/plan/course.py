"""Courses: how close a job came to an earlier start, and when more room may allow one."""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import NamedTuple, Optional

#: Most parts of a course.
_MAX_PARTS = 128


class Use(NamedTuple):
    """Units of a request that nodes with more room could serve if it starts between two times."""

    start: float
    end: float
    units: int


class Course:
    """An upper bound of the free units of a request, for each part of the time before its start.

    The request needs ``need`` units. Parts reach that number only where uses were added.
    """

    __slots__ = ("need", "_starts", "_most")

    def __init__(self, need: int, like: Optional[Course] = None) -> None:
        self.need = need
        self._starts: list[float] = like._starts.copy() if like else []
        self._most: list[int] = like._most.copy() if like else []

    def note(self, time: float, units: int) -> None:
        """Note that at most *units*, too few, are free from *time* on. It is the latest time."""
        self._append(time, min(units, self.need - 1))
        self._simplify()

    def add(self, use: Use) -> None:
        """Note that the units of *use* may be free in addition."""
        for i in range(self._split(use.start), self._split(use.end)):
            self._most[i] += use.units
        self._simplify()

    def reopen(self, now: float) -> None:
        """Add a part from *now* on if the first begins later, because the clock was set back.

        Perhaps it lacks a single unit.
        """
        if not self._starts or now < self._starts[0]:
            self._starts.insert(0, now)
            self._most.insert(0, self.need - 1)

    def chance(self, now: float) -> Optional[tuple[float, float]]:
        """The first period, not over at *now*, in which enough units may be free; None if none."""
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
        """Replace the parts from *begin* up to *end* by *other*, which was made for this time."""
        first, last = self._split(begin), self._split(end)
        self._starts[first:last] = other._starts
        self._most[first:last] = other._most
        self._simplify()

    def cut(self, time: float) -> None:
        """Forget the parts from *time* on."""
        i = bisect_left(self._starts, time)
        del self._starts[i:], self._most[i:]

    def _split(self, time: float) -> int:
        """Split a part at *time*, if need be; returns the index of the part that begins there.

        The first part began in what was the present then, so no part is made before it.
        """
        i = bisect_left(self._starts, time)
        if i > 0 and (i == len(self._starts) or self._starts[i] > time):
            self._starts.insert(i, time)
            self._most.insert(i, self._most[i - 1])
        return i

    def _append(self, time: float, most: int) -> None:
        if self._most and self._most[-1] == most:
            return
        self._starts.append(time)
        self._most.append(most)

    def _simplify(self) -> None:
        """Join parts if there are too many: those that lack similar numbers, otherwise pairs."""
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
