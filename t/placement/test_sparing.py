"""A reservation leaves nodes that are idle until it starts to jobs that can use them meanwhile."""

from random import Random

import pytest

from depth import examples
from placement.test_wait import NOW, Run
from treepool.rfc import idset


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
