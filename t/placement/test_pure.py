"""The same question gets the same answer: nothing that was asked before, and no caller, counts."""

import json
import random
import sys
from pathlib import Path

import pytest

from made import asked as request
from made import nodes
from treepool.errors import InfeasibleRequest, InsufficientResources
from treepool.placement.pool import Pool

VECTORS = Path(__file__).parents[2] / "testvectors"


def nodes_of_a(count):
    R = json.loads((VECTORS / "rfc49-cluster-a.json").read_text())["cluster"]["R"]
    return nodes(f"0-{count - 1}", "0-119", "0-7", R["scheduling"]["children"][0]["topo"])


def answer(pool, shape):
    """What *shape* gets on *pool*, which is left as it was; or the kind of error."""
    try:
        allocation = pool.alloc(-1, request(pool, shape))
    except (InfeasibleRequest, InsufficientResources) as e:
        return type(e).__name__, str(e)
    pool.free(-1)
    return allocation.dumps()


SHAPES = [
    "socket=1/slot=60/numa/core=1",
    "slot=3/numa=2/core=4",
    "slot=2/[core=3;numa=2{x}]",
    "slot/[numa=2/core=3;socket/core=4]",
    "node/slot=3/[numa=3/core=2;socket=2/core=1]",
    "slot=1-9/[core=7;gpu=1]",
    "slot/core=4-60",
]


@pytest.mark.depth
def test_what_thousands_of_operations_asked_before_changes_no_answer():
    pool = Pool(nodes_of_a(8))
    before = [answer(pool, shape) for shape in SHAPES]
    rng = random.Random(0)
    live = []
    requests = [request(pool, shape) for shape in SHAPES]
    for jobid in range(3000):
        if live and rng.random() < 0.45:
            pool.free(live.pop(rng.randrange(len(live))))
        try:
            pool.alloc(jobid, rng.choice(requests))
            live.append(jobid)
        except InsufficientResources:
            pass
    assert [answer(Pool(nodes_of_a(8)), shape) for shape in SHAPES] == before
    for jobid in live:
        pool.free(jobid)
    assert [answer(pool, shape) for shape in SHAPES] == before


@pytest.mark.parametrize("shape", [*SHAPES, "slot=40/[numa/core=1;socket/core=1]"])
def test_how_deep_the_caller_stands_changes_no_answer(shape):
    pool = Pool(nodes_of_a(2))

    def at_depth(depth):
        return at_depth(depth - 1) if depth else answer(Pool(nodes_of_a(2)), shape)

    frame, used = sys._getframe(), 0
    while frame is not None:
        frame, used = frame.f_back, used + 1
    assert at_depth(sys.getrecursionlimit() - used - 120) == answer(pool, shape)
