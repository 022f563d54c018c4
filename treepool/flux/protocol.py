"""flux-core's scheduler protocol (RFC 27): load, hello, requests in their order, cancels, unload.

All private methods of flux-core's ``Scheduler`` that are overridden are here. Each says which hook
is missing; doc/upstream.md proposes them. Requests of the job manager and resource updates are put
into an inbox when they arrive, so that questions that come behind a thousand of them are answered
soon. Passes are asked for by ``start_schedule``, which flux-core lets a subclass replace.
"""

from __future__ import annotations

import syslog
from contextlib import suppress
from errno import EINVAL, ENOSYS
from typing import Any, Mapping

from flux.job import JobID, job_raise_async
from flux.scheduler import AllocRequest, Scheduler

from treepool.errors import PoolConflict
from treepool.flux import usertexts
from treepool.flux.callbacks import Timer, answered, report, then
from treepool.flux.context import Origin
from treepool.flux.garbage import Garbage, let_go
from treepool.flux.hello import held_of, read_held, running_jobs
from treepool.flux.questions import request_watcher
from treepool.flux.runner import TURN, Inbox, Runner

#: Private names of flux-core's Scheduler that are overridden or used here (doc/upstream.md).
PRIVATE = (
    "_acquire_resources",
    "_alloc_commit_continuation",
    "_apply_resource_update",
    "_handle_alloc",
    "_handle_cancel",
    "_handle_free",
    "_handle_prioritize",
    "_handle_stats_get",
    "_pending_args",
    "_sched_hello",
    "_sched_ready",
)

#: Seconds that the module waits at unload for allocations that are being written.
_LAST_WORDS = 10.0

#: Why a job is denied that has resources by its R, and not by its events.
_HAS_R = (
    "a scheduler that crashed has written its R, and Flux would refuse to allocate it again: "
    "submit it once more"
)


class Unusable(OSError):
    """R or an option that the scheduler cannot use, found when Flux takes it for running."""


class Protocol(Scheduler):  # type: ignore[misc]  # flux has no types
    """Calls ``alloc``, ``free``, ``cancel`` and ``prioritize`` in the order of the requests.

    It ends only when the job manager knows all that it has allocated. Otherwise the KVS could hold
    an R of a job that the job manager does not know of. It would find that R after a restart, and
    refuse the job's allocation from then on.
    """

    def __init__(self, h: Any, *args: str) -> None:
        usertexts.allow()  # a request that cannot be read ends the module
        super().__init__(h, *args)
        missing = [n for n in PRIVATE if not hasattr(Scheduler, n) and n not in vars(self)]
        if missing:
            names = ", ".join(missing)
            text = f"flux.scheduler.Scheduler of this flux-core has no {names} (doc/upstream.md)"
            h.log(syslog.LOG_ERR, text)
            raise OSError(ENOSYS, text)
        self.runner = Runner(h, self._on_idle)
        self.inbox = Inbox(h, self.runner, self.start_schedule)
        #: How many series of requests to cancel are done in part: no job may start.
        self.cancelling = 0
        #: How many more have arrived, and wait in the inbox for their turn.
        self.coming = 0
        #: Whether more of the last series may be on their way.
        self._asking = False
        #: The user, the Flux queue and the bank of each job that has resources.
        self.origins: dict[int, Origin] = {}
        #: How many allocations are being written to the KVS.
        self._committing = 0
        #: The requests that are answered once nothing is left to do.
        self._quiescent: list[Any] = []
        #: The last job that was submitted before this scheduler was ready.
        self._last_before = 0
        #: Whether it is loaded for Flux; whether it takes requests; whether it is being unloaded.
        self._is_running = self._is_ready = self.ending = False

    # -- for the subclass

    def begin(self) -> None:
        """The pool is made; raises ValueError, once it is logged, if it cannot be used."""

    def doubt(self, jobid: int) -> None:
        """Job *jobid* has resources that the pool does not record, or not all of them."""

    def telling(self, jobid: int) -> None:
        """The R of job *jobid* is in the KVS, and the job manager is about to be told."""

    def ready(self) -> None:
        """The job manager knows that this scheduler is ready."""

    def usable(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """A resource update as it is to be applied."""
        return data

    def stats(self, msg: Any) -> None:
        """Answer ``stats-get``."""

    def end(self) -> None:
        """The module is being unloaded: refuse what it has not answered."""

    @property
    def settled(self) -> bool:
        """Whether nothing is left to do of what was taken from the inbox."""
        return True

    def take_arguments(self) -> list[str]:
        """The arguments of the module that flux-core does not know."""
        given = list(self._pending_args)
        self._pending_args.clear()
        return given

    def end_job(self, jobid: int, kind: str, note: str) -> None:
        """End a job by an exception of this *kind*, unless it is over already."""

        def raised(future: Any) -> None:
            with suppress(FileNotFoundError):
                future.get()

        then(self.handle, job_raise_async(self.handle, jobid, kind, 0, note), raised)

    # -- from load to unload

    def run(self) -> None:
        """Run until the module is unloaded and no allocation is on its way.

        It ends at once if it cannot use R or an option, or at an error of its own. That is no error
        for Flux: one of a running module would end the broker, and with it all jobs.
        """
        try:
            super().run()
        except Unusable:
            return
        except Exception as e:
            if not self._is_running:  # the load fails, and nothing else
                taken = isinstance(e, FileExistsError)
                why = "a scheduler is loaded already, see flux module list" if taken else str(e)
                self.log.error(f"not loaded: {why}")
                raise
            report(self.handle, e, "this scheduler ends, jobs run on")
        self.ending = True
        self.runner.stop()
        if self._is_ready:
            self.end()
        for msg in self._quiescent:
            self.handle.respond_error(msg, ENOSYS, "the scheduler is being unloaded")
        if self._committing:
            stop = Timer(self.handle, self.stop)
            stop.set(_LAST_WORDS)
            try:
                self.handle.reactor_run()
            except Exception as e:
                report(self.handle, e, "at the end")
            stop.stop()

    def stop_error(self) -> None:
        """End at an error, unless it ends already: others of its allocations are on their way."""
        if not self.ending:
            super().stop_error()

    def set_running(self) -> None:
        """Let ``flux module load`` return: what goes wrong from now on is told by the log alone."""
        self._is_running = True
        super().set_running()

    def _acquire_resources(self) -> None:  # no hook between the pool and hello, nor for its errors
        try:
            super()._acquire_resources()
            self.begin()
        except ValueError as e:
            raise Unusable(EINVAL, str(e)) from None

    def _sched_hello(self) -> None:  # no hook: flux-core's ends at an R that is no JSON
        for told, R, events, jobspec in running_jobs(self.handle):
            jobid = told["id"]
            name = JobID(jobid).f58
            self.origins[jobid] = told["userid"], "", ""
            try:
                has = read_held(told, R, events)
            except (OSError, ValueError) as e:
                self.log.error(f"hello: {name}: its R cannot be read: {e}")
                self.doubt(jobid)
                continue
            self.taking_over(jobid, jobspec, events)
            try:
                self.hello(jobid, told["priority"], told["userid"], told["t_submit"], has)
            except PoolConflict as e:
                self.log.error(f"hello: {name} is ended: {e}")
                self.doubt(jobid)
                why = "failed to reallocate R for running job"
                self.end_job(jobid, "scheduler-restart", why)

    def _sched_ready(self) -> None:  # no hook after it
        submitted = self.handle.rpc("job-manager.getinfo").get()
        self._last_before = submitted.get("max_jobid", 0)
        super()._sched_ready()
        self.ready()
        self._garbage = Garbage()
        self._is_ready = True
        ask = request_watcher(self.handle, "sched.quiescent", self._on_quiescent, guests=False)
        self._asked_quiescent = ask  # it must live as long as this

    # -- what arrives

    def _apply_resource_update(self, data: Mapping[str, Any]) -> None:  # no hook before it applies
        self.inbox.put(lambda: self._update(data))

    def _on_quiescent(self, msg: Any) -> None:
        """Answer once all is done that the scheduler was told before: ``sched.quiescent``."""
        self._quiescent.append(msg)
        self._tell_quiescent()

    def _on_idle(self) -> None:
        self._tell_quiescent()
        self._garbage.idle()

    def _tell_quiescent(self) -> None:
        if self._quiescent and self.settled and not self.inbox and not self._committing:
            asked, self._quiescent = self._quiescent, []
            for msg in asked:
                self.handle.respond(msg, {"status": 0, "alloc_current": len(self.origins)})

    def _update(self, data: Mapping[str, Any]) -> None:
        super()._apply_resource_update(self.usable(data))

    def _handle_alloc(self, msg: Any) -> None:  # no hook: acted on later
        told = msg.payload
        if told["id"] > self._last_before:
            self.inbox.put(lambda: self._take_alloc(msg, told))
            return
        # The job manager would refuse to allocate a job that has an R, and then all others.
        asked = self.handle.rpc("job-manager.getattr", {"id": told["id"], "attrs": ["R"]})
        self.inbox.put_answer(asked, lambda answer: self._take_old(msg, told, answer))

    def _handle_free(self, msg: Any) -> None:  # no hook, as for alloc
        self.inbox.put(lambda: self._take_free(msg.payload))

    def _handle_cancel(self, msg: Any) -> None:  # no hook, as for alloc
        self._await_cancels()
        self.inbox.put(lambda: self.cancel(msg.payload["id"]))

    def _handle_prioritize(self, msg: Any) -> None:  # no hook, as for alloc
        self.inbox.put(lambda: self.prioritize(msg.payload.get("jobs", [])))

    def _handle_stats_get(self, msg: Any) -> None:  # no hook: the answer takes several steps
        answered(self.handle, self.stats)(msg)

    def _take_alloc(self, msg: Any, told: Any) -> None:
        names = "id", "priority", "userid", "t_submit", "jobspec"
        request = AllocRequest(self, msg)
        try:
            self.alloc(request, *(told[name] for name in names))
        except Exception as e:
            request.deny(failure(e))
            raise

    def _take_old(self, msg: Any, told: Any, answer: Any) -> None:
        """Take the request of a job that was there before this scheduler: it must have no R."""
        try:
            answer.get()
        except OSError:
            self._take_alloc(msg, told)
        else:
            self.log.error(f"{JobID(told['id']).f58} is denied: {_HAS_R}")
            self.doubt(told["id"])
            AllocRequest(self, msg).deny(_HAS_R)

    def _take_free(self, told: Any) -> None:
        self.free(told["id"], held_of(told["R"]["execution"]), told.get("final", False))

    def _await_cancels(self) -> None:
        """Start no job until the job manager has sent all it cancels now.

        When a queue is stopped, the job manager cancels one pending request after another. A pass
        between two of them would start jobs that those cancelled first were holding back. All
        arrive before the answer to a question that is asked now. Those that arrive after the answer
        are another series.
        """
        if not self._asking:
            self._asking = True
            self.coming += 1
            self.inbox.put(self._begin_cancels)
            then(self.handle, self.handle.rpc("job-manager.getinfo"), self._on_cancels)

    def _begin_cancels(self) -> None:
        self.coming -= 1
        self.cancelling += 1

    def _on_cancels(self, _future: Any) -> None:
        self._asking = False
        self.inbox.put(self._end_cancels)

    def _end_cancels(self) -> object:
        self.cancelling -= 1
        return TURN  # no series is done in part now: that is when others may work

    # -- allocations

    def alloc_success(self, msg: Any, R: Any, annotations: Any = None) -> None:
        """Write a job's R to the KVS, then tell the job manager."""
        super().alloc_success(msg, R, annotations)
        self._committing += 1

    def _alloc_commit_continuation(self, future: Any, args: Any) -> None:  # no hook: counted
        self.telling(args[0].payload["id"])
        super()._alloc_commit_continuation(future, args)
        let_go(future)
        self._committing -= 1
        self._tell_quiescent()
        if self.ending and not self._committing:
            self.stop()


def failure(error: Exception) -> str:
    """What a user is told where *error*, which is treepool's own, ends his job."""
    return f"the scheduler failed on this job: {type(error).__name__}: {error}"
