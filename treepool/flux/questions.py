"""Questions that commands ask of the scheduler, also for guests, answered in small steps.

An answer may take long, because hundreds of jobs are planned for it. It is therefore a generator
that does a few milliseconds of work between two yields, and all answers together get only a
fraction of the time. Questions do not slow down starts, however many are asked.
"""

from __future__ import annotations

import errno
import json
import time
from collections import deque
from typing import Any, Callable, Generator, Mapping, Optional

import attrs
from flux.constants import FLUX_MSGTYPE_REQUEST
from flux.core.inner import ffi, lib

#: The version of all payloads, see doc/questions.md.
VERSION = 1

#: Seconds of work between two events, and the pause after it, as a multiple of the work.
_SLICE, _PAUSE = 0.005, 3

#: Most questions that guests may have open, all together and each of them.
_MOST, _MOST_OF_ONE = 256, 16

#: Most characters in a question.
_LONGEST = 1 << 16

#: Work on an answer. Each payload that it yields is sent; None only gives other work its turn.
Answer = Generator[Optional[Mapping[str, Any]], None, None]


@attrs.frozen
class Asker:
    """Who asks: the numeric id, and whether this is the owner of the instance, or an admin."""

    userid: int
    privileged: bool

    @classmethod
    def of(cls, msg: Any) -> Asker:
        """The sender of *msg*."""
        admin = getattr(lib, "FLUX_ROLE_ADMIN", 0)  # flux-core 0.88 has it
        return cls(msg.userid, bool(msg.rolemask & (lib.FLUX_ROLE_OWNER | admin)))


class Refused(OSError):
    """The question is refused with an errno, for a reason."""


@attrs.frozen(eq=False)
class _Question:
    msg: Any
    asker: Asker
    work: Answer
    streams: bool


def request_watcher(
    handle: Any, topic: str, take: Callable[[Any], None], guests: bool = True
) -> Any:
    """A watcher, not started yet, that passes requests to *take*; those of guests with *guests*."""

    def on_request(_handle: Any, _type: Any, msg: Any, _args: Any) -> None:
        take(msg)

    made = handle.msg_watcher_create(on_request, FLUX_MSGTYPE_REQUEST, topic)
    if guests:
        handle.msg_handler_allow_rolemask(made.handle, lib.FLUX_ROLE_OWNER | lib.FLUX_ROLE_USER)
    return made


class Questions:
    """The questions that are open. They take turns, so that short answers are ready soon."""

    def __init__(self, handle: Any, log: Any) -> None:
        self._handle = handle
        self._log = log
        self._open: deque[_Question] = deque()
        self._timer = handle.timer_watcher_create(0.0, lambda *_: self._step())
        #: When the pause after the last work ends.
        self._next = 0.0

    def __len__(self) -> int:
        return len(self._open)

    def take(self, msg: Any, answer: Callable[[Mapping[str, Any], Asker], Answer]) -> None:
        """Answer *msg* by *answer*, which gets its payload and the asker."""
        try:
            asker = Asker.of(msg)
            mine = sum(question.asker.userid == asker.userid for question in self._open)
            if not asker.privileged and (len(self._open) >= _MOST or mine >= _MOST_OF_ONE):
                raise Refused(errno.EAGAIN, "too many questions at a time: ask again")
            text = msg.payload_str or "{}"
            if len(text) > _LONGEST:
                raise Refused(errno.EMSGSIZE, f"/: more than {_LONGEST} characters")
            payload = json.loads(text)
            if not isinstance(payload, dict):
                raise Refused(errno.EPROTO, "/: must be an object")
            if payload.get("version", VERSION) != VERSION:
                raise Refused(errno.EPROTO, f"/version: this scheduler speaks version {VERSION}")
            work = answer(payload, asker)
        except Exception as e:  # whatever the payload is, it must not end the module
            self._refuse(msg, e)
            return
        streams = bool(lib.flux_msg_is_streaming(ffi.cast("flux_msg_t *", msg.handle)))
        self._open.append(_Question(msg, asker, work, streams))
        if len(self._open) == 1:
            self._timer.reset(after=max(0.0, self._next - time.monotonic()))

    def end(self) -> None:
        """Refuse the questions that are open, because the module is being unloaded."""
        while self._open:
            question = self._open.popleft()
            question.work.close()
            self._refuse(question.msg, Refused(errno.ENOSYS, "the scheduler is being unloaded"))

    def _step(self) -> None:
        """Do some of the work."""
        began = time.monotonic()
        while self._open and time.monotonic() - began < _SLICE:
            question = self._open.popleft()
            try:
                payload = next(question.work)
            except StopIteration:
                if question.streams:
                    self._handle.respond_error(question.msg, errno.ENODATA, "")
            except Exception as e:  # no question may end the module
                self._refuse(question.msg, e)
            else:
                self._open.append(question)
                if payload is not None:
                    self._handle.respond(question.msg, {"version": VERSION, **payload})
        pause = _PAUSE * (time.monotonic() - began)
        self._next = time.monotonic() + pause
        if self._open:
            self._timer.reset(after=pause)

    def _refuse(self, msg: Any, error: Exception) -> None:
        number, reason = errno.EIO, str(error) or type(error).__name__
        if isinstance(error, OSError) and error.errno:  # also for a payload that is not text
            number, reason = error.errno, error.strerror or reason
        elif isinstance(error, (ValueError, RecursionError)):
            number = errno.EINVAL
        else:
            self._log.error(f"question {msg.topic}: {type(error).__name__}: {error}")
        self._handle.respond_error(msg, number, reason)
