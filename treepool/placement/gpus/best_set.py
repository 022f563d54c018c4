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
bandwidth, and a clique of so few GPUs is found quickly. Criterion 2 is a search over the cliques,
see cliques.heaviest(), which finds all sets that are equal so far; the others decide between these.
GPUs that are alike, such as those of a domain on an NVSwitch, are interchangeable, so only one of
them is tried. A large regular node is therefore as cheap as a small one.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Callable, Optional, Sequence

from treepool.placement.effort import GaveUp, remembered
from treepool.placement.gpus.cliques import clique, heaviest
from treepool.placement.nodes.link_table import LinkTable
from treepool.placement.nodes.tree import Domain
from treepool.placement.request.need import Demand
from treepool.rfc import idset
from treepool.rfc.idset import union

#: How many answers a table remembers. A node of 8 GPUs has 255 possible sets of free GPUs.
MAX_MEMO = 4096

#: Links of any bandwidth and type.
ANY = Demand()

#: The cores (a bitmask) that go with a set of GPUs.
Beside = Callable[[int], int]


def best_set(
    table: LinkTable,
    free: int,
    number: int,
    demand: Demand = ANY,
    host: Optional[Domain] = None,
    beside: Beside = lambda gpus: 0,
) -> Optional[int]:
    """The best set of *number* of the GPUs *free* (bitmasks); None if no set meets *demand*.

    *host* is the domain that they are taken from, and *beside* returns the cores that a slot with
    some GPUs takes there. Without a *host*, domains do not count. The table remembers all that
    does not depend on cores.
    """
    equal = remembered(
        table.memo,
        MAX_MEMO,
        (host, free, number, demand),
        lambda: _Equal(table, free, host, _Choice(table, free, demand, host).equal(number)),
    )
    found: Optional[int] = equal.best(beside)
    return found


def indifferent(table: LinkTable, free: int, demand: Demand = ANY) -> bool:
    """Whether all of the GPUs *free* are interchangeable: they have equal links and NIC paths.

    The order of the tree then decides. If any two of these GPUs meet *demand*, all pairs do.
    """
    return remembered(
        table.uniform,
        MAX_MEMO,
        (free, demand),
        lambda: len(set(_Choice(table, free, demand).kinds)) < 2,
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


class _Choice:
    """The choice among some free GPUs, numbered as vertices 0, 1, 2, ... by ascending id."""

    def __init__(
        self, table: LinkTable, free: int, demand: Demand, host: Optional[Domain] = None
    ) -> None:
        self.ids = list(idset.iterate(free & table.gpus))
        places = [table.place[gpu] for gpu in self.ids]
        self.count = len(places)
        self.all = (1 << self.count) - 1
        self.links = [[table.links[i][j] for j in places] for i in places]
        self.paths = [table.paths[i] for i in places]
        self.homes = [_home(host, gpu) for gpu in self.ids]

        def meets(v: int, w: int) -> bool:
            i, j = places[v], places[w]
            return demand.met_by(table.gbps[i][j], table.types[i][j])

        self.allowed = self._graph(meets)
        #: Whether any two of the GPUs will do.
        self.free_choice = demand == ANY
        self.kinds = self._kinds()

    def equal(self, number: int) -> list[int]:
        """The sets (bitmasks of ids) that are best by criteria 1 and 2; none if none meets demands.

        Of GPUs that are interchangeable, only those with the lowest ids are in them.
        """
        widest = self._widest(number) if number <= self.count else None
        if widest is None:
            return []
        found = heaviest(self.links, self.kinds, *widest, number)
        return [idset.from_ids(self.ids[v] for v in idset.iterate(one)) for one in found]

    def _graph(self, linked: Callable[[int, int], bool]) -> list[int]:
        vertices = range(self.count)
        return [sum(1 << w for w in vertices if w != v and linked(v, w)) for v in vertices]

    def _kinds(self) -> list[int]:
        """For each vertex, the lowest vertex that is its twin."""
        kinds: list[int] = []
        for v in range(self.count):
            kinds.append(next((w for w in range(v) if kinds[w] == w and self._are_twins(v, w)), v))
        return kinds

    def _are_twins(self, v: int, w: int) -> bool:
        others = ~(1 << v | 1 << w)
        return (
            self.paths[v] == self.paths[w]
            and self.homes[v] is self.homes[w]
            and self.allowed[v] & others == self.allowed[w] & others
            and all(
                self.links[v][u] == self.links[w][u] for u in range(self.count) if u not in (v, w)
            )
        )

    def _values(self) -> list[int]:
        """The distinct bandwidths between two vertices, ascending."""
        return sorted({self.links[v][w] for v in range(self.count) for w in range(v)})

    def _widest(self, number: int) -> Optional[tuple[list[int], int]]:
        """The graph of the fastest links in which a clique of *number* is found, and that clique;
        None if there is none. Raises GaveUp if that is not known of the slowest allowed."""
        graph = self.allowed
        known: Optional[int] = (1 << number) - 1
        if not self.free_choice:
            known = clique(graph, self.all, number)
        values = self._values()
        if known is None or number < 2 or not values:
            return None if known is None else (graph, known)
        first, last = 0, len(values) - 1  # a clique at values[first] is known to exist
        while first < last:
            middle = (first + last + 1) // 2
            least = values[middle]
            tried = self._graph(lambda v, w: self.links[v][w] >= least)  # noqa: B023
            tried = [mask & self.allowed[v] for v, mask in enumerate(tried)]
            found = None
            with suppress(GaveUp):  # slower links do if it takes long
                found = clique(tried, self.all, number)
            if found is None:
                last = middle - 1
            else:
                first, graph, known = middle, tried, found
        return graph, known


def _home(host: Optional[Domain], gpu: int) -> Optional[Domain]:
    """The innermost domain of *host* that has *gpu*."""
    for child in host.children if host is not None else ():
        if child.gpus >> gpu & 1:
            return _home(child, gpu)
    return host
