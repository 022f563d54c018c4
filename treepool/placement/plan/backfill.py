"""Reservations and backfill: which jobs may start now without delaying those ahead of them.

A plan belongs to one state of a pool. Jobs are put to it in the order of the queue. One that does
not fit now may get a *reservation*: the earliest time at which it fits, with the very cores and
GPUs it will then have, found by letting time pass on a copy of the pool. From then on a job may
start now only on resources that are free now and are in no reservation that begins before the
job ends. Jobs end when their time limits say, so a reserved job starts no later than its
reservation says; it may get other resources then, because the next plan is made afresh.

The time of jobs without limit is infinity: a job that waits for one of them has a reservation at
infinity, which keeps other jobs without limit off its resources and lets all others pass.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from typing import Optional

import attrs

from treepool.errors import InsufficientResources
from treepool.placement.allocation import Allocation
from treepool.placement.nodes.inventory import Held
from treepool.placement.pool import Pool
from treepool.placement.request.vertices import Request


@attrs.frozen
class Reservation:
    """When a waiting job will start and end, in seconds since the epoch, and what it will have."""

    jobid: int
    start: float
    end: float
    parts: tuple[Held, ...]

    def before(self, end: float) -> bool:
        """Whether this job will start before *end*, or both are infinity."""
        return self.start < end or self.start == end == math.inf

    def between(self, start: float, end: float) -> bool:
        """Whether this job will run, or be without end, between *start* and *end*."""
        return self.before(end) and self.end > start


class Plan:
    """The reservations for one state of a pool, and the jobs started beside them."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.generation = pool.generation
        self.reservations: list[Reservation] = []
        #: Copies of the pool in which the reservations that a job must avoid are occupied, by how
        #: many these are (of the reservations by start).
        self._without: dict[int, Pool] = {}
        #: Requests (by id) known not to fit, and the number of reservations they must avoid.
        self._failed: set[tuple[int, int]] = set()
        self._kept: list[Request] = []

    @property
    def current(self) -> bool:
        """Whether the pool is still as this plan left it."""
        return self.pool.generation == self.generation

    def start(self, jobid: int, request: Request, kind: Request, now: float) -> Allocation:
        """Start a job now, if that delays no reservation.

        *kind* is the request without its duration, the same object for jobs known to ask the
        same. The allocation has its expiration. Raises InsufficientResources or InfeasibleRequest.
        """
        end = _end(now, request.duration)
        # Those whose time has passed too: their jobs still wait, for one that ends late.
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
            self._kept.append(kind)  # or its id might become another's
            raise
        self._without.clear()
        self.generation = self.pool.generation
        return allocation

    def withdraw(self, jobid: int) -> None:
        """Take back what ``start`` gave job *jobid*, if anything; the plan stays as it was."""
        if self.pool.has_job(jobid):
            self.pool.free(jobid)
            self._without.clear()
            self.generation = self.pool.generation

    def reserve(
        self, jobid: int, request: Request, now: float, not_before: float = 0.0
    ) -> Optional[Reservation]:
        """Reserve the earliest time a job can start that delays no other reservation.

        The time may be infinity. None if it could not even when all jobs were over: what it
        needs is down.
        """
        then = self.pool.copy()
        running = sorted((end or math.inf, job) for job, end in then.job_end_times())
        found = _first_that_fits(then, running, jobid, request, now)
        if found is None:
            return None
        then, over = found
        time = max(now, running[over - 1][0]) if over else now
        del running[:over]  # what is left is a heap still
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
        """What a job gets at *time* beside the other reservations; *then* is left as it is."""
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

        They are the first by start, up to those that start as another job ends, so their number
        says which they are.
        """
        found = self._without.get(len(avoid))
        if found is None:
            found = self._without[len(avoid)] = self.pool.copy()
            _occupy(found, avoid)
        return found


def _first_that_fits(
    pool: Pool, running: list[tuple[float, int]], jobid: int, request: Request, now: float
) -> Optional[tuple[Pool, int]]:
    """How many of the jobs *running*, by end, must be over for a job to fit; None if all is no use.

    Never fewer than are over *now*, and all that end at one time. With them comes a copy of *pool*
    in which they are over. Reservations are not looked at. What fits still does when more is free,
    so the number is found by steps that double, then by halving: of a thousand running jobs some
    twenty trials instead of hundreds.
    """
    count = len(running)
    ends = [k for k in range(1, count) if running[k - 1][0] < running[k][0]] + [count] * (count > 0)
    late = bisect_right(running, (now, math.inf))
    marks = [late, *ends[bisect_right(ends, late) :]]
    low, high, step = 0, len(marks), 1  # marks[:low] are known not to do, marks[high] is known to
    base, done = pool, 0  # in which the first so many are over
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
