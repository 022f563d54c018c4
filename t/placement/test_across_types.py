"""Slots on pools of several types of node.

A job that says how near its slots are to be gets nodes of a type on which they are not split
between domains, before nodes of a type on which they are.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from depth import examples
from made import alloc
from placement import strategies as random
from placement.duel import Duel
from placement.test_against_reference import SETTINGS
from treepool import parse_shape
from treepool.placement.pool import Pool
from treepool.view.explain import explain

#: Host 0 has NUMA domains of 8 cores, host 1 of 7.
TWO = random.R_of(
    {0: ([*range(16)], []), 1: ([*range(14)], [])},
    {
        0: {"numa": [{"cores": "0-7"}, {"cores": "8-15"}]},
        1: {"numa": [{"cores": "0-6"}, {"cores": "7-13"}]},
    },
)


def test_an_explanation_takes_the_same_node_and_tells_what_an_idle_cluster_would_have_given():
    pool, options = Pool(TWO), {"same_numa": "preferred"}
    shape = parse_shape("slot/core=8")
    told = explain(pool, "slot/core=8", shape, options=options)
    assert ([one.nodes.ranks for one in told.taken], told.unneeded) == ([(0,)], 1)
    alloc(pool, 1, "slot=2/core=8", **options)
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
