"""The effort of searches: how much one request may take, and what is said if a search gives up.

Arithmetic decides requests of the usual forms. Other requests need a search. Its effort is counted
in units of some 10 µs: about one choice of a search. There is one bound, so a request that is made
to be hard cannot block the scheduler. A search that ends at the bound gives up: it is not known
whether there is an answer. What counts is what an answer takes when nothing is remembered, so no
answer depends on what was asked before. ``remembered`` keeps the answers.
"""

from __future__ import annotations

from typing import Any, Callable, Generator, Optional, TypeVar

import attrs

from treepool.errors import Reason

#: The units that one request may spend, and the search on one node state: the last state that is
#: searched may take as much again. In 60 cases that exhaust it, a choice took 4 to 13 ms of CPU,
#: and 23 ms where 11,000 nodes were in as many states.
PER_REQUEST = 1000

#: What an attempt at another way to serve a request counts as: at other counts, on nodes with
#: another property of a family, or in another domain above the nodes.
PER_ATTEMPT = PER_REQUEST // 75

#: The reasons for a user whose request is too hard, for a pool in use and for an idle one.
REASON = Reason(
    "search",
    "the search for a placement was given up: the request is too complex for the nodes as used",
)
TOO_COMPLEX = Reason(
    "search",
    "the request is too complex: the search for a placement was given up though nothing is in use",
)


class GaveUp(Exception):
    """The search reached its bound; it is not known whether there is an answer."""


@attrs.define(eq=False)
class GivenUp:
    """In how many choices a search gave up, for statistics alone."""

    count: int = 0


@attrs.define(eq=False)
class Effort:
    """The units spent, of ``limit`` that are allowed, and whether a search gave up.

    ``counted`` are the things that count once, however often the search comes back to them.
    """

    limit: int = attrs.field(factory=lambda: PER_REQUEST)
    tried: int = 0
    gave_up: bool = False
    counted: set[object] = attrs.field(factory=set)

    def part(self) -> Effort:
        """What one search may use: half of what is left, as others may follow; ``add`` it then."""
        return Effort(max(0, self.limit - self.tried) // 2, counted=self.counted)

    def add(self, part: Effort) -> None:
        """Add the effort of a search."""
        self.tried += part.tried
        self.gave_up |= part.gave_up

    @property
    def spent(self) -> bool:
        """Whether nothing is left."""
        return self.tried >= self.limit

    def count(self, units: int = 1) -> None:
        """Count *units* more; raises GaveUp once the limit is exceeded."""
        self.tried += units
        if self.tried > self.limit:
            self.gave_up = True
            raise GaveUp

    def allows(self, units: int = PER_ATTEMPT) -> bool:
        """Count *units* for what is done next, if there is something left; else note the end."""
        if self.spent:
            self.gave_up = True
            return False
        self.tried += units
        return True


K = TypeVar("K")
V = TypeVar("V")


def remembered(memo: dict[K, V], most: int, key: K, compute: Callable[[], V]) -> V:
    """The answer in *memo* for *key*, from *compute* the first time; at *most* many are kept.

    All are forgotten once there are too many: that changes only how soon an answer comes.
    """
    try:
        return memo[key]
    except KeyError:
        found = compute()
        if len(memo) >= most:
            memo.clear()
        memo[key] = found
        return found


def finished(work: Generator[Any, None, V]) -> V:
    """What *work* returns, at once."""
    while True:
        try:
            next(work)
        except StopIteration as e:
            found: V = e.value
            return found


def metered(
    memo: dict[Any, Any],
    most: int,
    key: object,
    compute: Callable[[Effort], V],
    effort: Optional[Effort] = None,
) -> V:
    """What *compute* found with an effort of its own, remembered in *memo* with what it took.

    *effort* counts that once; whoever goes on counting finds out if it is spent. Raises GaveUp if
    the search for the answer did.
    """

    def found() -> tuple[Optional[V], int]:
        spent = Effort()
        try:
            return compute(spent), spent.tried
        except GaveUp:
            return None, spent.tried

    answer: Optional[V]
    answer, units = remembered(memo, most, key, found)
    if effort is not None and units and key not in effort.counted:
        effort.counted.add(key)
        effort.tried += units
    if answer is None:
        raise GaveUp
    return answer
