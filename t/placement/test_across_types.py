"""Slots on pools of several types of node.

A job that says how near its slots are to be gets nodes of a type on which they are not split
between domains, before nodes of a type on which they are.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import examples
from made import alloc
from placement import strategies as random
from placement.duel import Duel
from placement.test_against_reference import SETTINGS
from treepool import parse_shape
from treepool.errors import InsufficientResources
from treepool.placement.pool import Pool
from treepool.view.explain import explain


def numas(cores, number=2):
    """A topo of NUMA domains of so many cores."""
    return {"numa": [{"cores": f"{i * cores}-{i * cores + cores - 1}"} for i in range(number)]}


def pool_R(*topos, **key):
    """The R of a host for each topo; those without cores in a topo are flat with 16."""
    entries, children = [], []
    for rank, topo in enumerate(topos):
        last = topo["numa"][-1]["cores"].split("-")[1] if topo else "15"
        entries.append({"rank": str(rank), "children": {"core": f"0-{last}"}})
        children += [{"ranks": str(rank), "topo": topo}] if topo else []
    execution = {"R_lite": entries, "nodelist": [f"n[0-{len(topos) - 1}]"]}
    scheduling = {"writer": "TreePool", "children": children, **key}
    return {"version": 1, "execution": execution, "scheduling": scheduling}


#: Host 0 has NUMA domains of 8 cores, host 1 of 7.
TWO = pool_R(numas(8), numas(7))


def ranks(pool, jobid, shape, constraints=None, **options):
    """The ranks that a job gets."""
    return list(alloc(pool, jobid, shape, constraints, **options).ranks)


@pytest.mark.parametrize("policy", ["packing", "best-fit", "worst-fit", "first-fit"])
@pytest.mark.parametrize(
    "options",
    [
        {"same_numa": "preferred"},
        {"locality": "preferred"},
        {"locality": "required"},
        {"topology_policy": "best-effort"},
    ],
)
def test_a_slot_is_in_one_numa_domain_on_the_type_of_node_that_has_one(policy, options):
    assert ranks(Pool(TWO, policy=policy), 1, "slot/core=8", **options) == [0]
    other_way = pool_R(numas(7), numas(8))
    assert ranks(Pool(other_way, policy=policy), 1, "slot/core=8", **options) == [1]


def test_a_preference_takes_the_other_type_if_the_better_one_is_full():
    pool = Pool(TWO)
    found = [ranks(pool, jobid, "slot/core=8", same_numa="preferred") for jobid in range(3)]
    assert found == [[0], [0], [1]]
    with pytest.raises(InsufficientResources):
        ranks(pool, 3, "slot/core=8", same_numa="preferred")


def test_slots_that_fit_on_both_types_go_where_they_fit_best():
    assert ranks(Pool(TWO), 1, "slot/core=7", same_numa="preferred") == [1]


def test_a_job_that_says_nothing_is_placed_by_fit_and_near_on_its_node():
    assert ranks(Pool(TWO), 1, "slot/core=8") == [1]
    assert ranks(Pool(TWO), 1, "slot/core=8", locality="none") == [1]


def test_a_node_without_numa_domains_splits_nothing():
    pool = Pool(pool_R(numas(9), {}))
    assert ranks(pool, 1, "slot/core=9", same_numa="preferred") == [1]


def test_only_the_types_that_the_job_may_use_are_compared():
    """With rank 0 out of reach, no NUMA domain could have the slot on any node."""
    R = pool_R(numas(8), numas(7), {})
    found = ranks(
        Pool(R, policy="best-fit"), 1, "slot/core=8", {"ranks": ["1-2"]}, locality="preferred"
    )
    assert found == [1]
    assert ranks(Pool(R, policy="best-fit"), 1, "slot/core=8", locality="preferred") == [0]


def test_the_switch_whose_nodes_do_not_split_the_slots_comes_first():
    R = pool_R(numas(7), numas(7), numas(8), numas(8))
    R["scheduling"]["fabric"] = {"switch": [{"ranks": "0-1"}, {"ranks": "2-3"}]}
    assert ranks(Pool(R), 1, "node=2/slot/core=8", same_numa="preferred") == [2, 3]
    assert ranks(Pool(R), 1, "node=2/slot/core=8") == [0, 1]


def test_an_explanation_takes_the_same_node_and_tells_what_an_idle_cluster_would_have_given():
    pool, options = Pool(TWO), {"same_numa": "preferred"}
    shape = parse_shape("slot/core=8")
    told = explain(pool, "slot/core=8", shape, options=options)
    assert ([one.nodes.ranks for one in told.taken], told.unneeded) == ([(0,)], 1)
    ranks(pool, 1, "slot=2/core=8", **options)
    told = explain(pool, "slot/core=8", shape, options=options)
    assert [one.nodes.ranks for one in told.taken] == [(1,)]
    assert told.fitness.total == 7 / 8
    assert [one.nodes.ranks for one in told.idle] == [(0,)]


@settings(SETTINGS, max_examples=examples(400))
@given(st.data())
def test_every_job_on_several_types_gets_what_the_reference_says(data):
    R = data.draw(random.with_fabric(data.draw(random.irregular_nodes(4))))
    policy = data.draw(random.some(*random.POLICIES))
    occupied = data.draw(st.one_of(st.none(), random.occupations(R)))
    duel = Duel(random.History(R, "preferred", occupied, [], policy))
    for _ in range(4):
        cores, gpus = data.draw(random.some(3, 2, 4, 5)), data.draw(random.some(0, 0, 1, 2))
        below = [random.vertex("core", cores)]
        below += [random.vertex("gpu", gpus)] if gpus else []
        slot = random.vertex("slot", data.draw(random.some(1, 1, 2, {"min": 1})), below)
        if data.draw(random.some(False, False, True)):
            slot = random.vertex("node", data.draw(random.some(1, 2)), [slot])
        locality = data.draw(random.some("preferred", "preferred", "required", None))
        duel.do(random.Step("alloc", random.jobspec([slot], None, locality)))


@pytest.mark.parametrize("policy", ["best-fit", "packing"])
def test_a_slot_that_straddles_is_equal_to_one_that_would_not_on_another_type(policy):
    """Rank 0 has 12 free cores in two NUMA domains of 8, and rank 2 has 12 in two of 7: 8 of them
    are not in one domain, here or there. Rank 2 is below the switch without an idle node."""
    R = pool_R(numas(8), numas(2), numas(7))
    R["scheduling"]["fabric"] = {"switch": [{"ranks": "0-1"}, {"ranks": "2"}]}
    taken = [("0", "0-1,8-9"), ("2", "0,7")]
    entries = [{"rank": rank, "children": {"core": cores}} for rank, cores in taken]
    execution = {"R_lite": entries, "nodelist": ["n[0,2]"], "starttime": 0.0, "expiration": 0.0}
    occupied = {"version": 1, "execution": execution}
    duel = Duel(random.History(R, "preferred", occupied, [], policy))
    slot = random.vertex("slot", 1, [random.vertex("core", 8)])
    duel.do(random.Step("alloc", random.jobspec([slot], None, "preferred")))
    assert duel.pool.job(1).parts[0][0] == 1 << 2
