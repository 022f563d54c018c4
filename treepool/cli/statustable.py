"""The tables that ``treepool status`` prints."""

from __future__ import annotations

from typing import Sequence

from rich.table import Table
from rich.text import Text

from treepool.rfc.windows import WindowEntry, clock
from treepool.view import windows
from treepool.view.status import GpuLine, JobLine

_STYLES = {"free": "green", "used": "", "down": "red", "drained": "yellow"}


def gpu_table(lines: Sequence[GpuLine]) -> Table:
    """A row for each GPU; of model, memory and domain, columns without information are left out."""
    columns = {
        "host": [Text(line.host) for line in lines],
        "gpu": [Text(str(line.gpu)) for line in lines],
        "model": [Text(line.model) for line in lines],
        "memory": [Text(f"{line.memory} GiB" if line.memory else "") for line in lines],
        "domain": [Text(line.domain) for line in lines],
        "state": [Text(line.state, _STYLES.get(line.state, "")) for line in lines],
        "job": [Text(line.job) for line in lines],
        "user": [Text(line.user) for line in lines],
    }
    for name in ("model", "memory", "domain"):
        if not any(columns[name]):
            del columns[name]
    new = _table(*columns)
    for cells in zip(*columns.values()):
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


def window_table(entries: Sequence[tuple[WindowEntry, str]], now: float) -> Table:
    """A row for each window and its source; *now* is the time, in seconds since the epoch."""
    new = _table("name", "hosts", "start", "end", "for", "source")
    for entry, source in entries:
        start, end = clock(entry.start, now), clock(entry.end, now)
        cells = (entry.name, entry.hosts, start, end, windows.whom(entry), source)
        new.add_row(*map(Text, cells))
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
