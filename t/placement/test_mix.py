"""The mix of jobs that a site expects: how it is written, and which GPUs it cannot use."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import examples
from placement import strategies
from placement.exhaustive import TooBig
from placement.reference import Ids, ReferencePool, usable
from placement.test_against_reference import SETTINGS
from placement.test_work import cluster, request
from treepool.errors import InvalidOption
from treepool.placement.choose.mix import Mix
from treepool.placement.nodes.state import NodeState
from treepool.placement.nodes.usable import PER_GPU
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.mix import MAX_KINDS, Kind, read_mix

#: Four sockets of 24 cores and a GPU.
POOL = Pool(cluster(2))
(TYPE,) = POOL.inventory.node_types
ALL = (1 << 96) - 1
#: Kinds of jobs with a list in their shape.
EIGHT, LISTED = Kind("slot/[core=8;gpu=1]", 7), Kind("slot/core=1,2,4")


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("", ()),
        (" ", ()),
        ("slot/gpu", (Kind("slot/gpu"),)),
        ("2.5*slot/gpu", (Kind("slot/gpu", 2.5),)),
        ("7*slot/[core=8;gpu=1],3 * slot/node{x}", (EIGHT, Kind("slot/node{x}", 3))),
        ("1*slot/core=1,2,4,2*slot/core=2-8:2:*", (LISTED, Kind("slot/core=2-8:2:*", 2))),
    ],
)  # fmt: skip
def test_a_kind_of_job_is_a_shape_with_its_weight(text, kinds):
    assert read_mix(text) == kinds


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0*slot/gpu", "a weight is above 0"),
        ("3*", ""),
        ("1*gpu", "there is no slot"),
        ("nan*slot/gpu", "there is no slot"),
        ("1*slot/gpu,2*slot/[core", "column"),
        (",".join(["1*slot/gpu"] * (MAX_KINDS + 1)), "more than 64 kinds"),
    ],
)
def test_what_is_no_mix_is_refused_in_one_line(text, said):
    with pytest.raises(InvalidOption, match=r"^mix: ") as caught:
        Pool(cluster(2), mix=text)
    assert "\n" not in str(caught.value)
    assert said in str(caught.value)


SMALL = "slot/[core=4;gpu=1]"


def switches(**options):
    """A pool with switches of 3, 2, 3 and 4 nodes, two in each of two cells."""
    R = cluster(12)
    cells = [("0-2", "3-4"), ("5-7", "8-11")]
    R["scheduling"]["fabric"] = {
        "cell": [{"switch": [{"ranks": ranks} for ranks in cell]} for cell in cells]
    }
    return Pool(R, **options)


def lost_beside_small(pool):
    """How much of a GPU is stranded in *pool* beside which only jobs like SMALL have cores."""
    (node,) = pool.inventory.node_types
    return pool.situation.policy.mix.stranded(node, (1 << 12) - 1, 0b0001) / PER_GPU


def test_the_smallest_domain_is_that_of_the_nodes_that_are_left():
    pool = switches(mix=f"4*{SMALL},1*slot/switch{{x}}")
    pool.remove_ranks("0-1")
    assert lost_beside_small(pool) == pytest.approx(4 / 8, abs=0.01)


def test_what_is_usable_is_never_more_after_a_job_than_the_bound():
    chance = random.Random(5)
    kinds = "3*slot/[core=7;gpu=1],1*slot/socket{x},2*slot/[core=30;gpu=2],1*slot/node{x}"
    mix = Mix(read_mix(kinds))
    for _ in range(300):
        cores, gpus = chance.getrandbits(96) | chance.getrandbits(96), chance.getrandbits(4)
        taken = cores & chance.getrandbits(96), gpus & chance.getrandbits(4)
        after = mix.usable_of(TYPE, cores & ~taken[0], gpus & ~taken[1])
        assert after <= mix.most_usable(NodeState(TYPE, cores, gpus), idset.size(taken[1]))


def test_copies_and_pools_with_the_same_options_choose_alike_whatever_was_asked_before():
    text = "7*slot/[core=4;gpu=1],1*slot/node{x}"
    first = Pool(cluster(6), mix=text)
    again = Pool(json.dumps(first.to_dict()), **first.options)
    again.choice(request(again, "slot/socket{x}"))
    shapes = ["slot/[core=4;gpu=1]", "slot/core=30", "slot/[core=20;gpu=1]", "slot/core=9"] * 4
    for jobid, shape in enumerate(shapes):
        copy = first.copy()
        places = [pool.alloc(jobid, request(pool, shape)).parts for pool in (first, again, copy)]
        assert places[0] == places[1] == places[2]


@pytest.mark.parametrize("mix", ["1*slot/sockt{x}", "1*slot/gpu,2*node/slot/sockt/core=2"])
def test_a_locality_that_the_pool_does_not_know_is_refused_with_the_nearest_name(mix):
    said = r"^mix: .*: unknown resource type 'sockt' \(did you mean 'socket'\?\)"
    with pytest.raises(InvalidOption, match=said):
        Pool(cluster(2), mix=mix)
    pool = Pool(cluster(2), mix="1*slot/gpu")
    with pytest.raises(InvalidOption, match=said):
        pool.set_options(mix=mix)
    assert pool.options["mix"] == "1*slot/gpu"
    with pytest.raises(InvalidOption, match=r"unknown resource type 'swich' .*'switch'"):
        switches(mix="1*slot/swich{x}")


def test_nodes_can_leave_though_the_mix_names_what_only_they_have():
    pool = switches(mix="1*slot/switch{x}")
    pool.remove_ranks("0-10")
    assert lost_beside_small(pool) == 1
    copy = Pool(pool.to_dict())
    copy.follow_options(**pool.options)
    assert copy.options == pool.options


def test_another_mix_and_another_topology_hold_at_once():
    pool = Pool({k: v for k, v in cluster(2).items() if k != "scheduling"})
    pool.follow_options(mix="slot/socket{x}")
    (flat,) = pool.inventory.node_types
    mix = pool.situation.policy.mix
    assert mix.stranded(flat, ALL, 0b1111) == 4 * PER_GPU, "there are no sockets"
    pool.replace_key(cluster(2)["scheduling"])
    (tree,) = pool.inventory.node_types
    assert pool.situation.policy.mix.stranded(tree, ALL, 0b1111) == 0
    pool.set_options(mix="slot/[core=90;gpu=1]")
    assert pool.situation.policy.mix.stranded(tree, (1 << 24) - 1, 0b1111) == 4 * PER_GPU


@settings(SETTINGS, max_examples=examples(100))
@given(st.data())
def test_what_is_usable_is_what_the_reference_says(data):
    R = data.draw(strategies.clusters(most=3))
    mix = data.draw(strategies.mixes("packing", R))
    pool, reference = Pool(R, mix=mix), ReferencePool(R, mix=mix)
    for rank, node in reference.nodes.items():
        state = pool.situation.index.state_of[rank]
        for _ in range(3):
            drawn = (data.draw(strategies.subsets(sorted(those))) for those in node.root.ids)
            free = Ids(*map(frozenset, drawn))
            try:
                want = usable(node.root, free)
            except TooBig:
                continue
            cores, gpus = map(idset.from_ids, free)
            assert pool.situation.policy.mix.usable_of(state.type, cores, gpus) == want
