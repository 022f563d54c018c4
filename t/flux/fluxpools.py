"""Run by Flux's Python: treepool's pools and flux-core's own on the same R; each check a function.

``fluxpools.py CHECK`` runs one, ``fluxpools.py`` lists them; it exits with 77 where the check
needs flux-core's TreePool and this flux-core, 0.86 that is, has none.
"""

import json
import os
from itertools import product
from pathlib import Path

import checks
from flux.resource import ResourcePool, ResourceSet
from flux.resource.Rv1Pool import Rv1Pool

import TreePool  # noqa: F401 (makes treepool importable)
from treepool import parse_shape, subinstance
from treepool.flux.pool import TreepoolPool
from treepool.placement.pool import Pool

VECTORS = Path(os.environ["TREEPOOL_TEST_ROOT"]) / "testvectors"

CLUSTERS = ("rfc49-cluster-a", "rfc49-cluster-b")


def FluxCorePool(R):
    """flux-core's own TreePool on *R*."""
    try:
        from flux.resource.TreePool import TreePool
    except ImportError as e:
        raise checks.Lacking(e) from None
    return TreePool(R)


def vectors(name):
    """(R of the cluster, [(id, shape, expected R_lite or None)])."""
    data = json.loads((VECTORS / f"{name}.json").read_text())
    steps = [(v["id"], v["shape"], v["expect"].get("R_lite")) for v in data["vectors"]]
    return data["cluster"]["R"], steps


def spec(shape):
    """A jobspec dict of a shape."""
    return {
        "version": 1,
        "resources": parse_shape(shape),
        "tasks": [{"command": ["true"], "slot": "default", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 60}},
    }


def placed(pool, jobid, shape):
    """What *pool* gives job *jobid*; of either kind of pool."""
    return pool.alloc(jobid, pool.parse_resource_request(spec(shape)))


def content(R):
    """{rank: (cores, GPUs)} of an R, whoever wrote it, without treepool."""
    plain = Rv1Pool({**R, "scheduling": None})
    return {rank: (set(i["cores"]), set(i["gpus"])) for rank, i in plain._ranks.items()}


def taken(pool):
    """{rank: (cores, GPUs)} that are allocated in a pool of either kind."""
    return content(pool.copy_allocated().to_dict())


def both(name):
    """(treepool's pool, flux-core's pool) of a cluster of the RFC."""
    R, _ = vectors(name)
    return TreepoolPool(R), FluxCorePool(R)


def check_both_pools_give_every_vector_of_the_rfc_what_is_printed_there():
    for name in CLUSTERS:
        R, steps = vectors(name)
        ours, theirs = TreepoolPool(R), FluxCorePool(R)
        for number, (vector, shape, expected) in enumerate(steps):
            assert expected, vector
            for pool in (ours, theirs):
                R_lite = placed(pool, number, shape).to_dict()["execution"]["R_lite"]
                printed = content({"version": 1, "execution": {"R_lite": expected}})
                got = content({"version": 1, "execution": {"R_lite": R_lite}})
                assert got == printed, (vector, type(pool), got, printed)


def check_an_r_of_ours_loads_in_every_pool_and_set_of_flux_core():
    for name in CLUSTERS:
        R, steps = vectors(name)
        pool = TreepoolPool(R)
        for number, (_, shape, _) in enumerate(steps):
            mine = placed(pool, number, shape).to_dict()
            # Flux takes the class of a ResourcePool from the key's writer, so here it is ours.
            for kind in (Rv1Pool, ResourceSet, ResourcePool):
                assert content(kind(json.dumps(mine)).to_dict()) == content(mine), (name, kind)
        assert content(pool.to_dict()) == content(R)


def check_an_r_of_ours_loads_in_flux_cores_tree_pool():
    for name in CLUSTERS:
        R, _ = vectors(name)
        assert content(FluxCorePool(TreepoolPool(R).to_dict()).to_dict()) == content(R)


def check_an_r_of_flux_core_loads_in_ours():
    for name in CLUSTERS:
        R, steps = vectors(name)
        pool = FluxCorePool(R)
        for number, (_, shape, _) in enumerate(steps):
            theirs = placed(pool, number, shape).to_dict()
            assert content(Pool(theirs).to_dict()) == content(theirs)
            assert Pool(theirs).localities == Pool(R).localities


def check_what_ours_allocates_flux_core_can_register_and_goes_on_as_ours_would():
    for name in CLUSTERS:
        R, steps = vectors(name)
        for split in range(1, len(steps)):
            ours, theirs = TreepoolPool(R), FluxCorePool(R)
            for number, (_, shape, _) in enumerate(steps[:split]):
                mine = placed(ours, number, shape).to_dict()
                theirs.register_alloc(number, Rv1Pool(mine))
            assert taken(theirs) == taken(ours)
            _, shape, expected = steps[split]
            got = placed(theirs, 99, shape).to_dict()
            assert content(got) == content({"version": 1, "execution": {"R_lite": expected}})


def check_what_flux_core_allocates_ours_can_register_and_goes_on_as_flux_core_would():
    for name in CLUSTERS:
        R, steps = vectors(name)
        for split in range(1, len(steps)):
            ours, theirs = TreepoolPool(R), FluxCorePool(R)
            for number, (_, shape, _) in enumerate(steps[:split]):
                other = placed(theirs, number, shape)
                ours.register_alloc(number, other)
            assert taken(theirs) == taken(ours)
            _, shape, expected = steps[split]
            got = placed(ours, 99, shape).to_dict()
            assert content(got) == content({"version": 1, "execution": {"R_lite": expected}})


def check_what_one_registered_the_other_frees_to_the_last_core():
    for name in CLUSTERS:
        R, steps = vectors(name)
        ours, theirs = TreepoolPool(R), FluxCorePool(R)
        got = [placed(ours, number, shape) for number, (_, shape, _) in enumerate(steps)]
        for number, allocation in enumerate(got):
            theirs.register_alloc(number, Rv1Pool(allocation.to_dict()))
        for number, allocation in enumerate(got):
            theirs.free(number, Rv1Pool(allocation.to_dict()), final=True)
        assert taken(theirs) == {}


def sub_instances():
    """R of sub-instances that ours and flux-core's allocate on the RFC's clusters, by a name."""
    for name, shape in (
        ("rfc49-cluster-a", "slot=3/[core=15;gpu=1]"),
        ("rfc49-cluster-a", "slot=2/socket{x}"),
        ("rfc49-cluster-a", "slot=3/node{x}/core=1"),
        ("rfc49-cluster-b", "slot=5/[core=24;gpu=1]"),
        ("rfc49-cluster-b", "slot=2/node{x}/core=1"),
    ):
        for kind, pool in zip(("ours", "theirs"), both(name)):
            placed(pool, 1, "slot=1/[core=2;gpu=1]")
            yield f"{kind}: {name} {shape}", placed(pool, 2, shape).to_dict()


def inside(R):
    """*R* as Flux hands it down: R_lite counts ranks from zero, the key is as it was."""
    new = dict(zip(sorted(content(R)), range(len(content(R)))))
    R_lite = [
        {"rank": str(new[rank]), "children": entry["children"]}
        for entry in R["execution"]["R_lite"]
        for rank in content({"version": 1, "execution": {"R_lite": [entry]}})
    ]
    return {**R, "execution": {**R["execution"], "R_lite": R_lite}}


def check_a_sub_instance_of_either_starts_under_either_and_both_place_alike():
    for name, R in sub_instances():
        below = inside(R)
        ours, theirs = TreepoolPool(below), FluxCorePool(below)
        for jobid, shape in enumerate(("slot=1/[core=3;gpu=1]", "slot=1/core=2")):
            got = [content(placed(pool, jobid, shape).to_dict()) for pool in (ours, theirs)]
            assert got[0] == got[1], (name, shape, got)


def check_the_r_that_subinstance_makes_loads_in_flux_core():
    for name, R in sub_instances():
        below = subinstance(R)
        theirs = FluxCorePool(below)
        assert content(theirs.to_dict()) == content(below), name
        assert [e["ranks"] for e in theirs.impl.scheduling["children"]] == [
            e["ranks"] for e in below["scheduling"]["children"]
        ], name


def check_what_ours_adds_to_a_key_flux_core_carries_along():
    for _, R in sub_instances():
        told = [entry.get("allocated") for entry in R["scheduling"]["children"]]
        if any(told):
            below = FluxCorePool(inside(R))
            got = placed(below, 1, f"slot={len(told)}/node/core=1").to_dict()
            assert [e.get("allocated") for e in got["scheduling"]["children"]] == told
            break
    else:
        raise AssertionError("no R with more than the RFC has")


#: What nodes of the chains are: two sockets of two NUMA domains of four cores and a GPU.
NUMA = [{"cores": f"{4 * i}-{4 * i + 3}", "gpus": str(i)} for i in range(4)]
SOCKETS = {"socket": [{"numa": NUMA[:2]}, {"numa": NUMA[2:]}]}


def chain_R(nodes):
    """The R of the outermost instance of a chain."""
    ranks = f"0-{nodes - 1}" if nodes > 1 else "0"
    return {
        "version": 1,
        "execution": {
            "R_lite": [{"rank": ranks, "children": {"core": "0-15", "gpu": "0-3"}}],
            "nodelist": [f"n[{ranks}]"],
            "starttime": 0,
            "expiration": 0,
        },
        "scheduling": {
            "writer": "TreePool",
            "children": [{"ranks": ranks, "topo": SOCKETS}],
        },
    }


def started_in(R):
    """*R* as Flux hands it to an instance: ranks and cores from zero, the key as it was.

    Also the true node and cores of each of its ranks, in the ids of the instance around it.
    """
    has = content(R)
    entries = []
    for new, rank in enumerate(sorted(has)):
        children = {"core": ",".join(map(str, range(len(has[rank][0]))))}
        if has[rank][1]:
            children["gpu"] = ",".join(map(str, sorted(has[rank][1])))
        entries.append({"rank": str(new), "children": children})
    R = json.loads(json.dumps(R))
    R["execution"]["R_lite"] = entries
    R["execution"]["starttime"] = 1.0
    del R["execution"]["nslots"]
    return R, {new: (rank, sorted(has[rank][0])) for new, rank in enumerate(sorted(has))}


def chain(kinds, shapes, nodes):
    """An instance of each of *kinds* inside a job of the one before, each with other jobs beside.

    *shapes* are those of the jobs of each instance. Yields of each instance its kind, its pool, and
    the true node and cores of each of its ranks.
    """
    R, true = chain_R(nodes), {rank: (rank, list(range(16))) for rank in range(nodes)}
    for kind, jobs in zip(kinds, shapes):
        pool = TreepoolPool(R) if kind == "ours" else FluxCorePool(R)
        yield kind, pool, true
        for jobid, shape in enumerate(jobs):
            try:
                job = placed(pool, jobid, shape)
            except OSError:  # no room beside what is there
                return
        R, inner = started_in(job.to_dict())
        true = {
            new: (true[rank][0], [true[rank][1][core] for core in cores])
            for new, (rank, cores) in inner.items()
        }


#: The jobs of the outermost instance and of the one inside; the last one is the next instance's.
CHAINS = (
    ("slot/[core=4;gpu=1], slot=2/[core=4;gpu=1]", "slot=2/[core=4;gpu=1]"),
    ("slot/core=6, slot=2/[core=4;gpu=1]", "slot/core=1, slot/[core=5;gpu=1]"),
    ("slot/node/core=6, slot=3/node/[core=9;gpu=2]", "slot=2/node/core=9"),
    ("slot/node/core=16, slot=2/node/core=9", "slot/node/core=1, slot/node/core=3"),
    ("slot=3/[core=8;gpu=2], slot=5/[core=8;gpu=2]", "slot/core=1, slot=3/[core=8;gpu=2]"),
    ("slot=3/core=3, slot=4/node{x}/core=1", "slot/core=9, slot=2/node{x}/core=1"),
    ("slot/core=3, slot/[core=12;gpu=4]", "slot/core=1, slot/[core=8;gpu=2]"),
)


def check_in_chains_of_three_instances_of_either_pool_a_part_is_never_called_whole():
    seen = set()
    every = product(CHAINS, (1, 2, 6), product(("ours", "theirs"), repeat=3))
    for jobs, nodes, kinds in every:
        shapes = [some.split(", ") for some in (*jobs, "slot/core")]
        for depth, (kind, pool, true) in enumerate(chain(kinds, shapes, nodes)):
            if kind == "theirs" or (depth and kinds[0] == "theirs"):
                continue  # flux-core's pool does not say which cores its jobs have
            for name, size in (("socket", 8), ("numa", 4)):
                try:
                    job = placed(pool.copy(), 99, f"slot/{name}{{x}}").to_dict()
                except OSError:
                    continue
                ((rank, (cores, _)),) = content(job).items()
                mine = sorted(true[rank][1][core] for core in cores)
                whole = range(mine[0] // size * size, mine[0] // size * size + size)
                assert mine == list(whole), (kinds, shapes, nodes, mine)
                seen.add((kinds, depth))
    assert (("ours", "ours", "ours"), 2) in seen and (("ours", "theirs", "ours"), 2) in seen


def check_a_final_free_frees_also_what_the_job_manager_freed_when_no_scheduler_listened():
    # Between hello and ready it drops what housekeeping frees; what comes last then says less
    # than the job holds. flux-core's pool raises, which ends the scheduler and the instance.
    ours, theirs = both("rfc49-cluster-a")
    shape = "node=3/slot=1/core=2"
    mine = placed(ours, 1, shape).to_dict()
    theirs.register_alloc(1, Rv1Pool(mine))
    last = Rv1Pool(mine)
    last.remove_ranks("0-1")
    ours.free(1, last, final=True)
    assert taken(ours) == {} and ours.job_end_times() == []
    try:
        theirs.free(1, last, final=True)
    except ValueError:
        pass
    else:
        raise AssertionError("flux-core does it too by now: say so here")


def check_a_final_free_of_more_than_the_job_holds_is_refused_and_changes_nothing():
    R, _ = vectors("rfc49-cluster-a")
    ours = TreepoolPool(R)
    mine = placed(ours, 1, "node=3/slot=1/core=2").to_dict()
    more = placed(ours.copy(), 2, "node=4/slot=1/core=2")
    before = taken(ours)
    try:
        ours.free(1, more, final=True)
    except ValueError:
        assert taken(ours) == before == content(mine)
    else:
        raise AssertionError("freed")


if __name__ == "__main__":
    checks.run(globals())
