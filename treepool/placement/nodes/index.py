"""The index: which ranks are in which state, and a log of the ranks that moved."""

from __future__ import annotations

from typing import Callable, Iterable, Iterator, Optional, Sequence

from treepool.placement.nodes.census import Census
from treepool.placement.nodes.fabric_tree import Fabric
from treepool.placement.nodes.state import Held, NodeState
from treepool.rfc import idset

#: A function of a state, cores and GPUs: the state after they are taken, or given back.
Change = Callable[[NodeState, int, int], NodeState]

#: Most censuses that are kept: that of the fabric, and one for each family of properties.
MAX_CENSUSES = 8

#: A rank, and the state that it was in.
Move = tuple[int, NodeState]


class NodeIndex:
    """The state of every rank, and the up ranks of every state.

    ``state_of[rank]`` is None where the pool has no such rank. ``buckets`` has the ranks of each
    state as a bitmask, and no empty one: that of 100,000 nodes is copied in a microsecond.
    """

    __slots__ = ("state_of", "up", "buckets", "log", "log_start", "_censuses")

    def __init__(self, state_of: list[Optional[NodeState]], up: bytearray) -> None:
        self.state_of = state_of
        self.up = up
        self.buckets: dict[NodeState, int] = {}
        #: Ranks that changed their state, or went up or down, in order; entries before log_start
        #: are dropped.
        self.log: list[int] = []
        self.log_start = 0
        self._censuses: dict[Fabric, Census] = {}
        self.rebuild()

    def copy(self) -> NodeIndex:
        """An independent copy, in O(states) and one copy of the list of ranks."""
        new = NodeIndex([], bytearray())
        new.state_of = self.state_of.copy()
        new.up = self.up.copy()
        new.buckets = self.buckets.copy()
        new.log_start = self.log_start + len(self.log)
        for fabric in list(self._censuses):
            new._censuses[fabric] = self.census(fabric).copy()
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
        found = self._censuses.pop(fabric, None) or Census(fabric)
        more = found.follow(self, most)  # if that fails, it is not kept
        if len(self._censuses) >= MAX_CENSUSES:
            del self._censuses[next(iter(self._censuses))]  # the one not used for longest
        self._censuses[fabric] = found
        return more

    def rebuild(self) -> None:
        """Rebuild the buckets from ``state_of`` and ``up``, at first and after a failed change."""
        self.log_start += len(self.log) + 1  # no reader is this far, so each looks at everything
        self.log = []
        self.buckets = idset.by_value(self.state_of, idset.from_flags(self.up))

    def move(self, parts: Iterable[Held], change: Change, before: list[Move]) -> None:
        """Put the ranks of *parts* into the states after *change*, and note those *before* it.

        If this fails, or what the caller does next, ``move_back`` undoes it.
        """
        self._cut_log()
        for ranks, cores, gpus in parts:
            moved: dict[tuple[NodeState, NodeState], list[int]] = {}
            last = new = None
            for rank in ranks:
                old = self.state_of[rank]
                if old is None:  # removed since it was allocated
                    continue
                if new is None or old is not last:  # most are in the state of the previous rank
                    last, new = old, change(old, cores, gpus)
                before.append((rank, old))
                self.log.append(rank)
                self.state_of[rank] = new
                if self.up[rank]:
                    moved.setdefault((old, new), []).append(rank)
            for (old, new), those in moved.items():
                mask = idset.from_ids(those)
                self._leave(old, mask)
                self._enter(new, mask)

    def put(self, rank: int, state: NodeState, up: bool) -> None:
        """Put *rank* into *state*, up or not."""
        self._cut_log()
        self.log.append(rank)
        old = self.state_of[rank]
        if self.up[rank] and old is not None:
            self._leave(old, 1 << rank)
        self.state_of[rank] = state
        self.up[rank] = up
        if up:
            self._enter(state, 1 << rank)

    def move_back(self, before: list[Move]) -> None:
        """Put the ranks into the states that ``move`` noted."""
        for rank, state in reversed(before):  # a rank may have moved twice
            self.state_of[rank] = state
        self.rebuild()

    def set_up(self, ranks: Iterable[int], up: bool) -> None:
        """Make *ranks* available or unavailable: all of them, or none if it fails."""
        self._cut_log()
        before, changed = self.up.copy(), dict[NodeState, list[int]]()
        try:
            for rank in ranks:
                state = self.state_of[rank]
                if state is None or self.up[rank] == up:
                    continue
                self.log.append(rank)
                self.up[rank] = up
                changed.setdefault(state, []).append(rank)
            for state, those in changed.items():
                (self._enter if up else self._leave)(state, idset.from_ids(those))
        except BaseException:
            self.up = before
            self.rebuild()
            raise

    def without(self, ranks: Sequence[int]) -> NodeIndex:
        """A copy that knows nothing of *ranks*."""
        new = self.copy()
        new.set_up(ranks, False)
        for rank in ranks:
            new.state_of[rank] = None
        new._censuses.clear()
        return new

    def _cut_log(self) -> None:
        """Drop a long log, after the censuses have read it."""
        if len(self.log) > 1024 + 2 * len(self.buckets):
            for fabric in list(self._censuses):
                self.census(fabric)
            self.log_start += len(self.log)
            self.log.clear()

    def _leave(self, state: NodeState, ranks: int) -> None:
        left = self.buckets[state] & ~ranks
        if left:
            self.buckets[state] = left
        else:
            del self.buckets[state]

    def _enter(self, state: NodeState, ranks: int) -> None:
        self.buckets[state] = self.buckets.get(state, 0) | ranks
