"""Reads JSON documents, and keeps all problems: words for wrong values, their pointers, how many.

A format module reads a document with the methods of ``Findings``. Each method reads one kind of
value, notes its problem if it has one, and returns a value of the right type in any case. A reader
therefore continues after a problem, and one run reports all of them. The JSON Schemas in
``schemas/`` are for other programs; the tests check that they agree with these readers.

Documents can come from anybody. Text that is quoted from one is shortened and escaped.

The file has more than 300 lines because there is a method for each kind of value.
"""

from __future__ import annotations

import sys
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, Type, TypeVar, Union

from treepool.errors import InvalidIdset, InvalidInput, Problem
from treepool.rfc import document, idset
from treepool.rfc.quote import did_you_mean, quoted, shortened

T = TypeVar("T")

#: Reads one value, at a JSON pointer.
Reader = Callable[[Any, str], T]
Readers = Mapping[str, Reader[Any]]

#: An unknown key: its pointer, its name, the names that it may mean, and the object around it.
Unknown = tuple[str, str, tuple[str, ...], Mapping[str, Any]]

#: Most problems reported for one document. A last one says how many more there are.
MAX_PROBLEMS = 100

#: Longest key in a JSON pointer, in characters: a digest of SHA-256 is shown whole.
MAX_KEY = 64

#: Most bits in all the sets of one document together. A set of one id takes as many bits as the
#: id is large, so 10 MB of text could ask for a terabyte. An R in which each of 90,000 nodes has an
#: entry needs this many.
MAX_BITS = 1 << 32

#: Most bits for a document with few sets. The limit grows with the square of their number, because
#: the n-th of many entries needs n bits. 1 MiB of text stays below 64 MiB of sets.
FIRST_BITS = 1 << 27

_MAX_NOTED = 1_000


class Findings:
    """The problems of one document, and the methods that read its values.

    *unknown* receives the keys of its objects that no reader knows.
    """

    def __init__(self, unknown: Optional[list[Unknown]] = None) -> None:
        self.unknown = unknown
        self._noted: list[Problem] = []
        self._masks: dict[str, int] = {}
        self._bits = 0
        self._sets = 0

    def __len__(self) -> int:
        return len(self._noted)

    @property
    def enough(self) -> bool:
        """Whether there are too many problems for reading on to be of use."""
        return len(self._noted) >= _MAX_NOTED

    def note(self, at: str, message: str) -> None:
        """Note a problem of the value at JSON pointer *at*."""
        self._noted.append(Problem(at, message))

    def mistyped(self, at: str, expected: str, value: object) -> None:
        """Note that *value*, at pointer *at*, should be *expected*, such as "an array"."""
        self.note(at, f"must be {expected}, not {shown(value)}")

    def repeated(self, at: str, what: str, ids: int) -> None:
        """Note the *ids* (bitmask) that an earlier entry has as well, if there are any."""
        if ids:
            self.note(at, f"{what} {shown_ids(ids)} are in an earlier entry too")

    def problems(self) -> list[Problem]:
        """The problems in the order of their pointers, see ``limited``."""
        return limited(self._noted)

    def check(self, error: Type[InvalidInput]) -> None:
        """Raise *error* with the first problem, if there is one."""
        if self._noted:
            raise error(str(self.problems()[0]))

    def members(
        self,
        value: object,
        at: str,
        readers: Readers,
        required: Iterable[str] = (),
        closed: bool = False,
    ) -> dict[str, Any]:
        """The values of object *value*, read by *readers*, by key and in the order of *readers*.

        Keys that *value* lacks are left out, and are problems if they are *required*. Keys without
        a reader are ignored, or are problems if the object is *closed*.
        """
        if not isinstance(value, dict):
            self.mistyped(at, "an object", value)
            return {}
        for key in required:
            if key not in value:
                self.note(at, f"key {key!r} is missing")
        for key in value if closed else ():
            if self.enough:
                break
            if not isinstance(key, str):
                self.note(at, f"a key must be a string, not {shown(key)}")
            elif key not in readers:
                hint = did_you_mean(key, readers)
                known = ", ".join(readers)
                self.note(pointer_to(at, key), f"unknown key{hint}; known are {known}")
        for key in value if self.unknown is not None else ():
            if key not in readers:
                self.unread(value, at, key, tuple(readers))
        return {k: read(value[k], f"{at}/{k}") for k, read in readers.items() if k in value}

    def unread(self, value: Mapping[str, Any], at: str, key: str, known: tuple[str, ...]) -> None:
        """Keep *key* of object *value*, at pointer *at*, as one that is not among those *known*."""
        if self.unknown is not None and isinstance(key, str):
            self.unknown.append((pointer_to(at, key), key, known, value))

    def values(self, value: object, at: str, read: Reader[T]) -> dict[str, T]:
        """The values of object *value*, which may have any keys, read by *read*."""
        found: dict[str, T] = {}
        if not isinstance(value, dict):
            self.mistyped(at, "an object", value)
            return found
        for key, inner in value.items():
            if self.enough:
                break
            if isinstance(key, str):
                found[key] = read(inner, pointer_to(at, key))
            else:
                self.note(at, f"a key must be a string, not {shown(key)}")
        return found

    def items(self, value: object, at: str, read: Reader[T], least: int = 0) -> list[T]:
        """The items of array *value*, read by *read*; there are *least* (0 or 1) or more."""
        if not isinstance(value, list):
            self.mistyped(at, "an array", value)
            return []
        if len(value) < least:
            self.note(at, "must not be empty")
        found: list[T] = []
        for i, item in enumerate(value):
            if self.enough:
                break
            found.append(read(item, f"{at}/{i}"))
        return found

    def string(self, value: object, at: str, least: int = 0) -> str:
        """The string *value*, of *least* (0 or 1) or more characters; "" if it is not a string."""
        if not isinstance(value, str):
            self.mistyped(at, "a string", value)
            return ""
        if len(value) < least:
            self.note(at, "must not be empty")
        return value

    def boolean(self, value: object, at: str) -> bool:
        """The boolean *value*; false if it is not a boolean."""
        if not isinstance(value, bool):
            self.mistyped(at, "true or false", value)
        return value is True

    def integer(self, value: Any, at: str, least: int = 0, most: Optional[int] = None) -> int:
        """The integer *value*; *least* if it is not an integer from *least* to *most*."""
        if type(value) is not int:
            self.mistyped(at, "an integer", value)
        elif not integer(value):
            self.note(at, f"{shown(value)} is out of range")
        else:
            return int(self._between(value, at, least, most))
        return least

    def number(self, value: Any, at: str, least: float = 0, most: Optional[float] = None) -> float:
        """The finite number *value*; *least* if it is not a number from *least* to *most*."""
        if not number(value):
            self.mistyped(at, "a number", value)
            return least
        return float(self._between(value, at, least, most))

    def _between(self, value: float, at: str, least: float, most: Optional[float]) -> float:
        if not abs(value) <= sys.float_info.max:  # not "greater than", because of NaN
            self.note(at, f"{shown(value)} is out of range")
        elif value < least or (most is not None and value > most):
            bounds = f"at least {least}" + ("" if most is None else f" and at most {most}")
            self.mistyped(at, bounds, value)
        else:
            return value
        return least

    def one_of(self, value: Any, at: str, known: Sequence[T]) -> T:
        """*value* if it is one of *known*, otherwise the first of them."""
        for one in known:
            if type(value) is type(one) and value == one:
                return one
        names = ", ".join(map(shown, known))
        names = names if len(known) == 1 else f"one of {names}"
        self.note(at, f"must be {names}, not {shown(value)}{did_you_mean(value, known)}")
        return known[0]

    def idset(self, value: object, at: str, empty: bool = False) -> int:
        """The bitmask of RFC 22 text *value*; 0 after a problem.

        An empty set is a problem unless it may be *empty*.
        """
        if not isinstance(value, str):
            self.mistyped(at, "a string", value)
            return 0
        self._sets += 1
        most = min(MAX_BITS, FIRST_BITS + self._sets * self._sets // 8)
        mask = self._masks.get(value)
        if mask is None:
            try:
                mask = idset.decode(value) if self._bits <= most else 0
            except InvalidIdset as e:
                self.note(at, str(e))
                return 0
            self._masks[value] = mask
        self._bits += mask.bit_length()
        if self._bits > most:
            self._bits = 2 * MAX_BITS  # so that all later sets are refused, too
            self.note(at, f"with this set, the sets of this document need more than {most} bits")
            return 0
        if not mask and not empty:
            self.note(at, "must have at least one id")
        return mask


def limited(problems: Iterable[Problem]) -> list[Problem]:
    """*problems* by pointer, each once: at most MAX_PROBLEMS, and one that counts the rest."""
    ordered = sorted(set(problems), key=lambda p: (_pointer_order(p.pointer), p.message))
    if len(ordered) <= MAX_PROBLEMS:
        return ordered
    rest = len(ordered) - MAX_PROBLEMS
    return [*ordered[:MAX_PROBLEMS], Problem("", f"at least {rest} more problems, not shown")]


def _pointer_order(pointer: str) -> tuple[tuple[int, str], ...]:
    """Sorts /10 after /9."""
    tokens = pointer.split("/")
    return tuple((int(t), "") if t.isdecimal() and len(t) < 12 else (-1, t) for t in tokens)


def pointer_to(at: str, *tokens: object) -> str:
    """The JSON pointer (RFC 6901) that leads from pointer *at* along *tokens*, on one short line.

    Keys that are long or not printable are quoted as in a message. A pointer with such a key can be
    read but not resolved.
    """
    return at + document.pointer(*(t if isinstance(t, int) else _key(str(t)) for t in tokens))


def _key(key: str) -> str:
    return key if len(key) <= MAX_KEY and key.isprintable() else shown(key)[1:-1]


def shown(value: object) -> str:
    """*value* as a message names it: a quoted text, a number, or the type of any other value."""
    if isinstance(value, str):
        return quoted(value)
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, int) and value.bit_length() > 180:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, dict):
        return "an object"
    return "an array" if isinstance(value, list) else f"a {type(value).__name__}"


def shown_ids(mask: int) -> str:
    """The RFC 22 text of *mask*, shortened for a message."""
    return shortened(idset.encode(mask))


def plain_json(given: Union[Mapping[str, Any], str], error: Type[InvalidInput], what: str) -> Any:
    """The JSON value of a text or dict, of bounded depth; *what* names it in messages.

    Raises *error*.
    """
    if isinstance(given, str):
        try:
            return document.load(given, error, what)
        except InvalidInput as e:
            hint = "" if "{" in given else " (pass the text of a file, not its name)"
            raise error(f"{e}{hint}") from None
    if hasattr(given, "to_dict"):
        raise error(f"{what}: must be JSON: pass the to_dict() of the {type(given).__name__}")
    value = dict(given) if isinstance(given, Mapping) else given
    document.check_depth(value, error, what)
    return value


def integer(value: Any) -> bool:
    """Whether JSON *value* is an integer as Flux reads it: no decimal point, and 64 bits."""
    return type(value) is int and value.bit_length() <= 63


def number(value: Any) -> bool:
    """Whether JSON *value* is a number."""
    return type(value) is int or type(value) is float
