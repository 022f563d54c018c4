"""``treepool where`` in jobs of three brokers on this machine, whose ranks and switches cross."""

import json
import os

import pytest

from broker import Instance

pytestmark = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="needs two cores of this machine"
)

TOPO = {"numa": [{"cores": "0"}, {"cores": "1"}]}
FABRIC = {"switch": [{"name": "a", "ranks": "0,2"}, {"name": "b", "ranks": "1"}]}


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """Three nodes with two cores each; ranks 0 and 2 are in switch a, rank 1 is in b."""
    path = tmp_path_factory.mktemp("where") / "R.json"
    R = {
        "version": 1,
        "execution": {
            "R_lite": [{"rank": "0-2", "children": {"core": "0-1"}}],
            "nodelist": ["fake[0-2]"],
            "starttime": 0,
            "expiration": 0,
        },
        "scheduling": {
            "writer": "TreePool",
            "children": [{"ranks": "0-2", "topo": TOPO}],
            "fabric": FABRIC,
        },
    }
    path.write_text(json.dumps(R))
    conf = [f"resource.path={path}", "resource.noverify=true"]
    with Instance(0, size=3, conf=conf) as instance:
        yield instance


def told(text):
    return [json.loads(line) for line in text.splitlines()]


def test_a_task_learns_the_address_and_the_position_of_its_node(three):
    names = "TREEPOOL_(FIRST|NNODES|POS|TOPO)"
    script = f'eval "$(flux treepool where --env)"; echo $(env | grep -E "{names}" | sort)'
    said = three.flux("run", "-N3", "-n3", "--label-io", "sh", "-c", script)
    lines = dict(line.split(": ", 1) for line in sorted(said.splitlines()))
    first = "TREEPOOL_FIRST_HOST=fake0 TREEPOOL_NNODES=3"
    for task, position, address in (("0", 0, "a.fake0"), ("1", 2, "b.fake1"), ("2", 1, "a.fake2")):
        assert lines[task].split() == [
            *first.split(),
            f"TREEPOOL_POSITION={position}",
            f"TREEPOOL_TOPOLOGY_ADDR={address}",
            "TREEPOOL_TOPOLOGY_ADDR_PATTERN=switch.node",
        ]


def test_the_owner_sees_where_the_tasks_of_a_job_are(three):
    job = three.flux("submit", "-N3", "-n6", "sleep", "60").strip()
    three.wait(job, "start")
    found = told(three.flux("treepool", "where", "--job", job, "--json"))
    table = three.flux("treepool", "where", "--job", job)
    three.cancel_all()
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


def test_a_task_map_from_the_instance_puts_tasks_in_topology_order(three):
    """In a batch job: neighbours in rank are neighbours in the fabric."""
    script = (
        'flux run -N3 -n6 --label-io --taskmap=manual:"$(flux treepool where --taskmap 2)"'
        " sh -c 'eval \"$(flux treepool where --env)\"; echo $TREEPOOL_POSITION'"
    )
    said = three.flux("alloc", "-N3", "sh", "-c", script)
    assert sorted(said.split("\n"))[-6:] == ["0: 0", "1: 0", "2: 1", "3: 1", "4: 2", "5: 2"]


def test_a_hostfile_does_the_same(three):
    script = (
        "flux treepool where --hostfile > hosts; "
        "flux run -N3 -n3 --label-io --taskmap=hostfile:hosts flux getattr rank"
    )
    said = three.flux("alloc", "-N3", "sh", "-c", f"cd $(mktemp -d); {script}")
    assert sorted(said.split("\n"))[-3:] == ["0: 0", "1: 2", "2: 1"]


def test_an_unknown_job_is_one_line(three):
    done = three.run("treepool", "where", "--job", "f1")
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "f1" in done.stderr
    done = three.run("treepool", "where", "--job", "nonsense")
    assert done.returncode == 1 and "job nonsense: it is not a job id" in done.stderr
