"""Selection: takes nodes in order until there are enough; counts of ranges; which choice is better.

This module changes nothing. The pool commits a complete selection or none.
"""

from __future__ import annotations

from itertools import islice
from typing import Iterable, Iterator, NamedTuple, Optional

import attrs

from treepool.placement.choose.candidates import Candidates, Entry
from treepool.placement.nodes.state import NodeState
from treepool.placement.on_node.fit import Fit, Step, assess
from treepool.placement.request.vertices import Request
from treepool.rfc.count import Count


@attrs.frozen
class Grant:
    """``units`` units, as ``fit`` places them, on each of ``ranks`` (ascending) in ``state``."""

    state: NodeState
    ranks: tuple[int, ...]
    fit: Fit
    units: int

    @property
    def step(self) -> Step:
        """What each of the ranks gives."""
        return self.fit.steps[self.units - 1]


@attrs.frozen
class Selection:
    """What a request gets: its grants, no rank in two of them, and its number of slots."""

    grants: tuple[Grant, ...]
    nslots: int

    def ranks(self) -> Iterator[int]:
        """All ranks of the selection."""
        return (rank for grant in self.grants for rank in grant.ranks)

    @property
    def extent(self) -> tuple[int, int, int]:
        """How much is served, the outermost count first: nodes if the request asks for nodes,
        else units; units on these nodes; and slots."""
        grants = self.grants
        asked = sum(len(grant.ranks) * grant.units for grant in grants)
        return asked, sum(len(g.ranks) * g.step.units for g in grants), self.nslots

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


def select(request: Request, candidates: Candidates) -> Optional[Selection]:
    """The nodes that serve *request* now, None if there are not enough.

    The counts below its slot are at their minimum.
    """
    candidates.refresh()
    if request.nodes is None:
        return _fill(request.units, candidates)
    if request.spans:
        return _span(request, candidates)
    return _nodes(request.nodes, candidates)


def _nodes(nodes: Count, candidates: Candidates) -> Optional[Selection]:
    """Select a number of distinct nodes, each with its slots."""
    chosen = _distinct(nodes.minimum, nodes.maximum, candidates)
    found = nodes.largest(len(chosen))
    if found is None:
        return None
    grants = _granted(((entry, 1) for entry in chosen[:found]), candidates)
    return Selection(grants, _slots_of(grants))


def _span(request: Request, candidates: Candidates) -> Optional[Selection]:
    """Select slots that span several nodes each: the most slots, then the most nodes per slot."""
    assert request.nodes is not None
    nodes, slots = request.nodes, request.units
    most = None
    if slots.maximum is not None and nodes.maximum is not None:
        most = slots.maximum * nodes.maximum
    chosen = _distinct(nodes.minimum * slots.minimum, most, candidates)
    nslots = slots.largest(len(chosen) // nodes.minimum)
    if nslots is None:
        return None
    per_slot = nodes.largest(len(chosen) // nslots)
    assert per_slot is not None
    grants = _granted(((entry, 1) for entry in chosen[: nslots * per_slot]), candidates)
    return Selection(grants, nslots)


def _distinct(least: int, most: Optional[int], candidates: Candidates) -> list[Entry]:
    """Up to *most* distinct nodes in order; none if there are fewer than *least*."""
    if candidates.too_few(least):
        return []
    return list(islice(candidates.in_order(), most))


def _fill(units: Count, candidates: Candidates) -> Optional[Selection]:
    """Select units wherever they fit: units with local slots first, node by node in order."""
    chosen: list[tuple[Entry, int]] = []
    found = 0
    for entry in candidates.in_order(segments=True):
        share = assess(entry.state, candidates.ask).share(entry.segment)
        chosen.append((entry, share))
        found += share
        if units.maximum is not None and found >= units.maximum:
            break
    wanted = units.largest(found)
    if wanted is None:
        return None
    if found > wanted:  # the last nodes give less
        found = wanted
        for place, (entry, share) in enumerate(chosen):
            chosen[place] = entry, min(share, found)
            found -= min(share, found)
    grants = _granted(chosen, candidates)
    return Selection(grants, _slots_of(grants))


def _granted(chosen: Iterable[tuple[Entry, int]], candidates: Candidates) -> tuple[Grant, ...]:
    """The nodes of *chosen* entries, each with all the units that it gives."""
    units: dict[int, int] = {}
    states: dict[int, NodeState] = {}
    for entry, number in chosen:
        units[entry.rank] = units.get(entry.rank, 0) + number
        states[entry.rank] = entry.state
    ranks: dict[tuple[NodeState, int], list[int]] = {}
    for rank, number in units.items():
        if number:
            ranks.setdefault((states[rank], number), []).append(rank)
    return tuple(
        Grant(state, tuple(sorted(those)), assess(state, candidates.ask), number)
        for (state, number), those in ranks.items()
    )


def _slots_of(grants: Iterable[Grant]) -> int:
    return sum(len(g.ranks) * g.step.nslots for g in grants)
