"""Random histories of the scheduler module, and what must hold whenever it rests."""

import json
import math
import random
from unittest.mock import patch

import manager as books
from chances import BAD, BEGIN, QUESTIONS, QUEUES, SHAPES, VALUES, R_of
from manager import CANCEL, SUCCESS, Job, JobManager, Module
from reactor import Clock, Handle, Message

from treepool import parse_shape
from treepool.flux import heldback
from treepool.placement.plan import profile, queue
from treepool.placement.plan.jobs import FAR
from treepool.rfc import idset, jobspec


def by_rank(parts):
    """What is held on each rank, as the job manager's books have it."""
    shown = books.bits
    return {r: (shown(cores), shown(gpus)) for ranks, cores, gpus in parts
            for r in idset.iterate(ranks)}  # fmt: skip


class History:
    """What happens to a module, by chance, and what must hold when it rests."""

    #: Whether what may come next comes in any order; otherwise each event has its effect first.
    mixed = True

    #: Events that nothing else may come together with, where their order would matter.
    ALONE = ("prioritize", "window", "configure")

    def __init__(self, seed):
        self.chance = chance = random.Random(f"{type(self).__name__} {seed}")
        self.clock = Clock(chance if self.mixed else None, BEGIN)
        self.R = R_of(chance.randint(4, 6), chance.random() < 0.5)
        self.manager = JobManager(self.R, self.clock)
        self.queues = chance.choice([*QUEUES, "abcd", "av", "abcdv"])
        table = {"queues": {q: dict(QUEUES[q]) for q in QUEUES}}
        queues = {**{q: {} for q in QUEUES}, "v": {"parent": "a"}}
        self.conf = {"queues": queues, "sched-treepool": table}
        self.kvs, self.questions, self.jobid = {}, [], 0
        self.left, self.doomed = chance.randint(60, 120), set()
        self.names = 0

    def play(self):
        """All that happens; raises AssertionError if something does not hold."""
        self.ended = False
        while not self.ended:
            self.load()

    def load(self):
        """The module from its load to its unload."""
        chance = self.chance if self.mixed else None
        self.handle = handle = Handle(self.clock, chance, self.kvs, self.conf)
        handle.on_idle, handle.on_turn = self.begun, lambda: None
        handle.breaks = lambda key: key in self.doomed
        self.ending = False
        self.module = Module(handle, self.manager)
        steps = 1 if self.mixed else 1000  # of a pass between two yields
        with (
            patch.object(profile, "SLICE", steps),
            patch.object(queue, "SWEEP", 0.0),
            patch.object(heldback, "ENTRIES", 1),
        ):
            self.module.run()
        self.manager.unloaded()
        for job in self.manager.jobs.values():
            assert job.R is None or not job.waits, "allocated, but the job is not told"
        allowed = "no memory", "the new configuration is refused: configuration:"  # one of VALUES
        for level, line in handle.logged:
            assert level > 3 or any(words in line for words in allowed), line
        for msg in self.questions:
            assert msg.responses == msg.delivered, f"{msg.topic}: {msg.responses} responses"
        self.questions.clear()

    def begun(self):
        """The module rests for the first time."""
        assert not len(self.manager.on_their_way)
        self.manager.ask_again()
        self.handle.on_idle, self.handle.on_turn = self.idle, self.turn

    def idle(self):
        """The module rests."""
        if self.ending:  # and waits for its last words
            self.handle.hurry()
            return
        if not all(msg.responses for msg in self.questions):
            self.handle.hurry()  # answers pause
            return
        self.compare()
        if self.left > 0:
            if self.chance.random() < 0.02:
                self.unload()
            else:
                self.batch()
        elif not self.drain():
            self.ended = True
            self.unload()

    def turn(self):
        """A turn of the reactor is about to begin."""
        if self.mixed and self.left > 0 and not self.ending and self.chance.random() < 0.15:
            self.event(self.RESTING)
            if self.chance.random() < 0.01 and self.handle.on_turn == self.turn:
                self.unload()

    def unload(self):
        self.ending = True
        self.handle.reactor_stop()

    @property
    def queue(self):
        return self.module.scheduler.queue

    # -- what happens

    def batch(self):
        """Some events at a time."""
        names = {self.event()}
        while self.chance.random() < 0.3 and not names & set(self.ALONE):
            names.add(self.event(self.ALONE))

    #: Events that come only when the module rests.
    RESTING = ()

    def event(self, but=()):
        self.left -= 1
        names = ["submit"] * 7 + ["end"] * 2 + ["later"] * 3 + ["cancel", "prioritize", "expire"]
        names += ["mark", "mark", "window", "configure", "ask", "ask", "spoil", "stop"]
        name = self.chance.choice([n for n in names if n not in but and n in self.events])
        getattr(self, name)()
        return name

    events = (
        *("submit", "end", "later", "cancel", "prioritize", "expire", "mark", "window"),
        *("configure", "ask", "spoil", "stop"),
    )

    priorities = (16, 16, 16, 17)

    def submit(self):
        self.jobid += 1
        chance = self.chance
        shape = chance.choice(BAD if chance.random() < 0.05 else SHAPES)
        duration = chance.choice([0, 5, 10, 10, 20, 33])
        wait = {"wait": chance.choice([7, 25])} if chance.random() < 0.15 else None
        spec = jobspec.from_resources(parse_shape(shape), duration=duration, options=wait)
        spec["attributes"]["system"]["queue"] = chance.choice(self.queues)
        priority, user = chance.choice(self.priorities), chance.choice([1, 2])
        job = Job(self.jobid, spec, priority, user, self.clock.now)
        job.end = duration
        if chance.random() < 0.03:
            self.doomed.add(job.key)
        self.manager.submit(job)
        return job

    def some(self, found):
        found = list(found)
        return self.chance.choice(found) if found else None

    @property
    def running(self):
        return [j for j in self.manager.jobs.values() if j.answer == SUCCESS and j.held]

    @property
    def waiting(self):
        return [j for j in self.manager.jobs.values() if j.waits and not j.cancelled and not j.R]

    def end(self):
        job = self.some(self.running)
        if job is not None:
            self.free(job, self.chance.random() < 0.3)

    def free(self, job, part=False):
        ranks = set(job.held) - self.manager.ending(job)
        if part and len(ranks) > 1:
            ranks = set(self.chance.sample(sorted(ranks), len(ranks) // 2))
        return self.manager.free(job, ranks) if ranks else None

    def later(self):
        """Go on to the next time at which something is to come; most jobs end at their limits."""
        self.advance(0.8)

    def advance(self, punctual):
        now = self.clock.now
        ends = {job: job.started + job.end for job in self.running if job.end}
        times = [*ends.values(), *self.next_times()]
        times += [j.submitted + 7 for j in self.waiting] + [j.submitted + 25 for j in self.waiting]
        later = [t for t in times if now < t < now + FAR]
        timer = max(self.handle.next_timer, now + 1)
        self.clock.now = min([*later, timer if timer < math.inf else now + 1])
        for job, end in ends.items():
            if end <= self.clock.now and self.chance.random() < punctual:
                self.free(job)

    def next_times(self):
        return [self.queue.next_time]

    def cancel(self):
        job = self.some(self.waiting)
        if job is not None:
            self.manager.cancel(job)
        return job

    def stop(self):
        """A queue is stopped: all its jobs are cancelled, one after another."""
        if self.chance.random() < 0.3:
            self.manager.stop(self.waiting)

    def prioritize(self):
        job = self.some(self.waiting)
        if job is None:
            return None
        new = [[job.jobid, self.chance.randint(15, 18)]]
        self.manager.prioritize(new)
        return new

    def expire(self):
        job = self.some(self.running)
        if job is None:
            return None
        when = self.chance.choice([0.0, self.clock.now + 3, self.clock.now + 15])
        job.end = when - job.started if when else 0
        self.manager.expire(job, when)
        return job, when

    def mark(self):
        rank, up = self.chance.choice(sorted(self.manager.ranks)), self.chance.random() < 0.67
        self.set_up(up, {rank})

    def set_up(self, up, ranks):
        self.manager.mark(up, ranks)

    def window(self):
        """Add a window, or remove one."""
        entries = self.kvs.get("sched-treepool.windows", ())
        known = [entry["name"] for entry in entries if entry["end"] > self.clock.now]
        if known and self.chance.random() < 0.5:
            name = self.chance.choice(known)
            msg = Message("sched-treepool.window-remove", {"name": name})
        else:
            self.names += 1
            start = self.clock.now + self.chance.choice([-1, 4, 12])
            hosts = self.chance.choice(["n0", "n1", "n[0-1]"])
            entry = {"name": f"w{self.names}", "hosts": hosts, "start": start, "end": start + 9}
            more = self.chance.choice([{}, {"users": [1]}, {"queues": ["a"]}, {"queues": ["v"]}])
            msg = Message("sched-treepool.window-add", {**entry, **more})
        self.questions.append(self.handle.send(msg))
        return msg

    def configure(self):
        """A new configuration: another rule, another parent, or another meaning of all requests."""
        table, queues = self.conf["sched-treepool"], self.conf["queues"]
        what = self.chance.random()
        if what < 0.6:
            rules = {**table["queues"], self.chance.choice("abcd"): self.some(QUEUES.values())}
            table = {**table, "queues": rules}
        elif what < 0.75:
            queues = {**queues, "v": self.chance.choice([{}, {"parent": "a"}, {"parent": "b"}])}
        else:
            table = {**table, "locality": self.chance.choice(["preferred", "required", "none"])}
        self.conf = {**self.conf, "queues": queues, "sched-treepool": table}
        self.handle.conf = self.conf
        msg = self.handle.send(Message("sched-treepool.config-reload", self.conf))
        self.questions.append(msg)
        return msg

    def ask(self):
        """A guest asks something."""
        name, payload = self.chance.choice(QUESTIONS)
        payload = self.spoiled(payload)
        streams = name in ("look", "jobs") and self.chance.random() < 0.9
        topic = f"sched-treepool.{name}"
        guest = Message(topic, payload, userid=2, rolemask=2, streams=streams)
        self.questions.append(self.handle.send(guest))

    def spoil(self):
        """The owner asks for a change that is wrong, or nearly."""
        entry = {"name": "bad", "hosts": "n0", "start": self.clock.now, "end": self.clock.now + 5}
        name, payload = self.chance.choice([
            ("window-add", {**entry, "users": [1, "root"], "queues": ["a"]}),
            ("window-remove", {"name": "w1"}),
            ("config-reload", self.conf),
        ])  # fmt: skip
        msg = Message(f"sched-treepool.{name}", self.spoiled(payload))
        self.questions.append(self.handle.send(msg))

    def spoiled(self, value):
        """JSON *value*, often with another value somewhere in it."""
        while isinstance(value, (dict, list)) and self.chance.random() < 0.5:
            value = self.other(json.loads(json.dumps(value)))
        return value

    def other(self, value):
        if not isinstance(value, (dict, list)) or not value or self.chance.random() < 0.2:
            return self.chance.choice(VALUES)
        key = self.chance.choice(list(value) if isinstance(value, dict) else range(len(value)))
        if self.chance.random() < 0.1:
            del value[key]
        else:
            value[key] = self.other(value[key])
        return value

    def drain(self):
        """Let what is left end, with all nodes up; returns whether there was something."""
        down = set(self.manager.ranks) - self.manager.up
        if down:
            self.set_up(True, down)
        elif not self.running and not self.waiting:
            return False
        else:
            for job in self.running:
                if not job.end:
                    job.end = 1.0
            before = self.clock.now
            self.advance(1.0)
            assert self.clock.now < before + 1000, "the module waits for nothing"
            assert self.clock.now < BEGIN + 1e6, "a job is forgotten"
        return True

    # -- what must hold

    def compare(self):
        """The module rests: nothing is on its way, and its pool and queue are as the books are."""
        scheduler, manager = self.module.scheduler, self.manager
        assert not scheduler._submissions.deferred and not scheduler.inbox
        assert all(msg.responses == 1 for msg in self.questions)
        self.questions.clear()
        has = {j: by_rank(scheduler.pool.job(j).parts) for j, _ in scheduler.pool.job_end_times()}
        assert has == {j: job.held for j, job in manager.jobs.items() if job.held}
        waiting = {job.jobid for job in manager.jobs.values() if job.waits}
        assert set(scheduler.queue.jobs) == waiting == set(scheduler._submissions._jobs)
        for jobid in waiting:
            assert scheduler.queue.jobs[jobid].priority == manager.jobs[jobid].priority
        assert set(scheduler.origins) == set(has)
        index = scheduler.pool.situation.index
        assert set(idset.iterate(index.up)) == manager.up == manager.known_up
        for job in manager.jobs.values():
            if job.answer in (SUCCESS, CANCEL):
                assert job.key not in self.doomed or job.answer == CANCEL
        if scheduler._annotator._annotations.due == math.inf:
            self.told(scheduler)
        self.apart(scheduler.queue)

    def told(self, scheduler):
        """There is nothing more to tell: each job knows why it waits, and how long."""
        for jobid in scheduler.queue.jobs:
            told = self.manager.jobs[jobid].told
            assert told.get("reason_pending"), f"{jobid} is not told why it waits"
            reservation = scheduler.queue.reservations.get(jobid)
            if reservation is not None and reservation.start < self.clock.now + FAR:
                said = told.get("t_estimate")
                assert said == reservation.start, f"{jobid} is told {said}, not {reservation.start}"

    def apart(self, queue):
        """No two reservations, nor one and a running job or a window, share anything."""
        holdings = list(queue.profile.holdings.items())
        for place, (holder, one) in enumerate(holdings):
            for another, other in holdings[:place]:
                holders = {holder, another}
                if not holders & set(queue.reservations):
                    continue
                for jobid in holders & set(queue.reservations):
                    if holders - {jobid} <= queue.reservations[jobid].job.job_class.admitted:
                        break
                else:
                    end = min(one.end, other.end)
                    overlap = end > max(one.start, other.start, self.clock.now)
                    both = [by_rank(some.parts) for some in (one, other)]
                    shared = any(
                        set(mine) & set(theirs)
                        for rank in set.intersection(*map(set, both))
                        for mine, theirs in zip(both[0][rank], both[1][rank])
                    )
                    assert not (overlap and shared), (one, other)


class Mixed(History):
    """Everything, in any order."""

    def submit(self):
        job = super().submit()
        if self.chance.random() < 0.1:  # it may not be judged yet when this comes
            self.manager.prioritize([[job.jobid, self.chance.randint(15, 18)]])
        return job


class Punctual(History):
    """Jobs keep their limits, nodes stay up, nobody goes ahead: no job starts late."""

    events = ("submit", "end", "later", "cancel", "ask")
    priorities = (16,)
    RESTING = ALONE = ("later",)  # the module has its turn at each time

    def load(self):
        self.promised = {}  # reservations end with the module
        super().load()

    def later(self):
        self.advance(1.0)

    def compare(self):
        super().compare()
        for jobid, job in self.manager.jobs.items():
            if job.R and jobid in self.promised:
                assert job.started <= self.promised[jobid], f"{jobid} starts late"
        for jobid, reservation in self.queue.reservations.items():
            self.promised.setdefault(jobid, reservation.start)
