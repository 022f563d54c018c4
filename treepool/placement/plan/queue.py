"""The queue: in which order jobs start, which are backfilled, and which nobody can serve any more.

A *pass* looks at what may have become possible: jobs whose reservation has come, then jobs in the
order of the queue (*backfill*: those that fit now without touching a reservation), then jobs that
need a search, and last, every few seconds, all reservations, which may move to earlier starts
(*compression*). Events say what to look at; everything else was looked at before, and nothing has
changed for it.

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
from treepool.placement.nodes.parts import ranks_in
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
    Sight,
    Waiting,
)
from treepool.placement.plan.line import Group, Line, Source
from treepool.placement.plan.profile import LATE, PRESENT, WORK, Change, Profile
from treepool.placement.plan.search import Start, earliest_start
from treepool.placement.plan.views import CHOICE, Units, View, Views
from treepool.placement.plan.windows import Window
from treepool.placement.pool import Pool
from treepool.rfc import idset

#: Seconds between two sweeps that move reservations to earlier starts, at least; and how often as
#: long as a sweep takes the time between two is.
SWEEP, _PAUSE = 5.0, 9

#: How a job was selected to start, in the words of RFC 27: it had a reservation; it passed a job
#: that has one; or neither.
RESERVED, BACKFILLED, IMMEDIATE = "reserved", "backfilled", "immediate"

#: Of the jobs that are to end for another, so many are looked at whether they can stay.
_MOST_KEPT = 64

#: No time: it begins after it ends.
_NEVER = math.inf, -math.inf

#: Work (see Meter) for a job that is looked at, and for one that starts, whose R is written.
_JOB, _START = 4, 64


class Launcher(Protocol):
    """The owner of a queue, who receives the jobs that leave it."""

    def started(self, job: Waiting, allocation: Allocation, how: str) -> None:
        """*job* got *allocation*; *how* is RESERVED, BACKFILLED or IMMEDIATE.

        If this raises, the queue frees the allocation.
        """

    def preempt(self, job: Waiting, victims: frozenset[int], new: frozenset[int]) -> None:
        """The jobs *victims*, which are preemptible, are to end: *job* starts when they have. The
        *new* ones among them were not told before."""

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
        #: Windows that ``set_windows`` keeps: spares.py has them.
        self.spares: tuple[Window, ...] = ()
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
        #: The same for jobs that need a search; and the work that was done for those of each user.
        self._searched: dict[Source, None] = {}
        self._spent: dict[int, int] = {}
        #: Reservations to give up; jobs that come ahead of others with a reservation.
        self._void: dict[int, None] = {}
        self._ahead: dict[int, None] = {}
        #: Changes that made room and are still to be weighed.
        self._gains: list[Change] = []
        #: Jobs with a reservation that may be able to start before it.
        self._early: set[int] = set()
        #: Between which times there is more room than reservations were searched for; and when the
        #: next sweep begins.
        self._roomier = _NEVER
        self._next_sweep = -math.inf
        #: Of the present sweep, if there is one: the same times, the jobs that are still to be
        #: searched, the work that was done for those before them, and what they gave up.
        self._sweep_times = _NEVER
        self._sweep: deque[int] = deque()
        self._sweep_work = 0
        self._moved: list[Change] = []
        #: Whether the work in progress is a part of a sweep.
        self._sweeping = False
        #: The running jobs that were told to end for another.
        self._told: set[int] = set()
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
            self._look_again(reservation)
            self._note_room(PRESENT, math.inf)
        self.classes.release(old.job_class)
        if self._job is old:
            self._work = self._job = None

    def runs(self, jobid: int, since: float, after: float) -> None:
        """Take note that job *jobid*, which runs *since* a time, may be preempted *after* so many
        seconds (infinity: never)."""
        if after < math.inf:
            self.profile.terms[jobid] = since, since + after

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
        new = {window.name: window for window in (*windows, *self.spares)}
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
                inside = self.profile.in_the_way(window.start, window.end, parts, Sight())
                for holder in inside:
                    reservation = self.reservations.get(holder)
                    if reservation and name not in reservation.job.job_class.admitted:
                        self._void[reservation.job.jobid] = None
        ends = (w.end for w in self.windows.values() if w not in self.spares)
        self._window_ends = min(ends, default=math.inf)

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
            worked, before = True, self.profile.meter.total
            try:
                next(self._work)
            except StopIteration:
                self._work = None
                if not self.profile.meter.spend(_JOB):
                    continue
            except Exception as e:  # one job must not hold up all others
                self._work = None
                self._fail(e)
            finally:
                self._sweep_work += self.profile.meter.total - before if self._sweeping else 0
            yield

    def _next_work(self) -> Optional[Iterator[None]]:
        """What is to be done next; None if nothing is."""
        now, self._sweeping = self._clock(), False
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
                if place[1] in self._early:
                    self._early.remove(place[1])
                    return self._try(self.jobs[place[1]])
            elif self._offered.get(source) == place:
                del self._offered[source]
                if source.next() == place:
                    return self._serve(source, self.jobs[place[1]])
                self._offer(source)
            if self.profile.meter.spend(1):  # most may be of jobs that have left
                return iter((None,))
        if self._searched:
            return self._serve_searched()
        if self._sweep_times == _NEVER and self._roomier != _NEVER and now >= self._next_sweep:
            self._sweep_times, self._roomier = self._roomier, _NEVER
            places = sorted(made.job.place for made in self.reservations.values())
            self._sweep.extend(place[1] for place in places)
        while self._sweep:
            jobid = self._sweep.popleft()
            if jobid in self.reservations:
                self._sweeping = True
                return self._move(self.jobs[jobid])
        if self._sweep_times != _NEVER:  # it is over
            self._next_sweep = now + max(SWEEP, _PAUSE * self._sweep_work * WORK)
            self._sweep_times, self._sweep_work = _NEVER, 0
            self._gains, self._moved = self._moved, []
        return self._weigh() if self._gains else None

    def _next_time(self) -> float:
        times, start = [self._window_ends], self.profile.starts.after(self._now)
        times += [start] if start is not None and start < self._now + FAR else []
        times += [self._patience[0][0]] if self._patience else []
        if self.profile.starts.upto(self._now):  # jobs that wait for preemptible ones, perhaps
            moment = self.profile.yields.after(self._now)
            times += [] if moment is None else [moment]
        times += [self._next_sweep] if self._roomier != _NEVER else []
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
        went_back = now < self._now - LATE
        self._now = now
        profile.follow(now)
        if went_back:  # there are earlier starts than before, and who was late is late no more
            self._next_sweep = now
            for made in self.reservations.values():
                self._hold_until(made, min(made.end, made.job.end(max(now, made.start))))
            self._look_at_all()
        self._gains += profile.gains
        self._void.update((h, None) for h in profile.broken if isinstance(h, int))
        if profile.gains or profile.broken or profile.nodes_changed:
            self._done = False
        profile.gains, profile.broken = [], []
        if profile.nodes_replaced:
            profile.nodes_replaced = False
            old, self._types = self._types, self.pool.inventory.types
            pairs = enumerate(zip_longest(old, self._types))
            changed = idset.from_ids(rank for rank, (a, b) in pairs if a is not b)
            for made in self.reservations.values():
                if changed & ranks_in(made.parts):
                    self._void[made.job.jobid] = None
            windows = list(self.windows.values())
            self.set_windows(())
            self.set_windows(windows)
            self._look_at_all()
        if profile.nodes_changed:
            profile.nodes_changed, self._idle = False, None
            self._offer_again()

    def _offer_again(self) -> None:
        """Offer all anew; jobs that the nodes that were up could not serve are planned first."""
        for line in self._lines.values():
            self._offer_all(line)
        for own in self.classes:
            own.servable = None

    def _look_at_all(self) -> None:
        """Look at everything anew; what was learned so far need not be so any more."""
        self._work = None
        self._offer_again()
        for own in self.classes:
            own.forget()
        for made in self.reservations.values():
            self._look_again(made)
        self._note_room(PRESENT, math.inf)

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
        if self.jobs[place[1]].job_class.searched:
            self._searched[source] = None
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
        """The first job whose reservation has come, unless it was tried and nothing has changed, or
        jobs that were told to end for it are still there."""
        due, changes = self._due(now), self.profile.log.end
        untried = (r for r in due if r.tried != changes or r.job.end(now) > r.end + LATE)
        alone = (r for r in untried if not any(map(self.pool.has_job, r.victims)))
        first = min(alone, key=lambda r: (r.is_brief, r.start, r.job.place), default=None)
        return None if first is None else first.job

    def _due(self, now: float) -> list[Reservation]:
        """The reservations that have come."""
        starts = self.profile.starts
        come = starts.holders(0, starts.upto(now))
        return [self.reservations[h] for h in come if h in self.reservations]

    def _serve_searched(self) -> Iterator[None]:
        """Serve the first job that needs a search, of the user for whom least was done so far."""
        jobs = []
        for source in list(self._searched):
            place = source.next()
            if place is None or not self.jobs[place[1]].job_class.searched:
                del self._searched[source]
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
        del self._searched[source]
        job = self.jobs[place[1]]
        least = min(self._spent.values(), default=0)
        self._spent[job.user] = max(spent, least)  # who is new owes nothing, and is owed nothing
        before = self.profile.meter.total
        yield from self._serve(source, job)
        self._spent[job.user] += self.profile.meter.total - before
        if not self._searched:
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
            view = View(PRESENT, PRESENT, Sight(), idle, self.profile.log.end)
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
            index.set_up(up)
            self._idle = self.pool.situation.on(index)
        return self._idle

    # -- starting jobs

    def _present(
        self, job: Waiting, without: frozenset[int] = frozenset()
    ) -> Generator[None, None, tuple[View, Choice, float]]:
        """What *job* would get if it started now, and the jobs *without* had nothing: the view, the
        choice, and the time."""
        planned, sight = self.profile.starts.before, self._sight(job)
        sight = sight._replace(without=sight.without | without, preempts=False)
        while True:
            view = yield from self.views.at(PRESENT, job.end(self._clock()), sight)
            choice = yield from self.views.choice(view, job.request)
            now = self._clock()
            end = job.end(now)
            ends = (view.end, end), (view.end - sight.tail, end - sight.tail)
            if all(planned(late) <= planned(early) for early, late in ends):
                return view, choice, now
            # Something is planned to begin before the end by now that was not when this began.

    def _sight(self, job: Waiting) -> Sight:
        """What *job* sees of what is held: what it has reserved itself is free."""
        sight = job.sight
        if job.jobid in self.reservations:
            sight = sight._replace(without=sight.without | {job.jobid})
        return sight

    def _try(self, job: Waiting) -> Generator[None, None, bool]:
        """Start *job* now if that delays no reservation of another; returns whether it has left."""
        self._job, own = job, job.job_class
        units = Units(job.request, self.profile)
        lacking = yield from self._lacking(job, units)
        if not lacking:
            view, choice, now = yield from self._present(job)
            own.gave_up = choice.gave_up
            selection = choice.selection
            if selection is not None:
                self.views.keep(view)
                self._launch(job, parts_of(selection), selection.nslots, now, job.end(now))
                return True
            if job.jobid not in self.reservations:
                yield from self.views.count(view, units)
                if view.free >= units.need and not units.exact:
                    units.become_exact()
                    yield from self.views.count(view, units)
                lacking = max(1, units.need - view.free)
            self.views.keep(view)
        if job.jobid not in self.reservations:
            own.stuck = Lack(job.length, lacking)
        return False

    def _lacking(self, job: Waiting, units: Units) -> Generator[None, None, int]:
        """How many *units* *job* lacks for a start now, at least, by the numbers of free cores and
        GPUs alone, which most often say that it cannot. They have what is reserved, also where that
        holds no more or is its own."""
        supply = yield from self.profile.settled(units.within, False)
        now, made = self._clock(), self.reservations.get(job.jobid)
        if self._void or (made is not None and made.start <= now):
            return 0
        end = job.end(now) - job.sight.tail
        return units.lacking(*supply.least(now, end if made is None else min(end, made.start)))

    def _start_reserved(self, job: Waiting) -> Iterator[None]:
        """Start *job*, whose reservation has come, on what is reserved once that is free.

        If it is late, it is planned to start now, and jobs that this delays are planned again. It
        must not delay jobs ahead of it in its queue, nor reach into a window: then it is planned
        again itself.
        """
        self._job = job
        made, now = self.reservations[job.jobid], self._clock()
        end = job.end(now)
        if end > made.end + LATE:
            sight = self._sight(job)._replace(preempts=False)  # one that may be ended is late too
            delayed = self.profile.in_the_way(made.end, end, made.parts, sight)
            others = [self.reservations[h].job for h in delayed if h in self.reservations]
            ahead = any(o.queue == job.queue and o.place < job.place for o in others)
            if ahead or len(others) < len(delayed):
                self._void[job.jobid] = None
                return
            self._void.update((other.jobid, None) for other in others)
            self._hold_until(made, end)
        if are_free(made.parts, self.pool.situation.index):
            others = [one.job for one in self._due(now) if one.is_brief and one is not made]
            brief = [other.jobid for other in others]
            self._void.update((h, None) for h in self.profile.sharing(brief, made.parts))
            self._launch(job, made.parts, made.nslots, now, made.end)
        elif job.job_class.terms.preempts and self.profile.sharing(self._may_end(), made.parts):
            yield from self._preempt(job, made)
        made.tried = self.profile.log.end

    # -- preemption

    def _may_end(self) -> list[int]:
        """The running jobs that may be ended now."""
        profile, now = self.profile, self._clock()
        terms = profile.terms.items()
        return [j for j, (_, moment) in terms if moment <= now and j in profile.preemptible]

    def _cheapest_first(self) -> Generator[None, None, list[int]]:
        """The running jobs that may be ended now, those that lose least first."""
        profile, now = self.profile, self._clock()
        self._told = set(filter(self.pool.has_job, self._told))
        lost: dict[int, float] = {}
        for jobid in self._may_end():
            if jobid in profile.preemptible:
                since, _ = profile.terms[jobid]
                share = profile.share(jobid)
                lost[jobid] = -1.0 if jobid in self._told else share * (now - since)
            if profile.meter.spend(1):
                yield
        return sorted(lost, key=lambda jobid: (lost[jobid], -jobid))

    def _preempt(self, job: Waiting, made: Reservation) -> Iterator[None]:
        """End the jobs that lose least, and no more than needed, for *job*, whose time has come.

        The cheapest are given up until the request fits. Of those, each that has something of what
        it would get then stays if it fits without, the dearest first.
        """
        able, profile = (yield from self._cheapest_first()), self.profile
        few, many, found = 0, len(able), None
        while found is None or few < many:
            number = many if found is None else (few + many) // 2
            selection = yield from self._without(job, able[:number])
            if selection is not None:
                found, many = selection, number
            elif found is None:
                return  # others are late: it waits for them
            else:
                few = number + 1
        ending = profile.sharing(able[:many], parts_of(found))
        for jobid in ending[: -_MOST_KEPT - 1 : -1]:
            if jobid in ending:
                some = [other for other in ending if other != jobid]
                selection = yield from self._without(job, some)
                if selection is not None:
                    ending = profile.sharing(some, parts_of(selection))
        selection = yield from self._without(job, ending)
        if selection is None or job.jobid in self._void:
            return  # something has changed
        now, parts = self._clock(), parts_of(selection)
        made.victims = frozenset(profile.sharing(ending, parts))
        self._gains.append(profile.drop(job.jobid))
        profile.hold(job.jobid, made.start, job.end(now), parts, True, job.job_class.terms)
        made.parts, made.nslots, made.end = parts, selection.nslots, job.end(now)
        if made.victims:
            line = self._lines[job.queue]
            line.preempting.add(job.jobid)
            made.asked = now
            self._offer(line)
            told, self._told = self._told, self._told | made.victims
            self._launcher.preempt(job, made.victims, made.victims - told)
        else:
            self._launch(job, made.parts, made.nslots, now, made.end)

    def _without(
        self, job: Waiting, ended: Iterable[int]
    ) -> Generator[None, None, Optional[Selection]]:
        """On what *job* could start now if the jobs *ended* had nothing."""
        _, choice, _ = yield from self._present(job, frozenset(ended))
        return choice.selection

    def _launch(
        self, job: Waiting, parts: tuple[Held, ...], nslots: int, now: float, end: float
    ) -> None:
        """Let *job* hold *parts*, planned until *end*, and leave the queue."""
        self.profile.meter.owe(_START)
        pool, jobid = self.pool, job.jobid
        held = pool.has_job(jobid)
        after = job.job_class.terms.after
        try:
            allocation = pool.allocation(parts, nslots)
            pool.register_alloc(jobid, allocation)
            expiration = pool.end_of_job(job.request.duration, now)
            expiration = min(expiration or math.inf, job.until)
            expiration = 0.0 if expiration == math.inf else expiration
            allocation.set_starttime(now)
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
            self.runs(jobid, now, after)
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
        first = yield from earliest_start(self.views, job, job.sight, self._clock())
        if line.next() == job.place:
            job.job_class.servable = first is not None
            if first is not None:
                line.reserve(job)
                self._hold(job, first)

    def _note_room(self, start: float, end: float) -> None:
        """Take note that there is more room between two times: reservations may move there."""
        self._roomier = min(start, self._roomier[0]), max(end, self._roomier[1])

    def _look_again(self, made: Reservation) -> None:
        """Try to start a job before its reservation."""
        self._early.add(made.job.jobid)
        self._push(made.job.place)

    def _move(self, job: Waiting) -> Iterator[None]:
        """Move the reservation of *job* to an earlier start, if there is one."""
        self._job = job
        made, (begin, until) = self.reservations[job.jobid], self._sweep_times
        begin, until = max(begin - job.length, self._clock()), min(until, made.start)
        if begin < until:
            first = yield from earliest_start(
                self.views, job, self._sight(job), begin, until, made.start
            )
            if first is not None and self.reservations.get(job.jobid) is made:
                self._moved.append(self.profile.drop(job.jobid))
                self._hold(job, first)

    def _hold(self, job: Waiting, first: Start) -> None:
        start, end, parts = first.time, job.end(first.time), parts_of(first.selection)
        self.profile.hold(job.jobid, start, end, parts, True, job.job_class.terms)
        made = Reservation(job, start, end, parts, first.selection.nslots)
        self.reservations[job.jobid] = made

    def _hold_until(self, made: Reservation, end: float) -> None:
        """Let a reservation hold what it has until *end*."""
        job = made.job
        if end != made.end:
            self.profile.drop(job.jobid)
            self.profile.hold(job.jobid, made.start, end, made.parts, True, job.job_class.terms)
            made.end = end

    def _give_up(self, jobid: int) -> Change:
        """Give up a reservation; its job is in no line then. Returns where there is more room."""
        made = self.reservations.pop(jobid)
        self._lines[made.job.queue].unreserve(made.job)
        self._lines[made.job.queue].preempting.discard(jobid)
        self._early.discard(jobid)
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
        gains, self._gains = self._gains, []
        ranks = idset.union(gain.ranks for gain in gains)
        if self.reservations:
            self._note_room(min(g.start for g in gains), max(g.end for g in gains))
        reserved: dict[JobClass, list[Reservation]] = {}
        for made in self.reservations.values():
            reserved.setdefault(made.job.job_class, []).append(made)
        for own in self.classes:
            if own.stuck is None and own not in reserved:
                continue
            units = Units(own.relaxed or own.request, self.profile)
            gained = yield from self.views.gained(ranks, units)
            if not gained:
                continue
            if own.stuck is not None:
                own.stuck = own.stuck.less(gained)
                if own.stuck is None:
                    for line in self._lines.values():
                        if own in line.groups:
                            self._offer(line.groups[own])
            if own in reserved and units.in_situation(self.pool.situation) >= units.need:
                for made in reserved[own]:
                    if self.reservations.get(made.job.jobid) is made:
                        self._look_again(made)

    def _relax(self) -> Iterator[None]:
        """Relax the requests of the jobs whose patience has ended."""
        while self._patience and self._patience[0][0] <= self._clock():
            job = self.jobs.get(heapq.heappop(self._patience)[1])
            if job is not None and job.patience <= self._clock():
                self.replace(self.classes.impatient(job))
            if self.profile.meter.spend(_JOB):
                yield
