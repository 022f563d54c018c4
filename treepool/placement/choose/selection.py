"""Selection: takes nodes in order until there are enough; counts of ranges; which choice is better.

This module changes nothing. The pool commits a complete selection or none.
"""

from __future__ import annotations

from math import prod
from typing import Iterable, NamedTuple, Optional, Union

import attrs

from treepool.placement.choose.candidates import Candidates, Equals
from treepool.placement.nodes.state import NodeState
from treepool.placement.on_node.fit import Fit, assess
from treepool.placement.request.form import Fill, Form, Nodes, Span
from treepool.placement.request.vertices import Request
from treepool.rfc import idset
from treepool.rfc.count import Count


@attrs.frozen
class Grant:
    """``units`` units, as ``fit`` places them, on each of ``ranks`` (bitmask) in ``state``."""

    state: NodeState
    ranks: int
    fit: Fit
    units: int

    @property
    def ids(self) -> tuple[int, int]:
        """The cores and GPUs that each of the ranks gives (bitmasks)."""
        return self.fit.ids(self.units - 1)

    @property
    def nslots(self) -> int:
        """The slots on each of the ranks."""
        return self.fit.nslots(self.units - 1)


@attrs.frozen
class Selection:
    """What a request gets: its grants, no rank in two of them, and its number of slots."""

    grants: tuple[Grant, ...]
    nslots: int

    @property
    def ranks(self) -> int:
        """All ranks of the selection (bitmask)."""
        return idset.union(grant.ranks for grant in self.grants)

    @property
    def extent(self) -> tuple[int, int, int]:
        """How much is served, the outermost count first: nodes if the request asks for nodes,
        else units; units on these nodes; and slots."""
        grants = self.grants
        asked = sum(idset.size(grant.ranks) * grant.units for grant in grants)
        return (
            asked,
            sum(idset.size(g.ranks) * g.fit.steps[g.units - 1] for g in grants),
            self.nslots,
        )

    @property
    def remote(self) -> bool:
        """Whether some slot is not local."""
        return any(grant.units > grant.fit.local for grant in self.grants)


class Choice(NamedTuple):
    """What a request would get: ``selection``, None if it cannot be served.

    ``request`` is the request that was served, with its counts below the slot, which have these
    ``values``, and its constraint settled. If a search ``gave_up``, a better selection may exist,
    even if this one is None. ``effort`` is what searches and attempts took, see effort.py.
    """

    request: Request
    selection: Optional[Selection]
    values: tuple[int, ...] = ()
    gave_up: bool = False
    effort: int = 0

    def better(self, other: Choice) -> bool:
        """Whether this selection is preferred to that of *other*: counts first, then locality."""
        if self.selection is None or other.selection is None:
            return self.selection is not None
        mine = self.selection.extent, self.values, not self.selection.remote
        return mine > (other.selection.extent, other.values, not other.selection.remote)


def select(form: Form, candidates: Candidates) -> Optional[Selection]:
    """The nodes that serve a request of this *form* now, None if there are not enough."""
    candidates.refresh()
    if isinstance(form, Fill):
        return _fill(form.slots, candidates)
    return _nodes(form, candidates)


def _nodes(form: Union[Nodes, Span], candidates: Candidates) -> Optional[Selection]:
    """Select distinct nodes: for slots that span them the most slots, then the most of each."""
    chosen, number = _distinct(form.most, candidates)
    counts = form.largest(number)
    if counts is None:
        return None
    grants = _granted(_first(chosen, prod(counts)), candidates)
    return Selection(grants, counts[0] if isinstance(form, Span) else _slots_of(grants))


def _distinct(most: Optional[int], candidates: Candidates) -> tuple[list[Equals], int]:
    """Distinct nodes in order, and how many, up to *most*."""
    chosen: list[Equals] = []
    found = 0
    for equals in candidates.in_order():
        chosen.append(equals)
        found += sum(map(idset.size, equals.values()))
        if most is not None and found >= most:
            return chosen, most
    return chosen, found


def _first(chosen: Iterable[Equals], number: int) -> _Given:
    """The first *number* nodes of *chosen*, a unit on each."""
    given: _Given = {}
    for equals in chosen:
        ranks = idset.take_lowest(idset.union(equals.values()), number)
        for (state, _), having in equals.items():
            _give(given, state, having & ranks, 1)
        number -= idset.size(ranks)
        if not number:
            break
    return given


def _fill(units: Count, candidates: Candidates) -> Optional[Selection]:
    """Select units wherever they fit: units with local slots first, node by node in order."""
    chosen: list[tuple[list[_Share], int]] = []
    found, ask = 0, candidates.ask
    for equals in candidates.in_order(segments=True):
        shares = [
            (state, assess(state, ask).share(segment), ranks)
            for (state, segment), ranks in equals.items()
        ]
        here = _units_in(shares)
        chosen.append((shares, here))
        found += here
        if units.maximum is not None and found >= units.maximum:
            break
    left = units.largest(found)
    if left is None:
        return None
    given: _Given = {}
    for shares, here in chosen:
        if here > left:
            if left:
                _give_part(given, shares, left)
            break
        for state, share, ranks in shares:
            _give(given, state, ranks, share)
        left -= here
    grants = _granted(given, candidates)
    return Selection(grants, _slots_of(grants))


#: A state, how many units a segment of its fit has, and ranks in it (bitmask).
_Share = tuple[NodeState, int, int]

#: The ranks (bitmask) in each state that give so many units.
_Given = dict[NodeState, dict[int, int]]


def _units_in(shares: list[_Share], below: int = idset.EVERY) -> int:
    """The units that those of *shares* give that are among the ranks *below* (bitmask)."""
    return sum(share * idset.size(ranks & below) for _, share, ranks in shares)


def _give(given: _Given, state: NodeState, ranks: int, units: int) -> None:
    """Let *ranks* in *state* give so many *units* more."""
    here = given.setdefault(state, {})
    for number, before in list(here.items()):
        both = before & ranks
        if both:
            ranks ^= both
            here[number] ^= both
            here[number + units] = here.get(number + units, 0) | both
    if ranks:
        here[units] = here.get(units, 0) | ranks


def _give_part(given: _Given, shares: list[_Share], units: int) -> None:
    """Let the first ranks of *shares*, which could give more, give *units*."""
    everything = idset.union(ranks for _, _, ranks in shares)
    low, high = 0, everything.bit_length()
    while low < high:  # the narrowest set of the first ranks that gives enough
        middle = (low + high) >> 1
        if _units_in(shares, (1 << middle) - 1) < units:
            low = middle + 1
        else:
            high = middle
    before = (1 << low >> 1) - 1
    for state, share, ranks in shares:
        _give(given, state, ranks & before, share)
    rest = units - _units_in(shares, before)
    for state, share, ranks in shares:
        if rest and ranks >> (low - 1) & 1:
            _give(given, state, 1 << (low - 1), min(rest, share))
            rest -= min(rest, share)


def _granted(given: _Given, candidates: Candidates) -> tuple[Grant, ...]:
    """The nodes that are *given*, by their lowest rank."""
    grants = [
        Grant(state, ranks, assess(state, candidates.ask), number)
        for state, here in given.items()
        for number, ranks in here.items()
        if ranks
    ]
    return tuple(sorted(grants, key=lambda grant: grant.ranks & -grant.ranks))


def _slots_of(grants: Iterable[Grant]) -> int:
    return sum(idset.size(g.ranks) * g.nslots for g in grants)
