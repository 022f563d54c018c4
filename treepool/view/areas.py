"""Areas: whether a map shows domains or rows of nodes; what status says of switches and racks.

Where there are no domains, or too many, a map shows rows of nodes in the order of their ranks.
"""

from __future__ import annotations

from collections import Counter
from typing import Iterator, Optional, Sequence

import attrs

from treepool.placement.nodes.fabric_tree import ROOT, Fabric
from treepool.view import words
from treepool.view.picture import Picture
from treepool.view.rows import hosts
from treepool.view.totals import NOTHING, LocalityLine, Totals

#: Most domains that a picture shows.
MAX_AREAS = 1 << 16

#: Most nodes of which there is no map without a fabric: their boxes fit a screen.
FEW_NODES = 64

#: Most rows of nodes, the fewest nodes in a row, and the longest name of a row.
MOST_ROWS, _ROW, _LONGEST_NAME = 44, 64, 24


@attrs.frozen(eq=False)
class Area:
    """A domain: its name, the areas inside it or the ranks of a leaf, and its totals.

    ``locality`` is "" for the pool, for rows, and for ranks that stand alone in the area around
    them: they are one area without a name.
    """

    locality: str
    name: str
    inside: tuple[Area, ...]
    ranks: tuple[int, ...]
    totals: Totals

    @property
    def title(self) -> str:
        """The locality and the name."""
        if not self.locality:
            return self.name or "in none of these"
        return f"{self.locality} {self.name}"

    def walk(self) -> Iterator[Area]:
        """This area and all in it."""
        yield self
        for area in self.inside:
            yield from area.walk()

    def cut(self, depth: int) -> Area:
        """This area with at most *depth* levels of areas inside."""
        if depth == 0 and self.inside:
            return attrs.evolve(self, inside=(), ranks=tuple(sorted(self.all_ranks())))
        return attrs.evolve(self, inside=tuple(area.cut(depth - 1) for area in self.inside))

    @property
    def depth(self) -> int:
        """How many levels of areas are inside."""
        return 1 + max(area.depth for area in self.inside) if self.inside else 0

    def all_ranks(self) -> Iterator[int]:
        """All ranks in the area."""
        for area in self.walk():
            yield from area.ranks


def areas(picture: Picture) -> Optional[Area]:
    """The whole of *picture* as an area; None without domains, or if they are too many."""
    fabric = picture.cluster.fabric
    if fabric is None or len(fabric) > MAX_AREAS or not fabric.localities:
        return None
    return _area(picture, fabric, ROOT)


def row_areas(picture: Picture) -> Area:
    """The whole of *picture* as rows of equally many nodes."""
    ranks, each = picture.cluster.ranks, _ROW
    while len(ranks) > each * MOST_ROWS:
        each *= 2
    found = []
    for first in range(0, len(ranks), each):
        row = ranks[first : first + each]
        found.append(_leaf(picture, "", words.listed(hosts(picture, row), _LONGEST_NAME), row))
    return _around("", "", found)


def maps(picture: Picture) -> Iterator[Area]:
    """The whole of *picture* for a map: with fewer and fewer levels of domains, then as rows.

    There is none of a small cluster without domains.
    """
    whole = areas(picture)
    if whole is not None:
        yield from map(whole.cut, range(whole.depth, 0, -1))
    if whole is not None or picture.totals.nodes > FEW_NODES:
        yield row_areas(picture)


def _around(locality: str, name: str, inside: Sequence[Area]) -> Area:
    totals = NOTHING
    for area in inside:
        totals = totals.plus(area.totals)
    return Area(locality, name, tuple(inside), (), totals)


def _area(picture: Picture, fabric: Fabric, domain: int) -> Area:
    inside: list[Area] = []
    alone: list[int] = []
    for child in fabric.children[domain]:
        if fabric.locality[child]:
            inside.append(_area(picture, fabric, child))
        else:
            alone += fabric.ranks[child]
    if alone:
        inside.append(_leaf(picture, "", "", alone))
    name = words.plain(fabric.name[domain] or f"of rank {fabric.lowest[domain]}")
    if not inside:
        return _leaf(picture, words.plain(fabric.locality[domain]), name, fabric.ranks[domain])
    return _around(words.plain(fabric.locality[domain]), name, inside)


def _leaf(picture: Picture, locality: str, name: str, ranks: Sequence[int]) -> Area:
    totals = NOTHING
    for look, count in Counter(picture.look_of[rank] for rank in ranks).items():
        totals = totals.plus(picture.looks[look].layout.totals, count)
    return Area(locality, name, (), tuple(sorted(ranks)), totals)


def locality_lines(root: Area) -> Iterator[LocalityLine]:
    """A line for each locality, the highest first."""
    found: dict[str, list[Area]] = {}
    for area in root.walk():
        if area.locality:
            found.setdefault(area.locality, []).append(area)
    for name, there in found.items():
        best = max(there, key=lambda area: area.totals.idle)
        with_idle = sum(area.totals.idle > 0 for area in there)
        yield LocalityLine(name, len(there), with_idle, best.totals.idle, best.name)


@attrs.frozen
class DomainLine:
    """A domain, what is around it, and how many of its nodes are in which state."""

    domain: str
    within: str
    nodes: int
    idle: int
    partly: int
    full: int
    away: int
    cores_free: int
    gpus_free: int


def domain_lines(root: Area, within: str = "") -> Iterator[DomainLine]:
    """A line for each domain, those inside it after it."""
    for area in root.inside:
        t = area.totals
        if area.locality:
            away = t.down + t.drained
            numbers = t.nodes, t.idle, t.partly, t.full, away, t.cores_free, t.gpus_free
            yield DomainLine(area.title, within, *numbers)
        yield from domain_lines(area, area.title)
