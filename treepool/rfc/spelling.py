"""The name that the writer of an unknown name probably means."""

from __future__ import annotations

from typing import Iterable, Sequence

from treepool.rfc.quote import quoted

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
