"""Reads a file of past jobs: a trace, a table of sacct, SWF; the options of such a table."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import Any

from treepool.cli import files
from treepool.cli.screen import complain
from treepool.cli.values import whole_number
from treepool.rfc.quote import did_you_mean
from treepool.view import jobtable, swf, trace
from treepool.view.trace import Trace


def add_options(parser: Any) -> None:
    """Add ``--threads-per-core`` and ``--column`` to *parser*."""
    group = parser.add_argument_group("tables of sacct")
    group.add_argument(
        "--threads-per-core",
        metavar="N",
        type=whole_number(1, 64),
        default=1,
        help="so many of its CPUs are a core (default: 1)",
    )
    group.add_argument(
        "--column",
        metavar="PART=NAME",
        type=_column_in,
        action="append",
        default=[],
        help=f"which column has a part of the jobs: {', '.join(jobtable.PARTS)}; repeatable",
    )


def _column_in(text: str) -> tuple[str, str]:
    part, equals, name = text.partition("=")
    if part not in jobtable.PARTS:
        known = ", ".join(jobtable.PARTS)
        hint = did_you_mean(part, jobtable.PARTS)
        raise ArgumentTypeError(f"unknown part {part!r:.60}{hint}, known: {known}")
    if not equals or not name:
        raise ArgumentTypeError(f"{part}: {part}=NAME is needed")
    return part, name


def read(command: str, name: str, arguments: Any) -> Trace:
    """The jobs in file *name*; *command* says what was not read. Raises Stop."""
    text = files.read_text(name, table=True)
    with files.naming(name):
        if swf.is_swf(text):
            found = swf.read(text)
        elif jobtable.is_table(text):
            found = jobtable.read(text, arguments.threads_per_core, dict(arguments.column))
        else:
            found = trace.read(text)
    for remark in found.remarks:
        complain(f"treepool {command}", f"{files.shown(name)}: {remark}")
    return found
