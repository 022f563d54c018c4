"""Nodes in domains above them, against the reference: which domains, and which nodes in them."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from depth import examples
from made import asked, nodes
from placement import strategies as random
from placement.duel import Duel
from placement.test_work import cluster as nodes_with_sockets
from treepool.errors import InfeasibleRequest, InsufficientResources, InvalidJobspec
from treepool.placement.allocation import parts_of
from treepool.placement.choose.choice import Situation
from treepool.placement.effort import PER_REQUEST
from treepool.placement.nodes.index import NodeIndex
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.shape import parse_shape
from work import Lines

SETTINGS = settings(
    max_examples=examples(400),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@st.composite
def machines(draw):
    """The R of flat nodes of two sizes below a fabric."""
    size = draw(st.integers(2, 16))
    ranks = list(range(size))
    large = sorted(draw(random.subsets(ranks)))
    small = [rank for rank in ranks if rank not in large]
    entries = [
        {"rank": idset.encode_ids(some), "children": {"core": f"0-{cores - 1}"}}
        for some, cores in ((small, 2), (large, 4))
        if some
    ]
    fabric = draw(random.fabrics(ranks))
    execution = {"R_lite": entries, "nodelist": [f"n[0-{size - 1}]"]}
    if draw(st.booleans()):
        execution["properties"] = {"fast": idset.encode_ids(draw(random.subsets(ranks)) or [0])}
    scheduling = {"writer": "TreePool", "children": [], "fabric": fabric}
    return {"version": 1, "execution": execution, "scheduling": scheduling}


@st.composite
def shapes(draw, size):
    """A request for several nodes, or for slots on any."""
    n, k, c = draw(st.integers(1, size)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    counts = draw(random.some(f"{n}", f"{n}", f"{n}", f"{min(n, 2)}-{n}", "1+"))
    return draw(
        random.some(
            f"node={counts}/slot={k}/core={c}",
            f"node={counts}{{x}}/slot/core={c}",
            f"node={counts}/slot=1-{k}/core={c}",
            f"slot={counts}/core={c}",
            f"slot={counts}/core={c}-{c + 1}",
            f"slot={k}/node={max(1, n // k)}/core={c}",
            f"slot={k}/node=1-{max(1, n // k)}/core={c}",
            f"slot={counts}/node{{x}}",
        )
    )


def steps(data, R, shape):
    """A job that asks for *shape*, or another that ends."""
    ranks = random.ranks_of(R)
    if data.draw(random.some(False, False, False, True)):
        return random.Step("free", number=data.draw(st.integers(0, 3)))
    constraints = None
    if "properties" in R["execution"] and data.draw(st.booleans()):
        constraints = {"properties": ["fast"]}
    options = data.draw(random.some(None, None, {"locality": "none"}, {"locality": "required"}))
    made = parse_shape(data.draw(shape(len(ranks))))
    return random.Step("alloc", random.jobspec(made, constraints=constraints, options=options))


@st.composite
def named_shapes(draw, size):
    """A request that names localities above the nodes, or one to which an option adds some."""
    n, k, c = (draw(st.integers(1, 3)) for _ in range(3))
    a, b = draw(random.some("1", "1", "2", "3", "1-3", "2+")), draw(random.some("1", "2", "1-2"))
    m = draw(random.some(f"{n}", f"{n}", f"1-{n}", f"{n}+"))
    return draw(
        random.some(
            f"switch={a}/node={m}/slot={k}/core=1",
            f"switch={a}/slot={m}/core={c}",
            f"cell={a}/node={m}/slot/core={c}",
            f"cell={a}/switch={b}/node={m}/slot/core=1",
            f"cell={a}/switch={b}/slot={k}/core=1",
            f"slot={k}/switch={a}/node={m}/core=1",
            f"slot={a}/switch/node={n}/core=1",
            f"slot={k}/cell/switch={b}/node={m}/core=1-2",
            f"cell={b}/slot={k}/switch/node={n}/core=1",
            f"slot={b}/switch{{x}}",
            f"slot=1/cell={b}{{x}}",
            f"slot={b}/switch{{x}}/node={n}",
            f"slot/cell/switch={b}{{x}}",
            f"switch={a}/slot={k}/node={n}/core=1",
            f"switch={a}/slot={m}/node={b}/core=1",
            f"switch={a}/node={n}/slot=1-{k}/core=1",
            f"cell/switch={a}/node={m}{{x}}/slot/core=1",
        )
    )


@pytest.mark.parametrize("asked", [shapes, named_shapes], ids=["nodes", "named"])
@SETTINGS
@given(data=st.data())
def test_jobs_get_the_smallest_domains_that_serve_them_or_the_fewest(data, asked):
    R = data.draw(machines())
    policy = data.draw(random.some("best-fit", "best-fit", *random.POLICIES))
    occupied = data.draw(st.one_of(random.occupations(R), st.none()))
    mix = data.draw(random.mixes(policy, R))
    duel = Duel(random.History(R, "preferred", occupied, [], policy, mix))
    for _ in range(4):
        step = steps(data, R, asked)
        note(str(step))
        duel.do(step)


@SETTINGS
@given(st.data())
def test_options_ask_for_one_domain_or_for_segments(data):
    R = data.draw(machines())
    occupied = data.draw(st.one_of(random.occupations(R), st.none()))
    duel = Duel(random.History(R, "preferred", occupied, [], "best-fit"))
    for _ in range(4):
        step = steps(data, R, data.draw(random.some(shapes, shapes, named_shapes)))
        if step.what == "alloc":
            options = step.spec["attributes"]["system"].setdefault("treepool", {})
            if data.draw(st.booleans()):
                options["within"] = data.draw(random.some("cell", "switch", "switch:2", "pod"))
            if data.draw(st.booleans()):
                options["switches"] = data.draw(random.some(1, 2, 2, 3))
            if data.draw(random.some(False, False, True)):
                options["wait"] = 600
            if data.draw(st.booleans()):
                locality = data.draw(random.some("switch", "switch", "cell"))
                options["segment"] = f"{locality}:{data.draw(st.integers(1, 4))}"
        note(str(step))
        duel.do(step)


@st.composite
def many_switches(draw):
    """The R of up to 24 flat nodes below small switches in cells, and what jobs have of it."""
    sizes = draw(st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=4), max_size=4))
    cells, first = [], 0
    for cell in sizes:
        switches = []
        for size in cell:
            switches.append({"ranks": idset.encode_ids(range(first, first + size))})
            first += size
        cells.append({"switch": switches})
    size = first + draw(st.integers(0 if first else 1, 2))  # some stand alone
    execution = {
        "R_lite": [{"rank": idset.encode_ids(range(size)), "children": {"core": "0-1"}}],
        "nodelist": [f"n[{idset.encode_ids(range(size))}]"],
    }
    fabric = {"cell": cells} if cells else {}
    scheduling = {"writer": "TreePool", "children": [], "fabric": fabric}
    used = draw(st.lists(st.sampled_from(["", "", "0", "0-1"]), min_size=size, max_size=size))
    lite = [{"rank": str(r), "children": {"core": c}} for r, c in enumerate(used) if c]
    hosts = [f"n{r}" for r, c in enumerate(used) if c]
    occupied = {"version": 1, "execution": {"R_lite": lite, "nodelist": hosts}}
    return {"version": 1, "execution": execution, "scheduling": scheduling}, lite and occupied


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ("{}=2/node=2/slot/core=4", {}),
        ("slot/{}{{x}}", {}),
        ("node=4/slot/core=4", {"within": "{}"}),
        ("node=6/slot/core=4", {"segment": "{}:3"}),
    ],
)
def test_a_locality_may_have_the_name_of_any_option(shape, options):
    def answer(name):
        R = nodes_with_sockets(8)
        R["scheduling"]["fabric"] = {name: [{"ranks": "0-3"}, {"ranks": "4-7"}]}
        pool = Pool(R)
        spec = {"resources": parse_shape(shape.format(name)), "tasks": [], "version": 1}
        given = {option: text.format(name) for option, text in options.items()}
        spec["attributes"] = {"system": {"duration": 0, "treepool": given}}
        try:
            return pool.alloc(1, pool.parse_resource_request(spec)).dumps()
        except InfeasibleRequest as e:
            return str(e).replace(name, "switch")

    for name in ("segment", "within", "wait"):
        assert answer(name) == answer("switch")


@SETTINGS
@given(st.data())
def test_a_job_spans_no_more_domains_than_it_may_and_is_not_denied_if_so_few_can_serve_it(data):
    R, occupied = data.draw(many_switches())
    duel = Duel(random.History(R, "preferred", occupied or None, [], "best-fit"))
    locality = data.draw(random.some("switch", "switch", "cell"))
    most = data.draw(st.integers(2, 4))
    options = {"within": f"{locality}:{most}"}
    n = data.draw(st.integers(1, 12))
    # A shape, how many units it asks for at least, and how many a node with 0, 1, 2 free cores has.
    shape, least, hosts = data.draw(
        random.some(
            (f"node={n}/slot/core=2", n, (0, 0, 1)),
            (f"node={n}/slot/core=1", n, (0, 1, 1)),
            (f"slot={n}/core=1", n, (0, 1, 2)),
            (f"slot=2/node={n}/core=2", 2 * n, (0, 0, 1)),
            (f"slot={n}-12/core=1", n, (0, 1, 2)),
            (f"slot=1-2/node={n}-12/core=2", n, (0, 0, 1)),
            (f"node={n}/slot/core=1-2", n, (0, 1, 1)),
        )
    )
    spec = random.jobspec(parse_shape(shape), options=options)
    with suppress(InvalidJobspec):
        request = duel.pool.parse_resource_request(spec)
        selection = duel.pool.choice(request).selection
        fabric, index = duel.pool.inventory.fabric, duel.pool.situation.index
        rooms: dict[int, int] = {}
        for rank, state in enumerate(index.state_of):
            for domain in around(fabric, rank, locality):
                rooms[domain] = rooms.get(domain, 0) + hosts[state.ncores]
        able = sum(sorted(rooms.values())[-most:]) >= least
        assert (selection is not None) == able
        if selection is not None:
            found = [around(fabric, rank, locality) for rank in idset.iterate(selection.ranks)]
            assert all(found) and len(set(chain(*found))) <= most
    duel.do(random.Step("alloc", spec))


@SETTINGS
@given(st.data())
def test_what_is_kept_up_to_date_answers_like_what_is_counted_anew(data):
    """In a pool, and in copies of its index, which the plan makes for other times."""
    R = data.draw(machines())
    pool = Pool(R)
    shape = random.some(shapes, named_shapes)
    requests = []
    for _ in range(4):
        spec = random.jobspec(parse_shape(data.draw(data.draw(shape)(len(random.ranks_of(R))))))
        with suppress(InvalidJobspec):
            requests.append(pool.parse_resource_request(spec))
    situations = [pool.situation]
    for jobid in range(12):
        situation = data.draw(st.sampled_from(situations))
        if data.draw(random.some(False, False, True)):
            situation = Situation(situation.inventory, situation.index.copy(), situation.policy)
            situations = [pool.situation, *situations[1:2], situation]
        rank = data.draw(st.sampled_from(random.ranks_of(R)))
        if situation is pool.situation:
            if requests:
                with suppress(InfeasibleRequest, InsufficientResources):
                    pool.alloc(jobid, data.draw(st.sampled_from(requests)))
            if data.draw(random.some(False, False, True)):
                (pool.mark_down if pool.up >> rank & 1 else pool.mark_up)(str(rank))
        else:
            state = situation.index.state_of[rank]
            less = situation.inventory.states.get(state.type, data.draw(st.integers(0, 3)), 0)
            situation.index.put(1 << rank, less)
            up = situation.index.up & ~(1 << rank) | data.draw(st.integers(0, 1)) << rank
            situation.index.set_up(up)
        for request in requests:
            index = NodeIndex(situation.index.state_of.copy(), situation.index.up)
            anew = Situation(situation.inventory, index, situation.policy).choice(request)
            kept = situation.choice(request)
            assert taken(kept) == taken(anew)


def around(fabric, rank, locality):
    """The domain of *locality* that *rank* is in, if any."""
    (leaf,) = fabric.homes[rank]
    return [domain for domain in fabric.around(leaf) if fabric.locality[domain] == locality]


def taken(choice):
    """What a choice takes of each rank, and its number of slots."""
    if choice.selection is None:
        return None
    return sorted(parts_of(choice.selection)), choice.selection.nslots


def machine(switches):
    """A pool of so many switches of 16 nodes, 16 in each cell."""
    last = 16 * switches - 1
    leaves = [{"ranks": f"{first}-{first + 15}"} for first in range(0, last, 16)]
    cells = [{"switch": leaves[first : first + 16]} for first in range(0, switches, 16)]
    return Pool(nodes(f"0-{last}", "0-3", fabric={"cell": cells}))


@pytest.mark.depth
@pytest.mark.parametrize(
    "shape", ["slot/core=2", "node=12/slot/core=4", "switch=2/node=6/slot/core=4"]
)
def test_the_work_for_domains_follows_what_changes_and_not_their_number(shape):
    """Sixteen times as many nodes, switches and cells: only the pool itself has more inside."""

    def work(switches):
        pool = machine(switches)
        request, small = asked(pool, shape), asked(pool, "slot/core=3")
        for jobid in range(100):
            pool.alloc(jobid, small)
        pool.alloc(100, request)
        pool.free(100)
        with Lines() as lines:
            for jobid in range(101, 111):
                pool.alloc(jobid, small)
                pool.alloc(jobid + 100, request)
                pool.free(jobid - 100)
        return lines.count

    assert work(1024) < 1.5 * work(64)


@pytest.mark.depth
def test_where_nodes_give_different_numbers_domains_are_tried_until_the_effort_is_spent():
    """In each switch a node has three free cores and the rest two, so no number says where the
    request fits. It is served all the same, if only with the least in most of the domains."""
    pool = machine(640)
    for rank in range(640 * 16):
        pool.occupy(-1 - rank, [(1 << rank, 0b1000 if not rank % 16 else 0b1100, 0)])
    found = pool.choice(asked(pool, "node=2/slot=1-3/core=1"))
    assert found.gave_up
    assert found.effort < 2 * PER_REQUEST
    assert idset.size(found.selection.ranks) == 2
    assert found.selection.nslots == 6
    found = pool.choice(asked(pool, "switch=300/node=1-2/slot=1-3/core=1"))
    assert found.gave_up
    assert found.effort < 2 * PER_REQUEST
    switches = {rank // 16 for rank in idset.iterate(found.selection.ranks)}
    assert len(switches) == 300
