"""Idle nodes: which of equal nodes to take so that whole domains above the nodes stay whole."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, AbstractSet, Iterable, Optional

from treepool.placement.nodes.domaincount import DomainCount
from treepool.placement.nodes.fabric import ROOT
from treepool.placement.nodes.rankset import RankSet, lowest_of
from treepool.placement.nodes.state import NodeState
from treepool.rfc.idset import from_ids, iterate

if TYPE_CHECKING:
    from treepool.placement.nodes.index import NodeIndex


class IdleNodes(DomainCount):
    """How many nodes are up and idle in each domain, and where ranks in a state may be.

    Most moves are between states that are not idle. They only note that the rank's leaf may have
    ranks in its new state. That it has none left in the old one is noted when it is next looked at.
    """

    __slots__ = ("_was_idle", "_idle", "_order", "_ordered", "_where", "_here")

    def _clear(self) -> None:
        super()._clear()
        size = len(self.fabric)
        self._was_idle = bytearray(len(self.fabric.homes))
        self._idle = [0] * size
        #: By domain: the children (a bitmask of their places) that have a number of idle nodes;
        #: and these bitmasks by ascending number, once somebody has asked.
        self._order: list[dict[int, int]] = [{} for _ in range(size)]
        self._ordered: list[Optional[list[int]]] = [None] * size
        #: The domains that may have up ranks in a state, a bit for each (``Fabric.bit``); and by
        #: leaf, the same states.
        self._where: dict[NodeState, int] = {}
        self._here: list[set[NodeState]] = [set() for _ in range(size)]

    def copy(self) -> IdleNodes:
        """An independent copy, in one copy of each list."""
        new = super().copy()
        new._was_idle, new._idle = self._was_idle.copy(), self._idle.copy()
        new._order, new._ordered = self._order.copy(), self._ordered.copy()
        new._where, new._here = self._where.copy(), self._here.copy()
        return new

    def first(
        self,
        states: AbstractSet[NodeState],
        index: NodeIndex,
        within: Optional[RankSet],
        domain: int,
    ) -> int:
        """The first rank in one of *states* on the way down from *domain* into the domain with the
        fewest idle nodes, ties to the lowest rank; -1 if *domain* has no such rank.

        Only ranks in *within*, which never changes, count (None: all).
        """
        fabric, buckets = self.fabric, index.buckets
        children, start = fabric.children, fabric.start
        # Without a line of Python for each state and number: there may be hundreds.
        where = reduce(or_, filter(None, map(self._where.get, states)), 0)
        if within is not None:
            where &= fabric.having(within)
        while True:
            inner = domain
            while children[inner]:
                places = where >> start[inner]
                order = self._ordered[inner] or self._sort(inner)
                found = next(filter(None, map(places.__and__, order)), 0)
                if not found:  # it has such states, and ranks of *within*, but in other leaves
                    break
                inner = children[inner][(found & -found).bit_length() - 1]
            ranks, here = fabric.set_of(inner), self._here[inner] & states
            rank = lowest_of(here, buckets, ranks, within)
            if rank >= 0 or inner == domain:
                return rank
            where = self._without(where, inner)
            for state in here:
                if state not in buckets or buckets[state].lowest(ranks) < 0:
                    self._own_dicts(inner)
                    self._here[inner].discard(state)
                    self._where[state] = self._without(self._where[state], inner)

    def _sort(self, domain: int) -> list[int]:
        order = self._order[domain]
        found = self._ordered[domain] = [order[number] for number in sorted(order)]
        return found

    def _without(self, where: int, leaf: int) -> int:
        """*where* without *leaf*, and without the domains around it that have no other."""
        fabric = self.fabric
        for domain in fabric.around(leaf):
            where &= ~(1 << fabric.bit[domain])
            parent = fabric.parent[domain]
            if where >> fabric.start[parent] & ((1 << len(fabric.children[parent])) - 1):
                break
        return where

    def _own_dicts(self, domain: int) -> None:
        if not self._own[domain]:
            self._order[domain] = self._order[domain].copy()
            self._here[domain] = self._here[domain].copy()
            self._own[domain] = 1

    def _move(self, ranks: Iterable[int], index: NodeIndex) -> None:
        homes, here, was_idle = self.fabric.homes, self._here, self._was_idle
        for rank in ranks:
            state, idle = index.state_of[rank] if index.up[rank] else None, False
            if state is not None:
                idle = state.idle
                for leaf in homes[rank]:
                    if state not in here[leaf]:
                        self._enter(leaf, state)
            if idle != was_idle[rank]:
                more, was_idle[rank] = idle - was_idle[rank], idle
                for leaf in homes[rank]:
                    self._add(leaf, more)
        if len(self._where) > 64 + 2 * len(index.buckets):  # most are of earlier times
            for state in self._where.keys() - index.buckets.keys():
                for bit in iterate(self._where.pop(state)):
                    domain = self.fabric.of_bit[bit]
                    self._own_dicts(domain)
                    here[domain].discard(state)

    def _enter(self, leaf: int, state: NodeState) -> None:
        self._own_dicts(leaf)
        self._here[leaf].add(state)
        where = self._where.get(state, 0)
        for domain in self.fabric.paths[leaf]:
            where |= 1 << self.fabric.bit[domain]
        self._where[state] = where

    def _add(self, domain: int, more: int) -> None:
        """Note that *domain*, and all around it, have *more* idle nodes than before."""
        idle, fabric = self._idle, self.fabric
        while True:
            number = idle[domain]
            idle[domain] = number + more
            if domain == ROOT:
                return
            bit, domain = 1 << fabric.place[domain], fabric.parent[domain]
            self._own_dicts(domain)
            self._ordered[domain] = None
            order = self._order[domain]
            others = order.pop(number) ^ bit
            if others:
                order[number] = others
            order[number + more] = order.get(number + more, 0) | bit

    def _count(self, index: NodeIndex) -> None:
        fabric = self.fabric
        self._clear()
        for state, ranks in index.buckets.items():
            leaves: set[int] = set()
            for rank in ranks:
                leaves.update(fabric.homes[rank])
                if state.idle:
                    self._was_idle[rank] = 1
                    for leaf in fabric.homes[rank]:
                        self._idle[leaf] += 1
            for leaf in leaves:
                self._here[leaf].add(state)
            self._where[state] = fabric.bits(leaves)
        for domain in reversed(range(len(fabric))):  # children before parents
            order: dict[int, list[int]] = {}
            for place, child in enumerate(fabric.children[domain]):
                self._idle[domain] += self._idle[child]
                order.setdefault(self._idle[child], []).append(place)
            self._order[domain] = {number: from_ids(those) for number, those in order.items()}
