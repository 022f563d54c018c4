"""The picture of a benchmark: what a job costs, against cluster size, as an SVG.

Both axes are logarithmic. Every line is labelled where it ends, so that nobody has to match
colours with a legend; labels that would overlap are moved apart and tied to their line. The
colours follow the reader's light or dark theme.
"""

from __future__ import annotations

import math
from typing import Sequence
from xml.sax.saxutils import escape

import attrs

from treepool.cli import chart
from treepool.cli.results import SizeResult

_WIDTH, _HEIGHT = 900, 600
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 150, 84, 60

#: Pixels between the baselines of two labels.
_LABEL_GAP = 18

#: Style beside that of all charts.
_LIGHT = (
    ".peer { stroke-dasharray: 2 5; stroke-linecap: round }",
    ".tie { fill: none; stroke-width: 1; opacity: .5 }",
    ".hollow { fill: #fff; stroke-width: 2 }",
)
_DARK = (".hollow { fill: #16181c }",)


@attrs.frozen
class _Line:
    """One form: its (nodes, microseconds), and those of the peer."""

    name: str
    hollow: bool
    points: Sequence[tuple[int, float]]
    peer: Sequence[tuple[int, float]]


def svg(results: Sequence[SizeResult], note: str) -> str:
    """The picture of *results*, of which there is one at least, with *note* under its title."""
    results = sorted(results, key=lambda result: result.nodes)
    lines = [_line(results, form.form) for form in results[0].forms]
    axes = _Axes.around(lines)
    shown = [*_axes_shown(axes, [result.nodes for result in results])]
    for i, line in enumerate(lines):
        shown += _line_shown(axes, line, i)
    shown += _labels(axes, lines)
    return "\n".join([*_head(lines, note), *shown, "</svg>", ""])


def _line(results: Sequence[SizeResult], name: str) -> _Line:
    found = [(result.nodes, result.form(name)) for result in results]
    return _Line(
        name,
        found[0][1].refused,
        [(nodes, form.job) for nodes, form in found],
        [(nodes, form.peer_job) for nodes, form in found if form.peer_job is not None],
    )


@attrs.frozen
class _Axes:
    """The ranges of the axes: nodes, and powers of ten of microseconds."""

    nodes: tuple[int, int]
    decades: tuple[int, int]

    @classmethod
    def around(cls, lines: Sequence[_Line]) -> _Axes:
        points = [point for line in lines for point in (*line.points, *line.peer)]
        nodes = [x for x, _ in points]
        times = [math.log10(y) for _, y in points]
        low = math.floor(min(times))
        return cls((min(nodes), max(nodes)), (low, max(low + 1, math.ceil(max(times)))))

    def x(self, nodes: float) -> float:
        first, last = map(math.log10, self.nodes)
        share = (math.log10(nodes) - first) / (last - first) if last > first else 0.5
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, microseconds: float) -> float:
        low, high = self.decades
        share = (math.log10(microseconds) - low) / (high - low)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def _head(lines: Sequence[_Line], note: str) -> list[str]:
    key = ["hollow points: refused"] + (
        ["dotted: flux-core's TreePool"] if any(line.peer for line in lines) else []
    )
    what = f"Median of alloc + to_dict + free on an aged cluster; {'; '.join(key)}."
    names = ", ".join(line.name for line in lines)

    def rule(i: int, colour: str) -> str:
        filled = f"text.c{i}, .dot.c{i} {{ fill: {colour}; stroke: none }}"
        return f".c{i} {{ stroke: {colour} }} {filled}"

    title = "Time per job against cluster size"
    told = f"{what} A line for each of: {names}."
    return [
        *chart.head((_WIDTH, _HEIGHT), title, told, rule, _LIGHT, _DARK),
        chart.text(_LEFT, 30, title, "title"),
        chart.text(_LEFT, 51, what, "note"),
        chart.text(_LEFT, 69, note, "note"),
    ]


def _axes_shown(axes: _Axes, sizes: Sequence[int]) -> list[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    shown = []
    for decade in range(axes.decades[0], axes.decades[1] + 1):
        y = axes.y(10.0**decade)
        shown.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}"/>')
        shown.append(chart.text(_LEFT - 8, y + 4, _time(decade), "tick", "end"))
    for nodes in sizes:
        x = axes.x(nodes)
        shown.append(f'<path class="grid" d="M{x:.1f} {_TOP}V{bottom}"/>')
        shown.append(chart.text(x, bottom + 20, f"{nodes:,}", "tick", "middle"))
    middle = (_LEFT + right) / 2
    return [*shown, chart.text(middle, bottom + 42, "nodes in the cluster", "tick", "middle")]


def _line_shown(axes: _Axes, line: _Line, colour: int) -> list[str]:
    dot = "hollow" if line.hollow else "dot"
    shown = [f'<g class="form" id="{escape(line.name)}">']
    for points, kind in ((line.peer, "line peer"), (line.points, "line")):
        if len(points) > 1:
            path = "L".join(f"{axes.x(x):.1f} {axes.y(y):.1f}" for x, y in points)
            shown.append(f'<path class="{kind} c{_colour(colour)}" d="M{path}"/>')
    for points, radius in ((line.peer, 2.5), (line.points, 4)):
        shown += [
            f'<circle class="{dot} c{_colour(colour)}" cx="{axes.x(x):.1f}" cy="{axes.y(y):.1f}" '
            f'r="{radius}"/>'
            for x, y in points
        ]
    return [*shown, "</g>"]


def _labels(axes: _Axes, lines: Sequence[_Line]) -> list[str]:
    ends = [axes.y(line.points[-1][1]) for line in lines]
    x = axes.x(lines[0].points[-1][0])
    shown = []
    for i, (line, end, place) in enumerate(zip(lines, ends, _apart(ends))):
        colour = f"c{_colour(i)}"
        tie = f"M{x + 7:.1f} {end:.1f}L{x + 20:.1f} {place:.1f}"
        shown.append(f'<path class="tie {colour}" d="{tie}"/>')
        shown.append(chart.text(x + 24, place + 4, line.name, colour))
    return shown


def _apart(places: Sequence[float]) -> list[float]:
    """*places*, moved as little as keeps them _LABEL_GAP from each other: groups that would
    overlap are merged, and each is centred on the mean of its members' places."""
    groups: list[list[int]] = []
    for i in sorted(range(len(places)), key=places.__getitem__):
        groups.append([i])
        while len(groups) > 1 and _top(places, groups[-1]) < _bottom(places, groups[-2]):
            last = groups.pop()
            groups[-1] += last
    moved = [0.0] * len(places)
    for group in groups:
        for n, i in enumerate(group):
            moved[i] = _top(places, group) + (n + 0.5) * _LABEL_GAP
    return moved


def _top(places: Sequence[float], group: Sequence[int]) -> float:
    return sum(places[i] for i in group) / len(group) - len(group) * _LABEL_GAP / 2


def _bottom(places: Sequence[float], group: Sequence[int]) -> float:
    return _top(places, group) + len(group) * _LABEL_GAP


def _time(decade: int) -> str:
    """10 to the power of *decade* microseconds, in the unit people would use."""
    for unit, power in (("s", 6), ("ms", 3), ("µs", 0)):
        if decade >= power:
            return f"{10 ** (decade - power):,} {unit}"
    return f"{10**decade:g} µs"


def _colour(i: int) -> int:
    return i % len(chart.COLOURS)
