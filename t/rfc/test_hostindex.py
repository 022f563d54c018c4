"""Which hosts of a pool are in hostlists: the same as if the hostlists were expanded."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from depth import examples
from treepool.errors import InvalidHostlist
from treepool.rfc import hostlist, idset
from treepool.rfc.hostindex import HostIndex


def found(hosts: list[str], *texts: str) -> list[str]:
    """The hosts of *hosts* that are in *texts*, in the order of their ranks."""
    mask = HostIndex(hosts, (1 << len(hosts)) - 1).matching(texts)
    return [hosts[rank] for rank in idset.iterate(mask)]


def test_ranks_that_the_pool_lacks_are_not_found() -> None:
    index = HostIndex(["n1", "", "n3", "n4"], 0b1001)
    assert index.matching(["n[1-9],n3"]) == 0b1001


@pytest.mark.parametrize("text", ["n[3-1]", "n[1", "a b", "n1]", "n[1][2]"])
def test_an_invalid_hostlist_is_an_error(text: str) -> None:
    with pytest.raises(InvalidHostlist):
        found(["n1"], text)


#: Names and hostlists of few letters and digits, so that they often meet.
NAMES = st.lists(st.text("0012n-", min_size=1, max_size=5), max_size=20)
IDS = st.one_of(
    st.text("0123", min_size=1, max_size=3),
    st.tuples(st.integers(0, 130), st.integers(0, 130), st.integers(1, 3)).map(
        lambda t: f"{min(t[:2]):0{t[2]}d}-{max(t[:2]):0{t[2]}d}"
    ),
    st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(1, 3)).map(
        lambda t: f"{min(t[:2]):0{t[2]}d}-{max(t[:2])}"
    ),
)
IDLISTS = st.lists(IDS, min_size=1, max_size=3).map(lambda ids: f"[{','.join(ids)}]")
LITERALS = st.text("012n-", max_size=2)
EXPRESSIONS = st.one_of(
    st.text("0012n-", max_size=5),
    st.builds("{}{}".format, LITERALS, IDLISTS),
    st.builds("{}{}{}".format, LITERALS, IDLISTS, LITERALS),
)
TEXTS = st.lists(st.lists(EXPRESSIONS, max_size=4).map(",".join), max_size=3)


@settings(max_examples=examples(400))
@given(NAMES, TEXTS)
@example(["n1", "n01", "n001", "n010", "n0001"], ["n[001-100]"])
@example(["n099", "n100", "n0100", "n1000"], ["n[098-1000]"])
@example(["n10", "n02", "n2"], ["n[10,02]"])
@example(["n10", "n20", "n11", "n100"], ["n[1-20]0"])
@example(["r1n1", "r1n2", "r2n1", "r10n1"], ["r1n[2-9],r[2-10]n1"])
@example(["5", "6", "05"], ["[5-6]"])
@example(["1000", "0999", "999"], ["[0999-1000]"])
@example(["n100", "n010", "n10"], ["n[10-100,010]"])
def test_the_hosts_are_those_of_the_expanded_hostlists(names: list[str], texts: list[str]) -> None:
    expanded = {host for text in texts for host in hostlist.decode(text)}
    assert found(names, *texts) == [name for name in names if name in expanded]


@given(st.permutations(range(300)), st.lists(st.tuples(st.integers(0, 320), st.integers(0, 320))))
def test_long_ranges_in_a_pool_whose_ranks_are_in_any_order(
    order: list[int], ranges: list[tuple[int, int]]
) -> None:
    text = ",".join(f"n[{min(pair):03d}-{max(pair):03d}]" for pair in ranges)
    listed = {number for pair in ranges for number in range(min(pair), max(pair) + 1)}
    expected = [f"n{number:03d}" for number in order if number in listed]
    assert found([f"n{number:03d}" for number in order], text) == expected
