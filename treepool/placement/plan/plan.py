"""The plan: reservations, and which jobs may start beside them.

A *reservation* is the earliest time at which a waiting job can start beside the running jobs and
all other reservations, and the cores and GPUs that it then gets. A job may start now only on
resources that are free and not in a reservation that begins before the job ends.

A reservation only changes if something concerns it:

* More room (a job ended early, a reservation was given up, a node came up): in the order of the
  queue, each reservation moves to the earliest start that it can now have. The others stay in place
  meanwhile, so none moves to a later start.
* Less room (a node went down, a job got a later end or started late): reservations that no longer
  hold are given up, and their jobs are planned again. So are those behind them, or they would gain.

Jobs end at their time limits at the latest. A job that is over its limit is expected to end at any
moment. A reservation whose start has passed keeps its resources free until its job starts.

The file has more than 300 lines because all that changes a reservation must stand together.
"""

from __future__ import annotations

import math
from itertools import count
from typing import Generator, Iterable, Iterator, Optional

import attrs

from treepool.errors import InfeasibleRequest, InsufficientResources
from treepool.placement.allocation import Allocation, parts_of
from treepool.placement.choose.selection import Selection
from treepool.placement.jobs import are_free
from treepool.placement.nodes.state import Held
from treepool.placement.plan.course import Course, Use
from treepool.placement.plan.earliest import Found
from treepool.placement.plan.follow import Follower
from treepool.placement.plan.future import PRESENT, Holder
from treepool.placement.plan.gains import Gain, Gains
from treepool.placement.plan.jobs import Floor, Kind, Reservation, Waiting, earliest_start
from treepool.placement.plan.kinds import Kinds
from treepool.placement.plan.portions import prepared
from treepool.placement.plan.timeline import NEVER, UNPLANNED, Change, Timeline, end_of
from treepool.placement.plan.track import Track, room_left
from treepool.placement.plan.units import Units
from treepool.placement.plan.views import Views
from treepool.placement.plan.window import Window
from treepool.placement.pool import Pool
from treepool.rfc import idset

#: Seconds by which a job with a reservation may start late and still be planned to end in time, so
#: that the others need not be planned again: no job starts in the very moment.
_LATE = 1.0

#: How often a search is repeated, at most, because the timeline changed meanwhile.
_TRIES = 8


class Plan:
    """The reservations of waiting jobs on a pool. Call ``follow`` when the pool has changed."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.timeline = Timeline(pool)
        self.reservations: dict[int, Reservation] = {}
        self.kinds = Kinds(pool)
        self._gains = Gains()
        #: The gains before this number have been compared with the kinds of waiting jobs.
        self._reconsidered = 0
        #: A track for each reservation.
        self._tracks: dict[int, Track] = {}
        self.windows: dict[str, Window] = {}
        #: Whether nodes went up or down since a pass began, and whether the pool has other nodes.
        self.nodes_changed = True
        self.nodes_replaced = False
        #: The kinds of jobs for which the pool may no longer have the nodes.
        self.unchecked: dict[Kind, None] = {}
        #: Jobs whose reservations were given up since the last call of ``follow``.
        self._void: list[Waiting] = []
        self._follower = follower = Follower(
            self.timeline, self._gains, self.reservations, self._give_up, self._note_nodes
        )
        self.views = Views(self.timeline, lambda: follower.is_behind)

    # -- windows

    def set_windows(self, windows: Iterable[Window]) -> None:
        """Replace all windows; ``follow`` then returns the jobs that lost their reservations."""
        new = {window.name: window for window in windows}
        for name, window in list(self.windows.items()):
            if new.get(name) != window:
                del self.windows[name]
                self._gains.add(self.timeline.remove(name))
        for name, window in new.items():
            if name not in self.windows:
                self.windows[name] = window
                parts = window.parts(self.pool.inventory)
                self.timeline.add(name, window.start, window.end, parts)
                inside = self.timeline.overlapping(window.start, window.end, parts)
                self._follower.invalidate(
                    jobid
                    for jobid, reservation in self.reservations.items()
                    if jobid in inside and name not in reservation.job.kind.leave
                )

    def expire(self, now: float) -> None:
        """Drop the windows that are over."""
        left = [window for window in self.windows.values() if window.end > now]
        if len(left) < len(self.windows):
            self.set_windows(left)

    # -- following the pool

    def follow(self) -> list[Waiting]:
        """Follow the changes of the pool; returns the jobs that lost their reservations.

        If there are many, some are left for the next call, see ``is_behind``.
        """
        self._follower.follow()
        void, self._void = self._void, []
        return void

    @property
    def is_behind(self) -> bool:
        """Whether there are changes that ``follow`` has left. Nothing can be planned until then."""
        return self._follower.is_behind

    def _give_up(self, jobid: int) -> None:
        """Give up a reservation that does not hold, and return its job, unless it was started."""
        job = self.cancel(jobid)
        if not self.pool.has_job(jobid):
            self._void.append(job)

    def _note_nodes(self, replaced: bool) -> None:
        """Forget what depends on which nodes are up; everything if the nodes were *replaced*.

        The follower, which begins anew then, gives up the reservations one after another.
        """
        self.nodes_changed = True
        for kind in self.kinds:
            kind.servable = None
        if replaced:
            self.nodes_replaced = True
            windows = list(self.windows.values())
            self.set_windows(())
            self.set_windows(windows)
            for kind in self.kinds:
                kind.forget()
            self.unchecked = dict.fromkeys(self.kinds)

    def reopen(self) -> None:
        """Take note that the clock was set back, so that there are earlier starts than before."""
        ranks = tuple(idset.iterate(self.pool.ranks))
        self._gains.add(Change(PRESENT, math.inf, ranks))

    @property
    def has_gains(self) -> bool:
        """Whether there are gains that have not been compared with all jobs yet."""
        return bool(self._gains)

    def reconsider(self, now: float) -> Iterator[None]:
        """Forget what is known about the kinds of jobs that the latest gains may help."""
        for gain in self._gains.since(self._reconsidered):
            yield from self.kinds.reconsider(gain, self.timeline, now)
            self._reconsidered += 1  # not before: the pass may be left at any yield

    def trim(self) -> None:
        """Forget the gains that have been compared with all kinds and reservations."""
        seen = (track.seen for track in self._tracks.values())
        self._gains.trim(min([self._reconsidered, *seen]))

    def trim_all(self) -> None:
        """Forget all gains, for a plan that does not use them."""
        self._reconsidered = self._gains.end
        self._gains.trim(self._reconsidered)

    # -- starting jobs

    def note_stuck(self, job: Waiting, now: float) -> Generator[None, None, None]:
        """Note that *job* cannot start now, and neither can longer jobs of its kind."""
        kind, need = job.kind, job.request.least_asks
        kind.stuck, kind.lacking = job.length, 1
        if need > 1:
            view = yield from self.views.view(
                PRESENT, end_of(now, job.request.duration), kind.leave
            )
            units = Units(job.request, self.pool.inventory)
            units.count(view)
            if units.free >= need:
                yield from units.become_exact(self.timeline, view)
            if kind.stuck == job.length:
                kind.lacking = max(1, need - units.free)

    def start(self, job: Waiting, now: float) -> Generator[None, None, Allocation]:
        """Start *job* now, if that delays no reservation of another job.

        The allocation has its expiration set. Raises InsufficientResources or InfeasibleRequest.
        """
        request = job.request
        for attempt in count():
            if not self.timeline.clear_until(end_of(now, request.duration)):
                selection = yield from self.selection(job, now)
                if selection is not None:
                    return self._start_on(parts_of(selection), selection.nslots, job, now)
                break
            try:
                with self.timeline.portion(attempt) as portion:
                    return self._limited(self.pool.alloc(job.jobid, request), job, now)
            except InfeasibleRequest:  # perhaps only while the request is strict
                break
            yield from prepared(self.timeline, self.pool.situation.index, portion)
        self.pool.check_feasibility(job.relaxed)
        raise InsufficientResources("not enough resources are free now")

    def selection(self, job: Waiting, now: float) -> Generator[None, None, Optional[Selection]]:
        """The resources on which *job*, in the queue or not, could start now beside the plan."""
        leave = job.kind.leave
        if job.jobid in self.reservations:
            leave = leave | {job.jobid}
        end = end_of(now, job.request.duration)
        return (yield from self.views.choice(PRESENT, end, job.request, leave)).selection

    def may_start(self, job: Waiting, now: float) -> bool:
        """Whether to try to start *job*: its reservation has come, and something has changed."""
        due = self.reservations[job.jobid].start <= now
        return due and self._tracks[job.jobid].tried != self.timeline.journal.end

    def note_tried(self, job: Waiting, changes: int) -> None:
        """Note that *job* could not start after so many *changes*, once the attempt has ended."""
        self._tracks[job.jobid].tried = changes

    def start_reserved(
        self, job: Waiting, now: float, behind: set[int]
    ) -> Generator[None, None, Allocation]:
        """Start *job*, whose reservation has come, on what is reserved, or otherwise elsewhere.

        A job that starts late also ends late. It may delay the jobs *behind* it (job ids), and
        those whose reservations begin after its own was to end; ``follow`` gives these up. It must
        not delay any other. Raises InsufficientResources or InfeasibleRequest.
        """
        reservation = self.reservations[job.jobid]
        end, parts = end_of(now, job.request.duration), reservation.parts
        leave = job.kind.leave | {job.jobid}
        delayed = self.timeline.overlapping(reservation.start, end, parts, leave)
        following = {
            jobid
            for jobid, other in self.reservations.items()
            if jobid in delayed and other.start >= reservation.end
        }
        if are_free(parts, self.pool.situation.index) and delayed <= behind | following:
            allocation = self._start_on(parts, reservation.nslots, job, now)
            if 0 < now - reservation.start <= _LATE:
                self._follower.late[job.jobid] = end, reservation.end
            return allocation
        return (yield from self.start(job, now))

    def _start_on(
        self, parts: tuple[Held, ...], nslots: int, job: Waiting, now: float
    ) -> Allocation:
        allocation = Allocation(self.pool.inventory, parts, nslots)
        self.pool.register_alloc(job.jobid, allocation)
        return self._limited(allocation, job, now)

    def _limited(self, allocation: Allocation, job: Waiting, now: float) -> Allocation:
        """*allocation* with the expiration that *job* has if it starts now."""
        expiration = now + job.length if job.request.duration > 0 else self.pool.expiration
        allocation.set_expiration(expiration)
        self.pool.update_expiration(job.jobid, expiration)
        return allocation

    # -- reservations

    def reserve(self, job: Waiting, now: float) -> Generator[None, None, Optional[Reservation]]:
        """Reserve the earliest start of *job*; None if nodes are down, or a search gave up."""
        kind = job.kind
        floor = kind.floor(job.length)
        begin = max(now, min(floor.time, job.patience))
        seen, end = self._reconsidered, self._gains.end
        found, known = yield from self._earliest_start(job, kind.leave, begin)
        if found is None:  # a search gave up
            kind.raise_floor(Floor(job.length, min(NEVER, job.patience)))
            return None
        if self._gains.end == end:
            kind.raise_floor(Floor(job.length, min(found.start, job.patience)))
        course = Course(job.request.least_asks)
        if begin > now:  # the time before was not searched: perhaps it lacks a single unit
            course.note(now, course.need - 1)
        course.replace(begin, found.start, known)
        self._tracks[job.jobid] = Track(seen, course)
        return self._put(job, found)

    def move(self, job: Waiting, now: float) -> Generator[None, None, bool]:
        """Move the reservation of *job* to an earlier start; returns whether there was room."""
        track = self._tracks[job.jobid]
        track.unfinished = True  # the pass may be left at any yield
        moved = yield from self._move(job, track, now)
        track.unfinished = False
        return moved

    def _move(self, job: Waiting, track: Track, now: float) -> Generator[None, None, bool]:
        reservation, leave = self.reservations[job.jobid], job.kind.leave | {job.jobid}
        start, known = reservation.start, len(track.gained)
        track.course.reopen(now)
        track.base.reopen(now)
        for gain in self._gains.since(track.seen):
            uses = yield from self._gained(gain, track, job, now)
            if self.timeline.should_yield(1):
                yield
            if self._tracks.get(job.jobid) is not track:
                return False
            track.add(gain, uses)
            track.seen += 1
        chance = track.course.chance(now)
        if chance is not None and 0 < known < len(track.gained):  # the uses may be taken by now
            course = Course(track.base.need, track.base)
            for gain in track.gained:
                for use in (yield from self._gained(gain, track, job, now)):
                    course.add(use)
                if self._tracks.get(job.jobid) is not track:
                    return False
            track.course, chance = course, course.chance(now)
        while chance is not None and max(now, chance[0]) < start:
            begin, end = max(now, chance[0]), min(chance[1], start)
            found, course = yield from self._earliest_start(job, leave, begin, end)
            if self._tracks.get(job.jobid) is not track:
                return False
            track.note_search(begin, end, course)
            if found is not None:
                track.course.cut(found.start)
                self.timeline.remove(job.jobid)
                for change in room_left(reservation, self._put(job, found)):
                    self._gains.add(change)
                return True
            chance = track.course.chance(now)
        return False

    def _gained(
        self, gain: Gain, track: Track, job: Waiting, now: float
    ) -> Generator[None, None, list[Use]]:
        """What *job* could use of *gain* before its reservation."""
        leave, start = job.kind.leave | {job.jobid}, self.reservations[job.jobid].start
        job_at = job.length, leave, now, start
        ranks = yield from gain.serving(self.timeline, job.relaxed.ask, *job_at)
        if not ranks:
            return []
        # Units that were free for the relaxed request before may now serve the strict one.
        known = track.gain_counts(self._gains) if job.kind.relaxed is None else None
        return (yield from gain.uses(self.timeline, ranks, job.relaxed, *job_at, known))

    def _earliest_start(
        self, job: Waiting, leave: frozenset[Holder], begin: float, before: float = math.inf
    ) -> Generator[None, None, tuple[Optional[Found], Course]]:
        """``earliest_start``, repeated if there were gains meanwhile, which a search can miss."""
        for _ in range(_TRIES):
            end = self._gains.end
            answer = yield from earliest_start(self.views, job, leave, begin, before)
            if self._gains.end == end:
                break
        return answer

    def next_time(self, now: float) -> float:
        """The first time after *now* at which a planned holding begins or a window ends."""
        ends = [w.end for w in self.windows.values() if w.end > now]
        start = self.timeline.next_start_from(math.nextafter(now, math.inf))
        return min([*ends, start if start < NEVER else math.inf])

    def begins_by(self, time: float) -> bool:
        """Whether a planned holding begins at *time* or before."""
        return not self.timeline.clear_until(math.nextafter(time, math.inf))

    def replace(self, job: Waiting) -> None:
        """Replace the job of a reservation by *job*, the same with another priority or kind."""
        old = self.reservations[job.jobid]
        self.reservations[job.jobid] = attrs.evolve(old, job=job)
        self._tracks[job.jobid].tried = -1  # the job may ask for less now

    def has_gained(self, job: Waiting) -> bool:
        """Whether there are gains since the last ``move`` of *job*, or that was interrupted."""
        track = self._tracks[job.jobid]
        return track.unfinished or track.seen < self._gains.end

    def cancel(self, jobid: int) -> Waiting:
        """Give up the reservation of job *jobid*; returns the job."""
        reservation = self.reservations.pop(jobid)
        del self._tracks[jobid]
        self._gains.add(self.timeline.remove(jobid))
        return reservation.job

    def _put(self, job: Waiting, found: Found) -> Reservation:
        made = Reservation.of(job, found)
        self.timeline.add(job.jobid, made.start, made.end, made.parts)
        self.reservations[job.jobid] = made
        return made

    def is_servable(self, kind: Kind) -> Generator[None, None, bool]:
        """Whether the nodes that are up could serve jobs of *kind* if nothing else ran."""
        if kind.servable is None:
            choice = yield from self.views.choice(NEVER, UNPLANNED, kind.relaxed or kind.request)
            kind.servable = choice.selection is not None or choice.gave_up
        return kind.servable
