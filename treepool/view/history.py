"""A replay as a picture: a step for each job that starts or ends, with its label and clock."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Iterable

from treepool.placement.allocation import Allocation
from treepool.placement.pool import Pool
from treepool.rfc.rset import ResourceSet
from treepool.view.jobs import Job
from treepool.view.picture import Change, Picture
from treepool.view.trace import TraceJob

#: Times of a trace from here on are dates: 1990 to 9999. Some traces count from zero.
_FIRST_DATE, _LAST_DATE = 631_152_000.0, 253_402_300_799.0

#: A job of a trace that started: when (seconds of the trace), and with what.
Start = tuple[TraceJob, float, Allocation]


def picture_of(resource_set: ResourceSet, starts: Iterable[Start]) -> Picture:
    """The picture of a cluster on which jobs start as *starts* say, and end after their run time.

    The cluster is idle at the end.
    """
    jobs: list[Job] = []
    events: list[tuple[float, int, int, str]] = []
    for number, (traced, start, allocation) in enumerate(starts):
        jobs.append(Job.of(traced.name, traced.shape, allocation))
        end = start + traced.runs
        # At equal times jobs end before others start, because those may take over what is freed.
        events.append((start, 1, number, f"{_clock(start)}: job {traced.name}: {traced.shape}"))
        events.append((end, 0, number, f"{_clock(end)}: job {traced.name} ends"))
    changes = [
        Change(label, (number,) * starts_here, (number,) * (1 - starts_here))
        for _, starts_here, number, label in sorted(events)
    ]
    return Picture.of(Pool(resource_set), jobs, changes)


def _clock(seconds: float) -> str:
    """A time of the trace: its day, unless that is the first of a trace that counts from zero."""
    rest = int(seconds) % 86400
    text = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return text if seconds < 86400 else f"{day(seconds)} {text}"


def day(seconds: float) -> str:
    """The day of a time of a trace: its date (UTC), or its number where time begins at zero."""
    if seconds < _FIRST_DATE:
        return f"day {int(seconds // 86400)}"
    return datetime.fromtimestamp(min(seconds, _LAST_DATE), timezone.utc).strftime("%Y-%m-%d")
