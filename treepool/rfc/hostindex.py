"""The hosts of a pool, found by RFC 29 hostlists that are not expanded.

"n[1-1000000]" takes 12 characters, and 0.3 s to expand. The index looks up the ends of a range
among the names of the pool instead. The cost of a search follows the length of the text and the
number of hosts found. An expression with several idlists is the exception: it is compared with each
host that has the same letters.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import chain
from typing import Iterable, Iterator, Sequence, Union

from treepool.rfc import hostlist, idset
from treepool.rfc.hostlist import Expression, Idlist

#: Each digit becomes 0. The pattern of "r12-n7" is "r00-n0".
_PATTERN = str.maketrans("123456789", "000000000")

_NUMBER = re.compile("([0-9]+)")

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
        ranks: list[int] = []
        for piece in chain.from_iterable(map(hostlist.parse, texts)):
            if isinstance(piece, list):
                names.update(piece)
                continue
            if len(piece.idlists) > 1:
                ranks += self._of_product(piece)
                continue
            before, idlist, after = piece.around()
            names.update([before + i + after for i in idlist.single()])
            for first, last, width in idlist.ranges:
                ranges.setdefault((before, after, width), []).append((first, last + 1))
        ranks += self._called(names)
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

    @cached_property
    def _ranks_of_letters(self) -> dict[tuple[str, ...], list[tuple[list[str], int]]]:
        """By the texts around the numbers of a name: the numbers of each host, and its rank."""
        shapes: dict[tuple[str, ...], list[tuple[list[str], int]]] = {}
        for rank in idset.iterate(self._ranks):
            pieces = _NUMBER.split(self._hosts[rank])
            shapes.setdefault(tuple(pieces[::2]), []).append((pieces[1::2], rank))
        return shapes

    def _of_product(self, expression: Expression) -> list[int]:
        """The ranks on the hosts that an expression with several idlists lists."""
        letters, numbers = _split(expression.parts)
        hosts = self._ranks_of_letters.get(letters, [])
        for i, parts in enumerate(numbers):
            among = {here[i] for here, _ in hosts}
            written = _written(parts, among)
            if written != among:
                hosts = [host for host in hosts if host[0][i] in written]
        return [rank for _, rank in hosts]


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


class _Ids:
    """The ids of an idlist, to look up texts among them."""

    def __init__(self, idlist: Idlist) -> None:
        self.single = set(idlist.single())
        self.ranges: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = []
        widths: dict[int, list[tuple[int, int]]] = {}
        for first, last, width in idlist.ranges:
            widths.setdefault(width, []).append((first, last + 1))
        for width, ranges in widths.items():
            firsts, ends = zip(*idset.merged(ranges))
            self.ranges.append((width, firsts, ends))
        lengths = [max(width, len(str(firsts[0]))) for width, firsts, _ in self.ranges]
        self.least, self.most = min(chain(lengths, map(len, self.single))), idlist.width

    def among(self, texts: set[str]) -> set[str]:
        """Those of *texts*, which are all digits, that are an id."""
        hosts = texts & self.single
        for width, firsts, ends in self.ranges:
            for text in texts:
                if len(text) == width or (len(text) > width and text[0] != "0"):
                    number = int(text)
                    i = bisect_right(firsts, number)
                    if i and number < ends[i - 1]:
                        hosts.add(text)
        return hosts


def _written(parts: Sequence[Union[str, Idlist]], texts: set[str]) -> set[str]:
    """Those of *texts*, which are all digits, that *parts* write one after the other."""
    longest = max(map(len, texts), default=0)
    reached = {0: texts}  # by the number of characters that the parts so far write
    for part in parts:
        if isinstance(part, str):
            ids, least, most = None, len(part), len(part)
        else:
            ids = _Ids(part)
            least, most = ids.least, ids.most
        further: dict[int, set[str]] = {}
        for start, here in reached.items():
            for end in range(start + least, min(start + most, longest) + 1):
                slices = {text[start:end] for text in here if len(text) >= end}
                slices = slices & {part} if ids is None else ids.among(slices)
                if slices:
                    more = {text for text in here if text[start:end] in slices}
                    further.setdefault(end, set()).update(more)
        reached = further
    return {text for end, here in reached.items() for text in here if len(text) == end}


def _split(
    parts: Iterable[Union[str, Idlist]],
) -> tuple[tuple[str, ...], list[list[Union[str, Idlist]]]]:
    """The texts of *parts* around their numbers, and what writes each number."""
    letters, numbers = [""], list[list[Union[str, Idlist]]]()
    for part in parts:
        for piece in filter(None, _NUMBER.split(part)) if isinstance(part, str) else (part,):
            if isinstance(piece, str) and not piece.isdigit():
                if len(numbers) == len(letters):
                    letters.append("")
                letters[-1] += piece
                continue
            if len(numbers) < len(letters):
                numbers.append([])
            numbers[-1].append(piece)
    if len(numbers) == len(letters):
        letters.append("")
    return tuple(letters), numbers


def _turned(name: str, number: int) -> str:
    """*name* with its last *number* characters in front."""
    return name[len(name) - number :] + name[: len(name) - number] if number else name
