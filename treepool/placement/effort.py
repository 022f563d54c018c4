"""The effort of searches: how many choices may be tried, and what happens when that is not enough.

Arithmetic decides requests of the usual forms. Other requests need a search. The search has a
bound, so a request that is made to be hard cannot block the scheduler. A search that ends at its
bound has no answer, so its request waits. The bound applies to one call: earlier searches do not
make a later call stop sooner.

Besides, a scheduler that must not be held up makes a choice in *portions* of work: the choice is
interrupted, and made anew after other events. What it found is remembered, so it gets further.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from types import TracebackType
from typing import Optional

import attrs

#: Choices that one search may try (about 0.2 s), and all searches for one node state together.
PER_SEARCH = 5_000
PER_STATE = 20_000

#: Choices that one request may try over all states, about 2 s.
PER_REQUEST = 50_000

#: The choices that an attempt at another way to serve a request counts as, such as other counts, or
#: another domain above the nodes: no more than 500 are made.
PER_ATTEMPT = PER_REQUEST // 500

#: The part of them for states in which something is allocated. In most orders these come first, and
#: would otherwise leave nothing for idle nodes, which are the most likely to serve the request.
PER_REQUEST_IN_USE = 20_000

#: The message for a user whose request is too hard.
REASON = "the search for a placement was given up: the request is too complex for the nodes as used"


class GaveUp(Exception):
    """The search reached its bound; it is not known whether there is an answer."""


@attrs.define(eq=False)
class GivenUp:
    """How many choices this process made in which a search gave up, for statistics alone."""

    count: int = 0


GIVEN_UP = GivenUp()


@attrs.define(eq=False)
class Effort:
    """The choices tried so far, of ``limit`` that are allowed, and whether a search gave up.

    ``on_idle`` and ``on_used`` are the choices tried for states of nodes that are idle, or not.
    """

    limit: int
    tried: int = 0
    gave_up: bool = False
    on_idle: int = 0
    on_used: int = 0

    def part(self) -> Effort:
        """The part of the remaining effort that one search may use; ``add`` it afterwards."""
        return Effort(min(PER_SEARCH, self.limit - self.tried))

    def add(self, part: Effort) -> None:
        """Add the effort of a search."""
        self.tried += part.tried
        self.gave_up |= part.gave_up

    def allows(self, idle: bool) -> bool:
        """Whether one more state, which is *idle* or not, may be searched."""
        if idle:
            return self.on_idle < PER_REQUEST - PER_REQUEST_IN_USE
        return self.on_used < PER_REQUEST_IN_USE

    def spend(self, choices: int, idle: bool) -> None:
        """Count *choices* that were tried for a state, now or when its fit was computed."""
        self.tried += choices
        if idle:
            self.on_idle += choices
        else:
            self.on_used += choices

    def count(self, choices: int = 1) -> None:
        """Count *choices* more; raises GaveUp once the limit is exceeded."""
        self.tried += choices
        if self.tried > self.limit:
            self.gave_up = True
            raise GaveUp


class Interrupted(Exception):
    """The portion of work is done. The same call, made again, gets further.

    Its argument is the ask for a fit of which there was no work left.
    """


@attrs.define(eq=False)
class Portion:
    """A portion of so much ``work``, in units of some 10 µs (see Timeline.should_yield).

    In a ``with`` statement, what is called there is interrupted once as much is ``done``, at the
    next call of ``interrupt``. The statement then ends without an error, and ``lacking`` says for
    which ask there was no work left.
    """

    work: int
    done: int = 0
    lacking: Optional[object] = None
    _token: Optional[Token[Optional[Portion]]] = None

    def __enter__(self) -> Portion:
        self._token = _PORTION.set(self)
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> bool:
        assert self._token is not None
        _PORTION.reset(self._token)
        if not isinstance(error, Interrupted):
            return False
        (self.lacking,) = error.args
        return True


#: The portion that the work of this thread belongs to, if it may be interrupted.
_PORTION: ContextVar[Optional[Portion]] = ContextVar("portion", default=None)


def interrupt(ask: object) -> None:
    """Raise Interrupted if the portion is done; for callers who remember their work for *ask*."""
    portion = _PORTION.get()
    if portion is not None and portion.done >= portion.work:
        raise Interrupted(ask)


def spend(work: int) -> None:
    """Count *work* that was done in the portion, if there is one."""
    portion = _PORTION.get()
    if portion is not None:
        portion.done += work
