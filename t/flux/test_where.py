"""``treepool where`` in jobs of four brokers on this machine, whose ranks and switches cross."""

import json
import os

import pytest

from broker import GUEST, REPOSITORY, Instance
from documents import blocks
from made import nodes

pytestmark = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="needs two cores of this machine"
)

TOPO = {"numa": [{"cores": "0"}, {"cores": "1"}]}
FABRIC = {"switch": [{"name": "a", "ranks": "0,2"}, {"name": "b", "ranks": "1,3"}]}


@pytest.fixture(scope="module")
def four():
    """Four nodes with two cores each; ranks 0 and 2 are in switch a, the others in b."""
    R = nodes("0-3", "0-1", topo=TOPO, fabric=FABRIC, nodelist=["fake[0-3]"])
    with Instance(size=4, R=R) as instance:
        yield instance


def told(text):
    return [json.loads(line) for line in text.splitlines()]


def test_a_task_learns_the_address_and_the_position_of_its_node(four):
    names = "TREEPOOL_(FIRST|NNODES|POS|TOPO)"
    script = f'eval "$(flux treepool where --env)"; echo $(env | grep -E "{names}" | sort)'
    said = four.flux("run", "-N3", "-n3", "--label-io", "sh", "-c", script)
    lines = dict(line.split(": ", 1) for line in sorted(said.splitlines()))
    first = "TREEPOOL_FIRST_HOST=fake0 TREEPOOL_NNODES=3"
    for task, position, address in (("0", 0, "a.fake0"), ("1", 2, "b.fake1"), ("2", 1, "a.fake2")):
        assert lines[task].split() == [
            *first.split(),
            f"TREEPOOL_POSITION={position}",
            f"TREEPOOL_TOPOLOGY_ADDR={address}",
            "TREEPOOL_TOPOLOGY_ADDR_PATTERN=switch.node",
        ]


def test_the_owner_sees_where_the_tasks_of_a_job_are(four):
    job = four.flux("submit", "-N3", "-n6", "sleep", "60").strip()
    four.wait(job, "start")
    found = told(four.flux("treepool", "where", job, "--json"))
    table = four.flux("treepool", "where", job)
    four.cancel_all()
    assert [one["host"] for one in found] == ["fake0", "fake2", "fake1"]
    assert [(t["task"], t["domain"]) for one in found for t in one["tasks"]] == [
        (0, "numa 0"),
        (1, "numa 1"),
        (4, "numa 0"),
        (5, "numa 1"),
        (2, "numa 0"),
        (3, "numa 1"),
    ]
    assert "4 numa 0, 5 numa 1" in table


def test_the_job_of_another_is_not_told(four):
    job = four.flux("submit", "true")
    four.wait(job, "clean")
    done = four.with_env(**GUEST).run("treepool", "where", job)
    told = "only its owner and the owner of the instance may read what it got"
    assert (done.returncode, done.stderr) == (1, f"treepool where: job {job}: {told}\n")


def test_the_scripts_of_the_guide(four, tmp_path):
    """Those of doc/user.md; the programs tell what they were told."""
    (guide,) = blocks((REPOSITORY / "doc" / "user.md").read_text(), "bash")
    script = guide.replace("-n32", "-n8").replace("--taskmap 8", "--taskmap 2")
    for name, tells in (
        ("solve", 'echo "solve $FLUX_TASK_RANK $(flux getattr rank)"'),
        ("torchrun", 'echo "torchrun $(flux getattr rank) $*"'),
    ):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{tells}\n")
        program.chmod(0o755)
    said = four.flux("alloc", "-N4", "sh", "-c", f"cd {tmp_path}; PATH=$PWD:$PATH\n{script}")
    lines = [line.split() for line in said.splitlines()]
    rank_of = {int(task): rank for name, task, rank in (w for w in lines if w[0] == "solve")}
    assert [rank_of[task] for task in range(8)] == ["0", "0", "2", "2", "1", "1", "3", "3"]
    nodes = {words[1]: words[2:] for words in lines if words[0] == "torchrun"}
    for rank, position in (("0", 0), ("2", 1), ("1", 2), ("3", 3)):
        assert nodes[rank][:2] == ["--nnodes=4", f"--node-rank={position}"]
        assert nodes[rank][3:] == ["--master-addr=fake0", "train.py"]
