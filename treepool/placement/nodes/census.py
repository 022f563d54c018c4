"""The census: what is free in each domain of a fabric, counted as ranks change.

A census notes which ranks of an index move. When it is asked, it counts these ranks anew, in the
domains around them. Its cost therefore follows what changes, not the number of nodes.
"""

from __future__ import annotations

from typing import Optional, Sequence

from treepool.placement.nodes.fabric import ROOT, Fabric
from treepool.placement.nodes.state import NodeState

#: Changed leaves that are kept for readers, per domain of the fabric.
_MAX_LOG = 4


class Census:
    """The up ranks of each domain of *fabric* by state; the lists are by the number of the domain.

    ``cores`` and ``gpus`` are numbers of free cores and GPUs, and ``idle`` of nodes on which
    nothing is allocated. ``moved`` are ranks that are to be counted anew.
    """

    __slots__ = (
        "fabric", "held", "cores", "gpus", "idle", "moved", "log", "log_start", "_counted", "_own",
        "_paths",
    )  # fmt: skip

    def __init__(self, fabric: Fabric) -> None:
        size = len(fabric)
        self.fabric = fabric
        self.held: list[dict[NodeState, int]] = [{} for _ in range(size)]
        self.cores, self.gpus, self.idle = [0] * size, [0] * size, [0] * size
        self.moved: set[int] = {rank for rank, leaves in enumerate(fabric.homes) if leaves}
        #: Leaves in which something changed, in order; entries before log_start are dropped.
        self.log: list[int] = []
        self.log_start = 0
        self._counted: list[Optional[NodeState]] = [None] * len(fabric.homes)
        #: The domains whose ``held`` is not shared with a copy.
        self._own = bytearray(b"\1" * size)
        self._paths: dict[int, tuple[int, ...]] = {}

    def copy(self) -> Census:
        """An independent copy, in one copy of each list."""
        new = object.__new__(Census)
        new.fabric, new.held, new.moved = self.fabric, self.held.copy(), self.moved.copy()
        new.cores, new.gpus, new.idle = self.cores.copy(), self.gpus.copy(), self.idle.copy()
        new.log, new.log_start = [], self.log_start + len(self.log) + 1
        new._counted, new._paths = self._counted.copy(), self._paths
        new._own, self._own = bytearray(len(self._own)), bytearray(len(self._own))
        return new

    def follow(self, state_of: Sequence[Optional[NodeState]], up: bytearray) -> None:
        """Count the ranks that moved, which are now in the states *state_of* if they are *up*."""
        homes, counted = self.fabric.homes, self._counted
        while self.moved:
            rank = self.moved.pop()
            old, new = counted[rank], state_of[rank] if up[rank] else None
            if old is new:
                continue
            counted[rank] = new
            for leaf in homes[rank]:
                self.log.append(leaf)
                self._count(leaf, old, new)
        if len(self.log) > 1024 + _MAX_LOG * len(self.held):
            self.log_start += len(self.log)
            self.log.clear()

    def _count(self, leaf: int, old: Optional[NodeState], new: Optional[NodeState]) -> None:
        """Count a rank of *leaf* in state *new* and no longer in *old*; None while it is down."""
        cores = gpus = idle = 0
        if new is not None:
            cores, gpus, idle = new.ncores, new.ngpus, new.idle
        if old is not None:
            cores, gpus, idle = cores - old.ncores, gpus - old.ngpus, idle - old.idle
        path = self._paths.get(leaf)
        if path is None:
            path = self._paths[leaf] = (*self.fabric.around(leaf), ROOT)
        for domain in path:
            held = self.held[domain]
            if not self._own[domain]:
                held = self.held[domain] = held.copy()
                self._own[domain] = 1
            if old is not None:
                left = held[old] - 1
                if left:
                    held[old] = left
                else:
                    del held[old]
            if new is not None:
                held[new] = held.get(new, 0) + 1
            self.cores[domain] += cores
            self.gpus[domain] += gpus
            if idle:
                self.idle[domain] += idle

    def path(self, leaf: int) -> tuple[int, ...]:
        """*leaf* and all domains around it, the root last."""
        return self._paths.get(leaf) or (*self.fabric.around(leaf), ROOT)
