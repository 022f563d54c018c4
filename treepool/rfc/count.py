"""RFC 14 resource counts in all forms, RFC 45 ranges such as 2-16:2:*, and units such as GiB.

A count is a fixed integer, a range with an optional step (``{"min": 2, "max": 16, "operator": "*",
"operand": 2}``, as text ``2-16:2:*``), or an RFC 22 idset of the acceptable values (``4,9,16``).
Ranges are never enumerated: ``1-4000000000`` costs as much as ``1-2``.

Memory and storage have units (BYTES), in jobspecs as in RFC 49's topos.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any, Dict, Iterator, Optional, Union

import attrs

from treepool.errors import InvalidCount
from treepool.rfc import idset
from treepool.rfc.findings import shown

#: Largest integer accepted anywhere in a count. RFC 14 has no limit, but Flux reads counts into C
#: integers, and a limit keeps computations small.
MAX_COUNT = 1 << 62

#: Most ids in an idset count. Unlike ranges, ids are stored one by one.
MAX_IDS = 65_536

#: Longest text read: MAX_IDS ids of MAX_COUNT's width need no more than this.
MAX_TEXT = 1 << 21

#: The JSON value of an RFC 14 ``count`` key.
Spec = Union[int, str, Dict[str, Any]]

# None of these patterns matches more digits than MAX_COUNT has, so int() never gets a long string.
_INTEGER = "([1-9][0-9]{0,18})"
_RANGE = re.compile(rf"{_INTEGER}(?:-{_INTEGER}|(\+))(?::{_INTEGER}(?::([+*^]))?)?")
_ITEM = re.compile(rf"{_INTEGER}(?:-{_INTEGER})?")
_LARGE = re.compile("[0-9]{20}")


@attrs.frozen
class Count:
    """The acceptable numbers of a resource (RFC 14 ``count``); made by ``parse``.

    The first value is ``minimum``. ``operator`` and ``operand`` give each next value, up to
    ``maximum`` (None: no limit). If the values do not follow such a rule, ``ids`` holds them in
    ascending order, and ``minimum`` and ``maximum`` are its ends; otherwise it is empty.
    """

    minimum: int
    maximum: Optional[int]
    operator: str = "+"
    operand: int = 1
    ids: tuple[int, ...] = ()

    @property
    def fixed(self) -> bool:
        """Whether exactly one value is acceptable, because minimum and maximum are equal."""
        return self.minimum == self.maximum

    def spec(self) -> Spec:
        """The RFC 14 value: an int when fixed, an idset string for irregular ids, else a dict.

        The dict has the keys of RFC 46's examples: ``min`` alone if nothing else is set, otherwise
        ``min``, ``max`` if there is a limit, ``operator`` and ``operand``.
        """
        if self.fixed:
            return self.minimum
        if self.ids:
            return idset.encode_ids(self.ids)
        if self.maximum is not None:
            ends = {"min": self.minimum, "max": self.maximum}
            return {**ends, "operator": self.operator, "operand": self.operand}
        if self.operator == "+" and self.operand == 1:
            return {"min": self.minimum}
        return {"min": self.minimum, "operator": self.operator, "operand": self.operand}

    def text(self) -> str:
        """The shortest RFC 45 range, RFC 22 idset or integer text of this count, no brackets."""
        if self.fixed:
            return str(self.minimum)
        if self.ids:
            return idset.encode_ids(self.ids)
        ends = f"{self.minimum}+" if self.maximum is None else f"{self.minimum}-{self.maximum}"
        if self.operator != "+":
            return f"{ends}:{self.operand}:{self.operator}"
        return ends if self.operand == 1 else f"{ends}:{self.operand}"

    def largest(self, upto: int) -> Optional[int]:
        """The largest acceptable value that is at most *upto*, or None if there is none.

        Takes logarithmic time, because each request to a pool needs it.
        """
        limit = upto if self.maximum is None else min(upto, self.maximum)
        if limit < self.minimum:
            return None
        if self.ids:
            return self.ids[bisect_right(self.ids, limit) - 1]
        if self.operator == "+":
            return limit - (limit - self.minimum) % self.operand
        return self._powers(limit)[-1]

    def valid(self, upto: int) -> Iterator[int]:
        """The acceptable values that are at most *upto*, in descending order, made on demand."""
        top = self.largest(upto)
        if top is None:
            return iter(())
        if self.ids:
            return reversed(self.ids[: bisect_right(self.ids, top)])
        if self.operator == "+":
            return iter(range(top, self.minimum - 1, -self.operand))
        return reversed(self._powers(top))

    def __contains__(self, n: object) -> bool:
        """Whether *n* is an acceptable value."""
        return isinstance(n, int) and not isinstance(n, bool) and self.largest(n) == n

    def _powers(self, limit: int) -> list[int]:
        """The values of a ``*`` or ``^`` range up to *limit*, which is at least ``minimum``."""
        values = [self.minimum]
        if self.operator == "*":
            while values[-1] * self.operand <= limit:
                values.append(values[-1] * self.operand)
            return values
        # Values are at least 2, so an operand above the limit's width leaves the range at once.
        # Check this first, because 2 ** (2 ** 62) cannot be computed.
        if self.operand < limit.bit_length():
            while (value := values[-1] ** self.operand) <= limit:
                values.append(value)
        return values


def parse(spec: object) -> Count:
    """The count that RFC 14 ``count`` value *spec* describes.

    *spec* is an int, a str (RFC 45 range or RFC 22 idset, see ``parse_text``) or a dict with
    ``min`` and optionally ``max``, ``operator`` and ``operand``. A range of one value is that fixed
    count, and an idset without gaps is that range. Raises InvalidCount for anything else.
    """
    if isinstance(spec, str):
        return parse_text(spec)
    if isinstance(spec, dict):
        return _from_dict(spec)
    n = _positive(spec, "a count")
    return Count(n, n)


def parse_text(text: str) -> Count:
    """The count of an integer, an RFC 45 range or an RFC 22 idset, brackets around it accepted.

    ``2-5`` is both an idset and a range, with the same values. Raises InvalidCount for anything
    else: leading zeros, signs, blanks, ids that do not ascend, integers above MAX_COUNT, more than
    MAX_IDS ids in an idset with gaps.
    """
    if len(text) > MAX_TEXT:
        raise InvalidCount(f"a count of {len(text)} characters is too long")
    body = text[1:-1] if text.startswith("[") and text.endswith("]") and len(text) > 1 else text
    match = _RANGE.fullmatch(body)
    if match is None:
        return _from_idset(body)
    first, last, _, operand, operator = match.groups()
    maximum = None if last is None else _integer(last)
    return _range(_integer(first), maximum, operator or "+", _integer(operand or "1"))


def _from_dict(spec: dict[Any, Any]) -> Count:
    """RFC 14's third form of a count."""
    for key in spec:
        if key not in ("min", "max", "operator", "operand"):
            keys = (key,) if isinstance(key, str) else ()
            raise InvalidCount(f"unknown key {shown(key)} in a count range", *keys)
    if "min" not in spec:
        raise InvalidCount("a count range needs a min")
    if ("operator" in spec) != ("operand" in spec):
        raise InvalidCount("a count range has operator and operand, or neither")
    operator = spec.get("operator", "+")
    if not isinstance(operator, str) or operator not in ("+", "*", "^"):
        message = f"operator {shown(operator)} of a count range is not one of + * ^"
        raise InvalidCount(message, "operator")
    minimum = _positive(spec["min"], "min of a count range", "min")
    maximum = _positive(spec["max"], "max of a count range", "max") if "max" in spec else None
    operand = _positive(spec.get("operand", 1), "operand of a count range", "operand")
    return _range(minimum, maximum, operator, operand)


def _from_idset(body: str) -> Count:
    """idset: item (',' item)*, item: INTEGER ('-' INTEGER)?; a lone INTEGER is a fixed count.

    ``idset.decode`` cannot be used, because its bitmasks cannot hold counts of bytes.
    """
    spans: list[tuple[int, int]] = []  # first id, and the id after the last
    for item in body.split(","):
        match = _ITEM.fullmatch(item)
        if match is None:
            if _LARGE.search(body):
                raise InvalidCount(f"count {shown(body)} has an integer above {MAX_COUNT}")
            raise InvalidCount(
                f"{shown(body)} is not an integer, range or idset of positive integers"
            )
        first = _integer(match[1])
        last = first if match[2] is None else _integer(match[2])
        if (match[2] is not None and last <= first) or (spans and first < spans[-1][1]):
            raise InvalidCount(f"ids of count {shown(body)} must ascend")
        spans.append((first, last + 1))
    first, end = next(idset.merged(spans))
    if end == spans[-1][1]:  # there are no gaps
        return Count(first, end - 1)
    if sum(end - first for first, end in spans) > MAX_IDS:
        raise InvalidCount(f"count {shown(body)} has more than {MAX_IDS} ids")
    ids = tuple(i for first, end in spans for i in range(first, end))
    return Count(ids[0], ids[-1], ids=ids)


def _range(minimum: int, maximum: Optional[int], operator: str, operand: int) -> Count:
    """The count of checked integers. Raises InvalidCount if RFC 14 forbids their combination."""
    if maximum is not None and maximum < minimum:
        raise InvalidCount(f"max {maximum} of a count range is below min {minimum}")
    if operator != "+" and operand < 2:
        raise InvalidCount(f"operator {operator} of a count range needs an operand of 2 or more")
    if operator == "^" and minimum < 2:
        raise InvalidCount("operator ^ of a count range needs a min of 2 or more")
    if minimum == maximum:
        return Count(minimum, maximum)
    return Count(minimum, maximum, operator, operand)


def _positive(value: object, what: str, *keys: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidCount(f"{what} is a positive integer, not {shown(value)}", *keys)
    if value < 1:
        raise InvalidCount(f"{what} is positive, not {shown(value)}", *keys)
    if value > MAX_COUNT:
        raise InvalidCount(f"{what} is at most {MAX_COUNT}", *keys)
    return value


def _integer(digits: str) -> int:
    value = int(digits)
    if value > MAX_COUNT:
        raise InvalidCount(f"{digits} in a count is above the limit {MAX_COUNT}")
    return value


_PREFIXES = "KMGTPE"

#: Bytes per unit: decimal (kB or KB, MB, GB, ...) and binary (KiB, MiB, GiB, ...).
BYTES = {
    "B": 1,
    "kB": 1000,
    **{f"{p}B": 1000 ** (i + 1) for i, p in enumerate(_PREFIXES)},
    **{f"{p}iB": 1024 ** (i + 1) for i, p in enumerate(_PREFIXES)},
}


def to_bytes(amount: Union[int, float], unit: str) -> int:
    """*amount* of *unit*, which must be one of BYTES, in whole bytes, rounded down."""
    numerator, denominator = amount.as_integer_ratio()
    whole: int = numerator * BYTES[unit] // denominator
    return whole
