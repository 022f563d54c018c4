"""The units of a group: how many a node in some state can give, and what each takes.

A unit is a slot, or a domain of the locality above it with as many slots inside as fit there.
slots.py places the slots of each scope.
"""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple, Optional

import attrs

from treepool.placement.effort import Effort
from treepool.placement.nodes.state import NodeState
from treepool.placement.nodes.tree import Domain
from treepool.placement.on_node.domains import SuitableDomains
from treepool.placement.on_node.ledger import Ledger
from treepool.placement.on_node.search import able_domains
from treepool.placement.on_node.slots import SlotPlacer
from treepool.placement.request.need import SLOT, Part


class Unit(NamedTuple):
    """The first ``number`` units of a list: what they take together, and their number of slots.

    ``remote`` is True when the last unit has a slot in a larger kind of domain than the smallest
    that the idle node could offer. If the units are placed together, this applies to any of them.
    """

    number: int
    cores: int
    gpus: int
    nslots: int
    remote: bool


class Placer:
    """Places units on a node in *state*; *locality* and *effort* are those of SlotPlacer."""

    def __init__(self, state: NodeState, locality: str, effort: Effort) -> None:
        self.state = state
        self.node_type = state.type
        self.locality = locality
        self.effort = effort
        self.slots = SlotPlacer(state, locality, effort)

    def units(self, group: Part) -> list[Unit]:
        """The units of *group* that the node can give, up to its largest count, the best first."""
        root = self.node_type.root
        if group.name == SLOT:
            local, total = self.slots.in_scope(root, group)
            return [
                Unit(n, *ids, n, n > len(local))
                for n, ids in enumerate(local + total[len(local) :], 1)
            ]
        domains = self._domains(root, group)[: group.count.maximum]
        return list(accumulate(domains, _joined))

    def _domains(self, scope: Domain, part: Part) -> list[Unit]:
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
        if self.locality != "none":
            domains = sorted(domains, key=lambda d: suitable.path(d, scope))
        units = (self._domain(domain, part) for domain in domains)
        found = [unit for unit in units if unit is not None]
        return sorted(found, key=lambda unit: (-unit.nslots, unit.remote))

    def _domain(self, domain: Domain, part: Part) -> Optional[Unit]:
        """What *domain* gives as one domain of *part*, None if it cannot."""
        (inner,) = part.need.parts
        if part.whole:  # everything in the domain is free, as on an idle node
            root = self.node_type.root
            state = NodeState(self.node_type, root.cores, root.gpus)
            idle = Placer(state, self.locality, self.effort)
            found = idle._domain(domain, attrs.evolve(part, whole=False))
            return found and found._replace(cores=domain.cores, gpus=domain.gpus)
        if inner.name == SLOT:
            local, total = self.slots.in_scope(domain, inner)
            number = inner.count.largest(len(total))
            if number is None:
                return None
            remote = number > len(local)
            return Unit(1, *(total if remote else local)[number - 1], number, remote)
        units = list(accumulate(self._domains(domain, inner), _joined))
        number = inner.count.largest(len(units))
        if number is None:
            return None
        remote = any(unit.remote for unit in units[:number])
        return units[number - 1]._replace(number=1, remote=remote)


def _joined(units: Unit, more: Unit) -> Unit:
    """*units* and *more* as one Unit."""
    return Unit(
        units.number + more.number,
        units.cores | more.cores,
        units.gpus | more.gpus,
        units.nslots + more.nslots,
        more.remote,
    )
