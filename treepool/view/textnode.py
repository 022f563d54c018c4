"""A node's box in a terminal: hosts, domains, a character for every cell, colours of states."""

from __future__ import annotations

from typing import Sequence

from rich.text import Text

from treepool.placement.nodes.tree import NODE
from treepool.rfc import idset
from treepool.view import nodewords, words
from treepool.view.cells import MAX_CELLS, Block, Run, block, runs
from treepool.view.palette import AWAY, COLOURS, FREE, GREYS, Mark
from treepool.view.picture import Picture
from treepool.view.rows import Row, hosts, marks
from treepool.view.textboxes import Lines, columns, cut, framed, side_by_side, wrapped
from treepool.view.totals import UP

STATE_STYLES = {
    "idle": "green",
    "partial": "cyan",
    "full": "blue",
    "down": "bold red",
    "drained": "bold yellow",
}

#: Most cells of a domain on one line; further cells go on lines of their own.
_ON_A_LINE = 64

#: Most holders named below a node.
_MOST_HOLDERS = 12

#: The columns that a frame adds to its contents, and the smallest width of a frame.
_FRAME, _NARROWEST_FRAME = 4, 24

#: The least room for the hosts of a node.
_NARROWEST_HOSTS = 12


def uniform(row: Row) -> bool:
    """Whether one word describes *row* as well as cells: one holder has all, or none has any."""
    if not row.jobs:
        return True
    if len(row.jobs) > 1:
        return False
    cores, gpus = row.layout.held[0]
    totals = row.layout.totals
    return idset.size(cores) == totals.cores and idset.size(gpus) == totals.gpus


def mark_style(mark: Mark) -> str:
    """The rich style of a cell with *mark*."""
    colour, letter = (*COLOURS, *GREYS)[mark.colour]
    return f"bold {letter} on {colour}"


class NodeBoxes:
    """Draws rows of one picture; the blocks of a node type are made once."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._blocks: dict[int, Block] = {}

    def least(self, row: Row) -> int:
        """How many columns the box of *row* needs without broken lines."""
        return _least(self._block(row)) + _FRAME

    def box(self, row: Row, width: int, short: bool = False) -> Lines:
        """The box of *row*, exactly *width* columns wide; without cells if *short*."""
        signs = marks(self._picture, row)
        lines = []
        if not short:
            lines = _Cells(row, signs).drawn(self._block(row), width - _FRAME)
        lines += self._holders(row, signs, width - _FRAME)
        if not lines:
            up = row.layout.status == UP
            lines.append(Text("all free" if up else "nothing allocated", "dim"))
        return framed(self._title(row, width - 6), lines, width)

    def _block(self, row: Row) -> Block:
        place = row.layout.type
        if place not in self._blocks:
            self._blocks[place] = block(self._picture.cluster.types[place])
        return self._blocks[place]

    def _title(self, row: Row, width: int) -> Text:
        many = len(row.ranks) > 1
        rest = Text("  ").append(row.layout.state, STATE_STYLES[row.layout.state])
        if len(self._picture.cluster.types) > 1:
            rest.append(f"  type {row.layout.type + 1}", "dim")
        if not many:
            rest.append(f"  rank {row.ranks[0]}", "dim")
        title = Text(f"{len(row.ranks):,} {nodewords.TIMES} " if many else "", "bold")
        room = max(_NARROWEST_HOSTS, width - title.cell_len - rest.cell_len)
        title.append(words.listed(hosts(self._picture, row.ranks), room), "bold")
        return title.append_text(rest)

    def _holders(self, row: Row, marks: Sequence[Mark], width: int) -> Lines:
        """Which jobs the letters stand for, where the letters alone do not show it."""
        if not row.jobs:
            return []
        line = Text()
        for mark, jobs in list(zip(marks, row.jobs))[:_MOST_HOLDERS]:
            line.append("   " if line else "").append(mark.letter, mark_style(mark))
            line.append(f" {_named(self._picture, jobs)}")
        if len(row.jobs) > _MOST_HOLDERS:
            line.append(f"   and {len(row.jobs) - _MOST_HOLDERS} more")
        return wrapped(line, width, 0)


def _named(picture: Picture, jobs: Sequence[int]) -> str:
    first = words.plain(picture.jobs[jobs[0]].name, 16)
    if len(jobs) == 1:
        return f"job {first}"
    return f"one of {len(jobs):,} jobs, {first} to {words.plain(picture.jobs[jobs[-1]].name, 16)}"


def _least(here: Block) -> int:
    """The columns that *here* needs if its inner blocks are stacked."""
    if not here.children:
        return len(here.title) + 2 + _cells_width(here)
    inside = max(map(_least, here.children)) + (0 if here.title == NODE else _FRAME)
    return max(inside, _cells_width(here) + 6 if here.cores or here.gpus else 0)


def _cells_width(here: Block) -> int:
    cores, gpus = idset.size(here.cores), idset.size(here.gpus)
    shown = min(cores, _ON_A_LINE)
    return shown + (2 + len(_gpu_label(here.gpus)) + 1 + min(gpus, _ON_A_LINE) if gpus else 0)


def _gpu_label(gpus: int) -> str:
    return f"gpu {words.listed(idset.encode(gpus), 12)}"


class _Cells:
    """Draws the blocks of one row."""

    def __init__(self, row: Row, marks: Sequence[Mark]) -> None:
        self._held = row.layout.held
        self._marks = marks
        self._up = row.layout.status == UP

    def drawn(self, here: Block, width: int) -> Lines:
        """*here* in at most *width* columns: its own cells, then the blocks inside."""
        lines: Lines = []
        if here.cores or here.gpus:
            label = here.title if not here.children and here.title != NODE else ""
            lines += self._leaf(here, label, width)
        if here.children:
            least = max(_least(c) + (_FRAME if c.children else 0) for c in here.children)
            across, each = columns(least, width, len(here.children))
            blocks = [self._child(child, each) for child in here.children]
            if all(not child.children for child in here.children):
                each = max(line.cell_len for lines_ in blocks for line in lines_)
            lines += side_by_side(blocks, across, each)
        if here.left_out:
            lines.append(Text(f"and {here.left_out:,} more domains", "dim"))
        return lines

    def _child(self, child: Block, width: int) -> Lines:
        if not child.children:
            return self.drawn(child, width)
        title = Text(child.title)
        if child.memory:
            title.append(f"  {words.size(child.memory)}", "dim")
        if width < _NARROWEST_FRAME:
            return [title, *self.drawn(child, width)]
        return framed(title, self.drawn(child, width - _FRAME), width)

    def _leaf(self, here: Block, label: str, width: int) -> Lines:
        """The cells of *here* itself, after *label*."""
        head = cut(Text(label, "dim"), max(width // 2, width - 2 - _cells_width(here)))
        head.append("  " if label else "")
        cores = self._row_of(here.cores, [held for held, _ in self._held])
        gpus = Text()
        if here.gpus:
            gpus.append(f"{_gpu_label(here.gpus)} ", "dim")
            gpus.append_text(self._row_of(here.gpus, [held for _, held in self._held]))
        whole = Text.assemble(head, cores, "  " if cores and gpus else "", gpus)
        if whole.cell_len <= width and cores.cell_len <= _ON_A_LINE:
            return [whole]
        room = min(max(8, (width - head.cell_len) // 8 * 8), _ON_A_LINE)
        parts = [*_chunks(cores, room), *_chunks(gpus, max(room, 8))]
        blank = Text(" " * head.cell_len)
        return [Text.assemble(blank if i else head, part) for i, part in enumerate(parts)]

    def _row_of(self, mask: int, held: Sequence[int]) -> Text:
        cells = Text()
        many = idset.size(mask) > MAX_CELLS
        for run in runs(mask, held):
            sign, style = self._sign(run)
            if many:
                cells.append(sign, style).append(f" {run.count:,}  ")
            else:
                cells.append(sign * run.count, style)
        return cells

    def _sign(self, run: Run) -> tuple[str, str]:
        if run.holder is not None:
            mark = self._marks[run.holder]
            return mark.letter, mark_style(mark)
        return (FREE, "dim") if self._up else (AWAY, "red")


def _chunks(cells: Text, width: int) -> list[Text]:
    return [cells[i : i + width] for i in range(0, len(cells), width)]
