"""Each node, core and GPU is in one state; queues, kinds and domains have what they have."""

import random
from collections import Counter

import pytest

from generators import outcome
from made import alloc, nodes
from treepool.flux.submissions import UNKNOWN
from treepool.flux.totals import REASONS, totals
from treepool.placement.held import HELD_BACK
from treepool.placement.plan.queue import Queue
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.queues import Queues
from view import counting

NONE = Queues({}, {})
FABRIC = {"rack": [{"name": "a", "switch": [{"name": "s", "ranks": "0-3"}, {"ranks": "4-7"}]},
                   {"name": "b", "switch": [{"name": "s", "ranks": "8-11"}]}]}  # fmt: skip


def counted(pool, queues=NONE, waits=(), drained=(), user_of=None):
    queue = Queue(pool, None, lambda: 1000.0)
    return outcome(totals(queue, queues, iter(waits), drained, user_of))


def added(parts):
    """The sum of counts."""
    found = {what: Counter() for what in ("nodes", "cores", "gpus")}
    for counts in parts:
        for what, states in counts.items():
            found[what].update(states)
    return {what: dict(states) for what, states in found.items()}


@pytest.mark.parametrize("seed", range(30))
def test_states_are_those_that_a_slow_count_finds_and_kinds_add_up(seed):
    R, chance = counting.some_R(), random.Random(seed)
    pool, running = counting.pool_with_jobs(R, seed)
    ranks = list(range(6))
    chance.shuffle(ranks)
    down, drained = ranks[: chance.randint(0, 2)], ranks[2 : 2 + chance.randint(0, 2)]
    pool.mark_down(idset.encode_ids(sorted(down + drained)))
    # Whoever asks may name any ranks; those that are up, or not there, are not drained.
    named = idset.from_ids([*drained, *ranks[4:], 99])
    wanted = counting.numbers(R, [a.to_dict() for a in running.values()], down, drained)
    found = counted(pool, drained=[named & 5, named & ~5])
    states = dict(
        zip(("idle", "partly", "full", "down", "drained"), found["all"]["nodes"].values())
    )
    assert states == {state: wanted[state] for state in states}
    for what in ("cores", "gpus"):
        of = found["all"][what]
        assert of["free"] == wanted[f"{what}_free"]
        assert of["allocated"] == wanted[f"{what}_used"]
        assert sum(of.values()) == wanted[what], "each is in one state"
    assert found["gpus_stranded"] == pytest.approx(wanted["gpus_stranded"])
    assert len(found["kinds"]) == 3
    assert added(found["kinds"].values()) == found["all"]


def test_what_is_free_on_a_drained_node_is_drained_and_what_a_job_has_there_is_allocated():
    pool = Pool(nodes("0-1", "0-7", "0-1"))
    alloc(pool, 1, "slot/[core=3;gpu=1]")
    pool.mark_down("0")
    found = counted(pool, drained=[1])["all"]
    assert found["nodes"] == {"free": 1, "partial": 0, "allocated": 0, "down": 0, "drained": 1}
    assert found["cores"] == {"free": 8, "allocated": 3, "down": 0, "drained": 5}
    assert found["gpus"] == {"free": 2, "allocated": 1, "down": 0, "drained": 1}


def test_a_queue_has_the_nodes_that_it_requires_and_a_virtual_one_counts_with_its_parent():
    R = nodes("0-5", properties={"fast": "0-1", "big": "1-4"})
    tables = {"all": {}, "express": {"parent": "fast"}, "fast": {"requires": ["fast"]}}
    queues = Queues({**tables, "both": {"requires": ["fast", "big"]}}, {})
    pool = Pool(R)
    alloc(pool, 1, "slot/node{x}")
    found = counted(pool, queues)
    sizes = {name: sum(of["nodes"].values()) for name, of in found["queues"].items()}
    assert sizes == {"all": 6, "fast": 2, "both": 1}
    assert found["queues"]["fast"]["cores"]["allocated"] == 8
    assert set(found["waiting"]) == set(found["reserved"]) == set(sizes)


def test_domains_of_a_level_add_up_and_have_names_of_their_own():
    pool = Pool(nodes("0-11", "0-7", "0-3", fabric=FABRIC))
    alloc(pool, 1, "slot=4/rack/node{x}")
    pool.mark_down("4-7")
    found = counted(pool)
    switches, racks = found["levels"]["switch"], found["levels"]["rack"]
    assert set(racks["inside"]) == {"a", "b"}
    assert set(switches["inside"]) == {"s", "of rank 4", "s of rank 8"}
    for level in (switches, racks):
        assert added(level["inside"].values()) == found["all"]
    assert switches["domains"] == {"free": 1, "partial": 0, "allocated": 1, "down": 1}
    assert racks["domains"]["free"] + racks["domains"]["allocated"] == 2
    assert (switches["largest"], racks["largest"]) == (4, 4)
    assert switches["where"] in ("s", "of rank 4"), "the first with the most free nodes"
    pool.mark_down("0-11")
    assert counted(pool)["levels"]["rack"]["largest"] == 0


def test_who_names_nodes_that_are_drained_is_told_their_hosts():
    R = nodes("0-3", properties={})
    R["execution"]["nodelist"] = ["n[0-3]"]
    pool = Pool(R)
    pool.mark_down("1-2")
    told = counted(pool, drained=[1 << 1 | 1 << 2, 1 << 9])["drained"]
    assert told == [{"ranks": "1-2", "hosts": "n[1-2]"}, {"ranks": "", "hosts": ""}]


def test_where_there_are_many_domains_or_kinds_there_are_few_names():
    switches = [{"name": f"s{i}", "ranks": str(i)} for i in range(100)]
    R = nodes("0-99", fabric={"switch": switches})
    R["execution"]["R_lite"] = [
        {"rank": str(i), "children": {"core": f"0-{i + 1}"}} for i in range(100)
    ]
    pool = Pool(R)
    alloc(pool, 1, "slot=90/node/core=1")
    found = counted(pool)
    assert found["levels"]["switch"]["inside"] == {}
    assert sum(found["levels"]["switch"]["domains"].values()) == 100
    assert len(found["kinds"]) <= 33
    assert added(found["kinds"].values()) == found["all"]


def test_jobs_that_wait_are_counted_by_queue_and_reason_and_each_reason_is_there():
    waits = [("", 7, "in-use"), ("", 8, "ahead"), ("", 7, "ahead"), ("", 7, UNKNOWN)]
    found = counted(Pool(nodes()), waits=waits)["waiting"]
    assert set(found[""]) == set(REASONS)
    assert +Counter(found[""]) == {"in-use": 1, "ahead": 2, UNKNOWN: 1}


def test_a_user_has_what_his_jobs_have_and_a_node_counts_once():
    pool, users = Pool(nodes("0-2", "0-7", "0-1")), {1: 7, 2: 7, 3: 8}
    alloc(pool, 1, "slot/[core=2;gpu=1]")
    alloc(pool, 2, "slot/core=2")
    alloc(pool, 3, "slot=2/node/core=4")
    pool.occupy(HELD_BACK, [(1 << 2, 1 << 7, 0)])
    found = counted(pool, waits=[("", 8, "ahead"), ("", 9, "ahead")], user_of=users.get)["users"]
    assert found["7"] == {"nodes": 1, "cores": 4, "gpus": 1, "running": 2, "waiting": 0}
    assert found["8"] == {"nodes": 2, "cores": 8, "gpus": 0, "running": 1, "waiting": 1}
    assert found["9"] == {"nodes": 0, "cores": 0, "gpus": 0, "running": 0, "waiting": 1}
    assert "users" not in counted(pool)


def test_nodes_are_counted_as_they_are_at_one_moment():
    pool = Pool(nodes("0-9999"))
    alloc(pool, 1, "slot=9999/node{x}")
    queue = Queue(pool, None, lambda: 1000.0)
    counting_ = totals(queue, NONE, iter(()))
    next(counting_)
    pool.free(1)
    assert outcome(counting_)["all"]["nodes"]["allocated"] == 9999
