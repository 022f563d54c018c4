"""The assignment: which slot gets which GPUs, for requests that demand links or memory of GPUs.

Without a demand, counting is enough to decide whether slots fit beside each other. With links it is
not: two slots of two GPUs fit on four GPUs linked in a row 0-1-2-3, but not if the first slot takes
GPUs 1 and 2. The GPUs are therefore assigned by a search with backtracking.
"""

from __future__ import annotations

from typing import Callable, Iterator, Optional, Sequence

import attrs

from treepool.placement.gpus.graph import Graph
from treepool.rfc import idset


@attrs.frozen(eq=False)
class Claim:
    """``number`` of the GPUs ``among`` (bitmask) for ``slot``.

    The ``among`` sets of two claims are either nested or disjoint.
    """

    slot: int
    among: int
    number: int


def assign(
    claims: Sequence[Claim], graph: Optional[Graph], free: int, count: Callable[[], None]
) -> Optional[list[int]]:
    """The GPUs of each of *claims*, disjoint and out of those *free*; None if that is impossible.

    With a *graph*, all GPUs of a slot are joined, and claims of one slot must be adjacent in
    *claims*. *count* is called for each choice tried. It may raise an exception to give up.
    """
    if graph is None:
        return _any(claims, free)
    search = _Search(claims, graph, count)
    return search.given if search.serve(0, free, 0, 0) else None


def _any(claims: Sequence[Claim], free: int) -> Optional[list[int]]:
    """Assign without links: the claims with the least choice come first and take the lowest ids."""
    given = [0] * len(claims)
    for i in sorted(range(len(claims)), key=lambda i: idset.size(claims[i].among)):
        given[i] = idset.take_lowest(claims[i].among & free, claims[i].number)
        if idset.size(given[i]) < claims[i].number:
            return None
        free &= ~given[i]
    return given


class _Search:
    """A depth-first search. ``given`` holds the GPUs of the claims served so far."""

    def __init__(self, claims: Sequence[Claim], graph: Graph, count: Callable[[], None]) -> None:
        self.claims = claims
        self.graph = graph
        self.count = count
        self.given: list[int] = []
        self.masks = {claim.among for claim in claims}
        #: For each claim and each mask: how many GPUs of the mask this and later claims want.
        self.wanted = [
            [
                (mask, sum(c.number for c in claims[i:] if c.among & ~mask == 0))
                for mask in {claim.among for claim in claims[i:]}
            ]
            for i in range(len(claims))
        ]
        #: Dead ends, recorded at the first claim of a slot: (claim, free GPUs, above).
        self.failed: set[tuple[int, int, int]] = set()

    def serve(self, i: int, free: int, own: int, above: int) -> bool:
        """Serve the claims from *i* on.

        *own* holds the GPUs that the slot of claim *i* has already. Claim *i* must not take GPUs
        below bit *above*.
        """
        if i == len(self.claims):
            return True
        claim = self.claims[i]
        first = not own
        if first and (i, free, above) in self.failed:
            return False
        if all(idset.size(mask & free) >= wanted for mask, wanted in self.wanted[i]):
            among = claim.among & free & -max(1, above)
            for gpu in idset.iterate(own):
                among &= self.graph.neighbours(gpu)
            for chosen in self._sets(0, among, claim.number):
                self.given.append(chosen)
                after = self._after(i, own, chosen)
                if self.serve(i + 1, free & ~chosen, *after):
                    return True
                self.given.pop()
        if first:
            self.failed.add((i, free, above))
        return False

    def _after(self, i: int, own: int, chosen: int) -> tuple[int, int]:
        """*own* and *above* for the claim after *i*.

        Slots with equal claims are interchangeable, so they are served in the order of their lowest
        GPUs.
        """
        this, rest = self.claims[i], self.claims[i + 1 : i + 3]
        if not rest:
            return 0, 0
        if rest[0].slot == this.slot:
            return own | chosen, 0
        alone = not own and (len(rest) == 1 or rest[1].slot != rest[0].slot)
        same = (this.among, this.number) == (rest[0].among, rest[0].number)
        return 0, (chosen & -chosen) << 1 if alone and same else 0

    def _sets(self, chosen: int, among: int, wanted: int) -> Iterator[int]:
        """Joined sets of *chosen* and *wanted* more GPUs of *among*, the lowest ids first."""
        self.count()
        if not wanted:
            yield chosen
            return
        left = among
        while idset.size(left) >= wanted:
            low = idset.lowest(left)
            left &= ~(1 << low)
            inner = left & self.graph.neighbours(low)
            if idset.size(inner) >= wanted - 1:
                yield from self._sets(chosen | 1 << low, inner, wanted - 1)
            # Interchangeable GPUs give the same result, so only the lowest of them is tried.
            left &= ~self._twins(low)

    def _twins(self, gpu: int) -> int:
        if gpu >= len(self.graph.twins):
            return 0
        twins = self.graph.twins[gpu]
        for mask in self.masks:
            twins &= mask if mask >> gpu & 1 else ~mask
        return twins
