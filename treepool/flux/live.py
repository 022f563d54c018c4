"""A running Flux instance as a pool and its jobs, for clients that only look at it."""

from __future__ import annotations

import errno
from typing import Any, Iterator, Mapping, Optional

import attrs
import flux
from flux.job import JobID, JobList
from flux.job.kvslookup import job_info_lookup

from treepool.errors import InvalidInput, PoolConflict
from treepool.flux import windowclient
from treepool.flux.hardware import Instance
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.rset import ResourceSet
from treepool.rfc.windows import WindowEntry

#: Most job lookups in flight.
IN_FLIGHT = 64


@attrs.frozen
class LiveJob:
    """A job that waits or has resources: its owner, its state in Flux's words, what it holds.

    ``held`` is its R. It is None while the job waits, or if it belongs to another user and its R
    is not readable. ``annotations`` are the scheduler's. Times are in seconds since the epoch, 0
    if not yet set.
    """

    id: int
    name: str
    user: str
    title: str
    state: str
    submitted: float
    started: float
    held: Optional[ResourceSet]
    annotations: Mapping[str, Any]


@attrs.frozen
class Live:
    """The instance at one moment. ``down`` and ``drained`` are bitmasks of ranks.

    ``windows`` are those that are open or to come, none without sched-treepool.

    In ``pool`` every job whose R is known is allocated.
    """

    pool: Pool
    jobs: tuple[LiveJob, ...]
    down: int
    drained: int
    windows: tuple[WindowEntry, ...] = ()

    @classmethod
    def now(cls) -> Live:
        """The instance of the environment; raises OSError, or InvalidInput for an invalid R."""
        handle = flux.Flux()
        R = _resources(handle)
        pool = Pool(R)
        status = handle.rpc("resource.status", nodeid=0).get()
        drained = _union(status.get("drain", {}))
        offline = idset.decode(status.get("offline", "") or "")
        offline |= idset.decode(status.get("exclude", "") or "")
        jobs = tuple(_jobs(handle))
        for job in jobs:
            if job.held is not None:
                try:
                    pool.register_alloc(job.id, job.held)
                except PoolConflict:  # it ended, and another job already has its resources
                    continue
        pool.mark_down(idset.encode((offline | drained) & R.ranks))
        return cls(pool, jobs, offline & R.ranks, drained & R.ranks, _windows())


def _windows() -> tuple[WindowEntry, ...]:
    try:
        return tuple(known.entry for known in windowclient.now())
    except OSError:  # another scheduler
        return ()


def job_id(text: str) -> int:
    """The number of a job id in any of Flux's forms; raises ValueError for other text."""
    return int(JobID(text))


def jobspec_of(jobid: int) -> dict[str, Any]:
    """The jobspec of a job, as it was submitted; raises OSError if it is not readable."""
    answer = job_info_lookup(flux.Flux(), jobid, keys=["jobspec"]).get_decode()
    jobspec = answer.get("jobspec")
    if not isinstance(jobspec, dict):
        raise OSError(errno.ENOENT, "it has no jobspec")
    return jobspec


def _resources(handle: Any) -> ResourceSet:
    """The scheduler's resources with the topology it found; otherwise the R of the instance."""
    try:
        return ResourceSet.read(handle.rpc("sched.resource-status", nodeid=0).get()["all"])
    except (OSError, KeyError) as e:
        if isinstance(e, OSError) and e.errno not in (errno.ENOSYS, errno.EPERM):
            raise
        return Instance(handle).R


def _jobs(handle: Any) -> Iterator[LiveJob]:
    """Every job that is pending or running, in the order of submission."""
    listed = list(JobList(handle, filters=["running", "pending"], max_entries=0).jobs())
    listed.sort(key=lambda job: int(job.id))
    held = _held(handle, [int(job.id) for job in listed if job.state in ("RUN", "CLEANUP")])
    for job in listed:
        annotations = getattr(job.annotations, "annotationsDict", None) or {}
        yield LiveJob(
            id=int(job.id),
            name=job.id.f58,
            user=str(job.username),
            title=str(job.name),
            state=str(job.state),
            submitted=float(job.t_submit or 0),
            started=float(job.t_run or 0),
            held=held.get(int(job.id)),
            annotations=annotations.get("sched", {}) if isinstance(annotations, dict) else {},
        )


def _held(handle: Any, ids: list[int]) -> dict[int, ResourceSet]:
    """The R of each of these jobs, where there is one that is readable and valid."""
    found: dict[int, ResourceSet] = {}
    for start in range(0, len(ids), IN_FLIGHT):
        asked = [
            (i, job_info_lookup(handle, i, keys=["R"])) for i in ids[start : start + IN_FLIGHT]
        ]
        for jobid, future in asked:
            try:
                R = future.get_decode()["R"]
                # The key of a job's R is not needed here, and may be large.
                R = {name: value for name, value in R.items() if name != "scheduling"}
                found[jobid] = ResourceSet.read(R)
            except (OSError, KeyError, InvalidInput):
                continue
    return found


def _union(sets: Mapping[str, object]) -> int:
    ranks = 0
    for text in sets:
        ranks |= idset.decode(text)
    return ranks
