"""Why a job waits: each reason names what is really in its way."""

import pytest

from placement.test_plan import NOW
from placement.test_wait import Run


def on(*ranks):
    return {"ranks": [str(rank) for rank in ranks]}


@pytest.fixture
def apart():
    """Two switches with one free node each; the first has another from NOW + 100 on."""
    run = Run(
        policy="conservative", fabric={"switch": [{"ranks": "0-1"}, {"ranks": "2-3"}]}, nodes=4
    )
    run.runs(1, [0], NOW + 100)
    run.runs(2, [2], NOW + 200)
    return run


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ("node=2/slot/core=4", {"within": "switch"}),
        ("switch/node=2/slot/core=4", {}),
        ("node=2/slot/core=4", {"segment": "switch:2"}),
    ],
)
def test_nodes_that_are_free_but_in_two_switches_are_not_what_others_are_late_with(
    apart, shape, options
):
    apart.waits(3, shape, **options)
    assert apart.reserved(3) == (NOW + 100, [0, 1])
    said = apart.why(3)
    assert said.startswith("enough nodes are free now, but not together, 2 at ")
    assert "late" not in said


def test_nodes_that_are_up_but_in_two_switches_are_too_few(apart):
    apart.pool.mark_down("0,2")
    apart.waits(3, "node=2/slot/core=4", within="switch")
    assert apart.why(3) == "nodes are down or drained: 2 of 2 nodes up, but not together"


def test_a_reservation_elsewhere_is_not_named():
    run = Run(policy="conservative", nodes=4)
    for rank in range(4):
        run.runs(rank + 1, [rank], NOW + 50)
    run.pool.free(3)
    run.pool.free(4)
    run.waits(5, "node=2{x}/slot/core=4", 1000, constraints=on(0, 2))
    run.waits(6, "node=2{x}/slot/core=4", 1000, constraints=on(1, 3))
    run.waits(7, "slot/core=4", 100, constraints=on(3))
    run.waits(8, "slot/core=4", 100, constraints=on(2))
    assert run.why(7).startswith("what is free is reserved for 6, 1 at ")
    assert run.why(8).startswith("what is free is reserved for 5, 1 at ")


def test_no_two_jobs_wait_for_what_is_reserved_for_each_other():
    run = Run(policy="conservative", nodes=4)
    for rank in range(4):
        run.runs(rank + 1, [rank], NOW + 50)
    run.waits(5, "node=2{x}/slot/core=4", 1000)
    run.waits(6, "node=2{x}/slot/core=4", 1000)
    run.pool.free(2)
    run.pool.free(4)
    run.waits(7, "slot/core=4", 1000)
    assert run.why(5).startswith("what is free is reserved for other jobs, 2 at ")
    assert run.why(6).startswith("what is free is reserved for 5, 2 at ")
    assert run.why(7).startswith("what is free is reserved for 5, 1 at ")
