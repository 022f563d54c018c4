"""The assignment of GPUs to the takes of a match, kept valid while takes choose their GPUs.

It serves requests that demand links or memory of GPUs. The match has found one assignment. Each
take in turn gets its best GPUs if the other takes can still be served; the assignment then changes
accordingly. Otherwise the take gets the GPUs that the assignment plans for it.
"""

from __future__ import annotations

from typing import Optional, Sequence

from treepool.placement.effort import Effort, GaveUp
from treepool.placement.gpus.assignment import Claim, assign
from treepool.placement.gpus.graph import graph_of
from treepool.placement.nodes.tree import NodeType
from treepool.placement.on_node.ledger import Take
from treepool.placement.on_node.levels import usable_gpus
from treepool.placement.request.need import Demand
from treepool.rfc import idset
from treepool.rfc.idset import union


def demanded(takes: Sequence[Take]) -> Optional[Demand]:
    """The demand on the links of *takes*' GPUs, which all takes share; None if there is none."""
    return next((take.need.demand for take in takes if take.need.demand is not None), None)


def claims_of(
    node_type: NodeType, takes: Sequence[Take], gpus: int
) -> tuple[list[Take], list[Claim], int]:
    """The *takes* that claim GPUs, their claims, and the free *gpus* that can be claimed.

    Claims of one slot are adjacent. The GPUs of a whole domain are claimed if they must be joined
    with the rest of the slot. Otherwise they are removed from the free GPUs.
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
    # Slots with the fewest GPUs to choose from come first.
    found.sort(key=lambda pair: (choice[pair[1].slot], pair[1].slot))
    return [take for take, _ in found], [claim for _, claim in found], gpus


class GpuAssignment:
    """The GPUs planned for the takes that are not settled yet."""

    def __init__(self, node_type: NodeType, takes: Sequence[Take], gpus: int) -> None:
        self.graph = graph_of(node_type.links, demanded(takes))
        open_takes, claims, self.free = claims_of(node_type, takes, gpus)
        self.claims = dict(zip(map(id, open_takes), claims))
        #: Once it is spent, takes get the GPUs that are planned for them.
        self.effort = Effort()
        #: The GPUs that each slot already has.
        self.settled: dict[int, int] = {}
        assignment = assign(claims, self.graph, self.free, lambda: None)
        assert assignment is not None, "the matcher promised what is not there"
        self.assignment = dict(zip(self.claims, assignment))
        self.next_assignment = self.assignment
        for take in open_takes:
            if take.whole:
                self.settle(take, take.scope.gpus)

    def within(self, take: Take) -> int:
        """The GPUs that *take* may have: those linked to all settled GPUs of its slot."""
        return self._left(self.claims[id(take)], self.settled)

    def planned(self, take: Take) -> int:
        """The GPUs that the assignment plans for *take*."""
        self.next_assignment = self.assignment
        return self.assignment[id(take)]

    def allows(self, take: Take, gpus: int) -> bool:
        """Whether the other takes can be served if *take* gets *gpus*; if so, plan that."""
        slot = self.claims[id(take)].slot
        settled = {**self.settled, slot: self.settled.get(slot, 0) | gpus}
        others = {key: claim for key, claim in self.claims.items() if key != id(take)}
        claims = [Claim(c.slot, self._left(c, settled), c.number) for c in others.values()]
        try:
            assignment = assign(claims, self.graph, self.free & ~gpus, self.effort.count)
        except GaveUp:
            return False
        if assignment is None:
            return False
        self.next_assignment = dict(zip(others, assignment))
        return True

    def settle(self, take: Take, gpus: int) -> None:
        """Give *gpus* to *take*; planned() or allows() must have just returned or accepted them."""
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
