"""Reads a file of past jobs, a trace or a table of sacct; the option ``--threads-per-core``."""

from __future__ import annotations

from typing import Any

from treepool.cli import files
from treepool.cli.replayarguments import whole_number
from treepool.cli.screen import complain
from treepool.view import jobtable, trace
from treepool.view.trace import TraceJob


def add_threads(parser: Any) -> None:
    """Add ``--threads-per-core`` to *parser*."""
    parser.add_argument_group("tables of sacct").add_argument(
        "--threads-per-core",
        metavar="N",
        type=whole_number(1, 64),
        default=1,
        help="so many of its CPUs are a core (default: 1)",
    )


def read(command: str, name: str, threads: int) -> list[TraceJob]:
    """The jobs in file *name*; *command* says what was not read. Raises Stop."""
    text = files.read_text(name, table=True)
    with files.naming(name):
        found = jobtable.read(text, threads) if jobtable.is_table(text) else trace.read(text)
    for remark in found.remarks:
        complain(f"treepool {command}", f"{files.shown(name)}: {remark}")
    return found.jobs
