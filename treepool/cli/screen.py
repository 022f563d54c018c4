"""Output to the user: when it is coloured, its width, lines of JSON, one line per error on stderr.

Whoever prints gives lines of text, and colours beside the text, never in it. What is not printable
is escaped here, so that no file can send commands to a terminal. No other module of this package
writes to the streams, but the bar of progressbar.py.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Callable, Iterable, Sequence

from treepool.cli import progressbar
from treepool.rfc.quote import printable
from treepool.rfc.quote import shortened as shortened

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from treepool.view.table import Cell, Line

#: Exit statuses: done, the answer is no, the command cannot be run as given, Ctrl-C.
DONE, NO, USAGE, INTERRUPTED = 0, 1, 2, 130

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


def out(*lines: Line) -> None:
    """Write each of *lines* to stdout; a line break in one is escaped, too."""
    _print(map(_shown, lines))


def again(lines: Sequence[Line]) -> None:
    """Write *lines* in the place of those before them on a terminal, as far as it is high enough.

    Elsewhere they follow those, after an empty line.
    """
    shown = list(map(_shown, lines))
    if sys.stdout.isatty():
        height = shutil.get_terminal_size().lines
        home, to_the_right, below = "\x1b[H", "\x1b[K", "\x1b[J"
        kept = f"{to_the_right}\n".join([*shown[: max(1, height - 1)], ""])
        _print([f"{home}{kept[:-1]}{below}"])
    else:
        _print([*shown, ""])
    sys.stdout.flush()


def out_document(text: str) -> None:
    """Write *text*, a file for programs, to stdout: as UTF-8 whatever the locale, and unchanged."""
    data = text.encode()
    progressbar.clear()
    sys.stdout.flush()
    sys.stdout.buffer.write(data)


def out_json(fact: Any) -> None:
    """Write *fact*, a dict or what ``plain`` takes, to stdout: a line of JSON with its version."""
    fields = fact if isinstance(fact, dict) else plain(fact)
    out(json.dumps({"version": JSON_VERSION, **fields}, default=plain))


def plain(value: Any) -> dict[str, Any]:
    """An object as a dict for JSON: its own form of JSON, or its fields."""
    if hasattr(value, "to_dict"):
        found: dict[str, Any] = value.to_dict()
        return found
    import attrs  # most commands print no JSON

    return attrs.asdict(value, recurse=False)


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
    from treepool.view.escaped import Escaped

    screen = console()
    with screen.capture() as capture:
        screen.print(Escaped(make(screen.width)))
    _print(line.rstrip(" ") for line in capture.get().splitlines())


def _print(lines: Iterable[str]) -> None:
    progressbar.clear()
    for line in lines:
        print(line)  # noqa: T201


def _shown(line: Line) -> str:
    """What a terminal gets of *line*."""
    return printable(line) if isinstance(line, str) else "".join(map(_painted, line))


def _painted(cell: Cell) -> str:
    text, colour = (cell, "") if isinstance(cell, str) else cell
    if colour and has_colour():
        return f"\x1b[{_COLOURS[colour]}m{printable(text)}\x1b[0m"
    return printable(text)
