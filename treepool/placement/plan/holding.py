"""Holdings: what one holder holds from one time to another; and their starts or ends in order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import attrs

from treepool.placement.nodes.state import Held
from treepool.placement.plan.future import Holder, Span


@attrs.frozen(eq=False)
class Holding:
    """All spans of one holder. The ``start`` of a running job is PRESENT.

    ``serial`` is unique, and ascends in the order in which holdings are added.
    """

    holder: Holder
    start: float
    end: float
    parts: tuple[Held, ...]
    serial: int
    #: The ranks of all parts.
    ranks: tuple[int, ...]

    def span(self, cores: int, gpus: int) -> Span:
        """The span with *cores* and *gpus* on each of its ranks.

        The hash is that of a text. Those of tuples are no good: the sums of two of them, and of the
        two with the last elements exchanged, are often equal.
        """
        known = hash(f"{self.serial} {cores:x} {gpus:x}")
        return Span(self.start, self.end, cores, gpus, self.holder, known)


class Times:
    """The starts or the ends of holdings: ``times``, ascending, and ``entries`` to match.

    An entry has the serial and the ranks of a holding. Entries of equal times ascend by serial.
    """

    __slots__ = ("times", "entries")

    def __init__(self) -> None:
        self.times: list[float] = []
        self.entries: list[tuple[int, tuple[int, ...]]] = []

    def add(self, time: float, holding: Holding) -> None:
        """Add a time of *holding*, which has the highest serial."""
        i = bisect_right(self.times, time)
        self.times.insert(i, time)
        self.entries.insert(i, (holding.serial, holding.ranks))

    def remove(self, time: float, holding: Holding) -> None:
        """Remove a time of *holding* that was added."""
        i = self._index(time, holding)
        del self.times[i], self.entries[i]

    def replace(self, time: float, holding: Holding) -> None:
        """Take *holding* for the one with its serial that was added."""
        self.entries[self._index(time, holding)] = (holding.serial, holding.ranks)

    def _index(self, time: float, holding: Holding) -> int:
        same = bisect_left(self.times, time), bisect_right(self.times, time)
        return bisect_left(self.entries, (holding.serial,), *same)
