"""Job traces: which jobs came when, for how long, and what they asked for.

A trace is JSON lines, an object for each job:

==============  ==================================================================================
``submit``      when it was submitted, in seconds; only the differences matter
``duration``    how long it runs, in seconds
``shape``       what it asks for, as an RFC 46 shape
``limit``       its time limit in seconds, at which it is ended; the duration if not given
``id``          a name for messages, text or a number; the number of the line if not given
``constraint``  the nodes it may use, an RFC 31 object
``locality``    preferred, required or none, see DESIGN "Which node"
==============  ==================================================================================

A trace may come from anyone: every error names the line, and unknown keys are rejected.
"""

from __future__ import annotations

import json
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional

import attrs

from treepool.errors import InvalidInput, TreepoolError
from treepool.placement.request.job_options import LOCALITIES
from treepool.rfc import constraint as rfc31
from treepool.rfc import document
from treepool.rfc.findings import integer, number, shown

#: Most jobs of a trace.
MAX_JOBS = 1 << 20

#: Longest id, in characters.
MAX_ID = 128

#: Latest time and longest duration, in seconds: the year 5138, and 317 years. In this range a float
#: resolves 20 microseconds.
MAX_TIME, MAX_DURATION = 1e11, 1e10


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
        return found


def read(text: str) -> list[TraceJob]:
    """The jobs of trace *text* in the order in which they were submitted.

    Jobs submitted at the same time are in the order of their lines. Raises InvalidTrace, also for a
    trace without jobs or with more than MAX_JOBS.
    """
    jobs: list[TraceJob] = []
    for place, line in _lines(text):
        if len(jobs) >= MAX_JOBS:
            raise InvalidTrace(f"{place}: more than {MAX_JOBS} jobs")
        jobs.append(_job(place, document.load(line, InvalidTrace, place)))
    if not jobs:
        raise InvalidTrace("there is no job in it")
    return in_order(jobs)


def in_order(jobs: Iterable[TraceJob]) -> list[TraceJob]:
    """*jobs* by time of submission; jobs with equal times keep their order."""
    return sorted(jobs, key=lambda job: job.submit)


def write(jobs: Iterable[TraceJob]) -> Iterator[str]:
    """The lines of a trace of *jobs*."""
    return (json.dumps(job.to_dict()) for job in jobs)


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Every line that is not blank, with its name for messages."""
    start = count = 0
    while start < len(text):
        count += 1
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line = text[start:end].strip()
        start = end + 1
        if line:
            yield f"line {count}", line


def _job(place: str, value: object) -> TraceJob:
    if not isinstance(value, dict):
        raise InvalidTrace(f"{place}: a job is a JSON object, not {shown(value)}")
    for name in value:
        if name not in _CHECKS:
            known = ", ".join(_CHECKS)
            raise InvalidTrace(f"{place}: unknown key {shown(name)}, known: {known}")
    for name in ("submit", "duration", "shape"):
        if name not in value:
            raise InvalidTrace(f"{place}: the key {name} is missing")
    for name, item in value.items():
        problem = _CHECKS[name](item)
        if problem:
            raise InvalidTrace(f"{place}: {name}: {shown(item)} is not {problem}")
    if "constraint" in value:
        try:
            rfc31.parse(value["constraint"], f"{place}: constraint: ")
        except TreepoolError as e:
            raise InvalidTrace(str(e)) from None
    duration = float(value["duration"])
    return TraceJob(
        place=place,
        name=str(value.get("id", place[len("line ") :])),
        submit=float(value["submit"]),
        duration=duration,
        limit=float(value.get("limit", duration)),
        shape=value["shape"],
        constraint=value.get("constraint"),
        locality=value.get("locality"),
    )


def _check_submit(value: object) -> str:
    good = number(value) and 0 <= value <= MAX_TIME  # type: ignore[operator]
    return "" if good else f"a time in seconds from 0 to {MAX_TIME:.0e}"


def _check_duration(value: object) -> str:
    good = number(value) and 0 < value <= MAX_DURATION  # type: ignore[operator]
    return "" if good else f"a number of seconds above 0, {MAX_DURATION:.0e} at most"


def _check_shape(value: object) -> str:
    return "" if isinstance(value, str) else "a shape, which is a string"


def _check_id(value: object) -> str:
    good = integer(value) or (isinstance(value, str) and len(value) <= MAX_ID)
    return "" if good else f"a number or a string of up to {MAX_ID} characters"


def _check_constraint(value: object) -> str:
    return "" if isinstance(value, dict) else "an RFC 31 object"


def _check_locality(value: object) -> str:
    return "" if value in LOCALITIES else f"one of {', '.join(LOCALITIES)}"


#: For each key, a check that returns what the value should be, or "" if it is valid.
_CHECKS: dict[str, Callable[[object], str]] = {
    "submit": _check_submit,
    "duration": _check_duration,
    "shape": _check_shape,
    "limit": _check_duration,
    "id": _check_id,
    "constraint": _check_constraint,
    "locality": _check_locality,
}
