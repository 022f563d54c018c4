"""Counts of domains: what is counted for each domain of a fabric, as the ranks of an index move.

A count reads in the log of the index which ranks moved since it last did, and counts these anew
in the domains around them. Its cost therefore follows what changes, not the number of nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterable, TypeVar

from treepool.placement.nodes.fabric import Fabric

if TYPE_CHECKING:
    from treepool.placement.nodes.index import NodeIndex

F = TypeVar("F", bound="DomainCount")


class DomainCount:
    """A count of the domains of *fabric*."""

    __slots__ = ("fabric", "_seen", "_own")

    #: The domains whose dicts are not shared with a copy.
    _own: bytearray

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        #: Where in the log of the index the next change is; below its start before the first.
        self._seen = -1
        self._clear()

    def copy(self: F) -> F:
        """An independent copy, for a copy of the index that has the same log."""
        new = object.__new__(type(self))
        new.fabric, new._seen = self.fabric, self._seen
        new._own, self._own = bytearray(len(self._own)), bytearray(len(self._own))
        return new

    def follow(self, index: NodeIndex) -> None:
        """Count the ranks of *index* that moved since the last call."""
        seen, self._seen = self._seen - index.log_start, -1  # count anew if this fails
        moved = set(index.log[seen:]) if seen >= 0 else set()
        if seen < 0 or 2 * len(moved) > len(index.state_of):
            self._count(index)
        elif moved:
            self._move(moved, index)
        self._seen = index.log_start + len(index.log)

    def _clear(self) -> None:
        """Count nothing yet."""
        self._own = bytearray(b"\1" * len(self.fabric))

    def _count(self, index: NodeIndex) -> None:
        """Count all ranks of *index* anew."""
        raise NotImplementedError

    def _move(self, ranks: Iterable[int], index: NodeIndex) -> None:
        """Count *ranks*, which moved."""
        raise NotImplementedError
