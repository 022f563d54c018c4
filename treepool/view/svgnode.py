"""A node as part of an SVG: a card with frames for domains and a square for every core and GPU."""

from __future__ import annotations

import math
from typing import Sequence
from xml.sax.saxutils import escape

import attrs

from treepool.placement.nodes.tree import NODE
from treepool.rfc import idset
from treepool.view import palette, words
from treepool.view.cells import MAX_CELLS, Block, Run, block, runs
from treepool.view.model import UP
from treepool.view.palette import Mark
from treepool.view.picture import Picture
from treepool.view.rows import Row, hosts

#: Pixels from a core to the next, from a GPU to the next, around what is in a frame, of a title.
_CORE, _GPU, _PAD, _TITLE = 12, 25, 7, 15

#: Width that domains flow in, and least width of a card.
_FLOW, _LEAST = 575, 589

#: The card's own title and the line that names the holders.
_HEAD, _HOLDERS = 24, 22

#: Holders named below a node at most.
_MOST_HOLDERS = 5


@attrs.frozen
class _Box:
    """Something placed: its size, and how it is drawn with its corner at (0, 0)."""

    width: int
    height: int
    parts: tuple[str, ...]


class Cards:
    """Draws rows of one picture; blocks of a type are made once."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._blocks: dict[int, Block] = {}

    def card(self, row: Row) -> tuple[int, int, list[str]]:
        """Width, height and parts of the card of *row*."""
        place = row.layout.type
        if place not in self._blocks:
            self._blocks[place] = block(self._picture.cluster.types[place])
        marks = palette.marks(self._picture, row)
        inside = _Cells(row, marks).drawn(self._blocks[place], _FLOW)
        width = max(_LEAST, inside.width + 2 * _PAD)
        holders = self._holders(row, marks)
        height = _HEAD + inside.height + (_HOLDERS if holders else 0) + 2 * _PAD
        parts = [
            f'<rect class="card" width="{width}" height="{height}" rx="6"/>',
            *self._title(row, width),
            _moved(_PAD, _HEAD + _PAD, inside.parts),
            _moved(_PAD, _HEAD + inside.height + _PAD + 5, holders) if holders else "",
        ]
        return width, height, [part for part in parts if part]

    def _title(self, row: Row, width: int) -> list[str]:
        times = f"{len(row.ranks):,} {words.TIMES} " if len(row.ranks) > 1 else ""
        names = _cut(times + words.listed(hosts(self._picture, row.ranks)), 36)
        ids = _cut(idset.encode_ids(row.ranks), 16)
        kinds = len(self._picture.cluster.types)
        kind = f"type {row.layout.type + 1}, " if kinds > 1 else ""
        state = row.layout.state
        style = {"idle": "idle", "down": "bad", "drained": "bad"}.get(state, "")
        rank = f"rank{'' if len(row.ranks) == 1 else 's'} {ids}"
        return [
            _text(_PAD + 1, 20, names, "b"),
            _text(_PAD + 310, 20, f"{kind}{rank}", "s"),
            f'<text class="b {style}" x="{width - _PAD}" y="20" text-anchor="end">{state}</text>',
        ]

    def _holders(self, row: Row, marks: Sequence[Mark]) -> list[str]:
        parts: list[str] = []
        for i, (mark, jobs) in enumerate(list(zip(marks, row.jobs))[:_MOST_HOLDERS]):
            x = i * 108
            kind = f"c{mark.colour}" if mark.colour >= 0 else "grey"
            parts.append(f'<rect class="{kind}" x="{x}" width="15" height="15" rx="3"/>')
            parts.append(_text(x + 7.5, 12, mark.letter, "g"))
            first = words.plain(self._picture.jobs[jobs[0]].name, 9)
            name = f"job {first}" if len(jobs) == 1 else f"{len(jobs):,} jobs"
            parts.append(_text(x + 20, 12, name, "s"))
        if len(row.jobs) > _MOST_HOLDERS:
            parts.append(_text(_MOST_HOLDERS * 108 - 8, 12, f"+{len(row.jobs) - 5}", "s"))
        return parts


class _Cells:
    """Draws the blocks of one row."""

    def __init__(self, row: Row, marks: Sequence[Mark]) -> None:
        self._cores = [cores for cores, _ in row.layout.held]
        self._gpus = [gpus for _, gpus in row.layout.held]
        self._marks = marks
        self._up = row.layout.status == UP
        self._fragmented = row.layout.fragmented

    def drawn(self, here: Block, room: int) -> _Box:
        """*here* without a frame of its own."""
        boxes = [self._framed(child) for child in here.children]
        own = self._leaf(here) if here.cores or here.gpus else None
        across = len(boxes) if here.title == NODE else math.ceil(math.sqrt(len(boxes)))
        flow = _flowed(boxes, across, room) if boxes else _Box(0, 0, ())
        found = flow
        if own is not None:
            below = own.height + 4 if flow.height else own.height
            parts = (*own.parts, _moved(0, below, flow.parts)) if boxes else own.parts
            found = _Box(max(own.width, flow.width), below + flow.height, parts)
        if here.left_out:
            more = _text(0, found.height + 12, f"and {here.left_out:,} more", "t")
            found = _Box(max(found.width, 90), found.height + 16, (*found.parts, more))
        return found

    def _framed(self, here: Block) -> _Box:
        """*here* with its title, and a frame if there is something inside."""
        inside = self.drawn(here, _FLOW)
        memory = f", {words.size(here.memory)}" if here.memory else ""
        wide = max(inside.width, 84)
        name = _text(0, 11, _cut(here.title + memory, max(12, wide // 7)), "t")
        body = _moved(0, _TITLE, inside.parts)
        if not here.children:
            return _Box(wide + 6, inside.height + _TITLE + 4, (name, body))
        width, height = wide + 2 * _PAD, inside.height + _TITLE + _PAD + 6
        frame = f'<rect class="frame" width="{width}" height="{height}" rx="4"/>'
        return _Box(width, height, (frame, _moved(_PAD, 3, [name]), _moved(_PAD, 6, [body])))

    def _leaf(self, here: Block) -> _Box:
        """The cores of *here* itself, and right of them its GPUs."""
        cores = self._grid(runs(here.cores, self._cores), idset.size(here.cores), _CORE)
        gpus = self._grid(
            runs(here.gpus, [*self._gpus, self._fragmented]), idset.size(here.gpus), _GPU
        )
        left = cores.width + 5 if cores.width else 0
        parts = (*cores.parts, _moved(left, 0, gpus.parts)) if gpus.parts else cores.parts
        return _Box(left + gpus.width, max(cores.height, gpus.height), parts)

    def _grid(self, cells: Sequence[Run], total: int, pitch: int) -> _Box:
        if not total:
            return _Box(0, 0, ())
        if total > MAX_CELLS:
            return self._counted(cells)
        gpu = pitch == _GPU
        across = min(total, 4 if gpu else 8 if total <= 32 else 16 if total <= 128 else 32)
        side, letter = (23, "g") if gpu else (11, "l")
        parts: list[str] = []
        place = 0
        for run in cells:
            kind, sign = self._sign(run, gpu)
            spots = [divmod(place + i, across) for i in range(run.count)]
            path = "".join(f"M{c * pitch} {r * pitch}h{side}v{side}h-{side}z" for r, c in spots)
            # Half a pixel, so that outlines are sharp.
            parts.append(f'<path class="{kind}" transform="translate(.5 .5)" d="{path}"/>')
            marked = [s for i, s in enumerate(spots) if sign and (gpu or i == 0 or s[1] == 0)]
            baseline = side / 2 + (4.3 if gpu else 3.2)
            parts += [
                _text(c * pitch + side / 2 + 0.5, r * pitch + baseline, sign, letter)
                for r, c in marked
            ]
            place += run.count
        rows = -(-total // across)
        return _Box(across * pitch, rows * pitch, tuple(parts))

    def _counted(self, cells: Sequence[Run]) -> _Box:
        """A line for each holder, where cells are too many."""
        parts: list[str] = []
        shown = cells[:12]
        for i, run in enumerate(shown):
            kind, sign = self._sign(run, False)
            parts.append(f'<rect class="{kind}" x=".5" y="{i * 16 + 0.5}" width="12" height="12"/>')
            parts.append(_text(18, i * 16 + 11, f"{sign} {run.count:,}".strip(), "t"))
        return _Box(100, 16 * len(shown), tuple(parts))

    def _sign(self, run: Run, gpu: bool) -> tuple[str, str]:
        """The class of a run's cells, and what is written on them."""
        if run.holder is None:
            return ("free", "") if self._up else ("away", "")
        if gpu and run.holder == len(self._gpus):
            return "frag", ""
        mark = self._marks[run.holder]
        return (f"c{mark.colour}" if mark.colour >= 0 else "grey"), mark.letter


def _flowed(boxes: Sequence[_Box], across: int, room: int) -> _Box:
    """*boxes* in rows of at most *across* and at most *room* wide."""
    parts: list[str] = []
    x = y = height = width = number = 0
    for box in boxes:
        if number and (number >= across or x + box.width > room):
            x, y, height, number = 0, y + height + 6, 0, 0
        parts.append(_moved(x, y, box.parts))
        width, height = max(width, x + box.width), max(height, box.height)
        x, number = x + box.width + 6, number + 1
    return _Box(width, y + height, tuple(parts))


def _moved(x: int, y: int, parts: Sequence[str]) -> str:
    inside = "".join(parts)
    return f'<g transform="translate({x} {y})">{inside}</g>' if x or y else inside


def _cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else text[: letters - 1] + "…"


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(text)}</text>'
