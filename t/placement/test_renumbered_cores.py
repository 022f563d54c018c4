"""A Flux instance inside a job counts the cores of each node from zero; the topo does not.

Flux's resource module renumbers ranks and cores of R_lite when an instance starts on the R of its
job, and leaves GPUs and the key alone. What ``allocated`` in the key says makes up for it.
"""

import copy
import random

import pytest

from placement.inherited import excluding, ids, inherited
from treepool import Pool, ResourceSet, parse_shape, subinstance
from treepool.errors import InfeasibleRequest, InsufficientResources, InvalidKey
from treepool.rfc import idset

#: Two sockets of two NUMA domains, each with four cores and a GPU.
NUMA = [{"cores": f"{4 * i}-{4 * i + 3}", "gpus": str(i)} for i in range(4)]
TOPO = {"socket": [{"numa": NUMA[:2]}, {"numa": NUMA[2:]}]}


def cluster():
    execution = {
        "R_lite": [{"rank": "0-3", "children": {"core": "0-15", "gpu": "0-3"}}],
        "nodelist": ["n[0-3]"],
    }
    key = {"writer": "TreePool", "children": [{"ranks": "0-3", "topo": TOPO}]}
    return {"version": 1, "execution": execution, "scheduling": key}


def alloc(pool, jobid, shape):
    attributes = {"system": {"duration": 0}}
    spec = {"version": 1, "resources": parse_shape(shape), "tasks": [], "attributes": attributes}
    return pool.alloc(jobid, pool.parse_resource_request(spec))


def held(R):
    """{rank: (cores, GPUs)} of an R."""
    found = {}
    for entry in R["execution"]["R_lite"]:
        children = entry["children"]
        for rank in ids(entry["rank"]):
            found[rank] = ids(children["core"]), ids(children.get("gpu", ""))
    return found


def outer_ids(outer, inner):
    """What *inner*, allocated in an instance that inherited *outer*, is in the ids of *outer*."""
    ranks, above = sorted(held(outer)), held(outer)
    return {
        ranks[rank]: ([above[ranks[rank]][0][core] for core in cores], gpus)
        for rank, (cores, gpus) in held(inner).items()
    }


def test_an_allocation_tells_which_cores_of_the_topo_it_has():
    pool = Pool(cluster())
    first = alloc(pool, 1, "slot/[core=3;gpu=1]").to_dict()
    assert first["scheduling"]["allocated"] == [{"ranks": "0", "cores": "0-2"}]
    second = alloc(pool, 2, "slot/[core=3;gpu=1]").to_dict()
    assert second["scheduling"]["allocated"] == [{"ranks": "0", "cores": "4-6"}]
    third = alloc(pool, 3, "slot/node{x}").to_dict()
    assert "allocated" not in third["scheduling"]  # all that the pool has there
    assert ResourceSet.problems(second) == []


def test_a_slot_inside_gets_the_cores_of_its_gpus_own_domain():
    pool = Pool(cluster())
    alloc(pool, 1, "slot/[core=3;gpu=1]")
    outer = alloc(pool, 2, "slot=2/[core=3;gpu=1]").to_dict()
    assert held(outer) == {0: ([4, 5, 6, 8, 9, 10], [1, 2])}
    inner = Pool(inherited(outer))
    one = alloc(inner, 1, "slot/[core=2;gpu=1]").to_dict()
    two = alloc(inner, 2, "slot/[core=2;gpu=1]").to_dict()
    assert held(one) == {0: ([0, 1], [1])}
    assert held(two) == {0: ([3, 4], [2])}
    assert two["scheduling"]["allocated"] == [{"ranks": "0", "cores": "8-9"}]


def test_a_domain_of_which_the_job_has_a_part_is_not_whole_inside():
    pool = Pool(cluster())
    alloc(pool, 1, "slot/core=2")
    outer = alloc(pool, 2, "slot/[core=6;gpu=2]").to_dict()
    inner = Pool(inherited(outer))
    assert held(outer) == {0: ([2, 3, 4, 5, 6, 7], [0, 1])}
    assert held(alloc(inner, 1, "slot/numa{x}").to_dict()) == {0: ([2, 3, 4, 5], [1])}
    with pytest.raises(InfeasibleRequest, match="2 whole numa domains"):
        alloc(inner, 2, "slot/numa=2{x}")


def near(topo_cores, gpus):
    """True if all ids are of one NUMA domain."""
    homes = {core // 4 for core in topo_cores} | set(gpus)
    return len(homes) == 1


def test_three_levels_down_every_slot_that_can_be_near_is_near_in_the_outermost_ids():
    rng = random.Random(6)
    for _ in range(60):
        pool, chain = Pool(cluster()), []
        for shape in ("slot=6/[core=4;gpu=1]", "slot=4/[core=3;gpu=1]", "slot=2/[core=2;gpu=1]"):
            for jobid in range(rng.randrange(3)):
                try:
                    alloc(pool, -1 - jobid, rng.choice(["slot/core", "slot/[core=2;gpu=1]"]))
                except InsufficientResources:
                    break
            try:
                chain.append(alloc(pool, 1, shape).to_dict())
            except InsufficientResources:
                break
            pool = Pool(inherited(chain[-1]))
        if not chain:
            continue
        try:
            last = alloc(pool, 9, "slot/[core=1;gpu=1]").to_dict()
        except InsufficientResources:
            continue
        for outer in reversed(chain):
            translated = outer_ids(outer, last)
            last = copy.deepcopy(last)
            last["execution"]["R_lite"] = [
                {
                    "rank": str(rank),
                    "children": {
                        "core": idset.encode_ids(sorted(cores)),
                        "gpu": idset.encode_ids(gpus),
                    },
                }
                for rank, (cores, gpus) in translated.items()
            ]
        assert all(near(*taken) for taken in held(last).values())


@pytest.mark.parametrize("inside", [subinstance, lambda R: R, inherited])
def test_what_is_allocated_where_cores_were_renumbered_can_be_an_instance_again(inside):
    pool = Pool(cluster())
    alloc(pool, 1, "slot/[core=3;gpu=1]")
    inner = Pool(inherited(alloc(pool, 2, "slot=2/[core=3;gpu=1]").to_dict()))
    alloc(inner, 1, "slot/[core=2;gpu=1]")
    outer = alloc(inner, 2, "slot/[core=3;gpu=1]").to_dict()
    assert held(outer) == {0: ([3, 4, 5], [2])}
    assert outer["scheduling"]["allocated"] == [{"ranks": "0", "cores": "8-10"}]
    assert ResourceSet.problems(outer) == []
    innermost = Pool(inside(outer))
    alloc(innermost, 1, "slot/core=1")
    last = alloc(innermost, 2, "slot/[core=1;gpu=1]").to_dict()
    assert last["scheduling"]["allocated"] == [{"ranks": "0", "cores": "9"}]
    assert held(last) == {0: ([1 if inside is inherited else 4], [2])}


def test_cores_that_are_neither_the_topos_nor_as_many_are_refused():
    pool = Pool(cluster())
    alloc(pool, 1, "slot/[core=3;gpu=1]")
    R = alloc(pool, 2, "slot/[core=3;gpu=1]").to_dict()
    R["execution"]["R_lite"][0]["children"]["core"] = "1-2"
    with pytest.raises(InvalidKey, match=r"allocated: cores 4-6 .* 1-2"):
        Pool(R)


def described(pool):
    """The domains of each rank: their names and ids, and which of them are whole."""
    return {
        rank: [(d.name, d.cores, d.gpus, d.whole) for d in pool.inventory.types[rank].root.walk()]
        for rank in idset.iterate(pool.ranks)
    }


@pytest.mark.parametrize("seed", range(12))
def test_at_each_level_the_ranks_that_are_not_excluded_stay_what_they_are(seed):
    rng = random.Random(seed)
    R = cluster()
    topo = {"socket": [{"cores": "0-9", "gpus": "0-2"}, {"cores": "10-15", "gpus": "3"}]}
    R["scheduling"]["children"] = [
        {"ranks": "0,2", "topo": TOPO},
        {"ranks": "1,3", "topo": topo},
    ]
    some = "slot/core=2", rng.choice(["slot=3/node{x}", "node=3/slot/[core=9;gpu=2]"])
    for before, shape in (some, ("slot/core", "node=2/slot/[core=5;gpu=1]")):
        pool = Pool(R)
        alloc(pool, 1, before)
        R = inherited(alloc(pool, 2, shape).to_dict())
        excluded = 1 << rng.randrange(len(held(R)))
        everything = described(Pool(R))
        R = excluding(R, excluded)
        assert described(Pool(R)) == {r: d for r, d in everything.items() if not excluded >> r & 1}
