"""The choice: which nodes a request gets, with its open questions settled.

A request may leave open which property its nodes share (``same``) and how much each slot gets (a
range as a count below the slot). Both allocation and explanation use this module to find out what a
request would get.
"""

from __future__ import annotations

from itertools import islice, product
from typing import Callable, Iterator, Optional, Sequence

import attrs

from treepool.placement.choose.candidates import Candidates
from treepool.placement.choose.policy import Policy
from treepool.placement.choose.same import alternatives
from treepool.placement.choose.selection import Selection, select
from treepool.placement.effort import PER_REQUEST, Effort, GaveUp
from treepool.placement.nodes.index import NodeIndex
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.request.need import Ask, Growing, ask_of, with_count
from treepool.placement.request.vertices import Request
from treepool.rfc import idset
from treepool.rfc.constraint import Constraint

#: A function that makes the candidates for an ask on the nodes that satisfy a constraint.
CandidatesOf = Callable[[Ask, Optional[Constraint]], Candidates]

#: A request with its open questions settled, and what it gets; None if nothing.
_Found = tuple[Request, Optional[Selection]]

#: Combinations of counts below the slot that are tried where no order allows a faster search.
MOST_COMBINATIONS = 4096


@attrs.frozen(eq=False)
class Situation:
    """The input of a choice: the nodes, what is free on them, and the policy that orders them."""

    inventory: Inventory
    index: NodeIndex
    policy: Policy


@attrs.frozen(eq=False)
class Choice:
    """What a request would get: ``selection``, None if it cannot be served.

    ``request`` is the request that was served, with its counts below the slot and its constraint
    settled. If a search ``gave_up``, a better selection may exist, even if this one is None.
    """

    request: Request
    selection: Optional[Selection]
    gave_up: bool = False


def choose(
    request: Request, inventory: Inventory, index: NodeIndex, candidates_of: CandidatesOf
) -> Choice:
    """What *request* gets of the nodes in *index*: the first of the best selections."""
    effort = Effort(PER_REQUEST)
    best: _Found = request, None
    try:
        if request.same is None:  # the common case; this shortcut saves a fifth of a slot's time
            best = _grown(request, inventory, candidates_of, effort)
        else:
            best = _best_alike(request, inventory, index, candidates_of, effort)
    except GaveUp:
        effort.gave_up = True
    return Choice(*best, effort.gave_up)


def _best_alike(
    request: Request,
    inventory: Inventory,
    index: NodeIndex,
    candidates_of: CandidatesOf,
    effort: Effort,
) -> _Found:
    """What *request* gets on nodes that share a property of its family."""
    best: _Found = request, None
    for constraint in alternatives(request, inventory, index):
        if best[1] is not None and constraint == request.constraint:
            break  # the property is only preferred, and nodes that share it can serve the request
        one = attrs.evolve(request, constraint=constraint)
        found = _grown(one, inventory, candidates_of, effort)
        if found[1] is not None and (best[1] is None or found[1].preference < best[1].preference):
            best = found
    return best


def _grown(
    request: Request, inventory: Inventory, candidates_of: CandidatesOf, effort: Effort
) -> _Found:
    """What *request* gets with the counts below its slot as large as possible.

    All slots have the same counts. The counts on and above the slot have priority over them. Among
    the counts below the slot, the outer ones have priority.
    """
    if not request.growing:
        return request, select(request, candidates_of(request.ask, request.constraint), effort)

    def attempt(values: Sequence[int]) -> _Found:
        ask = request.ask
        group = ask.group
        for growing, value in zip(request.growing, values):
            group = with_count(group, growing, value)
        one = attrs.evolve(
            request, ask=ask_of(group, ask.fill, ask.whole, ask.locality), growing=()
        )
        return one, select(one, candidates_of(one.ask, one.constraint), effort)

    values = [_values(growing, inventory) for growing in request.growing]
    if request.ask.locality == "required":
        return _best_of_all(values, attempt, request)
    return _largest(values, attempt)


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


def _largest(values: list[list[int]], attempt: Callable[[Sequence[int]], _Found]) -> _Found:
    """The best choice if a smaller count always fits when a larger one does: by bisection."""
    settled = [those[-1] for those in values]
    best = attempt(settled)
    if best[1] is None:
        return best
    extent = best[1].extent
    for place, those in enumerate(values):
        first, last = 0, len(those) - 1  # those[last] is known to fit
        while first < last:
            middle = (first + last) // 2
            found = attempt([*settled[:place], those[middle], *settled[place + 1 :]])
            if found[1] is not None and found[1].extent == extent:
                last, best = middle, found
            else:
                first = middle + 1
        settled[place] = those[last]
    return best


def _best_of_all(
    values: list[list[int]], attempt: Callable[[Sequence[int]], _Found], request: Request
) -> _Found:
    """The best choice if a larger count may fit where a smaller one does not.

    With locality=required, the smallest domain for the larger count may be free while the smallest
    domain for the smaller count is not. All combinations are tried, the largest first.
    """
    best: _Found = request, None
    for combination in _combinations(values):
        found = attempt(combination)
        if found[1] is not None and (best[1] is None or found[1].extent > best[1].extent):
            best = found
            if not request.ranges_above:
                break
    return best


def _combinations(values: list[list[int]]) -> Iterator[tuple[int, ...]]:
    everything = product(*values)
    yield from islice(everything, MOST_COMBINATIONS)
    if next(everything, None) is not None:
        raise GaveUp
