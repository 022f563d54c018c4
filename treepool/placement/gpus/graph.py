"""Joined GPUs: sets in which every pair has the links demanded; none if the links are not known.

The pairs of GPUs that meet a demand form a graph, and joined sets are its cliques. cliques.py
decides quickly whether there is one; best_set.py decides which one is best.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Optional

import attrs

from treepool.placement.effort import GaveUp, remembered
from treepool.placement.gpus.best_set import MAX_MEMO
from treepool.placement.gpus.cliques import clique
from treepool.placement.nodes.link_table import LinkTable
from treepool.placement.request.need import Demand
from treepool.rfc import idset

#: How many demands' graphs a table remembers.
MAX_GRAPHS = 64


@attrs.frozen(eq=False)
class Graph:
    """Which GPUs of a node type meet a demand in pairs: ``linked[id]`` is a bitmask of ids."""

    linked: tuple[int, ...]
    #: For each GPU, the GPUs that are interchangeable with it: they have the same neighbours.
    twins: tuple[int, ...] = attrs.field(init=False)
    #: Answers of has_clique(), by (free GPUs, number); None where the search gave up.
    memo: dict[tuple[int, int], Optional[bool]] = attrs.field(factory=dict)

    @twins.default
    def _twins(self) -> tuple[int, ...]:
        ids = range(len(self.linked))

        def exchangeable(v: int, w: int) -> bool:
            return (self.linked[v] ^ self.linked[w]) & ~(1 << v | 1 << w) == 0

        return tuple(sum(1 << w for w in ids if exchangeable(v, w)) for v in ids)

    def neighbours(self, gpu: int) -> int:
        """The GPUs that are linked to *gpu* as demanded."""
        return self.linked[gpu] if gpu < len(self.linked) else 0


#: The graph of nodes whose GPU links are unknown.
_UNLINKED = Graph(())


def graph_of(table: Optional[LinkTable], demand: Optional[Demand]) -> Optional[Graph]:
    """The graph of the GPUs that are linked as *demand* says; None without a demand.

    Without a *table* no link is known. The table remembers the result.
    """
    if demand is None:
        return None
    if table is None:
        return _UNLINKED
    graphs: dict[Demand, Graph] = table.graphs
    return remembered(graphs, MAX_GRAPHS, demand, lambda: _graph(table, demand))


def _graph(table: LinkTable, demand: Demand) -> Graph:
    linked = [0] * table.gpus.bit_length()
    for i, gpu in enumerate(table.ids):
        for j, other in enumerate(table.ids):
            if i != j and demand.met_by(table.gbps[i][j], table.types[i][j]):
                linked[gpu] |= 1 << other
    return Graph(tuple(linked))


def has_clique(graph: Graph, free: int, number: int) -> bool:
    """Whether the GPUs *free* contain a joined set of *number*; a single GPU is always joined.

    Raises GaveUp if the search exceeds its bound.
    """
    if number < 2:
        return idset.size(free) >= number
    known = free & ((1 << len(graph.linked)) - 1)

    def compute() -> Optional[bool]:
        with suppress(GaveUp):
            return clique(graph.linked, known, number) is not None
        return None

    found = remembered(graph.memo, MAX_MEMO, (free, number), compute)
    if found is None:
        raise GaveUp
    return found


def lowest_clique(graph: Graph, free: int, number: int) -> Optional[int]:
    """The joined set of *number* of the GPUs *free* with the lowest ids; None if there is none."""
    chosen = 0
    while number > 1:
        for gpu in idset.iterate(free):
            rest = free & graph.neighbours(gpu) & -(2 << gpu)
            if has_clique(graph, rest, number - 1):
                break
        else:
            return None
        chosen, free, number = chosen | 1 << gpu, rest, number - 1
    if idset.size(free) < number:
        return None
    return chosen | idset.take_lowest(free, number)


def largest_clique(graph: Graph, gpus: int) -> int:
    """The size of the largest joined set in *gpus*."""
    number = min(1, idset.size(gpus))
    while has_clique(graph, gpus, number + 1):
        number += 1
    return number


def is_clique(graph: Graph, gpus: int) -> bool:
    """Whether every pair of *gpus* is linked as demanded."""
    return all(gpus & ~(graph.neighbours(gpu) | 1 << gpu) == 0 for gpu in idset.iterate(gpus))
