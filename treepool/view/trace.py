"""Job traces: which jobs came when, for how long, and what they asked for.

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
==============  ==================================================================================

A trace may come from anyone: every error names the line, and unknown keys are rejected.
"""

from __future__ import annotations

import json
from io import StringIO
from typing import Any, Iterable, Iterator, Mapping, Optional

import attrs

from treepool.errors import InvalidInput, InvalidJobspec
from treepool.placement.request import job_options
from treepool.placement.request.job_options import LOCALITIES
from treepool.rfc import constraint as rfc31
from treepool.rfc import document
from treepool.rfc.findings import Findings, Reader, Readers, integer, pointer_to

#: Most jobs of a trace.
MAX_JOBS = 1 << 20

#: Longest id, in characters.
MAX_ID = 128

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
        return found


def read(text: str) -> list[TraceJob]:
    """The jobs of trace *text* in the order in which they were submitted.

    Jobs submitted at the same time are in the order of their lines. Raises InvalidTrace, also for a
    trace without jobs or with more than MAX_JOBS.
    """
    jobs: list[TraceJob] = []
    for number, line in enumerate(StringIO(text), 1):  # splits at line feeds only, one at a time
        place, line = f"line {number}", line.strip()
        if line and len(jobs) >= MAX_JOBS:
            raise InvalidTrace(f"{place}: more than {MAX_JOBS} jobs")
        if line:
            try:
                value = document.load(line, InvalidInput, place)
            except InvalidInput as e:  # which counts the lines from here
                raise InvalidTrace(str(e).replace(": line 1 column", ": column", 1)) from None
            jobs.append(_job(place, value))
    if not jobs:
        raise InvalidTrace("there is no job in it")
    return in_order(jobs)


def in_order(jobs: Iterable[TraceJob]) -> list[TraceJob]:
    """*jobs* by time of submission; jobs with equal times keep their order."""
    return sorted(jobs, key=lambda job: job.submit)


def write(jobs: Iterable[TraceJob]) -> Iterator[str]:
    """The lines of a trace of *jobs*."""
    return (json.dumps(job.to_dict()) for job in jobs)


def _job(place: str, value: object) -> TraceJob:
    findings = Findings()

    def number(least: float, most: float) -> Reader[float]:
        return lambda value, at: findings.number(value, at, least, most)

    def name(value: object, at: str) -> str:
        if not integer(value) and not (isinstance(value, str) and len(value) <= MAX_ID):
            findings.mistyped(at, f"a number or a string of up to {MAX_ID} characters", value)
        return str(value)

    def constraint(value: object, at: str) -> object:
        rfc31.read_into(findings, value, at)
        return value

    def options(value: object, at: str) -> object:
        if not isinstance(value, dict):
            findings.mistyped(at, "an object", value)
            return {}
        for name, said in value.items():
            try:
                job_options.check(name, said)
            except InvalidJobspec as e:
                findings.note(pointer_to(at, name), str(e).partition(": ")[2])
        return value

    readers: Readers = {
        "submit": number(0, MAX_TIME),
        "duration": number(MIN_DURATION, MAX_DURATION),
        "shape": findings.string,
        "limit": number(MIN_DURATION, MAX_DURATION),
        "id": name,
        "constraint": constraint,
        "locality": lambda v, at: findings.one_of(v, at, LOCALITIES),
        "options": options,
    }
    found = findings.members(value, "", readers, ("submit", "duration", "shape"), closed=True)
    for problem in findings.problems()[:1]:
        raise InvalidTrace(f"{place}: {problem}")
    return TraceJob(
        place=place,
        name=found.get("id", place[len("line ") :]),
        submit=found["submit"],
        duration=found["duration"],
        limit=found.get("limit", found["duration"]),
        shape=found["shape"],
        constraint=found.get("constraint"),
        locality=found.get("locality"),
        options=found.get("options", {}),
    )
