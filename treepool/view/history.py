"""A replay as a picture: a step for each job that starts or ends, with its label and clock."""

from __future__ import annotations

from typing import Iterable

from treepool.placement.allocation import Allocation
from treepool.placement.pool import Pool
from treepool.rfc.rset import ResourceSet
from treepool.view.model import Job
from treepool.view.picture import Change, Picture
from treepool.view.trace import TraceJob

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
    """A time of the trace as days, hours, minutes and seconds since time zero."""
    whole = int(seconds)
    days, rest = divmod(whole, 86400)
    text = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"day {days} {text}" if days else text
