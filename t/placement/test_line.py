"""The jobs of a class: which of those shorter than some length is first, whatever users submit."""

from random import Random

import pytest

from made import asked, nodes
from treepool.placement.plan.jobs import FIFO, JobClass, Waiting, at_length
from treepool.placement.plan.line import Group, Line
from treepool.placement.pool import Pool
from work import Lines

PLAIN = asked(Pool(nodes("0")), "slot/core=1")


def job(jobid, length, own):
    return Waiting(jobid, 16, at_length(PLAIN, length), own)


def group():
    own = JobClass(PLAIN)
    return own, Group(own, Line("", FIFO, {}))


@pytest.mark.parametrize("seed", range(4))
def test_the_first_of_those_that_are_shorter_is_found_whatever_comes_and_goes(seed):
    chance = Random(seed)
    own, several = group()
    jobs = []
    for jobid in range(700):
        if jobs and chance.random() < 0.3:
            several.remove(jobs.pop(chance.randrange(len(jobs))))
        else:
            jobs.append(job(jobid, float(chance.randint(1, 400)), own))
            several.add(jobs[-1])
        shorter = chance.choice([1.0, 50.0, 200.0, 401.0, float("inf")])
        able = [one.place for one in jobs if one.length < shorter]
        assert several.first(shorter) == min(able, default=None)
        assert several.places == sorted(one.place for one in jobs)


def test_thousands_of_lengths_cost_each_other_little():
    own, several = group()
    jobs = [job(jobid, 1.0 + jobid, own) for jobid in range(4000)]
    with Lines(most=4000 * 400):
        for one in jobs:
            several.add(one)
            several.first(3500.0)
        for one in jobs:
            several.remove(one)
            several.first(3500.0)
