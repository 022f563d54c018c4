"""The tables that the benchmark prints for people."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Optional, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bench.results import FormResult, SizeResult, Timing
from bench.targets import verdicts
from treepool import __version__

_HEADINGS = ("alloc", "to_dict", "free", "median", "p99", "again", "feasible", "per second")
_PEER_HEADINGS = ("flux-core", "ratio")

#: A process that has less than this fraction of a core shared it, and its p99 shows that.
_UNDISTURBED = 0.97

_NOTES = """\
Microseconds, medians but for p99. median, p99 and per second are of alloc, to_dict and free
together, or of an alloc that is refused, while other jobs start and end; again is their median
when nothing else happens. feasible is the check at submission."""


def tables(results: Sequence[SizeResult]) -> RenderableType:
    """*results* as a table for each size, the request forms, the targets, and the machine."""
    parts: list[RenderableType] = []
    for result in results:
        parts += [Text(_caption(result), style="bold"), _table(result), Text()]
    parts += [Text(_NOTES), Text(), _shapes(results[-1]), Text()]
    promised = _targets(results)
    if promised is not None:
        parts += [promised, Text()]
    parts.append(Text(f"treepool {__version__}, {machine()}"))
    return Group(*parts)


def machine() -> str:
    """What the benchmark ran on, in one line."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{python}, {os.cpu_count() or 1} x {_processor()}"


def number(value: float) -> str:
    """*value* with about three digits, thousands apart."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _caption(result: SizeResult) -> str:
    busy = ""
    if result.cpu_share < _UNDISTURBED:
        busy = f"; disturbed: {result.cpu_share:.0%} CPU"
    return (
        f"{result.nodes:,} nodes: {result.jobs:,} jobs, {result.states:,} states; "
        f"{result.cores_in_use:.0%} of cores, {result.gpus_in_use:.0%} of GPUs in use; "
        f"peak memory {result.peak_memory / 2**20:,.0f} MiB{busy}"
    )


def _table(result: SizeResult) -> Table:
    with_peer = result.peer is not None
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("form")
    for heading in _HEADINGS + (_PEER_HEADINGS if with_peer else ()):
        table.add_column(heading, justify="right", no_wrap=True)
    for form in result.forms:
        table.add_row(*_form_row(form, with_peer))
    for name, timing in result.pool.items():
        peer = result.peer[name] if result.peer else None
        table.add_row(*_pool_row(name, timing, peer))
    return table


def _form_row(form: FormResult, with_peer: bool) -> list[str]:
    timings = form.timings
    row = [form.form]
    row += [number(timings[o].median) if o in timings else "" for o in ("alloc", "to_dict", "free")]
    row += [number(timings["job"].median), number(timings["job"].p99)]
    row += [number(timings["repeated"].median), number(timings["feasibility"].median)]
    row.append(f"{form.rate:,.0f}")
    if with_peer:
        row += _compared(form.job, form.peer_job) if form.peer_job else ["answers otherwise", ""]
    return row


def _pool_row(name: str, timing: Timing, peer: Optional[Timing]) -> list[str]:
    row = [name, "", "", "", number(timing.median), number(timing.p99), "", "", ""]
    return row + (_compared(timing.median, peer.median) if peer else [])


def _compared(ours: float, theirs: float) -> list[str]:
    return [number(theirs), f"{number(theirs / ours)} x"]


def _shapes(result: SizeResult) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for form in result.forms:
        what = f"{form.shape}  (refused)" if form.refused else form.shape
        table.add_row(Text(form.form), Text(what))
    return table


def _targets(results: Sequence[SizeResult]) -> Optional[Table]:
    found = verdicts(results)
    if not found:
        return None
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("target")
    for heading in ("nodes", "at most", "found"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    for verdict in found:
        target = verdict.target
        table.add_row(
            target.what,
            f"{target.sizes[0]:,}",
            f"{target.limit:,g} {target.unit}",
            f"{number(verdict.value)} {target.unit}",
            Text("met", style="green") if verdict.kept else Text("missed", style="red"),
        )
    return table


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()
