"""Tables of many rows, such as a line for each GPU of a cluster.

Rich lays out and renders each cell, which takes seconds for a thousand nodes. These tables only
pad: a table that is too wide has its widest column folded.
"""

from __future__ import annotations

from typing import Iterator, Sequence

from treepool.cli.screen import coloured, columns

#: A cell: its text, and its colour (see ``screen.coloured``), "" for none.
Cell = tuple[str, str]

#: Columns between two cells; and the least to which a column is folded.
_GAP, _LEAST = 2, 8


def lines(header: Sequence[str], rows: Sequence[Sequence[Cell]], width: int) -> Iterator[str]:
    """The lines of a table in *width* columns."""
    sizes = [len(name) for name in header]
    for row in rows:
        for i, (text, _) in enumerate(row):
            size = len(text) if text.isascii() else columns(text)
            if size > sizes[i]:
                sizes[i] = size
    while sizes and sum(sizes) + _GAP * (len(sizes) - 1) > width and max(sizes) > _LEAST:
        widest = sizes.index(max(sizes))
        over = sum(sizes) + _GAP * (len(sizes) - 1) - width
        sizes[widest] = max(_LEAST, sizes[widest] - over)
    yield from _row([(name, "bold") for name in header], sizes)
    for row in rows:
        yield from _row(row, sizes)


def _row(row: Sequence[Cell], sizes: Sequence[int]) -> Iterator[str]:
    """The lines of one row: several if a cell must be folded."""
    rest = [text for text, _ in row]
    while True:
        line, later = [], [""] * len(row)
        for i, text in enumerate(rest):
            colour = row[i][1]
            size = len(text) if text.isascii() else columns(text)
            if size > sizes[i]:
                text, later[i] = _folded(text, sizes[i])
                size = len(text) if text.isascii() else columns(text)
            shown = coloured(text, colour) if colour and text else text
            line.append(shown + " " * (sizes[i] - size))
        yield (" " * _GAP).join(line).rstrip(" ")
        if not any(later):
            return
        rest = later


def _folded(text: str, size: int) -> tuple[str, str]:
    """*text* up to *size* columns, at the last blank or comma there if there is one; the rest."""
    end = 0
    for character in text:
        size -= 1 if character.isascii() else columns(character)
        if size < 0:
            break
        end += 1
    end = max(end, 1)
    place = max(text.rfind(" ", 0, end), text.rfind(",", 0, end))
    if place > 0:
        end = place + 1
    return text[:end].rstrip(" "), text[end:].lstrip(" ")
