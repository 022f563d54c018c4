"""The scheduler module ``sched-treepool``: what it does on each event of Flux.

``protocol.py`` speaks the protocol (RFC 27), and ``runner.py`` decides whose turn it is.
``plan/queue.py`` decides the order in which jobs start, ``submissions.py`` when a submission is
judged and whether it can ever run, and ``annotate.py`` what waiting jobs are told.
"""

from __future__ import annotations

import time
from errno import EINVAL
from typing import Any, Generator, Mapping

from flux.brokermod import request_handler
from flux.job import JobID

from treepool import __version__
from treepool.errors import InvalidOption, InvalidWindow
from treepool.flux.annotate import Annotator
from treepool.flux.answers import Answers
from treepool.flux.attached import Attached
from treepool.flux.callbacks import answered, payload_of, report
from treepool.flux.config import Configuration, refusal
from treepool.flux.context import Context
from treepool.flux.heldback import HeldBack
from treepool.flux.hello import Value
from treepool.flux.numbers import Numbers
from treepool.flux.options import Options
from treepool.flux.pool import PoolV1, TreepoolPool
from treepool.flux.preemption import Started
from treepool.flux.protocol import Protocol, failure
from treepool.flux.runner import Precedence, Work
from treepool.flux.submissions import Submission, Submissions
from treepool.flux.topology import Topology
from treepool.flux.windows import Windows, in_kvs
from treepool.placement.allocation import Allocation
from treepool.placement.held import held_in
from treepool.placement.nodes.parts import short_form
from treepool.placement.plan.jobs import Waiting
from treepool.placement.plan.queue import Queue
from treepool.placement.plan.windows import Owner
from treepool.placement.pool import Pool

#: Seconds that passes wait at most for requests to cancel, so that who cancels stops nobody.
_CANCELS = 5.0

#: Seconds that they wait at most for the inbox to come to such requests.
_COMING = 0.3

#: Seconds of passes between two lots of new priorities, so that who changes his stops nobody.
_CHANGES = 0.25

#: The user of no job.
_NOBODY = -1

#: Jobs that a job is told it preempts, by name.
_MOST_NAMED = 8

#: Comes in place of the next step of a pass that has ended.
_ENDED = object()

#: Seconds between two looks at the clock while jobs wait: it may be set, or a machine suspended.
_LOOK = 5.0


class TreepoolScheduler(Protocol):
    """Starts jobs by priority, then in the order of submission, as ``options`` say."""

    pool_class = TreepoolPool

    def __init__(self, h: Any, *args: str) -> None:
        try:
            super().__init__(h, *args)
            if any(arg.startswith("pool-class=") for arg in args):
                raise InvalidOption("pool-class: sched-treepool has its own pool")
            self._configuration = Configuration(h, self.log, self.take_arguments())
        except ValueError as e:  # the loader of the module only sees "Invalid argument"
            self.log.error(str(e))
            raise
        self._use_flux_options()
        self._precedence, self._cancels = Precedence(), Precedence(_CANCELS)
        self._coming = Precedence(_COMING)
        #: When the last changes of jobs had all been applied (monotonic seconds).
        self._applied = -_CHANGES
        #: Whether a pass was asked for since the jobs were told what the last one came to.
        self._asked = False

    @property
    def pool(self) -> Pool:
        """The treepool.Pool of the instance."""
        impl: PoolV1 = self.resources.impl
        return impl.pool

    def begin(self) -> None:
        """Make all that works on the pool; raises ValueError, once it is logged."""
        pool = self.pool
        has_key = pool.inventory.resource_set.scheduling is not None
        discovers = self.options.discover and not has_key
        try:
            self._configuration.set_options(pool, not discovers)
            kept_windows = in_kvs(self.handle)
        except (InvalidOption, InvalidWindow) as e:
            self.log.error(str(e))
            raise
        self.queue = Queue(pool, self, time.time, self.options.rule, self.options.queues)
        self._numbers = Numbers(self.handle)
        context = Context(
            handle=self.handle,
            log=self.log,
            runner=self.runner,
            inbox=self.inbox,
            queue=self.queue,
            configuration=self._configuration,
            numbers=self._numbers,
            origins=self.origins,
        )
        self._topology = Topology(context, discovers, self._on_topology)
        self._windows = Windows(context, kept_windows, self._owner_of, self._on_windows)
        self._submissions = Submissions(context, self._topology, self._windows, self._fail)
        self._attached = Attached(context, self._submissions)
        self._held_back = HeldBack(context)
        self._answers = Answers(context, self._submissions, self._windows, self.numbers)
        self._annotator = Annotator(context, self._submissions, self._answers.outlook)
        self._passes = self.runner.task("pass", self.schedule)

    # -- the configuration

    @property
    def options(self) -> Options:
        """The options that hold now."""
        return self._configuration.options

    @request_handler("config-reload")  # type: ignore[untyped-decorator]
    def config_reload(self, msg: Any) -> None:
        """Follow a new configuration; if it is wrong, refuse it, and keep to the old one."""
        answered(self.handle, self._reconfigure)(msg)

    def _reconfigure(self, msg: Any) -> None:
        conf, complete = payload_of(msg), self._topology.complete
        try:
            meaning_changed = self._configuration.follow(conf, self.queue, complete)
        except ValueError as e:
            self.log.error(f"the new configuration is refused: {e}")
            self.handle.respond_error(msg, EINVAL, refusal(str(e)))
            return
        self._use_flux_options()
        if meaning_changed:
            self._submissions.judge_again()
        self._windows.configure(self._configuration.windows)
        self.handle.respond(msg, None)
        self.start_schedule()

    def _use_flux_options(self) -> None:
        """Use those of the table that no argument of the module gives."""
        given = {arg.partition("=")[0] for arg in self.args}
        if "log-level" not in given:
            self.log.level = self.options.log_level
        if not given & {"queue-depth", "mode"}:
            self.queue_depth = self.options.queue_depth

    # -- jobs that are already running

    def taking_over(self, jobid: int, jobspec: Value, events: Value) -> None:
        """A job is about to be taken over; the rest of what matters of it is in the KVS."""
        if not isinstance(jobspec, OSError) and not isinstance(events, OSError):
            job = Started.read(jobspec, events)
            self.origins[jobid] = self.origins[jobid][0], job.queue, job.bank
            queues = self._configuration.queues.lineage(job.queue)
            self.queue.runs(jobid, *self.options.preemption.of_running(job, queues))

    def hello(self, jobid: int, priority: int, userid: int, t_submit: float, R: Any) -> None:
        """Take over a job that holds *R*, a ResourceSet; raises PoolConflict if the pool cannot."""
        self.pool.register_alloc(jobid, R)
        self.log.debug(f"hello: {JobID(jobid).f58}: {short_form(held_in(R.entries))}")
        self._held_back.add(jobid, R)
        self.queue.follow()

    def telling(self, jobid: int) -> None:
        """The job manager is about to be told that job *jobid* has resources."""
        self._attached.told(jobid)

    def doubt(self, jobid: int) -> None:
        """Hold back what a job has until it is over."""
        self._held_back.doubt(jobid)

    def ready(self) -> None:
        """The job manager knows that this scheduler is ready."""
        self._held_back.ask()

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
        self._attached.asked()
        self._submissions.take(Submission(request, jobid, priority, userid, t_submit, jobspec))

    def free(self, jobid: int, R: Any, final: bool = False) -> None:
        """Take back what a job gives; of a job that had something else at hello, all there."""
        try:
            self.resources.impl.free(jobid, R, final)
        except ValueError as e:
            self.log.error(f"free: {e}: what it holds there is free")
            self._held_back.give_back(jobid, None if final else R.mask)
        if not self.pool.has_job(jobid):
            self.origins.pop(jobid, None)
            self._attached.ended(jobid)
        self._held_back.freed()

    def cancel(self, jobid: int) -> None:
        """Take a pending job out of the queue."""
        self._submissions.cancel(jobid)

    def prioritize(self, jobs: Any) -> None:
        """Apply new priorities."""
        self._submissions.prioritize(jobs)

    def expiration(self, msg: Any, jobid: int, expiration: float) -> None:
        """Apply a running job's new end, in seconds since the epoch, 0 for never."""
        self.resources.update_expiration(jobid, expiration)
        self.handle.respond(msg, None)
        self.start_schedule()

    def feasibility_check(self, msg: Any, jobspec: Mapping[str, Any]) -> None:
        """Say whether a job could ever run; any might on nodes whose topology is to come."""
        if self._topology.asks:
            self.handle.respond(msg, None)
        else:
            super().feasibility_check(msg, jobspec)

    def usable(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """A resource update without nodes whose topology is not known yet."""
        return self._topology.filtered(data)

    def resource_update(self) -> None:
        """Nodes went up or down."""
        self._submissions.release()

    def _on_topology(self, localities_changed: bool) -> None:
        """Use nodes that got their topology."""
        if self._topology.complete:
            try:
                self._configuration.set_options(self.pool, True)
            except InvalidOption as e:
                self.log.error(str(e))
        if localities_changed:
            self._submissions.judge_again()
        self._submissions.release(found=True)
        self.start_schedule()

    def _on_windows(self) -> None:
        """Windows changed, opened, or are over."""
        self._submissions.windows_changed()
        self.start_schedule()

    # -- starting jobs

    def start_schedule(self) -> None:
        """Ask for a pass, because something has changed."""
        self._windows.follow()
        self._asked = True
        self._passes.wake()

    @property
    def _may_pass(self) -> bool:
        """Whether a pass may go on now; what is in its way asks for a pass when that is done."""
        if self._attached.lost or not self._held_back.known or self._windows.changing:
            return False
        if self._cancels.waits(self.cancelling > 0) or self._coming.waits(self.coming > 0):
            return False
        # The first job of the queue may be among what the scheduler was told.
        return not self._precedence.waits(bool(self.inbox))

    def schedule(self) -> Work:
        """Start and reserve what can be, in steps of a few milliseconds."""
        self.queue.follow()
        changes, passes = self._submissions, self._numbers.passes
        before, work = passes.count, passes.timed(self.queue.run())
        while self._may_pass:
            if changes.is_behind:
                changes.apply()
                self._applied = time.monotonic()
            elif changes.come and time.monotonic() >= self._applied + _CHANGES:
                changes.begin()
            elif next(work, _ENDED) is _ENDED:
                if not changes.come:
                    self._rest(passes.count > before)
                    return
                changes.begin()
                work = passes.timed(self.queue.run())
            yield None

    def _rest(self, worked: bool) -> None:
        """A pass has ended: wait until it is time for the next one, and tell the jobs of it."""
        wait = self.queue.next_time - time.time()
        self._passes.wake(min(wait, _LOOK) if self.queue.jobs else wait)
        if worked or self._asked:
            self._asked = False
            self._annotator.changed()

    def started(self, job: Waiting, allocation: Allocation, how: str) -> None:
        """Send a job's R on its way; if that fails, the job holds nothing and is answered."""
        annotations = {"resource_summary": allocation.summary, "selection_type": how}
        if self.pool.localities:
            annotations["locality"] = f"{self.pool.fitness(allocation, job.request).total:.2f}"
        passed = self.queue.passed(job)
        if passed is not None:
            annotations["backfill"] = JobID(passed.jobid).f58
        submission = self._submissions[job.jobid]
        if "preempts" in submission.told:
            annotations["preempts"] = submission.told["preempts"]
        submission.request.success(allocation, {"sched": annotations})
        self.origins[job.jobid] = self._submissions.leave(job.jobid).origin
        self._numbers.placed += 1

    def preempt(self, job: Waiting, victims: frozenset[int], new: frozenset[int]) -> None:
        """End *new* among *victims*, and tell them and *job* of each other."""
        queue = self._submissions[job.jobid].queue
        note = f"preempted by {JobID(job.jobid).f58}" + f" of queue {queue}" * bool(queue)
        for victim in sorted(new):
            self.end_job(victim, "preempt", note)
        self._numbers.preempted += len(new)
        names = [JobID(victim).f58 for victim in sorted(victims)[:_MOST_NAMED]]
        more = ["..."] * (len(victims) > _MOST_NAMED)
        self._submissions[job.jobid].tell({"preempts": ",".join(names + more)})

    def refused(self, job: Waiting, reason: str) -> None:
        """Deny a job that can never run."""
        self._submissions.refuse(job.jobid, reason)

    def failed(self, job: Waiting, error: Exception) -> None:
        """Deny a job on which the scheduler failed; it would hold up all others."""
        self._fail(job.jobid, error)

    def _fail(self, jobid: int, error: Exception) -> None:
        report(self.handle, error, JobID(jobid).f58)
        self._numbers.failed += 1
        self._submissions.leave(jobid).request.deny(failure(error))

    # -- what Protocol asks

    @property
    def settled(self) -> bool:
        """Whether all jobs that can start have started, and all others are planned."""
        changes = self._submissions
        judged = not (self._topology.asks or changes.is_behind or changes.come)
        return judged and self.queue.settled and self._held_back.known

    def end(self) -> None:
        """Refuse what waits for an answer."""
        self._answers.end()
        self._windows.end()

    def _owner_of(self, jobid: int) -> Owner:
        """The user, the Flux queues and the bank of a job that waits or runs."""
        user, queue, bank = self._submissions.origin_of(jobid) or (_NOBODY, "", "")
        return user, self._configuration.queues.lineage(queue), bank

    # -- numbers

    def stats(self, msg: Any) -> None:
        """Answer ``stats-get`` as the question for the numbers."""
        self._answers.stats(msg)

    def numbers(self) -> Generator[None, None, dict[str, Any]]:
        """What ``flux module stats sched-treepool`` shows."""
        queues, own = self._configuration.queues, self.options.rules
        lines = [name for name in queues.tables if queues.line(name) == name] or [""]
        rules = {name: own.get(name, own[""]) for name in lines}
        report = yield from self._numbers.report(self.queue, rules, self._submissions.deferred)
        stats: dict[str, Any] = super().stats_get()
        more = {
            "version": __version__,
            "sched_passes": report["passes"]["count"],
            "policy": own[""].policy,
            "hwloc": self._topology.stats,
        }
        return {**stats, **report, **more, "questions": len(self._answers)}


def mod_main(h: Any, *args: str) -> None:
    """Run the module until it is unloaded."""
    TreepoolScheduler(h, *args).run()
