"""flux-core's job manager and resource module, by RFC 27, and the books they keep."""

import errno
import json
import time
from contextlib import contextmanager
from functools import partial
from unittest.mock import patch

import flux.scheduler
from _flux._core import ffi, lib
from flux.brokermod import BrokerModule
from flux.job import JobID
from reactor import (
    Future,
    Message,
    Transaction,
    commit_async,
    get_key,
    get_keys,
    raise_async,
)

import TreePool  # noqa: F401 (makes treepool importable)

from treepool.flux import hello, protocol, questions, sched, windows  # isort: skip
from treepool.rfc import idset  # isort: skip

#: Alloc responses by their type, RFC 27.
SUCCESS, ANNOTATE, DENY, CANCEL = range(4)


class Job:
    """A job of the job manager; ``held`` is what of its R the module was not told that it is free.

    ``R`` is in the KVS from the moment when the module decides on it; ``answer`` ends the request.
    """

    def __init__(self, jobid, spec, priority, userid, submitted):
        self.jobid, self.spec, self.priority = jobid, spec, priority
        self.key, self.events = _key(jobid), f"{JobID(jobid).kvs}.eventlog"
        self.userid, self.submitted = userid, submitted
        self.msg = self.R = self.answer = None
        self.held = {}
        self.started = 0.0
        self.cancelled = False
        #: Its end, if that was changed while it ran.
        self.expiration = None
        #: What it was told while it waited; as the job manager merges it.
        self.told = {}

    @property
    def waits(self):
        return self.answer is None


class JobManager:
    """flux-core's job manager and resource module, as the module sees them, and their books."""

    def __init__(self, R, clock):
        self.R, self.clock = R, clock
        self.jobs = {}
        self.ranks = {r: e for e in entries(R) for r in ids(e["rank"])}
        self.up = set(self.ranks)
        #: What the module was told is up.
        self.known_up = set()
        #: Jobs that are cancelled together, from the first cancel on.
        self.stopped = set()
        #: The jobs for which the module raised an exception.
        self.raised = []
        #: What is freed, by messages that the module has not seen yet.
        self.on_their_way = {}

    def serve(self, handle):
        """Be the services of *handle*, and watch what the module does with it."""
        self.handle = handle
        handle.services = {
            "resource.acquire": self.acquire,
            "job-manager.sched-hello": self.hello,
            "job-manager.sched-ready": self.ready,
            "job-manager.getinfo": lambda payload: [{"max_jobid": max(self.jobs, default=0)}],
            "job-manager.getattr": self.attributes,
            "job-manager.alloc-query": lambda payload: [{"alloc_pending": self.asked}],
            "job-manager.resource-status": self.allocated,
            "job-manager.raise": self.over,
        }
        handle.on_commit, handle.on_answer = self.committed, self.answered

    # -- services

    def acquire(self, payload):
        self.known_up = set(self.up)
        self.stream = Future(self.handle, [{"resources": self.R, "up": text(self.up)}])
        return self.stream

    def hello(self, payload):
        holding = [job for job in self.jobs.values() if job.held]
        for job in holding:
            gone = set(ranks_of(job.R)) - set(job.held)
            free = {"free": text(gone)} if gone else {}
            yield {
                "id": job.jobid,
                "priority": job.priority,
                "userid": job.userid,
                "t_submit": job.submitted,
                **free,
            }
        yield OSError(errno.ENODATA, "no more")

    def ready(self, payload):
        """Before this answer, the job manager tells nobody what is freed (flux-core 0.88)."""
        for job in self.jobs.values():
            if job.held and job.expiration is not None:
                assert self.module.scheduler.pool.job(job.jobid).end_time == job.expiration
            if job.held and self.handle.chance and self.handle.chance.random() < 0.5:
                del job.held[min(job.held)]
        return [{"count": 0}]

    @property
    def asked(self):
        """How many requests have no answer."""
        return sum(job.waits and not job.cancelled for job in self.jobs.values())

    def attributes(self, payload):
        """The R of a job that has resources, and the events that matter."""
        job = self.jobs[payload["id"]]
        if not job.held:
            return [OSError(errno.ENOENT, "R is NULL")]
        return [{"R": job.R, "eventlog": [{"name": "alloc"}]}]

    def over(self, payload):
        """The job has just ended: its resources are about to be freed."""
        self.raised.append(payload["id"])
        return [OSError(errno.ENOENT, "job is inactive")]

    def allocated(self, payload):
        going = {(id(job), rank) for job, ranks in self.on_their_way.values() for rank in ranks}
        taken = [
            entry
            for job in self.jobs.values()
            for entry in held_entries(
                {r: h for r, h in job.held.items() if (id(job), r) not in going}
            )
        ]
        R = {"version": 1, "execution": {"R_lite": taken}} if taken else None
        return [{"allocated": R}]

    # -- what the module does

    @property
    def held_up(self):
        """Whether passes must wait for what the module was told."""
        scheduler, since = self.module.scheduler, self.module.scheduler._precedence._since
        return scheduler.inbox and (since is None or self.clock.elapsed < since + 0.1)

    def know(self, up, ranks):
        """The module is about to take note of nodes that went up or down."""
        self.known_up = self.known_up | ranks if up else self.known_up - ranks

    def committed(self, key, value):
        """The module has decided on an R: nobody else has any of it, and it is on nodes up."""
        job = next((job for job in self.jobs.values() if job.key == key), None)
        if job is None:  # of the windows
            return
        assert job.waits and job.R is None, "allocated twice"
        assert job.jobid not in self.stopped, "started while its queue is being stopped"
        assert not self.held_up, "started while others, perhaps ahead of it, are about to be judged"
        taken = ranks_of(value)
        for rank, (cores, gpus) in taken.items():
            assert rank in self.known_up, f"{job.jobid} is on rank {rank}, which is down"
            children = self.ranks[rank]["children"]
            assert cores <= ids(children["core"]) and gpus <= ids(children.get("gpu", ""))
            for other in self.jobs.values():
                theirs = other.held.get(rank, (set(), set()))
                assert not cores & theirs[0] and not gpus & theirs[1], "allocated to two jobs"
        job.R, job.held, job.started = value, taken, self.clock.now

    def answered(self, msg):
        if msg.topic != "sched.alloc":
            return
        assert not msg.errors
        answer = msg.answers[-1]
        job = self.jobs[answer["id"]]
        assert job.msg is msg
        assert job.waits, f"job {job.jobid} is answered twice"
        for name, value in answer.get("annotations", {}).get("sched", {}).items():
            job.told[name] = value
        if answer["type"] != ANNOTATE:
            job.answer = answer["type"]
        assert (answer["type"] == SUCCESS) == (job.answer == SUCCESS)
        assert answer["type"] != SUCCESS or answer["R"] == job.R, "answered before the KVS has it"
        assert answer["type"] != CANCEL or job.cancelled, "cancelled by itself"

    # -- what happens

    def unloaded(self):
        """The module is gone: what was on its way to it is lost, and what it has not answered."""
        for job, ranks in self.on_their_way.values():
            for rank in ranks:
                del job.held[rank]
        self.on_their_way.clear()
        for job in self.jobs.values():
            if job.waits and job.cancelled:
                job.answer = CANCEL
            job.told = {} if job.waits else job.told

    def ask_again(self):
        """Ask for all jobs that wait, as after the handshake."""
        waiting = [job for job in self.jobs.values() if job.waits]
        for job in sorted(waiting, key=lambda job: (-job.priority, job.jobid)):
            self.ask(job)

    def ending(self, job):
        """The ranks that a job is giving back."""
        return {r for other, ranks in self.on_their_way.values() if other is job for r in ranks}

    def submit(self, job):
        self.jobs[job.jobid] = job
        self.ask(job)

    def ask(self, job):
        job.msg = self.handle.send(
            Message(
                "sched.alloc",
                {
                    "id": job.jobid,
                    "priority": job.priority,
                    "userid": job.userid,
                    "t_submit": job.submitted,
                    "jobspec": job.spec,
                },
            )
        )

    def free(self, job, ranks=None):
        """Tell the module that a job has given back some of its *ranks*, or all it has."""
        ranks = set(job.held) if ranks is None else ranks
        gone = {rank: job.held[rank] for rank in ranks}
        final = len(gone) == len(job.held)
        R = {"version": 1, "execution": {**job.R["execution"], "R_lite": held_entries(gone)}}
        R["execution"]["nodelist"] = [f"n{rank}" for rank in sorted(gone)]
        R["execution"].pop("properties", None)

        def deliver():
            del self.on_their_way[deliver]
            for rank in gone:
                del job.held[rank]
            message = Message("sched.free", {"id": job.jobid, "R": R, "final": final})
            self.handle.handlers["sched.free"].callback(self.handle, 0, message, None)

        self.handle.inbox.append(deliver)
        self.on_their_way[deliver] = job, set(gone)
        return R

    def stop(self, jobs):
        """Cancel *jobs*; once the first is, no other starts."""
        for job in jobs:
            self.cancel(job)
            if job is jobs[0]:
                self.handle.inbox.append(lambda: self.stopped.update(j.jobid for j in jobs))

    def cancel(self, job):
        job.cancelled = True
        self.handle.send(Message("sched.cancel", {"id": job.jobid}))

    def prioritize(self, jobs):
        for jobid, priority in jobs:
            self.jobs[jobid].priority = priority
        self.handle.send(Message("sched.prioritize", {"jobs": jobs}))

    def expire(self, job, when):
        event = {"name": "resource-update", "context": {"expiration": when}}
        self.handle.kvs[job.events] = f'{{"name": "alloc"}}\n{json.dumps(event)}\n'
        job.expiration = when
        msg = Message("sched.expiration", {"id": job.jobid, "expiration": when})
        return self.handle.send(msg)

    def mark(self, up, ranks):
        """Nodes go up or down."""
        self.up = self.up | ranks if up else self.up - ranks

        def deliver():
            # A pass may come between the two: what it may use is known before and after.
            put = partial(self.module.scheduler.inbox.put, lambda: self.know(up, ranks))
            if up:
                put()
            self.stream.answers.append({"up" if up else "down": text(ranks)})
            self.stream.call()
            if not up:
                put()

        self.handle.inbox.append(deliver)


class Module:
    """Runs sched-treepool with *args* until *idle* or *turn* stops the handle."""

    def __init__(self, handle, manager, *args):
        self.handle, self.manager, self.args = handle, manager, args

    def run(self):
        """From its load to its unload."""
        with self.world():
            self.scheduler = sched.TreepoolScheduler(self.handle, *self.args)
            self.scheduler.run()
        assert not self.handle.failed

    @contextmanager
    def world(self):
        """What the module takes for the broker, the KVS and the time."""
        clock, handle, manager = self.handle.clock, self.handle, self.manager
        manager.serve(handle)
        manager.module = self
        with (
            patch.object(BrokerModule, "set_running", lambda self: None),
            patch.object(questions, "_without_payload", lambda msg: msg),
            patch.multiple(time, time=lambda: clock.now, monotonic=clock.monotonic),
            patch.multiple(
                flux.scheduler, KVSTxn=Transaction, kvs_commit_async=commit_async, kvs_get=get_key
            ),
            patch.object(hello, "kvs_values", get_keys),
            patch.object(protocol, "job_raise_async", raise_async),
            patch.multiple(
                windows,
                KVSTxn=Transaction,
                commit=commit_async,
                commit_async=commit_async,
                get_key_direct=get_key,
            ),
        ):
            yield


def _key(jobid):
    """Where the R of a job is in the KVS."""
    room = ffi.new("char[128]")
    assert lib.flux_job_kvs_key(room, 128, jobid, b"R") >= 0
    return ffi.string(room).decode()


# -- parts of R


def entries(R):
    return R["execution"]["R_lite"]


def bits(mask):
    return set(idset.iterate(mask))


def ids(text):
    return bits(idset.decode(text))


def text(numbers):
    return idset.encode_ids(sorted(numbers))


def ranks_of(R):
    """The cores and GPUs on each rank."""
    return {
        rank: (ids(e["children"].get("core", "")), ids(e["children"].get("gpu", "")))
        for e in entries(R)
        for rank in ids(e["rank"])
    }


def held_entries(held):
    """R_lite of what is held on each rank."""
    found = []
    for rank, (cores, gpus) in sorted(held.items()):
        children = {"core": text(cores)} if cores else {}
        found.append(
            {"rank": str(rank), "children": {**children, **({"gpu": text(gpus)} if gpus else {})}}
        )
    return found
