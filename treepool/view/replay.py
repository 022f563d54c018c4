"""Replay of a trace, or on from a snapshot: the rules and nodes of each queue, and when jobs end.

Time is that of the trace and jumps from event to event: jobs end, jobs are submitted, and jobs
start as ``sched-treepool`` would start them, by the same Queue, in the order of priority, then of
submission. A job ends after its duration, or at its limit if that is earlier. The plan only knows
the limit, as in a real scheduler.

The replay of a snapshot goes on from there: all jobs end at their limits, because nobody knows
better, and those that wait keep their queues and priorities. What would start only after jobs
without a limit have ended is not told.
"""

from __future__ import annotations

import heapq
import json
import math
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence

import attrs

from treepool.errors import InfeasibleRequest, InvalidInput, InvalidShape, Reason
from treepool.placement.allocation import Allocation
from treepool.placement.nodes.parts import size
from treepool.placement.nodes.state import Held
from treepool.placement.plan.jobs import CENTURY, FAR, Rule, Terms, Waiting, finish
from treepool.placement.plan.queue import Queue
from treepool.placement.plan.windows import admitting
from treepool.placement.pool import Pool
from treepool.placement.request.vertices import Request
from treepool.rfc import jobspec
from treepool.rfc.rset import ResourceSet
from treepool.rfc.shape import parse_shape
from treepool.view.model import OTHER
from treepool.view.places import settled
from treepool.view.snapshot import Pending, Snapshot
from treepool.view.tally import Point, Tally, Waits, quantile
from treepool.view.trace import InvalidTrace, TraceJob

#: Most refused jobs that are listed by name.
MAX_REFUSED = 100

#: Called for each job that starts, with the time and the allocation.
Watcher = Callable[[TraceJob, float, Allocation], None]


@attrs.frozen
class Rules:
    """How jobs are started: the options of the scheduler module.

    ``policy`` is fifo, easy or conservative; ``depth`` jobs get reservations. ``pool`` has the
    options of Pool. Without ``fabric``, jobs are placed as if nothing were known of what is above
    the nodes; without ``preemption`` no job is ended for another. In the replay of a snapshot its
    own options hold but for those that are ``given``.
    """

    name: str = ""
    policy: str = "easy"
    depth: float = 1
    pool: dict[str, str] = attrs.field(factory=dict)
    fabric: bool = True
    preemption: bool = True
    given: frozenset[str] = frozenset()

    def queue_rules(self, snapshot: Optional[Snapshot]) -> tuple[Rule, dict[str, Rule]]:
        """The rule of all queues, and by name those of queues that have others."""
        if snapshot is None or "policy" in self.given:
            return Rule(self.policy, self.depth), {}
        rule, own = snapshot.rules
        if "reservation-depth" in self.given:
            rule = attrs.evolve(rule, depth=self.depth)
            own = {name: attrs.evolve(one, depth=self.depth) for name, one in own.items()}
        return rule, own


@attrs.frozen
class Progress:
    """How far a replay is: how many of all ``jobs`` are ``over``, and the ``time`` of the trace."""

    over: int
    jobs: int
    time: float

    @property
    def share(self) -> float:
        """The share of jobs that are over, 0 to 1."""
        return self.over / max(1, self.jobs)


@attrs.frozen
class StartTime:
    """When a job of a snapshot starts, in seconds since the epoch, and how long after the snapshot.

    Both are None if that is not told.
    """

    job: str
    start: Optional[float] = None
    after: Optional[float] = None


@attrs.frozen
class Scatter:
    """Domains of a locality that the ``jobs`` of several nodes span, over the fewest possible."""

    locality: str
    jobs: int
    mean: Optional[float]
    p95: Optional[float]


@attrs.frozen
class Outcome:
    """The result of a trace under some rules; times in seconds, shares from 0 to 1.

    ``span`` is the time from the first submission to the last end, ``last_start`` that to the last
    start: until then jobs come or wait. The shares of cores and GPUs that are in use, and of GPUs
    that are stranded (placement/choose/mix.py), are means until the last start, or over ``span`` if
    all jobs start at once, relative to all cores and GPUs. Of the ``slots``, ``local`` sit in the
    smallest kind of domain that an idle node could offer. ``spreads`` are those of the localities
    above the nodes. ``refused`` names jobs that the cluster could never serve, with the reasons;
    ``nrefused`` is their number. ``cluster`` is a name for the cluster, if there are several.
    ``preempted`` jobs were ended for others, which had run for ``lost`` core seconds.
    ``starts`` has the jobs that waited in a snapshot. A replay that was stopped has numbers up to
    then, ``span`` and the means too, and ``unstarted`` jobs; they are None otherwise.
    """

    rules: Rules
    jobs: int
    nrefused: int
    refused: tuple[tuple[TraceJob, str], ...]
    span: float
    last_start: float
    cores: int
    gpus: int
    cores_used: float
    gpus_used: float
    gpus_stranded: float
    wait: Waits
    slots: int
    local: int
    spreads: tuple[Scatter, ...]
    curve: tuple[Point, ...]
    starts: tuple[StartTime, ...] = ()
    cluster: str = ""
    preempted: int = 0
    lost: float = 0.0
    unstarted: Optional[int] = None


def replay(
    resource_set: ResourceSet,
    jobs: Sequence[TraceJob],
    rules: Rules,
    progress: Callable[[Progress], None] = lambda done: None,
    watch: Optional[Watcher] = None,
    snapshot: Optional[Snapshot] = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Run *jobs*, in order of submission, on an idle cluster under *rules*.

    With a *snapshot*, the cluster is as it was there, and *jobs* are those that waited (see
    ``continued``). *progress* is told after each event; once *stopped*, the replay ends with what
    is known. Raises InvalidTrace for a job whose request is invalid, and InvalidInput for invalid
    rules or an invalid cluster.
    """
    run = _Run(resource_set, jobs, rules, watch, snapshot)
    for done in run.events():
        progress(done)
        if stopped():
            return run.outcome(partial=True)
    return run.outcome()


def continued(snapshot: Snapshot) -> list[TraceJob]:
    """The jobs that start one day if *snapshot* goes on: no queue of theirs is stopped."""
    stopped = snapshot.stopped
    return [job.traced for job in snapshot.pending if job.traced.queue not in stopped]


class _Run:
    """A replay in progress: the owner of a queue whose clock is the trace's."""

    def __init__(
        self,
        resource_set: ResourceSet,
        jobs: Sequence[TraceJob],
        rules: Rules,
        watch: Optional[Watcher],
        snapshot: Optional[Snapshot],
    ) -> None:
        self.resource_set, self.snapshot = resource_set, snapshot
        self.began = jobs[0].submit if jobs else 0.0
        if snapshot is not None:
            self.began = snapshot.time
        #: The cluster with its fabric, which says whether a request is valid.
        self.whole_pool = self.pool = self._pool(resource_set)
        self.pool.change_options(**rules.pool)
        if not rules.fabric:
            self.pool = self._pool(_without_fabric(resource_set))
            self.pool.follow_options(**self.whole_pool.options)
        self.pool.set_expiration(0.0)
        self.queue = Queue(self.pool, self, lambda: self.now, *rules.queue_rules(snapshot))
        self.rules = rules
        self.jobs = jobs
        self.watch = watch
        self.tally = Tally(resource_set, self.pool.situation.policy.mix)
        self.now = 0.0
        self.running: list[tuple[float, int]] = []
        self.held: dict[int, tuple[Held, ...]] = {}
        self.refusals: list[tuple[TraceJob, str]] = []
        self.nrefused = 0
        self.ran = 0
        self.preempted, self.lost = 0, 0.0
        #: When each running job started.
        self.since: dict[int, float] = {}
        self._requests: dict[tuple[str, str], Request] = {}
        #: Of a snapshot: its jobs by the place of each in it, and when each started.
        self.waited: dict[str, Pending] = {}
        self.starts: dict[str, StartTime] = {}
        if snapshot is not None:
            self._go_on(snapshot)

    def _pool(self, resource_set: ResourceSet) -> Pool:
        if self.snapshot is None:
            return Pool(resource_set)
        return self.snapshot.pool(resource_set, self.began)

    def _go_on(self, snapshot: Snapshot) -> None:
        """Let the windows and the running jobs of *snapshot* be there."""
        self.waited = {job.traced.place: job for job in snapshot.pending}
        self.starts = {traced.name: StartTime(traced.name) for traced in self.jobs}
        self.windows, known = snapshot.windows_since(self.began), snapshot.jobs
        self.queue.set_windows(self.windows)
        for jobid, end in self.pool.job_end_times():
            job = self.pool.job(jobid)
            assert job is not None
            allocation = Allocation(self.pool.inventory, job.parts, 1)
            heapq.heappush(self.running, (end or CENTURY, jobid))
            self.tally.hold(job.parts)
            self.held[jobid] = job.parts
            if self.watch is not None:
                name = known[jobid].name if jobid in known else OTHER
                length = end or CENTURY
                traced = TraceJob("", name, self.began, length, length, "had this already")
                self.watch(traced, self.began, allocation)

    def events(self) -> Iterator[Progress]:
        """Run all events; says after each, and after each step of the plan, how far they are."""
        submitted, total = 0, len(self.jobs)
        while submitted < total or self.running or self.queue.jobs:
            time = self.running[0][0] if self.running else math.inf
            if submitted < total:
                time = min(time, self._arrival(submitted))
            time = min(time, self.queue.next_time)
            if self.snapshot is not None and time >= FAR:  # only jobs without a limit end then
                return
            if time == math.inf:
                self._give_up()
                continue
            self.now = time
            self.tally.advance(time)
            while self.running and self.running[0][0] <= time:
                number = heapq.heappop(self.running)[1]
                if number in self.held:  # otherwise it was preempted
                    self._end(number)
            while submitted < total and self._arrival(submitted) <= time:
                self._submit(submitted + 1, self.jobs[submitted])
                submitted += 1
            for _ in self.queue.run():
                yield self._progress()
            yield self._progress()

    def _progress(self) -> Progress:
        over = max(0, self.ran - len(self.held) + self.nrefused)
        return Progress(over, len(self.jobs), self.began + self.now)

    def _end(self, number: int) -> None:
        """A running job ends."""
        self.pool.free(number)
        self.tally.end(self.held.pop(number))
        self.since.pop(number, None)

    def _arrival(self, number: int) -> float:
        """When a job is submitted; one of a snapshot is there from the beginning."""
        return 0.0 if self.snapshot is not None else self.jobs[number].submit - self.began

    def outcome(self, partial: bool = False) -> Outcome:
        """The numbers, after all events or a part of them."""
        tally, span = self.tally, self.now
        upto, total = tally.last_start, tally.until_then
        if partial or not tally.last_start:
            upto, total = span, tuple(tally.curve.total)
        whole_cores, whole_gpus = tally.ncores * upto, tally.ngpus * upto
        return Outcome(
            rules=self.rules,
            jobs=self.ran,
            nrefused=self.nrefused,
            refused=tuple(self.refusals),
            span=span,
            last_start=tally.last_start,
            cores=tally.ncores,
            gpus=tally.ngpus,
            cores_used=_share(total[0], whole_cores),
            gpus_used=_share(total[1], whole_gpus),
            gpus_stranded=_share(total[2], whole_gpus),
            wait=Waits.of(tally.waits),
            slots=tally.slots,
            local=tally.local,
            spreads=tuple(_spread(name, sorted(v)) for name, v in tally.spreads.items()),
            curve=tuple(tally.curve.points()),
            starts=tuple(self.starts.values()),
            preempted=self.preempted,
            lost=self.lost,
            unstarted=len(self.jobs) - self.ran - self.nrefused if partial else None,
        )

    # -- jobs come

    def _submit(self, number: int, traced: TraceJob) -> None:
        try:
            request = self._request(traced)
            self.pool.check_feasibility(request)
        except InfeasibleRequest as e:
            self._refuse(traced, str(e))
            return
        limited = attrs.evolve(request, duration=traced.limit)
        submitted = traced.submit - self.began
        after = traced.preemptible_after if self.rules.preemption else math.inf
        new = self.queue.waiting(
            *(number, traced.priority, limited, frozenset(), traced.queue, submitted, self.now),
            terms=Terms(after, after == math.inf),
        )
        if self.snapshot is not None:
            new = self._waiting(number, self.snapshot, limited, submitted)
        self.queue.add(new)
        self.tally.submit()

    def _waiting(
        self, number: int, snapshot: Snapshot, request: Request, submitted: float
    ) -> Waiting:
        """A job of *snapshot* as the queue sees it."""
        traced = self.jobs[number - 1]
        user, queues, bank = snapshot.owner_of(self.waited[traced.place])
        admitted = admitting(self.windows, user, queues, bank)
        return self.queue.waiting(
            number, traced.priority, request, admitted, queues[0], submitted, self.now, user
        )

    def _request(self, traced: TraceJob) -> Request:
        """The request of *traced* without its duration; equal requests share the object.

        Raises InfeasibleRequest for a job that names what only the fabric has, if that is ignored.
        """
        constraint = self._constraint(traced)
        asked = dict(traced.options)
        if traced.locality is not None:
            asked["locality"] = traced.locality
        key = traced.shape, json.dumps([constraint, asked], sort_keys=True)
        request = self._requests.get(key)
        if request is None:
            try:
                spec = jobspec.from_resources(
                    parse_shape(traced.shape), constraints=constraint, options=asked or None
                )
                request = self.whole_pool.parse_resource_request(spec)
            except InvalidShape as e:
                raise InvalidTrace(f"{traced.place}: shape: {e.line}") from None
            except InvalidInput as e:
                raise InvalidTrace(f"{traced.place}: {e}") from None
            if not self.rules.fabric:
                try:
                    request = self.pool.parse_resource_request(spec)
                except InvalidInput as e:
                    raise InfeasibleRequest(
                        Reason("locality", f"without the fabric, {e}")
                    ) from None
            self._requests[key] = request
        return request

    def _constraint(self, traced: TraceJob) -> Optional[Mapping[str, Any]]:
        """The nodes that *traced* may use: those of its queue, and of them what it says itself.

        A job of a snapshot says both itself.
        """
        if self.snapshot is not None:
            return traced.constraint
        for name in (traced.queue, f"+{traced.queue}"):  # RFC 33: ``requires``, ``hosts``
            if name in self.resource_set.properties:
                of_queue = {"properties": [name]}
                return {"and": [of_queue, traced.constraint]} if traced.constraint else of_queue
        return traced.constraint

    # -- jobs leave the queue

    def started(self, job: Waiting, allocation: Allocation, how: str) -> None:
        """Let *job* run."""
        traced, request = self.jobs[job.jobid - 1], job.job_class.request
        self.ran += 1
        heapq.heappush(self.running, (self.now + traced.runs, job.jobid))
        wait = max(0.0, self.now - (traced.submit - self.began))
        ask = settled(self.pool.situation, request, allocation.parts)
        self.tally.start(self.now, wait, ask, allocation.parts)
        self.held[job.jobid] = allocation.parts
        self.since[job.jobid] = self.now
        if self.snapshot is not None:
            self.starts[traced.name] = StartTime(traced.name, self.began + self.now, self.now)
        if self.watch is not None:
            self.watch(traced, self.began + self.now, allocation)

    def preempt(self, job: Waiting, victims: frozenset[int], new: frozenset[int]) -> None:
        """End *victims* at once."""
        for number in new:
            cores, _ = size(self.held[number])
            self.lost += cores * (self.now - self.since[number])
            self.preempted += 1
            heapq.heappush(self.running, (self.now, number))

    def refused(self, job: Waiting, reason: str) -> None:
        """Count *job* among those that the cluster cannot serve."""
        self._refuse(self.jobs[job.jobid - 1], reason)
        self.tally.withdraw()

    def failed(self, job: Waiting, error: Exception) -> None:
        """End the replay: a bug, or Ctrl-C."""
        raise error

    def _give_up(self) -> None:
        """Refuse the first job: no other job blocks it, but the bounded search finds no place."""
        job = min(self.queue.jobs.values(), key=lambda job: job.place)
        self.queue.remove(job.jobid)
        self.refused(job, "there is room for it, but no way was found to place it")
        finish(self.queue.run())

    def _refuse(self, traced: TraceJob, reason: str) -> None:
        self.nrefused += 1
        if len(self.refusals) < MAX_REFUSED:
            self.refusals.append((traced, reason))


def _without_fabric(resource_set: ResourceSet) -> ResourceSet:
    key = resource_set.scheduling or {}
    left = {name: value for name, value in key.items() if name != "fabric"}
    return attrs.evolve(resource_set, scheduling=left or None)


def _spread(locality: str, values: list[float]) -> Scatter:
    mean = math.fsum(values) / len(values) if values else None
    return Scatter(locality, len(values), mean, quantile(values, 0.95))


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
