"""The census: states and idle nodes of each domain of a fabric; which of equal nodes comes first.

It reads in the log of an index which ranks moved since it last did, and moves these in the domains
around them. Its cost therefore follows what changes, not the number of nodes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from typing import TYPE_CHECKING, Optional

from treepool.placement.nodes.fabric_tree import ROOT, Fabric
from treepool.placement.nodes.state import NodeState
from treepool.rfc import idset

if TYPE_CHECKING:
    from treepool.placement.nodes.index import NodeIndex


class Census:
    """The up ranks of each leaf of *fabric* by state, and the idle nodes of each domain.

    ``held`` has the number of ranks in each state by leaf, and ``idle`` the number of idle nodes by
    domain. ``versions`` has a number for each domain that grows with every change in it. The ranks
    in ``deferred`` come last among equal ones.
    """

    __slots__ = (
        "fabric", "deferred", "_deferred_in", "held", "idle", "versions", "_by_idle", "_seen",
        "_first",
    )  # fmt: skip

    def __init__(self, fabric: Fabric, deferred: int) -> None:
        self.fabric, self.deferred = fabric, deferred
        self._deferred_in: Optional[dict[int, int]] = None
        self.held: list[dict[NodeState, int]] = [{} for _ in range(len(fabric))]
        self.idle = [0] * len(fabric)
        self.versions = [0] * len(fabric)
        #: By domain: the children (their places) by the number of their idle nodes. None until
        #: all ranks were counted once.
        self._by_idle: Optional[list[list[tuple[int, int]]]] = None
        #: Where in the log of the index the next change is; and what was up at the first look and
        #: is still to be counted.
        self._seen = -1
        self._first: Optional[list[tuple[NodeState, int]]] = None

    def copy(self) -> Census:
        """An independent copy, for a copy of the index that has the same log."""
        new = object.__new__(Census)
        new.fabric, new.deferred, new._deferred_in = self.fabric, self.deferred, None
        new._seen, new._first = self._seen, self._first
        new.held = self.held.copy()
        new.idle, new.versions = self.idle.copy(), self.versions.copy()
        new._by_idle = self._by_idle and [order.copy() for order in self._by_idle]
        return new

    def follow(self, index: NodeIndex, most: Optional[int] = None) -> bool:
        """Count the ranks of *index* that moved since the last call, or *most* of them.

        Returns whether there are more. If this fails, the census is of no use any more.
        """
        left = float("inf") if most is None else most
        if self._by_idle is None:
            if self._first is None:
                self._seen = index.log_start + len(index.log)  # what moves meanwhile follows
                self._first = list(index.buckets.items())
            while self._first:
                if left <= 0:
                    return True
                state, ranks = self._first.pop()
                some = ranks if most is None else idset.take_lowest(ranks, most)
                if some != ranks:
                    self._first.append((state, ranks ^ some))
                self._move(some, None, state)
                left -= idset.size(some)
            self._by_idle = [
                sorted((self.idle[child], place) for place, child in enumerate(children))
                for children in self.fabric.children
            ]
        log = index.log
        for moved in log[self._seen - index.log_start :]:
            if left <= 0:
                break
            self._move(*moved)
            self._seen += 1
            left -= idset.size(moved.ranks)
        return self._seen < index.log_start + len(log)

    def _move(self, ranks: int, old: Optional[NodeState], new: Optional[NodeState]) -> None:
        """Count *ranks*, which were in state *old*, in *new*; None if they are not up."""
        fabric = self.fabric
        homes = fabric.homes
        leaves = Counter(leaf for rank in idset.iterate(ranks) for leaf in homes[rank])
        more = (new is not None and new.idle) - (old is not None and old.idle)
        idle: dict[int, int] = {}
        for leaf, number in leaves.items():
            held = self.held[leaf] = self.held[leaf].copy()  # a copy may share the one before
            if old is not None:
                held[old] -= number
                if not held[old]:
                    del held[old]
            if new is not None:
                held[new] = held.get(new, 0) + number
            for domain in fabric.paths[leaf]:
                idle[domain] = idle.get(domain, 0) + more * number
        for domain, number in idle.items():
            self.versions[domain] += 1
            if number:
                self._count_idle(domain, number)

    def _count_idle(self, domain: int, more: int) -> None:
        number = self.idle[domain]
        self.idle[domain] = number + more
        if domain != ROOT and self._by_idle is not None:
            place, order = self.fabric.place[domain], self._by_idle[self.fabric.parent[domain]]
            del order[bisect_left(order, (number, place))]
            insort(order, (number + more, place))

    @property
    def deferred_in(self) -> dict[int, int]:
        """How many ranks of each domain are deferred."""
        if self._deferred_in is None:
            self._deferred_in = {}
            homes = self.fabric.homes  # none, or several, in a family of properties
            leaves = Counter(leaf for rank in idset.iterate(self.deferred) for leaf in homes[rank])
            for leaf, number in leaves.items():
                for domain in self.fabric.paths[leaf]:
                    self._deferred_in[domain] = self._deferred_in.get(domain, 0) + number
        return self._deferred_in

    def first(self, among: int, domain: int) -> int:
        """The first rank of *among* (bitmask) on the way down from *domain* into the domain with
        the fewest idle nodes, ties to the lowest rank; -1 if *domain* has no such rank.

        So whole domains above the nodes stay whole.
        """
        fabric, by_idle = self.fabric, self._by_idle
        assert by_idle is not None

        def first(domain: int, among: int) -> int:
            children = fabric.children[domain]
            if not children:
                return idset.lowest(fabric.part(domain, among))
            for _, place in by_idle[domain]:
                rank = first(children[place], among)
                if rank >= 0:
                    return rank
            return -1

        found = first(domain, among & ~self.deferred)
        return first(domain, among) if found < 0 and self.deferred else found
