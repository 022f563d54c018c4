"""The census: what is free in each domain of a fabric."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterable, Optional, TypeVar

from treepool.placement.nodes.domaincount import DomainCount
from treepool.placement.nodes.state import IDLE, NodeState, unpacked

if TYPE_CHECKING:
    from treepool.placement.nodes.index import NodeIndex

#: Changed leaves that are kept for readers, per domain of the fabric.
_MAX_LOG = 4

K = TypeVar("K")


def less_one(numbers: dict[K, int], key: K) -> int:
    """What is left of the number at *key* after one is taken from it; 0 is dropped."""
    left = numbers[key] - 1
    if left:
        numbers[key] = left
    else:
        del numbers[key]
    return left


class Census(DomainCount):
    """The up ranks of each leaf by state, and what is free in each domain."""

    __slots__ = ("held", "log", "log_start", "_free", "_counted")

    def _clear(self) -> None:
        super()._clear()
        size = len(self.fabric)
        #: By leaf, the number of ranks in each state.
        self.held: list[dict[NodeState, int]] = [{} for _ in range(size)]
        self._free = [0] * size
        self._counted: list[Optional[NodeState]] = [None] * len(self.fabric.homes)
        #: Leaves in which something changed, in order; entries before log_start are dropped.
        self.log: list[int] = []
        self.log_start = 0

    def copy(self) -> Census:
        """An independent copy, in one copy of each list."""
        new = super().copy()
        new.held, new._free, new._counted = (
            self.held.copy(),
            self._free.copy(),
            self._counted.copy(),
        )
        new.log, new.log_start = [], self.log_start + len(self.log) + 1
        return new

    def free(self, domain: int) -> tuple[int, int]:
        """The free cores and GPUs of the nodes in *domain* that are up."""
        return unpacked(self._free[domain])[:2]

    def idle(self, domain: int) -> int:
        """The number of nodes in *domain* that are up and idle."""
        return self._free[domain] & IDLE

    def _move(self, ranks: Iterable[int], index: NodeIndex) -> None:
        homes, paths = self.fabric.homes, self.fabric.paths
        counted, free = self._counted, self._free
        for rank in ranks:
            old, new = counted[rank], index.state_of[rank] if index.up[rank] else None
            if old is new:
                continue
            counted[rank] = new
            change = (0 if new is None else new.packed) - (0 if old is None else old.packed)
            for leaf in homes[rank]:
                self.log.append(leaf)
                for domain in paths[leaf]:
                    free[domain] += change
                held = self.held[leaf]
                if not self._own[leaf]:
                    held = self.held[leaf] = held.copy()
                    self._own[leaf] = 1
                if old is not None:
                    less_one(held, old)
                if new is not None:
                    held[new] = held.get(new, 0) + 1
        if len(self.log) > 1024 + _MAX_LOG * len(self.held):
            self.log_start += len(self.log)
            self.log.clear()

    def _count(self, index: NodeIndex) -> None:
        start = self.log_start + len(self.log) + 1  # no reader is this far: each looks at all
        self._clear()
        self.log_start = start
        for rank, leaves in enumerate(self.fabric.homes):
            state = self._counted[rank] = index.state_of[rank] if index.up[rank] else None
            if state is not None:
                for leaf in leaves:
                    self.held[leaf][state] = self.held[leaf].get(state, 0) + 1
                    self._free[leaf] += state.packed
        for domain in reversed(range(1, len(self.fabric))):  # children before parents
            self._free[self.fabric.parent[domain]] += self._free[domain]
