"""Rooms: how often each domain of a fabric can host what a request asks for; which is the best fit.

A room is a rule that goes down the tree. What it says of a domain is kept until something in the
domain changes, so its cost follows what changes, not the number of domains.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from itertools import islice
from typing import (
    Callable,
    Dict,
    Generic,
    Iterable,
    Iterator,
    NamedTuple,
    Optional,
    Sequence,
    TypeVar,
)
from weakref import proxy

import attrs

from treepool.placement.nodes.census import Census
from treepool.placement.nodes.fabric_tree import ROOT
from treepool.placement.nodes.index import NodeIndex
from treepool.placement.nodes.state import NodeState
from treepool.placement.on_node.ledger import rows_of
from treepool.placement.request.job_options import Within
from treepool.placement.request.need import Level
from treepool.rfc import idset

#: For how many numbers the smallest domains are kept.
MAX_NUMBERS = 4

#: How many units a node in a state can host, and how many of them with all slots local.
Value = Callable[[NodeState], tuple[int, int]]

#: Numbers, and how many domains have each.
Multiset = Dict[int, int]

T = TypeVar("T")


class Known(Generic[T]):
    """What *rule* says of a domain of *census*, kept until something in the domain changes.

    A rule that asks for the domains inside does so by a proxy. In a cycle, a census would stay in
    memory until the garbage is collected: 50 MB for a plan of 256 jobs on 11,136 nodes.
    """

    def __init__(self, census: Census, rule: Callable[[int], T]) -> None:
        self.census = census
        self._rule = rule
        self._answers: dict[int, tuple[int, T]] = {}

    def unknown(self, domain: int = ROOT) -> Iterator[int]:
        """The domains in *domain*, itself included, of which nothing is kept, the inner first."""
        known = self._answers.get(domain)
        if known is None or known[0] != self.census.versions[domain]:
            for child in self.census.fabric.children[domain]:
                yield from self.unknown(child)
            yield domain

    def __call__(self, domain: int) -> T:
        """What is true of *domain* now."""
        known = self._answers.get(domain)
        if known is None or known[0] != self.census.versions[domain]:
            known = self._answers[domain] = self.census.versions[domain], self._rule(domain)
        return known[1]


class Room(NamedTuple):
    """How often a domain can host something, in all and with all slots local; and the free cores
    and GPUs of the nodes in it that may serve the request."""

    number: int
    local: int
    cores: int
    gpus: int


class Order(NamedTuple):
    """A place in the order of the domains that can host something: *best fit*.

    Domains in which all of it is local come first, then those with the fewest free cores, the
    fewest free GPUs, the fewest deferred ranks, and the lowest rank.
    """

    remote: bool
    cores: int
    gpus: int
    deferred: int
    lowest: int
    domain: int


class Rooms(Known[Room]):
    """The room of each domain for something, by a *rule*."""

    def __init__(self, census: Census, rule: Callable[[int], Room]) -> None:
        super().__init__(census, rule)
        self.fabric = census.fabric
        self._smallest: dict[int, Known[Optional[tuple[int, Order]]]] = {}

    def order(self, domain: int, wanted: int) -> Order:
        """The place of *domain* in the order of those that can host it *wanted* times."""
        _, local, cores, gpus = self(domain)
        deferred = self.census.deferred_in.get(domain, 0) if self.census.deferred else 0
        return Order(local < wanted, cores, gpus, deferred, self.fabric.lowest[domain], domain)

    def smallest(self, wanted: int, around: int = ROOT) -> int:
        """The smallest domain in *around* that can host it *wanted* times, the first in order.

        *around* can.
        """
        if wanted not in self._smallest:
            if len(self._smallest) >= MAX_NUMBERS:
                del self._smallest[next(iter(self._smallest))]
            rooms = proxy(self)
            self._smallest[wanted] = Known(self.census, lambda d: rooms._smallest_in(d, wanted))
        smallest = self._smallest[wanted](around)
        assert smallest is not None
        return smallest[1].domain

    def _smallest_in(self, domain: int, wanted: int) -> Optional[tuple[int, Order]]:
        """The height of the smallest domain in *domain*, and its place; None if there is none."""
        if self(domain).number < wanted:
            return None
        inside = map(self._smallest[wanted], self.fabric.children[domain])
        here = self.fabric.height[domain], self.order(domain, wanted)
        return min(filter(None, inside), default=here)


def units_in(census: Census, index: NodeIndex, within: int, value: Value) -> Rooms:
    """The units of the up ranks of *index* in *within* (bitmask), by the *value* of each state."""
    fabric = census.fabric
    having = fabric.having(within)

    def states(leaf: int) -> Iterable[tuple[NodeState, int]]:
        if within == idset.EVERY:
            return census.held[leaf].items()
        here = fabric.part(leaf, index.up & within)
        held: dict[NodeState, int] = {}
        for state, those in index.states(here):
            held[state] = held.get(state, 0) + idset.size(those)
        return held.items()

    def rule(domain: int) -> Room:
        units = local = cores = gpus = 0
        if domain not in having:
            return Room(units, local, cores, gpus)
        children = fabric.children[domain]
        if children:
            return Room(*map(sum, zip(*map(rooms, children))))
        for state, number in states(domain):
            all_, near = value(state)
            units += number * all_
            local += number * near
            cores += number * state.ncores
            gpus += number * state.ngpus
        return Room(units, local, cores, gpus)

    made = Rooms(census, rule)
    rooms = proxy(made)
    return made


def together(inner: Rooms, locality: str, most: Callable[[Multiset], int]) -> Rooms:
    """What the domains of *locality* in a domain can host together: *most* of what each can.

    *most* is told how many of them have which room. In a domain of the locality, it is *inner*.
    """
    named, inside = inner.fabric.named(locality), inner.fabric.within(locality)

    def each(domain: int) -> tuple[Multiset, Multiset]:
        """How many domains of the locality have which units, and which local ones."""
        room = inner(domain)
        if named[domain]:
            return {room.number: 1}, {room.local: 1}
        counts: tuple[Multiset, Multiset] = {}, {}
        if room.cores or room.gpus:
            for child in inner.fabric.children[domain]:
                for mine, theirs in zip(counts, those_in(child)):
                    for number, domains in theirs.items():
                        mine[number] = mine.get(number, 0) + domains
        return counts

    numbers = Known(inner.census, each)
    those_in = proxy(numbers)

    def rule(domain: int) -> Room:
        if inside[domain]:
            return inner(domain)
        units, local = numbers(domain)
        return inner(domain)._replace(number=most(units), local=most(local))

    return Rooms(inner.census, rule)


def in_few(units: Rooms, at_most: Within) -> Rooms:
    """The *units* in so few domains of a locality as *at_most* allows: those with the most."""

    def most(rooms: Multiset) -> int:
        left, total = at_most.domains, 0
        for room in sorted(rooms, reverse=True):
            total += room * min(rooms[room], left)
            left = max(0, left - rooms[room])
        return total

    def most_balanced(rooms: Multiset) -> int:
        best = larger = 0  # how many domains have more room than those that are looked at
        for room in sorted(rooms, reverse=True):
            domains = min(larger + rooms[room], at_most.domains)
            best = max(best, domains * room + min(larger, domains))
            larger += rooms[room]
        return best

    return together(units, at_most.locality, most_balanced if at_most.balanced else most)


def balanced(units: Rooms, at_most: Within, around: int, wanted: int) -> list[tuple[int, int]]:
    """The domains of a locality in *around* that have equal parts of *wanted* units, and these.

    They are as few as possible, and of those that have the room the first in order.
    """
    named = [d for d in units.fabric.named_in(around, at_most.locality) if units(d).number]
    named.sort(key=lambda d: units.order(d, 0))
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


def roomiest(units: Rooms, at_most: Within, around: int) -> Rooms:
    """The *units* in those domains of a locality in *around* that have the most."""
    named = [d for d in units.fabric.named_in(around, at_most.locality) if units(d).number]
    key = {d: (-units(d).number, units.order(d, 0)) for d in named}
    best = heapq.nsmallest(at_most.domains, named, key=key.__getitem__)
    return in_all(units, at_most.locality, {d: units(d) for d in best}.get)


def in_all(units: Rooms, locality: str, room: Callable[[int], Optional[Room]]) -> Rooms:
    """What all domains of *locality* in a domain can host together, each as its *room* says.

    What is inside of them is not counted.
    """
    named = units.fabric.named(locality)

    def rule(domain: int) -> Room:
        here = room(domain) if named[domain] else None
        return here or units(domain)._replace(number=0, local=0)

    every = Rooms(units.census, rule)
    return together(every, locality, lambda rooms: sum(n * room for room, n in rooms.items()))


def shares(inner: Rooms, locality: str, most: int) -> Rooms:
    """What all domains of *locality* can host of what *inner* says, each *most* times at most."""

    def room(domain: int) -> Room:
        inside = inner(domain)
        return inside._replace(number=min(inside.number, most), local=min(inside.local, most))

    return in_all(inner, locality, room)


def of_level(inner: Rooms, level: Level) -> Rooms:
    """How often a domain can host *level*, if *inner* says so of what is inside it."""
    fabric, least = inner.fabric, level.count.minimum
    named, inside = fabric.named(level.name), fabric.within(level.name)
    several = together(inner, level.name, lambda rooms: rows_of(rooms.items(), least))

    def rule(domain: int) -> Room:
        room = inner(domain)
        if level.groups:
            return room._replace(number=room.number // least, local=room.local // least)
        if not inside[domain]:
            return several(domain)
        # One domain is enough if one is asked for; all of a whole one.
        enough = least == 1 and (named[domain] or not level.whole)
        return room if enough else room._replace(number=0, local=0)

    return Rooms(inner.census, rule)


def of_nodes(units: Rooms, each: int, whole: bool) -> Rooms:
    """How often a domain can host the nodes of a request: *each* units at least.

    Of *whole* domains all nodes are taken.
    """
    size = units.fabric.size

    def rule(domain: int) -> Room:
        room = units(domain)
        most, local = (
            int(number == size[domain] and number >= each) if whole else number // each
            for number in room[:2]
        )
        return room._replace(number=most, local=local)

    return Rooms(units.census, rule)


@attrs.frozen(eq=False)
class RequestRooms:
    """The rooms for a request.

    ``units`` are slots, domains above the slot, or nodes, whatever the request counts; ``few`` are
    those in so few domains as ``at_most`` allows. ``levels`` has the room for each level that the
    request names and all inside it, the outermost first, and last that for *each* units at least
    in the innermost domains.
    """

    units: Rooms
    at_most: Optional[Within]
    few: Rooms
    levels: tuple[Rooms, ...]

    @classmethod
    def of(
        cls, units: Rooms, levels: Sequence[Level], each: int, at_most: Optional[Within]
    ) -> RequestRooms:
        """The rooms for *levels*, if there is room for *units*."""
        few = units if at_most is None else in_few(units, at_most)
        levels_of = [of_nodes(few, each, bool(levels) and levels[-1].whole)]
        for level in reversed(levels):
            levels_of.insert(0, of_level(levels_of[0], level))
        return cls(units, at_most, few, tuple(levels_of))
