"""When jobs without a reservation will start: an estimate for their annotations, and whoever asks.

The first jobs of a line are planned on a copy of the pool, so that what happens meanwhile does not
end it. The copy serves all who ask within a few seconds, and the annotations until the queue
changes. One task is done at a time. Whoever waits for its end does the next steps of it: who began
it may have used up his share of the time.
"""

from __future__ import annotations

import time
from itertools import islice
from typing import Any, Callable, Generator, Generic, Optional, TypeVar, Union

import attrs

from treepool.placement.plan.forecast import Forecast
from treepool.placement.plan.jobs import FAR, Waiting
from treepool.placement.plan.queue import Queue

#: Most jobs of a line that are planned.
MOST_AHEAD = 256

#: Seconds for which a plan is used again, and how many lines have one.
_FRESH, _LINES = 10.0, 4


#: Why none can tell when a job starts: it needs nodes that are down or drained, or what jobs
#: without a time limit hold; a job ahead of it has no estimate, either; too many jobs are ahead;
#: the search that its request needs was given up.
NODES, UNLIMITED, AHEAD, MANY, SEARCH = "nodes", "unlimited", "ahead", "many", "search"

#: The start of a job in seconds since the epoch, or one of these words.
Estimate = Union[float, str]

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
    """The first jobs of a line as they were planned at ``made`` (monotonic seconds).

    ``starts`` are in seconds since the epoch, by job id, None if none can tell. Those ``behind``
    were not planned, because none can tell of a job ahead of them. A job behind all of them starts
    at ``begin`` at the earliest. ``complete`` says whether they are all of the line. ``forecast``
    is for a job to come. It may take 100 MB, so it is None if nobody has asked for one.
    """

    made: float
    begin: float
    complete: bool
    forecast: Optional[Forecast] = None
    starts: dict[int, Optional[float]] = attrs.field(factory=dict)
    behind: frozenset[int] = frozenset()


class Outlook:
    """Plans the jobs of *queue* ahead."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._known: dict[str, _Ahead] = {}
        #: What is done now, if anything.
        self._task: Optional[_Task[Any]] = None

    def starts(self, line: str, since: float) -> Work[dict[int, float]]:
        """When the jobs of *line* that have no reservation will start, of those that can be told.

        They were planned after *since* (monotonic seconds).
        """
        reservations = self._queue.reservations
        if all(job.jobid in reservations for job in self._first(line)[0]):
            return {}
        ahead = yield from self._ahead(line, lambda known: known.made > since)
        found = {}
        for jobid, start in ahead.starts.items():
            job = self._queue.jobs.get(jobid)
            here = job is not None and job.queue == line and jobid not in reservations
            if here and start is not None and jobid not in ahead.behind and _is_known(start):
                found[jobid] = start
        return found

    def start(self, job: Waiting) -> Work[Estimate]:
        """When *job*, which waits, will start."""
        reservation = self._queue.reservations.get(job.jobid)
        if reservation is not None:
            return _told(job, reservation.start)
        if job.job_class.servable is False:
            return NODES
        if job not in self._first(job.queue)[0]:
            return MANY
        ahead = yield from self._ahead(
            job.queue, lambda known: _is_fresh(known) and job.jobid in known.starts
        )
        return AHEAD if job.jobid in ahead.behind else _told(job, ahead.starts.get(job.jobid))

    def start_of_new(self, job: Waiting) -> Work[Estimate]:
        """When *job*, which is not in the queue, would start behind all others of its line."""
        if len(self._first(job.queue)[0]) > MOST_AHEAD:
            return MANY
        ahead = yield from self._ahead(
            job.queue, lambda known: _is_fresh(known) and known.forecast is not None, True
        )
        if not ahead.complete:
            return AHEAD
        start = yield from self._alone(lambda: self._added(ahead, job))
        return _told(job, start)

    def _added(self, ahead: _Ahead, job: Waiting) -> Work[Optional[float]]:
        """When *job* would start behind all that are *ahead*."""
        assert ahead.forecast is not None
        start = yield from ahead.forecast.add(job, max(ahead.begin, time.time()))
        if start is not None:
            ahead.forecast.remove(job.jobid)
        return start

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

    def _ahead(
        self, line: str, serves: Callable[[_Ahead], bool], to_come: bool = False
    ) -> Work[_Ahead]:
        """The plan of a line, a new one unless the last one *serves*.

        With *to_come* it is for a job to come, too.
        """
        found = yield from self._alone(lambda: self._known_or_planned(line, serves, to_come))
        assert found is not None
        return found

    def _known_or_planned(
        self, line: str, serves: Callable[[_Ahead], bool], to_come: bool
    ) -> Work[_Ahead]:
        found = self._known.get(line)
        if found is None or not serves(found):
            found = yield from self._planned(line, to_come)
            self._known.pop(line, None)
            if len(self._known) >= _LINES:
                del self._known[next(iter(self._known))]
            self._known[line] = found
        return found

    def _planned(self, line: str, to_come: bool) -> Work[_Ahead]:
        queue, now, made = self._queue, time.time(), time.monotonic()
        first, passing = self._first(line)
        reserved, pool = list(queue.reservations.values()), queue.pool.copy()
        yield
        forecast = Forecast(pool, dict(queue.windows))
        found = _Ahead(made, now, len(first) <= MOST_AHEAD, forecast if to_come else None)
        found.starts = dict.fromkeys((job.jobid for job in first), None)
        found.starts.update((one.job.jobid, one.start) for one in reserved)
        yield from forecast.begin(now, reserved)
        begin = yield from forecast.starts(first, now, found.starts, passing)
        if begin is None:
            found.complete, order = False, [job.jobid for job in first]
            blocked = next(i for i, jobid in enumerate(order) if not _is_known(found.starts[jobid]))
            found.behind = frozenset(order[blocked + 1 :])
        else:
            found.begin = begin
        return found

    def _first(self, line: str) -> tuple[list[Waiting], bool]:
        """The first jobs of a line, and whether its policy lets jobs pass."""
        for name, rule, jobs in self._queue.lines():
            if name == line:
                return list(islice(jobs, MOST_AHEAD + 1)), rule.policy != "fifo"
        return [], False


def _is_fresh(known: _Ahead) -> bool:
    return time.monotonic() - known.made < _FRESH


def _is_known(start: Optional[float]) -> bool:
    return start is not None and start <= time.time() + FAR


def _told(job: Waiting, start: Optional[float]) -> Estimate:
    """The *start* of *job*, None if it has none, or why it cannot be told."""
    if start is None:
        return SEARCH if job.job_class.gave_up else NODES
    return start if _is_known(start) else UNLIMITED
