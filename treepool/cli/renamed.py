"""Options that have another name now: the old one still works for a release, and says so."""

from __future__ import annotations

import argparse
from typing import Any

from treepool.cli.screen import complain


def add(parser: Any, old: str, new: str, dest: str, flag: bool = False) -> None:
    """Let *parser* take the option *old* for what is spelled *new* now, and keep it in *dest*.

    A *flag* has no value. ``--help`` does not show the option.
    """

    class Renamed(argparse.Action):
        def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
            complain(
                parser.prog, f"warning: {old} is called {new} now; the next release lacks {old}"
            )
            setattr(namespace, dest, True if flag else values)

    nargs = 0 if flag else None
    parser.add_argument(
        old,
        action=Renamed,
        nargs=nargs,
        dest=dest,
        default=argparse.SUPPRESS,
        help=argparse.SUPPRESS,
    )
