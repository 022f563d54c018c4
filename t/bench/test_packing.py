"""The packing benchmark: its books notice what is wrong, and what it tells can be repeated."""

import random

import pytest

from bench.packing import command, fabrics, runs
from bench.packing.clusters import CLUSTERS, MIXES, Cluster, cluster, halves, mix
from bench.packing.pools import packer
from treepool.placement.choose.policy import POLICIES

pytestmark = pytest.mark.depth

#: Two sockets of four cores and a GPU.
SMALL = Cluster([halves(8, 2)], 4)


def test_a_place_that_is_taken_is_noticed():
    books = runs.Books(SMALL)
    assert not books.start(1, (2, 1), (0, 0b11, 0b1))
    with pytest.raises(AssertionError, match="not free"):
        books.start(2, (2, 1), (0, 0b110, 0b10))


def test_a_job_straddles_where_one_socket_could_have_hosted_it():
    assert runs.Books(SMALL).start(1, (2, 1), (0, 0b10001, 0b1))
    assert not runs.Books(SMALL).start(1, (6, 1), (0, 0b111111, 0b1))


@pytest.mark.parametrize("name", [*POLICIES, "packing:2", "mix", "fgd", "random"])
def test_every_pool_runs_and_repeats_itself(name):
    on = cluster("mixed", 20)
    jobs = mix("even", on, random.Random(1))
    found = [runs.closed(on, jobs, packer(name, on, jobs), 1, 0.95, 0.5) for _ in range(2)]
    assert found[0] == found[1]
    assert 80 < found[0].allocated <= 95


@pytest.mark.parametrize("name", CLUSTERS)
@pytest.mark.parametrize("kind", MIXES)
def test_every_cluster_and_mix_can_be_filled(name, kind):
    on = cluster(name, 20)
    jobs = mix(kind, on, random.Random(1))
    assert runs.inflation(on, jobs, packer("packing", on, jobs), 1).allocated > 85


def test_jobs_that_come_at_random_times_and_jobs_that_wait():
    on = cluster("alike", 6)
    jobs = mix("ones", on, random.Random(1))
    assert runs.opened(on, jobs, packer("packing", on, jobs), 1, 0.9, 4).allocated > 50
    assert all(wait >= 0 for wait in runs.waits(on, jobs, "packing", 1, 0.9, "easy", 60))


def test_the_command_prints_a_row_for_each_pool(capsys):
    argv = ["--nodes", "8", "--turns", "0.2", "--clusters", "B", "--mixes", "even"]
    assert command.main([*argv, "--pools", "packing,fgd"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5


PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n"
NODES = "sn,cpu_milli,memory_mib,gpu,model\n"
TASKS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"


@pytest.fixture
def traced(tmp_path, capsys):
    """The status, rows and complaints of the command with these texts as the files of a trace."""

    def run(*texts):
        paths = [tmp_path / f"{i}.csv" for i in range(len(texts))]
        for path, text in zip(paths, texts):
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        argv = ["--pools", "first-fit", "--runs", "fill", "--trace", *map(str, paths)]
        status = command.main(argv)
        out, err = capsys.readouterr()
        return status, [line.split() for line in out.splitlines()[1:]], err.splitlines()

    return run


def test_a_trace_with_run_times_is_played_as_its_jobs_come_and_as_they_run(traced):
    jobs = ["2017-10-09 07:01:55,1.0,1,1.0,a", "2017-10-09 07:01:56,1e6,8,8e6,a"]
    status, rows, errors = traced(PHILLY + "\n".join([*jobs, jobs[0].replace(",1,", ",16,")]))
    assert (status, [row[:4] for row in rows]) == (
        0, [["f100%", "trace", "jobs", "first-fit"], ["f100%", "trace", "hours", "first-fit"]]
    )  # fmt: skip
    assert errors == ["packing: 1 of 3 jobs left out: no node could serve them"]
    # All time is that of the eight GPUs, which only 231 of the nodes have: 1,848 of 2,490.
    assert rows[1][4] == "74.22"


def test_a_part_of_a_gpu_counts_as_one_and_cores_are_rounded(traced):
    nodes = NODES + "n0,4000,1,2,G2\nn1,4000,1,2,G2\n"
    # Jobs of two cores and a GPU each fill both nodes; with three cores only half of the GPUs.
    assert traced(nodes, TASKS + "p,2400,1,1,460\n")[1][0][4] == "100.00"
    assert traced(nodes, TASKS + "p,2600,1,1,1000\n")[1][0][4] == "50.00"


#: Two cells of two switches of four nodes.
PODS = fabrics.Machine(2, 2, 4, [1, 2, 3, 4, 6, 8])


def placed(rule, *sizes):
    """The ranks that jobs of these *sizes* get one after another."""
    found = []
    for jobid, nodes in enumerate(sizes, start=1):
        ranks = rule.look(nodes)
        if ranks is not None:
            rule.start(jobid, nodes, ranks)
        found.append(ranks and sorted(ranks))
    return found


def test_slurm_takes_few_leaf_switches_below_the_lowest_switch_that_has_room():
    assert placed(fabrics.Slurm(PODS), 3, 5, 5) == [[0, 1, 2], [3, 4, 5, 6, 7], [8, 9, 10, 11, 12]]
    assert placed(fabrics.Slurm(PODS), 3, 7) == [[0, 1, 2], [8, 9, 10, 11, 12, 13, 14]]


def test_a_job_waits_for_one_switch_only_if_one_could_host_it():
    rule = fabrics.RULES["waits"](PODS)
    assert placed(rule, 3, 3, 3, 3, 2, 4) == [
        [0, 1, 2], [4, 5, 6], [8, 9, 10], [12, 13, 14], None, None
    ]  # fmt: skip
    assert placed(fabrics.RULES["treepool"](PODS), 3, 3, 3, 3, 2)[-1] == [3, 7]
    assert len(placed(fabrics.RULES["waits"](PODS), 6)[0]) == 6


def jobs(*asked):
    """Jobs that come one after another: (nodes, how long)."""
    return [fabrics.Job(i / 100, nodes, runs, runs) for i, (nodes, runs) in enumerate(asked)]


@pytest.mark.parametrize("rule", fabrics.RULES)
def test_a_job_passes_the_first_one_that_waits_if_that_one_starts_as_early(rule):
    asked = jobs((12, 1), (16, 1), (4, 0.5), (4, 2), *500 * [(1, 0.0001)])
    starts = {i: start for i, (start, _) in fabrics.queued(PODS, rule, asked).items()}
    assert starts[2] == asked[2].submit
    assert starts[1] == 1.0
    assert starts[3] >= 2.0


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("rule", fabrics.RULES)
def test_a_run_on_a_fabric_repeats_itself(rule, shared):
    if shared and rule == "slurm":
        pytest.skip("its guide is about nodes")
    asked = fabrics.jobs_of(PODS, 200, 0.9, 1, shared)
    run = fabrics.replayed if shared else fabrics.queued
    one, two = (fabrics.measure(PODS, asked, run(PODS, rule, asked)) for _ in range(2))
    assert one == two
    assert 1 <= one.spread <= one.p95 <= 4
    assert 50 < one.used <= 100


def test_the_table_of_fabrics_has_a_row_for_each_machine_and_rule(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(fabrics, "MACHINES", {"pods": PODS})
    chart = tmp_path / "chart.svg"
    argv = ["--machines", "pods", "--jobs", "60"]
    try:
        import matplotlib  # noqa: F401

        argv += ["--plot", str(chart)]
    except ImportError:
        pass
    assert fabrics.main(argv) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(fabrics.RULES)
    assert chart.exists() == ("--plot" in argv)
