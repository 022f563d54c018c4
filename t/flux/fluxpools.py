"""Run by Flux's Python: treepool's pools and flux-core's own on the same R; each check a function.

Some need flux-core's TreePool, which flux-core 0.86 has not.
"""

import json
import os
from pathlib import Path
from unittest.mock import patch

import checks
from flux.resource import ResourcePool, ResourceSet
from flux.resource.Rv1Pool import Rv1Pool

import TreePool  # noqa: F401 (makes treepool importable)
from treepool import parse_shape
from treepool.cli.vectors import play
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


def allocations(path):
    """The R of each allocation that playing a file of vectors makes."""
    found, whole = {}, Pool.alloc

    def alloc(self, jobid, request):
        allocation = whole(self, jobid, request)
        R = allocation.to_dict()
        found[json.dumps(R["execution"], sort_keys=True)] = R
        return allocation

    with patch.object(Pool, "alloc", alloc):
        assert all(result.passed for result in play(json.loads(path.read_text())))
    return found.values()


def check_flux_reads_the_r_of_each_allocation_of_each_vector():
    for path in sorted(VECTORS.glob("*.json")):
        for R in allocations(path):
            # Flux takes the class of a ResourcePool from the key's writer, so here it is ours.
            for kind in (ResourceSet, ResourcePool):
                assert content(kind(json.dumps(R)).to_dict()) == content(R), (path, kind)


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


if __name__ == "__main__":
    checks.run(globals())
