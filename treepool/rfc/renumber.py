"""Maps rank sets to other ranks by position, as when a sub-instance counts from zero.

Sets move as bytes, one for each rank, because a step of Python for each rank takes too long where
thousands of properties have thousands of ranks.
"""

from __future__ import annotations

from itertools import compress
from typing import Callable

from treepool.rfc import idset

#: Moves a rank set, both as bitmasks.
Move = Callable[[int], int]


def from_zero(source: int) -> Move:
    """A function that maps any subset of *source* to ranks that count from zero."""
    if source & (source + 1) == 0:
        return lambda ranks: ranks
    width = source.bit_length()
    members = idset.flags(source, width)
    return lambda ranks: idset.from_flags(bytearray(compress(idset.flags(ranks, width), members)))


def by_position(source: int, target: int) -> Move:
    """A function that maps any subset of *source* to *target*: the n-th rank to the n-th rank.

    All sets are bitmasks. *source* and *target* have the same size.
    """
    down, number = from_zero(source), idset.size(source)
    new = list(idset.iterate(target))
    return lambda ranks: idset.from_ids(compress(new, idset.flags(down(ranks), number)))
