"""The fit: what a node in a state can give to a request, and how many slots of a range are there.

A fit is a pure function of (state, ask), and the state remembers it. slots.py decides how many
units there are and what each takes. Some requests need a search (search.py), which may give up. The
fit then says so; it does not mean that such a node cannot serve the request.
"""

from __future__ import annotations

from typing import Callable, Iterator, NamedTuple, Optional

import attrs

from treepool.placement.effort import Effort
from treepool.placement.nodes.kept import state_without_kept
from treepool.placement.nodes.state import MAX_FITS, NodeState
from treepool.placement.on_node.search import meets_demand
from treepool.placement.on_node.slots import Ids, Placer, Run, Units
from treepool.placement.request.need import SLOT, Ask, Need, least, slot_of


class Segment(NamedTuple):
    """Consecutive units with the same place in the order: from the previous segment up to ``end``.

    ``shortfall`` is the Ask.shortfall of each unit. ``remote`` is True when some slot is in a
    larger kind of domain than the smallest that the idle node could offer.
    """

    end: int
    shortfall: int
    remote: bool


@attrs.define(eq=False)
class Step:
    """What the first ``units`` units of a node take together, with ``nslots`` slots.

    The ids are chosen when they are first asked for. That is about so much ``work``, in the units
    of effort.py.
    """

    units: int
    nslots: int
    work: int
    _choose: Callable[[], Ids]
    _ids: Optional[Ids] = None

    def prepare(self) -> Iterator[int]:
        """Choose the ids if they are not known; yields the work."""
        if self._ids is None:
            self._ids = self._choose()
            yield self.work

    @property
    def ids(self) -> Ids:
        """The cores and GPUs, as bitmasks."""
        if self._ids is None:
            self._ids = self._choose()
        return self._ids

    @property
    def cores(self) -> int:
        """The cores, as bitmask."""
        return self.ids[0]

    @property
    def gpus(self) -> int:
        """The GPUs, as bitmask."""
        return self.ids[1]


class Steps:
    """What 1, 2, ... units take: so many are known, each *step* is made when it is looked at."""

    __slots__ = ("_known", "_number", "_step")

    def __init__(self, number: int, step: Callable[[int], Step]) -> None:
        self._number = number
        self._step = step
        self._known: dict[int, Step] = {}

    def __len__(self) -> int:
        return self._number

    def __getitem__(self, index: int) -> Step:
        place = index + self._number if index < 0 else index
        if not 0 <= place < self._number:
            raise IndexError(index)
        found = self._known.get(place)
        if found is None:
            found = self._known[place] = self._step(place + 1)
        return found

    def __iter__(self) -> Iterator[Step]:
        return map(self.__getitem__, range(self._number))


@attrs.frozen(eq=False)
class Fit:
    """What a node in some state can give to an ask.

    ``steps[i]`` is what i + 1 units take. A unit is a slot, or a domain with slots inside when a
    locality stands above the slot. An ask without ``fill`` has one step: all that it wants of the
    node. ``segments`` divide the steps, the best first. ``tried`` is the effort of a search. If it
    ``gave_up``, more steps may exist than are listed here, even if none is.
    """

    steps: Steps
    segments: tuple[Segment, ...]
    tried: int = 0
    gave_up: bool = False

    def share(self, segment: int) -> int:
        """How many units are in a segment."""
        return self.segments[segment].end - (self.segments[segment - 1].end if segment else 0)

    @property
    def local(self) -> int:
        """How many steps, from the first on, have all slots in the smallest kind of domain."""
        first = next((s for s in self.segments if s.remote), None)
        if first is None:
            return len(self.steps)
        before = self.segments.index(first)
        return self.segments[before - 1].end if before else 0


def _no_step(units: int) -> Step:
    raise IndexError(units)


#: The fit of a state that gives nothing, where a comparison of numbers is enough to decide that.
NOTHING = Fit(Steps(0, _no_step), ())


def fit(state: NodeState, ask: Ask) -> Optional[Fit]:
    """What *state* can give to *ask*, None if nothing; the state remembers it."""
    gives = assess(state, ask)
    return gives if gives.steps else None


def assess(state: NodeState, ask: Ask) -> Fit:
    """The fit of *state* with the effort it took; it has no steps if *state* gives nothing."""
    try:
        gives: Fit = state.fits[ask]
        return gives
    except KeyError:
        if len(state.fits) >= MAX_FITS:
            state.fits.clear()
        gives = state.fits[ask] = _assessed(state, ask)
        return gives


def seen(state: NodeState, ask: Ask) -> NodeState:
    """*state* as a job sees it that asks for *ask*: without what is kept for jobs with GPUs."""
    return state_without_kept(state, ask.spare) if ask.spare else state


def work_of(state: NodeState, ask: Ask) -> int:
    """About how much work the fit of *state* is, in the units of effort.py (some 10 µs)."""
    return 4 + _work_of_unit(state, ask) + assess(state, ask).tried


def _work_of_unit(state: NodeState, ask: Ask) -> int:
    """About how much work it is to choose what a unit takes.

    Slots with two GPUs or more take most, because the GPUs are chosen by their links; and slots
    that take several domains, because each goes through all domains of the node.
    """
    below = len(state.type.parent) // 2 if slot_of(ask.group).need.parts else 0
    return 1 + 4 * min(ask.min_gpus, 2) ** 2 + below


def compute(state: NodeState, ask: Ask) -> Optional[Fit]:
    """What *state* can give to *ask*, None if nothing; always computed, never remembered."""
    gives = _assessed(state, ask)
    return gives if gives.steps else None


def possible(state: NodeState, ask: Ask) -> bool:
    """False if the totals of free cores and GPUs rule out that *state* gives *ask* anything."""
    return _possible(seen(state, ask), ask)


def _possible(state: NodeState, ask: Ask) -> bool:
    if state.ncores < ask.min_cores or state.ngpus < ask.min_gpus:
        return False
    return state.idle if ask.whole else True


def most_units(state: NodeState, ask: Ask) -> int:
    """At most how many units *state* gives to *ask*, by the numbers of free cores and GPUs."""
    state = seen(state, ask)
    if not _possible(state, ask):
        return 0
    if not ask.fill:
        return 1
    units = state.ncores // ask.min_cores
    if ask.min_gpus:
        units = min(units, state.ngpus // ask.min_gpus)
    most = ask.group.count.maximum
    return units if most is None else min(units, most)


def _assessed(state: NodeState, ask: Ask) -> Fit:
    state, group, effort = seen(state, ask), ask.group, Effort()
    if not _possible(state, ask):
        return NOTHING
    everything = state.cores, state.gpus
    whole = group.name == SLOT and group.whole
    if whole and not meets_demand(state.type, state.gpus, group.need):
        return NOTHING
    if ask.whole and group.need == Need():
        units = Units([Run(1, group.nslots, False)], lambda _: everything)
    else:
        units = Placer(state, ask.locality, effort).units(group)
        if not (ask.whole or least(slot_of(group).need)[0] or _has_core(units)):
            units = Units([], units.take)
    total = sum(run.units for run in units.runs)
    if ask.fill:
        runs = [(r.units, Segment(0, ask.shortfall(1, r.nslots), r.remote)) for r in units.runs]
    else:
        number = group.count.largest(total) or 0
        nslots, remote = units.first(number)
        runs = [(1, Segment(0, ask.shortfall(number, nslots), remote))] if number else []

    def step(place: int) -> Step:
        first = place if ask.fill else number
        nslots, _ = units.first(first)
        work = first * _work_of_unit(state, ask)
        return Step(first, nslots, work, lambda: everything if ask.whole else units.take(first))

    segments: list[Segment] = []
    end = 0
    for length, segment in runs:
        end += length
        if segments and segments[-1][1:] == segment[1:]:
            segments.pop()
        segments.append(segment._replace(end=end))
    return Fit(Steps(end, step), tuple(segments), effort.tried, effort.gave_up)


def _has_core(units: Units) -> bool:
    """Whether the first unit has a core, as RFC 20 says of a job on each of its nodes."""
    return bool(units.runs) and units.take(1)[0] != 0
