"""How many questions users may ask the scheduler, their share of its time, and who is refused.

An answer may take long, because hundreds of jobs are planned for it. It is therefore a generator
that does a few milliseconds of work between two yields, and all answers together are one task (see
runner.py), which has only a fraction of the time.

A guest may ask as fast as he can. Each guest has a share of the time and can save some of it. Who
has used up his share waits, and others' questions come first. Who has too many questions open is
refused, but not at once: a program that waits for its answers is slowed down by that, and a refusal
costs the scheduler as much as receiving the question.
"""

from __future__ import annotations

import errno
import json
import time
from collections import Counter, deque
from typing import Any, Callable, Generator, Mapping, Optional

import attrs
from flux.constants import FLUX_MSGTYPE_REQUEST
from flux.core.inner import ffi, lib

from treepool.flux.callbacks import Refused, answered, guarded, refuse
from treepool.flux.runner import Runner, Work

#: The version of all payloads, see doc/questions.md.
VERSION = 1

#: How long all answers pause after each had a step, as a multiple of the work.
_PAUSE = 3

#: Most questions that guests may have open, all together and each of them.
_MOST, _MOST_OF_ONE = 256, 16

#: The share of the time that a guest has for questions, and how many seconds of it he can save.
_SHARE, _SAVED = 0.05, 60.0

#: Seconds until a question that is one too many is refused, and most questions that wait for that.
_LATER, _MOST_REFUSED = 2.0, 4096

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


@attrs.frozen(eq=False)
class _Question:
    msg: Any
    asker: Asker
    work: Answer
    streams: bool


def request_watcher(
    handle: Any, topic: str, take: Callable[[Any], object], guests: bool = True
) -> Any:
    """A watcher that passes requests to *take*; those of guests with *guests*.

    If *take* raises, the request is refused.
    """
    answer = answered(handle, take)
    on_request = guarded(handle, lambda _handle, _type, msg, _args: answer(msg))
    made = handle.msg_watcher_create(on_request, FLUX_MSGTYPE_REQUEST, topic)
    if guests:
        handle.msg_handler_allow_rolemask(made.handle, lib.FLUX_ROLE_OWNER | lib.FLUX_ROLE_USER)
    made.start()
    return made


class Shares:
    """How much of its time the scheduler gives to whom, by the numeric id of the user."""

    def __init__(self) -> None:
        #: Until when each has used up his share (monotonic seconds).
        self._until: dict[int, float] = {}

    def wait(self, user: int, now: float) -> float:
        """Seconds until *user* may have more work done."""
        return max(0.0, self._until.get(user, now) - now)

    def use(self, user: int, spent: float, now: float) -> None:
        """Take note of so many seconds of work for *user*."""
        until = max(self._until.get(user, 0.0), now - _SAVED) + spent / _SHARE
        self._until[user] = until
        if len(self._until) > _MOST:
            rest = {other: end for other, end in self._until.items() if end > now - _SAVED}
            self._until = rest


class Questions:
    """The questions that are open. They take turns, so that short answers are ready soon."""

    def __init__(self, handle: Any, runner: Runner) -> None:
        self._handle = handle
        self._open: deque[_Question] = deque()
        #: How many of them each guest has, and the share of the time that each has used up.
        self._count: Counter[int] = Counter()
        self._shares = Shares()
        self._answering = runner.task("questions", self._rounds, _PAUSE)
        #: Questions to refuse, without their payload, and when to.
        self._refused: deque[tuple[float, Any]] = deque()
        self._refusing = runner.task("refusals", self._refusals)
        self._ended = False

    def __len__(self) -> int:
        return len(self._open)

    def take(self, msg: Any, answer: Callable[[Mapping[str, Any], Asker], Answer]) -> None:
        """Answer *msg* by *answer*, which gets its payload and the asker."""
        if self._ended:
            refuse(self._handle, msg, _unloaded())
            return
        asker = Asker.of(msg)
        many = len(self._open) >= _MOST or self._count[asker.userid] >= _MOST_OF_ONE
        if many and not asker.privileged:
            self._refuse_later(msg)
            return
        try:
            text = _text(msg)
        except Exception as e:  # it is no text
            refuse(self._handle, msg, e)
            return
        if text is None:
            msg = _without_payload(msg)
        work = _work(text, asker, answer)
        self._count[asker.userid] += 1
        streams = bool(lib.flux_msg_is_streaming(_c(msg)))
        self._open.append(_Question(msg, asker, work, streams))
        self._answering.wake(self._wait(asker, time.monotonic()))

    def end(self) -> None:
        """Refuse the questions, those to come too, because the module is being unloaded."""
        self._ended = True
        while self._open:
            question = self._open.popleft()
            question.work.close()
            refuse(self._handle, question.msg, _unloaded())
        while self._refused:
            refuse(self._handle, self._refused.popleft()[1], _too_many())

    def _rounds(self) -> Work:
        """The work in rounds: in each, every question whose asker may have more has a step."""
        while self._open:
            waits = []
            for _ in range(len(self._open)):
                if not self._open:  # the module is being unloaded
                    return
                question = self._open.popleft()
                asker, began = question.asker, time.monotonic()
                wait = self._wait(asker, began)
                if wait:
                    waits.append(wait)
                    self._open.append(question)
                    continue
                if self._go_on(question):
                    self._open.append(question)
                else:
                    self._count[asker.userid] -= 1
                now = time.monotonic()
                self._shares.use(asker.userid, now - began, now)
                yield None
            yield min(waits) if len(waits) == len(self._open) and waits else 0.0

    def _wait(self, asker: Asker, now: float) -> float:
        """Seconds until there may be more work for *asker*."""
        return 0.0 if asker.privileged else self._shares.wait(asker.userid, now)

    def _go_on(self, question: _Question) -> bool:
        """Do a step of the work on *question*; returns whether more is to do.

        Who does not ask for a stream gets one response. A second one, if only that the module is
        being unloaded, would be taken for the response to another request.
        """
        try:
            payload = next(question.work)
            if payload is not None:
                if not question.streams:
                    for _ in question.work:
                        why = "the answer has several parts: ask for a stream"
                        raise Refused(errno.EPROTO, why)
                self._handle.respond(question.msg, {"version": VERSION, **payload})
        except StopIteration:
            if question.streams:
                self._handle.respond_error(question.msg, errno.ENODATA, "")
            return False
        except Exception as e:  # no question may end the module
            refuse(self._handle, question.msg, e)
            return False
        return payload is None or question.streams

    def _refuse_later(self, msg: Any) -> None:
        """Refuse *msg* after a while, because there are too many."""
        if lib.flux_msg_is_noresponse(_c(msg)):
            return
        if len(self._refused) >= _MOST_REFUSED:
            refuse(self._handle, msg, _too_many())
            return
        self._refused.append((time.monotonic() + _LATER, _without_payload(msg)))
        self._refusing.wake(_LATER)

    def _refusals(self) -> Work:
        """Refuse those whose time has come."""
        while self._refused:
            wait = self._refused[0][0] - time.monotonic()
            if wait > 0:
                yield wait
            else:
                refuse(self._handle, self._refused.popleft()[1], _too_many())
                yield None


def _text(msg: Any) -> Optional[str]:
    """The payload of *msg*; None if it is too long, which is found out without reading it."""
    data, size = ffi.new("const void *[1]"), ffi.new("size_t [1]")
    if lib.flux_msg_get_payload(_c(msg), data, size) == 0 and size[0] > 4 * _LONGEST + 1:
        return None
    text = msg.payload_str or "{}"
    return text if len(text) <= _LONGEST else None


def _work(
    text: Optional[str], asker: Asker, answer: Callable[[Mapping[str, Any], Asker], Answer]
) -> Answer:
    """The work on a question: what it says is read as part of it."""
    if text is None:
        raise Refused(errno.EMSGSIZE, f"more than {_LONGEST} characters")
    payload = json.loads(text)
    if not isinstance(payload, dict):
        raise Refused(errno.EPROTO, "must be an object")
    try:
        json.dumps(payload, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # JSON can say half of a surrogate pair; no answer can repeat it
        raise Refused(errno.EINVAL, "a string is not valid Unicode") from None
    if payload.get("version", VERSION) != VERSION:
        raise Refused(errno.EPROTO, f"/version: this scheduler speaks version {VERSION}")
    yield from answer(payload, asker)


def _unloaded() -> Refused:
    return Refused(errno.ENOSYS, "the scheduler is being unloaded")


def _too_many() -> Refused:
    return Refused(errno.EAGAIN, "too many questions at a time: ask again")


def _without_payload(msg: Any) -> Any:
    """A copy of *msg* that takes little memory and can be responded to."""
    handle = lib.flux_msg_copy(_c(msg), False)
    made = type(msg)(handle=handle)
    lib.flux_msg_decref(handle)  # made has a reference of its own
    return made


def _c(msg: Any) -> Any:
    return ffi.cast("flux_msg_t *", msg.handle)
