"""Boxes in text: blocks side by side where they fit, nested in frames, within a given width.

A block is a list of lines. The number of blocks side by side follows from the smallest width that
each needs, so the layout of a tree takes a single walk over it.
"""

from __future__ import annotations

from typing import Sequence

from rich.cells import cell_len
from rich.text import Text

#: Smallest width supported, in columns.
NARROWEST = 40

#: Blanks between blocks side by side.
GAP = 2

Lines = list[Text]


def framed(title: Text, lines: Sequence[Text], width: int) -> Lines:
    """*lines* in a frame of *width* columns, with *title* in its upper edge."""
    heading = cut(title, width - 6)
    rest = "─" * (width - 5 - heading.cell_len)
    top = Text.assemble(("╭─ ", "dim"), heading, (f" {rest}╮", "dim"))
    body = [Text.assemble(("│ ", "dim"), padded(line, width - 4), (" │", "dim")) for line in lines]
    return [top, *body, Text(f"╰{'─' * (width - 2)}╯", style="dim")]


def columns(least: int, width: int, number: int) -> tuple[int, int]:
    """How many of *number* blocks that need *least* columns fit side by side, and their width."""
    across = max(1, min(number, (width + GAP) // (least + GAP)))
    return across, (width - GAP * (across - 1)) // across


def side_by_side(blocks: Sequence[Lines], across: int, width: int) -> Lines:
    """*blocks* in rows of *across*, each padded to *width* and to the height of its row."""
    found: Lines = []
    for first in range(0, len(blocks), across):
        row = blocks[first : first + across]
        for i in range(max(map(len, row))):
            line = Text()
            for place, lines in enumerate(row):
                line.append(" " * GAP if place else "")
                line.append_text(padded(lines[i] if i < len(lines) else Text(), width))
            found.append(line)
    return found


def cut(text: Text, width: int) -> Text:
    """*text* in at most *width* columns."""
    if text.cell_len <= width:
        return text
    if width < 2:  # rich 12 would loop forever
        return Text("…" * max(width, 0))
    text = text.copy()
    text.truncate(width, overflow="ellipsis")
    return text


def padded(text: Text, width: int) -> Text:
    """*text* in exactly *width* columns."""
    text = cut(text, width).copy()
    text.append(" " * (width - text.cell_len))
    return text


def cut_start(words: str, width: int) -> str:
    """*words* in at most *width* columns, without their start: names differ at the end."""
    if cell_len(words) <= width:
        return words
    end = words[-width:]
    while cell_len(end) >= width:
        end = end[1:]
    return f"…{end}"


def wrapped(text: Text, width: int, indent: int) -> Lines:
    """*text* in lines of at most *width* columns, broken at blanks, later lines indented."""
    if text.cell_len <= width:
        return [text]
    lines: Lines = []
    rest = text
    while rest.cell_len > width:
        at = rest.plain.rfind(" ", indent + 1, width + 1)
        at = at if at > indent else max(width - 1, 1)
        lines.append(cut(rest[:at], width))
        rest = Text(" " * indent).append_text(_left_stripped(rest[at:]))
    return [*lines, rest]


def _left_stripped(text: Text) -> Text:
    blanks = len(text.plain) - len(text.plain.lstrip())
    return text[blanks:]
