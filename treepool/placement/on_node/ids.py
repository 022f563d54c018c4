"""The ids: which cores and GPUs slots get, and the fair share of cores if only GPUs are asked for.

A match promises numbers per domain, not ids. Whole domains come first, then amounts from the
innermost scope outwards: a scope may give ids from anywhere inside it, so the smaller scopes must
choose first.

If links or memory of GPUs are demanded, each take in turn gets the best GPUs that are left and
joined with those that its slot has. If a take finds none, all get those that the match planned.
"""

from __future__ import annotations

from typing import Optional, Sequence

import attrs

from treepool.placement.gpus.assignment import Claim, assign
from treepool.placement.gpus.graph import Graph, graph_of, lowest_clique
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
    outwards = sorted(takes, key=lambda take: -len(node_type.around[take.scope]))
    giver = _Giver(takes, node_type, cores, gpus, plain)
    if not all(giver.give(take) for take in outwards if not take.whole):
        giver = _Giver(takes, node_type, cores, gpus, plain, planned=True)
        found = all(giver.give(take) for take in outwards if not take.whole)
        assert found, "the matcher promised what is not there"
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
    """Gives ids to one take after another; ``cores`` and ``gpus`` are the remaining free ids.

    With *planned*, each take gets the GPUs that a search assigns to all of them.
    """

    def __init__(
        self,
        takes: Sequence[Take],
        node_type: NodeType,
        cores: int,
        gpus: int,
        plain: bool,
        planned: bool = False,
    ) -> None:
        wholes = [take for take in takes if take.whole]
        self.node_type = node_type
        self.cores = cores & ~union(take.scope.cores for take in wholes)
        self.gpus = gpus & ~union(take.scope.gpus for take in wholes)
        #: The free ids before any amount is given.
        self.free = self.cores, self.gpus
        self.plain = plain
        self.given: list[_Placed] = []
        #: Whether the GPUs of one take decide which others are left to the next.
        self.demanding = len(takes) > 1 and any(take.need.has_gpu_demand for take in takes)
        self.graph = graph_of(node_type.links, demanded(takes)) if self.demanding else None
        #: The GPUs that each slot already has.
        self.settled: dict[int, int] = {}
        for take in wholes if self.graph is not None else ():
            self.settled[take.slot] = self.settled.get(take.slot, 0) | take.scope.gpus
        self.planned: Optional[dict[int, int]] = None
        if planned:
            claiming, claims, free = claims_of(node_type, takes, gpus)
            assignment = assign(claims, self.graph, free, lambda: None)
            assert assignment is not None, "the matcher promised what is not there"
            self.planned = dict(zip(map(id, claiming), assignment))

    def give(self, take: Take) -> bool:
        """Give *take* the ids that it asks for; False if other takes have got them."""
        need = take.need
        usable = usable_gpus(self.node_type, take.scope, need)
        if self.demanding and need.gpus:
            if self.planned is not None:
                usable = self.planned[id(take)]
            elif self.graph is not None:
                for gpu in idset.iterate(self.settled.get(take.slot, 0)):
                    usable &= self.graph.neighbours(gpu)
        given = self._best(take, usable)
        if given is None:
            return False
        self.settled[take.slot] = self.settled.get(take.slot, 0) | given.gpus
        self.cores &= ~given.cores
        self.gpus &= ~given.gpus
        self.given.append(given)
        return True

    def _best(self, take: Take, usable: int) -> Optional[_Placed]:
        """The best ids for *take* among the free cores and the free ones of the *usable* GPUs."""
        need, scope = take.need, take.scope
        graph = graph_of(self.node_type.links, need.demand)
        want, gpus = (need.gpus, need.cores), self.gpus & usable
        if self.plain:
            ids = plain_ids(scope, want, self.cores, gpus, graph)
            return None if ids is None else _Placed(take, scope, *ids)
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
        if self.demanding:  # other slots' GPUs depend on these, so the GPUs stay
            if self.plain:
                return idset.take_lowest(host.cores & self.cores, want[1]), given.gpus
            return cores_near(host, given.gpus, want[1], self.cores, given.gpus), given.gpus
        usable = (self.gpus | given.gpus) & usable_gpus(self.node_type, given.take.scope, need)
        graph = graph_of(self.node_type.links, need.demand)
        if self.plain:
            return plain_ids(host, want, self.cores, usable, graph) or (given.cores, given.gpus)
        return amount_ids(host, want, self.cores, usable, self.node_type.links, need.demand)


def plain_ids(
    domain: Domain, want: tuple[int, int], cores: int, gpus: int, graph: Optional[Graph]
) -> Optional[tuple[int, int]]:
    """The lowest ids of *domain* that make up *want*; with a *graph*, the GPUs are joined.

    None if it does not have so many.
    """
    lowest, taken = lowest_ids(domain, want, cores, gpus)
    joined = taken if graph is None else lowest_clique(graph, domain.gpus & gpus, want[0])
    if joined is None or (idset.size(joined), idset.size(lowest)) != want:
        return None
    return lowest, joined
