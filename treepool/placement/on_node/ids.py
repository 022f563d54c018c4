"""The ids: which cores and GPUs the takes of a match get.

A match promises only numbers, of domains. Whole domains come first, then amounts from the inside
out: what a scope gives may come from anywhere in it, so the smaller scopes must choose first. Where
links or memory are demanded of GPUs, each choice leaves an assignment for those after it.
"""

from __future__ import annotations

from typing import Optional, Sequence

import attrs

from treepool.placement.gpus.graph import Graph, graph_of, lowest_clique
from treepool.placement.nodes.tree import Domain, NodeType
from treepool.placement.on_node.gpu_assignment import GpuAssignment
from treepool.placement.on_node.ledger import Take
from treepool.placement.on_node.levels import amount_levels, smallest_host, usable_gpus
from treepool.placement.on_node.spread import cores_near, lowest_ids, spread
from treepool.rfc import idset
from treepool.rfc.idset import union


@attrs.frozen(eq=False)
class _Placed:
    """What an amount has been given, in ``host``."""

    take: Take
    host: Domain
    cores: int
    gpus: int


def ids_of(
    takes: Sequence[Take], node_type: NodeType, cores: int, gpus: int, plain: bool
) -> tuple[int, int]:
    """The cores and GPUs of *takes* out of the free *cores* and *gpus*.

    With *plain* the lowest ids, whatever the tree and the links say.
    """
    if all(take.whole for take in takes):
        return (
            union(take.scope.cores for take in takes) & cores,
            union(take.scope.gpus for take in takes) & gpus,
        )
    giver = _Giver(takes, node_type, cores, gpus, plain)
    for take in sorted(takes, key=lambda take: -_depth(take.scope, node_type)):
        if not take.whole:
            giver.give(take)
    giver.share()
    return cores & ~giver.cores, gpus & ~giver.gpus


def fair_share(host: Domain, ngpus: int, node: Domain, cores: int, gpus: int) -> int:
    """The cores that go with *ngpus* of *host*'s GPUs when cores are shared out evenly.

    Per GPU no more than the cores of *host* over its GPUs, nor than what is free of the *cores* on
    the *node* over what is free of its *gpus*: no GPU is left without its share. Cores of
    MIG domains are for the slices there.
    """
    shares = [idset.size(own_cores(host)) * ngpus // host.ngpus]
    free = idset.size(node.open_gpus & gpus)
    if free:
        shares.append(idset.size(own_cores(node) & cores) * ngpus // free)
    return max(1, min(shares))


def own_cores(domain: Domain) -> int:
    """The cores of *domain* that are not for MIG instances in it, as bitmask."""
    return domain.cores & ~union(inner.cores for inner in domain.mig)


class _Giver:
    """Gives ids to one take after another; ``cores`` and ``gpus`` are what is left."""

    def __init__(
        self, takes: Sequence[Take], node_type: NodeType, cores: int, gpus: int, plain: bool
    ) -> None:
        wholes = [take.scope for take in takes if take.whole]
        self.node_type = node_type
        self.cores = cores & ~union(domain.cores for domain in wholes)
        self.gpus = gpus & ~union(domain.gpus for domain in wholes)
        #: What is free before any amount is given.
        self.free = self.cores, self.gpus
        self.plain = plain
        self.given: list[_Placed] = []
        self.assignment: Optional[GpuAssignment] = None
        if len(takes) > 1 and any(take.need.has_gpu_demand for take in takes):
            self.assignment = GpuAssignment(node_type, takes, gpus)

    def give(self, take: Take) -> None:
        """Give *take* what it asks."""
        need = take.need
        usable = self.gpus & usable_gpus(self.node_type, take.scope, need)
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

    def _best(self, take: Take, gpus: int) -> Optional[_Placed]:
        """The best that *take* can have of the free cores and of *gpus*."""
        need, scope = take.need, take.scope
        graph = graph_of(self.node_type.links, need.demand)
        want = need.gpus, need.cores
        if self.plain:
            return _Placed(take, scope, *plain_ids(scope, want, self.cores, gpus, graph))
        levels = amount_levels(self.node_type, need, scope)
        host = smallest_host(scope, need, levels, self.cores, gpus, graph)
        if host is None:
            return None
        links = self.node_type.links
        return _Placed(take, host, *spread(host, want, self.cores, gpus, links, need.demand))

    def share(self) -> None:
        """Give the amounts that are GPUs with their share of cores as much of it as is free."""
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
        """What *given* is to have now that it is to have *want*."""
        need, host = given.take.need, given.host
        if self.assignment is not None:  # other slots' GPUs have been chosen to go with these
            if self.plain:
                return idset.take_lowest(host.cores & self.cores, want[1]), given.gpus
            return cores_near(host, given.gpus, want[1], self.cores, given.gpus), given.gpus
        usable = (self.gpus | given.gpus) & usable_gpus(self.node_type, given.take.scope, need)
        graph = graph_of(self.node_type.links, need.demand)
        if self.plain:
            return plain_ids(host, want, self.cores, usable, graph)
        return spread(host, want, self.cores, usable, self.node_type.links, need.demand)


def plain_ids(
    domain: Domain, want: tuple[int, int], cores: int, gpus: int, graph: Optional[Graph]
) -> tuple[int, int]:
    """The lowest ids of *domain* that make up *want*; with a *graph* its GPUs are joined."""
    if graph is None:
        return lowest_ids(domain, want, cores, gpus)
    joined = lowest_clique(graph, domain.gpus & gpus, want[0])
    assert joined is not None, "the matcher promised what is not there"
    return idset.take_lowest(domain.cores & cores, want[1]), joined


def _depth(domain: Domain, node_type: NodeType) -> int:
    depth = 0
    while (parent := node_type.parent[domain]) is not None:
        domain, depth = parent, depth + 1
    return depth
