"""Preemption: who ends, for whom, when; judged by rules that users know, and by brute force."""

import math
import random
from itertools import chain, combinations

import pytest

from depth import examples
from placement.promises import NOW, Site, pool_of
from treepool.placement.plan.jobs import Rule, Terms, finish
from treepool.placement.plan.windows import Window
from treepool.rfc import idset
from work import Lines


class Cluster(Site):
    """Its jobs end when they are told to, after ``grace`` seconds; it is not judged."""

    def __init__(self, nodes=2, policy="easy", depth=1, grace=2.0, gpus=0):
        super().__init__(pool_of(nodes, gpus=gpus), Rule(policy, depth))
        self.grace, self.started_at, self.ending, self.ended, self.terms = grace, {}, {}, {}, {}

    # -- as the queue sees its owner

    def started(self, job, allocation, how):
        self.running[job.jobid] = self.now + job.length
        self.started_at[job.jobid] = self.now

    def preempt(self, job, victims, new):
        assert new <= victims and not new & self.ended.keys(), "a job is told twice"
        for victim in new:
            assert victim in self.running
            since, after = self.started_at[victim], self.terms[victim].after
            assert after < math.inf, "a job without the attribute ends"
            assert self.now >= since + after, "a job ends before its time"
            assert self.terms[job.jobid].preempts
            self.ending[victim] = self.now + self.grace
            self.ended[victim] = job.jobid

    def refused(self, job, reason):
        raise AssertionError(reason)

    # -- what happens

    def submit(self, jobid, shape, length=100.0, after=math.inf, preempts=None, **more):
        preempts = after == math.inf if preempts is None else preempts
        self.terms[jobid] = Terms(after, preempts)
        self.add(jobid, self.request(shape, length), terms=self.terms[jobid], **more)
        self.rest()

    def rest(self):
        finish(self.queue.run())

    def end(self, jobid):
        del self.running[jobid]
        self.ending.pop(jobid, None)
        self.pool.free(jobid)

    def at(self, time):
        """Let the clock go to *time*, and all happen until then."""
        while True:
            ends = {**self.running, **self.ending}
            next_end = min(ends.values(), default=math.inf)
            following = min(next_end, max(self.queue.next_time, self.now))
            if following > time:
                break
            self.now = following
            for jobid in [j for j, end in ends.items() if end <= self.now]:
                self.end(jobid)
            before = len(self.running)
            self.rest()
            if following == self.now and len(self.running) == before and following >= time:
                break
        self.now = time
        self.rest()


def test_a_job_that_needs_the_room_ends_a_preemptible_one_and_starts_when_that_is_gone():
    site = Cluster(nodes=1)
    site.submit(1, "slot/core=8", 1000, after=10)
    assert site.started_at == {1: NOW}
    site.submit(2, "slot/core=8", 50)
    assert site.ended == {} and site.starts() == {2: NOW + 10}
    site.at(NOW + 10)
    assert site.ended == {1: 2} and site.starts() == {2: NOW + 10}
    assert 2 not in site.started_at
    site.at(NOW + 12)
    assert site.started_at[2] == NOW + 12


def test_nobody_ends_for_a_job_that_may_not_preempt_or_is_preemptible_itself():
    site = Cluster(nodes=1)
    site.submit(1, "slot/core=8", 100, after=0)
    site.submit(2, "slot/core=8", 50, after=5)
    site.submit(3, "slot/core=8", 50, preempts=False)
    site.at(NOW + 60)
    assert site.ended == {} and site.started_at == {1: NOW}


def test_nobody_ends_if_the_job_would_not_start_earlier():
    site = Cluster(nodes=2)
    site.submit(1, "slot/core=8", 1000, after=0)
    site.submit(2, "slot/core=8", 30)
    site.submit(3, "slot/core=4", 30)
    assert site.ended == {1: 3}  # it waits for nothing
    site = Cluster(nodes=2)
    site.submit(1, "slot/core=8", 1000, after=30)
    site.submit(2, "slot/core=8", 30)
    site.submit(3, "slot/core=4", 30)
    site.at(NOW + 31)
    assert site.ended == {} and site.started_at[3] == NOW + 30


def test_a_preemptible_job_starts_in_the_way_of_a_later_reservation():
    site = Cluster(nodes=2)
    site.submit(1, "slot/core=8", 100)
    site.submit(2, "slot=2/core=8", 100)  # on both nodes, at 100
    site.submit(3, "slot/core=8", 1000, preempts=False)
    assert 3 not in site.started_at  # it would hold a node until 1000
    site.submit(4, "slot/core=8", 1000, after=60)
    assert site.started_at[4] == NOW
    site.at(NOW + 99)
    assert site.ended == {}
    site.at(NOW + 103)
    assert site.ended == {4: 2} and site.started_at[2] == NOW + 102


def test_one_whose_time_would_not_have_come_does_not_start_in_the_way():
    site = Cluster(nodes=2)
    site.submit(1, "slot/core=8", 100)
    site.submit(2, "slot=2/core=8", 100)
    site.submit(3, "slot/core=8", 1000, after=150)
    assert 3 not in site.started_at


@pytest.mark.parametrize("policy", ["fifo", "easy", "conservative"])
def test_a_preemptible_job_is_planned_after_one_that_preempts_and_runs_longest(policy):
    site = Cluster(nodes=1, policy=policy, depth=4)
    site.submit(1, "slot/core=8", 100, after=10)
    site.submit(2, "slot/core=8", 500)
    site.submit(3, "slot/core=8", 20, after=20)
    site.at(NOW + 11)  # the second waits for the first to end
    assert site.starts() == {2: NOW + 10, 3: NOW + 510}
    site.submit(4, "slot/core=8", 20)
    site.at(NOW + 2000)
    assert site.started_at == {1: NOW, 2: NOW + 12, 3: NOW + 512, 4: NOW + 532}


def test_the_youngest_and_smallest_end_first():
    site = Cluster(nodes=4)
    for jobid in range(1, 5):
        site.submit(jobid, "slot/core=8", 1000, after=0)
        site.at(site.now + 10)
    site.submit(5, "slot=2/core=8", 10)
    assert set(site.ended) == {3, 4}


def test_jobs_behind_one_that_waits_for_its_victims_may_preempt_too():
    site = Cluster(nodes=4, grace=30.0)
    for jobid in range(1, 5):
        site.submit(jobid, "slot/core=8", 1000, after=0)
    for jobid in range(5, 9):
        site.submit(jobid, "slot/core=8", 10)
    assert sorted(site.ended) == [1, 2, 3, 4] and len(set(site.ended.values())) == 4


def test_a_cancelled_job_leaves_the_queue_as_it_was():
    site = Cluster(nodes=1, grace=30.0)
    site.submit(1, "slot/core=8", 1000, after=0)
    site.submit(2, "slot/core=8", 10)
    assert site.ended == {1: 2}
    site.queue.remove(2)
    site.rest()
    site.submit(3, "slot/core=8", 10)
    site.at(NOW + 31)
    assert site.started_at[3] == NOW + 30


def test_two_that_wait_for_one_victim_end_it_once():
    site = Cluster(nodes=1, grace=30.0)
    site.submit(1, "slot/core=8", 1000, after=0)
    site.submit(2, "slot/core=4", 10)
    site.submit(3, "slot/core=4", 10)
    assert site.ended == {1: 2}
    site.at(NOW + 31)
    assert {2, 3} <= site.started_at.keys()


def test_one_that_is_leaving_ends_rather_than_another():
    site = Cluster(nodes=2, grace=30.0)
    site.submit(1, "slot/core=8", 1000, after=0)
    site.submit(9, "slot/core=8", 20)
    site.submit(2, "slot/core=8", 10)
    site.queue.remove(2)
    site.at(NOW + 20)
    site.submit(3, "slot/core=8", 1000, after=0)
    site.submit(4, "slot/core=8", 10)
    assert site.ended == {1: 2}
    site.at(NOW + 31)
    assert site.started_at[4] == NOW + 30


def test_a_replay_is_woken_when_a_job_becomes_preemptible():
    site = Cluster(nodes=1, grace=2.0)
    site.submit(1, "slot/core=8", 100)
    site.submit(2, "slot/core=8", 1000, after=60)
    site.submit(3, "slot/core=8", 10)
    site.at(NOW + 400)
    assert site.started_at[3] <= NOW + 170


def test_a_preemptible_job_does_not_start_where_one_that_would_end_it_starts_then():
    """Job 2 would hold the node for a moment, and end."""
    site = Cluster(nodes=1, policy="conservative", depth=8)
    site.submit(1, "slot/core=8", 100, preempts=False)
    site.submit(2, "slot/core=8", 1000, after=0)
    site.submit(3, "slot/core=8", 50)
    site.at(NOW + 99)
    assert site.starts()[3] == NOW + 100
    site.at(NOW + 151)
    assert site.ended == {} and site.started_at == {1: NOW, 3: NOW + 100, 2: NOW + 150}


def test_what_is_searched_for_one_that_preempts_is_so_when_it_is_reserved(monkeypatch):
    """Between two steps, a window takes what the search has found."""
    monkeypatch.setattr("treepool.placement.plan.profile.SLICE", 1)
    window = Window("w", 0b1, NOW, NOW + 5000)
    for steps in range(200):
        site = Cluster(nodes=1, depth=8)
        site.submit(1, "slot/core=8", 1000, after=10)
        site.rest = lambda: None
        site.submit(2, "slot/core=8", 50)
        work = site.queue.run()
        taken = len([*zip(range(steps), work)])
        site.queue.set_windows([window])
        for _ in chain(work, site.queue.run()):
            pass
        assert site.starts()[2] >= window.end, steps
        if taken < steps:
            break


@pytest.mark.parametrize(("gpus", "wanted"), [(0, "slot/core=4"), (4, "slot/core=1")])
def test_what_is_reserved_of_a_preemptible_job_is_not_missing_elsewhere(gpus, wanted):
    """Job 4, which ends nobody, uses what job 2 leaves all the time."""
    site = Cluster(nodes=2, policy="conservative", depth=8, gpus=gpus)
    more = f";gpu={gpus}" if gpus else ""
    site.submit(1, f"slot/[core=8{more}]", 1000, after=10)
    site.submit(2, f"slot/[core=4{more}]", 1000, preempts=False)
    site.submit(3, f"slot/[core=8{more}]", 500)
    assert site.starts() == {3: NOW + 10}
    site.submit(4, wanted, 100, preempts=False)
    assert site.started_at[4] == NOW


def test_a_preemptible_job_that_ends_with_its_window_is_not_in_the_way_of_a_reservation():
    site = Cluster(nodes=2, depth=8)
    site.submit(1, "slot/core=8", 200, preempts=False)
    site.submit(2, "slot=2/core=8", 50)
    assert site.starts() == {2: NOW + 200}
    site.submit(3, "slot/core=8", 1000, after=500.0, until=NOW + 600)
    site.at(NOW + 200)
    assert site.started_at[2] == NOW + 200


@pytest.mark.parametrize("after", [0.0, 20.0])
def test_a_preemptible_job_is_planned_after_one_that_starts_late(after):
    site = Cluster(nodes=1, policy="conservative", depth=8)
    site.submit(1, "slot/core=8", 100, preempts=False)
    site.submit(2, "slot/core=8", 50)
    site.submit(3, "slot/core=8", 50, after=after)
    assert site.starts() == {2: NOW + 100, 3: NOW + 150}
    site.now = NOW + 110
    site.end(1)
    site.rest()
    assert site.started_at[2] == NOW + 110 and site.starts() == {3: NOW + 160}


def test_to_choose_among_thousands_who_ends_makes_no_long_step():
    nodes, jobs = 256, 2048
    site = Cluster(nodes)
    for jobid in range(1, jobs + 1):
        site.terms[jobid], site.started_at[jobid] = Terms(0.0), NOW - jobid % 100
        site.queue.runs(jobid, site.started_at[jobid], 0.0)
        site.pool.occupy(jobid, ((1 << jobid % nodes, 1 << (jobid - 1) // nodes, 0),), NOW + 1e6)
        site.running[jobid] = NOW + 1e6
    with Lines(75_000) as lines:  # some 7 ms
        site.rest = lambda: [setattr(lines, "count", 0) for _ in site.queue.run()]
        site.submit(jobs + 1, "slot=16/node{x}")
    assert len(site.ended) == 16 * 8


def needed(site, free, jobs, wanted):
    """The least number of *jobs* (cores by node) without which *wanted* nodes have 8 cores."""
    for number in range(len(jobs) + 1):
        for some in combinations(jobs, number):
            left = dict(free)
            for job in some:
                for node, cores in jobs[job].items():
                    left[node] += cores
            if sum(cores >= 8 for cores in left.values()) >= wanted:
                return number
    return None


@pytest.mark.parametrize("seed", range(examples(60)))
def test_no_job_ends_that_could_have_stayed(seed):
    chance = random.Random(seed)
    nodes = chance.randint(2, 4)
    site = Cluster(nodes=nodes)
    for jobid in range(1, 9):
        shape = f"slot={chance.randint(1, 2)}/core={chance.choice([2, 3, 4, 8])}"
        site.submit(
            jobid, shape, 1000, after=0 if chance.random() < 0.8 else math.inf, preempts=False
        )
        site.now += chance.choice([0, 1, 5])
    for jobid in list(site.queue.jobs):
        site.queue.remove(jobid)
    held = {
        jobid: {
            rank: idset.size(cores)
            for ranks, cores, _ in site.pool.job(jobid).parts
            for rank in range(nodes)
            if ranks >> rank & 1
        }
        for jobid in site.running
    }
    free = {node: 8 - sum(job.get(node, 0) for job in held.values()) for node in range(nodes)}
    may = {jobid: job for jobid, job in held.items() if site.terms[jobid].after == 0}
    wanted = chance.randint(1, nodes)
    least = needed(site, free, may, wanted)
    site.submit(100, f"slot={wanted}/core=8", 10)
    if not least:
        assert site.ended == {}
        return
    left = dict(free)
    for jobid in site.ended:
        for node, cores in may[jobid].items():
            left[node] += cores
    assert sum(cores >= 8 for cores in left.values()) >= wanted
    for stays in site.ended:  # none of them could have stayed, with the others ended
        less = {node: cores - may[stays].get(node, 0) for node, cores in left.items()}
        assert sum(cores >= 8 for cores in less.values()) < wanted
    site.at(site.now + 5)
    assert 100 in site.started_at


@pytest.mark.parametrize("policy", ["fifo", "easy", "conservative"])
@pytest.mark.parametrize("seed", range(examples(30)))
def test_whoever_ends_does_so_for_a_job_that_starts(seed, policy):
    chance, site = random.Random(seed), Cluster(nodes=3, policy=policy, depth=4)
    for jobid in range(1, 40):
        after = chance.choice([math.inf, math.inf, 0, 5, 20])
        shape = f"slot={chance.randint(1, 3)}/core={chance.choice([1, 4, 8])}"
        site.submit(jobid, shape, chance.choice([5, 20, 60, 200]), after)
        site.at(site.now + chance.choice([0, 1, 3, 10]))
    site.at(site.now + 20_000)
    assert not site.queue.jobs
    for victim, job in site.ended.items():
        assert site.started_at[job] >= site.started_at[victim]
