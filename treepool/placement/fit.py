"""The fit: which ids a request takes from a node in a given state.

Everything here is a pure function of (state, ask). Slots are placed one after another, each in
the best way that is left (match.py says in which domains, spread.py which ids). If fewer fit that
way than could, all ways are searched, so that the number of slots is exact. See DESIGN
"Placement rules".
"""

from __future__ import annotations

from functools import partial
from typing import Callable, Iterator, Optional, Sequence

import attrs

from treepool.placement.ids import ids_of
from treepool.placement.match import BUDGET, Matcher, TooHard, meets_demand
from treepool.placement.need import SLOT, Ask, Need, Part
from treepool.placement.spread import (
    amount_levels,
    lowest_ids,
    smallest_host,
    spread,
    usable_gpus,
)
from treepool.placement.state import MAX_FITS, NodeState
from treepool.placement.tree import NodeType
from treepool.rfc.count import Count


@attrs.frozen(eq=False)
class Step:
    """What some slots take together: cores and GPUs (bitmasks), and how many slots they are."""

    cores: int
    gpus: int
    nslots: int


@attrs.frozen(eq=False)
class Fit:
    """What a node in some state can give to an ask.

    ``steps[i]`` is what i + 1 units take: slots, or domains with slots inside when a locality
    stands above the slot; an ask without ``fill`` has one step, all it wants of the node. The
    first ``local`` steps have every slot in the smallest kind of domain that the node, idle,
    could offer, if ranges inside the group are at their least.
    """

    steps: tuple[Step, ...]
    local: int


#: Choices tried for one ask over all states, beyond which a search may take only SCRAPS more: a
#: request made to be hard costs the scheduler seconds in all, not on each of thousands of states.
TOTAL_BUDGET = 50_000
SCRAPS = 100

#: Calls of compute(), for tests that count work instead of time.
computed = 0


def fit(state: NodeState, ask: Ask) -> Optional[Fit]:
    """What *state* can give to *ask*, None if nothing; remembered on the state."""
    try:
        return state.fits[ask]
    except KeyError:
        if len(state.fits) >= MAX_FITS:
            state.fits.clear()
        found = state.fits[ask] = compute(state, ask)
        return found


def possible(state: NodeState, ask: Ask) -> bool:
    """False if a look at what is free in all tells that *state* gives nothing to *ask*."""
    if state.ncores < ask.min_cores or state.ngpus < ask.min_gpus:
        return False
    return state.idle if ask.whole else True


def compute(state: NodeState, ask: Ask) -> Optional[Fit]:
    """What *state* can give to *ask*, None if nothing, worked out afresh."""
    global computed
    computed += 1
    if not possible(state, ask):
        return None
    if ask.whole and ask.group.need == Need():
        return Fit((Step(state.cores, state.gpus, ask.group.nslots),), 1)
    placer = _Placer(state, ask)
    group = ask.group
    need = group.need
    if group.name == SLOT and group.whole and not meets_demand(state.type, state.gpus, need):
        return None
    if group.name == SLOT and not need.parts and not need.fair_share and need.demand is None:
        total, nlocal = placer.amounts(need, group.count.maximum)
        local = total[:nlocal]
    else:
        local = placer.most(group, group.count.maximum, True)
        total = local
        if ask.locality == "preferred" and len(local) != group.count.maximum:
            total = placer.most(group, group.count.maximum, False)
            if len(total) < len(local):  # a search was given up
                total = local
    if ask.locality == "required":
        total = local
    if ask.fill:
        counts: Sequence[int] = range(1, len(total) + 1)
    else:
        wanted = group.count.largest(len(total))
        counts = [] if wanted is None else [wanted]
    steps: list[Step] = []
    for count in counts:
        step = (local if count <= len(local) else total)[count - 1]
        if any(_ranges(group)):
            step = placer.grown(group, count, ask.locality == "required", step)
        steps.append(step)
    if ask.whole:
        steps = [attrs.evolve(s, cores=state.cores, gpus=state.gpus) for s in steps]
    if not steps or not steps[0].cores:  # RFC 20: a job has a core on each of its nodes
        return None
    return Fit(tuple(steps), sum(count <= len(local) for count in counts))


class _Placer:
    """Places units of a group on a node in one state."""

    def __init__(self, state: NodeState, ask: Ask) -> None:
        self.state = state
        self.node_type = state.type
        self.plain = ask.locality == "none"
        self.tried = ask.tried

    def most(self, group: Part, limit: Optional[int], local: bool) -> list[Step]:
        """The steps of 1, 2, ... units, up to *limit* or as many as there is any way for."""
        if group.name == SLOT:
            return self._most_slots(group, limit, local)
        steps: list[Step] = []
        while limit is None or len(steps) < limit:
            step = self.exactly(group, len(steps) + 1, local)
            if step is None:
                break
            steps.append(step)
        return steps

    def amounts(self, need: Need, limit: Optional[int]) -> tuple[list[Step], int]:
        """The steps of 1, 2, ... slots of nothing but an amount, and how many of them are local.

        What most(group, limit, True) and most(group, limit, False) find for such slots, without
        a matcher: one slot takes as much from the node as any other, so one after another is
        exact. Six slots of ``[core=8;gpu=1]`` on a node of RFC 49's cluster A take 50 us this
        way, 145 us with a matcher.
        """
        root = self.node_type.root
        levels = amount_levels(self.node_type, need)
        usable = self.state.gpus & usable_gpus(self.node_type, root, need)
        cores, gpus = self.state.cores, usable
        want = need.gpus, need.cores
        steps: list[Step] = []
        nlocal = 0
        if need.storage > self.node_type.storage:
            return steps, 0
        while limit is None or len(steps) < limit:
            host = smallest_host(root, need, levels, cores, gpus)
            if host is None:
                break
            if self.plain:
                taken_cores, taken_gpus = lowest_ids(root, want, cores, gpus)
                nlocal += 1
            else:
                links = self.node_type.links
                taken_cores, taken_gpus = spread(host, want, cores, gpus, links)
                # Slots are alike and only use things up: once one is not local, none after it is.
                nlocal += levels[host] == 0
            cores &= ~taken_cores
            gpus &= ~taken_gpus
            steps.append(Step(self.state.cores & ~cores, usable & ~gpus, len(steps) + 1))
        return steps, nlocal

    def exactly(self, group: Part, count: int, local: bool) -> Optional[Step]:
        """*count* units of *group*, None if there is no way."""
        if group.name == SLOT:
            steps = self._most_slots(group, count, local)
            return steps[-1] if len(steps) == count else None
        fixed = _counted(group, count)
        matcher = self._matcher(self.state.cores, self.state.gpus, local)
        return self._step(matcher, fixed.nslots) if self._found(matcher, fixed) else None

    def _most_slots(self, group: Part, limit: Optional[int], local: bool) -> list[Step]:
        """Slots one after another; then, if some bound allows for more, all ways of one more."""
        one = _counted(group, 1)
        cores, gpus = self.state.cores, self.state.gpus
        steps: list[Step] = []
        while limit is None or len(steps) < limit:
            matcher = self._matcher(cores, gpus, local)
            if not self._found(matcher, one):
                break
            taken_cores, taken_gpus = ids_of(matcher.takes, self.node_type, cores, gpus, self.plain)
            cores &= ~taken_cores
            gpus &= ~taken_gpus
            steps.append(Step(self.state.cores & ~cores, self.state.gpus & ~gpus, len(steps) + 1))
        while limit is None or len(steps) < limit:
            matcher = self._matcher(self.state.cores, self.state.gpus, local)
            more = len(steps) + 1
            if matcher.room_for(self.node_type.root, group) < more:
                break
            search = partial(Matcher.several, scope=self.node_type.root, part=group, count=more)
            if not self._searched(matcher, search):
                break
            steps.append(self._step(matcher, more))
        return steps

    def grown(self, group: Part, count: int, required: bool, step: Step) -> Step:
        """*step* with the ranges inside *group* at their largest.

        Outer ranges first, each while those inside are at their least. The largest count counts
        more than locality, unless *required*.
        """
        grown = _counted(group, count)
        most = _most_inside(self.node_type)
        for path in _ranges(grown):
            values = list(_at(grown, path).count.valid(most))  # descending
            # What fits with more fits with less, so the largest is found by halving; but three
            # domains may be near each other, in a larger kind of domain, where two are not.
            first, last = 0, len(values) - 1
            while first < last:
                middle = first if required else (first + last) // 2
                tried = _with_count(grown, path, values[middle])
                if self.exactly(tried, count, required) is not None:
                    last = middle
                else:
                    first = middle + 1
            grown = _with_count(grown, path, values[last])
        return self.exactly(grown, count, True) or self.exactly(grown, count, False) or step

    def _matcher(self, cores: int, gpus: int, local: bool) -> Matcher:
        local = local and not self.plain
        budget = max(SCRAPS, min(BUDGET, TOTAL_BUDGET - self.tried[0]))
        return Matcher(self.node_type, cores, gpus, local, self.plain, budget)

    def _found(self, matcher: Matcher, part: Part) -> bool:
        search = partial(Matcher.one, scope=self.node_type.root, part=part)
        return self._searched(matcher, search)

    def _searched(self, matcher: Matcher, search: Callable[[Matcher], bool]) -> bool:
        """What *search* finds; a search too long to finish counts as no."""
        try:
            return search(matcher)
        except TooHard:
            return False
        finally:
            self.tried[0] += matcher.tried

    def _step(self, matcher: Matcher, nslots: int) -> Step:
        state = self.state
        ids = ids_of(matcher.takes, self.node_type, state.cores, state.gpus, self.plain)
        return Step(*ids, nslots)


def _most_inside(node_type: NodeType) -> int:
    """No count inside a node can be larger than this."""
    return max(len(node_type.parent), node_type.root.ncores + node_type.root.ngpus)


# -- counts inside a part, by the path of places that leads to them


def _counted(part: Part, count: int) -> Part:
    if part.count.minimum == part.count.maximum == count:
        return part
    return attrs.evolve(part, count=Count(count, count))


def _ranges(part: Part) -> Iterator[tuple[int, ...]]:
    """The paths of the parts inside *part* whose count is a range, outer ones first."""
    for i, inner in enumerate(part.need.parts):
        if not part.whole or inner.name == SLOT:
            if not inner.count.fixed:
                yield (i,)
            yield from ((i, *path) for path in _ranges(inner))


def _at(part: Part, path: tuple[int, ...]) -> Part:
    for i in path:
        part = part.need.parts[i]
    return part


def _with_count(part: Part, path: tuple[int, ...], count: int) -> Part:
    """*part* with the count at *path* set to *count*."""
    if not path:
        return _counted(part, count)
    parts = list(part.need.parts)
    parts[path[0]] = _with_count(parts[path[0]], path[1:], count)
    return attrs.evolve(part, need=attrs.evolve(part.need, parts=tuple(parts)))
