"""Rooms: how much of a request each domain of a fabric can host.

A unit of room is what the request counts: a slot, a domain above the slot, or a node. Rooms are
kept up to date from the census of the fabric: only leaves in which something changed are counted
anew, and which domain is best for some number of units is the top of a heap.
"""

from __future__ import annotations

import heapq
from typing import Callable, NamedTuple, Optional

from treepool.placement.nodes.census import Census
from treepool.placement.nodes.fabric import ROOT
from treepool.placement.nodes.index import NodeIndex
from treepool.placement.nodes.rankset import RankSet
from treepool.placement.nodes.state import NodeState

#: How many units a node in a state can host, and how many of them with all slots local.
Value = Callable[[NodeState], tuple[int, int]]


class Fitting(NamedTuple):
    """A place in the order of the domains that can host something: *best fit*.

    Domains in which all of it is local come first, then those with the fewest free cores, the
    fewest free GPUs, and the lowest rank.
    """

    remote: bool
    cores: int
    gpus: int
    lowest: int
    domain: int


class Rooms:
    """The room in each domain of a census on the ranks of *within* (None: all).

    ``units`` and ``local`` are the units that *value* gives of the states of the up ranks in each
    domain.
    """

    def __init__(self, census: Census, within: Optional[RankSet], value: Value) -> None:
        size = len(census.fabric)
        self.census = census
        self.within = within
        self.value = value
        self.units, self.local = [0] * size, [0] * size
        #: Free cores and GPUs of the ranks in *within*; those of the census if that is all.
        self._free = [(0, 0)] * size if within is not None else []
        #: Leaves counted so far, for tests that count work instead of time.
        self.counted = 0
        #: Where in the log of the census the next change is; below its start before the first.
        self._seen = -1
        #: The number of units that the heaps are for, and a heap for each height below the root's.
        self._wanted = 0
        self._heaps: list[list[Fitting]] = []

    def follow(self, index: NodeIndex) -> None:
        """Apply the changes of the census since the last call."""
        census, fabric = self.census, self.census.fabric
        seen = self._seen - census.log_start
        leaves = (
            {d for d in range(1, len(fabric)) if fabric.ranks[d]}
            if seen < 0
            else set(census.log[seen:])
        )
        self._seen = census.log_start + len(census.log)
        changed: set[int] = set()
        for leaf in leaves:
            self._count(leaf, index)
            changed.update(fabric.paths[leaf])
        if not self._heaps:
            return
        if sum(map(len, self._heaps)) > 1024 + 4 * len(fabric):
            self._wanted = 0  # most entries are of earlier times
        else:
            changed.discard(ROOT)
            for domain in changed:
                self._offer(domain)

    def _count(self, leaf: int, index: NodeIndex) -> None:
        self.counted += 1
        units = local = cores = gpus = 0
        if self.within is None:
            for state, number in self.census.held[leaf].items():
                all_, near = self.value(state)
                units += number * all_
                local += number * near
        else:
            for rank in self.census.fabric.ranks[leaf]:
                found = index.state_of[rank]
                if found is not None and index.up[rank] and rank in self.within:
                    all_, near = self.value(found)
                    units += all_
                    local += near
                    cores += found.ncores
                    gpus += found.ngpus
            cores -= self._free[leaf][0]
            gpus -= self._free[leaf][1]
        units -= self.units[leaf]
        local -= self.local[leaf]
        for domain in self.census.fabric.paths[leaf]:
            self.units[domain] += units
            self.local[domain] += local
            if self.within is not None:
                old = self._free[domain]
                self._free[domain] = old[0] + cores, old[1] + gpus

    def fitting(self, domain: int, remote: bool) -> Fitting:
        """The place of *domain* in the order."""
        free = self._free[domain] if self.within is not None else self.census.free(domain)
        return Fitting(remote, *free, self.census.fabric.lowest[domain], domain)

    def smallest(self, wanted: int) -> int:
        """The smallest domain that can host *wanted* units, the first in order; else the root."""
        fabric = self.census.fabric
        if wanted != self._wanted:
            self._wanted = wanted
            self._heaps = [[] for _ in range(fabric.height[ROOT])]
            for domain in range(1, len(fabric)):
                self._offer(domain)
        for heap in self._heaps:
            while heap:
                entry = heap[0]
                if self._entry(entry.domain) == entry:
                    return entry.domain
                heapq.heappop(heap)
        return ROOT

    def _entry(self, domain: int) -> Optional[Fitting]:
        if self.units[domain] < self._wanted:
            return None
        return self.fitting(domain, self.local[domain] < self._wanted)

    def _offer(self, domain: int) -> None:
        entry = self._entry(domain)
        if entry is not None:
            heapq.heappush(self._heaps[self.census.fabric.height[domain]], entry)
