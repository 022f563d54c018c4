"""The plan: GPUs for every take of a match, so that a good choice for one leaves some for all.

For requests that demand links or memory of GPUs. The match found an assignment; as takes get the
best GPUs there are for each, it changes with them, or is followed where it cannot.
"""

from __future__ import annotations

from typing import Callable, Optional, Sequence

from treepool.placement.gpus.assignment import Claim, assign
from treepool.placement.gpus.graph import graph_of
from treepool.placement.nodes.tree import NodeType
from treepool.placement.on_node.ledger import Take
from treepool.placement.on_node.levels import usable_gpus
from treepool.placement.request.need import Demand
from treepool.rfc import idset
from treepool.rfc.idset import union

#: Choices tried to leave something for the other takes, before the take gets what is planned.
LOOKAHEAD = 1_000


class TooFar(Exception):
    """The look ahead was ended."""


def demanded(takes: Sequence[Take]) -> Optional[Demand]:
    """What is demanded of the links of *takes*' GPUs: the same of all, or nothing."""
    return next((take.need.demand for take in takes if take.need.demand is not None), None)


def claims_of(
    node_type: NodeType, takes: Sequence[Take], gpus: int
) -> tuple[list[Take], list[Claim], int]:
    """The *takes* that claim GPUs, their claims, and the free *gpus* that are there to be claimed.

    Claims of one slot stand together. What whole domains take is claimed where it must be joined
    with the rest of a slot, and gone otherwise.
    """
    wholes = union(take.scope.gpus for take in takes if take.whole)
    found = []
    for take in takes:
        if not take.whole and take.need.gpus:
            among = take.scope.gpus & usable_gpus(node_type, take.scope, take.need) & ~wholes
            found.append((take, Claim(take.slot, among, take.need.gpus)))
        elif take.whole and take.need.demand is not None:
            if take.scope.gpus:
                number = idset.size(take.scope.gpus)
                found.append((take, Claim(take.slot, take.scope.gpus, number)))
        elif take.whole:
            gpus &= ~take.scope.gpus
    choice: dict[int, int] = {}
    for _, claim in found:
        size = idset.size(claim.among)
        choice[claim.slot] = min(size, choice.get(claim.slot, size))
    # Slots with the least to choose from first.
    found.sort(key=lambda pair: (choice[pair[1].slot], pair[1].slot))
    return [take for take, _ in found], [claim for _, claim in found], gpus


class GpuAssignment:
    """What the takes get that have not been settled yet."""

    def __init__(self, node_type: NodeType, takes: Sequence[Take], gpus: int) -> None:
        self.graph = graph_of(node_type.links, demanded(takes))
        open_takes, claims, self.free = claims_of(node_type, takes, gpus)
        self.claims = dict(zip(map(id, open_takes), claims))
        #: What each slot has for good.
        self.settled: dict[int, int] = {}
        assignment = assign(claims, self.graph, self.free, lambda: None)
        assert assignment is not None, "the matcher promised what is not there"
        self.assignment = dict(zip(self.claims, assignment))
        self.next_assignment = self.assignment
        for take in open_takes:
            if take.whole:
                self.settle(take, take.scope.gpus)

    def within(self, take: Take) -> int:
        """The GPUs that *take* may have: linked to all that its slot has."""
        return self._left(self.claims[id(take)], self.settled)

    def planned(self, take: Take) -> int:
        """The GPUs that *take* gets as planned."""
        self.next_assignment = self.assignment
        return self.assignment[id(take)]

    def allows(self, take: Take, gpus: int) -> bool:
        """Whether the others can still be served if *take* gets *gpus*; they are then planned."""
        slot = self.claims[id(take)].slot
        settled = {**self.settled, slot: self.settled.get(slot, 0) | gpus}
        others = {key: claim for key, claim in self.claims.items() if key != id(take)}
        claims = [Claim(c.slot, self._left(c, settled), c.number) for c in others.values()]
        try:
            assignment = assign(claims, self.graph, self.free & ~gpus, _counter(LOOKAHEAD))
        except TooFar:
            return False
        if assignment is None:
            return False
        self.next_assignment = dict(zip(others, assignment))
        return True

    def settle(self, take: Take, gpus: int) -> None:
        """Give *gpus* to *take*, which are planned or have been allowed just before."""
        slot = self.claims.pop(id(take)).slot
        self.settled[slot] = self.settled.get(slot, 0) | gpus
        self.free &= ~gpus
        self.assignment = self.next_assignment

    def _left(self, claim: Claim, settled: dict[int, int]) -> int:
        among = claim.among & self.free
        if self.graph is not None:
            for gpu in idset.iterate(settled.get(claim.slot, 0)):
                among &= self.graph.neighbours(gpu)
        return among


def _counter(limit: int) -> Callable[[], None]:
    """A function that raises TooFar when it has been called more than *limit* times."""
    calls = 0

    def count() -> None:
        nonlocal calls
        calls += 1
        if calls > limit:
            raise TooFar

    return count
