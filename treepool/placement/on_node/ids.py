"""The ids: which cores and GPUs slots get, and the fair share of cores if only GPUs are asked for.

Numbers are promised per domain first, not ids. Whole domains come first, then amounts from the
innermost scope outwards: a scope may give ids from anywhere inside it, so the smaller scopes must
choose first. Each take gets its best ids. If links between GPUs are demanded, the takes after it
may then lack theirs: it gets another joined set of GPUs, the lowest ids first, until all have one.
"""

from __future__ import annotations

from typing import Iterator, Optional, Sequence

import attrs

from treepool.placement.effort import Effort
from treepool.placement.gpus.graph import (
    graph_of,
    has_clique,
    is_clique,
    joined_sets,
    lowest_joined,
)
from treepool.placement.nodes.tree import Domain, NodeType
from treepool.placement.on_node.amounts import amount_ids, lowest_ids
from treepool.placement.on_node.ledger import Ledger, Take
from treepool.placement.on_node.levels import (
    amount_levels,
    has_free,
    usable_gpus,
)
from treepool.rfc import idset
from treepool.rfc.idset import union

#: Cores and GPUs (bitmasks).
Ids = tuple[int, int]


@attrs.define(eq=False)
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
    effort: Effort,
) -> Optional[Ids]:
    """The cores and GPUs of *takes* out of the free *cores* and *gpus*.

    With *plain*, these are the lowest ids: the tree and links that are not demanded do not matter.
    None if the takes cannot all have the GPUs that are demanded. *effort* counts the search for
    these, and what it takes to compare GPUs; GaveUp is raised once it is spent, but only if GPUs
    are demanded.

    Takes with ``fair_share`` get theirs one after another. If that leaves some without a core, all
    get one first.
    """
    wholes = [take for take in takes if take.whole]
    whole = union(take.scope.cores for take in wholes), union(take.scope.gpus for take in wholes)
    giver = _Giver(takes, node_type, (cores & ~whole[0], gpus & ~whole[1]), plain, effort)
    given = giver.all_given()
    if given is None and giver.shares:
        giver.shares = False
        given = giver.all_given()
        given = given and giver.shared(given)
    if given is None:
        return None
    return (
        whole[0] | union(one.cores for one in given),
        whole[1] | union(one.gpus for one in given),
    )


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
        self,
        takes: Sequence[Take],
        node_type: NodeType,
        free: Ids,
        plain: bool,
        effort: Effort,
    ) -> None:
        self.node_type = node_type
        self.free = free
        self.plain = plain
        self.effort = effort
        #: The effort to choose the ids of a take.
        self.each = 1 + idset.size(node_type.root.gpus) // 64
        self.takes = [take for take in takes if not take.whole]
        if len(self.takes) > 1:
            self.takes.sort(key=lambda take: -len(node_type.around[take.scope]))
        demand = next((take.need.demand for take in takes if take.need.demand is not None), None)
        self.graph = graph_of(node_type.links, demand)
        #: The take that was served last, and the hosts for more of the same, the first one last.
        self.served: Optional[Take] = None
        self.hosts: list[Domain] = []
        #: Whether each take gets its share of cores with its GPUs.
        self.shares = any(take.need.fair_share for take in self.takes)
        #: GPUs are interchangeable only if the same takes can have them.
        self.alike: dict[int, int] = {}
        if self.graph is not None:
            self.alike = dict.fromkeys(idset.iterate(node_type.root.gpus), -1)
            for gpus in {take.scope.gpus for take in self.takes}:
                for gpu in self.alike:
                    self.alike[gpu] &= gpus if gpus >> gpu & 1 else ~gpus
        #: The GPUs that each slot has of whole domains that they must be joined with.
        self.whole: dict[int, int] = {}
        for take in takes if demand else ():
            if take.whole and take.need.demand is not None:
                self.whole[take.slot] = self.whole.get(take.slot, 0) | take.scope.gpus

    def all_given(self) -> Optional[list[_Given]]:
        """What each take gets, None if they cannot all have what they need."""
        graph = self.graph
        if graph and not all(is_clique(graph, gpus) for gpus in self.whole.values()):
            return None
        self.served = None
        given: list[_Given] = []
        ways: list[Iterator[_Given]] = []
        free = [self.free]
        while len(given) < len(self.takes):
            if len(ways) == len(given):
                ways.append(self._ways(self.takes[len(given)], free[-1], given))
            found = next(ways[-1], None)
            if found is not None:
                given.append(found)
                free.append((free[-1][0] & ~found.cores, free[-1][1] & ~found.gpus))
                continue
            ways.pop()
            if not given or graph is None:  # without links, other GPUs would be no better
                return None
            given.pop()
            free.pop()
        return given

    def _ways(self, take: Take, free: Ids, given: Sequence[_Given]) -> Iterator[_Given]:
        """What *take* could get of what is *free*, the best first."""
        need, graph = take.need, self.graph if take.need.gpus else None
        usable = free[1] & usable_gpus(self.node_type, take.scope, need)
        if graph is not None:
            has = self.whole.get(take.slot, 0)
            has |= union(one.gpus for one in given if one.take.slot == take.slot)
            for gpu in idset.iterate(has):
                usable &= graph.neighbours(gpu)
        if take.need.has_gpu_demand:
            self.effort.tried += self.each  # whoever searches finds out if that was too much
        best = self._best(take, free, usable)
        if best is None:
            return
        yield best
        if graph is not None and len(self.takes) > 1:
            among = usable & take.scope.gpus
            for some in joined_sets(graph, among, need.gpus, self.effort, self.alike):
                self.effort.count(self.each)
                other = None if some == best.gpus else self._best(take, free, some)
                if other is not None:
                    yield other

    def _best(self, take: Take, free: Ids, usable: int) -> Optional[_Given]:
        """The best ids for *take* of what is *free*, of GPUs those *usable*."""
        need = take.need
        if take is not self.served or self.graph is not None:
            self.served, self.hosts = take, []  # else one that gave something only comes earlier
        while self.hosts and not has_free(self.hosts[-1], need, free[0], usable):
            self.hosts.pop()
        self.hosts = self.hosts or self._hosts(take, free, usable)[::-1]
        if not self.hosts:
            return None
        host, number = self.hosts[-1], need.cores
        if self.shares and need.fair_share:
            number = self._share(take, host, free[0], free)
        return self._ids(take, host, number, free[0], usable)

    def _hosts(self, take: Take, free: Ids, usable: int) -> list[Domain]:
        """The domains to take *take*'s amount from, out of what is *free*, GPUs those *usable*.

        They have the lowest level among the domains that can give the amount. They are in the order
        of a walk down, see Ledger.path(): GPUs that are not usable count there, too.
        """
        scope, need, node_type = take.scope, take.need, self.node_type
        if self.plain:
            return [scope] if has_free(scope, need, free[0], usable) else []
        levels = amount_levels(node_type, need, scope, self.effort)
        graph = graph_of(node_type.links, need.demand)
        hosts: list[Domain] = []
        able = [scope]
        for domain in able:
            level = levels.get(domain)
            if level is None or not has_free(domain, need, free[0], usable):
                continue
            if graph is not None and not has_clique(
                graph, domain.gpus & usable, need.gpus, self.effort
            ):
                continue
            able += domain.children
            if hosts and level < levels[hosts[0]]:
                hosts.clear()
            if not hosts or level == levels[hosts[0]]:
                hosts.append(domain)
        if len(hosts) > 1:
            ledger = Ledger(node_type, *free)
            hosts.sort(key=lambda host: ledger.path(host, scope))
        return hosts

    def _share(self, take: Take, host: Domain, cores: int, free: Ids) -> int:
        """How many of *cores* of *host* go with the GPUs of *take*, of a node where so much is
        *free*."""
        share = fair_share(host, take.need.gpus, self.node_type.realm[take.scope], *free)
        return min(idset.size(host.cores & cores), share)

    def _ids(
        self, take: Take, host: Domain, ncores: int, cores: int, gpus: int
    ) -> Optional[_Given]:
        """*ncores* of *host* and the GPUs that *take* needs; None if it cannot have these."""
        need, links = take.need, self.node_type.links
        want, effort = (need.gpus, ncores), self.effort
        if not self.plain:
            ids = amount_ids(host, want, cores, gpus, links, need.demand, effort)
            return _Given(take, host, *ids)
        if self.graph is not None and need.gpus:
            gpus = lowest_joined(self.graph, host.gpus & gpus, need.gpus, self.effort)
        ids = lowest_ids(host, want, cores, gpus)
        return _Given(take, host, *ids) if idset.size(ids[1]) == need.gpus else None

    def shared(self, given: Sequence[_Given]) -> list[_Given]:
        """*given*, where takes with ``fair_share`` have as much of theirs as there is."""
        cores = self.free[0] & ~union(one.cores for one in given)
        gpus = self.free[1] & ~union(one.gpus for one in given)
        found = []
        for one in given:
            take, host = one.take, one.host
            if take.need.fair_share:
                cores, gpus = cores | one.cores, gpus | one.gpus
                usable = gpus & usable_gpus(self.node_type, take.scope, take.need)
                if take.need.has_gpu_demand:  # those of other takes depend on them
                    usable = one.gpus
                number = self._share(take, host, cores, self.free)
                more = self._ids(take, host, number, cores, usable)
                assert more is not None
                one, cores, gpus = more, cores & ~more.cores, gpus & ~more.gpus
            found.append(one)
        return found
