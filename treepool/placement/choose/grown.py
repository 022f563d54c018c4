"""The counts below the slot: how large they can be, the same for all slots of a job.

A count on or above the slot is chosen by the node, or the domain, that serves it. A count below the
slot is settled here, by serving the request with one value after another. ``grown`` is a generator
of the requests to serve, so that whoever serves them may do other things in between.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import groupby, product
from typing import Callable, Generator, NamedTuple, Optional, Sequence

import attrs

from treepool.placement.choose.selection import Selection
from treepool.placement.effort import PER_ATTEMPT, Effort
from treepool.placement.nodes.index import NodeIndex
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.tree import Domain, NodeType
from treepool.placement.request.need import Growing, Need, ask_of, slot_of, with_count
from treepool.placement.request.vertices import Request
from treepool.rfc import idset

#: The effort to see that a node, or the pool, has less than an attempt needs.
_ARITHMETIC = 2


class Found(NamedTuple):
    """A request with what it leaves open settled, and what it gets; None if nothing.

    ``values`` are those of its counts below the slot.
    """

    request: Request
    selection: Optional[Selection]
    values: tuple[int, ...] = ()

    def better(self, other: Found) -> bool:
        """Whether this selection is preferred to that of *other*: counts first, then locality."""
        if self.selection is None or other.selection is None:
            return self.selection is not None
        return self._key(self.selection) < other._key(other.selection)

    def _key(self, selection: Selection) -> tuple[object, ...]:
        units, nslots, remote = selection.preference
        return units, nslots, [-value for value in self.values], remote


#: Settles what a request leaves open: yields one request after another to be served as it is, is
#: sent what each gets, and returns the best.
Steps = Generator[Request, Optional[Selection], Found]


def grown(request: Request, inventory: Inventory, index: NodeIndex, effort: Effort) -> Steps:
    """What *request* gets with the counts below its slot as large as possible.

    The counts on and above the slot have priority over them. Among the counts below the slot, the
    outer ones have priority. What was found when no *effort* is left is the answer.
    """
    if not request.growing:
        return Found(request, (yield request))

    def attempt(values: Sequence[int], locality: str = request.ask.locality) -> Steps:
        effort.tried += PER_ATTEMPT
        one = _settled(request, values, locality)
        return Found(one, (yield one), tuple(values))

    values = [_values(growing, inventory) for growing in request.growing]
    smallest = [those[-1] for those in values]
    if request.ask.locality != "required":
        return (yield from _largest(values, attempt, (yield from attempt(smallest)), effort))
    most = (yield from attempt(smallest, "none")).selection
    if most is None:
        return Found(request, None)
    return (
        yield from _largest_local(values, attempt, request, most.extent, inventory, index, effort)
    )


def _settled(request: Request, values: Sequence[int], locality: str) -> Request:
    """*request* with these *values* of its counts below the slot."""
    ask = request.ask
    group = ask.group
    for growing, value in zip(request.growing, values):
        group = with_count(group, growing, value)
    return attrs.evolve(request, ask=ask_of(group, ask.fill, ask.whole, locality), growing=())


def _values(growing: Growing, inventory: Inventory) -> list[int]:
    """The valid values of a count that some node may have room for, descending; never empty."""
    types = inventory.node_types
    if growing.what == "core":
        most = max((t.root.ncores for t in types), default=0)
    elif growing.what == "gpu":
        most = max((idset.size(t.root.gpus) for t in types), default=0)
    else:
        most = max((len(t.named.get(growing.what, ())) for t in types), default=0)
    return list(growing.count.valid(most)) or [growing.count.minimum]


def _largest(
    values: list[list[int]], attempt: Callable[..., Steps], smallest: Found, effort: Effort
) -> Steps:
    """The best choice if a smaller count always fits when a larger one does: by bisection.

    *smallest* is the choice with the smallest values.
    """
    best, settled = smallest, [those[-1] for those in values]
    if best.selection is None:
        return best
    extent = best.selection.extent
    for place, those in enumerate(values):
        first, last = 0, len(those) - 1  # those[last] is known to fit
        while first < last and effort.allows(0):
            middle = (first + last) // 2
            found = yield from attempt([*settled[:place], those[middle], *settled[place + 1 :]])
            if found.selection is not None and found.selection.extent == extent:
                last, best = middle, found
            else:
                first = middle + 1
        settled[place] = those[last]
    return best


def _largest_local(
    values: list[list[int]],
    attempt: Callable[..., Steps],
    request: Request,
    most: tuple[int, int],
    inventory: Inventory,
    index: NodeIndex,
    effort: Effort,
) -> Steps:
    """The best choice with locality=required: a larger count may fit where a smaller one does not,
    because the smallest domain for it is another.

    First, each count in turn is tried as if that were not so, and then all combinations of counts
    that may be better. For that, the values are divided into runs for which the smallest domains
    are the same. In each combination of runs, the smallest values fit best, and show whether larger
    ones are worth a try. This ends when as much is served as *most*, which could be served without
    regard to locality.
    """
    free, best = _free(index), Found(request, None)

    def noted(settled: Sequence[int]) -> Steps:
        nonlocal best
        if _exceeds(_settled(request, settled, "required"), free):
            effort.tried += _ARITHMETIC
            return Found(request, None)
        found = yield from attempt(settled)
        best = found if _larger(found, best) else best
        return found

    smallest = [those[-1] for those in values]
    for place, those in enumerate(values):
        first, last = 0, len(those) - 1
        while first < last:
            middle = (first + last) // 2
            trial = [*smallest[:place], those[middle], *smallest[place + 1 :]]
            if _exceeds(_settled(request, trial, "required"), free):
                first = middle + 1
            else:
                last = middle
        values[place] = those[first:]
    yield from _largest(values, noted, (yield from noted(smallest)), effort)
    runs = [_runs(those, g, request, inventory) for those, g in zip(values, request.growing)]
    for cell in product(*runs):
        largest = tuple(run[0] for run in cell)
        complete = best.selection is not None and best.selection.extent >= most
        if (complete and largest <= best.values) or not effort.allows(0):
            break
        found = yield from noted([run[-1] for run in cell])
        if _larger(found._replace(values=largest), best):
            yield from _largest(list(cell), noted, found, effort)
    return best


def _free(index: NodeIndex) -> tuple[int, int, int, int]:
    """The free cores and GPUs of all nodes that are up, and the most that one of them has."""
    counts = [(state.ncores, state.ngpus, len(ranks)) for state, ranks in index.buckets.items()]
    return (
        sum(cores * number for cores, _, number in counts),
        sum(gpus * number for _, gpus, number in counts),
        max((cores for cores, _, _ in counts), default=0),
        max((gpus for _, gpus, _ in counts), default=0),
    )


def _exceeds(request: Request, free: tuple[int, int, int, int]) -> bool:
    """Whether *request* needs more than is *free*, by the numbers of cores and GPUs alone."""
    ask, times = request.ask, request.least_asks
    cores, gpus, most_cores, most_gpus = free
    return (
        ask.min_cores > most_cores
        or ask.min_gpus > most_gpus
        or times * ask.min_cores > cores
        or times * ask.min_gpus > gpus
    )


def _larger(found: Found, best: Found) -> bool:
    """Whether *found* serves more than *best*, or as much with larger counts below the slot."""
    if found.selection is None or best.selection is None:
        return found.selection is not None
    return (found.selection.extent, found.values) > (best.selection.extent, best.values)


def _runs(
    values: list[int], growing: Growing, request: Request, inventory: Inventory
) -> list[list[int]]:
    """*values* (descending) in runs for which the smallest domains that could host them are the
    same, so that a smaller value always fits when a larger one does.

    That is known of the cores of slots that need nothing besides: the runs end at sizes of domains.
    Where it is not known, each value is a run.
    """
    group = request.ask.group
    slot = slot_of(group)
    several = request.nodes is not None and group is not slot and not group.count.fixed
    if growing.what != "core" or several or not _is_chain(slot.need):
        return [[value] for value in values]
    sizes: set[int] = set()
    for node_type in inventory.node_types:
        if _has_nested(node_type):
            return [[value] for value in values]
        sizes.update(domain.ncores for domain in node_type.parent)
    ordered = sorted(sizes)
    return [list(run) for _, run in groupby(values, lambda value: bisect_left(ordered, value))]


def _has_nested(node_type: NodeType) -> bool:
    """Whether some domain is inside another of its locality: one may then be in the way of both."""
    above: dict[Domain, frozenset[str]] = {}
    for domain, parent in node_type.parent.items():
        names = above[parent] if parent is not None else frozenset()
        if domain.name in names:
            return True
        above[domain] = names | {domain.name}
    return False


def _is_chain(need: Need) -> bool:
    """Whether *need* is an amount, or domains of one locality with such a need in each."""
    while need.parts:
        if len(need.parts) > 1 or need.takes_amount:
            return False
        need = need.parts[0].need
    return True
