"""A queue and its pool under everything that may happen, with reservations, windows and fabrics.

After each step that lets the queue finish, DESIGN's promises are checked from what it gave out:
nothing twice, nothing on a node that is down, no window reached into, no job later than it was
promised. And the plan it keeps is the one made from nothing: a new queue that is given the running
jobs, those that wait and the standing reservations finds nothing to do.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import count
from typing import Any, ClassVar

import attrs
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from placement import strategies as random
from placement.duel import free_ids, observed, rank_ids, up_ranks
from placement.exploring import Counted
from treepool import Pool
from treepool.errors import InfeasibleRequest, InvalidJobspec
from treepool.placement.plan.change import change_windows
from treepool.placement.plan.course import Course
from treepool.placement.plan.line import Rule
from treepool.placement.plan.queue import Queue
from treepool.placement.plan.timeline import NEVER, Change, finish
from treepool.placement.plan.track import Track
from treepool.placement.plan.window import Window, admitting
from treepool.rfc import idset

RULES = {
    "a": Rule("easy", 1),
    "b": Rule("conservative", 3),
    "c": Rule("fifo", 1),
    "d": Rule("conservative", math.inf),
}

#: What a long run comes to.
REACHED = ("started", "reserved", "windows", "left", "promised", "down", "judged from nothing")


class Planned(Counted):
    """See the module."""

    reached: ClassVar[Counter[str]] = Counter()

    @initialize(data=st.data())
    def start(self, data: Any) -> None:
        several = st.one_of(random.clusters(most=6), random.uneven_clusters())
        R = data.draw(several.flatmap(random.with_fabric))
        self.R, self.now = R, 1000.0
        self.pool = Pool(R)
        self.idle = observed(self.pool)["free"]
        self.queue = Queue(self.pool, self, lambda: self.now, RULES["c"], RULES)
        self.jobid, self.resting = 0, True
        self.users: dict[int, int] = {}
        self.running: dict[int, float] = {}
        self.windows: list[Window] = []
        self.numbers = count()
        #: The latest start of each job that was promised one, as long as nothing excuses it.
        self.promised: dict[int, float] = {}

    def did(self, what: str) -> None:
        type(self).reached[what] += 1

    # ---- What the queue does ----

    def started(self, job: Any, allocation: Any) -> None:
        end = self.now + job.request.duration if job.request.duration else math.inf
        ranks = {rank for those, _, _ in allocation.parts for rank in those}
        note(f"{job.jobid} starts on {sorted(ranks)}")
        assert ranks <= up_ranks(self.pool)
        for window in self.queue.plan.windows.values():
            if not window.admits(self.users[job.jobid], job.queue):
                apart = end <= window.start or window.end <= self.now
                assert apart or not idset.from_ids(ranks) & window.ranks, "into a window"
        if job.jobid in self.promised:
            assert self.now <= self.promised[job.jobid], "later than promised"
            self.did("promised")
        self.running[job.jobid] = end
        self.did("started")

    def refused(self, job: Any, reason: str) -> None:
        raise AssertionError(reason)

    def failed(self, job: Any, error: Exception) -> None:
        raise error

    # ---- What holds ----

    def check(self) -> None:
        if not self.resting:
            return
        held = [rank_ids(entries_of(self.pool.job(jobid).parts)) for jobid in self.running]
        assert set(self.running) == {jobid for jobid, _ in self.pool.job_end_times()}
        for rank, left in free_ids(self.pool).items():
            given = [left, *(taken[rank] for taken in held if rank in taken)]
            for kind in ("cores", "gpus"):
                sets = [getattr(one, kind) for one in given]
                whole = rank_ids(self.R["execution"]["R_lite"])[rank]
                assert sum(map(len, sets)) == len(getattr(whole, kind)), "twice, or lost"
        if min(self.running.values(), default=math.inf) <= self.now:
            self.excused()  # a job is late, and those that wait for it cannot know for how long
        else:
            for jobid, reservation in self.queue.plan.reservations.items():
                assert reservation.start <= self.promised.setdefault(jobid, reservation.start)
        if self.queue.plan.reservations:
            self.did("reserved")
        self.from_nothing()

    def from_nothing(self) -> None:
        """A new queue in the same situation starts nothing, and reserves the same."""
        if any(job.patience < math.inf for job in self.queue.jobs.values()):
            return
        began: list[int] = []
        pool = self.pool.copy()
        other = Queue(pool, Starts(began), lambda: self.now, RULES["c"], RULES)
        other.set_windows(self.queue.plan.windows.values())
        finish(other.run())
        plan = other.plan
        for job in self.queue.jobs.values():
            new = attrs.evolve(job, kind=plan.kinds.of(job.request, job.kind.leave))
            other.add(new)
            standing = self.queue.plan.reservations.get(job.jobid)
            if standing is not None:
                plan.timeline.add(job.jobid, standing.start, standing.end, standing.parts)
                plan.reservations[job.jobid] = attrs.evolve(standing, job=new)
                anywhere = Course(new.request.least_asks)
                anywhere._append(self.now, anywhere.need)
                plan._tracks[job.jobid] = Track(0, anywhere)
                other._lines.of(new).reserve(new)
        for line in other._lines:
            line.overriding.clear()
        plan._gains.add(Change(-math.inf, math.inf, tuple(idset.iterate(pool.ranks))))
        finish(other.run())
        assert began == []
        assert starts(other) == starts(self.queue)
        self.did("judged from nothing")

    def finish(self) -> None:
        """All jobs end, and the pool is as it was."""
        for jobid in self.running:
            self.pool.free(jobid)
        assert observed(self.pool)["free"] == self.idle

    # ---- What happens ----

    def excused(self) -> None:
        """What comes now may make jobs later than they were promised."""
        self.promised.clear()

    @rule(data=st.data())
    def submit(self, data: Any) -> None:
        if data.draw(random.some(True, True, True, False)):
            slots = data.draw(st.integers(1, 4))
            spec = random.jobspec([random.vertex("slot", slots, data.draw(random.flat(True)))])
        else:
            spec = data.draw(random.jobspecs(self.R))
        duration = float(data.draw(random.some(5, 10, 10, 20, 33, 0)))
        spec["attributes"]["system"]["duration"] = duration
        user, name = data.draw(random.some(1, 2)), data.draw(random.some(*RULES))
        try:
            request = self.pool.parse_resource_request(spec)
            self.pool.check_feasibility(request)
        except (InvalidJobspec, InfeasibleRequest):
            return
        self.jobid += 1
        self.users[self.jobid] = user
        leave = admitting(self.windows, user, name)
        kinds = self.queue.plan.kinds
        job = kinds.waiting(self.jobid, 16, request, leave, name, self.now, self.now)
        if any(other.priority < job.priority for other in self.queue.jobs.values()):
            self.excused()  # it comes ahead of them
        self.queue.add(job)
        self.run(data)

    @rule(data=st.data())
    def submit_many(self, data: Any) -> None:
        for _ in range(data.draw(st.integers(1, 4))):
            self.submit(data)

    def run(self, data: Any) -> None:
        """A pass, which may be left at any yield."""
        work = self.queue.run()
        self.resting = data.draw(random.some(True, True, False))
        if self.resting:
            finish(work)
        else:
            for _ in range(data.draw(st.integers(0, 6))):
                next(work, None)
            work.close()
            self.did("left")

    @rule(data=st.data(), punctual=random.some(True, True, True, False))
    def later(self, data: Any, punctual: bool) -> None:
        """Until something is to happen; jobs end at their limits, unless one is late."""
        finish(self.queue.run())
        times = [*self.running.values(), self.queue.next_time]
        self.now = min((t for t in times if self.now < t < NEVER), default=self.now + 1)
        for jobid, end in list(self.running.items()):
            if end <= self.now:
                if punctual:
                    self.free(jobid)
                else:
                    self.excused()
        self.resting = True
        finish(self.queue.run())

    def free(self, jobid: int) -> None:
        del self.running[jobid]
        self.pool.free(jobid)

    @rule(data=st.data())
    def end(self, data: Any) -> None:
        if self.running:
            self.free(data.draw(st.sampled_from(sorted(self.running))))
            self.run(data)

    @rule(data=st.data())
    def cancel(self, data: Any) -> None:
        if self.queue.jobs:
            self.queue.remove(data.draw(st.sampled_from(sorted(self.queue.jobs))))
            self.run(data)

    @rule(data=st.data())
    def prioritize(self, data: Any) -> None:
        if self.queue.jobs:
            self.excused()
            jobid = data.draw(st.sampled_from(sorted(self.queue.jobs)))
            self.queue.prioritize(jobid, data.draw(st.integers(14, 18)))
            self.run(data)

    @rule(data=st.data(), up=random.some(True, False))
    def mark(self, data: Any, up: bool) -> None:
        ranks = idset.encode_ids([data.draw(st.sampled_from(random.ranks_of(self.R)))])
        if up:
            self.pool.mark_up(ranks)
        else:
            self.excused()
            self.pool.mark_down(ranks)
            self.did("down")
        self.run(data)

    @rule(data=st.data())
    def window(self, data: Any) -> None:
        self.excused()
        self.windows = [window for window in self.windows if window.end > self.now]
        if self.windows and data.draw(st.booleans()):
            self.windows.pop()
        else:
            ranks = idset.from_ids(data.draw(random.subsets(random.ranks_of(self.R))))
            start = self.now + data.draw(random.some(-1, 4, 12))
            users = frozenset(data.draw(random.some((), (1,))))
            name = f"w{next(self.numbers)}"  # one window has one name, as the module sees to
            self.windows.append(Window(name, ranks, start, start + 9, users))
        owners = self.users
        finish(change_windows(self.queue, self.windows, lambda j: (owners[j.jobid], j.queue)))
        self.did("windows")
        self.run(data)


class Starts:
    """Notes which jobs start."""

    def __init__(self, began: list[int]) -> None:
        self.began = began

    def started(self, job: Any, allocation: Any) -> None:
        self.began.append(job.jobid)

    def refused(self, job: Any, reason: str) -> None:
        raise AssertionError(reason)

    def failed(self, job: Any, error: Exception) -> None:
        raise error


def starts(queue: Queue) -> dict[int, Any]:
    """Start and place of each reservation."""
    return {j: (r.start, r.parts) for j, r in queue.plan.reservations.items()}


def entries_of(parts: Any) -> list[Any]:
    """R_lite of *parts*."""
    return [
        {
            "rank": idset.encode_ids(ranks),
            "children": {"core": idset.encode(cores), "gpu": idset.encode(gpus)},
        }
        for ranks, cores, gpus in parts
    ]
