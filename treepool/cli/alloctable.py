"""The table of ``treepool alloc``: its columns and colours, and a list where it is too wide.

A refusal takes the space of all columns that say what a job got.
"""

from __future__ import annotations

from typing import Iterator, Sequence

from rich.cells import cell_len

from treepool.cli.answers import Answer, Refusal
from treepool.rfc import idset
from treepool.view.jobs import Got
from treepool.view.table import Cell, Line, lines, text_of

_HEADINGS = ("#", "shape", "nodes", "cores", "GPUs", "slots")

#: The least width of a column, which does not break "1120-1151" after "1120-".
_LEAST = 10

_COLOURS = {"invalid": "red", "infeasible": "red", "insufficient": "yellow"}


def table(answers: Sequence[Answer], width: int) -> Iterator[Line]:
    """*answers* as a table of at most *width* columns, or as a list if *width* is too small."""
    rows: list[list[Cell]] = []
    for number, answer in enumerate(answers, 1):
        head = [str(number), answer.shape]
        outcome = answer.outcome
        if isinstance(outcome, Refusal):
            rows.append([*head, (_refusal(outcome), _COLOURS[outcome.kind])])
            continue
        for got in _rows(outcome):
            rows.append([*head, *got])
            head = ["", ""]
    headings = _HEADINGS if any(not answer.refused for answer in answers) else ("#", "shape", "")
    as_table = list(lines(headings, rows, width, "rllllr", _LEAST))
    if max(cell_len(text_of(line)) for line in as_table) <= width:
        return iter(as_table)
    return lines((), [[one] for one in _list(answers)], width)


def _rows(allocation: Got) -> Iterator[list[str]]:
    """A row for each entry of R_lite: hosts, cores, GPUs; the first row has the slots."""
    for i, (ranks, cores, gpus) in enumerate(allocation.parts):
        yield [
            allocation.where(ranks),
            idset.encode(cores) or "-",
            idset.encode(gpus) or "-",
            "" if i else str(allocation.nslots),
        ]


def _list(answers: Sequence[Answer]) -> Iterator[Cell]:
    """The same answers in words, for widths where columns do not fit."""
    for number, answer in enumerate(answers, 1):
        yield f"{number}: {answer.shape}", "bold"
        outcome = answer.outcome
        if isinstance(outcome, Refusal):
            yield _refusal(outcome), _COLOURS[outcome.kind]
            continue
        for nodes, cores, gpus, slots in _rows(outcome):
            yield f"{nodes}: cores {cores}, GPUs {gpus}"
            if slots:
                yield f"slots: {slots}"


def _refusal(refusal: Refusal) -> str:
    return f"{refusal.kind}: {refusal.message}"
