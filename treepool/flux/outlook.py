"""When jobs without a reservation start: for how many that is estimated, how often, or why not.

The first jobs of all lines are planned together, in the order of the queue, on a copy of the pool,
so that what happens meanwhile does not end it. The copy serves all who ask within a few seconds,
and the annotations until the queue changes. One task is done at a time. Whoever waits for its end
does the next steps of it: who began it may have used up his share of the time.
"""

from __future__ import annotations

import math
import time
from itertools import chain, islice
from typing import Any, Callable, Generator, Generic, Mapping, NamedTuple, Optional, TypeVar, Union

import attrs

from treepool.placement.nodes.state import Held
from treepool.placement.plan.forecast import Forecast
from treepool.placement.plan.jobs import FAR, Waiting
from treepool.placement.plan.queue import Queue

#: Most jobs of a line that are planned, and of all lines if each has its share.
MOST_AHEAD, _MOST_OF_ALL = 256, 1024

#: The share of a line is at least so many jobs.
_LEAST = 16

#: Lines of which the first jobs are looked up in one step.
_LINES = 64

#: Seconds for which a plan is used again.
_FRESH = 10.0

#: Why none can tell when a job starts: it needs nodes that are down or drained, or what jobs
#: without a time limit hold; a job ahead of it has no estimate, either; too many jobs are ahead;
#: the search that its request needs was given up; it would tell a guest when others' jobs end.
NODES, UNLIMITED, AHEAD, MANY, SEARCH = "nodes", "unlimited", "ahead", "many", "search"
PRIVATE = "private"

#: The start of a job in seconds since the epoch, or one of these words.
Estimate = Union[float, str]


class Planned(NamedTuple):
    """When a job to come would start, and on what, if that can be told."""

    start: Estimate
    parts: tuple[Held, ...] = ()


T = TypeVar("T")

#: Work in steps, with its result.
Work = Generator[None, None, T]


@attrs.define(eq=False)
class _Task(Generic[T]):
    """Work that anybody may continue, and what became of it."""

    work: Work[T]
    done: bool = False
    result: Optional[T] = None
    error: Optional[Exception] = None

    def step(self) -> None:
        """Do the next step."""
        try:
            next(self.work)
        except StopIteration as e:
            self.done, self.result = True, e.value
        except Exception as e:  # for who began the task
            self.done, self.error = True, e


@attrs.define(eq=False)
class _Ahead:
    """The first jobs of each line as they were planned at ``made`` (monotonic seconds).

    ``starts`` are in seconds since the epoch, by job id, None if none can tell. The ``behind`` were
    not planned, because none can tell of a job ahead of them. A job behind all of a line starts at
    its time in ``begins`` at the earliest; the lines in ``longer`` have jobs behind those that were
    planned. ``forecast`` is for a job to come. It may take 100 MB, so it is None if nobody has
    asked for one.
    """

    made: float
    forecast: Optional[Forecast] = None
    starts: dict[int, Optional[float]] = attrs.field(factory=dict)
    behind: frozenset[int] = frozenset()
    begins: Mapping[str, float] = {}
    longer: frozenset[str] = frozenset()


class Outlook:
    """Plans the jobs of *queue* ahead."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._known: Optional[_Ahead] = None
        #: What is done now, if anything.
        self._task: Optional[_Task[Any]] = None

    def starts(self, since: float) -> Work[dict[int, float]]:
        """When the jobs that have no reservation will start, of those that can be told.

        They were planned after *since* (monotonic seconds).
        """
        jobs, reservations = self._queue.jobs, self._queue.reservations
        first, _ = yield from self._first()
        if all(job.jobid in reservations for line in first.values() for job in line):
            return {}
        ahead = yield from self._ahead(lambda known: known.made > since)
        return {
            jobid: start
            for jobid, start in ahead.starts.items()
            if jobid in jobs and jobid not in reservations and start and _is_known(start)
        }

    def start(self, job: Waiting) -> Work[Estimate]:
        """When *job*, which waits, will start."""
        reservation = self._queue.reservations.get(job.jobid)
        if reservation is not None:
            return _told(job, reservation.start)
        if job.job_class.servable is False:
            return NODES
        if job not in self._first_in(job.queue, self._most()):
            return MANY
        ahead = yield from self._ahead(
            lambda known: (
                _is_fresh(known) and (job.jobid in known.starts or job.jobid in known.behind)
            )
        )
        if job.jobid in ahead.starts:
            return _told(job, ahead.starts[job.jobid])
        return AHEAD if job.jobid in ahead.behind else MANY  # many came while it was planned

    def start_of_new(self, job: Waiting) -> Work[Planned]:
        """When *job*, which is not in the queue, would start behind all others of its line."""
        most = self._most()
        if len(self._first_in(job.queue, most)) > most:
            return Planned(MANY)
        ahead = yield from self._ahead(
            lambda known: (
                _is_fresh(known) and known.forecast is not None and job.queue not in known.longer
            ),
            True,
        )
        if job.queue in ahead.longer:  # many came while it was planned
            return Planned(MANY)
        begin = ahead.begins.get(job.queue, 0.0)
        if begin == math.inf:
            return Planned(AHEAD)
        planned = yield from self._alone(lambda: self._added(ahead, job, begin))
        assert planned is not None
        return planned

    def _added(self, ahead: _Ahead, job: Waiting, begin: float) -> Work[Planned]:
        """When *job* would start behind all that are *ahead*, from *begin* on."""
        assert ahead.forecast is not None
        start = yield from ahead.forecast.add(job, max(begin, time.time()))
        told = _told(job, start)
        parts = () if start is None else ahead.forecast.remove(job.jobid)
        return Planned(told) if isinstance(told, str) else Planned(told, parts)

    def _alone(self, begin: Callable[[], Work[T]]) -> Work[Optional[T]]:
        """Do the work that *begin* begins, when no other is under way."""
        while self._task is not None:
            self._continue(self._task)
            yield
        task = self._task = _Task(begin())
        while not task.done:
            self._continue(task)
            yield
        if task.error is not None:
            raise task.error
        return task.result

    def _continue(self, task: _Task[Any]) -> None:
        task.step()
        if task.done:
            self._task = None

    def _ahead(self, serves: Callable[[_Ahead], bool], to_come: bool = False) -> Work[_Ahead]:
        """The plan of the jobs ahead, a new one unless the last one *serves*.

        With *to_come* it is for a job to come, too.
        """
        found = yield from self._alone(lambda: self._known_or_planned(serves, to_come))
        assert found is not None
        return found

    def _known_or_planned(self, serves: Callable[[_Ahead], bool], to_come: bool) -> Work[_Ahead]:
        if self._known is None or not serves(self._known):
            self._known = yield from self._planned(to_come)
        return self._known

    def _planned(self, to_come: bool) -> Work[_Ahead]:
        queue = self._queue
        lines, most = yield from self._first()
        now, made = time.time(), time.monotonic()
        first = sorted(chain(*lines.values()), key=lambda job: job.place)
        passing = {name for name, rule, _ in queue.lines() if rule.policy != "fifo"}
        reserved, windows = list(queue.reservations.values()), list(queue.windows.values())
        pool = queue.pool.copy()
        yield
        forecast = Forecast(pool, queue.profile.terms)
        found = _Ahead(made, forecast if to_come else None)
        found.longer = frozenset(name for name, line in lines.items() if len(line) > most)
        found.starts.update((one.job.jobid, one.start) for one in reserved)
        yield from forecast.begin(now, reserved, windows)
        found.begins = yield from forecast.starts(first, now, found.starts, passing)
        found.behind = frozenset(job.jobid for job in first if job.jobid not in found.starts)
        return found

    def _most(self) -> int:
        """How many jobs of each line are planned."""
        busy = sum(next(jobs, None) is not None for _, _, jobs in self._queue.lines())
        return min(MOST_AHEAD, max(_LEAST, _MOST_OF_ALL // max(busy, 1)))

    def _first_in(self, queue: str, most: int) -> list[Waiting]:
        """The first *most* jobs of the line of *queue*, and one more."""
        lines = (jobs for name, _, jobs in self._queue.lines() if name == queue)
        return list(islice(next(lines, iter(())), most + 1))

    def _first(self) -> Work[tuple[dict[str, list[Waiting]], int]]:
        """The first jobs of each line, which are planned; one more of them than the number says."""
        first, most = dict[str, list[Waiting]](), self._most()
        for number, (name, _, jobs) in enumerate(list(self._queue.lines()), 1):
            first[name] = list(islice(jobs, most + 1))
            if not number % _LINES:
                yield
        waiting = self._queue.jobs
        for name, line in first.items():  # some may have left meanwhile
            first[name] = [job for job in line if waiting.get(job.jobid) is job]
        return first, most


def _is_fresh(known: _Ahead) -> bool:
    return time.monotonic() - known.made < _FRESH


def _is_known(start: Optional[float]) -> bool:
    return start is not None and start <= time.time() + FAR


def _told(job: Waiting, start: Optional[float]) -> Estimate:
    """The *start* of *job*, None if it has none, or why it cannot be told."""
    if start is None:
        return SEARCH if job.job_class.gave_up else NODES
    return start if _is_known(start) else UNLIMITED
