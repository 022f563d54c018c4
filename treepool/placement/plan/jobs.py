"""Waiting jobs, their classes, reservations; the policies fifo, easy, conservative, their depths.

All times are in seconds since the epoch and finite. A job without a time limit is planned as one of
a hundred years; what starts later than fifty years from now is told as "cannot be told".
"""

from __future__ import annotations

import math
from typing import Any, Iterator, NamedTuple, Optional, Union

import attrs

from treepool.placement.choose.serve import is_searched
from treepool.placement.choose.strict import relaxed
from treepool.placement.nodes.state import Held
from treepool.placement.pool import Pool
from treepool.placement.request.vertices import Request

#: The planned length of a job without a time limit; and how far ahead a start can be told.
CENTURY = 100 * 365.25 * 86400.0
FAR = CENTURY / 2

#: A preemptible job does not start where it would be ended within so many seconds.
_INSTANT = 1.0

#: The policies, and how many jobs of a queue have a reservation by default. Under fifo it is one,
#: whatever is given, because no job passes the first.
POLICIES: dict[str, float] = {"fifo": 1, "easy": 1, "conservative": 64}

#: Who holds something: a job id, or the name of a window.
Holder = Union[int, str]

#: The sort key of a queue: the negative priority, then the job id.
Place = tuple[int, int]


@attrs.frozen
class Rule:
    """The rule of a Flux queue: its policy, and how many of its jobs have a reservation."""

    policy: str = "easy"
    depth: float = POLICIES["easy"]

    @property
    def reservations(self) -> float:
        """How many jobs may have a reservation: at least the first one that waits."""
        return 1 if self.policy == "fifo" else max(1, self.depth)

    @property
    def shown_depth(self) -> Union[int, str]:
        """The depth for JSON: a number, or "unlimited"."""
        return int(self.depth) if self.depth < 1 << 53 else "unlimited"


#: The rule of queues for which none is given.
FIFO = Rule()


class Lack(NamedTuple):
    """What jobs of at least ``length`` lacked for a start when one was last tried: ``units``."""

    length: float
    units: int

    def less(self, gained: int) -> Optional[Lack]:
        """What is still lacking once *gained* units became free; None if nothing is."""
        return self._replace(units=self.units - gained) if gained < self.units else None


class Terms(NamedTuple):
    """Who may end whom: a job may be ended once it has run for ``after`` seconds (RFC 14,
    preemptible-after; infinity: never), for a job that ``preempts`` and would wait otherwise."""

    after: float = math.inf
    preempts: bool = False


#: A job that nobody may end, and that ends nobody.
NO_TERMS = Terms()


class Sight(NamedTuple):
    """What a job sees of the holdings of others.

    Holders in ``without`` have nothing. If it ``preempts``, preemptible jobs hold only until they
    may be ended. What is planned for jobs that preempt does not count in the last seconds of its
    time, as many as ``tail``, in which it may be ended itself.
    """

    without: frozenset[Holder] = frozenset()
    preempts: bool = False
    tail: float = 0.0


@attrs.define(eq=False)
class JobClass:
    """Waiting jobs that differ only in their length, and what is known of all of them.

    ``request`` has no duration. The windows in ``admitted`` let them use their nodes. ``relaxed``
    is what they ask for once they have waited long enough; None if that is ``request``. Classes
    that are ``searched`` need a search for a place: they are tried after all others.
    """

    request: Request
    admitted: frozenset[Holder] = frozenset()
    relaxed: Optional[Request] = None
    searched: bool = False
    terms: Terms = NO_TERMS
    #: The number of jobs that wait.
    njobs: int = 0
    #: Whether the nodes that are up could serve the class if nothing else ran; None: not known.
    servable: Optional[bool] = None
    #: Whether the last search for a place gave up.
    gave_up: bool = False
    #: What a job without a reservation lacked when one was last tried: the only prediction.
    stuck: Optional[Lack] = None

    @property
    def stuck_from(self) -> float:
        """Jobs of at least this length cannot start now."""
        return math.inf if self.stuck is None else self.stuck.length

    def forget(self) -> None:
        """Forget what was learned."""
        self.servable, self.gave_up, self.stuck = None, False, None


@attrs.frozen(eq=False)
class Waiting:
    """A job that waits. Its ``request`` has a duration, 0 for none.

    ``queue`` is the Flux queue in whose order it stands: of a virtual queue, the parent. If the
    request is strict (choose/strict.py), the job asks for ``relaxed`` from the time ``patience``
    on. Otherwise ``patience`` is infinity. At ``until`` it ends, whatever its length.
    """

    jobid: int
    priority: int
    request: Request
    job_class: JobClass
    queue: str = ""
    patience: float = math.inf
    user: int = 0
    until: float = math.inf
    #: Where the job stands in its queue, the lowest first.
    place: Place = attrs.field(init=False)

    @place.default
    def _place(self) -> Place:
        return -self.priority, self.jobid

    @property
    def length(self) -> float:
        """For how many seconds the job is planned."""
        return self.request.duration or CENTURY

    def end(self, start: float) -> float:
        """When the job ends at the latest if it starts at *start*."""
        end = start + self.length
        return min(end, self.until) if start < self.until else end

    @property
    def sight(self) -> Sight:
        """What the job sees of what is held."""
        own, tail = self.job_class, 0.0
        if self.until == math.inf:  # otherwise it may end before its length is over
            tail = max(0.0, self.length - max(own.terms.after, _INSTANT))
        return Sight(own.admitted, own.terms.preempts, tail)

    @property
    def relaxed(self) -> Request:
        """What the job asks for after its patience has ended."""
        later = self.job_class.relaxed
        return self.request if later is None else at_length(later, self.request.duration)


@attrs.define(eq=False)
class Reservation:
    """The latest time at which a waiting job will start, and on what."""

    job: Waiting
    start: float
    end: float
    parts: tuple[Held, ...]
    nslots: int
    #: The preemptible jobs that were told to end for it, and when.
    victims: frozenset[int] = frozenset()
    asked: float = 0.0
    #: The state of the profile in which the job was last tried after its start had come.
    tried: int = -1

    @property
    def is_brief(self) -> bool:
        """Whether others may end the job in the moment of its start: those start first."""
        return self.job.job_class.terms.after < _INSTANT


class Classes:
    """The classes of the jobs that wait for resources of *pool*."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._classes: dict[_Key, JobClass] = {}

    def __iter__(self) -> Iterator[JobClass]:
        return iter(list(self._classes.values()))

    def __len__(self) -> int:
        return len(self._classes)

    def of(
        self,
        request: Request,
        admitted: frozenset[Holder],
        later: Optional[Request] = None,
        terms: Terms = NO_TERMS,
    ) -> JobClass:
        """The class of a job that asks for *request*, and for *later* once it has waited."""
        plain = at_length(request, 0.0)
        known = self._classes.get((plain, admitted, later, terms))
        return known or JobClass(plain, admitted, later, self._is_searched(plain), terms)

    def _is_searched(self, request: Request) -> bool:
        """Whether *request* needs a search on some node, or for its counts."""
        required = request.ask.locality == "required" and bool(request.growing)
        return required or is_searched(request.ask, self._pool.inventory)

    def waiting(
        self,
        jobid: int,
        priority: int,
        request: Request,
        admitted: frozenset[Holder],
        queue: str,
        submitted: float,
        now: float,
        user: int = 0,
        terms: Terms = NO_TERMS,
        until: float = math.inf,
    ) -> Waiting:
        """A job as it is *now*: strict while its patience lasts, relaxed afterwards."""
        last = relaxed(request)
        patience = submitted + request.wait.seconds if request.wait else -math.inf
        if now < patience:
            first = at_length(self._pool.strict(request), request.duration)
            if first != last:
                own = self.of(first, admitted, at_length(last, 0.0), terms)
                return Waiting(jobid, priority, first, own, queue, patience, user, until)
        own = self.of(last, admitted, None, terms)
        return Waiting(jobid, priority, last, own, queue, math.inf, user, until)

    def impatient(self, job: Waiting) -> Waiting:
        """*job* as it is when its patience has ended."""
        job_class = self.of(job.relaxed, job.job_class.admitted, None, job.job_class.terms)
        return attrs.evolve(job, request=job.relaxed, job_class=job_class, patience=math.inf)

    def acquire(self, job: Waiting) -> Waiting:
        """*job*, which waits from now on, in the one class of all jobs like it."""
        own = job.job_class
        known = self._classes.setdefault(_key(own), own)
        if known.njobs == 0:
            known.forget()
        known.njobs += 1
        return job if known is own else attrs.evolve(job, job_class=known)

    def release(self, job_class: JobClass) -> None:
        """Count one waiting job less."""
        job_class.njobs -= 1
        if job_class.njobs == 0:
            del self._classes[_key(job_class)]


#: What jobs of a class have in common.
_Key = tuple[Request, frozenset[Holder], Optional[Request], Terms]


def _key(own: JobClass) -> _Key:
    return own.request, own.admitted, own.relaxed, own.terms


def at_length(request: Request, duration: float) -> Request:
    """*request* with another *duration*."""
    return attrs.evolve(request, duration=duration)


def finish(work: Iterator[Any]) -> None:
    """Run a generator to its end."""
    for _ in work:
        pass
