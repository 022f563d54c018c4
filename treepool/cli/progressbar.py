"""A progress bar on stderr, shown only if stderr is a terminal, and only after two seconds."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Callable, Iterable, Iterator, Optional, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")

#: Seconds for which nothing is shown: most commands are over by then.
DELAY = 2.0


@contextmanager
def progress_bar() -> Iterator[Callable[[Optional[float], str], None]]:
    """Show a bar while the block runs; call the result with the progress and a label.

    The progress is from 0 to 1, or None if it is not known how much there is to do.
    """
    if not sys.stderr.isatty():
        yield lambda done, doing: None
        return
    begin = time.monotonic()
    bar: Optional[Progress] = None

    def show(done: Optional[float], doing: str) -> None:
        nonlocal bar
        if bar is None and time.monotonic() - begin < DELAY:
            return
        bar = bar or _started(begin)
        total = None if done is None else 1.0
        bar.update(bar.task_ids[0], total=total, completed=done or 0.0, description=doing)

    try:
        yield show
    finally:
        if bar is not None:
            bar.stop()


def _started(begin: float) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task("")
    bar.tasks[0].start_time = begin
    bar.start()
    return bar


def counted(items: Iterable[T], what: str) -> Iterator[T]:
    """*items*, with a bar that says how many have come so far: "120 nodes"."""
    with progress_bar() as show:
        for number, item in enumerate(items):
            show(None, f"{number} {what}")
            yield item
