"""Gains: where there is more room than before, for those who could not start there."""

from __future__ import annotations

import math

from treepool.placement.plan.timeline import Change, Timeline
from treepool.placement.request.need import Ask

#: So many ranks are grouped in the time of one unit of work, see Timeline.tired.
_RANKS = 8


class Gain:
    """A change that made room; its ranks had too little between its ``start`` and ``end``."""

    __slots__ = ("change", "ranks", "_openings")

    def __init__(self, change: Change) -> None:
        self.change = change
        self.ranks = frozenset(change.ranks)
        #: By what an ask needs at least: from when to when some rank may serve it.
        self._openings: dict[tuple[int, int, bool], set[tuple[float, float]]] = {}

    def may_serve(
        self, timeline: Timeline, ask: Ask, length: float, now: float, before: float
    ) -> bool:
        """Whether some rank may serve *ask* for *length* seconds, at a time of the change.

        It would start from *now* on but earlier than *before*. What was known for another request
        still holds: since then there is less room, or another gain.
        """
        start, end = self.change.start, self.change.end
        end = max(end, math.nextafter(now, math.inf))  # whoever was late had the present, too
        least = ask.min_cores, ask.min_gpus, ask.whole
        openings = self._openings.get(least)
        if openings is None:
            openings = self._openings[least] = set()
            groups = timeline.groups(self.change)
            timeline.spend(len(groups) + len(self.ranks) // _RANKS)
            for ranks in groups:
                future = timeline.future(ranks[0])
                if future is not None:
                    openings.update(future.openings(ask, start, end))
        for begun, over in openings:
            first = max(begun, now, start - length)
            if first < end and first < before and first + length <= over:
                return True
        return False


class Gains:
    """The changes that made room, in order; readers remember how far they have read."""

    def __init__(self) -> None:
        self._gains: list[Gain] = []
        self._start = 0

    def __bool__(self) -> bool:
        return bool(self._gains)

    @property
    def end(self) -> int:
        """The number of gains so far."""
        return self._start + len(self._gains)

    def add(self, change: Change) -> None:
        """Add a change."""
        self._gains.append(Gain(change))

    def since(self, position: int) -> list[Gain]:
        """The gains from the number *position* on."""
        return self._gains[position - self._start :]

    def trim(self, position: int) -> None:
        """Forget the gains before the number *position*, which all have read."""
        del self._gains[: position - self._start]
        self._start = position
