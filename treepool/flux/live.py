"""A running instance as commands see it: its pool, jobs and drains; the lines above a page of it.

``sched-treepool`` tells every user which jobs are where. Other schedulers tell only the owner of
the instance, who may also read the jobs' Rs.
"""

from __future__ import annotations

import errno
import time
from contextlib import suppress
from typing import Any, Iterator, Mapping, Optional

import attrs

from treepool.errors import InvalidInput, PoolConflict
from treepool.flux import client, sent, sentpool, standing
from treepool.flux.hardware import resources
from treepool.flux.libflux import Broker
from treepool.flux.pastjobs import PastJobs, past_jobs
from treepool.flux.standing import running_of
from treepool.placement.allocation import Allocation
from treepool.placement.held import HELD_BACK, held_in, held_on
from treepool.placement.nodes.kept import kept_in
from treepool.placement.nodes.parts import on_hosts, ranks_in, short_form
from treepool.placement.nodes.state import Held
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.rset import ResourceSet
from treepool.rfc.windows import WindowEntry
from treepool.view.areas import areas, locality_lines
from treepool.view.jobs import Running
from treepool.view.jobstory import NO_SCHEDULER
from treepool.view.model import drained_in
from treepool.view.picture import Picture
from treepool.view.totals import Drained, Overview
from treepool.view.words import count

#: Most job lookups in flight.
IN_FLIGHT = 64

#: How many of the jobs that wait are told one by one.
_FIRST = 100

#: The nodes, by id what each job holds and when it ends, and the rules of queues.
_Told = tuple[
    Pool, dict[int, tuple[Held, ...]], dict[int, float], Mapping[str, Any], tuple[int, int]
]


@attrs.frozen
class Live:
    """The instance at one moment. ``drained`` is a bitmask of ranks, ``drains`` says why.

    ``jobs`` are those that have resources, and those that wait if these were asked for; what they
    hold may not be known.
    In ``pool``, everything that jobs hold is allocated; job ids below zero stand for jobs that this
    user may not see. ``held_back`` is what the scheduler holds back for jobs whose R
    it cannot read. ``windows`` are those that are not over. ``rules`` has the policy and the depth
    of queues, and as "" those of all others. Only sched-treepool has these three. ``stopped`` says
    why no job starts at all, None if jobs do; ``other`` which other scheduler starts them, if one
    does. ``preemptible`` are the cores and GPUs of jobs that may be ended for others.
    """

    pool: Pool
    jobs: tuple[Running, ...]
    drained: int
    windows: tuple[WindowEntry, ...] = ()
    held_back: tuple[Held, ...] = ()
    drains: tuple[Drained, ...] = ()
    rules: Mapping[str, Any] = attrs.field(factory=dict)
    stopped: Optional[str] = None
    other: str = ""
    preemptible: tuple[int, int] = (0, 0)

    @classmethod
    def now(cls, waiting: bool = False) -> Live:
        """The instance of the environment; raises OSError, or InvalidInput for an invalid R.

        Jobs that wait are asked for only if *waiting*: there may be very many.
        """
        handle = client.connected()
        status = handle.rpc("resource.status", nodeid=0)
        states = ["running", "pending"] if waiting else ["running"]
        listed = standing.list_jobs(states)
        asked = _asked(handle)
        jobs = sorted(listed.get()["jobs"], key=lambda job: int(job["id"]))
        rules: Mapping[str, Any] = {}
        other, preemptible = "", (0, 0)
        if asked is None:
            R, scheduled = _resources(handle)
            stopped = None if scheduled else NO_SCHEDULER
            other = client.other_scheduler() if scheduled else ""
            pool = Pool(R)
            held = _held(handle, [job["id"] for job in jobs if "t_run" in job])
            ends = {int(job["id"]): float(job.get("expiration", 0)) for job in jobs}
        else:
            pool, held, ends, rules, preemptible = asked
            stopped = client.given_up(handle)
        unknown = {jobid for jobid in held if jobid < 0 or jobid == HELD_BACK}
        for jobid in held.keys() - unknown:
            here = Allocation(pool.inventory, held_on(pool.ranks, held[jobid]), 1)
            here.set_expiration(ends.get(jobid, 0.0))
            try:
                pool.register_alloc(jobid, here)
            except PoolConflict:  # it ended, and another job already has its resources
                continue
        for jobid in unknown:
            pool.occupy(jobid, held[jobid])
        told = status.get()
        reasons = standing.drain_reasons(told)
        drained = idset.union(map(idset.decode, reasons)) & pool.ranks
        away = idset.decode(told.get("offline") or "") | idset.decode(told.get("exclude") or "")
        pool.mark_down(idset.encode((away & pool.ranks) | drained))
        entries = () if asked is None else client.windows_now(handle)
        windows = tuple(known.entry for known in entries)
        jobs_now = tuple(running_of(job, held.get(int(job["id"]), ())) for job in jobs)
        kept = held.get(HELD_BACK, ())
        drains = drained_in(reasons, pool)
        more = stopped, other, preemptible
        return cls(pool, jobs_now, drained, windows, kept, drains, rules, *more)

    @property
    def picture(self) -> Picture:
        """The picture of the pool and the jobs that hold some of it."""
        holding = [running.job for running in self.jobs if running.job.parts]
        return Picture.of(self.pool, holding, drained=self.drained)

    @property
    def overview(self) -> Overview:
        """What is told first."""
        inventory, picture = self.pool.inventory, self.picture
        whole = areas(picture)
        buckets = self.pool.situation.index.buckets.items()
        held = self.held_back
        return Overview(
            picture.totals,
            sum(kept_in(state, self.pool.gpu_cores) * idset.size(at) for state, at in buckets),
            self.preemptible,
            None if whole is None else tuple(locality_lines(whole)),
            (short_form(held), inventory.hostlist(ranks_in(held)), on_hosts(held, inventory)),
            self.windows,
            self.drains,
            self.stopped,
            self.other,
        )


def history() -> tuple[Pool, PastJobs]:
    """The nodes, and what the past jobs asked for; raises OSError, or InvalidInput for a bad R."""
    handle = client.connected()
    asked = _asked(handle)
    return Pool(_resources(handle)[0]) if asked is None else asked[0], past_jobs(handle)


def about() -> list[str]:
    """Which instance this is, and when; how many jobs wait."""
    handle = client.connected()
    jobid = _attribute(handle, "jobid")
    here = f" in job {jobid} of the one around it" if jobid else ""
    host, owner = _attribute(handle, "hostname"), _attribute(handle, "security.owner")
    user = client.user_name(int(owner)) if owner.isdigit() else "?"
    when = time.strftime("%Y-%m-%d %H:%M:%S %Z")
    lines = [f"Flux instance{here} of {user} at {host}, {when}"]
    try:
        queues = client.ask(handle, "numbers").get("queues", {})
    except OSError:  # another scheduler
        queues = {}
    for name, queue in queues.items():
        where = f"queue {name}: " if name else ""
        jobs, reserved = count(queue["waiting"], "waiting job"), queue["reserved"]
        lines.append(f"{where}{jobs}, {reserved:,} with a reservation")
    return lines


def waiting() -> list[Running]:
    """The first of the jobs that wait, in the order of the queue."""
    listed = standing.list_jobs(["pending"], _FIRST)
    return [running_of(job, ()) for job in listed.get()["jobs"]]


def _attribute(handle: Broker, name: str) -> str:
    """A broker attribute, "" if it has none of that name."""
    try:
        return handle.attribute(name)
    except OSError:
        return ""


def _asked(handle: Broker) -> Optional[_Told]:
    """What sched-treepool tells of the instance; None if it does not run, or is too old."""
    held: dict[int, tuple[Held, ...]] = {}
    ends: dict[int, float] = {}
    rules: Mapping[str, Any] = {}
    pool, preemptible = None, (0, 0)
    try:
        for answer in client.answers(handle, "look"):
            if pool is None:
                pool = sentpool.pool_of(answer)
                held[HELD_BACK] = sent.parts_of(answer.get("held_back", ()))
                rules = sentpool.rules_of(answer)
                told = answer.get("preemptible", {})
                preemptible = int(told.get("cores", 0)), int(told.get("gpus", 0))
            for job in answer.get("jobs", ()):
                jobid = -1 - len(held) if job["id"] is None else int(job["id"])
                held[jobid] = sent.parts_of(job["parts"])
                ends[jobid] = float(job["expiration"])
    except OSError as e:
        if e.errno == errno.ENOSYS:
            return None
        raise
    return None if pool is None else (pool, held, ends, rules, preemptible)


def _resources(handle: Broker) -> tuple[ResourceSet, bool]:
    """The resources, and whether there is a scheduler; another one tells only the owner."""
    try:
        return ResourceSet.read(handle.rpc("sched.resource-status", nodeid=0).get()["all"]), True
    except KeyError:
        return resources(handle), True
    except OSError as e:
        if e.errno == errno.EPERM:
            why, hint = client.unasked(handle)
            text = f"{why}, and only its owner may read it otherwise ({hint})"
            raise OSError(errno.EPERM, text) from None
        if e.errno == errno.ENOSYS:
            return resources(handle), False
        raise


def _held(handle: Broker, ids: list[int]) -> dict[int, tuple[Held, ...]]:
    """What each of these jobs holds, where its R is readable and valid."""
    found: dict[int, tuple[Held, ...]] = {}
    for jobid, R in looked_up(handle, ids, "R"):
        # The key of a job's R is not needed here, and may be large.
        R = {name: value for name, value in R.items() if name != "scheduling"}
        with suppress(InvalidInput):
            found[jobid] = held_in(ResourceSet.read(R).entries)
    return found


def looked_up(handle: Broker, ids: list[int], key: str) -> Iterator[tuple[int, Any]]:
    """The id and the current value of *key* of each of these jobs, where this user may read it."""
    for start in range(0, len(ids), IN_FLIGHT):
        some = ids[start : start + IN_FLIGHT]
        asked = [(jobid, client.look_up(handle, jobid, key)) for jobid in some]
        for jobid, future in asked:
            with suppress(OSError, KeyError):
                yield jobid, future.get()[key]
