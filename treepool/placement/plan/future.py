"""The future of a rank: the states that it goes through, if all goes as planned."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import Iterable, Iterator, NamedTuple, Union

from treepool.placement.nodes.state import NodeState, StateTable
from treepool.placement.nodes.tree import NodeType
from treepool.placement.on_node.fit import possible
from treepool.placement.request.need import Ask

#: The start of a view in the present: what running jobs hold counts, however late they are.
PRESENT = -math.inf

#: Who holds a span: a job, or a window by its name.
Holder = Union[int, str]


class Span(NamedTuple):
    """Cores and GPUs (bitmasks) of a rank that *holder* has from ``start`` up to ``end``."""

    start: float
    end: float
    cores: int
    gpus: int
    holder: Holder


class Future:
    """The state of a rank at each time from the present on, as its *spans* say.

    From each of the ``times``, ascending, the rank is in the one of ``states`` at the same place.
    ``planned`` has the holders of spans that do not begin in the present.
    """

    __slots__ = ("times", "states", "planned", "_table", "_common")

    def __init__(self, node_type: NodeType, spans: Iterable[Span], table: StateTable) -> None:
        waiting = sorted(spans, key=attrgetter("start"), reverse=True)
        self.planned = frozenset(span.holder for span in waiting if span.start > PRESENT)
        self._table = table
        #: What the rank could give throughout several states, by the places of these.
        self._common: dict[tuple[int, int], NodeState] = {}
        times = {PRESENT}
        for span in waiting:
            times.add(span.start)
            times.add(span.end)
        times.discard(math.inf)
        self.times: list[float] = []
        self.states: list[NodeState] = []
        now: list[Span] = []
        for time in sorted(times):
            now = [span for span in now if span.end > time]
            while waiting and waiting[-1].start <= time:
                now.append(waiting.pop())
            cores, gpus = node_type.root.cores, node_type.root.gpus
            for span in now:
                cores &= ~span.cores
                gpus &= ~span.gpus
            state = table.get(node_type, cores, gpus)
            if not self.states or self.states[-1] is not state:
                self.times.append(time)
                self.states.append(state)

    def state(self, start: float, end: float) -> NodeState:
        """What the rank could give throughout the time from *start* to *end*."""
        first = bisect_right(self.times, start) - 1
        last = bisect_left(self.times, end, first)
        if last - first == 1:
            return self.states[first]
        found = self._common.get((first, last))
        if found is None:
            state, *others = self.states[first:last]
            cores, gpus = state.cores, state.gpus
            for other in others:
                cores &= other.cores
                gpus &= other.gpus
            found = self._common[first, last] = self._table.get(state.type, cores, gpus)
        return found

    def openings(self, ask: Ask, start: float, end: float) -> Iterator[tuple[float, float]]:
        """From when to when the rank may serve *ask*, as far as that overlaps *start* to *end*."""
        begun = math.nan
        for time, state in zip(self.times, self.states):
            if possible(state, ask):
                if math.isnan(begun):
                    begun = time
                    if begun >= end:
                        return
            elif not math.isnan(begun):
                if time > start:
                    yield begun, time
                begun = math.nan
        if not math.isnan(begun):
            yield begun, math.inf
