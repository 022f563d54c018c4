"""What ``treepool bind``, ``verify`` and ``where`` read of a job: R, rank, hwloc XML, tasks."""

from __future__ import annotations

import errno
import json
from typing import Any, Mapping, Optional

import attrs

from treepool.flux.hardware import local_xml, resources
from treepool.flux.libflux import Broker, job_id
from treepool.rfc import idset, taskmap
from treepool.rfc.rset import ResourceSet
from treepool.rfc.taskmap import Taskmap

#: Seconds that the broker may take for each answer.
PATIENCE = 60.0

#: The same where a job may be without tasks.
_SOON = 5.0

#: Why Flux does not tell the R of a job.
_NO_R = {
    errno.ENOENT: "there is no such job, or it has no resources yet",
    errno.EPERM: "only its owner and the owner of the instance may read what it got",
}


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
    broker = Broker(environment.get("FLUX_URI"), PATIENCE)
    jobid = job_id(environment["FLUX_JOB_ID"])
    R = _R(broker, jobid)
    rank = int(broker.attribute("rank"))
    return Job(
        R,
        rank,
        _local_tasks(broker, jobid, R, rank, environment),
        local_xml(broker),
        _instance_cores(broker, rank),
    )


def located(job: str, environment: Mapping[str, str]) -> tuple[ResourceSet, Taskmap, int, int]:
    """The R of *job*, or of the instance if that is "", its tasks, and the rank of this broker.

    The last is which ranks of R jobs may have (bitmask): not those that are excluded from the
    instance, or that left it for good. There are no tasks if no shell starts any soon. Raises
    OSError and ValueError as ``read`` does.
    """
    uri = environment.get("FLUX_URI")
    broker = Broker(uri, PATIENCE)
    rank = int(broker.attribute("rank"))
    if not job:
        return resources(broker), (), rank, _members(broker)
    jobid = job_id(job)
    R = _R(broker, jobid)
    try:
        return R, _taskmap(Broker(uri, _SOON), jobid), rank, R.mask
    except OSError as e:
        if e.errno not in (errno.ENOENT, errno.ETIMEDOUT):
            raise
        return R, (), rank, R.mask


def _members(broker: Broker) -> int:
    status = broker.rpc("resource.sched-status", nodeid=0).get()
    return ResourceSet.read(status["all"]).mask


def _R(broker: Broker, jobid: int) -> ResourceSet:
    try:
        asked = {"id": jobid, "keys": ["R"], "flags": 0}
        return ResourceSet.read(broker.rpc("job-info.lookup", asked).get()["R"])
    except OSError as e:
        if e.errno not in _NO_R:
            raise
        raise OSError(e.errno, _NO_R[e.errno]) from None


def _instance_cores(broker: Broker, rank: int) -> Optional[int]:
    if int(broker.attribute("instance-level")) == 0:
        return None
    entries = resources(broker).entries
    return sum(idset.size(entry.cores) for entry in entries if entry.ranks >> rank & 1)


def _local_tasks(
    broker: Broker, jobid: int, R: ResourceSet, rank: int, environment: Mapping[str, str]
) -> int:
    """How many tasks are on this node; the environment tells it only for one-node jobs."""
    size = environment.get("FLUX_JOB_SIZE", "")
    if environment.get("FLUX_JOB_NNODES") == "1" and size.isascii() and size.isdigit():
        return int(size[:9])
    # Shells are numbered in the order of the ranks in R.
    node = idset.size(R.mask & ((1 << rank) - 1))
    return taskmap.tasks_on(_taskmap(broker, jobid), node)


def _taskmap(broker: Broker, jobid: int) -> Taskmap:
    """The job's task map, which its first shell posts after it has started its tasks."""
    asked: dict[str, Any] = {"id": jobid, "path": "guest.exec.eventlog", "flags": 0}
    for answer in broker.watch("job-info.eventlog-watch", asked):
        event = json.loads(answer["event"])
        if event["name"] == "shell.start":
            return taskmap.read(event["context"].get("taskmap"))
    raise ValueError("the job ended before it told which tasks are where")
