"""The ids: which cores and GPUs the takes of a match get.

A match promises numbers per domain, not ids. Whole domains come first, then amounts from the
innermost scope outwards: a scope may give ids from anywhere inside it, so the smaller scopes must
choose first. If links or memory of GPUs are demanded, each choice keeps an assignment possible for
the takes that follow.
"""

from __future__ import annotations

from typing import Optional, Sequence

import attrs

from treepool.placement.gpus.graph import Graph, graph_of, lowest_clique
from treepool.placement.nodes.tree import Domain, NodeType
from treepool.placement.on_node.amounts import amount_ids, cores_near, lowest_ids
from treepool.placement.on_node.gpu_assignment import GpuAssignment
from treepool.placement.on_node.ledger import Take
from treepool.placement.on_node.levels import amount_levels, smallest_hosts, usable_gpus
from treepool.rfc import idset
from treepool.rfc.idset import union


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
    joined = lowest_clique(graph, domain.gpus & gpus, want[0])
    assert joined is not None, "the matcher promised what is not there"
    return idset.take_lowest(domain.cores & cores, want[1]), joined
