"""The units of a group: how many slots, or domains with slots, a node can give, local ones first.

A unit is a slot, or a domain of the locality above it with as many slots inside as fit there. The
slots of a scope are placed one after another, each in the best remaining way. Where this is not
exact, a search says whether there is room for more; if so, all are placed together.
"""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple, Optional

import attrs

from treepool.placement.effort import UNLIMITED, Effort
from treepool.placement.nodes.state import NodeState
from treepool.placement.nodes.tree import Domain
from treepool.placement.on_node.amounts import amount_ids, lowest_ids
from treepool.placement.on_node.domains import SuitableDomains
from treepool.placement.on_node.ids import ids_of
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
from treepool.placement.request.need import MANY, SLOT, Need, Part, decided, is_uniform, takes_one

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


class Step(NamedTuple):
    """What the first ``units`` units of a list take together (bitmasks), and their slots.

    ``remote`` is True when the last unit has a slot in a larger kind of domain than the smallest
    that the idle node could offer. If the units are placed together, this applies to any of them.
    """

    cores: int
    gpus: int
    units: int
    nslots: int
    remote: bool = False


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

    def units(self, group: Part) -> list[Step]:
        """The units of *group* that the node can give, up to its largest count, the best first."""
        root = self.node_type.root
        if group.name == SLOT:
            local, total = self.in_scope(root, group)
            return [
                Step(*ids, n, n, n > len(local))
                for n, ids in enumerate(local + total[len(local) :], 1)
            ]
        domains = self._domains(root, group)[: group.count.maximum]
        return list(accumulate(domains, _joined))

    def _domains(self, scope: Domain, part: Part) -> list[Step]:
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

    def _domain(self, domain: Domain, part: Part) -> Optional[Step]:
        """What *domain* gives as one domain of *part*, None if it cannot."""
        (inner,) = part.need.parts
        if part.whole:  # everything in the domain is free, as on an idle node
            root = self.node_type.root
            state = NodeState(self.node_type, root.cores, root.gpus)
            idle = Placer(state, self.locality, self.effort)
            found = idle._domain(domain, attrs.evolve(part, whole=False))
            return found and found._replace(cores=domain.cores, gpus=domain.gpus)
        if inner.name == SLOT:
            local, total = self.in_scope(domain, inner)
            number = inner.count.largest(len(total))
            if number is None:
                return None
            remote = number > len(local)
            return Step(*(total if remote else local)[number - 1], 1, number, remote)
        units = list(accumulate(self._domains(domain, inner), _joined))
        number = inner.count.largest(len(units))
        if number is None:
            return None
        remote = any(unit.remote for unit in units[:number])
        return units[number - 1]._replace(units=1, remote=remote)

    # -- slots

    def in_scope(self, scope: Domain, part: Part) -> tuple[list[Ids], list[Ids]]:
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

    def _most(self, scope: Domain, need: Need, most: int, local: bool) -> list[Ids]:
        """What 1, 2, ... slots of *need* take, up to *most*: placed one by one, then together."""
        slots = _Slots(self.state)
        if takes_one(need):
            self._in_order(slots, scope, need, most, local)
            if not need.has_fair_share:
                return slots.taken  # each takes what it asks for: no others fit together
        effort = self._effort(need, local)
        # Where one of uniform slots fits best takes a search, even if numbers decide how many fit.
        alone = Effort() if is_uniform(need) else effort

        def search(number: int, cores: int, gpus: int, effort: Effort) -> Optional[Ids]:
            search = Search(self.node_type, cores, gpus, local, self.plain, effort)
            takes = search.place(scope, need, number)
            return None if takes is None else ids_of(takes, self.node_type, cores, gpus, self.plain)

        while len(slots.taken) < most and not takes_one(need):
            ids = search(1, slots.cores, slots.gpus, alone)
            if ids is None:
                break
            slots.take(ids)
        while len(slots.taken) < most and (slots.taken or alone.gave_up):
            ids = search(len(slots.taken) + 1, self.state.cores, self.state.gpus, effort)
            if ids is None:
                break
            slots.taken.append(ids)
        if self._is_searched(need):
            self.effort.add(effort)
        return slots.taken

    def _effort(self, need: Need, local: bool) -> Effort:
        """What a search for several slots of *need* may take."""
        if self._is_searched(need):
            return self.effort.part()
        # How many slots are local may take a search, even if numbers decide how many fit.
        return Effort(UNLIMITED) if decided(need, local) else Effort()

    def _is_searched(self, need: Need) -> bool:
        """Whether a search decides how many slots of *need* fit."""
        beside = need.takes_amount and bool(need.parts)
        return not decided(need, self.locality == "required") or (
            beside and bool(self.node_type.root.mig)
        )

    def _in_order(self, slots: _Slots, scope: Domain, need: Need, most: int, local: bool) -> None:
        """Add slots that each take one amount or one whole domain, up to *most*.

        What is taken from a domain only makes it come earlier, so the order of the first slot's
        domains is that of all slots.
        """
        if not need.parts:
            self._amounts(slots, scope, need, most, local)
            return
        (part,) = need.parts
        ledger = Ledger(self.node_type, slots.cores, slots.gpus)
        suitable = SuitableDomains(self.node_type, ledger, local, able_domains)
        domains = suitable.listed if self.plain else suitable.singly
        for domain in domains(scope, part):
            if not part.whole:
                self._amounts(slots, domain, part.need, most, local)
            elif len(slots.taken) < most:
                slots.take((domain.cores, domain.gpus))

    def _amounts(self, slots: _Slots, scope: Domain, need: Need, most: int, local: bool) -> None:
        """Add slots that take *need*'s amount from *scope*, up to *most* in all.

        All slots take equally much from the scope, so placing one after another is exact.
        """
        need = asked_of(scope, need)
        levels = amount_levels(self.node_type, need, scope)
        among = usable_gpus(self.node_type, scope, need)
        want, links = (need.gpus, need.cores), self.node_type.links
        before = -1
        while before < len(slots.taken) < most:
            before = len(slots.taken)
            for host in smallest_hosts(scope, need, levels, slots.cores, slots.gpus, among):
                if local and levels[host]:
                    return
                while len(slots.taken) < most:
                    cores, gpus = slots.cores, slots.gpus & among
                    if not has_free(host, need, cores, gpus):
                        break
                    if need.fair_share:
                        take = Take(scope if self.plain else host, need, False)
                        ids = ids_of([take], self.node_type, cores, slots.gpus, self.plain)
                    elif self.plain:
                        ids = lowest_ids(scope, want, cores, gpus)
                    else:
                        ids = amount_ids(host, want, cores, gpus, links)
                    slots.take(ids)


def _joined(some: Step, more: Step) -> Step:
    """*some* and *more* as one Step."""
    return Step(
        some.cores | more.cores,
        some.gpus | more.gpus,
        some.units + more.units,
        some.nslots + more.nslots,
        more.remote,
    )
