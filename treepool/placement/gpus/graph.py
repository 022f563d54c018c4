"""Joined GPUs: sets in which every pair has the links demanded; none if the links are not known.

The pairs of GPUs that meet a demand form a graph, and joined sets are its cliques. GPUs with the
same neighbours are interchangeable, so the search tries only one of each kind. best_set.py decides
which set is best.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Optional

import attrs

from treepool.placement.effort import Effort, metered, remembered
from treepool.placement.nodes.link_table import LinkTable
from treepool.placement.request.need import Demand
from treepool.rfc import idset
from treepool.rfc.idset import union

#: How many demands' graphs a table remembers, and how many answers a graph or a table.
MAX_GRAPHS, MAX_MEMO = 64, 4096


@attrs.frozen(eq=False)
class Graph:
    """Which GPUs of a node type meet a demand in pairs: ``linked[id]`` is a bitmask of ids."""

    linked: tuple[int, ...]
    #: For each GPU, the GPUs that are interchangeable with it: they have the same neighbours.
    twins: tuple[int, ...] = attrs.field(init=False)
    #: The GPUs in groups if any two of a group are linked, and no others; else None.
    groups: Optional[frozenset[int]] = attrs.field(init=False)
    #: Answers of has_clique(), by (free GPUs, number).
    memo: dict[Any, Any] = attrs.field(factory=dict)

    @twins.default
    def _twins(self) -> tuple[int, ...]:
        alike = idset.gathered(
            (key, 1 << gpu)
            for gpu, linked in enumerate(self.linked)
            for key in (linked, linked | 1 << gpu)  # not linked to each other, and linked
        )
        return tuple(
            alike[linked] | alike[linked | 1 << gpu] for gpu, linked in enumerate(self.linked)
        )

    @groups.default
    def _groups(self) -> Optional[frozenset[int]]:
        groups = frozenset(linked | 1 << gpu for gpu, linked in enumerate(self.linked))
        return groups if sum(map(idset.size, groups)) == len(self.linked) else None

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
    for gpu, partners in zip(table.ids, table.partners):
        linked[gpu] = union(gpus for link, gpus in partners.items() if demand.met_by(*link))
    return Graph(tuple(linked))


def joined_sets(
    graph: Graph,
    among: int,
    number: int,
    effort: Effort,
    alike: Optional[Mapping[int, int]] = None,
) -> Iterator[int]:
    """The joined sets of *number* of the GPUs *among* (bitmasks), the lowest ids first.

    Only one of several sets that differ in interchangeable GPUs is among them: those with the same
    neighbours, and, if that is given, those *alike*. Raises GaveUp once *effort* is spent.
    """
    if number < 2:
        candidates = among
    else:
        candidates = sum(
            1 << gpu
            for gpu in idset.iterate(among)
            if idset.size(among & graph.neighbours(gpu)) >= number - 1
        )
    if not number:
        yield 0
        return
    while idset.size(candidates) >= number:
        if number > 1:
            effort.count(1 + idset.size(candidates) // 32)
        low = idset.lowest(candidates)
        twins = graph.twins[low] if low < len(graph.twins) else 0
        if alike is not None:
            twins &= alike[low]
        candidates &= ~(1 << low)
        inner = candidates & graph.neighbours(low) if number > 1 else 0
        for rest in joined_sets(graph, inner, number - 1, effort, alike):
            yield 1 << low | rest
        candidates &= ~twins


def lowest_joined(graph: Graph, among: int, number: int, effort: Effort) -> int:
    """The first joined set of *number* of the GPUs *among*; none (0) if there is no such set.

    *effort* counts the search, which has one of its own. Raises GaveUp if it takes too long.
    """
    own = Effort()
    found = next(joined_sets(graph, among, number, own), 0)
    effort.tried += own.tried
    return found


def has_clique(graph: Graph, free: int, number: int, effort: Optional[Effort] = None) -> bool:
    """Whether the GPUs *free* contain a joined set of *number*; a single GPU is always joined.

    *effort* counts the search. Raises GaveUp if it takes too long to find out.
    """
    if number < 2:
        return idset.size(free) >= number
    return metered(
        graph.memo,
        MAX_MEMO,
        (free, number),
        lambda spent: any(joined_sets(graph, free, number, spent)),
        effort,
    )


def largest_clique(graph: Graph, gpus: int) -> int:
    """The size of the largest joined set in *gpus*."""
    number = min(1, idset.size(gpus))
    while has_clique(graph, gpus, number + 1):
        number += 1
    return number


def is_clique(graph: Graph, gpus: int) -> bool:
    """Whether every pair of *gpus* is linked as demanded."""
    return all(gpus & ~(graph.neighbours(gpu) | 1 << gpu) == 0 for gpu in idset.iterate(gpus))
