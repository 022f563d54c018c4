"""A progress bar on stderr for long commands, shown only if stderr is a terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import Callable, Iterator


@contextmanager
def progress_bar() -> Iterator[Callable[[float, str], None]]:
    """Show a bar while the block runs; call the result with the progress, 0 to 1, and a label."""
    if not sys.stderr.isatty():
        yield lambda done, doing: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda done, doing: bar.update(task, completed=done, description=doing)
