"""Snapshots: the form of the JSON file with the state of an instance, and what is refused in it.

==============  ==================================================================================
``version``     1
``treepool``    the version of treepool that wrote it
``time``        when it was taken; all times are in seconds since the epoch
``R``           the resources (RFC 20), with the key that the scheduler uses (RFC 49)
``options``     the options of the pool, as texts
``down``        the ranks that get no jobs (idset), of which an administrator ``drained`` some
``queues``      by name what holds in Flux queues: ``policy``, ``depth``, ``parent``, ``stopped``;
                "" has what holds in those that do not say it
``windows``     those that are not over (rfc/windows.py)
``running``     jobs that have resources: ``job``, ``user``, ``parts``, and ``end`` unless they have
                no time limit
``other``       parts that belong to no job that the writer could see
``pending``     jobs that wait for resources: ``job``, ``user``, ``queue``, ``priority``,
                ``submit``, and what they ask for as in a trace: ``shape``, ``limit``,
                ``constraint``, ``options``
``unreadable``  how many more jobs wait, whose requests the writer could not read
==============  ==================================================================================

Parts are [ranks, cores, GPUs], as idsets. Jobs are in the order in which they were submitted. Jobs
and users have numbers in place of names (job3, user2), unless whoever took it asked for names; then
``name`` is the name that a job was given.

A snapshot may come from anyone: every error has a JSON pointer, and unknown keys are rejected.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any, Iterator, Mapping, NamedTuple, Optional, Union

import attrs

from treepool.errors import InvalidInput, PoolConflict, Problem
from treepool.placement.allocation import Allocation
from treepool.placement.held import HELD_BACK
from treepool.placement.nodes.state import Held
from treepool.placement.plan.jobs import CENTURY, FIFO, POLICIES, Rule
from treepool.placement.plan.windows import Owner, Window
from treepool.placement.pool import Pool
from treepool.rfc import idset, windows
from treepool.rfc.findings import Findings, Reader, Readers, plain_json, shown, shown_ids
from treepool.rfc.queues import Queues
from treepool.rfc.rset import ResourceSet
from treepool.rfc.windows import WindowEntry
from treepool.view.jobs import Job
from treepool.view.trace import MAX_ID, MAX_JOBS, MAX_PRIORITY, MAX_TIME, TraceJob, asked
from treepool.view.words import count

#: The version of the form.
VERSION = 1

#: The id of the first running job in a pool that is made from a snapshot; commands count from one.
FIRST_ID = 1 << 32

#: Most ranks of all parts together; a rank counts for each job that has something there.
MAX_HELD = 1 << 20

#: Largest depth of a queue.
_MAX_DEPTH = 999_999_999

#: Seconds after which a job ends that is over its limit.
_SOON = 1e-3


class InvalidSnapshot(InvalidInput):
    """A snapshot that is not valid; the message names the place by its JSON pointer."""


@attrs.frozen
class Running:
    """A job that has resources. ``end`` is 0 without a time limit; ``name`` is "" if not told."""

    job: str
    user: str
    parts: tuple[Held, ...]
    end: float = 0.0
    name: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The job as JSON."""
        found: dict[str, Any] = {"job": self.job, "user": self.user, "name": self.name}
        found.update(parts=_parts_shown(self.parts), end=self.end)
        return {key: value for key, value in found.items() if value or key == "parts"}


@attrs.frozen
class Pending:
    """A job that waits: what a trace tells of one, its user and its name."""

    traced: TraceJob
    user: str
    name: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The job as JSON."""
        traced = self.traced.to_dict()
        found: dict[str, Any] = {"job": traced.pop("id"), "user": self.user, "name": self.name}
        found.update(queue=self.traced.queue, priority=self.traced.priority)
        if traced.pop("duration") != CENTURY:
            found["limit"] = self.traced.limit
        found.update(traced)
        return {key: value for key, value in found.items() if value or key in _ALWAYS}


#: Keys of jobs that are there whatever their value.
_ALWAYS = ("priority", "submit")


class Holder(NamedTuple):
    """Who has resources: where the snapshot tells it, the id in a pool, what it has until when."""

    at: str
    jobid: int
    parts: tuple[Held, ...]
    end: float


@attrs.frozen(slots=False)
class Snapshot:
    """An instance at one moment; see the module's docstring. ``down`` and ``drained`` are bitmasks.

    A job without a time limit in ``pending`` has one of a hundred years, as in the plan.
    """

    time: float
    resource_set: ResourceSet
    options: Mapping[str, str] = attrs.field(factory=dict)
    down: int = 0
    drained: int = 0
    queues: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    windows: tuple[WindowEntry, ...] = ()
    running: tuple[Running, ...] = ()
    other: tuple[Held, ...] = ()
    pending: tuple[Pending, ...] = ()
    unreadable: int = 0
    treepool: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The snapshot as JSON."""
        return {
            "version": VERSION,
            "treepool": self.treepool,
            "time": self.time,
            "R": self.resource_set.to_dict(),
            "options": dict(self.options),
            "down": idset.encode(self.down),
            "drained": idset.encode(self.drained),
            "queues": {name: dict(queue) for name, queue in self.queues.items()},
            "windows": [entry.to_dict() for entry in self.windows],
            "running": [job.to_dict() for job in self.running],
            "other": _parts_shown(self.other),
            "pending": [job.to_dict() for job in self.pending],
            "unreadable": self.unreadable,
        }

    @property
    def text(self) -> str:
        """The snapshot as JSON text, a line for each job: people look at what they send."""
        lines = []
        for key, value in self.to_dict().items():
            text = json.dumps(value)
            if isinstance(value, list) and value:
                text = "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"
            lines.append(f"{json.dumps(key)}: {text}")
        return "{\n " + ",\n ".join(lines) + "\n}\n"

    @property
    def summary(self) -> str:
        """What it has, in one line."""
        nodes = count(idset.size(self.resource_set.mask), "node")
        text = f"{nodes}; {count(len(self.running), 'job')} with resources, {len(self.pending):,}"
        text += f" waiting; {count(len(self.windows), 'window')}"
        return text if not self.unreadable else f"{text}; {self.unreadable:,} more wait, unread"

    # -- what the pool had

    def pool(self, resource_set: Optional[ResourceSet] = None, since: float = 0.0) -> Pool:
        """A pool on which the jobs run that ran, and the nodes are down that were.

        *resource_set* may describe the nodes in another way. Ends of jobs are counted from *since*
        on. The pool itself has no end: questions are about the time of the snapshot.
        """
        pool = Pool(resource_set or self.resource_set)
        pool.follow_options(**self.options)
        pool.set_expiration(0.0)
        for _, jobid, parts, end in self.holders():
            allocation = Allocation(pool.inventory, parts, 1)
            allocation.set_expiration(max(end - since, _SOON) if end else 0.0)
            pool.register_alloc(jobid, allocation)
        pool.mark_down(idset.encode(self.down))
        return pool

    def holders(self) -> Iterator[Holder]:
        """Who has resources, each with an id of its own."""
        for i, job in enumerate(self.running):
            yield Holder(f"/running/{i}/parts", FIRST_ID + i, job.parts, job.end)
        if self.other:
            yield Holder("/other", HELD_BACK, self.other, 0.0)

    @property
    def jobs(self) -> dict[int, Job]:
        """The running jobs, as pictures show them, by their ids in a pool."""
        running = enumerate(self.running, FIRST_ID)
        return {jobid: Job(job.job, job.name, job.parts) for jobid, job in running}

    # -- what the queue had

    @property
    def rules(self) -> tuple[Rule, dict[str, Rule]]:
        """The rule of all queues, and by name those of queues that have their own."""
        own = {
            name: Rule(queue["policy"], _depth(queue))
            for name, queue in self.queues.items()
            if "policy" in queue
        }
        return own.pop("", FIFO), own

    @cached_property
    def all_queues(self) -> Queues:
        """The Flux queues, which tell which is whose parent."""
        return Queues(self.queues, {})

    @property
    def stopped(self) -> frozenset[str]:
        """The names of the queues of which no job starts."""
        queues = self.queues
        lineages = {name: self.all_queues.lineage(name) for name in queues}
        return frozenset(
            name
            for name, lineage in lineages.items()
            if any(queues.get(one, {}).get("stopped") for one in lineage)
        )

    @cached_property
    def users(self) -> dict[str, int]:
        """A number for each user."""
        named = [str(user) for entry in self.windows for user in entry.users]
        named += [job.user for job in self.pending]
        return {user: number for number, user in enumerate(dict.fromkeys(named), 1)}

    def windows_since(self, since: float) -> list[Window]:
        """The windows, with times that are counted from *since* on."""
        users = self.users
        return [
            Window(
                f"{entry.name}@{at.start:.0f}" if entry.every else entry.name,
                windows.ranks_of(entry.hosts, self.resource_set)[0],
                at.start - since,
                at.end - since,
                frozenset(users[str(user)] for user in entry.users),
                frozenset(entry.queues),
            )
            for entry in self.windows
            for at in entry.times(since)
        ]

    def owner_of(self, job: Pending) -> Owner:
        """The user and the queues of a waiting job, as windows look at them."""
        return self.users[job.user], self.all_queues.lineage(job.traced.queue), ""


def _depth(queue: Mapping[str, Any]) -> float:
    depth = queue.get("depth", POLICIES[queue["policy"]])
    return float("inf") if depth == "unlimited" else depth


def _parts_shown(parts: tuple[Held, ...]) -> list[list[str]]:
    return [list(map(idset.encode, part)) for part in parts]


def read(given: Union[Mapping[str, Any], str]) -> Snapshot:
    """The snapshot in a dict or JSON text; raises InvalidSnapshot with the first problem."""
    findings = Findings()
    found = _Reader(findings).document(plain_json(given, InvalidSnapshot, "snapshot"))
    findings.check(InvalidSnapshot)
    assert found is not None
    return found


def problems(document: Any) -> list[Problem]:
    """All problems of a snapshot, by place; none if ``read`` accepts it."""
    findings = Findings()
    _Reader(findings).document(document)
    return findings.problems()


class _Reader:
    """Reads a snapshot; keeps its ranks, the names of its jobs, and how many ranks they hold."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.ranks: Optional[int] = None
        self.names: set[str] = set()
        self.held = 0

    def document(self, value: object) -> Optional[Snapshot]:
        """The snapshot; None if there are problems."""
        findings = self.findings

        def jobs(read: Reader[Any]) -> Reader[Any]:
            return lambda v, at: self.jobs(v, at, read)

        readers: Readers = {
            "version": lambda v, at: findings.one_of(v, at, (VERSION,)),
            "R": self.resources,
            "treepool": self.word,
            "time": self.time,
            "options": lambda v, at: findings.values(v, at, findings.string),
            "down": self.ranks_in,
            "drained": self.ranks_in,
            "queues": lambda v, at: findings.values(v, at, self.queue),
            "windows": lambda v, at: windows.read_into(findings, v, at),
            "running": jobs(self.running),
            "other": self.parts,
            "pending": jobs(self.pending),
            "unreadable": findings.integer,
        }
        found = findings.members(value, "", readers, tuple(readers), closed=True)
        if len(findings):
            return None
        del found["version"]
        snapshot = Snapshot(resource_set=found.pop("R"), **found)
        self.check_holders(snapshot)
        return snapshot

    def check_holders(self, snapshot: Snapshot) -> None:
        """Note what the pool refuses: options, and what no job or two jobs can have."""
        at = "/R"
        try:
            pool = Pool(snapshot.resource_set)
            at = "/options"
            pool.follow_options(**snapshot.options)
        except InvalidInput as e:  # of R a key that fits other ranks
            problem = Problem.of(e)
            self.findings.note(at + problem.pointer, problem.message)
            return
        for at, jobid, parts, _ in snapshot.holders():
            try:
                pool.register_alloc(jobid, Allocation(pool.inventory, parts, 1))
            except PoolConflict as e:
                self.findings.note(at, str(e).partition(": ")[2])
                return

    def resources(self, value: object, at: str) -> Optional[ResourceSet]:
        """R, which is a JSON object here."""
        if not isinstance(value, dict):
            self.findings.mistyped(at, "an object", value)
            return None
        try:
            found = ResourceSet.read(value)
        except InvalidInput as e:
            problem = Problem.of(e)
            self.findings.note(at + problem.pointer, problem.message)
            return None
        self.ranks = found.mask
        return found

    def ranks_in(self, value: object, at: str) -> int:
        """Ranks of R, or none."""
        return self._known(self.findings.idset(value, at, empty=True), at)

    def _known(self, ranks: int, at: str) -> int:
        if self.ranks is None:
            return 0
        if ranks & ~self.ranks:
            self.findings.note(at, f"ranks {shown_ids(ranks & ~self.ranks)} are not in R")
        return ranks & self.ranks

    def parts(self, value: object, at: str) -> tuple[Held, ...]:
        """A list of [ranks, cores, GPUs], of different ranks."""
        findings, seen, found = self.findings, 0, []
        for i, part in enumerate(findings.items(value, at, lambda part, at: part)):
            here = f"{at}/{i}"
            if not isinstance(part, list) or len(part) != 3:
                findings.mistyped(here, "a list of three: ranks, cores and GPUs", part)
                continue
            ranks = self._known(findings.idset(part[0], f"{here}/0"), f"{here}/0")
            cores, gpus = (
                findings.idset(ids, f"{here}/{j}", empty=True) for j, ids in enumerate(part[1:], 1)
            )
            findings.repeated(f"{here}/0", "ranks", ranks & seen)
            seen |= ranks
            self.held += idset.size(ranks)
            if not cores | gpus:
                findings.note(here, "has neither cores nor GPUs")
            elif self.held > MAX_HELD:
                findings.note(here, f"all parts together have more than {MAX_HELD} ranks")
                break
            else:
                found.append((ranks, cores, gpus))
        return tuple(found)

    def jobs(self, value: object, at: str, read: Reader[Any]) -> tuple[Any, ...]:
        """A list of jobs."""
        if isinstance(value, list) and len(value) > MAX_JOBS:
            self.findings.note(at, f"more than {MAX_JOBS} jobs")
            return ()
        return tuple(self.findings.items(value, at, read))

    def running(self, value: object, at: str) -> Optional[Running]:
        """A job that has resources."""
        readers = {**self.of_any, "parts": self.parts, "end": self.time}
        known = len(self.findings)
        found = self.findings.members(value, at, readers, ("job", "parts"), closed=True)
        return None if len(self.findings) > known else Running(**{"user": "", **found})

    def pending(self, value: object, at: str) -> Optional[Pending]:
        """A job that waits."""
        findings, known = self.findings, len(self.findings)
        readers: Readers = {
            **self.of_any,
            "queue": self.word,
            "priority": lambda v, at: findings.integer(v, at, 0, MAX_PRIORITY),
            **asked(findings),
        }
        required = ("job", "user", "priority", "submit", "shape")
        found = findings.members(value, at, readers, required, closed=True)
        if len(findings) > known:
            return None
        limit = found.pop("limit", CENTURY)
        job, submit, shape = (found.pop(key) for key in ("job", "submit", "shape"))
        own = {key: found.pop(key) for key in ("user", "name") if key in found}
        return Pending(TraceJob(at, job, submit, limit, limit, shape, **found), **own)

    @property
    def of_any(self) -> Readers:
        """What is told of any job."""
        return {"job": self.new_name, "user": self.word, "name": self.word}

    def new_name(self, value: object, at: str) -> str:
        """What a job is called, as no other is."""
        name = self.word(value, at, least=1)
        if name in self.names:
            self.findings.note(at, f"another job is called {shown(name)}, too")
        self.names.add(name)
        return name

    def queue(self, value: object, at: str) -> dict[str, Any]:
        """What holds in a Flux queue."""

        def depth(value: object, at: str) -> object:
            if value == "unlimited":
                return value
            return self.findings.integer(value, at, 1, _MAX_DEPTH)

        readers: Readers = {
            "policy": lambda v, at: self.findings.one_of(v, at, tuple(POLICIES)),
            "depth": depth,
            "parent": self.word,
            "stopped": self.findings.boolean,
        }
        required = ("policy",) if isinstance(value, dict) and "depth" in value else ()
        return self.findings.members(value, at, readers, required, closed=True)

    def time(self, value: object, at: str) -> float:
        """A time in seconds since the epoch."""
        return self.findings.number(value, at, 0, MAX_TIME)

    def word(self, value: object, at: str, least: int = 0) -> str:
        """A name of up to MAX_ID characters."""
        text = self.findings.string(value, at, least)
        if len(text) > MAX_ID:
            self.findings.note(at, f"must be {MAX_ID} characters at most")
        return text
