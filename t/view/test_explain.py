"""Explanations: what they say is what the pool does, and every number in them is true."""

import random
import re

import pytest

from depth import examples
from made import asked, nodes
from treepool import parse_shape
from treepool.errors import InfeasibleRequest, InsufficientResources
from treepool.placement.pool import Pool
from treepool.placement.why import decision
from treepool.rfc import idset
from treepool.rfc.jobspec import from_resources
from treepool.rfc.links import Link, Links, digest
from treepool.view.explain import ALLOCATED, INFEASIBLE, WAITS, explain
from treepool.view.explaintext import text
from treepool.view.jobs import Job
from treepool.view.model import drained_in
from treepool.view.nearest import nearest, oracle
from view.counting import SHAPES, some_R


def two_sockets(number=3):
    """Nodes of two sockets of two NUMA domains of four cores and a GPU each."""
    numa = [{"cores": f"{4 * i}-{4 * i + 3}", "gpus": str(i)} for i in range(4)]
    topo = {"socket": [{"numa": numa[:2]}, {"numa": numa[2:]}]}
    return nodes(idset.encode_ids(range(number)), "0-15", "0-3", topo)


def with_jobs(R, shapes, **options):
    """A pool on which jobs of *shapes* run, and what they got."""
    pool = Pool(R, **options)
    jobs = {}
    for jobid, shape in enumerate(shapes, 1):
        jobs[jobid] = Job.of(str(jobid), "", pool.alloc(jobid, asked(pool, shape)))
    return pool, jobs


def told(R, shape, shapes=(), constraints=None, **options):
    pool, jobs = with_jobs(R, shapes, **options)
    return explain(pool, shape, parse_shape(shape), constraints, jobs)


def words(explanation, width=200, verbose=True):
    return text(explanation, width, verbose).plain


# -- the order


@pytest.mark.parametrize(
    ("shape", "jobs", "second"),
    [
        ("slot=1/core=2", (), "taken"),
        ("slot=2/node{x}", ["slot=1/core"], "there is room for it when this job ends"),
        ("slot=1/core=99", (), "what would fit an idle cluster"),
    ],
)
def test_after_the_headline_comes_what_the_reader_asks_for(shape, jobs, second):
    found = words(told(two_sockets(2), shape, jobs), verbose=False)
    head, blank, third, *_ = found.split("\n")
    assert head.startswith(f"{shape}: ")
    assert (blank, third) == ("", second)


def test_rules_and_what_goes_without_saying_are_told_to_those_who_ask():
    found = told(two_sockets(), "slot=1/core=2")
    short, long = words(found, verbose=False), words(found)
    assert long.startswith(short)
    for label in ("locality", "order", "nodes", "an idle cluster"):
        assert (f"\n{label}" in short, f"\n{label}" in long) == (False, True)


# -- what was passed over, and why


@pytest.mark.parametrize(
    ("shape", "jobs", "why"),
    [
        ("slot=1/core=5", ["slot=1/core=12"], "needs 5 cores: the node has 4 free"),
        (
            "slot=1/core=4",
            ["numa=4/slot=1/core=1"],
            "needs 4 cores in one numa: the largest has 3 free",
        ),
        (
            "slot=1/[core=1;gpu=2]",
            ["slot=3/[core=1;gpu=1]"],
            "needs 2 GPUs: the node has 1 free",
        ),
        (  # one socket has three cores and a GPU left, the other seven cores and no GPU
            "slot=1/[core=5;gpu=1]",
            ["slot=1/[core=5;gpu=1]", "slot=1/socket/[core=1;gpu=2]"],
            "needs 5 cores and 1 GPU in one socket: none has both free",
        ),
        (  # one NUMA domain is idle, the others have two cores left
            "node/slot=2/core=3",
            ["numa=3/slot=1/core=2"],
            "needs 2 slots, each in one numa: there is room for 1",
        ),
        (
            "slot=1/node{x}",
            ["slot=1/[core=3;gpu=1]"],
            "it asks for a whole node, and jobs have 3 cores and 1 GPU of it",
        ),
        (
            "slot=1/socket{x}",
            ["socket=2/slot=1/core=1"],
            "of what is free there, no socket domain is whole: a part of each is taken",
        ),
    ],
)
def test_a_node_is_passed_over_for_a_reason_with_its_numbers(shape, jobs, why):
    found = told(two_sockets(), shape, jobs, policy="best-fit")
    (passed,) = found.passed
    assert (passed.ranks, passed.why) == ((0,), why)
    assert [one.nodes.ranks for one in found.taken] == [(1,)]
    assert (found.unneeded, found.second_pass) == (1, False)


def test_when_all_are_crowded_the_second_pass_takes_the_first_of_them():
    found = told(
        two_sockets(2), "slot=1/core=4", ["node=2/numa=4/slot=1/core=1"], policy="best-fit"
    )
    (taken,) = found.taken
    assert found.second_pass
    assert (taken.nodes.ranks, taken.local) == ((0,), 0)
    assert taken.places[0].domain == "socket 0"
    assert not taken.places[0].local
    assert "second pass: no slot is in the smallest kind of domain" in words(found)


def test_nodes_that_lack_the_same_one_after_another_are_told_once():
    jobs = ["slot=1/core=15", "slot=1/core=14", "slot=1/core=13", "slot=1/numa/core=1"]
    found = told(two_sockets(5), "slot=1/core=6", jobs)
    (passed,) = found.passed
    assert (passed.ranks, len(passed.nodes)) == ((0, 1, 2), 3)
    assert passed.why == "needs 6 cores: the nodes have 0 to 3 free"
    assert "n[0-2] (3 nodes): 0 to 3 of 16 cores, 4 of 4 GPUs free" in words(found)


def test_nodes_that_are_drained_are_not_called_down():
    pool, jobs = with_jobs(two_sockets(), [])
    pool.mark_down("0-2")
    drains = drained_in({"1": "broken", "2,7": "bad\x1b[31m", "9": "gone"}, pool)
    core = parse_shape("slot=1/core")
    found = explain(pool, "slot=1/core", core, None, jobs, drained=0b110, drains=drains)
    assert (found.nodes, found.down, found.drained) == (3, 1, 2)
    shown = words(found)
    assert "drained   n1: broken" in shown and r"drained   n2: bad\x1b[31m" in shown
    assert "gone" not in shown
    assert "of which 1 is down and 2 are drained" in words(found)
    assert "it waits for nodes that are down or drained" in words(found)


# -- what was taken


def test_each_slot_is_told_with_its_domain_and_ids():
    found = told(two_sockets(), "slot=2/[core=2;gpu=1]")
    (taken,) = found.taken
    assert [(p.domain, p.cores, p.gpus, p.local) for p in taken.places] == [
        ("numa 0", 0b11, 0b1, True),
        ("numa 1", 0b110000, 0b10, True),
    ]
    assert (taken.nslots, taken.local) == (2, 2)
    assert "slot 2: numa 1: cores 4-5, GPU 1" in words(found)
    assert found.smallest == ("numa",)


def test_what_an_idle_cluster_would_have_given():
    same = told(two_sockets(), "slot=1/core=2")
    assert same.idle is None
    assert "an idle cluster would have given the same" in words(same)
    other = told(two_sockets(), "slot=1/core=2", ["slot=1/core=2"])
    assert [(one.nodes.ranks, one.places[0].cores) for one in other.idle] == [((0,), 0b11)]


def test_links_are_told_beside_the_best_there_are():
    R = two_sockets(1)
    topo = R["scheduling"]["children"][0]["topo"]
    across = (0b0101, 0b1001, 0b0110, 0b1010)
    links = Links(links=(Link("nvlink", 300.0, (0b0011, 0b1100)), Link("pcie", 20.0, across)))
    R["scheduling"]["links"] = {digest(topo): links.to_dict()}
    (best,) = told(R, "slot=1/[core=1;gpu=2]").taken[0].places
    assert (best.gbps, best.best) == (300, 300)
    jobs = ["socket=2/slot=1/[core=1;gpu=1]"]
    found = told(R, "slot=1/[core=1;gpu=2]", jobs)
    (place,) = found.taken[0].places
    assert (place.gbps, place.best) == (20, 300)
    assert "20 GB/s between its GPUs, of 300 at best" in words(found)
    assert found.fitness.links == pytest.approx(20 / 300)
    assert found.fitness.ideal.links == 1
    assert "links 0.07" in words(found)


@pytest.mark.parametrize("seed", range(examples(200)))
def test_what_is_told_is_what_alloc_does(seed):
    chance = random.Random(seed)
    options = {
        "locality": chance.choice(["preferred", "preferred", "required", "none"]),
        "policy": chance.choice(["packing", "best-fit", "first-fit", "worst-fit"]),
    }
    pool = Pool(some_R(), **options)
    jobs = {}
    for jobid in range(1, 25):
        shape = chance.choice(SHAPES)
        if "numa" in shape and chance.random() < 0.5:
            continue
        before = pool.copy_allocated()
        found = explain(pool, shape, parse_shape(shape), None, jobs)
        assert pool.copy_allocated() == before, "nothing is changed"
        check_passes(pool, shape, found)
        try:
            allocation = pool.alloc(jobid, asked(pool, shape))
        except InsufficientResources:
            assert found.verdict == WAITS
            check_holders(pool, shape, found, jobs)
            continue
        jobs[jobid] = Job.of(str(jobid), "", allocation)
        assert found.verdict == ALLOCATED
        given = {
            rank: (union(p.cores for p in one.places), union(p.gpus for p in one.places))
            for one in found.taken
            for rank in one.nodes.ranks
            if not one.whole
        }
        real = {rank: (c, g) for ranks, c, g in allocation.parts
                for rank in idset.iterate(ranks)}  # fmt: skip
        assert {rank: real[rank] for rank in given} == given
        assert found.fitness.memory == allocation.fitness().memory
        told_ranks = sorted(r for one in found.taken for r in one.nodes.ranks)
        assert told_ranks == list(allocation.ranks)
        slots = sum(one.nslots * len(one.nodes.ranks) for one in found.taken)
        assert slots == allocation.nslots
        if chance.random() < 0.2 and jobs:
            gone = chance.choice(list(jobs))
            pool.free(gone)
            del jobs[gone]
    several = "slot=6/node{x}"  # of which jobs have more than one
    check_holders(pool, several, explain(pool, several, parse_shape(several), None, jobs), jobs)


def check_passes(pool, shape, found):
    """Every node is told in one place, and those passed over have what is said to be free."""
    passed = [rank for one in found.passed for rank in one.ranks]
    taken = [rank for one in found.taken for rank in one.nodes.ranks]
    assert len(passed + taken) == len(set(passed + taken))
    if found.verdict == ALLOCATED:
        total = len(passed) + len(taken) + found.passed_more + found.unneeded
        assert total == found.nodes - found.down
    free = {}
    for state, ranks in pool.situation.index.buckets.items():
        free.update(dict.fromkeys(idset.iterate(ranks), (state.ncores, state.ngpus)))
    all_nodes = [n for one in found.passed for n in one.nodes] + [t.nodes for t in found.taken]
    for some in all_nodes:
        for rank in some.ranks:
            assert free[rank] == (some.cores_free, some.gpus_free)
    for one in found.passed:
        need = re.fullmatch(
            r"needs (\d+) (core|GPU)s?: the nodes? ha(?:s|ve) (\d+)(?: to (\d+))? free", one.why
        )
        if need:
            have = [n.cores_free if need[2] == "core" else n.gpus_free for n in one.nodes]
            assert [min(have), max(have)] == [int(need[3]), int(need[4] or need[3])]
            assert max(have) < int(need[1])
        assert one.why
        assert "\n" not in one.why


def check_holders(pool, shape, found, jobs):
    """The jobs named are those whose end lets it start, and not one too many."""
    ids = list(found.waits.holders)
    assert ids, "all nodes are up, so jobs it is"
    if found.waits.one_will_do:
        good = [jobid for jobid in jobs if fits_without(pool, shape, [jobid])]
        assert ids == good
        return
    assert not any(fits_without(pool, shape, [jobid]) for jobid in jobs)
    assert fits_without(pool, shape, ids)
    for jobid in ids:
        assert not fits_without(pool, shape, [other for other in ids if other != jobid])


def fits_without(pool, shape, ended):
    copy = pool.copy()
    for jobid in ended:
        copy.free(jobid)
    try:
        copy.alloc(999, asked(copy, shape))
    except InsufficientResources:
        return False
    return True


def union(masks):
    found = 0
    for mask in masks:
        found |= mask
    return found


# -- waiting


def test_what_it_waits_for_and_who_has_it():
    jobs = ["slot=2/node{x}", "slot=1/core=9"]
    found = told(two_sockets(), "slot=1/core=8", jobs)
    assert found.verdict == WAITS
    assert str(found.reason) == "counting what is free, no node has 8 cores: the largest has 7"
    assert list(found.waits.holders) == [1, 2]
    assert found.waits.one_will_do
    assert "there is room for it when one of these ends" in words(found)
    assert "job 2: 9 cores" in words(found)
    found = told(two_sockets(), "slot=2/node{x}", ["slot=1/node{x}"] * 3)
    assert list(found.waits.holders) == [1, 2]
    assert not found.waits.one_will_do
    assert "there is room for it when these end" in words(found)


@pytest.mark.parametrize(
    ("shape", "jobs", "reason"),
    [
        ("slot=1/core", [], "no node that it may use is up"),
        (
            "slot=1/node{x}",
            ["slot=3/node/core=1"],
            "it asks for all of a node, and jobs have a part of each that is up",
        ),
        (
            "slot=1/core=4",
            ["numa=12/slot=1/core=2"],
            "what is free is in larger domains than locality=required allows",
        ),
    ],
)
def test_why_it_waits(shape, jobs, reason):
    pool, running = with_jobs(two_sockets(), jobs, locality="required")
    pool.mark_down("" if jobs else "0-2")
    found = explain(pool, shape, parse_shape(shape), None, running)
    assert (found.verdict, str(found.reason)) == (WAITS, reason)


def test_jobs_that_hold_nodes_which_left_the_pool_are_told_with_the_rest():
    pool, jobs = with_jobs(two_sockets(), ["slot=3/node{x}"])
    pool.remove_ranks("2")
    found = explain(pool, "slot=1/core=4", parse_shape("slot=1/core=4"), None, jobs)
    assert (found.verdict, list(found.waits.holders)) == (WAITS, [1])


# -- infeasible


@pytest.mark.parametrize(
    ("shape", "shapes"),
    [
        ("slot=1/core=20", ["slot/core=16"]),
        ("slot=1/numa/core=5", ["slot/numa/core=4", "slot/core=5"]),
        ("slot=9/[core=2;gpu=2]", ["slot=6/[core=2;gpu=2]", "slot=9/[core=2;gpu]"]),
        ("slot=4/node{x}", ["slot=3/node{x}"]),
        ("slot=1/socket=3{x}", ["slot/socket=2{x}"]),
        ("slot=50/core", ["slot=48/core"]),
        ("slot=5/node/[core=99;gpu=9]", ["slot=3/node/[core=16;gpu=4]"]),
    ],
)
def test_the_nearest_shapes_that_fit(shape, shapes):
    found = told(two_sockets(), shape)
    assert found.verdict == INFEASIBLE
    assert [near.shape for near in found.nearest][: len(shapes)] == shapes
    for near in found.nearest:
        assert near.shape in words(found)


@pytest.mark.parametrize("seed", range(examples(160)))
def test_nearest_shapes_fit_and_one_more_would_not(seed):
    chance = random.Random(seed)
    pool = Pool(some_R())
    cores, gpus, slots = chance.randint(1, 40), chance.randint(0, 6), chance.randint(1, 60)
    inside = chance.choice(["", "node/", "socket/", "numa/"])
    amount = f"[core={cores};gpu={gpus}]" if gpus else f"core={cores}"
    resources = parse_shape(f"slot={slots}/{inside}{amount}")

    def ask(some):
        pool.check_feasibility(pool.parse_resource_request(from_resources(some)))

    try:
        ask(resources)
        return
    except InfeasibleRequest:
        pass
    for near in nearest(resources, oracle(ask)):
        ask(parse_shape(near.shape))
        changed = re.fullmatch(
            r"(slot|core|gpu|socket|numa|node)=(\d+) instead of (\d+)", near.change
        )
        if changed:
            assert int(changed[2]) < int(changed[3])
            larger = parse_shape(near.shape)
            bump(larger, changed[1])
            with pytest.raises(InfeasibleRequest):
                ask(larger)


def bump(resources, name):
    """Add one to the count of the vertex *name*, of which there is one."""
    for vertex in resources:
        if vertex["type"] == name:
            vertex["count"] += 1
        bump(vertex.get("with", []), name)


def test_a_shape_that_no_count_can_help_has_none_near_it():
    found = told(two_sockets(), "slot=1/core", None or (), {"hostlist": ["nobody"]})
    assert found.verdict == INFEASIBLE
    assert found.nearest == ()
    assert "no similar shape" in words(found)


# -- in words


@pytest.mark.parametrize("width", [20, 80])
@pytest.mark.parametrize(
    "shape", ["slot=3/[core=2;gpu=1]", "slot=5/node{x}", "slot=1/core=99", "slot=12/numa{x}"]
)
def test_text_keeps_within_its_width(shape, width):
    jobs = ["slot=2/[core=3;gpu=1]", "slot=1/node{x}", "slot=1/core=3"]
    lines = words(told(two_sockets(4), shape, jobs), width).split("\n")
    assert max(map(len, lines)) <= max(width, 40)


def test_of_nodes_alike_explain_tells_of_the_very_nodes_that_alloc_gives():
    # driver:1 serves on rank 0, but not in one domain: alloc goes on, to the better driver:2.
    R = two_sockets(2)
    R["execution"]["properties"] = {"driver:1": "0", "driver:2": "1"}
    pool = Pool(R)
    cores = pool.inventory.resource_set.entries[0].cores
    half = sorted(idset.iterate(cores))[::2]
    held = {"R_lite": [{"rank": "0", "children": {"core": idset.encode_ids(half)}}]}
    pool.register_alloc(1, {"version": 1, "execution": {**held, "nodelist": ["n0"]}})
    shape = parse_shape(f"slot/core={len(half) // 2 + 1}")
    spec = from_resources(shape, options={"same": "driver"})
    decided = decision.decide(pool.situation, pool.choice(pool.parse_resource_request(spec)))
    told = explain(pool, "", shape, options={"same": "driver"})
    allocation = pool.alloc(2, pool.parse_resource_request(spec))
    assert allocation.ranks == (1,)
    assert decided.selection.ranks == 1 << 1
    assert told.taken[0].nodes.ranks == (1,)
