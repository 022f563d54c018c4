"""RFC 22: which texts are idsets, and what the bitmasks of idset.py stand for."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import examples
from treepool.errors import InvalidIdset
from treepool.rfc import idset
from work import Lines

#: Dense and sparse sets, from below one machine word on, of one run and of thousands.
IDS = st.one_of(
    st.sets(st.integers(0, 70)),
    st.sets(st.integers(0, 5000)),
    st.sets(st.integers(4080, 4110)),
    st.sets(st.integers(0, 200_000)),
    st.builds(lambda a, n: set(range(a, a + n)), st.integers(0, 9000), st.integers(0, 9000)),
)


def mask_of(ids: set[int]) -> int:
    """The reference for bitmasks: slow, but plain."""
    return sum(1 << i for i in ids)


def text_of(ids: set[int]) -> str:
    """The reference for texts: runs found by looking at each id's neighbours."""
    firsts = [i for i in sorted(ids) if i - 1 not in ids]
    lasts = [i for i in sorted(ids) if i + 1 not in ids]
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(firsts, lasts))


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("0", {0}),
        ("1-3,5-6,42", {1, 2, 3, 5, 6, 42}),
        ("[1-3,5-6,42]", {1, 2, 3, 5, 6, 42}),
        ("4095,4096", {4095, 4096}),
        ("3,4095-4104,9000", {3, *range(4095, 4105), 9000}),
        ("", set()),
    ],
)
def test_a_set_is_ids_and_ranges_in_ascending_order(text: str, ids: set[int]) -> None:
    assert idset.decode(text) == mask_of(ids)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("01", "not an id or range"),
        ("1-02", "not an id or range"),
        ("2,1", "must ascend"),
        ("0-3,3", "duplicate id 3"),
        ("3-1", "does not ascend"),
        ("-1", "not an id or range"),
        ("1-", "not an id or range"),
        ("1-2-3", "not an id or range"),
        (" 1", "not an id or range"),
        ("1\n", "not an id or range"),
        ("\u0661", "not an id or range"),
        ("[1", "not an id or range"),
        ("[1],[2]", "not an id or range"),
        ("1[2]", "not an id or range"),
    ],
)
def test_anything_else_is_rejected_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidIdset, match=reason):
        idset.decode(text)


@pytest.mark.parametrize("value", [None, 0, 7, b"0", ["0"], True])
def test_a_set_is_a_string(value: object) -> None:
    with pytest.raises(InvalidIdset, match="an idset is a string"):
        idset.decode(value)  # type: ignore[arg-type]


def test_the_largest_id_is_accepted_and_the_next_is_not() -> None:
    assert idset.decode(str(idset.MAX_ID)) == 1 << idset.MAX_ID
    with pytest.raises(InvalidIdset, match="above the limit"):
        idset.decode(str(idset.MAX_ID + 1))
    with pytest.raises(InvalidIdset, match="above the limit"):
        idset.decode(f"0-{idset.MAX_ID + 1}")


@pytest.mark.parametrize("text", ["0-99999999999", "0-9999999999", "9" * 100_000])
def test_a_set_that_is_too_large_for_memory_is_rejected_at_once(text: str) -> None:
    with Lines() as work, pytest.raises(InvalidIdset):
        idset.decode(text)
    assert work.count < 100


def test_a_text_that_is_too_long_is_rejected_unread() -> None:
    with pytest.raises(InvalidIdset, match="too long"):
        idset.decode("," * (idset.MAX_TEXT + 1))


@given(IDS)
def test_text_and_mask_agree_with_plain_sets(ids: set[int]) -> None:
    mask = mask_of(ids)
    assert idset.encode(mask) == text_of(ids)
    assert idset.decode(text_of(ids)) == mask
    assert idset.decode(f"[{text_of(ids)}]") == mask


@given(IDS)
def test_ids_and_mask_agree_with_plain_sets(ids: set[int]) -> None:
    mask = mask_of(ids)
    assert idset.from_ids(ids) == mask
    assert idset.from_ids(sorted(ids, reverse=True)) == mask
    assert list(idset.iterate(mask)) == sorted(ids)
    assert idset.encode_ids(sorted(ids)) == text_of(ids)
    assert idset.size(mask) == len(ids)
    if ids:
        assert idset.lowest(mask) == min(ids)


@settings(max_examples=examples(30))
@given(st.sets(st.integers(0, idset.MAX_ID), max_size=20))
def test_few_ids_far_apart_survive_encode_and_decode(ids: set[int]) -> None:
    mask = idset.from_ids(ids)
    assert idset.encode(mask) == text_of(ids)
    assert idset.decode(idset.encode(mask)) == mask
    assert list(idset.iterate(mask)) == sorted(ids)


@settings(max_examples=examples(100))
@given(IDS | st.sets(st.integers(0, 100_000)), st.lists(st.tuples(*[st.integers(1, 5000)] * 2)))
def test_runs_and_flags_describe_the_same_set(ids: set[int], more: list[tuple[int, int]]) -> None:
    place = 0
    for gap, run in more:
        ids = ids | set(range(place + gap, place + gap + run))
        place += gap + run
    mask = idset.from_ids(ids)
    runs = list(idset.runs(mask))
    assert sorted(ids) == [i for first, end in runs for i in range(first, end)]
    assert all(a[1] < b[0] for a, b in zip(runs, runs[1:]))
    assert list(idset.iterate(mask)) == sorted(ids)
    assert idset.encode(mask) == text_of(ids)
    flags = idset.flags(mask, mask.bit_length() + 5)
    assert len(flags) == mask.bit_length() + 5
    assert {i for i, flag in enumerate(flags) if flag} == ids
    assert idset.from_flags(flags) == mask


@given(IDS, st.integers(0, 10_000))
def test_take_lowest_takes_the_lowest_or_all(ids: set[int], wanted: int) -> None:
    taken = idset.take_lowest(mask_of(ids), wanted)
    assert taken == mask_of(set(sorted(ids)[:wanted]))


@settings(max_examples=examples(100))
@given(
    st.lists(st.sampled_from((None, "a", "b")), min_size=1, max_size=40), st.integers(0, 1 << 40)
)
def test_each_value_has_the_ids_that_have_it(values, among):
    among &= (1 << len(values)) - 1
    found = idset.by_value(values, among)
    assert {value: list(idset.iterate(ids)) for value, ids in found.items()} == {
        value: having
        for value in ("a", "b")
        if (having := [i for i, v in enumerate(values) if v == value and among >> i & 1])
    }


@pytest.mark.parametrize(
    ("parts", "shares"),
    [
        (2, ["2-4", "5-7"]),
        (4, ["2", "3-4", "5", "6-7"]),
        (8, ["2", "2", "3", "4", "5", "5", "6", "7"]),
    ],
)
def test_shares_are_contiguous_and_equal_but_for_one_id(parts, shares):
    found = idset.shares(idset.decode("2-7"), parts)
    assert [idset.encode(part) for part in found] == shares
