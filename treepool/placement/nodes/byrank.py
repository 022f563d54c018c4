"""Values by rank: a list, or a sparse table with a list's interface if ranks are few and far apart.

With lists, a node of rank 4,000,000 would cost 300 MB and loops of two seconds. All other pools use
lists, because reading a list takes a third of the time.
"""

from __future__ import annotations

from typing import Callable, Generic, Iterable, Iterator, List, Optional, TypeVar, Union

from treepool.placement.nodes.rankset import RankSet
from treepool.rfc import idset

T = TypeVar("T")
U = TypeVar("U")

#: A table longer than _SHORT is sparse if less than one rank in _SPARSE has a value: around that
#: density, a dict becomes smaller than a list.
_SHORT = 1 << 16
_SPARSE = 8


class Sparse(Generic[T]):
    """A value for each rank below ``width``; most ranks have the value ``default``."""

    __slots__ = ("width", "default", "values")

    def __init__(self, width: int, default: T) -> None:
        self.width = width
        self.default = default
        self.values: dict[int, T] = {}

    def __getitem__(self, rank: int) -> T:
        if rank >= self.width:
            raise IndexError(rank)
        return self.values.get(rank, self.default)

    def __setitem__(self, rank: int, value: T) -> None:
        if rank >= self.width:
            raise IndexError(rank)
        self.values[rank] = value

    def __len__(self) -> int:
        return self.width

    def __iter__(self) -> Iterator[T]:
        return (self.values.get(rank, self.default) for rank in range(self.width))

    def copy(self) -> Sparse[T]:
        """An independent copy."""
        new = Sparse(self.width, self.default)
        new.values = self.values.copy()
        return new


#: A value for each rank below a width, by rank.
ByRank = Union[List[T], Sparse[T]]


def filled(width: int, most: int, default: T) -> ByRank[T]:
    """*default* for each rank below *width*; at most *most* ranks are to get other values."""
    if width > _SHORT and most * _SPARSE < width:
        return Sparse(width, default)
    return [default] * width


def items(values: ByRank[T]) -> Iterable[tuple[int, T]]:
    """Ranks and their values, ascending by rank; ranks with the default value may be missing."""
    return sorted(values.values.items()) if isinstance(values, Sparse) else enumerate(values)


def mapped(function: Callable[[T], U], values: ByRank[T]) -> ByRank[U]:
    """The values of all ranks with *function* applied to each."""
    if isinstance(values, Sparse):
        new = Sparse(values.width, function(values.default))
        new.values = {rank: function(value) for rank, value in values.values.items()}
        return new
    return list(map(function, values))


def ranks_of(values: ByRank[Optional[T]], among: int) -> dict[T, RankSet]:
    """For each value except None, the ranks in bitmask *among* that have it."""
    found: dict[T, RankSet] = {}

    def add(value: Optional[T], first: int, end: int) -> None:
        if value is not None:
            found.setdefault(value, RankSet()).add_run(first, end)

    for first, end in idset.runs(among):
        last = values[first]
        for rank in range(first, end):
            value = values[rank]
            if value is not last:  # most ranks have the value of the previous rank
                add(last, first, rank)
                first, last = rank, value
        add(last, first, end)
    return found
