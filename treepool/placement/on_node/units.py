"""The units of a group: how many slots, or domains with slots, a node can give, local ones first.

A unit is a slot, or a domain of the locality above it with as many slots inside as fit there.
"""

from __future__ import annotations

from typing import Callable, Iterable, NamedTuple, Optional, Sequence

import attrs

from treepool.placement.effort import Effort
from treepool.placement.nodes.state import NodeState
from treepool.placement.nodes.tree import Domain
from treepool.placement.on_node.ids import Ids
from treepool.placement.on_node.ledger import Ledger
from treepool.placement.on_node.place import Slots, slots_in
from treepool.placement.request.need import MANY, SLOT, Part
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
class Units:
    """The units that a node can give, the best first.

    ``take(n)`` is what the first n of them take.
    """

    runs: Sequence[Run]
    take: Callable[[int], Ids]

    def first(self, number: int) -> tuple[int, bool]:
        """How many slots the first *number* units have, and whether some of them is remote."""
        nslots, remote = 0, False
        for run in self.runs:
            units = min(run.units, number)
            if units:
                nslots, remote = nslots + units * run.nslots, remote or run.remote
            number -= units
        return nslots, remote


NO_UNITS = Units((), lambda number: (0, 0))


class Given(NamedTuple):
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
        if group.name != SLOT:
            given = self._domains(root, group)[: group.count.maximum]
            runs = [Run(1, one.nslots, one.remote) for one in given]
            return Units(runs, lambda number: _all_of(given[:number]))
        local, total = self.slots_in(root, group)
        near, far = local.number, total.number - local.number
        runs = [run for run in (Run(near, 1, False), Run(far, 1, True)) if run.units]
        return Units(runs, total.take)

    def _domains(self, scope: Domain, part: Part) -> list[Given]:
        """What each domain of *part* in *scope* can give, the domains with the most slots first.

        Each domain gives the largest valid count that it can, independently of the others.
        """
        ledger = Ledger(self.node_type, self.state.cores, self.state.gpus)
        domains = [
            d
            for d in self.node_type.named.get(part.name, ())
            if d is not scope
            and scope in self.node_type.around[d]
            and not (part.whole and not (d.whole and ledger.untouched(d)))
        ]
        if not self.plain:
            domains.sort(key=lambda d: ledger.path(d, scope))
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
            local, total = self.slots_in(domain, inner)
            most = inner.count.largest(total.number)
            if most is None:
                return None
            fitting, remote = most, most > local.number
            return Given(fitting, remote, lambda: total.take(fitting))
        units = self._domains(domain, inner)
        number = inner.count.largest(len(units))
        if number is None:
            return None
        given = units[:number]
        nslots, remote = sum(unit.nslots for unit in given), any(unit.remote for unit in given)
        return Given(nslots, remote, lambda: _all_of(given))

    def slots_in(self, scope: Domain, part: Part) -> tuple[Slots, Slots]:
        """The slots of *part* in *scope*, up to its largest count: local ones, and all that fit.

        The others are computed only if the count allows more slots than are local.
        """
        most = MANY if part.count.maximum is None else part.count.maximum
        node = self.node_type, self.state.cores, self.state.gpus
        mode = *node, not self.plain, self.plain
        local = slots_in(mode, scope, part.need, most, self.effort)
        if self.locality != "preferred" or local.number == most:
            return local, local
        total = slots_in((*node, False, False), scope, part.need, most, self.effort)
        if total.number <= local.number:  # less only if a search gave up
            return local, local
        return local, attrs.evolve(total, local=local)


def _all_of(given: Iterable[Given]) -> Ids:
    """What *given* domains take together."""
    taken = [one.take() for one in given]
    return union(cores for cores, _ in taken), union(gpus for _, gpus in taken)
