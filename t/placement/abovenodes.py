"""The fabric for the reference: doc/design.md, "Above the node", rule by rule.

Sets of ranks and a tree of them; each question is put to ``Plain``, the node rules on some ranks,
anew. Nothing is kept.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any, Callable, Iterator, NamedTuple, Optional, Sequence

from placement.wanted import Level, Wanted, ids, largest, smallest, valid
from treepool.rfc.count import Count


class Above:
    """A domain above the nodes, the root, or a rank that stands alone."""

    def __init__(self, name: str, domain: dict[str, Any], around: Optional[Above] = None) -> None:
        self.name = name
        self.around = around
        self.children = [
            Above(inner, item, self)
            for inner, items in domain.items()
            if isinstance(items, list)
            for item in items
        ]
        inside = set().union(*(child.ranks for child in self.children))
        self.ranks = inside | ids(domain.get("ranks", ""))
        if self.children or name == "":
            self.stand_alone(self.ranks - inside)

    def stand_alone(self, ranks: set[int]) -> None:
        """Add *ranks* as domains of their own."""
        self.ranks |= ranks
        self.children += [Above("alone", {"ranks": str(rank)}, self) for rank in sorted(ranks)]

    def walk(self) -> Iterator[Above]:
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def height(self) -> int:
        return max((child.height + 1 for child in self.children), default=0)

    @property
    def depth(self) -> int:
        return 0 if self.around is None else 1 + self.around.depth

    def is_in(self, name: str) -> bool:
        return self.name == name or (self.around is not None and self.around.is_in(name))


def fabric_of(R: dict[str, Any], ranks: set[int], table: dict[int, int]) -> Optional[Above]:
    """The fabric of the key of *R*, None if it has none; *table* is what R calls its ranks."""
    scheduling = R.get("scheduling", {})
    if scheduling.get("writer") != "TreePool" or "fabric" not in scheduling:
        return None

    def moved(domain: dict[str, Any]) -> Optional[dict[str, Any]]:
        found = {}
        if "ranks" in domain:
            kept = sorted(table[r] for r in ids(domain["ranks"]) if table.get(r) in ranks)
            found["ranks"] = ",".join(map(str, kept))
        for name, items in domain.items():
            if isinstance(items, list):
                inner = [item for item in map(moved, items) if item is not None]
                if inner:
                    found[name] = inner
        return found if Above("", found).ranks else None

    root = Above("", moved(scheduling["fabric"]) or {})
    root.stand_alone(ranks - root.ranks)
    return root


class Nodes(NamedTuple):
    """What the node rules give: the units of each rank, whether all are local, and the whole
    answer. ``extent`` is how large it is."""

    units: dict[int, int]
    local: bool
    extent: Any
    answer: Any

    @property
    def number(self) -> int:
        return sum(self.units.values())


class Plain(NamedTuple):
    """The node rules for one request.

    ``on(ranks)`` is what they give of *ranks*, None for nothing; ``some(ranks, n)`` the same for n
    units. ``room(rank, local)`` are the units that a rank has room for. ``free(ranks)`` are the
    free cores and GPUs of those that may serve the job. ``equal(rank)`` are the ranks that may be
    taken instead of the only one that serves the job; ``idle(ranks)`` how many are idle.
    """

    on: Callable[[set[int]], Optional[Nodes]]
    some: Callable[[set[int], int], Optional[Nodes]]
    room: Callable[[int, bool], int]
    free: Callable[[set[int]], tuple[int, int]]
    equal: Callable[[set[int], int], set[int]]
    idle: Callable[[set[int]], int]
    counted: bool


class Ruled(NamedTuple):
    """What the rules of the fabric give: which units each set of ranks gives; or one node; or what
    some domains give, in ``parts``. ``slots`` are those that span nodes of domains."""

    shares: list[tuple[set[int], int]]
    one: Optional[Nodes] = None
    parts: Sequence[Nodes] = ()
    slots: int = 0


def rule(domain: Above, plain: Plain) -> Optional[Ruled]:
    """What a request gets in *domain*, as if the pool were that domain."""
    first = plain.on(domain.ranks)
    if first is None:
        return None
    if len(first.units) == 1:
        (rank,) = first.units
        best = walk_down(domain, plain.equal(domain.ranks, rank), plain)
        return Ruled([], plain.on({best}))
    if not plain.counted:
        return Ruled(list(share(domain, first.number, plain)))
    inside = [d for d in domain.walk() if d is not domain]
    for height in range(domain.height):
        found = []
        for d in inside:
            there = plain.on(d.ranks) if d.height == height else None
            if there is not None and there.extent == first.extent:
                found.append((not there.local, *plain.free(d.ranks), min(d.ranks), there))
        if found:
            return Ruled([], min(found, key=lambda f: f[:4])[4])
    return Ruled([], first)


def walk_down(domain: Above, ranks: set[int], plain: Plain) -> int:
    """Of equal *ranks* the one in the domain with the fewest idle nodes, from the highest level."""
    if not domain.children:
        return min(ranks & domain.ranks)
    having = [child for child in domain.children if child.ranks & ranks]
    best = min(having, key=lambda d: (plain.idle(d.ranks), min(d.ranks)))
    return walk_down(best, ranks, plain)


def share(domain: Above, number: int, plain: Plain) -> Iterator[tuple[set[int], int]]:
    """The shares of *number* units in *domain*, which has room for them."""

    def room(d: Above, local: bool = False) -> int:
        return sum(plain.room(rank, local) for rank in d.ranks)

    def fitting(d: Above) -> tuple[Any, ...]:
        return room(d, True) < number, *plain.free(d.ranks), min(d.ranks)

    able = [d for d in domain.walk() if d is not domain and room(d) >= number]
    if room(domain) == number or not domain.children:
        yield domain.ranks, number
        return
    if able:
        least = min(d.height for d in able)
        best = min((d for d in able if d.height == least), key=fitting)
        yield from share(best, number, plain)
        return
    others = sorted(domain.children, key=lambda d: (-room(d), *plain.free(d.ranks), min(d.ranks)))
    while number:
        able = [d for d in others if room(d) >= number]
        if able:
            yield from share(min(able, key=fitting), number, plain)
            return
        first = others.pop(0)
        yield first.ranks, room(first)
        number -= room(first)


# ---- Localities that are named ----


class Named:
    """The levels of a request, their counts below the slot settled to *levels* and *each*."""

    def __init__(self, plain: Plain, want: Wanted, levels: tuple[Level, ...], each: int) -> None:
        self.plain = plain
        self.want = want
        self.levels = levels
        self.each = each
        self.fixed = any(level.groups for level in levels) or not (
            plain.counted
            or not (want.units if want.nodes is None else want.nodes).fixed
            or (want.spans and not want.units.fixed)
        )

    def fits(self, d: Above, depth: int, number: int, local: bool = False) -> bool:
        """Whether *d* can host so many copies of the levels from *depth* on at their minimum."""
        if not number:
            return True
        if depth == len(self.levels):
            room = self.room(d, local)
            if self.levels and self.levels[-1].whole:
                return number == 1 and room == len(d.ranks) and room >= self.each
            return room >= number * self.each
        level = self.levels[depth]
        least = smallest(level.count)
        if level.groups:
            return self.fits(d, depth + 1, number * least, local)
        if d.is_in(level.name):
            exact = d.name == level.name or not level.whole
            return least == 1 and exact and self.fits(d, depth + 1, number, local)
        inner = [i for i in d.walk() if i.name == level.name]
        rooms = [self.most(i, depth + 1, number, local) for i in inner]

        def packed(left: int, rooms: list[int]) -> bool:
            """Whether *left* copies find *least* distinct domains each."""
            if not left:
                return True
            return any(
                packed(left - 1, [room - (i in chosen) for i, room in enumerate(rooms)])
                for chosen in combinations([i for i, room in enumerate(rooms) if room], least)
            )

        return packed(number, rooms)

    def room(self, d: Above, local: bool = False) -> int:
        """The units that *d* has room for, in as few domains as the job may have."""
        rooms = [self.plain.room(rank, local) for rank in d.ranks]
        if self.want.at_most is not None and not d.is_in(self.want.at_most[0]):
            name, number = self.want.at_most
            rooms = sorted(self.room(i, local) for i in d.walk() if i.name == name)[-number:]
        return sum(rooms)

    def extent(self, d: Above) -> Any:
        """How large the job is in *d*, which has few enough domains: the outer count first."""
        nodes, units = self.want.nodes, self.want.units
        if nodes is None or not self.want.spans:
            number = largest(units if nodes is None else nodes, self.room(d))
            return None if number is None else (number,)
        slots = largest(units, self.room(d) // smallest(nodes))
        return None if slots is None else (slots, largest(nodes, self.room(d) // slots))

    def few(self, d: Above, number: int) -> Iterator[tuple[set[int], int]]:
        """The shares of *number* units in as few domains as the job may have."""
        assert self.want.at_most is not None
        name, most = self.want.at_most

        def fitting(i: Above) -> tuple[Any, ...]:
            return self.room(i, True) < number, *self.plain.free(i.ranks), min(i.ranks)

        able = [i for i in d.walk() if self.room(i) >= number]
        d = min(able, key=lambda i: (i.height, fitting(i)))
        if d.is_in(name):
            yield from share(d, number, self.plain)
            return
        named = [i for i in d.walk() if i.name == name]
        named.sort(key=lambda i: (-self.room(i), *self.plain.free(i.ranks), min(i.ranks)))
        for those in (named, named[:most]):
            rooms = {i: (self.room(i), self.room(i, True)) for i in those}
            chosen = list(self.deal(d, number, rooms))
            if len(chosen) <= most:
                break
        for inner, units in chosen:
            yield from share(inner, units, self.plain)

    def most(self, d: Above, depth: int, upto: int, local: bool = False) -> int:
        return max(n for n in range(upto + 1) if self.fits(d, depth, n, local))

    def value(self, d: Above, depth: int) -> Any:
        """The most that *d* can give, the outermost count first; None for nothing."""
        if depth == len(self.levels):
            if not self.fits(d, depth, 1):
                return None
            if self.want.at_most is not None:
                return self.extent(d)
            found = () if self.fixed else self.plain.on(d.ranks)
            return found.extent if isinstance(found, Nodes) else found
        level = self.levels[depth]
        if level.groups:
            number = largest(level.count, self.most(d, depth + 1, len(d.ranks)))
            return None if number is None else (number,)
        if d.is_in(level.name):
            inner = self.value(d, depth + 1)
            return None if inner is None or 1 not in level.count else (1, (inner,))
        able = self.able(d, depth)
        number = largest(level.count, len(able))
        values = sorted((value for _, value in able), reverse=True)
        return None if number is None else (number, tuple(values[:number]))

    def able(self, d: Above, depth: int) -> list[tuple[Above, Any]]:
        """The domains in *d* that the level at *depth* names, with what they give."""
        inner = [i for i in d.walk() if i.name == self.levels[depth].name]
        found = [(i, self.value(i, depth + 1)) for i in inner]
        return [(i, value) for i, value in found if value is not None]

    def fitting(self, d: Above, depth: int, number: int) -> tuple[Any, ...]:
        return not self.fits(d, depth, number, True), *self.plain.free(d.ranks), min(d.ranks)

    def choose(self, d: Above, depth: int) -> Iterator[tuple[Above, int]]:
        """The domains chosen above the slots."""
        if depth == len(self.levels) or self.levels[depth].groups:
            yield d, depth
            return
        level = self.levels[depth]
        wanted = self.value(d, depth)
        able = [i for i in d.walk() if self.value(i, depth) == wanted]
        d = min(able, key=lambda i: (i.height, self.fitting(i, depth, 1)))
        if d.is_in(level.name):
            yield from self.choose(d, depth + 1)
            return
        able = self.able(d, depth)
        if all(value == able[0][1] for _, value in able):
            room = {i: (1, int(self.fits(i, depth + 1, 1, True))) for i, _ in able}
            chosen = [i for i, _ in self.deal(d, wanted[0], room)]
        else:
            able.sort(key=lambda found: self.fitting(found[0], depth + 1, 1))
            able.sort(key=lambda found: found[1], reverse=True)
            chosen = [i for i, _ in able[: wanted[0]]]
        for inner in chosen:
            yield from self.choose(inner, depth + 1)

    def place(self, d: Above, depth: int, number: int) -> Iterator[tuple[Above, int]]:
        """The innermost domains of so many copies of the levels from *depth* on."""
        if depth == len(self.levels):
            yield d, number
            return
        level = self.levels[depth]
        able = [i for i in d.walk() if self.fits(i, depth, number)]
        d = min(able, key=lambda i: (i.height, self.fitting(i, depth, number)))
        if d.is_in(level.name):
            yield from self.place(d, depth + 1, number)
            return
        room = {
            i: tuple(self.most(i, depth + 1, number, local) for local in (False, True))
            for i in d.walk()
            if i.name == level.name
        }
        for inner, share_ in self.deal(d, number * smallest(level.count), room):
            yield from self.place(inner, depth + 1, share_)

    def deal(self, d: Above, number: int, room: dict[Above, Any]) -> Iterator[tuple[Above, int]]:
        """*number* of *room* in *d*: in its smallest domain that has it, or in the fewest."""

        def rooms(i: Above, local: int = 0) -> int:
            return sum(room[j][local] for j in i.walk() if j in room)

        def fitting(i: Above) -> tuple[Any, ...]:
            return rooms(i, 1) < number, *self.plain.free(i.ranks), min(i.ranks)

        if rooms(d) == number:
            yield from ((i, rooms(i)) for i in d.walk() if i in room and rooms(i))
            return
        if d in room:
            yield d, number
            return
        above = [i for i in d.walk() if i is not d and rooms(i) >= number]
        if above:
            yield from self.deal(min(above, key=lambda i: (i.height, fitting(i))), number, room)
            return
        free = self.plain.free
        left = sorted(d.children, key=lambda i: (-rooms(i), *free(i.ranks), min(i.ranks)))
        while number:
            able = [i for i in left if rooms(i) >= number]
            if able:
                yield from self.deal(min(able, key=fitting), number, room)
                return
            first = left.pop(0)
            yield from self.deal(first, rooms(first), room)
            number -= rooms(first)


def named(root: Above, plain: Plain, want: Wanted) -> Optional[Ruled]:
    """What a request gets that names localities above the nodes, or limits their number."""
    levels = want.levels
    each = smallest(want.units if want.nodes is None else want.nodes)
    groups = [i for i, level in enumerate(levels) if level.groups]
    if want.spans and not groups:
        each *= smallest(want.units)
    request = Named(plain, want, levels, each)
    wanted = request.value(root, 0)
    if wanted is None:
        return None
    places = range(groups[0] + 1, len(levels) + 1) if groups else range(0)
    for i in places:
        number = levels[i].count if i < len(levels) else want.nodes
        if number is None or number.fixed or (i == len(levels) and levels[-1].whole):
            continue
        for value in reversed(valid(number, len(root.ranks))):
            if i < len(levels):
                one = levels[i]._replace(count=Count(value, value))
                found = Named(plain, want, (*levels[:i], one, *levels[i + 1 :]), each)
            else:
                found = Named(plain, want, levels, value)
            if found.value(root, 0) == wanted:
                request, levels, each = found, found.levels, found.each
                break
    shares: list[tuple[set[int], int]] = []
    parts: list[Any] = []
    slots = 0
    for d, depth in request.choose(root, 0):
        if depth < len(levels):
            number = largest(levels[depth].count, request.most(d, depth + 1, len(d.ranks)))
            assert number is not None
            slots += number if levels[depth].name == "slot" else smallest(want.units)
            for inner, copies in request.place(d, depth + 1, number):
                units = len(inner.ranks) if levels[-1].whole else copies * each
                shares += share(inner, units, plain)
        elif want.at_most is not None:
            extent = request.extent(d)
            slots += extent[0] if want.spans else 0
            shares += request.few(d, math.prod(extent))
        elif request.fixed:
            slots += smallest(want.units)
            shares += share(d, each, plain)
        else:
            found_here = rule(d, plain)
            assert found_here is not None
            one = found_here.one
            slots += plain.on(d.ranks).answer.nslots
            if one is not None:
                parts.append(one)
            shares += found_here.shares
    return Ruled(shares, parts=parts, slots=slots)
