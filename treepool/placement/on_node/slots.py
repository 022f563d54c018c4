"""The units of a group: how many slots, or domains with slots, a node can give, local ones first.

A unit is a slot, or a domain of the locality above it with as many slots inside as fit there. How
many there are is counted first, by arithmetic where that decides. Which cores and GPUs they take is
chosen when somebody asks, for as many units as are asked for: the slots of a scope are placed one
after another, each in the best remaining way; and together, if more fit than that finds room for.
"""

from __future__ import annotations

from typing import Callable, Iterable, NamedTuple, Optional, Sequence, Union

import attrs

from treepool.placement.effort import UNLIMITED, Effort
from treepool.placement.nodes.state import NodeState
from treepool.placement.nodes.tree import Domain
from treepool.placement.on_node.amounts import amount_ids, lowest_ids
from treepool.placement.on_node.domains import SuitableDomains
from treepool.placement.on_node.ids import ids_of
from treepool.placement.on_node.ledger import Ledger, Take, how_often
from treepool.placement.on_node.levels import (
    amount_levels,
    asked_of,
    has_capacity,
    has_free,
    smallest_hosts,
    usable_gpus,
)
from treepool.placement.on_node.search import Search, able_domains, slots_among
from treepool.placement.request.need import MANY, SLOT, Need, Part, decided, is_uniform, takes_one
from treepool.rfc import idset
from treepool.rfc.idset import union

#: Cores and GPUs (bitmasks).
Ids = tuple[int, int]

#: What a slot takes where these cores and GPUs are free; None if it has no room.
_One = Callable[[int, int], Optional[Ids]]


class Run(NamedTuple):
    """So many ``units`` one after another, of ``nslots`` slots each.

    They are ``remote`` if some slot of each is in a larger kind of domain than the smallest that
    the idle node could offer.
    """

    units: int
    nslots: int
    remote: bool


@attrs.frozen(eq=False)
class Units:
    """The units that a node can give, the best first; ``take(n)`` chooses what n of them take."""

    runs: Sequence[Run]
    take: Callable[[int], Ids]

    def first(self, units: int) -> tuple[int, bool]:
        """How many slots the first *units* have, and whether some of them is remote."""
        nslots, remote = 0, False
        for run in self.runs:
            number = min(run.units, units)
            if number:
                nslots, remote = nslots + number * run.nslots, remote or run.remote
            units -= number
        return nslots, remote


class _Slots:
    """What 1, 2, ... slots on a node in *state* take: ``number`` of them, chosen when asked for.

    *one* places the next slot. Where it finds no room, *together* places all of them at once.
    """

    def __init__(
        self, state: NodeState, number: int, one: _One, together: Callable[[int], Optional[Ids]]
    ) -> None:
        self.state = state
        self.number = number
        self.one: Optional[_One] = one
        self.together = together
        self.taken: list[Ids] = []

    def __len__(self) -> int:
        return self.number

    def __getitem__(self, index: int) -> Ids:
        taken, state = self.taken, self.state
        while self.one is not None and len(taken) <= index:
            cores, gpus = taken[-1] if taken else (0, 0)
            ids = self.one(state.cores & ~cores, state.gpus & ~gpus)
            if ids is None:
                self.one = None
            else:
                taken.append((cores | ids[0], gpus | ids[1]))
        if index < len(taken):
            return taken[index]
        found = self.together(index + 1)
        assert found is not None, "more slots were counted than there are"
        return found


#: What 1, 2, ... slots take.
Slots = Union[list[Ids], _Slots]


class _Given(NamedTuple):
    """What one domain gives: ``nslots`` slots, and what they ``take``."""

    nslots: int
    remote: bool
    take: Callable[[], Ids]


class Placer:
    """Places units on a node in *state*; *locality* is preferred, required or none.

    *effort* counts the choices of searches. A search that gives up counts as one that found
    nothing, and *effort* records that it gave up.
    """

    def __init__(self, state: NodeState, locality: str, effort: Effort) -> None:
        self.state = state
        self.node_type = state.type
        self.locality = locality
        self.plain = locality == "none"
        self.effort = effort

    def units(self, group: Part) -> Units:
        """The units of *group* that the node can give, up to its largest count, the best first."""
        root = self.node_type.root
        if group.name == SLOT:
            local, total = self.in_scope(root, group)
            near, most = len(local), max(len(local), len(total))
            runs = [Run(near, 1, False), Run(most - near, 1, True)]
            return Units(
                [run for run in runs if run.units],
                lambda number: (local if number <= near else total)[number - 1],
            )
        given = self._domains(root, group)[: group.count.maximum]
        return Units([Run(1, g.nslots, g.remote) for g in given], lambda n: _all_of(given[:n]))

    def _domains(self, scope: Domain, part: Part) -> list[_Given]:
        """What each domain of *part* in *scope* can give, the domains with the most slots first.

        Each domain gives the largest valid count that it can, independently of the others.
        """
        ledger = Ledger(self.node_type, self.state.cores, self.state.gpus)
        suitable = SuitableDomains(self.node_type, ledger, False, able_domains)
        domains = [
            d
            for d in self.node_type.named.get(part.name, ())
            if d is not scope
            and suitable.within(d, scope)
            and not (part.whole and not (d.whole and ledger.untouched(d)))
        ]
        if not self.plain:
            domains = sorted(domains, key=lambda d: suitable.path(d, scope))
        units = (self._domain(domain, part) for domain in domains)
        found = [unit for unit in units if unit is not None]
        return sorted(found, key=lambda unit: (-unit.nslots, unit.remote))

    def _domain(self, domain: Domain, part: Part) -> Optional[_Given]:
        """What *domain* gives as one domain of *part*, None if it cannot."""
        (inner,) = part.need.parts
        if part.whole:  # everything in the domain is free, as on an idle node
            root = self.node_type.root
            state = NodeState(self.node_type, root.cores, root.gpus)
            idle = Placer(state, self.locality, self.effort)
            found = idle._domain(domain, attrs.evolve(part, whole=False))
            return found and found._replace(take=lambda: (domain.cores, domain.gpus))
        if inner.name == SLOT:
            local, total = self.in_scope(domain, inner)
            number = inner.count.largest(len(total))
            if number is None:
                return None
            remote = number > len(local)
            slots, last = total if remote else local, number - 1
            return _Given(number, remote, lambda: slots[last])
        units = self._domains(domain, inner)
        number = inner.count.largest(len(units))
        if number is None:
            return None
        given = units[:number]
        nslots, remote = sum(unit.nslots for unit in given), any(unit.remote for unit in given)
        return _Given(nslots, remote, lambda: _all_of(given))

    # -- slots

    def in_scope(self, scope: Domain, part: Part) -> tuple[Slots, Slots]:
        """What 1, 2, ... slots of *part* in *scope* take, up to its largest count, as two lists.

        The first list has only local slots, the second as many slots as fit. The second is computed
        only if the count allows more slots than the first has.
        """
        need, most = part.need, MANY if part.count.maximum is None else part.count.maximum
        if not has_capacity(self.node_type, scope, need):
            return [], []
        local = self._most(scope, need, most, not self.plain)
        if self.plain or self.locality == "required" or len(local) == most:
            return local, local
        total = self._most(scope, need, most, False)
        return local, local if len(total) < len(local) else total

    def _most(self, scope: Domain, need: Need, most: int, local: bool) -> Slots:
        """What 1, 2, ... slots of *need* take, up to *most*: placed one by one, then together."""
        number = self._counted(scope, need, most, local)
        if number is not None:
            # The search for several never goes back: numbers have decided.
            return _Slots(
                self.state,
                number,
                self._one(scope, need, local),
                lambda slots: self._search(
                    scope, need, local, slots, self.state, Effort(UNLIMITED)
                ),
            )
        return self._searched(scope, need, most, local)

    def _counted(self, scope: Domain, need: Need, most: int, local: bool) -> Optional[int]:
        """How many slots of *need* fit in *scope*, up to *most*; None if a search must say it."""
        if not decided(need, local) or self._has_slices_beside(need):
            return None
        if not need.parts:
            return min(most, self._room(scope, asked_of(scope, need), local))
        (part,) = need.parts
        ledger = Ledger(self.node_type, self.state.cores, self.state.gpus)
        suitable = SuitableDomains(self.node_type, ledger, local, able_domains)

        def times(domain: Domain) -> int:
            inner = asked_of(domain, part.need)
            return 1 if part.whole else min(most, self._room(domain, inner, local))

        listed = suitable.listed(scope, part)
        groups = [{d: times(d) for d in g} for g in suitable.grouped(scope, part, listed)]
        slots = min(most, sum(slots_among(group, part, most) for group in groups))
        if not need.takes_amount:
            return slots
        # Each slot takes its amount beside so much in domains, all of it in the scope.
        each, inner = part.count.minimum, part.need
        cores, gpus = ledger.cores[scope], ledger.gpus[scope]
        both = need.cores + each * inner.cores, need.gpus + each * inner.gpus
        return min(slots, how_often(*both, cores, gpus))

    def _room(self, scope: Domain, need: Need, local: bool) -> int:
        """How often *need*'s amount is free in *scope*, or in its smallest kinds of domain."""
        levels = amount_levels(self.node_type, need, scope)
        if local:
            around = self.node_type.around
            hosts = [d for d, level in levels.items() if not level and scope in around[d]]
        else:
            hosts = [scope] if scope in levels else []
        cores, size = self.state.cores, idset.size
        gpus = self.state.gpus & usable_gpus(self.node_type, scope, need)
        free = ((size(host.cores & cores), size(host.gpus & gpus)) for host in hosts)
        return sum(how_often(need.cores, need.gpus, *amounts) for amounts in free)

    def _one(self, scope: Domain, need: Need, local: bool) -> _One:
        """Places slots of *need* one after another, each in the best remaining way."""
        if not need.parts:
            return _Amounts(self, [scope], need, local)
        if takes_one(need):
            return self._one_domain(scope, need.parts[0], local)
        left = Effort().limit  # what all of these searches may take together

        def one(cores: int, gpus: int) -> Optional[Ids]:
            nonlocal left
            effort = Effort(left)
            state = NodeState(self.node_type, cores, gpus)
            ids = self._search(scope, need, local, 1, state, effort)
            left -= effort.tried
            return ids

        return one

    def _one_domain(self, scope: Domain, part: Part, local: bool) -> _One:
        """Places slots that take one domain each, or one amount in a domain.

        What is taken from a domain only makes it come earlier, so the order of the first slot's
        domains is that of all slots.
        """
        ledger = Ledger(self.node_type, self.state.cores, self.state.gpus)
        suitable = SuitableDomains(self.node_type, ledger, local, able_domains)
        domains = (suitable.listed if self.plain else suitable.singly)(scope, part)
        if not part.whole:
            return _Amounts(self, domains, part.need, local)

        def one(cores: int, gpus: int) -> Optional[Ids]:
            free = (d for d in domains if not (d.cores & ~cores or d.gpus & ~gpus))
            return next(((d.cores, d.gpus) for d in free), None)

        return one

    def _searched(self, scope: Domain, need: Need, most: int, local: bool) -> list[Ids]:
        """What 1, 2, ... slots of *need* take, where only a search can say how many fit."""
        counts = not decided(need, self.locality == "required") or self._has_slices_beside(need)
        effort = self.effort.part() if counts else Effort()
        # Where one of uniform slots fits best takes a search, even if numbers decide how many fit.
        alone = Effort() if is_uniform(need) else effort
        taken: list[Ids] = []
        cores, gpus = self.state.cores, self.state.gpus
        while len(taken) < most:
            state = NodeState(self.node_type, cores, gpus)
            ids = self._search(scope, need, local, 1, state, alone)
            if ids is None:
                break
            cores, gpus = cores & ~ids[0], gpus & ~ids[1]
            taken.append((self.state.cores & ~cores, self.state.gpus & ~gpus))
        while len(taken) < most and (taken or alone.gave_up):
            ids = self._search(scope, need, local, len(taken) + 1, self.state, effort)
            if ids is None:
                break
            taken.append(ids)
        if counts:
            self.effort.add(effort)
        return taken

    def _search(
        self, scope: Domain, need: Need, local: bool, number: int, state: NodeState, effort: Effort
    ) -> Optional[Ids]:
        """What *number* slots of *need* take together where so much is free as in *state*."""
        search = Search(self.node_type, state.cores, state.gpus, local, self.plain, effort)
        takes = search.place(scope, need, number)
        if takes is None:
            return None
        return ids_of(takes, self.node_type, state.cores, state.gpus, self.plain)

    def _has_slices_beside(self, need: Need) -> bool:
        """Whether a slot takes an amount beside its domains where GPUs have slices."""
        return need.takes_amount and bool(need.parts) and bool(self.node_type.root.mig)


class _Amounts:
    """Places slots that each take *need*'s amount from the first of *scopes* that has it.

    All slots take equally much from a scope, so placing one after another is exact.
    """

    def __init__(self, placer: Placer, scopes: Sequence[Domain], need: Need, local: bool) -> None:
        self.placer = placer
        self.scopes = scopes
        self.need = need
        self.local = local
        #: Where the last slot was placed: it is first until it has given all that it can.
        self.last: Optional[tuple[Domain, Domain]] = None

    def __call__(self, cores: int, gpus: int) -> Optional[Ids]:
        """What the next slot takes."""
        node_type = self.placer.node_type
        if self.last is not None:
            scope, host = self.last
            need = asked_of(scope, self.need)
            if has_free(host, need, cores, gpus & usable_gpus(node_type, scope, need)):
                return self._ids(scope, host, need, cores, gpus)
        for scope in self.scopes:
            need = asked_of(scope, self.need)
            levels = amount_levels(node_type, need, scope)
            among = usable_gpus(node_type, scope, need)
            best = next(smallest_hosts(scope, need, levels, cores, gpus, among), None)
            if best is not None and not (self.local and levels[best]):
                self.last = scope, best
                return self._ids(scope, best, need, cores, gpus)
        return None

    def _ids(self, scope: Domain, host: Domain, need: Need, cores: int, gpus: int) -> Ids:
        node_type, plain = self.placer.node_type, self.placer.plain
        if need.fair_share:
            take = Take(scope if plain else host, need, False)
            return ids_of([take], node_type, cores, gpus, plain)
        want, gpus = (need.gpus, need.cores), gpus & usable_gpus(node_type, scope, need)
        if plain:
            return lowest_ids(scope, want, cores, gpus)
        return amount_ids(host, want, cores, gpus, node_type.links)


def _all_of(given: Iterable[_Given]) -> Ids:
    """What *given* domains take together."""
    taken = [one.take() for one in given]
    return union(cores for cores, _ in taken), union(gpus for _, gpus in taken)
