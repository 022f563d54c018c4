"""The pool chooses what the reference chooses: nodes, domains and ids, at every step."""

from __future__ import annotations

from functools import partial
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from depth import examples
from made import nodes
from placement import strategies as random
from placement.duel import Duel, outcome
from treepool.placement.choose import choice
from treepool.placement.nodes import inventory, state
from treepool.placement.on_node import fit
from treepool.rfc.shape import parse_shape

SETTINGS = settings(
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

ONE_CORE = random.jobspec([random.vertex("slot", 1, [random.vertex("core", 1)])])


@SETTINGS
@given(random.histories())
def test_every_step_of_a_history_is_that_of_the_reference(history):
    duel = Duel(history)
    for step in history.steps:
        note(str(step))
        duel.do(step)


@settings(SETTINGS, max_examples=examples(400))
@given(st.data())
def test_slots_on_a_node_with_many_domains_that_are_partly_taken(data):
    R = data.draw(random.broad_nodes())
    mode = data.draw(random.some("preferred", "preferred", "required", "none"))
    duel = Duel(random.History(R, mode, data.draw(random.occupations(R)), []))
    for _ in range(3):
        slot = random.vertex("slot", 1, data.draw(random.broad_needs(random.localities(R))))
        duel.do(
            random.Step("alloc", random.jobspec([slot], options=data.draw(random.job_options(R))))
        )


@settings(SETTINGS, max_examples=examples(400))
@given(st.data())
def test_slots_over_several_domains_take_the_nearest(data):
    R = data.draw(random.distant_nodes())
    duel = Duel(random.History(R, "preferred", data.draw(random.occupations(R)), []))
    shapes = "slot/core=3", "slot/core=5", "slot/core=9", "slot/[core=4;gpu=1]", "slot/gpu=2"
    shapes += "slot/numa=2{x}", "slot/numa=3{x}", "slot=2/core=4"
    for shape in data.draw(st.lists(random.some(*shapes), min_size=1, max_size=3)):
        note(shape)
        duel.do(random.Step("alloc", random.jobspec(parse_shape(shape))))


@settings(SETTINGS, max_examples=examples(400))
@given(st.data())
def test_slots_over_several_domains_get_the_best_gpus_of_those_that_are_linked_as_asked(data):
    R = data.draw(random.linked_nodes())
    duel = Duel(random.History(R, "preferred", data.draw(random.occupations(R)), []))
    demands = random.some({}, {}, {"gpu_link": 50}, {"gpu_link": "nvlink"}, {"gpu_link": 8})
    for _ in range(3):
        cores, gpus = data.draw(st.integers(1, 10)), data.draw(st.integers(1, 5))
        slot = parse_shape(f"slot/[core={cores};gpu={gpus}]")
        duel.do(random.Step("alloc", random.jobspec(slot, options=data.draw(demands))))


@settings(SETTINGS, max_examples=examples(400))
@given(st.data())
def test_localities_of_every_form_on_small_nodes(data):
    """Every way is tried to find out how much a node can give, and whether it gave that."""
    R = data.draw(random.rich_nodes())
    mode = data.draw(random.some("preferred", "preferred", "required", "none"))
    occupied = data.draw(st.one_of(st.none(), random.occupations(R)))
    duel = Duel(random.History(R, mode, occupied, [], data.draw(random.some(*random.POLICIES))))
    for _ in range(3):
        made = random.rich_resources(random.localities(R), len(random.ranks_of(R)))
        spec = random.jobspec(data.draw(made), options=data.draw(random.job_options(R)))
        duel.do(random.Step("alloc", spec))


@settings(SETTINGS, max_examples=examples(400))
@given(st.data())
def test_counts_take_the_largest_value_that_fits(data):
    """Ranges on nodes, slots, localities, cores and GPUs, on nodes that are partly taken."""
    R = data.draw(st.one_of(random.rich_nodes(), random.uneven_clusters()))
    mode = data.draw(random.some("preferred", "preferred", "required", "none"))
    occupied = data.draw(st.one_of(st.none(), random.occupations(R)))
    duel = Duel(random.History(R, mode, occupied, [], data.draw(random.some(*random.POLICIES))))
    for _ in range(2):
        made = data.draw(random.resources(random.localities(R), len(random.ranks_of(R))))
        duel.do(random.Step("alloc", random.jobspec(data.draw(random.with_ranges(made)))))


@settings(SETTINGS, max_examples=examples(400))
@given(st.data())
def test_each_domain_above_the_slot_gives_what_it_can(data):
    R = data.draw(random.blades())
    mode = data.draw(random.some("preferred", "preferred", "required", "none"))
    occupied = data.draw(st.one_of(random.occupations(R), st.none()))
    duel = Duel(random.History(R, mode, occupied, [], data.draw(random.some(*random.POLICIES))))
    for _ in range(2):
        duel.do(random.Step("alloc", random.jobspec(data.draw(random.slots_in_sockets()))))


def node_R(topo, cores, gpus):
    return nodes("0", cores, gpus, topo)


#: Three sockets of two NUMA domains of two cores; one of each socket's is taken.
SOCKETS = {"socket": [{"numa": [{"cores": f"{n}-{n + 1}"} for n in (s, s + 2)]} for s in (0, 4, 8)]}

#: Two sockets, the first of GPUs only.
GPU_SIDE = {
    "memory": 64,
    "socket": [
        {"numa": [{"gpus": "0"}]},
        {"numa": [{"cores": "0-3", "gpus": "1-2", "memory": 16}]},
    ],
}

#: A socket of two NUMA domains, with room for one amount more than its domains are asked for.
TIGHT = {"socket": [{"numa": [{"cores": "0-1"}, {"cores": "2-3"}]}]}

#: A socket in which two cores of six are closer to each other.
NEST = {"socket": [{"l3": [{"cores": "0-1"}], "cores": "0-5"}]}


#: A socket of GPUs alone, which are two NUMA domains, and one of two NUMA domains with both.
COLD_SIDE = {
    "socket": [
        {"numa": [{"gpus": "0"}, {"gpus": "1"}]},
        {"numa": [{"cores": "0-1", "gpus": "2-3"}, {"cores": "2-3", "gpus": "4-5"}]},
    ]
}

#: Two GPUs alone that are closer to each other than to the cores around them.
COLD_BOARD = {
    "socket": [
        {"board": [{"numa": [{"gpus": "0"}, {"gpus": "1"}]}], "numa": [{"cores": "0-3"}]},
        {"numa": [{"cores": "4-7"}]},
    ]
}

#: What takes whole domains, of which some have no cores.
SOME_COLD = [
    "slot/numa{x}",
    "slot/numa=2{x}",
    "slot/numa=3{x}",
    "slot/numa=4{x}",
    "slot=1-3/numa=1-3{x}",
    "slot=1+/numa=2{x}",
    "slot=2/numa=2{x}",
    "node/slot=2/numa=2{x}",
    "slot/socket/numa=2{x}",
    "slot/socket=2/numa{x}",
    "slot/socket=1-2/numa{x}",
    "slot/[numa=2{x};socket{x}]",
    "slot/[numa{x};socket/numa{x}]",
    "slot=2/[numa{x};numa/core=1]",
    "slot/node/numa=2{x}",
    "slot/node{x}/numa{x}",
    "socket/slot/numa{x}",
]


@pytest.mark.parametrize("locality", ["preferred", "required", "none"])
@pytest.mark.parametrize(
    ("topo", "cores", "gpus", "taken", "shape"),
    [
        # Capacities count also where neither cores nor GPUs stand beside them.
        (GPU_SIDE, "0-3", "0-2", None, "slot/[numa{x};memory=400]"),
        (GPU_SIDE, "0-3", "0-2", None, "slot/[numa/core;storage=1]"),
        (GPU_SIDE, "0-3", "0-2", None, "slot/[core;numa{x}/memory=17]"),
        (GPU_SIDE, "0-3", "0-2", None, "slot/node{x}/memory=65"),
        (GPU_SIDE, "0-3", "0-2", None, "slot/[gpu=1;numa=1]"),
        # The largest count that fits, be it nearer or not, and if only that and the least do.
        (SOCKETS, "0-11", "", "0-1,4-5,8-9", "slot/numa=1-3{x}"),
        (SOCKETS, "0-11", "", "0-1,4-5,8-9", "slot/numa=1-2{x}"),
        (SOCKETS, "0-11", "", "0-1,4-5,8-9", "slot/numa=1+/core=1"),
        (SOCKETS, "0-11", "", "0", "slot/[numa=1-2{x};core=1+]"),
        (SOCKETS, "0-11", "", "0", "slot/[core=1+;numa=1-2{x}]"),
        (NEST, "0-5", "", None, "socket/slot=1+/core=2"),
        (NEST, "0-5", "", None, "slot=1+/core=2"),
        # What may come from anywhere in a socket leaves its domains what they must give.
        (TIGHT, "0-3", "", None, "socket/slot=2/[numa/core=1;core=1]"),
        (TIGHT, "0-3", "", None, "slot=2/[socket/core=1;numa/core=1]"),
        (TIGHT, "0-3", "", "3", "socket/slot/[numa/core=2;core=1]"),
        # A slot has a core, so the socket without is none for it.
        (GPU_SIDE, "0-3", "0-2", None, "slot/socket{x}/numa{x}"),
        (GPU_SIDE, "0-3", "0-2", None, "slot=1+/socket{x}/numa{x}"),
        (GPU_SIDE, "0-3", "0-2", None, "slot/socket/numa{x}"),
        *((GPU_SIDE, "0-3", "0-2", None, shape) for shape in SOME_COLD),
        *((COLD_SIDE, "0-3", "0-5", None, shape) for shape in SOME_COLD),
        *((COLD_SIDE, "0-3", "0-5", "0-1", shape) for shape in SOME_COLD),
        *((COLD_BOARD, "0-7", "0-1", None, shape) for shape in SOME_COLD),
        *((COLD_BOARD, "0-7", "0-1", "7", shape) for shape in SOME_COLD),
        # What a job says of locality holds inside what it takes entirely, too.
        (NEST, "0-5", "", None, "socket{x}/slot=1-3/core=2"),
        (NEST, "0-5", "", None, "socket{x}/slot=1+/core=2"),
        (NEST, "0-5", "", None, "node{x}/slot=1-3/core=2"),
        (NEST, "0-5", "", None, "socket{x}/slot=3/core=2"),
        (NEST, "0-5", "", None, "node{x}/slot=3/core=2"),
    ],
)
def test_what_is_easily_got_wrong(topo, cores, gpus, taken, shape, locality):
    R = node_R(topo, cores, gpus)
    occupied = None if taken is None else node_R(topo, taken, "")
    duel = Duel(random.History(R, locality, occupied, []))
    duel.do(random.Step("alloc", random.jobspec(parse_shape(shape))))


@pytest.mark.parametrize("policy", random.POLICIES)
@SETTINGS
@given(data=st.data())
def test_nodes_are_used_in_the_order_of_the_policy(policy, data):
    R = data.draw(random.uneven_clusters())
    mode = data.draw(random.some("preferred", "preferred", "required", "none"))
    duel = Duel(random.History(R, mode, None, [], policy, data.draw(random.mixes(policy, R))))
    for _ in range(3):
        below = data.draw(random.flat())
        if data.draw(random.some(False, False, True)):
            below = [random.vertex("numa", 1, exclusive=True)]
        made = random.vertex("slot", data.draw(random.counts(4)), below)
        if data.draw(random.some(False, False, True)):
            made = random.vertex("node", data.draw(random.counts(3)), [made])
        duel.do(random.Step("alloc", random.jobspec([made])))


@SETTINGS
@given(random.histories())
def test_what_the_pool_forgets_makes_no_difference(history):
    """As any step of a history, with room for hardly anything to be remembered."""
    limits = patch.multiple(fit, MAX_FITS=2), patch.multiple(choice, MAX_CANDIDATES=2)
    more = patch.multiple(inventory, MAX_CONSTRAINTS=1), patch.multiple(state, _MAX_STATES=0)
    with limits[0], limits[1], more[0], more[1]:
        duel = Duel(history)
        for step in history.steps:
            duel.do(step)


@settings(SETTINGS, max_examples=examples(20))
@given(st.data())
def test_many_short_jobs_between_two_requests_make_no_difference(data):
    R = data.draw(random.clusters(most=4))
    specs = data.draw(st.lists(random.jobspecs(R), min_size=3, max_size=3))
    duel = Duel(random.History(R, "preferred", None, []))
    for number in (700, 3, 0):
        for spec in specs:
            duel.do(random.Step("alloc", spec))
        request = duel.pool.parse_resource_request(ONE_CORE)
        for jobid in range(10_000, 10_000 + number):
            if isinstance(outcome(partial(duel.pool.alloc, jobid, request)), type):
                break
            duel.pool.free(jobid)
        duel.do(random.Step("free"))
