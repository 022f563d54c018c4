"""Tables in text: how wide each column is, and which are folded where a table is too wide.

Rich lays out and renders each cell, which takes seconds for a thousand nodes. These tables only
pad. A table that is too wide has its widest columns folded, at blanks and separators if possible.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Callable, Iterator, Sequence, Union

from rich.cells import cell_len

#: A cell: its text, or its text and its colour.
Cell = Union[str, tuple[str, str]]

#: Blanks between two cells.
GAP = 2

#: Where a cell is folded, after the character.
_SEPARATORS = " ,;/"


def lines(
    header: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    width: int,
    align: str = "",
    least: int = 8,
    paint: Callable[[str, str], str] = lambda text, colour: text,
) -> Iterator[str]:
    """The lines of a table in *width* columns, if no column must be narrower than *least*.

    *align* has a letter for each column: "l", or "r" if it is right-aligned. The last cell of a row
    that is shorter than *header* has the rest of the width. *paint* colours a text; the header is
    "bold". It may be empty; then all rows are of one length.
    """
    number = len(header) or max(map(len, rows), default=0)
    heading: list[Cell] = [(name, "bold") for name in header]
    sized = [row if len(row) == number else row[:-1] for row in (heading, *rows)]
    room = max(width - GAP * (number - 1), 0)
    columns = zip_longest(*sized, fillvalue="")
    sizes = [min(max(map(_size, column)), max(room, least)) for column in columns]
    while sum(sizes) > room and max(sizes) > least:
        sizes[sizes.index(max(sizes))] -= 1
    align = align.ljust(number, "l")
    for row in (heading, *rows) if header else rows:
        own = sizes
        if len(row) < number:
            own = sizes[: len(row)]
            own[-1] += max(width - sum(own) - GAP * (len(row) - 1), 0)
        yield from _row(row, own, align, paint)


def _row(
    row: Sequence[Cell], sizes: Sequence[int], align: str, paint: Callable[[str, str], str]
) -> Iterator[str]:
    """The lines of one row: several if a cell must be folded."""
    while row:
        line: list[str] = []
        later: list[Cell] = []
        for cell, room, side in zip(row, sizes, align):
            text, colour = (cell, "") if isinstance(cell, str) else cell
            if _size(text) > room:
                text, rest = _folded(text, room)
                later += [""] * (len(line) - len(later))
                later.append((rest, colour))
            blanks = " " * (room - _size(text))
            shown = paint(text, colour) if colour and text else text
            line.append(blanks + shown if side == "r" else shown + blanks)
        yield (" " * GAP).join(line).rstrip(" ")
        row = later


def _folded(text: str, size: int) -> tuple[str, str]:
    """*text* up to *size* columns, at the last separator there if there is one; the rest."""
    end = 0
    for character in text:
        size -= 1 if character.isascii() else cell_len(character)
        if size < 0:
            break
        end += 1
    end = max(end, 1)
    if text[end] != " ":
        end = max(text.rfind(separator, 0, end) for separator in _SEPARATORS) + 1 or end
    return text[:end].rstrip(" "), text[end:].lstrip(" ")


def _size(cell: Cell) -> int:
    text = cell if isinstance(cell, str) else cell[0]
    return len(text) if text.isascii() else cell_len(text)
