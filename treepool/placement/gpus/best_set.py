"""Link sets: which GPUs of a node work best together, by the links between them.

Sets of g free GPUs are compared by these criteria, in this order:

1. Slowest link: the set whose slowest pair has the highest bandwidth, in GB/s.
2. Path to the network: the set with the shortest worst path from a GPU to its nearest NIC, then
   the smallest sum of the paths. A path is a number: PIX (0), PXB, PHB, NODE, SYS (4).
3. GPUs left free: the set that leaves the most free pairs with the fastest link, then the most
   with the next fastest, and so on. A one-GPU job therefore takes a GPU whose partner is already
   in use, and splits a free pair only if it must. Among sets that leave equal pairs, the set that
   has the most pairs with the fastest link inside it, then with the next fastest, and so on: it
   cuts the fewest links.
4. Ids: the lowest.

Criteria 1 and 2 are exact. A set whose slowest link has at least some bandwidth is a clique in the
graph of the links of that bandwidth, and a clique of so few GPUs is found quickly. Criterion 3 is
a search over the cliques, see cliques.cheapest(). GPUs with identical links, such as all those on
an NVSwitch, are interchangeable, so only one of them is tried. A large regular node is therefore
as cheap as a small one.
"""

from __future__ import annotations

from typing import Callable, Optional, Sequence

from treepool.placement.gpus.cliques import Costs, cheapest, clique
from treepool.placement.memo import remembered
from treepool.placement.nodes.links import LinkTable
from treepool.placement.request.need import Demand
from treepool.rfc import idset

#: How many answers a table remembers. A node of 8 GPUs has 255 possible sets of free GPUs.
MAX_MEMO = 4096

#: Links of any bandwidth and type.
ANY = Demand()


def best_set(table: LinkTable, free: int, number: int, demand: Demand = ANY) -> Optional[int]:
    """The best set of *number* of the GPUs *free* (bitmasks); None if no set meets *demand*.

    The table remembers the result.
    """
    return remembered(
        table.memo,
        MAX_MEMO,
        (free, number, demand),
        lambda: _Choice(table, free, demand).best(number)[0],
    )


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


class _Choice:
    """The choice among some free GPUs, numbered as vertices 0, 1, 2, ... by ascending id."""

    def __init__(self, table: LinkTable, free: int, demand: Demand) -> None:
        self.ids = list(idset.iterate(free & table.gpus))
        places = [table.place[gpu] for gpu in self.ids]
        self.count = len(places)
        self.all = (1 << self.count) - 1
        self.gbps = [[table.gbps[i][j] for j in places] for i in places]
        self.paths = [table.paths[i] for i in places]

        def meets(v: int, w: int) -> bool:
            return demand.met_by(self.gbps[v][w], table.types[places[v]][places[w]])

        self.allowed = self._graph(meets)
        self.kinds = self._kinds()

    def best(self, number: int) -> tuple[Optional[int], bool]:
        """The best set as a bitmask of ids, and whether criterion 3 was decided exactly."""
        if number > self.count:
            return None, True
        if number == 0:
            return 0, True
        graph = self._widest(number)
        if graph is None:
            return None, True
        near, start = self._nearest(graph, number)
        found, sure = self._left_best(graph, near, number, start)
        return idset.from_ids(self.ids[v] for v in idset.iterate(found)), sure

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
            and self.allowed[v] & others == self.allowed[w] & others
            and all(
                self.gbps[v][u] == self.gbps[w][u] for u in range(self.count) if u not in (v, w)
            )
        )

    def _values(self) -> list[float]:
        """The distinct bandwidths between two vertices, ascending."""
        return sorted({self.gbps[v][w] for v in range(self.count) for w in range(v)})

    def _widest(self, number: int) -> Optional[list[int]]:
        """The graph of the fastest links that still has a clique of *number*; None if none has."""
        if clique(self.allowed, self.all, number) is None:
            return None
        values = self._values()
        if number == 1 or not values:
            return self.allowed
        graph = self.allowed
        first, last = 0, len(values) - 1  # a clique at values[first] is known to exist
        while first < last:
            middle = (first + last + 1) // 2
            least = values[middle]
            tried = self._graph(lambda v, w: self.gbps[v][w] >= least)  # noqa: B023
            tried = [mask & self.allowed[v] for v, mask in enumerate(tried)]
            if clique(tried, self.all, number) is None:
                last = middle - 1
            else:
                first, graph = middle, tried
        return graph

    def _nearest(self, graph: Sequence[int], number: int) -> tuple[int, int]:
        """The vertices within the shortest possible NIC path, and a clique of *number* in them."""
        near = 0
        for path in sorted(set(self.paths)):
            near |= sum(1 << v for v, p in enumerate(self.paths) if p == path)
            found = clique(graph, near, number)
            if found is not None:
                return near, found
        raise AssertionError("the graph has such a clique among all its vertices")

    def _left_best(
        self, graph: Sequence[int], near: int, number: int, start: int
    ) -> tuple[int, bool]:
        """The best clique of *number* in *near*, and whether it is sure to be the best.

        It has the smallest sum of paths, then leaves the most fast links, then has the lowest ids.
        """
        if idset.size(near) == number:
            return near, True
        count, vertices = self.count, range(self.count)
        # One number holds all criteria: paths weigh more than links, links more than ids. One link
        # weighs more than all links of the next lower bandwidth together. The slowest links need
        # no weight, because every set leaves the same number of pairs.
        unit, pairs = 1 << count, count * (count - 1) // 2 + 1
        values = self._values()
        weights = [0, *(unit * pairs**i for i in range(len(values) - 1))]
        weight = dict(zip(values, weights))
        fast = [[0 if v == w else weight[self.gbps[v][w]] for w in vertices] for v in vertices]
        # A link that stays free weighs more than all links inside the set.
        left_unit = weights[-1] * pairs + 1
        path_unit = 1 << (unit + weights[-1] * pairs * (left_unit + 1)).bit_length()
        pair = [[amount * (left_unit + 1) for amount in row] for row in fast]
        low_id = [1 << (count - 1 - v) for v in vertices]
        paths = [path * path_unit for path in self.paths]
        complete = all(near & ~(graph[v] | 1 << v) == 0 for v in idset.iterate(near))
        rest = count - number
        if complete and rest < number:
            # Every set is a clique and fewer GPUs stay than go, so choose those that stay.
            forced = self.all & ~near
            each = [
                low_id[v] - paths[v] + sum(fast[v]) - sum(pair[v][w] for w in idset.iterate(forced))
                for v in vertices
            ]
            costs = Costs(each, pair, self.kinds)
            stay, sure = cheapest(costs, graph, near, rest - idset.size(forced), near & ~start)
            return near & ~stay, sure
        # A set removes all links of its members; those inside the set count once.
        each = [paths[v] + left_unit * sum(fast[v]) - low_id[v] for v in vertices]
        return cheapest(Costs(each, pair, self.kinds), graph, near, number, start)
