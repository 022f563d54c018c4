"""RFC 22 idsets such as 0-3,8, to and from ``int`` bitmasks; the largest id; equal shares of a set.

A set of non-negative ids is an ``int`` whose bit *i* is set when *i* is in the set. All sets of
cores, GPUs and ranks in treepool have this form. Text is only for input and output.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import compress
from typing import Callable, Collection, Iterable, Iterator, Optional, Sequence, TypeVar

from treepool.errors import InvalidIdset
from treepool.rfc.quote import quoted

T = TypeVar("T")

#: Largest id accepted. RFC 22 has no limit, but without one "0-99999999999" would fill the memory.
#: The ranks of the largest machine are far below 2^22.
MAX_ID = 1 << 22

#: Longest text read: a set of every other id up to MAX_ID needs no more than this.
MAX_TEXT = 1 << 25

_ITEM = re.compile(r"(0|[1-9][0-9]{0,9})(?:-(0|[1-9][0-9]{0,9}))?")


#: The bitmask of all ids there can be.
EVERY = -1


def decode(text: str) -> int:
    """The bitmask of RFC 22 idset *text*; surrounding brackets and the empty set are accepted.

    Ids must ascend, as RFC 22 asks. Raises InvalidIdset for anything RFC 22 forbids (leading
    zeros, descending ids or ranges, duplicates, signs, blanks) and for an id above MAX_ID.
    """
    return from_runs(decode_runs(text))


def decode_runs(text: str) -> Iterator[tuple[int, int]]:
    """The ranges of RFC 22 idset *text* as it writes them: first id, and the id after the last.

    Ranges may touch. Raises InvalidIdset as ``decode`` does.
    """
    if not isinstance(text, str):
        raise InvalidIdset(f"an idset is a string, not {type(text).__name__}")
    if len(text) > MAX_TEXT:
        raise InvalidIdset(f"an idset of {len(text)} characters is too long")
    body = text[1:-1] if text.startswith("[") and text.endswith("]") and len(text) > 1 else text
    if not body:
        return
    previous = -1
    for item in body.split(","):
        first, last = _range(item, text)
        if first <= previous:
            what = "duplicate id" if first == previous else "ids must ascend:"
            raise InvalidIdset(f"{what} {first} in idset {quoted(text)}")
        previous = last
        yield first, last + 1


def _range(item: str, text: str) -> tuple[int, int]:
    """item: ID | ID '-' ID"""
    match = _ITEM.fullmatch(item)
    if match is None:
        raise InvalidIdset(f"{quoted(item)} is not an id or range in idset {quoted(text)}")
    first = int(match[1])
    last = first if match[2] is None else int(match[2])
    if match[2] is not None and last <= first:
        raise InvalidIdset(f"range {item} does not ascend in idset {quoted(text)}")
    if last > MAX_ID:
        raise InvalidIdset(f"id {last} is above the limit {MAX_ID} in idset {quoted(text)}")
    return first, last


def encode(mask: int) -> str:
    """The RFC 22 text of bitmask *mask*, consecutive ids as ranges: ``0b10111`` is ``"0-2,4"``."""
    if mask & (mask + 1) == 0:  # the ids 0 to n, as in most core sets of an R
        width = mask.bit_length()
        return f"0-{width - 1}" if width > 1 else "0" if width else ""
    return encode_runs(runs(mask))


def encode_ids(ids: Collection[int]) -> str:
    """The RFC 22 text of ascending, distinct *ids*."""
    if len(ids) == 1:  # as for most jobs
        (only,) = ids
        return str(only)
    return encode_runs(runs_of_ids(ids))


def encode_runs(parts: Iterable[tuple[int, int]]) -> str:
    """The RFC 22 text of ascending runs: first id, and the id after the last."""
    return ",".join(
        [str(first) if end == first + 1 else f"{first}-{end - 1}" for first, end in parts]
    )


def iterate(mask: int) -> Iterator[int]:
    """The ids in *mask*, ascending. Takes time linear in its width and size."""
    data = mask.to_bytes((mask.bit_length() + 7) >> 3, "little")
    for match in _NOT_ZERO.finditer(data):  # skips the zeros of a sparse, wide mask quickly
        start, end = match.span()
        base = start << 3
        for bit in _BITS[data[start]]:
            yield base + bit
        if end > start + 1:
            yield from range(base + 8, end << 3)


def runs(mask: int) -> Iterator[tuple[int, int]]:
    """The runs of consecutive ids in *mask*, ascending: first id, and the id after the last."""
    data = mask.to_bytes((mask.bit_length() + 7) >> 3, "little")
    first = last = -1
    for match in _NOT_ZERO.finditer(data):
        start, end = match.span()
        base, pieces = start << 3, _RUNS[data[start]]
        if end > start + 1:
            pieces = [*pieces, (8, (end - start) << 3)]
        for low, high in pieces:
            if base + low != last:
                if last >= 0:
                    yield first, last
                first = base + low
            last = base + high
    if last >= 0:
        yield first, last


def runs_of_ids(ids: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The runs of consecutive ids in ascending, distinct *ids*, as those of ``runs``."""
    first = end = -1
    for i in ids:
        if i != end:
            if end >= 0:
                yield first, end
            first = i
        end = i + 1
    if end >= 0:
        yield first, end


#: A byte that is not zero, and the full bytes after it.
_NOT_ZERO = re.compile(rb"[^\0]\xff*")
_BITS = [tuple(i for i in range(8) if byte >> i & 1) for byte in range(256)]
_RUNS = [[m.span() for m in re.finditer("1+", f"{byte:08b}"[::-1])] for byte in range(256)]


def from_ids(ids: Iterable[int]) -> int:
    """The bitmask of *ids*, in any order, each 0 to MAX_ID."""
    bits = bytearray()
    for i in ids:
        if len(bits) <= i >> 3:
            bits.extend(bytes((i >> 3) + 1 - len(bits)))
        bits[i >> 3] |= 1 << (i & 7)
    return int.from_bytes(bits, "little")


def from_runs(parts: Iterable[tuple[int, int]]) -> int:
    """The bitmask of runs, in any order: first id, and the id after the last."""
    parts = list(parts)
    if len(parts) <= _FEW:
        return union((1 << end) - (1 << first) for first, end in parts)
    found = bytearray(max(end for _, end in parts))
    for first, end in parts:
        found[first:end] = b"\1" * (end - first)
    return from_flags(found)


#: Up to this number of runs are or-ed. To or n wide ints is quadratic: 500,000 ids took 20 s.
_FEW = 16


def merged(parts: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Runs (first id, and the id after the last) in ascending order; those that touch as one."""
    start = stop = -1
    for first, end in sorted(parts):
        if first > stop:
            if stop > start:
                yield start, stop
            start = first
        stop = max(stop, end)
    if stop > start:
        yield start, stop


def union(masks: Iterable[int]) -> int:
    """The union of *masks*."""
    everything = 0
    for mask in masks:
        everything |= mask
    return everything


def gathered(pairs: Iterable[tuple[T, int]]) -> dict[T, int]:
    """The union of the masks of each value in *pairs* of a value and a mask."""
    found: dict[T, int] = {}
    for value, mask in pairs:
        found[value] = found.get(value, 0) | mask
    return found


def by_value(values: Sequence[Optional[T]], among: int) -> dict[T, int]:
    """For each of *values* (by id) except None, those of the ids *among* that have it."""
    found: dict[Optional[T], list[tuple[int, int]]] = {}
    for start, end in runs(among):
        for i in range(start + 1, end + 1):
            if i == end or values[i] is not values[start]:
                found.setdefault(values[start], []).append((start, i))
                start = i
    return {value: from_runs(parts) for value, parts in found.items() if value is not None}


def flags(mask: int, width: int) -> bytearray:
    """*mask* as one byte per id below *width*, 1 if the id is in it. *width* exceeds all ids."""
    found = bytearray(bin(mask)[:1:-1].encode().translate(_FLAGS))
    return found + bytes(width - len(found)) if mask else bytearray(width)


def from_flags(data: bytearray) -> int:
    """The bitmask whose ``flags`` are *data*."""
    return int(data[::-1].translate(_DIGITS) or b"0", 2)


#: Translate the digits 0 and 1 to bytes of that value, and back.
_FLAGS = bytes.maketrans(b"01", b"\0\1")
_DIGITS = bytes.maketrans(b"\0\1", b"01")


def from_zero(source: int) -> Callable[[int], int]:
    """A function that maps any subset of *source* to ids that count from zero, by position.

    It moves runs, because a step of Python for each id takes too long where thousands of properties
    have thousands of ranks.
    """
    if source & (source + 1) == 0:
        return lambda ids: ids
    firsts: list[int] = []
    gaps: list[int] = []  # the ids that *source* lacks before each of its runs
    lacking = last = 0
    for first, end in runs(source):
        lacking += first - last
        last = end
        firsts.append(first)
        gaps.append(lacking)

    def moved(ids: int) -> Iterator[tuple[int, int]]:
        for first, end in runs(ids):  # within one run of *source*, whose subset *ids* is
            gap = gaps[bisect_right(firsts, first) - 1]
            yield first - gap, end - gap

    return lambda ids: from_runs(moved(ids))


def by_position(source: int, target: int) -> Callable[[int], int]:
    """A function that maps any subset of *source* to *target*, which is as large, by position."""
    down, number = from_zero(source), size(source)
    new = list(iterate(target))
    return lambda ids: from_ids(compress(new, flags(down(ids), number)))


def lowest(mask: int) -> int:
    """The lowest id in *mask*, -1 if it is empty."""
    return (mask & -mask).bit_length() - 1


def _size(mask: int) -> int:
    return bin(mask).count("1")


#: ``size(mask)`` is the number of ids in *mask*. This is the hottest call of all: a def around
#: bit_count would triple its 50 ns.
size: Callable[[int], int] = getattr(int, "bit_count", _size)  # Python 3.9 lacks it


def take_lowest(mask: int, wanted: int) -> int:
    """The *wanted* lowest ids of *mask*, or all of them if there are fewer."""
    if size(mask) <= wanted:
        return mask
    low, high = (mask & -mask).bit_length() - 1 + wanted, mask.bit_length()
    if size(mask & ((1 << low) - 1)) == wanted:  # the ids are consecutive, as they mostly are
        return mask & ((1 << low) - 1)
    while low < high:  # the smallest width whose low bits hold `wanted` ids
        middle = (low + high) >> 1
        if size(mask & ((1 << middle) - 1)) < wanted:
            low = middle + 1
        else:
            high = middle
    return mask & ((1 << low) - 1)


def shares(mask: int, total: int) -> list[int]:
    """*mask* dealt to *total* parts: contiguous, in order, and equal but for one id.

    If there are fewer ids than parts, each part has one id, and parts share it.
    """
    ids = list(iterate(mask))
    starts = [index * len(ids) // total for index in range(total + 1)]
    return [from_ids(ids[a : max(a + 1, b)]) for a, b in zip(starts, starts[1:])]
