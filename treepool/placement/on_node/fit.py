"""The fit: what a node in a state can give to a request, and how many slots of a range are there.

A fit is a pure function of (state, ask), and the state remembers it. units.py and place.py count
the units, and choose what those take that somebody asks for. Some requests need a search, which may
give up. The fit then says so; it does not mean that such a node cannot serve the request.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional

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
class Fit:
    """What a node in some state can give to an ask.

    A unit is a slot, or a domain with slots inside when a locality stands above the slot.
    ``steps`` are the numbers of units that it can give: 1, 2, ... of them, or for an ask without
    ``fill`` all that it wants of the node. ``segments`` divide the steps, the best first. ``tried``
    is the effort of a search. If it ``gave_up``, more steps may exist, even if there is none here.

    Which ids a unit takes is about so much ``work`` to choose, in the units of effort.py. It is
    done when somebody asks.
    """

    steps: range
    segments: tuple[Segment, ...] = ()
    units: Units = NO_UNITS
    work: int = 0
    tried: int = 0
    gave_up: bool = False
    _ids: dict[int, Ids] = attrs.field(factory=dict)

    def share(self, segment: int) -> int:
        """How many units are in a segment."""
        return self.segments[segment].end - (self.segments[segment - 1].end if segment else 0)

    @property
    def local(self) -> int:
        """How many steps, from the first on, have all slots in the smallest kind of domain."""
        end = 0
        for segment in self.segments:
            if segment.remote:
                break
            end = segment.end
        return end

    def nslots(self, step: int) -> int:
        """How many slots a step has."""
        return self.units.first(self.steps[step])[0]

    def ids(self, step: int) -> Ids:
        """The cores and GPUs that a step takes, as bitmasks."""
        found = self._ids.get(step)
        if found is None:
            found = self._ids[step] = self.units.take(self.steps[step])
        return found

    def prepare(self, step: int) -> Iterator[int]:
        """Choose the ids of a step if they are not known; yields the work."""
        if step not in self._ids:
            self.ids(step)
            yield self.steps[step] * self.work


#: The fit of a state that gives nothing, where a comparison of numbers is enough to decide that.
NOTHING = Fit(range(0))


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
    return most_units(state, ask) > 0


def most_units(state: NodeState, ask: Ask) -> int:
    """At most how many units *state* gives to *ask*, by the numbers of free cores and GPUs."""
    state = seen(state, ask)
    if state.ncores < ask.min_cores or state.ngpus < ask.min_gpus:
        return 0
    if ask.whole and not state.idle:
        return 0
    if not ask.fill:
        return 1
    units = state.ncores // ask.min_cores
    if ask.min_gpus:
        units = min(units, state.ngpus // ask.min_gpus)
    most = ask.group.count.maximum
    return units if most is None else min(units, most)


def _assessed(state: NodeState, ask: Ask) -> Fit:
    if not possible(state, ask):
        return NOTHING
    state, group, effort = seen(state, ask), ask.group, Effort()
    units = _units(state, ask, effort)
    number = sum(run.units for run in units.runs)
    orders = [(run.units, ask.shortfall(1, run.nslots), run.remote) for run in units.runs]
    if not ask.fill:
        number = group.count.largest(number) or 0
        nslots, remote = units.first(number)
        orders = [(1, ask.shortfall(number, nslots), remote)] if number else []
    segments: list[Segment] = []
    end = 0
    for length, shortfall, remote in orders:
        end += length
        if segments and segments[-1][1:] == (shortfall, remote):
            segments.pop()
        segments.append(Segment(end, shortfall, remote))
    steps = range(1 if ask.fill or not number else number, number + 1)
    work = _work_of_unit(state, ask)
    return Fit(steps, tuple(segments), units, work, effort.tried, effort.gave_up)


def _units(state: NodeState, ask: Ask, effort: Effort) -> Units:
    """The units of *ask* that *state* gives; a whole node is one with all slots in it."""
    group = ask.group
    if group.name == SLOT and group.whole and not meets_demand(state.type, state.gpus, group.need):
        return NO_UNITS
    everything = state.cores, state.gpus
    units = Units([Run(1, group.nslots, False)], lambda number: everything)
    if not ask.whole or group.need != Need():
        try:
            placed = Placer(state, ask.locality, effort).units(group)
        except GaveUp:  # whether GPUs are joined at all
            effort.gave_up, placed = True, NO_UNITS
        units = Units(placed.runs, units.take) if ask.whole else placed
    if units.runs and not (ask.whole or least(slot_of(group).need)[0] or units.take(1)[0]):
        return NO_UNITS  # RFC 20: a job has a core on each of its nodes
    return units
