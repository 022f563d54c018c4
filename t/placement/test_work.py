"""How much work an allocation is, in lines that run, never in time.

The rule (doc/design.md, "Why it is fast"): cost follows what changes, not the size of the machine.
"""

import gc
import json
import random

import pytest

import made
from made import asked as request
from treepool.errors import InfeasibleRequest, InsufficientResources, InvalidJobspec, TooComplex
from treepool.placement import effort
from treepool.placement.pool import Pool
from treepool.rfc import idset
from work import Lines

SOCKETS = [{"cores": f"{i * 24}-{i * 24 + 23}", "gpus": str(i)} for i in range(4)]


def cluster(nodes, properties=None):
    """The R of RFC 49's cluster B with so many nodes."""
    more = {"properties": properties} if properties else {}
    return made.nodes(f"0-{nodes - 1}", "0-95", "0-3", {"socket": SOCKETS}, **more)


def occupy(pool, jobid, taken):
    """Let job *jobid* hold on each rank the cores and GPUs that ``taken[rank]`` has as masks."""
    pool.occupy(jobid, [(1 << rank, *masks) for rank, masks in taken.items()])


def distinct_masks(count, size, width=96, seed=1):
    """*count* different sets of *size* cores out of *width*."""
    rng = random.Random(seed)
    found = set()
    while len(found) < count:
        found.add(idset.from_ids(rng.sample(range(width), size)))
    return list(found)


def used(nodes):
    """A cluster on which each hundredth node is in a state of its own."""
    pool = Pool(cluster(nodes, properties={"rare": f"{nodes - 5}"}))
    masks = distinct_masks(nodes // 100, 36)
    occupy(pool, -1, {100 * i + 7: (mask, 0b11) for i, mask in enumerate(masks)})
    return pool


@pytest.mark.parametrize(
    ("shape", "constraints"),
    [
        ("slot/[core=8;gpu=1]", None),
        ("slot/core=5", {"properties": ["rare"]}),
        ("slot/[core=200;gpu=1]", None),
        ("slot=8/node/core=8", None),
        ("slot=1500/node{x}", None),
        ("slot=20000/node{x}", None),
    ],
)
def test_the_work_of_a_job_does_not_grow_with_the_machine(shape, constraints):
    """Served or not, while other jobs come and go."""

    def work(nodes):
        pool = used(nodes)
        asked, other = request(pool, shape, constraints), request(pool, "slot/core=3")
        counts = []
        for jobid in range(20):
            pool.alloc(2 * jobid, other)
            with Lines() as lines:
                try:
                    pool.alloc(2 * jobid + 1, asked)
                    pool.free(2 * jobid + 1)
                except (InsufficientResources, InfeasibleRequest):
                    pass
            counts.append(lines.count)
        return sum(counts[2:])  # a request that is new meets each state once

    assert work(19_000) < 1.2 * work(1_900)


@pytest.mark.parametrize(
    "shape",
    [
        "slot=1000000/core",
        "slot=4611686018427387904/core",
        "slot/core=4611686018427387904",
        "slot/socket=1000000/core",
        "slot/socket=1000000{x}",
        "socket/slot=1000000/core",
        "socket=1000000/slot/core",
        "socket/slot=1000000/socket/core",
        "slot=1000000/node=1000000/core",
        "node=1000000{x}/slot=1000000/gpu=4",
        "slot/[" + ";".join(["socket/core=13"] * 8) + "]",
        "slot/[" + ";".join(["socket=2/core=7"] * 12) + "]",
        "node/slot=7/[" + ";".join(f"socket=2/core={n}" for n in range(1, 9)) + "]",
        "slot/" + "socket/" * 29 + "core",
    ],
)
def test_a_jobspec_made_to_be_hard_is_answered_within_the_budget(shape):
    pool = Pool(cluster(16))
    with Lines(most=200_000), pytest.raises(InfeasibleRequest):
        pool.alloc(1, request(pool, shape))


def test_nesting_without_end_is_refused_before_anything_is_searched():
    pool = Pool(cluster(16))
    vertex = {"type": "core", "count": 1}
    for _ in range(10_000):
        vertex = {"type": "socket", "count": 1, "with": [vertex]}
    slot = {"type": "slot", "count": 1, "label": "a", "with": [vertex]}
    system = {"duration": 0}
    spec = {"version": 1, "resources": [slot], "tasks": [], "attributes": {"system": system}}
    with pytest.raises(InvalidJobspec):
        pool.parse_resource_request(spec)


#: Domains of 2 to 5 cores, and a request over them that no order of choices makes easy.
UNEVEN = {"numa": [{"cores": f"{6 * i}-{6 * i + i % 4 + 1}"} for i in range(16)]}
HARD = "node/slot=5/[numa=3/core=2;numa=2/core=3;numa=2/core=1]"


#: Four sockets of six NUMA domains of two to six cores.
UNEVEN_SOCKETS = {
    "socket": [
        {
            "numa": [
                {"cores": f"{24 * socket + first}-{24 * socket + last}"}
                for first, last in ((0, 1), (2, 6), (7, 9), (10, 13), (14, 19), (20, 23))
            ]
        }
        for socket in range(4)
    ]
}


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize(
    ("topo", "shape"),
    [(UNEVEN, HARD), (UNEVEN_SOCKETS, "slot=13/[socket=2/[numa=3/core;core];core=2]")],
)
def test_a_search_is_given_up_after_a_bounded_effort(topo, shape, used):
    R = cluster(16)
    R["scheduling"]["children"][0]["topo"] = topo
    pool = Pool(R)
    if used:
        occupy(pool, -1, {rank: (1 << rank, 0) for rank in range(16)})
    with Lines(most=200_000):  # some 10 ms
        found = pool.choice(request(pool, shape))
    assert found.gave_up
    assert effort.PER_REQUEST // 2 < found.effort < 2 * effort.PER_REQUEST


@pytest.mark.parametrize("whole", ["", "{x}"])
def test_a_hard_minimum_of_a_domain_is_refused_with_a_reason(whole):
    R = cluster(2)
    R["scheduling"]["children"][0]["topo"] = {"board": [UNEVEN]}
    pool = Pool(R)
    hard = ";".join(["numa=4/core=3"] * 4)  # twelve domains have three cores, and none has six
    with pytest.raises(TooComplex, match="given up"):
        pool.alloc(1, request(pool, f"slot/board{whole}/[{hard}]"))


@pytest.mark.depth
def test_hundreds_of_choices_one_inside_the_other_are_answered_as_they_are_or_given_up():
    R = cluster(2)
    leaves = [{"cores": f"{2 * i}-{2 * i + 1}"} for i in range(400)]
    R["execution"]["R_lite"][0]["children"] = {"core": "0-799"}
    R["scheduling"]["children"][0]["topo"] = {"l2": leaves}
    pool = Pool(R)
    for slots, fits in ((1, True), (2, True), (3, False)):
        try:
            pool.alloc(1, request(pool, f"node/slot={slots}/l2=399/core=1"))
            pool.free(1)
            said = True
        except TooComplex:
            continue
        except InfeasibleRequest:
            said = False
        assert said == fits


def test_a_hard_request_costs_no_more_on_a_cluster_of_many_states():
    R = cluster(1000)
    R["scheduling"]["children"][0]["topo"] = UNEVEN
    pool = Pool(R)
    masks = distinct_masks(1000, 9, width=40)  # of the cores in no domain, 56 to 95
    occupy(pool, -1, {rank: (mask << 56, 0) for rank, mask in enumerate(masks)})
    asked = request(pool, HARD)
    with Lines(most=400_000):
        choice = pool.choice(asked)
    assert choice.selection is None
    assert choice.gave_up
    assert choice.effort < 2 * effort.PER_REQUEST
    again = pool.choice(asked)
    assert (again.gave_up, again.effort) == (choice.gave_up, choice.effort)


@pytest.mark.depth
def test_a_million_allocs_and_frees_leave_nothing_behind():
    pool = Pool(cluster(64))
    rng = random.Random(4)
    shapes = ["slot/core=3", "slot/[core=5;gpu=1]", "slot=2/[core=7;gpu=1]", "slot/socket{x}"]
    requests = [request(pool, shape) for shape in shapes]
    live = []
    seen = []
    for jobid in range(500_000):
        if live and (len(live) > 120 or rng.random() < 0.5):
            at = rng.randrange(len(live))
            live[at], live[-1] = live[-1], live[at]
            pool.free(live.pop())
        try:
            pool.alloc(jobid, requests[jobid & 3])
            live.append(jobid)
        except InsufficientResources:
            pass
        if jobid in (100_000, 499_999):
            gc.collect()
            seen.append(len(gc.get_objects()))
    index, table = pool.situation.index, pool.inventory.states
    assert len(index.buckets) <= 64
    assert len(table) <= 4096 + 64
    assert seen[1] <= seen[0] + 20_000
    for jobid in live:
        pool.free(jobid)
    assert all(state is None or state.idle for state in index.state_of)
    json.dumps(pool.to_dict())


def test_states_that_no_node_is_in_are_dropped_a_few_at_a_time():
    pool = Pool(cluster(2))
    table, idle = pool.inventory.states, pool.situation.index.state_of[0]
    used = {table.less(idle, cores, 0) for cores in range(1, 9000, 1000)}
    for cores in range(1, 9000):
        table.less(idle, cores, 0)
    sizes = [len(table)]
    while len(sizes) < 2 or sizes[-1] < sizes[-2]:
        table.forget(used)
        sizes.append(len(table))
    assert max(before - after for before, after in zip(sizes, sizes[1:])) <= 256
    assert sizes[-1] <= 4096
    assert used == {table.less(idle, cores, 0) for cores in range(1, 9000, 1000)}


@pytest.mark.parametrize(
    "shape",
    [
        "slot=1-64/core=1-96",
        "slot=1-64/[core=1-96;gpu=1-4]",
        "node=1-8/slot=1-4/socket=1-4/core=1-24",
    ],
)
def test_counts_below_the_slot_are_settled_within_the_effort_of_a_request(shape):
    pool = Pool(cluster(16), locality="required")
    masks = distinct_masks(16, 40)
    occupy(pool, -1, {rank: (mask, 0) for rank, mask in enumerate(masks)})
    asked = request(pool, shape)
    found = pool.choice(asked)
    assert found.selection is not None
    assert not found.gave_up


def test_of_counts_too_many_to_try_those_found_are_the_answer():
    R = cluster(1 << 5)
    R["scheduling"]["children"][0]["topo"] = UNEVEN
    pool = Pool(R, locality="required")
    found = pool.choice(
        request(pool, "slot=1-9/[numa=1-9/core=1-5;numa=1-7/core=1-3;numa=1-5/core=1-2;core=1-9]")
    )
    assert found.gave_up
    assert found.effort < 2 * effort.PER_REQUEST
    assert found.selection is not None


def siblings(number):
    """The R of a node of so many L2 domains side by side, each a core, and eight GPUs in them."""
    domains = [{"cores": str(i)} for i in range(number)]
    for gpu in range(8):
        domains[gpu * number // 8]["gpus"] = str(gpu)
    R = cluster(2)
    R["execution"]["R_lite"][0]["children"] = {"core": f"0-{number - 1}", "gpu": "0-7"}
    R["scheduling"]["children"][0]["topo"] = {"l2": domains}
    return R


@pytest.mark.depth
@pytest.mark.parametrize(
    "shape",
    [
        "slot/core=512",
        "slot/[core=512;gpu=1]",
        "slot/[core=512;gpu=8]",
        "slot=1024/core=1",
        "slot=1024/l2/core=1",
        "slot/l2=512/core=1",
        "slot=1016/l2{x}",
        "slot/l2=512{x}",
        "slot/[l2=512{x};core=4]",
        "l2=1024/slot/core=1",
        "node/slot=1024/core=1",
    ],
)
def test_a_fit_on_1024_sibling_domains_goes_through_them_a_few_times_and_not_each_for_each(shape):
    pool = Pool(siblings(1024))
    asked = request(pool, shape)
    with Lines(most=500 * 1024):
        pool.alloc(1, asked)


#: A node of 16 NUMA domains of six cores each, on which nothing is hard.
ROOMY = {"numa": [{"cores": f"{6 * i}-{6 * i + 5}"} for i in range(16)]}


def test_nodes_that_are_hard_to_judge_do_not_keep_a_request_from_an_idle_node():
    R = cluster(1000)
    entries = [{"ranks": "0-998", "topo": UNEVEN}, {"ranks": "999", "topo": ROOMY}]
    R["scheduling"]["children"] = entries
    pool = Pool(R)
    masks = distinct_masks(999, 9, width=40)
    occupy(pool, -1, {rank: (mask << 56, 0) for rank, mask in enumerate(masks)})
    asked = request(pool, HARD)
    for _ in range(2):
        choice = pool.choice(asked)
        assert choice.gave_up
        assert [grant.ranks for grant in choice.selection.grants] == [1 << 999]


def test_ranks_in_no_domain_are_counted_in_time_that_grows_as_their_number():
    """Each is a child of the root, so the root has as many as there are nodes."""

    def work(nodes):
        R = cluster(nodes)
        R["scheduling"]["fabric"] = {"switch": [{"ranks": "0-15"}, {"ranks": "16-31"}]}
        pool = Pool(R)
        asked = request(pool, "slot/core=8")
        with Lines() as first:
            pool.alloc(1, asked)
        with Lines() as then:
            pool.alloc(2, asked)
        return first.count, then.count

    few, many = work(1000), work(8000)
    assert many[0] < 9 * few[0]
    assert many[1] < 1.2 * few[1]


def test_what_many_slots_take_on_a_node_of_many_domains_is_counted_and_then_chosen():
    """96 slots of two L3 domains each, on a node of 24; without arithmetic some 60 ms for a fit."""
    l3 = [[{"cores": f"{96 * s + 8 * i}-{96 * s + 8 * i + 7}"} for i in range(12)] for s in (0, 1)]
    R = cluster(200)
    R["execution"]["R_lite"][0]["children"] = {"core": "0-191"}
    R["scheduling"]["children"][0]["topo"] = {"socket": [{"l3": part} for part in l3]}
    pool = Pool(R)
    masks = distinct_masks(200, 40, width=192)
    occupy(pool, -1, {rank: (mask, 0) for rank, mask in enumerate(masks)})
    with Lines(most=200 * 7000):
        assert pool.choice(request(pool, "slot=15201/l3=2/core=1")).selection is None
    with Lines(most=60_000):
        assert pool.alloc(1, request(pool, "node/slot=50/l3=2/core=1"))


@pytest.mark.parametrize("shape", ["slot={}/node/core=96", "slot={}/core=96"])
def test_equal_parts_in_thousands_of_switches_are_found_in_time_that_grows_as_their_number(shape):
    """Option ``within=switch:N:balanced``: how many switches there are to be is not tried out."""

    def work(switches):
        R = cluster(4 * switches)
        R["scheduling"]["fabric"] = {
            "switch": [{"ranks": f"{r}-{r + 3}"} for r in range(0, 4 * switches, 4)]
        }
        pool = Pool(R)
        occupy(pool, -1, dict.fromkeys(range(0, 4 * switches, 3), (1, 0)))
        options = {"within": f"switch:{switches}:balanced"}
        asked = request(pool, shape.format(2 * switches), **options)
        with Lines() as lines:
            assert pool.choice(asked).selection is not None
        return lines.count

    assert work(800) < 5 * work(200)
