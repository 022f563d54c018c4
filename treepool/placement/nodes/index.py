"""The index: which ranks are in which state, and a log of the states that ranks entered."""

from __future__ import annotations

from typing import Optional

from treepool.placement.nodes.rankset import RankSet, ranks_of
from treepool.placement.nodes.state import NodeState
from treepool.rfc import idset


class NodeIndex:
    """The state of every rank, and the up ranks of every state.

    ``state_of[rank]`` is None where the pool has no such rank. ``buckets`` has no empty sets.
    """

    __slots__ = ("state_of", "up", "buckets", "log", "log_start", "_shared")

    def __init__(self, state_of: list[Optional[NodeState]], up: bytearray) -> None:
        self.state_of = state_of
        self.up = up
        self.buckets: dict[NodeState, RankSet] = {}
        #: States that some rank entered, in order; entries before log_start are dropped.
        self.log: list[NodeState] = []
        self.log_start = 0
        #: States whose set of ranks is shared with a copy of this index: copy it before a change.
        self._shared: set[NodeState] = set()
        self.rebuild()

    def copy(self) -> NodeIndex:
        """An independent copy, in O(states) and one copy of the list of ranks."""
        new = NodeIndex([], bytearray())
        new.state_of = self.state_of.copy()
        new.up = self.up.copy()
        new.buckets = self.buckets.copy()
        new._shared = set(self.buckets)
        self._shared = set(self.buckets)
        return new

    def rebuild(self) -> None:
        """Rebuild the buckets from ``state_of`` and ``up``, for example after a failed change."""
        self._shared = set()
        self.log_start += len(self.log) + 1  # no reader is this far, so each looks at all states
        self.log = []
        self.buckets = ranks_of(self.state_of, idset.from_flags(self.up))

    def move(self, rank: int, state: NodeState) -> None:
        """Put *rank* into *state*."""
        if self.up[rank]:
            self._leave(rank)
            self._enter(rank, state)
        self.state_of[rank] = state

    def set_up(self, rank: int, up: bool) -> None:
        """Make *rank* available or unavailable."""
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

    def _own_bucket(self, state: NodeState) -> RankSet:
        ranks = self.buckets[state]
        if state in self._shared:
            self._shared.discard(state)
            ranks = self.buckets[state] = ranks.copy()
        return ranks
