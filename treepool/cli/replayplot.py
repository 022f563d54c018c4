"""The plot of replays: cores and GPUs in use, fragments and queue over time, as an SVG.

The plot has a panel for each number, and each panel has a line for each set of rules. Points are
means over equal intervals, so the lines are steps.
"""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Sequence

from treepool.cli import plots
from treepool.cli.screen import printable
from treepool.view.replay import Outcome
from treepool.view.tally import Point

#: A panel: its title, and the value of a point that it shows.
_Panel = tuple[str, Callable[[Point], float]]

#: Units of the time axis: how long one is, in seconds, and its name.
_UNITS = ((86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))

#: The axis uses the largest unit of which it has at least this many.
_FEWEST_UNITS = 3


def write(outcomes: Sequence[Outcome], path: Path) -> None:
    """Write the plot of *outcomes*, at least one, to *path*."""
    from matplotlib.figure import Figure

    panels = _panels(outcomes[0])
    span = max(outcome.span for outcome in outcomes)
    second, unit = next((u for u in _UNITS if span >= _FEWEST_UNITS * u[0]), _UNITS[-1])
    names = [printable(outcome.rules.name) for outcome in outcomes]
    with plots.style():
        height = 1.8 * len(panels) + 0.25 * len(outcomes) + 0.8
        figure = Figure(figsize=(9, height), layout="constrained")
        figure.suptitle(f"{outcomes[0].jobs + outcomes[0].nrefused:,} jobs replayed")
        rows = figure.subplots(len(panels), sharex=True)
        for axes, (title, value) in zip(rows, panels):
            axes.set_title(title, loc="left", fontsize="medium")
            for i, outcome in enumerate(outcomes):
                edges = [point.start / second for point in outcome.curve]
                edges += [point.end / second for point in outcome.curve[-1:]]
                how = {"color": plots.colour(i), "linestyle": plots.dashes(i), "gid": f"line{i}"}
                values = [value(point) for point in outcome.curve]
                if values:
                    axes.stairs(values, edges, baseline=None, label=names[i], **how)
            axes.set_ylim(bottom=0)
        rows[-1].set_xlabel(f"{unit} since the first submission")
        figure.legend(*rows[0].get_legend_handles_labels(), loc="outside lower left", frameon=False)
        plots.write(figure, path)


def _panels(outcome: Outcome) -> list[_Panel]:
    cores, gpus = max(outcome.cores, 1), outcome.gpus
    panels: list[_Panel] = [("cores in use, %", lambda point: 100 * point.cores / cores)]
    if gpus:
        panels += [
            ("GPUs in use, %", lambda point: 100 * point.gpus / gpus),
            (
                "GPUs free, but in no whole domain, %",
                lambda point: 100 * point.fragmented_gpus / gpus,
            ),
        ]
    else:
        panels.append(
            (
                "cores free, but in no whole domain, %",
                lambda point: 100 * point.fragmented_cores / cores,
            )
        )
    return [*panels, ("jobs waiting", lambda point: point.waiting)]
