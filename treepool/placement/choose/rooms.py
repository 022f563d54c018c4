"""Rooms: how often each domain of a fabric can host what a request asks for; which is the best fit.

A room is a rule that goes down the tree. What it says of a domain is kept until something in the
domain changes, so its cost follows what changes, not the number of domains.
"""

from __future__ import annotations

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
from treepool.placement.nodes.tree import NODE
from treepool.placement.on_node.ledger import rows_of
from treepool.placement.request.job_options import Within
from treepool.placement.request.need import Level
from treepool.rfc import idset
from treepool.rfc.count import Count

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

    def by(self, rule: Callable[[int], int]) -> Room:
        """This room with what *rule* says of its numbers."""
        return Room(rule(self.number), rule(self.local), self.cores, self.gpus)


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
        found = index.states(fabric.part(leaf, index.up & within))
        return ((state, idset.size(ranks)) for state, ranks in found)

    def rule(domain: int) -> Room:
        children = fabric.children[domain]
        if children and domain in having:
            return Room(*map(sum, zip(*map(rooms, children))))
        number = local = cores = gpus = 0
        for state, nodes in states(domain) if domain in having else ():
            all_, near = value(state)
            number += nodes * all_
            local += nodes * near
            cores += nodes * state.ncores
            gpus += nodes * state.ngpus
        return Room(number, local, cores, gpus)

    made = Rooms(census, rule)
    rooms = proxy(made)
    return made


def together(
    inner: Rooms,
    locality: str,
    most: Callable[[Multiset], int],
    enough: Optional[Callable[[int], bool]] = None,
) -> Rooms:
    """What the domains of *locality* in a domain can host together: *most* of what each can.

    *most* is told how many of them have which room. In a domain of the locality, it is *inner*, if
    that is *enough*.
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
        room = inner(domain)
        if inside[domain]:
            return room if enough is None or enough(domain) else room.by(lambda _: 0)
        number, local = map(most, numbers(domain))
        return Room(number, local, room.cores, room.gpus)

    return Rooms(inner.census, rule)


def in_few(units: Rooms, at_most: Within) -> Rooms:
    """The *units* in so few domains of a locality as *at_most* allows: those with the most."""

    def most(rooms: Multiset) -> int:
        total = best = larger = 0  # how many domains have more room than those that are looked at
        for room in sorted(rooms, reverse=True):
            domains = min(larger + rooms[room], at_most.domains)
            total += room * max(0, domains - larger)
            best = max(best, domains * room + min(larger, domains))
            larger += rooms[room]
        return best if at_most.balanced else total

    return together(units, at_most.locality, most)


def among(inner: Rooms, chosen: Iterable[int], most: int) -> Rooms:
    """What the *chosen* domains in a domain can host together, each *most* times at most.

    What is inside of them is not counted.
    """
    having = frozenset(chosen)

    def rule(domain: int) -> Room:
        room = inner(domain)
        if domain in having:
            return room.by(lambda number: min(number, most))
        number = local = 0
        for child in inner.fabric.children[domain] if room.cores or room.gpus else ():
            number += rooms(child).number
            local += rooms(child).local
        return Room(number, local, room.cores, room.gpus)

    made = Rooms(inner.census, rule)
    rooms = proxy(made)
    return made


def of_level(inner: Rooms, level: Level) -> Rooms:
    """How often a domain can host *level*, if *inner* says so of what is inside it."""
    fabric, least = inner.fabric, level.count.minimum
    if level.groups:
        size = fabric.size

        def of_whole(domain: int) -> Room:
            return inner(domain).by(lambda number: int(number == size[domain] and number >= least))

        def of_groups(domain: int) -> Room:
            return inner(domain).by(lambda number: number // least)

        return Rooms(inner.census, of_whole if level.whole else of_groups)
    named = fabric.named(level.name)
    return together(
        inner,
        level.name,
        lambda rooms: rows_of(rooms.items(), least),
        # One domain is enough if one is asked for; all of a whole one.
        lambda domain: least == 1 and (bool(named[domain]) or not level.whole),
    )


@attrs.frozen(eq=False)
class RequestRooms:
    """The rooms for a request.

    ``units`` are slots, domains above the slot, or nodes, whatever the request counts; ``few`` are
    those in so few domains as ``at_most`` allows. ``inside`` has the room for each of ``levels``
    and all inside it, the outermost first, and last that for ``each`` units at least in the
    innermost domains.
    """

    units: Rooms
    levels: Sequence[Level]
    each: int
    at_most: Optional[Within]
    few: Rooms = attrs.field(init=False)
    inside: Sequence[Rooms] = attrs.field(init=False)

    @few.default
    def _few(self) -> Rooms:
        return self.units if self.at_most is None else in_few(self.units, self.at_most)

    @inside.default
    def _inside(self) -> Sequence[Rooms]:
        whole = bool(self.levels) and self.levels[-1].whole
        found = [of_level(self.few, Level(NODE, Count(self.each, self.each), whole, groups=True))]
        for level in reversed(self.levels):
            found.insert(0, of_level(found[0], level))
        return found
