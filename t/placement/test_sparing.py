"""A reservation leaves nodes that are idle until it starts to jobs that can use them meanwhile."""

from random import Random

import pytest

from depth import examples
from made import nodes
from placement.promises import Site
from placement.test_wait import NOW, Run
from treepool.placement.plan.jobs import finish
from treepool.placement.pool import Pool
from treepool.rfc import idset


def test_a_job_that_ends_by_far_too_late_uses_what_a_reservation_left():
    """As it was seen: 6 nodes idle, 6 more soon, 20 busy for half an hour, 16 in each cell."""
    run = Run("easy", {"cell": [{"ranks": "0-15"}, {"ranks": "16-31"}]}, 32)
    run.runs(1, [*range(16, 32), 0, 1, 2, 3], NOW + 1801)
    run.runs(2, [4, 5, 6, 7, 8, 9], NOW + 607)
    run.waits(3, "node=16/slot/core=4", duration=3600.0)
    assert run.reserved(3) == (NOW + 1801, list(range(16, 32)))
    run.waits(4, "node=4/slot/core=4", duration=3600.0)
    assert run.placed == {4: [10, 11, 12, 13]}


@pytest.mark.parametrize("seed", range(examples(60)))
def test_of_equal_nodes_as_few_as_possible_are_idle_before(seed):
    chance = Random(seed)
    number = chance.randint(4, 9)
    run = Run("easy", {}, number)
    ends = {rank: NOW + chance.choice([0, 0, 100, 200, 300]) for rank in range(number)}
    busy(run, ends)
    wanted = chance.randint(sum(end == NOW for end in ends.values()) + 1, number)
    run.waits(99, f"node={wanted}/slot/core=4", duration=1000.0)
    start, ranks = run.reserved(99)
    assert start == sorted(ends.values())[wanted - 1], "no later than it could be"
    free = [rank for rank in ends if ends[rank] <= start]
    waited_for = sum(ends[rank] > NOW for rank in free)
    assert sum(ends[rank] > NOW for rank in ranks) == min(wanted, waited_for)


@pytest.mark.parametrize("seed", range(examples(60)))
def test_of_equal_switches_the_one_is_taken_with_the_fewest_idle_nodes_before(seed):
    chance = Random(seed)
    switches = [range(4 * i, 4 * i + 4) for i in range(chance.randint(2, 4))]
    fabric = {"switch": [{"ranks": idset.encode_ids(ranks)} for ranks in switches]}
    run = Run("easy", fabric, 4 * len(switches))
    ends = {rank: NOW + chance.choice([0, 100, 100]) for ranks in switches for rank in ranks}
    ends[chance.randrange(4)] = NOW + 100
    busy(run, ends)
    for ranks in switches:  # none has four idle nodes
        if all(ends[rank] == NOW for rank in ranks):
            run.runs(1000 + ranks[0], [ranks[0]], NOW + 100)
            ends[ranks[0]] = NOW + 100
    run.waits(99, "node=4/slot/core=4", duration=1000.0, within="switch")
    start, ranks = run.reserved(99)
    assert start == NOW + 100
    fewest = min(sum(ends[rank] == NOW for rank in ranks) for ranks in switches)
    assert sum(ends[rank] == NOW for rank in ranks) == fewest


def busy(run, ends):
    """All of each node is taken until it ends."""
    for jobid, (rank, end) in enumerate(ends.items()):
        if end > NOW:
            run.runs(jobid, [rank], end)


def test_a_job_whose_nodes_share_a_property_is_reserved_beside_nodes_without_one():
    """What is to be spared was once looked for in the property that a node has, if it has none."""
    having = {"driver:1": "0-2", "driver:2": "2-4"}
    site = Site(Pool(nodes("0-6", "0-3", properties=having)))
    for jobid, rank in enumerate(("0", "4")):
        site.runs(jobid, "slot=4/core=1", NOW + 100, constraints={"ranks": [rank]})
    site.submit(99, "node=3/slot/core=4", same="driver")
    finish(site.queue.run())
    made = site.queue.reservations[99]
    assert (made.start, made.parts) == (NOW + 100, ((0b111, 0b1111, 0),))
