"""Nodes leave the instance in any order of events: the queue keeps just the jobs that can run."""

import random
from unittest.mock import MagicMock

import pytest

from placement.test_queue import FABRIC, Both, by_rank, deep, event
from treepool.errors import InfeasibleRequest


class Leaving(Both):
    """A queue, which nothing is compared with."""

    def __init__(self, chance, queues, fabric):
        super().__init__(chance, queues, fabric)
        self.slow = MagicMock()
        self.left = set(range(self.nodes))
        self.over = set()

    def refused(self, job, reason):
        assert not self.can_run(job), reason
        self.end(job.jobid)

    def can_run(self, job):
        try:
            self.pool.check_feasibility(job.relaxed)
        except InfeasibleRequest:
            return False
        return True

    def end(self, jobid):
        assert jobid not in self.over
        self.over.add(jobid)

    # -- what may happen

    def submit(self):
        super().submit()
        if not self.can_run(self.queue.jobs[self.jobid]):
            self.queue.remove(self.jobid)
            self.end(self.jobid)

    def cancel(self):
        before = set(self.queue.jobs)
        super().cancel()
        self.over |= before - set(self.queue.jobs)

    def free(self, jobid):
        super().free(jobid)
        self.end(jobid)

    def down_or_up(self):
        what = self.chance.choice(["mark_up", "mark_up", "mark_down"])
        getattr(self.pool, what)(str(self.chance.choice(sorted(self.left))))

    def replace_key(self):
        """A node leaves."""
        if len(self.left) > 1:
            rank = self.chance.choice(sorted(self.left))
            self.left.remove(rank)
            self.pool.remove_ranks(str(rank))
            for jobid in [j for j in self.running if not self.pool.has_job(j)]:
                del self.running[jobid]
                self.end(jobid)


def planned(both):
    return {j: (r.start, by_rank(r.parts)) for j, r in both.queue.plan.reservations.items()}


@pytest.mark.parametrize("fabric", [None, FABRIC])
@pytest.mark.parametrize("queues", ["b", "c", "abcd"])
@pytest.mark.parametrize("seed", [*range(4), *deep(range(4, 60))])
def test_no_job_is_lost_or_waits_in_vain_when_nodes_leave(monkeypatch, seed, queues, fabric):
    monkeypatch.setattr("treepool.placement.plan.timeline._SLICE", 2)
    chance = random.Random(f"leaving {seed} {queues}")
    both = Leaving(chance, queues, fabric)
    for _ in range(12):
        for _ in range(5):
            if chance.random() < 0.1:
                both.replace_key()
            event(both, chance)
            work = both.queue.run()
            for _ in range(chance.choice([0, 1, 2, 5, 20])):
                next(work, None)
            work.close()
        both.run()
        jobs = both.queue.jobs
        assert all(both.can_run(job) for job in jobs.values())
        assert sorted([*jobs, *both.running, *both.over]) == list(range(1, both.jobid + 1))
        before = planned(both)
        for job in list(jobs.values()):
            both.queue.replace(job)  # so that another pass is due
        both.run()
        assert planned(both) == before
