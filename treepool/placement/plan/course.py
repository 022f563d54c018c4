"""How close a job came to an earlier start, and whether more room elsewhere may bring it there."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from typing import Iterator, NamedTuple, Optional

#: Most parts of a course, and most uses that are told apart.
_MAX_PARTS = 32
_MAX_USES = 16


class Use(NamedTuple):
    """Units of a request that nodes with more room could serve, if it starts between two times."""

    start: float
    end: float
    units: int


#: No use.
NO_USE = Use(math.inf, -math.inf, 0)


class Course:
    """The most units of a request that were free in each part of the time before its start.

    ``need`` units are wanted, which were not free together at any of these times. Parts with a
    similar shortage are one.
    """

    __slots__ = ("need", "_starts", "_most")

    def __init__(self, need: int) -> None:
        self.need = need
        self._starts: list[float] = []
        self._most: list[int] = []

    def note(self, time: float, units: int) -> None:
        """From *time* on, later than all times before, up to *units* are free."""
        most = self._most
        if most and self._lack(most[-1]) == self._lack(units):
            most[-1] = max(most[-1], units)
            return
        if len(most) >= _MAX_PARTS:
            self._starts = self._starts[::2]
            self._most = most = [max(most[i : i + 2]) for i in range(0, len(most), 2)]
        self._starts.append(time)
        most.append(units)

    def _lack(self, units: int) -> int:
        return max(0, self.need - units).bit_length()

    def replaced(self, begin: float, end: float, other: Course) -> Course:
        """This course with that of *other* from *begin* up to *end*."""
        new = Course(self.need)
        first, last = bisect_left(self._starts, begin), bisect_right(self._starts, end) - 1
        for place in range(first):
            new.note(self._starts[place], self._most[place])
        for start, most in zip(other._starts, other._most):
            new.note(max(start, begin), most)
        if last >= 0:
            new.note(end, self._most[last])
        for place in range(max(last + 1, first), len(self._starts)):
            new.note(self._starts[place], self._most[place])
        return new

    def chance(self, uses: list[Use], end: float) -> Optional[tuple[float, float]]:
        """Between which times before *end* there may be enough, with *uses* in addition."""
        begin, last = math.inf, -math.inf
        for start, stop, most, those in self._parts(uses, end):
            if those and most + sum(use.units for use in those) >= self.need:
                begin = min(begin, max(start, min(use.start for use in those)))
                last = max(last, min(stop, max(use.end for use in those)))
        return (begin, last) if begin < last else None

    def raised(self, uses: list[Use], end: float) -> Course:
        """This course up to *end* with *uses* in addition."""
        new = Course(self.need)
        for start, _, most, those in self._parts(uses, end):
            new.note(start, most + sum(use.units for use in those))
        return new

    def _parts(self, uses: list[Use], end: float) -> Iterator[tuple[float, float, int, list[Use]]]:
        """The parts: from when to when, the units free, and the uses in this time."""
        for start, stop, most in zip(self._starts, [*self._starts[1:], end], self._most):
            yield start, stop, most, [u for u in uses if u.start < stop and u.end > start]


def gathered(uses: list[Use]) -> list[Use]:
    """*uses*, or one use that stands for them all if they are many."""
    if len(uses) <= _MAX_USES:
        return uses
    start, end = min(use.start for use in uses), max(use.end for use in uses)
    return [Use(start, end, sum(use.units for use in uses))]
