"""The same question gets the same answer: nothing that was asked before, and no caller, counts."""

import json
import pickle
import random
import sys
from pathlib import Path

import pytest

from placement.test_work import HARD, UNEVEN, cluster, request
from treepool import parse_shape
from treepool.errors import InfeasibleRequest, InsufficientResources
from treepool.placement.pool import Pool
from treepool.rfc.jobspec import from_resources

VECTORS = Path(__file__).parents[2] / "testvectors"


def nodes_of_a(count):
    R = json.loads((VECTORS / "rfc49-cluster-a.json").read_text())["cluster"]["R"]
    (entry,) = R["execution"]["R_lite"]
    entry["rank"] = f"0-{count - 1}"
    R["execution"]["nodelist"] = [f"xeon[0-{count - 1}]"]
    R["scheduling"]["children"][0]["ranks"] = f"0-{count - 1}"
    return R


def answer(pool, shape, **options):
    """What *shape* gets on *pool*, which is left as it was; or the kind of error."""
    spec = {"resources": shape, **options}
    try:
        allocation = pool.alloc(-1, request(pool, spec["resources"]))
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


@pytest.mark.parametrize("size", [256, 1024])
def test_slots_by_the_thousand_in_few_domains_are_no_search(size):
    R = cluster(2)
    R["execution"]["R_lite"][0]["children"] = {"core": f"0-{2 * size - 1}"}
    sockets = [{"cores": f"0-{size - 1}"}, {"cores": f"{size}-{2 * size - 1}"}]
    R["scheduling"]["children"][0]["topo"] = {"socket": sockets}
    pool = Pool(R, locality="required")
    allocation = pool.alloc(1, request(pool, f"socket=2/slot={size}/core=1"))
    assert allocation.dumps() == f"rank0/core[0-{2 * size - 1}]"
    assert allocation.nslots == 2 * size


@pytest.mark.parametrize("shape", [*SHAPES, "slot=40/[numa/core=1;socket/core=1]"])
def test_how_deep_the_caller_stands_changes_no_answer(shape):
    pool = Pool(nodes_of_a(2))

    def at_depth(depth):
        return at_depth(depth - 1) if depth else answer(Pool(nodes_of_a(2)), shape)

    frame, used = sys._getframe(), 0
    while frame is not None:
        frame, used = frame.f_back, used + 1
    assert at_depth(sys.getrecursionlimit() - used - 120) == answer(pool, shape)


def two_sockets_of_l3(nodes=2, **properties):
    """Nodes of two sockets, each with six L3 domains of eight cores."""
    R = cluster(nodes)
    l3 = [[{"cores": f"{48 * s + 8 * i}-{48 * s + 8 * i + 7}"} for i in range(6)] for s in (0, 1)]
    R["scheduling"]["children"][0]["topo"] = {"socket": [{"l3": part} for part in l3]}
    R["execution"]["R_lite"][0]["children"] = {"core": "0-95"}
    if properties:
        R["execution"]["properties"] = {f"driver:{n}": ranks for n, ranks in properties.items()}
    return R


def test_slots_inside_a_domain_are_decided_by_arithmetic_too():
    pool = Pool(two_sockets_of_l3(4))
    for jobid, nodes in enumerate((1, 2)):
        wanted = request(pool, f"node={nodes}/socket/slot=12/l3=4/core=1")
        assert pool.alloc(jobid, wanted).nslots == 12 * nodes
    with pytest.raises(InfeasibleRequest, match="4 can serve it"):
        pool.alloc(3, request(pool, "node=5/socket/slot=12/l3=4/core=1"))


def test_what_was_found_before_a_search_was_given_up_is_an_answer():
    pool = Pool(two_sockets_of_l3(), locality="required")
    allocation = pool.alloc(1, request(pool, "slot=1+/l3=1+/core=1+"))
    assert allocation.dumps() == "rank[0-1]/core[0-95]"


def test_a_state_whose_search_gave_up_is_no_definite_no_the_second_time_either():
    R = cluster(3)
    R["scheduling"]["children"][0]["topo"] = UNEVEN
    pool = Pool(R)
    assert pool.choice(request(pool, HARD)).gave_up
    assert pool.choice(request(pool, HARD)).gave_up


def test_slots_with_memory_of_a_tier_are_laid_out():
    cxl = [{"cores": ids, "memory": 64} for ids in ("0-3", "4-7", "8-11")]
    R = cluster(2)
    R["execution"]["R_lite"][0]["children"] = {"core": "0-15"}
    R["scheduling"]["children"][0]["topo"] = {"socket": [{"cores": "0-15", "cxl": cxl}]}
    pool = Pool(R)
    assert pool.alloc(1, request(pool, "slot=3/cxl=2/[core=2;memory=64]")).nslots == 3


def test_of_nodes_alike_those_are_taken_on_which_counts_are_largest():
    R = two_sockets_of_l3(2, a="0", b="1")
    pool = Pool(R)
    pool.alloc(1, request(pool, "slot/core=92"))
    spec = from_resources(parse_shape("slot/core=2-8"), options={"same": "driver"})
    assert pool.alloc(2, pool.parse_resource_request(spec)).dumps() == "rank1/core[0-7]"


def test_equal_asks_are_equal_whatever_was_asked_in_between():
    pool = Pool(nodes_of_a(2))
    first = request(pool, "slot=3/numa=2/core=4")
    for number in range(1, 5000):
        request(pool, f"slot/core={number}")
    again = request(pool, "slot=3/numa=2/core=4")
    assert first == again
    assert first.ask == again.ask == pickle.loads(pickle.dumps(first.ask))
    assert hash(first) == hash(again)
