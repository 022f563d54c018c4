"""Spread: which domains above the nodes (switches) a job gets: the smallest, or as few as possible.

A job of several nodes gets the smallest domain that can serve all of it, and among those the best
fit (``Order``). If no domain below the root can, it gets as few domains of the highest level as
possible: those with the most room, and for the rest the best fit. The rule holds again for its
share in each. The rule is the same for localities above the nodes that a request names: their
domains then take the place of nodes.

A job that may have at most n domains of a locality gets the smallest domain that can serve it so.
If the rule would take more than n in it, only the n with the most room count.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from itertools import islice
from typing import Any, Callable, Iterator, Optional, Sequence

from treepool.placement.choose.rooms import RequestRooms, Rooms, among
from treepool.placement.nodes.fabric_tree import Fabric

#: A domain and the number of units it gives.
Given = tuple[int, int]


def spread(domain: int, wanted: int, rooms: Rooms) -> Iterator[Given]:
    """The smallest domains in *domain* in which *wanted* of *rooms* are taken.

    *domain* has room for them.
    """
    if rooms(domain).number > wanted:
        domain = rooms.smallest(wanted, domain)
    left = [d for d in rooms.fabric.children[domain] if rooms(d).number]
    if not left:
        yield domain, wanted
        return
    # The most room first, until one of the others has room for the rest.
    left.sort(key=lambda d: (-rooms(d).number, rooms.order(d, 0)), reverse=True)
    while rooms(left[-1]).number < wanted:
        first = left.pop()
        yield from spread(first, rooms(first).number, rooms)
        wanted -= rooms(first).number
    able = (d for d in left if rooms(d).number >= wanted)
    yield from spread(min(rooms.order(d, wanted) for d in able).domain, wanted, rooms)


def in_few(rooms: RequestRooms, domain: int, wanted: int) -> Sequence[Given]:
    """The domains in *domain*, as few as the request may have, that give *wanted* units."""
    units, at_most = rooms.units, rooms.at_most
    domain = rooms.few.smallest(wanted, domain)
    if at_most is None or units.fabric.within(at_most.locality)[domain]:
        return [(domain, wanted)]
    named = [d for d in units.fabric.named_in(domain, at_most.locality) if units(d).number]
    if at_most.balanced:
        return balanced(units, named, wanted)
    chosen = list(spread(domain, wanted, among(units, named, wanted)))
    if len(chosen) > at_most.domains:
        key = {d: (-units(d).number, units.order(d, 0)) for d in named}
        named = heapq.nsmallest(at_most.domains, named, key=key.__getitem__)
        chosen = list(spread(domain, wanted, among(units, named, wanted)))
    return chosen


def balanced(units: Rooms, named: Sequence[int], wanted: int) -> Sequence[Given]:
    """Those of *named* that have equal parts of *wanted* units, and these.

    They are as few as possible, and of those that have the room the first in order.
    """
    named = sorted(named, key=lambda d: units.order(d, 0))
    rooms = sorted(units(d).number for d in named)
    for number in range(1, len(named) + 1):
        least, larger = divmod(wanted, number)
        with_more = len(rooms) - bisect_right(rooms, least)
        if with_more >= larger and len(rooms) - bisect_left(rooms, least) >= number:
            break
    first = dict.fromkeys(islice((d for d in named if units(d).number > least), larger))
    others = (d for d in named if units(d).number >= least and d not in first)
    given = [(d, least + 1) for d in first]
    return given + [(d, least) for d in islice(others, number - larger)]


class Spread:
    """Where the nodes of a request may be, as the *rooms* for it are now.

    Each innermost domain gives at least ``rooms.each`` units; a whole domain gives all. If domains
    may give more, *extent* returns how much a domain can give, or None for nothing.
    """

    def __init__(
        self,
        rooms: RequestRooms,
        extent: Optional[Callable[[int], Optional[tuple[Any, ...]]]] = None,
    ) -> None:
        self.rooms = rooms
        self.fabric: Fabric = rooms.units.fabric
        self.levels = rooms.levels
        self.extent = extent
        self._values: dict[tuple[int, int], Optional[tuple[Any, ...]]] = {}

    # -- how much

    def copies(self, domain: int, depth: int = 0) -> int:
        """How often *domain* can host the levels from *depth* on, at their smallest counts."""
        return self.rooms.inside[depth](domain).number

    def fixed(self, depth: int) -> bool:
        """Whether all counts from *depth* down to the slots are fixed."""
        for level in self.levels[depth:]:
            if not level.count.fixed or level.groups:
                return level.count.fixed
        return self.extent is None

    def value(self, domain: int, depth: int = 0) -> Optional[tuple[Any, ...]]:
        """How much of the levels from *depth* on *domain* could give at most; None for nothing.

        Counts above the slots are chosen for each domain by itself, the outermost first.
        """
        if self.fixed(depth):
            return () if self.copies(domain, depth) else None
        key = domain, depth
        if key not in self._values:
            self._values[key] = self._value_of(domain, depth)
        return self._values[key]

    def _value_of(self, domain: int, depth: int) -> Optional[tuple[Any, ...]]:
        if depth == len(self.levels):
            if not self.copies(domain, depth):
                return None
            return () if self.extent is None else self.extent(domain)
        level = self.levels[depth]
        if level.groups:
            number = level.count.largest(self.copies(domain, depth + 1))
            return None if number is None else (number,)
        if self.fabric.within(level.name)[domain]:
            inner = self.value(domain, depth + 1)
            return None if inner is None or 1 not in level.count else (1, (inner,))
        values = [self.value(d, depth + 1) for d in self.fabric.named_in(domain, level.name)]
        able = sorted((value for value in values if value is not None), reverse=True)
        number = level.count.largest(len(able))
        return None if number is None else (number, tuple(able[:number]))

    # -- where

    def place(self, domain: int, depth: int = 0, number: int = 1) -> Iterator[Given]:
        """The innermost domains of *number* copies of the levels from *depth* on in *domain*, and
        the copies in each.

        There is room for them. Counts that are not fixed are as large as ``value`` says: there,
        *number* is one.
        """
        if depth == len(self.levels):
            yield domain, number
            return
        level, inner = self.levels[depth], self.rooms.inside[depth + 1]
        if level.groups:
            count = level.count.largest(inner(domain).number // number)
            assert count is not None
            yield from self.place(domain, depth + 1, number * count)
            return
        domain, count = self.smallest(domain, depth, number)
        if self.fabric.within(level.name)[domain]:
            yield from self.place(domain, depth + 1, number)
            return
        named = [d for d in self.fabric.named_in(domain, level.name) if inner(d).number]
        values = {d: self.value(d, depth + 1) for d in named}
        if len(set(values.values())) == 1:
            chosen = spread(domain, number * count, among(inner, named, number))
        else:  # those that can give more come first; None only if a search gave up
            able = {d: value for d, value in values.items() if value is not None}
            by_fit = sorted(able, key=lambda d: inner.order(d, 1))
            best = sorted(by_fit, key=able.__getitem__, reverse=True)
            chosen = ((d, 1) for d in best[:count])
        for one, share in chosen:
            yield from self.place(one, depth + 1, share)

    def smallest(self, domain: int, depth: int, number: int) -> tuple[int, int]:
        """The smallest domain in *domain* that gives as much of the levels from *depth* on, and the
        count of the first of them."""
        rooms, count = self.rooms.inside[depth], self.levels[depth].count
        if self.fixed(depth):
            return rooms.smallest(number, domain), count.minimum
        wanted = self.value(domain, depth)
        assert wanted is not None
        alike = (d for d in self.fabric.inside(domain) if self.value(d, depth) == wanted)
        place = min((self.fabric.height[d], rooms.order(d, 1)) for d in alike)
        return place[1].domain, wanted[0]

    def nodes(self, domain: int, units: int) -> Iterator[Given]:
        """The leaves of *units* units in *domain*, which has room for them."""
        for inner, share in in_few(self.rooms, domain, units):
            yield from spread(inner, share, self.rooms.units)
