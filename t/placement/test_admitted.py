"""No job waits for ever: what is admitted starts, at the latest once nothing else runs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import examples
from placement import strategies as random
from placement.promises import Site
from placement.test_work import UNEVEN, UNEVEN_SOCKETS, cluster, request
from treepool.errors import InfeasibleRequest, InvalidJobspec, TooComplex
from treepool.placement.plan.jobs import finish
from treepool.placement.pool import Pool


def starts(pool: Pool, request: Any, full: bool) -> bool:
    """Whether a job that waits starts; if *full*, it waits for another that has all there is."""
    site = Site(pool)

    def passes() -> None:
        for _ in range(5):
            finish(site.queue.run())
            site.now += 1.0

    if full:
        pool.occupy(1, [(e.ranks, e.cores, e.gpus) for e in pool.inventory.resource_set.entries])
    site.add(2, request)
    passes()
    if full:
        assert not site.running
        pool.free(1)
        passes()
    return 2 in site.running


def starts_if_admitted(pool: Pool, spec: Any, full: bool) -> None:
    """Raise AssertionError if *pool* admits a job that does not start on it."""
    try:
        asked = pool.parse_resource_request(spec)
        pool.check_feasibility(asked)
    except (InvalidJobspec, InfeasibleRequest):
        return
    pool.alloc(3, asked)
    pool.free(3)
    assert starts(pool, asked, full)


@settings(max_examples=examples(400))
@given(st.data())
def test_on_nodes_of_all_kinds(data):
    nodes = (
        random.clusters(),
        random.rich_nodes(),
        random.broad_nodes(),
        random.uneven_clusters(),
        random.irregular_nodes(3),
        random.linked_nodes(),
    )
    R = data.draw(random.with_fabric(data.draw(st.one_of(*nodes))))
    pool = Pool(
        R,
        locality=data.draw(random.some("preferred", "required")),
        policy=data.draw(random.some(*random.POLICIES)),
    )
    starts_if_admitted(pool, data.draw(random.any_jobspecs(R)), data.draw(st.booleans()))


@settings(max_examples=examples(1000))
@given(st.data())
def test_if_a_search_is_needed_that_may_give_up(data):
    """On nodes whose domains are no two alike, for slots of several parts."""
    topo, names = data.draw(random.some((UNEVEN, ["numa"]), (UNEVEN_SOCKETS, ["socket", "numa"])))
    R = cluster(6, properties={"driver:1": "0-1", "driver:2": "2-5"})
    R["scheduling"]["children"][0]["topo"] = topo
    R["scheduling"]["fabric"] = {"switch": [{"ranks": "0-2"}, {"ranks": "3-5"}]}
    spec = data.draw(random.hard_jobspecs(names))
    starts_if_admitted(Pool(R), spec, data.draw(st.booleans()))


@pytest.mark.parametrize("full", [False, True])
def test_a_job_that_waits_for_a_close_place_waits_for_one_that_can_be_found(full):
    """A search finds a place for the job, but gives up where all slots must be local."""
    R = cluster(6)
    R["scheduling"]["children"][0]["topo"] = UNEVEN
    R["scheduling"]["fabric"] = {"switch": [{"ranks": "0-2"}, {"ranks": "3-5"}]}
    pool = Pool(R)
    shape = "node=2/slot=2+/[numa{x}/core;numa=1-3{x}/core=2+]"
    asked = request(pool, shape, locality="required", wait=1e9)
    assert starts(pool, asked, full)


def test_a_request_that_is_too_complex_for_an_idle_pool_is_refused():
    R = cluster(2)
    R["scheduling"]["children"][0]["topo"] = UNEVEN
    pool = Pool(R)
    asked = request(pool, "node/slot=5/[numa=3/core=2;numa=2/core=3;numa=2/core=1]")
    for call in (pool.check_feasibility, lambda asked: pool.alloc(1, asked)):
        with pytest.raises(TooComplex, match="too complex"):
            call(asked)
    assert issubclass(TooComplex, InfeasibleRequest)
