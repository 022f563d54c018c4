"""The chart of a benchmark: what a job costs, against cluster size, both axes logarithmic."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

from bench.results import SizeResult
from treepool.cli import plots

TITLE = "Time per job against cluster size"


def write(results: Sequence[SizeResult], note: str, path: Path) -> None:
    """Write the chart of *results*, of which there is one at least, with *note* below its title."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    results = sorted(results, key=lambda result: result.nodes)
    sizes = [result.nodes for result in results]
    with plots.style():
        figure = Figure(figsize=(9, 6), layout="constrained")
        axes = figure.add_subplot()
        for i, form in enumerate(results[0].forms):
            found = [result.form(form.form) for result in results]
            filled = "none" if form.refused else f"C{i % 10}"
            how: dict[str, Any] = {"color": f"C{i % 10}", "markerfacecolor": filled}
            axes.plot(sizes, [one.job / 1e6 for one in found], "o-", label=form.form, **how)
            peer = [(n, one.peer_job / 1e6) for n, one in zip(sizes, found) if one.peer_job]
            if peer:
                axes.plot(*zip(*peer), "o:", markersize=3, **how)
        axes.set(xscale="log", yscale="log", xlabel="nodes in the cluster")
        axes.yaxis.set_major_formatter(EngFormatter("s"))
        axes.set_xticks(sizes, [f"{nodes:,}" for nodes in sizes])
        axes.set_xticks([], minor=True)
        figure.suptitle(TITLE)
        axes.set_title("\n".join([_what(results), note]), fontsize=8, color="#555555")
        figure.legend(loc="outside right center", frameon=False)
        plots.write(figure, path)


def _what(results: Sequence[SizeResult]) -> str:
    key = ["hollow points: refused"]
    if any(form.peer for result in results for form in result.forms):
        key.append("dotted: flux-core's TreePool")
    return f"Median of alloc + to_dict + free on an aged cluster; {'; '.join(key)}."
