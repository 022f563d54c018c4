"""RFC 14 counts and RFC 45 ranges: which values are counts, and which numbers they accept."""

from __future__ import annotations

from typing import Any, Optional

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from treepool.errors import InvalidCount
from treepool.rfc import count
from treepool.rfc.count import MAX_COUNT, Count
from work import Lines

INTEGERS = st.one_of(st.integers(1, 60), st.integers(1, MAX_COUNT))


@st.composite
def ranges(draw: Any) -> dict[str, Any]:
    """RFC 14's third form: every combination of keys it allows."""
    operator = draw(st.sampled_from("+*^"))
    low = draw(INTEGERS) + (operator == "^")
    spec: dict[str, Any] = {"min": min(low, MAX_COUNT)}
    if draw(st.booleans()):
        spec["max"] = min(MAX_COUNT, spec["min"] + draw(INTEGERS) - 1)
    if operator != "+" or draw(st.booleans()):
        spec["operator"] = operator
        spec["operand"] = min(MAX_COUNT, draw(INTEGERS) + (operator != "+"))
    return spec


IDSETS = st.sets(st.integers(1, 80), min_size=1).map(lambda ids: ",".join(map(str, sorted(ids))))
SPECS = st.one_of(INTEGERS, ranges(), IDSETS)


def values(spec: Any, upto: int) -> list[int]:
    """The values, one after the other, as RFC 14 defines them: the reference."""
    if isinstance(spec, int):
        return [spec] if spec <= upto else []
    if isinstance(spec, str):
        return [i for i in map(int, spec.split(",")) if i <= upto]
    upto = min(upto, spec.get("max", upto))
    found: list[int] = []
    value: Optional[int] = spec["min"]
    while value is not None and value <= upto:
        found.append(value)
        value = following(value, spec.get("operator", "+"), spec.get("operand", 1), upto)
    return found


def following(value: int, operator: str, operand: int, upto: int) -> Optional[int]:
    if operator == "+":
        return value + operand
    if operator == "*":
        return value * operand
    return value**operand if operand < 70 or value == 1 else None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # RFC 45's own
        ("1-5:2:+", Count(1, 5, "+", 2)),
        ("1-4:1:+", Count(1, 4)),
        ("[1-4:2:*]", Count(1, 4, "*", 2)),
        ("[100+]", Count(100, None)),
        # both forms with every part given
        ("2-256:2:^", Count(2, 256, "^", 2)),
        ("3+:2:^", Count(3, None, "^", 2)),
        ("3+:2", Count(3, None, "+", 2)),
        # integers and RFC 22 idsets
        ("7", Count(7, 7)),
        ("[7]", Count(7, 7)),
        ("4,9,16,25", Count(4, 25, ids=(4, 9, 16, 25))),
        ("[2-5,8]", Count(2, 8, ids=(2, 3, 4, 5, 8))),
        ("4611686018427387904", Count(MAX_COUNT, MAX_COUNT)),
    ],
)
def test_a_text_is_an_integer_a_range_or_an_idset(text: str, expected: Count) -> None:
    assert count.parse_text(text) == count.parse(text) == expected


@pytest.mark.parametrize("text", ["1,2,3", "1-2,3", "[1,2-3]", "1-3"])
def test_an_idset_without_gaps_is_a_range(text: str) -> None:
    assert count.parse(text) == Count(1, 3)


@pytest.mark.parametrize("spec", [5, "5", "5-5", "5-5:2:*", {"min": 5, "max": 5}])
def test_a_range_of_one_value_is_a_fixed_count(spec: object) -> None:
    assert count.parse(spec) == Count(5, 5)
    assert count.parse(spec).fixed
    assert count.parse(spec).spec() == 5


NO_COUNTS = {
    "zero, signs and other numbers": "0 00 01 -1 +1 -3 +3 1.0 1e3 0x1 x \u00b2 \u0661",
    "half a range": "- + 1+: 1- 1-4-5 1--4 1+2 1++ 1+-4 1-4+",
    "max below min": "3-2 0-4 01-4 1-04",
    "malformed steps": "1-4: 1-4:: 1-4:0 1-4:02 1-4:2: 1-4:2:/ 1-4:2:++ 1-4:2:** 1-4:+ 1-4:*:2",
    "steps that do not advance": "1-4:1:* 2-4:1:^ 1-4:2:^ 1+:1:* 1+:2:^",
    "a step without a range": "4:2 4:2:+",
    "empty items in an idset": ", 1, ,1 1,,2",
    "ids that do not ascend": "2,1 1,1 1-3,2 5,3-4 2-2,5 0,1",
    "a range among ids": "1,2+ 1-3,5:2",
    "unbalanced brackets": "[ ] [] [1 1] [[1]] [1][2] [1],[2]",
    "integers above 2^62": "4611686018427387905 1-4611686018427387905 1+:4611686018427387905 "
    "1,4611686018427387905 1-99999999999999999999",
    "too many ids": "1-4000000,4194304 1,3-4611686018427387904",
}


@pytest.mark.parametrize(
    "text",
    [text for texts in NO_COUNTS.values() for text in texts.split()]
    + ["", " ", " 1", "1 ", "1 - 4", "1, 2", "1\n", "1-4:2:+\n", "[ 1 ]", "1\0"],
)
def test_no_other_text_is_a_count(text: str) -> None:
    with pytest.raises(InvalidCount) as caught:
        count.parse(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (1, Count(1, 1)),
        ({"min": 2}, Count(2, None)),
        ({"min": 3, "max": 30}, Count(3, 30)),
        ({"min": 3, "max": 30, "operator": "+", "operand": 1}, Count(3, 30)),
        ({"min": 2, "max": 16, "operator": "*", "operand": 2}, Count(2, 16, "*", 2)),
        ({"min": 2, "operator": "^", "operand": 3}, Count(2, None, "^", 3)),
    ],
)
def test_an_integer_or_a_range_object_is_a_count(spec: object, expected: Count) -> None:
    assert count.parse(spec) == expected


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(-(10**6000), id="-10**6000"),
        pytest.param(10**6000, id="10**6000"),
        *(0, -1, MAX_COUNT + 1, True, False, None, 1.0, 1.5, [], [1], ()),
        *({}, {"max": 3}, {"min": 0}, {"min": True}, {"min": "1"}, {"min": 1.0}, {"min": None}),
        *({"min": 3, "max": 2}, {"min": 3, "max": None}, {"min": 3, "max": 0}, {"min": 3, "mx": 4}),
        {"min": 1, "max": 4, "operator": "+"},
        {"min": 1, "max": 4, "operand": 1},
        {"min": 1, "max": 4, "operator": "-", "operand": 1},
        {"min": 1, "max": 4, "operator": ["+"], "operand": 1},
        {"min": 1, "max": 4, "operator": "+", "operand": 0},
        {"min": 1, "max": 4, "operator": "*", "operand": 1},
        {"min": 1, "max": 4, "operator": "^", "operand": 2},
        {"min": 1, "max": 4, "operator": "*", "operand": 2.0},
        {"min": 1, 2: 3},
    ],
)
def test_no_other_value_is_a_count(spec: object) -> None:
    with pytest.raises(InvalidCount):
        count.parse(spec)


@pytest.mark.parametrize(
    ("text", "spec", "canonical"),
    [
        ("4", 4, "4"),
        ("[3-30:1:+]", {"min": 3, "max": 30, "operator": "+", "operand": 1}, "3-30"),
        ("3-30:2:+", {"min": 3, "max": 30, "operator": "+", "operand": 2}, "3-30:2"),
        ("4+", {"min": 4}, "4+"),
        ("4+:2:^", {"min": 4, "operator": "^", "operand": 2}, "4+:2:^"),
        ("[4,9,16,25]", "4,9,16,25", "4,9,16,25"),
        ("2,3,4,8", "2-4,8", "2-4,8"),
    ],
)
def test_a_count_prints_as_rfc_46_shows(text: str, spec: object, canonical: str) -> None:
    parsed = count.parse(text)
    assert parsed.spec() == spec
    assert not isinstance(spec, dict) or list(parsed.spec()) == list(spec)  # type: ignore[arg-type]
    assert parsed.text() == canonical


@given(SPECS)
def test_a_count_survives_its_spec_and_its_text(spec: Any) -> None:
    parsed = count.parse(spec)
    assert count.parse(parsed.spec()) == parsed
    assert count.parse_text(parsed.text()) == parsed
    assert count.parse_text(f"[{parsed.text()}]") == parsed


@given(SPECS, st.integers(-5, 200))
@example({"min": 2, "max": 100, "operator": "^", "operand": 2}, 16)
@example({"min": 1, "operator": "*", "operand": 2}, 128)
@example({"min": 1, "max": 6, "operator": "+", "operand": 2}, 200)
def test_valid_counts_are_those_of_a_plain_enumeration(spec: Any, upto: int) -> None:
    parsed, expected = count.parse(spec), values(spec, upto)
    assert list(parsed.valid(upto)) == expected[::-1]
    assert parsed.largest(upto) == (expected[-1] if expected else None)
    assert [n for n in range(-2, upto + 1) if n in parsed] == expected


def test_only_integers_are_in_a_count() -> None:
    one = count.parse(1)
    assert 1 in one
    assert True not in one
    assert 1.0 not in one
    assert "1" not in one


@pytest.mark.parametrize(
    ("text", "upto", "largest", "first"),
    [
        ("1+", MAX_COUNT, MAX_COUNT, [MAX_COUNT, MAX_COUNT - 1]),
        ("1+:2", MAX_COUNT, MAX_COUNT - 1, [MAX_COUNT - 1, MAX_COUNT - 3]),
        ("1+:2:*", MAX_COUNT, MAX_COUNT, [MAX_COUNT, MAX_COUNT // 2]),
        ("2+:2:^", MAX_COUNT, 1 << 32, [1 << 32, 1 << 16]),
        ("2+:4611686018427387904:^", MAX_COUNT, 2, [2]),
        ("2+:62:^", MAX_COUNT, MAX_COUNT, [MAX_COUNT, 2]),
    ],
)
def test_huge_ranges_cost_no_more_than_small_ones(
    text: str, upto: int, largest: int, first: list[int]
) -> None:
    with Lines() as work:
        parsed = count.parse(text)
        assert parsed.largest(upto) == largest
        assert [n for n, _ in zip(parsed.valid(upto), range(2))] == first
        assert upto + 1 not in parsed or parsed.maximum is None
    assert work.count < 1000
