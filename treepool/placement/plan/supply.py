"""The supply: how many cores and GPUs are free over time, which rules out most starts at once.

The numbers say nothing of where these cores and GPUs are. A request can start only while there are
as many as it takes at least; whether it does then, the search finds out (search.py). To look at a
number for each time costs a thousandth of looking at the nodes.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, Iterator, Mapping, Optional

from treepool.placement.nodes.inventory import Inventory
from treepool.placement.plan.jobs import Holder
from treepool.rfc import idset

if TYPE_CHECKING:
    from treepool.placement.plan.profile import Holding, Meter


class Supply:
    """The free cores and GPUs of the ranks *within* (bitmask) of *inventory*, all of which are up.

    They are never less than what is free. What windows have counts as free: jobs that run when one
    begins hold the same cores. Where jobs are preemptible, what is planned for those that preempt
    is theirs too: for a job that *preempts* preemptible jobs hold until they may be ended, and for
    one that does not, only they count. When either ends is a time to try. *holdings* are counted in
    steps, by ``settled``.
    """

    def __init__(
        self,
        inventory: Inventory,
        within: int,
        holdings: Mapping[Holder, Holding],
        preempts: Optional[bool] = None,
    ) -> None:
        self._within, self._preempts = within, preempts
        sizes = [(t.root, idset.size(ranks & within)) for t, ranks in inventory.node_types.items()]
        #: What is free before all events. An event is a time, how many more or fewer cores and
        #: GPUs are free from then on, and whether something ends.
        self.cores = sum(root.ncores * nodes for root, nodes in sizes)
        self.gpus = sum(idset.size(root.gpus) * nodes for root, nodes in sizes)
        self.events: list[tuple[float, int, int, bool]] = []
        #: When something is planned to begin, ascending: after the last, what is free only grows.
        self._begins: list[float] = []
        #: A number that grows with every change; and the holdings that are still to be counted.
        self.version = 0
        self._left = dict(holdings)

    def settled(self, meter: Meter) -> Iterator[None]:
        """Count what is still to be counted; yields now and then."""
        while self._left:
            self._count(*self._left.popitem(), 1)
            if meter.spend(1):
                yield

    def add(self, holder: Holder, holding: Holding) -> None:
        """Count what *holder* holds."""
        self._count(holder, holding, 1)

    def remove(self, holder: Holder, holding: Holding) -> None:
        """Count it no more."""
        if self._left.pop(holder, None) is None:
            self._count(holder, holding, -1)

    def _count(self, holder: Holder, holding: Holding, sign: int) -> None:
        """Count a holding that comes, if *sign* is 1, or one that goes, if it is -1."""
        if not holding.ranks & self._within:
            return
        cores = gpus = 0
        is_free = isinstance(holder, str) or (holding.preempts and self._preempts is False)
        for ranks, its_cores, its_gpus in () if is_free else holding.parts:
            nodes = idset.size(ranks & self._within)
            cores += nodes * idset.size(its_cores)
            gpus += nodes * idset.size(its_gpus)
        events = [(holding.yields if self._preempts else holding.end, cores, gpus, True)]
        if holding.planned:
            events.append((holding.start, -cores, -gpus, False))
            if sign > 0:
                insort(self._begins, holding.start)
            else:
                del self._begins[bisect_left(self._begins, holding.start)]
        else:
            self.cores -= sign * cores
            self.gpus -= sign * gpus
        for event in events:
            if sign > 0:
                insort(self.events, event)
            else:
                del self.events[bisect_left(self.events, event)]
        self.version += 1

    def least(self, begin: float, end: float) -> tuple[int, int]:
        """The fewest cores and the fewest GPUs that are free at a time from *begin* to *end*."""
        events, number = self.events, len(self.events)
        end = min(end, math.nextafter(self._begins[-1], math.inf)) if self._begins else begin
        free_cores, free_gpus = self.cores, self.gpus
        least: Optional[tuple[int, int]] = None
        counted, time = 0, begin
        while True:
            while counted < number and events[counted][0] <= time:
                free_cores += events[counted][1]
                free_gpus += events[counted][2]
                counted += 1
            cores, gpus = least or (free_cores, free_gpus)
            least = min(cores, free_cores), min(gpus, free_gpus)
            if counted == number or events[counted][0] >= end:
                return least
            time = events[counted][0]

    def starts(
        self, begin: float, length: float, cores: int, gpus: int, before: float, until: float
    ) -> Iterator[float]:
        """Of *begin* and the later ends that are before *before*, those from which so many *cores*
        and *gpus* are free for *length* seconds, or until *until*. Nothing may change meanwhile."""
        events, number = self.events, len(self.events)
        free_cores, free_gpus = self.cores, self.gpus
        counted, following, time = 0, 0, begin  # events up to *counted* are in what is free
        last = self._begins[-1] if self._begins else -math.inf
        while time < before:
            end = min(time + length, until)
            while counted < number and (
                events[counted][0] <= time
                or (free_cores >= cores and free_gpus >= gpus and last >= events[counted][0] < end)
            ):
                at = events[counted][0]
                while counted < number and events[counted][0] == at:
                    free_cores += events[counted][1]
                    free_gpus += events[counted][2]
                    counted += 1
            if free_cores >= cores and free_gpus >= gpus:
                yield time
                following = max(following, bisect_right(events, (time, math.inf)))
            else:  # too few from the last event on that was counted
                following = counted
            while following < number and not events[following][3]:
                following += 1
            if following == number:
                return
            time = events[following][0]
