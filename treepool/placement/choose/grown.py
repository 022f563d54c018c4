"""Ranges below the slot, such as core=4-8: the largest count that fits, the same for all slots.

A count on or above the slot is chosen by the node, or the domain, that serves it. A count below the
slot is settled here, by serving the request with one value after another. ``grown`` is a generator
of the requests to serve, so that whoever serves them may do other things in between.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import groupby, product
from typing import Callable, Generator, Optional, Sequence

import attrs

from treepool.placement.choose.selection import Choice, Selection
from treepool.placement.effort import PER_ATTEMPT, Effort
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.kept import without_kept
from treepool.placement.nodes.tree import NODE
from treepool.placement.request.need import SLOT, Growing, Need, slot_of, with_count
from treepool.placement.request.vertices import Request
from treepool.rfc import idset

#: Settles what a request leaves open: yields one request after another to be served as it is, is
#: sent what each gets, and returns the best.
Steps = Generator[Request, Optional[Selection], Choice]

#: Serves a request with these values of its counts below the slot.
_Attempt = Callable[[Sequence[int]], Steps]


def grown(request: Request, inventory: Inventory, effort: Effort) -> Steps:
    """What *request* gets with the counts below its slot as large as possible.

    The counts on and above the slot have priority over them. Among the counts below the slot, the
    outer ones have priority. The smallest values are tried first, so a request that can be served
    with them is served. What was found when no *effort* is left is the answer.
    """
    if not request.growing:
        return Choice(request, (yield request))

    def attempt(values: Sequence[int], locality: str = request.ask.locality) -> Steps:
        effort.tried += PER_ATTEMPT
        one = _settled(request, values, locality)
        return Choice(one, (yield one), tuple(values))

    counts = [_values(growing, request, inventory) for growing in request.growing]
    smallest = [values[0] for values in counts]
    if request.ask.locality != "required":
        return (yield from _largest(counts, attempt, (yield from attempt(smallest)), effort))
    anywhere = (yield from attempt(smallest, "none")).selection
    if anywhere is None:
        return Choice(request, None)
    # A larger count may be local where a smaller one is not, because the smallest domain for it is
    # another. In a run that does not change.
    best = yield from attempt(smallest)
    runs = [_runs(values, g, request, inventory) for values, g in zip(counts, request.growing)]
    for cell in product(*runs):  # those of the largest values first
        if not effort.allows(0):
            break
        found = yield from attempt([run[0] for run in cell])
        if found._replace(values=tuple(run[-1] for run in cell)).better(best):
            found = yield from _largest(cell, attempt, found, effort)
            best = found if found.better(best) else best
        if found.selection is not None and found.selection.extent == anywhere.extent:
            break  # nothing can be larger
    return best


def _settled(request: Request, values: Sequence[int], locality: str) -> Request:
    """*request* with these *values* of its counts below the slot."""
    ask = request.ask
    group = ask.group
    for growing, value in zip(request.growing, values):
        group = with_count(group, growing, value)
    ask = attrs.evolve(ask, group=group, locality=locality)
    return attrs.evolve(request, ask=ask, growing=())


def _values(growing: Growing, request: Request, inventory: Inventory) -> list[int]:
    """The valid values of a count that some idle node may have room for, ascending; never empty."""
    where, what = _scope(growing, request), growing.what
    most = 0
    for node_type in inventory.node_types:
        for scope in (node_type.root,) if where == NODE else node_type.named.get(where, ()):
            if what == "core":
                most = max(most, scope.ncores)
            elif what == "gpu":
                most = max(most, idset.size(scope.gpus))
            else:
                most = max(most, sum(domain.name == what for domain in scope.walk()))
    return sorted(growing.count.valid(most)) or [growing.count.minimum]


def _scope(growing: Growing, request: Request) -> str:
    """The locality of the domains that a count is asked of."""
    name, part = NODE, request.ask.group
    while part.name != SLOT:
        name, (part,) = part.name, part.need.parts
    for place in growing.path[: growing.depth]:
        part = part.need.parts[place]
        name = part.name
    return name


def _largest(
    counts: Sequence[Sequence[int]], attempt: _Attempt, smallest: Choice, effort: Effort
) -> Steps:
    """The best choice if a smaller count always fits when a larger one does: by bisection.

    *smallest* is the choice with the smallest values of *counts*.
    """
    best, settled = smallest, [values[0] for values in counts]
    if best.selection is None:
        return best
    extent = best.selection.extent
    for place, values in enumerate(counts):
        first, last = 0, len(values) - 1  # values[first] is known to fit
        while first < last and effort.allows(0):
            middle = (first + last + 1) // 2
            settled[place] = values[middle]
            found = yield from attempt(settled)
            if found.selection is not None and found.selection.extent == extent:
                first, best = middle, found
            else:
                last = middle - 1
        settled[place] = values[first]
    return best


def _runs(
    values: Sequence[int], growing: Growing, request: Request, inventory: Inventory
) -> list[list[int]]:
    """*values* (ascending) in runs of which the smallest domains that could host them are the same,
    the last run first. So where all slots are local, a smaller value of a run always fits when a
    larger one does.

    For cores, runs end at the sizes of domains, unless a domain must have several things at once.
    GPUs and domains are few: each of their numbers is a run.
    """
    if growing.what != "core" or _have_several(slot_of(request.ask.group).need):
        return [[value] for value in reversed(values)]
    types = (without_kept(node_type, request.ask.spare) for node_type in inventory.node_types)
    sizes = sorted({domain.ncores for node_type in types for domain in node_type.parent})
    runs = groupby(values, lambda value: bisect_left(sizes, value))
    return [list(run) for _, run in runs][::-1]


def _have_several(need: Need) -> bool:
    """Whether some domain of *need* must have parts and an amount, or several parts."""
    inside = [part.need for part in need.parts]
    return any(len(n.parts) + n.takes_amount > 1 or _have_several(n) for n in inside)
