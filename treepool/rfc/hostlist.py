"""RFC 29 hostlists such as n[01-16], to and from host names: zero padding, limits.

Order and duplicates are kept. Where libhostlist and RFC 29 read a text differently, ``decode``
follows RFC 29. ``encode`` writes only text that both read in the same way.

- The leading zeros of the first element of an idlist apply to the whole list: ``a[01,2]`` is
  ``a01,a2`` to libhostlist, and ``a01,a02`` here and in RFC 29. A later element keeps its own
  zeros: ``a[10,02]`` is ``a10,a02``, as in libhostlist.
- An expression has one idlist. A second one is an error, also where Slurm would multiply them:
  libhostlist takes it for a part of the names, ``a0[2-3]`` and ``a1[2-3]`` of ``a[0-1][2-3]``.
"""

from __future__ import annotations

import re
from typing import Iterable, Iterator, NoReturn, Union

import attrs

from treepool.errors import InvalidHostlist
from treepool.rfc.quote import quoted

#: Most hosts in a list. Without a limit, "h[0-99999999999]" would fill the memory.
MAX_HOSTS = 1 << 20

#: Longest host name. The limits of operating systems (64 to 255) are lower.
MAX_NAME = 1024

#: Most characters in the text, and in all names together: MAX_HOSTS names of 64 characters.
MAX_TEXT = 1 << 26

#: Most ids or ranges written in one pair of brackets. libhostlist reads at most 10,240.
MAX_RANGES = 10_000

_DIGITS = "0123456789"

# Most digits of a number that is counted up, because libhostlist holds it in an unsigned long. Any
# digits before that are part of the prefix.
_MAX_DIGITS = 18

# RFC 29: printable ASCII except blank, brackets and comma.
_LITERAL = re.compile(r"[!-+\--Z\\^-~]+")
_NAMES = re.compile(r"[!-Z\\^-~]*")  # literals and commas
_ITEM = re.compile("([0-9]+)(?:-([0-9]+))?")
_ITEMS = re.compile("[0-9,-]*")


@attrs.frozen
class Idlist:
    """The ids in one pair of brackets.

    ``items`` are its ids and ranges as written. ``ranges`` has the first id, the last id and the
    least number of digits of each range. Other ids have at least ``padding`` digits, and no id has
    more than ``width``.
    """

    items: list[str]
    ranges: list[tuple[int, int, int]]
    padding: int
    width: int

    @property
    def size(self) -> int:
        """The number of ids, duplicates included."""
        single = len(self.items) - len(self.ranges)
        return single + sum(last - first + 1 for first, last, _ in self.ranges)

    def single(self) -> list[str]:
        """The ids that are not in a range, zero padded."""
        return [item.zfill(self.padding) for item in self.items if "-" not in item]

    def ids(self) -> Iterator[str]:
        """All ids in order, zero padded."""
        ranges = iter(self.ranges)
        for item in self.items:
            if "-" in item:
                first, last, width = next(ranges)
                yield from map(f"%0{width}d".__mod__, range(first, last + 1))
            else:
                yield item.zfill(self.padding)


@attrs.frozen
class Expression:
    """An expression with brackets: an idlist between two texts, at column ``start`` from 0."""

    before: str
    idlist: Idlist
    after: str
    start: int

    @property
    def longest(self) -> int:
        """The most characters that a name may have."""
        return len(self.before) + self.idlist.width + len(self.after)

    def hosts(self) -> list[str]:
        """The host names, in order."""
        return [self.before + one + self.after for one in self.idlist.ids()]


#: A part of a hostlist: an expression with brackets, or any number of names without brackets.
Piece = Union[list[str], Expression]


def parse(text: str) -> Iterator[Piece]:
    """The pieces of RFC 29 hostlist *text*, in order. No range is expanded.

    Empty expressions between commas are skipped, as libhostlist does. Raises InvalidHostlist with
    the column for blanks, unbalanced brackets, descending ranges and names too long. The number of
    hosts has no limit.
    """
    if not isinstance(text, str):
        raise InvalidHostlist(f"a hostlist is a string, not {type(text).__name__}")
    if len(text) > MAX_TEXT:
        raise InvalidHostlist(f"a hostlist of {len(text)} characters is too long")
    return _Parser(text).hostlist()


def decode(text: str) -> list[str]:
    """The host names of RFC 29 hostlist *text*, in order, duplicates included.

    Raises InvalidHostlist as ``parse`` does, and for more than MAX_HOSTS hosts.
    """
    hosts: list[str] = []
    for piece, _ in _counted(text):
        hosts += piece.hosts() if isinstance(piece, Expression) else piece
    return hosts


def size(text: str) -> int:
    """The number of hosts in *text*, without making their names. Raises as ``decode`` does."""
    return sum(number for _, number in _counted(text))


def _counted(text: str) -> Iterator[tuple[Piece, int]]:
    """The pieces of *text* and the number of hosts in each; raises before there are too many."""
    found = characters = 0
    pieces = parse(text)
    if text.count(",") > 2 * MAX_HOSTS:  # empty expressions take time too
        raise InvalidHostlist(f"a hostlist of more than {MAX_HOSTS} hosts")
    for piece in pieces:
        number, column = len(piece) if isinstance(piece, list) else 1, ""
        if isinstance(piece, Expression):
            column = f" column {piece.start + 1}"
            number = min(piece.idlist.size, MAX_HOSTS + 1)
            characters += number * piece.longest
        found += number
        if found > MAX_HOSTS:
            raise InvalidHostlist(f"hostlist{column}: more than {MAX_HOSTS} hosts")
        if characters > MAX_TEXT:
            message = f"host names of more than {MAX_TEXT} characters in total"
            raise InvalidHostlist(f"hostlist{column}: {message}")
        yield piece, number


class _Parser:
    """Recursive descent over one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self, column: int, message: str) -> NoReturn:
        raise InvalidHostlist(f"hostlist column {column + 1}: {message}")

    def misplaced(self, column: int) -> NoReturn:
        if self.text[column] == "]":
            self.fail(column, "']' without '['")
        self.fail(column, f"{self.text[column]!r} is not allowed in a host name")

    def hostlist(self) -> Iterator[Piece]:
        """hostlist: expression? (',' expression?)*"""
        while self.at < len(self.text):
            opening = self.text.find("[", self.at)
            end = len(self.text)
            if opening >= 0:
                end = self.text.rfind(",", self.at, opening) + 1
            if end > self.at:
                yield self.names(end)
            if opening >= 0:
                yield self.expression()

    def names(self, end: int) -> list[str]:
        """names: LITERAL? (',' LITERAL?)*, up to *end*"""
        start, self.at = self.at, end
        valid = _NAMES.match(self.text, start, end)
        if valid is not None and valid.end() < end:
            self.misplaced(valid.end())
        names = list(filter(None, self.text[start:end].split(",")))
        if names and max(map(len, names)) > MAX_NAME:
            self.fail(start, f"a host name longer than {MAX_NAME} characters")
        return names

    def expression(self) -> Expression:
        """expression: LITERAL? '[' idlist ']' LITERAL?"""
        start = self.at
        before, idlist, after = self.literal(), self.idlist(), self.literal()
        if self.at < len(self.text) and self.text[self.at] != ",":
            if self.text[self.at] == "[":
                self.fail(self.at, "a second '[': a host name has one pair of brackets (RFC 29)")
            self.misplaced(self.at)
        found = Expression(before, idlist, after, start)
        if found.longest > MAX_NAME:
            self.fail(start, f"a host name longer than {MAX_NAME} characters")
        return found

    def literal(self) -> str:
        """LITERAL?"""
        literal = _LITERAL.match(self.text, self.at)
        self.at = self.at if literal is None else literal.end()
        return "" if literal is None else literal[0]

    def idlist(self) -> Idlist:
        """'[' item (',' item)* ']', item: ID ('-' ID)?"""
        opening = self.at
        if self.text[opening] != "[":
            self.misplaced(opening)
        closing = self.text.find("]", opening)
        if closing < 0:
            self.fail(opening, "'[' without ']'")
        self.at = closing + 1
        # Whole lists are checked at once: a step of Python for each id takes four times as long.
        text = self.text[opening + 1 : closing]
        items, ids = text.split(","), text.replace("-", ",").split(",")
        written = [item for item in items if "-" in item]
        longest = max(map(len, ids))
        if (
            _ITEMS.fullmatch(text) is None
            or "" in ids
            or len(ids) != len(items) + len(written)
            or longest > MAX_NAME
        ):
            self.fail_at_item(opening, closing)
        # RFC 29: the zeros of the first element apply to all. Later elements may have more.
        padding = len(ids[0]) if ids[0][0] == "0" else 1
        ranges: list[tuple[int, int, int]] = []
        for item in written:
            low, _, high = item.partition("-")
            first, last = int(low), int(high)
            if last < first:
                self.fail_at_item(opening, closing)
            ranges.append((first, last, max(len(low), padding) if low[0] == "0" else padding))
        return Idlist(items, ranges, padding, max(longest, padding))

    def fail_at_item(self, opening: int, closing: int) -> NoReturn:
        """Raise for the first item that is not an id or an ascending range, or too long."""
        at = opening
        while True:  # at the '[' or a ',' before a valid item
            item = _ITEM.match(self.text, at + 1, closing)
            if item is None or self.text[item.end()] not in ",]":
                self.fail(at + 1 if item is None else item.end(), "an id or range is expected")
            if max(len(item[1]), len(item[2] or "")) > MAX_NAME:
                self.fail(item.start(), f"an id of a host name longer than {MAX_NAME}")
            if item[2] and int(item[2]) < int(item[1]):
                self.fail(item.start(), f"range {item[0]} descends")
            at = item.end()


def encode(hosts: Iterable[str]) -> str:
    """The RFC 29 text of *hosts*, so that ``decode(encode(hosts)) == list(hosts)``.

    Neighbours that differ only in the number at their end share a pair of brackets, and consecutive
    numbers are a range: ``a1,a2,a4,b`` is ``a[1-2,4],b``. A change of zero padding starts a new
    pair: ``a1,a02`` stays as it is. Raises InvalidHostlist for a name that is empty or has blanks,
    commas, brackets or anything except printable ASCII, and for more names than ``decode`` reads.
    """
    names = list(hosts)
    if len(names) > MAX_HOSTS:
        raise InvalidHostlist(f"more than {MAX_HOSTS} hosts")
    if not _plain(names):
        _reject(names)
    if len(names) < 2:
        return names[0] if names else ""
    return ",".join(_expressions(names))


def _expressions(names: list[str]) -> list[str]:
    """The hostlist expressions of valid *names*.

    This is one pass with everything in local variables, because the node list of each job's R is
    encoded. 11,000 names take 2 ms if they count up and 7 ms if shuffled; 1,000,000 take 0.2 s.
    """
    expressions: list[str] = []
    prefix, width, padded = "", 0, False  # of the first name of the open group
    ranges: list[str] = []  # of the open group, as text
    digits, size, first, last = "", 0, 0, 0  # of the open range, if digits is not ""
    template = expected = ""  # makes a name from a number; the next name
    for name in names:
        if name == expected:  # most names: no need to split it
            last += 1
            expected = template % (last + 1)
            continue
        if digits:
            ranges.append(digits if first == last else f"{digits}-{last:0{size}d}")
        stem = name.rstrip(_DIGITS)
        if len(name) - len(stem) > _MAX_DIGITS:
            stem = name[:-_MAX_DIGITS]
        digits = name[len(stem) :]
        if not digits:
            _close(expressions, prefix, ranges)
            expressions.append(name)
            expected = ""
            continue
        # A number of another width would get the zeros of the group's first, or lose its own.
        other = len(digits) != width
        zeros = other and digits[0] == "0" and digits != "0"
        short = other and padded and len(digits) < width
        if stem != prefix or not ranges or zeros or short or len(ranges) == MAX_RANGES:
            _close(expressions, prefix, ranges)
            prefix, width, padded = stem, len(digits), digits[0] == "0" and digits != "0"
            size = 0
        if len(digits) != size:
            size = len(digits)
            template = f"{stem.replace('%', '%%')}%0{size}d"
        first = last = int(digits)
        expected = template % (first + 1)
    if digits:
        ranges.append(digits if first == last else f"{digits}-{last:0{size}d}")
    _close(expressions, prefix, ranges)
    return expressions


def _close(expressions: list[str], prefix: str, ranges: list[str]) -> None:
    """Write the open group. A single name is written without brackets."""
    if len(ranges) == 1 and "-" not in ranges[0]:
        expressions.append(prefix + ranges[0])
    elif ranges:
        expressions.append(f"{prefix}[{','.join(ranges)}]")
    ranges.clear()


def _plain(names: list[str]) -> bool:
    """Whether all *names* are valid. Checking the joined text is 20 times as fast as one by one."""
    try:
        text = ",".join(names)
    except TypeError:
        return False
    return (
        text.isascii()
        and text.isprintable()
        and text.count(",") == len(names) - bool(names)
        and not any(c in text for c in " []")
        and all(names)
        and len(text) <= MAX_TEXT
        and (len(text) <= MAX_NAME or max(map(len, names)) <= MAX_NAME)
    )


def _reject(names: list[str]) -> NoReturn:
    """Raise InvalidHostlist for the first of *names* that is not a host name."""
    for i, name in enumerate(names):
        if not isinstance(name, str):
            raise InvalidHostlist(f"host {i} is not a string but {type(name).__name__}")
        literal = _LITERAL.match(name)
        column = 0 if literal is None else literal.end()
        if not name or len(name) > MAX_NAME:
            what = "is empty" if not name else f"is longer than {MAX_NAME} characters"
            raise InvalidHostlist(f"name of host {i} {what}")
        if column < len(name):
            where = f"{name[column]!r} at column {column + 1}"
            raise InvalidHostlist(f"name of host {i}, {quoted(name)}: {where} is not allowed")
    raise InvalidHostlist(f"host names of more than {MAX_TEXT} characters in total")
