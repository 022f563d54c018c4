"""Snapshots: the pool is the one that it was, the jobs go on, and a file may come from anyone."""

import json

import pytest

from depth import examples
from made import alloc, nodes
from treepool.errors import TreepoolError
from treepool.rfc import idset
from treepool.view import snapshot
from treepool.view.replay import Rules, continued, replay
from treepool.view.snapshot import InvalidSnapshot, Running, Snapshot
from view.counting import SHAPES, pool_with_jobs, some_R

#: When the snapshots of these tests are taken.
NOW = 1_000_000


def again(taken):
    """What is read from the file that has *taken*."""
    return snapshot.read(taken.text)


def outcome(pool, shape):
    """What a job gets of *pool*, or why it does not."""
    try:
        return alloc(pool.copy(), 99, shape).to_dict()["execution"]["R_lite"]
    except TreepoolError as e:
        return type(e).__name__, str(e)


# -- the pool


@pytest.mark.parametrize("seed", range(examples(40)))
def test_the_pool_of_a_snapshot_answers_as_the_one_it_was_taken_of(seed):
    pool, held = pool_with_jobs(some_R(), seed)
    pool.set_options(policy=("packing", "best-fit", "worst-fit")[seed % 3])
    pool.mark_down(idset.encode(1 << seed % 6))
    running = [
        Running(f"job{i}", "user1", allocation.parts, NOW + i) for i, allocation in held.items()
    ]
    other = running.pop().parts if running else ()
    taken = Snapshot(
        NOW,
        pool.inventory.resource_set,
        pool.options,
        down=pool.ranks & ~pool.up,
        running=tuple(running),
        other=other,
    )
    found = again(taken)
    assert found == taken
    same = found.pool()
    assert same.copy_allocated().to_dict() == pool.copy_allocated().to_dict()
    assert same.copy_down().to_dict() == pool.copy_down().to_dict()
    assert same.options == pool.options
    assert sorted(end for _, end in same.job_end_times() if end) == [job.end for job in running]
    for shape in SHAPES:
        assert outcome(same, shape) == outcome(pool, shape)


# -- the jobs


def document(running=(), pending=(), **more):
    """A snapshot of two nodes of eight cores.

    Running jobs are (job, parts, seconds that are left); those that wait are (job, shape, limit,
    keys). 0 is no limit.
    """
    return {
        "version": 1,
        "treepool": "",
        "time": NOW,
        "R": nodes("0-1"),
        "options": {},
        "down": "",
        "drained": "",
        "queues": {"": {"policy": "easy", "depth": 1}},
        "windows": [],
        "running": [
            {"job": job, "parts": [parts], **({"end": NOW + left} if left else {})}
            for job, parts, left in running
        ],
        "other": [],
        "pending": [
            {
                "job": job,
                "user": "user1",
                "priority": 16,
                "submit": NOW - 10,
                "shape": shape,
                **({"limit": limit} if limit else {}),
                **dict(*keys),
            }
            for job, shape, limit, *keys in pending
        ],
        "unreadable": 0,
        **more,
    }


def run(value, rules=None):
    """The outcome of the replay of a snapshot, as it goes on without others."""
    taken = snapshot.read(json.dumps(value))
    chosen = rules or Rules("as it was")
    return replay(taken.resource_set, continued(taken), chosen, snapshot=taken)


def starts(value, rules=None):
    """When each job that waited starts, in seconds after the snapshot."""
    found = run(value, rules).starts
    assert all(one.after is None or one.start == NOW + one.after for one in found)
    return {one.job: one.after for one in found}


def where(value, rules):
    """The ranks of the jobs that start, those that run already first."""
    taken, found = snapshot.read(value), []

    def watch(_job, _start, allocation):
        found.append(allocation.ranks)

    replay(taken.resource_set, continued(taken), rules, watch=watch, snapshot=taken)
    return found


def by(policy):
    """Rules as ``--compare policy=...`` has them."""
    return Rules(policy, policy, given=frozenset({"policy"}))


def reserving(number):
    """Rules as ``--compare reservation-depth=...`` has them."""
    return Rules("depth", depth=number, given=frozenset({"reservation-depth"}))


FULL = ["0-1", "0-7", ""]
NODE, HALF = ["0", "0-7", ""], ["1", "0-3", ""]
BUSY = [("a", NODE, 100), ("b", HALF, 50)]


def test_running_jobs_end_at_their_limits_and_the_others_start_in_their_order():
    value = document(BUSY, [("c", "slot=2/node{x}", 30), ("d", "slot=1/core=4", 200)])
    assert starts(value) == {"c": 100, "d": 130}
    told = run(value)
    assert (told.wait.max, told.jobs, told.span) == (140, 2, 330)
    assert told.last_start == 130
    assert told.cores_used == pytest.approx((800 + 200 + 480) / (16 * 130))


def test_another_number_of_reservations_leaves_policies_as_they_were():
    first, second = ({"constraint": {"ranks": [rank]}} for rank in "01")
    for policy, queues, one in (
        ("fifo", {}, {"c": 100, "d": 100, "e": 130}),
        ("easy", {}, {"c": 100, "d": 60, "e": 0}),
        ("fifo", {"q": {"policy": "easy"}}, {"c": 100, "d": 60, "e": 0}),
    ):
        waiting = [
            ("c", "slot=1/node{x}", 30, {**first, "queue": "q"}),
            ("d", "slot=1/node{x}", 30, {**second, "queue": "q"}),
            ("e", "slot=1/core=4", 60, {**second, "queue": "q"}),
        ]
        value = document(BUSY, waiting, queues={"": {"policy": policy}, "q": {}, **queues})
        assert starts(value) == one
        two = one if one["e"] else {"c": 100, "d": 50, "e": 80}
        assert starts(value, reserving(2)) == two


def test_a_queue_is_not_the_property_of_its_name():
    """What the queue requires is in the constraint of a job already."""
    value = document([], [("c", "slot=1/core", 30, {"queue": "batch"})])
    value["R"]["execution"]["properties"] = {"batch": "1"}
    assert where(value, Rules()) == [(0,)]


def test_priorities_and_queues_are_as_they_were():
    waiting = [("c", "slot=2/node{x}", 30), ("d", "slot=2/node{x}", 30, {"priority": 20})]
    assert starts(document(BUSY, waiting)) == {"c": 130, "d": 100}
    queues = {"": {"policy": "fifo"}, "batch": {}, "express": {"parent": "batch"}, "other": {}}
    for queue, start in (("batch", 130), ("express", 130), ("other", 0)):
        waiting = [
            ("c", "slot=2/node{x}", 30, {"queue": "batch"}),
            ("d", "slot=1/core=4", 50, {"queue": queue}),
        ]
        assert starts(document(BUSY, waiting, queues=queues)) == {"c": 100, "d": start}


def test_options_are_as_they_were_unless_others_are_given():
    waiting, half = [("c", "slot=1/core=4", 9)], [("b", ["1", "0-3", ""], 50)]
    value = document(half, waiting, options={"policy": "worst-fit"})
    assert where(value, Rules("as it was")) == [(1,), (0,)]
    assert where(value, Rules("x", pool={"policy": "best-fit"})) == [(1,), (1,)]


def test_windows_keep_jobs_away_but_for_those_of_their_users_and_queues():
    window = {"name": "w", "hosts": "n[0-1]", "start": NOW + 60, "end": NOW + 500}
    waiting = [
        ("c", "slot=1/core=4", 100),
        ("d", "slot=1/core=4", 100, {"user": "user2"}),
        ("e", "slot=1/core=4", 100, {"queue": "batch"}),
        ("f", "slot=1/core=4", 50),
    ]
    queues = {"": {"policy": "easy"}, "batch": {"policy": "easy"}}
    kept = {**window, "users": ["user2"], "queues": ["batch"]}
    value = document(pending=waiting, windows=[kept], queues=queues)
    assert starts(value) == {"c": 500, "d": 0, "e": 0, "f": 0}
    open_now = {**kept, "start": NOW - 60}
    value = document(pending=waiting, windows=[open_now], queues=queues)
    assert starts(value) == {"c": 500, "d": 0, "e": 0, "f": 500}


def test_jobs_of_stopped_queues_do_not_start_nor_hold_up_others():
    queues = {"": {"policy": "fifo"}, "a": {"stopped": True}, "b": {"parent": "a"}, "c": {}}
    for name, jobs in (("a", {"d": 0}), ("b", {"d": 0}), ("c", {"c": 100, "d": 0})):
        waiting = [
            ("c", "slot=2/node{x}", 30, {"queue": name}),
            ("d", "slot=1/core=4", 50, {"queue": "d"}),
        ]
        assert starts(document(BUSY, waiting, queues=queues)) == jobs


def test_what_waits_for_a_job_without_a_limit_or_for_a_node_that_is_down_is_not_told():
    waiting = [("c", "slot=2/node{x}", 30), ("d", "slot=1/core=4", 0), ("e", "slot=1/core=4", 50)]
    endless = document([("a", NODE, 0), ("b", HALF, 50)], waiting)
    assert starts(endless) == {"c": None, "d": 0, "e": 50}
    assert run(endless).span == 100
    held = document(BUSY[1:], waiting, other=[["0", "0-7", ""]])
    assert starts(held) == {"c": None, "d": 0, "e": 50}
    down = document(BUSY[1:], waiting, down="0")
    assert starts(down) == {"c": None, "d": 0, "e": 50}


def test_a_job_that_is_over_its_limit_ends_at_once():
    value = document([("a", FULL, -100)], [("c", "slot=2/node{x}", 30)])
    assert starts(value)["c"] == pytest.approx(0, abs=0.01)


def test_who_waits_for_a_close_place_has_waited_before_the_snapshot():
    topo = {"socket": [{"cores": "0-3"}, {"cores": "4-7"}]}
    value = document(
        [("a", ["0", "0,4", ""], 500)],
        [("c", "slot=1/core=4", 9, {"options": {"wait": 60}})],
        R=nodes(topo=topo),
    )
    assert starts(value) == {"c": 50}


# -- the file


def changed(path, new):
    """A good snapshot with *new* at *path*."""
    value = document(
        BUSY,
        [("c", "slot=1/core", 5)],
        windows=[{"name": "w", "hosts": "n0", "start": 1, "end": 2}],
    )
    *keys, last = path
    inner = value = json.loads(json.dumps(value))
    for key in keys:
        inner = inner[key]
    inner[last] = new
    return value


@pytest.mark.parametrize(
    ("path", "new", "said"),
    [
        (["version"], 2, "/version: must be 1, not 2"),
        (["more"], 1, "/more: unknown key"),
        (["R", "execution", "R_lite", 0, "rank"], "x", "/R/execution/R_lite/0/rank: "),
        (["R", "scheduling"], {"writer": "TreePool", "children": 1}, "/R/scheduling/children: "),
        (["options", "policy"], "best", "/options: unknown policy 'best'"),
        (["options"], {"self": "1"}, "/options: unknown option 'self'"),
        (["down"], "2", "/down: ranks 2 are not in R"),
        (["queues", "", "policy"], "best", "/queues//policy: must be one of"),
        (["queues", "a"], {"depth": 1}, "/queues/a: key 'policy' is missing"),
        (["windows", 0, "end"], 1, "/windows/0/end: must be later than the start"),
        (["running", 0, "parts", 0], ["0", "0-7"], "/running/0/parts/0: must be a list of three"),
        (["running", 0, "parts", 0, 0], "5", "/running/0/parts/0/0: ranks 5 are not in R"),
        (["running", 0, "parts", 0, 1], "0-8", "/running/0/parts: rank0/core8 is not in the pool"),
        (["running", 0, "parts", 0, 1], "", "/running/0/parts/0: has neither cores nor GPUs"),
        (["running", 1, "parts", 0, 0], "0", "/running/1/parts: rank0/core[0-3] is allocated"),
        (["running", 1, "parts"], [HALF, HALF], "/running/1/parts/1/0: ranks 1 are in an earlier"),
        (["other"], [["0-1", "7", ""]], "/other: rank0/core7 is allocated already"),
        (["running", 1, "job"], "a", "/running/1/job: another job is called 'a', too"),
        (["pending", 0, "job"], "a", "/pending/0/job: another job is called 'a', too"),
        (["pending", 0, "priority"], -1, "/pending/0/priority: must be at least 0"),
        (["pending", 0, "limit"], 0, "/pending/0/limit: must be at least 1e-06"),
        (["pending", 0, "constraint"], {"x": []}, "/pending/0/constraint"),
        (["pending", 0, "options"], {"wait": -1}, "/pending/0/options/wait: -1 is not a number"),
        (["pending", 0, "environment"], {}, "/pending/0/environment: unknown key"),
    ],
)
def test_what_is_wrong_is_named_by_its_pointer(path, new, said):
    with pytest.raises(InvalidSnapshot) as caught:
        snapshot.read(json.dumps(changed(path, new)))
    assert str(caught.value).startswith(said)


def test_a_shape_that_the_cluster_does_not_know_is_named_by_its_place():
    with pytest.raises(ValueError, match=r"^/pending/0: .*numa"):
        run(document(pending=[("c", "slot=1/numa/core", 5)]))
