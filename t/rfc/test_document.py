"""JSON texts: which are accepted, and the line and column of an error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treepool.errors import InvalidKey, InvalidR
from treepool.rfc import document

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def load(text: str) -> Any:
    return document.load(text, InvalidR, "R")


def nested(depth: int) -> Any:
    """Lists and objects in turn, *depth* levels of them."""
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


@given(VALUES)
def test_a_json_text_is_read_as_its_value(value: Any) -> None:
    assert load(json.dumps(value)) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "R: line 1 column 1: not JSON: Expecting value"),
        ("{", "R: line 1 column 2: "),
        ('{"a": 1}\n{"b": 2}', "R: line 2 column 1: not JSON: Extra data"),
        ('{\n  "a": 01}', "R: line 2 column "),
        ("{'a': 1}", "R: line 1 column 2: "),
        ('{"a": 1,}', "R: line 1 column "),
        ("[1,]", "R: line 1 column "),
        ('"tab\there"', "R: line 1 column 5: not JSON: Invalid control character"),
        ('{"a', "R: line 1 column 2: not JSON: Unterminated string"),
        ("\ufeff{}", "R: line 1 column 1: "),
        ("true false", "R: line 1 column 6: not JSON: Extra data"),
    ],
)
def test_an_error_has_its_line_and_column(text: str, message: str) -> None:
    with pytest.raises(InvalidR) as caught:
        load(text)
    assert not str(caught.value).endswith((" at", ":", " "))
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": 1}', '[{"b": {"a": 1, "c": 2, "a": 3}}]', '{"a": 1, "\\u0061": 2}']
)
def test_a_duplicate_key_is_named(text: str) -> None:
    with pytest.raises(InvalidR, match=r"^R: duplicate key 'a'$"):
        load(text)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_nan_and_numbers_out_of_range_are_rejected(number: str) -> None:
    with pytest.raises(InvalidR, match=number):
        load(f'{{"a": {number}}}')


def test_nesting_is_accepted_up_to_the_limit() -> None:
    value = nested(document.MAX_DEPTH)
    assert load(json.dumps(value)) == value
    with pytest.raises(InvalidR, match="nested deeper than 64 levels"):
        load(json.dumps(nested(document.MAX_DEPTH + 1)))


def test_a_text_that_is_too_long_is_rejected_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "MAX_TEXT", 10)
    assert load("[1,2,3,45]") == [1, 2, 3, 45]
    with pytest.raises(InvalidR, match="11 characters is too long"):
        load("[1,2,3,456]")


def test_the_exception_is_the_callers() -> None:
    with pytest.raises(InvalidKey, match=r"^key: "):
        document.load("[", InvalidKey, "key")


@pytest.mark.parametrize(
    ("tokens", "pointer"),
    [
        ((), ""),
        (("execution", "R_lite", 0), "/execution/R_lite/0"),
        (("a/b", "m~n", ""), "/a~1b/m~0n/"),
        (("~1",), "/~01"),
    ],
)
def test_a_pointer_is_escaped_as_rfc_6901_says(tokens: tuple[object, ...], pointer: str) -> None:
    assert document.pointer(*tokens) == pointer
