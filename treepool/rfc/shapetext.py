"""RFC 14 resource lists, written as RFC 46 shapes: what ``shape.parse_shape`` reads.

Users import ``format_shape`` from ``treepool.rfc.shape``.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn, Tuple, Union

from treepool.errors import InvalidCount, InvalidJobspec
from treepool.rfc import count
from treepool.rfc.findings import place
from treepool.rfc.shapetoken import (
    DEFAULT_LABEL,
    LITERALS,
    MAX_DEPTH,
    MAX_NUMBER,
    MAX_TEXT,
    RULES,
)

#: Keys and indexes that lead from the resource list to the value at hand.
_Path = Tuple[Union[str, int], ...]


def format_shape(resources: list[dict[str, Any]]) -> str:
    """The shortest RFC 46 shape of RFC 14 resource list *resources*.

    ``parse_shape`` makes the same list of it, with counts in ``Count.spec`` form. Raises
    InvalidJobspec with the JSON pointer, from the list on, of what RFC 14 forbids or no shape can
    express: a missing key, a count that is none, a slot without label or content, two equal labels,
    values nested deeper than MAX_DEPTH, a text longer than MAX_TEXT.
    """
    slots = _check_list(resources, (), set())
    text = _list(resources, (), slots)
    if len(text) > MAX_TEXT:
        _fail((), f"a shape of {len(text)} characters is longer than {MAX_TEXT}")
    return text


def _fail(path: _Path, message: str) -> NoReturn:
    raise InvalidJobspec(f"{place('', *path) or '/'}: {message}")


def _check_list(resources: object, path: _Path, labels: set[str]) -> int:
    """Check the vertices of a list and all below; how many slots they have."""
    if not isinstance(resources, list) or not resources:
        _fail(path, "a list of at least one resource vertex is expected")
    if len(path) >= 2 * MAX_DEPTH:  # each level adds an index and "with"
        _fail(path, f"nested deeper than {MAX_DEPTH} levels")
    return sum(_check_vertex(vertex, (*path, i), labels) for i, vertex in enumerate(resources))


def _check_vertex(vertex: object, path: _Path, labels: set[str]) -> int:
    if not isinstance(vertex, dict):
        _fail(path, f"a resource vertex is an object, not {type(vertex).__name__}")
    for key in ("type", "count"):
        if key not in vertex:
            _fail(path, f"a resource vertex needs a {key}")
    kind = vertex["type"]
    if not isinstance(kind, str):
        _fail((*path, "type"), f"a resource type is a string, not {type(kind).__name__}")
    label = vertex.get("label")
    if kind == "slot":
        if not isinstance(label, str):
            _fail(path, "a slot needs a label")
        if "with" not in vertex:
            _fail(path, "a slot needs resources in with")
    if isinstance(label, str):
        if label in labels:
            _fail((*path, "label"), f"label {label[:40]!r} is already taken")
        labels.add(label)
    below = _check_list(vertex["with"], (*path, "with"), labels) if "with" in vertex else 0
    return below + (kind == "slot")


def _list(resources: list[dict[str, Any]], path: _Path, slots: int) -> str:
    """list: '[' vertex (';' vertex)* ']' | vertex"""
    vertices = [_vertex(vertex, (*path, i), slots) for i, vertex in enumerate(resources)]
    return vertices[0] if len(vertices) == 1 else f"[{';'.join(vertices)}]"


def _vertex(vertex: dict[str, Any], path: _Path, slots: int) -> str:
    """vertex: type ('=' count)? ('{' label? (',' item)* '}')? ('/' list)?"""
    text = _string(vertex["type"])
    try:
        amount = count.parse(vertex["count"]).text()
    except InvalidCount as e:
        _fail((*path, "count"), str(e))
    if amount != "1":
        text += f"={amount}"
    apart = ["type", "count", "with"]
    braces = []
    if vertex["type"] == "slot":
        apart.append("label")
        braces.append(_string(vertex["label"]))
    braces += [_item(k, v, (*path, k), 1) for k, v in vertex.items() if k not in apart]
    if braces and not (slots == 1 and vertex["type"] == "slot" and braces == [DEFAULT_LABEL]):
        text += f"{{{','.join(braces)}}}"
    if "with" in vertex:
        text += f"/{_list(vertex['with'], (*path, 'with'), slots)}"
    return text


def _item(key: object, value: object, path: _Path, depth: int) -> str:
    """item: key ':' VALUE | ('+' | '-')? key"""
    if not isinstance(key, str):
        _fail(path[:-1], f"a key is a string, not {type(key).__name__}")
    name = '"x"' if key == "x" else "x" if key == "exclusive" else _string(key)
    if value is True:
        return name if name == "x" else f"+{name}"
    if value is False:
        return f"-{name}"
    return f"{name}:{_value(value, path, depth)}"


def _value(value: object, path: _Path, depth: int) -> str:
    """VALUE: dict | array | QUOTED | NUMBER | 'null' | 'true' | 'false' | WORD"""
    if depth > MAX_DEPTH:
        _fail(path, f"a value nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        items = [_item(k, v, (*path, k), depth + 1) for k, v in value.items()]
        return f"{{{','.join(items)}}}"
    if isinstance(value, list):
        values = [_value(v, (*path, i), depth + 1) for i, v in enumerate(value)]
        return f"[{','.join(values)}]"
    if isinstance(value, str):
        return _word(value)
    if value is None or isinstance(value, (bool, int, float)):
        return _scalar(value, path)
    _fail(path, f"{type(value).__name__} is no JSON type")


def _scalar(value: Union[bool, float, None], path: _Path) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        _fail(path, f"{value} is no JSON number")
    # The width in bits first: Python refuses to print thousands of digits.
    if isinstance(value, int) and value.bit_length() > 4 * MAX_NUMBER:
        _fail(path, f"a number of more than {MAX_NUMBER} characters")
    text = json.dumps(value)
    if len(text) > MAX_NUMBER:
        _fail(path, f"a number of more than {MAX_NUMBER} characters")
    return text


def _word(text: str) -> str:
    """WORD: a string value, quoted where it would be read as anything else"""
    plain = RULES["WORD"].fullmatch(text) is not None and text.isprintable()
    if plain and text not in LITERALS and RULES["NUMBER"].fullmatch(text) is None:
        return text
    return _quoted(text)


def _string(text: str) -> str:
    """STRING: a type, label or key, quoted where it needs to be"""
    plain = RULES["NAME"].fullmatch(text) is not None and text.isprintable()
    return text if plain else _quoted(text)


def _quoted(text: str) -> str:
    # Letters of other alphabets stay readable; what no terminal shows becomes an escape.
    return json.dumps(text, ensure_ascii=not text.isprintable())
