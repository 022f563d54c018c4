"""Text as a message quotes it: short, safe on a terminal; "did you mean" for an unknown name.

After an unknown name the message may ask for the one that the writer probably means.
"""

from __future__ import annotations

from typing import Iterable, Sequence

#: Longest piece of a document quoted in a message, in characters.
MAX_SHOWN = 60


def shortened(text: str, longest: int = MAX_SHOWN) -> str:
    """At most *longest* characters of *text*; the rest becomes three dots."""
    return text if len(text) <= longest else text[: longest - 3] + "..."


def quoted(text: str) -> str:
    """*text*, shortened, in quotes, with backslash escapes for what is not printable."""
    return repr(shortened(text))


def printable(text: str) -> str:
    """*text* with backslash escapes for control characters and invisible characters."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def amount(number: int, what: str) -> str:
    """A number of things, such as "2 cores"."""
    return f"{number} {what}" + "s" * (number != 1)


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


#: Longest unknown name that is compared with the known ones, in characters.
_MAX_NAME = 32

#: Least similarity of a misspelling, as difflib measures it: one letter in four may be wrong.
_ALIKE = 0.75

#: Names of resources in other schedulers and tools, and the names here.
_SYNONYMS = {
    "cpu": "core",
    "host": "node",
    "package": "socket",
    "numanode": "numa",
    "ram": "memory",
    "disk": "storage",
    "task": "slot",
    "size": "capacity",
}


def nearest(name: str, known: Sequence[str]) -> str:
    """The one of *known* names that unknown *name* probably means; "" if there is none.

    ``cores`` means core, ``mem`` means memory, and ``cpu`` means core, although it looks like gpu;
    where *known* has ``cores``, ``core`` and ``cpu`` mean that.
    """
    if len(name) > _MAX_NAME:  # comparing costs the product of the lengths
        return ""
    plain = name.casefold()
    single = plain[:-1] if plain.endswith("s") else plain
    for one in (plain, single, _SYNONYMS.get(plain, plain), _SYNONYMS.get(single, single)):
        for number in (one, f"{one}s"):
            if number in known:
                return number
    if len(plain) >= 3:
        longer = [one for one in known if one.startswith(plain)]
        if len(longer) == 1:
            return longer[0]
    from difflib import get_close_matches  # most commands never need it

    return next(iter(get_close_matches(plain, known, 1, _ALIKE)), "")


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """A question that names the nearest of *known* names, to follow unknown *name*, or ""."""
    names = [one for one in known if isinstance(one, str)]
    near = nearest(name, names) if isinstance(name, str) else ""
    return f" (did you mean {quoted(near)}?)" if near else ""
