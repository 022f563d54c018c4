"""Journals: what changed, in order, for readers that follow it."""

from __future__ import annotations

from typing import Generic, Optional, Sequence, TypeVar

T = TypeVar("T")

#: Entries that are kept for readers, at least.
_MAX_ENTRIES = 4096


def of_rank(rank: int) -> int:
    """The entry in a pool's journal for a *rank* that went up or down."""
    return -1 - rank


class Journal(Generic[T]):
    """The latest entries; a reader remembers ``end`` and later asks for those ``since`` then.

    Entries of a pool are job ids and, as negative numbers, ranks (``of_rank``).
    """

    __slots__ = ("_entries", "_start")

    def __init__(self) -> None:
        self._entries: list[T] = []
        self._start = 0

    @property
    def end(self) -> int:
        """The number of entries so far."""
        return self._start + len(self._entries)

    def note(self, entries: Sequence[T]) -> None:
        """Add *entries*; an empty sequence means that anything may have changed."""
        if not entries or len(entries) > _MAX_ENTRIES:
            self._start = self.end + max(1, len(entries))
            self._entries.clear()
            return
        self._entries.extend(entries)
        if len(self._entries) > 2 * _MAX_ENTRIES:  # the newest remain, for readers that keep up
            excess = len(self._entries) - _MAX_ENTRIES
            del self._entries[:excess]
            self._start += excess

    def since(self, position: int) -> Optional[Sequence[T]]:
        """The entries from *position* on; None if anything may have changed since then."""
        if position < self._start:
            return None
        return self._entries[position - self._start :]
