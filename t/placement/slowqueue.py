"""A slow queue with the rules of plan/queue.py and plan/plan.py: it tries every time, on copies.

It remembers nothing but the reservations, and looks at each job again whatever happened.
"""

import math

import attrs

from treepool.errors import InfeasibleRequest, InsufficientResources

NEVER = 1e18


@attrs.frozen
class Held:
    """A reservation."""

    start: float
    end: float
    parts: tuple


class SlowQueue:
    """The waiting jobs of *pool*; *rules* maps queues to (policy, depth)."""

    def __init__(self, pool, rules):
        self.pool = pool
        self.rules = rules
        self.now = 0.0
        self.jobs = {}
        self.reserved = {}
        self.overriding = set()
        self.windows = {}
        self.queues = set()
        self.fallen = set()
        self.late = {}

    # -- what others do

    def add(self, job):
        self.jobs[job.jobid] = job
        self.queues.add(job.queue)
        if any(place > job.place for place in self.places_reserved(job.queue)):
            self.overriding.add(job.jobid)

    def remove(self, jobid):
        self.jobs.pop(jobid, None)
        self.reserved.pop(jobid, None)
        self.overriding.discard(jobid)
        self.fallen.discard(jobid)

    def prioritize(self, jobid, priority):
        old = self.jobs[jobid]
        if old.priority == priority:
            return
        new = attrs.evolve(old, priority=priority)
        others = [p for p in self.places_reserved(old.queue) if p != old.place]
        if jobid in self.reserved and sum(p < old.place for p in others) == sum(
            p < new.place for p in others
        ):
            self.jobs[jobid] = new
            return
        self.remove(jobid)
        self.add(new)

    def places_reserved(self, queue):
        return sorted(self.jobs[j].place for j in self.reserved if self.jobs[j].queue == queue)

    def in_order(self):
        return sorted(self.jobs.values(), key=lambda job: job.place)

    # -- the future

    def then(self, start, end, ignoring, present=False):
        """The pool with what is free throughout a time; windows in *ignoring* do not count."""
        pool = self.pool.copy()
        if not present:
            for jobid, ends in self.ends():
                if ends <= start:
                    pool.free(jobid)
        planned = {j: r for j, r in self.reserved.items() if j not in ignoring}
        planned.update({n: w for n, w in self.windows.items() if n not in ignoring})
        for number, held in enumerate(planned.values()):
            if held.start < end and held.end > (-math.inf if present else start):
                pool.occupy(10**6 + number, held.parts)
        return pool

    def ends(self):
        """When the running jobs are planned to end: at their limits, or as they were reserved."""
        for jobid, end in self.pool.job_end_times():
            limit, planned = self.late.get(jobid, (None, None))
            yield jobid, (planned if end == limit else end) or NEVER

    def lost(self, jobid):
        """Job *jobid* has lost its reservation."""
        del self.reserved[jobid]
        job = self.jobs[jobid]
        if any(place > job.place for place in self.places_reserved(job.queue)):
            self.fallen.add(jobid)

    def end(self, start, job):
        return start + job.request.duration if job.request.duration and start < NEVER else math.inf

    def try_at(self, job, start, end, ignoring, present=False):
        try:
            return self.then(start, end, ignoring, present).alloc(job.jobid, job.request)
        except (InsufficientResources, InfeasibleRequest):  # the latter only if it is strict
            return None

    def relaxed(self, job):
        kind = attrs.evolve(job.kind, relaxed=None)
        return attrs.evolve(job, request=job.relaxed, kind=kind, patience=math.inf)

    def earliest(self, job, before=math.inf, begin=-math.inf):
        begin = max(begin, self.now)
        ignoring = set(job.kind.leave) | {job.jobid}
        ends = {e for _, e in self.ends()}
        planned = [r for j, r in self.reserved.items() if j != job.jobid]
        ends |= {r.end for r in [*planned, *self.windows.values()]}
        for time in sorted({begin, *(e for e in ends if begin < e < NEVER)}):
            if time >= min(before, job.patience):
                break
            found = self.try_at(job, time, self.end(time, job), ignoring)
            if found is not None:
                return self.held(job, time, found.parts)
        if job.patience < before:
            return self.earliest(self.relaxed(job), before, job.patience)
        if before <= NEVER:
            return None
        found = self.try_at(job, NEVER, -1e300, ignoring)
        return None if found is None else self.held(job, NEVER, found.parts)

    def held(self, job, start, parts):
        end = self.end(start, job)
        return Held(start, min(end, NEVER) if start < NEVER else end, parts)

    # -- passes

    def run(self):
        """Passes until nothing happens any more."""
        while self.one_pass():
            pass

    def one_pass(self):
        self.windows = {n: w for n, w in self.windows.items() if w.end > self.now}
        self.jobs = {
            j: self.relaxed(job) if job.patience <= self.now else job
            for j, job in self.jobs.items()
        }
        self.give_up()
        before = self.seen()
        self.override(self.fallen)
        moved = True
        while moved:
            moved = False
            for job in self.in_order():
                if job.jobid in self.reserved:
                    found = self.earliest(job, self.reserved[job.jobid].start)
                    if found is not None:
                        self.reserved[job.jobid] = found
                        moved = True
                    self.begin(job)
                    if self.fallen:
                        return True
        self.override(self.overriding)
        self.others()
        return bool(self.fallen) or self.seen() != before

    def seen(self):
        return dict(self.reserved), sorted(self.jobs), self.pool.job_end_times()

    def begin(self, job):
        """Start *job* if its reservation has come."""
        held = self.reserved[job.jobid]
        if held.start > self.now:
            return
        end = self.end(self.now, job)
        if self.are_free(held.parts):
            others = [j for j, r in self.reserved.items() if j != job.jobid]
            names = [n for n in self.windows if n not in job.kind.leave]
            ways = [j for j in others if overlap(self.reserved[j], held.start, end, held.parts)]
            walls = [n for n in names if overlap(self.windows[n], held.start, end, held.parts)]
            behind = all(
                (self.jobs[j].queue == job.queue and self.jobs[j].place > job.place)
                or self.reserved[j].start >= held.end
                for j in ways
            )
            if not walls and behind:
                if 0 < self.now - held.start <= 1:
                    self.late[job.jobid] = end, held.end
                self.start(job, held.parts)
                return
            free = True
        else:
            free = False
        found = self.try_at(job, self.now, end, {*job.kind.leave, job.jobid}, present=True)
        if found is not None:
            self.start(job, found.parts)
        elif free:
            self.lost(job.jobid)

    def are_free(self, parts):
        index = self.pool.situation.index
        return all(
            index.up[rank]
            and not cores & ~index.state_of[rank].cores
            and not gpus & ~index.state_of[rank].gpus
            for ranks, cores, gpus in parts
            for rank in ranks
        )

    def start(self, job, parts):
        self.remove(job.jobid)
        end = self.now + job.request.duration if job.request.duration else 0.0
        self.pool.occupy(job.jobid, parts, end)
        self.give_up()

    def give_up(self):
        """Drop reservations that running jobs, windows or nodes that are down stand against."""
        up = self.pool.up
        for jobid, held in list(self.reserved.items()):
            leave = self.jobs[jobid].kind.leave
            down = any(not up >> rank & 1 for ranks, _, _ in held.parts for rank in ranks)
            for other, ends in self.ends():
                if held.start < ends:
                    down |= common(self.pool.job(other).parts, held.parts)
            for name, window in self.windows.items():
                if name not in leave:
                    down |= overlap(window, held.start, held.end, held.parts)
            if down:
                self.lost(jobid)

    def override(self, marked):
        """Give up the reservations behind jobs that are *marked*."""
        for jobid in list(marked):
            job = self.jobs[jobid]
            for other in list(self.reserved) if self.is_servable(job) else ():
                if self.jobs[other].queue == job.queue and self.jobs[other].place > job.place:
                    del self.reserved[other]
        marked.clear()

    def is_servable(self, job):
        return self.try_at(self.relaxed(job), NEVER, -1e300, set()) is not None

    def others(self):
        blocked = set()
        for job in self.in_order():
            policy, depth = self.rules[job.queue]
            if job.jobid in self.reserved:
                if policy == "fifo":
                    blocked.add(job.queue)
                continue
            if job.queue in blocked:
                continue
            if not self.is_servable(job):
                continue
            end = self.end(self.now, job)
            found = self.try_at(job, self.now, end, set(job.kind.leave), present=True)
            if found is not None:
                self.start(job, found.parts)
                if self.fallen:
                    return
                continue
            count = len(self.places_reserved(job.queue))
            if policy == "fifo":
                blocked.add(job.queue)
            if (policy != "fifo" and count < depth) or (policy == "fifo" and len(self.queues) > 1):
                made = self.earliest(job)
                if made is not None:
                    self.reserved[job.jobid] = made


def common(one, other):
    """Whether two sets of parts share anything."""
    has = {rank: (cores, gpus) for ranks, cores, gpus in one for rank in ranks}
    return any(
        cores & has[rank][0] or gpus & has[rank][1]
        for ranks, cores, gpus in other
        for rank in ranks
        if rank in has
    )


def overlap(held, start, end, parts):
    """Whether *held* wants some of *parts* between two times."""
    return held.start < end and held.end > start and common(held.parts, parts)
