"""The tables of ``treepool status`` and ``treepool window``: columns, their order and colours."""

from __future__ import annotations

import time
from string import Formatter
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Sequence

import attrs

from treepool.cli.screen import USAGE, Stop
from treepool.rfc.findings import shown
from treepool.rfc.quote import did_you_mean
from treepool.rfc.times import clock
from treepool.view import windows, words
from treepool.view.table import Cell, Line, lines

if TYPE_CHECKING:
    from treepool.rfc.windows import WindowEntry
    from treepool.view.areas import DomainLine
    from treepool.view.jobs import JobLine, UserLine
    from treepool.view.status import GpuLine

_COLOURS = {"free": "green", "down": "red", "drained": "yellow"}

#: Columns that are left out where no GPU has anything in them.
_OPTIONAL = (2, 3, 4)


def formatted(kind: type, rows: Iterable[Any], text: str, no_header: bool) -> list[str]:
    """Each of *rows* in the columns of format *text*, below their names; raises Stop.

    The names are the attributes of *kind*, the class of the rows.
    """
    names = [field.name for field in attrs.fields(kind)]
    try:
        for _, name, _, conversion in Formatter().parse(text):
            if name is not None and (name not in names or conversion):
                hint = did_you_mean(name, names) or f": known are {', '.join(names)}"
                raise Stop(f"argument -o: {shown(name)} is no column{hint}", USAGE)
        header = [] if no_header else [text.format(**{name: name.upper() for name in names})]
        return header + [
            text.format(**{name: _shown(getattr(row, name)) for name in names}) for row in rows
        ]
    except ValueError as e:
        raise Stop(f"argument -o: {shown(text)}: {e}", USAGE) from None


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def gpu_table(gpus: Sequence[GpuLine], width: int) -> Iterator[Line]:
    """A row for each GPU; of model, memory and domain, columns without information are left out."""
    names = ("host", "gpu", "model", "memory", "domain", "state", "job", "user")
    rows: list[list[Cell]] = []
    for line in gpus:
        memory = f"{line.memory} GiB" if line.memory else ""
        state = line.state, _COLOURS.get(line.state, "")
        what = (line.host, str(line.gpu), line.model, memory, line.domain)
        rows.append([*what, state, line.job, line.user])
    kept = [i for i in range(len(names)) if i not in _OPTIONAL or any(row[i] for row in rows)]
    some = [[row[i] for i in kept] for row in rows]
    return lines([names[i] for i in kept], some, width)


def domain_table(domains: Sequence[DomainLine], width: int) -> Iterator[Line]:
    """A row for each domain above the nodes."""
    names = ("domain", "in", "nodes", "idle", "partial", "full", "not up", "free cores", "GPUs")
    rows: list[list[Cell]] = []
    for line in domains:
        nodes = line.nodes, line.idle, line.partly, line.full, line.away
        numbers = (*nodes, line.cores_free, line.gpus_free)
        rows.append([line.domain, line.within, *(f"{number:,}" for number in numbers)])
    return lines(names, rows, width, "llrrrrrrr")


def job_table(jobs: Sequence[JobLine], width: int) -> Iterator[Line]:
    """A row for each job."""
    now = time.time()
    rows: list[list[Cell]] = []
    for line in jobs:
        fitness = "" if line.fitness is None else f"{line.fitness:.2f}"
        colour = "" if line.fitness is None or line.fitness >= 0.99 else "yellow"
        what = (line.job, line.user, line.name, line.state, _age(now - line.since))
        rows.append([*what, (fitness, colour), line.domains, line.summary or line.note])
    names = ("job", "user", "name", "state", "for", "fitness", "in", "placement")
    return lines(names, rows, width)


def user_table(users: Sequence[UserLine], width: int) -> Iterator[Line]:
    """A row for each user."""
    names = ("user", "running", "waiting", "nodes", "cores", "GPUs")
    rows: list[list[Cell]] = []
    for line in users:
        numbers = line.running, line.waiting, line.nodes, line.cores, line.gpus
        rows.append([line.user, *(f"{number:,}" for number in numbers)])
    return lines(names, rows, width, "lrrrrr")


#: The tables of ``treepool status``, by the option that asks for each, in order.
TABLES: dict[str, Callable[[Sequence[Any], int], Iterator[Line]]] = {
    "users": user_table,
    "gpus": gpu_table,
    "domains": domain_table,
    "jobs": job_table,
}


def window_table(
    entries: Sequence[tuple[WindowEntry, str, str]], now: float, width: int
) -> Iterator[Line]:
    """A row for each window, its source and its hosts that are not up; *now* is the time, in
    seconds since the epoch."""
    rows: list[list[Cell]] = []
    for entry, source, down in entries:
        when = clock(entry.start, now), f"{clock(entry.end, now)}{windows.again(entry)}"
        when = ("", "") if entry.spare else when
        away = (f"{words.listed(down)} down", "yellow") if down else ""
        rows.append([entry.name, entry.hosts, *when, windows.whom(entry), source, away])
    names = ("name", "hosts", "start", "end", "for", "source", "")
    return lines(names, rows, width)


def _age(seconds: float) -> str:
    """A time span in its largest unit, as Flux shows it: 12s, 3.5m, 2.1h, 4.0d."""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f}{unit}"
    return f"{max(0, seconds):.0f}s"
