"""Usable GPUs: free, with their fair share of free cores; and the bounds of policy packing."""

import random

import pytest

from placement.test_work import cluster, request
from treepool.errors import InvalidOption
from treepool.placement.choose.policy import ABOVE_KEYS, POLICIES, Packing
from treepool.placement.nodes.compile import compile_topo
from treepool.placement.nodes.state import NodeState
from treepool.placement.on_node.fit import fit
from treepool.placement.pool import Pool
from treepool.rfc import idset

(TYPE,) = Pool(cluster(2)).inventory.node_types


def state(cores, gpus):
    """A node of four sockets of 24 cores and a GPU, on which these are free."""
    return NodeState(TYPE, cores, gpus)


@pytest.mark.parametrize(
    "shape", ["slot/core=5", "slot/[core=5;gpu=1]", "slot=2/[core=9;gpu=1]", "slot/[core=40;gpu=2]",
              "node/slot=2/[core=3;gpu=1]", "slot/socket{x}", "slot/gpu=2", "slot/node{x}"]
)  # fmt: skip
def test_a_key_is_no_larger_before_the_fit_is_known(shape):
    chance, policy = random.Random(shape), Packing()
    pool = Pool(cluster(2))
    ask = request(pool, shape).ask
    for _ in range(300):
        one = state(chance.getrandbits(96) | chance.getrandbits(96), chance.getrandbits(4))
        found = fit(one, ask)
        if found is not None:
            assert policy.key(one, ask, None) <= policy.key(one, ask, found)


def order(policy, node, shape):
    """Where the first slot of a request on *node* stands."""
    ask = request(Pool(cluster(2)), shape).ask
    found = fit(node, ask)
    return policy.key(node, ask, found) + policy.straddle * found.segments[0].remote


def test_of_equal_costs_the_local_one_is_taken_whatever_the_weight():
    fuller = state(0x00000F_00000F, 0)  # four cores in each of two sockets
    local = state(0x0000FF_0000FF, 0)
    weightless = Packing(gpus=0)
    assert order(weightless, local, "slot/core=6") < order(weightless, fuller, "slot/core=6")
    assert order(weightless, fuller, "slot/core=4") < order(weightless, local, "slot/core=4")


def test_of_idle_nodes_the_one_with_fewer_cores_is_broken_though_the_job_wastes_more():
    large, small = (compile_topo(None, (1 << cores) - 1, 0xFF) for cores in (128, 96))
    idle = {kind: NodeState(kind, kind.root.cores, kind.root.gpus) for kind in (large, small)}
    policy, shape = Packing(), "slot/[core=16;gpu=1]"
    assert order(policy, idle[small], shape) < order(policy, idle[large], shape)


def test_keys_keep_their_range_on_the_largest_nodes():
    most = (1 << idset.MAX_ID + 1) - 1
    largest = NodeState(compile_topo(None, most, most), most, most)
    ask = request(Pool(cluster(2)), "slot/[core=1;gpu=1]").ask
    for kind in POLICIES.values():
        policy = kind(gpus=1000)
        straddle = 0 if policy.passes else policy.straddle
        for found in (None, fit(largest, ask)):
            assert 0 <= policy.key(largest, ask, found) < ABOVE_KEYS - straddle


@pytest.mark.parametrize(
    "value", ["-1", "1001", "nan", "much", pytest.param(10**5000, id="long")]
)  # fmt: skip
def test_the_weight_of_locality_is_a_number_of_gpus(value):
    with pytest.raises(InvalidOption, match="not a number from 0 to 1000"):
        Pool(cluster(2), straddle=value)


def test_a_weight_that_the_policy_does_not_use_is_refused_and_not_among_its_options():
    with pytest.raises(InvalidOption, match="straddle=4: node policy best-fit does not weigh"):
        Pool(cluster(2), policy="best-fit", straddle=4)
    options = Pool(cluster(2), policy="best-fit").options
    assert "straddle" not in options
    assert Pool(cluster(2), **options).options == options
