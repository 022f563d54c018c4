"""The choice: which nodes a request gets, with its open questions settled.

A request may leave open which property its nodes share (``same``) and how much each slot gets (a
range as a count below the slot). Both allocation and explanation use this module to find out what a
request would get.

The file has more than 300 lines because a choice among values and counts calls itself.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import groupby, product
from typing import Callable, NamedTuple, Optional, Sequence

import attrs

from treepool.placement.choose.candidates import Candidates
from treepool.placement.choose.policy import Policy
from treepool.placement.choose.rooms import Rooms, Value
from treepool.placement.choose.same import by_fit, narrowed
from treepool.placement.choose.selection import Selection
from treepool.placement.choose.serve import Domains, is_searched, least, serve, units_of
from treepool.placement.choose.spread import Spread
from treepool.placement.effort import (
    GIVEN_UP,
    PER_ATTEMPT,
    PER_REQUEST,
    Effort,
    GaveUp,
    Interrupted,
)
from treepool.placement.nodes.census import Census
from treepool.placement.nodes.index import NodeIndex
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.tree import Domain, NodeType
from treepool.placement.request.need import Ask, Growing, Need, ask_of, slot_of, with_count
from treepool.placement.request.vertices import Request
from treepool.rfc import idset
from treepool.rfc.constraint import Constraint

#: For how many requests a situation keeps the rooms in domains above the nodes; and for how many
#: domains in all, because the plan has 64 situations.
MAX_ROOMS, MAX_ROOM_DOMAINS = 16, 1 << 16

#: How many requests' orders of candidates a situation keeps up to date.
MAX_CANDIDATES = 64


class _Found(NamedTuple):
    """A request with what it leaves open settled, and what it gets; None if nothing.

    ``values`` are those of its counts below the slot.
    """

    request: Request
    selection: Optional[Selection]
    values: tuple[int, ...] = ()

    def better(self, other: _Found) -> bool:
        """Whether this selection is preferred to that of *other*: counts first, then locality."""
        if self.selection is None or other.selection is None:
            return self.selection is not None
        return self._key(self.selection) < other._key(other.selection)

    def _key(self, selection: Selection) -> tuple[object, ...]:
        units, nslots, remote = selection.preference
        return units, nslots, [-value for value in self.values], remote


@attrs.frozen(eq=False)
class Choice:
    """What a request would get: ``selection``, None if it cannot be served.

    ``request`` is the request that was served, with its counts below the slot and its constraint
    settled. If a search ``gave_up``, a better selection may exist, even if this one is None.
    """

    request: Request
    selection: Optional[Selection]
    gave_up: bool = False


@attrs.frozen(eq=False)
class Situation:
    """What choices are made from: the nodes, what is free on them, and the policy's order.

    ``kept`` are the candidates of the latest requests, the latest last, and ``kept_rooms`` the
    rooms of those that were served in domains above the nodes.
    """

    inventory: Inventory
    index: NodeIndex
    policy: Policy
    kept: dict[tuple[Ask, Optional[Constraint]], Candidates] = attrs.field(factory=dict)
    kept_rooms: dict[tuple[object, ...], Rooms] = attrs.field(factory=dict)

    def choice(self, request: Request) -> Choice:
        """What *request* gets: the first of the best selections. Nothing is allocated.

        Raises Interrupted in a portion of work.
        """
        effort = Effort(PER_REQUEST)
        try:
            if request.same is None:  # the common case, a fifth faster than the other
                best = _grown(request, self, effort)
            else:
                best = _best_of_same(request, self, effort)
        except Interrupted:
            raise
        except BaseException:  # candidates may have lost a state that they had just dropped
            self._forget()
            raise
        GIVEN_UP.count += effort.gave_up
        return Choice(best.request, best.selection, effort.gave_up)

    def spread(self, request: Request) -> Spread:
        """The domains of the fabric for *request*, with all counts at their minimum."""
        fabric = self.inventory.fabric
        assert fabric is not None
        try:
            return Domains(request, self, Effort(PER_REQUEST), fabric).spread()
        except Interrupted:
            raise
        except BaseException:
            self._forget()
            raise

    def _forget(self) -> None:
        """Count anew after an error, which may have left what is kept half done."""
        self.kept.clear()
        self.kept_rooms.clear()

    def candidates(self, request: Request) -> Candidates:
        """The candidates for *request*, whose open questions are settled."""
        key = request.ask, request.constraint
        found = self.kept.pop(key, None)
        if found is None:
            if len(self.kept) >= MAX_CANDIDATES:
                del self.kept[next(iter(self.kept))]  # the one not used for longest
            within = self.inventory.matching(request.constraint)
            found = Candidates(self.index, request.ask, self.policy, within)
        self.kept[key] = found
        return found

    def rooms(self, request: Request, census: Census, value: Value) -> Rooms:
        """The rooms for *request* in the domains of *census*, by the *value* of each state."""
        levels, at_most = request.levels, request.at_most
        each = least(request) if levels or at_most else 1
        key = census.fabric, request.ask, request.constraint, levels, each, at_most
        found = self.kept_rooms.pop(key, None)
        searched = is_searched(request.ask, self.inventory)
        if found is None or found.census is not census or searched:
            size = len(census.fabric) * (1 + len(levels))
            most = min(MAX_ROOMS, max(1, MAX_ROOM_DOMAINS // size))
            while len(self.kept_rooms) >= most:
                del self.kept_rooms[next(iter(self.kept_rooms))]
            within = self.inventory.matching(request.constraint)
            found = Rooms(census, within, value, levels, each, at_most)
        self.kept_rooms[key] = found
        found.follow(self.index)
        return found


def _best_of_same(request: Request, situation: Situation, effort: Effort) -> _Found:
    """What *request* gets on nodes that share a property of its family."""
    assert request.same is not None
    anywhere = attrs.evolve(request, same=None)
    fabric = situation.inventory.family(request.same.family)
    searched = is_searched(request.ask, situation.inventory)
    if searched:  # each member is tried: what states can host is not known without a search
        within = situation.inventory.matching(request.constraint)
        rooms = Rooms(situation.index.census(fabric), within, lambda state: (0, 0))
        rooms.follow(situation.index)
    else:
        plain = attrs.evolve(anywhere, levels=(), at_most=None)
        rooms = Domains(plain, situation, effort, fabric).rooms
    number = units_of(request)
    best = _Found(request, None)
    if number is not None and not (request.growing or request.above or searched):
        member = rooms.fabric.name[rooms.smallest(number)]
        if member is not None:
            return _grown(narrowed(request, member), situation, effort)
    else:
        for name in by_fit(rooms, 0 if searched else 1):
            found = _grown(narrowed(request, name), situation, effort)
            best = found if found.better(best) else best
    if best.selection is None and not request.same.required:
        return _grown(anywhere, situation, effort)
    return best


def _grown(request: Request, situation: Situation, effort: Effort) -> _Found:
    """What *request* gets with the counts below its slot as large as possible.

    All slots have the same counts. The counts on and above the slot have priority over them. Among
    the counts below the slot, the outer ones have priority.
    """
    if not request.growing:
        return _Found(request, serve(request, situation, effort))

    def attempt(values: Sequence[int], locality: str = request.ask.locality) -> _Found:
        ask = request.ask
        group = ask.group
        for growing, value in zip(request.growing, values):
            group = with_count(group, growing, value)
        one = attrs.evolve(request, ask=ask_of(group, ask.fill, ask.whole, locality), growing=())
        return _Found(one, serve(one, situation, effort), tuple(values))

    values = [_values(growing, situation.inventory) for growing in request.growing]
    if request.ask.locality == "required":
        return _best_of_all(values, attempt, request, situation.inventory, effort)
    return _largest(values, attempt)


def _values(growing: Growing, inventory: Inventory) -> list[int]:
    """The valid values of a count that some node may have room for, descending; never empty."""
    types = inventory.node_types
    if growing.what == "core":
        most = max((t.root.ncores for t in types), default=0)
    elif growing.what == "gpu":
        most = max((idset.size(t.root.gpus) for t in types), default=0)
    else:
        most = max((len(t.named.get(growing.what, ())) for t in types), default=0)
    return list(growing.count.valid(most)) or [growing.count.minimum]


def _largest(values: list[list[int]], attempt: Callable[..., _Found]) -> _Found:
    """The best choice if a smaller count always fits when a larger one does: by bisection."""
    settled = [those[-1] for those in values]
    best = attempt(settled)
    if best.selection is None:
        return best
    extent = best.selection.extent
    for place, those in enumerate(values):
        first, last = 0, len(those) - 1  # those[last] is known to fit
        while first < last:
            middle = (first + last) // 2
            found = attempt([*settled[:place], those[middle], *settled[place + 1 :]])
            if found.selection is not None and found.selection.extent == extent:
                last, best = middle, found
            else:
                first = middle + 1
        settled[place] = those[last]
    return best


def _best_of_all(
    values: list[list[int]],
    attempt: Callable[..., _Found],
    request: Request,
    inventory: Inventory,
    effort: Effort,
) -> _Found:
    """The best choice if a larger count may fit where a smaller one does not.

    With locality=required, the smallest domain for the larger count may be free while the smallest
    domain for the smaller count is not. The values are therefore divided into runs for which the
    smallest domains are the same. In each combination of runs, the smallest values fit best, and
    show whether larger ones are worth a try. This ends when as much is served as could be served
    without regard to locality.
    """
    best = _Found(request, None)
    most = attempt([those[-1] for those in values], "none").selection
    if most is None:
        return best

    def noted(settled: Sequence[int]) -> _Found:
        nonlocal best
        effort.count(PER_ATTEMPT)
        found = attempt(settled)
        best = found if _larger(found, best) else best
        return found

    runs = [_runs(those, g, request, inventory) for those, g in zip(values, request.growing)]
    try:
        for cell in product(*runs):
            largest = tuple(run[0] for run in cell)
            complete = best.selection is not None and best.selection.extent >= most.extent
            if complete and largest <= best.values:
                break
            found = noted([run[-1] for run in cell])
            if _larger(found._replace(values=largest), best):
                _largest(list(cell), noted)
    except GaveUp:  # the best found so far is an answer
        effort.gave_up = True
    return best


def _larger(found: _Found, best: _Found) -> bool:
    """Whether *found* serves more than *best*, or as much with larger counts below the slot."""
    if found.selection is None or best.selection is None:
        return found.selection is not None
    return (found.selection.extent, found.values) > (best.selection.extent, best.values)


def _runs(
    values: list[int], growing: Growing, request: Request, inventory: Inventory
) -> list[list[int]]:
    """*values* (descending) in runs for which the smallest domains that could host them are the
    same, so that a smaller value always fits when a larger one does.

    That is known of the cores of slots that need nothing besides: the runs end at sizes of domains.
    Where it is not known, each value is a run.
    """
    group = request.ask.group
    slot = slot_of(group)
    several = request.nodes is not None and group is not slot and not group.count.fixed
    if growing.what != "core" or several or not _is_chain(slot.need):
        return [[value] for value in values]
    sizes: set[int] = set()
    for node_type in inventory.node_types:
        if _has_nested(node_type):
            return [[value] for value in values]
        sizes.update(domain.ncores for domain in node_type.parent)
    ordered = sorted(sizes)
    return [list(run) for _, run in groupby(values, lambda value: bisect_left(ordered, value))]


def _has_nested(node_type: NodeType) -> bool:
    """Whether some domain is inside another of its locality: one may then be in the way of both."""
    above: dict[Domain, frozenset[str]] = {}
    for domain, parent in node_type.parent.items():
        names = above[parent] if parent is not None else frozenset()
        if domain.name in names:
            return True
        above[domain] = names | {domain.name}
    return False


def _is_chain(need: Need) -> bool:
    """Whether *need* is an amount, or domains of one locality with such a need in each."""
    while need.parts:
        if len(need.parts) > 1 or need.takes_amount:
            return False
        need = need.parts[0].need
    return True
