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

#: For so many numbers of units the order of domains is kept.
MAX_HEAPS = 4

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
        #: For some numbers of units: the domains with room for them, a heap for each height.
        self._heaps: dict[int, list[list[Fitting]]] = {}

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
        changed.discard(ROOT)
        for wanted, heaps in list(self._heaps.items()):
            if sum(map(len, heaps)) > 1024 + 4 * len(fabric):
                del self._heaps[wanted]  # most entries are of earlier times
            else:
                for domain in changed:
                    self._offer(domain, wanted, heaps)

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
        heaps = self._heaps.get(wanted)
        if heaps is None:
            if len(self._heaps) >= MAX_HEAPS:
                del self._heaps[next(iter(self._heaps))]
            heaps = self._heaps[wanted] = [[] for _ in range(fabric.height[ROOT])]
            for domain in range(1, len(fabric)):
                self._offer(domain, wanted, heaps)
        for heap in heaps:
            while heap:
                entry = heap[0]
                if self._entry(entry.domain, wanted) == entry:
                    return entry.domain
                heapq.heappop(heap)
        return ROOT

    def _entry(self, domain: int, wanted: int) -> Optional[Fitting]:
        if self.units[domain] < wanted:
            return None
        return self.fitting(domain, self.local[domain] < wanted)

    def _offer(self, domain: int, wanted: int, heaps: list[list[Fitting]]) -> None:
        entry = self._entry(domain, wanted)
        if entry is not None:
            heapq.heappush(heaps[self.census.fabric.height[domain]], entry)
