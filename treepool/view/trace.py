"""Job traces: the keys of a JSON line (when, how long, for what), their limits, lines left out.

A trace is JSON lines, an object for each job:

==============  ==================================================================================
``submit``      when it was submitted, in seconds; only the differences matter
``duration``    how long it runs, in seconds
``shape``       what it asks for, as an RFC 46 shape
``limit``       its time limit in seconds, at which it is ended; the duration if not given
``id``          a name for messages, text or a number; the number of the line if not given
``constraint``  the nodes it may use, an RFC 31 object
``locality``    preferred, required or none, see doc/design.md, "On a node"
``options``     job options as in ``attributes.system.treepool``, such as {"wait": 600}
``queue``       its Flux queue; if nodes of the cluster have a property of this name, it has these
``priority``    in the order of its queue, 0 to 4294967295, the highest first; 0 if not given
``account``     who is charged for it
==============  ==================================================================================

Jobs that never ran (duration 0) are left out and counted. A trace may come from anyone: every error
names the line, and unknown keys are rejected. view/jobtable.py reads traces from tables,
view/swf.py those in Standard Workload Format.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from io import StringIO
from typing import Any, Iterable, Iterator, Mapping, Optional, Sequence, Union

import attrs

from treepool.errors import InvalidInput
from treepool.placement.names import LOCALITIES
from treepool.placement.request import job_options
from treepool.rfc import constraint as rfc31
from treepool.rfc import document
from treepool.rfc.findings import Findings, Readers, integer, shown
from treepool.view import words

#: Most jobs of a trace.
MAX_JOBS = 1 << 20

#: Longest id, and longest name of a queue or an account, in characters.
MAX_ID = 128

#: Highest priority, as in Flux.
MAX_PRIORITY = (1 << 32) - 1

#: Most columns without effect, and lines that were not understood, that are named.
MAX_NAMED = 20

#: Most nodes, CPUs or GPUs of a job.
MAX_COUNT = 1 << 40

#: Latest time, shortest and longest duration, in seconds: the year 5138, a microsecond, and 317
#: years. In this range a float resolves 20 microseconds.
MAX_TIME, MIN_DURATION, MAX_DURATION = 1e11, 1e-6, 1e10


class InvalidTrace(InvalidInput):
    """A line of a trace that is not a valid job; the message names the line."""


@attrs.frozen
class TraceJob:
    """A job of a trace; times in seconds. ``place`` is its location in the trace, for messages."""

    place: str
    name: str
    submit: float
    duration: float
    limit: float
    shape: str
    constraint: Optional[Mapping[str, Any]] = None
    locality: Optional[str] = None
    options: Mapping[str, Any] = attrs.field(factory=dict)
    queue: str = ""
    priority: int = 0
    account: str = ""
    preemptible_after: float = math.inf

    @property
    def runs(self) -> float:
        """How long the job runs: its duration, or its limit if that is shorter."""
        return min(self.duration, self.limit)

    def to_dict(self) -> dict[str, Any]:
        """The job as a JSON object of the trace."""
        found: dict[str, Any] = {"id": self.name, "submit": self.submit, "duration": self.duration}
        if self.limit != self.duration:
            found["limit"] = self.limit
        found["shape"] = self.shape
        if self.constraint is not None:
            found["constraint"] = self.constraint
        if self.locality is not None:
            found["locality"] = self.locality
        if self.options:
            found["options"] = dict(self.options)
        if self.preemptible_after < math.inf:
            found["preemptible_after"] = self.preemptible_after
        for name in ("queue", "priority", "account"):
            if getattr(self, name):
                found[name] = getattr(self, name)
        return found


@attrs.frozen
class Machine:
    """What a trace says of the machine: how many ``nodes`` and ``processors``, 0 if nothing."""

    nodes: int = 0
    processors: int = 0

    def cores(self, nodes: int) -> int:
        """The cores of a node if it has *nodes* nodes where the trace does not say."""
        return max(1, -(-self.processors // (self.nodes or nodes)))


@attrs.frozen
class Misfit:
    """A line that is not in the form of the others; ``wanted`` says what it should be."""

    wanted: str


@attrs.frozen
class Trace:
    """The ``jobs`` of a trace in the order in which they were submitted.

    Jobs submitted at the same time are in the order of their lines. ``left_out`` is how many lines
    are not among them, by reason; ``misfits`` are the places of lines that were not understood, by
    what they should be; the values of columns ``unused`` have no effect; ``notes`` tell what else
    was left out or changed. ``machine`` is what the trace says of the machine.
    """

    jobs: list[TraceJob]
    left_out: Mapping[str, int] = attrs.field(factory=dict)
    unused: tuple[str, ...] = ()
    misfits: Mapping[str, Sequence[str]] = attrs.field(factory=dict)
    notes: tuple[str, ...] = ()
    machine: Optional[Machine] = None

    @classmethod
    def of(
        cls, lines: Iterable[tuple[str, Union[TraceJob, str, Misfit]]], unused: tuple[str, ...] = ()
    ) -> Trace:
        """The trace of *lines*, each its place, and a job or why there is none.

        Raises InvalidTrace for a trace without jobs or with more than MAX_JOBS.
        """
        jobs: list[TraceJob] = []
        left_out: Counter[str] = Counter()
        misfits: dict[str, list[str]] = {}
        for place, found in lines:
            if isinstance(found, str):
                left_out[found] += 1
            elif isinstance(found, Misfit):
                misfits.setdefault(found.wanted, []).append(place)
            elif len(jobs) >= MAX_JOBS:
                raise InvalidTrace(f"{place}: more than {MAX_JOBS} jobs")
            else:
                jobs.append(found)
        trace = cls(in_order(jobs), left_out, unused, misfits)
        if not jobs:
            raise InvalidTrace("; ".join(["there is no job in it", *trace.remarks]))
        return trace

    @property
    def remarks(self) -> list[str]:
        """What a user should know of what was not read."""
        found = []
        if self.left_out:
            reasons = ", ".join(f"{why}: {number:,}" for why, number in self.left_out.items())
            found.append(f"{words.count(sum(self.left_out.values()), 'line')} left out ({reasons})")
        for wanted, places in self.misfits.items():
            numbers = _named([place[len("line ") :] for place in places])
            number = words.count(len(places), "line")
            found.append(f"{number} not understood, because {wanted}: {numbers}")
        if self.unused:
            names = _named(list(map(shown, self.unused)))
            found.append(f"columns without effect: {names} (see --column)")
        late = sum(job.duration > job.limit for job in self.jobs)
        if late:
            found.append(f"{words.count(late, 'job')} ran longer than allowed: cut at the limit")
        return [*found, *self.notes]


def _named(names: Sequence[str]) -> str:
    """The first of *names*, and how many there are besides."""
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + f" and {more:,} more" * (more > 0)


#: Why a line is left out.
NOT_RUN = "did not run"


def read(text: str) -> Trace:
    """Trace *text* of JSON lines; raises InvalidTrace, as Trace.of does, too."""
    return Trace.of(_lines(text))


def _lines(text: str) -> Iterator[tuple[str, Union[TraceJob, str]]]:
    for number, line in enumerate(StringIO(text), 1):  # splits at line feeds only, one at a time
        place, line = f"line {number}", line.strip()
        if line:
            try:
                value = document.load(line, InvalidInput, place)
            except InvalidInput as e:  # which counts the lines from here
                raise InvalidTrace(str(e).replace(": line 1 column", ": column", 1)) from None
            yield place, _job(place, value)


def in_order(jobs: Iterable[TraceJob]) -> list[TraceJob]:
    """*jobs* by time of submission; jobs with equal times keep their order."""
    return sorted(jobs, key=lambda job: job.submit)


def write(jobs: Iterable[TraceJob]) -> Iterator[str]:
    """The lines of a trace of *jobs*."""
    return (json.dumps(job.to_dict()) for job in jobs)


def asked(findings: Findings) -> Readers:
    """Readers of what a trace and a snapshot tell of a job in the same form."""

    def constraint(value: object, at: str) -> object:
        rfc31.read_into(findings, value, at)
        return value

    return {
        "submit": lambda v, at: findings.number(v, at, 0, MAX_TIME),
        "shape": findings.string,
        "limit": lambda v, at: findings.number(v, at, MIN_DURATION, MAX_DURATION),
        "constraint": constraint,
        "options": lambda v, at: job_options.read_into(findings, v, at),
    }


def _job(place: str, value: object) -> Union[TraceJob, str]:
    findings = Findings()

    def name(value: object, at: str) -> str:
        if not integer(value) and not (isinstance(value, str) and len(value) <= MAX_ID):
            findings.mistyped(at, f"a number or a string of up to {MAX_ID} characters", value)
        return str(value)

    def short(value: object, at: str) -> str:
        text = findings.string(value, at)
        if len(text) > MAX_ID:
            findings.note(at, f"has more than {MAX_ID} characters")
        return text

    readers: Readers = {
        **asked(findings),
        "duration": lambda v, at: findings.number(v, at, 0, MAX_DURATION),
        "id": name,
        "locality": lambda v, at: findings.one_of(v, at, LOCALITIES),
        "queue": short,
        "priority": lambda v, at: findings.integer(v, at, 0, MAX_PRIORITY),
        "account": short,
        "preemptible_after": lambda v, at: findings.number(v, at, 0, MAX_DURATION),
    }
    found = findings.members(value, "", readers, ("submit", "duration", "shape"), closed=True)
    for problem in findings.problems()[:1]:
        raise InvalidTrace(f"{place}: {problem}")
    if found["duration"] < MIN_DURATION:
        return NOT_RUN
    found.setdefault("limit", found["duration"])
    return TraceJob(place, found.pop("id", place[len("line ") :]), **found)
