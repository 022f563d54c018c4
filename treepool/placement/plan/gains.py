"""Gains: where there is more room than before, for those who could not start there."""

from __future__ import annotations

from treepool.placement.plan.timeline import Change


class Gains:
    """The changes that made room, in order; readers remember how far they have read."""

    def __init__(self) -> None:
        self._changes: list[Change] = []
        self._start = 0

    def __bool__(self) -> bool:
        return bool(self._changes)

    @property
    def end(self) -> int:
        """The number of changes so far."""
        return self._start + len(self._changes)

    def add(self, change: Change) -> None:
        """Add a change."""
        self._changes.append(change)

    def since(self, position: int) -> list[Change]:
        """The changes from the number *position* on."""
        return self._changes[position - self._start :]

    def trim(self, position: int) -> None:
        """Forget the changes before the number *position*, which all have read."""
        del self._changes[: position - self._start]
        self._start = position
