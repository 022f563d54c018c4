"""The picture as an SVG: the same numbers, jobs and boxes as in the terminal, for a document.

Text is never measured, because fonts differ: every place that holds a name has room for as many
letters of a wide font, and the name is cut to that. The colours follow the reader's theme.
"""

from __future__ import annotations

from typing import Sequence
from xml.sax.saxutils import escape

from treepool.view import palette, words
from treepool.view.model import Amount
from treepool.view.palette import COLOURS, Mark
from treepool.view.picture import Picture
from treepool.view.rows import Rows, hosts
from treepool.view.svgnode import Cards

#: Width of the page and its margin, and the gap between cards.
WIDTH, MARGIN, GAP = 1240, 24, 14

#: Most kinds of node, jobs and lines of links listed.
MOST_TYPES, MOST_JOBS, MOST_LINKS = 8, 24, 4

_STYLE = """\
text { font: 12px system-ui, "DejaVu Sans", sans-serif; fill: #1c2128 }
.page { fill: #fff }
.card { fill: #f6f8fa; stroke: #d0d7de }
.frame { fill: #fff; stroke: #d0d7de }
.h { font-size: 20px; font-weight: 600 } .b { font-weight: 600 }
.s { fill: #57606a } .t { font-size: 10.5px; fill: #57606a }
.l { font-size: 8.5px; font-weight: 700; fill: #111; text-anchor: middle }
.g { font-size: 12px; font-weight: 700; fill: #111; text-anchor: middle }
.free { fill: #fff; stroke: #8c959f } .away { fill: #8c959f; stroke: #57606a; fill-opacity: .35 }
.frag { fill: #fff; stroke: #b35900; stroke-width: 1.6; stroke-dasharray: 3 2 }
.lost { fill: #b35900 } .x { fill: #57606a }
.used { fill: #3395ee } .idle { fill: #1a7f37 } .bad { fill: #c62828 } .room { fill: #d8dee4 }
.grey, .out { fill: #8c959f }"""

_DARK = """\
text { fill: #e6edf3 } .page { fill: #0f1318 } .card { fill: #171c22; stroke: #39424d }
.frame { fill: #0f1318; stroke: #39424d } .s, .t { fill: #a8b3bf }
.l, .g { fill: #111 } .free, .frag { fill: #0f1318 } .free { stroke: #6e7781 }
.frag { stroke: #f0a04b } .lost { fill: #f0a04b } .x { fill: #a8b3bf }
.idle { fill: #4ac26b } .bad { fill: #ff8080 } .room { fill: #39424d }"""


def svg(picture: Picture, rows: Rows) -> str:
    """*picture*, with its nodes as *rows*, as the text of an SVG file."""
    head, top = _head(picture)
    cards = Cards(picture)
    placed, bottom, right = _placed([cards.card(row) for row in rows.shown], top)
    if rows.left_out:
        more = f"and {words.count(rows.nodes_left_out, 'more node')} that differ: see --ranks"
        placed.append(_text(MARGIN, bottom + 14, more, "s"))
        bottom += 20
    width, height = max(WIDTH, right + MARGIN), bottom + MARGIN
    colours = "\n".join(f".c{i} {{ fill: {colour} }}" for i, colour in enumerate(COLOURS))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img">',
            f"<title>{_escaped(_summary(picture))}</title>",
            f"<style>\n{_STYLE}\n{colours}\n"
            f"@media (prefers-color-scheme: dark) {{\n{_DARK}\n}}\n</style>",
            f'<rect class="page" width="{width}" height="{height}"/>',
            *head,
            *placed,
            "</svg>",
            "",
        ]
    )


def _summary(picture: Picture) -> str:
    states = ", ".join(f"{number:,} {state}" for state, number in picture.totals.states)
    return f"{words.count(picture.totals.nodes, 'node')}: {states}"


def _head(picture: Picture) -> tuple[list[str], int]:
    """What stands above the nodes, and where that ends."""
    shown = [_text(MARGIN, 42, _summary(picture), "h")]
    y = 62
    for amount in picture.totals.amounts:
        shown += _amount(amount, y)
        y += 24
    y += 18
    for i, node_type in enumerate(picture.cluster.types[:MOST_TYPES]):
        ranks = picture.cluster.ranks_of_type[i]
        makeup = words.makeup(node_type.root) or "not divided"
        storage = f", storage {words.size(node_type.storage)}" if node_type.storage else ""
        what = f"{words.amounts(node_type.root)}{storage}: {makeup}"
        shown.append(_text(MARGIN, y, _cut(f"type {i + 1}", 9), "b"))
        name = f"{words.count(len(ranks), 'node')}: {words.listed(hosts(picture, ranks))}"
        shown.append(_text(MARGIN + 56, y, _cut(name, 150), ""))
        y += 18
        for line in [what, *words.links_shown(picture.cluster.links[i])[:MOST_LINKS]]:
            shown.append(_text(MARGIN + 56, y, _cut(line, 150), "s"))
            y += 18
    left = len(picture.cluster.types) - MOST_TYPES
    if left > 0:
        shown.append(_text(MARGIN + 56, y, f"and {words.count(left, 'more type')}", "s"))
        y += 18
    jobs, y = _jobs(picture, y + 4)
    return [*shown, *jobs, *_key(y)], y + 14


def _amount(amount: Amount, y: int) -> list[str]:
    """A line and a bar: used, fragmented, free, out of service."""
    left, width = MARGIN + 560, WIDTH - 2 * MARGIN - 560
    line = f"{amount.total:,} {amount.name}: {amount.free:,} free, {amount.used:,} used"
    line += f", {amount.away:,} out of service" if amount.away else ""
    line += f"; {amount.fragmented:,} fragmented" if amount.name == "GPUs" else ""
    shown = [_text(MARGIN, y + 12, line, "b")]
    shown.append(f'<rect class="room" x="{left}" y="{y}" width="{width}" height="15" rx="3"/>')
    seen = 0
    parts = (("used", amount.used), ("lost", amount.fragmented))
    for kind, part in parts:
        if part and amount.total:
            x, w = left + width * seen / amount.total, max(2.0, width * part / amount.total)
            shown.append(f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{w:.1f}" height="15"/>')
        seen += part
    if amount.away and amount.total:
        w = max(2.0, width * amount.away / amount.total)
        x = left + width - w
        shown.append(f'<rect class="out" x="{x:.1f}" y="{y}" width="{w:.1f}" height="15"/>')
    return shown


def _jobs(picture: Picture, y: int) -> tuple[list[str], int]:
    """A chip with letter, name and shape for each job, in three columns."""
    shown: list[str] = []
    listed = picture.jobs[:MOST_JOBS]
    for i, job in enumerate(listed):
        x = MARGIN + i % 3 * 400
        mark = palette.mark(picture, i)
        shown += chip(x, y, mark)
        gpus = f", {words.count(job.ngpus, 'GPU')}" if job.ngpus else ""
        what = f"{words.count(job.ncores, 'core')}{gpus}"
        name = f"{words.plain(job.name, 14)}: {words.plain(job.asked)}"
        shown.append(_text(x + 24, y + 13, _cut(name, 33), ""))
        shown.append(_text(x + 258, y + 13, _cut(what, 22), "s"))
        if i % 3 == 2 or i == len(listed) - 1:
            y += 22
    if len(picture.jobs) > MOST_JOBS:
        more = f"and {words.count(len(picture.jobs) - MOST_JOBS, 'more job')}"
        shown.append(_text(MARGIN, y + 13, more, "s"))
        y += 22
    return shown, y


def _key(y: int) -> list[str]:
    """What the cells mean that no job has."""
    shown: list[str] = []
    x = MARGIN
    for kind, what, width in (
        ("free", "free", 70),
        ("frag", "GPU free, but in no whole domain", 250),
        ("away", "out of service", 130),
    ):
        shown.append(
            f'<rect class="{kind}" x="{x + 1}" y="{y + 1}" width="13" height="13" rx="2"/>'
        )
        shown.append(_text(x + 22, y + 12, what, "s"))
        x += width
    return shown


def chip(x: int, y: int, mark: Mark) -> list[str]:
    """A job's letter on its colour."""
    kind = f"c{mark.colour}" if mark.colour >= 0 else "grey"
    return [
        f'<rect class="{kind}" x="{x}" y="{y}" width="17" height="17" rx="3"/>',
        _text(x + 8, y + 13, mark.letter, "g"),
    ]


def _placed(cards: Sequence[tuple[int, int, list[str]]], top: int) -> tuple[list[str], int, int]:
    """The cards side by side as far as the page is wide, where they end below and right."""
    shown: list[str] = []
    x, y, right, height = MARGIN, top + GAP, 0, 0
    for width, tall, parts in cards:
        if x > MARGIN and x + width > WIDTH - MARGIN:
            x, y, height = MARGIN, y + height + GAP, 0
        shown += [f'<g transform="translate({x} {y})">', *parts, "</g>"]
        x, right, height = x + width + GAP, max(right, x + width), max(height, tall)
    return shown, y + height, right


def _cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else text[: letters - 1] + "…"


def _escaped(text: str) -> str:
    return escape(text, {'"': "&quot;"})


def _text(x: float, y: float, text: str, kind: str) -> str:
    name = f' class="{kind}"' if kind else ""
    return f'<text{name} x="{x:g}" y="{y:g}">{_escaped(text)}</text>'
