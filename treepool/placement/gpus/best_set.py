"""Link sets: which GPUs of a node work best together, by the links between them.

Of all sets of g free GPUs the one is taken that is first in this order:

1. the largest smallest link: what the slowest pair in the set can move, in GB/s;
2. the best way to the network: the smallest of the worst path from a GPU to its nearest NIC, then
   the smallest sum of the paths, each a number from PIX (0) over PXB, PHB and NODE to SYS (4);
3. the best set left behind: among the GPUs that stay free the most pairs with the fastest link,
   then the most with the next fastest, and so on. A job of one GPU so takes the partner of one in
   use, and splits no pair that is free as long as there is another way. Of sets that leave as
   much, that with the most pairs of its own with the fastest link, then the next fastest, and so
   on: it cuts the fewest;
4. the lowest ids.

The first two are found exactly: a set whose smallest link is at least some bandwidth is a clique
in the graph of the links that have it, and a clique of so few GPUs is found at once. The third is
a search over the cliques, see cliques.cheapest(). GPUs between which no link tells, as all those
on an NVSwitch, are exchanged for no gain, which makes large regular nodes as simple as small ones.
"""

from __future__ import annotations

from typing import Callable, Optional, Sequence

from treepool.placement.gpus.cliques import Costs, cheapest, clique
from treepool.placement.nodes.links import LinkTable
from treepool.placement.request.need import Demand
from treepool.rfc import idset

#: How many answers a table remembers. A node of 8 GPUs has 255 sets that may be free.
MAX_MEMO = 4096

#: Links of any bandwidth and type.
ANY = Demand()


def best_set(table: LinkTable, free: int, number: int, demand: Demand = ANY) -> Optional[int]:
    """The best *number* of the GPUs *free* (bitmasks), None if no set meets *demand*.

    Remembered per table.
    """
    key = (free, number, demand)
    try:
        return table.memo[key]
    except KeyError:
        if len(table.memo) >= MAX_MEMO:
            table.memo.clear()
        found = table.memo[key] = _Choice(table, free, demand).best(number)[0]
        return found


def indifferent(table: LinkTable, free: int, demand: Demand = ANY) -> bool:
    """Whether any two of the GPUs *free* can be exchanged without a link or NIC to tell.

    Then there is no reason to leave the order that the tree gives. If there are two of them that
    meet *demand*, all do.
    """
    key = (free, demand)
    found = table.uniform.get(key)
    if found is None:
        if len(table.uniform) >= MAX_MEMO:
            table.uniform.clear()
        found = table.uniform[key] = len(set(_Choice(table, free, demand).alike)) < 2
    return found


class _Choice:
    """The choice among some free GPUs, which are vertices 0, 1, 2, ... by ascending id here."""

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
        self.alike = self._alike()

    def best(self, number: int) -> tuple[Optional[int], bool]:
        """The best set as bitmask of ids, and whether it is sure to be the best left behind."""
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

    def _alike(self) -> list[int]:
        """For each vertex the lowest one that it can be exchanged for, all links staying."""
        kinds: list[int] = []
        for v in range(self.count):
            kinds.append(next((w for w in range(v) if kinds[w] == w and self._twins(v, w)), v))
        return kinds

    def _twins(self, v: int, w: int) -> bool:
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
        """The graph of the links of the largest bandwidth that has a clique of *number*."""
        if clique(self.allowed, self.all, number) is None:
            return None
        values = self._values()
        if number == 1 or not values:
            return self.allowed
        graph = self.allowed
        first, last = 0, len(values) - 1  # values[first] is known to do
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
        """The vertices whose NIC is as near as can be for all, and a clique of *number* of them."""
        near = 0
        for path in sorted(set(self.paths)):
            near |= sum(1 << v for v, p in enumerate(self.paths) if p == path)
            found = clique(graph, near, number)
            if found is not None:
                return near, found
        raise AssertionError("a clique among all vertices is none among all")

    def _left_best(
        self, graph: Sequence[int], near: int, number: int, start: int
    ) -> tuple[int, bool]:
        """Of the cliques of *number* in *near* that with the smallest sum of paths, the most fast
        links left, and the lowest ids."""
        if idset.size(near) == number:
            return near, True
        count, vertices = self.count, range(self.count)
        # One number for all of it: ids below links below paths. A link of one bandwidth weighs
        # more than all of the next lower together. Slowest links need no weight: the number of
        # all pairs left is the same.
        unit, pairs = 1 << count, count * (count - 1) // 2 + 1
        values = self._values()
        weights = [0, *(unit * pairs**i for i in range(len(values) - 1))]
        weight = dict(zip(values, weights))
        fast = [[0 if v == w else weight[self.gbps[v][w]] for w in vertices] for v in vertices]
        # A link left counts more than all links of the set's own.
        left_unit = weights[-1] * pairs + 1
        path_unit = 1 << (unit + weights[-1] * pairs * (left_unit + 1)).bit_length()
        pair = [[amount * (left_unit + 1) for amount in row] for row in fast]
        low_id = [1 << (count - 1 - v) for v in vertices]
        paths = [path * path_unit for path in self.paths]
        complete = all(near & ~(graph[v] | 1 << v) == 0 for v in idset.iterate(near))
        rest = count - number
        if complete and rest < number:
            # Any set will do, so the fewer that stay are chosen: they keep the links they have.
            forced = self.all & ~near
            each = [
                low_id[v] - paths[v] + sum(fast[v]) - sum(pair[v][w] for w in idset.iterate(forced))
                for v in vertices
            ]
            costs = Costs(each, pair, self.alike)
            stay, sure = cheapest(costs, graph, near, rest - idset.size(forced), near & ~start)
            return near & ~stay, sure
        # A set takes with it all links that it has, those inside it once.
        each = [paths[v] + left_unit * sum(fast[v]) - low_id[v] for v in vertices]
        return cheapest(Costs(each, pair, self.alike), graph, near, number, start)
