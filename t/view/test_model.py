"""Every number of a picture agrees with the pool, and with a count of its own by sets."""

import pytest

from bench.workload import cluster
from depth import examples
from treepool import parse_shape
from treepool.placement.pool import Pool
from treepool.rfc.jobspec import from_resources
from treepool.view.jobs import Job
from treepool.view.model import OTHER
from treepool.view.picture import MAX_STEPS, Picture
from treepool.view.totals import Totals
from view.counting import numbers, pool_with_jobs, some_R


def jobs_of(running):
    return [Job.of(str(jobid), "?", allocation) for jobid, allocation in running.items()]


@pytest.mark.parametrize("seed", range(examples(80)))
def test_the_numbers_of_every_step_are_those_of_the_jobs_so_far(seed):
    R = some_R()
    pool, running = pool_with_jobs(R, seed, jobs=8)
    picture = Picture.of(pool, jobs_of(running))
    so_far = []
    assert picture.steps[0].totals._asdict() == numbers(R, [])
    for step, allocation in zip(picture.steps[1:], running.values()):
        so_far.append(allocation.to_dict())
        assert step.totals._asdict() == numbers(R, so_far)


@pytest.mark.parametrize("seed", range(examples(80)))
def test_the_moves_of_the_steps_lead_to_the_last_one(seed):
    pool, running = pool_with_jobs(some_R(), seed)
    picture = Picture.of(pool, jobs_of(running))
    look_of = {}
    for step in picture.steps:
        sums = [0] * len(Totals._fields)
        for look, ranks in step.moves:
            look_of.update(dict.fromkeys(ranks, look))
        for look in look_of.values():
            sums = [a + b for a, b in zip(sums, picture.looks[look].layout.totals)]
        assert Totals(*sums) == step.totals
    assert [look_of[rank] for rank in picture.cluster.ranks] == list(picture.look_of)


def test_what_no_given_job_holds_is_shown_as_held_by_another():
    R = some_R()
    pool, running = pool_with_jobs(R, 2)
    known = dict(list(running.items())[1:])
    picture = Picture.of(pool, jobs_of(known))
    assert picture.totals._asdict() == numbers(R, [a.to_dict() for a in running.values()])
    (other,) = [job for job in picture.jobs if job.name == OTHER]
    (missing,) = set(running) - set(known)
    assert other.ncores == Job.of("", "", running[missing]).ncores
    assert not [job for job in Picture.of(pool, jobs_of(running)).jobs if job.name == OTHER]


def test_what_two_jobs_claim_is_counted_once_and_stays_with_the_first():
    pool = Pool(some_R())
    first = Job("1", "?", ((1, 0b0011, 1),))
    second = Job("2", "?", ((1, 0b0110, 1),))
    picture = Picture.of(pool, [first, second])
    assert picture.totals.cores_used == 3
    assert picture.totals.gpus_used == 1
    assert picture.looks[picture.look_of[0]].layout.held == ((0b0011, 1), (0b0100, 0))


def test_a_job_on_ranks_that_are_gone_is_shown_where_it_still_is():
    pool = Pool(some_R())
    job = Job("1", "?", ((1 << 0 | 1 << 5 | 1 << 99, 1, 0),))
    pool.remove_ranks("5")
    picture = Picture.of(pool, [job])
    assert picture.totals.nodes == 5
    assert picture.totals.cores_used == 1


@pytest.mark.depth
def test_a_long_run_has_no_more_steps_than_a_slider_can_tell_apart(picture_of):
    picture = picture_of("b", ["slot=1/core"] * 1000)
    assert MAX_STEPS / 2 < len(picture.steps) <= MAX_STEPS + 1
    assert picture.totals.cores_used == 1000


def test_free_gpus_whose_cores_are_taken_are_stranded_and_told_so():
    pool = Pool(cluster(2))
    for jobid, shape in enumerate(("slot/core=24", "slot/core=12"), 1):
        pool.alloc(jobid, pool.parse_resource_request(from_resources(parse_shape(shape))))
    totals = Picture.of(pool, []).totals
    assert (totals.gpus_free, totals.gpus_stranded) == (8, 1.5)
    assert totals.line.endswith("8 free (1 stranded)")
