"""The scheduler module ``sched-treepool``: priority order, reservations, backfill.

flux-core's ``flux.scheduler.Scheduler`` speaks the protocol (RFC 27) and holds the queue. This
module decides the order in which jobs start. A pass over the queue is a generator, and Flux closes
it at a ``yield`` whenever an event arrives. The state is therefore consistent at each ``yield``: a
job that was started is no longer in the queue. The plan and the place in the queue outlive the
pass, and the next pass continues from there. If the pool or the order of the queue has changed,
the next pass plans all jobs anew.
"""

from __future__ import annotations

import math
import time
from bisect import insort
from errno import EINVAL, ENOSYS
from typing import Any, Iterator, Mapping, Optional

from flux.job import JobID
from flux.scheduler import PendingJob, Scheduler

from treepool import errors
from treepool.discovery.key import Nodes, encode_into
from treepool.errors import InvalidOption
from treepool.flux import options
from treepool.flux.discover import Discovery
from treepool.flux.hello import Hello
from treepool.flux.pool import PoolV1, TreepoolPool, held
from treepool.flux.submissions import Submission, Submissions
from treepool.placement.allocation import Allocation
from treepool.placement.plan.backfill import Plan
from treepool.placement.pool import Pool
from treepool.placement.request.vertices import Request
from treepool.rfc import idset
from treepool.rfc.rset import ResourceSet

#: A pending job with its place in the queue; the greater place comes first.
Place = tuple[int, int, PendingJob]

#: How many jobs that cannot start are tried before other messages get their turn.
_PATIENCE = 64

#: Most kinds of request for which the module remembers whether nodes that are up can serve them.
_MAX_SERVABLE = 4096

#: Seconds spent on submissions before other messages get their turn.
_SLICE = 0.01

#: Seconds that the module waits at unload for allocations that are being written.
_LAST_WORDS = 10.0

#: Estimates pause for this many times as long as they took, so that they do not slow down starts.
_SHARE = 10


class TreepoolScheduler(Scheduler):  # type: ignore[misc]  # flux has no types
    """Starts jobs by priority, then in the order of submission, as ``options`` say."""

    pool_class = TreepoolPool

    def __init__(self, h: Any, *args: str) -> None:
        try:
            super().__init__(h, *args)
            if any(arg.startswith("pool-class=") for arg in args):
                raise InvalidOption("pool-class: sched-treepool has its own pool")
            self.options = options.read(self._pending_args)
        except ValueError as e:  # the loader of the module only sees "Invalid argument"
            self.log.error(str(e))
            raise
        self._queue: list[PendingJob]
        self._pending_args: list[str] = []
        self.pool_kwargs.update(self.options.pool)
        self._plan: Optional[Plan] = None
        #: Pending jobs that the plan has not seen yet, in reverse order of the queue; and the
        #: place of the last job that the plan has seen.
        self._todo: list[Place] = []
        self._place: Optional[Place] = None
        #: With fifo, the job that all others wait for.
        self._blocked: Optional[PendingJob] = None
        #: A copy of the pool with nothing allocated, and whether it can serve each request (by
        #: id). Both are valid until a node goes up or down.
        self._idle: Optional[Pool] = None
        self._servable: dict[int, tuple[Request, bool]] = {}
        #: The earliest time for the next estimates, and a timer for estimates that are postponed.
        self._forecast_due = 0.0
        self._forecast_waits = False
        self._forecast_timer = h.timer_watcher_create(0.0, self._on_forecast_timer)
        #: While topology is incomplete: its discovery, the submissions that wait for it, a timer
        #: for submissions that are ready, and feasibility checks with the ranks they wait for.
        self._discovery: Optional[Discovery] = None
        self._held = Submissions()
        self._judge_timer = h.timer_watcher_create(0.0, self._on_judge_timer)
        self._checks: list[tuple[Any, Mapping[str, Any], int]] = []
        self._hello = Hello(self._on_missed)
        #: How many jobs have an R that is being written; whether this module is being unloaded.
        self._committing = 0
        self._ending = False

    @property
    def pool(self) -> Pool:
        """The treepool.Pool of the instance."""
        impl: PoolV1 = self.resources.impl
        return impl.pool

    # -- jobs that are already running

    def hello(self, jobid: int, priority: int, userid: int, t_submit: float, R: Any) -> None:
        """Take over a job that holds R."""
        super().hello(jobid, priority, userid, t_submit, R)
        self._hello.add(jobid, held(R))

    def _sched_ready(self) -> None:
        super()._sched_ready()
        self._hello.ask(self.handle, self.pool)
        if self._discovery is not None:
            # Not earlier: the time that hello takes would count towards the brokers' timeout.
            self._discovery.begin()

    def _on_missed(self, what: str) -> None:
        self.log.warning(what)
        self._request_schedule()

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
        """Queue a job, or deny it with the reason if it can never run.

        While topology is incomplete every job is held, because what it asks for is not yet defined.
        """
        submission = Submission(request, jobid, priority, t_submit, jobspec)
        awaited = self._awaited
        if awaited is None:
            self._judge(submission)
        else:
            self._held.hold(submission, awaited)

    def _judge(self, submission: Submission) -> None:
        request = submission.request
        try:
            wanted = self.resources.parse_resource_request(submission.jobspec)
            self.resources.check_feasibility(wanted)
        except Exception as e:  # a user's jobspec must not affect other jobs, whatever it breaks
            awaited = self._awaited
            if awaited is None:
                request.deny(str(e) or type(e).__name__)
            else:  # nodes that came up since it was submitted may be able to serve it
                self._held.hold(submission, awaited)
            return
        job = PendingJob(
            submission.jobid, submission.priority, submission.t_submit, request, wanted
        )
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
        submission = self._held.cancel(jobid)
        if submission is not None:
            submission.request.cancel()
        self._todo = [place for place in self._todo if place[2].jobid != jobid]
        held = self._plan.reservations if self._plan else []
        if (self._blocked and self._blocked.jobid == jobid) or any(r.jobid == jobid for r in held):
            self._plan = None

    def prioritize(self, jobs: Any) -> None:
        """Apply new priorities."""
        super().prioritize(jobs)
        self._held.prioritize(jobs)
        self._plan = None

    def expiration(self, msg: Any, jobid: int, expiration: float) -> None:
        """Apply a running job's new end, in seconds since the epoch, 0 for never."""
        self.resources.update_expiration(jobid, expiration)
        self.handle.respond(msg, None)

    def resource_update(self) -> None:
        """React to nodes that went up, went down or were removed."""
        self._idle = None
        self._servable.clear()

    # -- topology that is not known yet

    @property
    def _awaited(self) -> Optional[int]:
        """The ranks whose topology a submission must wait for (bitmask); None if it need not wait.

        0 stands for any rank: no node that could be asked has been up yet.
        """
        discovery = self._discovery
        if discovery is None or not (
            discovery.unknown or (not discovery.known and self.pool.ranks)
        ):
            return None
        return discovery.unknown

    def feasibility_check(self, msg: Any, jobspec: Mapping[str, Any]) -> None:
        """Say whether a job could ever run, once the nodes that were asked have answered.

        As long as no node is up that could be asked, any job might run.
        """
        awaited = self._awaited
        if awaited is None:
            super().feasibility_check(msg, jobspec)
        elif awaited:
            self._checks.append((msg, jobspec, awaited))
        else:
            self.handle.respond(msg, None)

    def _release(self) -> None:
        """Check and queue the submissions whose topology has arrived."""
        discovery, awaited = self._discovery, self._awaited
        if discovery is None or awaited == 0:
            return
        self._held.release(discovery.unknown)
        self._judge_timer.reset(after=0.0)
        checks, self._checks = self._checks, []
        for msg, jobspec, ranks in checks:
            if ranks & discovery.unknown:
                self._checks.append((msg, jobspec, ranks))
            elif awaited is None:
                super().feasibility_check(msg, jobspec)
            else:  # it may run on a node that came up since
                self.handle.respond(msg, None)

    def _on_judge_timer(self, *_: Any) -> None:
        end = time.monotonic() + _SLICE
        while time.monotonic() < end:
            submission = self._held.next()
            if submission is None:
                self._request_schedule()
                return
            self._judge(submission)
        self._judge_timer.reset(after=0.0)

    def _judge_queue_again(self) -> None:
        """Take all jobs out of the queue to check them again, because localities changed."""
        queue, self._queue = self._queue, []
        self._plan, self._todo, self._blocked = None, [], None
        for job in queue:
            if job._last_annotation is not None:
                job.request.annotate({"sched": {"t_estimate": None}})
            jobspec = job.resource_request.jobspec
            self._held.hold(
                Submission(job.request, job.jobid, job.priority, job.t_submit, jobspec), 0
            )

    def _apply_resource_update(self, data: Mapping[str, Any]) -> None:
        """Apply nodes that went up, went down or were removed; a node without topology waits."""
        discovery = self._discovery
        if discovery is not None and "up" in data:
            ranks = self.pool.ranks
            up = ranks if data["up"] == "all" else idset.decode(str(data["up"])) & ranks
            discovery.up |= up
            discovery.want(up)
            data = {**data, "up": idset.encode(up & discovery.known)}
        if discovery is not None and "down" in data:
            down = str(data["down"])
            discovery.up &= 0 if down == "all" else ~idset.decode(down)
        super()._apply_resource_update(data)
        self._release()

    def _on_topology(self, found: list[Nodes], failed: dict[int, str]) -> None:
        """Give nodes the topology that their brokers sent, and use the nodes."""
        discovery = self._discovery
        assert discovery is not None
        localities = self.pool.localities
        if found:
            try:
                encoded = encode_into(self.pool.inventory.resource_set, found)
                self.pool.replace_key(encoded.R.scheduling or {})
            except ValueError as e:
                self.log.error(f"topology: {e}: nodes stay flat")
        for reason in sorted(set(failed.values())):
            ranks = idset.encode(idset.from_ids(r for r, why in failed.items() if why == reason))
            self.log.warning(f"topology: rank {ranks} is flat: {reason}")
        ready = discovery.up & discovery.known
        self.pool.mark_up(idset.encode(ready))
        self._plan = None
        self.resource_update()
        if not discovery.unknown:
            known = ", ".join(self.pool.localities) or "none, nodes are flat"
            self.log.info(f"topology: {known} (hwloc of {discovery.nodes} nodes)")
        if self.pool.localities != localities:
            self._judge_queue_again()
        self._release()
        self._request_schedule()

    # -- starting jobs

    def schedule(self) -> Iterator[None]:
        """Offer the jobs to the plan in the order of the queue."""
        if self._held.ready:  # the first job of the queue may be among them
            return
        if self._plan is None or not self._plan.current:
            self._plan = Plan(self.pool)
            self._todo = sorted(map(_place, self._queue))
            self._place = self._blocked = None
        in_vain = 0
        while self._todo and self._blocked is None and not self._ending:
            self._place = self._todo.pop()
            in_vain = 0 if self._put(self._place[2], self._plan) else in_vain + 1
            if in_vain % _PATIENCE == 0:
                yield

    def _put(self, job: PendingJob, plan: Plan) -> bool:
        """Start *job*, deny it, or let it wait; returns whether that took much work.

        If anything fails before R is on its way to the KVS, the job is answered and holds nothing.
        Otherwise nothing would ever handle it again.
        """
        wanted, now = job.resource_request, time.time()
        holds = plan.pool.has_job(job.jobid)
        try:
            try:
                allocation = plan.start(job.jobid, wanted.request, wanted.kind, now)
            except errors.InsufficientResources:
                return self._wait(job, plan, now)
            allocation.set_starttime(now)
            annotations = {"sched": self._annotations(allocation, plan)}
            job.request.success(allocation, annotations)
        except errors.InfeasibleRequest as e:  # nodes were removed since it was submitted
            self._refuse(job, str(e))
        except Exception as e:  # otherwise this job would block all others, even after a reload
            self.log.error(f"{JobID(job.jobid).f58}: {type(e).__name__}: {e}")
            if not holds:
                plan.withdraw(job.jobid)
            self._refuse(job, f"the scheduler failed on this job: {e}")
        else:
            self._remove(job)
        return True

    def _wait(self, job: PendingJob, plan: Plan, now: float) -> bool:
        """Let *job* wait: it holds the queue or gets a reservation; returns if that was work."""
        if len(plan.reservations) >= self.options.depth or not self._servable_by_up_nodes(job):
            return False
        if self.options.policy == "fifo":
            self._blocked = job
        else:
            plan.reserve(job.jobid, job.resource_request.request, now)
        return True

    def _servable_by_up_nodes(self, job: PendingJob) -> bool:
        """Whether *job* waits for other jobs, and not for nodes that are down."""
        wanted = job.resource_request
        known = self._servable.get(id(wanted.kind))
        if known is None:
            if self._idle is None:
                self._idle = self.pool.copy_idle()
            try:
                self._idle.alloc(job.jobid, wanted.request)
                self._idle.free(job.jobid)
                servable = True
            except (errors.InsufficientResources, errors.InfeasibleRequest):
                servable = False  # infeasible if nodes were removed since it was submitted
            if len(self._servable) >= _MAX_SERVABLE:
                self._servable.clear()
            # Keep the kind itself, so that no other object can get its id.
            known = self._servable[id(wanted.kind)] = wanted.kind, servable
        return known[1]

    def _remove(self, job: PendingJob) -> None:
        self._queue = [other for other in self._queue if other is not job]

    def _refuse(self, job: PendingJob, reason: str) -> None:
        self._remove(job)
        job.request.deny(reason)

    def _annotations(self, allocation: Allocation, plan: Plan) -> dict[str, str]:
        annotations = {"resource_summary": allocation.dumps()}
        if self.pool.localities:
            annotations["locality"] = f"{allocation.fitness(self.pool.weights).total:.2f}"
        if plan.reservations:
            annotations["backfill"] = JobID(plan.reservations[0].jobid).f58
        return annotations

    # -- the end

    def run(self) -> None:
        """Run the module until it is unloaded and the job manager knows all its allocations.

        Otherwise the KVS could hold an R of a job that the job manager does not know of. It would
        find that R after a restart, and refuse the job's allocation from then on.
        """
        super().run()
        self._ending = True
        for msg, _, _ in self._checks:
            self.handle.respond_error(msg, ENOSYS, "the scheduler is being unloaded")
        if self._committing:
            stop = self.handle.timer_watcher_create(_LAST_WORDS, lambda *_: self.stop())
            stop.start()
            self.handle.reactor_run()
            stop.stop()

    def alloc_success(self, msg: Any, R: Any, annotations: Any = None) -> None:
        """Write a job's R to the KVS, then tell the job manager."""
        super().alloc_success(msg, R, annotations)
        self._committing += 1

    def _alloc_commit_continuation(self, future: Any, args: Any) -> None:
        super()._alloc_commit_continuation(future, args)
        self._committing -= 1
        if self._ending and not self._committing:
            self.stop()

    def _request_schedule(self) -> None:
        if not self._ending:
            super()._request_schedule()

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
        """With fifo, the first jobs that wait for other jobs, as many as get estimates."""
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
        plan, stats = self._plan, super().stats_get()
        return {
            **stats,
            "pending_jobs": stats["pending_jobs"] + len(self._held),
            "policy": self.options.policy,
            "reservations": len(plan.reservations) if plan else 0,
            "running_jobs": len(self.pool.job_end_times()),
            "localities": list(self.pool.localities),
            "hwloc": self._discovery.stats if self._discovery else None,
        }

    def _acquire_resources(self) -> None:
        try:
            super()._acquire_resources()
            localities = self.pool.localities
            R = self.pool.inventory.resource_set
        except ValueError as e:  # the pool has already logged it
            raise OSError(EINVAL, str(e)) from None
        if localities:
            self.log.info(f"topology: {', '.join(localities)}")
        elif self.options.discover and R.scheduling is None:
            self.log.info("topology: none in R, asking the brokers")
            self._start_discovery(R)
        else:
            self.log.info("topology: none in R, nodes are flat")

    def _start_discovery(self, R: ResourceSet) -> None:
        """Ask all nodes that are up for their topology; a node stays down until it is known."""
        exact = int(self.handle.attr_get("instance-level")) > 0
        discovery = self._discovery = Discovery(self.handle, R, self._on_topology, exact)
        discovery.up = self.pool.up
        self.pool.mark_down("all")
        discovery.want(discovery.up)


def _place(job: PendingJob) -> Place:
    return job.priority, -job.jobid, job


def mod_main(h: Any, *args: str) -> None:
    """Run the module until it is unloaded."""
    TreepoolScheduler(h, *args).run()
