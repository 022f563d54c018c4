"""The tables of ``treepool replay``: a column for each replay, and how many starts are listed.

Columns that do not fit beside the others form another table below.
"""

from __future__ import annotations

from typing import Iterator, Mapping, Sequence

from rich.cells import cell_len

from treepool.view.outcome import heading, names, rows, time_shown, wait_texts
from treepool.view.replay import Outcome
from treepool.view.table import GAP, Cell, Line, lines
from treepool.view.tally import Waits
from treepool.view.words import plain

#: Most jobs of a snapshot whose starts are listed.
MAX_STARTS = 20


def table(outcomes: Sequence[Outcome], width: int) -> Iterator[Line]:
    """The numbers of *outcomes*."""
    labels, *columns = zip(*rows(outcomes))
    return _columns("", labels, heading(outcomes), columns, width)


def waits_table(
    kind: str, outcomes: Sequence[Outcome], groups: Sequence[Mapping[str, Waits]], width: int
) -> Iterator[Line]:
    """How long jobs waited in each of *outcomes*, by their *groups* of some *kind*."""
    names = list(dict.fromkeys(name for found in groups for name in found))
    heads: list[list[str]] = []
    columns: list[list[str]] = []
    for head, found in zip(heading(outcomes), groups):
        cells = [("jobs", "wait, mean", "95 % within"), *(wait_texts(found.get(n)) for n in names)]
        sizes = [max(map(len, column)) for column in zip(*cells)]
        what, *texts = [(" " * GAP).join(map(str.rjust, row, sizes)) for row in cells]
        heads.append([*head, what])
        columns.append(texts)
    return _columns(f"by {kind}", names, heads, columns, width)


def _columns(
    title: str,
    labels: Sequence[str],
    heads: Sequence[list[str]],
    columns: Sequence[Sequence[str]],
    width: int,
) -> Iterator[Line]:
    """*columns* beside their *labels*, below their *heads* in bold, in at most *width* columns."""
    height = max(map(len, heads))
    labels = [title, *[""] * (height - 1), *labels]
    padded = [head + [""] * (height - len(head)) for head in heads]
    whole = [[*head, *column] for head, column in zip(padded, columns)]
    for number, some in enumerate(_fitting(whole, width - max(map(cell_len, labels)))):
        if number:
            yield ""
        found: list[list[Cell]] = []
        for i, row in enumerate(zip(labels, *some)):
            if any(row):
                found.append([(cell, "bold" if i < height else "") for cell in row])
        yield from lines((), found, width, "l" + "r" * len(some))


def starts_table(outcomes: Sequence[Outcome], width: int) -> Iterator[Line]:
    """When the first jobs that wait in a snapshot start: a row for each, a column for each rule."""
    first = outcomes[0].starts[:MAX_STARTS]
    if not first:
        return
    rows = [
        [plain(told[0].job), *(time_shown(one.after) for one in told)]
        for told in zip(*(outcome.starts[:MAX_STARTS] for outcome in outcomes))
    ]
    heads = ["job starts after", *names(outcomes)]
    yield ""
    yield from lines(heads, rows, width, "l" + "r" * len(outcomes))
    if len(outcomes[0].starts) > len(first):
        yield f"{len(outcomes[0].starts) - len(first):,} more jobs: --json tells all"
    yield "as if each job used all its time"
    if any(one.after is None for outcome in outcomes for one in outcome.starts):
        yield "-: it is refused, or waits for jobs without a limit or nodes that are down"


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
