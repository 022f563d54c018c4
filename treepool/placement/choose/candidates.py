"""Candidates: the node states that can serve a request, in order of preference.

The candidates are a heap of states, updated from the index's log of changes. Fits are computed only
for states that reach the top. An allocation therefore looks only at the states it uses and at those
that changed since the request was last tried, not at all nodes or all states.
"""

from __future__ import annotations

import heapq
from typing import AbstractSet, Iterable, Iterator, NamedTuple, Optional

import attrs

from treepool.placement.choose.policy import ABOVE_KEYS, Policy
from treepool.placement.memo import remembered
from treepool.placement.nodes.index import NodeIndex
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.rankset import RankSet
from treepool.placement.nodes.state import NodeState
from treepool.placement.nodes.tree import NodeType
from treepool.placement.on_node.fit import NOTHING, Fit, assess, possible, work_of
from treepool.placement.on_node.levels import split_types
from treepool.placement.request.need import Ask, slot_of
from treepool.rfc.constraint import Constraint

#: States that are looked at in a step, at about 3 µs each.
_STEP = 512

#: For how many asks it is remembered which types of node split slots.
MAX_SPLIT = 1024


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

    Nodes of a type in ``split`` come later, as slots there are not local where others are: see
    split_on(). With ``states``, only these are candidates: those in which the ranks of ``within``
    are, if that is known, or those that a request searches.
    """

    index: NodeIndex
    ask: Ask
    policy: Policy
    within: Optional[RankSet]
    split: frozenset[NodeType] = frozenset()
    states: Optional[Iterable[NodeState]] = None
    #: States and entries looked at so far, for tests that count work instead of time.
    visited: int = 0
    _heap: list[Entry] = attrs.field(factory=list)
    _live: dict[NodeState, Entry] = attrs.field(factory=dict)
    #: The states whose entries have an order.
    _alike: dict[int, set[NodeState]] = attrs.field(factory=dict)
    _serial: int = 0
    #: Where in the index's log the next change is; below its start before the first look.
    _seen: int = -1

    def refresh(self) -> None:
        """Apply the changes of the index since the last call."""
        index = self.index
        log, seen = index.log, self._seen - index.log_start
        if seen < 0 or len(log) - seen > len(index.buckets):
            for _ in self.build():
                pass
            return
        for moved in dict.fromkeys(map(index.state_of.__getitem__, log[seen:])):
            if moved is not None:
                self._offer(moved)
        if len(self._heap) > 64 + 2 * len(self._live):  # most entries are of earlier times
            self._heap = list(self._live.values())
            heapq.heapify(self._heap)
        self._seen = index.log_start + len(log)

    def build(self) -> Iterator[int]:
        """Look at all states, in steps: yields the work of each. Is not used before the end."""
        index = self.index
        self._heap, self._live, self._alike = [], {}, {}
        self._seen = index.log_start + len(index.log)  # what changes meanwhile follows
        cores, gpus = self.ask.min_cores, self.ask.min_gpus
        states = reached(index, self.within) if self.states is None else self.states
        for number, state in enumerate(states, 1):
            if state.ncores >= cores and state.ngpus >= gpus:
                self._offer(state)
            if not number % _STEP:
                yield _STEP // 3

    def _offer(self, state: NodeState) -> None:
        """Put *state* on the heap unless it is already there at its lowest rank or below."""
        self.visited += 1
        found: Optional[Fit] = state.fits.get(self.ask)
        if not (possible(state, self.ask) if found is None else found.steps):
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
        if found is not None:
            return self.order_of(state, found, 0)
        return self._placed(state, None, self.ask.least_shortfall(state.ncores), False)

    def order_of(self, state: NodeState, found: Fit, segment: int) -> int:
        """The order of a segment of the fit *found* of *state*."""
        _, shortfall, remote = found.segments[segment]
        return self._placed(state, found, shortfall, remote)

    def _placed(self, state: NodeState, found: Optional[Fit], shortfall: int, remote: bool) -> int:
        straddles = remote + (state.type in self.split)
        key = self.policy.key(state, self.ask, found)
        return key + straddles * self.policy.straddle + shortfall * 3 * ABOVE_KEYS

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
            found = NOTHING if lowest < 0 else assess(state, self.ask)
            if not found.steps:
                self.drop(entry)
                continue
            true_order = order if sure else self._order(state, found)
            if lowest == rank and true_order == order:
                if not sure:  # computed once, not each time it is first
                    entry = heap[0] = self._live[state] = entry._replace(sure=True)
                return entry
            self.drop(entry)
            self._push(state, lowest, true_order, True)
        return None

    def equal(self, top: Entry) -> AbstractSet[NodeState]:
        """The states that may stand as high in the order as *top*, which is the first."""
        return self._alike[top.order]

    def stands(self, state: NodeState, order: int, units: int) -> bool:
        """Whether *state* does stand there, and can give *units* in its first segment."""
        entry = self._live.get(state)
        if entry is None or state not in self.index.buckets:
            return False
        found = assess(state, self.ask)
        if not found.steps or found.segments[0].end < units:
            return False
        if entry.sure:
            return entry.order == order
        true_order = self._order(state, found)
        self._push(state, entry.rank, true_order, True)
        return true_order == order

    def prepare(self, most: Optional[int]) -> Iterator[int]:
        """Compute the fits that are needed to find *most* units (None: all there are).

        Yields the work of each, and may be left alone at any time.
        """
        self.refresh()
        heap, counted, units = self._heap.copy(), set[NodeState](), 0
        while heap and (most is None or units < most):
            entry = heapq.heappop(heap)
            state = entry.state
            if state in counted or not (entry.sure or self._live.get(state) is entry):
                continue
            known = self.ask in state.fits
            found = assess(state, self.ask)
            if not known:
                yield work_of(state, self.ask)
            if found.steps and not entry.sure:
                order = self._order(state, found)
                heapq.heappush(heap, entry._replace(order=order, sure=True))
            elif found.steps and state in self.index.buckets:
                counted.add(state)
                each = found.segments[0].end if self.ask.fill else 1
                units += each * self.index.buckets[state].count(self.within)

    def drop(self, entry: Entry) -> None:
        """Remove the top entry; ``restore`` brings its state back."""
        heapq.heappop(self._heap)
        self._unlike(self._live.pop(entry.state))

    def restore(self, states: Iterable[NodeState]) -> None:
        """Bring back states whose entries were dropped."""
        for state in states:
            self._offer(state)


def split_on(
    inventory: Inventory, ask: Ask, constraint: Optional[Constraint]
) -> frozenset[NodeType]:
    """The types of node on which slots of *ask* are split, though on other nodes that satisfy
    *constraint* they would not be, see levels.split_types()."""
    if len(inventory.node_types) < 2:
        return frozenset()

    def compute() -> frozenset[NodeType]:
        within = inventory.matching(constraint)
        types = [t for t, ranks in inventory.node_types.items() if ranks.lowest(within) >= 0]
        return split_types(types, slot_of(ask.group).need)

    return remembered(inventory.split, MAX_SPLIT, (ask, constraint), compute)


def reached(index: NodeIndex, within: Optional[RankSet]) -> Iterable[NodeState]:
    """The states that up ranks of *within* (None: all) may be in."""
    if within is None or len(within) > len(index.buckets):
        return list(index.buckets)
    states = (index.state_of[r] for r in within if r < len(index.up) and index.up[r])
    return {state: None for state in states if state is not None}
