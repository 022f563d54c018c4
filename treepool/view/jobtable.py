"""Job traces from tables of sacct or CSV: which columns count, which rows are left out, and why.

The first line names the columns, in any order and in any case; what is between ``|`` or commas is a
value. A row becomes a job like this:

============================  ====================================================================
``Submit``, ``Eligible``      the time of submission: ``2026-11-25T10:00:00`` (without a zone: UTC)
                              or seconds; the later of the two
``Elapsed``, ``ElapsedRaw``   how long it ran: ``[D-]HH:MM:SS`` or seconds
``Timelimit``                 its limit, the same; ``TimelimitRaw`` is in minutes. UNLIMITED: a
                              hundred years, as the scheduler plans it. By default what it ran
``AllocTRES``, ``ReqTRES``    ``cpu=``, ``gres/gpu=`` and ``node=`` in all; the first that has cpu
``NCPUS``, ``NNodes``         if neither has: the same, without GPUs
``JobID``, ``Partition``,     the id, queue, account and priority
``Account``, ``Priority``
============================  ====================================================================

c CPUs and g GPUs on n nodes become ``node=n/slot=1/[core=c/n;gpu=g/n]``, rounded up: Slurm does not
tell how they were divided. The trace's own names may be columns, too: ``shape``, ``duration``,
``limit``, ``id``, ``queue``. Rows of what never ran are left out, and counted by reason.

A table may come from anyone: every error names the line and the column.
"""

from __future__ import annotations

import csv
import math
import re
from datetime import timezone
from io import StringIO
from typing import Callable, Iterator, Optional, Sequence, Union

import attrs

from treepool.placement.plan.jobs import CENTURY
from treepool.rfc.findings import shown
from treepool.rfc.quote import did_you_mean
from treepool.rfc.times import iso_time
from treepool.view.trace import (
    MAX_COUNT,
    MAX_DURATION,
    MAX_ID,
    MAX_PRIORITY,
    MAX_TIME,
    NOT_RUN,
    InvalidTrace,
    Trace,
    TraceJob,
)

#: Most columns.
MAX_COLUMNS = 1000

#: For each part of a job the columns that may have it, the first that has a value counts.
_COLUMNS = {
    "id": ("jobid", "id"),
    "submit": ("submit",),
    "eligible": ("eligible",),
    "duration": ("elapsed", "elapsedraw", "duration"),
    "limit": ("timelimit", "timelimitraw", "limit"),
    "shape": ("shape",),
    "tres": ("alloctres", "reqtres"),
    "cpus": ("ncpus", "alloccpus", "reqcpus"),
    "nodes": ("nnodes", "allocnodes", "reqnodes"),
    "queue": ("partition", "queue"),
    "account": ("account",),
    "priority": ("priority",),
}

#: The columns as sacct spells them, for messages.
_SPELLED = (
    "JobID", "Submit", "Eligible", "Elapsed", "ElapsedRaw", "Timelimit", "TimelimitRaw", "Shape",
    "AllocTRES", "ReqTRES", "NCPUS", "AllocCPUS", "ReqCPUS", "NNodes", "AllocNodes", "ReqNodes",
    "Partition", "Account", "Priority", "id", "duration", "limit", "queue",
)  # fmt: skip
_SPELLING = {name.lower(): name for name in _SPELLED}

#: Texts for "not known".
_UNKNOWN = ("", "unknown", "none", "n/a", "invalid")

#: Texts of a time limit that is not a time: no limit at all, and one that the row does not tell.
_NO_LIMIT, _OTHER_LIMIT = "unlimited", "partition_limit"

_TIME = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,9}):)?(\d{1,2}):(\d{1,2}(?:\.\d{1,6})?)", re.ASCII)
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,6})?", re.ASCII)
_GPU = re.compile(r"gres/gpu(:.+)?")

#: Why rows are left out, besides NOT_RUN.
STEP, NO_CORES = "steps of jobs", "no cores"


def is_table(text: str) -> bool:
    """Whether *text* is a table, not a trace of JSON objects."""
    head = text.lstrip()[:1]
    return head.isalpha() or head == '"'


def read(text: str, threads: int = 1) -> Trace:
    """The trace in table *text*; a core counts as so many CPUs as it has *threads*.

    Raises InvalidTrace, as Trace.of does, too.
    """
    rows = _rows(text)
    columns = _Columns(*next(rows, (1, [])))
    found = ((f"line {number}", columns.job(number, row, threads)) for number, row in rows)
    return Trace.of(found, columns.unused)


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, each with the number of its line; the header is the first."""
    head = text.lstrip().partition("\n")[0]
    lines = StringIO(text, newline="")
    if "|" in head:  # sacct quotes nothing
        reader = csv.reader(lines, delimiter="|", quoting=csv.QUOTE_NONE, strict=True)
    else:
        reader = csv.reader(lines, strict=True)
    try:
        for row in reader:
            if any(value.strip() for value in row):
                yield reader.line_num, row
    except csv.Error as e:
        raise InvalidTrace(f"line {reader.line_num}: {e}") from None


class _Columns:
    """The columns of a table: where each part of a job stands, and which are ``unused``."""

    def __init__(self, number: int, header: Sequence[str]) -> None:
        self.number = len(header)
        if len(header) > MAX_COLUMNS:
            raise InvalidTrace(f"line {number}: more than {MAX_COLUMNS} columns")
        place: dict[str, int] = {}
        for i, name in enumerate(header):
            name = name.strip().lower()
            if name in place:
                raise InvalidTrace(f"line {number}: column {shown(header[i])} is there twice")
            if name:  # not what is after the last "|" that ``sacct --parsable`` prints
                place[name] = i
        #: For each part of a job the columns that have it: spelling and place.
        self.parts = {
            part: [(_SPELLING[name], place[name]) for name in names if name in place]
            for part, names in _COLUMNS.items()
        }
        read = {i for found in self.parts.values() for _, i in found}
        self.unused = tuple(header[i].strip() for name, i in place.items() if i not in read)
        for parts in (("submit",), ("duration",), ("shape", "tres", "cpus")):
            if not any(self.parts[part] for part in parts):
                wanted = [_SPELLING[name] for part in parts for name in _COLUMNS[part]]
                hints = (did_you_mean(name, wanted) for name in self.unused)
                hint = next(filter(None, hints), "")
                some = " or ".join(wanted) if len(wanted) < 3 else f"one of {', '.join(wanted)}"
                raise InvalidTrace(f"line {number}: column {some} is needed{hint}")

    def job(self, line: int, row: list[str], threads: int) -> Union[TraceJob, str]:
        """The job in *row*, or why it is left out."""
        if len(row) != self.number:
            values = f"has {len(row)} values, the first line names {self.number} columns"
            raise InvalidTrace(f"line {line}: {values}")
        return _Row(line, self.parts, row).job(threads)


@attrs.frozen
class _Row:
    """A row of a table: the number of its line, its values, and where each part of a job is."""

    number: int
    parts: dict[str, list[tuple[str, int]]]
    values: list[str]

    def job(self, threads: int) -> Union[TraceJob, str]:
        """The job, or why the row is left out."""
        column, name = self.first("id")
        if column == "JobID" and "." in name:  # 123.batch, 123_4.0
            return STEP
        duration = self.time("duration", MAX_DURATION)
        if not duration:
            return NOT_RUN
        _, shape = self.first("shape")
        shape = shape or self.shape(threads)
        if not shape:
            return NO_CORES
        submits = [self.time(part, MAX_TIME) for part in ("submit", "eligible")]
        if submits[0] is None:
            raise self.error("submit", "a time")
        _, priority = self.first("priority")
        return TraceJob(
            place=f"line {self.number}",
            name=self.short("id") or str(self.number),
            submit=max(time for time in submits if time is not None),
            duration=duration,
            limit=self.time("limit", MAX_DURATION) or duration,
            shape=shape,
            queue=self.short("queue"),
            priority=self.count("priority", priority, MAX_PRIORITY),
            account=self.short("account"),
        )

    def first(self, part: str) -> tuple[str, str]:
        """The first column that has *part*, and the text there; "" if none has."""
        for column, i in self.parts[part]:
            text = self.values[i].strip()
            if text.lower() not in _UNKNOWN:
                return column, text
        return "", ""

    def error(self, part: str, wanted: str) -> InvalidTrace:
        """That *part* should be *wanted*."""
        column, text = self.first(part)
        if not column:
            column, i = self.parts[part][0]
            text = self.values[i]
        return InvalidTrace(f"line {self.number}: {column}: must be {wanted}, not {shown(text)}")

    def short(self, part: str) -> str:
        """A name."""
        _, text = self.first(part)
        if len(text) > MAX_ID:
            raise self.error(part, f"a name of up to {MAX_ID} characters")
        return text

    def count(self, part: str, text: str, most: int = MAX_COUNT) -> int:
        """The number in *text*, of *part*; 0 if it is empty."""
        if not text:
            return 0
        if not _is_count(text, most):
            raise self.error(part, f"a whole number up to {most}")
        return int(text)

    def time(self, part: str, most: float) -> Optional[float]:
        """The seconds of *part*; None if they are not known."""
        column, text = self.first(part)
        word = text.lower()
        if not text or (part == "limit" and word == _OTHER_LIMIT):
            return None
        if part == "limit" and word == _NO_LIMIT:
            return CENTURY
        forms: list[Callable[[str], Optional[float]]] = [_seconds]
        forms.append(_date if part in ("submit", "eligible") else _clock)
        found = next((time for form in forms if (time := form(text)) is not None), math.inf)
        found *= 60 if column == "TimelimitRaw" else 1
        if not 0 <= found <= most:
            raise self.error(part, f"a time of up to {most:.0f} seconds")
        return found

    def shape(self, threads: int) -> str:
        """What the job asked for, as a shape; "" if that has no cores."""
        cpus = nodes = gpus = 0
        for column, i in self.parts["tres"]:
            cpus, nodes, gpus = self.tres(column, self.values[i])
            if cpus:
                break
        cpus = cpus or self.count("cpus", self.first("cpus")[1])
        nodes = nodes or self.count("nodes", self.first("nodes")[1]) or 1
        if not cpus:
            return ""
        slot = f"core={-(-cpus // (threads * nodes))}"
        if gpus:
            slot = f"[{slot};gpu={-(-gpus // nodes)}]"
        return f"slot=1/{slot}" if nodes == 1 else f"node={nodes}/slot=1/{slot}"

    def tres(self, column: str, text: str) -> tuple[int, int, int]:
        """The CPUs, nodes and GPUs of trackable resources, such as ``cpu=8,gres/gpu=1,node=1``."""
        counts = {"cpu": 0, "node": 0}
        gpus, typed = None, 0
        for word in filter(None, text.strip().split(",")):
            name, equals, value = word.partition("=")
            gpu = _GPU.fullmatch(name)
            if not equals or ((name in counts or gpu) and not _is_count(value)):
                wanted = "NAME=NUMBER, separated by commas"
                at = f"line {self.number}: {column}: {shown(word)}"
                raise InvalidTrace(f"{at} is not {wanted}")
            if name in counts:
                counts[name] = int(value)
            elif gpu and gpu[1]:
                typed += int(value)
            elif gpu:
                gpus = int(value)
        return counts["cpu"], counts["node"], typed if gpus is None else gpus


def _is_count(text: str, most: int = MAX_COUNT) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= most


def _seconds(text: str) -> Optional[float]:
    return float(text) if _NUMBER.fullmatch(text) else None


def _clock(text: str) -> Optional[float]:
    """``[D-][HH:]MM:SS``, the form of sacct."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = match.groups(default="0")
    return (int(days) * 24 + int(hours)) * 3600 + int(minutes) * 60 + float(seconds)


def _date(text: str) -> Optional[float]:
    """A date and time (ISO 8601)."""
    try:
        found = iso_time(text)
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp()
