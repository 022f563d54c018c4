"""The tables that ``treepool status`` and ``treepool window`` print."""

from __future__ import annotations

from typing import Iterator, Sequence

from treepool.cli.table import Cell, lines
from treepool.rfc.windows import WindowEntry, clock
from treepool.view import windows
from treepool.view.areas import DomainLine
from treepool.view.status import GpuLine, JobLine

_COLOURS = {"free": "green", "down": "red", "drained": "yellow"}

#: Columns that are left out where no GPU has anything in them.
_OPTIONAL = (2, 3, 4)


def gpu_table(gpus: Sequence[GpuLine], width: int) -> Iterator[str]:
    """A row for each GPU; of model, memory and domain, columns without information are left out."""
    names = ("host", "gpu", "model", "memory", "domain", "state", "job", "user")
    rows = []
    for line in gpus:
        memory = f"{line.memory} GiB" if line.memory else ""
        state = line.state, _COLOURS.get(line.state, "")
        what = _plain(line.host, str(line.gpu), line.model, memory, line.domain)
        rows.append([*what, state, *_plain(line.job, line.user)])
    kept = [i for i in range(len(names)) if i not in _OPTIONAL or any(row[i][0] for row in rows)]
    return lines([names[i] for i in kept], [[row[i] for i in kept] for row in rows], width)


def domain_table(domains: Sequence[DomainLine], width: int) -> Iterator[str]:
    """A row for each domain above the nodes."""
    names = ("domain", "in", "nodes", "idle", "partial", "full", "not up", "free cores", "GPUs")
    rows = []
    for line in domains:
        nodes = line.nodes, line.idle, line.partly, line.full, line.away
        numbers = (*nodes, line.cores_free, line.gpus_free)
        rows.append(_plain(line.domain, line.within, *(f"{number:,}" for number in numbers)))
    return lines(names, rows, width)


def job_table(jobs: Sequence[JobLine], now: float, width: int) -> Iterator[str]:
    """A row for each job; *now* is the time, in seconds since the epoch."""
    rows = []
    for line in jobs:
        fitness = "" if line.fitness is None else f"{line.fitness:.2f}"
        colour = "" if line.fitness is None or line.fitness >= 0.99 else "yellow"
        what = _plain(line.job, line.user, line.name, line.state, _age(now - line.since))
        where = _plain(line.domains, line.placement or line.note)
        rows.append([*what, (fitness, colour), *where])
    names = ("job", "user", "name", "state", "for", "fitness", "in", "placement")
    return lines(names, rows, width)


def window_table(
    entries: Sequence[tuple[WindowEntry, str]], now: float, width: int
) -> Iterator[str]:
    """A row for each window and its source; *now* is the time, in seconds since the epoch."""
    rows = []
    for entry, source in entries:
        when = clock(entry.start, now), clock(entry.end, now)
        rows.append(_plain(entry.name, entry.hosts, *when, windows.whom(entry), source))
    return lines(("name", "hosts", "start", "end", "for", "source"), rows, width)


def _plain(*texts: str) -> list[Cell]:
    """Cells without a colour."""
    return [(text, "") for text in texts]


def _age(seconds: float) -> str:
    """A time span in its largest unit, as Flux shows it: 12s, 3.5m, 2.1h, 4.0d."""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f}{unit}"
    return f"{max(0, seconds):.0f}s"
