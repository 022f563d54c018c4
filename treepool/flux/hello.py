"""What jobs held when a scheduler started, and what they gave back before it was ready.

At ``hello`` the job manager tells a scheduler what each job holds; if its end was changed, that is
in the events of the job. From ``ready`` on it tells what is freed. It does not report what is freed
between the two (flux-core 0.88, alloc_send_free_request). With many running jobs that time is long,
because their Rs are read one by one. Once ready, the scheduler therefore asks what is allocated,
and frees everything else that the jobs of ``hello`` hold in the pool.

A job whose R the pool lacks in part, because a node is excluded now, is ended by flux-core with the
exception scheduler-restart. From then on the job manager takes it for a job without resources, and
does not tell when it is over: that is in its events.
"""

from __future__ import annotations

import json
from typing import Any, Callable

from flux.job import JobID, event_watch_async
from flux.kvs import get_key_direct

from treepool.flux.inbox import Inbox
from treepool.placement.allocation import Allocation
from treepool.placement.jobs import held_on, ranks_in
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.rset import ResourceSet, RLiteEntry, merge_entries

#: The RPC that returns what jobs and housekeeping hold.
ALLOCATED = "job-manager.resource-status"


class Hello:
    """The jobs that *pool* took over at hello; *freed* receives a line about missed releases."""

    def __init__(self, freed: Callable[[str], None]) -> None:
        self._freed = freed
        self._held: dict[int, ResourceSet] = {}
        #: Jobs that end because of hello; whether that is in their events yet.
        self._ending: dict[int, bool] = {}

    def add(self, jobid: int, held: ResourceSet) -> None:
        """Record that job *jobid* holds *held* at hello."""
        self._held[jobid] = held

    def end(self, jobid: int) -> None:
        """Record that flux-core ends job *jobid* because of hello."""
        self._ending[jobid] = False

    def ask(self, handle: Any, pool: Pool, inbox: Inbox) -> None:
        """Ask what was freed before ready; call this after ready.

        The answer arrives after every release that precedes it, and before every later release. In
        its turn in *inbox* it therefore matches what the jobs hold in the pool.
        """
        if self._held:
            handle.rpc(ALLOCATED).then(
                lambda future: inbox.put(lambda: self._on_answer(future, pool))
            )
        for jobid in self._ending:
            event_watch_async(handle, jobid).then(self._on_event, jobid, pool, inbox)

    def _on_answer(self, future: Any, pool: Pool) -> None:
        held, self._held = self._held, {}
        try:
            answer = future.get()["allocated"] or {}
            allocated = held_of(answer.get("execution", {}))
        except Exception as e:  # what is not known stays allocated
            self._freed(f"what was freed while this scheduler started is not known: {e}")
            return
        count = sum(_release(pool, jobid, R, allocated) for jobid, R in held.items())
        if count:
            self._freed(f"freed {count} nodes of jobs that ended while this scheduler started")

    def _on_event(self, future: Any, jobid: int, pool: Pool, inbox: Inbox) -> None:
        try:
            event = future.get_event()
        except OSError as e:
            self._freed(f"{JobID(jobid).f58}: when it is over is not known: {e}")
            return
        if event is None:
            return
        if event.name == "exception" and event.context["type"] == "scheduler-restart":
            self._ending[jobid] = True
        if event.name == "clean" and self._ending.pop(jobid):
            inbox.put(lambda: self._on_end(jobid, pool))

    def _on_end(self, jobid: int, pool: Pool) -> None:
        if pool.has_job(jobid):
            pool.free(jobid)
            self._freed(f"freed what {JobID(jobid).f58} held, which was ended at hello")


def end_time(handle: Any, jobid: int, held: ResourceSet) -> float:
    """When job *jobid* ends, which was given *held*, in seconds since the epoch, 0 for never.

    The R in the KVS stays as the scheduler wrote it. Changes are in the events of the job
    (RFC 21, resource-update), and flux-core's hello does not tell of them.
    """
    try:
        events = str(get_key_direct(handle, f"{JobID(jobid).kvs}.eventlog"))
        # Not splitlines, which also splits at characters of texts that users wrote.
        lines = [line for line in events.split("\n") if '"resource-update"' in line]
        updates = [e for e in map(json.loads, lines) if e["name"] == "resource-update"]
        ends = [float(e["context"]["expiration"]) for e in updates if "expiration" in e["context"]]
    except Exception:  # a job must not end because of its events, which users can write
        ends = []
    return ends[-1] if ends else held.expiration


def held_of(execution: Any) -> ResourceSet:
    """The resources in the ``execution`` of an R, without its start time and key."""
    entries = []
    for entry in execution.get("R_lite") or ():
        children = {name: idset.decode(ids) for name, ids in entry["children"].items() if ids}
        cores, gpus = children.get("core", 0), children.get("gpu", 0)
        entries.append(RLiteEntry(idset.decode(entry["rank"]), cores, gpus))
    return ResourceSet(merge_entries(entries), (), expiration=execution.get("expiration") or 0.0)


def _release(pool: Pool, jobid: int, held: ResourceSet, allocated: ResourceSet) -> int:
    """Free what *jobid* has of *held* beyond *allocated*; returns on how many nodes.

    The job may have freed some of that in the ordinary way since then.
    """
    gone = 0
    for entry in held.entries:
        taken = idset.union(
            other.ranks
            for other in allocated.entries
            if other.cores & entry.cores or other.gpus & entry.gpus
        )
        gone |= entry.ranks & ~taken
    job = pool.job(jobid)
    parts = held_on(gone, job.parts) if job else ()
    if parts:
        pool.free(jobid, Allocation(pool.inventory, parts, 1))
    return len(ranks_in(parts))
