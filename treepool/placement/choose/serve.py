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
from itertools import dropwhile, groupby
from typing import TYPE_CHECKING, Any, Collection, Generator, Iterable, Iterator, Optional

import attrs

from treepool.placement.choose.candidates import Candidates
from treepool.placement.choose.rooms import RequestRooms, Value
from treepool.placement.choose.selection import Grant, Selection, select
from treepool.placement.choose.spread import Given, Spread
from treepool.placement.effort import PER_ATTEMPT, Effort, finished
from treepool.placement.nodes.census import Census
from treepool.placement.nodes.fabric_tree import ROOT, Fabric
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.state import NodeState
from treepool.placement.on_node.fit import NOTHING, assess, possible, work_of
from treepool.placement.request.form import Fill, Nodes, Span
from treepool.placement.request.need import Ask
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
    if not request.above and (fabric is None or request.ask.locality == "none"):
        return select(request.form, situation.candidates(request, effort))
    if fabric is None:
        return None
    domains = Domains(request, situation, effort, fabric)
    return domains.levels() if request.above else domains.serve(ROOT)


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
        request, form = self.request, self.request.form
        number = request.number
        if form.most == 1:  # the most common request
            return self.on_one(domain, 1)
        if number is None or isinstance(form, Fill):
            plain = self.select(domain)
            if plain is None:
                return None
            if idset.size(plain.ranks) == 1:
                (grant,) = plain.grants
                first = grant.units <= grant.fit.segments[0].end
                return self.on_one(domain, grant.units) if first else plain
            if request.ask.counted:
                return self.by_trial(domain, plain)
            number = sum(idset.size(grant.ranks) * grant.units for grant in plain.grants)
            slots = plain.nslots
        else:
            slots = form.counts[0].minimum
        if self.rooms.units(domain).number < number:
            return None
        return self.granted(Spread(self.rooms).nodes(domain, number), slots)

    def select(self, domain: int) -> Optional[Selection]:
        """What the node rules choose of the nodes in *domain*."""
        return select(self.request.form, self.candidates_in(domain))

    def on_one(self, domain: int, units: int) -> Optional[Selection]:
        """*units* on the first node of *domain* in order; of equal nodes on that in the domain with
        the fewest idle nodes. The first node must have room for them in its first segment."""
        return finished(self.steps_on_one(domain, units))

    def steps_on_one(self, domain: int, units: int) -> Generator[int, None, Optional[Selection]]:
        """``on_one`` in steps; yields the work of each. If nodes change meanwhile, it looks at each
        node once, and what it returns is of no use."""
        ask, candidates = self.request.ask, self.candidates_in(domain)
        candidates.refresh()
        top, index = candidates.best(), self.situation.index
        if top is None:
            return None
        state, rank = top.state, top.rank
        equal = set() if self.situation.policy.by_rank else candidates.equal(top)
        among = self.within & idset.union(index.buckets.get(state, 0) for state in equal)
        while among & ~(1 << rank):
            rank = self.census.first(among, domain)
            there = index.state_of[rank]
            assert there is not None
            among &= ~(index.buckets.get(there, 0) | 1 << rank)
            known = ask in there.fits
            stands = there is state or candidates.stands(there, top.order, units)
            if not known:
                yield work_of(there, ask)
            if stands:
                state = there
                break
        gives = assess(state, ask)
        return Selection((Grant(state, 1 << rank, gives, units),), gives.nslots(units - 1))

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
        request, spread = self.request, self.spread()
        wanted = spread.value(ROOT)
        if wanted is None:
            return None
        spread = self.settled(spread, wanted)
        levels, extent = spread.levels, spread.extent
        all_ = bool(levels) and levels[-1].whole
        given: list[Given] = []
        parts: list[Selection] = []
        copies = slots = 0
        for domain, number in spread.place(ROOT):
            if extent is None:
                copies += number
                units = self.rooms.units(domain).number if all_ else number * spread.rooms.each
                given += spread.nodes(domain, units)
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
        if given:
            groups = dropwhile(lambda level: not level.groups, levels)
            each = math.prod(level.count.minimum for level in groups)
            slots += copies * request.form.counts[0].minimum // each
            part = self.granted(given, slots)
            if part is None:
                return None
            parts.append(part)
        grants = tuple(grant for part in parts for grant in part.grants)
        return Selection(grants, sum(part.nslots for part in parts))

    def spread(self) -> Spread:
        """The levels of the request, with all counts at their minimum."""
        # Below slots, counts are the same for all, whatever a domain can give.
        groups = any(level.groups for level in self.request.levels)
        fixed = groups or self.request.number is not None
        return Spread(self.rooms, None if fixed else self.extent)

    def extent(self, domain: int) -> Optional[tuple[int, ...]]:
        """How much the node rules can serve of the request in *domain*, outer counts first."""
        room = self.rooms.few(domain).number
        if self.request.ask.counted:
            least = self.request.least_in_each
            if room < least:
                return None
            if not self.attempts(domain):
                return (least,)
            selection = self.select(domain)
            return None if selection is None else selection.extent
        return self.request.form.largest(room)

    def settled(self, spread: Spread, wanted: tuple[Any, ...]) -> Spread:
        """*spread* with the counts below its slots as large as leaves *wanted* as it is.

        They are the same for all slots, the outer ones first.
        """
        levels, nodes = spread.levels, self.request.form.counts[-1]
        slots = next((i for i, level in enumerate(levels) if level.groups), len(levels))
        for i in range(slots + 1, len(levels) + 1):
            count = levels[i].count if i < len(levels) else nodes
            if count.fixed or (i == len(levels) and levels[-1].whole):
                continue

            def trial(value: int, rooms: RequestRooms = spread.rooms, i: int = i) -> Spread:
                if i == len(levels):
                    return Spread(attrs.evolve(rooms, each=value))
                settled, one = list(rooms.levels), Count(value, value)
                settled[i] = attrs.evolve(settled[i], count=one)
                return Spread(attrs.evolve(rooms, levels=settled))

            values = list(count.valid(len(self.fabric.homes)))
            first, last = 0, len(values) - 1  # values[last] is known to fit
            tables = len(self.fabric) * len(levels) // _TABLE_DOMAINS
            while first < last and self.effort.allows(PER_ATTEMPT + tables):
                middle = (first + last) // 2
                if trial(values[middle]).value(ROOT) == wanted:
                    last = middle
                else:
                    first = middle + 1
            spread = trial(values[last])
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
        every = list(dict.fromkeys((rooms.units, rooms.few, *rooms.inside)))
        for number, domain in enumerate(rooms.units.unknown()):
            for each in every:
                each(domain)
            if not number % _ROOM_DOMAINS:
                yield 3 * _ROOM_DOMAINS * len(every)

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
        rooms = self.rooms.units
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
            number = Count(units, units)
            form = Fill(number) if isinstance(self.request.form, Fill) else Nodes(number)
            part = select(form, self.candidates(leaves))
            if part is None:  # only if a search gave up
                return None
            grants += part.grants
            nslots += part.nslots
        return Selection(tuple(grants), slots if isinstance(self.request.form, Span) else nslots)


def is_searched(ask: Ask, inventory: Inventory) -> bool:
    """Whether on some node a search decides what fits, which may give up."""
    return ask.searched or (ask.beside and inventory.has_mig)
