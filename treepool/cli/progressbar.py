"""A progress bar on stderr, for a command that takes long and says how far it is.

It is shown after two seconds, only if stderr is a terminal, and only until the command writes its
first output.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Iterable, Iterator, Optional, TypeVar

from treepool.rfc.quote import printable

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")

#: Seconds for which nothing is shown: most commands are over by then.
DELAY = 2.0

#: Times a second that the line is written again.
_RATE = 4

_began, _updated = time.monotonic(), 0.0
_bar: Optional[Progress] = None


def progress(done: Optional[float], doing: str) -> None:
    """Say how far the command is, from 0 to 1 (None if that is not known), and what it does."""
    global _bar, _updated
    now = time.monotonic()
    if now < max(_began + DELAY, _updated + 1 / _RATE) or not sys.stderr.isatty():
        return
    _updated = now
    with suppress(OSError):  # the terminal may be gone
        if _bar is None:
            _bar = _made()
            _bar.start()
        task, label = _bar.task_ids[0], printable(doing)
        if done is None:
            _bar.update(task, description=label)
        else:
            _bar.update(task, total=1.0, completed=done, description=f"left {label}")


def clear() -> None:
    """Take the bar away, because something else is about to be written to the terminal."""
    global _bar
    if _bar is not None:
        with suppress(OSError):
            _bar.stop()
        _bar = None


def counted(items: Iterable[T], what: str) -> Iterator[T]:
    """*items*, while the bar says how many have come so far: "120 nodes"."""
    for number, item in enumerate(items):
        progress(None, f"{number} {what}")
        yield item


def _made() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    label = Column(no_wrap=True, overflow="ellipsis")
    bar = Progress(
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False, table_column=label),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,  # rich would write it to stderr; lines for stderr go above the bar
        refresh_per_second=_RATE,
    )
    bar.add_task("", total=None)
    bar.tasks[0].start_time = _began
    return bar
