"""The fit: what a node in a state can give to a request, and how many slots of a range are there.

A fit is a pure function of (state, ask), and the state remembers it. slots.py decides how many
units there are and what each takes. Some requests need a search (search.py), which may give up. The
fit then says so; it does not mean that such a node cannot serve the request.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import attrs

from treepool.placement.effort import Effort
from treepool.placement.nodes.kept import state_without_kept
from treepool.placement.nodes.state import MAX_FITS, NodeState
from treepool.placement.on_node.search import meets_demand
from treepool.placement.on_node.slots import Placer, Step
from treepool.placement.request.need import SLOT, Ask, Need, slot_of


class Segment(NamedTuple):
    """Consecutive units with the same place in the order: from the previous segment up to ``end``.

    ``shortfall`` is the Ask.shortfall of each unit. ``remote`` is True when some slot is in a
    larger kind of domain than the smallest that the idle node could offer.
    """

    end: int
    shortfall: int
    remote: bool


@attrs.frozen(eq=False)
class Fit:
    """What a node in some state can give to an ask.

    ``steps[i]`` is what i + 1 units take. A unit is a slot, or a domain with slots inside when a
    locality stands above the slot. An ask without ``fill`` has one step: all that it wants of the
    node. ``segments`` divide the steps, the best first. ``tried`` is the effort of a search. If it
    ``gave_up``, more steps may exist than are listed here, even if none is.
    """

    steps: tuple[Step, ...]
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
NOTHING = Fit((), ())


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
    """About how much work the fit of *state* is, in the units of effort.py (some 10 µs).

    Slots with two GPUs or more take most, because the GPUs are chosen by their links; and slots
    that take several domains, because each goes through all domains of the node.
    """
    gives = assess(state, ask)
    slot = 1 + 4 * min(ask.min_gpus, 2) ** 2
    if slot_of(ask.group).need.parts:
        slot += len(state.type.parent) // 2
    return 4 + len(gives.steps) * slot + gives.tried


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
    if ask.whole and group.need == Need():
        return _fit([Step(state.cores, state.gpus, 1, group.nslots)], [(0, False)], effort)
    if group.name == SLOT and group.whole and not meets_demand(state.type, state.gpus, group.need):
        return NOTHING
    steps = Placer(state, ask.locality, effort).units(group)
    if ask.fill:
        before = [0, *(step.nslots for step in steps)]
        orders = [(ask.shortfall(1, s.nslots - n), s.remote) for s, n in zip(steps, before)]
    else:
        number = group.count.largest(len(steps)) or 0
        remote = any(step.remote for step in steps[:number])
        steps = steps[number - 1 : number] if number else []
        orders = [(ask.shortfall(number, step.nslots), remote) for step in steps]
    if ask.whole:
        steps = [s._replace(cores=state.cores, gpus=state.gpus) for s in steps]
    if not steps or not steps[0].cores:  # RFC 20: a job has a core on each of its nodes
        steps, orders = [], []
    return _fit(steps, orders, effort)


def _fit(steps: list[Step], orders: list[tuple[int, bool]], effort: Effort) -> Fit:
    segments: list[Segment] = []
    for end, order in enumerate(orders, 1):
        if segments and segments[-1][1:] == order:
            segments[-1] = Segment(end, *order)
        else:
            segments.append(Segment(end, *order))
    return Fit(tuple(steps), tuple(segments), effort.tried, effort.gave_up)
