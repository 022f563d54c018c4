"""Counts below the slot are as large as the pool allows; counts further out come first."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import examples
from made import alloc
from placement import strategies as random
from placement.duel import Duel, outcome
from placement.promises import Site
from treepool.placement.plan.jobs import Rule
from treepool.placement.pool import Pool


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
