"""Spread: the domains above the nodes that a request gets.

A job of several nodes gets the smallest domain that can serve all of it, and among those the best
fit (``Fitting``). If no domain below the root can, it gets as few domains of the highest level as
possible: those with the most room, and for the rest the best fit. The rule holds again for its
share in that last domain; of all others the job takes all. The rule is the same for localities
above the nodes that a request names: their domains then take the place of nodes.

A job that may have at most n domains of a locality gets the smallest domain that can serve it so.
If the rule would take more than n in it, only the n with the most room count.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, Optional, Sequence

import attrs

from treepool.placement.choose.rooms import Rooms
from treepool.placement.choose.tables import Above, Copies, Few, Named, Room
from treepool.placement.nodes.fabric import Fabric
from treepool.placement.request.need import Level
from treepool.rfc.count import Count

#: A domain and the number of units it gives.
Given = tuple[int, int]


def settled(level: Level, number: int) -> Level:
    """*level* with its count settled."""
    return attrs.evolve(level, count=Count(number, number))


class Spread:
    """Where the nodes of a request may be, as *rooms* are now.

    *levels* are the localities that the request names, and *tables* their tables. Each innermost
    domain gives at least *each* units; a whole domain gives all. If domains may give more, *extent*
    returns how much a domain can give, or None for nothing.
    """

    def __init__(
        self,
        rooms: Rooms,
        levels: Sequence[Level] = (),
        each: int = 1,
        extent: Optional[Callable[[int], Optional[tuple[Any, ...]]]] = None,
        tables: Optional[list[Above]] = None,
    ) -> None:
        self.rooms = rooms
        self.fabric: Fabric = rooms.fabric
        self.levels = levels
        self.each = each
        self.extent = extent
        self.tables = tables or (rooms.tables(levels, each) if levels else [])
        self.few: Optional[Few] = rooms.few
        self._values: dict[tuple[int, int], Optional[tuple[Any, ...]]] = {}

    # -- how much

    def copies(self, domain: int, depth: int = 0) -> int:
        """How often *domain* can host the levels from *depth* on, at their smallest counts.

        Exact up to the number that may be asked of one domain.
        """
        return self.tables[depth].units[domain]

    def local(self, domain: int, depth: int) -> bool:
        """Whether *domain* can host the levels from *depth* on with all slots local."""
        return self.tables[depth].local[domain] > 0

    def inside(self, domain: int, name: str) -> bool:
        """Whether *domain* is a domain of locality *name* or in one."""
        return bool(self.fabric.within(name)[domain])

    def below(self, domain: int, name: str) -> list[int]:
        """The domains of locality *name* in *domain*."""
        return [d for d in self.fabric.inside(domain) if self.fabric.locality[d] == name]

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
        values = [self.value(d, depth + 1) for d in self.below(domain, level.name)]
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
        fixed, level = self.fixed(depth), self.levels[depth]
        wanted = self.value(domain, depth)
        assert wanted is not None
        if fixed:
            domain = self.tables[depth].smallest(1, domain)
        else:
            alike = [d for d in self.fabric.inside(domain) if self.value(d, depth) == wanted]
            domain = self._smallest(alike, depth)
        if self.inside(domain, level.name):
            yield from self.above(domain, depth + 1)
            return
        chosen: Iterable[int]
        if fixed:
            chosen = self.distinct(domain, depth, level.count.minimum)
        else:
            inside = (d for d in self.below(domain, level.name) if self.copies(d, depth + 1))
            values = {d: self.value(d, depth + 1) for d in inside}
            if len(set(values.values())) == 1:
                chosen = self.distinct(domain, depth, wanted[0])
            else:  # those that can give more come first; None only if a search gave up
                able = {d: value for d, value in values.items() if value is not None}
                fitting = self.rooms.fitting
                by_fit = sorted(able, key=lambda d: fitting(d, not self.local(d, depth + 1)))
                chosen = sorted(by_fit, key=able.__getitem__, reverse=True)[: wanted[0]]
        for inner in chosen:
            yield from self.above(inner, depth + 1)

    def distinct(self, domain: int, depth: int, number: int) -> Iterator[int]:
        """*number* distinct domains of the level at *depth* in *domain*, all as good."""
        for inner, _ in self.shared(domain, depth, number, 1):
            yield inner

    def shared(self, domain: int, depth: int, number: int, most: int) -> Iterator[Given]:
        """*number* copies of what is inside the level at *depth*: domains of the level in *domain*,
        each with up to *most*. No domain inside *domain* has room for all of them."""
        table = self.tables[depth]
        assert isinstance(table, Copies)
        return self.span(domain, number, table.shares(most), self._ends_at(table))

    def _ends_at(self, table: Named) -> Callable[[int], bool]:
        named = table.named
        return lambda domain: bool(named[domain])

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
        domain = self.tables[depth].smallest(number, domain)
        if self.inside(domain, level.name):
            yield from self.place(domain, depth + 1, number)
            return
        for inner, share in self.shared(domain, depth, number * level.count.minimum, number):
            yield from self.place(inner, depth + 1, share)

    def nodes(self, domain: int, units: int) -> Iterator[Given]:
        """The leaves of *units* units in *domain*, which has room for them."""
        few = self.few
        if few is None:
            yield from self._anywhere(domain, units)
            return
        domain = few.smallest(units, domain)
        if self.inside(domain, few.name):
            yield from self._anywhere(domain, units)
            return
        chosen = list(self.span(domain, units, few.shares(), self._ends_at(few)))
        if len(chosen) > few.number:
            chosen = list(self.span(domain, units, few.roomiest(domain), self._ends_at(few)))
        for inner, share in chosen:
            yield from self._anywhere(inner, share)

    def _anywhere(self, domain: int, units: int) -> Iterator[Given]:
        if units < self.rooms.units[domain]:
            domain = self.rooms.smallest(units, domain)
        height = self.fabric.height
        yield from self.span(domain, units, self.rooms.room, lambda d: height[d] == 0)

    def _smallest(self, domains: list[int], depth: int) -> int:
        """The first in order of the smallest of *domains*, for the levels from *depth* on."""
        height = self.fabric.height
        least = min(height[d] for d in domains)
        fitting = self.rooms.fitting
        found = min(fitting(d, not self.local(d, depth)) for d in domains if height[d] == least)
        return found.domain

    def span(
        self, domain: int, wanted: int, room: Room, last: Callable[[int], bool]
    ) -> Iterator[Given]:
        """The domains with property *last* in which *wanted* of *room* in *domain* are taken.

        No domain inside it has room for all of them.
        """
        while not last(domain):
            if room(domain, False) == wanted:
                yield from self._all_of(domain, room, last)
                return
            # The most room first, until one of the others has room for the rest.
            children = sorted(
                (-room(d, False), self.rooms.fitting(d, False))
                for d in self.fabric.children[domain]
                if room(d, False)
            )
            for place, (free, fitting) in enumerate(children):
                if -free >= wanted:
                    left = [fitting.domain for _, fitting in children[place:]]
                    domain = self._best(left, wanted, room)
                    domain = self._first(domain, wanted, room, last)
                    break
                yield from self._all_of(fitting.domain, room, last)
                wanted += free
            if not wanted:
                return
        yield domain, wanted

    def _first(self, domain: int, wanted: int, room: Room, last: Callable[[int], bool]) -> int:
        """The smallest domain in *domain* with *room* for *wanted*, the first in order."""
        height, fitting = self.fabric.height, self.rooms.fitting
        able = (d for d in self._down_to(domain, last) if room(d, False) >= wanted)
        return min((height[d], fitting(d, room(d, True) < wanted)) for d in able)[1].domain

    def _best(self, domains: Iterable[int], wanted: int, room: Room) -> int:
        """The best fit of *domains*, whatever their height."""
        able = (d for d in domains if room(d, False) >= wanted)
        return min(self.rooms.fitting(d, room(d, True) < wanted) for d in able).domain

    def _all_of(self, domain: int, room: Room, last: Callable[[int], bool]) -> Iterator[Given]:
        for inner in self._down_to(domain, last):
            if last(inner) and room(inner, False):
                yield inner, room(inner, False)

    def _down_to(self, domain: int, last: Callable[[int], bool]) -> Iterator[int]:
        """*domain* and what is in it, down to those with property *last*."""
        yield domain
        if not last(domain):
            for child in self.fabric.children[domain]:
                yield from self._down_to(child, last)
