"""The module beside a job manager, without a broker: see driven, which plays histories of it."""

import sys
from contextlib import ExitStack
from pathlib import Path

import TreePool  # noqa: F401 (makes treepool importable)

sys.path.append(str(Path(__file__).with_name("driven")))

from chances import BEGIN, R_of  # isort: skip
from manager import ANNOTATE, Job, JobManager, Module  # isort: skip
from reactor import Clock, Future, Handle, Message  # isort: skip
from treepool import parse_shape  # isort: skip
from treepool.flux import sched  # isort: skip
from treepool.rfc import jobspec  # isort: skip

#: Ended with the process, which is that of one check.
WORLDS = ExitStack()

#: A job on both nodes.
BOTH = "slot=2/node/core=8"


class Loaded:
    """The module on two nodes of 8 cores, of which those *up* are; *table* is its configuration."""

    def __init__(self, up=(0, 1), **table):
        self.clock = Clock(None, BEGIN)
        self.conf = {"sched-treepool": table}
        self.handle = Handle(self.clock, conf=self.conf)
        self.manager = JobManager(R_of(2, False), self.clock)
        self.manager.up = set(up)
        module = Module(self.handle, self.manager)
        WORLDS.enter_context(module.world())
        scheduler = self.scheduler = module.scheduler = sched.TreepoolScheduler(self.handle)
        scheduler._acquire_resources()  # as run() does, which ends with the module
        scheduler._sched_hello()
        scheduler._sched_ready()
        self.rest()

    @property
    def queue(self):
        return self.scheduler.queue

    def rest(self):
        """Let all be done that can be done now."""
        while self.handle.turn():
            pass

    def wait(self, seconds=None):
        """Let so many seconds pass, or those until the module goes on by itself."""
        self.clock.now = self.handle.next_timer if seconds is None else self.clock.now + seconds
        self.rest()

    def submit(self, shape=BOTH, jobid=None, duration=60, **more):
        """A new job, which the module has not been told yet."""
        jobid = jobid or len(self.manager.jobs) + 1
        spec = jobspec.from_resources(parse_shape(shape), duration=duration)
        job = Job(jobid, {**spec, **more}, 16, 1, self.clock.now)
        self.manager.submit(job)
        return job

    def send(self, topic, payload):
        return self.handle.send(Message(topic, payload))

    def configure(self, **table):
        """Change the configuration."""
        self.conf = {"sched-treepool": table}
        return self.send("sched-treepool.config-reload", self.conf)

    def told(self, job):
        """The annotations that *job* got while it waited, one after another."""
        answers = [answer for answer in job.msg.answers if answer["type"] == ANNOTATE]
        return [answer["annotations"]["sched"] for answer in answers]


def asked_later(handle, topic):
    """Futures of what the module asks, which ``add`` answers."""
    asked = []

    def ask(payload):
        asked.append(Future(handle, ()))
        return asked[-1]

    handle.services[topic] = ask
    return asked
