"""Link tables from hwloc's matrices and positions on PCIe, and the groups that links form."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rfc.wires import CUBE_MESH, NV1, NV2, NV4, PIX, joined
from treepool.discovery.hwlocxml import Distances
from treepool.discovery.linking import (
    PCIE_GBPS,
    DeviceAt,
    cliques,
    fast_pairs,
    path,
    pcie_pairs,
    table,
)
from treepool.rfc import idset
from treepool.rfc.links import MAX_GPUS, PATHS, Links, Wire, read_links
from work import Lines


def matrix(name, objects, values):
    return Distances(name, True, list(objects), values)


def nvlink(objects, edges):
    """A symmetric NVLinkBandwidth of *objects* (one letter each) from {"ab": MB/s}."""
    values = [
        0 if a == b else edges.get(a + b, edges.get(b + a, 0)) for a, b in product(objects, objects)
    ]
    return matrix("NVLinkBandwidth", objects, values)


ABCD = {"a": 0, "b": 1, "c": 2, "d": 3}


# -- matrices


def test_two_gpus_on_switches_have_the_bandwidth_of_the_slower_one_and_of_their_direct_links():
    edges = {"as": 25_000, "at": 25_000, "bs": 25_000, "ct": 75_000, "ab": 50_000}
    pairs = fast_pairs([nvlink("abcdst", edges)], ABCD, "st")
    assert {pair: wire.gbps for pair, wire in pairs.items()} == {(0, 1): 75, (0, 2): 50, (1, 2): 25}


def test_only_switches_join_gpus():
    edges = {"ax": 25_000, "bx": 25_000}
    assert fast_pairs([nvlink("abx", edges)], ABCD) == {}
    assert fast_pairs([nvlink("abx", edges)], ABCD, "x") == {(0, 1): Wire("nvlink", 25.0)}


def test_the_slower_of_two_directions_counts_and_one_alone_counts():
    both = matrix("NVLinkBandwidth", "ab", [0, 50_000, 25_000, 0])
    alone = matrix("NVLinkBandwidth", "ab", [0, 50_000, 0, 0])
    assert fast_pairs([both], ABCD)[0, 1].gbps == 25
    assert fast_pairs([alone], ABCD)[0, 1].gbps == 50


def test_the_faster_link_of_two_matrices_counts():
    slow = matrix("XGMIBandwidth", "ab", [0, 10_000, 10_000, 0])
    fast = nvlink("ab", {"ab": 50_000})
    for order in ([slow, fast], [fast, slow]):
        assert fast_pairs(order, ABCD) == {(0, 1): Wire("nvlink", 50.0)}


# -- PCIe


def at(text, numa=0, key="x", socket=0):
    """A device below bridges, each of which is a letter of *text*."""
    return DeviceAt(key, tuple(text), numa, socket)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (at("Hrud"), at("Hrue"), "PIX"),  # two ports of one switch
        (at("Hru"), at("Hru"), "PIX"),  # two functions of one device
        (at("Hrud"), at("Hrudvw"), "PXB"),  # a switch below a switch
        (at("Hrudvw"), at("Hruexy"), "PXB"),
        (at("Hr"), at("Hs"), "PHB"),  # two root ports
        (at("H"), at("Hrud"), "PHB"),
        (at("H", 3), at("K", 3), "NODE"),
        (at("Hrud", 3), at("Krud", 3), "NODE"),  # the same names below another host bridge
        (at("H", 3), at("K", 12), "SYS"),
        (at("H", 3, socket=15), at("K", 12, socket=15), "SOCKET"),
        (at("H", 3, socket=15), at("K", 48, socket=240), "SYS"),
        (at("H", socket=15), at("K", socket=15), "SOCKET"),
        (at("H"), at("K"), "SYS"),
        (at(""), at(""), "SYS"),
        (at("", 3), at("H", 3), "NODE"),
    ],
)
def test_a_path_depends_on_the_bridges_that_are_not_shared(a, b, expected):
    assert path(a, b) == path(b, a) == expected


def test_gpus_without_a_faster_link_are_joined_by_pcie():
    gpus = {0: at("Hrud", 1), 1: at("Hrue", 1), 4: at("Kr", 2)}
    assert pcie_pairs(gpus) == {
        (0, 1): Wire("pcie", PCIE_GBPS["PIX"]),
        (0, 4): Wire("pcie", PCIE_GBPS["SYS"]),
        (1, 4): Wire("pcie", PCIE_GBPS["SYS"]),
    }
    links = table({(0, 4): Wire("nvlink", 50.0)}, gpus)
    assert links.pairs() == {**pcie_pairs(gpus), (0, 4): Wire("nvlink", 50.0)}


DEVICES = st.builds(
    DeviceAt,
    st.sampled_from(["n", "m"]),
    st.text("ab", max_size=4).map(tuple),
    st.integers(0, 2),
    st.integers(0, 1),
)


@given(
    st.dictionaries(st.integers(0, MAX_GPUS - 1), DEVICES, max_size=6),
    st.lists(DEVICES, max_size=3),
    st.lists(st.integers(0, 10**9), min_size=9, max_size=9),
    st.sets(st.sampled_from("abc")),
)
@settings(deadline=None)
def test_every_table_can_be_read_again(gpus, nics, values, switches):
    ids = {key: i for i, key in enumerate(sorted(set("abc") - switches))}
    links = table(fast_pairs([matrix("NVLinkBandwidth", "abc", values)], ids, switches), gpus, nics)
    assert read_links(links.to_dict()) == links
    for gpu, device in gpus.items():
        mine = [nic.path for nic in links.nics if nic.gpus >> gpu & 1]
        paths = [path(device, nic) for nic in nics]
        least = min(paths, key=PATHS.index, default="")
        assert mine == [least] * paths.count(least)


@pytest.mark.depth
def test_the_work_for_the_largest_node_is_bounded():
    gpus = {i: at(f"{'HK'[i % 2]}{chr(100 + i % 7)}", 1 + i % 2) for i in range(MAX_GPUS)}
    nics = [at(f"{'HK'[i % 2]}{chr(100 + i)}", key=f"hsi{i}") for i in range(64)]
    names = tuple(str(i) for i in range(512))
    ids = {str(i): i for i in range(100)}
    found = matrix("NVLinkBandwidth", names, [25_000] * 512**2)
    with Lines() as work:
        links = table(fast_pairs([found], ids, frozenset(names[128:])), gpus, nics)
    assert len(links.pairs()) == MAX_GPUS * (MAX_GPUS - 1) // 2
    assert work.count < 10 * len(names) ** 2


# -- cliques

XGMI = {gbps: Wire("xgmi", float(gbps)) for gbps in (50, 100, 200)}

#: MI250X: GPUs 2i and 2i+1 are one module; modules are joined by one or two links each.
MI250X = {
    **joined((0, 1), (2, 3), (4, 5), (6, 7), wire=XGMI[200]),
    (0, 6): XGMI[100],
    (2, 4): XGMI[100],
    (0, 2): XGMI[50],
    (1, 3): XGMI[50],
    (1, 5): XGMI[100],
    (3, 7): XGMI[100],
    (4, 6): XGMI[50],
    (5, 7): XGMI[50],
}


@pytest.mark.parametrize(
    ("pairs", "within", "expected"),
    [
        (joined((0, 1), (2, 3)), "0-3", ["0-1", "2-3"]),
        ({**joined(range(4), wire=PIX), **joined((0, 2), (1, 3))}, "0-3", ["0,2", "1,3"]),
        (joined(range(4), range(4, 8)), "0-7", ["0-3", "4-7"]),
        (joined((0, 1)), "0-3", ["0-1", "2", "3"]),
        (MI250X, "0-7", ["0-1", "2-3", "4-5", "6-7"]),
        ({**joined(range(4), wire=NV1), **joined((0, 1), (2, 3))}, "0-3", ["0-1", "2-3"]),
        ({**joined(range(4), range(4, 8), wire=NV2), **joined((0, 1), (4, 5))}, "0-7",
         ["0-3", "4-7"]),
        # GPUs outside of a domain do not divide it.
        (joined((0, 1), (2, 3)), "0-1", []),
        (joined((0, 1), (2, 3)), "0,2", []),
        (joined((0, 1), (2, 3)), "", []),
        (joined(range(8)), "0-7", []),
        (joined(range(8)), "0-3", []),
        (joined((0, 1), (2, 3), wire=PIX), "0-3", []),
        (CUBE_MESH, "0-7", []),
        (CUBE_MESH, "0-3", []),
        ({(0, 1): NV4, (1, 2): NV4}, "0-2", []),
        ({}, "0-3", []),
    ],
)  # fmt: skip
def test_groups_are_cliques_of_faster_links_inside_a_domain(pairs, within, expected):
    groups = cliques(Links.from_matrix(pairs), idset.decode(within))
    assert [idset.encode(group) for group in groups] == expected


@given(
    st.dictionaries(
        st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(lambda p: p[0] < p[1]),
        st.sampled_from([NV1, NV2, PIX]),
    ),
    st.integers(0, 127),
)
def test_groups_divide_the_domain_and_are_joined_faster_inside_than_across(pairs, within):
    groups = cliques(Links.from_matrix(pairs), within)
    if not groups:
        return
    assert sum(groups) == within and len(groups) > 1
    fast = {pair: wire.gbps for pair, wire in pairs.items() if wire.type != "pcie"}
    inside, across = [], []
    for pair in combinations(idset.iterate(within), 2):
        together = any(g >> pair[0] & 1 and g >> pair[1] & 1 for g in groups)
        (inside if together else across).append(fast.get(pair, 0))
    assert inside and min(inside) > max(across, default=0)
