"""Cliques: sets of GPUs in which every pair is linked, the heaviest of them, and search limits.

A graph is a list of bitmasks: ``adjacent[i]`` holds the neighbours of vertex ``i``. A graph has as
many vertices as a node has GPUs, so the searches below are exact up to a bound on their work.
"""

from __future__ import annotations

from typing import Optional, Sequence

from treepool.placement.effort import GaveUp
from treepool.rfc import idset

#: What heaviest() weighs before it ends with the best sets so far: some 10 ms. Nodes of 8 GPUs take
#: less than 1 ms, one of 24 partitions in four APUs up to 7 ms; links in no order take all of it.
LIMIT = 6_000

#: Vertices that clique() looks at before it gives up: some 5 ms. All known nodes take a hundredth.
MOST_VERTICES = 10_000

#: How many vertices each of several equal sets weighs as much as: these are compared afterwards.
WEIGHT_OF_A_SET = 50


def clique(adjacent: Sequence[int], among: int, size: int) -> Optional[int]:
    """Some clique of *size* vertices in bitmask *among*, None if there is none.

    Raises GaveUp if the search exceeds its bound.

    Vertices of one color are not linked to each other, so a clique has at most one vertex of each
    color, and the number of colors bounds its size.
    """
    looked = 0

    def grow(chosen: int, left: int, wanted: int) -> Optional[int]:
        nonlocal looked
        if not wanted:
            return chosen
        looked += idset.size(left)
        if looked > MOST_VERTICES:
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


def heaviest(
    links: Sequence[Sequence[int]],
    kinds: Sequence[int],
    adjacent: Sequence[int],
    known: int,
    size: int,
    limit: int = LIMIT,
) -> list[int]:
    """The cliques of *size* vertices with the largest sum of *links*.

    *links* is a symmetric table of numbers from 0 up, with zeros on the diagonal. Vertices of the
    same number in *kinds* are twins: only those with the lowest numbers are tried. One such clique
    is *known*. The method is branch and bound. The upper bound of a set assumes that each further
    vertex gets its best partners; each end of a pair counts half of it. The search ends early, with
    the best cliques so far, once *limit* is reached. The result depends on the arguments alone.
    """
    search = _Search(links, kinds, adjacent, limit)
    vertices = range(len(adjacent))
    search.extend(0, 0, [(0, v) for v in vertices], size)
    return search.best or [known]


class _Search:
    """The branch and bound of heaviest()."""

    def __init__(
        self,
        links: Sequence[Sequence[int]],
        kinds: Sequence[int],
        adjacent: Sequence[int],
        limit: int,
    ) -> None:
        self.links = links
        self.kinds = kinds
        self.adjacent = adjacent
        self.limit = limit
        self.best: list[int] = []
        self.twice_most = 0
        self.weighed = 0

    def extend(self, chosen: int, twice: int, left: list[tuple[int, int]], wanted: int) -> None:
        """Try all ways to add *wanted* of the vertices *left* to *chosen*.

        *left* holds pairs (links of the vertex to *chosen*, vertex). *twice* is double the sum of
        the links of *chosen*.
        """
        self.weighed += len(left) * (1 + len(left) // 16)  # each is compared with all others
        if self.weighed > self.limit:
            return
        if not wanted:
            self._found(chosen, twice)
            return
        bounds = self._bounds(left, wanted - 1)
        kinds, adjacent = self.kinds, self.adjacent
        while len(bounds) >= wanted:
            if self.best and twice + sum(b for b, _, _ in bounds[:wanted]) < self.twice_most:
                return
            _, own, vertex = bounds[0]
            neighbours, row = adjacent[vertex], self.links[vertex]
            inner = [(n + row[v], v) for _, n, v in bounds if neighbours >> v & 1]
            if len(inner) >= wanted - 1:
                self.extend(chosen | 1 << vertex, twice + 2 * own, inner, wanted - 1)
            # Twins have the same links, so no set without this vertex needs them.
            kind = kinds[vertex]
            bounds = [item for item in bounds if kinds[item[2]] != kind]

    def _found(self, chosen: int, twice: int) -> None:
        if twice > self.twice_most or not self.best:
            self.best, self.twice_most = [], twice
        if twice == self.twice_most:
            self.best.append(chosen)
            self.weighed += WEIGHT_OF_A_SET

    def _bounds(self, left: list[tuple[int, int]], partners: int) -> list[tuple[int, int, int]]:
        """Triples (double an upper bound of what the vertex adds, its links to those chosen,
        vertex), the largest bound first."""
        size = idset.size
        mask = 0
        for _, vertex in left:
            mask |= 1 << vertex
        found = []
        for own, vertex in left:
            if size(self.adjacent[vertex] & mask) < partners:
                continue
            row = self.links[vertex]
            best = sorted([row[w] for _, w in left])[len(left) - partners :]
            found.append((2 * own + sum(best), own, vertex))
        found.sort(key=lambda item: (-item[0], item[2]))
        return found
