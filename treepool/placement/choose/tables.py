"""Tables: how often each domain of a fabric can host something.

A table is kept up to date: only domains in which something changed are counted anew, and which
domain is best for some number is the top of a heap.

The kinds of tables are in one file because each is built on the one below it.
"""

from __future__ import annotations

import heapq
import sys
from typing import Callable, Collection, NamedTuple, Optional, Union

from treepool.placement.nodes.census import less_one
from treepool.placement.nodes.fabric import ROOT, Fabric
from treepool.placement.request.job_options import Within
from treepool.placement.request.need import Level

#: The order of domains is kept for so many numbers of units.
MAX_HEAPS = 4
#: What a domain can host of something: all of it, or only with all slots local.
Room = Callable[[int, bool], int]


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

        It is *around* if no other can. For the root, heaps keep the answer. Other domains have few
        enough domains inside to look at each.
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


class Named(Table):
    """How often each domain can host what domains of locality *name* in it can.

    ``counts`` has for each domain how many domains of the locality are in it, by how often each of
    them can host what is inside; in all, and with all slots local.
    """

    def __init__(self, inner: Table, name: str) -> None:
        super().__init__(inner.fabric, inner.fitting)
        self.inner = inner
        self.name = name
        self.named = inner.fabric.named(name)
        self.counts: tuple[dict[int, dict[int, int]], ...] = ({}, {})
        self._counted: tuple[dict[int, int], ...] = ({}, {})

    def together(self, rooms: dict[int, int]) -> int:
        """What domains of the locality can host together: *rooms* is one of ``counts``."""
        raise NotImplementedError

    def alone(self, domain: int, room: int) -> int:
        """What *domain* can host, which is one of the locality or in one, and has *room*."""
        return room

    def update(self, changed: Collection[int]) -> None:
        """Count the domains that *changed*, and all around them."""
        for local in (0, 1):
            self._update(changed, local)
        self.reorder(changed)

    def _update(self, changed: Collection[int], local: int) -> None:
        fabric = self.fabric
        mine, theirs = ((t.local if local else t.units) for t in (self, self.inner))
        counted, counts = self._counted[local], self.counts[local]
        inside, around = fabric.within(self.name), set()
        for domain in changed:
            if not inside[domain]:
                continue
            old, new = counted.get(domain, 0), theirs[domain]
            mine[domain] = self.alone(domain, new)
            if self.named[domain] and old != new:
                counted[domain] = new
                for outer in fabric.paths[domain][1:]:
                    having = counts.setdefault(outer, {})
                    if old:
                        less_one(having, old)
                    if new:
                        having[new] = having.get(new, 0) + 1
                    around.add(outer)
        for domain in around:
            mine[domain] = self.together(counts[domain])

    def shares(self, most: int = sys.maxsize) -> Room:
        """What domains can host of what is inside the locality, each *most* times at most."""

        def room(domain: int, local: bool) -> int:
            if self.named[domain]:
                return min(self.inner.room(domain, local), most)
            having = self.counts[local].get(domain, {})
            return sum(min(room, most) * number for room, number in having.items())

        return room


class Copies(Named):
    """How often each domain can host *level*, if *inner* says so of what is inside it."""

    def __init__(self, inner: Above, level: Level) -> None:
        super().__init__(inner, level.name)
        self.level = level

    def update(self, changed: Collection[int]) -> None:
        """Count the domains that *changed*, and all around them."""
        if not self.level.groups:
            super().update(changed)
            return
        number = self.level.count.minimum
        for domain in changed:
            self.units[domain] = self.inner.units[domain] // number
            self.local[domain] = self.inner.local[domain] // number
        self.reorder(changed)

    def alone(self, domain: int, room: int) -> int:
        """One domain is enough if one is asked for; of a whole one nothing inside it is."""
        exact = self.named[domain] or not self.level.whole
        return room if self.level.count.minimum == 1 and exact else 0

    def together(self, rooms: dict[int, int]) -> int:
        """How often they can host the level."""
        return _most(rooms, self.level.count.minimum)


class Few(Named):
    """How many units each domain can host in so few domains of a locality as *at_most* allows."""

    def __init__(self, units: Table, at_most: Within) -> None:
        super().__init__(units, at_most.locality)
        self.number = at_most.domains

    def together(self, rooms: dict[int, int]) -> int:
        """What those with the most room can host."""
        left, most = self.number, 0
        for room in sorted(rooms, reverse=True):
            most += room * min(rooms[room], left)
            left -= rooms[room]
            if left <= 0:
                break
        return most

    def roomiest(self, domain: int) -> Room:
        """What the domains with the most room in *domain* can host."""
        inside = (d for d in self.fabric.inside(domain) if self.named[d] and self.inner.units[d])
        best = heapq.nsmallest(
            self.number, inside, key=lambda d: (-self.inner.units[d], self.fitting(d, False))
        )
        rooms: dict[int, list[int]] = {}
        for one in best:
            for outer in self.fabric.paths[one]:
                found = rooms.setdefault(outer, [0, 0])
                found[0] += self.inner.units[one]
                found[1] += self.inner.local[one]
        return lambda domain, local: rooms.get(domain, (0, 0))[local]


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
