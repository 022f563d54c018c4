"""Waiting jobs, and what is known of all jobs of one kind."""

from __future__ import annotations

import math
from typing import Generator, NamedTuple, Optional

import attrs

from treepool.placement.allocation import parts_of
from treepool.placement.nodes.state import Held
from treepool.placement.plan.course import Course
from treepool.placement.plan.earliest import Found, Units, earliest, end_of, units_needed
from treepool.placement.plan.future import PRESENT, Holder
from treepool.placement.plan.timeline import NEVER
from treepool.placement.plan.views import Views
from treepool.placement.request.vertices import Request

#: The sort key of the queue: the negative priority, then the job id.
Place = tuple[int, int]


class Floor(NamedTuple):
    """Jobs of at least ``length`` cannot be planned to start before ``time``."""

    length: float
    time: float


#: A floor that says nothing.
NO_FLOOR = Floor(0.0, PRESENT)


@attrs.define(eq=False)
class Kind:
    """Waiting jobs whose requests differ in their duration only, and what is known of them.

    ``request`` has no duration. The spans of the windows in ``leave`` do not keep these jobs away.
    ``relaxed`` is what they ask for later, if that is less.
    """

    request: Request
    leave: frozenset[Holder] = frozenset()
    relaxed: Optional[Request] = None
    #: Jobs of at least this length (seconds) cannot start now; and how many units they lack.
    stuck: float = math.inf
    lacking: int = 0
    #: Jobs of at least a floor's length cannot be planned to start before its time.
    floors: list[Floor] = attrs.field(factory=list)
    #: How many jobs of the kind wait.
    njobs: int = 0
    #: Whether the nodes that are up could serve the kind if nothing else ran; None: not known.
    servable: Optional[bool] = None

    def forget(self) -> None:
        """Forget what is known of the jobs."""
        self.stuck, self.floors, self.servable = math.inf, [], None

    def floor(self, length: float) -> Floor:
        """The highest floor of jobs of *length*."""
        valid = (floor for floor in self.floors if floor.length <= length)
        return max(valid, key=lambda floor: floor.time, default=NO_FLOOR)

    def raise_floor(self, floor: Floor) -> None:
        """Remember *floor*, if it is higher than the one there is."""
        if floor.time > self.floor(floor.length).time:
            kept = (f for f in self.floors if f.length < floor.length or f.time > floor.time)
            self.floors = [*kept, floor]


@attrs.frozen(eq=False)
class Waiting:
    """A job in the queue; a ``request`` has its ``duration``. The lowest ``place`` is first.

    Until the time ``patience`` its request is as it is; if it is strict (choose/strict.py), the job
    asks for what is ``relaxed`` from then on.
    """

    jobid: int
    priority: int
    request: Request
    kind: Kind
    queue: str = ""
    patience: float = math.inf

    @property
    def place(self) -> Place:
        """Where the job is in the queue: by priority, then in the order of submission."""
        return -self.priority, self.jobid

    @property
    def length(self) -> float:
        """The time limit in seconds; NEVER if there is none."""
        return self.request.duration or NEVER

    @property
    def relaxed(self) -> Request:
        """What the job asks for in the end."""
        relaxed = self.kind.relaxed
        if relaxed is None:
            return self.request
        return attrs.evolve(relaxed, duration=self.request.duration)


@attrs.frozen(eq=False)
class Reservation:
    """When a waiting job will start at the latest, in seconds since the epoch, and what it gets.

    ``start`` is NEVER if the job waits for one without a time limit.
    """

    job: Waiting
    start: float
    parts: tuple[Held, ...]
    nslots: int

    @classmethod
    def of(cls, job: Waiting, found: Found) -> Reservation:
        """The reservation of *job* for what was *found*."""
        return cls(job, found.start, parts_of(found.selection), found.selection.nslots)

    @property
    def end(self) -> float:
        """When the job then ends."""
        end = end_of(self.start, self.job.request.duration)
        return min(end, NEVER) if self.start < NEVER else end


def earliest_start(
    views: Views,
    job: Waiting,
    leave: frozenset[Holder],
    begin: float,
    before: float = math.inf,
) -> Generator[None, None, tuple[Optional[Found], Course]]:
    """Where *job* can start first from *begin* on, before *before*; and how close it came."""
    inventory = views.timeline.pool.inventory
    found, units = None, Units(job.request, inventory)
    if begin < job.patience:
        until = min(before, job.patience)
        found = yield from earliest(views, job.request, leave, begin, until, units)
    if job.kind.relaxed is None:
        return found, units.course
    if found is None and job.patience < before:
        begin_relaxed = max(begin, job.patience)
        units = Units(job.relaxed, inventory)
        found = yield from earliest(views, job.relaxed, leave, begin_relaxed, before, units)
    # Two searches are no single course: take it that one unit was lacking.
    course = Course(units_needed(job.relaxed))
    course.note(begin, course.need - 1)
    return found, course
