"""The units of a group: how many slots, or domains with slots, a node can give, local ones first.

A unit is a slot, or a domain of the locality above it with as many slots inside as fit there. How
many there are is counted, by arithmetic where that decides, else by a search. Which cores and GPUs
they take is chosen later, when somebody asks (chosen.py).
"""

from __future__ import annotations

from typing import Callable, Iterable, NamedTuple, Optional, Sequence, Union

import attrs

from treepool.placement.effort import Effort, GaveUp
from treepool.placement.nodes.state import NodeState
from treepool.placement.nodes.tree import Domain
from treepool.placement.on_node.chosen import Ids, Slots, suitable_domains
from treepool.placement.on_node.ledger import Take, how_often
from treepool.placement.on_node.levels import amount_levels, asked_of, has_capacity, usable_gpus
from treepool.placement.on_node.search import slots_among
from treepool.placement.request.need import MANY, SLOT, Need, Part, decided, is_uniform
from treepool.rfc import idset
from treepool.rfc.idset import union


class Run(NamedTuple):
    """So many ``units`` one after another, of ``nslots`` slots each.

    They are ``remote`` if some slot of each is in a larger kind of domain than the smallest that
    the idle node could offer.
    """

    units: int
    nslots: int
    remote: bool


@attrs.frozen(eq=False)
class SlotUnits:
    """The slots that a node can give: the first of them local, and as many as fit in all."""

    local: Sequence[Ids]
    total: Sequence[Ids]

    @property
    def runs(self) -> list[Run]:
        """The local ones, then the others."""
        near = len(self.local)
        runs = Run(near, 1, False), Run(len(self.total) - near, 1, True)
        return [run for run in runs if run.units]

    def take(self, number: int) -> Ids:
        """What *number* slots take."""
        return (self.local if number <= len(self.local) else self.total)[number - 1]


class Given(NamedTuple):
    """What one domain gives: ``nslots`` slots, and what they ``take``."""

    nslots: int
    remote: bool
    take: Callable[[], Ids]


@attrs.frozen(eq=False)
class DomainUnits:
    """The domains that a node can give, the best first."""

    given: Sequence[Given]

    @property
    def runs(self) -> list[Run]:
        """One domain after another."""
        return [Run(1, given.nslots, given.remote) for given in self.given]

    def take(self, number: int) -> Ids:
        """What the first *number* domains take."""
        return _all_of(self.given[:number])


Units = Union[SlotUnits, DomainUnits]


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
            return SlotUnits(*self.in_scope(root, group))
        return DomainUnits(self._domains(root, group)[: group.count.maximum])

    def _domains(self, scope: Domain, part: Part) -> list[Given]:
        """What each domain of *part* in *scope* can give, the domains with the most slots first.

        Each domain gives the largest valid count that it can, independently of the others.
        """
        suitable = suitable_domains(self.node_type, self.state.cores, self.state.gpus, False)
        ledger = suitable.ledger
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

    def _domain(self, domain: Domain, part: Part) -> Optional[Given]:
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
            return Given(number, remote, lambda: slots[last])
        units = self._domains(domain, inner)
        number = inner.count.largest(len(units))
        if number is None:
            return None
        given = units[:number]
        nslots, remote = sum(unit.nslots for unit in given), any(unit.remote for unit in given)
        return Given(nslots, remote, lambda: _all_of(given))

    # -- slots

    def in_scope(self, scope: Domain, part: Part) -> tuple[Sequence[Ids], Sequence[Ids]]:
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
        return local, local if len(total) <= len(local) else total

    def _most(self, scope: Domain, need: Need, most: int, local: bool) -> Sequence[Ids]:
        """What 1, 2, ... slots of *need* take, up to *most*."""
        number = self._counted(scope, need, most, local)
        free = self.state.cores, self.state.gpus
        slots = Slots(self.node_type, *free, self.plain, scope, need, number or 0, local)
        return self._searched(slots, most) if number is None else slots

    def _counted(self, scope: Domain, need: Need, most: int, local: bool) -> Optional[int]:
        """How many slots of *need* fit in *scope*, up to *most*; None if a search must say it."""
        if not decided(need, local) or self._has_slices_beside(need):
            return None
        if not need.parts:
            return min(most, self._room(scope, asked_of(scope, need), local))
        (part,) = need.parts
        suitable = suitable_domains(self.node_type, self.state.cores, self.state.gpus, local)

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
        cores, gpus = suitable.ledger.cores[scope], suitable.ledger.gpus[scope]
        both = need.cores + each * inner.cores, need.gpus + each * inner.gpus
        return min(slots, how_often(*both, cores, gpus))

    def _room(self, scope: Domain, need: Need, local: bool) -> int:
        """How often *need*'s amount is free in *scope*, or in its smallest kinds of domain."""
        levels = amount_levels(self.node_type, need, scope)
        if local:
            hosts = [domain for domain in scope.walk() if levels.get(domain) == 0]
        else:
            hosts = [scope] if scope in levels else []
        cores, size = self.state.cores, idset.size
        gpus = self.state.gpus & usable_gpus(self.node_type, scope, need)
        free = ((size(host.cores & cores), size(host.gpus & gpus)) for host in hosts)
        return sum(how_often(need.cores, need.gpus, *amounts) for amounts in free)

    def _searched(self, slots: Slots, most: int) -> Slots:
        """*slots*, up to *most*, where only a search can say how many fit.

        They are placed one by one, then together.
        """
        need = slots.need
        counts = not decided(need, self.locality == "required") or self._has_slices_beside(need)
        effort = self.effort.part() if counts else Effort()
        # Where one of uniform slots fits best takes a search, even if numbers decide how many fit.
        alone = Effort() if is_uniform(need) else effort
        cores, gpus = self.state.cores, self.state.gpus
        while slots.number < most:
            takes = slots.search(1, cores, gpus, alone)
            ids = None if takes is None else self._ids(slots, takes, cores, gpus, alone)
            if ids is None:
                break
            cores, gpus = cores & ~ids[0], gpus & ~ids[1]
            slots.note((self.state.cores & ~cores, self.state.gpus & ~gpus))
        while slots.number < most and (slots.number or alone.gave_up):
            takes = slots.search(slots.number + 1, slots.cores, slots.gpus, effort)
            if takes is None:
                break
            if not need.has_gpu_demand:
                slots.note_takes(takes)
                continue
            ids = self._ids(slots, takes, slots.cores, slots.gpus, effort)
            if ids is None:
                break
            slots.note(ids)
        if counts:
            self.effort.add(effort)
        return slots

    def _ids(
        self, slots: Slots, takes: Sequence[Take], cores: int, gpus: int, effort: Effort
    ) -> Optional[Ids]:
        """The ids of *takes* for *slots* where *cores* and *gpus* are free; None if a search for
        GPUs that are joined gave up."""
        try:
            return slots.ids_of(takes, cores, gpus)
        except GaveUp:
            effort.gave_up = True
            return None

    def _has_slices_beside(self, need: Need) -> bool:
        """Whether a slot takes an amount beside its domains where GPUs have slices."""
        return need.takes_amount and bool(need.parts) and bool(self.node_type.root.mig)


def _all_of(given: Iterable[Given]) -> Ids:
    """What *given* domains take together."""
    taken = [one.take() for one in given]
    return union(cores for cores, _ in taken), union(gpus for _, gpus in taken)
