"""``treepool advise``: which shapes fill the nodes of a cluster."""

import json
import re
import shlex

import pytest

from commandline import run_process


def test_the_advice_on_an_example_cluster(treepool):
    result = treepool("advise")
    assert (result.status, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0] == "16 nodes xeon[0-15] (ranks 0-15)"
    assert "  numa    8 of  15 cores, 1 GPU, 15 cores per GPU" in lines
    assert "  slot              per numa  per socket  per node" in lines
    assert "  [core=15;gpu=1]          1           4         8" in lines
    assert "  [core=8;gpu=1]       8      8   56 (47 %)          0             -" in lines


def test_shapes_asked_about(treepool):
    result = treepool("advise", "--shape", "slot=1/[core=20;gpu=1]", "slot=1/core=200", "--json")
    (line,) = result.json
    found = {one["shape"]: one for one in line["common"]}
    twenty = found["slot=1/[core=20;gpu=1]"]
    assert (twenty["slots"], twenty["cores_left"], twenty["gpus_left"]) == (6, 0, 2)
    assert twenty["inside"] == {"node": [6, 6], "socket": [3, 3], "numa": [0, 0]}
    assert "200 cores" in found["slot=1/core=200"]["reason"]
    table = treepool("advise", "--shape", "slot=1/core=200").out
    assert "  slot=1/core=200: no node has 200 cores: the largest has 120" in table.splitlines()


def test_what_strands_gpus_depends_on_the_mix(treepool, write):
    def stranded(*mix):
        words = ("--cluster", "b", "--shape", "slot/core=20", *mix)
        (line,) = treepool("advise", "--json", *words).json
        return {one["shape"]: round(one["stranded"], 2) for one in line["common"]}

    assert stranded()["slot/core=20"] == 0.83, "20 of the 24 cores of a GPU"
    small, large = "slot/[core=4;gpu=1]", "slot/[core=24;gpu=1]"
    assert stranded("--mix", small) == {small: 0, "slot/core=20": 0}
    mixed = {small: 0, large: 0, "slot/core=20": 0.75}
    assert stranded("--mix", small, f"3*{large}") == mixed
    assert stranded("--mix", "@" + str(write(f"# often\n3*{large}\n\n1*{small}\n"))) == mixed
    jobs = [{"submit": 0, "duration": 1, "shape": shape} for shape in (small, large, large, large)]
    trace = "\n".join(json.dumps(job) for job in jobs)
    assert stranded("--mix", "@" + str(write(trace, "jobs.json"))) == mixed


def test_the_mix_in_the_help_is_one(treepool):
    (words,) = re.findall("--mix ('.*)$", treepool("advise", "--help").out, re.MULTILINE)
    assert treepool("advise", "--mix", *shlex.split(words)).status == 0


def test_a_mix_of_a_file_without_jobs_is_none(treepool, write):
    nothing = write("# nothing\n", "nothing")
    assert treepool("advise", "--mix", f"@{nothing}").is_one_line_error("nothing: has no job")


def test_a_cluster_without_nodes_is_said_to_have_none(treepool, write, R):
    R["execution"].update(R_lite=[], nodelist=[])
    del R["scheduling"]
    assert treepool("advise", "-R", write(R)).out == "no nodes\n"


def test_as_json(treepool):
    (line,) = treepool("advise", "--cluster", "b", "--json").json
    assert line["ranks"] == "0-1151"
    assert [level["name"] for level in line["levels"]] == ["node", "socket"]
    assert line["tiling"][0]["shape"] == "slot=1/[core=24;gpu=1]"
    assert line["nearly"] == []


def test_your_own_cluster_from_stdin(R):
    result = run_process("advise", "-R", "-", stdin=json.dumps(R).encode())
    assert result.out.splitlines()[0] == "2 nodes n[3,5] (ranks 3,5)"


def test_a_cluster_without_a_key(treepool, write, R):
    del R["scheduling"]
    result = treepool("advise", "-R", write(R))
    assert "  [core=4;gpu=1]         2" in result.out.splitlines()


@pytest.mark.parametrize("width", [40, 80, 120])
def test_it_follows_the_width_of_the_terminal(treepool, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    result = treepool("advise", "--cluster", "b", "--shape", "slot=1/node=40/core=97")
    assert max(map(len, result.out.splitlines())) <= width


def test_advice_on_resources_that_have_expired_is_the_same(treepool, write):
    execution = {
        "R_lite": [{"rank": "0", "children": {"core": "0-3"}}],
        "nodelist": ["n0"],
        "starttime": 1,
    }
    now, before = (
        treepool("advise", "-R", write({"version": 1, "execution": R}, name))
        for name, R in (("now.json", execution), ("old.json", {**execution, "expiration": 2}))
    )
    assert (before.status, before.out) == (0, now.out)
