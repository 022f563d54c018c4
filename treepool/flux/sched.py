"""The scheduler module ``sched-treepool``: priority order, reservations, backfill.

flux-core's ``flux.scheduler.Scheduler`` speaks the protocol (RFC 27) and holds the queue; here is
the order in which jobs start. A pass over the queue is a generator that Flux closes at a ``yield``
whenever something happens, so at each ``yield`` everything is in order: a job that was started is
no longer in the queue. The plan and the place in the queue outlive the pass, and the next one goes
on from there, unless the pool or the order of the queue changed: then all is planned afresh.
"""

from __future__ import annotations

import math
import time
from bisect import insort
from errno import EINVAL
from typing import Any, Iterator, Mapping, Optional

from flux.job import JobID
from flux.scheduler import PendingJob, Scheduler

from treepool import errors
from treepool.flux import options
from treepool.flux.plan import Plan
from treepool.flux.pool import PoolV1, TreepoolPool
from treepool.placement.allocation import Allocation
from treepool.placement.pool import Pool
from treepool.placement.request import Request

#: A pending job with its place in the queue: of two, the greater is first.
Place = tuple[int, int, PendingJob]

#: How many jobs are looked at in vain before other messages get their turn.
_PATIENCE = 64

#: Estimates are idle for this many times as long as they took: they must not slow down starts.
_SHARE = 10


class TreepoolScheduler(Scheduler):  # type: ignore[misc]  # flux has no types
    """Starts jobs by priority, then in the order of submission; ``options`` says how else."""

    pool_class = TreepoolPool

    def __init__(self, h: Any, *args: str) -> None:
        super().__init__(h, *args)
        self._queue: list[PendingJob]
        if any(arg.startswith("pool-class=") for arg in args):
            raise ValueError("pool-class: sched-treepool has its own pool")
        self.options = options.read(self._pending_args)
        self._pending_args: list[str] = []
        self.pool_kwargs.update(self.options.pool)
        self._plan: Optional[Plan] = None
        #: Pending jobs not yet put to the plan, the first in the queue last; and the place of the
        #: last one that was.
        self._todo: list[Place] = []
        self._place: Optional[Place] = None
        #: With fifo, the job that holds the queue.
        self._blocked: Optional[PendingJob] = None
        #: A copy of the pool with nothing allocated, and the requests (by id) that it can serve
        #: or not; until a node goes up or down.
        self._idle: Optional[Pool] = None
        self._servable: dict[int, tuple[Request, bool]] = {}
        #: Estimates are made no sooner than this, and a timer for those put off.
        self._forecast_due = 0.0
        self._forecast_waits = False
        self._forecast_timer = h.timer_watcher_create(0.0, self._on_forecast_timer)

    @property
    def pool(self) -> Pool:
        """The treepool.Pool of the instance."""
        impl: PoolV1 = self.resources.impl
        return impl.pool

    # -- what changes the queue and the pool

    def alloc(
        self,
        request: Any,
        jobid: int,
        priority: int,
        userid: int,
        t_submit: float,
        jobspec: Mapping[str, Any],
    ) -> None:
        """Queue a job, or deny it with the reason if it can never run."""
        try:
            wanted = self.resources.parse_resource_request(jobspec)
            self.resources.check_feasibility(wanted)
        except Exception as e:  # the jobspec is a user's: whatever it breaks, it breaks alone
            request.deny(str(e) or type(e).__name__)
            return
        job = PendingJob(jobid, priority, t_submit, request, wanted)
        self._queue.append(job)
        if self._plan is not None:
            place = _place(job)
            if self._place is None or place < self._place:
                insort(self._todo, place)
            else:
                self._plan = None

    def cancel(self, jobid: int) -> None:
        """Take a pending job out of the queue."""
        super().cancel(jobid)
        self._todo = [place for place in self._todo if place[2].jobid != jobid]
        held = self._plan.reservations if self._plan else []
        if (self._blocked and self._blocked.jobid == jobid) or any(r.jobid == jobid for r in held):
            self._plan = None

    def prioritize(self, jobs: Any) -> None:
        """Take note of new priorities."""
        super().prioritize(jobs)
        self._plan = None

    def expiration(self, msg: Any, jobid: int, expiration: float) -> None:
        """Take note of a running job's new end, in seconds since the epoch, 0 for never."""
        self.resources.update_expiration(jobid, expiration)
        self.handle.respond(msg, None)

    def resource_update(self) -> None:
        """Take note that nodes went up or down, or for good."""
        self._idle = None
        self._servable.clear()

    # -- starting jobs

    def schedule(self) -> Iterator[None]:
        """Put the jobs to the plan in the order of the queue."""
        if self._plan is None or not self._plan.current:
            self._plan = Plan(self.pool)
            self._todo = sorted(map(_place, self._queue))
            self._place = self._blocked = None
        in_vain = 0
        while self._todo and self._blocked is None:
            self._place = self._todo.pop()
            in_vain = 0 if self._put(self._place[2], self._plan) else in_vain + 1
            if in_vain % _PATIENCE == 0:
                yield

    def _put(self, job: PendingJob, plan: Plan) -> bool:
        """Start *job*, deny it, or let it wait; returns whether there was much to do."""
        wanted, now = job.resource_request, time.time()
        try:
            allocation = plan.start(job.jobid, wanted.request, wanted.kind, now)
        except errors.InsufficientResources:
            return self._wait(job, plan, now)
        except errors.InfeasibleRequest as e:  # nodes were removed since it was submitted
            self._remove(job)
            job.request.deny(str(e))
            return True
        self._remove(job)
        allocation.set_starttime(now)
        job.request.success(allocation, {"sched": self._annotations(allocation, plan)})
        return True

    def _wait(self, job: PendingJob, plan: Plan, now: float) -> bool:
        """Let *job* wait: hold the queue or have a reservation if it can; says if that was work."""
        if len(plan.reservations) >= self.options.depth or not self._servable_by_up_nodes(job):
            return False
        if self.options.policy == "fifo":
            self._blocked = job
        else:
            plan.reserve(job.jobid, job.resource_request.request, now)
        return True

    def _servable_by_up_nodes(self, job: PendingJob) -> bool:
        """Whether *job* waits for jobs, and not for nodes that are down."""
        wanted = job.resource_request
        known = self._servable.get(id(wanted.kind))
        if known is None:
            if self._idle is None:
                self._idle = self.pool.copy_idle()
            try:
                self._idle.alloc(job.jobid, wanted.request)
                self._idle.free(job.jobid)
                servable = True
            except errors.InsufficientResources:
                servable = False
            # With the kind itself, or its id might become another's.
            known = self._servable[id(wanted.kind)] = wanted.kind, servable
        return known[1]

    def _remove(self, job: PendingJob) -> None:
        self._queue = [other for other in self._queue if other is not job]

    def _annotations(self, allocation: Allocation, plan: Plan) -> dict[str, str]:
        annotations = {"resource_summary": allocation.dumps()}
        if plan.reservations:
            annotations["backfill"] = JobID(plan.reservations[0].jobid).f58
        return annotations

    # -- estimates

    def forecast(self) -> Iterator[None]:
        """Annotate the jobs that have a reservation with their ``t_estimate``."""
        began, plan = time.monotonic(), self._plan
        if self.options.policy == "fifo":
            plan, start = Plan(self.pool), 0.0
            for job in self._first_waiting():
                request = job.resource_request.request
                reservation = plan.reserve(job.jobid, request, time.time(), start)
                if reservation is None or reservation.start == math.inf:
                    break
                start = reservation.start
                yield
                if not plan.current:  # jobs started meanwhile; the pass that did so comes back here
                    return
        starts = {r.jobid: r.start for r in plan.reservations} if plan else {}
        for job in self._queue:
            start = starts.get(job.jobid, math.inf)
            estimate = start if start < math.inf else None
            if job._last_annotation != estimate:
                job._last_annotation = estimate
                job.request.annotate({"sched": {"t_estimate": estimate}})
        self._forecast_due = time.monotonic() + _SHARE * (time.monotonic() - began)

    def _first_waiting(self) -> list[PendingJob]:
        """With fifo, the jobs that wait for jobs, in order, as many as get estimates."""
        found = [self._blocked] if self._blocked else []
        for _, _, job in reversed(self._todo if found else []):
            if len(found) >= self.options.depth:
                break
            if self._servable_by_up_nodes(job):
                found.append(job)
        return found

    def _request_forecast(self) -> None:
        wait = self._forecast_due - time.monotonic()
        if wait <= 0:
            super()._request_forecast()
        elif not self._forecast_waits:
            self._forecast_waits = True
            self._forecast_timer.reset(after=wait)

    def _on_forecast_timer(self, *_: Any) -> None:
        self._forecast_waits = False
        self._request_forecast()

    # -- the module

    def stats_get(self) -> dict[str, Any]:
        """What ``flux module stats sched-treepool`` shows."""
        plan = self._plan
        return {
            **super().stats_get(),
            "policy": self.options.policy,
            "reservations": len(plan.reservations) if plan else 0,
            "running_jobs": len(self.pool.job_end_times()),
        }

    def _acquire_resources(self) -> None:
        try:
            super()._acquire_resources()
            localities = self.pool.localities
        except ValueError as e:  # it would only reach the broker's stderr
            self.log.error(f"cannot use this instance's R: {e}")
            raise OSError(EINVAL, str(e)) from None
        if localities:
            self.log.info(f"topology: {', '.join(localities)}")
        else:
            self.log.info("topology: none in R, nodes are flat")


def _place(job: PendingJob) -> Place:
    return job.priority, -job.jobid, job


def mod_main(h: Any, *args: str) -> None:
    """Run the module until it is unloaded."""
    TreepoolScheduler(h, *args).run()
