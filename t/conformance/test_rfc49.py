"""The files of RFC 49's test vectors are on the clusters that are printed there."""

import json

from treepool.cli.files import data_folder


def document(name):
    return json.loads((data_folder("testvectors") / f"{name}.json").read_text())


def key(name):
    return document(name)["cluster"]["R"]["scheduling"]


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
