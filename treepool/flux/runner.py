"""Whose turn it is: how long a task of the module works at a time, and when messages go first.

The job manager tells of each submission, and of each node that a job frees. To act on such a
message takes 0.1 to 0.5 ms, and a thousand may come at once; Flux hands them over in their order
with the questions of those who wait for an answer. A message is therefore only noted when it
arrives, which takes some 20 us, and what follows from it is the work of a task.
"""

from __future__ import annotations

import math
import time
from collections import deque
from typing import Any, Callable, Iterator, Optional

from flux.constants import FLUX_POLLIN

from treepool.flux.callbacks import Timer, report, then

#: Seconds that a task works at a time; it ends the step that it began.
SLICE = 0.002

#: Seconds that a task waits at most while messages arrive. Flux hands over one message between two
#: steps of work. When hundreds arrive at once, such as the nodes that a job frees one by one, the
#: last would wait for as many steps otherwise.
_PATIENCE = 0.01

#: Seconds until work that failed is begun anew.
_AGAIN = 1.0

#: Seconds that work waits for what should come before it.
_LONG = 0.1

#: What is returned in the inbox for an answer that has not arrived, and for giving others a turn.
_ABSENT, TURN = object(), object()

#: Steps of work. Each yields None if there is more to do now, or for how many seconds there is
#: nothing to do: 0 only gives the other tasks their turn.
Work = Iterator[Optional[float]]


class Task:
    """Work that *begin* begins anew after each end, when it is woken.

    When it has nothing to do it pauses, for *pause* times as long as it has worked.
    """

    def __init__(
        self, runner: Runner, name: str, begin: Callable[[], Work], pause: float = 0.0
    ) -> None:
        self.name = name
        self._runner = runner
        self._begin = begin
        self._pause = pause
        self._work: Optional[Work] = None
        #: When to go on (monotonic seconds), but not before its rest ends.
        self._when, self._rest = math.inf, 0.0
        #: Seconds of work since it paused.
        self._spent = 0.0
        #: When it last had its turn.
        self.last = 0.0

    @property
    def due(self) -> float:
        """When it has its turn (monotonic seconds), infinity if it sleeps until it is woken."""
        return max(self._when, self._rest)

    def wake(self, wait: float = 0.0) -> None:
        """Go on in *wait* seconds at the latest."""
        self._when = min(self._when, time.monotonic() + wait)
        self._runner.expect(self)

    def turn(self, handle: Any) -> None:
        """Work for a moment; an error is reported to *handle*."""
        began = now = time.monotonic()
        self._when = math.inf
        wait: Optional[float] = None
        try:
            if self._work is None:
                self._work = iter(self._begin())
            while wait is None and now < began + SLICE:
                wait = next(self._work)
                now = time.monotonic()
        except StopIteration:
            self._work, wait = None, math.inf
        except Exception as e:
            report(handle, e, self.name)
            self._work, wait = None, _AGAIN
            self._rest = now + _AGAIN
        self.last = now = time.monotonic()
        self._spent += now - began
        self._when = min(self._when, now + (wait or 0.0))
        if wait is not None:
            self._rest = max(self._rest, now + self._pause * self._spent)
            self._spent = 0.0


class Runner:
    """Gives tasks their turns: of those that are due, to the one that had its turn the longest ago.

    Messages to *handle* go first, but not for ever. *idle* is called when no task is due.
    """

    def __init__(self, handle: Any, idle: Callable[[], None]) -> None:
        self._handle = handle
        self._idle = idle
        self._tasks: list[Task] = []
        self._timer = Timer(handle, self._turn)
        self._stopped = False

    def task(self, name: str, begin: Callable[[], Work], pause: float = 0.0) -> Task:
        """A task, which sleeps until it is woken; *name* is for the log."""
        self._tasks.append(Task(self, name, begin, pause))
        return self._tasks[-1]

    def stop(self) -> None:
        """Give no more turns."""
        self._stopped = True
        self._timer.stop()

    def expect(self, task: Task) -> None:
        """Take note that *task* may be due earlier than before."""
        if not self._stopped:
            self._timer.hasten(task.due - time.monotonic())

    def _turn(self) -> None:
        now = time.monotonic()
        due = [task for task in self._tasks if task.due <= now]
        if due:
            task = min(due, key=lambda task: task.last)
            if now >= task.last + _PATIENCE or not self._handle.pollevents() & FLUX_POLLIN:
                task.turn(self._handle)
        first = min(self._tasks, key=lambda task: task.due)
        if first.due > time.monotonic():
            self._idle()
        self.expect(first)


class Inbox:
    """Does what is put into it, in that order, as a task; *done* is called after each."""

    def __init__(self, handle: Any, runner: Runner, done: Callable[[], None]) -> None:
        self._handle = handle
        self._done = done
        self._task = runner.task("inbox", self._work)
        self._waiting: deque[Callable[[], object]] = deque()
        #: How much has ever been done.
        self._count = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, act: Callable[[], object]) -> None:
        """Call *act* after all that was put here before, and again while it returns true."""
        self._waiting.append(act)
        self._task.wake()

    def put_answer(self, future: Any, act: Callable[[Any], object]) -> None:
        """Call *act* with *future* in its turn, which does not come before that is fulfilled."""
        arrived: list[Any] = []

        def arrive(future: Any) -> None:
            arrived.append(future)
            self._task.wake()

        then(self._handle, future, arrive)
        self.put(lambda: act(arrived[0]) if arrived else _ABSENT)

    def emptied(self) -> Iterator[None]:
        """Yields until all is done that is here now."""
        end = self._count + len(self._waiting)
        while self._count < end:
            yield

    def _work(self) -> Work:
        while self._waiting:
            more = self._does_more(self._waiting[0])
            if more is _ABSENT:
                yield math.inf
                continue
            if not more or more is TURN:
                self._waiting.popleft()
                self._count += 1
            self._done()
            yield 0.0 if more is TURN else None

    def _does_more(self, act: Callable[[], object]) -> object:
        """Do some of it; whether there is more. If it fails, others must not wait for it."""
        try:
            return act()
        except Exception as e:
            report(self._handle, e)
            return False


class Precedence:
    """Lets work wait for what should come before it, for so many seconds at a time.

    If there is always more of that, the work has its turn in half of the time.
    """

    def __init__(self, seconds: float = _LONG) -> None:
        self._seconds = seconds
        #: Since when there has been something that comes first; None if there is nothing.
        self._since: Optional[float] = None

    def waits(self, others: bool) -> bool:
        """Whether to wait now; *others* says whether there is something that should come first."""
        if not others:
            self._since = None
            return False
        now = time.monotonic()
        if self._since is None or now >= self._since + 2 * self._seconds:
            self._since = now
        return now < self._since + self._seconds
