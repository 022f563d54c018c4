"""The index: which ranks are in which state, and a log of the sets of ranks that moved."""

from __future__ import annotations

from typing import Callable, Iterable, Iterator, NamedTuple, Optional

from treepool.placement.nodes.census import Census
from treepool.placement.nodes.fabric_tree import Fabric
from treepool.placement.nodes.state import Held, NodeState
from treepool.rfc import idset

#: A function of a state, cores and GPUs: the state after they are taken, or given back.
Change = Callable[[NodeState, int, int], NodeState]

#: Most censuses that are kept: that of the fabric, and one for each family of properties.
MAX_CENSUSES = 8

#: Ranks (bitmask), and the state that they were in.
Move = tuple[int, NodeState]


class Moved(NamedTuple):
    """The up ``ranks`` (bitmask) were in state ``old`` and are in ``new``; None if not up."""

    ranks: int
    old: Optional[NodeState]
    new: Optional[NodeState]


class NodeIndex:
    """The state of every rank, and the up ranks of every state.

    ``state_of[rank]`` is None where the pool has no such rank. ``up`` are the ranks that are up.
    ``buckets`` has the ranks of each state that are up, and no empty set. Sets are bitmasks: that
    of 100,000 nodes is copied in a microsecond.
    """

    __slots__ = ("state_of", "up", "buckets", "deferred", "log", "log_start", "_censuses")

    def __init__(self, state_of: list[Optional[NodeState]], up: int) -> None:
        self.state_of = state_of
        self.up = up
        self.buckets: dict[NodeState, int] = {}
        #: Ranks (bitmask) that come last among those that are equal otherwise.
        self.deferred = 0
        #: What changed, in order; entries before log_start are dropped.
        self.log: list[Moved] = []
        self.log_start = 0
        self._censuses: dict[Fabric, Census] = {}
        self.rebuild()

    def copy(self) -> NodeIndex:
        """An independent copy, in O(states) and one copy of the list of ranks."""
        new = NodeIndex([], 0)
        new.state_of = self.state_of.copy()
        new.up, new.deferred = self.up, self.deferred
        new.buckets = self.buckets.copy()
        new.log_start = self.log_start + len(self.log)
        for fabric in list(self._censuses):
            new._censuses[fabric] = self.census(fabric).copy()
        return new

    def deferring(self, ranks: int) -> NodeIndex:
        """A copy in which *ranks* (bitmask) come last among those that are equal otherwise."""
        new = self.copy()
        new.deferred = ranks
        for census in new._censuses.values():
            census.deferred = ranks
        return new

    def census(self, fabric: Fabric) -> Census:
        """What is in each domain of *fabric*, as of now."""
        for _ in self.counted(fabric, None):
            pass
        return self._censuses[fabric]

    def counted(self, fabric: Fabric, most: Optional[int]) -> Iterator[int]:
        """Count what is in each domain of *fabric*, *most* ranks at a time; yields their number."""
        while self._follow(fabric, most):
            yield most or 0

    def _follow(self, fabric: Fabric, most: Optional[int]) -> bool:
        found = self._censuses.pop(fabric, None) or Census(fabric, self.deferred)
        more = found.follow(self, most)  # if that fails, it is not kept
        if len(self._censuses) >= MAX_CENSUSES:
            del self._censuses[next(iter(self._censuses))]  # the one not used for longest
        self._censuses[fabric] = found
        return more

    def rebuild(self) -> None:
        """Rebuild the buckets from ``state_of`` and ``up``, at first and after a failed change."""
        self.log_start += len(self.log) + 1  # no reader is this far, so each looks at everything
        self.log = []
        self.buckets = idset.by_value(self.state_of, self.up)
        self._censuses.clear()

    def states(self, ranks: int) -> Iterator[tuple[NodeState, int]]:
        """The states of *ranks*, each with those that are in it; nothing for unknown ranks."""
        state_of, buckets = self.state_of, self.buckets
        width = len(state_of)
        up = ranks & self.up
        down = ranks ^ up
        while up:
            state = state_of[idset.lowest(up)]
            assert state is not None
            here = buckets[state] & up
            yield state, here
            up ^= here
        for rank in idset.iterate(down) if down else ():
            state = state_of[rank] if rank < width else None
            if state is not None:
                yield state, 1 << rank

    def move(self, parts: Iterable[Held], change: Change, before: list[Move]) -> None:
        """Put the ranks of *parts* into the states after *change*, and note those *before* it.

        If this fails, or what the caller does next, ``move_back`` undoes it.
        """
        for ranks, cores, gpus in parts:
            for old, here in list(self.states(ranks)):  # ranks may have been removed since
                before.append((here, old))
                self._move(here, old, change(old, cores, gpus))

    def put(self, ranks: int, state: NodeState) -> list[tuple[NodeState, int]]:
        """Put *ranks*, which the pool has, into *state*; returns those that were in another."""
        moved = [(old, here) for old, here in self.states(ranks) if old is not state]
        for old, here in moved:
            self._move(here, old, state)
        return moved

    def _move(self, ranks: int, old: NodeState, new: NodeState) -> None:
        self._cut_log()
        state_of = self.state_of
        up = ranks & self.up
        if up:
            self._leave(old, up)
            self._enter(new, up)
            self.log.append(Moved(up, old, new))
        rank = idset.lowest(ranks)
        for first, end in [(rank, rank + 1)] if ranks == 1 << rank else idset.runs(ranks):
            if end == first + 1:
                state_of[first] = new
            else:
                state_of[first:end] = [new] * (end - first)

    def move_back(self, before: list[Move]) -> None:
        """Put the ranks into the states that ``move`` noted."""
        for ranks, state in reversed(before):  # a rank may have moved twice
            for rank in idset.iterate(ranks):
                self.state_of[rank] = state
        self.rebuild()

    def set_up(self, up: int) -> None:
        """Let the ranks *up* be available, and no others: all of this, or none if it fails."""
        self._cut_log()
        before = self.up
        try:
            for state, ranks in idset.by_value(self.state_of, before & ~up).items():
                self._leave(state, ranks)
                self.log.append(Moved(ranks, state, None))
            for state, ranks in idset.by_value(self.state_of, up & ~before).items():
                self._enter(state, ranks)
                self.log.append(Moved(ranks, None, state))
            self.up = up
        except BaseException:
            self.up = before
            self.rebuild()
            raise

    def without(self, ranks: int) -> NodeIndex:
        """A copy that knows nothing of *ranks*."""
        new = self.copy()
        new.set_up(new.up & ~ranks)
        for rank in idset.iterate(ranks):
            new.state_of[rank] = None
        new._censuses.clear()
        return new

    def _cut_log(self) -> None:
        """Drop a long log, after the censuses have read it."""
        if len(self.log) > 1024 + 2 * len(self.buckets):
            for fabric in list(self._censuses):
                self.census(fabric)
            self.log, self.log_start = [], self.log_start + len(self.log)

    def _leave(self, state: NodeState, ranks: int) -> None:
        left = self.buckets[state] & ~ranks
        if left:
            self.buckets[state] = left
        else:
            del self.buckets[state]

    def _enter(self, state: NodeState, ranks: int) -> None:
        self.buckets[state] = self.buckets.get(state, 0) | ranks
