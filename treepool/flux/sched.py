"""The scheduler module ``sched-treepool``: flux-core's scheduler protocol for treepool's queue.

flux-core's ``flux.scheduler.Scheduler`` speaks the protocol (RFC 27). ``plan/queue.py`` decides the
order in which jobs start, ``intake.py`` when a submission enters the queue, and ``annotate.py``
what waiting jobs are told. A pass over the queue is a generator, and Flux closes it at a ``yield``
whenever an event arrives. The queue keeps its place, and the next pass continues from there.
"""

from __future__ import annotations

import time
from errno import EINVAL
from typing import Any, Iterator, Mapping

from flux.job import JobID
from flux.scheduler import Scheduler

from treepool.errors import InvalidOption
from treepool.flux import options
from treepool.flux.annotate import Annotator
from treepool.flux.hello import Hello
from treepool.flux.intake import Intake
from treepool.flux.pool import AllocatedR, PoolV1, TreepoolPool, held
from treepool.flux.submissions import Submission
from treepool.flux.windows import Windows
from treepool.placement.allocation import Allocation
from treepool.placement.nodes.usable import free_and_stranded
from treepool.placement.plan.jobs import Waiting
from treepool.placement.plan.queue import Queue, Rule
from treepool.placement.plan.timeline import NEVER
from treepool.placement.pool import Pool

#: Seconds spent on priorities before other messages get their turn.
_SLICE = 0.01

#: Seconds without annotations after one of them failed.
_PENANCE = 60.0

#: Seconds that the module waits at unload for allocations that are being written.
_LAST_WORDS = 10.0


class TreepoolScheduler(Scheduler):  # type: ignore[misc]  # flux has no types
    """Starts jobs by priority, then in the order of submission, as ``options`` say."""

    pool_class = TreepoolPool

    def __init__(self, h: Any, *args: str) -> None:
        self._pending_args: list[str] = []
        try:
            super().__init__(h, *args)
            if any(arg.startswith("pool-class=") for arg in args):
                raise InvalidOption("pool-class: sched-treepool has its own pool")
            self.options = options.read(self._pending_args)
            self._windows = Windows(h, self.log, self._owner_of, self._request_schedule)
        except ValueError as e:  # the loader of the module only sees "Invalid argument"
            self.log.error(str(e))
            raise
        self._pending_args = []
        self.pool_kwargs.update(self.options.pool)
        self.queue: Queue
        #: The submission of each job in the queue.
        self._submissions: dict[int, Submission] = {}
        #: New priorities that are to be applied, by job id.
        self._priorities: dict[int, int] = {}
        self._intake = Intake(
            h, self.log, self._judge, self._answer, self._on_topology, self._request_schedule
        )
        self._hello = Hello(self._on_missed)
        self._annotator: Annotator
        self._annotating = h.timer_watcher_create(0.0, lambda *_: self._request_forecast())
        #: For starts that no event causes, such as at the end of a window.
        self._alarm = h.timer_watcher_create(0.0, lambda *_: self._request_schedule())
        #: How many jobs have an R that is being written; whether this module is being unloaded.
        self._committing = 0
        self._ending = False

    @property
    def pool(self) -> Pool:
        """The treepool.Pool of the instance."""
        impl: PoolV1 = self.resources.impl
        return impl.pool

    def _acquire_resources(self) -> None:  # no hook: the pool is made here, and may be invalid
        try:
            super()._acquire_resources()
            pool = self.pool
        except ValueError as e:  # the pool has already logged it
            raise OSError(EINVAL, str(e)) from None
        rule = Rule(self.options.policy, self.options.depth)
        self.queue = Queue(pool, self, time.time, rule)
        self._windows.begin(self.queue)
        self._annotator = Annotator(self.queue, lambda jobid: self._submissions[jobid].request)
        # flux-core asks its own queue only whether it is empty, and how many jobs it has.
        self._queue = self.queue.jobs
        R = pool.inventory.resource_set
        if pool.localities:
            self.log.info(f"topology: {', '.join(pool.localities)}")
        elif self.options.discover and R.scheduling is None:
            self.log.info("topology: none in R, asking the brokers")
            self._intake.discover(pool, R)
        else:
            self.log.info("topology: none in R, nodes are flat")

    # -- jobs that are already running

    def hello(self, jobid: int, priority: int, userid: int, t_submit: float, R: Any) -> None:
        """Take over a job that holds R."""
        super().hello(jobid, priority, userid, t_submit, R)
        self._hello.add(jobid, held(R))
        self.queue.follow()

    def _sched_ready(self) -> None:  # no hook: what comes after must not delay it
        super()._sched_ready()
        self._hello.ask(self.handle, self.pool)
        # Not earlier: the time that hello takes would count towards the brokers' timeout.
        self._intake.begin()

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
        """Queue a job, or deny it with the reason if it can never run."""
        self._intake.take(Submission(request, jobid, priority, userid, jobspec))

    def _judge(self, submission: Submission) -> None:
        try:
            wanted = self.resources.parse_resource_request(submission.jobspec)
            self.resources.check_feasibility(wanted)
        except Exception as e:  # a user's jobspec must not affect other jobs, whatever it breaks
            if not self._intake.hold(submission):
                submission.request.deny(str(e) or type(e).__name__)
            return
        self._submissions[submission.jobid] = submission
        self.queue.add(self._waiting(submission, wanted.request))

    def _waiting(self, submission: Submission, request: Any) -> Waiting:
        line = submission.queue
        leave = self._windows.admitted(submission.userid, line)
        kind = self.queue.plan.kind(request, leave)
        return Waiting(submission.jobid, submission.priority, request, kind, line)

    def _owner_of(self, job: Waiting) -> tuple[int, str]:
        return self._submissions[job.jobid].userid, job.queue

    def free(self, jobid: int, R: Any, final: bool = False) -> None:
        """Take back what a job gives."""
        super().free(jobid, R, final)
        self.queue.follow()

    def cancel(self, jobid: int) -> None:
        """Take a pending job out of the queue."""
        submission = self._intake.cancel(jobid)
        if self.queue.remove(jobid) is not None:
            submission = self._leave(jobid)
        if submission is not None:
            submission.request.cancel()

    def prioritize(self, jobs: Any) -> None:
        """Apply new priorities."""
        self._intake.prioritize(jobs)
        self._priorities.update(jobs)

    def _prioritize(self) -> Iterator[None]:
        """Apply new priorities to the queue, which may be those of all jobs."""
        end = time.monotonic() + _SLICE
        while self._priorities:
            self.queue.prioritize(*self._priorities.popitem())
            if time.monotonic() > end:
                yield
                end = time.monotonic() + _SLICE

    def expiration(self, msg: Any, jobid: int, expiration: float) -> None:
        """Apply a running job's new end, in seconds since the epoch, 0 for never."""
        self.resources.update_expiration(jobid, expiration)
        self.handle.respond(msg, None)

    def feasibility_check(self, msg: Any, jobspec: Mapping[str, Any]) -> None:
        """Say whether a job could ever run, once the nodes that were asked have answered."""
        self._intake.check(msg, jobspec)
        if self._ending:
            self._intake.end()

    def _answer(self, msg: Any, jobspec: Mapping[str, Any]) -> None:
        super().feasibility_check(msg, jobspec)

    def _apply_resource_update(self, data: Mapping[str, Any]) -> None:  # no hook before it applies
        super()._apply_resource_update(self._intake.filtered(data))
        self._intake.release()

    def _on_topology(self, localities_changed: bool) -> None:
        """Use nodes that got their topology; requests mean something else with other localities."""
        if localities_changed:
            for job in self.queue.clear():
                submission = self._leave(job.jobid)
                submission.request.annotate({"sched": {"t_estimate": None}})
                self._intake.again(submission)
        self._request_schedule()

    def _leave(self, jobid: int) -> Submission:
        """Forget a job that left the queue; returns its submission."""
        self._annotator.forget(jobid)
        return self._submissions.pop(jobid)

    # -- starting jobs

    def schedule(self) -> Iterator[None]:
        """Start and reserve what can be, in steps of a few milliseconds."""
        yield from self._prioritize()
        if not self._intake.ready:  # the first job of the queue may be among the submissions
            for _ in self.queue.run():
                if self._ending:
                    return
                yield
        if self.queue.next_time < NEVER:
            self._alarm.stop()  # a timer that runs keeps its time
            self._alarm.reset(after=max(0.0, self.queue.next_time - time.time()))

    def started(self, job: Waiting, allocation: Allocation) -> None:
        """Send a job's R on its way; if that fails, the job holds nothing and is answered."""
        allocation.set_starttime(time.time())
        annotations = {"resource_summary": allocation.dumps()}
        if self.pool.localities:
            annotations["locality"] = f"{allocation.fitness(self.pool.weights).total:.2f}"
        passed = self.queue.passed(job)
        if passed is not None:
            annotations["backfill"] = JobID(passed.jobid).f58
        request = self._submissions[job.jobid].request
        request.success(AllocatedR(allocation), {"sched": annotations})
        self._leave(job.jobid)

    def refused(self, job: Waiting, reason: str) -> None:
        """Deny a job that can never run."""
        self._leave(job.jobid).request.deny(reason)

    def failed(self, job: Waiting, error: Exception) -> None:
        """Deny a job on which the scheduler failed; it would hold up all others."""
        self.log.error(f"{JobID(job.jobid).f58}: {type(error).__name__}: {error}")
        self.refused(job, f"the scheduler failed on this job: {error}")

    # -- what waiting jobs are told

    def forecast(self) -> Iterator[None]:
        """Keep the annotations of the waiting jobs up to date."""
        try:
            yield from self._annotator.run()
        except Exception as e:  # what jobs are told must not stop what they get
            self.log.error(f"annotations: {type(e).__name__}: {e}")
            self._annotator.due = time.monotonic() + _PENANCE

    def _request_forecast(self) -> None:  # no hook: postponed, so that starts are not slowed down
        wait = self._annotator.due - time.monotonic()
        if wait <= 0:
            super()._request_forecast()
        else:
            self._annotating.reset(after=wait)

    # -- the end

    def run(self) -> None:
        """Run the module until it is unloaded and the job manager knows all its allocations.

        Otherwise the KVS could hold an R of a job that the job manager does not know of. It would
        find that R after a restart, and refuse the job's allocation from then on.
        """
        super().run()
        self._ending = True
        self._intake.end()
        self._windows.end()
        if self._committing:
            stop = self.handle.timer_watcher_create(_LAST_WORDS, lambda *_: self.stop())
            stop.start()
            self.handle.reactor_run()
            stop.stop()

    def alloc_success(self, msg: Any, R: Any, annotations: Any = None) -> None:
        """Write a job's R to the KVS, then tell the job manager."""
        super().alloc_success(msg, R, annotations)
        self._committing += 1

    def _alloc_commit_continuation(self, future: Any, args: Any) -> None:  # no hook: counted
        super()._alloc_commit_continuation(future, args)
        self._committing -= 1
        if self._ending and not self._committing:
            self.stop()

    def start_schedule(self) -> None:
        """Ask for a pass, unless the module is being unloaded."""
        if not self._ending:
            super().start_schedule()

    def stats_get(self) -> dict[str, Any]:
        """What ``flux module stats sched-treepool`` shows."""
        stats: dict[str, Any] = super().stats_get()
        buckets = self.pool.situation.index.buckets
        free, stranded = free_and_stranded((s, r.count(None)) for s, r in buckets.items())
        return {
            **stats,
            "pending_jobs": stats["pending_jobs"] + len(self._intake),
            "policy": self.options.policy,
            "windows": len(self.queue.plan.windows),
            "reservations": len(self.queue.plan.reservations),
            "running_jobs": len(self.pool.job_end_times()),
            "localities": list(self.pool.localities),
            "free_gpus": free,
            "stranded_gpus": round(stranded, 2),
            "hwloc": self._intake.stats,
        }


def mod_main(h: Any, *args: str) -> None:
    """Run the module until it is unloaded."""
    TreepoolScheduler(h, *args).run()
