"""The numbers of a replay: how much is in use, what of the rest is stranded, how long jobs wait.

The tally keeps its own account of what is free, based on the allocations of jobs. It therefore does
not read the pool, and notices if something is allocated twice. The account is by sets of ranks that
are alike, so that a job of thousands of nodes costs as much as one of a few.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Iterable, Optional, Sequence

import attrs

from treepool.placement.allocation import Allocation
from treepool.placement.choose.fitness import domains_of
from treepool.placement.choose.mix import Mix
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.tree import NodeType
from treepool.placement.nodes.usable import PER_GPU
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

    ``waiting`` is the number of waiting jobs.
    """

    start: float
    end: float
    cores_used: float
    gpus_used: float
    gpus_stranded: float
    waiting: float


#: What is free on some ranks: their type, and bitmasks of cores and GPUs.
_State = tuple[NodeType, int, int]

#: What a job holds: ranks, and of each of them cores and GPUs (all bitmasks).
Holding = tuple[int, int, int]

#: The values that a curve records, in the order of Point.
_Level = tuple[int, int, float, int]


@attrs.frozen
class Waits:
    """How long some ``jobs`` waited, in seconds; None if there are none."""

    jobs: int
    mean: Optional[float]
    median: Optional[float]
    p95: Optional[float]
    max: Optional[float]

    @classmethod
    def of(cls, waits: Iterable[float]) -> Waits:
        """The numbers of *waits*, in any order."""
        values = sorted(waits)
        if not values:
            return cls(0, None, None, None, None)
        mean = math.fsum(values) / len(values)
        return cls(len(values), mean, quantile(values, 0.5), quantile(values, 0.95), values[-1])


class Curve:
    """Levels that change over time, as at most POINTS means over intervals of equal length."""

    def __init__(self) -> None:
        self.width = 0.0
        self._sums: list[list[float]] = []
        self._at = 0.0
        #: The integral of each level over all time.
        self.total = [0.0] * 4

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
                self._sums.append([0.0] * 4)
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
        pairs = zip(self._sums[::2], [*self._sums[1::2], [0.0] * 4])
        self._sums = [[a + b for a, b in zip(left, right)] for left, right in pairs]


class Tally:
    """Counts jobs as they are submitted, start and end; times are since the first submission."""

    def __init__(self, resource_set: ResourceSet, mix: Mix) -> None:
        inventory = Inventory.of(resource_set)
        self.types = inventory.types
        self.fabric = inventory.fabric
        #: By locality above the nodes: how many domains each job of several nodes spans, over the
        #: fewest that could hold as many.
        localities = self.fabric.localities if self.fabric is not None else ()
        self.spreads: dict[str, list[float]] = {name: [] for name in localities}
        kinds = inventory.node_types
        self.node_types = kinds
        #: The ranks with each state.
        self.alike: dict[_State, int] = {(t, t.root.cores, t.root.gpus): kinds[t] for t in kinds}
        self.ncores = sum(t.root.ncores * idset.size(ranks) for t, ranks in kinds.items())
        self.ngpus = sum(t.root.ngpus * idset.size(ranks) for t, ranks in kinds.items())
        self.curve = Curve()
        self.waits: list[float] = []
        #: The number of slots started, and how many of them sit in the smallest kind of domain
        #: that their node could offer when idle. A slot that spans nodes counts on each of them.
        self.slots = self.local = 0
        #: When the last job started so far, and the integrals up to then.
        self.last_start = 0.0
        self.until_then: tuple[float, ...] = (0.0,) * 4
        self._used = [0, 0]
        self._stranded_on = lru_cache(MAX_KNOWN)(mix.stranded)
        self._stranded = sum(
            self._stranded_on(*state) * idset.size(ranks) for state, ranks in self.alike.items()
        )
        self._waiting = 0
        self._local = lru_cache(MAX_KNOWN)(local_slots)

    def advance(self, now: float) -> None:
        """Let time pass up to *now*."""
        cores, gpus = self._used
        self.curve.extend(now, (cores, gpus, self._stranded / PER_GPU, self._waiting))

    def submit(self) -> None:
        """Count a job that starts to wait."""
        self._waiting += 1

    def withdraw(self) -> None:
        """Count a job that stops waiting without a start."""
        self._waiting -= 1

    def start(self, now: float, wait: float, ask: Ask, allocation: Allocation) -> list[Holding]:
        """Count a job that waited for *wait* seconds and starts *now* with *allocation*.

        Returns what ``end`` needs.
        """
        if now > self.last_start:
            self.last_start, self.until_then = now, tuple(self.curve.total)
        self._waiting -= 1
        self.waits.append(wait)
        if self.fabric is not None and len(allocation.ranks) > 1:
            domains = domains_of(self.fabric, allocation.ranks, self.types)
            for locality, (spanned, fewest) in domains.items():
                self.spreads[locality].append(spanned / fewest)
        holdings = self.hold(allocation)
        for ranks, cores, gpus in holdings:
            for node_type, of_type in self.node_types.items():
                number = idset.size(ranks & of_type)
                if number:
                    slots, local = self._local(node_type, cores, gpus, ask)
                    self.slots += slots * number
                    self.local += local * number
        return holdings

    def hold(self, allocation: Allocation) -> list[Holding]:
        """Count what a job has that runs from the beginning; returns what ``end`` needs."""
        holdings = [(idset.from_ids(ranks), cores, gpus) for ranks, cores, gpus in allocation.parts]
        self.take(holdings)
        return holdings

    def take(self, holdings: Iterable[Holding]) -> None:
        """Count *holdings* as in use."""
        for holding in holdings:
            self._change(*holding, True)

    def end(self, holdings: Iterable[Holding]) -> None:
        """Count a job that ends."""
        for holding in holdings:
            self._change(*holding, False)

    def _change(self, ranks: int, cores: int, gpus: int, taken: bool) -> None:
        left = ranks
        found: list[tuple[_State, int]] = []
        for state, alike in self.alike.items():
            here = alike & left
            if here:
                found.append((state, here))
                left ^= here
                if not left:
                    break
        assert not left
        for state, here in found:
            node_type, had_cores, had_gpus = state
            if taken:
                twice = cores & ~had_cores or gpus & ~had_gpus
                new = node_type, had_cores & ~cores, had_gpus & ~gpus
            else:
                twice = cores & had_cores or gpus & had_gpus
                new = node_type, had_cores | cores, had_gpus | gpus
            if twice:
                raise AssertionError(f"ranks {idset.encode(here)}: given out, or given back, twice")
            if self.alike[state] == here:
                del self.alike[state]
            else:
                self.alike[state] ^= here
            self.alike[new] = self.alike.get(new, 0) | here
            more = self._stranded_on(*new) - self._stranded_on(*state)
            self._stranded += more * idset.size(here)
        number = idset.size(ranks) if taken else -idset.size(ranks)
        self._used[0] += number * idset.size(cores)
        self._used[1] += number * idset.size(gpus)


def quantile(values: Sequence[float], share: float) -> Optional[float]:
    """The smallest of *values* (ascending) such that at least *share* of them do not exceed it."""
    if not values:
        return None
    return values[max(0, math.ceil(share * len(values)) - 1)]
