"""The plot of replays: what is in use, fragmented and waiting over time, under several rules.

A plot has a panel for each number, and each panel a line for each set of rules. Points are means
over equal intervals, so the lines are steps. matplotlib draws it (cli/replayplot.py), for
``treepool replay --svg`` and for the page.
"""

from __future__ import annotations

from typing import Callable, Sequence

import attrs

from treepool.rfc.quote import printable
from treepool.view import words
from treepool.view.outcome import numbers
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
        cores, gpus = max(first.cores, 1), first.gpus
        panels: list[tuple[str, Callable[[Point], float]]] = [
            ("cores in use, %", lambda point: 100 * point.cores_used / cores)
        ]
        lost = "free, but in no whole domain, %"
        if gpus:
            panels += [
                ("GPUs in use, %", lambda point: 100 * point.gpus_used / gpus),
                (f"GPUs {lost}", lambda point: 100 * point.gpus_fragmented / gpus),
            ]
        else:
            panels.append((f"cores {lost}", lambda point: 100 * point.cores_fragmented / cores))
        panels.append(("jobs waiting", lambda point: point.waiting))
        return cls(
            f"{words.count(first.jobs + first.nrefused, 'job')} replayed",
            tuple(printable(outcome.rules.name) for outcome in outcomes),
            unit,
            tuple(
                Panel(title, tuple(_line(outcome, seconds, value) for outcome in outcomes))
                for title, value in panels
            ),
            _table(outcomes),
        )


def _table(outcomes: Sequence[Outcome]) -> tuple[tuple[str, ...], ...]:
    columns = [numbers(outcome) for outcome in outcomes]
    return tuple((row[0][0], *(text for _, text in row)) for row in zip(*columns))


def _line(outcome: Outcome, seconds: float, value: Callable[[Point], float]) -> Series:
    edges = [point.start / seconds for point in outcome.curve]
    edges += [point.end / seconds for point in outcome.curve[-1:]]
    return Series(tuple(edges), tuple(value(point) for point in outcome.curve))
