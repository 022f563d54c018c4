"""The queue: in which order jobs start, which are backfilled, and which nobody can serve any more.

A *pass* looks at what may have become possible: jobs whose reservation has come, then jobs in the
order of the queue (*backfill*: those that fit now without touching a reservation), then hard jobs,
and last, every few seconds, reservations that could move to an earlier start (*compression*).
Events say what to look at; everything else was looked at before, and nothing has changed for it.

``run`` makes passes in small steps. What is done in one step is complete: events may come between
any two, and the profile is true after each. Work on one job may take several steps. It is dropped
if the job leaves, and goes on from the profile as it then is otherwise.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from itertools import count, zip_longest
from typing import Callable, Generator, Iterable, Iterator, Mapping, Optional, Protocol

import attrs

from treepool.errors import InfeasibleRequest
from treepool.placement.allocation import Allocation, parts_of
from treepool.placement.choose.choice import Situation
from treepool.placement.choose.selection import Choice, Selection
from treepool.placement.held import are_free
from treepool.placement.nodes.state import Held
from treepool.placement.plan.jobs import (
    FAR,
    FIFO,
    Classes,
    Holder,
    JobClass,
    Lack,
    Place,
    Reservation,
    Rule,
    Waiting,
)
from treepool.placement.plan.line import Group, Line, Source
from treepool.placement.plan.profile import LATE, PRESENT, Change, Profile
from treepool.placement.plan.search import Start, earliest_start, gained_later, gained_now
from treepool.placement.plan.views import CHOICE, Units, View, Views
from treepool.placement.plan.windows import Window
from treepool.placement.pool import Pool
from treepool.rfc import idset

#: Seconds between two sweeps that move reservations to earlier starts.
SWEEP = 5.0

#: How a job was selected to start, in the words of RFC 27: it had a reservation; it passed a job
#: that has one; or neither.
RESERVED, BACKFILLED, IMMEDIATE = "reserved", "backfilled", "immediate"

#: Work (see Meter) for a job that is looked at.
_JOB = 4


class Launcher(Protocol):
    """The owner of a queue, who receives the jobs that leave it."""

    def started(self, job: Waiting, allocation: Allocation, how: str) -> None:
        """*job* got *allocation*; *how* is RESERVED, BACKFILLED or IMMEDIATE.

        If this raises, the queue frees the allocation.
        """

    def refused(self, job: Waiting, reason: str) -> None:
        """*job* can never run, because of *reason*."""

    def failed(self, job: Waiting, error: Exception) -> None:
        """To start *job* raised *error*. It has left the queue and holds nothing."""


class Queue:
    """The jobs that wait for resources of *pool*.

    *rules* has the rules of Flux queues by name; others follow *default*. *clock* returns the time.
    """

    def __init__(
        self,
        pool: Pool,
        launcher: Launcher,
        clock: Callable[[], float],
        default: Rule = FIFO,
        rules: Optional[Mapping[str, Rule]] = None,
    ) -> None:
        self.pool = pool
        self.profile = Profile(pool)
        self.views = Views(self.profile)
        self.classes = Classes(pool)
        self.waiting = self.classes.waiting
        self.jobs: dict[int, Waiting] = {}
        self.reservations: dict[Holder, Reservation] = {}
        self.windows: dict[str, Window] = {}
        self._window_ends = math.inf
        self._launcher = launcher
        self._clock = clock
        self._default, self._rules = default, dict(rules or {})
        self._lines: dict[str, Line] = {}
        #: What to look at, in order; and at which place each source of jobs is to be looked at.
        self._heap: list[tuple[Place, int, Optional[Source]]] = []
        self._offered: dict[Source, Place] = {}
        self._serial = count()
        #: Sources to be offered; and whether the nodes that were up could not serve them before.
        self._anew: dict[Source, bool] = {}
        #: The same for hard jobs; and the work that was done for those of each user.
        self._hard: dict[Source, None] = {}
        self._spent: dict[int, int] = {}
        #: Reservations to give up; jobs that come ahead of others with a reservation.
        self._void: dict[int, None] = {}
        self._ahead: dict[int, None] = {}
        #: Changes that made room and are still to be weighed.
        self._gains: list[Change] = []
        #: Jobs whose reservations may move; those of the present sweep, and when it began.
        self._due: dict[int, None] = {}
        self._sweep: deque[int] = deque()
        self._swept = -SWEEP
        #: When the patience of jobs ends: a heap. Some may have left.
        self._patience: list[tuple[float, int]] = []
        #: The types of the nodes, by rank.
        self._types = pool.inventory.types
        #: The idle nodes that are up, once somebody has asked.
        self._idle: Optional[Situation] = None
        #: The work in progress, if any, and the job that it is for.
        self._work: Optional[Iterator[None]] = None
        self._job: Optional[Waiting] = None
        self._now, self._done = 0.0, False
        #: When to call ``run`` again if nothing changes; infinity if there is no such time.
        self.next_time = math.inf

    # -- changes of jobs, rules and windows

    def add(self, job: Waiting) -> None:
        """Add *job*, which ``waiting`` has made."""
        job = self.classes.acquire(job)
        self.jobs[job.jobid] = job
        if job.patience < math.inf:
            heapq.heappush(self._patience, (job.patience, job.jobid))
        line = self._lines.get(job.queue)
        if line is None:
            rule = self._rules.get(job.queue, self._default)
            line = self._lines[job.queue] = Line(job.queue, rule, self.jobs)
        self._enter(job, line)

    def _enter(self, job: Waiting, line: Line) -> None:
        """Let *job* wait without a reservation."""
        group = line.add(job)
        if line.passes(job.place):
            self._ahead[job.jobid] = None
        self._offer(group)
        self._offer(line)

    def remove(self, jobid: int) -> Optional[Waiting]:
        """Remove job *jobid*; returns it, or None if it is not in the queue."""
        job = self.jobs.get(jobid)
        if job is None:
            return None
        if jobid in self.reservations:
            self._gains.append(self._give_up(jobid))
        else:
            self._lines[job.queue].remove(job)
        self._forget(job)
        return job

    def _forget(self, job: Waiting) -> None:
        """Forget *job*, which is in no line any more, and look at what comes after it."""
        del self.jobs[job.jobid]
        self._ahead.pop(job.jobid, None)
        self.classes.release(job.job_class)
        if self._job is job:
            self._work = self._job = None
        line = self._lines[job.queue]
        self._offer(line)
        if job.job_class in line.groups:
            self._offer(line.groups[job.job_class])

    def prioritize(self, jobid: int, priority: int) -> None:
        """Set the priority of a job; its reservation stays if it passes no other that has one."""
        old = self.jobs.get(jobid)
        if old is None or old.priority == priority:
            return
        new = attrs.evolve(old, priority=priority)
        line = self._lines[old.queue]
        if jobid in self.reservations and line.keeps_order(old.place, new.place):
            self.replace(new)
        else:
            self.remove(jobid)
            self.add(new)

    def replace(self, job: Waiting) -> None:
        """Replace the job with the id of *job* by it, in its queue, with its reservation."""
        old, line = self.jobs[job.jobid], self._lines[job.queue]
        new = self.jobs[job.jobid] = self.classes.acquire(job)
        reservation = self.reservations.get(job.jobid)
        if reservation is None:
            line.remove(old)
            self._enter(new, line)
        else:
            line.unreserve(old)
            line.add(new)
            line.reserve(new)
            reservation.job, reservation.tried = new, -1
            self._retry(reservation, reservation.stuck)
            self._may_move(reservation, reservation.lack, self._clock(), reservation.start)
        self.classes.release(old.job_class)
        if self._job is old:
            self._work = self._job = None

    def set_rules(self, default: Rule, rules: Mapping[str, Rule]) -> None:
        """Replace all rules. Reservations by rules that changed are given up."""
        self._default, self._rules = default, dict(rules)
        for name, line in self._lines.items():
            rule = self._rules.get(name, default)
            if rule != line.rule:
                line.rule = rule
                self._void.update((place[1], None) for place in line.reserved)
                self._offer_all(line)

    def set_windows(self, windows: Iterable[Window]) -> None:
        """Replace all windows."""
        new = {window.name: window for window in windows}
        self._done = False
        for name, window in list(self.windows.items()):
            if new.get(name) != window:
                del self.windows[name]
                self._gains.append(self.profile.drop(name))
        for name, window in new.items():
            if name not in self.windows:
                self.windows[name] = window
                parts = window.parts(self.pool.inventory)
                self.profile.hold(name, window.start, window.end, parts, True)
                inside = self.profile.in_the_way(window.start, window.end, parts, frozenset())
                for holder in inside:
                    reservation = self.reservations.get(holder)
                    if reservation and name not in reservation.job.job_class.leave:
                        self._void[reservation.job.jobid] = None
        self._window_ends = min((w.end for w in self.windows.values()), default=math.inf)

    # -- queries

    def passed(self, job: Waiting) -> Optional[Waiting]:
        """The first job with a reservation that *job* passes if it starts now; None if none."""
        first = self._lines[job.queue].reserved[:1]
        return self.jobs[first[0][1]] if first and first[0] < job.place else None

    def ahead(self, job: Waiting) -> Optional[Waiting]:
        """The job that *job*, in the queue or not, must not pass; None if there is none."""
        line = self._lines.get(job.queue)
        head = line.head() if line is not None and line.rule.policy == "fifo" else None
        return None if head is None or head.place >= job.place else head

    def lines(self) -> Iterator[tuple[str, Rule, Iterator[Waiting]]]:
        """For each Flux queue its name, its rule, and its jobs that can be served, in order."""
        for name, line in self._lines.items():
            yield name, line.rule, line.in_order()

    @property
    def settled(self) -> bool:
        """Whether nothing was left to do, and nothing has changed since."""
        return self._done and not self.profile.is_behind

    def selection(self, job: Waiting) -> Generator[None, None, Optional[Selection]]:
        """The resources on which *job*, in the queue or not, could start now beside the plan."""
        view, choice, _ = yield from self._present(job)
        self.views.keep(view)
        return choice.selection

    # -- passes

    def run(self) -> Generator[None, None, bool]:
        """Make passes until nothing is left to do, see the module's docstring; was there work?"""
        worked = False
        while True:
            self.follow()
            if self.profile.is_behind:
                yield
                continue
            if self._work is None:
                self._job = None
                self._work = self._next_work()
                if self._work is None:
                    self._done = True
                    self.next_time = self._next_time()
                    return worked
            worked = True
            try:
                next(self._work)
            except StopIteration:
                self._work = None
                if not self.profile.meter.spend(_JOB):
                    continue
            except Exception as e:  # one job must not hold up all others
                self._work = None
                self._fail(e)
            yield

    def _next_work(self) -> Optional[Iterator[None]]:
        """What is to be done next; None if nothing is."""
        now = self._clock()
        if self._anew:
            return self._offer_anew()
        if self._void:
            return self._give_up_void()
        if self._patience and self._patience[0][0] <= now:
            return self._relax()
        if self._window_ends <= now:
            self.set_windows([w for w in self.windows.values() if w.end > now])
        if self._gains:
            return self._weigh()
        if self._ahead:
            return self._plan_first(next(iter(self._ahead)))
        due = self._first_due(now)
        if due is not None:
            return self._start_reserved(due)
        while self._heap:
            place, _, source = heapq.heappop(self._heap)
            if source is None:
                made = self.reservations.get(place[1])
                if made is not None and made.job.place == place and made.stuck == 0:
                    return self._try_reserved(made.job)
            elif self._offered.get(source) == place:
                del self._offered[source]
                if source.next() == place:
                    return self._serve(source, self.jobs[place[1]])
                self._offer(source)
            if self.profile.meter.spend(1):  # most may be of jobs that have left
                return iter((None,))
        if self._hard:
            return self._serve_hard()
        if not self._sweep and self._due and now >= self._swept + SWEEP:
            self._swept = now
            places = sorted(self.jobs[jobid].place for jobid in self._due)
            self._sweep.extend(place[1] for place in places)
        while self._sweep:
            jobid = self._sweep.popleft()
            if jobid in self._due:
                del self._due[jobid]
                return self._move(self.jobs[jobid])
        return None

    def _next_time(self) -> float:
        times, start = [self._window_ends], self.profile.next_start(self._now)
        times += [start] if start is not None and start < self._now + FAR else []
        times += [self._patience[0][0]] if self._patience else []
        times += [self._swept + SWEEP] if self._due else []
        return min(times, default=math.inf)

    def _fail(self, error: Exception) -> None:
        """Drop the job for which *error* was raised."""
        job = self._job
        if job is None or self.jobs.get(job.jobid) is not job:
            raise error
        self.remove(job.jobid)
        self._launcher.failed(job, error)

    def follow(self) -> None:
        """Follow the clock, and the changes of the pool or some of them."""
        profile, now = self.profile, self._clock()
        if now < self._now - LATE:  # there are earlier starts than before
            self._swept = now - SWEEP
            self._look_at_all(now)
        self._now = now
        profile.follow(now)
        self._gains += profile.gains
        self._void.update((h, None) for h in profile.broken if isinstance(h, int))
        if profile.gains or profile.broken or profile.nodes_changed:
            self._done = False
        profile.gains, profile.broken = [], []
        if profile.nodes_replaced:
            profile.nodes_replaced = False
            old, self._types = self._types, self.pool.inventory.types
            changed = {r for r, (a, b) in enumerate(zip_longest(old, self._types)) if a is not b}
            for made in self.reservations.values():
                if any(not changed.isdisjoint(ranks) for ranks, _, _ in made.parts):
                    self._void[made.job.jobid] = None
            windows = list(self.windows.values())
            self.set_windows(())
            self.set_windows(windows)
            self._look_at_all(now)
        if profile.nodes_changed:
            profile.nodes_changed, self._idle = False, None
            self._offer_again()

    def _offer_again(self) -> None:
        """Offer all anew; jobs that the nodes that were up could not serve are planned first."""
        for line in self._lines.values():
            self._offer_all(line)
        for own in self.classes:
            own.servable = None

    def _look_at_all(self, now: float) -> None:
        """Look at everything anew; what was learned so far need not be so any more."""
        self._work = None
        self._offer_again()
        for own in self.classes:
            own.forget()
        for made in self.reservations.values():
            self._retry(made, made.stuck)
            self._may_move(made, made.lack, now, made.start)

    # -- what to look at

    def _push(self, place: Place, source: Optional[Source] = None) -> None:
        self._done = False
        heapq.heappush(self._heap, (place, next(self._serial), source))

    def _offer(self, source: Source) -> None:
        """Look at the next job of *source*, if there is one."""
        self._done = False
        place = source.next()
        if place is None:
            return
        if self.jobs[place[1]].job_class.hard:
            self._hard[source] = None
        elif self._offered.get(source) != place:
            self._offered[source] = place
            self._push(place, source)

    def _offer_all(self, line: Line) -> None:
        """Offer *line* and its groups, of which there may be thousands: in steps."""
        self._done = False
        self._anew[line] = False
        for group in line.groups.values():
            unable = group.job_class.servable is False
            self._anew[group] = unable or self._anew.get(group, False)

    def _offer_anew(self) -> Iterator[None]:
        """Offer what is to be offered; what can be served only now may come ahead of others."""
        while self._anew:
            source, unable = self._anew.popitem()
            if unable and isinstance(source, Group):
                first = source.first()
                if first and source.line.passes(first):
                    self._ahead[first[1]] = None
            self._offer(source)
            if self.profile.meter.spend(1):
                yield

    def _first_due(self, now: float) -> Optional[Waiting]:
        """The first job whose reservation has come, unless it was tried and nothing has changed."""
        profile, changes = self.profile, self.profile.log.end
        started = profile.starts.by(now)
        due = [self.reservations[h] for h in started if h in self.reservations]
        untried = (r for r in due if r.tried != changes or now + r.job.length > r.end + LATE)
        first = min(untried, key=lambda r: (r.start, r.job.place), default=None)
        return None if first is None else first.job

    def _serve_hard(self) -> Iterator[None]:
        """Serve the first hard job of the user for whom least was done so far."""
        jobs = []
        for source in list(self._hard):
            place = source.next()
            if place is None or not self.jobs[place[1]].job_class.hard:
                del self._hard[source]
                self._offer(source)
            else:
                job = self.jobs[place[1]]
                jobs.append((self._spent.get(job.user, 0), place, id(source), source))
            if self.profile.meter.spend(1):
                yield
        if not jobs:
            return
        spent, place, _, source = min(jobs)
        if source.next() != place:
            return  # it has changed between two steps
        del self._hard[source]
        job = self.jobs[place[1]]
        least = min(self._spent.values(), default=0)
        self._spent[job.user] = max(spent, least)  # who is new owes nothing, and is owed nothing
        before = self.profile.meter.total
        yield from self._serve(source, job)
        self._spent[job.user] += self.profile.meter.total - before
        if not self._hard:
            self._spent.clear()

    def _serve(self, source: Source, job: Waiting) -> Iterator[None]:
        """Start *job*, or reserve for it if it is next to get a reservation."""
        self._job = job
        line, own = self._lines[job.queue], job.job_class
        if (yield from self._judged(own)):
            started = False
            if job.length < own.stuck_from and (line.rule.policy != "fifo" or line.head() is job):
                started = yield from self._try(job)
            if not started and line.next() == job.place:
                yield from self._reserve(job, line)
        self._offer(source)
        self._offer(line)

    def is_servable(self, own: JobClass) -> Generator[None, None, bool]:
        """Whether the nodes that are up could serve the class if nothing else ran."""
        if own.servable is not None:
            return own.servable
        while True:
            idle = self.idle()
            view = View(PRESENT, PRESENT, frozenset(), idle, self.profile.log.end)
            choice = yield from self.views.choice(view, own.relaxed or own.request)
            if idle is self._idle:  # otherwise nodes went up or down meanwhile
                return choice.selection is not None or choice.gave_up

    def _judged(self, own: JobClass) -> Generator[None, None, bool]:
        """``is_servable``, to be remembered. Jobs that no nodes could ever serve are refused."""
        if own.servable is None:
            own.servable = yield from self.is_servable(own)
            if not own.servable:
                yield from self._refuse_infeasible(own)
        return own.servable

    def _refuse_infeasible(self, own: JobClass) -> Iterator[None]:
        """Refuse the jobs of a class if they can never run, because the pool has other nodes."""
        request = own.relaxed or own.request
        if self.profile.meter.spend(CHOICE):
            yield
        self.views.owe(request)
        try:
            self.pool.check_feasibility(request)
        except InfeasibleRequest as e:
            self._job = None  # the work goes on when that job leaves
            made = [one.job for one in self.reservations.values() if one.job.job_class is own]
            lines = [line for line in self._lines.values() if own in line.groups]
            alike = [self.jobs[place[1]] for line in lines for place in line.groups[own].places]
            for job in made + alike:
                if self.jobs.get(job.jobid) is job:
                    self.remove(job.jobid)
                    self._launcher.refused(job, str(e))
                if self.profile.meter.spend(_JOB):
                    yield

    def idle(self) -> Situation:
        """The nodes that are up, as if nothing ran on them."""
        if self._idle is None:
            inventory, up = self.pool.inventory, self.pool.up
            index = inventory.idle_index.copy()
            index.set_up(list(idset.iterate(inventory.ranks & ~up)), False)
            self._idle = self.pool.situation.on(index)
        return self._idle

    # -- starting jobs

    def _present(self, job: Waiting) -> Generator[None, None, tuple[View, Choice, float]]:
        """What *job* would get if it started now: the view, the choice, and the time."""
        leave = job.job_class.leave
        if job.jobid in self.reservations:
            leave = leave | {job.jobid}
        planned = self.profile.planned_before
        while True:
            view = yield from self.views.at(PRESENT, self._clock() + job.length, leave)
            choice = yield from self.views.choice(view, job.request)
            now = self._clock()
            if planned(now + job.length) <= planned(view.end):
                return view, choice, now
            # Something is planned to begin before the end by now that was not when this began.

    def _try(self, job: Waiting) -> Generator[None, None, bool]:
        """Start *job* now if that delays no reservation of another; returns whether it has left."""
        own = job.job_class
        view, choice, now = yield from self._present(job)
        own.gave_up = choice.gave_up
        selection = choice.selection
        if selection is not None:
            self.views.keep(view)
            self._launch(job, parts_of(selection), selection.nslots, now, now + job.length)
            return True
        units = Units(job.request, self.profile)
        yield from self.views.count(view, units)
        if view.free >= units.need and not units.exact:
            units.become_exact()
            yield from self.views.count(view, units)
        lack, made = max(1, units.need - view.free), self.reservations.get(job.jobid)
        if made is None:
            own.stuck = Lack(job.length, now, lack)
        else:
            made.stuck = lack
        self.views.keep(view)
        return False

    def _try_reserved(self, job: Waiting) -> Iterator[None]:
        """Start *job* before its reservation, because room has appeared."""
        self._job = job
        units = Units(job.request, self.profile)
        lack = units.need - units.in_situation(self.pool.situation)
        if lack > 0:
            self.reservations[job.jobid].stuck = lack
        else:
            yield from self._try(job)

    def _start_reserved(self, job: Waiting) -> Iterator[None]:
        """Start *job*, whose reservation has come, on what is reserved once that is free.

        If it is late, it is planned to start now, and jobs that this delays are planned again. It
        must not delay jobs ahead of it in its queue, nor reach into a window: then it is planned
        again itself.
        """
        self._job = job
        made, now = self.reservations[job.jobid], self._clock()
        leave = job.job_class.leave | {job.jobid}
        if now > made.start + LATE and now + job.length > made.end + LATE:
            end = now + job.length
            delayed = self.profile.in_the_way(made.end, end, made.parts, leave)
            others = [self.reservations[h].job for h in delayed if h in self.reservations]
            ahead = any(o.queue == job.queue and o.place < job.place for o in others)
            if ahead or len(others) < len(delayed):
                self._void[job.jobid] = None
                return
            self._void.update((other.jobid, None) for other in others)
            self.profile.drop(job.jobid)
            self.profile.hold(job.jobid, made.start, end, made.parts, True)
            made.end = end
        if are_free(made.parts, self.pool.situation.index):
            self._launch(job, made.parts, made.nslots, now, made.end)
        made.tried = self.profile.log.end
        yield from ()

    def _launch(
        self, job: Waiting, parts: tuple[Held, ...], nslots: int, now: float, end: float
    ) -> None:
        """Let *job* hold *parts*, planned until *end*, and leave the queue."""
        pool, jobid = self.pool, job.jobid
        held = pool.has_job(jobid)
        try:
            allocation = pool.allocation(parts, nslots)
            pool.register_alloc(jobid, allocation)
            expiration = pool.end_of_job(job.request.duration, now)
            allocation.set_expiration(expiration)
            pool.update_expiration(jobid, expiration)
            made = self.reservations.get(jobid)
            if made is None:
                how = IMMEDIATE if self.passed(job) is None else BACKFILLED
                self._lines[job.queue].remove(job)
            else:
                how = RESERVED
                room = self._give_up(jobid)
                if now < made.start or parts != made.parts:
                    self._gains.append(room)
            self._forget(job)
            self.profile.hold(jobid, PRESENT, end, parts, False)
            self._launcher.started(job, allocation, how)
        except Exception as e:  # it must not hold up all others, now and after each reload
            if not held and pool.has_job(jobid):
                pool.free(jobid)
            self.remove(jobid)
            self._launcher.failed(job, e)

    # -- reservations

    def _reserve(self, job: Waiting, line: Line) -> Iterator[None]:
        """Reserve the earliest start of *job*."""
        first, lack = yield from self._search(job, self._clock())
        if line.next() == job.place:
            job.job_class.servable = first is not None
            if first is not None:
                line.reserve(job)
                self._hold(job, first, lack)

    def _retry(self, made: Reservation, units: int) -> None:
        """Try a job before its reservation if the *units* that became free may suffice."""
        made.stuck = max(0, made.stuck - units)
        if made.stuck == 0:
            self._push(made.job.place)

    def _may_move(self, made: Reservation, units: int, begin: float, until: float) -> None:
        """Take note that *units* became free for starts between two times before a reservation."""
        if units:
            made.gain(units, begin, min(until, made.start))
        if made.may_move:
            self._due[made.job.jobid] = None

    def _move(self, job: Waiting) -> Iterator[None]:
        """Move the reservation of *job* to an earlier start, if what became free allows one."""
        self._job = job
        made, now = self.reservations[job.jobid], self._clock()
        begin, until = made.since or (now, made.start)
        made.since, made.gained = None, 0
        if max(begin, now) < until:
            first, lack = yield from self._search(job, max(begin, now), made, until)
            if self.reservations.get(job.jobid) is made:
                whole = begin <= now and until >= made.start
                made.lack = lack if whole else min(lack, made.lack)
                if first is not None:
                    self._gains.append(self.profile.drop(job.jobid))
                    self._hold(job, first, made.lack)

    def _search(
        self,
        job: Waiting,
        begin: float,
        made: Optional[Reservation] = None,
        before: Optional[float] = None,
    ) -> Generator[None, None, tuple[Optional[Start], int]]:
        """The earliest start of *job* from *begin* on and before *before*; and its lack.

        It begins where the last search for a job of its class, not longer, found no room before. If
        the job has the reservation *made*, that says nothing of the times at which it would overlap
        with it.
        """
        own, now, leave = job.job_class, self._clock(), job.job_class.leave
        known, units = own.no_room(job.length, now), None
        if made is not None:
            leave = leave | {job.jobid}
        if known is not None:
            until = known.until if made is None else min(known.until, made.start - job.length)
            until = min(until, max(now, job.patience))
            if begin <= until:
                begin, units = until, known.units
                if before is not None and begin >= before:
                    return None, units
        from_now = begin <= now or units is not None
        first, lack = yield from earliest_start(self.views, job, leave, begin, before)
        lack = lack if units is None else min(lack, units)
        end = first.time if first is not None else before
        if from_now and end is not None:
            full = {length: lack for length, lack in own.full.items() if lack.until > now}
            own.full = {**full, job.length: Lack(job.length, min(end, job.patience), lack)}
        return first, lack

    def _hold(self, job: Waiting, first: Start, lack: int) -> None:
        start, end, parts = first.time, first.time + job.length, parts_of(first.selection)
        self.profile.hold(job.jobid, start, end, parts, True)
        made = Reservation(job, start, end, parts, first.selection.nslots, lack)
        self.reservations[job.jobid] = made

    def _give_up(self, jobid: int) -> Change:
        """Give up a reservation; its job is in no line then. Returns where there is more room."""
        made = self.reservations.pop(jobid)
        self._lines[made.job.queue].unreserve(made.job)
        self._due.pop(jobid, None)
        self._void.pop(jobid, None)
        return self.profile.drop(jobid)

    def _give_up_void(self) -> Iterator[None]:
        """Give up the reservations that do not hold, the last first."""
        while self._void:
            jobid, _ = self._void.popitem()
            if jobid in self.reservations:
                job = self.reservations[jobid].job
                self._gains.append(self._give_up(jobid))
                self._enter(job, self._lines[job.queue])
                if self.profile.meter.spend(_JOB):
                    yield

    def _plan_first(self, jobid: int) -> Iterator[None]:
        """Plan a job before those behind it in its queue, which give up their reservations."""
        job = self._job = self.jobs[jobid]
        servable = jobid not in self.reservations and (yield from self._judged(job.job_class))
        self._ahead.pop(jobid, None)
        if servable:
            behind = self._lines[job.queue].behind(job.place)
            self._void.update((place[1], None) for place in behind)

    # -- what changes make possible

    def _weigh(self) -> Iterator[None]:
        """See what may be possible now, by what became free and what was lacking."""
        gains, now = self._gains, self._clock()
        self._gains = []
        later = [gain for gain in gains if gain.end > now]
        profile, meter = self.profile, self.profile.meter
        for own in self.classes:
            lack = own.stuck
            if lack is not None:
                less = lack.less(
                    (yield from gained_now(profile, own, lack.length, gains, now, own.leave))
                )
                if own.stuck is lack:  # nothing was learned while this was counted
                    own.stuck = less
                if own.stuck is None:
                    for line in self._lines.values():
                        if own in line.groups:
                            self._offer(line.groups[own])
            for length, lack in list(own.full.items()):
                times = now, lack.until
                less = lack.less(
                    (yield from gained_later(profile, own, length, later, times, own.leave))
                )
                if own.full.get(length) is lack:
                    del own.full[length]
                    own.full.update({length: less} if less is not None else {})
            if meter.spend(len(gains)):
                yield
        for made in list(self.reservations.values()):
            job, own = made.job, made.job.job_class
            leave, times = own.leave | {job.jobid}, (now, made.start)
            at_once = made.stuck
            if at_once and made.start > now:
                at_once = yield from gained_now(profile, own, job.length, gains, now, leave)
            gained = yield from gained_later(profile, own, job.length, later, times, leave)
            if self.reservations.get(job.jobid) is made:
                self._retry(made, at_once)
                begin = max(now, min((gain.start for gain in later), default=now) - job.length)
                self._may_move(made, gained, begin, max((gain.end for gain in later), default=now))
            if meter.spend(len(gains)):
                yield

    def _relax(self) -> Iterator[None]:
        """Relax the requests of the jobs whose patience has ended."""
        while self._patience and self._patience[0][0] <= self._clock():
            job = self.jobs.get(heapq.heappop(self._patience)[1])
            if job is not None and job.patience <= self._clock():
                self.replace(self.classes.impatient(job))
            if self.profile.meter.spend(_JOB):
                yield
