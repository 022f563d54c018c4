"""The lines of all Flux queues: which jobs wait, by which rule, and which have a reservation."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, insort
from itertools import count
from typing import Iterator, Mapping, Optional, Sequence

from treepool.placement.plan.jobs import Kind, Place, Waiting
from treepool.placement.plan.line import STRIDE, Line, Rule
from treepool.placement.plan.plan import Plan


class Lines:
    """The waiting jobs, whose reservations are those of *plan*, in a line for each Flux queue.

    *rules* has the rules of lines by name; other lines follow *default*.
    """

    def __init__(self, plan: Plan, default: Rule, rules: Mapping[str, Rule]) -> None:
        self.jobs: dict[int, Waiting] = {}
        self._plan = plan
        self._default, self._rules = default, dict(rules)
        self._lines: dict[str, Line] = {}
        #: Lines with another rule that still have reservations by the old one.
        self._renewed: set[Line] = set()
        #: A heap of when the patience of jobs for a close place ends. Some may have left.
        self._patience: list[tuple[float, int]] = []

    def __iter__(self) -> Iterator[Line]:
        return iter(list(self._lines.values()))

    def __len__(self) -> int:
        return len(self._lines)

    def items(self) -> Iterator[tuple[str, Line]]:
        """Each line and its name."""
        return iter(self._lines.items())

    def get(self, name: str) -> Optional[Line]:
        """The line of the Flux queue *name*; None if no job has ever waited there."""
        return self._lines.get(name)

    def of(self, job: Waiting) -> Line:
        """The line of *job*, which waits."""
        return self._lines[job.queue]

    def first(self, kind: Kind) -> Optional[Waiting]:
        """A job of *kind* without a reservation, the first of its line; None if there is none."""
        lanes = (line.lanes.get(kind) for line in self._lines.values())
        return next((lane.first() for lane in lanes if lane is not None), None)

    def reserved(self) -> list[tuple[Place, Waiting]]:
        """The jobs of all lines that have a reservation, in order."""
        return list(heapq.merge(*(line.reserved for line in self._lines.values())))

    # -- jobs come, change and go

    def add(self, job: Waiting) -> None:
        """Add *job*, which has no reservation."""
        line = self._lines.get(job.queue)
        if line is None:
            rule = self._rules.get(job.queue, self._default)
            line = self._lines[job.queue] = Line(rule)
        self.jobs[job.jobid] = job
        self._plan.kinds.acquire(job.kind)
        line.add(job)
        if line.reserved and job.place < line.reserved[-1][0]:
            line.overriding.add(job.jobid)
        if job.patience < math.inf:
            heapq.heappush(self._patience, (job.patience, job.jobid))
            if len(self._patience) > 2 * len(self.jobs) + STRIDE:  # most of them have left
                waiting = (job for job in self.jobs.values() if job.patience < math.inf)
                self._patience = [(job.patience, job.jobid) for job in waiting]
                heapq.heapify(self._patience)

    def remove(self, jobid: int) -> None:
        """Remove job *jobid* and its reservation, if it waits."""
        job = self.jobs.pop(jobid, None)
        if job is not None:
            self._plan.kinds.release(job.kind)
            line = self.of(job)
            if jobid in self._plan.reservations:
                self._plan.cancel(jobid)
                line.unreserve(job)
            else:
                line.remove(job)

    def replace(self, old: Waiting, new: Waiting) -> None:
        """Replace *old* by *new*, the same job in the same line, with its reservation."""
        line, jobid = self.of(old), old.jobid
        self.jobs[jobid] = new
        self._plan.kinds.acquire(new.kind)
        self._plan.kinds.release(old.kind)
        if jobid in self._plan.reservations:
            self._plan.replace(new)
            line.unreserve(old)
            insort(line.reserved, (new.place, new))
        else:
            marks = [marked for marked in (line.overriding, line.fallen) if jobid in marked]
            line.remove(old)
            line.add(new)
            for marked in marks:
                marked.add(jobid)

    def keeps_order(self, old: Waiting, new: Waiting) -> bool:
        """Whether *old* has a reservation, and passes no other that has one if it becomes *new*."""
        if old.jobid not in self._plan.reservations:
            return False
        others = [place for place, job in self.of(old).reserved if job is not old]
        return bisect_left(others, old.place) == bisect_left(others, new.place)

    # -- patience

    @property
    def next_time(self) -> float:
        """When the patience of some job ends; infinity if that of none does."""
        return self._patience[0][0] if self._patience else math.inf

    def relax(self, now: float) -> Iterator[None]:
        """Relax the requests of the jobs whose patience has ended."""
        for number in count(1):
            if self.next_time > now:
                return
            if number % STRIDE == 0:
                yield
            job = self.jobs.get(heapq.heappop(self._patience)[1])
            if job is not None and job.patience <= now:
                self.replace(job, self._plan.kinds.relaxed(job))

    # -- reservations

    def put_back(self, job: Waiting) -> None:
        """Put *job*, whose reservation was given up, back to those without one."""
        line = self.of(job)
        line.unreserve(job)
        line.add(job)

    def fall(self, job: Waiting) -> bool:
        """Take note that *job* has lost its reservation; whether others behind it have one."""
        line = self.of(job)
        passed = bool(line.reserved) and job.place < line.reserved[-1][0]
        if passed:
            line.fallen.add(job.jobid)
        return passed

    def unreserve(self, jobs: Sequence[Waiting]) -> None:
        """Give up the reservations of *jobs*, from the last on, until it is time to yield."""
        for job in reversed(jobs):
            self._plan.cancel(job.jobid)
            self.put_back(job)
            if self._plan.timeline.should_yield(1):
                return

    def set_rules(self, default: Rule, rules: Mapping[str, Rule]) -> None:
        """Replace all rules; ``renew`` gives up the reservations by those that changed."""
        self._default, self._rules = default, dict(rules)
        for name, line in self._lines.items():
            rule = self._rules.get(name, default)
            if rule != line.rule:
                line.rule = rule
                self._renewed.add(line)

    def renew(self) -> bool:
        """Give up some reservations by an old rule; returns whether there was such a line."""
        for line in self._renewed:
            self.unreserve([job for _, job in line.reserved[-STRIDE:]])
            self._renewed -= set() if line.reserved else {line}
            return True
        return False
