"""Reads a file of past jobs: a trace, a table of sacct, SWF; the option ``--threads-per-core``."""

from __future__ import annotations

from typing import Any

from treepool.cli import files
from treepool.cli.replayarguments import whole_number
from treepool.cli.screen import complain
from treepool.view import jobtable, swf, trace
from treepool.view.trace import Trace


def add_threads(parser: Any) -> None:
    """Add ``--threads-per-core`` to *parser*."""
    parser.add_argument_group("tables of sacct").add_argument(
        "--threads-per-core",
        metavar="N",
        type=whole_number(1, 64),
        default=1,
        help="so many of its CPUs are a core (default: 1)",
    )


def read(command: str, name: str, threads: int) -> Trace:
    """The jobs in file *name*; *command* says what was not read. Raises Stop."""
    text = files.read_text(name, table=True)
    with files.naming(name):
        if swf.is_swf(text):
            found = swf.read(text)
        elif jobtable.is_table(text):
            found = jobtable.read(text, threads)
        else:
            found = trace.read(text)
    for remark in found.remarks:
        complain(f"treepool {command}", f"{files.shown(name)}: {remark}")
    return found
