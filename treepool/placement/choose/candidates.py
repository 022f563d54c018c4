"""Candidates: the node states that can serve a request, kept in order: counts, locality, policy.

The candidates are a heap of states, updated from the index's log of changes. Fits are computed only
for states that reach the top. An allocation therefore looks only at the states it uses and at those
that changed since the request was last tried, not at all nodes or all states.
"""

from __future__ import annotations

import heapq
from contextlib import suppress
from typing import Iterable, Iterator, NamedTuple, Optional

import attrs

from treepool.placement.choose.policy import ABOVE_KEYS, Policy
from treepool.placement.effort import GaveUp, remembered
from treepool.placement.nodes.index import NodeIndex
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.kept import without_kept
from treepool.placement.nodes.state import NodeState
from treepool.placement.nodes.tree import NodeType
from treepool.placement.on_node.fit import NOTHING, Fit, assess, possible, work_of
from treepool.placement.on_node.levels import split_types
from treepool.placement.request.need import Ask, slot_of
from treepool.rfc import idset
from treepool.rfc.constraint import Constraint

#: States that are looked at in a step, at some 10 µs each if they may serve the request.
_STEP = 128

#: For how many asks it is remembered which types of node split slots.
MAX_SPLIT = 1024


class Entry(NamedTuple):
    """A place in a request's order, of the nodes in ``state`` from ``rank`` up.

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


#: Nodes that stand equally high in the order: the ranks (bitmask) of a state that come for a
#: segment of its units.
Equals = dict[tuple[NodeState, int], int]


@attrs.define(eq=False)
class Candidates:
    """The states that can serve one ask on the ranks of *within* (bitmask), best first.

    Nodes of a type in ``split`` come later, as slots there are not local where others are: see
    split_on(). With ``states``, only these are candidates: those in which the ranks of ``within``
    are, if that is known, or those that a request searches.

    A call that fails in the middle leaves more to do for the next one, and nothing else.
    """

    index: NodeIndex
    ask: Ask
    policy: Policy
    within: int
    split: frozenset[NodeType] = frozenset()
    states: Optional[Iterable[NodeState]] = None
    #: Entries of states, and which of them is true of each state; the others are of earlier times.
    _heap: list[Entry] = attrs.field(factory=list)
    _live: dict[NodeState, Entry] = attrs.field(factory=dict)
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
        for state in dict.fromkeys(moved.new for moved in log[seen:]):
            if state is not None:
                self._offer(state)
        if len(self._heap) > 64 + 2 * len(self._live):
            heap = list(self._live.values())
            heapq.heapify(heap)
            self._heap = heap
        self._seen = index.log_start + len(log)

    def build(self) -> Iterator[int]:
        """Look at all states, in steps: yields the work of each. Is not used before the end."""
        index = self.index
        end, self._seen = index.log_start + len(index.log), -1  # what changes meanwhile follows
        self._heap, self._live = [], {}
        cores, gpus = self.ask.min_cores, self.ask.min_gpus
        states = reached(index, self.within) if self.states is None else self.states
        for number, state in enumerate(states, 1):
            if state.ncores >= cores and state.ngpus >= gpus:
                self._offer(state)
            if not number % _STEP:
                yield _STEP
        self._seen = end

    def _offer(self, state: NodeState) -> None:
        """Put *state* on the heap unless it is already there at its lowest rank or below."""
        gives: Optional[Fit] = state.fits.get(self.ask)
        if not (possible(state, self.ask) if gives is None else gives.steps):
            return
        ranks = self.index.buckets.get(state, 0) & self.within
        if not ranks:
            return
        rank, live = idset.lowest(ranks), self._live.get(state)
        if live is not None and live.rank <= rank:
            return
        if gives is None:  # it counts as the best: the entry is corrected before it is used
            self._push(state, rank, self._placed(state, None, 0, False), False)
        else:
            self._push(state, rank, self._order_of(state, gives), True)

    def _order_of(self, state: NodeState, gives: Fit, segment: int = 0) -> int:
        """The order of a segment of the fit *gives* of *state*."""
        _, shortfall, remote = gives.segments[segment]
        return self._placed(state, gives, shortfall, remote)

    def _placed(self, state: NodeState, gives: Optional[Fit], shortfall: int, remote: bool) -> int:
        straddles = remote + (state.type in self.split)
        key = self.policy.key(state, self.ask, gives)
        return key + straddles * self.policy.straddle + shortfall * 3 * ABOVE_KEYS

    def _push(self, state: NodeState, rank: int, order: int, sure: bool) -> Entry:
        self._serial += 1
        entry = Entry(order, rank, self._serial, state, 0, sure)
        heapq.heappush(self._heap, entry)
        self._live[state] = entry
        return entry

    def _corrected(self, entry: Entry) -> Optional[Entry]:
        """What is true of the state of *entry*: itself, or another entry, which is on the heap now;
        None if it is of earlier times, or the state cannot serve the ask."""
        state = entry.state
        if self._live.get(state) is not entry:
            return None
        lowest = idset.lowest(self.index.buckets.get(state, 0) & self.within)
        if entry.sure and lowest == entry.rank:
            return entry
        gives = NOTHING if lowest < 0 else assess(state, self.ask)
        if not gives.steps:
            del self._live[state]
            return None
        return self._push(state, lowest, self._order_of(state, gives), True)

    def best(self) -> Optional[Entry]:
        """The first node in order; None if none can serve the ask."""
        heap = self._heap
        while heap:
            entry = heap[0]
            if self._corrected(entry) is entry:
                return entry
            heapq.heappop(heap)  # no entry is before the one that it corrects
        return None

    def in_order(self, segments: bool = False) -> Iterator[Equals]:
        """The nodes that can serve the ask, those that stand equally high together.

        With *segments*, a node comes once for each segment of its units.
        """
        first = self.best()
        if first is None:
            return
        deferred, lowest = self.index.deferred, 0
        if not deferred:  # most requests need no other node, and no copy of the heap
            lowest = 1 << first.rank
            yield {(first.state, 0): lowest}
        heap, equals, order = self._heap.copy(), Equals(), first.order
        while heap:
            if equals and heap[0].order > order:
                yield from _deferred_last(equals, deferred)
                equals = Equals()
            entry = heapq.heappop(heap)
            state, segment, order = entry.state, entry.segment, entry.order
            if not segment:
                now = self._corrected(entry)
                if now is not entry:
                    if now is not None:
                        heapq.heappush(heap, now)
                    continue
                gives = assess(state, self.ask)
                for more in range(1, len(gives.segments) if segments else 1):
                    place = self._order_of(state, gives, more)
                    heapq.heappush(heap, Entry(place, entry.rank, -more, state, more))
            ranks = self.index.buckets[state] & self.within
            if state is first.state and not segment:
                ranks ^= lowest
            if ranks:
                equals[state, segment] = ranks
        yield from _deferred_last(equals, deferred)

    def equal(self, top: Entry) -> set[NodeState]:
        """The states that may stand as high in the order as *top*, which is the best."""
        states, heap, places = set(), self._heap, [0]
        for place in places:  # in a heap, what follows an entry is behind it
            if place < len(heap) and heap[place].order == top.order:
                state = heap[place].state
                if self._live.get(state) is heap[place]:
                    states.add(state)
                places += (2 * place + 1, 2 * place + 2)
        return states

    def stands(self, state: NodeState, order: int, units: int) -> bool:
        """Whether *state* is at the place *order*, and can give *units* in its first segment."""
        entry = self._live.get(state)
        if entry is None:
            return False
        now = self._corrected(entry)
        if now is None or now.order != order:
            return False
        return assess(state, self.ask).segments[0].end >= units

    def prepare(self, most: Optional[int]) -> Iterator[int]:
        """Compute what is needed to find *most* units (None: all there are): fits, then ids.

        Yields the work of each, and may be left alone at any time. Ids are chosen only if there are
        as many units.
        """
        self.refresh()
        heap, units = self._heap.copy(), 0
        wanted: dict[NodeState, int] = {}
        while heap and (most is None or units < most):
            entry = heapq.heappop(heap)
            state, known = entry.state, self.ask in entry.state.fits
            now = self._corrected(entry)
            if not known and self.ask in state.fits:
                yield work_of(state, self.ask)
            if now is not None and now is not entry:
                heapq.heappush(heap, now)
            elif now is not None and state in self.index.buckets:
                each = assess(state, self.ask).segments[0].end if self.ask.fill else 1
                wanted[state] = each
                units += each * idset.size(self.index.buckets[state] & self.within)
        for state, each in wanted.items() if most is None or units >= most else ():
            yield from assess(state, self.ask).prepare(each - 1)


def _deferred_last(equals: Equals, deferred: int) -> Iterator[Equals]:
    """*equals*, of which the deferred ones come last."""
    for among in (~deferred, deferred) if deferred else (idset.EVERY,):
        some = {place: ranks & among for place, ranks in equals.items() if ranks & among}
        if some:
            yield some


def split_on(
    inventory: Inventory, ask: Ask, constraint: Optional[Constraint]
) -> frozenset[NodeType]:
    """The types of node on which slots of *ask* are split, though on other nodes that satisfy
    *constraint* they would not be, see levels.split_types()."""
    if len(inventory.node_types) < 2:
        return frozenset()

    def compute() -> frozenset[NodeType]:
        within = inventory.matching(constraint)
        types = [t for t, ranks in inventory.node_types.items() if ranks & within]
        seen = {without_kept(t, ask.spare): t for t in types}
        with suppress(GaveUp):
            return frozenset(seen[t] for t in split_types(list(seen), slot_of(ask.group).need))
        return frozenset()

    return remembered(inventory.split, MAX_SPLIT, (ask, constraint), compute)


def reached(index: NodeIndex, within: int) -> Iterable[NodeState]:
    """The states that up ranks of *within* (bitmask) may be in."""
    if within == idset.EVERY or idset.size(within) > len(index.buckets):
        return list(index.buckets)
    return [state for state, _ in index.states(within & index.up)]
