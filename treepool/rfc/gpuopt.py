"""The text of ``flux submit --gpu``: GPUs as users of LSF and LavaLite ask for them.

``num=4:mode=exclusive:nvlink=yes:gmodel=A100:gmem=40GB``: pairs in any order, each at most once.
Sizes have the units of RFC 14. LSF has more keys; those that would mean something else here are
refused, never ignored.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Callable, NoReturn, Optional, Union

import attrs

from treepool.errors import InvalidOption
from treepool.rfc import units
from treepool.rfc.findings import shown
from treepool.rfc.links import MAX_MEMORY

#: Longest text read, in characters: every key once needs no more.
MAX_TEXT = 512

#: Most GPUs that a slot can ask for: Flux reads counts into C ints.
MAX_GPUS = 999_999_999

# None of these can match more digits than Python's conversions take in their stride.
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
_VALUE = re.compile(r"[^:]*")
_INTEGER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([A-Za-z]*)", re.ASCII)

_Value = Union[int, str, bool]


@attrs.frozen
class GpuOption:
    """What a slot asks of its GPUs; None is no demand.

    ``num`` is how many, ``link`` the type of link between them ("nvlink" or "xgmi"), ``model``
    their model as it was written, ``memory`` the least that each one has, in GiB, rounded up.
    """

    num: Optional[int] = None
    link: Optional[str] = None
    model: Optional[str] = None
    memory: Optional[int] = None


def parse(text: str) -> GpuOption:
    """The demands in *text*: option.

    Raises InvalidOption, one line that begins with the column of what is wrong.
    """
    if len(text) > MAX_TEXT:
        _fail(MAX_TEXT, f"the text is longer than {MAX_TEXT} characters")
    return _Reader(text).option()


class _Reader:
    """Reads one text; ``column`` is where the next token begins, from zero."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.column = 0

    def option(self) -> GpuOption:
        """option: pair (':' pair)*"""
        given: dict[str, _Value] = {}
        self.pair(given)
        while self.column < len(self.text):
            self.column += 1  # a pair ends at a colon or at the end
            self.pair(given)
        links = [name for name in ("nvlink", "xgmi") if given.get(name)]
        num, model, memory = (given.get(name) for name in ("num", "gmodel", "gmem"))
        return GpuOption(
            num=num if isinstance(num, int) else None,
            link=links[0] if links else None,
            model=model if isinstance(model, str) else None,
            memory=memory if isinstance(memory, int) else None,
        )

    def pair(self, given: dict[str, _Value]) -> None:
        """pair: KEY '=' VALUE, the key one of _READERS"""
        start = self.column
        match = _KEY.match(self.text, start)
        if match is None:
            found = shown(self.text[start]) if start < len(self.text) else "the end"
            _fail(start, f"expected one of {_KNOWN}, found {found}")
        key = match[0]
        if key not in _READERS:
            _fail(start, f"unknown key {shown(key)}, known: {_KNOWN}")
        if key in given:
            _fail(start, f"{key} is given twice")
        if self.text[match.end() : match.end() + 1] != "=":
            _fail(match.end(), f"expected '=' and a value after {key}")
        self.column = match.end() + 1
        value = _VALUE.match(self.text, self.column)
        assert value is not None  # it matches the empty text
        given[key] = _READERS[key](key, value[0], self.column)
        if given.get("nvlink") and given.get("xgmi"):
            _fail(start, "no GPU has both nvlink and xgmi")
        self.column = value.end()


def _count(key: str, value: str, column: int) -> int:
    """VALUE of num: an integer from 1 to MAX_GPUS"""
    if _INTEGER.fullmatch(value) is None:
        _fail(column, f"{key}={_quoted(value)}: a number of GPUs from 1 to {MAX_GPUS} is expected")
    return int(value)


def _mode(key: str, value: str, column: int) -> str:
    """VALUE of mode: 'exclusive'"""
    if value != "exclusive":
        _fail(
            column,
            f"{key}={_quoted(value)}: treepool does not share GPUs, the only mode is exclusive",
        )
    return value


def _flag(key: str, value: str, column: int) -> bool:
    """VALUE of nvlink and xgmi: 'yes' | 'no'; with no, any link will do"""
    if value not in ("yes", "no"):
        _fail(column, f"{key}={_quoted(value)}: yes or no is expected")
    return value == "yes"


def _model(key: str, value: str, column: int) -> str:
    """VALUE of gmodel: letters, digits and . _ -"""
    if _MODEL.fullmatch(value) is None:
        _fail(column, f"{key}={_quoted(value)}: the name of a GPU model is expected, such as A100")
    return value


def _size(key: str, value: str, column: int) -> int:
    """VALUE of gmem: NUMBER UNIT, without blanks between them

    The unit must be there: without one LSF means MB, and Flux GiB.
    """
    match = _SIZE.fullmatch(value)
    if match is None or match[2] not in units.BYTES:
        known = ", ".join(units.BYTES)
        _fail(column, f"{key}={_quoted(value)}: a size such as 40GB is expected; units: {known}")
    size: int = math.ceil(Fraction(match[1]) * units.BYTES[match[2]] / units.BYTES["GiB"])
    if not 0 < size <= MAX_MEMORY:
        _fail(column, f"{key}={_quoted(value)}: more than nothing and at most {MAX_MEMORY} GiB")
    return size


_READERS: dict[str, Callable[[str, str, int], _Value]] = {
    "num": _count,
    "mode": _mode,
    "nvlink": _flag,
    "xgmi": _flag,
    "gmodel": _model,
    "gmem": _size,
}

_KNOWN = ", ".join(_READERS)


def _quoted(value: str) -> str:
    """*value* for a message: as it is where that is plain to read."""
    return value if _MODEL.fullmatch(value) else shown(value)


def _fail(column: int, message: str) -> NoReturn:
    raise InvalidOption(f"column {column + 1}: {message}")
