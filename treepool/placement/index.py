"""Which ranks are in which state, and for each request the states in the order it wants them.

NodeIndex holds, per state, the set of up ranks that are in it. Candidates is one request's view
of the index: a heap of states, brought up to date from the index's log of changes, in which fits
are computed only for states that reach the top. An allocation therefore looks at the states it
uses and at those that changed since the request was last tried, not at all nodes and not at all
states.
"""

from __future__ import annotations

import heapq
from typing import Iterable, NamedTuple, Optional

from treepool.placement.byrank import ByRank, ranks_of
from treepool.placement.fit import Fit, fit, possible
from treepool.placement.need import Ask
from treepool.placement.policy import Policy
from treepool.placement.rankset import RankSet
from treepool.placement.state import NodeState
from treepool.rfc import idset


class NodeIndex:
    """The state of every rank, and the up ranks of every state.

    ``state_of[rank]`` is None where the pool has no such rank. ``buckets`` has no empty sets.
    """

    __slots__ = ("state_of", "up", "buckets", "log", "log_start", "version", "_shared")

    def __init__(self, state_of: ByRank[Optional[NodeState]], up: bytearray) -> None:
        self.state_of = state_of
        self.up = up
        self.buckets: dict[NodeState, RankSet] = {}
        #: States that some rank entered, in order; entries before log_start are forgotten.
        self.log: list[NodeState] = []
        self.log_start = 0
        #: Grows with every change.
        self.version = 0
        #: Buckets whose set is shared with a copy of this index, to be copied before a change.
        self._shared: set[NodeState] = set()
        self.rebuild()

    def copy(self) -> NodeIndex:
        """An independent copy, in O(states) and one copy of the list of ranks."""
        new = NodeIndex([], bytearray())
        new.state_of = self.state_of.copy()
        new.up = self.up.copy()
        new.buckets = self.buckets.copy()
        new.version = self.version
        new._shared = set(self.buckets)
        self._shared = set(self.buckets)
        return new

    def rebuild(self) -> None:
        """Make the buckets anew from ``state_of`` and ``up``, as after a change that failed."""
        self._shared = set()
        self.log_start += len(self.log) + 1  # nobody has seen up to there: all is to be looked at
        self.log = []
        self.version += 1
        self.buckets = ranks_of(self.state_of, idset.from_flags(self.up))

    def move(self, rank: int, state: NodeState) -> None:
        """Put *rank* into *state*."""
        if self.up[rank]:
            self._leave(rank)
            self._enter(rank, state)
        self.state_of[rank] = state

    def set_up(self, rank: int, up: bool) -> None:
        """Make *rank* available or not."""
        state = self.state_of[rank]
        if state is None or self.up[rank] == up:
            return
        if up:
            self._enter(rank, state)
        else:
            self._leave(rank)
        self.up[rank] = up

    def remove(self, rank: int) -> None:
        """Forget *rank* altogether."""
        self.set_up(rank, False)
        self.state_of[rank] = None

    def _leave(self, rank: int) -> None:
        state = self.state_of[rank]
        assert state is not None
        ranks = self._own_bucket(state)
        ranks.discard(rank)
        if not ranks:
            del self.buckets[state]
        self.version += 1

    def _enter(self, rank: int, state: NodeState) -> None:
        if state in self.buckets:
            self._own_bucket(state).add(rank)
        else:
            new = self.buckets[state] = RankSet()
            new.add(rank)
            self._shared.discard(state)
        self.log.append(state)
        if len(self.log) > 1024 + 2 * len(self.buckets):
            self.log_start += len(self.log)
            self.log.clear()
        self.version += 1

    def _own_bucket(self, state: NodeState) -> RankSet:
        ranks = self.buckets[state]
        if state in self._shared:
            self._shared.discard(state)
            ranks = self.buckets[state] = ranks.copy()
        return ranks


class Entry(NamedTuple):
    """A place in a request's order: nodes in ``state`` from rank ``rank`` up.

    ``order`` is the policy's key, with ``_REMOTE`` added when the slots meant are not local.
    """

    order: int
    rank: int
    serial: int
    state: NodeState


#: Added to the order of nodes whose slots are not local: above any policy's key.
_REMOTE = 1 << 80


class Candidates:
    """The states that can serve one ask on the ranks of *within* (None: all), best first."""

    __slots__ = (
        "index",
        "ask",
        "policy",
        "within",
        "visited",
        "_heap",
        "_live",
        "_seen",
        "_serial",
    )

    def __init__(
        self, index: NodeIndex, ask: Ask, policy: Policy, within: Optional[RankSet]
    ) -> None:
        self.index = index
        self.ask = ask
        self.policy = policy
        self.within = within
        #: States and entries looked at so far, for tests that count work instead of time.
        self.visited = 0
        self._heap: list[Entry] = []
        self._live: dict[NodeState, Entry] = {}
        self._serial = 0
        self._seen = -1

    def refresh(self) -> None:
        """Take in what changed in the index since the last call."""
        index = self.index
        log, seen = index.log, self._seen - index.log_start
        if seen < 0 or len(log) - seen > len(index.buckets):
            self._heap, self._live = [], {}
            for state in self._reachable():
                self._offer(state)
        else:
            for state in dict.fromkeys(log[seen:]):
                self._offer(state)
        self._seen = index.log_start + len(log)

    def _reachable(self) -> Iterable[NodeState]:
        """The states that a rank of ``within`` may be in."""
        index, within = self.index, self.within
        if within is None or len(within) > len(index.buckets):
            return list(index.buckets)
        states = (index.state_of[r] for r in within if r < len(index.up) and index.up[r])
        return {state: None for state in states if state is not None}

    def _offer(self, state: NodeState) -> None:
        """Put *state* on the heap unless it is there already, at its lowest rank or below."""
        self.visited += 1
        fits = state.fits.get(self.ask, _UNKNOWN)
        if fits is None or (fits is _UNKNOWN and not possible(state, self.ask)):
            return
        ranks = self.index.buckets.get(state)
        if ranks is None:
            return
        rank = ranks.lowest(self.within)
        live = self._live.get(state)
        if rank < 0 or (live is not None and live.rank <= rank):
            return
        # A fit not worked out yet counts as local: the top is looked at again before use.
        self._push(state, rank, self._order(state, fits if isinstance(fits, Fit) else None))

    def _order(self, state: NodeState, found: Optional[Fit]) -> int:
        remote = found is not None and not found.local
        return self.policy.key(state, self.ask, found) + (_REMOTE if remote else 0)

    def _push(self, state: NodeState, rank: int, order: int) -> Entry:
        self._serial += 1
        entry = self._live[state] = Entry(order, rank, self._serial, state)
        heapq.heappush(self._heap, entry)
        return entry

    def too_few(self, wanted: int) -> bool:
        """True if all states that may serve the ask are known to have fewer than *wanted* ranks.

        Looked into only when fewer states than *wanted* are to be asked, so that it is cheaper
        than what it may save.
        """
        buckets = self.index.buckets
        if wanted <= len(self._live):
            return False
        found = (buckets[s].count(self.within) for s in self._live if s in buckets)
        return sum(found) < wanted

    def best(self) -> Optional[Entry]:
        """The first entry in order whose state fits and whose rank is in it now."""
        heap = self._heap
        while heap:
            self.visited += 1
            entry = heap[0]
            order, rank, _, state = entry
            if self._live.get(state) is not entry:
                heapq.heappop(heap)
                continue
            ranks = self.index.buckets.get(state)
            lowest = -1 if ranks is None else ranks.lowest(self.within)
            found = None if lowest < 0 else fit(state, self.ask)
            if found is None:
                self.drop(entry)
                continue
            true_order = self._order(state, found)
            if lowest == rank and true_order == order:
                return entry
            self.drop(entry)
            self._push(state, lowest, true_order)
        return None

    def drop(self, entry: Entry) -> None:
        """Take the top entry off; ``restore`` brings its state back."""
        heapq.heappop(self._heap)
        del self._live[entry.state]

    def restore(self, states: Iterable[NodeState]) -> None:
        """Bring back states whose entries were dropped."""
        for state in states:
            self._offer(state)


_UNKNOWN = object()
