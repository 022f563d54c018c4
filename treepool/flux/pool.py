"""The pool class that Flux's schedulers load: ``flux.resource.ResourcePool`` over treepool.Pool.

All logic is in treepool.Pool. This module gives its calls, results and errors the form that
flux-core's ``flux.scheduler`` expects (see doc/python/scheduler.rst there). Schedulers make pools
from two kinds of R: one from the instance's R, which is scheduled, and many from jobs' Rs, which
are only passed from call to call. The tree is therefore built when the first call needs it.
"""

from __future__ import annotations

import json
import syslog
from typing import Any, Callable, Mapping, Optional, Union

import attrs
from flux.job import JobID
from flux.resource.ResourcePoolImplementation import (
    InfeasibleRequest,
    InsufficientResources,
    ResourcePoolImplementation,
)
from flux.resource.Rv1Set import Rv1Set

from treepool import errors
from treepool.flux import usertexts
from treepool.flux.hello import held_of
from treepool.flux.versions import AnyPool, tell_whose
from treepool.flux.view import SetView
from treepool.placement.allocation import Allocation
from treepool.placement.held import held_in, held_on
from treepool.placement.nodes.parts import short_form
from treepool.placement.options import OPTIONS
from treepool.placement.pool import Pool
from treepool.placement.request.vertices import Request
from treepool.rfc import idset, keycheck
from treepool.rfc.rset import ResourceSet

#: A logger as Flux hands it to pools: syslog priority and message.
Log = Callable[[int, str], None]


@attrs.frozen(eq=False)
class JobRequest:
    """A job's request as Flux's schedulers carry it from submission to alloc.

    ``duration`` is in seconds, 0 for unlimited; ``jobspec`` is the job's own.
    """

    request: Request
    jobspec: Mapping[str, Any]

    @property
    def duration(self) -> float:
        """How long the job may run, in seconds, 0 for unlimited."""
        return self.request.duration


class AllocatedR(SetView):
    """What a job got, for ``AllocRequest.success`` and for other pools."""

    def __init__(self, allocation: Allocation) -> None:
        self.allocation = allocation

    def to_dict(self) -> dict[str, Any]:
        """The job's R (RFC 20), its key cut to the allocated ranks."""
        return self.allocation.to_dict()

    def dumps(self) -> str:
        """The resources in Flux's short form."""
        return self.allocation.dumps()

    def get_starttime(self) -> float:
        """When the job starts, in seconds since the epoch, 0 for unset."""
        return self.allocation.starttime

    def set_starttime(self, starttime: float) -> None:
        """Set when the job starts."""
        self.allocation.set_starttime(starttime)

    def get_expiration(self) -> float:
        """When the job must end, in seconds since the epoch, 0 for never."""
        return self.allocation.expiration

    def set_expiration(self, expiration: float) -> None:
        """Set when the job must end."""
        self.allocation.set_expiration(expiration)


class PoolV1(SetView, ResourcePoolImplementation):  # type: ignore[misc]  # flux has no types
    """The implementation behind TreepoolPool for R version 1; methods are as in flux-core."""

    version = 1
    name = "treepool"
    known_options = frozenset(OPTIONS)

    def __init__(
        self, R: Union[Mapping[str, Any], str], log: Optional[Log] = None, **options: str
    ) -> None:
        """*R* as a dict or JSON text; raises nothing yet, see ``pool``."""
        if log is not None:
            usertexts.allow()  # errors of requests are logged by the scheduler whose pool this is
            self.log = log
        self._R: Mapping[str, Any] = json.loads(R) if isinstance(R, str) else R
        # The scheduler warns once about unknown options (Scheduler._acquire_resources).
        self._options = {name: options[name] for name in OPTIONS if name in options}
        self._pool: Optional[Pool] = None
        #: Jobs that hold more than the pool could record, and are about to end.
        self._partly: set[int] = set()

    @property
    def pool(self) -> Pool:
        """The treepool.Pool; raises InvalidR, InvalidKey or InvalidOption if it cannot be made."""
        if self._pool is None:
            try:
                self._pool = Pool(self._R, **self._options)
            except ValueError as e:  # Flux's schedulers do not log it
                self.log(syslog.LOG_ERR, f"cannot use this instance's R: {e}")
                raise
            for line in keycheck.warnings(self._pool.inventory.resource_set):
                self.log(syslog.LOG_WARNING, f"R: {line}")
            tell_whose(self)
        return self._pool

    @property
    def generation(self) -> int:
        """A number that grows with every change of the pool."""
        return self.pool.generation

    # -- requests and jobs

    def parse_resource_request(self, jobspec: Mapping[str, Any]) -> JobRequest:
        """The request of a jobspec; raises ValueError, which names the invalid vertex."""
        return JobRequest(self.pool.parse_resource_request(jobspec), jobspec)

    def check_feasibility(self, request: JobRequest) -> None:
        """Raise flux.resource.InfeasibleRequest if the pool could not serve *request* idle."""
        try:
            self.pool.check_feasibility(request.request)
        except errors.InfeasibleRequest as e:
            raise InfeasibleRequest(str(e)) from None

    def alloc(self, jobid: int, request: JobRequest) -> AllocatedR:
        """Allocate resources; raises Flux's InsufficientResources or InfeasibleRequest."""
        try:
            allocation = self.pool.alloc(jobid, request.request)
        except errors.InsufficientResources as e:
            raise InsufficientResources(str(e)) from None
        except errors.InfeasibleRequest as e:
            raise InfeasibleRequest(str(e)) from None
        return AllocatedR(allocation)

    def register_alloc(self, jobid: int, R: Any) -> None:
        """Record what a job holds already; raises ValueError if the pool cannot give it that.

        Flux then ends the job, for example because a node of it is excluded now. Until it is over,
        no other job may have what it holds on the rest of its nodes: that is recorded all the same.
        """
        has = held(R)
        try:
            self.pool.register_alloc(jobid, has)
        except errors.PoolConflict:
            if not self.pool.has_job(jobid):
                self._record_partly(jobid, has)
            raise
        holds = short_form(held_in(has.entries))
        self.log(syslog.LOG_DEBUG, f"hello: {JobID(jobid).f58}: {holds}")

    def free(self, jobid: int, R: Any = None, final: bool = False) -> None:
        """Give back what a job holds, or what it holds on the ranks of *R*.

        A job that holds nothing is ignored, because Flux also frees jobs that ``hello`` could not
        register. With *final* everything is freed, even if *R* has less: the job manager does not
        report what housekeeping releases while a scheduler starts, between hello and ready. Raises
        ValueError if *R* is not what the job holds.
        """
        if not self.pool.has_job(jobid):
            self.log(syslog.LOG_WARNING, f"free: {JobID(jobid).f58} holds nothing here")
            return
        if R is not None:
            self.pool.free(jobid, self._held_on(jobid, held(R)))
            if not final or not self.pool.has_job(jobid):
                return
            self.log(syslog.LOG_WARNING, f"free: {JobID(jobid).f58} held more, which is free too")
        self.pool.free(jobid)

    def _record_partly(self, jobid: int, has: ResourceSet) -> None:
        """Record what of *has* is in the pool and free, if anything."""
        self.pool.occupy(jobid, held_in(has.entries), has.expiration)
        job = self.pool.job(jobid)
        if job is None or not job.parts:
            self.pool.free(jobid)
        else:
            self._partly.add(jobid)

    def _held_on(self, jobid: int, R: ResourceSet) -> Union[ResourceSet, Allocation]:
        """*R*, or of a job that is recorded in part, what it holds on the ranks of *R*."""
        job = self.pool.job(jobid)
        if job is None or jobid not in self._partly:
            return R
        ranks = idset.union(entry.ranks for entry in R.entries)
        return Allocation(self.pool.inventory, held_on(ranks, job.parts), 1)

    def update_expiration(self, jobid: int, expiration: float) -> None:
        """Set when a job ends; a job that holds nothing is ignored."""
        if self.pool.has_job(jobid):
            self.pool.update_expiration(jobid, expiration)

    def job_end_times(self) -> list[tuple[int, float]]:
        """(job id, end time in seconds since the epoch or 0 for never) of every live job."""
        return self.pool.job_end_times()

    # -- nodes

    def mark_up(self, ids: str) -> None:
        """Make the ranks of an idset, or "all", available."""
        self.pool.mark_up(ids)

    def mark_down(self, ids: str) -> None:
        """Make the ranks of an idset, or "all", unavailable for new jobs."""
        self.pool.mark_down(ids)

    def remove_ranks(self, ranks: Any) -> None:
        """Remove *ranks*, an IDset or its text, for good from the instance or from a job's R."""
        if self._pool is not None:
            self._pool.remove_ranks(str(ranks))
            return
        rest = Rv1Set(self._R, keep_scheduling=True)
        rest.remove_ranks(ranks)
        self._R = rest.to_dict()

    # -- the pool as a whole

    def copy(self) -> PoolV1:
        """An independent copy, allocations included; it does not log."""
        new = PoolV1(self._R, None, **self._options)
        new._pool = None if self._pool is None else self._pool.copy()
        new._partly = set(self._partly)
        return new

    def copy_allocated(self) -> Rv1Set:
        """What is allocated."""
        return Rv1Set(self.pool.copy_allocated().to_dict())

    def copy_down(self) -> Rv1Set:
        """The nodes that are down."""
        return Rv1Set(self.pool.copy_down().to_dict())

    def to_dict(self) -> dict[str, Any]:
        """The R of the whole pool."""
        return dict(self._R) if self._pool is None else self._pool.to_dict()

    def dumps(self) -> str:
        """The resources in Flux's short form."""
        return str(self.to_set().dumps()) if self._pool is None else self._pool.dumps()

    def get_starttime(self) -> float:
        """When the resources become valid, in seconds since the epoch, 0 for unset."""
        return self.pool.starttime

    def set_starttime(self, starttime: float) -> None:
        """Set ``starttime``."""
        self.pool.set_starttime(starttime)

    def get_expiration(self) -> float:
        """When the resources stop being valid, in seconds since the epoch, 0 for never."""
        return self.pool.expiration

    def set_expiration(self, expiration: float) -> None:
        """Set ``expiration``."""
        self.pool.set_expiration(expiration)


class TreepoolPool(AnyPool):
    """A Flux resource pool with the topology of its nodes.

    Flux creates it for ``pool-class=treepool``, and for an R whose ``scheduling.writer`` is
    TreePool (through the top-level module TreePool).
    """

    def __init__(self, R: Any, log: Optional[Log] = None, **options: str) -> None:
        if not isinstance(R, ResourcePoolImplementation):
            R = PoolV1(R, log=log, **options)
        super().__init__(R)


#: The name that Flux looks up in a module given by ``pool-class=`` or by an R's writer.
pool_class = TreepoolPool


def held(R: Any) -> ResourceSet:
    """What a job holds according to its R, from any pool; the key of R is not read.

    If another pool placed the job, the key may describe other ranks.
    """
    if isinstance(R, ResourceSet):
        return R
    return held_of(R.to_dict()["execution"])
