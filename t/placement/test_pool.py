"""What each method of Pool does, one case at a time, and what it says when it can not."""

from __future__ import annotations

import copy
import json

import pytest

from made import nodes
from placement.strategies import jobspec
from treepool import ResourceSet, parse_shape, subinstance
from treepool.errors import (
    InfeasibleRequest,
    InsufficientResources,
    InvalidIdset,
    InvalidJobspec,
    InvalidKey,
    InvalidOption,
    InvalidR,
    PoolConflict,
)
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.jobspec import from_resources

#: Two sockets of two NUMA domains, each with four cores and a GPU.
TOPO = {
    "socket": [
        {"numa": [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1"}]},
        {"numa": [{"cores": "8-11", "gpus": "2"}, {"cores": "12-15", "gpus": "3"}]},
    ]
}


def cluster(ranks="0-3", cores="0-15", gpus="0-3", topo=TOPO, **execution):
    """The R of some nodes with this topo (None: no key)."""
    return nodes(ranks, cores, gpus, topo, **{"starttime": 0.0, "expiration": 0.0, **execution})


def spec(shape, duration=0.0, constraints=None, **options):
    """A jobspec for a shape."""
    return from_resources(parse_shape(shape), duration, constraints, options or None)


def alloc(pool, jobid, shape, **system):
    """What job *jobid* gets, in short form."""
    return pool.alloc(jobid, pool.parse_resource_request(spec(shape, **system))).dumps()


@pytest.fixture
def pool():
    return Pool(cluster())


# ---- Pool(R) ----


@pytest.mark.parametrize("form", [dict, json.dumps, ResourceSet.read])
def test_a_pool_is_made_from_an_object_from_its_text_and_from_a_resource_set(form):
    assert Pool(form(cluster())).dumps() == "rank[0-3]/core[0-15],gpu[0-3]"


@pytest.mark.parametrize(
    ("R", "error", "message"),
    [
        ("{", InvalidR, "line 1 column 2"),
        ({}, InvalidR, "execution"),
        ({**cluster(), "version": 2}, InvalidR, "/version"),
        ({**nodes("4-9", topo=TOPO), **nodes("0-3")}, InvalidKey, "4-9.*0-3"),
    ],
)
def test_a_wrong_R_makes_no_pool(R, error, message):
    with pytest.raises(error, match=message):
        Pool(R)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"colour": "red"}, "unknown option 'colour'.*locality, policy"),
        ({"locality": "near"}, "unknown locality 'near'.*preferred, required, none"),
        ({"locality": None}, "unknown locality None"),
        ({"policy": "worst"}, "unknown policy 'worst'.*best-fit"),
        ({"policy": []}, "unknown policy"),
        ({"beta": "0.5"}, "beta: the weights of fitness are fixed now, leave it out"),
        ({"policy": "gpu-sparing"}, "unknown policy 'gpu-sparing', now packing, known: packing,"),
    ],
)
def test_an_unknown_option_or_value_is_an_error_that_lists_the_known_ones(options, message):
    with pytest.raises(InvalidOption, match=message):
        Pool(cluster(), **options)


def test_the_R_that_a_pool_is_made_from_is_left_as_it_is():
    R = cluster()
    before = copy.deepcopy(R)
    pool = Pool(R)
    alloc(pool, 1, "slot=2/[core=3;gpu=1]")
    pool.remove_ranks("0")
    assert before == R


#: A key of Fluxion, which writes no writer.
GRAPH = {"graph": {"nodes": []}}


@pytest.mark.parametrize(
    ("key", "carried"), [({"writer": "other", **GRAPH}, True), ({"site": 1}, True), (GRAPH, False)]
)
def test_a_key_of_another_scheduler_makes_flat_nodes_and_is_carried_along_but_Fluxions(
    key, carried
):
    R = {**cluster(topo=None), "scheduling": key}
    pool = Pool(R)
    given = pool.alloc(1, pool.parse_resource_request(spec("slot/core=5"))).to_dict()
    assert given.get("scheduling") == (R["scheduling"] if carried else None)
    assert given["execution"]["R_lite"] == [{"rank": "0", "children": {"core": "0-4"}}]


@pytest.mark.parametrize("nodelist", [{}, {"nodelist": [""]}])
@pytest.mark.parametrize("key", [{}, {"scheduling": cluster()["scheduling"]}])
def test_a_pool_without_nodes_serves_nothing(nodelist, key):
    pool = Pool({"version": 1, "execution": {"R_lite": [], **nodelist}, **key})
    for shape in ("slot/core", "slot=2/gpu", "node=2/slot/[core=1;gpu=1]", "node{x}/slot/core"):
        request = pool.parse_resource_request(spec(shape))
        for call in (lambda r: pool.check_feasibility(r), lambda r: pool.alloc(1, r)):
            with pytest.raises(InfeasibleRequest, match="the pool has no nodes"):
                call(request)
    with pytest.raises(PoolConflict, match="rank 0 is not in the pool"):
        pool.register_alloc(1, nodes("0", "0-3"))
    pool.mark_down("all")
    pool.mark_up("0-3")
    pool.remove_ranks("0")
    for one in (pool, pool.copy(), pool.copy_idle()):
        assert (one.ranks, one.up, one.localities, one.dumps()) == (0, 0, (), "")
        assert one.to_dict()["execution"]["R_lite"] == []
        assert one.copy_allocated().mask == one.copy_down().mask == 0


def test_a_pool_whose_last_node_is_removed_serves_nothing():
    pool = Pool(cluster("0"))
    request = pool.parse_resource_request(spec("slot/core"))
    pool.remove_ranks("0")
    with pytest.raises(InfeasibleRequest, match="the pool has no nodes"):
        pool.alloc(1, request)
    assert pool.to_dict()["execution"]["R_lite"] == []


# ---- parse_resource_request ----


@pytest.mark.parametrize(
    ("shape", "pointer", "kind", "why"),
    [
        ("slot/rack", "/0/with/0", "rack", "unknown.*node, slot, core, gpu, memory.*numa, socket"),
        ("slot/l3{x}", "/0/with/0", "l3", "unknown"),
        ("slot/memory=4", "/0", "slot", "neither cores nor GPUs"),
        ("slot/numa{-x}/memory=4", "/0/with/0", "numa", "nothing is asked for"),
        ("slot/[core;memory=4{unit:Gb}]", "/0/with/1", "memory", "unknown unit 'Gb'.*GiB"),
        ("slot/[core;memory=4{x}]", "/0/with/1", "memory", "exclusive has no meaning"),
        ("slot/[core;core]", "/0/with/1", "core", "second"),
        ("slot/core/gpu", "/0/with/0/with/0", "gpu", "below core"),
        ("slot/core{-x}", "/0/with/0", "core", "exclusive"),
        ("slot/core{unit:GB}", "/0/with/0", "core", "unit"),
        ("slot/socket/node/core", "/0/with/0/with/0", "node", "directly below slot"),
        ("socket/node/slot/core", "/0/with/0", "node", "nothing but slot"),
        ("node/slot/node", "/0/with/0/with/0", "node", "cannot span"),
        ("slot/node/node", "/0/with/0/with/0", "node", "node"),
        ("slot/[node;core]", "/0/with/0", "node", "beside"),
        ("[slot{a}/core;slot{b}/core]", "/1", "slot", "only one vertex"),
        ("slot{a}/node/slot{b}/core", "/0/with/0/with/0", "slot", "a second"),
        ("core", "/0", "core", "no slot above"),
        ("node", "/0", "node", "no slot above or below"),
        ("node/core", "/0/with/0", "core", "no slot above"),
        ("slot{a,-x}/core", "/0", "slot", "exclusive"),
        ("slot{a,unit:GB}/core", "/0", "slot", "unit"),
    ],
)
def test_what_no_form_covers_is_refused_by_name(pool, shape, pointer, kind, why):
    with pytest.raises(InvalidJobspec, match=why) as caught:
        pool.parse_resource_request(jobspec(parse_shape(shape)))
    assert str(caught.value).startswith(f"/resources{pointer}: ")
    assert repr(kind) in str(caught.value)


def test_a_jobspec_may_be_text(pool):
    request = pool.parse_resource_request(json.dumps(spec("slot/core")))
    assert request == pool.parse_resource_request(spec("slot/core"))


# ---- check_feasibility ----


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ("slot/core=17", "no node has 17 cores: the largest has 16"),
        ("slot=5/core=16", "5 slots.*room for 4"),
        ("slot/numa=5{x}", "5 whole numa domains: the most that one has is 4"),
        ("slot/numa{x}/core=5", "no numa domain has 5 cores: the largest has 4"),
        ("slot/numa/socket/core", "no numa has a socket domain$"),
        ("slot=17/numa{x}", "17 slots.*room for 16"),
        ("node=5/slot/core", "5 nodes.*in the pool, 4 can serve"),
        ("node/slot=5/core=4", "each node is to host 5 slots: the most that fits is 4"),
        ("slot=3/node=2", "6 nodes .3 slots of 2.*4 can serve"),
        ("slot=5/node{x}", "5 nodes.*4 can serve"),
    ],
)
def test_the_reason_names_the_number_that_does_not_fit(pool, shape, reason):
    request = pool.parse_resource_request(spec(shape))
    with pytest.raises(InfeasibleRequest, match=reason) as caught:
        pool.check_feasibility(request)
    assert "\n" not in str(caught.value)
    with pytest.raises(InfeasibleRequest, match=reason):
        pool.alloc(1, request)
    assert pool.job_end_times() == []


TIB = 1 << 40


@pytest.mark.parametrize(
    ("has", "asked", "reason"),
    [
        (2 * TIB - 1, "2{unit:TiB}", "has storage of 2 TiB: the largest has 1.9 TiB"),
        (2 * TIB, "2049{unit:GiB}", "has storage of 2.1 TiB: the largest has 2 TiB"),
    ],
)
def test_what_is_too_little_does_not_look_like_enough(has, asked, reason):
    pool = Pool(cluster(topo={**TOPO, "storage": [{"path": "/", "capacity": has, "unit": "B"}]}))
    request = pool.parse_resource_request(spec(f"slot/[core;storage={asked}]"))
    with pytest.raises(InfeasibleRequest, match=reason):
        pool.check_feasibility(request)


@pytest.mark.parametrize(
    ("constraints", "shape", "reason"),
    [
        ({"properties": ["red"]}, "slot/core", "no node satisfies the constraints"),
        ({"ranks": ["2"]}, "node=2/slot/core", "2 nodes.*satisfy the constraints, 1 can serve"),
        ({"hostlist": ["n[0-1]"]}, "slot=3/core=16", "3 slots.*room for 2"),
    ],
)
def test_constraints_count_in_what_is_feasible(pool, constraints, shape, reason):
    request = pool.parse_resource_request(spec(shape, constraints=constraints))
    with pytest.raises(InfeasibleRequest, match=reason):
        pool.check_feasibility(request)


@pytest.mark.parametrize(
    ("constraints", "shape", "reason"),
    [
        ({"ranks": ["4"]}, "slot/gpu", "no node has 1 GPU: the largest has 0, {}"),
        ({"ranks": ["0,4"]}, "switch/node=2/slot/core", "the largest has 1, {}"),
        ({"ranks": ["0"]}, "slot/numa/core=5", "the largest has 4, {}"),
        ({"properties": ["^red"]}, "slot/core=99", "the largest has 16"),
        (None, "slot/core=99", "the largest has 16"),
    ],
)
def test_what_no_node_has_is_told_of_those_that_the_constraints_leave(constraints, shape, reason):
    """Other nodes may have it, such as those of another queue."""
    R = cluster()
    R["execution"]["R_lite"].append({"rank": "4", "children": {"core": "0-15"}})
    R["execution"]["nodelist"] = ["n[0-4]"]
    R["scheduling"]["fabric"] = {"switch": [{"ranks": "0-3"}, {"ranks": "4"}]}
    pool = Pool(R)
    request = pool.parse_resource_request(spec(shape, constraints=constraints))
    with pytest.raises(InfeasibleRequest) as refused:
        pool.check_feasibility(request)
    only = "counting only nodes that satisfy the constraints"
    assert str(refused.value).endswith(reason.format(only))


def test_who_gives_no_constraints_is_not_told_of_any():
    R = cluster()
    R["execution"]["properties"] = {"rack:a": "0-1", "rack:b": "2-3"}
    pool = Pool(R)
    reason = "on nodes of the same rack: no node has 99 cores: the largest has 16"
    only = ", counting only nodes that satisfy the constraints"
    for constraints, end in (None, ""), ({"ranks": ["0-3"]}, ""), ({"ranks": ["0-2"]}, only):
        asked = spec("slot/core=99", constraints=constraints, same="rack")
        with pytest.raises(InfeasibleRequest) as refused:
            pool.check_feasibility(pool.parse_resource_request(asked))
        assert str(refused.value) == reason + end


# ---- What comes out ----


def test_the_R_of_a_job():
    R = cluster(ranks="2,5,7-8", properties={"fast": "2,5", "slow": "8", "+here": "2,5,7-8"})
    R["scheduling"]["children"] = [
        {"ranks": "8", "topo": {"socket": [{"cores": "0-15", "gpus": "0-3"}]}},
        {"ranks": "2,5", "topo": TOPO},
    ]
    R["scheduling"]["site"] = {"rack": 3}
    pool = Pool(R)
    pool.mark_down("8")
    request = pool.parse_resource_request(spec("slot=2-3/node/core=4"))
    allocation = pool.alloc(1, request)
    allocation.set_starttime(10.0)
    allocation.set_expiration(20.0)
    flat = {"cores": "0-15", "gpus": "0-3"}
    assert allocation.to_dict() == {
        "version": 1,
        "execution": {
            "R_lite": [{"rank": "2,5,7", "children": {"core": "0-3"}}],
            "nodelist": ["n[2,5,7]"],
            "nslots": 3,
            "properties": {"fast": "2,5"},
            "starttime": 10.0,
            "expiration": 20.0,
        },
        "scheduling": {
            "writer": "TreePool",
            "children": [
                {"ranks": "2,5", "topo": TOPO, "allocated": {"cores": "0-3"}},
                {"ranks": "7", "topo": flat, "allocated": {"cores": "0-3"}},
            ],
            "site": {"rack": 3},
        },
    }
    assert json.loads(allocation.encode()) == allocation.to_dict()
    assert allocation.ranks == (2, 5, 7)
    assert repr(allocation) == "<Allocation rank[2,5,7]/core[0-3]>"
    inner = subinstance(allocation.to_dict())
    assert [entry["ranks"] for entry in inner["scheduling"]["children"]] == ["0-1", "2"]
    assert alloc(Pool(inner), 1, "slot=3/node") == "rank[0-2]/core[0-3]"


# ---- free ----


@pytest.mark.parametrize("form", [dict, json.dumps, ResourceSet.read])
def test_free_takes_an_R_in_any_form(pool, form):
    alloc(pool, 1, "slot=4/node/core=4")
    pool.free(1, form(nodes("0-3", "0-3")), final=True)
    assert pool.job_end_times() == []


@pytest.mark.parametrize(
    ("R", "final", "message"),
    [
        (nodes("0-2", "0-3"), True, "job 1: final, but R leaves out rank3/core\\[0-3\\]"),
        (nodes("0-4", "0-3"), False, "job 1: rank 4 is not in its allocation"),
        (nodes("0", "0-2"), False, "job 1: R is not what it holds on rank0/core\\[0-3\\]"),
        (nodes("0", "0-3", "0"), False, "job 1: R is not what it holds on rank0/core\\[0-3\\]"),
    ],
)
def test_free_of_what_the_job_does_not_hold_is_an_error(pool, R, final, message):
    alloc(pool, 1, "slot=4/node/core=4")
    with pytest.raises(PoolConflict, match=message):
        pool.free(1, R, final=final)
    assert alloc(pool, 2, "slot/core") == "rank0/core4"


# ---- register_alloc ----


def test_register_alloc_takes_what_a_job_holds_already(pool):
    R = nodes("0-1", "0-3", "0")
    R["execution"]["expiration"] = 99.0
    pool.register_alloc(7, R)
    assert pool.job_end_times() == [(7, 99.0)]
    assert alloc(pool, 8, "slot/[core;gpu=1]") == "rank0/core4,gpu1"
    pool.free(7)
    pool.free(8)
    assert alloc(pool, 9, "slot=4/node")


@pytest.mark.parametrize(
    ("R", "message"),
    [
        (nodes("3-4", "0-3"), "job 9: rank 4 is not in the pool"),
        (nodes("0-3", "0-16"), "job 9: rank0/core16 is not in the pool"),
        (nodes("0-3", "0-3", "3-4"), "job 9: rank0.*gpu4 is not in the pool"),
        (nodes("1-2", "0-3"), "job 9: rank2/core\\[2-3\\] is allocated already"),
    ],
)
def test_register_alloc_of_what_is_not_there_or_taken_is_an_error(pool, R, message):
    pool.register_alloc(1, nodes("2", "2-5"))
    generation = pool.generation
    with pytest.raises(PoolConflict, match=message):
        pool.register_alloc(9, R)
    assert pool.generation == generation
    assert alloc(pool, 2, "slot=3/node") == "rank[0-1,3]/core[0-15],gpu[0-3]"


# ---- Times ----


def test_a_job_ends_when_its_duration_is_over(pool, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1000.0)
    alloc(pool, 1, "slot/core", duration=60)
    alloc(pool, 2, "slot/core")
    assert pool.job_end_times() == [(1, 1060.0), (2, 0.0)]


def test_a_job_without_a_duration_ends_with_the_pool():
    pool = Pool(cluster(starttime=1.0, expiration=500.0))
    assert (pool.starttime, pool.expiration) == (1.0, 500.0)
    alloc(pool, 1, "slot/core")
    assert pool.job_end_times() == [(1, 500.0)]


@pytest.mark.parametrize("old, new", [(500.0, 900.0), (500.0, 0.0), (0.0, 500.0)])
def test_the_jobs_without_a_duration_follow_the_end_of_the_pool(old, new):
    pool = Pool(cluster(starttime=1.0, expiration=old))
    alloc(pool, 1, "slot/core")
    alloc(pool, 2, "slot/core", duration=60)
    limited = pool.job_end_times()[1]
    pool.set_expiration(new)
    assert pool.job_end_times() == [(1, new), limited]


@pytest.mark.parametrize(
    ("duration", "end", "expected"), [(0, 0, 0), (60, 0, 61), (0, 9, 9), (3, 9, 4), (60, 9, 9)]
)
def test_a_job_ends_with_its_pool_at_the_latest(pool, duration, end, expected):
    pool.set_expiration(end)
    request = pool.parse_resource_request(spec("slot/core", duration=duration))
    execution = pool.alloc(1, request).to_dict()["execution"]
    assert pool.job_end_times() == [(1, expected)]
    assert (execution["starttime"], execution["expiration"]) == (1 if expected else 0, expected)


@pytest.mark.parametrize("duration", [2e-308, 1e-9, 60, 1e300])
def test_the_R_of_a_job_of_any_duration_can_be_read(monkeypatch, duration):
    """Also of one that is over before the clock ticks, or before its scheduler starts it."""
    monkeypatch.setattr("time.time", lambda: 2e9)
    pool = Pool(cluster())
    request = pool.parse_resource_request(spec("slot/core", duration=duration))
    allocation = pool.alloc(1, request)
    for starttime in (2e9, 2e9 + 0.01):
        allocation.set_starttime(starttime)
        R = ResourceSet.read(allocation.to_dict())
        assert 0 < R.starttime < R.expiration


def test_a_pool_that_has_expired_allocates_nothing_until_it_gets_another_end(pool):
    pool.set_expiration(0.4)
    request = pool.parse_resource_request(spec("slot/core"))
    for ask in (lambda: pool.alloc(1, request), lambda: pool.check_feasibility(request)):
        with pytest.raises(InfeasibleRequest, match="the resources expired 1 second ago"):
            ask()
    assert pool.job_end_times() == []
    pool.set_expiration(9)
    pool.check_feasibility(request)
    assert pool.alloc(1, request).expiration == 9


def test_update_expiration_moves_the_end_of_a_job(pool):
    alloc(pool, 1, "slot/core", duration=60)
    pool.update_expiration(1, 77.0)
    assert pool.job_end_times() == [(1, 77.0)]
    with pytest.raises(PoolConflict, match="job 2 has no allocation"):
        pool.update_expiration(2, 77.0)


def test_set_starttime_and_set_expiration_are_in_the_R_of_the_pool(pool):
    pool.set_starttime(5.0)
    pool.set_expiration(6.0)
    assert (pool.starttime, pool.expiration) == (5.0, 6.0)
    execution = pool.to_dict()["execution"]
    assert (execution["starttime"], execution["expiration"]) == (5.0, 6.0)


# ---- Nodes ----


def test_ranks_that_are_not_in_the_pool_are_left_alone(pool):
    pool.mark_down("9")
    pool.mark_up("9,44")
    assert alloc(pool, 1, "slot=4/node")


@pytest.mark.parametrize("call", ["mark_up", "mark_down", "remove_ranks"])
def test_ranks_that_are_no_idset_are_an_error(pool, call):
    with pytest.raises(InvalidIdset):
        getattr(pool, call)("3-1")


@pytest.mark.parametrize("ranks", ["1-2", 0b110, [1, 2], {2, 1}])
def test_remove_ranks_takes_nodes_out_for_good(ranks):
    pool = Pool(cluster(properties={"fast": "1", "slow": "2-3"}))
    pool.remove_ranks(ranks)
    pool.mark_up("all")
    assert pool.dumps() == "rank[0,3]/core[0-15],gpu[0-3]"
    R = pool.to_dict()
    assert R["execution"]["nodelist"] == ["n[0,3]"]
    assert R["execution"]["properties"] == {"slow": "3"}
    assert [entry["ranks"] for entry in R["scheduling"]["children"]] == ["0,3"]
    assert ResourceSet.problems(R) == []
    with pytest.raises(InfeasibleRequest, match="3 nodes"):
        alloc(pool, 1, "slot=3/node")
    assert alloc(pool, 1, "slot=2/node") == "rank[0,3]/core[0-15],gpu[0-3]"


def test_what_is_left_is_still_in_the_order_of_ranks():
    R = cluster("0-2")
    R["execution"]["R_lite"] = [
        {"rank": "0,2", "children": {"core": "0-15", "gpu": "0-3"}},
        {"rank": "1", "children": {"core": "0-7", "gpu": "0-3"}},
    ]
    pool = Pool(R)
    pool.remove_ranks("0")
    assert [entry["rank"] for entry in pool.to_dict()["execution"]["R_lite"]] == ["1", "2"]
    assert Pool(pool.to_dict()).to_dict() == pool.to_dict()


def test_a_negative_number_is_no_set_of_ranks(pool):
    with pytest.raises(InvalidIdset, match="-1 is not a set of ranks"):
        pool.remove_ranks(-1)  # as a bitmask it would be all of them
    assert pool.ranks == 0b1111


def test_a_job_on_a_removed_rank_can_still_be_freed_when_the_key_is_another(pool):
    """The last rank goes, and the topology is told again, as when a discovery ends."""
    alloc(pool, 1, "slot=4/node")
    pool.remove_ranks("3")
    pool.replace_key(pool.to_dict()["scheduling"])
    trial = pool.copy_idle()
    trial.occupy(2, [(1 << 3, 0b1, 0)])
    trial.free(2)
    pool.free(1)
    assert alloc(pool, 2, "slot=3/node") == "rank[0-2]/core[0-15],gpu[0-3]"


def test_other_options_hold_from_the_next_request_on(pool):
    alloc(pool, 1, "slot=1/core=1")
    pool.set_options(policy="worst-fit", locality="required")
    assert alloc(pool, 2, "slot=1/core=1") == "rank1/core0"
    with pytest.raises(InvalidOption):
        pool.set_options(policy="best")
    assert alloc(pool, 3, "slot=1/core=1") == "rank2/core0"
    pool.set_options()
    assert alloc(pool, 4, "slot=1/core=1").startswith("rank0/")
    pool.free(1)


# ---- The pool as a whole ----


def test_every_change_makes_a_new_generation(pool):
    R = nodes("3", "0")
    allocation = pool.parse_resource_request(spec("slot=2/node"))
    changes = [
        lambda: pool.alloc(1, allocation),
        lambda: pool.register_alloc(2, R),
        lambda: pool.free(2),
        lambda: pool.update_expiration(1, 5.0),
        lambda: pool.mark_down("0"),
        lambda: pool.mark_up("0"),
        lambda: pool.remove_ranks("0"),
        lambda: pool.set_starttime(1.0),
        lambda: pool.set_expiration(2.0),
        lambda: pool.free(1),
    ]
    for change in changes:
        before = pool.generation
        change()
        assert pool.generation > before


def test_questions_make_no_new_generation(pool):
    alloc(pool, 1, "slot/core")
    generation = pool.generation
    request = pool.parse_resource_request(spec("slot/core"))
    pool.check_feasibility(request)
    pool.copy().alloc(2, request)
    pool.job_end_times()
    pool.to_dict()
    pool.dumps()
    assert pool.generation == generation


def test_to_dict_is_the_R_the_pool_was_made_from(pool):
    assert pool.to_dict() == cluster()
    assert json.loads(pool.encode()) == cluster()
    alloc(pool, 1, "slot=4/node")
    assert pool.to_dict() == cluster()


def test_an_allocation_outlives_changes_of_the_pool(pool):
    allocation = pool.alloc(1, pool.parse_resource_request(spec("slot=2/node")))
    before = allocation.to_dict()
    pool.free(1)
    pool.remove_ranks("0-1")
    assert allocation.to_dict() == before


def ids_of(resources):
    """What a resource set has, in Flux's short form."""
    return [
        (idset.encode(e.ranks), idset.encode(e.cores), idset.encode(e.gpus))
        for e in resources.entries
    ]


def test_what_is_allocated_and_what_is_down_are_resource_sets():
    pool = Pool(cluster(properties={"big": "0-1", "slow": "3"}))
    assert pool.copy_allocated().entries == pool.copy_down().entries == ()
    alloc(pool, 1, "slot=2/[core=2;gpu=1]")
    pool.mark_down("3")
    assert ids_of(pool.copy_allocated()) == [("0", "0-1,4-5", "0-1")]
    assert pool.copy_allocated().hosts == ("n0",)
    assert pool.copy_allocated().properties == {"big": 1}
    assert ids_of(pool.copy_down()) == [("3", "0-15", "0-3")]
    pool.remove_ranks("0,3")
    assert pool.copy_allocated().entries == pool.copy_down().entries == ()


def test_an_idle_copy_has_no_jobs_and_the_same_ranks_up(pool):
    alloc(pool, 1, "slot=4/node")
    pool.mark_down("0")
    idle = pool.copy_idle()
    assert idle.job_end_times() == []
    assert alloc(idle, 1, "slot=3/node/core=16") == "rank[1-3]/core[0-15]"
    with pytest.raises(InsufficientResources):
        alloc(idle, 2, "slot=1/core=1")
    assert pool.has_job(1)


def test_occupying_takes_what_is_free_of_it(pool):
    held = alloc(pool, 1, "slot=1/core=2")
    pool.occupy(2, [(0b11, 0b1111, 0)], 99.0)
    assert ids_of(pool.copy_allocated()) == [("0-1", "0-3", "")]
    assert (2, 99.0) in pool.job_end_times()
    pool.free(2)
    assert ids_of(pool.copy_allocated()) == [("0", "0-1", "")]
    assert held == "rank0/core[0-1]"
    with pytest.raises(PoolConflict):
        pool.occupy(1, [])
