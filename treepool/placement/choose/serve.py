"""Serving a request: when the order of nodes decides, and when switches and other domains do.

Without a fabric, selection.py decides alone. With a fabric, the node rules decide how much of the
request can be served, because counts come first. A job that they place on one node stays there, or
moves to an equal node in a domain with fewer idle nodes. Any other job is served by domains:
spread.py chooses them, and the node rules hold in each.

The file has more than 300 lines because both kinds of requests use the same rooms and census.
"""

from __future__ import annotations

import math
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, Collection, Iterable, Iterator, Optional

import attrs

from treepool.placement.choose.candidates import Candidates
from treepool.placement.choose.rooms import RequestRooms, Room, Value
from treepool.placement.choose.selection import Grant, Selection, select
from treepool.placement.choose.spread import Given, Spread, settled
from treepool.placement.effort import PER_ATTEMPT, Effort
from treepool.placement.nodes.census import Census
from treepool.placement.nodes.fabric_tree import ROOT, Fabric
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.state import NodeState
from treepool.placement.on_node.fit import NOTHING, assess, fit, possible
from treepool.placement.request.need import SLOT, Ask
from treepool.placement.request.vertices import Request
from treepool.rfc import idset
from treepool.rfc.count import Count

if TYPE_CHECKING:
    from treepool.placement.choose.choice import Situation

#: Domains above the nodes that take a unit of effort to serve from, and to make a table of.
_ATTEMPT_DOMAINS, _TABLE_DOMAINS = 8, 16

#: Domains of which the rooms are computed in a step.
_ROOM_DOMAINS = 16


def serve(request: Request, situation: Situation, effort: Effort) -> Optional[Selection]:
    """The nodes that serve *request* now, None if there are not enough.

    The counts below its slot are at their minimum. *effort* counts searches and attempts.
    """
    fabric = situation.inventory.fabric
    if request.above:
        return Domains(request, situation, effort, fabric).levels() if fabric else None
    if fabric is None or request.ask.locality == "none":
        return select(request, situation.candidates(request, effort))
    if request.most == 1:  # the most common request
        candidates = situation.candidates(request, effort)
        candidates.refresh()
        return on_one(request, situation, fabric, ROOT, candidates, 1)
    return Domains(request, situation, effort, fabric).serve(ROOT)


def on_one(
    request: Request,
    situation: Situation,
    fabric: Fabric,
    domain: int,
    candidates: Candidates,
    units: int,
) -> Optional[Selection]:
    """*units* on the first node of *domain* in order; of equal nodes on that in the domain with
    the fewest idle nodes. The first node must have room for them."""
    top = candidates.best()
    if top is None:
        return None
    state, rank, index = top.state, top.rank, situation.index
    equal = set() if situation.policy.by_rank else candidates.equal(top)
    if len(equal) > 1 or (equal and index.buckets[state] != 1 << rank):
        census, within = index.census(fabric), situation.inventory.matching(request.constraint)
        while True:
            among = idset.union(index.buckets.get(state, 0) for state in equal)
            rank = census.first(among & within, domain)
            there = index.state_of[rank]
            assert there is not None
            if there is state or candidates.stands(there, top.order, units):
                state = there
                break
            equal = equal - {there}
    gives = fit(state, request.ask)
    assert gives is not None
    return Selection((Grant(state, 1 << rank, gives, units),), gives.nslots(units - 1))


class Domains:
    """A request with its counts below the slot settled, and the fabric that is to serve it."""

    def __init__(
        self, request: Request, situation: Situation, effort: Effort, fabric: Fabric
    ) -> None:
        self.request = request
        self.situation = situation
        self.effort = effort
        self.fabric = fabric
        self.within = situation.inventory.matching(request.constraint)

    # -- requests that name no locality above the nodes, and the share of an innermost domain

    def serve(self, domain: int) -> Optional[Selection]:
        """What the nodes in *domain* give, as if the pool were that domain."""
        request = self.request
        number = request.number
        if number is None or request.nodes is None or number == 1:
            plain = self.select(domain)
            if plain is None or idset.size(plain.ranks) == 1:
                return self.among_equals(domain, plain) if plain else None
            if request.ask.counted:
                return self.by_trial(domain, plain)
            number = sum(idset.size(grant.ranks) * grant.units for grant in plain.grants)
            slots = plain.nslots
        else:
            slots = request.units.minimum
        if self.units(domain).number < number:
            return None
        return self.granted(Spread(self.rooms).nodes(domain, number), slots)

    def select(self, domain: int) -> Optional[Selection]:
        """What the node rules choose of the nodes in *domain*."""
        return select(self.request, self.candidates_in(domain))

    def among_equals(self, domain: int, plain: Selection) -> Selection:
        """*plain*, which is one node, or an equal node in a domain with fewer idle nodes."""
        (grant,) = plain.grants
        if grant.units > grant.fit.segments[0].end:
            return plain
        candidates = self.candidates_in(domain)
        candidates.refresh()
        closer = on_one(self.request, self.situation, self.fabric, domain, candidates, grant.units)
        return closer or plain

    def by_trial(self, domain: int, plain: Selection) -> Selection:
        """As much as *plain* gives, in the smallest domain that can serve it.

        This is for requests of which some nodes can give more than others. It tries one domain
        after another, and returns *plain* if no effort is left.
        """
        height, rooms = self.fabric.height, self.rooms.units
        wanted = plain.extent[0]
        inside = [
            d for d in self.fabric.inside(domain) if d != domain and rooms(d).number >= wanted
        ]
        inside.sort(key=lambda d: (height[d], rooms.order(d, 0)))
        for _, alike in groupby(inside, key=height.__getitem__):
            remote: Optional[Selection] = None
            for inner in alike:
                if not self.attempts(inner):
                    return remote or plain
                selection = self.select(inner)
                if selection is not None and selection.extent == plain.extent:
                    if not selection.remote:  # all local, and the best fit of these
                        return selection
                    remote = remote or selection
            if remote is not None:
                return remote
        return plain

    # -- requests that name localities above the nodes, or limit the number of their domains

    def levels(self) -> Optional[Selection]:
        """What the request gets of the domains that it names."""
        request = self.request
        spread = self.spread()
        each, extent = spread.each, spread.extent
        wanted = spread.value(ROOT)
        if wanted is None:
            return None
        spread = self.settled(spread, wanted)
        levels = spread.levels
        given: list[Given] = []
        parts: list[Selection] = []
        slots = 0
        for domain, depth in spread.above(ROOT):
            if depth == len(levels):
                if extent is None:
                    given += spread.nodes(domain, each)
                    slots += request.units.minimum
                elif request.at_most:
                    counts = extent(domain)
                    assert counts is not None
                    given += spread.nodes(domain, math.prod(counts))
                    slots += counts[0]
                else:
                    part = self.serve(domain)
                    if part is None:  # only if a search gave up
                        return None
                    parts.append(part)
                continue
            number = levels[depth].count.largest(spread.copies(domain, depth + 1))
            assert number is not None
            slots += number if levels[depth].name == SLOT else request.units.minimum
            for inner, copies in spread.place(domain, depth + 1, number):
                all_ = levels[-1].whole
                units = self.units(inner).number if all_ else copies * spread.each
                given += spread.nodes(inner, units)
        if given:
            part = self.granted(given, slots)
            if part is None:
                return None
            parts.append(part)
        grants = tuple(grant for part in parts for grant in part.grants)
        return Selection(grants, sum(part.nslots for part in parts))

    def spread(self) -> Spread:
        """The levels of the request, with all counts at their minimum."""
        request = self.request
        extent = None if _fixed(request) else self.extent
        return Spread(self.rooms, request.levels, request.least_in_each, extent)

    def extent(self, domain: int) -> Optional[tuple[int, ...]]:
        """How much the node rules can serve of the request in *domain*, outer counts first."""
        nodes, units = self.request.nodes, self.request.units
        room = self.rooms.few(domain).number
        if self.request.ask.counted:
            least = self.request.least_in_each
            if room < least:
                return None
            if not self.attempts(domain):
                return (least,)
            selection = self.select(domain)
            return None if selection is None else selection.extent
        if nodes is None:
            most = units.largest(room)
            return None if most is None else (most,)
        slots = units.largest(room // nodes.minimum)
        if slots is None:
            return None
        return slots, nodes.largest(room // slots) or nodes.minimum

    def settled(self, spread: Spread, wanted: tuple[Any, ...]) -> Spread:
        """*spread* with the counts below its slots as large as leaves *wanted* as it is.

        They are the same for all slots, the outer ones first.
        """
        levels = list(spread.levels)
        slots = next((i for i, level in enumerate(levels) if level.groups), len(levels))
        nodes = self.request.nodes
        for i in range(slots + 1, len(levels) + 1):
            count = levels[i].count if i < len(levels) else nodes
            if count is None or count.fixed or (i == len(levels) and levels[-1].whole):
                continue
            values = list(count.valid(len(self.fabric.homes)))
            first, last = 0, len(values) - 1  # values[last] is known to fit
            tables = len(self.fabric) * len(levels) // _TABLE_DOMAINS
            while first < last and self.effort.allows(PER_ATTEMPT + tables):
                middle = (first + last) // 2
                if i < len(levels):
                    trial = [*levels[:i], settled(levels[i], values[middle]), *levels[i + 1 :]]
                    grown = spread.settled(trial, spread.each)
                else:
                    grown = spread.settled(levels, values[middle])
                if grown.value(ROOT) == wanted:
                    last, spread = middle, grown
                else:
                    first = middle + 1
            if i < len(levels):
                levels[i] = settled(levels[i], values[last])
                spread = spread.settled(levels, spread.each)
        return spread

    # -- nodes

    @cached_property
    def census(self) -> Census:
        """What is free in each domain, as it is now."""
        return self.situation.index.census(self.fabric)

    @cached_property
    def rooms(self) -> RequestRooms:
        """The rooms for the request, as they are now."""
        return self.situation.rooms(self.request, self.census, self.value())

    def prepare(self) -> Iterator[int]:
        """Compute the rooms in steps, the innermost first; yields the work of each."""
        rooms = self.rooms
        every = list(dict.fromkeys((rooms.units, rooms.few, *rooms.levels)))
        for number, domain in enumerate(rooms.units.unknown()):
            for each in every:
                each(domain)
            if not number % _ROOM_DOMAINS:
                yield 3 * _ROOM_DOMAINS * len(every)

    def units(self, domain: int) -> Room:
        """The room for units of the request in *domain*."""
        return self.rooms.units(domain)

    def value(self) -> Value:
        """What each state can host of the request; nothing is local on nodes that split slots."""
        ask, searched = self.request.ask, self.searched
        split = self.situation.split(self.request)

        def assessed(state: NodeState) -> tuple[int, int]:
            known = possible(state, ask) if searched is None else state in searched
            gives = assess(state, ask) if known else NOTHING
            return len(gives.steps), 0 if state.type in split else gives.local

        return assessed

    @cached_property
    def searched(self) -> Optional[Collection[NodeState]]:
        """The only states that can serve the request, if searches decide that."""
        if is_searched(self.request.ask, self.situation.inventory):
            return self.situation.searched(self.request, self.effort)
        return None

    def attempts(self, domain: int) -> bool:
        """Whether there is effort left for an attempt to serve the request in *domain*."""
        inside = self.fabric.end[domain] - domain
        return self.effort.allows(PER_ATTEMPT // 3 + inside // _ATTEMPT_DOMAINS)

    def candidates_in(self, domain: int) -> Candidates:
        """The candidates for the request in *domain*."""
        if domain == ROOT:
            return self.situation.candidates(self.request, self.effort)
        return self.candidates(self.fabric.leaves(domain))

    def candidates(self, leaves: Iterable[int]) -> Candidates:
        """The candidates for the request in *leaves*."""
        index, within, ask = self.situation.index, self.within, self.request.ask
        split = self.situation.split(self.request)
        leaves = list(leaves)
        states = dict.fromkeys(state for leaf in leaves for state in self.census.held[leaf])
        if self.searched is not None:
            states = dict.fromkeys(state for state in states if state in self.searched)
        within &= idset.from_ids(rank for leaf in leaves for rank in self.fabric.ranks[leaf])
        return Candidates(index, ask, self.situation.policy, within, split, states)

    def granted(self, given: Iterable[Given], slots: int) -> Optional[Selection]:
        """The nodes for the units that each leaf gives; *slots* if these span nodes."""
        rooms = self.units
        shares: dict[int, int] = {}
        for leaf, units in given:
            shares[leaf] = shares.get(leaf, 0) + units
        # Where all is taken, there is nothing to choose: one selection for all these leaves.
        full = [leaf for leaf, units in shares.items() if units == rooms(leaf).number]
        parts = [(full, sum(shares[leaf] for leaf in full))] if full else []
        parts += [([leaf], units) for leaf, units in shares.items() if units < rooms(leaf).number]
        grants: list[Grant] = []
        nslots = 0
        for leaves, units in parts:
            number, one = Count(units, units), Count(1, 1)
            counts = (None, number) if self.request.nodes is None else (number, one)
            request = attrs.evolve(self.request, nodes=counts[0], units=counts[1], spans=False)
            part = select(request, self.candidates(leaves))
            if part is None:  # only if a search gave up
                return None
            grants += part.grants
            nslots += part.nslots
        return Selection(tuple(grants), slots if self.request.spans else nslots)


def is_searched(ask: Ask, inventory: Inventory) -> bool:
    """Whether on some node a search decides what fits, which may give up."""
    return ask.searched or (ask.beside and inventory.has_mig)


def _fixed(request: Request) -> bool:
    """Whether each innermost domain is asked for a fixed number of units, whatever it can give."""
    if any(level.groups for level in request.levels):
        return True  # below slots, counts are the same for all
    return request.number is not None
