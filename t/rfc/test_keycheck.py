"""keycheck.py warns of what is legal in the key of an R, but probably a mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from treepool.rfc import keycheck
from treepool.rfc.links import digest
from treepool.rfc.rset import ResourceSet

DATA = Path(__file__).parent / "data"
SOCKETS = [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1"}]
TOPO = {"socket": SOCKETS}
TABLE = {"links": [{"type": "nvlink", "gbps": 50, "among": ["0-1"]}]}


def an_R(key, cores="0-7", gpus="0-1", ranks="3,5", hosts="n[3,5]", **execution):
    """An R of two nodes with *key*."""
    return {
        "version": 1,
        "execution": {
            "R_lite": [{"rank": ranks, "children": {"core": cores, "gpu": gpus}}],
            "nodelist": [hosts],
            "starttime": 0,
            "expiration": 0,
            **execution,
        },
        "scheduling": key,
    }


def a_key(*children, **more):
    entries = [{"ranks": ranks, "topo": topo} for ranks, topo in children]
    return {"writer": "TreePool", "children": entries, **more}


def warnings(key, **options):
    return keycheck.warnings(ResourceSet.read(an_R(key, **options)))


def test_a_key_that_fits_its_R_has_no_warning():
    assert warnings(a_key(("3,5", TOPO), links={digest(TOPO): TABLE})) == []
    assert keycheck.warnings(ResourceSet.read({**an_R({}), "scheduling": {"graph": {}}})) == []
    flat = an_R({})
    del flat["scheduling"]
    assert keycheck.warnings(ResourceSet.read(flat)) == []


@pytest.mark.parametrize("cluster", ["a", "b"])
def test_the_keys_of_rfc_49_have_no_warning(cluster):
    key = json.loads((DATA / f"rfc49-cluster-{cluster}.json").read_text())
    shape = {"a": ("0-15", "0-119", "0-7"), "b": ("0-1151", "0-95", "0-3")}[cluster]
    ranks, cores, gpus = shape
    assert warnings(key, ranks=ranks, cores=cores, gpus=gpus, hosts=f"n[{ranks}]") == []


@pytest.mark.parametrize(
    "writer",
    [
        "treepool",
        "tree-pool",
        "treepool:1",
        "Treepol",
    ],
)
def test_another_spelling_of_the_writer_is_named(writer):
    name = writer.partition(":")[0]
    assert warnings({**a_key(("3,5", TOPO)), "writer": writer}) == [
        f"/scheduling/writer: the scheduler is called 'TreePool', not '{name}', "
        "so the key is ignored"
    ]


@pytest.mark.parametrize("writer", ["fluxion", "pool", "", "x" * 10_000])
def test_the_writer_of_another_scheduler_is_not_a_misspelling(writer):
    assert warnings({**a_key(("3,5", TOPO)), "writer": writer}) == []


@pytest.mark.parametrize(("locality", "has"), [("socket", "2"), ("numa", "0")])
def test_distances_that_do_not_fit_the_topo_are_named(locality, has):
    distances = {"locality": locality, "values": [[10, 20, 30]] * 3}
    (line,) = warnings(a_key(("3,5", TOPO), links={digest(TOPO): {"distances": distances}}))
    assert line == (
        f"/scheduling/links/{digest(TOPO)}/distances: '{locality}' has {has} domains, not 3, "
        "so they are not used"
    )
    distances.update(locality="socket", values=[[10, 20]] * 2)
    assert warnings(a_key(("3,5", TOPO), links={digest(TOPO): {"distances": distances}})) == []


def test_a_link_table_without_a_topo_is_named():
    unused = "0" * 64
    (line,) = warnings(a_key(("3,5", TOPO), links={unused: TABLE, digest(TOPO): TABLE}))
    assert line.startswith(f"/scheduling/links/{unused}: ")
    assert line.endswith(": no topo of the key has this digest, so the table is not used")


def test_ranks_without_an_entry_are_named_if_others_have_one():
    assert warnings(a_key(("3", TOPO))) == [
        "/scheduling/children: rank 5 has no entry, so its node has no topology"
    ]
    assert warnings(a_key(("3", TOPO)), ranks="3,5-6", hosts="n[1-3]") == [
        "/scheduling/children: ranks 5-6 have no entry, so their nodes have no topology"
    ]
    assert warnings(a_key()) == []


def test_ids_of_the_topo_that_R_lite_lacks_are_named():
    assert warnings(a_key(("3,5", TOPO)), cores="1-7", gpus="0") == [
        "/scheduling/children/0/topo: cores 0 and GPUs 1 are not in R_lite of ranks 3,5, "
        "and are left to the operating system"
    ]


def test_ids_of_R_lite_that_the_topo_lacks_are_named():
    assert warnings(a_key(("3,5", TOPO)), cores="0-9", gpus="0-1,3") == [
        "/scheduling/children/0/topo: lacks cores 8-9 and GPUs 3 of ranks 3,5, "
        "which are in no domain"
    ]
    assert warnings(a_key(("3,5", {"numa": [{"cores": "0-7"}]})), gpus="0-1") == []


def test_ids_are_compared_entry_by_entry_under_the_ranks_of_R_lite():
    """The key may still have ranks that are excluded, or ranks of the enclosing instance."""
    wide = {"cores": "0-9"}
    beside = warnings(a_key(("1", wide), ("3", TOPO), ("5", wide)))
    assert [line[:27] for line in beside] == ["/scheduling/children/2/topo"]
    renumbered = warnings(a_key(("12", TOPO), ("17", wide)), starttime=1)
    assert [line.partition(": ")[0] for line in renumbered] == ["/scheduling/children/1/topo"]
    assert "of rank 5," in renumbered[0]


def test_an_allocated_R_may_have_less_than_its_key_describes():
    key = a_key(("3,5", TOPO), links={"0" * 64: TABLE})
    assert warnings(key, cores="0-3", nslots=1) == []
    allocated = [{"ranks": "3,5", "cores": "4-7"}]
    assert warnings({**key, "allocated": allocated}, cores="0-3") == []


def test_an_unknown_key_like_a_known_one_is_named():
    key = a_key(("3,5", TOPO), childrens=[])
    assert warnings(key) == []  # the right one is there
    del key["children"]
    assert warnings(key) == [
        "/scheduling/childrens: unknown key, ignored; the key that matters is 'children'"
    ]


@pytest.mark.parametrize(
    ("topo", "place", "right"),
    [
        ({"core": "0-3"}, "core", "cores"),
        ({"gpu": "0"}, "gpu", "gpus"),
        ({"mem": 64}, "mem", "memory"),
        ({"Memory": 64}, "Memory", "memory"),
        ({"memry": 64}, "memry", "memory"),
        ({"socket": [{"cpus": "0"}]}, "socket/0/cpus", "cores"),
        (
            {"storage": [{"path": "/s", "capacity": 1, "units": "TiB"}]},
            "storage/0/units",
            "unit",
        ),
    ],
)
def test_an_unknown_key_of_a_topo_like_a_known_one_is_named(topo, place, right):
    assert warnings(a_key(("3,5", topo))) == [
        f"/scheduling/children/0/topo/{place}: unknown key, ignored; "
        f"the key that matters is {right!r}"
    ]


def test_an_unknown_key_of_a_link_table_like_a_known_one_is_named():
    table = {"links": [{"type": "nvlink", "gbps": 50, "among": ["0-1"], "speed": 3}], "nic": []}
    (line,) = warnings(a_key(("3,5", TOPO), links={digest(TOPO): table}))
    assert line.startswith(f"/scheduling/links/{digest(TOPO)}/nic: ")
    assert line.endswith("/nic: unknown key, ignored; the key that matters is 'nics'")


def test_a_value_that_is_almost_a_locality_is_named():
    for value in ({"cores": "0-3"}, ["0-3", "4-7"]):
        assert warnings(a_key(("3,5", {"l3": value}))) == [
            "/scheduling/children/0/topo/l3: unknown key, ignored; "
            "a locality is an array of objects"
        ]


def test_other_unknown_keys_have_no_warning():
    node = {**TOPO, "vendor": {"name": "x"}, "rack": 7, "tags": ["a"], "l3": [], "": None}
    assert warnings(a_key(("3,5", node), site=1)) == []


def test_a_locality_that_is_almost_one_of_rfc_49_is_named():
    assert warnings(a_key(("3,5", {"sockets": SOCKETS}))) == [
        "/scheduling/children/0/topo/sockets: a locality of this name; RFC 49 calls it 'socket'"
    ]
    assert warnings(a_key(("3,5", {"l3": SOCKETS}))) == []


def test_pointers_into_a_key_without_an_R_start_at_the_key():
    key = a_key(("3,5", {"numas": [{"cores": "0"}]}))
    assert keycheck.key_warnings(key) == [
        "/children/0/topo/numas: a locality of this name; RFC 49 calls it 'numa'"
    ]
    assert keycheck.key_warnings({"writer": "x"}) == []


def test_a_key_that_is_refused_has_no_warnings():
    read = ResourceSet.read(an_R(a_key(("3,5", TOPO))))
    for scheduling in (a_key(("7-9", TOPO)), {"writer": "TreePool", "children": 3}):
        object.__setattr__(read, "scheduling", scheduling)
        assert keycheck.warnings(read) == []


def test_warnings_are_few_short_and_printable():
    children = [(str(rank), {"cores": f"0-{9 + rank}"}) for rank in range(60)]
    name = "\x1b[31m" * 1000
    key = a_key(*children, links={f"{i:064x}": TABLE for i in range(60)}, **{name: 1})
    lines = warnings(key, ranks="0-59", hosts="n[0-59]")
    assert len(lines) == keycheck.MAX_WARNINGS + 1
    assert lines[-1] == "/scheduling: more warnings, not shown"
    assert all(line.isprintable() and len(line) < 300 for line in lines)
