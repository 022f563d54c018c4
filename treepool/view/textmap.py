"""The map of a cluster for a terminal: its signs, names and legend, and how detailed it is.

The map is as detailed as fits into MOST_LINES. A sign stands for several nodes if they are many,
and if that is not enough, a domain is one sign. If the domains are too many even for that, or if
there are none, the map has rows of nodes.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple

from rich.cells import cell_len
from rich.text import Text

from treepool.view import words
from treepool.view.areas import Area, maps
from treepool.view.palette import AWAY
from treepool.view.picture import Picture
from treepool.view.textboxes import GAP, Lines, cut_start, padded, side_by_side
from treepool.view.textnode import STATE_STYLES
from treepool.view.totals import Totals

#: Most lines of a map, without its legend.
MOST_LINES = 44

#: Signs of nodes that are up: all idle, some cores free, no core free; of several nodes of which
#: some are not up.
IDLE, PARTLY, FULL, SOME_AWAY = ".", "+", "#", "!"

#: Longest name of a domain beside its nodes.
_LONGEST_NAME = 24


class _Strip(NamedTuple):
    """An area that is drawn as signs; the area around it, and its title with all around that."""

    area: Area
    around: str
    outer: Area


class TextMap:
    """Draws the map of *picture* in at most *width* columns."""

    def __init__(self, picture: Picture, width: int) -> None:
        self._picture = picture
        self._width = width

    def lines(self) -> Lines:
        """The map and its legend; no lines for a small cluster without a fabric."""
        for root in maps(self._picture):
            drawn = self._fitted(root)
            if drawn:
                fabric = self._picture.cluster.fabric
                domains = sum(map(bool, fabric.locality)) if fabric is not None else 0
                if domains and not any(area.locality for area in root.inside):
                    number = words.count(domains, "domain")
                    drawn.append(Text(f"the fabric has {number}, too many to draw", "dim"))
                return drawn
        return []

    def _fitted(self, root: Area) -> Lines:
        strips = list(_strips(root, ""))
        nodes, each = max(strip.area.totals.nodes for strip in strips), 1
        while not (drawn := self._named(strips, each)) and each < nodes:
            each *= 2
        return [*self._legend(each, strips, nodes), *drawn] if drawn else []

    def _named(self, strips: list[_Strip], each: int) -> Lines:
        """The strips with a sign for *each* nodes, with the longest names that fit."""
        titles = [strip.area.title for strip in strips]
        names = [strip.area.name or strip.area.title for strip in strips]
        choices = [titles, names] if max(map(cell_len, titles)) <= _LONGEST_NAME else [names]
        for some in (*choices, [""] * len(strips)):
            drawn = self._drawn(strips, some, each)
            if drawn:
                return drawn
        return []

    def _drawn(self, strips: list[_Strip], names: list[str], each: int) -> Lines:
        """The strips beside their *names*; no lines if that does not fit."""
        name = min(_LONGEST_NAME, max(map(cell_len, names)))
        name += 1 if name else 0
        most = max(-(-s.area.totals.nodes // each) for s in strips)
        around = any(s.around for s in strips)
        room = self._width - (2 if around else 0)
        if name + most > room:
            return []
        across = (room + GAP) // (name + most + GAP)
        if len(strips) > across * MOST_LINES:
            return []
        groups: dict[int, list[tuple[_Strip, str]]] = {}
        for strip, named in zip(strips, names):
            groups.setdefault(id(strip.outer), []).append((strip, named))
        headings = len(groups) if around else 0
        if headings + sum(-(-len(group) // across) for group in groups.values()) > MOST_LINES:
            return []
        lines: Lines = []
        for group in groups.values():
            if around:
                lines.append(self._heading([strip for strip, _ in group]))
            blocks = []
            for strip, named in group:
                title = Text.assemble((cut_start(named, name - 1), "dim")) if name else Text()
                blocks.append([padded(title, name).append_text(self._signs(strip.area, each))])
            rows = side_by_side(blocks, across, name + most)
            lines += [Text("  " if around else "").append_text(row) for row in rows]
        for line in lines:
            line.rstrip()
        return lines

    def _heading(self, group: list[_Strip]) -> Text:
        title = group[0].around
        if not title:
            domains = any(strip.area.locality for strip in group)
            title = "below the root" if domains else "in none of these"
        nodes = sum(strip.area.totals.nodes for strip in group)
        idle = sum(strip.area.totals.idle for strip in group)
        numbers = f"  {idle:,} of {nodes:,} nodes idle"
        return Text.assemble((cut_start(title, self._width - len(numbers)), "bold"), numbers)

    def _legend(self, each: int, strips: list[_Strip], nodes: int) -> Lines:
        rows = not any(strip.area.locality or strip.around for strip in strips)
        signs = [(IDLE, "idle"), (PARTLY, "partial"), (FULL, "full"), (AWAY, "down")]
        parts = [Text(f"{sign} {state}", STATE_STYLES[state]) for sign, state in signs]
        parts[-1] = Text(f"{AWAY} not up", STATE_STYLES["down"])
        if each > 1:
            parts.append(Text(f"{SOME_AWAY} some not up", STATE_STYLES["drained"]))
        if 1 < each < nodes:
            parts.append(Text(f"a sign is {each} nodes", "dim"))
        elif each > 1:
            parts.append(Text(f"a sign is a {strips[0].area.locality}", "dim"))
        found = [Text.assemble(("rows    " if rows else "fabric  ", "bold"))]
        for part in parts:
            if found[-1].cell_len + part.cell_len > self._width:
                found.append(Text(" " * 8))
            found[-1].append_text(part).append("   ")
        for line in found:
            line.rstrip()
        return found

    def _signs(self, area: Area, each: int) -> Text:
        text, ranks = Text(), area.ranks
        for first in range(0, len(ranks), each):
            text.append(*_sign([self._totals(rank) for rank in ranks[first : first + each]]))
        return text

    def _totals(self, rank: int) -> Totals:
        return self._picture.looks[self._picture.look_of[rank]].layout.totals


def _strips(area: Area, title: str) -> Iterator[_Strip]:
    """The leaves in *area*, whose title with all around it is *title*."""
    for inner in area.inside:
        if inner.inside:
            yield from _strips(inner, f"{title}, {inner.title}" if title else inner.title)
        else:
            yield _Strip(inner, title, area)


def _sign(some: list[Totals]) -> tuple[str, str]:
    """The sign for nodes with these numbers, and its style."""
    up = sum(t.nodes - t.down - t.drained for t in some)
    idle, full = sum(t.idle for t in some), sum(t.full for t in some)
    if not up:
        return AWAY, STATE_STYLES["down"]
    if up < len(some):
        return SOME_AWAY, STATE_STYLES["drained"]
    if idle == up:
        return IDLE, STATE_STYLES["idle"]
    return (FULL, STATE_STYLES["full"]) if full == up else (PARTLY, STATE_STYLES["partial"])
