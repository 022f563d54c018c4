"""The census: states and idle nodes of each domain of a fabric; which of equal nodes comes first.

It reads in the log of an index which ranks moved since it last did, and counts these anew in the
domains around them. Its cost therefore follows what changes, not the number of nodes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, AbstractSet, Optional

from treepool.placement.nodes.fabric_tree import ROOT, Fabric
from treepool.placement.nodes.state import NodeState

if TYPE_CHECKING:
    from treepool.placement.nodes.index import NodeIndex


class Census:
    """The up ranks of each leaf of *fabric* by state, and the idle nodes of each domain.

    ``state_of`` has the state of each up rank, ``held`` the number of ranks in each state by leaf,
    and ``idle`` the number of idle nodes by domain. ``versions`` has a number for each domain that
    grows with every change in it.
    """

    __slots__ = ("fabric", "state_of", "held", "idle", "versions", "_by_idle", "_seen", "_first")

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.state_of: list[Optional[NodeState]] = [None] * len(fabric.homes)
        self.held: list[dict[NodeState, int]] = [{} for _ in range(len(fabric))]
        self.idle = [0] * len(fabric)
        self.versions = [0] * len(fabric)
        #: By domain: the children (their places) by the number of their idle nodes. None until
        #: all ranks were counted once.
        self._by_idle: Optional[list[list[tuple[int, int]]]] = None
        #: Where in the log of the index the next change is; and the first rank that was never
        #: counted.
        self._seen, self._first = -1, 0

    def copy(self) -> Census:
        """An independent copy, for a copy of the index that has the same log."""
        new = object.__new__(Census)
        new.fabric, new._seen, new._first = self.fabric, self._seen, self._first
        new.state_of, new.held = self.state_of.copy(), self.held.copy()
        new.idle, new.versions = self.idle.copy(), self.versions.copy()
        new._by_idle = self._by_idle and [order.copy() for order in self._by_idle]
        return new

    def follow(self, index: NodeIndex, most: Optional[int] = None) -> bool:
        """Count the ranks of *index* that moved since the last call, or *most* of them.

        Returns whether there are more. If this fails, the census is of no use any more.
        """
        if self._by_idle is None:
            if not self._first:
                self._seen = index.log_start + len(index.log)  # what moves meanwhile follows
            last = len(self.state_of)
            last = last if most is None else min(last, self._first + most)
            for rank in range(self._first, last):
                if index.up[rank]:
                    self._add(rank, index.state_of[rank])
            self._first = last
            if last < len(self.state_of):
                return True
            self._by_idle = [
                sorted((self.idle[child], place) for place, child in enumerate(children))
                for children in self.fabric.children
            ]
        seen = self._seen - index.log_start
        if seen < 0:  # all may have moved
            changed = dict.fromkeys(range(len(self.state_of)))
            self._seen = index.log_start + len(index.log)
        else:
            some = index.log[seen : None if most is None else seen + most]
            changed, self._seen = dict.fromkeys(some), self._seen + len(some)
        for rank in changed:
            old, new = self.state_of[rank], index.state_of[rank] if index.up[rank] else None
            if old is not new:
                self.state_of[rank] = new
                self._move(rank, old, new)
        return self._seen < index.log_start + len(index.log)

    def _add(self, rank: int, new: Optional[NodeState]) -> None:
        """Count *rank*, which was never counted, in state *new*."""
        if new is None:
            return
        self.state_of[rank] = new
        for leaf in self.fabric.homes[rank]:
            held = self.held[leaf]
            held[new] = held.get(new, 0) + 1
            if new.idle:
                for domain in self.fabric.paths[leaf]:
                    self.idle[domain] += 1

    def _move(self, rank: int, old: Optional[NodeState], new: Optional[NodeState]) -> None:
        """Count *rank*, which was in state *old*, in *new*; None if it is not up."""
        fabric, more = self.fabric, 0
        for leaf in fabric.homes[rank]:
            held = self.held[leaf] = self.held[leaf].copy()  # a copy may share the one before
            if old is not None:
                held[old] -= 1
                more = -old.idle
                if not held[old]:
                    del held[old]
            if new is not None:
                held[new] = held.get(new, 0) + 1
                more += new.idle
            for domain in fabric.paths[leaf]:
                self.versions[domain] += 1
                if more:
                    self._count_idle(domain, more)

    def _count_idle(self, domain: int, more: int) -> None:
        number = self.idle[domain]
        self.idle[domain] = number + more
        if domain != ROOT and self._by_idle is not None:
            place, order = self.fabric.place[domain], self._by_idle[self.fabric.parent[domain]]
            del order[bisect_left(order, (number, place))]
            insort(order, (number + more, place))

    def first(self, states: AbstractSet[NodeState], within: int, domain: int) -> int:
        """The first rank in one of *states* on the way down from *domain* into the domain with the
        fewest idle nodes, ties to the lowest rank; -1 if *domain* has no such rank.

        So whole domains above the nodes stay whole. Only ranks of *within* (bitmask) count.
        """
        fabric, state_of = self.fabric, self.state_of
        having, by_idle = fabric.having(within), self._by_idle
        assert by_idle is not None

        def first(domain: int) -> int:
            if domain not in having:
                return -1
            children = fabric.children[domain]
            if not children:
                if self.held[domain].keys().isdisjoint(states):
                    return -1
                ranks = fabric.ranks[domain]
                return next((r for r in ranks if state_of[r] in states and within >> r & 1), -1)
            for _, place in by_idle[domain]:
                rank = first(children[place])
                if rank >= 0:
                    return rank
            return -1

        return first(domain)
