"""The fit: what a node in a state can give to a request, and how many slots of a range are there.

A fit is a pure function of (state, ask), and the state remembers it. units.py and slots.py count
the units, and choose what those take that somebody asks for. Some requests need a search
(place.py), which may give up. The fit then says so; it does not mean that such a node cannot serve
the request.
"""

from __future__ import annotations

from typing import Iterable, Iterator, NamedTuple, Optional

import attrs

from treepool.placement.effort import Effort, GaveUp
from treepool.placement.nodes.kept import state_without_kept
from treepool.placement.nodes.state import MAX_FITS, NodeState
from treepool.placement.on_node.ids import Ids
from treepool.placement.on_node.place import meets_demand
from treepool.placement.on_node.units import NO_UNITS, Placer, Run, Units
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

    Which ids these are is chosen when somebody asks. That is about so much ``work``, in the units
    of effort.py.
    """

    units: int
    nslots: int
    work: int
    _source: Units
    _ids: Optional[Ids] = None

    @property
    def ids(self) -> Ids:
        """The cores and GPUs, as bitmasks."""
        if self._ids is None:
            self._ids = self._source.take(self.units)
        return self._ids

    @property
    def cores(self) -> int:
        """The cores, as bitmask."""
        return (self._ids or self.ids)[0]

    @property
    def gpus(self) -> int:
        """The GPUs, as bitmask."""
        return (self._ids or self.ids)[1]

    def prepare(self) -> Iterator[int]:
        """Choose the ids if they are not known; yields the work."""
        if self._ids is None:
            self._ids = self._source.take(self.units)
            yield self.work


class Steps:
    """What 1, 2, ... units of a node take; without *fill* there is one step, for *number* units.

    So many are known, a step is made when somebody looks at it. A unit is about so much *work* to
    choose.
    """

    __slots__ = ("fill", "known", "number", "units", "work")

    def __init__(self, units: Units, number: int, fill: bool, work: int) -> None:
        self.units = units
        self.number = number
        self.fill = fill
        self.work = work
        self.known: dict[int, Step] = {}

    def __len__(self) -> int:
        return self.number if self.fill else min(1, self.number)

    def __getitem__(self, index: int) -> Step:
        found = self.known.get(index)
        if found is None:
            place = index + len(self) if index < 0 else index
            if not 0 <= place < len(self):
                raise IndexError(index)
            number = place + 1 if self.fill else self.number
            nslots, _ = _first(self.units.runs, number)
            made = Step(number, nslots, number * self.work, self.units)
            found = self.known.setdefault(place, made)
        return found

    def __iter__(self) -> Iterator[Step]:
        return map(self.__getitem__, range(len(self)))


def _first(runs: Iterable[Run], units: int) -> tuple[int, bool]:
    """How many slots the first *units* of *runs* have, and whether some of them is remote."""
    nslots, remote = 0, False
    for run in runs:
        number = min(run.units, units)
        if number:
            nslots, remote = nslots + number * run.nslots, remote or run.remote
        units -= number
    return nslots, remote


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


#: The fit of a state that gives nothing, where a comparison of numbers is enough to decide that.
NOTHING = Fit(Steps(NO_UNITS, 0, True, 0), ())


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
    whole = group.name == SLOT and group.whole
    if whole and not meets_demand(state.type, state.gpus, group.need):
        return NOTHING
    everything = state.cores, state.gpus
    units = Units([Run(1, group.nslots, False)], lambda number: everything)
    if not ask.whole or group.need != Need():
        try:
            placed = Placer(state, ask.locality, effort).units(group)
        except GaveUp:  # whether GPUs are joined at all
            effort.gave_up, placed = True, NO_UNITS
        units = Units(placed.runs, units.take) if ask.whole else placed
    runs = units.runs
    if runs and not (ask.whole or least(slot_of(group).need)[0] or units.take(1)[0]):
        runs = []  # RFC 20: a job has a core on each of its nodes
    number = sum(run.units for run in runs)
    orders = [(run.units, ask.shortfall(1, run.nslots), run.remote) for run in runs]
    if not ask.fill:
        number = group.count.largest(number) or 0
        nslots, remote = _first(runs, number)
        orders = [(1, ask.shortfall(number, nslots), remote)] if number else []
    segments: list[Segment] = []
    end = 0
    for length, shortfall, remote in orders:
        end += length
        if segments and segments[-1][1:] == (shortfall, remote):
            segments.pop()
        segments.append(Segment(end, shortfall, remote))
    steps = Steps(units, number, ask.fill, _work_of_unit(state, ask))
    return Fit(steps, tuple(segments), effort.tried, effort.gave_up)
