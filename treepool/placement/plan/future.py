"""The future of a rank: the states that it goes through if everything goes as planned."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import Iterable, Iterator, NamedTuple, Tuple, TypeVar, Union

from treepool.placement.nodes.state import NodeState, StateTable
from treepool.placement.nodes.tree import NodeType
from treepool.placement.on_node.fit import possible
from treepool.placement.request.need import Ask

#: The start of a view of the present. It is before all ends, so running jobs count even when late.
PRESENT = -math.inf

#: How many times a state is computed from spans before their future is made.
_ASKED = 4

#: So many futures are kept even if there are fewer nodes.
_MOST = 1024

T = TypeVar("T")

#: A type of node, and the sum of the hashes of the spans on a node of this type.
_Contents = Tuple[NodeType, int]

#: The holder of a span: a job id, or the name of a window.
Holder = Union[int, str]


class Span(NamedTuple):
    """Cores and GPUs (bitmasks) of a rank that ``holder`` has from ``start`` up to ``end``.

    Spans with the same ``hash`` differ only by rank.
    """

    start: float
    end: float
    cores: int
    gpus: int
    holder: Holder
    hash: int = 0


class Future:
    """The state of a rank at each time from the present on, according to its *spans*.

    The rank is in ``states[i]`` from ``times[i]`` up to ``times[i + 1]``; times ascend.
    """

    __slots__ = ("times", "states", "_table", "_common")

    def __init__(self, node_type: NodeType, spans: Iterable[Span], table: StateTable) -> None:
        to_come = sorted(spans, key=attrgetter("start"), reverse=True)
        self._table = table
        #: What is free throughout several states, by the index of the first and after the last.
        self._common: dict[tuple[int, int], NodeState] = {}
        times = {PRESENT}
        for span in to_come:
            times.add(span.start)
            times.add(span.end)
        times.discard(math.inf)
        self.times: list[float] = []
        self.states: list[NodeState] = []
        current: list[Span] = []
        cores, gpus, first_end = node_type.root.cores, node_type.root.gpus, math.inf
        for time in sorted(times):
            if first_end <= time:
                current = [span for span in current if span[1] > time]
                cores, gpus, first_end = node_type.root.cores, node_type.root.gpus, math.inf
                for _, end, its_cores, its_gpus, _, _ in current:
                    cores &= ~its_cores
                    gpus &= ~its_gpus
                    first_end = end if end < first_end else first_end
            while to_come and to_come[-1][0] <= time:
                span = to_come.pop()
                _, end, its_cores, its_gpus, _, _ = span
                if end > time:
                    current.append(span)
                    cores &= ~its_cores
                    gpus &= ~its_gpus
                    first_end = end if end < first_end else first_end
            state = table.get(node_type, cores, gpus)
            if not self.states or self.states[-1] is not state:
                self.times.append(time)
                self.states.append(state)

    def state(self, start: float, end: float) -> NodeState:
        """What is free on the rank throughout the time from *start* to *end*."""
        first = bisect_right(self.times, start) - 1
        last = bisect_left(self.times, end, first)
        if last - first == 1:
            return self.states[first]
        found = self._common.get((first, last))
        if found is None:
            found = self.states[first]
            for other in self.states[first + 1 : last]:
                cores, gpus = found.cores & other.cores, found.gpus & other.gpus
                if cores == other.cores and gpus == other.gpus:
                    found = other
                elif cores != found.cores or gpus != found.gpus:
                    found = self._table.get(found.type, cores, gpus)
            self._common[first, last] = found
        return found

    def openings(self, ask: Ask, start: float, end: float) -> Iterator[tuple[float, float]]:
        """When the rank may serve *ask*: each (begin, end) that overlaps *start* to *end*.

        Each is as long as it can be: it may begin before *start*, and end after *end*.
        """
        begin = math.nan
        for time, state in zip(self.times, self.states):
            if possible(state, ask):
                if math.isnan(begin):
                    begin = time
                    if begin >= end:
                        return
            elif not math.isnan(begin):
                if time > start:
                    yield begin, time
                begin = math.nan
        if not math.isnan(begin):
            yield begin, math.inf

    def starts(
        self, ask: Ask, length: float, first: float, last: float
    ) -> Iterator[tuple[float, float]]:
        """When a job of *length* may start on the rank, from *first* on and before *last*.

        The times are in parts, each (begin, end), and the same is free for all starts in one part.
        """
        for opens, closes in self.openings(ask, first, last):
            begin = max(first, opens)
            # The last start is as late as rounding allows.
            end = min(last, math.nextafter(math.nextafter(closes - length, math.inf), math.inf))
            if begin < end:
                # Once a state has passed there is more room, once another is reached there is less.
                times = {begin, *self.times}
                times.update(_first_beyond(time, length) for time in self.times)
                parts = sorted(time for time in times if begin <= time < end)
                yield from zip(parts, [*parts[1:], end])


class Futures:
    """Futures by the contents of nodes: their type, and the sum of the hashes of their spans.

    Ranks with equal contents share a future. One costs as much as several answers, so only contents
    that are asked for repeatedly have one. *nodes* is the number of nodes.
    """

    def __init__(self, nodes: int) -> None:
        self.made: dict[_Contents, Future] = {}
        self._asked: dict[_Contents, int] = {}
        self._most = max(nodes, _MOST)

    def should_make(self, contents: _Contents) -> bool:
        """Whether to make the future of *contents*; asked once per question."""
        asked = self._asked.get(contents, 0) + 1
        self._put(self._asked, contents, asked)
        return asked > _ASKED

    def keep(self, contents: _Contents, future: Future) -> None:
        """Keep the *future* of *contents*."""
        self._put(self.made, contents, future)

    def _put(self, table: dict[_Contents, T], contents: _Contents, value: T) -> None:
        """Put *value* into *table*; the oldest of too many entries is dropped."""
        if contents not in table and len(table) >= self._most:
            del table[next(iter(table))]
        table[contents] = value


def _first_beyond(time: float, length: float) -> float:
    """A start from which a job of *length* ends later than *time*, however numbers are rounded."""
    start = math.nextafter(time, math.inf) - length
    while start + length <= time < math.inf:
        start = math.nextafter(start, math.inf)
    return start
