"""The census: what is free in each domain of a fabric, counted as ranks change.

A census notes which ranks of an index move. When it is asked, it counts these ranks anew, in the
domains around them. Its cost therefore follows what changes, not the number of nodes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Iterable, Mapping, Optional, Sequence, TypeVar

from treepool.placement.nodes.fabric import Fabric
from treepool.placement.nodes.state import NodeState

#: Changed leaves that are kept for readers, per domain of the fabric.
_MAX_LOG = 4

#: Numbers of cores, GPUs and idle nodes in one int, so that a change is one addition per domain.
_CORES, _GPUS, _IDLE = 80, 40, (1 << 40) - 1


K = TypeVar("K")


def less_one(numbers: dict[K, int], key: K) -> int:
    """What is left of the number at *key* after one is taken from it; 0 is dropped."""
    left = numbers[key] - 1
    if left:
        numbers[key] = left
    else:
        del numbers[key]
    return left


def packed(state: NodeState) -> int:
    """What a node in *state* adds to the numbers of its domains."""
    return (state.ncores << _CORES) + (state.ngpus << _GPUS) + state.idle


class Census:
    """The up ranks of each leaf of *fabric* by state, and what is free in each domain.

    ``moved`` are ranks that are to be counted anew.
    """

    __slots__ = (
        "fabric", "held", "moved", "log", "log_start", "_free", "_orders", "_counted", "_own",
        "_where",
    )  # fmt: skip

    def __init__(self, fabric: Fabric) -> None:
        size = len(fabric)
        self.fabric = fabric
        self.held: list[dict[NodeState, int]] = [{} for _ in range(size)]
        self.moved: set[int] = {rank for rank, leaves in enumerate(fabric.homes) if leaves}
        #: Leaves in which something changed, in order; entries before log_start are dropped.
        self.log: list[int] = []
        self.log_start = 0
        self._free = [0] * size
        #: The children of a domain by their idle nodes, for domains of which that was asked.
        self._orders: dict[int, list[tuple[int, int, int]]] = {}
        self._counted: list[Optional[NodeState]] = [None] * len(fabric.homes)
        #: The domains whose ``held`` is not shared with a copy.
        self._own = bytearray(b"\1" * size)
        #: The domains that have ranks in each state, and how many; None until it is asked for.
        self._where: Optional[dict[NodeState, dict[int, int]]] = None

    def copy(self) -> Census:
        """An independent copy, in one copy of each list."""
        new = object.__new__(Census)
        new.fabric, new.held, new.moved = self.fabric, self.held.copy(), self.moved.copy()
        new.log, new.log_start = [], self.log_start + len(self.log) + 1
        new._free, new._orders, new._where = self._free.copy(), {}, None
        new._counted = self._counted.copy()
        new._own, self._own = bytearray(len(self._own)), bytearray(len(self._own))
        return new

    def free(self, domain: int) -> tuple[int, int]:
        """The free cores and GPUs of the nodes in *domain* that are up."""
        free = self._free[domain]
        return free >> _CORES, free >> _GPUS & _IDLE

    def idle(self, domain: int) -> int:
        """The number of nodes in *domain* that are up and idle."""
        return self._free[domain] & _IDLE

    def order(self, domain: int) -> list[tuple[int, int, int]]:
        """The children of *domain*: idle nodes, lowest rank, number, in this order."""
        found = self._orders.get(domain)
        if found is None:
            lowest = self.fabric.lowest
            found = sorted((self.idle(d), lowest[d], d) for d in self.fabric.children[domain])
            self._orders[domain] = found
        return found

    def where(self, states: Iterable[NodeState]) -> list[Mapping[int, int]]:
        """For each of *states*: the domains in which up ranks are in it, and how many."""
        if self._where is None:
            self._where = {}
            for leaf, held in enumerate(self.held):
                for state, number in held.items():
                    there = self._where.setdefault(state, {})
                    for domain in self.fabric.paths[leaf]:
                        there[domain] = there.get(domain, 0) + number
        return [self._where[state] for state in states if state in self._where]

    def follow(self, state_of: Sequence[Optional[NodeState]], up: bytearray) -> None:
        """Count the ranks that moved, which are now in the states *state_of* if they are *up*."""
        homes, counted = self.fabric.homes, self._counted
        for rank in self.moved:
            old, new = counted[rank], state_of[rank] if up[rank] else None
            if old is new:
                continue
            counted[rank] = new
            change = (0 if new is None else packed(new)) - (0 if old is None else packed(old))
            idle = (new is not None and new.idle) - (old is not None and old.idle)
            for leaf in homes[rank]:
                self.log.append(leaf)
                self._hold(leaf, old, new)
                for domain in self.fabric.paths[leaf]:
                    if idle:
                        self._reorder(domain, idle)
                    self._free[domain] += change
        self.moved = set()
        if len(self.log) > 1024 + _MAX_LOG * len(self.held):
            self.log_start += len(self.log)
            self.log.clear()

    def _hold(self, leaf: int, old: Optional[NodeState], new: Optional[NodeState]) -> None:
        """Count a rank of *leaf* in state *new* and no longer in *old*; None while it is down."""
        held = self.held[leaf]
        if not self._own[leaf]:
            held = self.held[leaf] = held.copy()
            self._own[leaf] = 1
        if old is not None:
            less_one(held, old)
            if self._where is not None:
                there = self._where[old]
                for domain in self.fabric.paths[leaf]:
                    less_one(there, domain)
                if not there:
                    del self._where[old]
        if new is not None:
            held[new] = held.get(new, 0) + 1
            if self._where is not None:
                there = self._where.setdefault(new, {})
                for domain in self.fabric.paths[leaf]:
                    there[domain] = there.get(domain, 0) + 1

    def _reorder(self, domain: int, more: int) -> None:
        """Give *domain* its new place beside its siblings, with *more* idle nodes than before."""
        order = self._orders.get(self.fabric.parent[domain])
        if order is not None:
            idle, lowest = self.idle(domain), self.fabric.lowest[domain]
            del order[bisect_left(order, (idle, lowest, domain))]
            insort(order, (idle + more, lowest, domain))
