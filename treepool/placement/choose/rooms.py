"""Rooms: how much of a request each domain of a fabric can host.

A unit of room is what the request counts: a slot, a domain above the slot, or a node. Where the
request names localities above the nodes, there is one more table for each of these levels: how
often a domain can host the level and all inside it.

All tables are kept up to date from the census of the fabric: only leaves in which something
changed are counted anew, and which domain is best for some number is the top of a heap.

The kinds of tables are in one file because each is built on the one below it.
"""

from __future__ import annotations

import heapq
from typing import Callable, Collection, NamedTuple, Optional, Sequence, Union

from treepool.placement.nodes.census import Census, less_one
from treepool.placement.nodes.fabric import ROOT, Fabric
from treepool.placement.nodes.index import NodeIndex
from treepool.placement.nodes.rankset import RankSet
from treepool.placement.nodes.state import NodeState
from treepool.placement.request.need import Level

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


class Table:
    """How often each domain can host something: ``units``, of which some with all slots ``local``.

    *fitting* gives the place of a domain in the order, remote or not.
    """

    def __init__(self, fabric: Fabric, fitting: Callable[[int, bool], Fitting]) -> None:
        self.fabric = fabric
        self.fitting = fitting
        self.units, self.local = [0] * len(fabric), [0] * len(fabric)
        #: For some numbers of units: the domains with room for them, a heap for each height.
        self._heaps: dict[int, list[list[Fitting]]] = {}

    def room(self, domain: int, local: bool) -> int:
        """How often *domain* can host it, with all slots *local* or not."""
        return (self.local if local else self.units)[domain]

    def smallest(self, wanted: int, around: int = ROOT) -> int:
        """The smallest domain in *around* that can host *wanted*, the first in order.

        It is *around* if no other can. For the root it is kept up to date. Below the root there are
        few enough domains to look at.
        """
        if around != ROOT:
            entries = ((d, self._entry(d, wanted)) for d in self.fabric.inside(around))
            able = [(self.fabric.height[d], entry) for d, entry in entries if entry]
            return min(able)[1].domain if able else around
        heaps = self._heaps.get(wanted)
        if heaps is None:
            if len(self._heaps) >= MAX_HEAPS:
                del self._heaps[next(iter(self._heaps))]
            heaps = self._heaps[wanted] = [[] for _ in range(self.fabric.height[ROOT])]
            for domain in range(1, len(self.fabric)):
                self._offer(domain, wanted, heaps)
        for heap in heaps:
            while heap:
                entry = heap[0]
                if self._entry(entry.domain, wanted) == entry:
                    return entry.domain
                heapq.heappop(heap)
        return ROOT

    def reorder(self, changed: Collection[int]) -> None:
        """Put the domains that *changed* into the order."""
        for wanted, heaps in list(self._heaps.items()):
            if sum(map(len, heaps)) > 1024 + 4 * len(self.fabric):
                del self._heaps[wanted]  # most entries are of earlier times
            else:
                for domain in changed:
                    if domain != ROOT:
                        self._offer(domain, wanted, heaps)

    def _entry(self, domain: int, wanted: int) -> Optional[Fitting]:
        if self.units[domain] < wanted:
            return None
        return self.fitting(domain, self.local[domain] < wanted)

    def _offer(self, domain: int, wanted: int, heaps: list[list[Fitting]]) -> None:
        entry = self._entry(domain, wanted)
        if entry is not None:
            heapq.heappush(heaps[self.fabric.height[domain]], entry)


class Innermost(Table):
    """How often each domain can host the nodes of a request: *each* units at least.

    Of *whole* domains all nodes are taken.
    """

    def __init__(self, nodes: Table, each: int, whole: bool) -> None:
        super().__init__(nodes.fabric, nodes.fitting)
        self.nodes = nodes
        self.each = each
        self.whole = whole

    def update(self, changed: Collection[int]) -> None:
        """Count the domains that *changed*."""
        for mine, theirs in ((self.units, self.nodes.units), (self.local, self.nodes.local)):
            for domain in changed:
                room = theirs[domain]
                if self.whole:
                    size = self.fabric.size[domain]
                    mine[domain] = int(room == size and room >= self.each)
                else:
                    mine[domain] = room // self.each
        self.reorder(changed)


class Copies(Table):
    """How often each domain can host *level*, if *inner* says so of what is inside it.

    ``counts`` has for each domain how many domains of the level are in it, by how often each of
    them can host what is inside; in all, and with all slots local.
    """

    def __init__(self, inner: Above, level: Level) -> None:
        super().__init__(inner.fabric, inner.fitting)
        self.inner = inner
        self.level = level
        self.counts: tuple[dict[int, dict[int, int]], ...] = ({}, {})
        self._counted: tuple[dict[int, int], ...] = ({}, {})

    def update(self, changed: Collection[int]) -> None:
        """Count the domains that *changed*, and all around them."""
        if self.level.groups:
            number = self.level.count.minimum
            for domain in changed:
                self.units[domain] = self.inner.units[domain] // number
                self.local[domain] = self.inner.local[domain] // number
        else:
            self._update(changed, self.units, self.inner.units, 0)
            self._update(changed, self.local, self.inner.local, 1)
        self.reorder(changed)

    def _update(
        self, changed: Collection[int], mine: list[int], theirs: Sequence[int], local: int
    ) -> None:
        fabric, name, number = self.fabric, self.level.name, self.level.count.minimum
        counted, counts = self._counted[local], self.counts[local]
        inside, around = fabric.within(name), set()
        for domain in changed:
            if not inside[domain]:
                continue
            old, new = counted.get(domain, 0), theirs[domain]
            named = fabric.locality[domain] == name
            mine[domain] = new if number == 1 and (named or not self.level.whole) else 0
            if named and old != new:
                counted[domain] = new
                for outer in fabric.paths[domain][1:]:
                    having = counts.setdefault(outer, {})
                    if old:
                        less_one(having, old)
                    if new:
                        having[new] = having.get(new, 0) + 1
                    around.add(outer)
        for domain in around:
            mine[domain] = _most(counts[domain], number)

    def shares(self, most: int) -> Callable[[int, bool], int]:
        """What domains can host of what is inside the level, in *most* copies at most in each."""

        def room(domain: int, local: bool) -> int:
            if self.fabric.locality[domain] == self.level.name:
                return min(self.inner.room(domain, local), most)
            having = self.counts[local].get(domain, {})
            return sum(min(room, most) * number for room, number in having.items())

        return room


def _most(rooms: dict[int, int], number: int) -> int:
    """How many times *number* distinct domains can be had of those that have *rooms*.

    *rooms* says how many domains can be used how often.
    """
    most = sum(room * domains for room, domains in rooms.items()) // number
    while number > 1 and most:
        fewer = sum(min(room, most) * domains for room, domains in rooms.items()) // number
        if fewer >= most:
            break
        most = fewer
    return most


#: A table of what a request names above the nodes.
Above = Union[Innermost, Copies]


class Rooms(Table):
    """The room in each domain of a census on the ranks of *within* (None: all).

    ``units`` and ``local`` are the units that *value* gives of the states of the up ranks in each
    domain. ``levels`` has the table of each of *levels*, the outermost first, and last that of
    *each* units at least in the innermost domains.
    """

    def __init__(
        self,
        census: Census,
        within: Optional[RankSet],
        value: Value,
        levels: Sequence[Level] = (),
        each: int = 1,
    ) -> None:
        super().__init__(census.fabric, self._fitting)
        self.census = census
        self.within = within
        self.value = value
        self.levels = self._tables(levels, each) if levels else []
        #: Free cores and GPUs of the ranks in *within*; those of the census if that is all.
        self._free = [(0, 0)] * len(census.fabric) if within is not None else []
        #: Leaves counted so far, for tests that count work instead of time.
        self.counted = 0
        #: Where in the log of the census the next change is; below its start before the first.
        self._seen = -1

    def follow(self, index: NodeIndex) -> None:
        """Apply the changes of the census since the last call."""
        census, fabric = self.census, self.fabric
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
        self.reorder(changed)
        for table in reversed(self.levels):
            table.update(changed)

    def tables(self, levels: Sequence[Level], each: int) -> list[Above]:
        """The tables of *levels*, counted anew."""
        found = self._tables(levels, each)
        for table in reversed(found):
            table.update(range(len(self.fabric)))
        return found

    def _tables(self, levels: Sequence[Level], each: int) -> list[Above]:
        found: list[Above] = [Innermost(self, each, bool(levels) and levels[-1].whole)]
        for level in reversed(levels):
            found.insert(0, Copies(found[0], level))
        return found

    def _count(self, leaf: int, index: NodeIndex) -> None:
        self.counted += 1
        units = local = cores = gpus = 0
        if self.within is None:
            for state, number in self.census.held[leaf].items():
                all_, near = self.value(state)
                units += number * all_
                local += number * near
        else:
            for rank in self.fabric.ranks[leaf]:
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
        for domain in self.fabric.paths[leaf]:
            self.units[domain] += units
            self.local[domain] += local
            if self.within is not None:
                old = self._free[domain]
                self._free[domain] = old[0] + cores, old[1] + gpus

    def _fitting(self, domain: int, remote: bool) -> Fitting:
        free = self._free[domain] if self.within is not None else self.census.free(domain)
        return Fitting(remote, *free, self.fabric.lowest[domain], domain)
