"""The plot of replays as an SVG: a panel for each number, one legend below them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

from treepool.cli import plots
from treepool.view.plot import COLOURS, DASHES, Plot
from treepool.view.replay import Outcome


def write(outcomes: Sequence[Outcome], path: Path) -> None:
    """Write the plot of *outcomes*, at least one, to *path*."""
    from matplotlib.figure import Figure

    plot = Plot.of(outcomes)
    with plots.style():
        height = 1.8 * len(plot.panels) + 0.25 * len(outcomes) + 0.8
        figure = Figure(figsize=(9, height), layout="constrained")
        figure.suptitle(plot.title)
        rows = figure.subplots(len(plot.panels), sharex=True)
        for axes, panel in zip(rows, plot.panels):
            axes.set_title(panel.title, loc="left", fontsize="medium")
            for i, line in enumerate(panel.lines):
                dash = DASHES[i % len(DASHES)]
                colour = COLOURS[i % len(COLOURS)]
                how: dict[str, Any] = {"color": colour, "linestyle": (0, dash), "gid": f"line{i}"}
                if line.values:
                    values, edges, name = line.values, line.edges, plot.names[i]
                    axes.stairs(values, edges, baseline=None, label=name, **how)
            axes.set_ylim(bottom=0)
        rows[-1].set_xlabel(f"{plot.unit} since the first submission")
        figure.legend(*rows[0].get_legend_handles_labels(), loc="outside lower left", frameon=False)
        plots.write(figure, path)
