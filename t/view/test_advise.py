"""Advice: what it says of a node is what a pool of one such node does when it is filled."""

import random
from itertools import count

import pytest

from bench.workload import cluster as cray
from depth import examples
from made import alloc, nodes
from treepool.errors import InsufficientResources
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.view.advise import MAX_JOBS, advise
from treepool.view.advisetext import text
from view.counting import some_R


def one_node(cores=8, gpus=0, topo=None):
    return nodes("0", f"0-{cores - 1}", idset.encode((1 << gpus) - 1), topo or None)


def xeon():
    """A node of RFC 49's cluster A: two sockets of four NUMA domains of 15 cores and a GPU."""
    numa = [{"cores": f"{15 * i}-{15 * i + 14}", "gpus": str(i)} for i in range(8)]
    return one_node(120, 8, {"socket": [{"numa": numa[:4]}, {"numa": numa[4:]}]})


def by_shape(filled):
    return {one.shape: one for one in filled}


def test_the_slots_that_tile_a_node():
    ((advice,), left_out) = advise(Pool(xeon()))
    assert left_out == 0
    assert [(one.shape, one.slots, one.inside) for one in advice.tiling] == [
        # in the node, in a socket, in a NUMA domain: (least, most)
        ("slot=1/[core=15;gpu=1]", 8, ((8, 8), (4, 4), (1, 1))),
        ("slot=1/[core=30;gpu=2]", 4, ((4, 4), (2, 2), (0, 0))),
        ("slot=1/[core=60;gpu=4]", 2, ((2, 2), (1, 1), (0, 0))),
        ("slot=1/[core=120;gpu=8]", 1, ((1, 1), (0, 0), (0, 0))),
    ]
    assert advice.nearly == ()


def test_of_a_shape_of_several_nodes_it_says_that_one_node_is_too_few():
    shapes = ["node=2/slot/core", "slot=97/core", "slot/node=4/core", "slot/core=97"]
    ((advice,), _) = advise(Pool(cray(3)), shapes)
    assert [(one.shape, one.reason) for one in advice.common if one.reason] == [
        ("node=2/slot/core", "it takes more than one such node"),
        ("slot=97/core", "it takes more than one such node"),
        ("slot/node=4/core", "the request asks for 4 nodes: of those in the pool, 3 can serve it"),
        ("slot/core=97", "no node has 97 cores: the largest has 96"),
    ]


def test_a_share_with_a_rest_is_said_to_leave_one():
    numa = [{"cores": "0-6", "gpus": "0-1"}, {"cores": "7-13", "gpus": "2-3"}]
    ((advice,), _) = advise(Pool(one_node(14, 4, {"numa": numa})))
    assert [one.shape for one in advice.tiling] == [
        "slot=1/[core=7;gpu=2]", "slot=1/[core=14;gpu=4]"]  # fmt: skip
    (nearly,) = advice.nearly
    assert (nearly.shape, nearly.slots, nearly.cores_left) == ("slot=1/[core=3;gpu=1]", 4, 2)


def test_nodes_without_gpus_are_tiled_by_cores():
    ((advice,), _) = advise(
        Pool(one_node(12, 0, {"socket": [{"cores": "0-5"}, {"cores": "6-11"}]}))
    )
    assert [(one.shape, one.slots) for one in advice.tiling] == [
        ("slot=1/core=1", 12), ("slot=1/core=2", 6), ("slot=1/core=3", 4), ("slot=1/core=6", 2),
        ("slot=1/core=12", 1)]  # fmt: skip
    assert "slot=1/core=4" not in by_shape(advice.tiling), "it would span both sockets"
    assert by_shape(advice.common)["slot=1/core=4"].local == 2


def test_each_kind_of_node_has_its_own_advice_the_most_frequent_first():
    R = some_R(9)
    R["execution"]["R_lite"][1]["rank"] = "3-4"
    R["execution"]["R_lite"][2]["rank"] = "5-8"
    R["scheduling"]["children"][1]["ranks"] = "3-4"
    found, _ = advise(Pool(R))
    assert [advice.ranks for advice in found] == [(5, 6, 7, 8), (0, 1, 2), (3, 4)]
    assert found[0].hosts == ("n5", "n6", "n7", "n8")
    assert [len(advice.levels) for advice in found] == [1, 3, 3]
    for advice in found:
        alone = Pool(R)
        alone.remove_ranks(alone.ranks & ~idset.from_ids(advice.ranks))
        alone.mark_down("all")
        assert advise(alone) == ((advice,), 0), "whatever is beside it, and also while it is down"


@pytest.mark.parametrize("seed", range(examples(40)))
def test_every_number_is_what_a_pool_of_one_node_does(seed):
    R = random_node(random.Random(seed))
    ((advice,), _) = advise(Pool(R), ["slot=2/core=1", "slot=1/node{x}", "slot=1/core=3"])
    assert advice.common
    for one in (*advice.tiling, *advice.nearly, *advice.common):
        if one.reason:
            continue
        slots, cores, gpus = fill(R, one.shape)
        assert (one.slots, one.cores_left, one.gpus_left) == (slots, cores, gpus)
        assert 0 <= one.local <= one.slots
    for one in advice.tiling:
        assert (one.cores_left, one.gpus_left, one.local) == (0, 0, one.slots)
        assert fill(R, one.shape, locality="required")[0] == one.slots, "each of them is local"


def fill(R, shape, locality="preferred"):
    """The slots that fit on a node, and the cores and GPUs that are left, from the jobs' R."""
    pool, slots = Pool(R, locality=locality), 0
    held = {"core": set(), "gpu": set()}
    for jobid in count(1):
        try:
            job = alloc(pool, jobid, shape).to_dict()["execution"]
        except InsufficientResources:
            break
        slots += job["nslots"]
        for kind, listed in job["R_lite"][0]["children"].items():
            ids = set(idset.iterate(idset.decode(listed)))
            assert not ids & held[kind]
            held[kind] |= ids
    (all_of_it,) = R["execution"]["R_lite"]
    left = [
        len(list(idset.iterate(idset.decode(all_of_it["children"].get(kind, ""))))) - len(ids)
        for kind, ids in held.items()
    ]
    return slots, *left


def random_node(chance):
    """A node of two or three sockets of one to three NUMA domains each, alike or not."""
    cores = gpus = 0
    sockets = []
    alike = chance.random() < 0.5
    ncores, ngpus = chance.randint(1, 8), chance.randint(0, 2)
    for _ in range(chance.randint(2, 3)):
        numas = []
        for _ in range(2 if alike else chance.randint(1, 3)):
            if not alike:
                ncores, ngpus = chance.randint(1, 8), chance.randint(0, 2)
            numa = {"cores": idset.encode(((1 << ncores) - 1) << cores)}
            if ngpus:
                numa["gpus"] = idset.encode(((1 << ngpus) - 1) << gpus)
            cores, gpus = cores + ncores, gpus + ngpus
            numas.append(numa)
        sockets.append({"numa": numas})
    return one_node(cores, gpus, {"socket": sockets})


@pytest.mark.depth
def test_nodes_of_very_many_cores_are_filled_in_bounded_time():
    ((advice,), _) = advise(Pool(one_node(100_000)))
    assert "slot=1/core=1" not in by_shape(advice.common)
    assert all(0 < one.slots < MAX_JOBS for one in advice.tiling)
    assert advice.tiling


@pytest.mark.parametrize("width", [30, 80])
def test_text_keeps_within_its_width_and_has_every_shape(width):
    found, left_out = advise(Pool(some_R()), ["slot=1/core=999", "slot=1/core=3"])
    lines = text(found, left_out, width).plain.split("\n")
    assert max(map(len, lines)) <= max(width, 40)
    if width >= 80:
        for advice in found:
            for one in (*advice.tiling, *advice.nearly, *advice.common):
                assert any(one.shape[len("slot=1/") :] in line for line in lines)


def test_text_says_how_many_kinds_are_left_out():
    R = one_node(2)
    R["execution"]["R_lite"] = [
        {"rank": str(i), "children": {"core": f"0-{i + 1}"}} for i in range(15)
    ]
    R["execution"]["nodelist"] = ["n[0-14]"]
    found, left_out = advise(Pool(R))
    assert (len(found), left_out) == (12, 3)
    assert "and 3 more kinds of node" in text(found, left_out, 80).plain
