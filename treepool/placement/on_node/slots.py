"""The slots of a scope: how many a node in some state can give, and what each takes.

Slots are placed one after another, each in the best remaining way. layout.py and search.py say
whether there is room for more slots than are placed this way; if so, all slots are placed together.
"""

from __future__ import annotations

from functools import partial
from typing import Callable, Optional

from treepool.placement.effort import Effort, GaveUp
from treepool.placement.nodes.state import NodeState
from treepool.placement.nodes.tree import Domain
from treepool.placement.on_node.amounts import amount_ids, lowest_ids
from treepool.placement.on_node.domains import SuitableDomains
from treepool.placement.on_node.ids import ids_of
from treepool.placement.on_node.layout import Layout
from treepool.placement.on_node.ledger import Ledger, Take
from treepool.placement.on_node.levels import (
    amount_levels,
    asked_of,
    has_capacity,
    has_free,
    smallest_hosts,
    usable_gpus,
)
from treepool.placement.on_node.search import Search, able_domains
from treepool.placement.request.need import SLOT, Need, Part, decided
from treepool.rfc.count import Count

_ONE = Count(1, 1)

#: Cores and GPUs (bitmasks).
Ids = tuple[int, int]


class _Slots:
    """What 1, 2, ... slots on a node take, and the cores and GPUs that all of them leave free."""

    def __init__(self, state: NodeState) -> None:
        self.state = state
        self.cores = state.cores
        self.gpus = state.gpus
        self.taken: list[Ids] = []

    def take(self, ids: Ids) -> None:
        """Add a slot that takes *ids*."""
        self.cores &= ~ids[0]
        self.gpus &= ~ids[1]
        self.taken.append((self.state.cores & ~self.cores, self.state.gpus & ~self.gpus))


class SlotPlacer:
    """Places slots on a node in *state*; *locality* is preferred, required or none.

    *effort* counts the choices of searches. A search that gives up counts as one that found
    nothing, and *effort* records that it gave up.
    """

    def __init__(self, state: NodeState, locality: str, effort: Effort) -> None:
        self.state = state
        self.node_type = state.type
        self.plain = locality == "none"
        self.required = locality == "required"
        self.effort = effort

    def in_scope(self, scope: Domain, part: Part) -> tuple[list[Ids], list[Ids]]:
        """What 1, 2, ... slots of *part* in *scope* take, up to its largest count, as two lists.

        The first list has only local slots, the second as many slots as fit. The second is computed
        only if the count allows more slots than the first has.
        """
        need, limit = part.need, part.count.maximum
        if not has_capacity(self.node_type, scope, need):
            return [], []
        if not need.parts and not need.fair_share and need.demand is None:
            total, nlocal = self._amounts(scope, asked_of(scope, need), limit)
            local = total[:nlocal]
        else:
            local = self._most(scope, need, limit, not self.plain)
            total = local
            if not (self.plain or self.required) and len(local) != limit:
                total = self._most(scope, need, limit, False)
        return local, local if self.required or len(total) < len(local) else total

    def _amounts(self, scope: Domain, need: Need, limit: Optional[int]) -> tuple[list[Ids], int]:
        """What slots take that need only an amount, and how many of them are local.

        The result is that of _most(), without a search. All slots take equally much from the scope,
        so placing one after another is exact. Six slots of ``[core=8;gpu=1]`` on a node of RFC 49's
        cluster A take 50 us this way, and 145 us with a search.
        """
        levels = amount_levels(self.node_type, need, scope)
        among = usable_gpus(self.node_type, scope, need)
        # Plain variables instead of _Slots save a tenth of the time.
        cores, gpus = self.state.cores, self.state.gpus
        want = need.gpus, need.cores
        found: list[Ids] = []
        nlocal = 0
        hosts = smallest_hosts(scope, need, levels, cores, gpus, among)
        host = next(hosts, None)
        while host is not None and (limit is None or len(found) < limit):
            if self.plain:
                taken_cores, taken_gpus = lowest_ids(scope, want, cores, gpus & among)
                nlocal += 1
            else:
                links = self.node_type.links
                taken_cores, taken_gpus = amount_ids(host, want, cores, gpus & among, links)
                # Slots are equal and resources only shrink: after a slot that is not local, no
                # later slot is local.
                nlocal += levels[host] == 0
            cores &= ~taken_cores
            gpus &= ~taken_gpus
            found.append((self.state.cores & ~cores, self.state.gpus & ~gpus))
            while host is not None and not has_free(host, need, cores, gpus & among):
                host = next(hosts, None)
            if host is None:
                hosts = smallest_hosts(scope, need, levels, cores, gpus, among)
                host = next(hosts, None)
        return found, nlocal

    def _most(self, scope: Domain, need: Need, limit: Optional[int], local: bool) -> list[Ids]:
        """What 1, 2, ... slots of *need* take: placed one by one, then together if more fit."""
        effort = self.effort.part()
        slots = self._singly(scope, need, limit, local)
        found = slots.taken
        one = partial(_slots_of, scope, need, 1)
        aside = Effort()  # where arithmetic says what fits, and a search only where it fits best
        while limit is None or len(found) < limit:
            tries = effort if not decided(need) else aside if need.parts else Effort()
            takes = self._takes(slots.cores, slots.gpus, local, tries, one)
            if takes is None:
                if not (found or tries.gave_up):
                    self.effort.add(effort)
                    return []  # the search is exact: not even one slot fits
                break
            slots.take(ids_of(takes, self.node_type, slots.cores, slots.gpus, self.plain))
        together = self._together(scope, need, local, effort)
        while limit is None or len(found) < limit:
            takes = together(len(found) + 1)
            if takes is None:
                break
            ids = ids_of(takes, self.node_type, self.state.cores, self.state.gpus, self.plain)
            found.append(ids)
        self.effort.add(effort)
        return found

    def _singly(self, scope: Domain, need: Need, limit: Optional[int], local: bool) -> _Slots:
        """The slots that _most() places one by one if each takes one domain, without a search.

        What is taken from a domain only makes it come earlier, so the order of the first slot's
        domains is that of all slots: 1,024 slots take 0.2 s and not 5 s.
        """
        slots = _Slots(self.state)
        if limit == 1 or need.takes_amount or not (decided(need) and need.parts):
            return slots
        (part,) = need.parts
        if part.count.minimum > 1:
            return slots
        ledger = Ledger(self.node_type, slots.cores, slots.gpus)
        suitable = SuitableDomains(self.node_type, ledger, local, able_domains)
        domains = suitable.listed if self.plain else suitable.singly
        for domain in domains(scope, part):
            while limit is None or len(slots.taken) < limit:
                take = self._take_of(domain, part, local, slots.cores, slots.gpus)
                if take is None:
                    break
                slots.take(ids_of([take], self.node_type, slots.cores, slots.gpus, self.plain))
        return slots

    def _take_of(
        self, domain: Domain, part: Part, local: bool, cores: int, gpus: int
    ) -> Optional[Take]:
        """What a slot takes of *domain* for *part*, out of the free *cores* and *gpus*."""
        if part.whole:
            untouched = not (domain.cores & ~cores or domain.gpus & ~gpus)
            return Take(domain, part.need, True) if untouched else None
        need = asked_of(domain, part.need)
        among = usable_gpus(self.node_type, domain, need)
        if not local:
            free = has_free(domain, need, cores, gpus & among)
            return Take(domain, need, False) if free else None
        levels = amount_levels(self.node_type, need, domain)
        host = next(smallest_hosts(domain, need, levels, cores, gpus, among), None)
        return None if host is None or levels[host] else Take(host, need, False)

    def _together(
        self, scope: Domain, need: Need, local: bool, effort: Effort
    ) -> Callable[[int], Optional[list[Take]]]:
        """A function that returns the takes of a number of slots of *need*; None if impossible."""
        cores, gpus = self.state.cores, self.state.gpus
        if decided(need) and need.parts:
            try:
                layout = Layout(self.node_type, cores, gpus, scope, need, local, able_domains)
            except GaveUp:
                effort.gave_up = True
                return lambda number: None
            if layout.applies:
                return layout.takes
        ways = _slots_of if decided(need) and not need.parts else _several
        return lambda number: self._takes(
            cores, gpus, local, effort, partial(ways, scope, need, number)
        )

    def _takes(
        self, cores: int, gpus: int, local: bool, effort: Effort, ways: Callable[[Search], bool]
    ) -> Optional[list[Take]]:
        """The takes of a search by *ways* out of *cores* and *gpus*; None if it finds none."""
        search = Search(self.node_type, cores, gpus, local and not self.plain, self.plain, effort)
        try:
            return search.takes if ways(search) else None
        except GaveUp:
            effort.gave_up = True
            return None


def _slots_of(scope: Domain, need: Need, number: int, search: Search) -> bool:
    return search.one(scope, Part(SLOT, Count(number, number), False, need))


def _several(scope: Domain, need: Need, number: int, search: Search) -> bool:
    part = Part(SLOT, _ONE, False, need)
    return search.room_for(scope, part) >= number and search.several(scope, part, number)
