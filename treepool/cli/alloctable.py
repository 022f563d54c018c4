"""The table of allocations that ``treepool alloc`` prints for people.

A refusal takes the space of all columns that say what a job got. rich has no cells that span
columns, so these columns are a grid inside one column, with equal widths in every row. This module
chooses the widths, because on a narrow terminal rich would drop columns, and break "72-88" after
the first 8.
"""

from __future__ import annotations

import re
from typing import Optional, Sequence

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from treepool.cli.answers import Answer, Refusal
from treepool.cli.screen import printable
from treepool.placement.allocation import Allocation
from treepool.rfc import hostlist, idset

#: The headings of the columns, and the smallest width of each: that of its heading, or this one.
_HEADINGS = ("shape", "nodes", "ranks", "cores", "GPUs", "slots")
_NARROWEST = (16, 10, 6, 10, 6, 5)

#: Blanks between columns.
_GAP = 2

_STYLES = {"invalid": "red", "infeasible": "red", "insufficient": "yellow"}

_Cells = Sequence[str]


def table(answers: Sequence[Answer], width: int) -> RenderableType:
    """*answers* as a table of at most *width* columns, or as a list if *width* is too small."""
    got = [() if isinstance(a.outcome, Refusal) else _rows(a.outcome) for a in answers]
    columns = list(zip(*(row for rows in got for row in rows))) or [()] * 5
    cells = [[printable(a.shape) for a in answers], *columns]
    natural = [max(map(cell_len, (h, *column))) for h, column in zip(_HEADINGS, cells)]
    number = len(str(len(answers)))
    widths = _fitted(natural, width - number - _GAP * len(natural))
    if widths is None:
        return _list(answers, got)
    new = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    new.add_column("#", width=number, justify="right")
    new.add_column(_HEADINGS[0], width=widths[0], overflow="fold")
    new.add_column(_grid([_HEADINGS[1:]], widths[1:]) if any(got) else "", overflow="fold")
    for i, (answer, rows) in enumerate(zip(answers, got), 1):
        outcome = answer.outcome
        what = _refusal(outcome) if isinstance(outcome, Refusal) else _grid(rows, widths[1:])
        new.add_row(str(i), Text(_wrapped(printable(answer.shape), widths[0])), what)
    return new


def _rows(allocation: Allocation) -> Sequence[_Cells]:
    """A row for each entry of R_lite: hosts, ranks, cores, GPUs; the first row has the slots."""
    hosts = hostlist.decode(",".join(allocation.to_dict()["execution"]["nodelist"]))
    names = dict(zip(allocation.ranks, hosts))
    return [
        (
            printable(hostlist.encode([names[rank] for rank in ranks])),
            idset.encode_ids(ranks),
            idset.encode(cores) or "-",
            idset.encode(gpus) or "-",
            "" if i else str(allocation.nslots),
        )
        for i, (ranks, cores, gpus) in enumerate(allocation.parts)
    ]


def _fitted(natural: Sequence[int], room: int) -> Optional[list[int]]:
    """*natural* widths, with the largest reduced until all fit into *room*; None if impossible."""
    widths = list(natural)
    while sum(widths) > room:
        can = [i for i, width in enumerate(widths) if width > _NARROWEST[i]]
        if not can:
            return None
        widths[max(can, key=lambda i: widths[i])] -= 1
    return widths


def _grid(rows: Sequence[_Cells], widths: Sequence[int]) -> Table:
    grid = Table.grid(padding=(0, _GAP, 0, 0), pad_edge=False)
    for heading, width in zip(_HEADINGS[1:], widths):
        grid.add_column(
            width=width, justify="right" if heading == "slots" else "left", overflow="fold"
        )
    for row in rows:
        grid.add_row(*(Text(_wrapped(cell, width)) for cell, width in zip(row, widths)))
    return grid


def _wrapped(text: str, width: int) -> str:
    """*text* in lines of at most *width*, broken after a comma, slash or semicolon if possible."""
    lines = [""]
    for piece in re.findall(r"[^,/;]*[,/;]|[^,/;]+", text):
        if lines[-1] and cell_len(lines[-1]) + cell_len(piece) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(lines)


def _list(answers: Sequence[Answer], got: Sequence[Sequence[_Cells]]) -> Text:
    """The same answers in words, for widths where columns do not fit."""
    text = Text(overflow="fold")
    for i, (answer, rows) in enumerate(zip(answers, got), 1):
        text.append(f"{i}: {printable(answer.shape)}\n", style="bold")
        if isinstance(answer.outcome, Refusal):
            text.append(_refusal(answer.outcome)).append("\n")
        for nodes, ranks, cores, gpus, slots in rows:
            text.append(f"{nodes} (rank {ranks}): cores {cores}, GPUs {gpus}\n")
            text.append(f"slots: {slots}\n" if slots else "")
    text.rstrip()
    return text


def _refusal(refusal: Refusal) -> Text:
    text = Text(overflow="fold")
    text.append(refusal.kind, style=_STYLES[refusal.kind])
    return text.append(f": {printable(refusal.message)}")
