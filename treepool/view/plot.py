"""The plot of replays: its panels over time, colours and dashes of lines, the unit of time.

A plot has a panel for each number, and each panel a line for each set of rules. Points are means
over equal intervals, so the lines are steps. matplotlib draws it (cli/replayplot.py), for
``treepool replay --svg`` and for the page.
"""

from __future__ import annotations

from typing import Callable, Sequence

import attrs

from treepool.view import words
from treepool.view.outcome import names, rows
from treepool.view.replay import Outcome
from treepool.view.tally import Point

#: Colours of lines, which have contrast enough on a white page and on a dark one.
COLOURS = ("#2f8de6", "#d9691f", "#1f9a4c", "#a866d6", "#a5830b", "#e0526e")

#: How each line is dashed: lengths of strokes and gaps, in widths of the line. Lines differ in
#: this as well as in colour.
DASHES = ((), (6, 2), (1.5, 1.5), (8, 2, 1.5, 2), (3, 3), (8, 2, 1.5, 2, 1.5, 2), (12, 4))

#: Units of the time axis: how long one is, in seconds, and its name.
_UNITS = ((86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))

#: The axis uses the largest unit of which it has at least this many.
_FEWEST_UNITS = 3


@attrs.frozen
class Series:
    """The line of one set of rules: *values* between *edges* (in units), one edge more."""

    edges: tuple[float, ...]
    values: tuple[float, ...]


@attrs.frozen
class Panel:
    """A number over time, and its lines in the order of the names."""

    title: str
    lines: tuple[Series, ...]


@attrs.frozen
class Plot:
    """The panels, the names of the lines, and the name of the unit of time."""

    title: str
    names: tuple[str, ...]
    unit: str
    panels: tuple[Panel, ...]
    #: The numbers: a label, and a text for each line.
    table: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> Plot:
        """The plot of *outcomes*, at least one."""
        first = outcomes[0]
        span = max(outcome.span for outcome in outcomes)
        seconds, unit = next((u for u in _UNITS if span >= _FEWEST_UNITS * u[0]), _UNITS[-1])
        panels: list[tuple[str, Callable[[Outcome, Point], float]]] = [
            ("cores in use, %", lambda one, point: _percent(point.cores_used, one.cores))
        ]
        if any(outcome.gpus for outcome in outcomes):
            panels += [
                ("GPUs in use, %", lambda one, point: _percent(point.gpus_used, one.gpus)),
                ("GPUs stranded, %", lambda one, point: _percent(point.gpus_stranded, one.gpus)),
            ]
        panels.append(("jobs waiting", lambda one, point: point.waiting))
        return cls(
            f"{words.count(first.jobs + first.nrefused, 'job')} replayed",
            names(outcomes),
            unit,
            tuple(
                Panel(title, tuple(_line(outcome, seconds, value) for outcome in outcomes))
                for title, value in panels
            ),
            tuple(rows(outcomes)),
        )


def _percent(part: float, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


def _line(outcome: Outcome, seconds: float, value: Callable[[Outcome, Point], float]) -> Series:
    edges = [point.start / seconds for point in outcome.curve]
    edges += [point.end / seconds for point in outcome.curve[-1:]]
    return Series(tuple(edges), tuple(value(outcome, point) for point in outcome.curve))
