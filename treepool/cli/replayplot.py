"""The picture of replays: cores and GPUs in use, fragments and queue over time, as an SVG.

A panel for each number and a line in it for each set of rules. Points are means over equal times,
so lines are steps. The colours follow the reader's light or dark theme; lines of more sets than
there are colours are dashed.
"""

from __future__ import annotations

import math
from typing import Callable, Sequence

import attrs

from treepool.cli import chart
from treepool.cli.screen import printable
from treepool.view.replay import Outcome
from treepool.view.tally import Point

_WIDTH, _LEFT, _RIGHT = 900, 64, 24

#: Heights: of a panel, of what is between two, of a line of the key.
_PANEL, _BETWEEN, _KEY = 116, 40, 20

_TOP, _BOTTOM = 48, 52

#: Style beside that of all charts.
_LIGHT = (
    ".head { font-weight: 600 }",
    ".line { stroke-width: 1.5 }",
    ".dashed { stroke-dasharray: 6 4 }",
)

#: Steps of the time axis, in seconds, and the unit of its numbers.
_STEPS = (
    *((s, 1.0, "s") for s in (1, 2, 5, 10, 20)),
    *((60 * m, 60.0, "min") for m in (1, 2, 5, 10, 20)),
    *((3600 * h, 3600.0, "h") for h in (1, 2, 4, 6, 12)),
    *((86_400 * d, 86_400.0, "d") for d in (1, 2, 5, 10, 20, 50, 100, 200, 500)),
)


@attrs.frozen
class _Panel:
    """What a panel shows of a point, and how much its upper edge stands for."""

    title: str
    value: Callable[[Point], float]
    top: float
    unit: str


def svg(outcomes: Sequence[Outcome]) -> str:
    """The picture of *outcomes*, of which there is one at least."""
    span = max(max(outcome.span for outcome in outcomes), 1e-3)
    panels = _panels(outcomes)
    above = _TOP + _KEY * len(outcomes) + 18
    height = above + len(panels) * (_PANEL + _BETWEEN) + _BOTTOM - _BETWEEN
    shown = [*_head(outcomes, height), *_key(outcomes)]
    for i, panel in enumerate(panels):
        upper = above + i * (_PANEL + _BETWEEN)
        shown += _frame(panel, upper, span)
        for n, outcome in enumerate(outcomes):
            shown.append(_curve(panel, outcome, n, upper, span))
    shown += _times(span, height - _BOTTOM)
    return "\n".join([*shown, "</svg>", ""])


def _panels(outcomes: Sequence[Outcome]) -> list[_Panel]:
    cores, gpus = outcomes[0].cores, outcomes[0].gpus
    found = [_percents("cores in use", lambda p: p.cores, cores)]
    if gpus:
        found.append(_percents("GPUs in use", lambda p: p.gpus, gpus))
        scattered = _percents("", lambda p: p.fragmented_gpus, gpus)
    else:
        scattered = _percents("", lambda p: p.fragmented_cores, cores)
    name = f"{'GPUs' if gpus else 'cores'} free, but in no whole domain"
    top = min(100.0, _rounded_up(_most(outcomes, scattered.value)))
    found.append(attrs.evolve(scattered, title=name, top=top))
    most = _rounded_up(_most(outcomes, lambda p: p.waiting))
    found.append(_Panel("jobs waiting", lambda p: p.waiting, most, ""))
    return found


def _most(outcomes: Sequence[Outcome], value: Callable[[Point], float]) -> float:
    return max((value(p) for outcome in outcomes for p in outcome.curve), default=0.0)


def _percents(title: str, value: Callable[[Point], float], whole: int) -> _Panel:
    return _Panel(title, lambda p: 100 * value(p) / whole if whole else 0.0, 100.0, " %")


def _rounded_up(most: float) -> float:
    """The next number from 1, 2, 3, 4, 6, 8 or 10 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(max(most, 1.0)))
    return next(step * power for step in (1, 2, 3, 4, 6, 8, 10) if step * power >= most)


def _head(outcomes: Sequence[Outcome], height: int) -> list[str]:
    title = f"{outcomes[0].jobs + outcomes[0].nrefused:,} jobs replayed"
    names = "; ".join(printable(outcome.rules.name) for outcome in outcomes)
    what = f"Use, fragmentation and queue over time, a line for each of: {names}"
    return [
        *chart.head((_WIDTH, height), title, what, lambda i, c: f".c{i} {{ stroke: {c} }}", _LIGHT),
        chart.text(_LEFT, 28, title, "title"),
    ]


def _key(outcomes: Sequence[Outcome]) -> list[str]:
    shown = []
    for i, outcome in enumerate(outcomes):
        y = _TOP + _KEY * i
        shown.append(f'<path class="line {_classes(i)}" d="M{_LEFT} {y}h28"/>')
        shown.append(chart.text(_LEFT + 36, y + 4, printable(outcome.rules.name), "key"))
    return shown


def _frame(panel: _Panel, upper: int, span: float) -> list[str]:
    shown = [chart.text(_LEFT, upper - 7, panel.title, "head")]
    for share in (0.0, 0.5, 1.0):
        y = upper + _PANEL * (1 - share)
        shown.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>')
        label = f"{panel.top * share:,g}{panel.unit}"
        shown.append(chart.text(_LEFT - 8, y + 4, label, "tick", "end"))
    for at, _ in _ticks(span):
        shown.append(f'<path class="grid" d="M{_x(at, span):.1f} {upper}v{_PANEL}"/>')
    return shown


def _curve(panel: _Panel, outcome: Outcome, n: int, upper: int, span: float) -> str:
    path = []
    for point in outcome.curve:
        y = upper + _PANEL * (1 - min(panel.value(point) / panel.top, 1.0))
        path.append(f"{_x(point.start, span):.1f} {y:.1f}H{_x(point.end, span):.1f}")
    return f'<path class="line {_classes(n)}" d="M{"L".join(path)}"/>' if path else ""


def _times(span: float, lower: int) -> list[str]:
    shown = [
        chart.text(_x(at, span), lower + 18, label, "tick", "middle") for at, label in _ticks(span)
    ]
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    return [
        *shown,
        chart.text(middle, lower + 38, "time since the first submission", "tick", "middle"),
    ]


def _ticks(span: float) -> list[tuple[float, str]]:
    """Times on the axis, at most a dozen, with their labels."""
    step, unit, name = next((s for s in _STEPS if span / s[0] <= 12), _STEPS[-1])
    while span / step > 12:
        step *= 2
    return [(i * step, f"{i * step / unit:,g} {name}") for i in range(int(span / step) + 1)]


def _x(at: float, span: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * at / span


def _classes(i: int) -> str:
    dashed = " dashed" if i >= len(chart.COLOURS) else ""
    return f"c{i % len(chart.COLOURS)}{dashed}"
