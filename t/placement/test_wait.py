"""The option wait: for so long a job waits for the place that it prefers, and then takes any."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import examples
from placement.promises import NOW, Site, ranks_in
from placement.test_job_fabric import cluster
from treepool.placement.plan.forecast import Forecast
from treepool.placement.plan.jobs import Rule, finish
from treepool.placement.pool import Pool

SWITCHES = {"switch": [{"ranks": "0-3"}, {"ranks": "4-7"}]}
CELLS = {
    "cell": [
        {"switch": [{"ranks": "0-3"}, {"ranks": "4-7"}]},
        {"switch": [{"ranks": "8-11"}, {"ranks": "12-15"}]},
    ]
}


def nodes_below(fabric, nodes):
    """Nodes of two sockets of two cores below *fabric*."""
    R = cluster(fabric, nodes)
    topo = {"socket": [{"cores": "0-1"}, {"cores": "2-3"}]}
    R["scheduling"]["children"] = [{"ranks": f"0-{nodes - 1}", "topo": topo}]
    return Pool(R)


class Run(Site):
    """A queue over some switches, which notes what starts, and is not judged."""

    def __init__(self, policy="easy", fabric=SWITCHES, nodes=8):
        super().__init__(nodes_below(fabric, nodes), Rule(policy, 8))
        self.placed = {}

    def started(self, job, allocation, how):
        self.placed[job.jobid] = list(allocation.ranks)

    def refused(self, job, reason):
        raise AssertionError(reason)

    def runs(self, jobid, ranks, end):
        """Job *jobid* has all of *ranks* until *end*."""
        shape = f"node={len(ranks)}{{x}}/slot/core=4"
        super().runs(jobid, shape, end, constraints={"ranks": [str(r) for r in ranks]})

    def waits(self, jobid, shape, duration=10.0, submitted=NOW, **options):
        self.submit(jobid, shape, duration, waited=self.now - submitted, **options)
        self.step()

    def step(self, now=None):
        self.now = self.now if now is None else now
        finish(self.queue.run())

    def reserved(self, jobid):
        reservation = self.queue.reservations[jobid]
        return reservation.start, sorted(ranks_in(reservation.parts))


def split():
    """Two switches with two free nodes each; the second has four from NOW + 100 on."""
    run = Run()
    run.runs(1, [0, 1], 0)
    run.runs(2, [4, 5], NOW + 100)
    return run


def test_a_job_waits_for_one_switch_and_takes_two_when_it_has_waited():
    run = split()
    run.waits(3, "node=4/slot/core=4", wait=30)
    assert run.placed == {}
    assert run.queue.next_time == NOW + 30
    run.step(NOW + 29)
    assert run.placed == {}
    run.step(NOW + 30)
    assert run.placed == {3: [2, 3, 6, 7]}


@pytest.mark.parametrize(
    ("wait", "start", "ranks"), [(30, NOW + 30, [2, 3, 6, 7]), (300, NOW + 100, [4, 5, 6, 7])]
)
def test_its_reservation_is_the_first_close_place_or_any_once_it_has_waited(wait, start, ranks):
    run = split()
    run.waits(3, "node=4/slot/core=4", wait=wait)
    assert run.reserved(3) == (start, ranks)
    run.waits(4, "node=2/slot/core=4", start - NOW)  # ends in time
    run.waits(5, "node/slot/core=4", start - NOW + 1)  # would not, on a node of the reservation
    assert run.placed[4]
    assert 5 not in run.placed or run.placed[5][0] not in ranks


@pytest.mark.parametrize("options", [{}, {"switches": 1}])
def test_what_an_idle_pool_has_in_no_domain_is_not_waited_for(options):
    run = Run()
    run.waits(3, "node=5/slot/core=1", wait=30, **options)  # two switches are the fewest
    assert run.placed == {3: [0, 1, 2, 3, 4]}


def test_where_no_domain_has_them_all_the_fewest_of_the_highest_are_waited_for():
    cells = {"cell": [{"ranks": "0-3"}, {"ranks": "4-7"}, {"ranks": "8-11"}]}
    run = Run(fabric=cells, nodes=12)
    run.runs(1, [0], NOW + 20)
    run.runs(2, [4], NOW + 20)
    run.runs(3, [8], 0)
    run.waits(4, "node=8/slot/core=1", wait=30)
    assert run.pool.choice(run.request("node=8/slot/core=1")).selection is not None  # in three
    assert run.placed == {}
    assert run.reserved(4) == (NOW + 20, [0, 1, 2, 3, 4, 5, 6, 7])
    run.waits(5, "node=9/slot/core=1", 5.0, wait=30)  # needs three anyway
    assert len(run.placed[5]) == 9


def test_a_range_of_nodes_that_spans_the_highest_domains_is_not_waited_for():
    run = Run(fabric=CELLS, nodes=16)
    assert run.pool.strict(run.request("node=2-12/slot/core=4", wait=30)).at_most is None


@pytest.mark.parametrize(("nodes", "name"), [(1, None), (4, "switch"), (5, "cell"), (9, None)])
def test_strictly_the_nodes_are_in_one_of_the_domains_in_which_an_idle_pool_has_them(nodes, name):
    run = Run(fabric=CELLS, nodes=16)
    request = run.request(f"node={nodes}/slot/core=2", wait=30)
    strict = run.pool.strict(request)
    assert [level.name for level in strict.levels] == ([] if name is None else [name])
    assert strict.ask.locality == "required"
    assert strict.wait is None


@pytest.mark.parametrize(("nodes", "name"), [(1, "switch"), (4, "switch"), (5, "cell")])
def test_with_switches_it_is_the_lowest_locality_if_an_idle_pool_can(nodes, name):
    run = Run(fabric=CELLS, nodes=16)
    strict = run.pool.strict(run.request(f"node={nodes}/slot/core=4", wait=30, switches=1))
    assert [level.name for level in strict.levels] == [name]


def test_a_place_that_the_nodes_left_cannot_give_is_waited_for_no_longer_than_it_was():
    run = split()
    run.runs(9, [2, 3, 6, 7], NOW + 100)
    run.waits(3, "node=4/slot/core=4", wait=30)
    run.pool.remove_ranks("0,4-5")
    run.pool.free(9)
    run.step(NOW + 29)
    assert run.placed == {}
    run.step(NOW + 30)
    assert run.placed == {3: [2, 3, 6, 7]}


def test_what_is_demanded_stays_demanded():
    run = split()
    run.waits(3, "node=4/slot/core=4", wait=30, within="switch")
    run.step(NOW + 30)
    assert run.placed == {}
    assert run.reserved(3) == (NOW + 100, [4, 5, 6, 7])


def test_the_reason_says_until_when():
    run = split()
    run.waits(3, "node=4/slot/core=4", wait=30)
    assert run.why(3).startswith("no close place is free, any will do at ")
    run.queue.remove(3)
    run.waits(3, "node=4/slot/core=4", wait=300)
    assert run.why(3).startswith("no close place is free until ")
    run.waits(4, "node=5/slot/core=4", wait=300)  # waits for nodes
    assert "close" not in run.why(4)


def test_a_forecast_knows_when_a_job_has_waited():
    run = Run("fifo")
    run.runs(1, [0, 1], 0)
    run.runs(2, [4, 5], 0)
    run.waits(3, "node=4/slot/core=4", wait=30)
    found, forecast = {}, Forecast(run.pool)
    finish(forecast.begin(NOW))
    finish(forecast.starts(list(run.queue.jobs.values()), NOW, found))
    assert found == {3: NOW + 30}


SHAPES = ("node=2/slot/core=3", "slot=5/core=2", "slot=3/core=1", "node=3/slot=2/core=1")


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.integers(0, 15), max_size=30), st.sampled_from(SHAPES))
def test_strictly_a_job_is_served_if_one_domain_alone_could_serve_it_with_local_slots(used, shape):
    run = Run(fabric=CELLS, nodes=16)
    for jobid, rank in enumerate(used, 10):
        one = run.request("slot/core=1", constraints={"ranks": [str(rank)]})
        if run.pool.choice(one).selection is not None:
            run.pool.alloc(jobid, one)
    strict = run.pool.strict(run.request(shape, wait=30))
    (level,) = strict.levels
    assert level.name == "switch"  # each fits into an idle one
    able = [
        run.pool.choice(
            run.request(shape, constraints={"ranks": [ranks]}, locality="required")
        ).selection
        for ranks in ("0-3", "4-7", "8-11", "12-15")
    ]
    assert (run.pool.choice(strict).selection is not None) == any(able)
