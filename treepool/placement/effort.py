"""The effort of searches: how many choices may be tried, and what happens when that is not enough.

Requests of the usual forms are decided by arithmetic. For the others there is a search with a
bound, so that a request made to be hard cannot hold the scheduler up. A search that ends at its
bound has not found a "no": its request waits. The bound belongs to one call; nothing that
was searched before makes a later call stop sooner.
"""

from __future__ import annotations

import attrs

#: Choices tried by one search, about 0.2 s, and by all searches on one node in one state.
PER_SEARCH = 5_000
PER_STATE = 20_000

#: Choices tried for one request over all states, about 2 s.
PER_REQUEST = 50_000

#: What a user reads whose request is too hard.
REASON = "the search for a placement was given up: the request is too complex for the nodes as used"


class GaveUp(Exception):
    """The search was ended; whether there is an answer is not known."""


@attrs.define(eq=False)
class Effort:
    """The choices tried so far, of which there may be ``limit``; and whether a search ended."""

    limit: int
    tried: int = 0
    gave_up: bool = False

    def part(self) -> Effort:
        """The effort that one search may take of what is left; ``add`` it when it is done."""
        return Effort(min(PER_SEARCH, self.limit - self.tried))

    def add(self, part: Effort) -> None:
        """Take note of the effort of a search."""
        self.tried += part.tried
        self.gave_up |= part.gave_up

    def count(self, choices: int = 1) -> None:
        """Take note of *choices* more; raises GaveUp once they are too many."""
        self.tried += choices
        if self.tried > self.limit:
            self.gave_up = True
            raise GaveUp
