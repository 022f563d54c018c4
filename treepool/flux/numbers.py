"""What the scheduler counts and measures of itself, for ``status --prometheus`` and statistics."""

from __future__ import annotations

import time
from collections import deque
from typing import Any, Generator, Iterator, Mapping, Optional

from treepool.flux.callbacks import guarded
from treepool.placement.held import HELD_BACK
from treepool.placement.nodes.kept import kept_in
from treepool.placement.nodes.usable import PER_GPU
from treepool.placement.plan.jobs import Rule
from treepool.placement.plan.queue import Queue
from treepool.placement.pool import Pool
from treepool.rfc import idset

#: Passes of which the median and the 99th percentile are taken.
_PASSES = 1024

#: Seconds that no step may take (doc/design.md, "In time").
_LONG = 0.02

#: Node states that are looked at, and jobs that are counted, between two yields.
_STATES, _JOBS = 64, 4096


class Passes:
    """How long passes over the queue take: their own work, without other events in between."""

    def __init__(self) -> None:
        self._last: deque[float] = deque(maxlen=_PASSES)
        self._spent = 0.0
        #: How many there were in which there was something to do.
        self.count = 0
        self._sum = self._worst = 0.0

    def timed(self, work: Generator[None, None, bool]) -> Iterator[None]:
        """*work*, which is one pass or the rest of one, and returns whether there was anything."""
        while True:
            began = time.perf_counter()
            try:
                next(work)
            except StopIteration as e:
                if not (self._spent or e.value):  # there was nothing to do
                    return
                self._spent += time.perf_counter() - began
                self._last.append(self._spent)
                self._worst = max(self._worst, self._spent)
                self._sum += self._spent
                self.count += 1
                self._spent = 0.0
                return
            self._spent += time.perf_counter() - began
            yield

    def to_dict(self) -> dict[str, float]:
        """The numbers, in seconds."""
        ordered = sorted(self._last) or [0.0]
        return {
            "count": self.count,
            "sum": self._sum,
            "median": ordered[len(ordered) // 2],
            "p99": ordered[len(ordered) * 99 // 100],
            "worst": self._worst,
        }


class Steps:
    """How long the module keeps others waiting: its work between two looks for events.

    A step is CPU time of this thread, so that other programs on the machine do not count. *handle*
    calls back before each look.
    """

    def __init__(self, handle: Any) -> None:
        self._watcher = handle.prepare_watcher_create(guarded(handle, lambda *_: self._end()))
        #: When the present step began; None before the first.
        self._began: Optional[float] = None
        self._sum = self._worst = 0.0
        self._count = self._long = 0
        self._watcher.start()

    def _end(self) -> None:
        now = time.thread_time()
        began, self._began = self._began, now
        if began is None:
            return
        spent = now - began
        self._count += 1
        self._sum += spent
        self._long += spent > _LONG
        self._worst = max(self._worst, spent)

    def to_dict(self) -> dict[str, float]:
        """How many steps there were, and how many were long; all and the longest in seconds."""
        return {
            "count": self._count,
            "long": self._long,
            "sum": self._sum,
            "worst": self._worst,
        }


class Numbers:
    """What is counted since the module was loaded, and what is true now."""

    def __init__(self, handle: Any) -> None:
        self.passes = Passes()
        self.steps = Steps(handle)
        self.placed = self.refused = self.failed = self.preempted = 0

    def report(
        self, queue: Queue, rules: Mapping[str, Rule], deferred: int
    ) -> Generator[None, None, dict[str, Any]]:
        """All of it, by name; *rules* has those of the queues that are configured."""
        pool = queue.pool
        queues = yield from queues_of(queue, rules)
        free = yield from free_of(pool)
        jobs = {name: getattr(self, name) for name in ("placed", "refused", "failed", "preempted")}
        return {
            "pending_jobs": len(queue.jobs) + deferred,
            "running_jobs": sum(jobid != HELD_BACK for jobid, _ in pool.job_end_times()),
            "reservations": len(queue.reservations),
            "windows": len(queue.windows),
            "localities": list(pool.localities),
            "passes": self.passes.to_dict(),
            "steps": self.steps.to_dict(),
            "jobs": {**jobs, "deferred": deferred},
            "queues": queues,
            "free": {name: int(number) for name, number in free.items()},
            "states": len(pool.situation.index.buckets),
            "holdings": len(queue.profile.holdings),
            "given_up": pool.situation.given_up.count,
        }


def queues_of(
    queue: Queue, rules: Mapping[str, Rule]
) -> Generator[None, None, dict[str, dict[str, Any]]]:
    """Policy, depth, and the waiting jobs and those with a reservation, of each Flux queue:
    of those in *rules*, and of others that have had jobs."""
    found: dict[str, dict[str, Any]] = {}
    for name, rule in {**rules, **{name: rule for name, rule, _ in queue.lines()}}.items():
        told = {"policy": rule.policy, "depth": rule.shown_depth}
        found[name] = {**told, "waiting": 0, "reserved": 0}
    for count, job in enumerate(list(queue.jobs.values()), 1):
        numbers = found.get(job.queue)
        if numbers is not None:
            numbers["waiting"] += 1
            numbers["reserved"] += job.jobid in queue.reservations
        if count % _JOBS == 0:
            yield
    return found


def free_of(pool: Pool) -> Generator[None, None, dict[str, float]]:
    """What is free on nodes that are up; how many of the GPUs are stranded, some of them in part,
    and how many of the cores are kept for jobs with GPUs."""
    found = dict.fromkeys(("cores", "gpus", "gpus_stranded", "cores_kept"), 0.0)
    mix = pool.situation.policy.mix
    each = 1 if mix.kinds else _STATES  # a mix takes up to some milliseconds for a state
    buckets = pool.situation.index.buckets
    # Counted first: the nodes may change their states between two yields.
    sizes = [(state, idset.size(ranks)) for state, ranks in buckets.items()]
    for count, (state, nodes) in enumerate(sizes, 1):
        found["cores"] += nodes * state.ncores
        found["gpus"] += nodes * state.ngpus
        found["gpus_stranded"] += nodes * mix.stranded(state.type, state.cores, state.gpus)
        found["cores_kept"] += nodes * kept_in(state, pool.gpu_cores)
        if count % each == 0:
            yield
    found["gpus_stranded"] /= PER_GPU
    return found
