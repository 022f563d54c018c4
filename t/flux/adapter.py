"""Run by Flux's Python: checks of the pool class that need no instance, each a function."""

import json
import os

import checks
from flux.idset import IDset
from flux.job import JobspecV1
from flux.resource import InfeasibleRequest, InsufficientResources, ResourcePool, ResourceSet
from flux.scheduler import Scheduler

import TreePool  # noqa: F401 (makes treepool importable)
from treepool.flux.pool import PoolV1, TreepoolPool

VECTORS = os.path.join(os.environ["TREEPOOL_TEST_ROOT"], "testvectors", "rfc49-cluster-a.json")
with open(VECTORS) as _file:
    R = json.load(_file)["cluster"]["R"]


def spec(cores=1, gpus=None, tasks=1, duration=60, **more):
    """A jobspec dict."""
    job = JobspecV1.from_command(
        ["true"], num_tasks=tasks, cores_per_task=cores, gpus_per_task=gpus, **more
    )
    job.duration = duration
    return job.jobspec


def placed(pool, jobid, **more):
    """A job's allocation."""
    return pool.alloc(jobid, pool.parse_resource_request(spec(**more)))


def raises(kind, act):
    """Assert that *act* raises an error of this *kind*; returns its text."""
    try:
        act()
    except kind as e:
        return str(e)
    raise AssertionError(f"no {kind.__name__}")


def check_names_that_flux_resolves():
    scheduler = object.__new__(Scheduler)
    scheduler.log, scheduler.pool_kwargs = None, {}
    for name in ("treepool", "TreePool", "treepool.flux.pool", "treepool:pool_class"):
        pool = scheduler._make_pool({**R, "scheduling": {**R["scheduling"], "writer": name}})
        assert type(pool) is TreepoolPool, name


def check_nothing_of_the_interface_is_missing():
    assert not PoolV1.__abstractmethods__
    missing = [
        n for n in dir(ResourcePool) if not n.startswith("_") and not hasattr(TreepoolPool, n)
    ]
    assert missing == []


def check_errors_are_those_of_flux():
    pool = TreepoolPool(R)
    try:
        placed(pool, 1, cores=121)
    except InfeasibleRequest as e:
        assert "121" in str(e)
    else:
        raise AssertionError("feasible")
    raises(
        InfeasibleRequest,
        lambda: pool.check_feasibility(pool.parse_resource_request(spec(cores=121))),
    )
    pool.mark_down("all")
    raises(InsufficientResources, lambda: placed(pool, 1))
    raises(ValueError, lambda: pool.parse_resource_request({"version": 1}))


def check_a_request_carries_what_schedulers_read():
    jobspec = spec(duration=90)
    request = TreepoolPool(R).parse_resource_request(jobspec)
    assert (request.duration, request.jobspec) == (90.0, jobspec)


def check_an_allocation_is_an_R():
    alloc = placed(TreepoolPool(R), 1, cores=2, gpus=1, tasks=4)
    assert isinstance(alloc, TreepoolPool)
    alloc.set_starttime(10.0)
    alloc.set_expiration(20.0)
    assert alloc.expiration == 20.0
    assert alloc.dumps() == "rank0/core[0-1,15-16,30-31,45-46],gpu[0-3]"
    execution = alloc.to_dict()["execution"]
    assert (execution["starttime"], execution["expiration"]) == (10.0, 20.0)
    rset = alloc.to_resource_set()
    assert (str(rset.nodelist), rset.ncores, rset.ngpus) == ("xeon0", 8, 4)


def check_free_takes_an_R_of_any_kind():
    for of in (ResourcePool, TreepoolPool, ResourceSet):
        pool = TreepoolPool(R)
        alloc = placed(pool, 1, cores=120, tasks=2)
        whole, part = alloc.to_dict(), of(alloc.to_dict())
        part.remove_ranks(IDset("1"))
        pool.free(1, part, final=False)
        assert str(pool.copy_allocated().ranks) == "1"
        rest = of(whole)
        rest.remove_ranks(IDset("0"))
        pool.free(1, rest, final=True)
        assert pool.copy_allocated().nnodes == 0
        assert pool.job_end_times() == []


def check_free_of_what_the_job_does_not_hold_is_refused():
    pool = TreepoolPool(R)
    other = placed(pool.copy(), 1, cores=2)
    placed(pool, 1, cores=1)
    raises(ValueError, lambda: pool.free(1, other, final=True))
    pool.free(7, other, final=True)  # a job that hello could not register


def check_hello_puts_jobs_back():
    pool, again = TreepoolPool(R), TreepoolPool(R)
    alloc = placed(pool, 1, cores=3, gpus=1)
    alloc.set_starttime(9.0)
    alloc.set_expiration(99.0)
    again.register_alloc(1, TreepoolPool(alloc.to_dict()))
    assert again.copy_allocated().dumps() == pool.copy_allocated().dumps()
    assert again.job_end_times() == [(1, 99.0)]
    raises(ValueError, lambda: again.register_alloc(2, TreepoolPool(alloc.to_dict())))


def check_hello_and_free_add_up_what_an_R_has_of_a_rank_in_several_entries():
    # As librlist does; RFC 20 does not forbid it.
    pool, alloc = TreepoolPool(R), placed(TreepoolPool(R), 1, cores=120, tasks=2).to_dict()
    whole = [{"rank": "0-1", "children": {"core": "0-3", "gpu": "1"}}]
    several = [
        {"rank": "0-1", "children": {"core": "0-1"}},
        {"rank": "1", "children": {"core": "1-3", "gpu": "1"}},
        {"rank": "0", "children": {"core": "2-3", "gpu": "1"}},
    ]
    for taken, given in ((several, several), (several, whole), (whole, several)):
        alloc["execution"]["R_lite"] = taken
        pool.register_alloc(1, TreepoolPool(alloc))
        assert pool.copy_allocated().dumps() == "rank[0-1]/core[0-3],gpu1"
        alloc["execution"]["R_lite"] = given
        pool.free(1, TreepoolPool(alloc), final=True)
        assert pool.job_end_times() == []
        assert pool.copy_allocated().ncores == 0


def check_what_a_job_holds_beside_a_node_that_is_gone_is_nobody_elses_until_it_is_freed():
    pool, again = TreepoolPool(R), TreepoolPool(R)
    alloc = placed(pool, 1, cores=120, tasks=2).to_dict()
    first, second = IDset(alloc["execution"]["R_lite"][0]["rank"])
    again.remove_ranks(str(first))
    try:
        again.register_alloc(1, TreepoolPool(alloc))
    except ValueError as e:
        assert f"rank {first} is not in the pool" in str(e)
    else:
        raise AssertionError("recorded")
    assert str(again.copy_allocated().ranks) == str(second)
    for rank, other in ((first, second), (second, first)):
        part = TreepoolPool(alloc)
        part.remove_ranks(str(other))
        again.free(1, part, final=rank == second)
    assert again.copy_allocated().ncores == 0
    assert again.job_end_times() == []


if __name__ == "__main__":
    checks.run(globals())
