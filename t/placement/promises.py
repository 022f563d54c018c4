"""The promises of the plan (doc/design.md, "In time"), judged from outside, and random histories.

A *site* is a cluster with its queue and its clock. Whenever its queue is at rest, it is judged by
what users want, with no knowledge of how the plan is made: nothing is planned twice, nobody starts
later than promised, nothing idles in vain. A *history* is a site and bytes that say what happens.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import chain, combinations
from typing import Any

import attrs

import made
from generators import outcome
from treepool import parse_shape
from treepool.errors import InfeasibleRequest, InvalidJobspec
from treepool.placement.plan.jobs import CENTURY, FAR, Rule
from treepool.placement.plan.queue import BACKFILLED, IMMEDIATE, Queue
from treepool.placement.plan.reason import why_waiting
from treepool.placement.plan.windows import Window, admitting, change_windows
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.jobspec import from_resources
from treepool.rfc.rset import ResourceSet, RLiteEntry

NOW = 100_000.0

#: A start that is late by so many seconds changes no plan.
SECOND = 1.0

#: Compression may lag behind by so many seconds of the clock.
LAG = 10.0


def pool_of(nodes, cores=8, gpus=0, topo=None, fabric=None, **properties):
    """A pool of equal nodes; properties are idsets by name, in which ``_`` stands for a colon."""
    numbers = (idset.encode_ids(range(number)) for number in (nodes, cores, gpus))
    having = {name.replace("_", ":"): ids for name, ids in properties.items() if ids}
    R = made.nodes(*numbers, properties=having)
    return Pool({**R, "scheduling": key_of(nodes, topo, fabric)})


def key_of(nodes, topo, fabric):
    """The RFC 49 key of such a pool."""
    children = [{"ranks": idset.encode_ids(range(nodes)), "topo": topo}] if topo else []
    return {"writer": "TreePool", "children": children, **({"fabric": fabric} if fabric else {})}


def ranks_in(parts):
    return {rank for ranks, _, _ in parts for rank in idset.iterate(ranks)}


def pieces(parts):
    """Each core and GPU of *parts*."""
    return {
        (rank, kind, number)
        for ranks, cores, gpus in parts
        for rank in idset.iterate(ranks)
        for kind, mask in (("core", cores), ("gpu", gpus))
        for number in range(mask.bit_length())
        if mask >> number & 1
    }


@attrs.define
class Span:
    """What somebody holds from one time to another; a running job, until when at most."""

    start: float
    end: float
    parts: Any

    def meets(self, other):
        return self.start < other.end and other.start < self.end


@attrs.frozen
class Wish:
    """A job as its user sees it. ``strict`` is what it wants until the time ``patience``.

    ``owner`` is the user and the queues: of a job in a virtual queue, the parent is one.
    """

    owner: tuple[int, tuple[str, ...]]
    line: str
    request: Any
    strict: Any
    patience: float
    length: float

    def at(self, time):
        """What is asked for by a job that starts at *time*."""
        return self.strict if time < self.patience else self.request


class Site:
    """A cluster, its queue and its clock. Every pass that ends is judged.

    ``virtual`` says in whose line the jobs of a virtual queue stand.
    """

    def __init__(self, pool, default=Rule("easy", 1), rules=None, virtual=None):  # noqa: B008
        self.pool, self.now = pool, NOW
        self.default, self.rules, self.virtual = default, rules or {}, virtual or {}
        self.queue = Queue(pool, self, lambda: self.now, default, self.rules)
        self.wishes: dict[int, Wish] = {}
        self.running: dict[int, Span] = {}
        self.refusals: dict[int, str] = {}
        #: How each job that started was selected, in the words of RFC 27.
        self.hows: dict[int, str] = {}
        #: The latest start that a waiting job may have: what its first reservation said.
        self.promised: dict[int, float] = {}
        #: When each job was to start, at the last rest, and when that was.
        self.planned, self.rested = {}, NOW
        #: What happened, counted, and in words.
        self.seen, self.story = Counter(), []

    def tell(self, *words):
        self.story.append(f"{self.now:.10g}: {' '.join(map(str, words))}")

    # ---- What happens ----

    def request(self, shape, duration=0.0, constraints=None, **options):
        spec = from_resources(parse_shape(shape), duration, constraints, options or None)
        return self.pool.parse_resource_request(spec)

    def submit(
        self, jobid, shape, duration=100.0, priority=16, queue="", user=1, waited=0.0, **options
    ):
        """Let a job wait, without a pass."""
        self.tell("submit", jobid, shape, duration, priority, queue, user, waited, options)
        self.add(jobid, self.request(shape, duration, **options), priority, queue, user, waited)

    def add(self, jobid, request, priority=16, queue="", user=1, waited=0.0, **more):
        line, submitted = self.virtual.get(queue, queue), self.now - waited
        patience = submitted + request.wait.seconds if request.wait else -math.inf
        strict = self.pool.strict(request) if patience > self.now else request
        length = request.duration or CENTURY
        owner = user, (line, queue)
        self.wishes[jobid] = Wish(owner, line, request, strict, patience, length)
        leave = admitting(self.queue.windows.values(), *owner)
        job = jobid, priority, request, leave, line, submitted, self.now, user
        self.queue.add(self.queue.waiting(*job, **more))
        self.excuse([jobid])

    def runs(self, jobid, shape, end, **options):
        """Have a job run until *end*, 0 for no limit, which the queue has not started."""
        parts = self.pool.alloc(jobid, self.request(shape, **options)).parts
        self.pool.update_expiration(jobid, end)
        self.running[jobid] = Span(self.now, end or math.inf, parts)

    def end(self, jobid):
        self.tell("end", jobid)
        del self.running[jobid]
        self.pool.free(jobid)

    def give_back(self, jobid, rank):
        """A running job is over on one of its nodes."""
        self.tell("give back", jobid, rank)
        job = self.running[jobid]
        ((_, cores, gpus),) = [part for part in job.parts if part[0] >> rank & 1]
        self.pool.free(jobid, ResourceSet((RLiteEntry(1 << rank, cores, gpus),), ()))
        left = [(ranks & ~(1 << rank), c, g) for ranks, c, g in job.parts]
        job.parts = [part for part in left if part[0]]

    def cancel(self, jobid):
        self.tell("cancel", jobid)
        self.queue.remove(jobid)

    def limit(self, jobid, end):
        """A running job gets another limit, 0 for none."""
        self.tell("limit", jobid, end)
        job = self.running[jobid]
        if (end or math.inf) > job.end:
            self.excuse(self.touching(pieces(job.parts)))
        job.end = end or math.inf
        self.pool.update_expiration(jobid, end)

    def prioritize(self, jobid, priority):
        self.tell("prioritize", jobid, priority)
        self.excuse([jobid])
        self.queue.prioritize(jobid, priority)
        self.excuse([jobid])

    def lose(self, ranks, for_good=False):
        """Nodes go down, or leave."""
        self.tell("lose", ranks, "for good" * for_good)
        lost, plan = set(idset.iterate(idset.decode(ranks))), self.queue.reservations
        self.excuse([jobid for jobid, one in plan.items() if lost & ranks_in(one.parts)])
        (self.pool.remove_ranks if for_good else self.pool.mark_down)(ranks)

    def up(self, ranks):
        """Nodes come back, and with them jobs that could not be served come ahead of others."""
        self.tell("up", ranks)
        unable = [jobid for jobid in self.queue.jobs if served_by_up_nodes(self, jobid) is False]
        self.pool.mark_up(ranks)
        self.excuse(unable)

    def replace_key(self, key):
        self.tell("replace key", key)
        self.excuse(list(self.queue.jobs))
        self.pool.replace_key(key)

    def set_windows(self, windows):
        """These are all windows now."""
        self.tell("windows", *windows)
        new = [window for window in windows if window.name not in self.queue.windows]
        for jobid, one in reserved(self).items():
            if any(self.closed(window, jobid, one) for window in new):
                self.excuse([jobid])
        for _ in change_windows(self.queue, windows, lambda jobid: self.wishes[jobid].owner):
            pass

    def set_rules(self, default, rules):
        self.tell("rules", default, rules)
        self.excuse(list(self.queue.jobs))
        self.default, self.rules = default, rules
        self.queue.set_rules(default, rules)

    def run(self, until=None):
        """A pass to its end, now or at the time *until*."""
        self.now = self.now if until is None else until
        for steps, _ in enumerate(self.queue.run()):
            assert steps < 100_000, "a pass has no end"
        if (self.starts(), self.now) != (self.planned, self.rested):
            self.tell("at rest", self.starts())
        judge(self)

    def leave(self, steps):
        """Some steps of a pass, which is then left."""
        self.tell("leave", steps)
        for _ in zip(range(steps), self.queue.run()):
            pass

    def sweep(self):
        """Passes until compression moves nothing; False if something else may move before."""
        for _ in range(50):
            self.run()
            soon = self.queue.next_time
            if soon > self.now + LAG:
                return True
            if self.behind_late_jobs() or soon >= min(self.events(), default=math.inf):
                return False
            self.now = soon
        raise AssertionError("sweeps have no end")

    # ---- What the queue does ----

    def started(self, job, allocation, how):
        jobid, wish = job.jobid, self.wishes[job.jobid]
        self.tell("start", jobid, allocation.dumps())
        end = self.now + wish.length if wish.request.duration else math.inf
        span = Span(self.now, end, allocation.parts)
        assert ranks_in(span.parts) <= set(idset.iterate(self.pool.up)), "on a node that is down"
        for other in self.running.values():
            assert not pieces(other.parts) & pieces(span.parts), "twice"
        in_time = Span(self.now, end - SECOND, span.parts)
        for window in self.queue.windows.values():
            assert not self.closed(window, jobid, in_time), f"{jobid} starts into {window.name}"
        self.hows[jobid] = how
        if how in (IMMEDIATE, BACKFILLED):
            assert (how == BACKFILLED) == self.passes_a_reservation(job), how
        self.running[jobid] = span
        self.seen["as promised"] += self.promised.pop(jobid, None) is not None
        if self.now > self.planned.get(jobid, self.now) + SECOND:
            self.excuse(list(self.queue.jobs))

    def passes_a_reservation(self, job):
        """Whether a job with a reservation waits ahead of *job* in its line."""
        place, line = (-job.priority, job.jobid), self.wishes[job.jobid].line
        reserved = (self.queue.jobs[jobid] for jobid in self.queue.reservations)
        mine = (other for other in reserved if self.wishes[other.jobid].line == line)
        return any((-other.priority, other.jobid) < place for other in mine)

    def refused(self, job, reason):
        self.refusals[job.jobid] = reason

    def failed(self, job, error):
        raise error

    # ---- What is known ----

    def starts(self):
        """When each job with a reservation is to start."""
        return {jobid: one.start for jobid, one in self.queue.reservations.items()}

    def lines(self):
        """The rule of each queue, and its waiting jobs in order."""
        found = {}
        for job in sorted(self.queue.jobs.values(), key=lambda job: (-job.priority, job.jobid)):
            found.setdefault(self.wishes[job.jobid].line, []).append(job.jobid)
        return [(self.rules.get(line, self.default), jobids) for line, jobids in found.items()]

    def why(self, jobid):
        """What the user of a waiting job is told."""
        return str(outcome(why_waiting(self.queue, self.queue.jobs[jobid], self.now, str)))

    def closed(self, window, jobid, span):
        """Whether the job would be in the way of the window."""
        there = idset.from_ids(ranks_in(span.parts)) & window.ranks
        return there and span.meets(window) and not window.admits(*self.wishes[jobid].owner)

    def events(self):
        """The times to come at which something happens by itself."""
        windows = chain.from_iterable((w.start, w.end) for w in self.queue.windows.values())
        ends = (job.end for job in self.running.values())
        patience = (self.wishes[jobid].patience for jobid in self.queue.jobs)
        every = chain(self.starts().values(), windows, ends, patience)
        return [time for time in every if self.now < time < math.inf]

    def touching(self, held):
        """The jobs that are to have some of what is *held*."""
        plan = self.queue.reservations.items()
        return {jobid for jobid, one in plan if held & pieces(one.parts)}

    def behind_late_jobs(self):
        """The jobs that wait for one beyond its limit, and those that wait for these."""
        held = set().union(*(pieces(j.parts) for j in self.running.values() if j.end <= self.now))
        found = set()
        while self.touching(held) > found:
            found = self.touching(held)
            held |= set().union(*(pieces(self.queue.reservations[job].parts) for job in found))
        return found

    def excuse(self, jobids):
        """Let these jobs, and those behind them in their queues, start later than promised."""
        for _, line in self.lines() if self.promised else ():
            first = min((line.index(jobid) for jobid in jobids if jobid in line), default=len(line))
            for jobid in line[first:]:
                self.promised.pop(jobid, None)


# ---- What holds whenever the queue is at rest ----


def judge(site):
    """Raise AssertionError unless the promises hold."""
    assert site.queue.settled
    everybody_runs_or_can_wait(site)
    nothing_is_planned_twice(site)
    nobody_is_later_than_promised(site)
    first_jobs_have_reservations(site)
    nothing_idles_in_vain(site)
    site.planned, site.rested = site.starts(), site.now


def everybody_runs_or_can_wait(site):
    ends = {jobid: end or math.inf for jobid, end in site.pool.job_end_times()}
    assert ends == {jobid: job.end for jobid, job in site.running.items()}
    assert not set(site.queue.jobs) & {*ends, *site.refusals}
    assert set(site.queue.reservations) <= set(site.queue.jobs)
    for jobid in site.queue.jobs:
        site.pool.check_feasibility(site.wishes[jobid].request)  # else it would wait for ever


def reserved(site):
    """What waiting jobs will hold; one that should have started can do so now at the earliest."""
    found = {}
    for jobid, one in site.queue.reservations.items():
        start = max(one.start, site.now)
        found[jobid] = Span(start, start + site.wishes[jobid].length, one.parts)
    return found


def nothing_is_planned_twice(site):
    up, plan = set(idset.iterate(site.pool.up)), reserved(site)
    for jobid, start in site.starts().items():
        if start < site.now - SECOND:
            assert jobid in site.behind_late_jobs(), f"{jobid} was to start at {start}"
            del plan[jobid]  # nobody knows when
    for jobid, one in plan.items():
        assert ranks_in(one.parts) <= up, f"{jobid} is to start on a node that is down"
        for window in site.queue.windows.values():
            late = Span(one.start, one.end - SECOND, one.parts)
            assert not site.closed(window, jobid, late), f"{jobid} would start into {window.name}"
    for jobid, job in site.running.items():
        plan[jobid] = Span(site.now, min(job.end, site.now + FAR), job.parts)
    for (first, one), (second, other) in combinations(plan.items(), 2):
        if min(one.end, other.end) - max(one.start, other.start) > SECOND:
            both = pieces(one.parts) & pieces(other.parts)
            assert not both, f"{first} and {second} both have {both}"


def nobody_is_later_than_promised(site):
    if any(site.rested < start < site.now - SECOND for start in site.planned.values()):
        site.excuse(list(site.queue.jobs))  # the queue was called too late
    uncertain, starts = site.behind_late_jobs(), site.starts()
    site.excuse(uncertain)
    for jobid, first in list(site.promised.items()):
        if jobid not in site.queue.jobs:
            del site.promised[jobid]
            continue
        assert jobid in starts, f"{jobid} was promised {first}, and has no reservation"
        latest = first + (SECOND if site.now >= first else 0.0)
        assert starts[jobid] <= latest, f"{jobid}: {starts[jobid]}, promised {first}"
        assert site.now <= latest, f"{jobid} was promised {first}, it is {site.now}"
    for jobid, start in starts.items():
        if start < site.now + FAR:  # of others it is said that it cannot be told
            site.promised.setdefault(jobid, start)
    site.excuse(uncertain)


def served_by_up_nodes(site, jobid):
    """Whether the job could run if nothing else did; None if its search gives up."""
    choice = site.pool.copy_idle().choice(site.wishes[jobid].request)
    return None if choice.gave_up else choice.selection is not None


def first_jobs_have_reservations(site):
    """The first job of each queue that up nodes can serve, and as many as the depth says."""
    for rule, line in site.lines():
        able = {jobid: served_by_up_nodes(site, jobid) for jobid in line}
        head = next((jobid for jobid in line if able[jobid] is not False), None)
        depth = 0 if rule.policy == "fifo" else rule.depth
        for number, jobid in enumerate(line):
            has = jobid in site.queue.reservations
            assert has or not able[jobid] or (jobid != head and number >= depth), jobid
            assert not has or able[jobid] is not False, f"{jobid} waits for nodes that are down"


def could_start(site, jobid, start):
    """Whether a job could start at that time, with all else as it is planned."""
    wish, pool = site.wishes[jobid], site.pool.copy()
    span = Span(start, start + wish.length, [(pool.ranks, -1, -1)])
    for other, job in site.running.items():
        if start > site.now and job.end <= start:
            pool.free(other)
    plan, windows = reserved(site).items(), site.queue.windows.values()
    taken = [one.parts for other, one in plan if other != jobid and span.meets(one)]
    closed = [window.ranks for window in windows if site.closed(window, jobid, span)]
    taken += [[(ranks, -1, -1)] for ranks in closed]
    for number, parts in enumerate(taken, 1):
        pool.occupy(-number, parts)
    choice = pool.choice(wish.at(start))
    return choice.selection is not None and not choice.gave_up


def nothing_idles_in_vain(site):
    """No job could start now, delay nobody, and pass nobody whom it must not pass."""
    able = {jobid: served_by_up_nodes(site, jobid) for jobid in site.queue.jobs}
    for rule, line in site.lines():
        for jobid in line:
            assert not could_start(site, jobid, site.now), f"{jobid} waits though it could start"
            if rule.policy == "fifo" and able[jobid] is not False:
                break
    strict = any(site.wishes[jobid].patience > site.now for jobid in able)
    if True in able.values() and None not in able.values() and not strict:
        assert site.running or site.queue.windows, "an idle cluster, and nobody starts"


def nothing_could_be_earlier(site):
    """Once sweeps are over, no reservation could be earlier with all others in place."""
    if not site.sweep() or site.behind_late_jobs():
        return
    times = {site.now, *site.events(), *(one.end for one in site.queue.reservations.values())}
    for jobid, start in site.starts().items():
        for time in sorted(times):
            if site.now <= time < start - SECOND:
                can = could_start(site, jobid, time)
                assert not can, f"{jobid} is to start at {start}, and could at {time}"
    site.seen["swept"] += bool(site.queue.reservations)


# ---- Histories ----

TOPO = {"numa": [{"cores": "0-1"}, {"cores": "2-3"}]}
UNEVEN = {"socket": [{"numa": [{"cores": "0-2", "gpus": "0"}, {"cores": "3"}]},
                     {"numa": [{"cores": "4-5", "gpus": "1"}, {"cores": "6-7"}]}]}  # fmt: skip

#: Nodes: cores, GPUs and topo.
NODES = ((4, 0, None), (8, 2, None), (4, 0, TOPO), (8, 2, UNEVEN), (2, 1, None))

#: Default rule, and the rules of queues. The jobs of queue v stand in the line of queue a.
RULES = (
    (Rule("easy", 1), {}),
    (Rule("conservative", math.inf), {}),
    (Rule("fifo", 8), {}),
    (Rule("conservative", 2), {}),
    (Rule("easy", 1), {"a": Rule("fifo", 1), "b": Rule("conservative", 3)}),
    (Rule("conservative", 3), {"a": Rule("easy", 1), "b": Rule("easy", 2)}),
)

#: Shapes, from simple to hard, and options where the site has a fabric; the last two everywhere.
SHAPES = (
    "slot=1/core=1", "slot=1/core=2", "slot=1/node{x}", "slot=2/node/core=1", "slot=2/node{x}",
    "slot=2/core=2", "slot=4/core=1", "node=3/slot/core=1", "slot=1/core=4", "slot=1/gpu=1",
    "slot=1/[core=1;gpu=2]", "slot=1/numa{x}", "slot=1/core=1-4", "node=2-4/slot/core=2",
    "slot=2/[numa=2/core;core=1]", "slot=2/[numa=1/core=2;core=1]", "switch/slot=2/node/core=1",
)  # fmt: skip
OPTIONS = (
    {}, {"within": "switch"}, {"segment": "switch:2"}, {"switches": 1}, {"wait": 30}, {},
    {"wait": 30, "switches": 1}, {"same": "driver"}, {"constraints": {"properties": ["fast"]}},
)  # fmt: skip

#: Seconds; a third of all jobs have no limit, which is Flux's default.
DURATIONS = (100.0, 0.0, 10.0, 50.0, 0.0, 400.0)

#: How late the queue is called: exact in a float, so that sums are.
DELAYS = (0.0, 1 / 128, 0.5, 3.0)


class Chance:
    """Choices, one after another, by bytes; when there are no more, the first of each."""

    def __init__(self, data):
        self._data = iter(data)

    def number(self, end):
        return next(self._data, 0) % end

    def one(self, values):
        values = list(values)
        return values[self.number(len(values))]

    def once_in(self, times):
        return self.number(times) == times - 1


class History(Site):
    """What happens to a site, decided by bytes: first the site, then one event after another."""

    def __init__(self, site):
        chance = Chance(site)
        nodes, (cores, gpus, topo) = 1 + chance.number(6), chance.one(NODES)
        self.fabric, self.key, self.jobid = None, (nodes, topo), 0
        if nodes > 2 and chance.once_in(2):
            pairs = [range(rank, min(rank + 2, nodes)) for rank in range(0, nodes, 2)]
            self.fabric = {"switch": [{"ranks": idset.encode_ids(pair)} for pair in pairs]}
        half, rest = (idset.encode_ids(range(nodes)[i::2]) for i in (0, 1))
        pool = pool_of(
            nodes, cores, gpus, topo, self.fabric, fast=half, driver_1=half, driver_2=rest
        )
        super().__init__(pool, *chance.one(RULES), virtual={"v": "a"})
        self.tell(nodes, (cores, gpus, topo), self.fabric, self.default, self.rules)

    def happen(self, event):
        chance = Chance(event)
        what = chance.one(EVENTS)
        self.seen[what.__name__] += 1
        what(self, chance)
        if chance.once_in(4):
            self.leave(chance.number(12))
        else:
            self.run()

    def over(self):
        """Everything ends, and the pool is as it was."""
        nothing_could_be_earlier(self)
        for jobid in list(self.running):
            self.end(jobid)
        states = self.pool.situation.index.state_of
        assert all(state.idle for state in states if state is not None)

    # ---- Events, which are followed by a pass ----

    def nothing(self, chance):
        """What a history is made of when it is made smaller."""

    def everything_settled(self, chance):
        nothing_could_be_earlier(self)

    def time_passed_before_anything_is_due(self, chance):
        """And nobody can start, as the queue does not want to be called."""
        self.run()
        due = min([self.queue.next_time, *self.events()])
        assert due > self.now
        self.now = min(self.now + chance.one((1.0, 60.0, 3600.0)), (self.now + due) / 2)
        nothing_idles_in_vain(self)

    def time_passed(self, chance):
        """To the next time at which something is due; jobs end at their limits, but not all."""
        self.run()
        due = min((time for time in (self.queue.next_time, *self.events()) if time > self.now),
                  default=self.now + 1)  # fmt: skip
        if due < self.now + FAR:
            self.now, late = due + chance.one(DELAYS), chance.once_in(8)
            over = [j for j, job in self.running.items() if job.end <= self.now and not late]
            for jobid in over:
                self.end(jobid)

    def clock_jumped(self, chance):
        self.now += chance.one((-60.0, 3600.0, -600.0, 86400.0))

    def jobs_were_submitted(self, chance):
        for _ in range(1 + chance.number(3)):
            shape, duration = chance.one(SHAPES), chance.one(DURATIONS)
            options = chance.one(OPTIONS if self.fabric else OPTIONS[-2:] + ({}, {}, {}))
            priority, waited = 17 if chance.once_in(6) else 16, 20.0 if chance.once_in(8) else 0.0
            queue, user = chance.one("abcv"), chance.one((1, 2))
            try:
                self.pool.check_feasibility(self.request(shape, duration, **options))
            except (InvalidJobspec, InfeasibleRequest):
                continue
            self.jobid += 1
            self.submit(self.jobid, shape, duration, priority, queue, user, waited, **options)

    def job_ended(self, chance):
        if self.running:
            self.end(chance.one(self.running))

    def node_given_back(self, chance):
        several = [j for j, job in self.running.items() if len(ranks_in(job.parts)) > 1]
        if several:
            jobid = chance.one(several)
            rank = chance.one(sorted(ranks_in(self.running[jobid].parts)))
            if self.pool.ranks >> rank & 1:
                self.give_back(jobid, rank)

    def limit_changed(self, chance):
        if self.running:
            self.limit(chance.one(self.running), chance.one((self.now + 30, self.now + 5, 0.0)))

    def job_cancelled(self, chance):
        if self.queue.jobs:
            self.cancel(chance.one(sorted(self.queue.jobs)))

    def priority_changed(self, chance):
        if self.queue.jobs:
            self.prioritize(chance.one(sorted(self.queue.jobs)), 15 + chance.number(4))

    def node_went_down(self, chance):
        self.lose(str(chance.one(idset.iterate(self.pool.ranks))))

    def node_came_up(self, chance):
        self.up(str(chance.one(idset.iterate(self.pool.ranks))))

    def node_left_for_good(self, chance):
        ranks = list(idset.iterate(self.pool.ranks))
        if len(ranks) > 1 and chance.once_in(2):
            self.lose(str(chance.one(ranks)), for_good=True)

    def key_replaced(self, chance):
        nodes, topo = self.key
        if idset.size(self.pool.ranks) == nodes and chance.once_in(2):
            self.replace_key(key_of(nodes, chance.one((None, topo)), self.fabric))

    def window_came_or_went(self, chance):
        windows = [window for window in self.queue.windows.values() if window.end > self.now]
        if windows and chance.once_in(2):
            windows.remove(chance.one(windows))
        else:
            self.seen["windows"] += 1
            start = self.now + chance.one((40.0, -1.0, 5.0, 86400.0))
            users, queues = chance.one((("", ""), ([1], ""), ("", "av"), ("", "a"), ("", "v")))
            name, ranks = f"w{self.seen['windows']}", 1 + chance.number(63)
            end = start + chance.one((20.0, 200.0))
            windows.append(Window(name, ranks, start, end, frozenset(users), frozenset(queues)))
        self.set_windows(windows)

    def rules_changed(self, chance):
        self.set_rules(*chance.one(RULES))


#: How often each happens.
WEIGHTS = {
    History.nothing: 1, History.jobs_were_submitted: 10, History.time_passed: 8,
    History.job_ended: 4, History.window_came_or_went: 3, History.everything_settled: 2,
    History.time_passed_before_anything_is_due: 2, History.node_came_up: 2,
}  # fmt: skip
RARE = (
    History.node_went_down, History.node_given_back, History.node_left_for_good,
    History.key_replaced, History.job_cancelled, History.priority_changed, History.limit_changed,
    History.clock_jumped, History.rules_changed,
)  # fmt: skip
EVENTS = (*chain.from_iterable([event] * often for event, often in WEIGHTS.items()), *RARE)
