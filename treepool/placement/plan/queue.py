"""The queue: the order in which waiting jobs start, for the Flux module and for replay alike.

Each Flux queue is a *line* with a policy of its own (lines.py). Jobs of different lines do not hold
each other up, but they respect the reservations of all lines. The jobs of a line are in the order
of priority, then of submission.

A *pass* starts the jobs that can start, and makes reservations for those that must wait, a few
milliseconds between two yields. The caller may leave it at any yield; ``run`` continues it.
It has more than 300 lines because a pass is one walk, and all events may interrupt it.
"""

from __future__ import annotations

import heapq
import math
from itertools import count
from typing import Callable, Generator, Iterable, Iterator, Mapping, Optional, Protocol, Sequence

import attrs

from treepool.errors import InfeasibleRequest, InsufficientResources
from treepool.placement.allocation import Allocation
from treepool.placement.jobs import are_free
from treepool.placement.plan.jobs import Place, Waiting
from treepool.placement.plan.line import FIFO, STRIDE, Line, Rule
from treepool.placement.plan.lines import Lines
from treepool.placement.plan.plan import Plan
from treepool.placement.plan.window import Window
from treepool.placement.pool import Pool

#: Seconds by which the clock must be set back for earlier starts to be searched. If it is less,
#: jobs are at most so late.
_SET_BACK = 1.0

#: Work to check whether the pool has the nodes for jobs of a kind (and so many of its nodes are a
#: unit more), to refuse a job, and to look at one that is due; see Timeline.should_yield.
_CHECK, _NODES, _REFUSE, _DUE = 50, 16, 8, 16


class Launcher(Protocol):
    """The owner of a queue, who receives the jobs that leave it."""

    def started(self, job: Waiting, allocation: Allocation) -> None:
        """*job* got *allocation*. If this raises, the queue frees the allocation."""

    def refused(self, job: Waiting, reason: str) -> None:
        """*job* can never run, because of *reason*."""

    def failed(self, job: Waiting, error: Exception) -> None:
        """To start *job* raised *error*. It has left the queue and holds nothing."""


class Queue:
    """The jobs that wait for resources of *pool*.

    *rules* has the rules of lines by name; other lines follow *default*. *clock* returns the time
    in seconds since the epoch.
    """

    def __init__(
        self,
        pool: Pool,
        launcher: Launcher,
        clock: Callable[[], float],
        default: Rule = FIFO,
        rules: Optional[Mapping[str, Rule]] = None,
    ) -> None:
        self.plan = Plan(pool)
        self._lines = Lines(self.plan, default, rules or {})
        self.jobs: Mapping[int, Waiting] = self._lines.jobs
        self._launcher = launcher
        self._clock = clock
        #: Whether a pass is due, because something has changed, and when the last one began.
        self._due, self._began = True, 0.0
        #: The pass in progress, and the place and the job that it is at, if any.
        self._work: Optional[Iterator[None]] = None
        self._at: Optional[Place] = None
        self._job: Optional[Waiting] = None
        #: When to call ``run`` again if nothing changes; infinity if there is no such time.
        self.next_time = math.inf

    # -- changes of jobs, rules and windows

    def add(self, job: Waiting) -> None:
        """Add *job*, whose ``kind`` comes from ``plan.kinds``."""
        self._lines.add(job)
        passed = self._at is not None and job.place < self._at
        if passed or job.jobid in self._lines.of(job).overriding:
            self._end_pass()
        self._due = True

    def remove(self, jobid: int) -> Optional[Waiting]:
        """Remove job *jobid*; returns it, or None if it is not in the queue."""
        job = self.jobs.get(jobid)
        if job is not None:
            self._lines.remove(jobid)
            self._end_pass_on(jobid)
            self._due = True
        return job

    def prioritize(self, jobid: int, priority: int) -> None:
        """Set the priority of a job; its reservation stays if it passes no other that has one."""
        old = self.jobs.get(jobid)
        if old is None or old.priority == priority:
            return
        new = attrs.evolve(old, priority=priority)
        if self._lines.keeps_order(old, new):
            self.replace(new)
        else:
            self.remove(jobid)
            self.add(new)

    def replace(self, job: Waiting) -> None:
        """Replace the job with the id of *job* by it, with its reservation."""
        self._end_pass_on(job.jobid)
        self._lines.replace(self.jobs[job.jobid], job)
        if self.plan.unchecked:  # its kind may be another now
            self.plan.unchecked[job.kind] = None
        self._due = True

    def set_rules(self, default: Rule, rules: Mapping[str, Rule]) -> None:
        """Replace all rules. The next pass gives up the reservations by rules that changed."""
        self._lines.set_rules(default, rules)
        self._end_pass()
        self._due = True

    def set_windows(self, windows: Iterable[Window]) -> None:
        """Replace all windows."""
        self.plan.set_windows(windows)
        self.follow()  # now, because jobs without a reservation may be removed before the next pass
        self._due = True

    # -- queries

    def passed(self, job: Waiting) -> Optional[Waiting]:
        """The first job with a reservation that *job* passes if it starts now; None if none."""
        line = self._lines.of(job)
        return next((other for place, other in line.reserved[:1] if place < job.place), None)

    def ahead(self, job: Waiting) -> Optional[Waiting]:
        """The job that *job*, in the queue or not, must not pass; None if there is none."""
        line = self._lines.get(job.queue)
        head = line.head() if line is not None and line.rule.policy == "fifo" else None
        return None if head is None or head.place >= job.place else head

    def lines(self) -> Iterator[tuple[str, Rule, Iterator[Waiting]]]:
        """For each line its name, its rule, and its jobs that can be served, in order."""
        for name, line in self._lines.items():
            yield name, line.rule, line.in_order()

    @property
    def settled(self) -> bool:
        """Whether a pass has ended, and nothing has changed since."""
        return self._work is None and not (self._due or self.plan.is_behind)

    # -- passes

    def run(self) -> Iterator[None]:
        """Make passes until none is due; see the module's docstring."""
        while True:
            if self._clock() < self._began - _SET_BACK:
                self._began = self._clock()
                self.plan.reopen()
            self.follow()
            if self.plan.is_behind or self._lines.renew():
                yield
                continue
            if self._work is None:
                if not self._due and self._clock() < self.next_time:
                    return
                self._due, self._began, self._work = False, self._clock(), self._pass()
            try:
                next(self._work)
            except StopIteration:
                self._end_pass()
                self.next_time = min(self.plan.next_time(self._began), self._lines.next_time)
            except Exception as e:  # one job must not hold up all others
                self._end_pass()
                self._fail(e)
            yield

    def _end_pass(self) -> None:
        """Forget the pass in progress, if there is one."""
        self._work = self._at = None

    def _end_pass_on(self, jobid: int) -> None:
        """End the pass if it is working on job *jobid*."""
        if self._work is not None and self._job is not None and self._job.jobid == jobid:
            self._end_pass()

    def _fail(self, error: Exception) -> None:
        """Drop the job that the pass was working on when it raised *error*."""
        job, self._due = self._job, True
        if job is None or job.jobid not in self.jobs:
            raise error
        self._lines.remove(job.jobid)
        self._launcher.failed(job, error)

    def follow(self) -> None:
        """Follow the changes of the pool."""
        for job in self.plan.follow():
            self._lines.put_back(job)
            self._due = True
            if self._lines.fall(job) or (self._at is not None and job.place < self._at):
                self._end_pass()
        if self.plan.has_gains or self.plan.nodes_changed:
            self._due = True
        if self.plan.nodes_replaced:
            self._end_pass()
            self.plan.nodes_replaced = False

    def _unreserve(self, jobs: Sequence[Waiting]) -> None:
        """Give up the reservations of *jobs*, or of some of the last."""
        self._lines.unreserve(jobs)
        self._due = True

    def _pass(self) -> Iterator[None]:
        """One pass: what the gains allow, then reservations, then all other jobs."""
        self.plan.nodes_changed = False
        yield from self._refuse()
        self._job = None
        yield from self._lines.relax(self._clock())
        self.plan.expire(self._clock())
        yield from self.plan.reconsider(self._clock())
        yield from self._override(lambda line: line.fallen)
        yield from self._visit_reserved()
        yield from self._override(lambda line: line.overriding)
        self._job = None
        yield from self.plan.reconsider(self._clock())
        yield from self._visit_others()

    def _refuse(self) -> Iterator[None]:
        """Refuse the jobs that can never run any more, because the pool has other nodes."""
        pool, timeline = self.plan.pool, self.plan.timeline
        check = _CHECK + len(pool.situation.index.up) // _NODES
        while self.plan.unchecked:
            kind = next(reversed(self.plan.unchecked))
            self._job = self._lines.first(kind)  # if the check raises, it fails
            try:
                if self._job is not None:
                    pool.check_feasibility(kind.relaxed or kind.request)
            except InfeasibleRequest as e:
                while self._job is not None:
                    self._lines.remove(self._job.jobid)
                    self._launcher.refused(self._job, str(e))
                    if timeline.should_yield(_REFUSE):
                        yield
                    self._job = self._lines.first(kind)
            self.plan.unchecked.pop(kind, None)  # not before: the pass may be left at any yield
            if timeline.should_yield(check):
                yield

    def _visit_reserved(self) -> Iterator[None]:
        """Move reservations to earlier starts where there is more room, and start their jobs."""
        plan = self.plan
        moved = True
        while moved and (plan.has_gains or plan.begins_by(self._clock())):
            moved = False
            for place, old in self._lines.reserved():
                job = self.jobs.get(old.jobid)  # its priority may have changed meanwhile
                if job is None:
                    continue
                self._at, self._job = place, job
                if job.jobid in plan.reservations and plan.has_gained(job):
                    moved |= yield from plan.move(job, self._clock())
                if job.jobid in plan.reservations:
                    yield from self._start_reserved(job)
            plan.trim()

    def _start_reserved(self, job: Waiting) -> Iterator[None]:
        """Start *job* if its reservation has come, or give that up if others are in the way."""
        plan, now, line = self.plan, self._clock(), self._lines.of(job)
        if plan.may_start(job, now):
            parts = plan.reservations[job.jobid].parts
            ready = are_free(parts, plan.pool.situation.index)
            behind = {other.jobid for other in line.behind(job)}
            changes = plan.timeline.journal.end
            has_left = yield from self._start(job, plan.start_reserved(job, now, behind))
            if not has_left and job.jobid in plan.reservations:
                plan.note_tried(job, changes)
                if ready:  # it would delay other reservations
                    self._unreserve([job])
                    if self._lines.fall(job):
                        self._end_pass()
                        yield
            if plan.timeline.should_yield(_DUE + len(plan.reservations) // _DUE):
                yield

    def _visit_others(self) -> Iterator[None]:
        """Start or reserve the jobs without a reservation."""
        heap = []
        number = count()  # a job that moves to another lane meanwhile is in the heap twice
        for line in self._lines:
            for lane in line.lanes.values():
                job = line.next(lane)
                if job is not None:
                    heap.append((job.place, next(number), job, lane, line))
        heapq.heapify(heap)
        blocked = set()
        while heap:
            self._at, _, job, lane, line = heapq.heappop(heap)
            self._job = job
            if line in blocked:
                continue
            if self.jobs.get(job.jobid) is job and job.jobid not in self.plan.reservations:
                has_left = False
                if job.length < job.kind.stuck:
                    has_left = yield from self._start(job, self.plan.start(job, self._clock()))
                if not has_left and (yield from self._wait(job, line)):
                    blocked.add(line)
                yield
            following = line.next(lane, job.place)
            if following is not None:
                heapq.heappush(heap, (following.place, next(number), following, lane, line))

    def _override(self, marked_in: Callable[[Line], set[int]]) -> Iterator[None]:
        """Give up the reservations behind jobs that are *marked_in* their line."""
        for line in self._lines:
            marked = marked_in(line)
            for job in [self.jobs[jobid] for jobid in marked]:
                self._job = job
                servable = yield from self.plan.is_servable(job.kind)
                while servable and job.jobid in marked:
                    behind = line.behind(self.jobs[job.jobid])[-STRIDE:]
                    self._unreserve(behind)
                    if not behind:
                        break
                    yield
                marked.discard(job.jobid)

    def _start(
        self, job: Waiting, work: Generator[None, None, Allocation]
    ) -> Generator[None, None, bool]:
        """Start *job* by *work*; returns whether it left the queue."""
        kind, pool = job.kind, self.plan.pool
        held = pool.has_job(job.jobid)
        try:
            allocation = yield from work
        except InsufficientResources:
            if job.jobid not in self.plan.reservations and job.length < kind.stuck:
                yield from self.plan.note_stuck(job, self._clock())
            return False
        except InfeasibleRequest as e:  # nodes were removed since it was submitted
            self._lines.remove(job.jobid)
            self._launcher.refused(job, str(e))
        except Exception as e:  # it must not hold up all others, now and after each reload
            self._give_back(job, held, e)
        else:
            try:
                self._lines.remove(job.jobid)
                self._launcher.started(job, allocation)
            except Exception as e:
                self._give_back(job, held, e)
        self.follow()
        if self.plan.is_behind or self._work is None:
            yield  # ``run`` follows the rest before the pass goes on, or begins another
        return True

    def _give_back(self, job: Waiting, held: bool, error: Exception) -> None:
        """Drop *job*, to start which raised *error*, and what it holds unless it *held* that."""
        if not held and self.plan.pool.has_job(job.jobid):
            self.plan.pool.free(job.jobid)
        self._lines.remove(job.jobid)
        self._launcher.failed(job, error)

    def _wait(self, job: Waiting, line: Line) -> Generator[None, None, bool]:
        """Let *job* wait, reserve if it may; returns whether the other jobs of *line* wait too."""
        fifo = line.rule.policy == "fifo"
        if not (fifo or line.reserving) or not (yield from self.plan.is_servable(job.kind)):
            return False
        if line.reserving or (fifo and len(self._lines) > 1):
            made = yield from self.plan.reserve(job, self._clock())
            if made is not None:
                line.reserve(job)
        return fifo
