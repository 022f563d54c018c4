"""Spread: which domains above the nodes (switches) a job gets: the smallest, or as few as possible.

A job of several nodes gets the smallest domain that can serve all of it, and among those the best
fit (``Order``). If no domain below the root can, it gets as few domains of the highest level as
possible: those with the most room, and for the rest the best fit. The rule holds again for its
share in that last domain; of all others the job takes all. The rule is the same for localities
above the nodes that a request names: their domains then take the place of nodes.

A job that may have at most n domains of a locality gets the smallest domain that can serve it so.
If the rule would take more than n in it, only the n with the most room count.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, Optional, Sequence

import attrs

from treepool.placement.choose.rooms import RequestRooms, Rooms, balanced, roomiest, shares
from treepool.placement.nodes.fabric_tree import Fabric
from treepool.placement.request.need import Level
from treepool.rfc.count import Count

#: A domain and the number of units it gives.
Given = tuple[int, int]


def settled(level: Level, number: int) -> Level:
    """*level* with its count settled."""
    return attrs.evolve(level, count=Count(number, number))


def spread(domain: int, wanted: int, rooms: Rooms, last: Callable[[int], bool]) -> Iterator[Given]:
    """The domains with property *last* in *domain* in which *wanted* of *rooms* are taken.

    *domain* has room for them.
    """
    fabric = rooms.fabric
    while True:
        domain = rooms.smallest(wanted, domain)
        if last(domain):
            yield domain, wanted
            return
        if rooms(domain).number == wanted:
            yield from all_of(domain, rooms, last)
            return
        # The most room first, until one of the others has room for the rest.
        children = (d for d in fabric.children[domain] if rooms(d).number)
        left = sorted(children, key=lambda d: (-rooms(d).number, rooms.order(d, 0)))
        while rooms(left[0]).number < wanted:
            first = left.pop(0)
            yield from all_of(first, rooms, last)
            wanted -= rooms(first).number
        able = (d for d in left if rooms(d).number >= wanted)
        domain = min(rooms.order(d, wanted) for d in able).domain


def all_of(domain: int, rooms: Rooms, last: Callable[[int], bool]) -> Iterator[Given]:
    """The domains with property *last* in *domain*, each with all of *rooms* that it has."""
    if last(domain):
        if rooms(domain).number:
            yield domain, rooms(domain).number
        return
    for child in rooms.fabric.children[domain]:
        yield from all_of(child, rooms, last)


class Spread:
    """Where the nodes of a request may be, as the rooms for it are now.

    *levels* are the localities that the request names. Each innermost domain gives at least *each*
    units; a whole domain gives all. If domains may give more, *extent* returns how much a domain
    can give, or None for nothing.
    """

    def __init__(
        self,
        rooms: RequestRooms,
        levels: Sequence[Level] = (),
        each: int = 1,
        extent: Optional[Callable[[int], Optional[tuple[Any, ...]]]] = None,
    ) -> None:
        self.rooms = rooms
        self.fabric: Fabric = rooms.units.fabric
        self.levels = levels
        self.each = each
        self.extent = extent
        self._values: dict[tuple[int, int], Optional[tuple[Any, ...]]] = {}

    def settled(self, levels: Sequence[Level], each: int) -> Spread:
        """This spread with other *levels*, and *each* units of each innermost domain."""
        rooms = RequestRooms.of(self.rooms.units, levels, each, self.rooms.at_most)
        return Spread(rooms, levels, each, self.extent)

    # -- how much

    def copies(self, domain: int, depth: int = 0) -> int:
        """How often *domain* can host the levels from *depth* on, at their smallest counts."""
        return self.rooms.levels[depth](domain).number

    def inside(self, domain: int, name: str) -> bool:
        """Whether *domain* is a domain of locality *name* or in one."""
        return bool(self.fabric.within(name)[domain])

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
        if self.inside(domain, level.name):
            inner = self.value(domain, depth + 1)
            return None if inner is None or 1 not in level.count else (1, (inner,))
        values = [self.value(d, depth + 1) for d in self.fabric.named_in(domain, level.name)]
        able = sorted((value for value in values if value is not None), reverse=True)
        number = level.count.largest(len(able))
        return None if number is None else (number, tuple(able[:number]))

    # -- where

    def above(self, domain: int, depth: int = 0) -> Iterator[tuple[int, int]]:
        """The domains that the levels above the slots choose in *domain*, each with the depth at
        which something else stands. There is a value for *domain*."""
        if depth == len(self.levels) or self.levels[depth].groups:
            yield domain, depth
            return
        level, rooms = self.levels[depth], self.rooms.levels[depth]
        wanted = self.value(domain, depth)
        assert wanted is not None
        if self.fixed(depth):
            domain = rooms.smallest(1, domain)
        else:
            alike = [d for d in self.fabric.inside(domain) if self.value(d, depth) == wanted]
            height = min(self.fabric.height[d] for d in alike)
            lowest = (d for d in alike if self.fabric.height[d] == height)
            domain = min(rooms.order(d, 1) for d in lowest).domain
        if self.inside(domain, level.name):
            yield from self.above(domain, depth + 1)
            return
        named, inside = self.fabric.named_in(domain, level.name), self.rooms.levels[depth + 1]
        values = {d: self.value(d, depth + 1) for d in named if inside(d).number}
        chosen: Iterable[int]
        if len(set(values.values())) == 1:
            number = level.count.minimum if self.fixed(depth) else wanted[0]
            chosen = (d for d, _ in self.shared(domain, depth, number, 1))
        else:  # those that can give more come first; None only if a search gave up
            able = {d: value for d, value in values.items() if value is not None}
            by_fit = sorted(able, key=lambda d: inside.order(d, 1))
            chosen = sorted(by_fit, key=able.__getitem__, reverse=True)[: wanted[0]]
        for inner in chosen:
            yield from self.above(inner, depth + 1)

    def shared(self, domain: int, depth: int, number: int, most: int) -> Iterator[Given]:
        """*number* copies of what is inside the level at *depth*: domains of the level in *domain*,
        each with up to *most*."""
        name = self.levels[depth].name
        named = self.fabric.named(name)
        rooms = shares(self.rooms.levels[depth + 1], name, most)
        return spread(domain, number, rooms, lambda d: bool(named[d]))

    def place(self, domain: int, depth: int, number: int) -> Iterator[Given]:
        """The innermost domains of *number* copies of the levels from *depth* on in *domain*.

        There is room for them, and all counts are fixed.
        """
        if depth == len(self.levels):
            yield domain, number
            return
        level = self.levels[depth]
        if level.groups:
            yield from self.place(domain, depth + 1, number * level.count.minimum)
            return
        domain = self.rooms.levels[depth].smallest(number, domain)
        if self.inside(domain, level.name):
            yield from self.place(domain, depth + 1, number)
            return
        for inner, share in self.shared(domain, depth, number * level.count.minimum, number):
            yield from self.place(inner, depth + 1, share)

    def nodes(self, domain: int, units: int) -> Iterator[Given]:
        """The leaves of *units* units in *domain*, which has room for them."""
        all_, at_most = self.rooms.units, self.rooms.at_most
        height = self.fabric.height
        if at_most is None:
            yield from spread(domain, units, all_, lambda d: not height[d])
            return
        domain = self.rooms.few.smallest(units, domain)
        chosen = [(domain, units)]
        if not self.inside(domain, at_most.locality):
            named = self.fabric.named(at_most.locality)

            def among(rooms: Rooms) -> list[Given]:
                return list(spread(domain, units, rooms, lambda d: bool(named[d])))

            if at_most.balanced:
                chosen = balanced(all_, at_most, domain, units)
            else:
                chosen = among(shares(all_, at_most.locality, units))
                if len(chosen) > at_most.domains:
                    chosen = among(roomiest(all_, at_most, domain))
        for inner, share in chosen:
            yield from spread(inner, share, all_, lambda d: not height[d])
