"""When Python collects garbage: fully only while the module has nothing else to do.

A full collection looks at all objects that may be in a cycle. With 1,024 reservations at 11,136
nodes these are 100,000. That takes 66 ms, and Python does it in the middle of a pass. The partial
collections take a few milliseconds, and leave little garbage: one object in twelve, and nothing of
futures that are let go.

Python counts new objects less those that are freed, old ones too. While remembered fits are
dropped, tens of thousands of new objects may come before the count is reached. With Python's own
700 and 10 a partial collection went through 79,000 of them in a burst of jobs, for 28 ms.
"""

from __future__ import annotations

import gc
import time
from typing import Any

#: Seconds between two full collections.
_PERIOD = 600.0

#: Python's own numbers for the partial collections (see gc.set_threshold); it makes a full one only
#: if the module was busy for some seven million new objects.
_THRESHOLDS = 300, 3, 8000


class Garbage:
    """Leaves alone what there is now, and collects the rest when ``idle`` says so."""

    def __init__(self) -> None:
        gc.freeze()  # at 11,136 nodes, a full collection takes 30 ms longer without it
        gc.set_threshold(*_THRESHOLDS)
        self._due = time.monotonic() + _PERIOD

    def idle(self) -> None:
        """Collect now, because nothing waits to be done, unless that was done a moment ago."""
        if time.monotonic() >= self._due:
            gc.collect()
            self._due = time.monotonic() + _PERIOD


def let_go(future: Any) -> None:
    """Free *future*, which gets no other answer, as soon as its callback has returned.

    Flux's futures hold the handle of their callback, which holds them. A garbage collection would
    find them, and the messages in them: at 150 jobs per second 125,000 objects in a minute, 0.1 s.
    """
    future.cb_handle = None
