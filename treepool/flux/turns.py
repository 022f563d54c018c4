"""Whose turn it is: messages go before work that can be interrupted, but not for ever."""

from __future__ import annotations

import time
from typing import Any, Iterator, Optional

from flux.constants import FLUX_POLLIN

#: Seconds that work waits while messages arrive, and that passes wait for what has arrived.
_PATIENCE, _LONG = 0.01, 0.1


class Turns:
    """The turns of messages to *handle* and of one kind of work.

    Flux hands over one message between two steps of work. When hundreds arrive at once, such as
    the nodes that a job frees one by one, the last would wait for as many steps.
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._worked = 0.0

    @property
    def messages_first(self) -> bool:
        """Whether messages wait, and work has not waited for them too long."""
        waits = self._handle.pollevents() & FLUX_POLLIN
        return bool(waits) and time.monotonic() < self._worked + _PATIENCE

    def worked(self) -> None:
        """Take note of a step of work."""
        self._worked = time.monotonic()

    def paced(self, work: Iterator[None]) -> Iterator[None]:
        """*work*, each step of which begins when it is its turn."""
        while self.messages_first:
            yield
        for _ in work:
            self.worked()
            yield
            while self.messages_first:
                yield


class Precedence:
    """Lets passes wait for what should come before them, for so many seconds at a time.

    If there is always more of it, passes have their turn in half of the time.
    """

    def __init__(self, seconds: float = _LONG) -> None:
        self._seconds = seconds
        #: Since when there has been something that comes before them; None if there is nothing.
        self._since: Optional[float] = None

    def waits(self, others: bool) -> bool:
        """Whether to wait now; *others* says whether there is something that should come before."""
        if not others:
            self._since = None
            return False
        now = time.monotonic()
        if self._since is None or now >= self._since + 2 * self._seconds:
            self._since = now
        return now < self._since + self._seconds
