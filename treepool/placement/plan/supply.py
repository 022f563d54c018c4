"""The supply: how many cores and GPUs are free over time, which rules out most starts at once.

The numbers say nothing of where these cores and GPUs are. A request can start only while there are
as many as it takes at least; whether it does then, the search finds out (search.py). To look at a
number for each time costs a thousandth of looking at the nodes.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from itertools import accumulate, compress
from typing import TYPE_CHECKING, Iterator, NamedTuple, Optional

from treepool.placement.nodes.inventory import Inventory
from treepool.placement.plan.jobs import Holder
from treepool.rfc import idset

if TYPE_CHECKING:
    from treepool.placement.plan.profile import Holding


class Curve(NamedTuple):
    """Times, ascending; what is free from each of them on; and whether something ends there."""

    times: list[float]
    cores: list[int]
    gpus: list[int]
    ends: list[bool]


class Supply:
    """The free cores and GPUs of the ranks *within* (bitmask) of *inventory*, all of which are up.

    They are never less than what is free. What windows have counts as free: jobs that run when one
    begins hold the same cores.
    """

    def __init__(self, inventory: Inventory, within: int) -> None:
        self._within = within
        sizes = [(t.root, idset.size(ranks & within)) for t, ranks in inventory.node_types.items()]
        #: What is free before all events. An event is a time, how many more or fewer cores and
        #: GPUs are free from then on, and whether something ends.
        self._cores = sum(root.ncores * nodes for root, nodes in sizes)
        self._gpus = sum(idset.size(root.gpus) * nodes for root, nodes in sizes)
        self._events: list[tuple[float, int, int, bool]] = []
        self._curve: Optional[Curve] = None

    def add(self, holder: Holder, holding: Holding) -> None:
        """Count what *holder* holds."""
        for event in self._events_of(holder, holding, 1):
            insort(self._events, event)

    def remove(self, holder: Holder, holding: Holding) -> None:
        """Count it no more."""
        for event in self._events_of(holder, holding, -1):
            del self._events[bisect_left(self._events, event)]

    def _events_of(
        self, holder: Holder, holding: Holding, sign: int
    ) -> Iterator[tuple[float, int, int, bool]]:
        """The events of a holding, which comes if *sign* is 1 and goes if it is -1."""
        if not holding.ranks & self._within:
            return
        cores = gpus = 0
        for ranks, its_cores, its_gpus in () if isinstance(holder, str) else holding.parts:
            nodes = idset.size(ranks & self._within)
            cores += nodes * idset.size(its_cores)
            gpus += nodes * idset.size(its_gpus)
        yield holding.end, cores, gpus, True
        if holding.planned:
            yield holding.start, -cores, -gpus, False
        else:
            self._cores -= sign * cores
            self._gpus -= sign * gpus
        self._curve = None

    @property
    def curve(self) -> Curve:
        """What is free over time; another object once that has changed."""
        if self._curve is None:
            events = self._events
            times = [-math.inf, *(time for time, _, _, _ in events)]
            cores = list(accumulate((c for _, c, _, _ in events), initial=self._cores))
            gpus = list(accumulate((g for _, _, g, _ in events), initial=self._gpus))
            ends = [False, *(end for _, _, _, end in events)]
            # Of several events at one time the last one says what is free; ends come after starts.
            last = [now != then for now, then in zip(times, times[1:])] + [True]
            values = (list(compress(each, last)) for each in (times, cores, gpus, ends))
            self._curve = Curve(*values)  # type: ignore[arg-type]
        return self._curve


def starts(
    curve: Curve, begin: float, length: float, cores: int, gpus: int, before: float, until: float
) -> Iterator[float]:
    """Of *begin* and the later ends of *curve* that are before *before*, those from which so many
    *cores* and *gpus* are free for *length* seconds, or until *until*."""
    times, free_cores, free_gpus, ends = curve
    number, place = len(times), bisect_right(times, begin) - 1
    upto, time = place, begin  # all is well between these two
    while time < before:
        end = min(time + length, until)
        while upto < number and times[upto] < end:
            if free_cores[upto] < cores or free_gpus[upto] < gpus:
                break
            upto += 1
        else:
            yield time
        place = upto if upto < number and times[upto] < end else place + 1
        while place < number and (
            not ends[place] or free_cores[place] < cores or free_gpus[place] < gpus
        ):
            place += 1
        if place == number:
            return
        time, upto = times[place], max(upto, place)
