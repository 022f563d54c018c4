"""The link table: what it says about a node's GPUs, its JSON, and its place in a key."""

from __future__ import annotations

import hashlib
import json
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import examples
from rfc.wires import CUBE_MESH, NV2, NV4, PIX, SYS, joined
from treepool.errors import InvalidKey
from treepool.rfc import idset
from treepool.rfc.findings import pointer_to
from treepool.rfc.links import (
    MAX_GPUS,
    MAX_TABLES,
    PATHS,
    Device,
    Link,
    Links,
    Nic,
    Wire,
    digest,
    read_links,
)
from treepool.rfc.scheduling import SchedulingKey
from work import Lines

TOPO = {"cores": "0-7", "gpus": "0-3", "numa": [{"cores": "0-3"}, {"cores": "4-7"}]}
TABLE = {
    "links": [{"type": "nvlink", "gbps": 50, "among": ["0-3", "4-7"]}],
    "nics": [{"name": "hsi0", "gpus": "0", "path": "PIX"}],
    "devices": [{"model": "A100", "memory": 80, "gpus": "0-7"}],
}

WIRES = st.builds(
    Wire, st.sampled_from(["nvlink", "xgmi", "pcie"]), st.sampled_from([8.0, 25.0, 50.0, 112.5])
)


def pairs_of(ids):
    """All pairs of some ids, the lower first."""
    return list(combinations(sorted(ids), 2))


@st.composite
def matrices(draw):
    """Links between some pairs of GPUs."""
    ids = draw(st.sets(st.integers(0, 20) | st.integers(0, MAX_GPUS - 1), max_size=9))
    wires = [draw(WIRES) for _ in range(draw(st.integers(1, 3)))]
    chosen = st.sampled_from([None, *wires])
    drawn = {pair: draw(chosen) for pair in pairs_of(ids)}
    return {pair: wire for pair, wire in drawn.items() if wire is not None}


def names():
    return st.text("abcXYZ0 _-é", min_size=1, max_size=8)


@st.composite
def tables(draw):
    """A link table with NICs and devices, no GPU twice."""
    spare = draw(st.lists(st.integers(1, (1 << 12) - 1), max_size=4))
    nics, devices, seen = [], [], 0
    for mask in spare:
        if mask & ~seen:
            path = draw(st.sampled_from(PATHS))
            rails = range(draw(st.integers(1, 2)))
            nics += [Nic(draw(names()), mask & ~seen, path) for _ in rails]
            devices.append(Device(draw(names()), draw(st.integers(0, 300)), mask & ~seen))
        seen |= mask
    return Links.from_matrix(draw(matrices()), nics, devices)


# -- what a table says


@given(matrices())
def test_a_table_made_from_a_matrix_has_that_matrix(pairs):
    links = Links.from_matrix(pairs)
    assert links.pairs() == pairs
    assert set(idset.iterate(links.gpus)) == {gpu for pair in pairs for gpu in pair}


@given(matrices())
def test_a_table_made_from_a_matrix_joins_no_pair_twice_and_is_the_same_in_any_order(pairs):
    links = Links.from_matrix(pairs)
    there = [p for link in links.links for s in link.among for p in pairs_of(idset.iterate(s))]
    assert len(there) == len(set(there)) == len(pairs)
    assert Links.from_matrix(dict(reversed(list(pairs.items())))) == links
    assert [link.gbps for link in links.links] == sorted(
        (link.gbps for link in links.links), reverse=True
    )


def test_each_group_of_linked_gpus_is_one_set():
    quads = joined(range(4), range(4, 8))
    switch = joined(range(16))
    assert Links.from_matrix(quads).links == (Link("nvlink", 100.0, (0x0F, 0xF0)),)
    assert Links.from_matrix(switch).links == (Link("nvlink", 100.0, (0xFFFF,)),)


@pytest.mark.parametrize(
    ("pairs", "kind"),
    [
        ({}, "none"),
        ({(0, 1): PIX, (0, 2): SYS}, "pcie"),
        ({(0, 1): NV4, (2, 3): NV4, (0, 2): SYS}, "pairs"),
        (joined(range(8)), "all-to-all"),
        ({**joined(range(4)), (0, 1): NV2}, "mesh"),
        ({**joined(range(4)), (0, 4): SYS}, "mesh"),
        (joined(range(4), range(4, 8)), "mesh"),
        (CUBE_MESH, "mesh"),
    ],
)
def test_the_kind_names_the_form_of_the_graph_of_links(pairs, kind):
    assert Links.from_matrix(pairs).kind == kind


def test_gpus_are_not_all_to_all_if_one_has_no_link():
    pairs = joined(range(4))
    assert Links.from_matrix(pairs, devices=[Device("A100", 80, 0b1111)]).kind == "all-to-all"
    assert Links.from_matrix(pairs, devices=[Device("A100", 80, 0b11111)]).kind == "mesh"


def test_gpus_that_share_nics_begin_with_different_ones():
    links = Links(nics=(Nic("a", 0b1111, "NODE"), Nic("b", 0b1111, "NODE"), Nic("c", 16, "PIX")))
    assert [links.nics_of(gpu)[0] for gpu in range(5)] == ["a", "b", "a", "b", "c"]
    assert links.nics_of(1) == ("b", "a")
    assert links.nics_of(7) == ()


@pytest.mark.depth
def test_the_work_for_the_most_gpus_and_the_worst_graph_is_bounded():
    no_triangle = {(a, b): SYS for a in range(64) for b in range(64, MAX_GPUS)}
    with Lines() as work:
        assert Links.from_matrix(no_triangle).pairs() == no_triangle
    assert work.count < 250 * len(no_triangle)


# -- JSON


@given(tables())
@settings(max_examples=examples(60))
def test_a_table_comes_back_from_its_json(links):
    assert read_links(json.dumps(links.to_dict())) == links


def test_every_key_of_a_table_may_be_missing():
    assert read_links({}) == Links()
    assert Links().to_dict() == {}


def test_a_table_is_written_as_it_was_read():
    read = read_links(TABLE)
    assert read.links == (Link("nvlink", 50.0, (0x0F, 0xF0)),)
    assert read.nics == (Nic("hsi0", 1, "PIX"),)
    assert read.devices == (Device("A100", 80, 0xFF),)
    assert json.dumps(read.to_dict()) == json.dumps(TABLE)


def link(**changes):
    return {"links": [{"type": "nvlink", "gbps": 50, "among": ["0-3"], **changes}]}


def nic(**changes):
    return {"nics": [{"name": "hsi0", "gpus": "0", "path": "PIX", **changes}]}


def device(**changes):
    return {"devices": [{"model": "A100", "memory": 80, "gpus": "0-7", **changes}]}


WRONG = [
    ([], "/L: must be an object, not an array"),
    ({"links": [3]}, "/L/links/0: must be an object, not 3"),
    ({"nics": [{"name": "a", "gpus": "0"}]}, "/L/nics/0: key 'path' is missing"),
    (link(type="nvswitch"),
     "/L/links/0/type: must be one of 'nvlink', 'xgmi', 'xelink', 'pcie', not 'nvswitch'"),
    (link(gbps="50"), "/L/links/0/gbps: must be a number, not '50'"),
    (link(gbps=-1), "/L/links/0/gbps: must be at least 0 and at most 1000000, not -1"),
    (link(gbps=1e7), "/L/links/0/gbps: must be at least 0 and at most 1000000, not 10000000.0"),
    (link(gbps=float("inf")), "/L/links/0/gbps: inf is out of range"),
    (link(among="0-3"), "/L/links/0/among: must be an array, not '0-3'"),
    (link(among=[3]), "/L/links/0/among/0: must be a string, not 3"),
    (link(among=["3"]), "/L/links/0/among/0: must have at least two GPUs"),
    (link(among=["0-128"]), "/L/links/0/among/0: GPU ids go up to 127, not 128"),
    ({"links": link()["links"] + link(type="pcie", among=["3-4", "0,3"])["links"]},
     "/L/links/1/among/1: pairs among GPUs 0,3 are joined already"),
    (nic(path="NVL"), "/L/nics/0/path: must be one of 'PIX', 'PXB', 'PHB', 'NODE', 'SOCKET', "
     "'SYS', not 'NVL'"),
    (nic(name=7), "/L/nics/0/name: must be a string, not 7"),
    (nic(name="a\x1b[2J"), "/L/nics/0/name: must be at most 128 printable characters"),
    ({"nics": nic()["nics"] + nic(name="hsi1", path="SYS")["nics"]},
     "/L/nics/1/gpus: GPUs 0 have another path to a NIC in an earlier entry"),
    (device(memory=1.5), "/L/devices/0/memory: must be an integer, not 1.5"),
    ({"devices": device()["devices"] + device(gpus="7-8")["devices"]},
     "/L/devices/1/gpus: GPUs 7 are in an earlier entry too"),
]  # fmt: skip


@pytest.mark.parametrize(("table", "expected"), WRONG)
def test_a_problem_of_a_table_has_its_pointer_in_the_key(table, expected):
    name = digest(TOPO)
    key = {"writer": "TreePool", "links": {name: table}}
    at = expected.replace("/L", pointer_to("/links", name), 1)
    assert [str(p) for p in SchedulingKey.problems(key)] == [at]
    with pytest.raises(InvalidKey) as raised:
        SchedulingKey.read(key)
    assert str(raised.value) == at
    with pytest.raises(InvalidKey):
        read_links(table)


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        ([], "/links: must be an object, not an array"),
        ({"": {}}, "/links/: is not the digest of a topo"),
        ({"0" * 59: {}}, f"/links/{'0' * 59}: is not the digest of a topo"),
        ({"A" * 64: {}}, f"/links/{'A' * 64}: is not the digest of a topo"),
        ({"0" * 65: {}}, f"/links/{'0' * 57}...: is not the digest of a topo"),
        ({"0" * 64 + "\n": {}}, f"/links/{'0' * 57}...: is not the digest of a topo"),
    ],
)
def test_tables_are_named_by_digests(links, expected):
    key = {"writer": "TreePool", "links": links}
    assert [str(p) for p in SchedulingKey.problems(key)] == [expected]
    with pytest.raises(InvalidKey):
        SchedulingKey.read(key)


def test_the_number_of_tables_is_bounded():
    links = {f"{i:064x}": {} for i in range(MAX_TABLES + 1)}
    (problem,) = SchedulingKey.problems({"writer": "TreePool", "links": links})
    assert str(problem) == "/links: has more than 16384 tables"


def test_every_problem_of_the_tables_is_reported():
    key = {"writer": "TreePool", "links": {digest(TOPO): {**link(gbps=-1), **nic(path="")}}}
    assert [p.pointer.split("/", 3)[3] for p in SchedulingKey.problems(key)] == [
        "links/0/gbps",
        "nics/0/path",
    ]


# -- in a key


def key_with(links):
    children = [{"ranks": "2-5", "topo": TOPO}, {"ranks": "6", "topo": {"cores": "0"}}]
    return {"writer": "TreePool", "children": children, "links": links}


def test_the_digest_is_the_sha256_of_the_topo_with_sorted_keys_and_no_blanks():
    text = '{"cores":"0-7","gpus":"0-3","numa":[{"cores":"0-3"},{"cores":"4-7"}]}'
    assert digest(TOPO) == hashlib.sha256(text.encode()).hexdigest()
    assert digest(dict(reversed(list(TOPO.items())))) == digest(TOPO)
    assert digest({**TOPO, "gpus": "0-2"}) != digest(TOPO)
    assert len(digest({"é\ud800": []})) == 64


def test_a_key_has_the_links_of_the_topos_that_have_a_table():
    key = SchedulingKey.read(key_with({digest(TOPO): TABLE, "0" * 64: {}}))
    assert key.links_of(TOPO) == read_links(TABLE)
    assert key.links_of(TOPO) is key.links_of(dict(TOPO))
    assert key.links_of({"cores": "0"}) is None


def test_a_key_without_links_has_none_and_is_written_as_it_was_read():
    plain = {"writer": "TreePool", "children": [{"ranks": "0", "topo": TOPO}]}
    key = SchedulingKey.read(plain)
    assert key.links_of(TOPO) is None
    assert key.to_dict() == plain


def test_trimming_and_renumbering_a_key_keep_its_links():
    links = {digest(TOPO): TABLE, "0" * 64: {"nics": []}}
    key = SchedulingKey.read(key_with(links)).trim(0b11000).renumber()
    assert key.to_dict() == {
        "writer": "TreePool",
        "children": [{"ranks": "0-1", "topo": TOPO}],
        "links": links,
    }
    assert key.links_of(TOPO) == read_links(TABLE)


def test_a_key_made_by_hand_knows_the_links_it_is_given():
    key = SchedulingKey((), extra={"links": {digest(TOPO): TABLE}})
    assert key.links_of(TOPO) == read_links(TABLE)
    with pytest.raises(InvalidKey, match=r"^/links: must be an object"):
        SchedulingKey((), extra={"links": 3})
