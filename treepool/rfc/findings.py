"""What a format module finds wrong while it reads a document, and how that is worded.

A reader notes every problem and reads on, so that one run shows a writer of documents all of them.
Documents come from anywhere: texts from them are shortened and escaped before they are shown.
"""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping, Sequence, Type, Union

from treepool.errors import InvalidIdset, InvalidInput, Problem
from treepool.rfc import document, idset

#: Most problems reported of one document; a last one says how many more there are.
MAX_PROBLEMS = 100

#: Longest piece of a document quoted in a message, in characters.
MAX_SHOWN = 60

#: Bits in all the sets of one document together. A set costs as much as its largest id even if it
#: has only that one, so 10 MB of text could ask for a terabyte. An R whose 90,000 nodes have an
#: entry each needs as much as this.
MAX_BITS = 1 << 32

#: What a document with few sets may use of that, which grows with the square of their number: where
#: the n-th of many entries needs n bits there is enough, and 1 MiB of text takes less than 64 MiB.
FIRST_BITS = 1 << 27

_MAX_NOTED = 1_000

#: Longest unknown name for which a nearest known one is looked for, in characters.
_MAX_NAME = 32

#: How alike two names must be, where 1 is the same (difflib): one letter in four may be wrong.
_ALIKE = 0.75

#: What other schedulers and tools call resources, and names here.
_SYNONYMS = {
    "cpu": "core",
    "host": "node",
    "package": "socket",
    "numanode": "numa",
    "ram": "memory",
    "disk": "storage",
    "task": "slot",
}


class Findings:
    """The problems of one document.

    ``form`` has values of the wrong JSON type or extent, which the JSON Schema names too;
    ``meaning`` has what only the reader sees, and what it words better than the schema.
    """

    def __init__(self) -> None:
        self.form: list[Problem] = []
        self.meaning: list[Problem] = []
        self._masks: dict[str, int] = {}
        self._bits = 0
        self._sets = 0

    def __len__(self) -> int:
        return len(self.form) + len(self.meaning)

    @property
    def enough(self) -> bool:
        """Whether so much is wrong that reading on is a waste."""
        return len(self) >= _MAX_NOTED

    def misformed(self, at: str, message: str) -> None:
        """Note that the value at pointer *at* has the wrong form."""
        self.form.append(Problem(at, message))

    def note(self, at: str, message: str) -> None:
        """Note that the value at pointer *at* has a good form but no good meaning."""
        self.meaning.append(Problem(at, message))

    def idset(self, value: object, at: str, empty: bool = False) -> int:
        """The bitmask of RFC 22 text *value*; 0 once a problem of it has been noted.

        A set without ids is a problem unless *empty*.
        """
        if not isinstance(value, str):
            self.misformed(at, f"must be a string, not {shown(value)}")
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
            self._bits = 2 * MAX_BITS  # no later set makes up for it
            self.note(at, f"with this set, the sets of this document need more than {most} bits")
            return 0
        if not mask and not empty:
            self.note(at, "must have at least one id")
        return mask

    def merged(self, violations: Iterable[Problem]) -> list[Problem]:
        """These and the JSON Schema's *violations* in one list, each worded once.

        The schema's are the more exact where it sees what the reader saw, in a value or inside it.
        """
        better = {p.pointer for p in self.meaning}
        problems = self.meaning + [p for p in violations if p.pointer not in better]
        known = {p.pointer[:end] for p in problems for end in _ends(p.pointer)}
        return limited(problems + [p for p in self.form if p.pointer not in known])


def _ends(pointer: str) -> Iterator[int]:
    """Where *pointer* can be cut to get the pointer of a value around its own, or this itself."""
    yield from (i for i, c in enumerate(pointer) if c == "/")
    yield len(pointer)


def limited(problems: Iterable[Problem]) -> list[Problem]:
    """*problems* sorted by place, each once, at most MAX_PROBLEMS and one that counts the rest."""
    ordered = sorted(set(problems), key=lambda p: (_place_order(p.pointer), p.message))
    if len(ordered) <= MAX_PROBLEMS:
        return ordered
    rest = len(ordered) - MAX_PROBLEMS
    return [*ordered[:MAX_PROBLEMS], Problem("", f"at least {rest} more problems, not shown")]


def _place_order(pointer: str) -> tuple[tuple[int, str], ...]:
    """Sorts /10 after /9."""
    tokens = pointer.split("/")
    return tuple((int(t), "") if t.isdecimal() and len(t) < 12 else (-1, t) for t in tokens)


def place(at: str, *tokens: object) -> str:
    """The JSON pointer (RFC 6901) of the path *tokens* below pointer *at*, on one short line.

    Keys that are long or not printable are shown as in a message, so the pointer of such a key
    can be read but not resolved.
    """
    return at + document.pointer(*(t if isinstance(t, int) else _key(str(t)) for t in tokens))


def _key(key: str) -> str:
    return key if len(key) <= MAX_SHOWN and key.isprintable() else shown(key)[1:-1]


def shown(value: object) -> str:
    """*value* for a message: texts and numbers as they are but short, others by their kind."""
    if isinstance(value, str):
        return repr(value if len(value) <= MAX_SHOWN else value[: MAX_SHOWN - 3] + "...")
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, int) and value.bit_length() > 180:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, dict):
        return "an object"
    return "an array" if isinstance(value, list) else f"a {type(value).__name__}"


def nearest(name: str, known: Sequence[str]) -> str:
    """The one of *known* names that the writer of unknown *name* probably means; "" if none.

    ``cores`` means core, ``mem`` memory, ``cpu`` core (and not gpu, though it is spelled so).
    """
    if len(name) > _MAX_NAME:  # comparing costs the product of the lengths
        return ""
    plain = name.casefold()
    single = plain[:-1] if plain.endswith("s") else plain
    for one in (plain, single, _SYNONYMS.get(plain, ""), _SYNONYMS.get(single, "")):
        if one in known:
            return one
    if len(plain) >= 3:
        longer = [one for one in known if one.startswith(plain)]
        if len(longer) == 1:
            return longer[0]
    from difflib import get_close_matches  # needed only when something is wrong

    return next(iter(get_close_matches(plain, known, 1, _ALIKE)), "")


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """The nearest of *known* names as a question, to be put behind unknown *name*; "" if none."""
    near = nearest(name, known)
    return f" (did you mean {shown(near)}?)" if near else ""


def shown_ids(mask: int) -> str:
    """The RFC 22 text of *mask*, short."""
    text = idset.encode(mask)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def plain_json(given: Union[Mapping[str, Any], str], error: Type[InvalidInput], what: str) -> Any:
    """The JSON value of a text or dict, of bounded depth; *what* names it in messages.

    Raises *error*.
    """
    if isinstance(given, str):
        return document.load(given, error, what)
    value = dict(given) if isinstance(given, Mapping) else given
    document.check_depth(value, error, what)
    return value


def integer(value: Any) -> bool:
    """Whether JSON *value* is an integer: JSON knows no difference between 1 and 1.0.

    What no float can hold is none; neither schema.py nor Flux reads it.
    """
    if type(value) is int:
        return value.bit_length() <= 1024
    return type(value) is float and value.is_integer()


def number(value: Any) -> bool:
    """Whether JSON *value* is a number."""
    return type(value) is int or type(value) is float
