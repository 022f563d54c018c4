"""A job as one of its tasks sees it: R, the broker's rank and topology, tasks on this node."""

from __future__ import annotations

import time
from typing import Any, Mapping, Optional, Sequence

import attrs
import flux
from flux.job import JobID, event_watch_async
from flux.job.kvslookup import job_kvs_lookup

from treepool.flux.hardware import TIMEOUT, TOPO_GET, answer_of, resources
from treepool.rfc import idset
from treepool.rfc.rset import ResourceSet


@attrs.frozen
class Job:
    """A running job, on the node of this broker.

    ``rank`` is the broker's rank, and ``tasks`` is how many tasks the job has there. ``xml`` is the
    hwloc XML that the broker holds, None if it has none. If the instance is itself a job,
    ``instance_cores`` is how many cores of the node it has; otherwise None.
    """

    R: ResourceSet
    rank: int
    tasks: int
    xml: Optional[bytes]
    instance_cores: Optional[int]


def read(environment: Mapping[str, str]) -> Job:
    """The job of which *environment* is the environment of a task.

    Raises OSError if Flux does not answer. Raises ValueError if there is no such job or its data
    is invalid (InvalidR for its R). Each message gives the reason in one line.
    """
    handle = flux.Flux(environment.get("FLUX_URI"))
    jobid = JobID(environment["FLUX_JOB_ID"])
    found = job_kvs_lookup(handle, jobid, keys=["R"])
    if found is None:
        raise ValueError("the instance has no such job")
    R = ResourceSet.read(found["R"])
    rank = int(handle.attr_get("rank"))
    answer = answer_of(handle.rpc(TOPO_GET), TIMEOUT)
    return Job(
        R,
        rank,
        _local_tasks(handle, jobid, R, rank, environment),
        answer if isinstance(answer, bytes) else None,
        _instance_cores(handle, rank),
    )


def _instance_cores(handle: Any, rank: int) -> Optional[int]:
    if int(handle.attr_get("instance-level")) == 0:
        return None
    entries = resources(handle).entries
    return sum(idset.size(entry.cores) for entry in entries if entry.ranks >> rank & 1)


def _local_tasks(
    handle: Any, jobid: JobID, R: ResourceSet, rank: int, environment: Mapping[str, str]
) -> int:
    """How many tasks are on this node; the environment tells it only for one-node jobs."""
    size = environment.get("FLUX_JOB_SIZE", "")
    if environment.get("FLUX_JOB_NNODES") == "1" and size.isascii() and size.isdigit():
        return int(size[:9])
    # Shells are numbered in the order of the ranks in R.
    node = idset.size(R.ranks & ((1 << rank) - 1))
    return tasks_on(_taskmap(handle, jobid), node)


def _taskmap(handle: Any, jobid: JobID) -> Sequence[Sequence[int]]:
    """The job's taskmap (RFC 34), which its first shell posts after it has started its tasks."""
    watcher = event_watch_async(handle, jobid, "guest.exec.eventlog")
    end = time.monotonic() + TIMEOUT
    try:
        while True:
            watcher.wait_for(max(0.0, end - time.monotonic()))
            event = watcher.get_event()
            if event is None:
                raise ValueError("the job ended before it told which tasks are where")
            if event.name == "shell.start":
                taskmap = event.context.get("taskmap")
                # RFC 34 allows a bare list of blocks or a versioned object.
                blocks = taskmap.get("map") if isinstance(taskmap, dict) else taskmap
                return blocks or ()
    finally:
        watcher.cancel()


def tasks_on(taskmap: Sequence[Sequence[int]], node: int) -> int:
    """The number of tasks that an RFC 34 *taskmap* has on its node number *node*.

    Each block is (first node, number of nodes, tasks on each node, number of repetitions).
    """
    return sum(
        tasks * repeat for first, count, tasks, repeat in taskmap if first <= node < first + count
    )
