"""RFC 20: which R are valid, and that each is written as it was read."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treepool.errors import InvalidKey, InvalidR
from treepool.rfc import findings, idset
from treepool.rfc.constraint import FORBIDDEN
from treepool.rfc.rset import (
    ResourceSet,
    RLiteEntry,
    _Reader,
    merge_entries,
)
from work import Lines

DATA = Path(__file__).parent / "data"
EXAMPLE = json.loads((DATA / "rfc20-example1.json").read_text())
KEY = json.loads((DATA / "rfc49-cluster-a.json").read_text())
CLUSTER = {
    "version": 1,
    "execution": {
        "R_lite": [
            {"rank": "0-7", "children": {"core": "0-119", "gpu": "0-7"}},
            {"rank": "8-15", "children": {"core": "0-119"}},
        ],
        "starttime": 0.0,
        "expiration": 0.0,
        "nodelist": ["a[0-15]"],
        "properties": {"big": "0-3", "amd-mi50@gpu": "8"},
    },
    "scheduling": KEY,
}


def problems(document: object) -> list[str]:
    """The problems of an R as lines; checks that ``read`` agrees with them."""
    lines = [str(p) for p in ResourceSet.problems(document)]  # type: ignore[arg-type]
    if lines:
        error = InvalidKey if lines[0].startswith("/scheduling") else InvalidR
        with pytest.raises(error) as raised:
            ResourceSet.read(document)  # type: ignore[arg-type]
        assert type(raised.value) is error
        assert str(raised.value) == lines[0]
    else:
        ResourceSet.read(document)  # type: ignore[arg-type]
    return lines


def changed(change: Callable[[Any, Any], object]) -> dict[str, Any]:
    """CLUSTER after *change* of it and its execution."""
    document = copy.deepcopy(CLUSTER)
    change(document, document["execution"])
    return document


def test_the_example_of_rfc_20_is_read():
    read = ResourceSet.read(EXAMPLE)
    assert read == ResourceSet(
        entries=(RLiteEntry(0xF << 19, (1 << 48) - 1, 0xFF),),
        hosts=("node186", "node187", "node188", "node189"),
        nslots=32,
        starttime=1676560542.0,
        expiration=1676562342.0,
    )
    assert read.mask == 0xF << 19
    assert read.to_dict() == EXAMPLE


def test_a_cluster_comes_out_as_it_went_in():
    assert ResourceSet.read(CLUSTER).to_dict() == CLUSTER
    assert ResourceSet.read(json.dumps(CLUSTER)) == ResourceSet.read(CLUSTER)
    assert problems(CLUSTER) == []


def test_entries_with_equal_children_are_merged_and_sorted_by_rank():
    document = changed(
        lambda R, execution: execution.update(
            R_lite=[
                {"rank": "9-15", "children": {"core": "[0-3]"}},
                {"rank": "1,3", "children": {"core": "0,1,2-3", "gpu": "0"}},
                {"rank": "0,2", "children": {"core": "0-3"}},
                {"rank": "4-8", "children": {"gpu": "0", "core": "0-3"}},
            ]
        )
    )
    assert ResourceSet.read(document).to_dict()["execution"]["R_lite"] == [
        {"rank": "0,2,9-15", "children": {"core": "0-3"}},
        {"rank": "1,3-8", "children": {"core": "0-3", "gpu": "0"}},
    ]


def test_the_hosts_may_be_spread_over_entries_in_any_way():
    document = changed(lambda R, e: e.update(nodelist=["a[0-1]", "a2", "b[1-12],a2"]))
    read = ResourceSet.read(document)
    assert read.hosts[:4] == ("a0", "a1", "a2", "b1") and read.hosts[-1] == "a2"
    assert read.to_dict()["execution"]["nodelist"] == ["a[0-2],b[1-12],a2"]


def test_properties_without_ranks_are_dropped():
    document = changed(lambda R, e: e.update(properties={"big": ""}))
    read = ResourceSet.read(document)
    assert read.properties == {}
    assert "properties" not in read.to_dict()["execution"]


def test_times_are_written_even_if_unset_as_flux_does():
    document = changed(lambda R, e: (e.pop("starttime"), e.pop("expiration")))
    execution = ResourceSet.read(document).to_dict()["execution"]
    assert (execution["starttime"], execution["expiration"]) == (0.0, 0.0)
    assert isinstance(execution["starttime"], float)
    assert "nslots" not in execution


def test_a_start_without_an_end_is_valid():
    assert problems(changed(lambda R, e: e.update(starttime=100))) == []
    assert problems(changed(lambda R, e: e.update(expiration=100))) == []


@pytest.mark.parametrize(
    "scheduling",
    [{}, {"graph": {"nodes": []}}, {"writer": "fluxion:1", "children": 3}, {"writer": "simple"}],
)
def test_the_key_of_another_scheduler_is_kept_unread(scheduling):
    read = ResourceSet.read({**EXAMPLE, "scheduling": scheduling})
    assert read.to_dict()["scheduling"] == scheduling
    assert read.key() is None


def test_keys_that_rfc_20_does_not_name_are_ignored():
    document = changed(lambda R, e: (R.update(attributes={}), e.update(more=1)))
    assert ResourceSet.read(document).to_dict() == CLUSTER


def test_the_key_is_about_the_ranks_of_r():
    key = ResourceSet.read(CLUSTER).key()
    assert key is not None and key.to_dict() == KEY
    some = changed(lambda R, e: (R.update(scheduling=renamed("100-115")), e.update(starttime=1)))
    key = ResourceSet.read(some).key()
    assert key is not None and key.mask == 0xFFFF
    assert ResourceSet.read(some).to_dict()["scheduling"]["children"][0]["ranks"] == "100-115"


@pytest.mark.parametrize("nodelist", [{}, {"nodelist": []}, {"nodelist": [""]}])
@pytest.mark.parametrize("scheduling", [{}, {"scheduling": KEY}])
def test_an_R_without_ranks_is_read_as_flux_writes_it(nodelist, scheduling):
    # resource.exclude can name every node: flux-core then writes [""], or no nodelist at all.
    document = {"version": 1, "execution": {"R_lite": [], **nodelist}, **scheduling}
    assert problems(document) == []
    R = ResourceSet.read(document)
    assert (R.entries, R.hosts, R.ranks) == ((), (), ())
    key = R.key()
    assert key is None if not scheduling else key is not None and key.children == ()
    assert R.to_dict()["execution"] == {
        "R_lite": [],
        "starttime": 0.0,
        "expiration": 0.0,
        "nodelist": [],
    }
    assert ResourceSet.read(R.to_dict()).ranks == ()


def renamed(ranks: str) -> dict[str, Any]:
    """KEY with other ranks."""
    return {**KEY, "children": [{**KEY["children"][0], "ranks": ranks}]}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda R, e: R.update(version=2), "/version: must be 1, not 2"),
        (lambda R, e: R.pop("execution"), "key 'execution' is missing"),
        (
            lambda R, e: e.update(R_lite=[]),
            "/execution/nodelist: has 16 or more hosts for the 0 ranks of R_lite",
        ),
        (
            lambda R, e: e.update(R_lite=[], nodelist=[]),
            "/execution/properties/amd-mi50@gpu: ranks 8 are not in R_lite",
        ),
        (
            lambda R, e: e["R_lite"][1]["children"].update(disk="0"),
            "/execution/R_lite/1/children/disk: unknown key; known are core, gpu",
        ),
        (
            lambda R, e: e["R_lite"][1].update(rank=""),
            "/execution/R_lite/1/rank: must have at least one id",
        ),
        (
            lambda R, e: e["R_lite"][1]["children"].update(gpu="1,0"),
            "/execution/R_lite/1/children/gpu: ids must ascend: 0 in idset '1,0'",
        ),
        (
            lambda R, e: e["R_lite"][1].update(rank="6-15"),
            "/execution/R_lite/1/rank: ranks 6-7 are in an earlier entry too",
        ),
        (
            lambda R, e: e["R_lite"][1].update(rank="8-15,1048576"),
            "/execution/R_lite/1/rank: rank 1048576 is above the limit 1048575",
        ),
        (
            lambda R, e: e.update(nodelist=["a[0-14]"]),
            "/execution/nodelist: has 15 hosts for the 16 ranks of R_lite",
        ),
        (
            lambda R, e: e.update(nodelist=["a[0-15]", "b", "c"]),
            "/execution/nodelist: has 17 or more hosts for the 16 ranks of R_lite",
        ),
        (
            lambda R, e: e.update(properties={"big": "12-16,20"}),
            "/execution/properties/big: ranks 16,20 are not in R_lite",
        ),
        (
            lambda R, e: e.update(properties={"": "3"}),
            "/execution/properties/: a property needs a name",
        ),
        (
            lambda R, e: e.update(properties={"\ud800": "3"}),
            "/execution/properties/\\ud800: a property name must be valid UTF-8",
        ),
        (
            lambda R, e: e.update(nslots=0),
            "/execution/nslots: must be at least 1, not 0",
        ),
        (
            lambda R, e: e.update(expiration=float("nan")),
            "/execution/expiration: nan is out of range",
        ),
        (
            lambda R, e: e.update(expiration=-1),
            "/execution/expiration: must be at least 0 and at most 1000000000000000, not -1",
        ),
        (
            lambda R, e: e.update(starttime=10, expiration=10),
            "/execution/expiration: must be greater than starttime",
        ),
        (
            lambda R, e: R.update(scheduling={"writer": "TreePool", "children": [{}]}),
            "/scheduling/children/0: key 'ranks' is missing",
        ),
        (
            lambda R, e: R.update(scheduling=renamed("16-20")),
            "/scheduling/children: has ranks 16-20, none of which is among ranks 0-15 of R_lite",
        ),
    ],
)
def test_a_problem_has_a_pointer_and_a_reason(change, expected):
    assert problems(changed(change))[0] == expected


@pytest.mark.parametrize("illegal", sorted(FORBIDDEN))
def test_a_property_name_has_none_of_the_illegal_characters(illegal):
    (line,) = problems(changed(lambda R, e: e.update(properties={f"a{illegal}b": "0"})))
    assert line.endswith(f"a property name may not have {illegal}")


@pytest.mark.parametrize("name", ["a", "+local", "amd-mi50@gpu", "a/b", "ü", "x y", "a.b:c"])
def test_a_property_name_may_have_any_other(name):
    assert problems(changed(lambda R, e: e.update(properties={name: "0"}))) == []


def test_reading_ends_after_many_bad_names_of_properties():
    noted = findings.Findings()
    properties = {f"!{i}": "0" for i in range(100_000)}
    _Reader(noted).read(changed(lambda R, e: e.update(properties=properties)))
    assert len(noted) < 2_000


def test_every_problem_is_reported_and_not_only_the_first():
    def break_it(R: Any, execution: Any) -> None:
        R["version"] = 3
        R["scheduling"] = renamed("0-")
        R["scheduling"]["children"][0]["topo"] = {"numa": [{"cores": "0"}, {"cores": "0"}]}
        execution["R_lite"][0]["children"]["gpu"] = 7
        execution["R_lite"][1]["rank"] = "8-"
        execution["nodelist"] = ["a[", 5]
        execution.update(nslots=0, starttime=9, expiration=8, properties={"a b": "x", "!": "1"})

    assert [line.split(":")[0] for line in problems(changed(break_it))] == [
        "/execution/R_lite/0/children/gpu",
        "/execution/R_lite/1/rank",
        "/execution/expiration",
        "/execution/nodelist/0",
        "/execution/nodelist/1",
        "/execution/nslots",
        "/execution/properties/!",
        "/execution/properties/a b",
        "/scheduling/children/0/ranks",
        "/scheduling/children/0/topo/numa/1",
        "/version",
    ]


def test_a_short_text_cannot_take_gigabytes(monkeypatch):
    hosts = changed(lambda R, e: e.update(nodelist=["a[0-99999]"] * 100_000))
    assert problems(hosts)[0].startswith("/execution/nodelist: has 100000 or more hosts")
    monkeypatch.setattr(findings, "MAX_BITS", 1 << 26)
    entries = [{"rank": str(i), "children": {"core": str(idset.MAX_ID - i)}} for i in range(30)]
    with pytest.raises(InvalidR, match="the sets of this document need more than"):
        ResourceSet.read(changed(lambda R, e: e.update(R_lite=entries)))


@pytest.mark.depth
@pytest.mark.parametrize("nodes", [11_136, 1_000_000])
def test_the_work_of_reading_is_linear_in_the_nodes(nodes):
    last = nodes - 1
    text = json.dumps(
        {
            "version": 1,
            "execution": {
                "R_lite": [{"rank": f"0-{last}", "children": {"core": "0-95", "gpu": "0-3"}}],
                "nodelist": [f"tuolumne[0-{last}]"],
                "properties": {"pbatch": f"0-{last}"},
            },
            "scheduling": renamed(f"0-{last}"),
        }
    )
    with Lines() as work:
        read = ResourceSet.read(text)
    assert idset.size(read.mask) == nodes == len(read.hosts)
    assert work.count < 2 * nodes + 5000


# ---- round trips ----


@st.composite
def resource_sets(draw: st.DrawFn) -> ResourceSet:
    """R of a few kinds of nodes in any order."""
    ids = st.sets(st.integers(0, 130), min_size=1, max_size=12).map(idset.from_ids)
    resources = st.tuples(ids, st.just(0) | ids)
    kinds = draw(st.lists(resources, min_size=1, max_size=4))
    owners = draw(st.dictionaries(st.integers(0, 300), st.sampled_from(kinds), min_size=1))
    ranks = sorted(owners)
    name = st.from_regex(r"[a-z][a-z0-9-]{0,5}", fullmatch=True)
    hosts = draw(st.lists(name, min_size=len(ranks), max_size=len(ranks)))
    some = st.sets(st.sampled_from(ranks), min_size=1).map(idset.from_ids)
    start = draw(st.sampled_from([0.0, 1.5, 1676560542.0]))
    return ResourceSet(
        entries=merge_entries(RLiteEntry(1 << r, *owners[r]) for r in ranks),
        hosts=tuple(hosts),
        properties=draw(st.dictionaries(st.sampled_from(["a", "+b", "c@gpu", "ü"]), some)),
        nslots=draw(st.none() | st.integers(1, 99)),
        starttime=start,
        expiration=draw(st.sampled_from([0.0, start + 60])),
        scheduling=draw(st.sampled_from([None, {"writer": "fluxion", "graph": {}}])),
    )


@given(resource_sets())
@settings(deadline=None)
def test_a_resource_set_survives_its_json(some):
    assert ResourceSet.read(some.to_dict()) == some
    assert ResourceSet.read(json.dumps(some.to_dict())) == some


@given(st.lists(st.tuples(*[st.sets(st.integers(0, 5)).map(idset.from_ids)] * 3)))
@settings(deadline=None)
def test_merging_entries_adds_up_what_they_say_of_the_same_rank(given_entries):
    added: dict[int, tuple[int, int]] = {}
    for ranks, cores, gpus in given_entries:
        for rank in idset.iterate(ranks):
            old = added.get(rank, (0, 0))
            added[rank] = old[0] | cores, old[1] | gpus
    merged = merge_entries(RLiteEntry(*one) for one in given_entries)
    found = [(r, (e.cores, e.gpus)) for e in merged for r in idset.iterate(e.ranks)]
    assert sorted(found) == sorted(added.items())
    assert len({(e.cores, e.gpus) for e in merged}) == len(merged)
    assert list(merged) == sorted(merged, key=lambda e: idset.lowest(e.ranks))


@pytest.mark.skipif(not shutil.which("flux"), reason="no Flux here")
def test_flux_and_treepool_read_what_the_other_writes():
    some = {k: v for k, v in CLUSTER.items() if k != "scheduling"}
    text = json.dumps(ResourceSet.read(some).to_dict())
    done = subprocess.run(
        ["flux", "R", "decode"], input=text, capture_output=True, text=True, check=True
    )
    written = json.loads(done.stdout)
    assert written == some
    assert ResourceSet.read(done.stdout) == ResourceSet.read(some)
