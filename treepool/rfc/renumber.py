"""Rank sets carried over to other ranks by position, as when a sub-instance counts from zero."""

from __future__ import annotations

from typing import Callable

from treepool.rfc import idset

#: Moves a rank set, both as bitmasks.
Move = Callable[[int], int]


def by_position(source: int, target: int) -> Move:
    """A function that moves any subset of *source* to *target*: the n-th rank to the n-th rank.

    All are bitmasks; *source* and *target* are of one size.
    """
    if source == target:
        return lambda ranks: ranks
    if _gapless(source) and _gapless(target):
        distance = idset.lowest(target) - idset.lowest(source)
        if distance > 0:
            return lambda ranks: ranks << distance
        return lambda ranks: ranks >> -distance
    new = dict(zip(idset.iterate(source), idset.iterate(target)))
    return lambda ranks: idset.from_ids(new[rank] for rank in idset.iterate(ranks))


def from_zero(source: int) -> Move:
    """A function that moves any subset of *source* to ranks that count from zero."""
    return by_position(source, (1 << idset.size(source)) - 1)


def _gapless(ranks: int) -> bool:
    """Whether non-empty *ranks* are consecutive."""
    shifted = ranks >> idset.lowest(ranks) if ranks else 0
    return shifted != 0 and shifted & (shifted + 1) == 0
