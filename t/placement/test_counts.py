"""Counts below the slot are as large as the pool allows; counts further out come first."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import examples, some
from made import alloc
from placement import strategies as random
from placement.duel import Duel, outcome
from placement.promises import Site
from treepool import parse_shape
from treepool.errors import InfeasibleRequest, InsufficientResources
from treepool.placement.plan.jobs import Rule
from treepool.placement.pool import Pool
from treepool.rfc import count, idset


def pool_of(*nodes, properties=None, **options):
    """A pool of a node for each topo, which lists all that it has."""
    topos = dict(enumerate(nodes))
    listed = {
        rank: (random._listed(topo, "cores"), random._listed(topo, "gpus"))
        for rank, topo in topos.items()
    }
    R = random.R_of(listed, topos)
    R["execution"]["properties"] = properties or {}
    return Pool(R, **options)


def domains(name, *sizes, first=0):
    """Domains called *name* of so many cores each, from core *first* on."""
    found = []
    for size in sizes:
        found.append({"cores": f"{first}-{first + size - 1}" if size > 1 else str(first)})
        first += size
    return {name: found}


def got(pool, shape, **options):
    """What a job gets of *pool*, in Flux's short form."""
    return alloc(pool, 1, shape, **options).dumps()


#: In NUMA domains there is room for one slot of 20 cores, in sockets for two of 25 or more.
IRREGULAR = {
    "socket": [domains("numa", 24, 10), domains("numa", 10, 10, 14, first=34)],
}


@pytest.mark.parametrize("waits", [False, True])
def test_a_job_starts_where_a_larger_count_can_be_local_and_the_least_cannot(waits):
    pool = pool_of(IRREGULAR)
    site = Site(pool, Rule("easy", 1))
    if waits:
        site.submit(1, "node=1{x}/slot/core=1", 100.0)
        site.run()
    site.submit(2, "slot=2/core=20-40", 100.0, locality="required")
    site.run()
    assert (2 in site.queue.jobs) == waits
    if waits:
        site.end(1)
        site.run()
    assert 2 not in site.queue.jobs


def test_nodes_that_share_a_property_are_found_where_the_least_count_cannot_be_local():
    pool = pool_of(IRREGULAR, IRREGULAR, properties={"driver:1": "0", "driver:2": "1"})
    request = "slot=2/core=20-40"
    found = got(pool, request, locality="required", same="driver")
    assert found == got(pool_of(IRREGULAR, locality="required"), request)


def valid(text):
    """The values that a range such as ``5-50`` or ``1-24:4`` allows."""
    return list(count.parse(text).valid(96))[::-1]


#: Shapes with counts above the slot, and the values that the counts below it may have, the
#: outermost count first.
SHAPES = [
    ("slot=1-30/core={}", ["1-60"]),
    ("slot=1-9/[core={};gpu={}]", ["1-40", "1-3"]),
    ("slot=1-9/[core={};gpu]", ["1-40"]),
    ("slot=1-12/numa/core={}", ["1-12"]),
    ("slot=1-12/socket={}/core={}", ["1-2", "1-24:4"]),
    ("slot=1-6/socket/numa={}/core={}", ["1-2", "1-12"]),
    ("slot=4/[socket/core={};numa/core={}]", ["1-24:3", "1-12:2"]),
    ("slot=1-3/[numa={0}/core={2};core={1}]", ["1-2", "1-30:6", "1-12:4"]),
    ("node=1-3/slot=1-6/core={}", ["5-50"]),
    ("socket=1-3/slot=1-4/core={}", ["1-30"]),
    ("node/socket=1-3/slot=1-4/core={}", ["1-30"]),
    ("slot=1-2/node=1-2/core={}", ["10-90:7"]),
]


def size(shape, allocation):
    """How much a job has, by the counts down to the slot, the outermost first."""
    above, _, below = shape.partition("slot")
    cores = {(rank, core) for ranks, mask, _ in allocation.parts for rank in idset.iterate(ranks)
             for core in idset.iterate(mask)}  # fmt: skip
    nodes = len(allocation.ranks)
    sockets = len({(rank, core // 24) for rank, core in cores})
    return (
        nodes * ("node" in above),
        sockets * ("socket" in above),
        allocation.nslots,
        nodes * ("node" in below),
    )


@pytest.mark.parametrize(("shape", "ranges"), some(SHAPES, 3))
def test_with_locality_required_the_best_of_all_combinations_is_chosen(shape, ranges):
    """On three nodes of four sockets of two NUMA domains, of which parts are taken at random."""
    numas = [{"cores": f"{12 * i}-{12 * i + 11}", "gpus": str(i)} for i in range(8)]
    topo = {"socket": [{"numa": numas[i : i + 2]} for i in (0, 2, 4, 6)]}
    chance = Random(shape)
    for _ in range(examples(20)):
        taken = [
            (1 << rank, idset.from_ids(chance.sample(range(96), chance.choice([20, 60]))),
             chance.randrange(256))
            for rank in range(3)
        ]  # fmt: skip

        gave_up = []

        def tried(text):
            pool = pool_of(topo, topo, topo, locality="required")
            pool.occupy(9, taken)  # noqa: B023
            try:
                asked = pool.parse_resource_request(random.jobspec(parse_shape(text)))
                gave_up.append(pool.choice(asked).gave_up)  # noqa: B023
                return pool.alloc(1, asked)
            except (InfeasibleRequest, InsufficientResources):
                return None

        found = [
            (size(shape, got), values, got.parts)
            for values in product(*map(valid, ranges))
            if (got := tried(shape.format(*values))) is not None
        ]
        best = max(found, key=lambda one: one[:2])
        given = tried(shape.format(*ranges))
        if any(gave_up):
            assert "numa" in shape and shape != "slot=1-12/numa/core={}", "no search is needed"
            continue
        assert (size(shape, given), given.parts) == (best[0], best[2])


@settings(max_examples=examples(400))
@given(st.data())
def test_with_locality_required_all_combinations_of_counts_are_as_good_as_tried(data):
    """Several parts of a slot, each with ranges, on nodes that are partly taken."""
    R = data.draw(st.one_of(random.rich_nodes(), random.blades(), random.irregular_nodes(2)))
    occupied = data.draw(st.one_of(st.none(), random.occupations(R)))
    duel = Duel(random.History(R, "required", occupied, [], "best-fit"))
    made = random.rich_resources(random.localities(R), len(random.ranks_of(R)))
    for _ in range(2):
        spec = random.jobspec(data.draw(random.with_ranges(data.draw(made))))
        asked = outcome(lambda: duel.pool.parse_resource_request(spec))  # noqa: B023
        if isinstance(asked, type) or not duel.pool.choice(asked).gave_up:
            duel.do(random.Step("alloc", spec))
