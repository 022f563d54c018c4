"""``treepool where -R``: where the nodes of a job are, and forms for programs and for Flux."""

import json
import random
import socket

import pytest

from made import nodes

TOPO = {"numa": [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1"}]}

#: Switch x1s0 has ranks that are not next to each other; one switch has no name, one node none.
FABRIC = {
    "cell": [
        {"name": "x1", "switch": [{"name": "x1s.0", "ranks": "0,2"}, {"ranks": "1"}]},
        {"name": "x2", "ranks": "3"},
    ]
}
JOB = nodes("0-4", gpus="0-1", topo=TOPO, fabric=FABRIC)


def test_nodes_are_in_topology_order_with_their_addresses(treepool, write):
    done = treepool("where", "-R", write(JOB), "--json")
    told = [json.loads(line) for line in done.out.splitlines()]
    assert [(one["rank"], one["position"], one["address"], one["pattern"]) for one in told] == [
        (0, 0, "x1.x1s_0.n0", "cell.switch.node"),
        (2, 1, "x1.x1s_0.n2", "cell.switch.node"),
        (1, 2, "x1.switch1.n1", "cell.switch.node"),
        (3, 3, "x2.n3", "cell.node"),
        (4, 4, "n4", "node"),
    ]


def test_a_hostfile_and_a_task_map_have_the_same_order(treepool, write):
    path = write(JOB)
    assert treepool("where", "-R", path, "--hostfile").out.split() == ["n0", "n2", "n1", "n3", "n4"]
    done = treepool("where", "-R", path, "--taskmap", "2")
    assert json.loads(done.out) == [[0, 1, 2, 1], [2, 1, 2, 1], [1, 1, 2, 1], [3, 2, 2, 1]]


@pytest.mark.parametrize("host", ["n2", "n2.cluster.example"])
def test_of_a_file_this_node_is_the_one_of_its_name(treepool, write, monkeypatch, host):
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    done = treepool("where", "-R", write(JOB), "--env")
    assert done.out.splitlines() == [
        "export TREEPOOL_TOPOLOGY_ADDR=x1.x1s_0.n2",
        "export TREEPOOL_TOPOLOGY_ADDR_PATTERN=cell.switch.node",
        "export TREEPOOL_POSITION=1",
        "export TREEPOOL_NNODES=5",
        "export TREEPOOL_FIRST_HOST=n0",
    ]


def test_of_several_nodes_of_this_name_none_is_this_one(treepool, write, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "n2")
    R = nodes("0-1")
    R["execution"]["nodelist"] = ["n2,n2"]
    done = treepool("where", "-R", write(R), "--env")
    assert done.is_one_line_error("2 nodes of R are called like this host, n2", status=2)


@pytest.mark.parametrize(
    "words, told",
    [
        (["--taskmap"], "--taskmap: there are no tasks"),
        (["--taskmap", "0"], "not a whole number"),
        (["--env"], "--env: the job is on other nodes than this host"),
        (["--env", "--json"], "not allowed with"),
        (["f1"], "not allowed with"),
    ],
)
def test_what_has_no_answer_is_a_usage_error(treepool, write, words, told):
    done = treepool("where", "-R", write(JOB), *words)
    assert done.status == 2 and told in done.err and done.out == ""


@pytest.mark.parametrize("seed", range(8))
def test_the_nodes_of_each_domain_are_next_to_each_other(treepool, write, seed):
    """Whatever the ranks in a domain are, its nodes have positions in a row."""
    rng = random.Random(seed)
    ranks = list(range(24))
    rng.shuffle(ranks)
    switches = [ranks[i : i + 4] for i in range(0, 24, 4)]
    cells = [switches[:2], switches[2:5], switches[5:]]
    fabric = {
        "cell": [
            {"switch": [{"ranks": ",".join(map(str, sorted(one)))} for one in cell]}
            for cell in cells
        ]
    }
    done = treepool("where", "-R", write(nodes("0-23", fabric=fabric)), "--json")
    position = {}
    for line in done.out.splitlines():
        position[json.loads(line)["rank"]] = json.loads(line)["position"]
    racks = [[rank for switch in cell for rank in switch] for cell in cells]
    for domain in (*switches, *racks):
        places = sorted(position[rank] for rank in domain)
        assert places == list(range(places[0], places[0] + len(places)))
