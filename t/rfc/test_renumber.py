"""Rank sets move by position: the n-th rank of one set becomes the n-th of another."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from depth import examples
from treepool.rfc import idset
from work import Lines

#: The length of each gap, and of the run of ranks after it.
RUNS = st.lists(st.tuples(st.integers(1, 300), st.integers(1, 300)), min_size=1, max_size=30)


def set_of(runs: list[tuple[int, int]]) -> list[int]:
    """The ranks of *runs*, each a gap and the number of ranks after it."""
    ranks: list[int] = []
    place = 0
    for gap, size in runs:
        place += gap
        ranks += range(place, place + size)
        place += size
    return ranks


@settings(max_examples=examples(200))
@given(RUNS, RUNS, st.integers(0, 1 << 9000))
def test_the_nth_rank_of_a_set_becomes_the_nth_rank_of_the_other(
    source: list[tuple[int, int]], target: list[tuple[int, int]], some: int
) -> None:
    old, new = set_of(source), set_of(target)
    number = min(len(old), len(new))
    old, new = old[:number], new[:number]
    moved = [n for o, n in zip(old, new) if some >> o & 1]
    subset = idset.from_ids(old) & some
    move = idset.by_position(idset.from_ids(old), idset.from_ids(new))
    assert list(idset.iterate(move(subset))) == moved
    move = idset.from_zero(idset.from_ids(old))
    assert list(idset.iterate(move(subset))) == [i for i, o in enumerate(old) if some >> o & 1]


def test_a_step_for_each_run_moves_a_set_not_one_for_each_rank_or_for_those_that_stay():
    source = idset.from_ids(i for i in range(100_000) if i % 1000)
    move = idset.from_zero(source)
    with Lines() as work:
        moved = move(source)
    assert moved == (1 << idset.size(source)) - 1
    assert work.count < 50 * 100
    with Lines() as work:
        assert move(0b11110) == 0b1111
    assert work.count < 50
