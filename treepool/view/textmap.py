"""The map of a cluster for a terminal: the nodes of each domain above them, a sign for each.

The map is as detailed as fits into MOST_LINES. A sign stands for several nodes if they are many,
and if that is not enough, a domain is one sign.
"""

from __future__ import annotations

from typing import Iterable, Iterator, NamedTuple, Optional

from rich.cells import cell_len
from rich.text import Text

from treepool.view.areas import Area
from treepool.view.model import Totals
from treepool.view.palette import AWAY
from treepool.view.picture import Picture
from treepool.view.textboxes import GAP, Lines, cut
from treepool.view.textnode import STATE_STYLES

#: Most lines of a map.
MOST_LINES = 44

#: Signs of nodes that are up: all idle, some cores free, no core free.
IDLE, PARTLY, FULL = ".", "+", "#"

#: Longest name of a domain beside its nodes.
_LONGEST_NAME = 24


class _Strip(NamedTuple):
    """An area that is drawn as signs; the area around it, and its title with all around that."""

    area: Area
    around: str
    outer: Area


def text_map(picture: Picture, root: Area, width: int) -> Lines:
    """The map in at most *width* columns; no lines if the areas are too many."""
    for depth in range(root.depth, 0, -1):
        strips = list(_strips(root.cut(depth), ""))
        nodes = max(strip.area.totals.nodes for strip in strips)
        each = 1
        while True:
            for named in (True, False):
                drawn = _drawn(picture, strips, each, named, width)
                if drawn is not None:
                    return [*_legend(each, strips, nodes), *drawn]
            if each >= nodes:
                break
            each *= 2
    return []


def _strips(area: Area, title: str) -> Iterator[_Strip]:
    """The leaves in *area*, whose title with all around it is *title*."""
    for inner in area.inside:
        if inner.inside:
            yield from _strips(inner, f"{title}, {inner.title}" if title else inner.title)
        else:
            yield _Strip(inner, title, area)


def _drawn(
    picture: Picture, strips: list[_Strip], each: int, named: bool, width: int
) -> Optional[Lines]:
    """The strips with a sign for *each* nodes; None if that does not fit."""
    name = 0
    if named:
        name = min(_LONGEST_NAME, max(cell_len(s.area.title) for s in strips)) + 1
    most = max(-(-s.area.totals.nodes // each) for s in strips)
    around = any(s.around for s in strips)
    room = width - (2 if around else 0)
    if name + most > room:
        return None
    across = (room + GAP) // (name + most + GAP)
    if len(strips) > across * MOST_LINES:
        return None
    groups: dict[int, list[_Strip]] = {}
    for strip in strips:
        groups.setdefault(id(strip.outer), []).append(strip)
    headings = len(groups) if around else 0
    if headings + sum(-(-len(group) // across) for group in groups.values()) > MOST_LINES:
        return None
    lines: Lines = []
    for group in groups.values():
        if around:
            lines.append(_heading(group[0].around, group))
        for first in range(0, len(group), across):
            line = Text("  " if around else "")
            for place, strip in enumerate(group[first : first + across]):
                line.append(" " * GAP if place else "")
                signs = _signs(picture, strip.area, each)
                if named:
                    title = cut(Text(strip.area.title), name - 1)
                    line.append(title.plain + " " * (name - title.cell_len), "dim")
                line.append_text(signs).append(" " * (most - len(signs)))
            line.rstrip()
            lines.append(line)
    return lines


def _heading(title: str, group: Iterable[_Strip]) -> Text:
    if not title:
        domains = any(strip.area.locality for strip in group)
        title = "below the root" if domains else "in none of these"
    nodes = idle = 0
    for strip in group:
        nodes += strip.area.totals.nodes
        idle += strip.area.totals.idle
    return Text.assemble((title, "bold"), f"  {idle:,} of {nodes:,} nodes idle")


def _legend(each: int, strips: list[_Strip], nodes: int) -> Lines:
    line = Text.assemble(
        ("fabric  ", "bold"),
        (f"{IDLE} idle   ", STATE_STYLES["idle"]),
        (f"{PARTLY} partly used   ", STATE_STYLES["partly used"]),
        (f"{FULL} full   ", STATE_STYLES["full"]),
        (f"{AWAY} not up", STATE_STYLES["down"]),
    )
    if 1 < each < nodes:
        line.append(f"   a sign is {each} nodes", "dim")
    elif each > 1:
        line.append(f"   a sign is a {strips[0].area.locality}", "dim")
    return [line]


def _signs(picture: Picture, area: Area, each: int) -> Text:
    text, ranks = Text(), area.ranks
    for first in range(0, len(ranks), each):
        text.append(*_sign([_totals(picture, rank) for rank in ranks[first : first + each]]))
    return text


def _totals(picture: Picture, rank: int) -> Totals:
    return picture.looks[picture.look_of[rank]].layout.totals


def _sign(some: list[Totals]) -> tuple[str, str]:
    """The sign for nodes with these numbers, and its style."""
    up = sum(t.nodes - t.down - t.drained for t in some)
    idle, full = sum(t.idle for t in some), sum(t.full for t in some)
    if not up:
        return AWAY, STATE_STYLES["down"]
    if idle == up:
        return IDLE, STATE_STYLES["idle"]
    return (FULL, STATE_STYLES["full"]) if full == up else (PARTLY, STATE_STYLES["partly used"])
