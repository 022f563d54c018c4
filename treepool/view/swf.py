"""Job traces in Standard Workload Format (SWF) 2.2: fields, header, which lines become jobs.

The format is that of the Parallel Workloads Archive (D. Feitelson),
https://www.cs.huji.ac.il/labs/parallel/workload/swf.html: a line of 18 numbers for each job, -1
for what is not known, and comments after ``;``, of which those at the beginning are a header.
Counted from 1, the fields become a job like this:

==============  ==================================================================================
1               the id
2               the time of submission, in seconds after ``UnixStartTime`` of the header
4               how long it ran; jobs without a run time are left out
5, 8            the processors that it had, or else those that it asked for: ``slot=N/core=1``
9               its limit; by default what it ran
11              2, 3 and 4 are parts of a job that has a line of its own: they are left out
12, 15          the account (a number for a user) and the queue
==============  ==================================================================================

Memory (10), partition (16) and the job before it (17) have no effect; jobs that ask for them are
counted. A file may come from anyone: a line that is no job and no comment is left out and named.
"""

from __future__ import annotations

import re
from collections import Counter
from io import StringIO
from typing import Iterator, Optional, Union

import attrs

from treepool.view.trace import (
    MAX_COUNT,
    MAX_DURATION,
    MAX_TIME,
    MIN_DURATION,
    Machine,
    Misfit,
    Trace,
    TraceJob,
)
from treepool.view.words import count

#: Numbers in a line.
FIELDS = 18

#: Why a line is left out.
CANCELLED, NO_RUN_TIME = "cancelled before they ran", "no run time"
NO_PROCESSORS, PARTS = "no processors", "parts of jobs"

_JOB = re.compile(r"\s*[-+]?[0-9.]+[ \t]+[-+]?[0-9.]")
_HEADER = re.compile(r";\s*(\w+)\s*:\s*([0-9]{1,15})", re.ASCII)
_NUMBER = re.compile(r"[-+]?(?:[0-9]{1,15}(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,2})?")

#: Demands that have no effect: the name, and the place of the field.
_IGNORED = (("memory", 10), ("a partition", 16), ("another job to end before", 17))


def is_swf(text: str) -> bool:
    """Whether *text* is in Standard Workload Format: it begins with a comment or numbers."""
    head = text.lstrip()[:200]
    return head.startswith(";") or _JOB.match(head) is not None


def read(text: str) -> Trace:
    """The trace in *text*, with its machine; raises InvalidTrace, as Trace.of does."""
    reader = _Reader()
    trace = Trace.of(reader.lines(text))
    return attrs.evolve(trace, notes=tuple(reader.notes()), machine=reader.machine())


class _Reader:
    """Reads lines, and remembers what the header says and what has no effect."""

    def __init__(self) -> None:
        self.header: dict[str, int] = {}
        self.ignored: Counter[str] = Counter()
        self.unlimited = 0

    def lines(self, text: str) -> Iterator[tuple[str, Union[TraceJob, str, Misfit]]]:
        """The lines that are not blank or comments: the place of each, and what it becomes."""
        for number, line in enumerate(StringIO(text), 1):
            line = line.strip()
            if line.startswith(";"):
                match = _HEADER.match(line)
                if match:
                    self.header.setdefault(match[1].lower(), int(match[2]))
            elif line:
                place = f"line {number}"
                yield place, self._job(place, line.split())

    def machine(self) -> Machine:
        """The machine of the header; without one of the two numbers each node is a processor."""
        nodes, processors = self.header.get("maxnodes", 0), self.header.get("maxprocs", 0)
        return Machine(nodes, processors or nodes)

    def notes(self) -> Iterator[str]:
        """What of the jobs has no effect, or is assumed."""
        if self.unlimited:
            number = count(self.unlimited, "job")
            yield f"{number} without a requested time: the run time counts as the limit"
        if self.ignored:
            told = ", ".join(f"{what}: {number:,}" for what, number in self.ignored.items())
            yield f"demands of jobs without effect ({told})"

    def _job(self, place: str, words: list[str]) -> Union[TraceJob, str, Misfit]:
        values = [_number(word) for word in words[: FIELDS + 1]]
        if len(values) != FIELDS or None in values:
            return Misfit(f"a job is {FIELDS} numbers")
        field = dict(enumerate((value or 0.0 for value in values), 1))
        if field[11] in (2, 3, 4):
            return PARTS
        if field[4] < MIN_DURATION:
            return CANCELLED if field[11] == 5 else NO_RUN_TIME
        processors = field[5] if field[5] > 0 else field[8]
        if processors <= 0:
            return NO_PROCESSORS
        submit, duration = field[2] + self.header.get("unixstarttime", 0), field[4]
        limit = field[9] if field[9] >= MIN_DURATION else duration
        if (
            not 0 <= field[2] <= submit <= MAX_TIME
            or max(duration, limit) > MAX_DURATION
            or processors > MAX_COUNT
            or processors % 1
        ):
            return Misfit("a time or the number of processors is out of range")
        self.unlimited += field[9] < MIN_DURATION
        self.ignored.update(name for name, place in _IGNORED if field[place] > 0)
        name, account, queue = (f"{field[i]:.0f}" if field[i] >= 0 else "" for i in (1, 12, 15))
        return TraceJob(
            place=place,
            name=name or place[len("line ") :],
            submit=submit,
            duration=duration,
            limit=limit,
            shape=f"slot={processors:.0f}/core=1",
            account=account,
            queue=queue,
        )


def _number(word: str) -> Optional[float]:
    return float(word) if _NUMBER.fullmatch(word) else None
