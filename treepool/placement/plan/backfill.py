"""Reservations and backfill: which jobs may start now without delaying those ahead of them.

A plan belongs to one state of a pool. The caller offers it jobs in the order of the queue. A job
that does not fit now may get a *reservation*: the earliest time at which it fits, and the cores and
GPUs it would then get. The plan finds them by simulating the end of jobs on a copy of the pool.
Afterwards, a job may start now only on resources that are free and not in any reservation that
begins before the job ends. Jobs end at their time limits at the latest, so a reserved job starts no
later than its reservation says. It may get other resources then, because the next plan starts from
scratch.

A job without a time limit ends at infinity. A job that waits for one has a reservation at infinity.
That reservation keeps other jobs without a limit off its resources and does not affect the rest.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from typing import Optional

import attrs

from treepool.errors import InsufficientResources
from treepool.placement.allocation import Allocation
from treepool.placement.nodes.state import Held
from treepool.placement.pool import Pool
from treepool.placement.request.vertices import Request


@attrs.frozen
class Reservation:
    """When a waiting job starts and ends, in seconds since the epoch, and what it gets."""

    jobid: int
    start: float
    end: float
    parts: tuple[Held, ...]

    def before(self, end: float) -> bool:
        """Whether this job starts before *end*, or both times are infinity."""
        return self.start < end or self.start == end == math.inf

    def between(self, start: float, end: float) -> bool:
        """Whether this job runs at some time between *start* and *end*, which may be infinity."""
        return self.before(end) and self.end > start


class Plan:
    """The reservations for one state of a pool, and the jobs started beside them."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.generation = pool.generation
        self.reservations: list[Reservation] = []
        #: Copies of the pool in which the first reservations by start are occupied, by the number
        #: of these reservations.
        self._without: dict[int, Pool] = {}
        #: Requests (by id) known not to fit, and the number of reservations they must avoid.
        self._failed: set[tuple[int, int]] = set()
        self._kept: list[Request] = []

    @property
    def current(self) -> bool:
        """Whether the pool is still in the state in which this plan left it."""
        return self.pool.generation == self.generation

    def start(self, jobid: int, request: Request, kind: Request, now: float) -> Allocation:
        """Start a job now if that delays no reservation.

        *kind* is the request without its duration. It is the same object for all jobs that are
        known to have equal requests. The returned allocation has its expiration set. Raises
        InsufficientResources or InfeasibleRequest.
        """
        end = _end(now, request.duration)
        # Reservations whose start has passed count too: their jobs still wait for a late one.
        avoid = sorted((r for r in self.reservations if r.before(end)), key=_by_start)
        known = id(kind), len(avoid)
        if known in self._failed:
            raise InsufficientResources("no more than a moment ago")
        ends = end if request.duration > 0 else self.pool.expiration
        try:
            if not avoid:
                allocation = self.pool.alloc(jobid, request)
                allocation.set_expiration(ends)
                self.pool.update_expiration(jobid, ends)
            else:
                allocation = self._pool_without(avoid).alloc(jobid, request)
                allocation.set_expiration(ends)
                self.pool.register_alloc(jobid, allocation)
        except InsufficientResources:
            self._failed.add(known)
            self._kept.append(kind)  # keep it alive, so that no other object gets its id
            raise
        self._without.clear()
        self.generation = self.pool.generation
        return allocation

    def withdraw(self, jobid: int) -> None:
        """Free what ``start`` gave job *jobid*, if anything; the reservations stay unchanged."""
        if self.pool.has_job(jobid):
            self.pool.free(jobid)
            self._without.clear()
            self.generation = self.pool.generation

    def reserve(
        self, jobid: int, request: Request, now: float, not_before: float = 0.0
    ) -> Optional[Reservation]:
        """Reserve the earliest time at which a job can start without delaying a reservation.

        The time may be infinity. None if the job could not start even after all jobs have ended,
        because resources that it needs are down.
        """
        then = self.pool.copy()
        running = sorted((end or math.inf, job) for job, end in then.job_end_times())
        found = _first_that_fits(then, running, jobid, request, now)
        if found is None:
            return None
        then, over = found
        time = max(now, running[over - 1][0]) if over else now
        del running[:over]  # a sorted list is a heap, and so is its tail
        ends = sorted({r.end for r in self.reservations if r.end > time}, reverse=True)
        while True:
            while running and running[0][0] <= time:
                then.free(heapq.heappop(running)[1])
            while ends and ends[-1] <= time:
                ends.pop()
            if time >= not_before:
                allocation = self._fit(then, jobid, request, time)
                if allocation is not None:
                    break
            if not running and not ends:
                return None
            time = min([*(end for end, _ in running[:1]), *ends[-1:]])
        reservation = Reservation(jobid, time, _end(time, request.duration), allocation.parts)
        self.reservations.append(reservation)
        self._without.clear()
        self._failed = {known for known in self._failed if known[1] == 0}
        return reservation

    def _fit(self, then: Pool, jobid: int, request: Request, time: float) -> Optional[Allocation]:
        """What a job gets at *time* beside the other reservations; *then* stays unchanged."""
        try:
            allocation = then.alloc(jobid, request)
            then.free(jobid)
            end = _end(time, request.duration)
            beside = [r for r in self.reservations if r.between(time, end)]
            if beside:
                trial = then.copy()
                _occupy(trial, beside)
                allocation = trial.alloc(jobid, request)
        except InsufficientResources:
            return None
        return allocation

    def _pool_without(self, avoid: list[Reservation]) -> Pool:
        """A copy of the pool in which the reservations *avoid* are occupied.

        They are always the first reservations by start, so their number identifies them.
        """
        found = self._without.get(len(avoid))
        if found is None:
            found = self._without[len(avoid)] = self.pool.copy()
            _occupy(found, avoid)
        return found


def _first_that_fits(
    pool: Pool, running: list[tuple[float, int]], jobid: int, request: Request, now: float
) -> Optional[tuple[Pool, int]]:
    """A copy of *pool* in which a job fits, and how many *running* jobs have ended there.

    The jobs in *running* are sorted by end. The number is the smallest possible one. It includes
    all jobs that are over *now*, and all jobs that end at the same time. None if the job does not
    fit even after all of them. Reservations are ignored. A job that fits still fits when more is
    free, so the number is found by doubling steps, then by bisection: some twenty trials for a
    thousand running jobs, instead of hundreds.
    """
    count = len(running)
    ends = [k for k in range(1, count) if running[k - 1][0] < running[k][0]] + [count] * (count > 0)
    late = bisect_right(running, (now, math.inf))
    marks = [late, *ends[bisect_right(ends, late) :]]
    low, high, step = 0, len(marks), 1  # marks[:low] are too few, marks[high] is known to be enough
    base, done = pool, 0  # in base, the first done jobs are over
    best = None
    while low < high:
        middle = min(low + step - 1, high - 1) if best is None else (low + high) // 2
        trial = base.copy()
        for _, job in running[done : marks[middle]]:
            trial.free(job)
        if _fits(trial, jobid, request):
            high, best = middle, trial
        else:
            low, base, done, step = middle + 1, trial, marks[middle], 2 * step
    return None if best is None else (best, marks[high])


def _fits(pool: Pool, jobid: int, request: Request) -> bool:
    try:
        pool.alloc(jobid, request)
    except InsufficientResources:
        return False
    pool.free(jobid)
    return True


def _occupy(pool: Pool, reservations: list[Reservation]) -> None:
    for reservation in reservations:
        pool.occupy(reservation.jobid, reservation.parts)


def _end(start: float, duration: float) -> float:
    return start + duration if duration > 0 else math.inf


def _by_start(reservation: Reservation) -> tuple[float, int]:
    return reservation.start, reservation.jobid
