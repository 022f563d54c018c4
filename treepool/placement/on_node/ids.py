"""The ids: which cores and GPUs slots get, and the fair share of cores if only GPUs are asked for.

A match promises numbers per domain, not ids. Whole domains come first, then amounts from the
innermost scope outwards: a scope may give ids from anywhere inside it, so the smaller scopes must
choose first.

If links or memory of GPUs are demanded, each choice keeps an assignment of GPUs possible for the
takes that follow. The match has found one assignment. Each take in turn gets its best GPUs if the
others can still be served; the assignment then changes accordingly. Otherwise the take gets the
GPUs that the assignment plans for it.
"""

from __future__ import annotations

from typing import Optional, Sequence

import attrs

from treepool.placement.effort import Effort, GaveUp
from treepool.placement.gpus.assignment import Claim, assign
from treepool.placement.gpus.graph import Graph, graph_of, joined_sets
from treepool.placement.nodes.tree import Domain, NodeType
from treepool.placement.on_node.amounts import amount_ids, cores_near, lowest_ids
from treepool.placement.on_node.ledger import Take
from treepool.placement.on_node.levels import amount_levels, smallest_hosts, usable_gpus
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


@attrs.frozen(eq=False)
class _Placed:
    """The ids that an amount got in ``host``."""

    take: Take
    host: Domain
    cores: int
    gpus: int


def ids_of(
    takes: Sequence[Take], node_type: NodeType, cores: int, gpus: int, plain: bool
) -> tuple[int, int]:
    """The cores and GPUs of *takes* out of the free *cores* and *gpus*.

    With *plain*, these are the lowest ids: the tree and links that are not demanded do not matter.
    """
    if all(take.whole for take in takes):
        return (
            union(take.scope.cores for take in takes) & cores,
            union(take.scope.gpus for take in takes) & gpus,
        )
    giver = _Giver(takes, node_type, cores, gpus, plain)
    for take in sorted(takes, key=lambda take: -len(node_type.around[take.scope])):
        if not take.whole:
            giver.give(take)
    giver.share()
    return cores & ~giver.cores, gpus & ~giver.gpus


def fair_share(host: Domain, ngpus: int, node: Domain, cores: int, gpus: int) -> int:
    """The cores that go with *ngpus* of *host*'s GPUs when cores are shared evenly among GPUs.

    The share of one GPU is the smaller of two ratios: cores of *host* to GPUs of *host*, and free
    *cores* of the *node* to its free *gpus*. Every GPU thus keeps its share. Cores of MIG domains
    are not counted: they belong to the slices there.
    """
    shares = [idset.size(own_cores(host)) * ngpus // host.ngpus]
    free = idset.size(node.open_gpus & gpus)
    if free:
        shares.append(idset.size(own_cores(node) & cores) * ngpus // free)
    return max(1, min(shares))


def own_cores(domain: Domain) -> int:
    """The cores of *domain* that are not reserved for MIG instances in it, as a bitmask."""
    return domain.cores & ~union(inner.cores for inner in domain.mig)


class _Giver:
    """Gives ids to one take after another; ``cores`` and ``gpus`` are the remaining free ids."""

    def __init__(
        self, takes: Sequence[Take], node_type: NodeType, cores: int, gpus: int, plain: bool
    ) -> None:
        wholes = [take.scope for take in takes if take.whole]
        self.node_type = node_type
        self.cores = cores & ~union(domain.cores for domain in wholes)
        self.gpus = gpus & ~union(domain.gpus for domain in wholes)
        #: The free ids before any amount is given.
        self.free = self.cores, self.gpus
        self.plain = plain
        self.given: list[_Placed] = []
        self.assignment: Optional[GpuAssignment] = None
        if len(takes) > 1 and any(take.need.has_gpu_demand for take in takes):
            self.assignment = GpuAssignment(node_type, takes, gpus)

    def give(self, take: Take) -> None:
        """Give *take* the ids that it asks for."""
        need = take.need
        usable = usable_gpus(self.node_type, take.scope, need)
        assignment = self.assignment if need.gpus else None
        if assignment is not None:
            usable &= assignment.within(take)
        given = self._best(take, usable)
        if assignment is not None and (given is None or not assignment.allows(take, given.gpus)):
            given = self._best(take, assignment.planned(take))
        if assignment is not None and given is not None:
            assignment.settle(take, given.gpus)
        assert given is not None, "the matcher promised what is not there"
        self.cores &= ~given.cores
        self.gpus &= ~given.gpus
        self.given.append(given)

    def _best(self, take: Take, usable: int) -> Optional[_Placed]:
        """The best ids for *take* among the free cores and the free ones of the *usable* GPUs."""
        need, scope = take.need, take.scope
        graph = graph_of(self.node_type.links, need.demand)
        want, gpus = (need.gpus, need.cores), self.gpus & usable
        if self.plain:
            return _Placed(take, scope, *plain_ids(scope, want, self.cores, gpus, graph))
        levels = amount_levels(self.node_type, need, scope)
        hosts = smallest_hosts(scope, need, levels, self.cores, self.gpus, usable, graph)
        host = next(hosts, None)
        if host is None:
            return None
        links = self.node_type.links
        return _Placed(take, host, *amount_ids(host, want, self.cores, gpus, links, need.demand))

    def share(self) -> None:
        """Give amounts with ``fair_share`` as much of their share of cores as is free."""
        for given in self.given:
            need, host = given.take.need, given.host
            if not need.fair_share:
                continue
            self.cores |= given.cores
            have = idset.size(host.cores & self.cores)
            realm = self.node_type.realm[given.take.scope]
            want = need.gpus, min(have, fair_share(host, need.gpus, realm, *self.free))
            taken = self._again(given, want)
            self.cores &= ~taken[0]
            self.gpus = (self.gpus | given.gpus) & ~taken[1]

    def _again(self, given: _Placed, want: tuple[int, int]) -> tuple[int, int]:
        """The ids for *given*, chosen again for the amount *want*."""
        need, host = given.take.need, given.host
        if self.assignment is not None:  # other slots' GPUs depend on these, so the GPUs stay
            if self.plain:
                return idset.take_lowest(host.cores & self.cores, want[1]), given.gpus
            return cores_near(host, given.gpus, want[1], self.cores, given.gpus), given.gpus
        usable = (self.gpus | given.gpus) & usable_gpus(self.node_type, given.take.scope, need)
        graph = graph_of(self.node_type.links, need.demand)
        if self.plain:
            return plain_ids(host, want, self.cores, usable, graph)
        return amount_ids(host, want, self.cores, usable, self.node_type.links, need.demand)


def plain_ids(
    domain: Domain, want: tuple[int, int], cores: int, gpus: int, graph: Optional[Graph]
) -> tuple[int, int]:
    """The lowest ids of *domain* that make up *want*; with a *graph*, the GPUs are joined."""
    if graph is None:
        return lowest_ids(domain, want, cores, gpus)
    joined = next(joined_sets(graph, domain.gpus & gpus, want[0], Effort()), None)
    assert joined is not None, "the matcher promised what is not there"
    return idset.take_lowest(domain.cores & cores, want[1]), joined
