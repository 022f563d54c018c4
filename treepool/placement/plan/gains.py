"""Gains: changes that made room, for the jobs that could not start before."""

from __future__ import annotations

import math

from treepool.placement.plan.future import Holder
from treepool.placement.plan.timeline import Change, Timeline
from treepool.placement.request.need import Ask

#: So many ranks are grouped in the time of one unit of work, see Timeline.should_yield.
_RANKS = 8


class Gain:
    """A change that made room on its ``ranks``."""

    __slots__ = ("change", "ranks", "_openings")

    def __init__(self, change: Change) -> None:
        self.change = change
        self.ranks = frozenset(change.ranks)
        #: When some rank may serve an ask, by the least that the ask needs of a node.
        self._openings: dict[tuple[int, int, bool], set[tuple[float, float]]] = {}

    def may_serve(
        self,
        timeline: Timeline,
        ask: Ask,
        length: float,
        leave: frozenset[Holder],
        now: float,
        before: float,
    ) -> bool:
        """Whether some rank may serve *ask* for *length* seconds that overlap the change.

        The start would be from *now* on but earlier than *before*. The spans of holders in *leave*
        do not count, so the answer is yes if they have some of the ranks. Openings are kept even if
        the timeline changes: since they were found there is less room, or there is another gain.
        """
        for holder in leave:
            if not self.ranks.isdisjoint(timeline.ranks_of(holder)):
                return True
        start, end = self.change.start, self.change.end
        end = max(end, math.nextafter(now, math.inf))  # a job that was late held the present, too
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
        for opens, closes in openings:
            first = max(opens, now, start - length)
            if first < end and first < before and first + length <= closes:
                return True
        return False


class Gains:
    """The gains, in order. Readers remember up to which number they have read."""

    def __init__(self) -> None:
        self._gains: list[Gain] = []
        self._start = 0

    def __bool__(self) -> bool:
        return bool(self._gains)

    @property
    def end(self) -> int:
        """The number of gains so far, with those that were forgotten."""
        return self._start + len(self._gains)

    def add(self, change: Change) -> None:
        """Add *change*, which made room."""
        self._gains.append(Gain(change))

    def since(self, position: int) -> list[Gain]:
        """The gains from number *position* on."""
        return self._gains[position - self._start :]

    def trim(self, position: int) -> None:
        """Forget the gains before number *position*, which all readers have read."""
        del self._gains[: position - self._start]
        self._start = position
