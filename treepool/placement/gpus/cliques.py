"""Cliques: sets of GPUs in which every pair is linked, and the cheapest of them.

A graph is a list of bitmasks: ``adjacent[i]`` holds the neighbours of vertex ``i``. A graph has as
many vertices as a node has GPUs, so the searches below are exact up to a bound on their work.
"""

from __future__ import annotations

from typing import Optional, Sequence

import attrs

from treepool.placement.effort import GaveUp
from treepool.rfc import idset

#: Vertices weighed before cheapest() ends with the best set so far. The slowest choice in 1,778
#: random tables of 24 GPUs, with 2 to 60 bandwidths, took 49 ms of CPU time. On an MI300A node in
#: CPX mode (4 x 6 partitions, better linked within an APU) every choice takes less than 2 ms.
LIMIT = 60_000

#: Sets that clique() examines before it gives up. The hardest known graph of 24 vertices needs a
#: tenth of that: 1,946 sets, among random, circulant and nearly complete graphs. The bound guards
#: against keys with more GPUs that are made to be hard.
MOST_SETS = 20_000

#: Exchanges that improve the start set before the search begins.
MOST_EXCHANGES = 100

#: With more distinct pair values than this, sorting partners is faster than counting them.
FEW_STEPS = 8


def clique(adjacent: Sequence[int], among: int, size: int) -> Optional[int]:
    """Some clique of *size* vertices in bitmask *among*, None if there is none.

    Raises GaveUp if the search exceeds its bound.

    Vertices of one color are not linked to each other, so a clique has at most one vertex of each
    color, and the number of colors bounds its size.
    """
    sets = 0

    def grow(chosen: int, left: int, wanted: int) -> Optional[int]:
        nonlocal sets
        if not wanted:
            return chosen
        sets += 1
        if sets > MOST_SETS:
            raise GaveUp
        if idset.size(left) < wanted:
            return None
        colored: list[int] = []  # the vertices, grouped by color
        uncolored, colors = left, 0
        bounds: list[int] = []
        while uncolored:
            colors += 1
            free = uncolored
            while free:
                low = free & -free
                vertex = low.bit_length() - 1
                free &= ~(low | adjacent[vertex])
                uncolored &= ~low
                colored.append(vertex)
                bounds.append(colors)
        for vertex, bound in zip(reversed(colored), reversed(bounds)):
            if bound < wanted:
                return None
            found = grow(chosen | 1 << vertex, left & adjacent[vertex], wanted - 1)
            if found is not None:
                return found
            left &= ~(1 << vertex)
        return None

    return grow(0, among, size)


@attrs.frozen(eq=False)
class Costs:
    """The cost of a set of vertices: the sum of ``each`` minus ``pair`` of every two in the set.

    ``pair`` is a symmetric table with zeros on the diagonal and no negative numbers. Vertices of
    the same number in ``kinds`` are twins, except for their cost in ``each``.
    """

    each: Sequence[int]
    pair: Sequence[Sequence[int]]
    kinds: Sequence[int]
    #: For each distinct value of ``pair`` above zero, ascending: (its difference to the value
    #: before it; for each vertex, the bitmask of the vertices it has at least this value with).
    steps: Sequence[tuple[int, Sequence[int]]] = attrs.field(init=False)

    @steps.default
    def _steps(self) -> list[tuple[int, list[int]]]:
        values = sorted({0}.union(*self.pair))
        if len(values) > FEW_STEPS:
            return []
        return [
            (
                value - less,
                [sum(1 << w for w, p in enumerate(row) if p >= value) for row in self.pair],
            )
            for less, value in zip(values, values[1:])
        ]

    def of(self, chosen: int) -> int:
        """The cost of the set *chosen*."""
        members = list(idset.iterate(chosen))
        pairs = sum(self.pair[v][w] for i, v in enumerate(members) for w in members[:i])
        return sum(self.each[v] for v in members) - pairs


def cheapest(
    costs: Costs, adjacent: Sequence[int], among: int, size: int, start: int, limit: int = LIMIT
) -> tuple[int, bool]:
    """The cheapest clique of *size* vertices in *among*, and whether it is sure to be the cheapest.

    *start* is some such clique. The method is branch and bound. The lower bound of a set assumes
    that each further vertex gets its best partners; each end of a pair counts half of it. The
    result is not sure once *limit* vertices are weighed. It depends on the arguments alone.
    """
    best = _improved(costs, adjacent, among, start)
    search = _Search(costs, adjacent, limit, best)
    members = list(idset.iterate(among))
    search.extend(0, 0, [(costs.each[v], v) for v in members], size)
    return search.best, search.weighed <= limit


class _Search:
    """The branch and bound of cheapest()."""

    def __init__(self, costs: Costs, adjacent: Sequence[int], limit: int, best: int) -> None:
        self.costs = costs
        self.adjacent = adjacent
        self.limit = limit
        self.best = best
        self.twice_least = 2 * costs.of(best)
        self.weighed = 0

    def extend(self, chosen: int, twice: int, left: list[tuple[int, int]], wanted: int) -> None:
        """Try all ways to add *wanted* of the vertices *left* to *chosen*.

        *left* holds pairs (cost of adding the vertex to *chosen*, vertex). *twice* is double the
        cost of *chosen*.
        """
        self.weighed += len(left)
        if self.weighed > self.limit:
            return
        partners = wanted - 1
        if not partners:
            cost, vertex = min(left)
            if twice + 2 * cost < self.twice_least:
                self.best, self.twice_least = chosen | 1 << vertex, twice + 2 * cost
            return
        bounds = self._bounds(left, partners)
        kinds, adjacent, pair = self.costs.kinds, self.adjacent, self.costs.pair
        while len(bounds) > partners:
            if twice + sum(bound for bound, _, _ in bounds[:wanted]) >= self.twice_least:
                return
            _, cost, vertex = bounds[0]
            neighbours, row = adjacent[vertex], pair[vertex]
            inner = [(c - row[v], v) for _, c, v in bounds if neighbours >> v & 1]
            if len(inner) >= partners:
                self.extend(chosen | 1 << vertex, twice + 2 * cost, inner, partners)
            # Twins cost at least as much, so no set without this vertex needs them.
            kind = kinds[vertex]
            bounds = [item for item in bounds if kinds[item[2]] != kind]

    def _bounds(self, left: list[tuple[int, int]], partners: int) -> list[tuple[int, int, int]]:
        """Triples (double a lower bound of what the vertex adds, its cost, vertex), ascending."""
        size = idset.size
        mask = 0
        for _, vertex in left:
            mask |= 1 << vertex
        steps = self.costs.steps
        found = []
        for cost, vertex in left:
            if size(self.adjacent[vertex] & mask) < partners:
                continue
            bound = 2 * cost
            for more, masks in steps:
                number = size(masks[vertex] & mask)
                bound -= more * (number if number < partners else partners)
            if not steps:
                row = self.costs.pair[vertex]
                bound -= sum(sorted([row[w] for _, w in left])[-partners:])
            found.append((bound, cost, vertex))
        found.sort()
        return found


def _improved(costs: Costs, adjacent: Sequence[int], among: int, start: int) -> int:
    """*start* after repeated exchanges of one vertex for another, the best exchange each time."""
    chosen = start
    members = list(idset.iterate(among))
    for _ in range(MOST_EXCHANGES):
        inside = [v for v in members if chosen >> v & 1]
        worth = {v: costs.each[v] - sum(costs.pair[v][w] for w in inside) for v in members}
        best: tuple[int, int] = (0, 0)
        for new in members:
            if chosen >> new & 1:
                continue
            row, strangers = costs.pair[new], chosen & ~adjacent[new]
            for old in inside:
                if not strangers & ~(1 << old):
                    change = worth[new] + row[old] - worth[old]
                    if change < best[0]:
                        best = change, 1 << new | 1 << old
        if not best[1]:
            break
        chosen ^= best[1]
    return chosen
