"""Reads JSON text: limits on length, depth and digits; duplicate keys, NaN and others are refused.

Duplicate keys, NaN and Infinity, deep nesting and oversized texts are errors. The format modules
therefore see plain JSON values of bounded depth.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any, Type

from treepool.errors import InvalidInput
from treepool.rfc.quote import quoted, shortened

#: Longest JSON text read, in characters. The R of a million-node cluster is far smaller.
MAX_TEXT = 1 << 28

#: Most digits of an integer: as many as a float can have. Newer versions of Python have a limit of
#: 4,300, older ones have none.
MAX_DIGITS = 308

#: Deepest nesting of objects and arrays accepted.
MAX_DEPTH = 64


def load(text: str, error: Type[InvalidInput], what: str) -> Any:
    """The JSON value of *text*; *what* names the document in messages.

    Raises *error* with the line and column for anything RFC 8259 forbids, and for duplicate keys,
    NaN, or nesting deeper than MAX_DEPTH.
    """
    if len(text) > MAX_TEXT:
        raise error(f"{what}: a text of {len(text)} characters is too long")
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_float=_float,
            parse_int=_int,
        )
    except json.JSONDecodeError as e:
        raise error(f"{what}: line {e.lineno} column {e.colno}: not JSON: {fault(e)}") from None
    except RecursionError:
        raise error(f"{what}: nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as e:  # duplicate key, NaN, a number out of range
        raise error(f"{what}: {e}") from None
    check_depth(value, error, what)
    return value


def fault(error: json.JSONDecodeError) -> str:
    """What is wrong in a text that is not JSON.

    Python's message may end with "at" or a colon, which its place would follow.
    """
    return re.sub("( starting)? at$|: *$", "", error.msg)


def check_depth(value: Any, error: Type[InvalidInput], what: str) -> None:
    """Raise *error* if *value* nests objects and arrays deeper than MAX_DEPTH."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for item in level
            for inner in (item.values() if isinstance(item, dict) else item)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return
    raise error(f"{what}: nested deeper than {MAX_DEPTH} levels")


def copied(value: Any) -> Any:
    """A copy of a JSON value that shares no object and no array with it."""
    if isinstance(value, dict):
        return {name: copied(item) for name, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


def pointer(*tokens: object) -> str:
    """The RFC 6901 JSON pointer of the path *tokens*: keys and indexes from the root."""
    return "".join("/" + str(t).replace("~", "~0").replace("/", "~1") for t in tokens)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"duplicate key {quoted(twice)}")
    return value


def _int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"an integer of {len(text)} digits is too large")
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):  # RFC 8259 allows "1e999", but Python and Flux cannot hold it
        raise ValueError(f"number {shortened(text)} is out of range")
    return value


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")
