"""``treepool advise``: which shapes fill the nodes of a cluster."""

import json
import re


def test_the_advice_on_an_example_cluster(treepool):
    result = treepool("advise")
    assert (result.status, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[1] == "16 nodes xeon[0-15] (ranks 0-15)"
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


def test_a_mix_of_a_file_without_jobs_is_none(treepool, write):
    nothing = write("# nothing\n", "nothing")
    assert treepool("advise", "--mix", f"@{nothing}").is_one_line_error("nothing: has no job")


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


def trace_of(*shapes):
    """The text of a trace of these jobs."""
    return "\n".join(json.dumps({"submit": 0, "duration": 1, "shape": s}) for s in shapes)


def mix_from(treepool, path, *words):
    """The mix that is printed, and what is said of it; the mix is one of advise and of a pool."""
    result = treepool("advise", *words, "--mix-from", str(path))
    assert result.status == 0, result.err
    said, mix = re.fullmatch('# (.*)\nmix = "(.*)"\n', result.out).groups()
    assert treepool("alloc", *words, "--mix", mix, "slot/core").status == 0
    return mix, said


def test_the_mix_of_past_jobs_has_one_shape_for_all_that_ask_for_the_same(treepool, write):
    eight = ("slot/[core=8;gpu=1]", "slot=1/[gpu;core=8]", "slot{a}/[core=8;gpu]")
    trace = write(trace_of(*eight, "slot=2/[core=8;gpu=1]", *5 * ["slot/core=4"]), "jobs.json")
    said = "9 jobs: 2 of 2 shapes, 100 % of the GPUs that they asked for"
    assert mix_from(treepool, trace) == ("3*slot/[core=8;gpu],1*slot=2/[core=8;gpu]", said)


def test_the_mix_of_past_jobs_is_read_from_a_table_of_sacct(treepool, write):
    rows = ["JobID|Submit|Elapsed|AllocTRES"]
    rows += [f"{n}|1|60|cpu=16,gres/gpu=2,node=1" for n in range(3)]
    rows += ["9|1|60|cpu=64,node=2", "10|1|60|cpu=96,gres/gpu=16,node=2", "11|1|0|cpu=1,node=1"]
    table = str(write("\n".join(rows), "jobs.csv"))
    sixteen = "1*node=2/slot/[core=48;gpu=8]"
    assert mix_from(treepool, table)[0] == f"{sixteen},3*slot/[core=16;gpu=2]"
    result = treepool("advise", "--mix-from", table, "--threads-per-core", "2")
    assert "3*slot/[core=8;gpu=2]" in result.out
    assert "1 line left out (did not run: 1)" in result.err


def test_the_mix_has_the_32_shapes_that_asked_for_the_most_gpus(treepool, write):
    shapes = [f"slot/[core={cores};gpu=1]" for cores in range(1, 41)]
    jobs = [shape for n, shape in enumerate(shapes, 1) for _ in range(n)]
    mix, said = mix_from(treepool, write(trace_of(*jobs, "slot/node{x}"), "jobs.json"))
    assert mix.split(",")[0] == "40*slot/[core=40;gpu]"
    assert len(mix.split(",")) == 32
    assert mix.endswith(",9*slot/[core=9;gpu]"), "a whole node has only eight GPUs"
    left = sum(range(1, 9)) + 8
    assert said.endswith(f"{100 * (1 - left / (820 + 8)):.0f} % of the GPUs that they asked for")


def test_jobs_that_say_nothing_of_the_cluster_are_in_no_mix(treepool, write):
    jobs = ["slot/rack/gpu", "slot/[core=1;gpu=2]", "slot/[socket/core=3;numa{x};gpu]", "slo/"]
    trace = write(trace_of(*jobs), "jobs.json")
    assert mix_from(treepool, trace)[0] == "1*slot/[core;gpu=2]"
    assert "1 job could not be read" in treepool("advise", "--mix-from", str(trace)).err
    none = write(trace_of("slot/core=4"), "none.json")
    said = "none.json: no job asked for GPUs that the cluster has"
    assert treepool("advise", "--mix-from", str(none)).is_one_line_error(said)
