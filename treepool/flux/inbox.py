"""What the scheduler is told and has not acted on yet.

The job manager tells it of each submission, and of each node that a job frees. To act on such a
message takes 0.1 to 0.5 ms, and a thousand may come at once; Flux hands them over in their order
with the questions of those who wait for an answer. Messages that change something are therefore
only noted when they arrive, which takes some 20 us, and a question soon gets its turn.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any, Callable, Iterator

from treepool.flux.callbacks import Timer, report
from treepool.flux.turns import Turns

#: Seconds of work at a time.
_SLICE = 0.002

#: Something to do; called again if it returns that there is more.
Work = Callable[[], object]


class Inbox:
    """Does what is put into it, in that order, when no message waits, or has waited for long.

    *done* is called after some of it is done.
    """

    def __init__(self, handle: Any, done: Callable[[], None]) -> None:
        self._handle = handle
        self._done = done
        self._turns = Turns(handle)
        self._timer = Timer(handle, self._on_timer)
        self._work: deque[Work] = deque()
        self._begun = False
        #: How much has ever been done.
        self._count = 0

    def __len__(self) -> int:
        return len(self._work)

    def begin(self) -> None:
        """From now on let things wait; before, ``put`` does them at once."""
        self._begun = True

    def put(self, work: Work) -> None:
        """Do *work* after all that was put here before."""
        if not self._begun:
            while work():
                pass
            return
        self._work.append(work)
        if len(self._work) == 1:
            self._timer.set(0.0)

    def emptied(self) -> Iterator[None]:
        """Yields until all is done that is here now."""
        end = self._count + len(self._work)
        while self._count < end:
            yield

    def _on_timer(self) -> None:
        if not self._turns.messages_first:
            end = time.monotonic() + _SLICE
            while self._work and time.monotonic() < end:
                if not self._does_more(self._work[0]):
                    self._work.popleft()
                    self._count += 1
            self._turns.worked()
            self._done()
        if self._work:
            self._timer.set(0.0)

    def _does_more(self, work: Work) -> bool:
        """Do some of *work*; whether there is more. If it fails, others must not wait for it."""
        try:
            return bool(work())
        except Exception as e:
            report(self._handle, e)
            return False
