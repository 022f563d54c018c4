"""Which GPUs of a node work best together: by links, domains, NICs, and what stays free for others.

Sets of g free GPUs are compared by these criteria, in this order:

1. Slowest link: the set whose slowest pair has the highest bandwidth, in GB/s.
2. All links: the set whose pairs have the largest sum of bandwidths. Of four GPUs on MI250X
   modules, where no four are all linked, these are two whole modules, not one half of each of four.
3. Domains: the set that touches the fewest domains with its cores and GPUs, first of the lowest
   level (domains with nothing inside), then of the next. A GPU in no domain of a level counts as a
   domain of its own there.
4. Path to the network: the set with the shortest worst path from a GPU to its nearest NIC, then
   the smallest sum of the paths. A path is a number: PIX (0), PXB, PHB, NODE, SOCKET, SYS (5).
5. GPUs left free: the set that leaves the best GPUs, by the same criteria. A one-GPU job therefore
   takes a GPU whose partner is already in use, and splits a free pair only if it must.
6. Ids: the lowest.

A set whose slowest link has at least some bandwidth is a clique in the graph of the links of that
bandwidth (graph.py). Criterion 2 is decided by branch and bound over the cliques, which finds all
sets that are equal so far; the others decide between these. GPUs that are alike, such as those of
a domain on an NVSwitch, are interchangeable, so only one of them is tried. A large regular node is
therefore as cheap as a small one. On links in no order the search ends with the best sets so far.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Callable, Optional, Sequence

import attrs

from treepool.placement.effort import Effort, GaveUp, metered, remembered
from treepool.placement.gpus.graph import MAX_MEMO, Graph, graph_of, joined_sets
from treepool.placement.nodes.link_table import LinkTable
from treepool.placement.nodes.tree import Domain
from treepool.placement.request.need import Demand
from treepool.rfc import idset
from treepool.rfc.idset import union

#: Links of any bandwidth and type.
ANY = Demand()

#: The cores (a bitmask) that go with a set of GPUs.
Beside = Callable[[int], int]

#: How many partners are compared at the effort of one choice.
_LOOKS = 96


def best_set(
    table: LinkTable,
    free: int,
    number: int,
    demand: Demand = ANY,
    host: Optional[Domain] = None,
    beside: Beside = lambda gpus: 0,
    effort: Optional[Effort] = None,
) -> Optional[int]:
    """The best set of *number* of the GPUs *free* (bitmasks); None if no set meets *demand*.

    *host* is the domain that they are taken from, and *beside* returns the cores that a slot with
    some GPUs takes there. Without a *host*, domains do not count. The table remembers all that
    does not depend on cores. *effort* counts the search. Raises GaveUp if it takes too long to find
    any set that meets *demand*.
    """
    equal: _Equal = metered(
        table.memo,
        MAX_MEMO,
        (table, host, free, number, demand),
        lambda spent: _Equal(table, free, host, _best(table, free, number, demand, host, spent)),
        effort,
    )
    return equal.best(beside)


def indifferent(table: LinkTable, free: int, demand: Demand = ANY) -> bool:
    """Whether all of the GPUs *free* are interchangeable: they have equal links and NIC paths.

    The order of the tree then decides. If any two of these GPUs meet *demand*, all pairs do.
    """
    return remembered(
        table.uniform,
        MAX_MEMO,
        (free, demand),
        lambda: len({*_kinds(table, _graph(table, demand), free, None).values()}) < 2,
    )


#: The place of a set among those with equal links, the lower the better: criteria 3 to 6.
_Rank = tuple[list[int], object]


class _Equal:
    """*sets* of GPUs (bitmasks) with equal links, out of the GPUs *free* in *host*."""

    def __init__(
        self, table: LinkTable, free: int, host: Optional[Domain], sets: Sequence[int]
    ) -> None:
        self.table = table
        self.free = free & table.gpus
        #: The domains inside *host*, by the number of levels inside them: the lowest level first.
        self.levels: list[list[Domain]] = []
        if host is not None:
            self._add(host)
            del self.levels[-1]
        #: The sets in order, as if they took no cores.
        self.ordered = sorted((self._rank(chosen), chosen) for chosen in sets)

    def best(self, beside: Beside) -> Optional[int]:
        """The best of the sets, with the cores that a slot takes *beside* each.

        A set never gets a better place by its cores, so the first few decide.
        """
        best: Optional[tuple[_Rank, int]] = None
        for rank, chosen in self.ordered:
            if best is not None and best[0] <= rank:
                break
            place = (self._touched(chosen, beside(chosen)), rank[1]), chosen
            best = place if best is None else min(best, place)
        return None if best is None else best[1]

    def _add(self, domain: Domain) -> int:
        level = max((self._add(child) + 1 for child in domain.children), default=0)
        while len(self.levels) <= level:
            self.levels.append([])
        self.levels[level].append(domain)
        return level

    def _rank(self, chosen: int) -> _Rank:
        left = self.free & ~chosen
        links = self.table.links_in(left)
        return self._touched(chosen, 0), (
            self._paths(chosen),
            (-min(links, default=0), -sum(links), self._touched(left, 0), self._paths(left)),
            tuple(idset.iterate(chosen)),
        )

    def _touched(self, gpus: int, cores: int) -> list[int]:
        """How many domains of each level *gpus* and *cores* touch, or GPUs that are in none."""
        return [
            sum(bool(d.gpus & gpus or d.cores & cores) for d in some)
            + idset.size(gpus & ~union(d.gpus for d in some))
            for some in self.levels
        ]

    def _paths(self, gpus: int) -> tuple[int, int]:
        """The worst path of *gpus* to a NIC, and the sum of the paths."""
        paths = [self.table.paths[self.table.place[gpu]] for gpu in idset.iterate(gpus)]
        return max(paths, default=0), sum(paths)


def _best(
    table: LinkTable, free: int, number: int, demand: Demand, host: Optional[Domain], effort: Effort
) -> list[int]:
    """The sets that are best by criteria 1 and 2; none if none meets *demand*.

    Of GPUs that are interchangeable, only those with the lowest ids are in them.
    """
    free &= table.gpus
    graph = _graph(table, demand)
    if demand == ANY:
        known = idset.take_lowest(free, number) if idset.size(free) >= number else None
    else:
        known = next(joined_sets(graph, free, number, effort), None)
    if known is None or not number:
        return [] if known is None else [known]
    kinds = _kinds(table, graph, free, host)
    values = [gbps for gbps in table.gbps_in(free) if gbps >= demand.gbps] if number > 1 else []
    first, last = 0, len(values) - 1  # a set whose slowest link has values[first] is known
    while first < last:
        middle = (first + last + 1) // 2
        faster = _graph(table, attrs.evolve(demand, gbps=values[middle]))
        found = None
        with suppress(GaveUp):  # slower links do if it takes long
            found = next(joined_sets(faster, free, number, effort.part()), None)
        if found is None:
            last = middle - 1
        else:
            first, graph, known = middle, faster, found
    search = _Heaviest(table, graph, kinds, effort)
    with suppress(GaveUp):
        search.extend(0, 0, [(0, gpu) for gpu in idset.iterate(free)], number)
    return search.best or [known]


def _graph(table: LinkTable, demand: Demand) -> Graph:
    graph = graph_of(table, demand)
    assert graph is not None
    return graph


def _kinds(table: LinkTable, graph: Graph, free: int, host: Optional[Domain]) -> dict[int, int]:
    """For each of the GPUs *free*, the lowest of those that are interchangeable with it."""
    gpus = list(idset.iterate(free & table.gpus))
    rows = {gpu: table.links[table.place[gpu]] for gpu in gpus}
    marks = {gpu: (table.paths[table.place[gpu]], id(_home(host, gpu))) for gpu in gpus}

    def twins(v: int, w: int) -> bool:
        if marks[v] != marks[w]:
            return False
        others = free & ~(1 << v | 1 << w)
        if (graph.neighbours(v) ^ graph.neighbours(w)) & others:
            return False
        return all(
            rows[v][table.place[u]] == rows[w][table.place[u]] for u in gpus if u not in (v, w)
        )

    kinds: dict[int, int] = {}
    for v in gpus:
        kinds[v] = next((w for w in kinds if kinds[w] == w and twins(v, w)), v)
    return kinds


def _home(host: Optional[Domain], gpu: int) -> Optional[Domain]:
    """The innermost domain of *host* that has *gpu*."""
    for child in host.children if host is not None else ():
        if child.gpus >> gpu & 1:
            return _home(child, gpu)
    return host


class _Heaviest:
    """Branch and bound for the joined sets with the largest sum of links.

    The upper bound of a set assumes that each further GPU gets its best partners; each end of a
    pair counts half of it. ``best`` has the best sets so far when *effort* is spent.
    """

    def __init__(
        self, table: LinkTable, graph: Graph, kinds: dict[int, int], effort: Effort
    ) -> None:
        self.place = table.place
        self.links = table.links
        self.graph = graph
        self.kinds = kinds
        self.effort = effort
        self.best: list[int] = []
        self.twice_most = 0

    def extend(self, chosen: int, twice: int, left: list[tuple[int, int]], wanted: int) -> None:
        """Try all ways to add *wanted* of the GPUs *left* to *chosen*.

        *left* holds pairs (links of the GPU to *chosen*, GPU). *twice* is double the sum of the
        links of *chosen*.
        """
        self.effort.count(1 + len(left) * len(left) // _LOOKS)
        if not wanted:
            if twice > self.twice_most or not self.best:
                self.best, self.twice_most = [], twice
            if twice == self.twice_most:
                self.best.append(chosen)
                self.effort.count(1 + len(self.kinds) ** 2 // (2 * _LOOKS))  # to compare it
            return
        bounds = self._bounds(left, wanted - 1)
        while len(bounds) >= wanted:
            if self.best and twice + sum(b for b, _, _ in bounds[:wanted]) < self.twice_most:
                return
            _, own, gpu = bounds[0]
            neighbours, row = self.graph.neighbours(gpu), self.links[self.place[gpu]]
            inner = [(n + row[self.place[w]], w) for _, n, w in bounds if neighbours >> w & 1]
            if len(inner) >= wanted - 1:
                self.extend(chosen | 1 << gpu, twice + 2 * own, inner, wanted - 1)
            # Twins have the same links, so no set without this GPU needs them.
            bounds = [item for item in bounds if self.kinds[item[2]] != self.kinds[gpu]]

    def _bounds(self, left: list[tuple[int, int]], partners: int) -> list[tuple[int, int, int]]:
        """Triples (double an upper bound of what the GPU adds, its links to those chosen, GPU),
        the largest bound first."""
        places = [self.place[gpu] for _, gpu in left]
        mask = sum(1 << gpu for _, gpu in left)
        found = []
        for own, gpu in left:
            if idset.size(self.graph.neighbours(gpu) & mask) >= partners:
                row = self.links[self.place[gpu]]
                best = sorted([row[place] for place in places])[len(left) - partners :]
                found.append((2 * own + sum(best), own, gpu))
        found.sort(key=lambda item: (-item[0], item[2]))
        return found
