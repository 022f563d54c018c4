"""The module beside a job manager, without a broker: see driven, which plays histories of it."""

import sys
from contextlib import ExitStack
from pathlib import Path

import TreePool  # noqa: F401 (makes treepool importable)

sys.path.append(str(Path(__file__).with_name("driven")))

from chances import BEGIN, R_of  # isort: skip
from commands import Broker as Broker  # isort: skip
from commands import name_of as name_of, typed  # isort: skip
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
    """The module on two nodes of 8 cores, of which those *up* are; *table* is its configuration.

    There are so many *nodes*, below two switches if they have a *fabric*; *more* is the rest of
    Flux's configuration.
    """

    def __init__(self, up=None, nodes=2, fabric=False, more=None, **table):
        self.clock = Clock(None, BEGIN)
        self.more = more or {}
        self.conf = {**self.more, "sched-treepool": table}
        self.handle = Handle(self.clock, conf=self.conf)
        self.manager = JobManager(R_of(nodes, fabric), self.clock)
        self.manager.up = set(range(nodes) if up is None else up)
        #: Why which ranks (idset) are drained.
        self.drained = {}
        self.kvs = self.handle.kvs
        self.load()

    def load(self):
        """Load the module, which may have been loaded before."""
        module = Module(self.handle, self.manager)
        WORLDS.enter_context(module.world())
        scheduler = self.scheduler = module.scheduler = sched.TreepoolScheduler(self.handle)
        scheduler._acquire_resources()  # as run() does, which ends with the module
        scheduler._sched_hello()
        scheduler._sched_ready()
        self.rest()

    def reload(self):
        """Load another module: it takes over what runs, and is asked for what waits."""
        self.handle = Handle(self.clock, kvs=self.kvs, conf=self.conf)
        self.manager.unloaded()
        self.load()
        self.manager.ask_again()
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

    def submit(
        self,
        shape=BOTH,
        jobid=None,
        duration=60,
        options=None,
        user=1,
        system=None,
        priority=16,
        **more,
    ):
        """A new job, which the module has not been told yet."""
        jobid = jobid or len(self.manager.jobs) + 1
        spec = jobspec.from_resources(parse_shape(shape), duration=duration, options=options)
        spec["attributes"]["system"].update(system or {})
        job = Job(jobid, {**spec, **more}, priority, user, self.clock.now)
        self.manager.submit(job)
        return job

    def started(self, *words, **more):
        """A new job that runs."""
        job = self.submit(*words, **more)
        self.rest()
        assert job.R, job.told
        return job

    def waits(self, *words, **more):
        """A new job that waits."""
        job = self.submit(*words, **more)
        self.rest()
        assert job.waits
        return job

    def ended(self, job):
        """*job* is over."""
        self.manager.free(job)
        self.rest()

    def typed(self, *words, userid=None):
        """What ``treepool WORDS...`` says to *userid*, or else to the owner of the instance."""
        return typed(self, *words, userid=userid)

    def send(self, topic, payload):
        return self.handle.send(Message(topic, payload))

    def configure(self, **table):
        """Change the configuration."""
        self.conf = self.handle.conf = {**self.more, "sched-treepool": table}
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
