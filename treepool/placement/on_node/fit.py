"""The fit: which ids a request takes from a node in a given state.

A pure function of (state, ask), remembered on the state: units.py says how many units there are
and what each takes. A request for which that takes a search (search.py) may be too hard; its fit
then says so, and is no answer that such a node cannot serve it.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import attrs

from treepool.placement.effort import PER_STATE, Effort
from treepool.placement.nodes.state import MAX_FITS, NodeState
from treepool.placement.on_node.search import meets_demand
from treepool.placement.on_node.units import Placer
from treepool.placement.request.need import SLOT, Ask, Need


@attrs.frozen(eq=False)
class Step:
    """What some units take together: cores and GPUs (bitmasks), and how many slots they are."""

    cores: int
    gpus: int
    nslots: int


class Segment(NamedTuple):
    """Units, from where the segment before ends up to ``end``, that stand together in the order.

    ``shortfall`` is Ask.shortfall of each; ``remote`` tells that some slot is in a larger kind of
    domain than the smallest that the node, idle, could offer.
    """

    end: int
    shortfall: int
    remote: bool


@attrs.frozen(eq=False)
class Fit:
    """What a node in some state can give to an ask.

    ``steps[i]`` is what i + 1 units take: slots, or domains with slots inside when a locality
    stands above the slot; an ask without ``fill`` has one step, all it wants of the node.
    ``segments`` divide them, the best first. ``tried`` is how many choices a search tried; if it
    ``gave_up``, there may be more steps than these, which may be none.
    """

    steps: tuple[Step, ...]
    segments: tuple[Segment, ...]
    tried: int = 0
    gave_up: bool = False

    @property
    def local(self) -> int:
        """How many of the first steps have all slots in the smallest kind of domain."""
        first = next((s for s in self.segments if s.remote), None)
        if first is None:
            return len(self.steps)
        before = self.segments.index(first)
        return self.segments[before - 1].end if before else 0


#: The fit of a state that gives nothing, as arithmetic tells.
NOTHING = Fit((), ())

#: Fits worked out, for tests that count work instead of time.
computed = 0


def fit(state: NodeState, ask: Ask) -> Optional[Fit]:
    """What *state* can give to *ask*, None if nothing; remembered on the state."""
    found = assess(state, ask)
    return found if found.steps else None


def assess(state: NodeState, ask: Ask) -> Fit:
    """The fit of *state*, which has no steps if it gives nothing, and what finding out took."""
    try:
        found: Fit = state.fits[ask]
        return found
    except KeyError:
        if len(state.fits) >= MAX_FITS:
            state.fits.clear()
        found = state.fits[ask] = _assessed(state, ask)
        return found


def compute(state: NodeState, ask: Ask) -> Optional[Fit]:
    """What *state* can give to *ask*, None if nothing, worked out afresh."""
    found = _assessed(state, ask)
    return found if found.steps else None


def possible(state: NodeState, ask: Ask) -> bool:
    """False if a look at what is free in all tells that *state* gives nothing to *ask*."""
    if state.ncores < ask.min_cores or state.ngpus < ask.min_gpus:
        return False
    return state.idle if ask.whole else True


def _assessed(state: NodeState, ask: Ask) -> Fit:
    global computed
    computed += 1
    group = ask.group
    if not possible(state, ask):
        return NOTHING
    if ask.whole and group.need == Need():
        return _fit([Step(state.cores, state.gpus, group.nslots)], [(0, False)])
    if group.name == SLOT and group.whole and not meets_demand(state.type, state.gpus, group.need):
        return NOTHING
    effort = Effort(PER_STATE)
    units = Placer(state, ask.locality, effort).units(group)
    steps = [Step(unit.cores, unit.gpus, unit.nslots) for unit in units]
    if ask.fill:
        before = [0, *(unit.nslots for unit in units)]
        orders = [(ask.shortfall(1, u.nslots - n), u.remote) for u, n in zip(units, before)]
    else:
        number = group.count.largest(len(units)) or 0
        remote = any(unit.remote for unit in units[:number])
        steps = steps[number - 1 : number] if number else []
        orders = [(ask.shortfall(number, step.nslots), remote) for step in steps]
    if ask.whole:
        steps = [attrs.evolve(s, cores=state.cores, gpus=state.gpus) for s in steps]
    if not steps or not steps[0].cores:  # RFC 20: a job has a core on each of its nodes
        steps, orders = [], []
    return _fit(steps, orders, effort)


def _fit(steps: list[Step], orders: list[tuple[int, bool]], effort: Optional[Effort] = None) -> Fit:
    segments: list[Segment] = []
    for end, order in enumerate(orders, 1):
        if segments and segments[-1][1:] == order:
            segments[-1] = Segment(end, *order)
        else:
            segments.append(Segment(end, *order))
    if effort is None:
        return Fit(tuple(steps), tuple(segments))
    return Fit(tuple(steps), tuple(segments), effort.tried, effort.gave_up)
