"""Spread: the domains above the nodes that a request gets.

A job of several nodes gets the smallest domain that can serve all of it, and among those the best
fit (``Fitting``). If no domain below the root can, it gets as few domains of the highest level as
possible: those with the most room, and for the rest the best fit. The rule holds again for its
share in that last domain; of all others the job takes all. The rule is the same for localities
above the nodes that a request names: their domains then take the place of nodes.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, Optional, Sequence

import attrs

from treepool.placement.choose.rooms import Fitting, Rooms
from treepool.placement.nodes.fabric import ROOT, Fabric
from treepool.placement.request.need import Level
from treepool.rfc.count import Count

#: What a domain can host of something: all of it, or only with all slots local.
Room = Callable[[int, bool], int]

#: A domain and the number of units it gives.
Given = tuple[int, int]


def settled(level: Level, number: int) -> Level:
    """*level* with its count settled."""
    return attrs.evolve(level, count=Count(number, number))


class Spread:
    """Where the nodes of a request may be, as *rooms* are now.

    *levels* are those that the request names. Each innermost domain gives *each* units at least;
    whole domains give all. If they may give more, *extent* says how much a domain could, or None.
    """

    def __init__(
        self,
        rooms: Rooms,
        levels: Sequence[Level] = (),
        each: int = 1,
        extent: Optional[Callable[[int], Optional[tuple[Any, ...]]]] = None,
    ) -> None:
        self.rooms = rooms
        self.fabric: Fabric = rooms.census.fabric
        self.levels = levels
        self.each = each
        self.extent = extent
        self._copies: dict[tuple[int, int, bool], int] = {}
        self._values: dict[tuple[int, int], Optional[tuple[Any, ...]]] = {}

    # -- how much

    def copies(self, domain: int, depth: int = 0, local: bool = False) -> int:
        """How often *domain* can host the levels from *depth* on, at their smallest counts.

        Exact up to the number that may be asked of one domain.
        """
        key = domain, depth, local
        found = self._copies.get(key)
        if found is None:
            found = self._copies[key] = self._copies_of(domain, depth, local)
        return found

    def _copies_of(self, domain: int, depth: int, local: bool) -> int:
        if depth == len(self.levels):
            room = (self.rooms.local if local else self.rooms.units)[domain]
            if depth and self.levels[-1].whole:
                size = sum(1 for _ in self.fabric.ranks_in(domain))
                return int(room == size and room >= self.each)
            return room // self.each
        level = self.levels[depth]
        number = level.count.minimum
        if level.groups:
            return self.copies(domain, depth + 1, local) // number
        if self.inside(domain, level.name):
            exact = not level.whole or self.fabric.locality[domain] == level.name
            return self.copies(domain, depth + 1, local) if number == 1 and exact else 0
        rooms = [self.copies(d, depth + 1, local) for d in self.below(domain, level.name)]
        if number == 1:
            return sum(rooms)
        low, high = 0, sum(rooms) // number  # the most copies with distinct domains for each
        while low < high:
            middle = (low + high + 1) // 2
            if sum(min(room, middle) for room in rooms) >= number * middle:
                low = middle
            else:
                high = middle - 1
        return low

    def inside(self, domain: int, name: str) -> bool:
        """Whether *domain* is a domain of locality *name* or in one."""
        return bool(self.fabric.within(name)[domain])

    def below(self, domain: int, name: str) -> list[int]:
        """The domains of locality *name* in *domain*."""
        if not self.fabric.height[domain]:
            return [domain] if self.fabric.locality[domain] == name else []
        return [d for d in self.fabric.inside(domain) if self.fabric.locality[d] == name]

    def value(self, domain: int, depth: int = 0) -> Optional[tuple[Any, ...]]:
        """How much of the levels from *depth* on *domain* could give at most; None for nothing.

        Counts above the slots are chosen for each domain by itself, the outermost first.
        """
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
        name, wanted = self.levels[depth].name, self.value(domain, depth)
        assert wanted is not None
        domain = self._smallest(
            (d for d in self.fabric.inside(domain) if self.value(d, depth) == wanted),
            lambda d: self.copies(d, depth, True) < 1,
        )
        if self.inside(domain, name):
            yield from self.above(domain, depth + 1)
            return
        values = {d: self.value(d, depth + 1) for d in self.below(domain, name)}
        able = {d: value for d, value in values.items() if value is not None}
        if len(set(able.values())) == 1:

            def room(domain: int, local: bool) -> int:
                inner = [domain] if domain in values else self.below(domain, name)
                return sum(
                    d in able and (not local or self.copies(d, depth + 1, True) > 0) for d in inner
                )

            chosen = [d for d, _ in self.span(domain, wanted[0], room, values.__contains__)]
        else:  # those that can give more come first
            fitting = self.rooms.fitting
            by_fit = sorted(able, key=lambda d: fitting(d, self.copies(d, depth + 1, True) < 1))
            chosen = sorted(by_fit, key=able.__getitem__, reverse=True)[: wanted[0]]
        for inner in chosen:
            yield from self.above(inner, depth + 1)

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
        domain = self.first(
            self.fabric.inside(domain), number, lambda d, local: self.copies(d, depth, local)
        )
        if self.inside(domain, level.name):
            yield from self.place(domain, depth + 1, number)
            return
        named = set(self.below(domain, level.name))

        def room(domain: int, local: bool) -> int:
            inner = [domain] if domain in named else self.below(domain, level.name)
            return sum(min(self.copies(d, depth + 1, local), number) for d in inner)

        for inner, share in self.span(
            domain, number * level.count.minimum, room, named.__contains__
        ):
            yield from self.place(inner, depth + 1, share)

    def nodes(self, domain: int, units: int) -> Iterator[Given]:
        """The leaves of *units* units in *domain*, which has room for them."""

        def room(domain: int, local: bool) -> int:
            return (self.rooms.local if local else self.rooms.units)[domain]

        if domain == ROOT and units < room(ROOT, False):
            domain = self.rooms.smallest(units)
        height = self.fabric.height
        yield from self.span(domain, units, room, lambda d: height[d] == 0)

    def first(self, domains: Iterable[int], wanted: int, room: Room) -> int:
        """The smallest of *domains* with *room* for *wanted*, the first in order."""
        able = (d for d in domains if room(d, False) >= wanted)
        return self._smallest(able, lambda d: room(d, True) < wanted)

    def _smallest(self, domains: Iterable[int], remote: Callable[[int], bool]) -> int:
        """The first in order of the smallest of *domains*."""
        height, listed = self.fabric.height, list(domains)
        least = min(height[d] for d in listed)
        found = min(self.rooms.fitting(d, remote(d)) for d in listed if height[d] == least)
        return found.domain

    def span(
        self, domain: int, wanted: int, room: Room, last: Callable[[int], bool]
    ) -> Iterator[Given]:
        """The domains with property *last* in which *wanted* of *room* in *domain* are taken."""
        while not last(domain):
            if room(domain, False) == wanted:
                yield from self._all_of(domain, room, last)
                return
            inner = [d for d in self._down_to(domain, last) if d != domain]
            if any(room(d, False) >= wanted for d in inner):
                domain = self.first(inner, wanted, room)
                continue
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
                    break
                yield from self._all_of(fitting.domain, room, last)
                wanted += free
            if not wanted:
                return
        yield domain, wanted

    def _best(self, domains: Iterable[int], wanted: int, room: Room) -> int:
        """The best fit of *domains*, whatever their height."""
        able = (d for d in domains if room(d, False) >= wanted)
        found: Fitting = min(self.rooms.fitting(d, room(d, True) < wanted) for d in able)
        return found.domain

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
