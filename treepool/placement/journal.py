"""The journal of a pool: which jobs and ranks changed, in order."""

from __future__ import annotations

from typing import Optional, Sequence

#: Entries that are kept for readers, at least.
_MAX_ENTRIES = 4096


def of_rank(rank: int) -> int:
    """The entry for a *rank* that went up or down."""
    return -1 - rank


class Journal:
    """Entries are job ids and, as negative numbers, ranks (``of_rank``).

    A reader remembers ``end`` and later asks for the entries ``since`` then.
    """

    __slots__ = ("_entries", "_start")

    def __init__(self) -> None:
        self._entries: list[int] = []
        self._start = 0

    @property
    def end(self) -> int:
        """The number of entries so far."""
        return self._start + len(self._entries)

    def note(self, entries: Sequence[int]) -> None:
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

    def since(self, position: int) -> Optional[Sequence[int]]:
        """The entries from *position* on; None if anything may have changed since then."""
        if position < self._start:
            return None
        return self._entries[position - self._start :]
