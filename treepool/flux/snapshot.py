"""Takes a snapshot of the running instance: what goes in, and which names become numbers.

Of a jobspec only what scheduling needs goes in. The rest may be private: commands, environment,
paths, labels.
"""

from __future__ import annotations

import time
from itertools import chain
from typing import Any, Mapping, Optional

from treepool import __version__
from treepool.errors import InvalidInput
from treepool.flux import client
from treepool.flux.client import user_name
from treepool.flux.libflux import Broker, job_name, job_state
from treepool.flux.live import Live, looked_up
from treepool.flux.windownames import members, user_id
from treepool.placement.allocation import together
from treepool.placement.held import HELD_BACK
from treepool.placement.plan.jobs import CENTURY
from treepool.placement.request import job_options
from treepool.rfc import jobspec
from treepool.rfc.findings import Findings
from treepool.rfc.queues import Queues
from treepool.rfc.shape import format_shape, unlabelled
from treepool.rfc.windows import WindowEntry
from treepool.view.snapshot import Pending, Running, Snapshot
from treepool.view.trace import MAX_DURATION, MAX_ID, MIN_DURATION, TraceJob

_ATTRIBUTES = ("userid", "name", "state", "t_submit", "queue", "priority")


def now(names: bool) -> Snapshot:
    """The environment's instance now, with *names* of users and jobs if wanted.

    Waiting jobs are listed first: one that starts meanwhile has its resources then, and one that is
    submitted meanwhile is missing. Raises OSError, or InvalidInput for an invalid R.
    """
    handle = client.connected()
    listed = client.list_jobs(handle, _ATTRIBUTES, ["pending"]).get()["jobs"]
    waiting = {int(job["id"]): job for job in listed if _waits(job)}
    specs = dict(looked_up(handle, list(waiting), "jobspec"))
    live, taken = Live.now(), time.time()
    pool = live.pool
    held = {jobid: job for jobid, _ in pool.job_end_times() if (job := pool.job(jobid)) is not None}
    unknown = {jobid for jobid in held if jobid < 0 or jobid == HELD_BACK}
    titles = {
        jobid: (user_name(job["userid"]), str(job.get("name", "")))
        for jobid, job in waiting.items()
    }
    titles.update({running.id: (running.user, running.title) for running in live.jobs})
    said = _Names(names, sorted((held.keys() | waiting.keys()) - unknown), titles)
    pending = [
        _pending(said, job, specs[jobid])
        for jobid, job in sorted(waiting.items())
        if jobid not in held and jobid in specs
    ]
    readable = tuple(job for job in pending if job is not None)
    return Snapshot(
        time=taken,
        resource_set=pool.inventory.resource_set,
        options=pool.options,
        down=pool.ranks & ~pool.up,
        drained=live.drained,
        queues=_queues(handle, live.rules),
        windows=tuple(said.window(i, e) for i, e in enumerate(live.windows, 1) if e.hosts),
        running=tuple(
            Running(said.job(jobid), said.user(jobid), job.parts, job.end_time, said.title(jobid))
            for jobid, job in sorted(held.items())
            if jobid not in unknown and job.parts
        ),
        other=together(chain.from_iterable(held[jobid].parts for jobid in unknown)),
        pending=readable,
        unreadable=len(waiting.keys() - held.keys()) - len(readable),
        treepool=__version__,
    )


def _waits(job: Mapping[str, Any]) -> bool:
    """Whether *job* waits for resources: not for another job or the time, and not held (0)."""
    return bool(job_state(job["state"]) == "SCHED" and job.get("priority", 0) > 0)


class _Names:
    """What jobs, users and windows are called: as they are, or by numbers.

    *titles* has the user and the name of each job, by id; *jobids* are in order.
    """

    def __init__(
        self, real: bool, jobids: list[int], titles: Mapping[int, tuple[str, str]]
    ) -> None:
        self._real = real
        self._titles = titles
        self._jobs = {jobid: f"job{number}" for number, jobid in enumerate(jobids, 1)}
        self._users: dict[str, str] = {}
        for jobid in jobids:
            self.user(jobid)

    def job(self, jobid: int) -> str:
        return job_name(jobid, "f58plain") if self._real else self._jobs[jobid]

    def title(self, jobid: int) -> str:
        return self._titles.get(jobid, ("", ""))[1][:MAX_ID] if self._real else ""

    def user(self, jobid: int) -> str:
        name = self._titles.get(jobid, ("", ""))[0]
        return self._user(name) if name else ""

    def _user(self, name: str) -> str:
        return name if self._real else self._users.setdefault(name, f"user{len(self._users) + 1}")

    def window(self, number: int, entry: WindowEntry) -> WindowEntry:
        ids = {user: user_id(user) for user in entry.users}
        users = [str(user) if uid is None else user_name(uid) for user, uid in ids.items()]
        users += [user_name(uid) for group in entry.groups for uid in members(group)]
        return WindowEntry(
            entry.name if self._real or entry.spare else f"window{number}",
            *(entry.hosts, entry.start, entry.end),
            tuple(dict.fromkeys(map(self._user, users))),
            entry.queues,
            every=entry.every,
        )


def _pending(said: _Names, job: Mapping[str, Any], spec: Any) -> Optional[Pending]:
    """The waiting *job* that asks for jobspec *spec*; None if no pool of treepool can read that."""
    findings, jobid = Findings(), int(job["id"])
    try:
        read = jobspec.read(spec)
        shape = format_shape(unlabelled(spec["resources"]))
    except InvalidInput:
        return None
    options = job_options.read_into(findings, dict(read.options), "")
    if len(findings):
        return None
    constraint = None if read.constraint is None else spec["attributes"]["system"]["constraints"]
    limit = min(max(read.duration, MIN_DURATION), MAX_DURATION) if read.duration else CENTURY
    submitted = float(job["t_submit"])
    traced = TraceJob(
        "",
        said.job(jobid),
        submitted,
        limit,
        limit,
        shape,
        constraint,
        options=options,
        queue=str(job.get("queue", "")),
        priority=int(job.get("priority", 0)),
    )
    return Pending(traced, said.user(jobid), said.title(jobid))


def _queues(handle: Broker, rules: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What holds in each Flux queue, and as "" in those with no rule of their own."""
    queues = Queues.of(handle.configured)
    found: dict[str, dict[str, Any]] = {"": {}, **{name: {} for name in queues.tables}}
    for name in queues.tables or [""]:
        if name in queues.parents:
            found[name]["parent"] = queues.parents[name]
        if client.queue_closed(handle, name).stopped is not None:
            found[name]["stopped"] = True
    for name, rule in rules.items():
        found.setdefault(name, {}).update(rule)
    return found
