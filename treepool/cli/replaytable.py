"""The table of replays that ``treepool replay`` prints for people: a column for each set of rules.

Columns that do not fit beside the others form another table below.
"""

from __future__ import annotations

from typing import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.text import Text

from treepool.cli.screen import printable
from treepool.view.outcome import numbers
from treepool.view.replay import Outcome

_GAP = 3

#: An outcome, and how many seconds the replay took.
Timed = tuple[Outcome, float]


def table(found: Sequence[Timed], width: int) -> RenderableType:
    """*found* in at most *width* columns."""
    rows = [[*numbers(outcome), _rate(outcome, seconds)] for outcome, seconds in found]
    labels = [label for label, _ in rows[0]]
    first = max(map(cell_len, labels))
    columns = [
        [*head, *(value for _, value in row)]
        for head, row in zip(_heads([outcome for outcome, _ in found]), rows)
    ]
    blank = [""] * (len(columns[0]) - len(labels))
    parts: list[Text] = []
    for some in _fitting(columns, width - first):
        parts += [Text()] if parts else []
        widths = [max(map(cell_len, column)) for column in some]
        for i, label in enumerate([*blank, *labels]):
            cells = [column[i] for column in some]
            if not any((label, *cells)):
                continue
            line = _line(label, cells, first, widths)
            line.stylize("bold" if i < len(blank) else "")
            parts.append(line)
    return Group(*parts)


def _heads(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """The heading of each column: one option per line, with the same number of lines for all."""
    heads = [[_option(word) for word in o.rules.name.split(",")] for o in outcomes]
    height = max(map(len, heads))
    return [head + [""] * (height - len(head)) for head in heads]


def _option(word: str) -> str:
    """A short form of an option; for a policy the value alone is clear."""
    name, _, value = printable(word).partition("=")
    if name in ("policy", "node-policy"):
        return value
    return f"{name.rpartition('-')[2]} {value}"


def _fitting(columns: Sequence[list[str]], room: int) -> Iterator[list[list[str]]]:
    """*columns* in groups that fit into *room*, with at least one column in each."""
    some: list[list[str]] = []
    left = room
    for column in columns:
        needed = _GAP + max(map(cell_len, column))
        if some and needed > left:
            yield some
            some, left = [], room
        some.append(column)
        left -= needed
    yield some


def _line(label: str, values: Sequence[str], first: int, widths: Sequence[int]) -> Text:
    line = Text(label + " " * (first - cell_len(label)), no_wrap=True, overflow="ellipsis")
    for value, width in zip(values, widths):
        line.append(" " * (_GAP + width - cell_len(value)) + value)
    return line


def _rate(outcome: Outcome, seconds: float) -> tuple[str, str]:
    return "replayed, jobs/s", f"{outcome.jobs / seconds if seconds else 0.0:,.0f}"
