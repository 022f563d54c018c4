"""The fabric in the R of a job: cut to its ranks, in the form in which an instance maps it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import made
from depth import examples
from made import alloc
from rfc.test_fabric import key, paths, trees
from treepool import subinstance
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.scheduling import SchedulingKey
from work import Lines


def cluster(fabric, nodes, cores=4):
    """The R of so many flat nodes below *fabric*."""
    return made.nodes(f"0-{nodes - 1}", f"0-{cores - 1}", fabric=fabric)


def on_ranks(pool, ranks, jobid=1):
    """The R of a job that has all of *ranks*."""
    constraints = {"ranks": [idset.encode_ids(sorted(ranks))]}
    return alloc(pool, jobid, f"node={len(ranks)}{{x}}/slot=1/core=1", constraints).to_dict()


@settings(max_examples=examples(200))
@given(trees(), st.sets(st.integers(0, 24), min_size=1))
def test_a_jobs_fabric_is_the_pools_cut_to_its_ranks(tree, ranks):
    pool = Pool(cluster(tree, 25))
    R = on_ranks(pool, ranks)
    around = {rank: path for rank, path in paths(tree).items() if path}
    left = {rank: path for rank, path in around.items() if rank in ranks}
    found = R["scheduling"].get("fabric", {})
    assert {rank: path for rank, path in paths(found).items() if path} == left
    if found:
        cut = SchedulingKey.read(key(tree)).trim(idset.from_ids(ranks))
        assert SchedulingKey.read(key(found)).fabric.localities() == cut.fabric.localities()
    inner = Pool(subinstance(R)).to_dict()["scheduling"].get("fabric", {})
    new = {rank: path for rank, path in paths(inner).items() if path}
    assert new == {sorted(ranks).index(rank): path for rank, path in left.items()}


def test_a_pool_whose_ranks_are_removed_keeps_the_rest_of_its_fabric():
    pool = Pool(cluster({"switch": [{"name": "a", "ranks": "0-1"}, {"ranks": "2-3"}]}, 4))
    pool.remove_ranks("1-3")
    assert pool.to_dict()["scheduling"]["fabric"] == {"switch": [{"name": "a", "ranks": "0"}]}


def test_the_pools_own_r_has_the_fabric_as_it_was_read():
    fabric = {"switch": [{"ranks": "0-1", "port": 3}, {"name": "b", "ranks": "2"}], "by": "me"}
    assert Pool(cluster(fabric, 4)).to_dict()["scheduling"]["fabric"] == fabric


CELLS = {
    "cell": [
        {"switch": [{"ranks": "0-3"}, {"ranks": "4-7"}]},
        {"switch": [{"ranks": "8-11"}, {"ranks": "12-13"}]},
    ]
}


def inter_of(ranks, fabric=CELLS):
    pool = Pool(cluster(fabric, 16))
    constraints = {"ranks": [idset.encode_ids(sorted(ranks))]}
    return alloc(pool, 1, f"node={len(ranks)}{{x}}/slot=1/core=1", constraints).fitness().inter


@pytest.mark.parametrize(
    ("ranks", "inter"),
    [
        ([0], None),  # one node
        ([0, 1], 1),
        ([0, 4], (1 + 1 / 2) / 2),  # two switches, one cell
        ([0, 8], (1 / 2 + 1 / 2) / 2),
        (range(8), 1),  # no switch has eight nodes: two are the fewest
        ([0, 1, 2, 4, 5, 8], (1 / 2 + 2 / 3) / 2),
        ([14, 15], 1 / 2),  # each stands alone
        ([*range(14), 14, 15], 1),  # all that there is
    ],
)
def test_fitness_between_nodes_is_the_fewest_domains_over_those_spanned(ranks, inter):
    found = inter_of(list(ranks))
    assert found == (None if inter is None else pytest.approx(inter))


@pytest.mark.depth
def test_the_work_for_a_jobs_fabric_follows_its_size_where_ranks_stand_alone():
    """A switch and a rank beside it in each of many racks."""

    def work(racks):
        rack = [{"ranks": f"{2 * i},{2 * i + 1}", "switch": [{"ranks": f"{2 * i}"}]} for i in racks]
        pool = Pool(cluster({"rack": rack}, 2 * len(racks)))
        with Lines() as lines:
            on_ranks(pool, set(range(2 * len(racks))))
        return lines.count

    assert work(range(400)) < 6 * work(range(100))
