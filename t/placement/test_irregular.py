"""Slots on nodes whose domains differ: the site keeps cores, GPUs are spread unequally.

What users want of such a node: a slot is in one NUMA domain wherever some NUMA domain of the node
could have it, and the same holds for every locality.
"""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from commandline import run_process
from depth import examples
from made import alloc, asked, nodes
from placement import strategies as random
from placement.duel import Duel
from placement.test_against_reference import SETTINGS
from treepool import parse_shape
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.view.explain import explain

CLUSTER_A = Path(__file__).parents[2] / "testvectors/rfc49-cluster-a.json"


def cluster_a(cores, gpus="0-7"):
    """RFC 49's cluster A, of which R has these *cores* and *gpus* on each node."""
    R = json.loads(CLUSTER_A.read_text())["cluster"]["R"]
    R["execution"]["R_lite"][0]["children"] = {"core": cores, "gpu": gpus}
    return R


def placed(pool, jobid, shape, **options):
    """What a slot gets: (rank, cores, GPUs)."""
    ((ranks, cores, gpus),) = alloc(pool, jobid, shape, **options).parts
    return idset.lowest(ranks), idset.encode(cores), idset.encode(gpus)


def test_explain_does_not_call_a_slot_over_two_domains_local(tmp_path):
    path = tmp_path / "R.json"
    path.write_text(json.dumps(cluster_a("1-14,16-29,31-44,46-59,60-73,75-88,90-103,105-119")))
    first = run_process("explain", "-R", path, "slot/[core=15;gpu=1]").out
    assert "cores 105-119" in first and "every slot is in the smallest kind" in first
    pool = Pool(json.loads(path.read_text()))
    alloc(pool, 9, "slot=16/[core=15;gpu=1]")
    request = asked(pool, "slot/[core=15;gpu=1]")
    assert pool.fitness(pool.alloc(1, request), request).total < 1


def test_of_several_slots_as_many_as_possible_are_local():
    """One slot fits in an L3 (3: GPU 2), the first of two is not placed elsewhere."""
    topo = {
        "numa": [
            {"cores": "0-1", "gpus": "0-1", "l3": [{"cores": "0"}]},
            {"cores": "2-3", "gpus": "2-3", "l3": [{"cores": "2"}, {"cores": "3", "gpus": "2"}]},
        ]
    }
    pool = Pool(nodes(cores="0-3", gpus="0-3", topo=topo))
    _, cores, gpus = placed(pool, 1, "slot=2/numa/gpu")
    assert "3" in cores
    assert "2" in gpus


def test_a_node_on_which_the_slot_would_be_split_is_not_one_that_was_passed_over():
    pool = Pool(nodes("0-1", topo={"numa": [{"cores": "0-3"}, {"cores": "4-7"}]}))
    pool.occupy(1, [(0b01, 0b00110011, 0), (0b10, 0b00000001, 0)])
    told = explain(pool, "slot/core=4", parse_shape("slot/core=4"))
    assert ([one.nodes.ranks for one in told.taken], told.passed) == ([(1,)], ())


# -- what holds on every such node


def hosts(topo, locality, owned, cores, gpus):
    """The domains of *locality* that have so many *owned* cores and GPUs, as (cores, GPUs)."""
    found = []
    for domain in random._named(topo, locality):
        ids = tuple(set(random._listed(domain, what)) & owned[what] for what in ("cores", "gpus"))
        if len(ids[0]) >= cores and len(ids[1]) >= gpus:
            found.append(ids)
    return found


@settings(SETTINGS, max_examples=examples(400))
@given(random.irregular_nodes(), st.integers(1, 9), st.integers(0, 3), st.booleans())
def test_a_slot_is_in_one_domain_of_each_locality_of_which_some_could_have_it(
    R, cores, gpus, required
):
    topo = R["scheduling"]["children"][0]["topo"]
    children = R["execution"]["R_lite"][0]["children"]
    owned = {
        "cores": set(idset.iterate(idset.decode(children["core"]))),
        "gpus": set(idset.iterate(idset.decode(children.get("gpu", "")))),
    }
    slices = any("mig" in name for name in random.localities(R))
    assume(len(owned["cores"]) >= cores and len(owned["gpus"]) >= gpus and not slices)
    pool = Pool(R, locality="required" if required else "preferred")
    _, *ids = placed(pool, 1, f"slot/[core={cores};gpu={gpus}]" if gpus else f"slot/core={cores}")
    got = [set(idset.iterate(idset.decode(text))) for text in ids]
    for locality in sorted({*random.localities(R)} & {*random.LOCALITIES}):
        able = hosts(topo, locality, owned, cores, gpus)
        assert not able or any(got[0] <= one[0] and got[1] <= one[1] for one in able), locality


@settings(SETTINGS, max_examples=examples(400))
@given(st.data())
def test_every_job_on_such_nodes_gets_what_the_reference_says(data):
    """On one of them, or on several whose types differ."""
    R = data.draw(random.irregular_nodes(data.draw(random.some(1, 4))))
    R = data.draw(random.with_fabric(R))
    mode = data.draw(random.some("preferred", "preferred", "required"))
    policy = data.draw(random.some(*random.POLICIES))
    occupied = data.draw(st.one_of(st.none(), random.occupations(R)))
    duel = Duel(random.History(R, mode, occupied, [], policy, data.draw(random.mixes(policy, R))))
    for _ in range(4):
        below = [random.vertex("core", data.draw(random.some(3, 2, 4, 1, 5, 6)))]
        gpus = data.draw(random.some(0, 1, 0, 2, 3))
        below += [random.vertex("gpu", gpus)] if gpus else []
        name = data.draw(random.some(*random.localities(R)))
        form = data.draw(random.some("amount", "amount", "amount", "in one", "whole", "any"))
        if form == "in one":
            below = [random.vertex(name, 1, below)]
        elif form == "whole":
            below = [random.vertex(name, data.draw(random.some(2, 1, 3)), exclusive=True)]
        elif form == "any":
            below = data.draw(random.needs(random.localities(R)))
        slot = random.vertex("slot", data.draw(random.some(1, 1, 2, {"min": 1})), below)
        if data.draw(random.some(False, False, True)):
            slot = random.vertex("node", data.draw(random.some(1, 2)), [slot])
        locality = data.draw(random.some(None, None, "preferred", "required"))
        duel.do(random.Step("alloc", random.jobspec([slot], None, locality)))
