"""``treepool explain``: why a job gets what it gets."""

import pytest

from commandline import well_behaved


def test_an_allocation(treepool):
    result = treepool("explain", "slot=2/[core=8;gpu=1]", "--jobs", "slot=1/numa{x}")
    assert result.status == 0
    assert result.err == ""
    for line in (
        "slot=2/[core=8;gpu=1]: allocated",
        "     xeon0: 105 of 120 cores, 7 of 8 GPUs free",
        "       slot 1: numa 1: cores 15-22, GPU 1",
        "       slot 2: numa 2: cores 30-37, GPU 2",
        "an idle cluster would have given",
        "       slot 1: numa 0: cores 0-7, GPU 0",
    ):
        assert line in result.out.splitlines()


def test_a_job_that_waits(treepool):
    result = treepool("explain", "slot=1/node{x}", "--jobs", "slot=16/node/core=1")
    assert result.status == 1
    assert result.err == ""
    lines = result.out.splitlines()
    assert lines[1].startswith("slot=1/node{x}: waits: ")
    assert "it asks for a whole node, and jobs have 1 core of it" in result.out
    assert "there is room for it when this job ends" in lines


def test_a_job_that_can_never_run(treepool):
    result = treepool("explain", "slot=1/numa/core=20")
    assert result.status == 1
    assert result.out.splitlines()[1:] == [
        "slot=1/numa/core=20: infeasible: no numa domain has 20 cores: the largest has 15",
        "",
        "what would fit an idle cluster",
        "     slot/numa/core=15   core=15 instead of 20",
        "     slot/core=20   without numa",
    ]


def test_your_own_cluster_with_nodes_down_and_a_policy(treepool, write, R):
    path = write(R)
    result = treepool(
        "explain", "-R", path, "slot=1/core", "--down", "3", "--policy", "first-fit", "--verbose"
    )
    assert "n5: idle" in result.out
    assert "2 nodes, of which 1 is down" in result.out
    assert "first-fit: lowest rank first" in result.out
    kept = treepool("explain", "-R", path, "slot=1/core", "--constraint", '{"ranks": ["5"]}')
    assert "n5: idle" in kept.out


def test_jobs_from_a_file(treepool, write):
    path = write("# a comment\n\nslot=1/numa{x}\nslot=1/numa{x}\n", "shapes.txt")
    result = treepool("explain", "slot=1/numa{x}", "--jobs", f"@{path}")
    assert "1 slot: numa 2: cores 30-44, GPU 2" in result.out


@pytest.mark.parametrize("width", [40, 80, 120])
def test_it_follows_the_width_of_the_terminal(treepool, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    for shape in ("slot=20/[core=8;gpu=1]", "slot=30/node{x}", "slot=200/numa{x}"):
        result = treepool("explain", shape, "--jobs", "slot=90/numa{x}", "slot=1/core=7")
        assert max(map(len, result.out.splitlines())) <= width
        assert well_behaved(result)
