"""The choice: which nodes a request gets, and which property they share (job option ``same``).

A request may leave open which property its nodes share (``same``) and how much each slot gets (a
range as a count below the slot, see grown.py). Both allocation and explanation use this module to
find out what a request would get.

A property family is all properties with the same prefix before a colon: ``driver:550`` and
``driver:560`` belong to the family ``driver``. Its members are the domains of a fabric of one level
(``Inventory.family``), so what each of them can host is known as it is of switches (rooms.py).
"""

from __future__ import annotations

from typing import Iterator, Optional

import attrs

from treepool.placement.choose.candidates import Candidates, reached, split_on
from treepool.placement.choose.grown import Steps, grown
from treepool.placement.choose.policy import Policy
from treepool.placement.choose.rooms import RequestRooms, Rooms, Value, units_in
from treepool.placement.choose.selection import Choice, Selection
from treepool.placement.choose.serve import Domains, is_searched, serve
from treepool.placement.choose.spread import Spread
from treepool.placement.effort import Effort, GivenUp
from treepool.placement.nodes.census import Census
from treepool.placement.nodes.fabric_tree import ROOT, Fabric
from treepool.placement.nodes.index import NodeIndex
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.state import NodeState
from treepool.placement.nodes.tree import NodeType
from treepool.placement.on_node.fit import assess, possible, work_of
from treepool.placement.request.form import Fill
from treepool.placement.request.need import Ask
from treepool.placement.request.vertices import Request
from treepool.rfc import idset
from treepool.rfc.constraint import Constraint, with_property

#: For how many requests a situation keeps the rooms in domains above the nodes; and for how many
#: domains in all, because the plan has a situation for each view.
MAX_ROOMS, MAX_ROOM_DOMAINS = 16, 1 << 16

#: How many requests' orders of candidates a situation keeps up to date.
MAX_CANDIDATES = 64

#: Ranks that are counted in a step, in some 5 us each.
_RANKS = 256

#: In so many states what a job gets is chosen in one step, at some 0.2 ms each.
_FEW_STATES = 16

#: What decides the order of a request's candidates.
_Key = tuple[Ask, Optional[Constraint], bool]


@attrs.frozen(eq=False)
class Situation:
    """What choices are made from: the nodes, what is free on them, and the policy's order.

    ``kept`` are the candidates of the latest requests, the latest last, and ``kept_rooms`` the
    rooms of those that were served in domains above the nodes. ``prepared`` says of the latest
    requests of several attempts where the index's log ended when they were prepared. ``given_up``
    counts the choices in which a search gave up.
    """

    inventory: Inventory
    index: NodeIndex
    policy: Policy
    kept: dict[_Key, Candidates] = attrs.field(factory=dict)
    kept_rooms: dict[tuple[object, ...], RequestRooms] = attrs.field(factory=dict)
    prepared: dict[Request, int] = attrs.field(factory=dict)
    given_up: GivenUp = attrs.field(factory=GivenUp)

    def on(self, index: NodeIndex) -> Situation:
        """This situation with another *index*: what is given up is counted together."""
        return Situation(self.inventory, index, self.policy, given_up=self.given_up)

    def choice(self, request: Request) -> Choice:
        """What *request* gets: the first of the best selections. Nothing is allocated."""
        effort, selection = Effort(), None
        steps = _settling(request, self, effort)
        try:
            while True:
                selection = self._served(steps.send(selection), effort)
        except StopIteration as stop:
            best: Choice = stop.value
        self.given_up.count += effort.gave_up
        return best._replace(gave_up=effort.gave_up, effort=effort.tried)

    def prepare(self, request: Request) -> Iterator[int]:
        """Compute in steps what ``choice(request)`` would compute and remember in one step.

        Yields the work of each step in units of some 10 µs, and nothing where all is remembered.
        May be left alone at any time; what changes meanwhile is left to the choice. What needs a
        search is left to it, too, unless the request takes several attempts.
        """
        index = self.index
        if not request.growing and request.same is None:
            yield from self._prepare(request)
            return
        if self.prepared.get(request) == index.log_start + len(index.log):
            return
        effort, selection = Effort(), None
        if request.same is not None:
            yield from self._count(self.inventory.family(request.same.family))
            if not is_searched(request.ask, self.inventory):
                yield from self._assess(request)
        steps = _settling(request, self, effort)
        try:
            while True:
                asked, before = steps.send(selection), effort.tried
                yield from self._prepare(asked)
                selection = self._served(asked, effort)
                yield 1 + effort.tried - before
        except StopIteration as stop:
            yield from _chosen(stop.value.selection)
        if len(self.prepared) >= MAX_CANDIDATES:
            self.prepared.clear()
        self.prepared[request] = index.log_start + len(index.log)

    def _prepare(self, request: Request) -> Iterator[int]:
        """Compute in steps what one attempt computes and remembers."""
        if is_searched(request.ask, self.inventory):
            return
        most = request.form.most
        fabric, locality = self.inventory.fabric, request.ask.locality
        anywhere = fabric is None or locality == "none" or most == 1
        if fabric is not None and locality != "none":
            yield from self._count(fabric)
        fills = isinstance(request.form, Fill) or request.number is None
        if not request.above and (anywhere or fills):
            key = _key(request)
            if key not in self.kept:
                within = self.inventory.matching(request.constraint)
                new = Candidates(self.index, request.ask, self.policy, within, self.split(request))
                yield from new.build()
                self._keep(key, new)
            yield from self.candidates(request, Effort()).prepare(most)
            if fabric is not None and locality != "none" and most == 1:
                yield from Domains(request, self, Effort(), fabric).steps_on_one(ROOT, 1)
        if request.above or not anywhere:  # what each domain can host depends on all its nodes
            yield from self._assess(request)
            assert fabric is not None
            yield from Domains(request, self, Effort(), fabric).prepare()
            if len(self.index.buckets) > _FEW_STATES:
                yield from _chosen(serve(request, self, Effort()))

    def _count(self, fabric: Fabric) -> Iterator[int]:
        """Count what is in the domains of *fabric*; yields the work of each step."""
        for number in self.index.counted(fabric, _RANKS):
            yield number // 2

    def _assess(self, request: Request) -> Iterator[int]:
        """Compute the fits of all states that may serve *request*; yields the work of each."""
        ask = request.ask
        for state in reached(self.index, self.inventory.matching(request.constraint)):
            if ask not in state.fits and possible(state, ask):
                yield work_of(state, ask)

    def _served(self, request: Request, effort: Effort) -> Optional[Selection]:
        """The nodes that serve *request*, whose counts below the slot are settled."""
        found = serve(request, self, effort)
        effort.tried += len(found.grants) if found is not None else 0
        return found

    def spread(self, request: Request) -> Spread:
        """The domains of the fabric for *request*, with all counts at their minimum."""
        fabric = self.inventory.fabric
        assert fabric is not None
        return Domains(request, self, Effort(), fabric).spread()

    def candidates(self, request: Request, effort: Effort) -> Candidates:
        """The candidates for *request*, whose open questions are settled."""
        key = _key(request)
        within = self.inventory.matching(request.constraint)
        if is_searched(request.ask, self.inventory):
            states = self.searched(request, effort)
            split = self.split(request)
            return Candidates(self.index, request.ask, self.policy, within, split, states)
        found = self.kept.pop(key, None)
        if found is None:
            found = Candidates(self.index, request.ask, self.policy, within, self.split(request))
        self._keep(key, found)
        return found

    def split(self, request: Request) -> frozenset[NodeType]:
        """The types of node on which slots of *request* are split, and on others are not."""
        if not request.across_types:
            return frozenset()
        return split_on(self.inventory, request.ask, request.constraint)

    def _keep(self, key: _Key, candidates: Candidates) -> None:
        if len(self.kept) >= MAX_CANDIDATES:
            del self.kept[next(iter(self.kept))]  # the one not used for longest
        self.kept[key] = candidates

    def searched(self, request: Request, effort: Effort) -> dict[NodeState, None]:
        """The states that can serve *request*, as far as the effort to search them goes.

        Idle states come first, since they are the most likely to serve it, then those with the
        lowest ranks. A state counts the same whether its fit is remembered or not.
        """
        ask, buckets = request.ask, self.index.buckets
        within = self.inventory.matching(request.constraint)
        lowest = [
            (not state.idle, rank, state)
            for state in reached(self.index, within)
            if possible(state, ask) and (rank := idset.lowest(buckets[state] & within)) >= 0
        ]
        able: dict[NodeState, None] = {}
        for _, _, state in sorted(lowest):  # no rank is in two states
            if (ask, state) not in effort.counted:
                if not effort.allows(0):
                    break
                effort.counted.add((ask, state))
                effort.tried += work_of(state, ask)
            found = assess(state, ask)
            effort.gave_up |= found.gave_up
            if found.steps:
                able[state] = None
        return able

    def rooms(self, request: Request, census: Census, value: Value) -> RequestRooms:
        """The rooms for *request* in the domains of *census*, by the *value* of each state."""
        levels, at_most = request.levels, request.at_most
        each = request.least_in_each if levels or at_most else 1
        key = census.fabric, _key(request), levels, each, at_most
        found = self.kept_rooms.pop(key, None)
        searched = is_searched(request.ask, self.inventory)
        if found is None or found.units.census is not census or searched:
            size = len(census.fabric) * (1 + len(levels))
            most = min(MAX_ROOMS, max(1, MAX_ROOM_DOMAINS // size))
            while len(self.kept_rooms) >= most:
                del self.kept_rooms[next(iter(self.kept_rooms))]
            within = self.inventory.matching(request.constraint)
            units = units_in(census, self.index, within, value)
            found = RequestRooms(units, levels, each, at_most)
        if not searched:
            self.kept_rooms[key] = found
        return found


def _chosen(selection: Optional[Selection]) -> Iterator[int]:
    """Choose the ids of *selection*, as far as they are not known; yields the work of each."""
    for grant in selection.grants if selection is not None else ():
        yield from grant.fit.prepare(grant.units - 1)


def _key(request: Request) -> _Key:
    return request.ask, request.constraint, request.across_types


def _settling(request: Request, situation: Situation, effort: Effort) -> Steps:
    """Settle what *request* leaves open."""
    if request.same is None:
        return (yield from grown(request, situation.inventory, effort))
    return (yield from _best_of_same(request, situation, effort))


def _best_of_same(request: Request, situation: Situation, effort: Effort) -> Steps:
    """What *request* gets on nodes that share a property of its family: the best of what it gets
    on those of each member. Of equally good members, it is the best fit."""
    assert request.same is not None
    anywhere = attrs.evolve(request, same=None)
    plain = attrs.evolve(anywhere, ask=anywhere.bound, levels=(), at_most=None, growing=())
    fabric = situation.inventory.family(request.same.family)
    rooms = Domains(plain, situation, effort, fabric).rooms.units
    wanted = request.least_asks
    counts = [level.count for level in request.levels]
    fixed = not request.growing and anywhere.number is not None and all(c.fixed for c in counts)
    best = Choice(request, None)
    for place, member in enumerate(by_fit(rooms, wanted, fixed)):
        room, given = rooms(member), best.selection
        if given is not None:
            # If all counts are fixed, nothing is better than any place but one with local slots.
            better = given.remote and room.local >= wanted
            if not (better if fixed else room.number >= given.extent[0]):
                continue
        if place and not effort.allows():
            break
        name = fabric.name[member] or ""
        found = yield from grown(narrowed(request, name), situation.inventory, effort)
        best = found if found.better(best) else best
    if best.selection is None and not request.same.required:
        return (yield from grown(anywhere, situation.inventory, effort))
    return best


def members(family: str, inventory: Inventory) -> list[str]:
    """The properties of *family* that some node has, sorted."""
    fabric = inventory.family(family)
    return [fabric.name[domain] or "" for domain in fabric.children[ROOT]]


def by_fit(rooms: Rooms, wanted: int, local: bool) -> list[int]:
    """The members of a family with room for *wanted* units: the one with the fewest free cores on
    its nodes first, then the fewest free GPUs (best fit: large free areas remain). If *local*,
    those with room for *wanted* local units come before the others."""
    able = [d for d in rooms.fabric.children[ROOT] if rooms(d).number >= wanted]
    return sorted(able, key=lambda d: rooms.order(d, wanted if local else 0))


def narrowed(request: Request, name: str) -> Request:
    """*request* restricted to the nodes with property *name*."""
    return attrs.evolve(request, constraint=with_property(request.constraint, name), same=None)
