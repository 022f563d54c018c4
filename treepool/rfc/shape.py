"""RFC 46 shapes: text such as ``slot=4/node{x}``, to RFC 14 resource lists; ``format_shape`` back.

A recursive descent parser, one function per rule of RFC 46's grammar. Where the RFC is silent:

- only an unquoted ``x`` means ``exclusive``, and not as a label; ``"x"`` is a key of that name;
- arrays hold values of the shape's own syntax, so that JSON arrays are arrays, and so is ``[a,b]``;
- ``type``, ``count`` and ``with`` have their own syntax and are no keys in braces;
- as in RFC 14, no two labels are equal, whether of slots or of other vertices.

``shapetoken`` says which characters need quotes.
"""

from __future__ import annotations

import math
import re
from typing import Any

from treepool.errors import InvalidCount, InvalidShape
from treepool.rfc import count, units
from treepool.rfc.shapetext import format_shape
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

_NO_KEYS = ("type", "count", "with")

#: What is said where a comma stands between resources, as it may in a count.
_COMMA = "expected ';' between the resources of a list, as in [core=8;gpu=1], found ','"

#: In the text of a count: the comma before the next resource, and an amount with its unit.
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
    """Reads one shape. Slots are kept in mind, as their number decides whether they need labels."""

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
        """Raise InvalidShape if *text*, no count, is one with a unit or with the next resource."""
        comma = _BEFORE_RESOURCE.search(text)
        after = self.tokens.text[self.tokens.column : self.tokens.column + 1]
        if comma is not None and (comma.end() < len(text) or after.isalpha()):
            self.tokens.fail(_COMMA, column + comma.start())
        amount = _WITH_UNIT.fullmatch(text)
        if amount is not None and amount[2] in units.BYTES and len(kind) <= 40:
            right = f"{kind}={amount[1]}{{unit:{amount[2]}}}"
            self.tokens.fail(f"a unit stands in braces: write {right}", column + amount.start(2))
        if amount is not None and kind in ("memory", "storage"):
            known = ", ".join(units.BYTES)
            self.tokens.fail(
                f"a unit stands in braces, as in {kind}={amount[1]}{{unit:GB}}; units: {known}",
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
        """item, of which some keys have a meaning for vertices"""
        column = self.tokens.column
        key = self.item(vertex, depth=0)
        if key == "label" and isinstance(vertex["label"], str):
            self.label(vertex["label"], column)

    def label(self, label: str, column: int) -> None:
        if label in self.labels:
            self.tokens.fail(f"label {label[:40]!r} is already taken", column)
        self.labels.add(label)

    def item(self, owner: dict[str, Any], depth: int) -> str:
        """item: key ':' VALUE | ('+' | '-')? key; put into *owner*, the key returned"""
        sign = self.tokens.accept("+") or self.tokens.accept("-")
        column = self.tokens.column
        key = self.key()
        if depth == 0 and key in _NO_KEYS:
            self.tokens.fail(f"{key!r} has a syntax of its own and is no key in braces", column)
        if key in owner:
            self.tokens.fail(f"duplicate key {key[:40]!r}", column)
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
            self.tokens.fail(f"number {word[:40]} is too large", column)
        return value
