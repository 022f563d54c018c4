"""The units of a group: how many slots, or domains with slots, a node can give, local ones first.

A unit is a slot, or a domain of the locality above it with as many slots inside as fit there.
"""

from __future__ import annotations

from typing import Callable, Iterable, NamedTuple, Optional, Sequence, Union

import attrs

from treepool.placement.effort import Effort
from treepool.placement.nodes.state import NodeState
from treepool.placement.nodes.tree import Domain
from treepool.placement.on_node.ids import Ids
from treepool.placement.on_node.levels import has_capacity
from treepool.placement.on_node.place import Suitable
from treepool.placement.on_node.slots import Slots, Task
from treepool.placement.request.need import MANY, SLOT, Need, Part
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
        free = self.state.cores, self.state.gpus
        suitable = Suitable(self.node_type, *free, False, self.effort)
        domains = [
            d
            for d in self.node_type.named.get(part.name, ())
            if d is not scope
            and scope in self.node_type.around[d]
            and not (part.whole and not (d.whole and suitable.ledger.untouched(d)))
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
        state = self.state
        task = Task(self.node_type, state.cores, state.gpus, scope, need, local, self.plain)
        return Slots.of(task, most, self.effort)


def _all_of(given: Iterable[Given]) -> Ids:
    """What *given* domains take together."""
    taken = [one.take() for one in given]
    return union(cores for cores, _ in taken), union(gpus for _, gpus in taken)
