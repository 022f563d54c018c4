"""The census: what is free in each domain of a fabric, counted as ranks change.

A census notes which ranks of an index move. When it is asked, it counts these ranks anew, in the
domains around them. Its cost therefore follows what changes, not the number of nodes.
"""

from __future__ import annotations

from functools import reduce
from itertools import compress
from operator import or_
from typing import AbstractSet, Mapping, Optional, Sequence, TypeVar

from treepool.placement.nodes.fabric import ROOT, Fabric
from treepool.placement.nodes.rankset import RankSet, lowest_of
from treepool.placement.nodes.state import IDLE, NodeState, unpacked
from treepool.rfc.idset import from_ids

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


class Census:
    """The up ranks of each leaf of *fabric* by state, and what is free in each domain.

    ``moved`` are ranks that are to be counted anew.
    """

    __slots__ = (
        "fabric", "held", "moved", "log", "log_start", "_free", "_having", "_idle", "_counted",
        "_own",
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
        #: By domain: the children (a bitmask of their places) that have up ranks in a state, and
        #: those that have a number of idle nodes.
        self._having: list[dict[NodeState, int]] = [{} for _ in range(size)]
        self._idle = [{0: (1 << len(children)) - 1} for children in fabric.children]
        self._counted: list[Optional[NodeState]] = [None] * len(fabric.homes)
        #: The domains whose dicts are not shared with a copy.
        self._own = bytearray(b"\1" * size)

    def copy(self) -> Census:
        """An independent copy, in one copy of each list."""
        new = object.__new__(Census)
        new.fabric, new.held, new.moved = self.fabric, self.held.copy(), self.moved.copy()
        new.log, new.log_start = [], self.log_start + len(self.log) + 1
        new._free, new._counted = self._free.copy(), self._counted.copy()
        new._having, new._idle = self._having.copy(), self._idle.copy()
        new._own, self._own = bytearray(len(self._own)), bytearray(len(self._own))
        return new

    def free(self, domain: int) -> tuple[int, int]:
        """The free cores and GPUs of the nodes in *domain* that are up."""
        return unpacked(self._free[domain])[:2]

    def idle(self, domain: int) -> int:
        """The number of nodes in *domain* that are up and idle."""
        return self._free[domain] & IDLE

    def first(
        self,
        states: AbstractSet[NodeState],
        buckets: Mapping[NodeState, RankSet],
        within: Optional[RankSet],
        domain: int,
    ) -> int:
        """The first rank in one of *states* on the way down from *domain* into the domain with the
        fewest idle nodes, ties to the lowest rank; -1 if *domain* has no such rank.

        *buckets* has the ranks of each state. Only ranks in *within* count (None: all).
        """
        children = self.fabric.children[domain]
        if not children:
            ranks = [buckets[state] for state in self.held[domain].keys() & states]
            return lowest_of(ranks, self.fabric.set_of(domain), within)
        having, idle = self._having[domain], self._idle[domain]
        # Without a line of Python for each state and number: there may be hundreds.
        places = reduce(or_, filter(None, map(having.get, states)), 0)
        for number in sorted(compress(idle, map(places.__and__, idle.values()))):
            found = idle[number] & places
            while found:
                low = found & -found
                child = children[low.bit_length() - 1]
                rank = self.first(states, buckets, within, child)
                if rank >= 0:
                    return rank
                found ^= low
        return -1

    def follow(self, state_of: Sequence[Optional[NodeState]], up: bytearray) -> None:
        """Count the ranks that moved, which are now in the states *state_of* if they are *up*."""
        if 2 * len(self.moved) > len(state_of):
            self._count(state_of, up)
            return
        homes, paths = self.fabric.homes, self.fabric.paths
        counted, free = self._counted, self._free
        for rank in self.moved:
            old, new = counted[rank], state_of[rank] if up[rank] else None
            if old is new:
                continue
            counted[rank] = new
            change = (0 if new is None else new.packed) - (0 if old is None else old.packed)
            idle = (new is not None and new.idle) - (old is not None and old.idle)
            for leaf in homes[rank]:
                self.log.append(leaf)
                if idle:
                    self._reorder(leaf, idle)
                for domain in paths[leaf]:
                    free[domain] += change
                if not self._own[leaf]:
                    self._take(leaf)
                held = self.held[leaf]
                if old is not None:
                    number = held.pop(old) - 1
                    if number:
                        held[old] = number
                    else:
                        self._turn(leaf, old)
                if new is not None:
                    number = held.get(new, 0)
                    held[new] = number + 1
                    if not number:
                        self._turn(leaf, new)
        self.moved = set()
        if len(self.log) > 1024 + _MAX_LOG * len(self.held):
            self.log_start += len(self.log)
            self.log.clear()

    def _count(self, state_of: Sequence[Optional[NodeState]], up: bytearray) -> None:
        """Count all ranks."""
        start, new = self.log_start + len(self.log) + 1, Census(self.fabric)
        for name in self.__slots__:
            setattr(self, name, getattr(new, name))
        self.log_start = start  # no reader is this far, so each looks at all leaves
        self.moved = set()
        for rank, leaves in enumerate(self.fabric.homes):
            state = self._counted[rank] = state_of[rank] if leaves and up[rank] else None
            if state is not None:
                for leaf in leaves:
                    self.held[leaf][state] = self.held[leaf].get(state, 0) + 1
                    self._free[leaf] += state.packed
        for domain in reversed(range(len(self.fabric))):  # children before parents
            having: dict[NodeState, list[int]] = {}
            idle: dict[int, list[int]] = {}
            for place, child in enumerate(self.fabric.children[domain]):
                self._free[domain] += self._free[child]
                idle.setdefault(self.idle(child), []).append(place)
                for state in self.held[child] or self._having[child]:
                    having.setdefault(state, []).append(place)
            self._having[domain] = {state: from_ids(those) for state, those in having.items()}
            self._idle[domain] = {number: from_ids(those) for number, those in idle.items()}

    def _take(self, domain: int) -> None:
        """Make the dicts of *domain* its own."""
        self.held[domain] = self.held[domain].copy()
        self._having[domain] = self._having[domain].copy()
        self._idle[domain] = self._idle[domain].copy()
        self._own[domain] = 1

    def _turn(self, domain: int, state: NodeState) -> None:
        """*domain* now has a rank in *state*, or none any more; those around it may be told so."""
        while domain != ROOT:
            bit, domain = 1 << self.fabric.place[domain], self.fabric.parent[domain]
            if not self._own[domain]:
                self._take(domain)
            having = self._having[domain]
            others = having.pop(state, 0) ^ bit
            if others:
                having[state] = others
                if others != bit:
                    return

    def _reorder(self, domain: int, more: int) -> None:
        """Note that *domain*, and all around it, have *more* idle nodes than are counted."""
        while domain != ROOT:
            number, bit = self._free[domain] & IDLE, 1 << self.fabric.place[domain]
            domain = self.fabric.parent[domain]
            if not self._own[domain]:
                self._take(domain)
            idle = self._idle[domain]
            others = idle.pop(number) ^ bit
            if others:
                idle[number] = others
            idle[number + more] = idle.get(number + more, 0) | bit
