"""The ids: which cores and GPUs slots get, and the fair share of cores if only GPUs are asked for.

A search promises numbers per domain, not ids. Whole domains come first, then amounts from the
innermost scope outwards: a scope may give ids from anywhere inside it, so the smaller scopes must
choose first. Each take gets its best ids. If links between GPUs are demanded, the takes after it
may then lack theirs: it gets another joined set of GPUs, the lowest ids first, until all have one.
"""

from __future__ import annotations

from typing import Iterator, Optional, Sequence

import attrs

from treepool.placement.effort import Effort
from treepool.placement.gpus.graph import graph_of, has_clique, is_clique, joined_sets
from treepool.placement.nodes.tree import Domain, NodeType
from treepool.placement.on_node.amounts import amount_ids, lowest_ids
from treepool.placement.on_node.ledger import Take
from treepool.placement.on_node.levels import (
    amount_levels,
    has_free,
    smallest_hosts,
    usable_gpus,
)
from treepool.placement.request.need import Need
from treepool.rfc import idset
from treepool.rfc.idset import union

#: Cores and GPUs (bitmasks).
Ids = tuple[int, int]


@attrs.frozen(eq=False)
class _Given:
    """The ids that a take got, out of ``host``."""

    take: Take
    host: Domain
    cores: int
    gpus: int


def ids_of(
    takes: Sequence[Take],
    node_type: NodeType,
    cores: int,
    gpus: int,
    plain: bool,
    effort: Optional[Effort] = None,
) -> Optional[Ids]:
    """The cores and GPUs of *takes* out of the free *cores* and *gpus*.

    With *plain*, these are the lowest ids: the tree and links that are not demanded do not matter.
    None if the takes cannot all have the GPUs that are demanded. *effort* counts the search for
    these; GaveUp is raised once it is spent.
    """
    wholes = [take for take in takes if take.whole]
    left = (
        cores & ~union(take.scope.cores for take in wholes),
        gpus & ~union(take.scope.gpus for take in wholes),
    )
    if len(wholes) < len(takes) or any(take.need.demand for take in wholes):
        giver = _Giver(takes, node_type, left, plain, effort or Effort())
        given = giver.all_given()
        if given is None:
            return None
        left = giver.shared(given)
    return cores & ~left[0], gpus & ~left[1]


def ids_in(
    take: Take, node_type: NodeType, cores: int, gpus: int, plain: bool, effort: Effort
) -> Optional[Ids]:
    """The ids of *take* alone, all of its scope or an amount that comes from no smaller domain.

    They are out of the free *cores* and *gpus*; None if it cannot have them, see ids_of().
    """
    host, need = take.scope, take.need
    if take.whole:
        taken = bool(host.cores & ~cores or host.gpus & ~gpus)
        return None if taken else (host.cores, host.gpus)
    usable, number = gpus & usable_gpus(node_type, host, need), need.cores
    if not has_free(host, need, cores, usable):
        return None
    graph = graph_of(node_type.links, need.demand)
    if not plain and graph and not has_clique(graph, host.gpus & usable, need.gpus):
        return None
    if need.fair_share:
        share = fair_share(host, need.gpus, node_type.realm[host], cores, gpus)
        number = min(idset.size(host.cores & cores), share)
    return _chosen(host, need, number, (cores, usable), node_type, plain, effort)


def _chosen(
    host: Domain,
    need: Need,
    ncores: int,
    free: Ids,
    node_type: NodeType,
    plain: bool,
    effort: Effort,
) -> Optional[Ids]:
    """*ncores* of *host* and the GPUs of *need*, out of those *free*; None if it lacks these."""
    (cores, gpus), want = free, (need.gpus, ncores)
    if not plain:
        return amount_ids(host, want, cores, gpus, node_type.links, need.demand)
    graph = graph_of(node_type.links, need.demand)
    if graph is not None:
        joined = next(joined_sets(graph, host.gpus & gpus, need.gpus, effort), None)
        if joined is None:
            return None
        gpus = joined
    ids = lowest_ids(host, want, cores, gpus)
    return ids if idset.size(ids[1]) == need.gpus else None


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
    """Gives the ids that *free* has to the *takes* that are not whole."""

    def __init__(
        self, takes: Sequence[Take], node_type: NodeType, free: Ids, plain: bool, effort: Effort
    ) -> None:
        self.node_type = node_type
        self.free = free
        self.plain = plain
        self.effort = effort
        self.takes = [take for take in takes if not take.whole]
        self.takes.sort(key=lambda take: -len(node_type.around[take.scope]))
        demand = next((take.need.demand for take in takes if take.need.demand is not None), None)
        self.graph = graph_of(node_type.links, demand)
        #: Whether the GPUs of a take depend on those of others.
        self.fixed = len(takes) > 1 and any(take.need.has_gpu_demand for take in takes)
        #: The GPUs that each slot has of whole domains that they must be joined with.
        self.whole: dict[int, int] = {}
        for take in takes:
            if take.whole and take.need.demand is not None:
                self.whole[take.slot] = self.whole.get(take.slot, 0) | take.scope.gpus
        #: GPUs are interchangeable only if the same takes can have them.
        self.scopes = tuple({take.scope.gpus for take in self.takes})

    def all_given(self) -> Optional[list[_Given]]:
        """What each take gets, None if they cannot all have GPUs that meet the demand."""
        graph = self.graph
        if graph and not all(is_clique(graph, gpus) for gpus in self.whole.values()):
            return None
        given: list[_Given] = []
        ways: list[Iterator[_Given]] = []
        free = [self.free]
        while len(given) < len(self.takes):
            if len(ways) == len(given):
                ways.append(self._ways(self.takes[len(given)], *free[-1], given))
            found = next(ways[-1], None)
            if found is not None:
                given.append(found)
                free.append((free[-1][0] & ~found.cores, free[-1][1] & ~found.gpus))
                continue
            ways.pop()
            if not given or self.graph is None:  # without links, other GPUs would be no better
                return None
            given.pop()
            free.pop()
        return given

    def _ways(self, take: Take, cores: int, gpus: int, given: Sequence[_Given]) -> Iterator[_Given]:
        """What *take* could get of the free *cores* and *gpus*, the best first."""
        need = take.need
        usable = gpus & usable_gpus(self.node_type, take.scope, need)
        if self.graph is not None and need.gpus:
            has = self.whole.get(take.slot, 0)
            has |= union(one.gpus for one in given if one.take.slot == take.slot)
            for gpu in idset.iterate(has):
                usable &= self.graph.neighbours(gpu)
        best = self._best(take, cores, gpus, usable)
        if best is not None:
            yield best
            if self.graph is not None and need.gpus and len(self.takes) > 1:
                usable &= take.scope.gpus
                for some in joined_sets(self.graph, usable, need.gpus, self.effort, self.scopes):
                    other = None if some == best.gpus else self._best(take, cores, gpus, some)
                    if other is not None:
                        yield other

    def _best(self, take: Take, cores: int, gpus: int, usable: int) -> Optional[_Given]:
        """The best ids for *take* among the free *cores* and *gpus*, out of those *usable*."""
        need, scope = take.need, take.scope
        hosts = [scope]
        if not self.plain:
            levels = amount_levels(self.node_type, need, scope)
            hosts = smallest_hosts(self.node_type, scope, need, levels, cores, gpus, usable)
        host = next(iter(hosts), None)
        ids = host and self._ids(take, host, need.cores, cores, usable)
        return _Given(take, host, *ids) if host and ids else None

    def _ids(self, take: Take, host: Domain, ncores: int, cores: int, gpus: int) -> Optional[Ids]:
        """*ncores* of *host* and the GPUs that *take* needs; None if it cannot have these."""
        free = cores, gpus
        return _chosen(host, take.need, ncores, free, self.node_type, self.plain, self.effort)

    def shared(self, given: Sequence[_Given]) -> Ids:
        """What is left free when takes with ``fair_share`` have as much of theirs as there is."""
        cores = self.free[0] & ~union(one.cores for one in given)
        gpus = self.free[1] & ~union(one.gpus for one in given)
        for one in given:
            need, host = one.take.need, one.host
            if not need.fair_share:
                continue
            cores |= one.cores
            realm = self.node_type.realm[one.take.scope]
            share = fair_share(host, need.gpus, realm, *self.free)
            number = min(idset.size(host.cores & cores), share)
            usable = one.gpus
            if not self.fixed:
                usable |= gpus & usable_gpus(self.node_type, one.take.scope, need)
            ids = self._ids(one.take, host, number, cores, usable)
            assert ids is not None
            cores, gpus = cores & ~ids[0], (gpus | one.gpus) & ~ids[1]
        return cores, gpus
