"""What histories are made of: clusters, requests, queues, questions."""

import math

from treepool import parse_shape

#: When histories begin. All times are whole seconds, so that sums are exact.
BEGIN = 1_700_000_000.0

SHAPES = (
    "slot/core=1", "slot/core=3", "slot=2/core=2", "slot=5/core=2", "slot=2/node/core=4",
    "slot/node{x}", "slot=3/[core=1;gpu=1]", "node=2/slot/socket{x}", "slot/socket/core=3",
    "node=3/slot/core=2", "slot=1-4/core=2", "slot/gpu=1", "node=2/slot/core=6",
)  # fmt: skip

#: What no idle cluster of these could serve, or nobody can read.
BAD = ("slot/core=99", "node=9/slot/core=1", "slot/rack/core=1")

QUEUES = {
    "a": {"policy": "easy"},
    "b": {"policy": "conservative", "reservation-depth": 3},
    "c": {"policy": "fifo"},
    "d": {"policy": "conservative", "reservation-depth": "unlimited"},
}

#: Questions of guests, good and bad.
QUESTIONS = (
    ("look", {}),
    ("jobs", {}),
    ("numbers", {}),
    ("totals", {"drained": ["0-1"]}),
    ("totals", {"users": True}),
    ("job", {"id": 1}),
    ("job", {"id": 3}),
    ("job", {"id": None}),
    ("ask", {"resources": parse_shape("slot/core=3"), "duration": 10, "queue": "a"}),
    ("ask", {"resources": parse_shape("node=4/slot/core=8"), "duration": 0, "queue": "d"}),
    ("ask", {"resources": 5}),
    ("ask", "no JSON"),
    ("window-list", {}),
)

#: Values that are of no type or size that anyone expects somewhere.
VALUES = (
    *(None, True, -1, 0, 1.5, 2**63, 2**1100, math.inf, math.nan, "", "n[0-9999999]", "\ud800"),
    *("9" * 5000, [], {}, [[[[]]]], {"": {"": []}}, ["root"], "unlimited", "0-4194305"),
)


def R_of(nodes, fabric):
    topo = {"socket": [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1"}]}
    ranks = f"0-{nodes - 1}"
    switches = [{"ranks": "0-1"}, {"ranks": f"2-{nodes - 1}"}]
    key = {"writer": "TreePool", "children": [{"ranks": ranks, "topo": topo}]}
    return {
        "version": 1,
        "execution": {
            "R_lite": [{"rank": ranks, "children": {"core": "0-7", "gpu": "0-1"}}],
            "nodelist": [f"n[{ranks}]"],
            "starttime": 0,
            "expiration": 0,
        },
        "scheduling": {**key, "fabric": {"switch": switches}} if fabric else key,
    }
