"""Fitness says how good a placement is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from made import alloc, asked, nodes
from treepool.placement.choose.fitness import BETA, Fitness, Share, memory_locality
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.links import Link, Links

NUMA = [
    {"cores": "0-3", "gpus": "0-1"},
    {"cores": "4-7", "gpus": "2-3"},
]
TOPO = {"numa": NUMA}
#: NVLink pairs inside each domain, PCIe between them.
PAIRS = Links(
    (Link("nvlink", 50.0, (0b11, 0b1100)), Link("pcie", 10.0, (0b101, 0b1010, 0b110, 0b1001)))
)


def cluster(count=2, links=PAIRS):
    """An R of *count* nodes of 8 cores and 4 GPUs."""
    return nodes(idset.encode((1 << count) - 1), gpus="0-3", topo=TOPO, links=links)


def test_a_slot_in_one_memory_domain_with_its_best_links_is_perfect():
    pool = Pool(cluster())
    fitness = alloc(pool, 1, "slot/[core=4;gpu=2]").fitness()
    assert (fitness.memory, fitness.links, fitness.inter, fitness.total) == (1.0, 1.0, None, 1.0)


def test_a_slot_across_domains_has_the_share_of_its_larger_part():
    pool = Pool(cluster())
    # Six cores and two GPUs: four cores and both GPUs of one domain, two cores of the other.
    fitness = alloc(pool, 1, "slot/[core=6;gpu=2]").fitness()
    assert fitness.memory == 6 / 8
    assert fitness.links == 1.0
    assert fitness.total == 0.5 * 1.0 + 0.5 * 6 / 8


def test_a_slot_across_domains_counts_by_its_larger_part_beside_slots_that_are_whole():
    node_type = Pool(cluster(1)).inventory.types[0]
    share = Share(node_type, 1, 0b0111, 0b0111, 3)
    assert memory_locality(share) == pytest.approx((2 + 1 / 2) / 3)


def test_the_smallest_link_counts():
    pool = Pool(cluster())
    assert alloc(pool, 1, "slot/[core=4;gpu=4]").fitness().links == 10 / 50


def test_without_links_or_several_gpus_only_memory_counts():
    assert Fitness(0.25).total == 0.25
    assert Fitness(0.25, 0.75).total == BETA * 0.75 + (1 - BETA) * 0.25


# -- measured against what an idle cluster could give the very request


def fitness_of(pool, shape, jobid=1):
    request = asked(pool, shape)
    return pool.fitness(pool.alloc(jobid, request), request)


@pytest.mark.parametrize(
    "shape",
    [
        "slot=1/node{x}",
        "node=2{x}/slot=1/core=1",
        "slot=1/core=8",
        "slot=1/[core=8;gpu=4]",
        "slot=1/[core=1;gpu=3]",
        "slot=2/[core=3;gpu=2]",
        "node=2/slot=1/core=1",
        "node=3/slot=1/[core=6;gpu=4]",
        "slot=9/[core=5;gpu=1]",
        "slot=1/gpu=4",
        "slot=2/core=1-8",
    ],
)
def test_a_job_that_could_not_sit_better_is_perfect(shape):
    assert fitness_of(Pool(cluster(12)), shape).total == 1.0


def test_the_parts_stay_as_they_are():
    fitness = fitness_of(Pool(cluster()), "slot=1/[core=8;gpu=4]")
    assert (fitness.memory, fitness.links, fitness.inter) == (0.5, 10 / 50, None)
    assert (fitness.intra, fitness.ideal.memory) == (1.0, 0.5)


def test_a_job_that_sits_worse_than_on_an_idle_cluster_is_not_perfect():
    pool = Pool(cluster(1))
    pool.alloc(9, asked(pool, "numa=2/slot=1/core=2"))
    fitness = fitness_of(pool, "slot=1/core=3")
    assert fitness.total == fitness.memory == 2 / 3


def test_more_nodes_than_on_an_idle_cluster_count_against_a_job():
    pool = Pool(cluster(2))
    pool.alloc(9, asked(pool, "node=2/slot=1/core=4"))
    fitness = fitness_of(pool, "slot=2/core=4")
    assert fitness.inter == 1 / 2
    assert fitness.total == pytest.approx(0.3 * 0.5 + 0.7 * 1.0)


def test_a_job_on_better_nodes_than_an_idle_cluster_would_give_is_perfect():
    ideal = Fitness(0.5, 0.1, 0.25)
    assert Fitness(1.0, 1.0, 1.0, ideal=ideal).total == 1.0
    assert Fitness(0.0, 0.0, ideal=Fitness(0.0, 0.0)).total == 1.0


SLOTS = st.builds("slot={}/[core={};gpu={}]".format, *[st.integers(1, 4)] * 3)


@given(st.lists(SLOTS, min_size=1, max_size=12))
def test_the_first_job_of_an_idle_cluster_is_perfect_and_none_is_better(shapes):
    pool = Pool(cluster(6))
    for jobid, shape in enumerate(shapes):
        try:
            fitness = fitness_of(pool, shape, jobid)
        except OSError:  # it does not fit (any more)
            continue
        assert 0 < fitness.total <= 1
        if jobid == 0:
            assert fitness.total == 1.0


@given(st.integers(1, 255), st.integers(0, 15), st.integers(1, 4))
def test_memory_locality_is_a_share_and_perfect_only_if_every_slot_fits(cores, gpus, nslots):
    pool = Pool(cluster(1))
    node_type = pool.inventory.types[0]
    share = memory_locality(Share(node_type, 1, cores, gpus, nslots))
    assert 0 < share <= 1
    inside = [cores & ~0xF == 0 and gpus & ~0b11 == 0, cores & 0xF == 0 and gpus & 0b11 == 0]
    if nslots == 1:
        # The definition, one domain after another.
        parts = [
            idset.size(cores & 0xF) + idset.size(gpus & 0b11),
            idset.size(cores & 0xF0) + idset.size(gpus & 0b1100),
        ]
        assert share == pytest.approx(max(parts) / sum(parts))
        assert (share == 1) == any(inside)
