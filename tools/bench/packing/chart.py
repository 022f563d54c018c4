"""The chart of the packing benchmark: jobs refused, and jobs that straddle, by cluster and mix."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

from treepool.cli import plots

Row = tuple[str, ...]

#: What is drawn: the title, the column of the rows, and the aim in percent.
_PANELS = (("refused, %", 5, 1.0), ("straddling, %", 6, 1.5))


def write(rows: Sequence[Row], path: Path) -> None:
    """Draw the closed runs (or else the open ones) of the highest load in *rows*, as SVG.

    The first of *rows* is their head. Without such runs nothing is drawn.
    """
    from matplotlib.figure import Figure

    labels = [row[0] for row in rows[1:] if row[0][0] in "co"]
    if not labels:
        return
    label = max(labels, key=lambda one: (one[0] == "c", float(one[1:-1])))
    shown = [row for row in rows[1:] if row[0] == label]
    clusters, pools = (list(dict.fromkeys(row[i] for row in shown)) for i in (1, 3))
    with plots.style():
        figure = Figure(figsize=(2.5 + 2.4 * len(clusters), 5), layout="constrained")
        grid = figure.subplots(2, len(clusters), sharey="row", squeeze=False)
        for (title, column, aim), line in zip(_PANELS, grid):
            line[0].set_ylabel(title)
            most = max(2.0, *(float(row[column]) for row in shown))
            for axes, cluster in zip(line, clusters):
                _bars(axes, [row for row in shown if row[1] == cluster], pools, column)
                axes.axhline(aim, color="black", linewidth=0.8, linestyle=":")
                axes.set_ylim(0, 1.1 * most)
        for axes, cluster in zip(grid[0], clusters):
            axes.set_title(f"cluster {cluster}" if len(cluster) == 1 else cluster)
        kind = "Closed" if label[0] == "c" else "Open"
        figure.suptitle(f"{kind} runs at {label[1:-1]} % load; dotted: the aims")
        handles, names = grid[0][0].get_legend_handles_labels()
        figure.legend(
            handles, names, loc="outside lower center", ncols=min(4, len(pools)), frameon=False
        )
        plots.write(figure, path)


def _bars(axes: Any, rows: Sequence[Row], pools: Sequence[str], column: int) -> None:
    """A group of bars for each mix, a bar for each pool; a root scale, so that all can be seen."""
    mixes = list(dict.fromkeys(row[2] for row in rows))
    width = 0.8 / len(pools)
    for i, pool in enumerate(pools):
        found = {row[2]: float(row[column]) for row in rows if row[3] == pool}
        places = [k + (i - (len(pools) - 1) / 2) * width for k in range(len(mixes))]
        heights = [found.get(mix, 0.0) for mix in mixes]
        axes.bar(places, heights, width, label=pool, color=f"C{i % 10}")
    axes.set_xticks(range(len(mixes)), mixes)
    axes.grid(axis="x", visible=False)
    axes.set_yscale("function", functions=(lambda y: abs(y) ** 0.5, lambda y: y**2))
    axes.set_yticks([0, 1, 5, 10, 20, 40, 60, 80])
    axes.set_axisbelow(True)
