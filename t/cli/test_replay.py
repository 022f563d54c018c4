"""``treepool replay``: a trace in, numbers out; side by side, as JSON, as a picture."""

import gzip
import json
import re
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from commandline import REPOSITORY, on_a_terminal
from made import nodes

SVG = "{http://www.w3.org/2000/svg}"


def trace(*rows):
    """JSON lines of (submit, duration, shape)."""
    names = ("submit", "duration", "shape")
    return "".join(json.dumps(dict(zip(names, row))) + "\n" for row in rows)


TRACE = trace((0, 10, "slot=2/node{x}"), (1, 10, "slot=1/node{x}"), (2, 5, "slot=1/core=1"))


def numbers(result):
    """The outcome of each set of options: (waits' mean, span)."""
    return [(line["wait"]["mean"], line["span"]) for line in result.json]


def test_a_trace_by_easy_unless_told_otherwise(treepool, write, R):
    result = treepool("replay", write(TRACE), "-R", write(R, "R.json"), "--json")
    (line,) = result.json
    assert (line["rules"], line["jobs"], line["refused"]) == ("policy=easy", 3, 0)
    assert line["wait"] == {"jobs": 3, "mean": 17 / 3, "median": 8, "p95": 9, "max": 9}
    assert line["span"] == 20
    assert line["last_start"] == 10
    assert line["cores_used"] == 1
    assert result.status == 0
    assert result.err == ""


def test_with_the_fabric_and_without(treepool, write):
    rows = trace(*[(0, 10, "node=3/slot=1/core=8")] * 2)
    words = ("replay", write(rows), "-R", "doc/fabric.json")
    compared = ("--compare", "policy=fifo", "--compare", "policy=fifo,fabric=off")
    spread = {"jobs": 2, "mean": 1, "p95": 1}
    for line in treepool(*words, *compared, "--json").json:
        assert set(line["spread"]) == {"cell", "switch"}
        assert line["spread"]["cell"] == spread
    shown = treepool(*words, *compared).out
    assert "fabric off" in shown
    assert "switch over the fewest, mean" in shown
    refused = treepool(*words, "--compare", "fabric=some")
    assert refused.status == 2
    assert "'fabric=some': fabric is on or off" in refused.err


def test_a_job_that_names_a_level_of_the_fabric_is_refused_without_it(treepool, write):
    rows = trace((0, 10, "switch=2/node=2/slot=1/core=8"), (0, 10, "slot=1/core=8"))
    compared = ("--compare", "fabric=on", "--compare", "fabric=off")
    result = treepool("replay", write(rows), "-R", "doc/fabric.json", *compared, "--json")
    assert [(line["jobs"], line["refused"]) for line in result.json] == [(2, 0), (1, 1)]
    assert result.is_one_line_error(
        "line 1: switch=2/node=2/slot=1/core=8: infeasible: without the fabric, ", "'switch'"
    )
    misspelt = write(trace((0, 10, "swich=2/node=2/slot=1/core=8")))
    result = treepool("replay", misspelt, "-R", "doc/fabric.json", *compared, "--json")
    assert result.is_one_line_error("line 1: ", "did you mean 'switch'?")
    assert result.out == ""


#: Eight jobs that each fill a node for ten seconds, all at once.
EIGHT = trace(*[(0, 10, "slot=1/node{x}")] * 8)


def test_clusters_side_by_side_each_under_each_policy(treepool, write):
    files = [write(nodes(ranks), f"{ranks}.json") for ranks in ("0-1", "0-3")]
    words = ("replay", write(EIGHT), "-R", files[0], "-R", files[1])
    compared = ("--compare", "policy=fifo", "--compare", "policy=easy")
    lines = treepool(*words, *compared, "--json").json
    assert [(line["cluster"], line["rules"]) for line in lines] == [
        (file.name, f"policy={policy}") for file in files for policy in ("fifo", "easy")
    ]
    assert [line["wait"]["mean"] for line in lines] == [15, 15, 5, 5]  # 4 and 2 rounds of 10 s
    shown = treepool(*words).out
    assert re.search(r"0-1\.json +0-3\.json", shown)
    assert re.search(r"wait, mean +15 s +5 s", shown)


def test_clusters_that_differ_in_kind_have_all_rows(treepool, write, R):
    words = ("-R", write(nodes("0-1"), "1.json"), "-R", write(R, "2.json"), "-R", "doc/fabric.json")
    shown = treepool("replay", write(EIGHT), *words).out
    assert re.search(r"GPUs in use +- +100\.0 % +25\.0 %", shown)
    assert re.search(r"switch over the fewest, mean +- +- +-", shown)


def test_nodes_that_are_added_shorten_the_waits_by_what_can_be_computed(treepool, write):
    R = nodes("0-1", properties={"fast": "1"})
    words = ("replay", write(EIGHT), "-R", write(R, "R.json"), "--json")
    added = ("--add", "2*fast", "--add", "1*n0,5*1")
    lines = treepool(*words, *added).json
    names = ["R.json", "R.json+2*fast", "R.json+1*n0+5*1"]
    assert [line["cluster"] for line in lines] == names
    assert [line["wait"]["mean"] for line in lines] == [15, 5, 0]
    assert [line["cores"] for line in lines] == [16, 32, 64]
    assert treepool(*words, "--add", "2*fsat").is_one_line_error(
        "argument --add: 'fsat' is no rank, host or property of the cluster (did you mean 'fast'?)"
    )
    both = ("-R", "doc/fabric.json", "--add", "1*0")
    assert treepool(*words, *both).is_one_line_error("--add: goes with one cluster", status=2)
    twice = ("--add", "1*0", "--add", "1*0")
    assert treepool(*words, *twice).is_one_line_error("the same nodes are given twice", status=2)
    many = [word for n in range(1, 13) for word in ("--add", f"{n}*0")]
    assert treepool(*words, *many).is_one_line_error("more than 12 clusters", status=2)


def test_waits_by_account_queue_size_and_gpus(treepool, write, R):
    rows = [
        {"shape": "slot=1/node{x}", "account": "physics"},
        {"shape": "slot=1/node{x}", "account": "physics"},
        {"shape": "slot=2/[core=2;gpu=1]", "account": "bio", "queue": "debug"},
        {"shape": "slot=1/core=1"},
    ]
    jobs = "".join(json.dumps({"submit": 0, "duration": 10, **row}) + "\n" for row in rows)
    words = ("replay", write(jobs), "-R", write(R, "R.json"))
    kinds = ("account", "queue", "size", "gpus")
    by = [word for kind in kinds for word in ("--by", kind)]
    found = treepool(*words, *by, "--json").json[0]["by"]
    means = {
        kind: {name: (waits["jobs"], waits["mean"]) for name, waits in found[kind].items()}
        for kind in kinds
    }
    assert means == {
        "account": {"-": (1, 10), "bio": (1, 10), "physics": (2, 0)},
        "queue": {"-": (3, 10 / 3), "debug": (1, 10)},
        "size": {"1 core": (1, 10), "2-4 cores": (1, 10), "5-16 cores": (2, 0)},
        "gpus": {"no GPUs": (1, 10), "2-4 GPUs": (3, 10 / 3)},
    }
    shown = treepool(*words, "--by", "account").out.partition("by account")[2]
    assert re.search(r"bio +1 +10 s +10 s\nphysics +2 +0 s +0 s", shown)


def test_starts_tell_when_each_job_started(treepool, write, R):
    jobs = trace((5, 10, "slot=2/node{x}"), (6, 10, "slot=1/core=3"), (6, 1, "slot=9/node{x}"))
    words = ("replay", write(jobs), "-R", write(R, "R.json"), "--json", "--starts")
    *starts, whole = treepool(*words).json
    told = [(s["job"], s["submit"], s["start"], s["end"], s["nodes"], s["cores"]) for s in starts]
    assert told == [("1", 5, 5, 15, 2, 16), ("2", 6, 15, 25, 1, 3)]
    assert (whole["jobs"], whole["refused"]) == (2, 1)


SACCT = (
    "JobID|Submit|Elapsed|Timelimit|AllocTRES|Partition|Account|User\n"
    "7|2026-11-02T08:00:00|00:01:00|00:02:00|cpu=16,node=2|batch|bio|a\n"
    "7.batch|2026-11-02T08:00:00|00:01:00||cpu=8,node=1|||\n"
    "8|2026-11-02T08:00:10|00:01:00|00:02:00|cpu=8,gres/gpu=1,node=1|batch|bio|b\n"
    "9|2026-11-02T08:00:10|00:00:00|00:02:00|cpu=8,node=1|batch|bio|b\n"
)


def test_what_sacct_prints_is_replayed_and_what_is_left_out_is_told(treepool, write, R):
    table = write("\ufeff" + SACCT)  # as spreadsheets write it
    result = treepool("replay", table, "-R", write(R, "R.json"), "--json")
    (line,) = result.json
    assert (line["jobs"], line["wait"]["max"], line["span"]) == (2, 50, 120)
    first, second = result.err.splitlines()
    assert first.endswith(": 2 lines left out (steps of jobs: 1, did not run: 1)")
    assert second.endswith(": columns without effect: 'User' (see --column)")
    assert result.status == 0


def test_a_table_can_be_printed_as_a_trace_which_does_the_same(treepool, write, R):
    file = write(R, "R.json")
    table = write(SACCT, "jobs.csv")
    printed = treepool("replay", table, "--print", "--threads-per-core", 2)
    assert json.loads(printed.out.splitlines()[1]) == {
        "id": "8", "submit": 1793606410, "duration": 60, "limit": 120,
        "shape": "slot=1/[core=4;gpu=1]", "queue": "batch", "account": "bio",
    }  # fmt: skip
    read = treepool("replay", write(printed.out), "-R", file, "--json")
    assert numbers(read) == numbers(
        treepool("replay", table, "-R", file, "--json", "--threads-per-core", 2)
    )


def test_the_guide_shows_the_first_jobs_of_its_table(treepool):
    shown = re.findall(r"^\{.*\}$", (REPOSITORY / "doc" / "planning.md").read_text(), re.M)
    printed = treepool("replay", REPOSITORY / "doc" / "jobs.csv", "--print").out.splitlines()
    assert shown == printed[:2]


SWF = """\
; MaxNodes: 4
; MaxProcs: 8
1 0 0 60 8 -1 -1 8 120 -1 1 3 -1 -1 1 -1 -1 -1
2 10 0 60 1 -1 -1 1 120 -1 1 3 -1 -1 1 -1 -1 -1
3 20 0 0 -1 -1 -1 1 120 -1 5 3 -1 -1 1 -1 -1 -1
"""


@pytest.mark.parametrize("packed", [False, True])
def test_standard_workload_format_is_replayed_on_the_nodes_of_its_header(treepool, write, packed):
    path = write(gzip.compress(SWF.encode()) if packed else SWF)
    result = treepool("replay", path, "--json", "--by", "account", named=True)
    (line,) = result.json
    assert (line["cluster"], line["cores"], line["jobs"]) == ("4 nodes", 8, 2)
    assert (line["wait"]["max"], list(line["by"]["account"])) == (50, ["3"])
    assert result.err.splitlines() == [
        f"treepool replay: {path}: 1 line left out (cancelled before they ran: 1)",
        f"treepool replay: {path}: 4 nodes, each with 2 cores, as the header says",
    ]
    assert result.status == 0


@pytest.mark.parametrize(
    ("header", "nodes", "cores"),
    [
        ("; MaxNodes: 4\n; MaxProcs: 8\n", "10", 20),
        ("; MaxProcs: 40\n", "10", 40),
        ("", "10", 10),
        ("; MaxProcs: 40\n", "3,cores=16,gpus=2", 48),
    ],
)
def test_the_number_of_nodes_can_be_given(treepool, write, header, nodes, cores):
    jobs = SWF.partition("1 0")[2]
    path = write(f"{header}1 0{jobs}")
    (line,) = treepool("replay", path, "--nodes", nodes, "--json").json
    assert (line["cores"], line["gpus"]) == (cores, 6 if "gpus" in nodes else 0)


def test_nodes_without_topology_serve_other_traces_and_more_of_them_can_be_added(treepool, write):
    words = ("replay", write(TRACE), "--nodes", "2,cores=4", "--add", "1*n0", "--json")
    result = treepool(*words)
    assert [(line["cluster"], line["cores"]) for line in result.json] == [
        ("2 nodes", 8),
        ("2 nodes+1*n0", 12),
    ]
    assert result.err == ""
    assert len(treepool("replay", "--synthetic", 5, "--nodes", "2,cores=4", "--json").json) == 1


def test_without_a_number_of_nodes_there_is_no_cluster(treepool, write):
    bare = write("1 0 0 60 8 -1 -1 8 120 -1 1 3 -1 -1 1 -1 -1 -1\n")
    refused = treepool("replay", bare, named=True)
    assert refused.is_one_line_error(str(bare), "--nodes N is needed", status=2)
    refused = treepool("replay", write(TRACE, "x"), "--nodes", 4)
    assert refused.is_one_line_error("--nodes: 4,cores=C is needed", status=2)
    vast = write("; MaxNodes: 99999999\n" + bare.read_text())
    assert "cannot be made (see --nodes)" in treepool("replay", vast, named=True).err


def test_a_damaged_gzip_file_is_one_line(treepool, write):
    path = write(gzip.compress(SWF.encode())[:-9])
    assert treepool("replay", path).is_one_line_error(str(path), "cannot be decompressed")


def test_synthetic_jobs_and_their_trace_do_the_same(treepool, write):
    printed = treepool("replay", "--synthetic", 40, "--seed", 7, "--print")
    assert len(printed.out.splitlines()) == 40
    made = treepool("replay", "--synthetic", 40, "--seed", 7, "--json")
    read = treepool("replay", write(printed.out), "--json")
    assert numbers(read) == numbers(made)
    other = treepool("replay", "--synthetic", 40, "--seed", 8, "--json")
    assert numbers(other) != numbers(made)


def test_a_job_that_one_of_several_clusters_could_never_serve_is_named_with_it(treepool, write):
    files = [write(nodes(cores=cores), f"{cores}.json") for cores in ("0-7", "0-15")]
    jobs = trace((0, 1, "slot=1/core=9"))
    result = treepool("replay", write(jobs), "-R", files[0], "-R", files[1], "--json")
    assert [(line["jobs"], line["refused"]) for line in result.json] == [(0, 1), (1, 0)]
    assert result.is_one_line_error("line 1: slot=1/core=9: infeasible on 0-7.json: ")


@pytest.mark.parametrize("width", [40, 120])
def test_the_table_keeps_within_the_terminal_and_has_all_columns(treepool, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    rules = ["policy=fifo", "policy=easy", "policy=easy,node-policy=worst-fit",
             "policy=conservative,reservation-depth=8,node-policy=first-fit"]  # fmt: skip
    words = [word for rule in rules for word in ("--compare", rule)]
    result = treepool("replay", "--synthetic", 30, *words)
    assert max(map(len, result.out.splitlines())) <= width
    assert result.out.count("fifo") == 1
    assert result.out.count("easy") == 2
    assert "first-fit" in result.out
    assert "depth 8" in result.out
    tables = result.out.split("\n\n")
    assert all("wait, median" in table and "GPUs stranded" in table for table in tables)


def test_the_plot_has_a_line_in_each_panel_for_each_set_of_options(treepool, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "out.svg"
    rules = ["policy=fifo", "policy=easy"]
    words = [word for rule in rules for word in ("--compare", rule)]
    assert treepool("replay", "--synthetic", 60, "--svg", path, *words).status == 0
    root = ElementTree.parse(path).getroot()
    lines = [group.get("id") for group in root.iter(f"{SVG}g")]
    assert [lines.count(f"line{i}") for i in range(3)] == [4, 4, 0]
    words = [text.text for text in root.iter(f"{SVG}text")]
    assert {"cores in use, %", "GPUs in use, %", "jobs waiting", *rules} <= set(words)


def test_a_plot_is_higher_by_the_lines_of_its_legend(treepool, tmp_path):
    pytest.importorskip("matplotlib")
    path, heights = tmp_path / "out.svg", []
    for number in (1, 6):
        words = ["--compare", "policy=easy"] * number
        assert treepool("replay", "--synthetic", 5, "--svg", path, *words).status == 0
        heights.append(float(ElementTree.parse(path).getroot().get("viewBox").split()[3]))
    assert heights[0] < heights[1]


def test_a_plot_that_cannot_be_written_is_refused_before_the_replay(treepool, tmp_path):
    pytest.importorskip("matplotlib")
    result = treepool("replay", "--synthetic", 60, "--svg", tmp_path / "none" / "out.svg")
    assert result.is_one_line_error("argument --svg", "No such file", status=2)


def test_a_plot_without_matplotlib_is_one_line_that_names_the_extra(treepool, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = treepool("replay", "--synthetic", 60, "--svg", "out.svg")
    assert result.is_one_line_error("--svg", "pip install matplotlib")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        (trace((0, 1, "slot=1/core")) + trace((0, 1, "slot=[")), "line 2: shape: column 7"),
        (trace((0, 1, "slot=1/rack/core")), "rack"),
        (trace((0, 0, "slot=1/core")), "no job in it; 1 line left out (did not run: 1)"),
    ],
)
def test_bad_traces_are_refused_by_line(treepool, write, text, said):
    path = write(text, "trace.jsonl")
    assert treepool("replay", path).is_one_line_error(str(path), said)


#: A replay whose bar comes at once, and is written again as often as something is said. It listens
#: to interrupts: what a shell started in the background ignores them, and all that this starts.
AT_ONCE = """
import signal, sys
from treepool.cli import main, progressbar
signal.signal(signal.SIGINT, signal.default_int_handler)
progressbar.DELAY = 0
sys.exit(main.main(sys.argv[1:]))
"""


def test_ctrl_c_prints_what_is_known_so_far(write):
    jobs = "".join(f"{i} {i * 100} 0 100 1 {'-1 ' * 12}-1\n" for i in range(30_000))
    path = write("; MaxNodes: 3\n; UnixStartTime: 1700000000\n" + jobs, "long.swf")
    compared = ("--compare", "policy=fifo", "--compare", "policy=easy")
    found, status = on_a_terminal(
        "-c", AT_ONCE, "replay", str(path), *compared, interrupt_at=" left policy=fifo: "
    )
    assert status == 130
    assert re.search(r" left policy=fifo: [\d,]+ of 30,000 jobs, 20\d\d-\d\d-\d\d", found)
    *_, rest = found.split("\x1b[2K")  # the bar is gone
    ran, left = (re.search(rf"{what} +([\d,]+)", rest)[1] for what in ("run", r"\(interrupted\)"))
    assert int(ran.replace(",", "")) + int(left.replace(",", "")) == 30_000
    assert "easy" not in rest
    assert rest.rstrip().endswith("the numbers are those up to then; 0 of 2 replays complete")
    assert "Traceback" not in found


def test_jobs_cannot_be_made_up_for_a_cluster_without_nodes(treepool, tmp_path):
    R = tmp_path / "R.json"
    R.write_text('{"version": 1, "execution": {"R_lite": [], "nodelist": []}}')
    refused = treepool("replay", "--synthetic", "3", "-R", str(R))
    assert refused.status == 1
    assert refused.err == "treepool replay: --synthetic: the cluster has no nodes\n"
