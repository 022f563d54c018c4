"""``treepool show``: what a person types and sees."""

import re

import pytest

from commandline import run_process
from treepool.rfc import idset
from treepool.view.nodewords import TIMES
from view.counting import some_R
from view.hostile import cluster


def test_a_refused_job_is_a_line_on_stderr_and_status_1(treepool):
    result = treepool("show", "--jobs", "slot=1/core=999", "slot=[", "slot=1/core")
    first, second = result.err.splitlines()
    assert result.status == 1
    assert first.startswith("treepool show: job 1: slot=1/core=999: infeasible: ")
    assert second.startswith("treepool show: job 2: slot=[: invalid: ")
    assert "A  3  slot=1/core" in result.out


def test_many_refused_jobs_are_counted(treepool):
    result = treepool("show", "--jobs", *["slot=1/core=999"] * 30)
    assert len(result.err.splitlines()) == 11
    assert result.err.splitlines()[-1] == "treepool show: 20 more jobs were refused"


def test_shapes_come_from_a_file_with_comments(treepool, write):
    path = write("# two jobs\nslot=1/node{x}\n\n  slot=2/node{x}  \n")
    result = treepool("show", "--jobs", f"@{path}", "slot=1/core")
    assert "B  2  slot=2/node{x}" in result.out
    assert "C  3  slot=1/core" in result.out


def test_ranks_unfolds(treepool):
    folded = treepool("show", "--cluster", "b").out
    assert f"1,152 {TIMES} cray[0-1151]" in folded
    unfolded = treepool("show", "--cluster", "b", "--ranks", "3,1000").out
    assert "cray3  idle  rank 3" in unfolded
    assert "cray1000  idle  rank 1000" in unfolded
    assert TIMES not in unfolded.split("\nnodes ")[1]


def test_down_and_drained_nodes_get_no_jobs(treepool):
    shape = "slot=14-16/node{x}"
    result = treepool("show", "--down", "0", "--drained", "1", "--jobs", shape)
    assert "14 full, 1 down, 1 drained" in result.out
    by_name = treepool("show", "--down", "xeon0", "--drained", "xeon[1]", "--jobs", shape)
    assert by_name.out == result.out


def test_an_ascii_locale_gets_ascii_and_no_escapes(write):
    result = run_process(
        "show", "-R", str(write(some_R())), PYTHONIOENCODING="ascii", PYTHONUTF8="0"
    )
    assert result.status == 0
    assert result.out.isascii()
    assert "\\x" not in result.out


@pytest.mark.parametrize("columns, width", [("", 80), ("200", 200), ("9" * 30, 1000)])
def test_columns_says_how_wide_and_80_is_usual(treepool, monkeypatch, columns, width):
    monkeypatch.setenv("COLUMNS", columns)
    lines = treepool("show", "--cluster", "b", "--jobs", "slot=9/core=7").out.splitlines()
    assert max(map(len, lines)) == width


def boxes(out):
    """The titles of the boxes: hosts and state."""
    return re.findall(r"^╭─ (.*?)(?:  rank \d+)? ─*╮$", out, re.M)


MACHINE = (
    *("show", "-R", "doc/fabric.json", "--down", "30", "--drained", "31"),
    *("--jobs", "node=5/slot=4/[core=24;gpu=1]", "node=12/slot=4/[core=24;gpu=1]", "slot/core=8"),
)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--hosts", "n12"], ["n12  partial"]),
        (["--hosts", "n[10-12],n30"], ["n10  full", "n11  full", "n12  partial", "n30  down"]),
        (["--domain", "x1000c0r3", "--ranks", "8-11,31"], [f"n{i}  full" for i in range(8, 12)]),
        (["--domain", "x1000", "--hosts", "n[12,31]"], ["n12  partial"]),
        (["--ranks", "3,12", "--hosts", "n[12-14]"], ["n12  partial"]),
        (["--domain", "x1000", "--hosts", "n31"], []),
    ],
)
def test_nodes_are_chosen_by_host_domain_and_rank(treepool, words, wanted):
    result = treepool(*MACHINE, *words)
    assert (result.status, result.err) == (0, "")
    assert boxes(result.out) == wanted
    assert ("no node is like that" in result.out) == (not wanted)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--hosts", "n32"], "'n32' is no host of the cluster (did you mean 'n3'?)"),
        (
            ["--hosts", "n[31-40]"],
            "(did you mean 'n3'?), and 8 more",
        ),
        (["--hosts", "n[5"], "argument --hosts: hostlist column"),
        (["--domain", "x1000c0r"], "'x1000c0r' is no domain (did you mean 'x1000c0r3'?)"),
        (["--json", "--html", "x"], "--json"),
        (["--html", "x", "--watch"], "--watch"),
    ],
)
def test_what_is_not_there_is_a_line_with_the_nearest_name(treepool, words, said):
    assert treepool(*MACHINE, *words).is_one_line_error(said, status=2)


def test_a_name_of_several_domains_names_them(treepool, write):
    racks = [{"name": "r", "ranks": str(i)} for i in range(6)]
    R = cluster("numa")
    R["scheduling"]["fabric"] = {"rack": racks[:3], "row": [{"name": "r", "ranks": "3"}]}
    result = treepool("show", "-R", write(R), "--domain", "r")
    assert result.is_one_line_error(
        "'r' is the name of 4 domains: rack r with ranks 0, rack r with ranks 1, rack r with"
        " ranks 2, row r with ranks 3",
        status=2,
    )
    assert treepool("show", "-R", write(R), "--domain", "row r").out.count("rank 3") == 1


def test_a_list_of_hosts_is_cut_once_between_two_hosts(treepool):
    words = ("--drained", ",".join(map(str, range(0, 300, 2))), "--jobs", "slot=140/node{x}")
    out = treepool("show", "--cluster", "b", *words).out
    lists = re.findall(r"cray\S*", out)
    cut = [text for text in lists if "…" in text]
    assert len(cut) == 3
    assert all(re.fullmatch(r"cray\[(\d+,)+…\]", text) for text in cut)
    assert out.count("…") == 3


def test_the_facts_are_those_of_the_picture(treepool):
    lines = treepool(*MACHINE, "--json").json
    cluster_, kind, *_ = lines
    assert cluster_["states"] == {"idle": 12, "partial": 1, "full": 17, "down": 1, "drained": 1}
    assert cluster_["cores"] == {"total": 3072, "free": 1240, "used": 1640}
    assert kind["hosts"] == "n[0-31]"
    domains = [line["domain"] for line in lines if line["kind"] == "domain"]
    assert domains[:2] == ["cell x1000", "switch x1000c0r1"]
    nodes = [line for line in lines if line["kind"] == "nodes"]
    assert sum(idset.size(idset.decode(line["ranks"])) for line in nodes) == 32
    (few,) = [line for line in nodes if line["state"] == "partial"]
    assert few["jobs"] == [{"job": "3", "cores": "0-7", "gpus": ""}]


def test_the_facts_of_some_nodes_are_of_these_and_their_jobs(treepool):
    lines = treepool(*MACHINE, "--json", "--hosts", "n12").json
    assert [line["job"] for line in lines if line["kind"] == "job"] == ["3"]
    assert [line["hosts"] for line in lines if line["kind"] == "nodes"] == ["n12"]
