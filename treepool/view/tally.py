"""The numbers of a replay: how much is in use, what of the rest is stranded, how long jobs wait.

The tally keeps its own account of what is free, based on the allocations of jobs. It therefore does
not read the pool, and notices if something is allocated twice.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Iterable, Optional, Sequence

import attrs

from treepool.placement.choose.fitness import domains_of
from treepool.placement.choose.mix import Mix
from treepool.placement.nodes.index import NodeIndex
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.parts import ranks_in
from treepool.placement.nodes.state import Held, NodeState
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
        self.inventory = inventory
        #: By locality above the nodes: how many domains each job of several nodes spans, over the
        #: fewest that could hold as many.
        self.spreads: dict[str, list[float]] = {name: [] for name in inventory.known[1]}
        self._index = NodeIndex(inventory.idle_states(), inventory.ranks)
        kinds = [(t.root, idset.size(ranks)) for t, ranks in inventory.node_types.items()]
        self.ncores = sum(root.ncores * nodes for root, nodes in kinds)
        self.ngpus = sum(idset.size(root.gpus) * nodes for root, nodes in kinds)
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
            self._stranded_in(state) * idset.size(ranks)
            for state, ranks in self._index.buckets.items()
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

    def start(self, now: float, wait: float, ask: Ask, parts: Sequence[Held]) -> None:
        """Count a job that waited for *wait* seconds and starts *now* with *parts*."""
        if now > self.last_start:
            self.last_start, self.until_then = now, tuple(self.curve.total)
        self._waiting -= 1
        self.waits.append(wait)
        everywhere = ranks_in(parts)
        if idset.size(everywhere) > 1:
            for locality, (spanned, fewest) in domains_of(self.inventory, everywhere).items():
                self.spreads[locality].append(spanned / fewest)
        for ranks, cores, gpus in parts:
            self._change(ranks, cores, gpus, True)
            for (_, node_type), here in self.inventory.kinds(ranks):
                if node_type is not None:
                    slots, local = self._local(node_type, cores, gpus, ask)
                    self.slots += slots * idset.size(here)
                    self.local += local * idset.size(here)

    def hold(self, parts: Sequence[Held]) -> None:
        """Count what a job has that runs from the beginning."""
        for ranks, cores, gpus in parts:
            self._change(ranks, cores, gpus, True)

    def end(self, parts: Sequence[Held]) -> None:
        """Count a job that ends."""
        for ranks, cores, gpus in parts:
            self._change(ranks, cores, gpus, False)

    def _change(self, ranks: int, cores: int, gpus: int, taken: bool) -> None:
        states, unknown = self.inventory.states, ranks
        for had, here in list(self._index.states(ranks)):
            unknown ^= here
            now = (states.less if taken else states.more)(had, cores, gpus)
            free = had if taken else now
            other = now if taken else had
            if other.ncores + idset.size(cores) != free.ncores or (
                other.ngpus + idset.size(gpus) != free.ngpus
            ):
                first = idset.lowest(here)
                raise AssertionError(f"rank {first}: given out, or given back, twice")
            self._index.put(here, now)
            more = self._stranded_in(now) - self._stranded_in(had)
            self._stranded += more * idset.size(here)
        assert not unknown, "a job has ranks that the cluster lacks"
        sign = idset.size(ranks) if taken else -idset.size(ranks)
        self._used[0] += sign * idset.size(cores)
        self._used[1] += sign * idset.size(gpus)

    def _stranded_in(self, state: NodeState) -> float:
        return self._stranded_on(state.type, state.cores, state.gpus)


def quantile(values: Sequence[float], share: float) -> Optional[float]:
    """The smallest of *values* (ascending) such that at least *share* of them do not exceed it."""
    if not values:
        return None
    return values[max(0, math.ceil(share * len(values)) - 1)]
