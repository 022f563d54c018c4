"""Spare nodes in the plan: kept idle until others are down, drained or lost; then they serve.

They are a window for nobody, on nodes that are chosen anew. No job that runs ever leaves for it.
"""

from __future__ import annotations

from treepool.placement.nodes.spares import nearest, preferred
from treepool.placement.plan.jobs import CENTURY
from treepool.placement.plan.profile import PRESENT
from treepool.placement.plan.queue import Queue
from treepool.placement.plan.windows import Window
from treepool.rfc import idset
from treepool.rfc.windows import SPARES

#: The name of their window, with a sign that no name has which a user gives.
_NAME = f"{SPARES}@"


class Spares:
    """The spare nodes of *queue* and its pool, whose nodes all count, also once they are lost.

    As many of them are kept (bitmask ``kept``) as nodes that are not up leave of ``number``.
    """

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._total = idset.size(queue.pool.ranks)
        self._inventory = queue.pool.inventory
        self._up, self._generation = queue.pool.up, -1
        self._best = self.number = self.kept = 0

    def keep(self, number: int) -> None:
        """Keep *number* spare nodes from the next ``follow`` on."""
        self.number, self._generation = number, -1
        self._judge()

    def _judge(self) -> None:
        """Let requests have what the spares leave; one in place of a lost node is none any more."""
        pool = self._queue.pool
        pool.keep_spares(max(0, self.number - self._total + idset.size(pool.ranks)))

    def follow(self, now: float) -> bool:
        """Follow the pool; returns whether other nodes are kept than before."""
        pool, before = self._queue.pool, self.kept
        if self._generation == pool.generation or not (self.number or before):
            return False
        if self._generation < 0 or pool.inventory is not self._inventory:
            self._best = preferred(pool.inventory, pool.ranks, self.number)
            self._judge()
        lost = self._up & ~pool.up
        index = pool.situation.index
        idle = idset.union(ranks for state, ranks in index.buckets.items() if state.idle)
        whole = idset.size(pool.up) == self._total
        wanted = max(0, self.number - self._total + idset.size(pool.up))
        kept = before & idle
        surplus = idset.size(kept) - wanted
        if surplus > 0:
            kept &= ~nearest(self._inventory, kept, lost, surplus)
        elif surplus or self._best & idle & ~kept:
            kept &= self._best if whole else kept
            more = preferred(pool.inventory, idle & ~kept, wanted - idset.size(kept))
            kept |= more
        self._inventory, self._up, self._generation = pool.inventory, pool.up, pool.generation
        self.kept = kept
        if kept != before:
            self._close(now)
        return kept != before

    def _close(self, now: float) -> None:
        window = Window(_NAME, self.kept, PRESENT, now + 2 * CENTURY)
        self._queue.spares = (window,) if self.kept else ()
        others = [window for window in self._queue.windows.values() if window.name != _NAME]
        self._queue.set_windows(others)
