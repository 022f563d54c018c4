"""Waiting jobs, their kinds, and their reservations."""

from __future__ import annotations

import math
from typing import Generator, NamedTuple, Optional

import attrs

from treepool.placement.allocation import parts_of
from treepool.placement.nodes.state import Held
from treepool.placement.plan.course import Course
from treepool.placement.plan.earliest import Found, earliest
from treepool.placement.plan.future import PRESENT, Holder
from treepool.placement.plan.timeline import NEVER, end_of
from treepool.placement.plan.units import Units
from treepool.placement.plan.views import Views
from treepool.placement.request.vertices import Request

#: The sort key of the queue: the negative priority, then the job id.
Place = tuple[int, int]


class Floor(NamedTuple):
    """Jobs of at least ``length`` cannot be planned to start before ``time``."""

    length: float
    time: float


#: The floor if there is no other. It rules out nothing.
NO_FLOOR = Floor(0.0, PRESENT)


@attrs.define(eq=False)
class Kind:
    """Waiting jobs whose requests differ only in their duration, and what is known about them.

    ``request`` has no duration. The jobs may use the nodes of the windows in ``leave``. ``relaxed``
    is what they ask for when their patience ends; None if that is ``request``.
    """

    request: Request
    leave: frozenset[Holder] = frozenset()
    relaxed: Optional[Request] = None
    #: Jobs of at least this length (seconds) cannot start now, and how many units they lack.
    stuck: float = math.inf
    lacking: int = 0
    floors: list[Floor] = attrs.field(factory=list)
    #: The number of jobs of the kind that wait.
    njobs: int = 0
    #: Whether the nodes that are up could serve the kind if nothing else ran; None if not known.
    servable: Optional[bool] = None

    def forget(self) -> None:
        """Forget what is known about the jobs."""
        self.stuck, self.floors, self.servable = math.inf, [], None

    def floor(self, length: float) -> Floor:
        """The floor with the latest time among those that hold for jobs of *length*."""
        valid = (floor for floor in self.floors if floor.length <= length)
        return max(valid, key=lambda floor: floor.time, default=NO_FLOOR)

    def raise_floor(self, floor: Floor) -> None:
        """Remember *floor*, if its time is later than what is known."""
        if floor.time > self.floor(floor.length).time:
            kept = (f for f in self.floors if f.length < floor.length or f.time > floor.time)
            self.floors = [*kept, floor]


@attrs.frozen(eq=False)
class Waiting:
    """A job in the queue. Its ``request`` has a duration.

    If the request is strict (choose/strict.py), the job asks for ``relaxed`` from the time
    ``patience`` on. Otherwise ``patience`` is infinity.
    """

    jobid: int
    priority: int
    request: Request
    kind: Kind
    queue: str = ""
    patience: float = math.inf

    @property
    def place(self) -> Place:
        """Where the job stands in its line, the lowest first: by priority, then by job id."""
        return -self.priority, self.jobid

    @property
    def length(self) -> float:
        """The time limit in seconds; NEVER if there is none."""
        return self.request.duration or NEVER

    @property
    def relaxed(self) -> Request:
        """What the job asks for after its patience has ended."""
        relaxed = self.kind.relaxed
        if relaxed is None:
            return self.request
        return attrs.evolve(relaxed, duration=self.request.duration)


@attrs.frozen(eq=False)
class Reservation:
    """The latest time at which a waiting job will start, in seconds since the epoch, and on what.

    ``start`` is NEVER if the job waits for one without a time limit.
    """

    job: Waiting
    start: float
    parts: tuple[Held, ...]
    nslots: int

    @classmethod
    def of(cls, job: Waiting, found: Found) -> Reservation:
        """A reservation of *job* for the start and the nodes that were *found*."""
        return cls(job, found.start, parts_of(found.selection), found.selection.nslots)

    @property
    def end(self) -> float:
        """When the job ends if it starts then."""
        end = end_of(self.start, self.job.request.duration)
        return min(end, NEVER) if self.start < NEVER else end


def earliest_start(
    views: Views,
    job: Waiting,
    leave: frozenset[Holder],
    begin: float,
    before: float = math.inf,
) -> Generator[None, None, tuple[Optional[Found], Course]]:
    """The earliest start of *job* from *begin* on and before *before*; and how close it came.

    The job asks for its strict request until its patience ends, and then for the relaxed one.
    """
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
    # The courses of two requests cannot be joined: assume that one unit was lacking.
    course = Course(job.relaxed.least_asks)
    course.note(begin, course.need - 1)
    return found, course
