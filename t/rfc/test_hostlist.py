"""RFC 29: which texts are hostlists, which hosts they list, and how hosts are written as one."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from treepool.errors import InvalidHostlist
from treepool.rfc import hostlist
from work import Lines

#: RFC 29's characters of a prefix or suffix.
CHARACTERS = "".join(chr(c) for c in range(0x21, 0x7F) if chr(c) not in "[],")

#: Names that may share brackets, padded and not, and any other names.
ALIKE = st.builds(
    "{}{:0{}d}{}".format,
    st.sampled_from(["", "a", "b", "a1b", "%d", "n-"]),
    st.one_of(st.integers(0, 12), st.sampled_from([98, 99, 100, 101, 999, 1000, 10**18, 10**19])),
    st.sampled_from([1, 1, 1, 2, 3, 4, 20]),
    st.sampled_from(["", "", "", "-x"]),
)
RUNS = st.builds(
    lambda prefix, width, first, n: [f"{prefix}{i:0{width}d}" for i in range(first, first + n)],
    st.sampled_from(["", "a", "b"]),
    st.integers(1, 3),
    st.integers(0, 1010),
    st.integers(1, 12),
)
ANY = st.one_of(st.text(CHARACTERS, min_size=1), st.text("0123456789", min_size=1))
HOSTS = st.one_of(
    st.lists(st.one_of(ALIKE, ANY)),
    st.lists(ALIKE),
    st.lists(RUNS, max_size=5).map(lambda runs: [name for run in runs for name in run]),
)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("", ""),
        ("foox,fooy,fooz", "foox,fooy,fooz"),
        ("[1-3,5-6]", "1,2,3,5,6"),
        ("foo[1-5]", "foo1,foo2,foo3,foo4,foo5"),
        ("foo[0-4]-eth2", "foo0-eth2,foo1-eth2,foo2-eth2,foo3-eth2,foo4-eth2"),
        ("foo1,foo1,foo1", "foo1,foo1,foo1"),
        ("[00-02]", "00,01,02"),
        ("[00-2]", "00,01,02"),
        ("foo[1,1,2,1]", "foo1,foo1,foo2,foo1"),
    ],
)
def test_rfc_29_test_vectors(text: str, plain: str) -> None:
    hosts = plain.split(",") if plain else []
    assert hostlist.decode(text) == hosts
    assert hostlist.decode(plain) == hosts
    assert hostlist.decode(hostlist.encode(hosts)) == hosts


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("[005,4,11-13]", "005 004 011 012 013"),  # RFC 29's example of an idlist
        ("[5,4,11-13]", "5 4 11 12 13"),
        ("h[098-101]", "h098 h099 h100 h101"),
        ("h[998-1001]", "h998 h999 h1000 h1001"),
        ("h[008,1000]", "h008 h1000"),
        ("h[001-2,20]", "h001 h002 h020"),
    ],
)
def test_leading_zeros_of_the_first_element_apply_to_the_list(text: str, plain: str) -> None:
    assert hostlist.decode(text) == plain.split()


@pytest.mark.parametrize(
    ("text", "plain"), [("h[1,01]", "h1 h01"), ("h[10,008-9]", "h10 h008 h009"), ("[0,00]", "0 00")]
)
def test_a_later_element_keeps_its_own_zeros(text: str, plain: str) -> None:
    assert hostlist.decode(text) == plain.split()


@pytest.mark.parametrize("text", ["a,,b", ",a,b", "a,b,", ",,a,,,b,,", "[10-11],,"])
def test_empty_expressions_are_skipped(text: str) -> None:
    assert hostlist.decode(text) == hostlist.decode(text.strip(",").replace(",,", ",")) != []


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("h[1-3", 2),
        ("h1-3]", 5),
        ("h[[1]]", 3),
        ("h[]", 3),
        ("h[1,]", 5),
        ("h[3-1]", 3),
        ("h[-1]", 3),
        ("h[1-]", 4),
        ("h[1-2-3]", 6),
        ("h[1-2x]", 6),
        ("h[ 1]", 3),
        ("h[²]", 3),
        ("a, b", 3),
        ("a\n", 2),
        ("é1", 1),
        ("b,r[1-2]n[1-2]", 10),
    ],
)
def test_errors_name_the_column(text: str, column: int) -> None:
    with pytest.raises(InvalidHostlist, match=f"column {column}:") as caught:
        hostlist.decode(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "h[0-99999999999]",
        "h[0-2097152],i[0-2097152]",
        "h[" + "9" * 100_000 + "]",
        "h[" + "0" * 2000 + "1-4000000]",
        "h" * 2000,
        "h" * 900 + "[0-3000000]",
        "a," * 4_200_000,
        "," * 10_000_000 + "x",
    ],
    ids=lambda text: f"{text[:12]}-{len(text)}",
)
def test_oversized_hostlists_fail_fast(text: str) -> None:
    with Lines() as work, pytest.raises(InvalidHostlist) as caught:
        hostlist.decode(text)
    assert len(str(caught.value)) < 200
    assert work.count < 2000


@pytest.mark.parametrize(
    ("plain", "text"),
    [
        ("", ""),
        ("a1 a2", "a[1-2]"),
        ("h098 h099 h100 h101 h103", "h[098-101,103]"),
        ("01 02", "[01-02]"),
        ("a1 a1 a2", "a[1,1-2]"),
        ("a2 a1 a1", "a[2,1,1]"),
        ("a1 a3 a4 b b1 b2", "a[1,3-4],b,b[1-2]"),
        ("a1-x a2-x", "a1-x,a2-x"),
        ("n641 n054 n055 n100", "n[641,054-055,100]"),
    ],
)
def test_encode_writes_what_flux_writes(plain: str, text: str) -> None:
    assert hostlist.encode(plain.split()) == text
    assert hostlist.encode(iter(plain.split())) == text


@pytest.mark.parametrize(
    ("plain", "text"),
    [
        ("a01 a2", "a01,a2"),  # a[01,2] is a01,a02
        ("a001 a2 a03", "a001,a2,a03"),
        ("a00 a0", "a00,a0"),
        ("a9 a010", "a9,a010"),
        ("h99 h0100", "h99,h0100"),
        ("h[1]", None),
    ],
)
def test_encode_never_adds_zeros_to_another_name(plain: str, text: str) -> None:
    if text is None:
        with pytest.raises(InvalidHostlist):
            hostlist.encode([plain])
    else:
        assert hostlist.encode(plain.split()) == text
        assert hostlist.decode(text) == plain.split()


def test_a_pair_of_brackets_has_at_most_as_many_ranges_as_libhostlist_reads() -> None:
    hosts = [f"h{i}" for i in range(0, 50_000, 2)]
    text = hostlist.encode(hosts)
    assert [part.count(",") + 1 for part in text.strip("h]").split("],h[")] == [
        10_000,
        10_000,
        5000,
    ]
    assert hostlist.decode(text) == hosts


@given(HOSTS)
@example(["a0", "a00", "a000"])
@example(["a" + "9" * 18, "a1" + "0" * 18, "a" + "9" * 30, "a1" + "0" * 30])
@example(["0" * 40, "0" * 39 + "1"])
@example(["%d1", "%d2", "%%1", "%s"])
@example(["a09", "a10", "a9", "a10", "a0", "a1"])
@example(["-1", "-2", "1-2", "1-3"])
def test_decode_gives_back_what_was_encoded(hosts: list[str]) -> None:
    assert hostlist.decode(hostlist.encode(hosts)) == hosts


@given(HOSTS)
def test_both_readings_of_padding_agree_on_what_encode_writes(hosts: list[str]) -> None:
    """RFC 29 pads all ids like the first element, libhostlist each range like its first id."""
    assert libhostlist(hostlist.encode(hosts)) == hosts


def libhostlist(text: str) -> list[str]:
    """libhostlist's reading, for text as encode writes it: at most one idlist per expression."""
    hosts: list[str] = []
    inside = False
    for part in text.replace("]", "[").split("["):
        if not inside:
            *whole, prefix = part.split(",")
            hosts += [name for name in whole if name]
        else:
            for item in part.split(","):
                low, _, high = item.partition("-")
                ids = range(int(low), int(high or low) + 1)
                hosts += [f"{prefix}{i:0{len(low)}d}" for i in ids]
            prefix = ""
        inside = not inside
    return hosts + [name for name in [prefix] if name]


@given(st.lists(st.integers(0, 99), min_size=1), st.sampled_from(["a", "n-", "r1n"]))
def test_encode_makes_the_fewest_ranges(ids: list[int], prefix: str) -> None:
    text = hostlist.encode([f"{prefix}{i}" for i in ids])
    runs = [[i for _, i in run] for _, run in groupby(enumerate(ids), lambda p: p[1] - p[0])]
    items = [str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs]
    brackets = len(ids) > 1
    assert text == prefix + "[" * brackets + ",".join(items) + "]" * brackets


@pytest.mark.parametrize(
    "hosts",
    [[""], ["a", ""], ["a b"], ["a,b"], ["a["], ["a]"], ["é"], ["a\n"], ["\x7f"], ["a" * 1025]],
    ids=lambda hosts: ascii(hosts[-1][:12]),
)
def test_encode_refuses_invalid_host_names(hosts: list[str]) -> None:
    with pytest.raises(InvalidHostlist) as caught:
        hostlist.encode(hosts)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("hosts", [[1], ["a", None], [b"a"]])
def test_encode_refuses_names_that_are_not_strings(hosts: list[object]) -> None:
    with pytest.raises(InvalidHostlist):
        hostlist.encode(hosts)  # type: ignore[arg-type]


def test_decode_refuses_a_value_that_is_not_a_string() -> None:
    with pytest.raises(InvalidHostlist):
        hostlist.decode(["a"])  # type: ignore[arg-type]


def test_the_work_is_linear_in_the_hosts() -> None:
    hosts = [f"node{i}" for i in range(10_000)]
    with Lines() as writing:
        assert hostlist.encode(hosts) == "node[0-9999]"
    with Lines() as reading:
        assert hostlist.decode("node[0-9999]") == hosts
    assert writing.count < 10 * len(hosts)
    assert reading.count < 3 * len(hosts)
