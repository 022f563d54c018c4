"""The R of a job has the properties of its ranks, and no others, however they are looked up."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import examples
from treepool.placement.nodes import properties
from treepool.placement.nodes.properties import Properties
from treepool.rfc import idset

NAMES = st.sampled_from(("a", "b", "c", "d:1", "d:2", "+e", "+"))


@settings(max_examples=examples(100))
@given(st.dictionaries(NAMES, st.sets(st.integers(0, 20))), st.sets(st.integers(0, 20)))
def test_a_job_has_the_properties_of_its_ranks(sets, ranks):
    masks = {name: idset.from_ids(having) for name, having in sets.items()}
    expected = {
        name: idset.encode_ids(sorted(having & ranks))
        for name, having in sorted(sets.items())
        if having & ranks and not name.startswith("+")
    }
    everything = (1 << 21) - 1
    with pytest.MonkeyPatch.context() as patch:
        for most in (properties._LOOKED_UP, -1000):  # by rank, and by comparing sets
            patch.setattr(properties, "_LOOKED_UP", most)
            found = Properties(masks, 21, everything).of(sorted(ranks))
            assert found == expected
            assert list(found) == list(expected)


def test_many_properties_of_the_same_ranks_are_looked_at_once():
    found = Properties({f"p{i}": 0b111 for i in range(10_000)}, 3, 0b111)
    assert len(found._masks) == 1
    assert len(found._parents) == 2
    assert len(found.of([1])) == 10_000


def test_properties_that_nest_take_a_place_each():
    found = Properties({f"p{i}": (1 << i) - 1 for i in range(1, 1000)}, 1000, (1 << 1000) - 1)
    assert len(found._parents) <= 1 + 999 * 1000 // 2
    assert len(found.of([0])) == 999
    assert list(found.of([998])) == ["p999"]
