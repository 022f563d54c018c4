"""RFC 29 hostlists, to and from lists of host names.

Order and duplicates are kept. Where libhostlist and RFC 29 read a text differently, ``decode``
follows RFC 29. ``encode`` writes only text that both read in the same way.

- The leading zeros of the first element of an idlist apply to the whole list: ``a[01,2]`` is
  ``a01,a2`` to libhostlist, and ``a01,a02`` here and in RFC 29. A later element keeps its own
  zeros: ``a[10,02]`` is ``a10,a02``, as in libhostlist.
- An expression may have several idlists: ``r[1-2]n[1-2]`` is ``r1n1,r1n2,r2n1,r2n2``. The leftmost
  changes slowest. RFC 29 has one idlist; libhostlist copies the second with its brackets.
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

_COMMAS = re.compile(",+")
# RFC 29: printable ASCII except blank, brackets and comma.
_LITERAL = re.compile(r"[!-+\--Z\\^-~]+")
_ITEM = re.compile("([0-9]+)(?:-([0-9]+))?")


def decode(text: str) -> list[str]:
    """The host names of RFC 29 hostlist *text*, in order, duplicates included.

    Empty expressions between commas are skipped, as libhostlist does. Raises InvalidHostlist with
    the column for blanks, unbalanced brackets, descending ranges and names too long or too many.
    """
    if not isinstance(text, str):
        raise InvalidHostlist(f"a hostlist is a string, not {type(text).__name__}")
    if len(text) > MAX_TEXT:
        raise InvalidHostlist(f"a hostlist of {len(text)} characters is too long")
    if text.count(",") > 2 * MAX_HOSTS:  # empty expressions take time too
        raise InvalidHostlist(f"a hostlist of more than {MAX_HOSTS} hosts")
    if "[" not in text:
        names = [name for name in text.split(",") if name]
        if len(names) > MAX_HOSTS:
            raise InvalidHostlist(f"a hostlist of more than {MAX_HOSTS} hosts")
        if _plain(names):  # 11,000 names take 1 ms; the parser takes 20 ms
            return names
    return _Parser(text).hostlist()


def size(text: str) -> int:
    """The number of hosts in *text*, without making their names. Raises as ``decode`` does."""
    if not isinstance(text, str) or "[" not in text or len(text) > MAX_TEXT:
        return len(decode(text))
    parser = _Parser(text, named=False)
    parser.hostlist()
    return parser.found


@attrs.frozen
class _Idlist:
    """A parsed idlist: (first, last, width) of each range, the number of ids, the widest id."""

    ranges: list[tuple[int, int, int]]
    size: int
    width: int

    def ids(self) -> Iterator[str]:
        """The ids as text, zero padded."""
        for first, last, width in self.ranges:
            if first == last:
                yield str(first).zfill(width)
            else:
                yield from map(f"%0{width}d".__mod__, range(first, last + 1))


class _Parser:
    """Recursive descent over one text, with limits on the size of the result."""

    def __init__(self, text: str, named: bool = True) -> None:
        self.text = text
        self.at = 0
        self.hosts: list[str] = []
        self.characters = 0
        self.named = named
        self.found = 0

    def fail(self, column: int, message: str) -> NoReturn:
        raise InvalidHostlist(f"hostlist column {column + 1}: {message}")

    def hostlist(self) -> list[str]:
        """hostlist: expression? (',' expression?)*"""
        while self.at < len(self.text):
            commas = _COMMAS.match(self.text, self.at)
            if commas is not None:
                self.at = commas.end()
            else:
                self.expression()
        return self.hosts

    def expression(self) -> None:
        """expression: (LITERAL | '[' idlist ']')+"""
        start = self.at
        parts: list[Union[str, _Idlist]] = []
        while self.at < len(self.text) and self.text[self.at] != ",":
            literal = _LITERAL.match(self.text, self.at)
            if literal is not None:
                self.at = literal.end()
                parts.append(literal[0])
            elif self.text[self.at] == "[":
                parts.append(self.idlist())
            elif self.text[self.at] == "]":
                self.fail(self.at, "']' without '['")
            else:
                self.fail(self.at, f"{self.text[self.at]!r} is not allowed in a host name")
            if len(parts) > MAX_NAME:
                break  # each part has a character, so the name is too long
        self.expand(parts, start)

    def idlist(self) -> _Idlist:
        """idlist: item (',' item)*, item: ID ('-' ID)?"""
        opening = self.at
        closing = self.text.find("]", opening)
        if closing < 0:
            self.fail(opening, "'[' without ']'")
        ranges: list[tuple[int, int, int]] = []
        size = widest = padding = 0
        while self.at < closing:  # at the '[' or a ','
            item = _ITEM.match(self.text, self.at + 1, closing)
            if item is None or self.text[item.end()] not in ",]":
                self.fail(self.at + 1 if item is None else item.end(), "an id or range is expected")
            if item.end() - item.start() > MAX_NAME:
                self.fail(item.start(), f"an id of a host name longer than {MAX_NAME}")
            low, high = item[1], item[2] or item[1]
            first, last = int(low), int(high)
            if last < first:
                self.fail(item.start(), f"range {item[0]} descends")
            # RFC 29: the zeros of the first element apply to all. Later elements may have more.
            width = len(low) if low[0] == "0" else 1
            if not ranges:
                padding = width
            size += last - first + 1
            if size > MAX_HOSTS:
                self.fail(item.start(), f"more than {MAX_HOSTS} hosts")
            ranges.append((first, last, max(width, padding)))
            widest = max(widest, padding, len(high), len(low))
            self.at = item.end()
        self.at = closing + 1
        return _Idlist(ranges, size, widest)

    def expand(self, parts: list[Union[str, _Idlist]], start: int) -> None:
        """Append the hosts of one expression if they stay within the limits."""
        size, length = 1, 0
        for part in parts:
            size *= 1 if isinstance(part, str) else part.size
            length += len(part) if isinstance(part, str) else part.width
            if self.found + size > MAX_HOSTS:
                self.fail(start, f"more than {MAX_HOSTS} hosts")
        self.characters += size * length
        if length > MAX_NAME:
            self.fail(start, f"a host name longer than {MAX_NAME} characters")
        if self.characters > MAX_TEXT:
            self.fail(start, f"host names of more than {MAX_TEXT} characters in total")
        self.found += size
        if not self.named:
            return
        names = [""]
        for part in parts:
            if isinstance(part, str):
                names = [name + part for name in names]
            elif len(names) == 1:  # avoids a list of a million ids for a million names
                names = [names[0] + i for i in part.ids()]
            else:
                ids = list(part.ids())
                names = [name + i for name in names for i in ids]
        self.hosts += names


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
