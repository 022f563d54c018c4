"""The module against the queue as replay has it, told the same without messages."""

from unittest.mock import patch

import manager as books
from chances import BEGIN, QUEUES, SHAPES
from histories import History, by_rank
from manager import Job, text

from treepool import parse_shape
from treepool.errors import TreepoolError
from treepool.flux import options
from treepool.flux.windownames import window_of
from treepool.placement.plan import queue
from treepool.placement.plan.jobs import finish
from treepool.placement.plan.queue import Queue
from treepool.placement.plan.windows import admitting, change_windows
from treepool.placement.pool import Pool
from treepool.rfc import jobspec, windows
from treepool.rfc.rset import ResourceSet
from treepool.view.replay import Rules, replay
from treepool.view.trace import TraceJob


class Plain:
    """The queue as replay has it: told at once what happens, without messages."""

    def __init__(self, history):
        self.clock, self.manager = history.clock, history.manager
        self.conf, self.doomed = history.conf, history.doomed
        read = self.options
        self.pool = Pool(history.R, **read.pool)
        self.pool.set_expiration(0.0)
        self.pool.mark_down("all")
        self.pool.mark_up(text(self.manager.up))
        self.queue = Queue(self.pool, self, lambda: self.clock.now, read.rule, read.queues)
        self.waiting, self.denied = {}, {}
        self.entries = windows.read_all(history.kvs.get("sched-treepool.windows", []))
        self.queue.set_windows(self.windows)
        for job in self.manager.jobs.values():
            if job.held:
                self.pool.register_alloc(job.jobid, held(job.R, books.held_entries(job.held)))
                if job.expiration is not None:
                    self.pool.update_expiration(job.jobid, job.expiration)
        for job in self.manager.jobs.values():
            if job.waits:
                self.add(job)

    @property
    def options(self):
        return options.read([], self.conf["sched-treepool"], QUEUES)

    @property
    def windows(self):
        R = self.pool.inventory.resource_set
        entries = [entry for entry in self.entries if entry.end > self.clock.now]
        queues = self.conf["queues"]
        return [window_of(entry, R, queues, lambda line: None) for entry in entries]

    def add(self, job):
        self.waiting[job.jobid] = job
        try:
            request = self.pool.parse_resource_request(job.spec)
            self.pool.check_feasibility(request)
        except TreepoolError as e:
            self.refused(job, str(e))
            return
        _, queues = owner = self.owner(job.jobid)
        leave = admitting(self.windows, *owner)
        who = job.jobid, job.priority, request, leave, queues[0], job.submitted, self.clock.now
        self.queue.add(self.queue.waiting(*who))

    def remove(self, job):
        self.queue.remove(job.jobid)
        self.waiting.pop(job.jobid, None)

    def started(self, job, allocation, how):
        if self.waiting[job.jobid].key in self.doomed:
            raise OSError("no memory")
        del self.waiting[job.jobid]

    def refused(self, job, reason):
        del self.waiting[job.jobid]

    def failed(self, job, error):
        del self.waiting[job.jobid]

    def owner(self, jobid):
        job = self.manager.jobs[jobid]
        name = job.spec["attributes"]["system"]["queue"]
        return job.userid, (self.conf["queues"][name].get("parent", name), name)


def held(R, entries):
    """What a job has."""
    execution = {name: R["execution"][name] for name in ("starttime", "expiration")}
    hosts = [f"n{e['rank']}" for e in entries]
    execution.update(R_lite=entries, nodelist=hosts)
    return ResourceSet.read({"version": 1, "execution": execution})


class Same(History):
    """The module starts the same as the queue of replay, told the same."""

    mixed = False
    events = tuple(name for name in History.events if name not in ("spoil", "stop"))

    def play(self):
        with patch.object(queue, "_PAUSE", 0):  # questions change how much work a sweep is
            super().play()

    def begun(self):
        super().begun()
        self.plain = Plain(self)

    def compare(self):
        super().compare()
        plain = self.plain
        finish(plain.queue.run())
        has = {j: (e, by_rank(plain.pool.job(j).parts)) for j, e in plain.pool.job_end_times()}
        pool = self.module.scheduler.pool
        assert has == {j: (e, by_rank(pool.job(j).parts)) for j, e in pool.job_end_times()}
        assert set(plain.waiting) == {j.jobid for j in self.manager.jobs.values() if j.waits}

    def next_times(self):
        return [*super().next_times(), self.plain.queue.next_time]

    def submit(self):
        job = super().submit()
        self.plain.add(job)
        return job

    def free(self, job, part=False):
        R = super().free(job, part)
        if R is not None:
            self.plain.pool.free(job.jobid, held(R, books.entries(R)))
        return R

    def cancel(self):
        job = super().cancel()
        if job is not None:
            self.plain.remove(job)

    def prioritize(self):
        for jobid, priority in super().prioritize() or ():
            self.plain.queue.prioritize(jobid, priority)

    def expire(self):
        found = super().expire()
        if found is not None and self.plain.pool.has_job(found[0].jobid):
            self.plain.pool.update_expiration(found[0].jobid, found[1])

    def set_up(self, up, ranks):
        super().set_up(up, ranks)
        (self.plain.pool.mark_up if up else self.plain.pool.mark_down)(text(ranks))

    def window(self):
        payload, plain = super().window().payload, self.plain
        name = payload["name"]
        entries = [e for e in plain.entries if e.name != name and e.end > self.clock.now]
        plain.entries = [*entries, *([windows.read(payload)] if "hosts" in payload else [])]
        finish(change_windows(plain.queue, plain.windows, plain.owner, name))

    def configure(self):
        super().configure()
        plain, old, queues = self.plain, self.plain.options, self.plain.conf["queues"]
        plain.conf = self.conf
        new = plain.options
        plain.queue.set_rules(new.rule, new.queues)
        if new.pool != old.pool or plain.conf["queues"] != queues:
            plain.pool.set_options(**new.pool)
            for jobid in list(plain.queue.jobs):
                plain.queue.remove(jobid)
                plain.add(self.manager.jobs[jobid])


class Replayed(History):
    """The module, given the jobs of a trace at their times, starts them as ``replay`` does."""

    mixed = False

    def __init__(self, seed):
        super().__init__(seed)
        chance = self.chance
        self.rule = chance.choice([{"policy": "fifo"}, *QUEUES.values()])
        self.conf = {"sched-treepool": self.rule}
        self.trace, submit = [], 0.0
        for number in range(1, chance.randint(30, 60)):
            submit += chance.choice([0, 0, 1, 2, 5])
            runs = chance.choice([1, 5, 10, 20])
            limit = runs + chance.choice([0, 0, 3, 30])
            shape = chance.choice([s for s in SHAPES if s != "slot=1-4/core=2"])
            self.trace.append(TraceJob(str(number), "", submit, runs, limit, shape))

    def play(self):
        rule = options.read([], self.rule).rule
        self.began = {}
        first = self.trace[0].submit

        def watch(job, time, allocation):
            self.began[int(job.place)] = BEGIN + time - first, by_rank(allocation.parts)

        rules = Rules(policy=rule.policy, depth=rule.depth)
        with patch.object(queue, "SWEEP", 0.0):
            replay(ResourceSet.read(self.R), self.trace, rules, watch=watch)
        self.submitted = 0
        super().play()
        begun = {j: (job.started, job.took) for j, job in self.manager.jobs.items() if job.R}
        assert begun == self.began

    def idle(self):
        if self.ending:
            return super().idle()
        for job in self.running:
            job.took = books.ranks_of(job.R)
        now, first = self.clock.now, BEGIN - self.trace[0].submit
        coming = self.trace[self.submitted :]
        ends = {j: j.started + self.trace[j.jobid - 1].runs for j in self.running}
        times = [*ends.values(), *(first + job.submit for job in coming[:1])]
        if not times:
            self.ended = True
            return self.unload()
        self.clock.now = now = min([*times, self.handle.next_timer])
        for job in sorted(ends, key=lambda job: (ends[job], job.jobid)):
            if ends[job] <= now:
                self.manager.free(job)
        for job in coming:
            if first + job.submit > now:
                break
            self.submitted += 1
            spec = jobspec.from_resources(parse_shape(job.shape), duration=job.limit)
            self.manager.submit(Job(self.submitted, spec, 16, 1, now))
        return None
