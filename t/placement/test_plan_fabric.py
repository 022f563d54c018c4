"""The plan keeps to the fabric: a reservation is in the domains that its job asks for."""

import pytest

from placement.test_wait import NOW, Run


@pytest.mark.parametrize("policy", ["easy", "conservative"])
def test_a_job_within_a_switch_waits_for_one_though_nodes_enough_are_free(policy):
    run = Run(policy)
    run.runs(1, [0], NOW + 100)
    run.runs(2, [5], NOW + 50)
    run.waits(3, "node=4/slot/core=4", within="switch")
    assert run.placed == {}
    assert run.reserved(3) == (NOW + 50, [4, 5, 6, 7])
    run.now = NOW + 50
    run.pool.free(2)
    run.step()
    assert run.placed == {3: [4, 5, 6, 7]}


@pytest.mark.parametrize("policy", ["easy", "conservative"])
def test_a_job_in_two_switches_at_most_waits_for_two_though_three_have_nodes_enough(policy):
    run = Run(policy, {"switch": [{"ranks": r} for r in ("0-2", "3-5", "6-8")]}, 9)
    for jobid, (rank, end) in enumerate([(0, 100), (3, 50), (6, 200)]):
        run.runs(jobid, [rank], NOW + end)
    run.waits(3, "node=5/slot/core=4", switches=2)
    assert run.placed == {}
    reserved = NOW + 50, [1, 2, 3, 4, 5]
    assert run.reserved(3) == reserved
    run.waits(4, "node=2/slot/core=4", duration=100.0)  # the third switch is nobody's
    assert run.placed == {4: [7, 8]}
    assert run.reserved(3) == reserved
    run.now = NOW + 50
    run.pool.free(1)
    run.step()
    assert run.placed[3] == [1, 2, 3, 4, 5]


def test_jobs_pass_if_they_leave_the_switch_of_the_reservation_in_time():
    run = Run("easy")
    run.runs(1, [0], NOW + 100)
    run.runs(2, [5], NOW + 50)
    run.waits(3, "slot/switch{x}")
    run.waits(4, "node=2/slot/core=4", duration=200.0)  # the other switch is nobody's
    run.waits(5, "node=2/slot/core=4", duration=200.0)  # would need a node of the reservation
    run.waits(6, "node=2/slot/core=4", duration=20.0)
    assert run.reserved(3) == (NOW + 50, [4, 5, 6, 7])
    assert run.placed[4] == [1, 2]
    assert 5 not in run.placed
    assert set(run.placed[6]) < {3, 4, 6, 7}
