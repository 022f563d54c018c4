"""The tables that ``treepool status`` prints."""

from __future__ import annotations

from typing import Sequence

from rich.table import Table
from rich.text import Text

from treepool.view.status import GpuLine, JobLine

_STYLES = {"free": "green", "used": "", "down": "red", "drained": "yellow"}


def gpu_table(lines: Sequence[GpuLine]) -> Table:
    """A row for each GPU; columns without information are left out."""
    memory = any(line.memory for line in lines)
    domain = any(line.domain for line in lines)
    model = any(line.model for line in lines)
    new = _table("host", "gpu")
    for name, shown in (("model", model), ("memory", memory), ("domain", domain)):
        if shown:
            new.add_column(name, overflow="fold")
    for name in ("state", "job", "user"):
        new.add_column(name, overflow="fold")
    for line in lines:
        cells = [Text(line.host), Text(str(line.gpu))]
        cells += [Text(line.model)] if model else []
        cells += [Text(f"{line.memory} GiB" if line.memory else "")] if memory else []
        cells += [Text(line.domain)] if domain else []
        cells += [Text(line.state, _STYLES.get(line.state, "")), Text(line.job), Text(line.user)]
        new.add_row(*cells)
    return new


def job_table(lines: Sequence[JobLine], now: float) -> Table:
    """A row for each job; *now* is the time, in seconds since the epoch."""
    new = _table("job", "user", "name", "state", "for", "fitness", "in", "placement")
    for line in lines:
        fitness = "" if line.fitness is None else f"{line.fitness:.2f}"
        style = "" if line.fitness is None or line.fitness >= 0.99 else "yellow"
        cells = (line.job, line.user, line.name, line.state, _age(now - line.since))
        new.add_row(
            *map(Text, cells),
            Text(fitness, style),
            Text(line.domains),
            Text(line.placement or line.note),
        )
    return new


def _table(*names: str) -> Table:
    new = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in names:
        new.add_column(name, overflow="fold")
    return new


def _age(seconds: float) -> str:
    """A time span in its largest unit, as Flux shows it: 12s, 3.5m, 2.1h, 4.0d."""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f}{unit}"
    return f"{max(0, seconds):.0f}s"
