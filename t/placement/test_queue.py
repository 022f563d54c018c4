"""The queue plans as the slow queue of the same rules does, whatever happens in which order."""

import random
from unittest.mock import MagicMock

import pytest

from placement.slowqueue import Held, SlowQueue
from treepool import Pool, parse_shape
from treepool.placement.plan.line import Rule
from treepool.placement.plan.queue import Queue
from treepool.placement.plan.timeline import NEVER
from treepool.placement.plan.window import Window, admitting
from treepool.rfc.jobspec import from_resources
from treepool.rfc.rset import ResourceSet, RLiteEntry

SHAPES = (
    "slot/core=1", "slot/core=3", "slot=2/core=2", "slot=5/core=2", "slot=2/node/core=4",
    "slot/node{x}", "slot=3/[core=1;gpu=1]", "node=2/slot/socket{x}", "slot/socket/core=3",
)  # fmt: skip
RULES = {"a": ("easy", 1), "b": ("conservative", 3), "c": ("fifo", 1), "d": ("conservative", 1e9)}


WIDE = ("node=3/slot/core=2", "node=4/slot/core=6", "node=5/slot/core=1")

#: With a fabric, jobs may wait for one of its domains.
FABRIC = {"cell": [{"switch": [{"ranks": "0-1"}, {"ranks": "2-3"}]}, {"ranks": "4"}]}

#: The topologies that the nodes may have; jobs may ask for the same in each.
TOPOS = (
    {"socket": [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1"}]},
    {"socket": [{"cores": "0-4", "gpus": "0-1"}, {"cores": "5-7"}]},
)


def key_of(nodes, fabric=None, topo=TOPOS[0]):
    children = [{"ranks": f"0-{nodes - 1}", "topo": topo}]
    return {"writer": "TreePool", "children": children, **({"fabric": fabric} if fabric else {})}


def pool_of(nodes, fabric=None):
    return Pool({
        "version": 1,
        "execution": {
            "R_lite": [{"rank": f"0-{nodes - 1}", "children": {"core": "0-7", "gpu": "0-1"}}],
            "nodelist": [f"n[0-{nodes - 1}]"],
        },
        "scheduling": key_of(nodes, fabric),
    })  # fmt: skip


def deep(seeds):
    """The seeds that only `make ci` tries."""
    return [pytest.param(seed, marks=pytest.mark.depth) for seed in seeds]


class Both:
    """A queue and the slow one, on pools of their own, told the same."""

    def __init__(self, chance, queues, fabric=None):
        self.chance = chance
        self.nodes, self.fabric = 5 if fabric else chance.randint(2, 4), fabric
        self.now = 1000.0
        self.pool = pool_of(self.nodes, fabric)
        self.waits = [0, 0, 7, 25] if fabric else []
        rules = {name: Rule(*RULES[name]) for name in queues}
        self.queue = Queue(self.pool, self, lambda: self.now, Rule(), rules)
        self.slow = SlowQueue(self.pool.copy(), RULES)
        self.queues = queues
        self.running = {}
        self.promised = {}
        self.windows = []
        self.jobid = 0
        self.work = None

    def started(self, job, allocation):
        self.running[job.jobid] = (self.now, job.request.duration)

    def refused(self, job, reason):
        raise AssertionError(reason)

    def failed(self, job, error):
        raise error

    # -- what may happen

    def submit(self):
        self.jobid += 1
        shapes = (*SHAPES, *(WIDE if self.waits else ()))
        shape, queue = self.chance.choice(shapes), self.chance.choice(self.queues)
        duration = self.chance.choice([0, 5, 10, 10, 20, 33])
        wait = self.chance.choice(self.waits) if self.waits else 0
        options = {"wait": wait} if wait else {}
        if self.waits and shape in WIDE[:2] and self.chance.random() < 0.5:
            options["switches"] = 2
        spec = from_resources(parse_shape(shape), duration=duration, options=options or None)
        request = self.pool.parse_resource_request(spec)
        priority = self.chance.choice([16, 16, 16, 17])
        leave = admitting(self.windows, self.chance.choice([1, 2]), queue)
        job = self.queue.plan.kinds.waiting(
            self.jobid, priority, request, leave, queue, self.now, self.now
        )
        self.queue.add(job)
        self.slow.add(job)

    def end_one(self):
        if self.running:
            jobid = self.chance.choice(list(self.running))
            self.free(jobid)

    def free(self, jobid):
        del self.running[jobid]
        self.pool.free(jobid)
        self.slow.pool.free(jobid)

    def free_a_node(self):
        """A job gives back one of its nodes, as after housekeeping."""
        if self.running:
            jobid = self.chance.choice(list(self.running))
            held = by_rank(self.pool.job(jobid).parts)
            if len(held) > 1:
                rank = self.chance.choice(list(held))
                gone = ResourceSet((RLiteEntry(1 << rank, *held[rank]),), ())
                self.pool.free(jobid, gone)
                self.slow.pool.free(jobid, gone)

    def pass_time(self):
        """Go to the next thing that is planned; jobs at their limits end, but not all."""
        ends = [began + length for began, length in self.running.values() if length]
        ends += [r.start for r in self.queue.plan.reservations.values() if r.start < 1e17]
        ends += [window.end for window in self.windows]
        ends += [job.patience for job in self.queue.jobs.values() if job.patience < 1e17]
        self.now = min((e for e in ends if e > self.now), default=self.now + 1)
        self.now += self.chance.choice([0, 0, 0.25, 1.5])  # nothing happens in the very moment
        for jobid, (began, length) in list(self.running.items()):
            if length and began + length <= self.now and self.chance.random() < 0.8:
                self.free(jobid)

    def cancel(self):
        if self.queue.jobs:
            jobid = self.chance.choice(list(self.queue.jobs))
            self.queue.remove(jobid)
            self.slow.remove(jobid)

    def prioritize(self):
        if self.queue.jobs:
            jobid, priority = self.chance.choice(list(self.queue.jobs)), self.chance.randint(15, 18)
            self.queue.prioritize(jobid, priority)
            self.slow.prioritize(jobid, priority)

    def update(self):
        if self.running:
            jobid = self.chance.choice(list(self.running))
            end = self.chance.choice([0.0, self.now + 3, self.now + 15])
            self.running[jobid] = (self.now, end - self.now if end else 0)
            self.pool.update_expiration(jobid, end)
            self.slow.pool.update_expiration(jobid, end)

    def down_or_up(self):
        rank = str(self.chance.randint(0, 3))
        what = self.chance.choice(["mark_up", "mark_up", "mark_down"])
        getattr(self.pool, what)(rank)
        getattr(self.slow.pool, what)(rank)

    def window(self):
        if self.windows and self.chance.random() < 0.5:
            self.windows.pop()
        else:
            start = self.now + self.chance.choice([-1, 4, 12])
            users = frozenset(self.chance.choice([(), (1,)]))
            name = f"w{self.jobid}-{self.now}-{len(self.windows)}"
            self.windows.append(Window(name, self.chance.randint(1, 3), start, start + 9, users))
        self.queue.set_windows(self.windows)
        self.slow.windows = {
            w.name: Held(w.start, w.end, w.parts(self.pool.inventory)) for w in self.windows
        }

    def replace_key(self):
        """Give all nodes another topology, with which all reservations are void."""
        key = key_of(self.nodes, self.fabric, self.chance.choice(TOPOS))
        self.pool.replace_key(key)
        self.slow.pool.replace_key(key)
        self.slow.reserved.clear()

    def run(self):
        for _ in self.queue.run():
            pass
        self.windows = list(self.queue.plan.windows.values())
        self.slow.now = self.now
        self.slow.run()

    def compare_at_rest(self):
        """The slow queue, if it begins where the queue has come to, has nothing to do."""
        plan, slow = self.queue.plan, SlowQueue(self.pool.copy(), RULES)
        self.windows = list(plan.windows.values())
        slow.now, slow.jobs = self.now, dict(self.queue.jobs)
        slow.queues = {name for name, _, _ in self.queue.lines()}
        slow.late = dict(plan._follower.late)
        slow.reserved = {j: Held(r.start, r.end, r.parts) for j, r in plan.reservations.items()}
        slow.windows = {
            w.name: Held(w.start, w.end, w.parts(self.pool.inventory)) for w in self.windows
        }
        self.slow = slow
        slow.run()
        self.compare()

    def compare(self):
        plan = self.queue.plan
        assert sorted(self.slow.jobs) == sorted(self.queue.jobs)
        mine = {j: (r.start, r.end, by_rank(r.parts)) for j, r in plan.reservations.items()}
        assert mine == {
            j: (h.start, h.end, by_rank(h.parts)) for j, h in self.slow.reserved.items()
        }
        assert running(self.pool) == running(self.slow.pool)


def by_rank(parts):
    return {rank: (cores, gpus) for ranks, cores, gpus in parts for rank in ranks}


def running(pool):
    return {jobid: (end, by_rank(pool.job(jobid).parts)) for jobid, end in pool.job_end_times()}


def event(both, chance):
    """Let something happen: most often a job is submitted."""
    steps = [both.submit] * 6 + [both.end_one, both.pass_time, both.pass_time, both.cancel]
    steps += [both.prioritize, both.update, both.down_or_up, both.window, both.free_a_node]
    (both.replace_key if chance.random() < 0.02 else chance.choice(steps))()


def agrees_after_each_of_40_events(both, chance):
    for _ in range(40):
        event(both, chance)
        both.run()
        both.compare()


@pytest.mark.parametrize("queues", ["a", "b", "c", "d", "abcd"])
@pytest.mark.parametrize("seed", [*range(4), *deep(range(4, 40))])
def test_it_plans_as_the_slow_queue_does(seed, queues):
    chance = random.Random(f"{seed} {queues}")
    both = Both(chance, queues)
    agrees_after_each_of_40_events(both, chance)


@pytest.mark.parametrize("queues", ["a", "b", "c", "d", "abcd"])
@pytest.mark.parametrize("seed", [*range(2), *deep(range(2, 40))])
def test_it_plans_as_the_slow_queue_does_while_jobs_wait_for_close_places(seed, queues):
    chance = random.Random(f"wait {seed} {queues}")
    both = Both(chance, queues, FABRIC)
    agrees_after_each_of_40_events(both, chance)


@pytest.mark.parametrize("fabric", [None, FABRIC])
@pytest.mark.parametrize("queues", ["b", "d", "abcd"])
@pytest.mark.parametrize("seed", [*range(4), *deep(range(4, 40))])
def test_a_pass_may_be_left_at_any_yield(monkeypatch, seed, queues, fabric):
    monkeypatch.setattr("treepool.placement.plan.timeline._SLICE", 2)
    monkeypatch.setattr("treepool.placement.plan.views.STRIDE", 3)
    monkeypatch.setattr("treepool.placement.plan.earliest.STRIDE", 3)
    monkeypatch.setattr("treepool.placement.plan.earliest._STEPS", 1)
    chance = random.Random(f"left {seed} {queues}")
    both = Both(chance, queues, fabric)
    for _ in range(12):
        both.slow = MagicMock()
        for _ in range(5):
            event(both, chance)
            work = both.queue.run()
            for _ in range(chance.choice([0, 1, 2, 5, 20])):
                next(work, None)
            work.close()
        for _ in both.queue.run():
            pass
        both.compare_at_rest()
    plan = both.queue.plan
    reserved = [job.jobid for _, job in both.queue._lines.reserved()]
    assert sorted(reserved) == sorted(plan.reservations) == sorted(plan._tracks)
    assert set(reserved) <= set(both.queue.jobs)
    assert not set(both.queue.jobs) & set(both.running)
    for rank in range(4):
        spans = plan.timeline.spans(rank)
        for place, one in enumerate(spans):
            for other in spans[:place]:
                if isinstance(one.holder, int) and isinstance(other.holder, int):
                    apart = one.end <= other.start or other.end <= one.start
                    late = min(one.end, other.end) <= both.now
                    shared = one.cores & other.cores or one.gpus & other.gpus
                    never = one.start == other.start == NEVER
                    assert apart or late or never or not shared
