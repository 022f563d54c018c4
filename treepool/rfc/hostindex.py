"""The hosts of a pool, found by RFC 29 hostlists that are not expanded.

"n[1-1000000]" takes 12 characters, and 0.3 s to expand. The index looks up the ends of a range
among the names of the pool instead. The cost of a search follows the length of the text and the
number of hosts found.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import chain
from typing import Iterable, Iterator, Sequence

from treepool.rfc import hostlist, idset

#: Each digit becomes 0. The pattern of "r12-n7" is "r00-n0".
_PATTERN = str.maketrans("123456789", "000000000")

#: How many blocks of sorted names have their ranks as a bitmask. 3,600 hostlists (100 kB) that each
#: match all of 11,000 nodes in any order take 0.1 s; rank by rank they take 5 s.
_BLOCKS = 64


class HostIndex:
    """The hosts of a pool, to be found by hostlists.

    *hosts* has the host of each rank, and *ranks* is the mask of those that the pool has. Several
    ranks may share a host.
    """

    def __init__(self, hosts: Sequence[str], ranks: int) -> None:
        self._hosts = hosts
        self._ranks = ranks
        self._sorted: dict[tuple[str, int], _Sorted] = {}

    def matching(self, texts: Iterable[str]) -> int:
        """The mask of the ranks whose host is in one of hostlists *texts*; raises InvalidHostlist.

        Hosts that the pool does not have match nothing.
        """
        names: set[str] = set()
        ranges: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
        for piece in chain.from_iterable(map(hostlist.parse, texts)):
            if isinstance(piece, list):
                names.update(piece)
                continue
            before, idlist, after = piece.before, piece.idlist, piece.after
            names.update([before + i + after for i in idlist.single()])
            for first, last, width in idlist.ranges:
                ranges.setdefault((before, after, width), []).append((first, last + 1))
        ranks = list(self._called(names))
        mask = 0
        for (before, after, width), numbers in ranges.items():
            for block, others in self._numbered(before, after, width, idset.merged(numbers)):
                mask |= block
                ranks += others
        return mask | idset.from_ids(ranks)

    @cached_property
    def _rank_of_host(self) -> dict[str, int]:
        """For each host name, its highest rank."""
        return {self._hosts[rank]: rank for rank in idset.iterate(self._ranks)}

    @cached_property
    def _ranks_of_host(self) -> dict[str, list[int]]:
        """The ranks of each host that several brokers share."""
        ranks_of: dict[str, list[int]] = {}
        if len(self._rank_of_host) < idset.size(self._ranks):
            for rank in idset.iterate(self._ranks):
                ranks_of.setdefault(self._hosts[rank], []).append(rank)
        return {host: ranks for host, ranks in ranks_of.items() if len(ranks) > 1}

    def _called(self, names: set[str]) -> Iterator[int]:
        """The ranks on the hosts with one of *names*."""
        for host in self._rank_of_host.keys() & names:
            yield from self._ranks_of_host.get(host) or (self._rank_of_host[host],)

    @cached_property
    def _ranks_of_pattern(self) -> dict[str, list[int]]:
        ranks_of: dict[str, list[int]] = {}
        for rank in idset.iterate(self._ranks):
            ranks_of.setdefault(self._hosts[rank].translate(_PATTERN), []).append(rank)
        return ranks_of

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._ranks_of_pattern), default=0)

    def _numbered(
        self, before: str, after: str, width: int, numbers: Iterable[tuple[int, int]]
    ) -> Iterator[tuple[int, list[int]]]:
        """The ranks on hosts with one of *numbers* between two texts: a mask, and other ranks.

        *numbers* are runs in order (see idset). They have *width* or more digits.
        """
        room = self._longest - len(before) - len(after)
        head, tail = before.translate(_PATTERN), after.translate(_PATTERN)
        # Among names of one pattern, all names with the same front and a number in a range are
        # neighbours. Names with the same end are, too, if the pattern determines the end.
        turned = len(after) if "0" in tail else 0
        for first, end in numbers:
            last, least = end - 1, max(width, len(str(first)))
            for digits in range(least, min(max(width, len(str(last))), room) + 1):
                pattern = f"{head}{'0' * digits}{tail}"
                if pattern not in self._ranks_of_pattern:
                    continue
                low = first if digits == least else 10 ** (digits - 1)
                high = min(last, 10**digits - 1)
                yield self._sorted_by(pattern, turned).between(
                    _turned(f"{before}{low:0{digits}d}{after}", turned),
                    _turned(f"{before}{high:0{digits}d}{after}", turned),
                )

    def _sorted_by(self, pattern: str, turned: int) -> _Sorted:
        """The hosts of *pattern*, each with its last *turned* characters in front."""
        entry = self._sorted.get((pattern, turned))
        if entry is None:
            named = [(_turned(self._hosts[r], turned), r) for r in self._ranks_of_pattern[pattern]]
            entry = self._sorted[pattern, turned] = _Sorted(sorted(named))
        return entry


class _Sorted:
    """Names in order and the rank of each, with the ranks of whole blocks of names as bitmasks."""

    def __init__(self, named: Sequence[tuple[str, int]]) -> None:
        self.names = [name for name, _ in named]
        self.ranks = [rank for _, rank in named]
        self.block = max(_BLOCKS, -(-len(named) // _BLOCKS))
        self.masks = [0]  # of the first blocks, by their number
        for start in range(0, len(named), self.block):
            ranks = idset.from_ids(self.ranks[start : start + self.block])
            self.masks.append(self.masks[-1] | ranks)

    def between(self, first: str, last: str) -> tuple[int, list[int]]:
        """The ranks of the names from *first* to *last*: of whole blocks as a mask, and others."""
        low, high = bisect_left(self.names, first), bisect_right(self.names, last)
        start, end = -(-low // self.block), high // self.block
        if high == len(self.names):
            end = len(self.masks) - 1  # the last block may be short
        if start >= end:
            return 0, self.ranks[low:high]
        others = self.ranks[low : start * self.block] + self.ranks[end * self.block : high]
        return self.masks[start] ^ self.masks[end], others


def _turned(name: str, number: int) -> str:
    """*name* with its last *number* characters in front."""
    return name[len(name) - number :] + name[: len(name) - number] if number else name
