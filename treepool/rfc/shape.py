"""RFC 46 shapes, texts such as ``slot=4/node{x}``: their grammar, errors, and how one is written.

The parser is a recursive descent parser with one method per rule of RFC 46's grammar. The
formatter is its inverse, with one function per rule. Both are in this file so that a change of the
grammar changes one file. ``shapetoken`` knows the tokens. Where the RFC is silent:

- Only an unquoted ``x`` means ``exclusive``, and not as a label; ``"x"`` is a key of that name.
- Arrays hold values of the shape's own syntax. JSON arrays are therefore arrays, and so is
  ``[a,b]``.
- ``type``, ``count`` and ``with`` have their own syntax and cannot be keys in braces.
- As in RFC 14, labels are unique, for slots and other vertices alike.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn, Tuple, Union

from treepool.errors import InvalidCount, InvalidJobspec, InvalidShape, Problem
from treepool.rfc import count, shapetoken
from treepool.rfc.count import BYTES
from treepool.rfc.findings import pointer_to
from treepool.rfc.quote import printable, quoted, shortened
from treepool.rfc.shapetoken import (
    DEFAULT_LABEL,
    LITERALS,
    MAX_DEPTH,
    MAX_NUMBER,
    MAX_TEXT,
    RULES,
    Tokens,
)

__all__ = ["format_shape", "parse_shape"]

#: Keys and indexes that lead from the resource list to the value at hand.
_Path = Tuple[Union[str, int], ...]

_NO_KEYS = ("type", "count", "with")

#: The message for a comma between resources. (Counts may have commas.)
_COMMA = "expected ';' between the resources of a list, as in [core=8;gpu=1], found ','"

#: In the text of a count: a comma before the next resource, and an amount with its unit.
_BEFORE_RESOURCE = re.compile(r",(?=[A-Za-z_]|$)")
_WITH_UNIT = re.compile(r"([0-9][^A-Za-z]{0,30})([A-Za-z]{1,3})")


def parse_shape(text: str) -> list[dict[str, Any]]:
    """The RFC 14 resource list of RFC 46 shape *text*.

    Vertices have the keys ``type``, ``count``, those in braces (a slot's ``label`` first) and
    ``with``, in this order. Counts are in ``Count.spec`` form. Raises InvalidShape with the column
    of the error; resource lists, and values, may nest MAX_DEPTH levels.
    """
    if not isinstance(text, str):
        raise InvalidShape(f"a shape is a string, not {type(text).__name__}")
    if len(text) > MAX_TEXT:
        raise InvalidShape(f"a shape has at most {MAX_TEXT} characters", text, MAX_TEXT)
    return _Parser(text).resources()


class _Parser:
    """Reads one shape, and counts its slots, because several slots need labels."""

    def __init__(self, text: str) -> None:
        self.tokens = Tokens(text)
        self.labels: set[str] = set()
        self.slots = 0
        self.unlabelled: list[int] = []  # columns of the slots without a label

    def resources(self) -> list[dict[str, Any]]:
        """resources: list END"""
        vertices = self.vertex_list(depth=1)
        if self.tokens.check(","):
            self.tokens.fail(_COMMA)
        if self.tokens.check(";"):
            self.tokens.fail("a list of several vertices needs brackets around it")
        if not self.tokens.at_end():
            self.tokens.fail_expecting("the end")
        for column in self.unlabelled:
            if self.slots > 1:
                self.tokens.fail("each of several slots needs a label", column)
            self.label(DEFAULT_LABEL, column)
        return vertices

    def vertex_list(self, depth: int) -> list[dict[str, Any]]:
        """list: '[' vertex (';' vertex)* ']' | vertex"""
        if depth > MAX_DEPTH:
            self.tokens.fail(f"nested deeper than {MAX_DEPTH} levels")
        if not self.tokens.accept("["):
            return [self.vertex(depth)]
        vertices = [self.vertex(depth)]
        while self.tokens.accept(";"):
            vertices.append(self.vertex(depth))
        if self.tokens.check(","):
            self.tokens.fail(_COMMA)
        self.tokens.expect("]", "';' or ']'")
        return vertices

    def vertex(self, depth: int) -> dict[str, Any]:
        """vertex: 'slot' ('=' count)? slot_braces? '/' list
        | type ('=' count)? dict? ('/' list)?
        """
        column = self.tokens.column
        kind = self.tokens.string("a resource type")
        vertex: dict[str, Any] = {"type": kind, "count": 1}
        if self.tokens.accept("="):
            vertex["count"] = self.vertex_count(kind)
        if kind == "slot":
            self.slot_braces(vertex, column)
            if not self.tokens.check("/"):
                self.tokens.fail_expecting("'/' and what the slot holds")
        else:
            self.braces(vertex)
        if self.tokens.accept("/"):
            vertex["with"] = self.vertex_list(depth + 1)
        return vertex

    def vertex_count(self, kind: str) -> count.Spec:
        """count: '[' COUNT ']' | COUNT"""
        bracket = self.tokens.accept("[")
        column = self.tokens.column
        text = self.tokens.expect("COUNT", "a count")
        try:
            spec = count.parse_text(text).spec()
        except InvalidCount as e:
            self.fail_count(kind, text, column)
            self.tokens.fail(str(e), column)
        if bracket:
            self.tokens.expect("]")
        return spec

    def fail_count(self, kind: str, text: str, column: int) -> None:
        """Raise InvalidShape if invalid count *text* has a unit, or includes the next resource."""
        comma = _BEFORE_RESOURCE.search(text)
        after = self.tokens.text[self.tokens.column : self.tokens.column + 1]
        if comma is not None and (comma.end() < len(text) or after.isalpha()):
            self.tokens.fail(_COMMA, column + comma.start())
        amount = _WITH_UNIT.fullmatch(text)
        if amount is not None and amount[2] in BYTES and len(kind) <= 40:
            right = printable(f"{kind}={amount[1]}{{unit:{amount[2]}}}")
            self.tokens.fail(f"a unit goes in braces: write {right}", column + amount.start(2))
        if amount is not None and kind in ("memory", "storage"):
            known = ", ".join(BYTES)
            number = printable(amount[1])
            self.tokens.fail(
                f"a unit goes in braces, as in {kind}={number}{{unit:GB}}; units: {known}",
                column + amount.start(2),
            )

    def slot_braces(self, vertex: dict[str, Any], slot_column: int) -> None:
        """slot_braces: '{' label (',' item)* '}', label: STRING"""
        self.slots += 1
        if not self.tokens.accept("{"):
            self.unlabelled.append(slot_column)
            vertex["label"] = DEFAULT_LABEL
            return
        column = self.tokens.column
        vertex["label"] = self.tokens.string("the slot's label")
        if self.tokens.check(":"):
            self.tokens.fail("a slot's braces begin with its label, without a key", column)
        self.label(vertex["label"], column)
        while self.tokens.accept(","):
            self.vertex_item(vertex)
        self.tokens.expect("}", "',' or '}'")

    def braces(self, vertex: dict[str, Any]) -> None:
        """dict: '{' (item (',' item)*)? '}'"""
        if not self.tokens.accept("{") or self.tokens.accept("}"):
            return
        self.vertex_item(vertex)
        while self.tokens.accept(","):
            self.vertex_item(vertex)
        self.tokens.expect("}", "',' or '}'")

    def vertex_item(self, vertex: dict[str, Any]) -> None:
        """item; the key label has a meaning for vertices"""
        column = self.tokens.column
        key = self.item(vertex, depth=0)
        if key == "label" and isinstance(vertex["label"], str):
            self.label(vertex["label"], column)

    def label(self, label: str, column: int) -> None:
        if label in self.labels:
            self.tokens.fail(f"label {quoted(label)} is already taken", column)
        self.labels.add(label)

    def item(self, owner: dict[str, Any], depth: int) -> str:
        """item: key ':' VALUE | ('+' | '-')? key; put into *owner*, the key returned"""
        sign = self.tokens.accept("+") or self.tokens.accept("-")
        column = self.tokens.column
        key = self.key()
        if depth == 0 and key in _NO_KEYS:
            self.tokens.fail(f"{key!r} has its own syntax and cannot be a key in braces", column)
        if key in owner:
            self.tokens.fail(f"duplicate key {quoted(key)}", column)
        if sign is None and self.tokens.accept(":"):
            owner[key] = self.value(depth + 1)
        else:
            owner[key] = sign != "-"
        return key

    def key(self) -> str:
        """key: 'x' | STRING"""
        quoted = self.tokens.quoted()
        if quoted is not None:
            return quoted
        name = self.tokens.expect("NAME", "a key")
        return "exclusive" if name == "x" else name

    def value(self, depth: int) -> Any:
        """VALUE: dict | array | QUOTED | NUMBER | 'null' | 'true' | 'false' | WORD"""
        if depth > MAX_DEPTH:
            self.tokens.fail(f"a value nested deeper than {MAX_DEPTH} levels")
        if self.tokens.accept("{"):
            return self.json_object(depth)
        if self.tokens.accept("["):
            return self.json_array(depth)
        quoted = self.tokens.quoted()
        if quoted is not None:
            return quoted
        column = self.tokens.column
        return self.word(self.tokens.expect("WORD", "a value"), column)

    def json_object(self, depth: int) -> dict[str, Any]:
        """dict: '{' (item (',' item)*)? '}'"""
        value: dict[str, Any] = {}
        if self.tokens.accept("}"):
            return value
        self.item(value, depth)
        while self.tokens.accept(","):
            self.item(value, depth)
        self.tokens.expect("}", "',' or '}'")
        return value

    def json_array(self, depth: int) -> list[Any]:
        """array: '[' (VALUE (',' VALUE)*)? ']'"""
        if self.tokens.accept("]"):
            return []
        values = [self.value(depth + 1)]
        while self.tokens.accept(","):
            values.append(self.value(depth + 1))
        self.tokens.expect("]", "',' or ']'")
        return values

    def word(self, word: str, column: int) -> Any:
        """An unquoted WORD: a JSON number or literal if it is one, else a string"""
        if word in LITERALS:
            return LITERALS[word]
        number = RULES["NUMBER"].fullmatch(word)
        if number is None:
            return word
        if len(word) > MAX_NUMBER:
            self.tokens.fail(f"a number of {len(word)} characters is too long", column)
        if number[1] is None and number[2] is None:
            return int(word)
        value = float(word)
        if not math.isfinite(value):
            self.tokens.fail(f"number {shortened(word)} is too large", column)
        return value


def unlabelled(resources: Any) -> list[dict[str, Any]]:
    """*resources* with no label but the usual one of a slot: Flux gives the only slot one."""
    found = []
    for vertex in resources:
        plain = {key: value for key, value in vertex.items() if key not in ("label", "with")}
        if "with" in vertex:
            plain["with"] = unlabelled(vertex["with"])
        if vertex.get("type") == "slot":
            plain["label"] = DEFAULT_LABEL
        found.append(plain)
    return found


def format_shape(resources: list[dict[str, Any]]) -> str:
    """The shortest RFC 46 shape of RFC 14 resource list *resources*.

    ``parse_shape`` makes the same list from it, with counts in ``Count.spec`` form. Raises
    InvalidJobspec, with the JSON pointer from the list on, for what RFC 14 forbids or a shape
    cannot express: a missing key, an invalid count, a slot without label or content, two equal
    labels, values nested deeper than MAX_DEPTH, a text longer than MAX_TEXT.
    """
    slots = _check_list(resources, (), set())
    text = _list_text(resources, (), slots)
    if len(text) > MAX_TEXT:
        _fail((), f"a shape of {len(text)} characters is longer than {MAX_TEXT}")
    return text


def _fail(path: _Path, message: str) -> NoReturn:
    raise InvalidJobspec(str(Problem(pointer_to("", *path), message)))


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
            _fail((*path, "label"), f"label {quoted(label)} is already taken")
        labels.add(label)
    below = _check_list(vertex["with"], (*path, "with"), labels) if "with" in vertex else 0
    return below + (kind == "slot")


def _list_text(resources: list[dict[str, Any]], path: _Path, slots: int) -> str:
    """list: '[' vertex (';' vertex)* ']' | vertex"""
    vertices = [_vertex_text(vertex, (*path, i), slots) for i, vertex in enumerate(resources)]
    return vertices[0] if len(vertices) == 1 else f"[{';'.join(vertices)}]"


def _vertex_text(vertex: dict[str, Any], path: _Path, slots: int) -> str:
    """vertex: type ('=' count)? ('{' label? (',' item)* '}')? ('/' list)?"""
    text = shapetoken.string(vertex["type"])
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
        braces.append(shapetoken.string(vertex["label"]))
    braces += [_item_text(k, v, (*path, k), 1) for k, v in vertex.items() if k not in apart]
    if braces and not (slots == 1 and vertex["type"] == "slot" and braces == [DEFAULT_LABEL]):
        text += f"{{{','.join(braces)}}}"
    if "with" in vertex:
        text += f"/{_list_text(vertex['with'], (*path, 'with'), slots)}"
    return text


def _item_text(key: object, value: object, path: _Path, depth: int) -> str:
    """item: key ':' VALUE | ('+' | '-')? key"""
    if not isinstance(key, str):
        _fail(path[:-1], f"a key is a string, not {type(key).__name__}")
    name = '"x"' if key == "x" else "x" if key == "exclusive" else shapetoken.string(key)
    if value is True:
        return name if name == "x" else f"+{name}"
    if value is False:
        return f"-{name}"
    return f"{name}:{_value_text(value, path, depth)}"


def _value_text(value: object, path: _Path, depth: int) -> str:
    """VALUE: dict | array | QUOTED | NUMBER | 'null' | 'true' | 'false' | WORD"""
    if depth > MAX_DEPTH:
        _fail(path, f"a value nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        items = [_item_text(k, v, (*path, k), depth + 1) for k, v in value.items()]
        return f"{{{','.join(items)}}}"
    if isinstance(value, list):
        values = [_value_text(v, (*path, i), depth + 1) for i, v in enumerate(value)]
        return f"[{','.join(values)}]"
    if isinstance(value, str):
        return shapetoken.word(value)
    if value is None or isinstance(value, (bool, int, float)):
        return _scalar(value, path)
    _fail(path, f"{type(value).__name__} is not a JSON type")


def _scalar(value: Union[bool, float, None], path: _Path) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        _fail(path, f"{value} is not a JSON number")
    # The width in bits first: Python refuses to print thousands of digits.
    if isinstance(value, int) and value.bit_length() > 4 * MAX_NUMBER:
        _fail(path, f"a number of more than {MAX_NUMBER} characters")
    text = json.dumps(value)
    if len(text) > MAX_NUMBER:
        _fail(path, f"a number of more than {MAX_NUMBER} characters")
    return text
