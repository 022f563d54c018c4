"""The table of replays that ``treepool replay`` prints for people: a column for each set of rules.

Columns that do not fit beside the others form another table below.
"""

from __future__ import annotations

from typing import Iterator, Sequence

from rich.cells import cell_len

from treepool.cli.screen import coloured, printable
from treepool.view.outcome import numbers
from treepool.view.replay import Outcome
from treepool.view.table import GAP, Cell, lines

#: An outcome, and how many seconds the replay took.
Timed = tuple[Outcome, float]


def table(found: Sequence[Timed], width: int) -> Iterator[str]:
    """*found* in at most *width* columns."""
    outcomes = [[*numbers(outcome), _rate(outcome, seconds)] for outcome, seconds in found]
    heads = _heads([outcome for outcome, _ in found])
    blank = [""] * len(heads[0])
    labels = [*blank, *(label for label, _ in outcomes[0])]
    columns = [[*head, *(value for _, value in outcome)] for head, outcome in zip(heads, outcomes)]
    for number, some in enumerate(_fitting(columns, width - max(map(cell_len, labels)))):
        if number:
            yield ""
        rows: list[list[Cell]] = []
        for row in zip(labels, *some):
            colour = "bold" if len(rows) < len(blank) else ""
            if any(row):
                rows.append([(cell, colour) for cell in row])
        yield from lines((), rows, width, "l" + "r" * len(some), paint=coloured)


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
        needed = GAP + max(map(cell_len, column))
        if some and needed > left:
            yield some
            some, left = [], room
        some.append(column)
        left -= needed
    yield some


def _rate(outcome: Outcome, seconds: float) -> tuple[str, str]:
    return "replayed, jobs/s", f"{outcome.jobs / seconds if seconds else 0.0:,.0f}"
