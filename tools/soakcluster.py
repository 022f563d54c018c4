"""The cluster of a soak: nodes, their fabric, queues, and how its scheduler is set up."""

#: What the nodes have: cores, GPUs.
CLUSTERS = {"a": (120, 8), "b": (96, 4)}

#: Nodes of a switch and switches of a rack.
SWITCH, RACK = 8, 8

#: The queues. Jobs of ``debug`` run on the first half of the nodes, by a property of that name.
QUEUES = ("batch", "debug", "large", "express")

#: The parents of virtual queues, where flux-core has these.
PARENTS = {"express": "batch"}

#: Schedulers with treepool's pool, as ``flux module load`` takes them.
SCHEDULERS = (
    ["sched-treepool"],
    ["sched-treepool", "policy=easy"],
    ["sched-treepool", "policy=conservative"],
    ["sched-treepool", "policy=easy", "node-policy=packing", "straddle=0"],
    ["sched-treepool", "policy=easy", "node-policy=worst-fit"],
    ["sched-treepool", "policy=easy", "node-policy=packing", "locality=none"],
    ["sched-treepool", "policy=conservative", "reservation-depth=4", "node-policy=first-fit"],
    ["sched-treepool", "policy=easy", "node-policy=best-fit", "queue-depth=8"],
)

#: Tables of the configuration, each for every one of the schedulers: their arguments count more.
TABLES = (
    {},
    {"policy": "conservative", "queues": {"debug": {"policy": "easy"}}},
    {"queues": {"large": {"policy": "conservative", "reservation-depth": 8}}},
    {"policy": "easy", "node-policy": "best-fit", "locality": "none"},
    {"policy": "easy", "reservation-depth": "unlimited"},
)


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
