"""The plot of replays as an SVG: size and arrangement of its panels, axes, one legend below."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any, Sequence

from treepool.cli import plots
from treepool.view.plot import COLOURS, DASHES, Plot
from treepool.view.replay import Outcome


def text(outcomes: Sequence[Outcome]) -> str:
    """The SVG of *outcomes*, at least one, for a page that has their title; "" if no matplotlib."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return ""
    plot, target = Plot.of(outcomes), StringIO()
    with plots.style():
        plots.write(_figure(plot, columns=2, height=2.1), target)
    return target.getvalue()


def write(outcomes: Sequence[Outcome], path: Path) -> None:
    """Write the plot of *outcomes*, at least one, to *path*."""
    plot = Plot.of(outcomes)
    with plots.style():
        figure = _figure(plot, columns=1, height=1.8)
        figure.suptitle(plot.title)
        plots.write(figure, path)


def _figure(plot: Plot, columns: int, height: float) -> Any:
    """The panels in so many *columns*, each so many inches high."""
    from matplotlib.figure import Figure

    rows = -(-len(plot.panels) // columns)
    size = 9 + 2 * (columns - 1), height * rows + 0.25 * len(plot.names) + 0.8
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, squeeze=False)
    for axes in grid.flat[len(plot.panels) :]:
        axes.set_visible(False)
    for axes, panel in zip(grid.flat, plot.panels):
        axes.set_title(panel.title, loc="left", fontsize="medium")
        for i, line in enumerate(panel.lines):
            dash = DASHES[i % len(DASHES)]
            colour = COLOURS[i % len(COLOURS)]
            how: dict[str, Any] = {"color": colour, "linestyle": (0, dash), "gid": f"line{i}"}
            if line.values:
                values, edges, name = line.values, line.edges, plot.names[i]
                axes.stairs(values, edges, baseline=None, label=name, **how)
        axes.set_ylim(bottom=0)
    for axes in grid[-1]:
        axes.set_xlabel(f"{plot.unit} since the first submission")
    handles = grid[0][0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower left", frameon=False)
    return figure
