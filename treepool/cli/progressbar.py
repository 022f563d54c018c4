"""A progress bar on stderr, for any command that takes longer than two seconds.

It is shown only if stderr is a terminal, and only until the command writes its first output. A
thread shows it, so that a command that says nothing of its progress has one, too.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Iterable, Iterator, Optional, TypeVar

from treepool.rfc.quote import printable

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")

#: Seconds for which nothing is shown: most commands are over by then.
DELAY = 2.0

#: Times a second that the line is written again.
_RATE = 4


class _Bar:
    """The bar of a command. ``done`` is from 0 to 1, None if it is not known how much is left."""

    def __init__(self, doing: str) -> None:
        from threading import Timer

        self.done: Optional[float] = None
        self.doing = doing
        self.began = time.monotonic()
        self.updated = 0.0
        self.shown: Optional[Progress] = None
        self.timer = Timer(DELAY, self.start)
        self.timer.daemon = True
        self.timer.start()

    def start(self) -> None:
        """Show the bar."""
        with suppress(OSError):  # the terminal may be gone
            bar = _made(self.began)
            bar.start()
            self.shown = bar
            self.update()

    def update(self) -> None:
        """Show the progress and the label."""
        if self.shown is not None:
            total = None if self.done is None else 1.0
            task = self.shown.task_ids[0]
            self.shown.update(
                task, total=total, completed=self.done or 0.0, description=printable(self.doing)
            )

    def stop(self) -> None:
        """Take the bar away for good."""
        self.timer.cancel()
        self.timer.join()  # it may be about to show the bar
        if self.shown is not None:
            with suppress(OSError):
                self.shown.stop()


_current: Optional[_Bar] = None


@contextmanager
def watched(command: str) -> Iterator[None]:
    """Show a bar, labelled *command*, if the block takes long."""
    global _current
    if sys.stderr.isatty():
        _current = _Bar(command)
    try:
        yield
    finally:
        clear()


def progress(done: Optional[float], doing: str) -> None:
    """Say how far the command is, from 0 to 1 (None if that is not known), and what it does."""
    if _current is not None:
        _current.done, _current.doing = done, doing
        now = time.monotonic()
        if done is None or now >= _current.updated + 1 / _RATE:
            _current.updated = now
            _current.update()


def clear() -> None:
    """Take the bar away, because something else is about to be written to the terminal."""
    global _current
    if _current is not None:
        _current.stop()
        _current = None


def counted(items: Iterable[T], what: str) -> Iterator[T]:
    """*items*, while the bar says how many have come so far: "120 nodes"."""
    for number, item in enumerate(items):
        progress(None, f"{number} {what}")
        yield item


def _made(began: float) -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.table import Column
    from rich.text import Text

    class TimeLeft(ProgressColumn):
        """How long the rest takes at the present speed, where that is known."""

        def render(self, task: Task) -> Text:
            left = task.time_remaining
            return Text("" if left is None else f"{timedelta(seconds=int(left))} left")

    label = Column(no_wrap=True, overflow="ellipsis")
    columns = (
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TimeLeft(),
        TextColumn("{task.description}", markup=False, table_column=label),
    )
    bar = Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,  # rich would write it to stderr; lines for stderr go above the bar
        refresh_per_second=_RATE,
    )
    bar.add_task("")
    bar.tasks[0].start_time = began
    return bar
