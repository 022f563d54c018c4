"""The packing benchmark: its books notice what is wrong, and what it tells can be repeated."""

import random

import pytest

from bench.packing import chart, command, runs
from bench.packing.clusters import CLUSTERS, MIXES, Cluster, cluster, halves, mix, trace
from bench.packing.pools import packer
from treepool.placement.choose.policy import POLICIES

#: Two sockets of four cores and a GPU.
SMALL = Cluster([halves(8, 2)], 4)


def test_a_place_that_is_taken_is_noticed():
    books = runs.Books(SMALL)
    assert not books.start(1, (2, 1), (0, 0b11, 0b1))
    with pytest.raises(AssertionError, match="not free"):
        books.start(2, (2, 1), (0, 0b110, 0b10))


def test_too_little_is_noticed():
    with pytest.raises(AssertionError, match="something else"):
        runs.Books(SMALL).start(1, (2, 1), (0, 0b1, 0b1))


def test_a_job_straddles_where_one_socket_could_have_hosted_it():
    assert runs.Books(SMALL).start(1, (2, 1), (0, 0b10001, 0b1))
    assert not runs.Books(SMALL).start(1, (6, 1), (0, 0b111111, 0b1))


def test_whole_sockets_and_nodes_are_counted():
    books = runs.Books(SMALL)
    assert books.whole() == (2, 1)
    books.start(1, (1, 0), (0, 1, 0))
    assert books.whole() == (1, 0)
    books.end(1)
    assert books.whole() == (2, 1)


@pytest.mark.parametrize("name", [*POLICIES, "packing:2", "fgd", "random"])
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


def test_a_trace_is_read_from_two_files(tmp_path):
    nodes, jobs = tmp_path / "nodes.csv", tmp_path / "jobs.csv"
    nodes.write_text("sn,cpu_milli,gpu\na,8000,2\nb,4000,0\n")
    jobs.write_text("name,cpu_milli,num_gpu\nx,1500,1\ny,16000,0\n")
    on, asked = trace(nodes, jobs)
    assert (on.gpus, on.cores, asked) == (2, 12, [(2, 1)])


def test_the_command_prints_a_row_for_each_pool(capsys):
    argv = ["--nodes", "8", "--turns", "0.2", "--clusters", "B", "--mixes", "even"]
    assert command.main([*argv, "--pools", "packing,fgd"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_the_chart_has_each_cluster_mix_and_pool_of_the_highest_load(tmp_path):
    pytest.importorskip("matplotlib")
    rows = [
        (label, on, kind, pool, "95.00", refused, "0.40", "3.00", "1.00")
        for label, refused in (("c90%", "77.00"), ("c95%", "12.00"), ("o99%", "88.00"))
        for on in ("A", "mixed")
        for kind in ("ones", "even")
        for pool in ("packing", "fgd")
    ]
    chart.write([command.HEAD, *rows], tmp_path / "one.svg")
    drawn = (tmp_path / "one.svg").read_text()
    assert all(f">{word}<" in drawn for word in ("cluster A", "mixed", "ones", "fgd", "refused, %"))
    assert "Closed runs at 95 % load" in drawn
    chart.write([command.HEAD], tmp_path / "none.svg")
    assert not (tmp_path / "none.svg").exists()
