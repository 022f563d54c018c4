"""The cluster of a soak: its nodes, their fabric, and the queues."""

#: What the nodes have: cores, GPUs.
CLUSTERS = {"a": (120, 8), "b": (96, 4)}

#: Nodes of a switch and switches of a rack.
SWITCH, RACK = 8, 8

#: The queues. Jobs of ``debug`` run on the first half of the nodes, by a property of that name.
QUEUES = ("batch", "debug", "large")


def rset(nodes, cluster, key):
    """The R of a cluster: the nodes, their property, and *key* with a fabric."""
    cores, gpus = CLUSTERS[cluster]
    ranks = f"0-{nodes - 1}"
    children = [{"ranks": ranks, "topo": key["children"][0]["topo"]}]
    ids = {"core": f"0-{cores - 1}", "gpu": f"0-{gpus - 1}"}
    return {
        "version": 1,
        "execution": {
            "R_lite": [{"rank": ranks, "children": ids}],
            "nodelist": [f"fake[0-{nodes - 1}]"],
            "properties": {"debug": f"0-{nodes // 2 - 1}"},
            "starttime": 0,
            "expiration": 0,
        },
        "scheduling": {**key, "children": children, "fabric": fabric(nodes)},
    }


def fabric(nodes):
    """The fabric of so many *nodes*, for the key."""

    def switch(first):
        return {"ranks": f"{first}-{min(first + SWITCH, nodes) - 1}"}

    racks = range(0, nodes, SWITCH * RACK)
    ends = [min(first + SWITCH * RACK, nodes) for first in racks]
    return {
        "rack": [
            {"name": f"r{number}", "switch": [switch(rank) for rank in range(first, end, SWITCH)]}
            for number, (first, end) in enumerate(zip(racks, ends))
        ]
    }
