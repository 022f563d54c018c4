"""Gains: changes that made room, and what jobs that could not start before may use of them."""

from __future__ import annotations

import math
from itertools import chain
from typing import Generator, Mapping, Optional, Sequence

from treepool.placement.on_node.fit import units_in
from treepool.placement.plan.course import Use
from treepool.placement.plan.future import Holder
from treepool.placement.plan.timeline import Change, Timeline, end_of
from treepool.placement.request.need import Ask
from treepool.placement.request.vertices import Request

#: So many ranks are grouped in the time of one unit of work, see Timeline.should_yield.
_RANKS = 8

#: Work for the uses of a group of nodes.
_USE = 5

#: More units than any request needs.
_MANY = 1 << 40


class Gain:
    """A change that made room on its ``ranks``."""

    __slots__ = ("change", "ranks", "freed", "_openings", "_grouped")

    def __init__(self, change: Change) -> None:
        self.change = change
        self.ranks = frozenset(change.ranks)
        #: The cores and GPUs that became free on each rank, as far as is known.
        self.freed = {rank: (cores, gpus) for those, cores, gpus in change.parts for rank in those}
        #: When which ranks may serve an ask, by the least that the ask needs of a node.
        self._openings: dict[
            tuple[int, int, bool], dict[tuple[float, float], list[Sequence[int]]]
        ] = {}
        #: The ranks in groups, and the end of the timeline's journal when they were made.
        self._grouped: tuple[int, Sequence[Sequence[int]]] = (-1, ())

    def serving(
        self,
        timeline: Timeline,
        ask: Ask,
        length: float,
        leave: frozenset[Holder],
        now: float,
        before: float,
    ) -> Generator[None, None, Sequence[int]]:
        """The ranks that may serve *ask* for *length* seconds that overlap the change.

        The start would be from *now* on but earlier than *before*. The spans of holders in *leave*
        do not count, so their ranks are in the answer. Openings are kept even if the timeline
        changes: since they were found there is less room, or there is another gain.
        """
        start, end = self.change.start, self.change.end
        if end <= now:  # a job that was late held the present, too
            end = math.nextafter(now, math.inf)
        earliest = max(now, start - length)
        if earliest >= before:
            return ()
        least = ask.min_cores, ask.min_gpus, ask.whole
        openings = self._openings.get(least)
        if openings is None:
            openings = yield from self._found(timeline, ask, start, end)
            self._openings[least] = openings
        end = min(end, before)
        found: list[int] = []
        for holder in leave:
            held = timeline.ranks_of(holder)
            if not self.ranks.isdisjoint(held):
                found.extend(rank for rank in held if rank in self.ranks)
        for (opens, closes), groups in openings.items():
            first = opens if opens > earliest else earliest
            if first < end and first + length <= closes:
                for ranks in groups:
                    found.extend(ranks)
        return found

    def _found(
        self, timeline: Timeline, ask: Ask, start: float, end: float
    ) -> Generator[None, None, dict[tuple[float, float], list[Sequence[int]]]]:
        """The openings for *ask* that overlap the time from *start* to *end*.

        If the timeline changes meanwhile, the ranks that are left are grouped anew.
        """
        known, groups = self._grouped
        if known != timeline.journal.end:
            groups = list(timeline.groups(self.change.ranks))
            self._grouped = timeline.journal.end, groups
            timeline.spend(len(self.ranks) // _RANKS)
        openings: dict[tuple[float, float], list[Sequence[int]]] = {}
        while groups:
            left, seen = iter(groups), timeline.journal.end
            for ranks in left:
                future = timeline.future(ranks[0])
                if future is not None:
                    for opening in future.openings(ask, start, end):
                        openings.setdefault(opening, []).append(ranks)
                if timeline.should_yield(1):
                    yield
                    if timeline.journal.end != seen:
                        break
            groups = list(timeline.groups(tuple(chain.from_iterable(left))))
        return openings

    def uses(
        self,
        timeline: Timeline,
        ranks: Sequence[int],
        request: Request,
        length: float,
        leave: frozenset[Holder],
        now: float,
        before: float,
        gain_counts: Optional[Mapping[int, int]] = None,
    ) -> Generator[None, None, list[Use]]:
        """What *request* could use of the gain, of which only *ranks* may serve it.

        The units are free for *length* seconds, and start from *now* on but before *before*. A
        request that lacked more units before the change than these uses have together still cannot
        start. Units that were free before the change count too, unless *gain_counts* shows that the
        request knows all other gains of the rank. If the timeline changes during the call, the
        answer is a single use with more units than any request needs.
        """
        uses: list[Use] = []
        seen, inventory = timeline.journal.end, timeline.pool.inventory
        within = inventory.matching(request.constraint)
        up = timeline.pool.situation.index.up
        ask, change, freed = request.ask, self.change, self.freed
        # The first start with which the job overlaps the change.
        first = max(now, math.nextafter(change.start - length, math.inf))
        last = max(min(before, change.end), math.nextafter(first, math.inf))
        if first >= before:
            return uses
        timeline.spend(len(ranks) // _RANKS)
        for group in timeline.groups(tuple(dict.fromkeys(ranks))):
            if timeline.should_yield(_USE):
                yield
                if timeline.journal.end != seen:
                    return [Use(now, before, _MANY)]
            rank = group[0]
            future = timeline.future(rank, leave)
            count = sum(up[rank] and (within is None or rank in within) for rank in group)
            if future is None or not count:
                continue
            cores, gpus = freed.get(rank, (0, 0))
            alone = gain_counts is not None and all(
                gain_counts[rank] == 1 and freed.get(rank) == (cores, gpus) for rank in group
            )
            for start, end in future.starts(ask, length, first, last):
                state = future.state(start, end_of(start, length))
                units = units_in(state, ask)
                if units is None:
                    units = _MANY
                elif units and alone:
                    units -= units_in(inventory.states.less(state, cores, gpus), ask) or 0
                if units > 0:
                    uses.append(Use(start, end, units * count))
        return uses


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
