"""``gpu_cores``: cores near each GPU that jobs without GPUs do not get."""

import random

import pytest

from depth import some
from made import alloc, asked, nodes
from treepool import parse_shape
from treepool.errors import InfeasibleRequest, InsufficientResources, InvalidOption
from treepool.placement.pool import Pool
from treepool.placement.why.decision import why_insufficient
from treepool.rfc import idset
from treepool.rfc.jobspec import from_resources

#: Two sockets of two NUMA domains with eight cores; GPUs near three of the four.
TOPO = {
    "socket": [
        {"numa": [{"cores": "0-7", "gpus": "0"}, {"cores": "8-15", "gpus": "1-2"}]},
        {"numa": [{"cores": "16-23", "gpus": "3"}, {"cores": "24-31"}]},
    ]
}
NUMA = {"0": range(8), "1": range(8, 16), "2": range(8, 16), "3": range(16, 24)}


def pool_of(gpu_cores, ranks="0-1", topo=TOPO):
    return Pool(nodes(ranks, "0-31", "0-3", topo), gpu_cores=gpu_cores)


def cores_of(allocation):
    return [
        (rank, core)
        for ranks, cores, _ in allocation.parts
        for rank in idset.iterate(ranks)
        for core in idset.iterate(cores)
    ]


@pytest.mark.parametrize("gpu_cores", some([2, 1, 3]))
def test_however_full_jobs_without_gpus_make_it_each_gpu_can_have_its_cores(gpu_cores):
    """The promise, one job after another, whatever the sizes of the jobs without GPUs are."""
    for seed in range(20):
        chance, pool, jobid = random.Random(seed), pool_of(str(gpu_cores)), 0
        shapes = [f"slot={chance.randint(1, 9)}/core={chance.randint(1, 12)}" for _ in range(9)]
        for shape in [*shapes, *["slot/core"] * 64]:
            jobid += 1
            try:
                alloc(pool, jobid, shape)
            except (InsufficientResources, InfeasibleRequest):
                continue
        for _ in range(8):  # four GPUs on each of two nodes
            jobid += 1
            got = alloc(pool, jobid, f"slot/[core={gpu_cores};gpu=1]", locality="required")
            ((_, _, gpu),) = got.parts
            near = NUMA[idset.encode(gpu)]
            assert len(cores_of(got)) == gpu_cores
            assert all(core in near for _, core in cores_of(got))


@pytest.mark.parametrize(
    "shape",
    ["slot=8/[core=8;gpu=1]", "slot=2/node{x}", "slot=8/numa{x}", "slot=4/socket{x}", "slot=8/gpu"],
)
def test_jobs_with_gpus_may_have_every_core(shape):
    with_kept, without = pool_of("4"), pool_of("0")
    assert alloc(with_kept, 1, shape).parts == alloc(without, 1, shape).parts


@pytest.mark.parametrize(
    "shape, reason",
    [
        ("slot/core=25", "no node has 25 cores: the largest has 24"),
        ("slot/numa/core=9", "no numa domain has 9 cores: the largest has 8"),
        ("slot=3/core=20", "the request asks for 3 slots: all nodes together have room for 2"),
    ],
)
def test_a_job_that_would_need_them_is_refused_and_told_so(shape, reason):
    pool = pool_of("2")
    with pytest.raises(InfeasibleRequest) as error:
        pool.check_feasibility(asked(pool, shape))
    assert str(error.value) == f"{reason}, without the cores that are kept for jobs with GPUs"


@pytest.mark.parametrize("seed", range(10))
def test_why_a_job_waits_counts_what_it_could_have(seed):
    """Also where jobs with GPUs have other cores than those that are kept."""
    chance, pool = random.Random(seed), pool_of("2")
    shapes = [f"slot/[core={chance.randint(1, 4)};gpu={n}]" for n in (1, 2, 1)]
    for jobid, shape in enumerate([*shapes, f"slot={chance.randint(3, 30)}/core"], 1):
        alloc(pool, jobid, shape)
    reason = why_insufficient(pool.situation, asked(pool, "slot=48/core"))
    assert str(reason).endswith(", without the cores that are kept for jobs with GPUs")
    with pytest.raises(InsufficientResources):
        alloc(pool, 9, f"slot={reason.have + 1}/core")
    assert len(cores_of(alloc(pool, 9, f"slot={reason.have}/core"))) == reason.have


def test_a_reason_is_silent_about_cores_that_nobody_keeps():
    pool = Pool(nodes("0-1", "0-31"), gpu_cores="2")
    with pytest.raises(InfeasibleRequest, match=r"the largest has 32$"):
        pool.check_feasibility(asked(pool, "slot/core=33"))


def test_slots_are_local_by_what_such_jobs_can_have():
    """No NUMA domain has 7 cores for them but the one without GPUs, so required means that one."""
    pool = pool_of("2", "0")
    got = alloc(pool, 1, "slot/core=7", locality="required")
    assert {core for _, core in cores_of(got)} <= set(range(24, 32))
    with pytest.raises(InsufficientResources):
        alloc(pool, 2, "slot/core=7", locality="required")


def test_a_range_is_local_by_what_such_jobs_can_have():
    """Three cores are one domain's, four are the socket's: the smaller number is not local now."""
    numas = [{"cores": f"{4 * i}-{4 * i + 3}", "gpus": f"{i}"} for i in range(4)]
    pool = Pool(nodes("0", "0-15", "0-3", {"socket": [{"numa": numas}]}), gpu_cores="1")
    alloc(pool, 1, "numa=4/slot/core")
    assert len(cores_of(alloc(pool, 2, "slot/core=3-4", locality="required"))) == 4


def test_where_the_domain_of_a_gpu_has_too_few_the_domain_around_gives_the_rest():
    """Five cores for each of two GPUs in a domain of eight: two more come from its socket."""
    pool = pool_of("5", "0")
    got = cores_of(alloc(pool, 1, "slot=12/core"))
    assert len(got) == 32 - 4 * 5
    assert not {core for _, core in got} & set(range(8, 16))


@pytest.mark.parametrize("value", ["-1", "1.5", "many", "1025", ""])
def test_other_values_are_refused(value):
    with pytest.raises(InvalidOption, match=r"gpu_cores.*not a whole number from 0 to 1024"):
        pool_of(value)


@pytest.mark.parametrize("cores", [1, 3])
def test_gpus_bring_their_share_if_the_option_says_so_and_alone_it_says_nothing(cores):
    pool = pool_of("0")

    def got(shape, **options):
        spec = from_resources(parse_shape(shape), options=options or None)
        return pool.copy().alloc(1, pool.parse_resource_request(spec)).dumps()

    assert got(f"slot=2/[core={cores};gpu=1]", cores="share") == got("slot=2/gpu=1")
    assert got(f"slot=2/core={cores}", cores="share") == got(f"slot=2/core={cores}")
