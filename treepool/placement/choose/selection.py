"""Selection: walk a request's candidates in order until it has what it asks for.

This module changes nothing. The pool commits a complete selection or none.
"""

from __future__ import annotations

import heapq
from contextlib import closing
from typing import Callable, Generator, Iterator, Optional

import attrs

from treepool.placement.choose.candidates import Candidates, Entry
from treepool.placement.nodes.state import NodeState
from treepool.placement.on_node.fit import Fit, Step, fit
from treepool.placement.request.vertices import Request
from treepool.rfc.count import Count


@attrs.frozen
class Grant:
    """``units`` units, as ``fit`` places them, on each of ``ranks`` (ascending) in ``state``."""

    state: NodeState
    ranks: tuple[int, ...]
    fit: Fit
    units: int

    @property
    def step(self) -> Step:
        """What each of the ranks gives."""
        return self.fit.steps[self.units - 1]


@attrs.frozen
class Selection:
    """What a request gets: its grants, no rank in two of them, and its number of slots."""

    grants: tuple[Grant, ...]
    nslots: int

    def ranks(self) -> Iterator[int]:
        """All ranks of the selection."""
        return (rank for grant in self.grants for rank in grant.ranks)

    @property
    def extent(self) -> tuple[int, int, int]:
        """How much is served, the outermost count first: nodes if the request asks for nodes,
        else units; units on these nodes; and slots."""
        grants = self.grants
        asked = sum(len(grant.ranks) * grant.units for grant in grants)
        return asked, sum(len(g.ranks) * g.step.units for g in grants), self.nslots

    @property
    def remote(self) -> bool:
        """Whether some slot is not local."""
        return any(grant.units > grant.fit.local for grant in self.grants)


def select(request: Request, candidates: Candidates) -> Optional[Selection]:
    """The nodes that serve *request* now, None if there are not enough.

    The counts below its slot are at their minimum.
    """
    candidates.refresh()
    if request.nodes is None:
        return _fill(request.units, candidates)
    if request.spans:
        return _span(request, candidates)
    return _nodes(request.nodes, candidates)


def _nodes(nodes: Count, candidates: Candidates) -> Optional[Selection]:
    """Select a number of distinct nodes, each with its slots."""
    if candidates.too_few(nodes.minimum):
        return None
    grants = _distinct(nodes.maximum, candidates)
    found = nodes.largest(sum(len(g.ranks) for g in grants))
    if found is None:
        return None
    grants = _cut(grants, found, per_rank=False)
    return Selection(tuple(grants), _slots_of(grants))


def _span(request: Request, candidates: Candidates) -> Optional[Selection]:
    """Select slots that span several nodes each: the most slots, then the most nodes per slot."""
    assert request.nodes is not None
    nodes, slots = request.nodes, request.units
    if candidates.too_few(nodes.minimum * slots.minimum):
        return None
    most = None
    if slots.maximum is not None and nodes.maximum is not None:
        most = slots.maximum * nodes.maximum
    grants = _distinct(most, candidates)
    available = sum(len(g.ranks) for g in grants)
    nslots = slots.largest(available // nodes.minimum)
    if nslots is None:
        return None
    per_slot = nodes.largest(available // nslots)
    assert per_slot is not None
    return Selection(tuple(_cut(grants, nslots * per_slot, per_rank=False)), nslots)


def _first(candidates: Candidates) -> list[Grant]:
    """One unit of the first node in order: the most common request, in a third of the time."""
    entry = candidates.best()
    if entry is None:
        return []
    found = fit(entry.state, candidates.ask)
    assert found is not None
    return [Grant(entry.state, (entry.rank,), found, 1)]


def _distinct(most: Optional[int], candidates: Candidates) -> list[Grant]:
    """Up to *most* distinct nodes in order, each giving all that is asked of one node."""
    if most == 1:
        return _first(candidates)
    grants = []
    found = 0
    with closing(_runs(candidates, False)) as runs:
        for run in runs:
            ranks = run.take(None if most is None else most - found)
            grants.append(Grant(run.state, ranks, run.fit, 1))
            found += len(ranks)
            if most is not None and found >= most:
                break
    return grants


def _fill(units: Count, candidates: Candidates) -> Optional[Selection]:
    """Select units wherever they fit: units with local slots first, node by node in order."""
    grants: list[Grant] = []
    found = 0
    most = units.maximum
    if most == 1:
        grants = _first(candidates)
        return Selection(tuple(grants), _slots_of(grants)) if grants else None
    with closing(_runs(candidates, True)) as runs:
        for run in runs:
            first, last = run.share
            each = last - first
            if most is None:
                ranks = run.take(None)
            else:
                ranks = run.take(max(1, (most - found) // each))
                each = min(each, most - found)
            grants.append(Grant(run.state, ranks, run.fit, each))
            found += each * len(ranks)
            if most is not None and found >= most:
                break
    wanted = units.largest(found)
    if wanted is None:
        return None
    grants = _merged(_cut(grants, wanted, per_rank=True))
    return Selection(tuple(grants), _slots_of(grants))


def _slots_of(grants: list[Grant]) -> int:
    return sum(len(g.ranks) * g.step.nslots for g in grants)


def _cut(grants: list[Grant], wanted: int, per_rank: bool) -> list[Grant]:
    """The first *wanted* nodes of *grants*, or the first *wanted* units with *per_rank*."""
    kept = []
    for grant in grants:
        each = grant.units if per_rank else 1
        whole = min(len(grant.ranks), wanted // each)
        if whole:
            kept.append(attrs.evolve(grant, ranks=grant.ranks[:whole]))
        wanted -= whole * each
        if wanted and whole < len(grant.ranks):  # some units of one more node
            kept.append(Grant(grant.state, grant.ranks[whole : whole + 1], grant.fit, wanted))
            wanted = 0
        if not wanted:
            break
    return kept


def _merged(grants: list[Grant]) -> list[Grant]:
    """*grants* with each rank in only one grant, also if it gave both local and remote units."""
    units: dict[int, int] = {}
    for grant in grants:
        for rank in grant.ranks:
            units[rank] = units.get(rank, 0) + grant.units
    if len(units) == sum(len(g.ranks) for g in grants):
        return grants
    merged: dict[tuple[NodeState, int], list[int]] = {}
    fits = {}
    for grant in grants:
        fits[grant.state] = grant.fit
        for rank in grant.ranks:
            if rank in units:
                merged.setdefault((grant.state, units.pop(rank)), []).append(rank)
    return [Grant(s, tuple(sorted(ranks)), fits[s], n) for (s, n), ranks in merged.items()]


class _Run:
    """Consecutive ranks of one state in the order, until another state has its turn.

    *ahead* returns the rank at which that happens. It is called only when a second rank is wanted.
    """

    def __init__(
        self, entry: Entry, found: Fit, ranks: Iterator[int], ahead: Callable[[int], float]
    ) -> None:
        self.state = entry.state
        self.fit = found
        ends = [0, *(segment.end for segment in found.segments)]
        #: The units of the fit that belong to the run: from the first number up to the second.
        self.share = ends[entry.segment], ends[entry.segment + 1]
        self.next: Optional[int] = entry.rank
        self._order = entry.order
        self._ranks = ranks
        self._ahead = ahead

    def take(self, most: Optional[int]) -> tuple[int, ...]:
        """Take up to *most* (None: all) of the run's ranks, but at least one."""
        assert self.next is not None
        taken = [self.next]
        self.next = next(self._ranks, None)
        if self.next is None or most == 1:
            return tuple(taken)
        stop = self._ahead(self._order)
        while self.next is not None and self.next < stop:
            if most is not None and len(taken) >= most:
                break
            taken.append(self.next)
            self.next = next(self._ranks, None)
        return tuple(taken)


def _runs(candidates: Candidates, split: bool) -> Generator[_Run, None, None]:
    """The candidates' nodes in order, as runs of ranks in one state.

    With *split*, each segment of a node's units has its own place in the order. The caller takes
    some ranks of each run and closes the generator explicitly. Closing restores the dropped states;
    an exception raised during garbage collection would be lost.
    """
    dropped: list[NodeState] = []
    cursors: list[Entry] = []  # states already begun, at the rank where they continue
    iterators: dict[tuple[NodeState, int], Iterator[int]] = {}
    index, within = candidates.index, candidates.within

    def ahead(order: int) -> float:
        """The lowest rank at which another state with the same order has its turn."""
        coming = (candidates.best(), cursors[0] if cursors else None)
        return min((e.rank for e in coming if e and e.order == order), default=float("inf"))

    try:
        while True:
            entry = candidates.best()
            if cursors and (entry is None or cursors[0][:2] < entry[:2]):
                entry = heapq.heappop(cursors)
            elif entry is not None:
                candidates.drop(entry)
                dropped.append(entry.state)
            else:
                return
            state = entry.state
            found = fit(state, candidates.ask)
            assert found is not None
            segment = entry.segment
            ranks = iterators.get((state, segment))
            if ranks is None:
                ranks = index.buckets[state].ascending(within, entry.rank + 1)
                iterators[state, segment] = ranks
                if split and segment + 1 < len(found.segments):
                    order = candidates.order_of(state, found, segment + 1)
                    later = Entry(order, entry.rank, entry.serial, state, segment + 1)
                    heapq.heappush(cursors, later)
            run = _Run(entry, found, ranks, ahead)
            yield run
            if run.next is not None:
                cursor = Entry(entry.order, run.next, entry.serial, state, segment)
                heapq.heappush(cursors, cursor)
    finally:
        candidates.restore(dropped)
