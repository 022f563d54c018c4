"""Errors in callbacks end nothing: how they are logged, and how a request is refused for one.

If a callback raises, Flux stops the reactor, which ends the module, and with it the instance.
Therefore all that Flux's reactor calls in this package goes through this file. What works through a
list must see to it that the next call does not meet the same error again. Imports no flux.
"""

from __future__ import annotations

import errno
import math
import syslog
import time
import traceback
from pathlib import Path
from typing import Any, Callable

from treepool.rfc.quote import printable, shortened

#: Most characters of an error in the log or in an answer.
_LONGEST = 500


class Refused(OSError):
    """A request is refused with an errno, for a reason."""


class Timer:
    """Calls *callback* when its time has come, once each time that it is ``set``."""

    def __init__(self, handle: Any, callback: Callable[[], object]) -> None:
        def go_off(*_: Any) -> None:
            self._due = math.inf
            callback()

        self._timer = handle.timer_watcher_create(0.0, guarded(handle, go_off))
        #: When it goes off (monotonic seconds).
        self._due = math.inf

    def set(self, wait: float) -> None:
        """Go off after *wait* seconds, whatever was set before."""
        if self._due < math.inf:  # one that runs would keep its time otherwise
            self._timer.stop()
        self._timer.reset(after=max(0.0, wait))
        self._due = time.monotonic() + wait

    def hasten(self, wait: float) -> None:
        """Go off after *wait* seconds, or when it was set to, whichever comes first."""
        if time.monotonic() + wait < self._due:
            self.set(wait)

    def stop(self) -> None:
        """Do not go off."""
        self._timer.stop()
        self._due = math.inf


def then(handle: Any, future: Any, callback: Callable[..., object], *args: Any) -> None:
    """Let *callback* have *future* and *args* when it is fulfilled."""
    future.then(guarded(handle, callback), *args)


def answered(handle: Any, take: Callable[[Any], object]) -> Callable[[Any], None]:
    """*take*, which gets a request; if it raises, the request is refused."""

    def answer(msg: Any) -> None:
        try:
            take(msg)
        except Exception as e:
            refuse(handle, msg, e)

    return answer


def guarded(handle: Any, callback: Callable[..., object]) -> Callable[..., None]:
    """*callback*, whose errors are logged."""

    def call(*args: Any) -> None:
        try:
            callback(*args)
        except Exception as e:
            report(handle, e)

    return call


def payload_of(msg: Any) -> Any:
    """The JSON that the request *msg* has, None if it has none; raises ValueError."""
    return None if msg.payload_str is None else msg.payload


def refuse(handle: Any, msg: Any, error: Exception) -> None:
    """Answer *msg* with *error*; an error that is none of the asker's is logged, too."""
    number, reason = errno.EIO, str(error) or type(error).__name__
    if isinstance(error, OSError) and error.errno:  # also for a payload that is not text
        number, reason = error.errno, error.strerror or reason
    elif isinstance(error, (ValueError, RecursionError)):
        number = errno.EINVAL
    else:
        report(handle, error, msg.topic)
    handle.respond_error(msg, number, printable(reason))


def report(handle: Any, error: Exception, what: str = "callback") -> None:
    """Log *error*, which *what* has met, with its place in the source."""
    place = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" ({Path(frame.filename).name}:{frame.lineno})" for frame in place)
    text = printable(shortened(str(error), _LONGEST))
    handle.log(syslog.LOG_ERR, f"{what}{where}: {type(error).__name__}: {text}")
