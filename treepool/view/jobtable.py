"""Job traces from tables of sacct or CSV: which columns count, which rows are left out, and why.

The first line names the columns, in any order, in any case, with or without ``_`` between words;
what is between ``|`` or commas is a value. A row becomes a job like this:

============================  ====================================================================
``Submit``, ``Eligible``      the time of submission: ``2026-11-25T10:00:00`` (without a zone: UTC)
                              or seconds; the later of the two
``Elapsed``, ``ElapsedRaw``   how long it ran: ``[D-]HH:MM:SS`` or seconds
``Timelimit``                 its limit, the same; ``TimelimitRaw`` is in minutes. UNLIMITED: a
                              hundred years, as the scheduler plans it. By default what it ran
``AllocTRES``, ``ReqTRES``    ``cpu=``, ``gres/gpu=`` and ``node=`` in all; the first that has cpu
``NCPUS``, ``NNodes``,        if neither has: the same
``AllocGRES``
``JobID``, ``Partition``,     the id, queue, account and priority
``Account``, ``Priority``
============================  ====================================================================

c CPUs and g GPUs on n nodes become ``node=n/slot=1/[core=c/n;gpu=g/n]``, rounded up: Slurm does not
tell how they were divided. The trace's own names may be columns, too: ``shape``, ``duration``,
``limit``, ``id``; the reader of a table may be told which column is what. A column ``queue`` is
not taken for the queue unasked: in many traces it has the seconds that jobs waited. Rows of what
never ran are left out, and counted by reason.

A table may come from anyone: every error names the line and the column.
"""

from __future__ import annotations

import csv
import math
import re
from datetime import timezone
from io import StringIO
from typing import Callable, Iterable, Iterator, Mapping, Optional, Sequence, Union

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
    Misfit,
    Trace,
    TraceJob,
)
from treepool.view.words import plain

#: Most columns.
MAX_COLUMNS = 1000

#: For each part of a job the columns that may have it, the first that has a value counts.
PARTS = {
    "id": ("JobID", "id"),
    "submit": ("Submit", "SubmitTime"),
    "eligible": ("Eligible", "EligibleTime"),
    "duration": ("Elapsed", "ElapsedRaw", "duration", "RunTime"),
    "limit": ("Timelimit", "TimelimitRaw", "limit"),
    "shape": ("shape",),
    "tres": ("AllocTRES", "ReqTRES"),
    "cpus": ("NCPUS", "AllocCPUS", "ReqCPUS", "NumCPUs", "cpu_num"),
    "nodes": ("NNodes", "AllocNodes", "ReqNodes", "NumNodes", "node_num"),
    "gpus": ("AllocGRES", "NumGPUs", "gpu_num"),
    "queue": ("Partition",),
    "account": ("Account",),
    "priority": ("Priority",),
}

#: Parts that a table must have, one of each line.
_NEEDED = (("submit",), ("duration",), ("shape", "tres", "cpus"))

#: Texts for "not known".
_UNKNOWN = ("", "unknown", "none", "n/a", "invalid")

#: Texts of a time limit that is not a time: no limit at all, and one that the row does not tell.
_NO_LIMIT, _OTHER_LIMIT = "unlimited", "partition_limit"

_TIME = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,9}):)?(\d{1,2}):(\d{1,2}(?:\.\d{1,6})?)", re.ASCII)
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,6})?", re.ASCII)
_GPU = re.compile(r"gres/gpu(:.+)?")
_IN_PARENTHESES = re.compile(r"\([^()]*\)")

#: Why rows are left out, besides NOT_RUN.
STEP, NO_CORES, AGAIN = "steps of jobs", "no cores", "listed again below"


def is_table(text: str) -> bool:
    """Whether *text* is a table, not a trace of JSON objects."""
    head = text.lstrip()[:1]
    return head.isalpha() or head == '"'


def read(text: str, threads: int = 1, columns: Optional[Mapping[str, str]] = None) -> Trace:
    """The trace in table *text*; a core counts as so many CPUs as it has *threads*.

    *columns* says for some of PARTS in which column they are. Raises InvalidTrace, as Trace.of
    does, too.
    """
    rows = _rows(text)
    number, header = next(rows, (1, []))
    table = _Columns(number, header, columns or {})
    names = _names(header)
    body = ((number, row) for number, row in rows if _names(row) != names)
    found: Iterable[_Found] = ((f"line {i}", table.job(i, row, threads)) for i, row in body)
    return Trace.of(_once(found) if table.has_job_ids else found, table.unused)


#: A line of a table, and the job in it or why it is left out.
_Found = tuple[str, Union[TraceJob, str, Misfit]]


def _once(lines: Iterable[_Found]) -> list[_Found]:
    """*lines*; of jobs with equal ids and times of submission only the last is kept.

    A job that ran in two months is in what sacct prints for both.
    """
    found = list(lines)
    last: dict[tuple[str, float], int] = {}
    for i, (_, job) in enumerate(found):
        if isinstance(job, TraceJob):
            before = last.get((job.name, job.submit))
            if before is not None:
                found[before] = found[before][0], AGAIN
            last[job.name, job.submit] = i
    return found


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


def _bare(name: str) -> str:
    """The name of a column as it is compared: ``Submit_Time`` is ``submittime``."""
    return re.sub("[ _-]", "", name).lower()


def _names(row: Sequence[str]) -> list[str]:
    return list(map(str.lower, map(str.strip, row)))


_BARE = {part: [_bare(name) for name in names] for part, names in PARTS.items()}


class _Columns:
    """The columns of a table: where each part of a job stands, and which are ``unused``.

    ``has_job_ids`` says whether equal ids mean the same job.
    """

    def __init__(self, number: int, header: Sequence[str], chosen: Mapping[str, str]) -> None:
        self.number = len(header)
        if len(header) > MAX_COLUMNS:
            raise InvalidTrace(f"line {number}: more than {MAX_COLUMNS} columns")
        place: dict[str, int] = {}
        for i, name in enumerate(_names(header)):
            if name in place:
                raise InvalidTrace(f"line {number}: column {shown(header[i])} is there twice")
            if name:  # not what is after the last "|" that ``sacct --parsable`` prints
                place[name] = i
        spelled: dict[str, int] = {}
        for name, i in place.items():
            spelled.setdefault(_bare(name), i)
        #: For each part of a job the columns that have it: bare name and place.
        self.parts = {
            part: [(name, spelled[name]) for name in names if name in spelled]
            for part, names in _BARE.items()
        }
        for part, name in chosen.items():
            if name.strip().lower() not in place:
                hint = did_you_mean(name, [header[i].strip() for i in place.values()])
                raise InvalidTrace(f"line {number}: there is no column {shown(name)}{hint}")
            self.parts[part] = [(_bare(name), place[name.strip().lower()])]
        self._check_needed(number, header)
        read = {i for found in self.parts.values() for _, i in found}
        self.unused = tuple(header[i].strip() for i in place.values() if i not in read)
        self.header = [plain(name.strip()) for name in header]
        self.has_job_ids = [name for name, _ in self.parts["id"]][:1] == ["jobid"]

    def _check_needed(self, number: int, header: Sequence[str]) -> None:
        """Raise InvalidTrace if a needed part is in no column."""
        names = [name.strip() for name in header]
        for parts in _NEEDED:
            if any(self.parts[part] for part in parts):
                continue
            if len(names) == 1 and len(names[0].split()) > 2:
                wanted = "values are separated by | or commas, as sacct --parsable2 prints them"
                raise InvalidTrace(f"line {number}: {wanted}")
            wanted_names = [name for part in parts for name in PARTS[part]]
            hints = (did_you_mean(name, wanted_names) for name in names)
            hint = next(filter(None, hints), "") or f" (or --column {parts[-1]}=NAME)"
            some = " or ".join(wanted_names)
            if len(wanted_names) > 2:
                some = f"one of {', '.join(wanted_names)}"
            raise InvalidTrace(f"line {number}: column {some} is needed{hint}")

    def job(self, line: int, row: list[str], threads: int) -> Union[TraceJob, str, Misfit]:
        """The job in *row*, or why it is left out."""
        if len(row) != self.number:
            return Misfit(f"the first line names {self.number} columns")
        return _Row(line, self, row).job(threads)


@attrs.frozen
class _Row:
    """A row of a table: the number of its line, its columns, and its values."""

    number: int
    columns: _Columns
    values: list[str]

    def job(self, threads: int) -> Union[TraceJob, str]:
        """The job, or why the row is left out."""
        column, name = self.first("id")
        if column == "jobid" and "." in name:  # 123.batch, 123_4.0
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
        for column, i in self.columns.parts[part]:
            text = self.values[i].strip()
            if text.lower() not in _UNKNOWN:
                return column, text
        return "", ""

    def error(self, part: str, wanted: str) -> InvalidTrace:
        """That *part* should be *wanted*."""
        places = [i for _, i in self.columns.parts[part]]
        i = next((i for i in places if self.values[i].strip().lower() not in _UNKNOWN), places[0])
        text = self.values[i].strip()
        column = self.columns.header[i]
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
        text = text.removesuffix(".0")  # as pandas writes a column with gaps
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
        found *= 60 if column == "timelimitraw" else 1
        if not 0 <= found <= most:
            form = "2026-11-25T10:00:00" if forms[-1] is _date else "1-10:00:00"
            raise self.error(part, f"a time such as {form}, or up to {most:.0f} seconds")
        return found

    def shape(self, threads: int) -> str:
        """What the job asked for, as a shape; "" if that has no cores."""
        cpus = nodes = gpus = 0
        for _, i in self.columns.parts["tres"]:
            cpus, nodes, gpus = self.tres(self.columns.header[i], self.values[i])
            if cpus:
                break
        cpus = cpus or self.count("cpus", self.first("cpus")[1])
        nodes = nodes or self.count("nodes", self.first("nodes")[1]) or 1
        if not cpus:
            return ""
        if not gpus and self.columns.parts["gpus"]:
            gpus = self.gres(self.first("gpus")[1], nodes)
        slot = f"core={-(-cpus // (threads * nodes))}"
        if gpus:
            slot = f"[{slot};gpu={-(-gpus // nodes)}]"
        return f"slot=1/{slot}" if nodes == 1 else f"node={nodes}/slot=1/{slot}"

    def gres(self, text: str, nodes: int) -> int:
        """The GPUs in *text*, a number or generic resources such as ``gpu:a100:2,license:1``."""
        if text[:1].isdigit() or not text:
            return self.count("gpus", text)
        per_node = nodes if text.startswith("PER_NODE:") else 1
        total = 0
        for word in _IN_PARENTHESES.sub("", text.removeprefix("PER_NODE:")).split(","):
            name, *rest = word.removeprefix("gres/").split(":")
            if name == "gpu":
                total += int(rest[-1]) if rest and _is_count(rest[-1]) else 1
        return per_node * total

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
