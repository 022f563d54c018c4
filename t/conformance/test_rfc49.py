"""RFC 49's test vectors, each as a test of its own, and the files that hold them."""

import json

import pytest

from treepool.cli import vectors
from treepool.rfc.schema import data_folder

DOCUMENTS = {
    path.stem: json.loads(path.read_text())
    for path in sorted(data_folder("testvectors").glob("*.json"))
}
RESULTS = [result for document in DOCUMENTS.values() for result in vectors.play(document)]


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: result.id)
def test_vector(result):
    assert result.passed, f"{result.action}: expected {result.expected}, got {result.got}"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_file_is_valid(name):
    assert vectors.problems(DOCUMENTS[name]) == []


def test_all_of_the_rfcs_vectors_are_there_in_order():
    rfc = [r.id for r in RESULTS if r.id.startswith("TV")]
    assert rfc == [f"TVA{n}" for n in range(1, 12)] + [f"TVB{n}" for n in range(1, 10)]


def key(name):
    return DOCUMENTS[name]["cluster"]["R"]["scheduling"]


def test_cluster_a_has_the_rfcs_key():
    numas = [{"cores": f"{15 * n}-{15 * n + 14}", "gpus": str(n)} for n in range(8)]
    topo = {
        "storage": [{"path": "/mnt/nvme", "capacity": 2, "unit": "TiB"}],
        "socket": [{"numa": numas[:4]}, {"numa": numas[4:]}],
    }
    children = [{"ranks": "0-15", "topo": topo}]
    assert key("rfc49-cluster-a") == {"writer": "TreePool", "children": children}


def test_cluster_b_has_the_rfcs_key():
    topo = {
        "storage": [{"path": "/l/ssd", "capacity": 200, "unit": "GiB"}],
        "socket": [
            {"cores": "0-23", "gpus": "0", "memory": 125},
            {"cores": "24-47", "gpus": "1", "memory": 126},
            {"cores": "48-71", "gpus": "2", "memory": 126},
            {"cores": "72-95", "gpus": "3", "memory": 126},
        ],
    }
    children = [{"ranks": "0-1151", "topo": topo}]
    assert key("rfc49-cluster-b") == {"writer": "TreePool", "children": children}
