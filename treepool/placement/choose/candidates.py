"""Candidates: the node states that can serve a request, in order of preference.

The candidates are a heap of states, updated from the index's log of changes. Fits are computed only
for states that reach the top. An allocation therefore looks only at the states it uses and at those
that changed since the request was last tried, not at all nodes or all states.
"""

from __future__ import annotations

import heapq
from typing import AbstractSet, Iterable, NamedTuple, Optional

import attrs

from treepool.placement.choose.policy import ABOVE_KEYS, Policy
from treepool.placement.effort import PER_REQUEST, Effort
from treepool.placement.nodes.index import NodeIndex
from treepool.placement.nodes.rankset import RankSet
from treepool.placement.nodes.state import NodeState
from treepool.placement.on_node.fit import NOTHING, Fit, assess, possible
from treepool.placement.request.need import Ask


class Entry(NamedTuple):
    """A place in a request's order: nodes in ``state`` from rank ``rank`` up.

    ``segment`` says which units of the state's fit the entry is for (see fit.Segment). ``order``
    combines the shortfall of these units, whether they are remote, and the policy's key. It is
    ``sure`` once the fit is known, and a lower bound before.
    """

    order: int
    rank: int
    serial: int
    state: NodeState
    segment: int = 0
    sure: bool = False


@attrs.define(eq=False)
class Candidates:
    """The states that can serve one ask on the ranks of *within* (None: all), best first.

    ``effort`` counts the choices that searches tried for the fits of the states looked at, no
    matter when the fits were computed. For an ask that may need a search, nothing is kept from one
    request to the next. The same states are then looked at regardless of earlier requests. States
    for which no effort is left are passed over; idle states have a share of their own.
    """

    index: NodeIndex
    ask: Ask
    policy: Policy
    within: Optional[RankSet]
    #: The states that ranks of ``within`` are in, if that is known.
    states: Optional[Iterable[NodeState]] = None
    #: States and entries looked at so far, for tests that count work instead of time.
    visited: int = 0
    effort: Effort = attrs.field(factory=lambda: Effort(PER_REQUEST))
    #: States whose effort this request has paid for.
    _charged: set[NodeState] = attrs.field(factory=set)
    #: States that give nothing because their search gave up.
    _unsure: set[NodeState] = attrs.field(factory=set)
    _heap: list[Entry] = attrs.field(factory=list)
    _live: dict[NodeState, Entry] = attrs.field(factory=dict)
    #: The states whose entries have an order.
    _alike: dict[int, set[NodeState]] = attrs.field(factory=dict)
    _serial: int = 0
    #: Where in the index's log the next change is; below its start before the first look.
    _seen: int = -1

    def refresh(self, effort: Effort) -> None:
        """Apply the changes of the index since the last call; count in *effort* from now on."""
        index, self.effort = self.index, effort
        self._charged.clear()
        if self.ask.searched:
            self._seen = -1
            self._unsure.clear()
        if self._unsure:  # off the heap because a search gave up: still no definite "no"
            self._unsure.intersection_update(index.buckets)
            ranks = (index.buckets[state].lowest(self.within) for state in self._unsure)
            effort.gave_up |= any(rank >= 0 for rank in ranks)
        log, seen = index.log, self._seen - index.log_start
        if seen < 0 or len(log) - seen > len(index.buckets):
            self._heap, self._live, self._alike = [], {}, {}
            cores, gpus = self.ask.min_cores, self.ask.min_gpus
            for state in self._reachable():
                if state.ncores >= cores and state.ngpus >= gpus:
                    self._offer(state)
        else:
            for moved in dict.fromkeys(map(index.state_of.__getitem__, log[seen:])):
                if moved is not None:
                    self._offer(moved)
            if len(self._heap) > 64 + 2 * len(self._live):  # most entries are of earlier times
                self._heap = list(self._live.values())
                heapq.heapify(self._heap)
        self._seen = index.log_start + len(log)

    def _reachable(self) -> Iterable[NodeState]:
        """The states that ranks of ``within`` may be in."""
        index, within = self.index, self.within
        if self.states is not None:
            return self.states
        if within is None or len(within) > len(index.buckets):
            return list(index.buckets)
        states = (index.state_of[r] for r in within if r < len(index.up) and index.up[r])
        return {state: None for state in states if state is not None}

    def _offer(self, state: NodeState) -> None:
        """Put *state* on the heap unless it is already there at its lowest rank or below."""
        self.visited += 1
        found = None if self.ask.searched else state.fits.get(self.ask)
        if not (possible(state, self.ask) if found is None else found.steps or found.gave_up):
            return
        ranks = self.index.buckets.get(state)
        if ranks is None:
            return
        rank = ranks.lowest(self.within)
        live = self._live.get(state)
        if rank < 0 or (live is not None and live.rank <= rank):
            return
        # A fit that is not computed yet counts as local: best() checks the top again before use.
        sure = found if found and found.steps else None
        self._push(state, rank, self._order(state, sure), sure is not None)

    def _order(self, state: NodeState, found: Optional[Fit]) -> int:
        key = self.policy.key(state, self.ask, found)
        if found is not None:
            return self.order_of(key, found, 0)
        return key + (self.ask.least_shortfall(state.ncores) * 2 * ABOVE_KEYS)

    def order_of(self, key: int, found: Fit, segment: int) -> int:
        """The order of a segment of a fit, where *key* is the policy's key of the fit."""
        _, shortfall, remote = found.segments[segment]
        return key + 2 * shortfall * ABOVE_KEYS + (self.policy.straddle if remote else 0)

    def _push(self, state: NodeState, rank: int, order: int, sure: bool) -> None:
        self._serial += 1
        old, entry = self._live.get(state), Entry(order, rank, self._serial, state, 0, sure)
        self._live[state] = entry
        heapq.heappush(self._heap, entry)
        if old is None or old.order != order:
            if old is not None:
                self._unlike(old)
            self._alike.setdefault(order, set()).add(state)

    def _unlike(self, entry: Entry) -> None:
        alike = self._alike[entry.order]
        alike.discard(entry.state)
        if not alike:
            del self._alike[entry.order]

    def too_few(self, wanted: int) -> bool:
        """True if all states that may serve the ask have fewer than *wanted* ranks together.

        The ranks are counted only if there are fewer states than *wanted*: otherwise counting could
        cost more than it saves.
        """
        buckets = self.index.buckets
        if wanted <= len(self._live):
            return False
        found = (buckets[s].count(self.within) for s in self._live if s in buckets)
        return sum(found) < wanted

    def best(self) -> Optional[Entry]:
        """The first entry in order whose state fits and whose rank is still in that state."""
        heap = self._heap
        while heap:
            self.visited += 1
            entry = heap[0]
            order, rank, _, state, _, sure = entry
            if self._live.get(state) is not entry:
                heapq.heappop(heap)
                continue
            ranks = self.index.buckets.get(state)
            lowest = -1 if ranks is None else ranks.lowest(self.within)
            found = NOTHING if lowest < 0 else self._fit(state)
            if not found.steps:
                self.drop(entry)
                continue
            true_order = order if sure else self._order(state, found)
            if lowest == rank and true_order == order:
                if not sure and not self.ask.searched:  # computed once, not each time it is first
                    entry = heap[0] = self._live[state] = entry._replace(sure=True)
                return entry
            self.drop(entry)
            self._push(state, lowest, true_order, not self.ask.searched)
        return None

    def equal(self, top: Entry) -> AbstractSet[NodeState]:
        """The states that may stand as high in the order as *top*, which is the first."""
        return self._alike[top.order]

    def stands(self, state: NodeState, order: int, units: int) -> bool:
        """Whether *state* does stand there, and can give *units* in its first segment."""
        entry = self._live.get(state)
        if entry is None or state not in self.index.buckets:
            return False
        found = self._fit(state)
        if not found.steps or found.segments[0].end < units:
            return False
        if entry.sure:
            return entry.order == order
        true_order = self._order(state, found)
        self._push(state, entry.rank, true_order, not self.ask.searched)
        return true_order == order

    def _fit(self, state: NodeState) -> Fit:
        """The fit of *state*; adds its effort. A state for which none is left gives nothing."""
        new = self.ask.searched and state not in self._charged
        if new and not self.effort.allows(state.idle):
            self.effort.gave_up = True
            return NOTHING
        found = assess(state, self.ask)
        if found.gave_up:
            self.effort.gave_up = True
            if not found.steps:
                self._unsure.add(state)
        if new:
            self._charged.add(state)
            self.effort.spend(found.tried, state.idle)
        return found

    def drop(self, entry: Entry) -> None:
        """Remove the top entry; ``restore`` brings its state back."""
        heapq.heappop(self._heap)
        self._unlike(self._live.pop(entry.state))

    def restore(self, states: Iterable[NodeState]) -> None:
        """Bring back states whose entries were dropped."""
        for state in states:
            self._offer(state)
