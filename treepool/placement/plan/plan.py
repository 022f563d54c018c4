"""The plan: reservations, and which jobs may start beside them.

A *reservation* is the earliest time at which a waiting job can start beside the running jobs and
all other reservations, and the cores and GPUs it then gets. A job may start now only on resources
that are free and not in a reservation that begins before the job ends.

A reservation stays where it is until something concerns it:

* More room (a job ended early, a reservation was given up, a node came up): in the order of the
  queue, each reservation moves to the earliest start it can now have. All others stay in place
  meanwhile, so none ever moves to a later start.
* Less room (a node went down, a job got a later end or started late): reservations that no longer
  hold are given up, and their jobs are planned again.

Jobs end at their time limits at the latest. A job that is over its limit is expected to end at any
moment. A reservation whose start has passed keeps its resources free until its job starts.
"""

from __future__ import annotations

import math
from typing import Generator, Iterable, Iterator, Optional

import attrs

from treepool.errors import InfeasibleRequest, InsufficientResources
from treepool.placement.allocation import Allocation, parts_of
from treepool.placement.choose.selection import Selection
from treepool.placement.jobs import are_free
from treepool.placement.plan.course import Course, Use
from treepool.placement.plan.earliest import Found, Units, end_of, uses_of, wanted
from treepool.placement.plan.follow import Follower
from treepool.placement.plan.future import PRESENT, Holder
from treepool.placement.plan.gains import Gain, Gains
from treepool.placement.plan.jobs import Floor, Kind, Reservation, Waiting, soonest
from treepool.placement.plan.kinds import Kinds
from treepool.placement.plan.timeline import NEVER, UNPLANNED, Timeline
from treepool.placement.plan.track import Track, room_left
from treepool.placement.plan.views import Views
from treepool.placement.plan.window import Window
from treepool.placement.pool import Pool

#: A search is made at most so often if the timeline changes while it is made.
_TRIES = 8


class Plan:
    """The reservations of waiting jobs on a pool; it follows the pool by ``follow``."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.timeline = Timeline(pool)
        self.views = Views(self.timeline)
        self.reservations: dict[int, Reservation] = {}
        self.kinds = Kinds(pool)
        self._gains = Gains()
        #: Up to where the kinds have followed the gains; and how each reservation stands.
        self._reconsidered = 0
        self._tracks: dict[int, Track] = {}
        self.windows: dict[str, Window] = {}
        #: Whether nodes went up or down since a pass began, and whether they are other nodes now.
        self.nodes_changed = True
        self.nodes_replaced = False
        #: Jobs whose reservations were given up since ``follow`` was called last.
        self._void: list[Waiting] = []
        self._follower = Follower(
            self.timeline, self._gains, self.reservations, self._give_up, self._renew
        )

    # -- windows

    def set_windows(self, windows: Iterable[Window]) -> None:
        """Let *windows* be all windows there are; ``follow`` gives up reservations in their way."""
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
                for holder in self.timeline.overlapping(window.start, window.end, parts):
                    reservation = self.reservations.get(holder) if isinstance(holder, int) else None
                    if reservation is not None and name not in reservation.job.kind.leave:
                        self._give_up(reservation.job.jobid)

    def expire(self, now: float) -> None:
        """Drop the windows that are over."""
        left = [window for window in self.windows.values() if window.end > now]
        if len(left) < len(self.windows):
            self.set_windows(left)

    # -- following the pool

    def follow(self) -> list[Waiting]:
        """Take note of what changed in the pool; returns the jobs whose reservations are void.

        If much has changed, some of it is left for the next call, see ``is_behind``.
        """
        self._follower.follow()
        void, self._void = self._void, []
        return void

    @property
    def is_behind(self) -> bool:
        """Whether some changes of the pool are not known yet; nothing can be planned then."""
        return self._follower.is_behind

    def _give_up(self, jobid: int) -> None:
        """Give up a reservation that does not hold, unless its job was started."""
        job = self.cancel(jobid)
        if not self.pool.has_job(jobid):
            self._void.append(job)

    def _renew(self, others: bool) -> None:
        """Forget what depends on the nodes, which changed; all of it, if they are *others*.

        The follower, which begins anew then, gives up the reservations one after another.
        """
        self.nodes_changed = True
        for kind in self.kinds:
            kind.servable = None
        if others:
            self.nodes_replaced = True
            windows = list(self.windows.values())
            self.set_windows(())
            self.set_windows(windows)
            for kind in self.kinds:
                kind.forget()

    @property
    def has_gains(self) -> bool:
        """Whether there is more room somewhere that was not looked at yet."""
        return bool(self._gains)

    def reconsider(self, now: float) -> Iterator[None]:
        """Forget what is known of the kinds of jobs that may have gained."""
        soon = math.nextafter(now, math.inf)
        for gain in self._gains.since(self._reconsidered):
            for kind in list(self.kinds):
                if kind.stuck < math.inf:
                    uses = yield from self._uses(gain, kind, kind.stuck, now, soon)
                    kind.lacking -= sum(use.units for use in uses)
                    if kind.lacking <= 0:
                        kind.stuck = math.inf
                for floor in kind.floors:
                    if floor.time > now and (
                        yield from self._uses(gain, kind, floor.length, now, floor.time)
                    ):
                        kind.floors = []
                        break
            self._reconsidered += 1  # not earlier: the pass may be left at any yield

    def _uses(
        self, gain: Gain, kind: Kind, length: float, now: float, before: float
    ) -> Generator[None, None, list[Use]]:
        timeline, request, leave = self.timeline, kind.request, kind.leave
        if not leave and not gain.may_serve(timeline, request.ask, length, now, before):
            if timeline.tired(1):
                yield
            return []
        return (yield from uses_of(timeline, gain.change, request, length, leave, now, before))

    def trim(self) -> None:
        """Forget the gains that all have looked at."""
        seen = (track.seen for track in self._tracks.values())
        self._gains.trim(min([self._reconsidered, *seen]))

    def trim_all(self) -> None:
        """Forget all gains, where nobody looks at them."""
        self._reconsidered = self._gains.end
        self._gains.trim(self._reconsidered)

    # -- starting jobs

    def get_stuck(self, job: Waiting, now: float) -> Generator[None, None, None]:
        """Remember that *job* cannot start now, nor longer jobs of its kind."""
        kind, need = job.kind, wanted(job.request)
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
        """Start *job* now if that delays no other job's reservation.

        The returned allocation has its expiration set. Raises InsufficientResources or
        InfeasibleRequest.
        """
        request = job.request
        if self.timeline.clear_until(end_of(now, request.duration)):
            try:
                allocation = self.pool.alloc(job.jobid, request)
            except InfeasibleRequest:  # or only as long as it is strict
                self.pool.check_feasibility(job.relaxed)
                raise InsufficientResources("not enough resources are free now") from None
        else:
            selection = yield from self.selection(job, now)
            if selection is None:
                self.pool.check_feasibility(job.relaxed)
                raise InsufficientResources("not enough resources are free now")
            parts, inventory = parts_of(selection), self.pool.inventory
            allocation = Allocation(inventory, parts, selection.nslots)
            self.pool.register_alloc(job.jobid, allocation)
        self._begin(allocation, job, now)
        return allocation

    def selection(self, job: Waiting, now: float) -> Generator[None, None, Optional[Selection]]:
        """What *job*, whether it waits or not, could start on now beside all other reservations."""
        leave = job.kind.leave
        if job.jobid in self.reservations:
            leave = leave | {job.jobid}
        view = yield from self.views.view(PRESENT, end_of(now, job.request.duration), leave)
        return self.views.choice(view, job.request).selection

    def may_start(self, job: Waiting, now: float) -> bool:
        """Whether it is worth trying to start *job*, because its reservation has come."""
        if self.reservations[job.jobid].start > now:
            return False
        track, changes = self._tracks[job.jobid], self.timeline.journal.end
        tried, track.tried = track.tried, changes
        return tried != changes

    def start_reserved(
        self, job: Waiting, now: float, behind: set[int]
    ) -> Generator[None, None, Allocation]:
        """Start *job*, whose reservation has come, on what is reserved or else elsewhere.

        A job that starts late also ends late. It may then run into the reservations of jobs
        *behind* it (job ids), and into those that were to follow it, which ``follow`` gives up, but
        not into any other. Raises InsufficientResources or InfeasibleRequest.
        """
        reservation = self.reservations[job.jobid]
        end, parts = end_of(now, job.request.duration), reservation.parts
        leave = job.kind.leave | {job.jobid}
        way = self.timeline.overlapping(reservation.start, end, parts, leave)
        later = {j for j, r in self.reservations.items() if j in way and r.start >= reservation.end}
        if are_free(parts, self.pool.situation.index) and way <= behind | later:
            allocation = Allocation(self.pool.inventory, parts, reservation.nslots)
            self.pool.register_alloc(job.jobid, allocation)
            self._begin(allocation, job, now)
            return allocation
        return (yield from self.start(job, now))

    def _begin(self, allocation: Allocation, job: Waiting, now: float) -> None:
        ends = now + job.length if job.request.duration > 0 else self.pool.expiration
        allocation.set_expiration(ends)
        self.pool.update_expiration(job.jobid, ends)

    # -- reservations

    def reserve(self, job: Waiting, now: float) -> Generator[None, None, Optional[Reservation]]:
        """Reserve the earliest start of *job*; None if nodes that it needs are down."""
        kind = job.kind
        floor = kind.floor(job.length)
        begin = max(now, min(floor.time, job.patience))
        seen, end = self._reconsidered, self._gains.end
        found, known = yield from self._soonest(job, kind.leave, begin)
        if found is None:  # a search was given up
            kind.raise_floor(Floor(job.length, min(NEVER, job.patience)))
            return None
        if self._gains.end == end:
            kind.raise_floor(Floor(job.length, min(found.start, job.patience)))
        course = Course(wanted(job.request))
        if begin > now:  # nothing is known of the time before: one unit may be all that lacks
            course.note(now, course.need - 1)
        course.replace(begin, found.start, known)
        self._tracks[job.jobid] = Track(seen, course)
        return self._put(job, found)

    def move(self, job: Waiting, now: float) -> Generator[None, None, bool]:
        """Move the reservation of *job* to an earlier start if there is room; whether it moved."""
        track = self._tracks[job.jobid]
        track.unfinished = True  # the pass may be left at any yield
        moved = yield from self._move(job, track, now)
        track.unfinished = False
        return moved

    def _move(self, job: Waiting, track: Track, now: float) -> Generator[None, None, bool]:
        reservation = self.reservations[job.jobid]
        known = len(track.gained)
        for gain in self._gains.since(track.seen):
            uses: list[Use] = []
            if self._may_help(gain, job, now):
                uses = yield from self._gained(gain, track, job, now)
            if self.timeline.tired(1):
                yield
            if self._tracks.get(job.jobid) is not track:
                return False
            track.add(gain, uses)
            track.seen += 1
        chance = track.course.chance(now)
        if chance is not None and 0 < known < len(track.gained):  # others may have taken it since
            course = Course(track.base.need, track.base)
            for gain in track.gained:
                for use in (yield from self._gained(gain, track, job, now)):
                    course.add(use)
                if self._tracks.get(job.jobid) is not track:
                    return False
            track.course, chance = course, course.chance(now)
        while chance is not None and max(now, chance[0]) < reservation.start:
            begin, end = max(now, chance[0]), min(chance[1], reservation.start)
            leave = job.kind.leave | {job.jobid}
            found, course = yield from self._soonest(job, leave, begin, end)
            if self._tracks.get(job.jobid) is not track:
                return False
            track.looked(begin, end, course)
            if found is not None:
                track.course.end(found.start)
                self.timeline.remove(job.jobid)
                for change in room_left(reservation, self._put(job, found)):
                    self._gains.add(change)
                return True
            chance = track.course.chance(now)
        return False

    def _may_help(self, gain: Gain, job: Waiting, now: float) -> bool:
        """Whether *job* may use some of *gain* for an earlier start; if not, it cannot."""
        if job.kind.leave or not gain.ranks.isdisjoint(self.timeline.ranks_of(job.jobid)):
            return True
        start = self.reservations[job.jobid].start
        return gain.may_serve(self.timeline, job.relaxed.ask, job.length, now, start)

    def _gained(
        self, gain: Gain, track: Track, job: Waiting, now: float
    ) -> Generator[None, None, list[Use]]:
        """What *job* could use of *gain* before its reservation."""
        leave, start = job.kind.leave | {job.jobid}, self.reservations[job.jobid].start
        args = self.timeline, gain.change, job.relaxed, job.length, leave, now, start
        # Units for the relaxed request that were there before may now do for the strict one.
        known = track.gains_of(self._gains) if job.kind.relaxed is None else None
        return (yield from uses_of(*args, known))

    def _soonest(
        self, job: Waiting, leave: frozenset[Holder], begin: float, before: float = math.inf
    ) -> Generator[None, None, tuple[Optional[Found], Course]]:
        """``soonest``; again if more room came meanwhile, which a search can miss."""
        for _ in range(_TRIES):
            end = self._gains.end
            answer = yield from soonest(self.views, job, leave, begin, before)
            if self._gains.end == end:
                break
        return answer

    def next_time(self, now: float) -> float:
        """The first time after *now* at which what is planned begins, or a window ends."""
        ends = [w.end for w in self.windows.values() if w.end > now]
        start = self.timeline.next_start_from(math.nextafter(now, math.inf))
        return min([*ends, start if start < NEVER else math.inf])

    def begins_by(self, time: float) -> bool:
        """Whether a reservation may begin at *time* or before."""
        return not self.timeline.clear_until(math.nextafter(time, math.inf))

    def replace(self, job: Waiting) -> None:
        """Take *job* for the one that has a reservation now, with another priority."""
        old = self.reservations[job.jobid]
        self.reservations[job.jobid] = attrs.evolve(old, job=job)
        self._tracks[job.jobid].tried = -1  # it may ask for less now

    def has_gained(self, job: Waiting) -> bool:
        """Whether there is more room than when the reservation of *job* was last looked at."""
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
        """Whether jobs of *kind* wait for other jobs, and not for nodes that are down."""
        if kind.servable is None:
            view = yield from self.views.view(NEVER, UNPLANNED)
            choice = self.views.choice(view, kind.relaxed or kind.request)
            kind.servable = choice.selection is not None or choice.gave_up
        return kind.servable
