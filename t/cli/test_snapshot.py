"""``--snapshot FILE``: questions about an instance that is elsewhere, or long gone."""

import json
import re

import pytest

from commandline import REPOSITORY
from documents import blocks
from schemas import conforms, validator

#: Two jobs run and three wait; see doc/admin.md.
FILE = REPOSITORY / "doc" / "snapshot.json"
HERE = ("--snapshot", FILE)


@pytest.fixture
def value():
    """What is in the file."""
    return json.loads(FILE.read_text())


def test_the_file_is_a_snapshot(treepool, value):
    validator("snapshot").validate(value)
    assert "valid snapshot: 4 nodes; 2 jobs with resources, 3 waiting; 1 window" in (
        treepool("validate", FILE).out
    )


def test_replay_tells_when_each_job_would_start_under_each_policy(treepool, value):
    compared = ("--compare", "policy=fifo", "--compare", "policy=easy")
    result = treepool("replay", *HERE, *compared, "--json")
    assert (result.status, result.err) == (0, "")
    after = [{one["job"]: one["after"] for one in line["starts"]} for line in result.json]
    assert after == [
        {"job3": 3600, "job4": 7200, "job5": 7200},
        {"job3": 3600, "job4": 0, "job5": 7200},
    ]
    for line in result.json:
        conforms(line, "replay")
        assert all(one["start"] - one["after"] == value["time"] for one in line["starts"])
    shown = treepool("replay", *HERE, *compared).out
    guide = blocks((REPOSITORY / "doc" / "admin.md").read_text())
    assert next(block for block in guide if "job starts after" in block) in shown
    assert shown.endswith("as if each job used all its time\n")


def test_why_a_start_is_not_told(treepool, write, value):
    del value["running"][0]["end"]
    shown = treepool("replay", "--snapshot", write(value)).out
    assert re.search(r"^jobs with no start told +3$", shown, re.M)
    assert "\n-: it is refused, or waits for jobs without a limit" in shown


def test_many_jobs_are_counted_and_all_in_the_json(treepool, write, value):
    job = value["pending"][1]
    value["pending"] = [{**job, "job": f"p{i}"} for i in range(30)]
    path = write(value)
    assert "\n10 more jobs: --json tells all\n" in treepool("replay", "--snapshot", path).out
    (line,) = treepool("replay", "--snapshot", path, "--json").json
    assert len(line["starts"]) == 30


def test_jobs_that_are_not_in_the_replay_are_counted(treepool, write, value):
    value["unreadable"] = 2
    value["queues"] = {"": {"policy": "fifo", "stopped": True}}
    result = treepool("replay", "--snapshot", write(value))
    assert result.status == 0
    assert result.err.splitlines() == [
        "treepool replay: not replayed: 2 jobs, whose requests are not in the file",
        "treepool replay: not replayed: 3 jobs of stopped queues",
    ]


def test_a_page_of_the_replay_begins_with_the_running_jobs(treepool, tmp_path):
    path = tmp_path / "page.html"
    assert treepool("replay", *HERE, "--html", path).status == 0
    page = path.read_text()
    assert "job job1: had this already" in page
    assert "job job5: slot/[core=8;gpu=2]" in page


def test_alloc_gives_what_is_left(treepool):
    result = treepool(
        "alloc", *HERE, "--json", "slot=2/[core=4;gpu=1]", "slot=1/core", "node=5/slot/core"
    )
    first, second, third = result.json
    assert first["R_lite"] == [{"rank": "3", "children": {"core": "8-15", "gpu": "2-3"}}]
    assert (second["error"], third["error"]) == ("insufficient", "infeasible")


def test_options_are_those_of_the_snapshot_unless_given(treepool, write, value):
    value["running"] = [{"job": "a", "parts": [["3", "0-7", "0-1"]]}]
    value["options"]["locality"] = "required"
    value["options"]["policy"] = "worst-fit"
    del value["options"]["straddle"]
    path = write(value)

    def told(*words, shape="slot/core=1"):
        (line,) = treepool("alloc", "--snapshot", path, "--json", *words, shape).json
        return line["R_lite"][0]["rank"] if "R_lite" in line else line["error"]

    assert (told(), told("--policy", "best-fit"), told("--policy", "packing")) == ("0", "3", "3")
    assert told(shape="slot/core=12") == "0"
    assert treepool("explain", "--snapshot", path, "slot/core=1", "--verbose").out.count("required")


def test_a_mix_that_names_what_is_gone_is_no_mistake_of_another_option(treepool, write, value):
    value["options"]["mix"] = "slot/nvl/core"
    done = treepool("alloc", "--snapshot", write(value), "--locality", "required", "slot/core")
    assert (done.status, done.err) == (0, "")


def test_show_draws_the_jobs_and_the_windows(treepool, value):
    result = treepool("show", *HERE)
    assert "A  job1    48 cores, 12 GPUs on node[0-2]" in result.out
    assert "4 nodes; 2 jobs with resources, 3 waiting; 1 window" in result.out
    assert "window window1: node[2-3], from " in result.out
    lines = treepool("show", *HERE, "--json", "--drained", "3", "--jobs", "slot/core").json
    assert lines[0]["states"] == {"full": 3, "drained": 1}
    for line in lines:
        conforms(line, "show" if line["kind"] == "cluster" else f"show-{line['kind']}")


def test_show_knows_drained_nodes_and_what_belongs_to_no_job(treepool, write, value):
    value["down"] = value["drained"] = "3"
    value["other"] = value["running"].pop()["parts"]
    lines = treepool("show", "--snapshot", write(value), "--json").json
    assert lines[0]["states"] == {"full": 3, "drained": 1}
    assert lines[0]["cores"]["used"] == 56
    assert "other" in [line["job"] for line in lines if line["kind"] == "job"]


def test_explain_says_why_a_job_of_the_snapshot_waits(treepool):
    result = treepool("explain", *HERE, "job3")
    assert result.status == 1
    assert "it asks for all of a node, and jobs have a" in result.out
    assert "job job1: 48 cores, 12 GPUs" in result.out
    (line,) = treepool("explain", *HERE, "job3", "--json").json
    assert [job["job"] for job in line["waits"]["jobs"]] == ["job1", "job2"]
    conforms(line, "explain")


def test_a_job_that_waits_for_its_turn_is_told_what_is_free_for_it(treepool):
    result = treepool("explain", *HERE, "job4")
    assert result.status == 1
    told = " ".join(result.out.split())
    assert told.startswith("job4: slot=2/[core=4;gpu=1]: waits: its turn has not come: ")
    assert "tells when it starts of what is free now it would get node3" in told
    assert "allocated" not in told and "taken" not in told
    (line,) = treepool("explain", *HERE, "job4", "--json").json
    conforms(line, "explain")
    assert (line["verdict"], line["code"]) == ("waits", "turn")
    assert [one["nodes"]["hosts"] for one in line["taken"]] == ["node3"]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("replay", *HERE, "x.jsonl"), 2, "one of TRACE, --synthetic N and --snapshot"),
        (("replay", *HERE, "-R", "x"), 2, "not allowed with"),
        (("replay", *HERE, "--compare", "mix=1*slot/numa{x}"), 1, "--compare: mix: "),
        (("show", "--snapshot", "-", "--jobs", "@-"), 2, "stdin"),
        (("alloc", "--snapshot", "-", "--jobspec", "-"), 2, "stdin"),
        (("alloc", *HERE, "--straddle", "3", "--policy", "best-fit", "slot/core"), 2, "weigh"),
        (("explain", *HERE, "job9"), 1, "there is no job job9 (did you mean 'job"),
        (("explain", *HERE, "job1"), 1, "job job1: has its resources"),
        (("explain", *HERE, "job3", "slot/core"), 2, "unrecognized arguments: slot/core"),
        (("explain", *HERE, "job3", "--queue", "a"), 2, "--queue: job job3 says all that it"),
        (("explain", *HERE, "slot/core", "--queue", "a"), 2, "only a running instance has"),
    ],
)
def test_a_mistake_is_told_in_one_line(treepool, monkeypatch, tmp_path, words, status, said):
    monkeypatch.chdir(tmp_path)
    result = treepool(*words)
    assert result.is_one_line_error(said, status=status)
    assert result.out == ""


def test_without_flux_there_is_nothing_to_take_a_snapshot_of(treepool, without_flux, tmp_path):
    path = tmp_path / "new.json"
    assert treepool("snapshot", path).is_one_line_error("use flux treepool", status=2)
    assert not path.exists()
