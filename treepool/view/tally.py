"""The numbers of a replay: how much is in use, how fragmented the rest is, how long jobs wait.

The tally keeps its own account of what is free on each rank, based on the allocations of jobs. It
therefore does not read the pool, and notices if something is allocated twice.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache
from typing import Optional, Sequence

import attrs

from treepool.placement.allocation import Allocation
from treepool.placement.choose.fitness import domains_of
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.state import fragmented
from treepool.placement.nodes.tree import NodeType
from treepool.placement.request.need import Ask
from treepool.rfc import idset
from treepool.rfc.rset import ResourceSet
from treepool.view.places import local_slots

#: Most results of each kind that are cached.
MAX_KNOWN = 1 << 16

#: Most points of a curve; a curve that is long enough has at least half as many.
POINTS = 512


@attrs.frozen
class Point:
    """Means over the time from ``start`` to ``end`` (seconds since the first submission).

    Cores and GPUs are counted if they are in use, or free but in no whole domain (fragmented).
    ``waiting`` is the number of waiting jobs.
    """

    start: float
    end: float
    cores_used: float
    gpus_used: float
    cores_fragmented: float
    gpus_fragmented: float
    waiting: float


#: The values that a curve records, in the order of Point.
_Level = tuple[int, int, int, int, int]


class Curve:
    """Levels that change over time, as at most POINTS means over intervals of equal length."""

    def __init__(self) -> None:
        self.width = 0.0
        self._sums: list[list[float]] = []
        self._at = 0.0
        #: The integral of each level over all time.
        self.total = [0.0] * 5

    def extend(self, until: float, level: _Level) -> None:
        """Extend the curve to the time *until* with the levels *level*."""
        at = self._at
        if until <= at:
            return
        if not self.width:
            self.width = (until - at) / (POINTS // 4)
        for i, value in enumerate(level):
            self.total[i] += value * (until - at)
        while until > self.width * POINTS:
            self._halve()
        while at < until:
            place = min(int(at / self.width), POINTS - 1)
            end = (place + 1) * self.width
            if end <= at and place < POINTS - 1:  # rounding put *at* just before its own interval
                place, end = place + 1, end + self.width
            upto = min(until, end) if place < POINTS - 1 else until
            while len(self._sums) <= place:
                self._sums.append([0.0] * 5)
            for i, value in enumerate(level):
                self._sums[place][i] += value * (upto - at)
            at = upto
        self._at = until

    def points(self) -> list[Point]:
        """The means, in order of time."""
        found = []
        for i, sums in enumerate(self._sums):
            start, end = i * self.width, min((i + 1) * self.width, self._at)
            if end > start:
                found.append(Point(start, end, *(value / (end - start) for value in sums)))
        return found

    def _halve(self) -> None:
        """Make the intervals twice as long."""
        self.width *= 2
        pairs = zip(self._sums[::2], [*self._sums[1::2], [0.0] * 5])
        self._sums = [[a + b for a, b in zip(left, right)] for left, right in pairs]


class Tally:
    """Counts jobs as they are submitted, start and end; times are since the first submission."""

    def __init__(self, resource_set: ResourceSet) -> None:
        inventory = Inventory.of(resource_set)
        self.types = inventory.types
        self.fabric = inventory.fabric
        #: By locality above the nodes: how many domains each job of several nodes spans, over the
        #: fewest that could hold as many.
        localities = self.fabric.localities if self.fabric is not None else ()
        self.spreads: dict[str, list[float]] = {name: [] for name in localities}
        roots = [t.root if t is not None else None for t in inventory.types]
        self.free_cores = [root.cores if root else 0 for root in roots]
        self.free_gpus = [root.gpus if root else 0 for root in roots]
        self.ncores = sum(root.ncores for root in roots if root)
        self.ngpus = sum(idset.size(root.gpus) for root in roots if root)
        self.curve = Curve()
        self.waits: list[float] = []
        #: The number of slots started, and how many of them sit in the smallest kind of domain
        #: that their node could offer when idle. A slot that spans nodes counts on each of them.
        self.slots = self.local = 0
        self._used = [0, 0]
        self._scattered = [0, 0]
        self._waiting = 0
        self._fragmented = lru_cache(MAX_KNOWN)(_fragmented)
        self._local = lru_cache(MAX_KNOWN)(local_slots)

    def advance(self, now: float) -> None:
        """Let time pass up to *now*."""
        self.curve.extend(now, (*self._used, *self._scattered, self._waiting))  # type: ignore[arg-type]

    def submit(self) -> None:
        """Count a job that starts to wait."""
        self._waiting += 1

    def withdraw(self) -> None:
        """Count a job that stops waiting without a start."""
        self._waiting -= 1

    def start(self, wait: float, ask: Ask, allocation: Allocation) -> None:
        """Count a job that waited for *wait* seconds and starts with *allocation*."""
        self._waiting -= 1
        self.waits.append(wait)
        if self.fabric is not None and len(allocation.ranks) > 1:
            domains = domains_of(self.fabric, allocation.ranks, self.types)
            for locality, (spanned, fewest) in domains.items():
                self.spreads[locality].append(spanned / fewest)
        for ranks, cores, gpus in allocation.parts:
            self._change(ranks, cores, gpus, True)
            types = Counter(filter(None, (self.types[rank] for rank in ranks)))
            for node_type, count in types.items():
                slots, local = self._local(node_type, cores, gpus, ask)
                self.slots += slots * count
                self.local += local * count

    def end(self, allocation: Allocation) -> None:
        """Count a job that ends."""
        for ranks, cores, gpus in allocation.parts:
            self._change(ranks, cores, gpus, False)

    def _change(self, ranks: Sequence[int], cores: int, gpus: int, taken: bool) -> None:
        free_cores, free_gpus, types = self.free_cores, self.free_gpus, self.types
        for rank in ranks:
            had_cores, had_gpus = free_cores[rank], free_gpus[rank]
            if taken:
                twice = cores & ~had_cores or gpus & ~had_gpus
                free_cores[rank], free_gpus[rank] = had_cores & ~cores, had_gpus & ~gpus
            else:
                twice = cores & had_cores or gpus & had_gpus
                free_cores[rank], free_gpus[rank] = had_cores | cores, had_gpus | gpus
            if twice:
                raise AssertionError(f"rank {rank}: given out, or given back, twice")
            node_type = types[rank]
            assert node_type is not None
            before = self._fragmented(node_type, had_cores, had_gpus)
            after = self._fragmented(node_type, free_cores[rank], free_gpus[rank])
            self._scattered[0] += after[0] - before[0]
            self._scattered[1] += after[1] - before[1]
        sign = len(ranks) if taken else -len(ranks)
        self._used[0] += sign * idset.size(cores)
        self._used[1] += sign * idset.size(gpus)


def _fragmented(node_type: NodeType, cores: int, gpus: int) -> tuple[int, int]:
    """How many of the free *cores* and *gpus* of a node are in no whole domain."""
    lost_cores, lost_gpus = fragmented(node_type.root, cores, gpus)
    return idset.size(lost_cores), idset.size(lost_gpus)


def quantile(values: Sequence[float], share: float) -> Optional[float]:
    """The smallest of *values* (ascending) such that at least *share* of them do not exceed it."""
    if not values:
        return None
    return values[max(0, math.ceil(share * len(values)) - 1)]
