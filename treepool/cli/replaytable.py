"""The table of replays that ``treepool replay`` prints for people: a column for each set of rules.

Columns that do not fit beside the others form another table below.
"""

from __future__ import annotations

from typing import Iterator, Optional, Sequence

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.text import Text

from treepool.cli.screen import printable
from treepool.view.replay import Outcome

_GAP = 3

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400

#: An outcome, and how many seconds the replay took.
Timed = tuple[Outcome, float]


def table(found: Sequence[Timed], width: int) -> RenderableType:
    """*found* in at most *width* columns."""
    rows = [_cells(outcome, seconds) for outcome, seconds in found]
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


def _cells(outcome: Outcome, seconds: float) -> list[tuple[str, str]]:
    """The label of each row, and its value for this outcome."""
    gpus = outcome.gpus > 0
    found = [
        ("jobs run", f"{outcome.jobs:,}"),
        ("jobs refused", f"{outcome.nrefused:,}"),
        ("time in all", _time(outcome.span)),
        ("cores in use", _percent(outcome.cores_used)),
    ]
    if gpus:
        found.append(("GPUs in use", _percent(outcome.gpus_used)))
    found += [
        ("wait, mean", _time(outcome.wait_mean)),
        ("wait, median", _time(outcome.wait_median)),
        ("wait, 95 % within", _time(outcome.wait_p95)),
        ("wait, longest", _time(outcome.wait_max)),
        ("slots placed locally", _percent(outcome.local / outcome.slots) if outcome.slots else "-"),
        ("cores fragmented", _percent(outcome.cores_fragmented)),
    ]
    if gpus:
        found.append(("GPUs fragmented", _percent(outcome.gpus_fragmented)))
    for spread in outcome.spreads:
        name = printable(spread.locality)
        found.append((f"{name} over the fewest, mean", _ratio(spread.mean)))
        found.append((f"{name} over the fewest, 95 %", _ratio(spread.p95)))
    rate = outcome.jobs / seconds if seconds else 0.0
    return [*found, ("replayed, jobs/s", f"{rate:,.0f}")]


def _ratio(value: Optional[float]) -> str:
    return "-" if value is None else f"{value:.2f}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _time(seconds: Optional[float]) -> str:
    """A time in its usual one or two units: "3 h 05 min", "12.5 s"."""
    if seconds is None:
        return "-"
    if seconds < _MINUTE:
        return f"{seconds:.3g} s"
    if seconds < _HOUR:
        return _two(seconds, _MINUTE, 1, "min", "s")
    if seconds < _DAY:
        return _two(seconds, _HOUR, _MINUTE, "h", "min")
    return _two(seconds, _DAY, _HOUR, "d", "h")


def _two(seconds: float, large: int, small: int, unit: str, smaller: str) -> str:
    whole, rest = divmod(round(seconds / small), large // small)
    return f"{whole:,} {unit} {rest:02} {smaller}"
