"""A Flux instance inside a job counts cores, and perhaps GPUs, from zero; the topo does not.

Flux's resource module renumbers ranks and cores of R_lite when an instance starts on the R of its
job; GPUs, too, where the instance is kept from all others; it leaves the key alone. What
``allocated`` in the key says makes up for it.
"""

import copy
import random

import pytest

from made import alloc, nodes
from placement.inherited import excluding, ids, inherited, inherited_contained, started
from treepool import ResourceSet
from treepool.errors import InfeasibleRequest, InsufficientResources
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.keycheck import warnings
from treepool.rfc.links import digest
from treepool.view.model import Cluster

#: Two sockets of two NUMA domains, each with four cores and a GPU.
NUMA = [{"cores": f"{4 * i}-{4 * i + 3}", "gpus": str(i)} for i in range(4)]
TOPO = {"socket": [{"numa": NUMA[:2]}, {"numa": NUMA[2:]}]}


def cluster():
    return nodes("0-3", "0-15", "0-3", TOPO)


def held(R):
    """{rank: (cores, GPUs)} of an R."""
    found = {}
    for entry in R["execution"]["R_lite"]:
        children = entry["children"]
        for rank in ids(entry["rank"]):
            found[rank] = ids(children["core"]), ids(children.get("gpu", ""))
    return found


def told(R):
    """What the key says that a job of one node has, in the topo's ids; None if it says nothing."""
    (entry,) = R["scheduling"]["children"]
    return entry.get("allocated")


def outer_ids(outer, inner, inside):
    """What *inner*, allocated in an instance that inherited *outer*, is in the ids of *outer*."""
    ranks, above = sorted(held(outer)), held(outer)
    found = {}
    for rank, (cores, gpus) in held(inner).items():
        ours = above[ranks[rank]]
        gpus = [ours[1][gpu] for gpu in gpus] if inside is inherited_contained else gpus
        found[ranks[rank]] = [ours[0][core] for core in cores], gpus
    return found


#: What Flux makes of the R of a job for an instance inside, and whether it counts GPUs from zero.
WAYS = pytest.mark.parametrize("inside", [inherited, inherited_contained])


def near(topo_cores, gpus):
    """True if all ids are of one NUMA domain."""
    homes = {core // 4 for core in topo_cores} | set(gpus)
    return len(homes) == 1


@WAYS
def test_three_levels_down_every_slot_that_can_be_near_is_near_in_the_outermost_ids(inside):
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
            pool = Pool(inside(chain[-1]))
        if not chain:
            continue
        try:
            last = alloc(pool, 9, "slot/[core=1;gpu=1]").to_dict()
        except InsufficientResources:
            continue
        for outer in reversed(chain):
            translated = outer_ids(outer, last, inside)
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


@pytest.mark.parametrize(
    "shape, kind, ids, told_number, number",
    [
        ("slot/[core=3;gpu=1]", "core", "1-2", "3 cores and 1 GPU", "2 cores and 1 GPU"),
        ("slot/[core=6;gpu=2]", "gpu", "2", "6 cores and 2 GPUs", "6 cores and 1 GPU"),
    ],
)
def test_ids_that_are_not_as_many_as_those_of_R_are_ignored_and_nothing_is_whole(
    shape, kind, ids, told_number, number
):
    pool = Pool(cluster())
    alloc(pool, 1, "slot/[core=3;gpu=1]")
    R = started(alloc(pool, 2, shape).to_dict())
    R["execution"]["R_lite"][0]["children"][kind] = ids
    assert warnings(ResourceSet.read(R)) == [
        f"/scheduling/children/0/allocated: {told_number}, but R_lite of rank 0 has {number}, "
        "so it is ignored"
    ]
    inner = Pool(R)
    with pytest.raises(InfeasibleRequest, match="no numa domain is whole"):
        alloc(inner, 1, "slot/numa{x}")
    job = alloc(inner, 1, "slot/core=2").to_dict()
    assert told(job) == {"cores": ""}  # it is not known there either
    with pytest.raises(InfeasibleRequest, match="no numa domain is whole"):
        alloc(Pool(inherited(job)), 1, "slot/numa{x}")


def as_treepool_0_1(R):
    """*R* with what is allocated beside ``children``, where treepool 0.1 wrote it."""
    R = copy.deepcopy(R)
    entries = R["scheduling"]["children"]
    R["scheduling"]["allocated"] = [
        {"ranks": entry["ranks"], **entry.pop("allocated")}
        for entry in entries
        if "allocated" in entry
    ]
    return R


@WAYS
def test_a_key_of_treepool_0_1_says_beside_children_which_ids_a_job_has(inside):
    pool = Pool(cluster())
    alloc(pool, 1, "slot=2/node/core=9")
    R = inside(alloc(pool, 2, "node=3/slot/[core=7;gpu=1]").to_dict())
    old = as_treepool_0_1(R)
    assert old["scheduling"]["allocated"] and ResourceSet.problems(old) == []
    assert warnings(ResourceSet.read(old)) == []
    assert described(Pool(old)) == described(Pool(R))
    assert Pool(old).to_dict()["scheduling"] == Pool(R).to_dict()["scheduling"]


@pytest.mark.parametrize("ranks", ["3-4", "0,4"])
def test_a_list_of_treepool_0_1_that_another_reader_left_behind_is_ignored(ranks):
    R = started(cluster())
    R["execution"]["R_lite"][0]["children"] = {"core": "0-7", "gpu": "0-1"}
    R["scheduling"]["allocated"] = [{"ranks": ranks, "cores": "4-11"}]
    assert warnings(ResourceSet.read(R)) == [
        "/scheduling/allocated: ranks 4 are in no entry of children, so it is ignored"
    ]
    pool = Pool(R)
    with pytest.raises(InfeasibleRequest, match="no socket domain is whole"):
        alloc(pool, 1, "slot/socket{x}")
    assert held(alloc(pool, 1, "slot/core=8").to_dict()) == {0: (list(range(8)), [])}


def test_a_key_of_an_older_treepool_which_tells_no_gpus_leaves_them_as_they_are_in_R():
    pool = Pool(cluster())
    alloc(pool, 1, "slot/[core=3;gpu=1]")
    R = inherited(alloc(pool, 2, "slot=2/[core=3;gpu=1]").to_dict())
    del told(R)["gpus"]
    assert held(alloc(Pool(R), 1, "slot/[core=2;gpu=1]").to_dict()) == {0: ([0, 1], [1])}


def test_links_models_and_nics_are_those_of_the_gpus_that_the_topo_means():
    R, topo = cluster(), {"cores": "0-15", "gpus": "0-3"}
    R["scheduling"]["children"][0]["topo"] = topo
    table = {
        "links": [{"type": "nvlink", "gbps": 450, "among": ["0,2", "1,3"]}],
        "devices": [{"model": "H100", "memory": 80, "gpus": "0-2"}],
        "nics": [{"name": "mlx5_0", "gpus": "0,3", "path": "PIX"}],
    }
    R["scheduling"]["links"] = {digest(topo): table}
    pool = Pool(R)
    assert held(alloc(pool, 1, "slot/[core=1;gpu=1]").to_dict())[0][1] == [0]
    outer = alloc(pool, 2, "slot/[core=3;gpu=3]").to_dict()
    assert held(outer)[0][1] == [1, 2, 3]
    inner = Pool(inherited_contained(outer))
    two = alloc(inner, 1, "slot/[core=2;gpu=2]").to_dict()
    assert held(two)[0][1] == [0, 2]
    assert told(two)["gpus"] == "1,3"
    (links,) = Cluster.of(inner).links
    assert [(device.model, device.gpus) for device in links.devices] == [("H100", 0b011)]
    assert (links.nics_of(2), links.nics_of(0)) == (("mlx5_0",), ())


def described(pool):
    """The domains of each rank: their names and ids, and which of them are whole."""
    return {
        rank: [(d.name, d.cores, d.gpus, d.whole) for d in pool.inventory.types[rank].root.walk()]
        for rank in idset.iterate(pool.ranks)
    }


@WAYS
@pytest.mark.parametrize("seed", range(12))
def test_at_each_level_the_ranks_that_are_not_excluded_stay_what_they_are(seed, inside):
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
        R = inside(alloc(pool, 2, shape).to_dict())
        excluded = 1 << rng.randrange(len(held(R)))
        everything = described(Pool(R))
        R = excluding(R, excluded)
        assert described(Pool(R)) == {r: d for r, d in everything.items() if not excluded >> r & 1}
