"""Tables in text: how wide each column is, and which are folded where a table is too wide.

Rich lays out and renders each cell, which takes seconds for a thousand nodes. These tables only
pad. A table that is too wide has its widest columns folded, at blanks and separators if possible.
Cells may come from anybody: what is not printable in them is escaped before they are measured.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Iterator, Sequence, Union

from rich.cells import cell_len

from treepool.rfc.quote import printable

#: A cell: its text, or its text and its colour.
Cell = Union[str, tuple[str, str]]

#: A text that is printable, and its colour.
_Pair = tuple[str, str]

#: A line to print: its text, or its parts in their colours.
Line = Union[str, list[Cell]]

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
) -> Iterator[list[Cell]]:
    """The lines of a table in *width* columns, if no column must be narrower than *least*.

    *align* has a letter for each column: "l", or "r" if it is right-aligned. The last cell of a row
    that is shorter than *header* has the rest of the width. The header is "bold". It may be empty;
    then all rows are of one length.
    """
    number = len(header) or max(map(len, rows), default=0)
    heading = [_pair((name, "bold")) for name in header]
    inside = [list(map(_pair, row)) for row in rows]
    sized = [row if len(row) == number else row[:-1] for row in (heading, *inside)]
    room = max(width - GAP * (number - 1), 0)
    columns = zip_longest(*sized, fillvalue=("", ""))
    sizes = [min(max(_size(text) for text, _ in column), max(room, least)) for column in columns]
    while sum(sizes) > room and max(sizes) > least:
        sizes[sizes.index(max(sizes))] -= 1
    align = align.ljust(number, "l")
    for row in (heading, *inside) if header else inside:
        own = sizes
        if len(row) < number:
            own = sizes[: len(row)]
            own[-1] += max(width - sum(own) - GAP * (len(row) - 1), 0)
        yield from _row(row, own, align)


def text_of(line: Line) -> str:
    """The text of *line*, without colours."""
    return line if isinstance(line, str) else "".join(text for text, _ in map(_pair, line))


def _pair(cell: Cell) -> _Pair:
    text, colour = (cell, "") if isinstance(cell, str) else cell
    return printable(text), colour


def _row(row: Sequence[_Pair], sizes: Sequence[int], align: str) -> Iterator[list[Cell]]:
    """The lines of one row: several if a cell must be folded."""
    while row:
        line: list[Cell] = []
        later: list[_Pair] = []
        blanks = 0
        for (text, colour), room, side in zip(row, sizes, align):
            left = room - _size(text)
            if left < 0:
                text, rest = _folded(text, room)
                later += [("", "")] * (len(line) // 2 - len(later))
                later.append((rest, colour))
                left = room - _size(text)
            line += [" " * (blanks + left if side == "r" else blanks), (text, colour)]
            blanks = GAP if side == "r" else left + GAP
        yield _stripped(line)
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


def _size(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)


def _stripped(line: list[Cell]) -> list[Cell]:
    """*line*, in which blanks and texts take turns, without empty texts at its end."""
    while line and not line[-1][0]:
        del line[-2:]
    return line
