"""RankSet is a set of ranks."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from depth import examples
from treepool.placement.nodes.rankset import RankSet, ranks_of
from treepool.rfc import idset

#: Ranks around the edges of the chunks that a RankSet keeps them in.
RANKS = st.one_of(
    st.integers(0, 40),
    st.integers(1020, 1030),
    st.integers(2040, 2060),
    st.integers(0, 12_000),
)

CALLS = st.lists(
    st.tuples(st.sampled_from(("add", "add", "discard")), RANKS),
    max_size=60,
)


def made(calls):
    """A RankSet and a set after the same *calls*."""
    ranks, expected = RankSet(), set()
    for name, rank in calls:
        getattr(ranks, name)(rank)
        getattr(expected, name)(rank)
    return ranks, expected


@settings(max_examples=examples(100))
@given(CALLS, RANKS, st.integers(0, 3000))
def test_a_run_is_its_ranks(calls, first, size):
    ranks, expected = made(calls)
    ranks.add_run(first, first + size)
    expected.update(range(first, first + size))
    assert list(ranks) == sorted(expected)
    assert ranks.mask() == idset.from_ids(expected)


def of(members):
    ranks = RankSet()
    ranks.update(members)
    return ranks


@settings(max_examples=examples(100))
@given(CALLS, RANKS)
def test_it_has_what_a_set_has(calls, rank):
    ranks, expected = made(calls)
    assert list(ranks) == sorted(expected)
    assert len(ranks) == len(expected)
    assert bool(ranks) == bool(expected)
    assert (rank in ranks) == (rank in expected)
    assert all(member in ranks for member in expected)
    assert ranks.lowest() == min(expected, default=-1)


@settings(max_examples=examples(100))
@given(CALLS, st.sets(RANKS), RANKS)
def test_it_goes_up_from_a_rank_within_another_set(calls, within, start):
    ranks, expected = made(calls)
    assert list(ranks.ascending(None, start)) == sorted(r for r in expected if r >= start)
    both = expected & within
    assert list(ranks.ascending(of(within), start)) == sorted(r for r in both if r >= start)
    assert ranks.lowest(of(within)) == min(both, default=-1)


@settings(max_examples=examples(100))
@given(CALLS, CALLS)
def test_a_copy_is_independent(calls, more):
    ranks, expected = made(calls)
    copy = ranks.copy()
    for name, rank in more:
        getattr(copy, name)(rank)
    assert list(ranks) == sorted(expected)
    copy = ranks.copy()
    for name, rank in more:
        getattr(ranks, name)(rank)
    assert list(copy) == sorted(expected)


@settings(max_examples=examples(100))
@given(st.sets(RANKS))
def test_it_is_made_from_a_bitmask(members):
    ranks = RankSet.from_mask(idset.from_ids(members))
    assert list(ranks) == sorted(members)
    for rank in members:
        ranks.discard(rank)
    assert not ranks
    assert ranks.lowest() == -1


def test_an_empty_one_has_nothing():
    ranks = RankSet()
    assert (list(ranks), len(ranks), bool(ranks), ranks.lowest()) == ([], 0, False, -1)
    assert list(ranks.ascending(of([1, 2]))) == []
    ranks.discard(3)
    assert 3 not in ranks


@settings(max_examples=examples(100))
@given(
    st.lists(st.sampled_from((None, "a", "b")), min_size=1, max_size=40), st.integers(0, 1 << 40)
)
def test_each_value_has_the_ranks_that_have_it(values, among):
    among &= (1 << len(values)) - 1
    assert {value: list(ranks) for value, ranks in ranks_of(values, among).items()} == {
        value: having
        for value in ("a", "b")
        if (having := [r for r, v in enumerate(values) if v == value and among >> r & 1])
    }
