"""Commands of ``treepool`` beside the module: what they ask of Flux, the books answer."""

import errno
import io
import json
import os
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import patch

from flux.job import JobID
from manager import CANCEL, DENY, SUCCESS
from reactor import OWNER, USER, Message

from commandline import Result
from treepool.cli.main import main
from treepool.flux import client
from treepool.rfc.queues import inner

#: States and results of jobs, RFC 21 and flux-core's job.h.
SCHED, RUN, INACTIVE = 8, 16, 64
COMPLETED, FAILED, CANCELED = 1, 2, 4


class Answer:
    """The future of an answer; an error is raised by ``get``."""

    def __init__(self, value):
        self.value = value

    def get(self):
        if isinstance(self.value, OSError):
            raise self.value
        return json.loads(json.dumps(self.value))

    def get_str(self):
        return json.dumps(self.get())


class Broker:
    """What a command of *userid* takes for its connection; without one it is the owner's."""

    def __init__(self, here, userid=None):
        self.here, self.manager = here, here.manager
        self.is_guest = userid is not None
        self.userid = userid if self.is_guest else os.getuid()

    def attribute(self, name):
        return {"hostname": "here", "security.owner": str(os.getuid())}.get(name, "")

    def configured(self, key, default):
        *tables, last = key.split(".")
        return inner(self.here.conf, *tables).get(last, default)

    def rpc(self, topic, payload=None, nodeid=0, flags=0):
        try:
            if topic in SERVICES:
                return Answer(SERVICES[topic](self, payload or {}))
            return Answer(self.module(topic, payload, False)[-1])
        except OSError as e:
            return Answer(e)

    def watch(self, topic, payload, nodeid=0):
        return self.module(topic, payload, True)

    def module(self, topic, payload, streams):
        """The answers of the module."""
        handle = self.here.handle
        if topic not in handle.handlers:
            raise OSError(errno.ENOSYS, f"no service {topic}")
        msg = handle.send(
            Message(topic, payload, self.userid, (OWNER, USER)[self.is_guest], streams)
        )
        while not msg.responses:
            if not handle.turn():
                handle.hurry()
        if msg.errors and msg.errors[-1][0] != errno.ENODATA:
            raise OSError(*msg.errors[-1])
        return msg.answers

    # -- what other services of Flux answer

    def sees(self, job):
        private = self.configured("access.private-mode", False)
        return not (private and self.is_guest) or job.userid == self.userid

    def described(self, job):
        """*job* as the list of jobs has it."""
        system = inner(job.spec, "attributes", "system")
        found = {
            "id": job.jobid,
            "userid": job.userid,
            "name": "true",
            "urgency": 16,
            "priority": job.priority,
            "queue": system.get("queue"),
            "t_submit": job.submitted,
            "state": SCHED if job.waits and not job.cancelled else RUN if job.held else INACTIVE,
            "annotations": {"sched": {k: it for k, it in job.told.items() if it is not None}},
        }
        if job.answer == SUCCESS:
            end = job.expiration or job.R["execution"]["expiration"]
            found.update(t_run=job.started, expiration=end)
        if found["state"] == INACTIVE:
            found.update(t_cleanup=self.here.clock.now)
            found["result"] = {SUCCESS: COMPLETED, DENY: FAILED, CANCEL: CANCELED}[job.answer]
        if job.answer == DENY:
            found.update(exception_type="alloc", exception_note=job.msg.answers[-1]["note"])
        return {name: it for name, it in found.items() if it is not None}

    def list_id(self, payload):
        job = self.manager.jobs.get(payload["id"])
        if job is None or not self.sees(job):
            raise OSError(errno.ENOENT, "no such job")
        return {"job": self.described(job)}

    def list_jobs(self, payload):
        (states,) = (one["states"] for one in payload["constraint"]["and"] if "states" in one)
        wanted = [
            number for name, number in (("pending", SCHED), ("running", RUN)) if name in states
        ]
        listed = [self.described(job) for job in self.manager.jobs.values() if self.sees(job)]
        return {"jobs": [job for job in listed if job["state"] in wanted]}

    def look_up(self, payload):
        job = self.manager.jobs[payload["id"]]
        if self.is_guest and job.userid != self.userid:
            raise OSError(errno.EPERM, "access denied")
        return {"jobspec": job.spec, "R": job.R}

    def queue_status(self, payload):
        name = payload.get("name")
        if name and name not in self.here.conf.get("queues", {}):
            raise OSError(errno.EINVAL, "no such queue")
        return {"enable": True, "start": True}

    def resource_status(self, payload):
        return {"drain": self.here.drained, "offline": "", "exclude": ""}


SERVICES = {
    "job-list.list-id": Broker.list_id,
    "job-list.list": Broker.list_jobs,
    "job-info.lookup": Broker.look_up,
    "job-manager.queue-status": Broker.queue_status,
    "resource.status": Broker.resource_status,
    "module.list": lambda _, __: {"mods": [{"name": "sched-treepool", "services": ["sched"]}]},
}


def typed(here, *words, userid=None):
    """``treepool WORDS...``, typed by *userid*, or else by the owner of the instance."""
    broker = Broker(here, userid)
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with (
        patch.object(client, "connected", lambda: broker),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        status = main([str(word) for word in words])
    out.flush()
    return Result(status, *(stream.buffer.getvalue().decode() for stream in (out, err)))


def name_of(job):
    """The id of *job* as Flux prints it."""
    return str(JobID(job.jobid).f58)
