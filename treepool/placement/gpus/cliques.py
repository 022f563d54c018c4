"""Cliques: sets of GPUs any two of which are linked, and the cheapest of them.

A graph is a list of bitmasks: ``adjacent[i]`` has the neighbours of vertex ``i``. Graphs have as
many vertices as a node has GPUs, so the searches below are exact, up to a bound on their work.
"""

from __future__ import annotations

from typing import Optional, Sequence

import attrs

from treepool.placement.effort import GaveUp
from treepool.rfc import idset

#: Vertices weighed before a search for the cheapest is ended with the best so far. The slowest
#: choice in 1,778 random tables of 24 GPUs, with 2 to 60 bandwidths, took 49 ms of CPU time; on an
#: MI300A node in CPX mode (4 x 6 partitions, better linked within an APU) none takes 2 ms.
LIMIT = 60_000

#: Sets looked into before the search for a clique is given up. The hardest graph of 24 vertices
#: found needs a tenth of it (1,946 sets, of random, circulant and nearly complete graphs); this is
#: for keys with more GPUs, made to be hard.
MOST_SETS = 20_000

#: Exchanges made to better a set before the search proper.
MOST_EXCHANGES = 100

#: With more values of a pair than these it is quicker to sort partners than to count them.
FEW_STEPS = 8


def clique(adjacent: Sequence[int], among: int, size: int) -> Optional[int]:
    """Some clique of *size* vertices in bitmask *among*, None if there is none.

    Raises GaveUp if that is too hard to tell.

    A clique has no two vertices of one color, so if vertices that are not linked share colors,
    the number of colors bounds its size.
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
        colored: list[int] = []  # one vertex after another, by color
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
    """What sets of vertices cost: the sum of ``each`` less the ``pair`` of any two in the set.

    ``pair`` is a symmetric table with zeros on the diagonal and no negative number. Vertices of
    one number in ``alike`` can be exchanged with nothing but ``each`` to tell.
    """

    each: Sequence[int]
    pair: Sequence[Sequence[int]]
    alike: Sequence[int]
    #: The distinct values of ``pair`` above zero, ascending: (by how much more than the one before,
    #: for each vertex the bitmask of those with which it has at least that).
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
    """The cheapest clique of *size* vertices in *among*, and whether it is sure to be.

    *start* is some such clique. Branch and bound: a set can be no cheaper than if each further
    vertex had its best partners, half of each pair counted at either end. It is not sure once
    *limit* vertices have been weighed, which depends on nothing but the arguments.
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

        *left* has (what it costs to add the vertex to chosen, the vertex); *twice* is double the
        cost of chosen.
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
        alike, adjacent, pair = self.costs.alike, self.adjacent, self.costs.pair
        while len(bounds) > partners:
            if twice + sum(bound for bound, _, _ in bounds[:wanted]) >= self.twice_least:
                return
            _, cost, vertex = bounds[0]
            neighbours, row = adjacent[vertex], pair[vertex]
            inner = [(c - row[v], v) for _, c, v in bounds if neighbours >> v & 1]
            if len(inner) >= partners:
                self.extend(chosen | 1 << vertex, twice + 2 * cost, inner, partners)
            # Without this one, those like it, which cost more, are not worth a try.
            kind = alike[vertex]
            bounds = [item for item in bounds if alike[item[2]] != kind]

    def _bounds(self, left: list[tuple[int, int]], partners: int) -> list[tuple[int, int, int]]:
        """(double the least that the vertex adds, its cost, the vertex), cheapest first."""
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
    """*start* after exchanges of one vertex for another, each the best there is."""
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
