"""Output to the user: when it is coloured, its width, lines of JSON, one line per error on stderr.

All text from input is made printable first, so that a file cannot send commands to a terminal. No
other module of this package writes to the streams.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Callable

import attrs

from treepool.cli import progressbar
from treepool.rfc.quote import printable as printable
from treepool.rfc.quote import shortened as shortened

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

#: Exit statuses: done, the answer is no, the command cannot be run as given.
DONE, NO, USAGE = 0, 1, 2

#: Width of a table that is not written to a terminal; COLUMNS in the environment overrides it.
PLAIN_WIDTH = 80

#: Most columns that are written, whatever COLUMNS says.
MAX_WIDTH = 1_000

#: The version of the lines that ``--json`` prints: schemas/output.json, doc/json.md.
JSON_VERSION = 1

#: Select Graphic Rendition (ECMA-48).
_COLOURS = {"bold": 1, "red": 31, "green": 32, "yellow": 33}


class Stop(Exception):
    """Ends the subcommand: its text is the line for stderr, ``status`` the exit status."""

    def __init__(self, message: str, status: int = NO) -> None:
        super().__init__(message)
        self.status = status


def out(line: str) -> None:
    """Write *line*, which is printable, to stdout."""
    progressbar.clear()
    print(line)


def out_json(fact: Any) -> None:
    """Write *fact*, a dict or what ``plain`` takes, to stdout: a line of JSON with its version."""
    fields = fact if isinstance(fact, dict) else plain(fact)
    out(json.dumps({"version": JSON_VERSION, **fields}, default=plain))


def plain(value: Any) -> dict[str, Any]:
    """An object as a dict for JSON: its own form of JSON, or its fields."""
    found: dict[str, Any]
    if hasattr(value, "to_dict"):
        found = value.to_dict()
    else:
        found = attrs.asdict(value, recurse=False)
    return found


def complain(command: str, message: str) -> None:
    """Write one line about what went wrong in *command* to stderr."""
    with suppress(OSError):  # ``main`` flushes again, and reports the error
        sys.stdout.flush()  # keeps the order if both streams go to one place
    with suppress(OSError):  # an error of stderr cannot be reported anywhere
        sys.stderr.write(f"{command}: {printable(message)}\n")  # one call: others may write, too


def has_colour() -> bool:
    """Whether stdout is a terminal that shows colours, without NO_COLOR or TERM=dumb."""
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") in ("dumb", "unknown")
    return sys.stdout.isatty() and not plain


def coloured(text: str, colour: str) -> str:
    """*text* in a *colour* of _COLOURS where stdout shows colours."""
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if has_colour() else text


def width() -> int:
    """The width of the output, in columns: MAX_WIDTH at most."""
    if not sys.stdout.isatty() and not os.environ.get("COLUMNS"):
        return PLAIN_WIDTH
    return min(MAX_WIDTH, shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns)


def console() -> Console:
    """A rich console on stdout.

    Markup, emoji and highlighting are off, because shapes are full of brackets.
    """
    from rich.console import Console

    return Console(
        file=sys.stdout,
        width=width(),
        height=24,  # without both rich takes a dumb terminal for one of 80 columns
        color_system="auto" if has_colour() else None,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
    )


def draw(make: Callable[[int], RenderableType]) -> None:
    """Write what *make* returns for the width in columns, without rich's trailing blanks."""
    screen = console()
    with screen.capture() as capture:
        screen.print(make(screen.width))
    for line in capture.get().splitlines():
        out(line.rstrip(" "))
