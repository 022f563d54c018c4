"""The windows of a running instance, for commands: requests to its ``sched-treepool``."""

from __future__ import annotations

import math
import re
from typing import Any, Iterable, Optional

import attrs
import flux
from flux.job import JobID, JobList
from flux.util import parse_datetime, parse_fsd

from treepool.flux import client
from treepool.flux.windownames import user_id
from treepool.rfc import windows
from treepool.rfc.queues import Queues
from treepool.rfc.windows import WindowEntry

#: A text that must be ISO 8601: Flux reads 2027-01-01T25:00 as 20:27 of the same day.
_BEGINS_AS_ISO = re.compile(r"\d{4}-\S*")


@attrs.frozen
class Shown:
    """A window, and where it is kept: "kvs" or "configuration"."""

    entry: WindowEntry
    source: str


@attrs.frozen
class Added:
    """What a new window affects.

    ``reserved`` counts the waiting jobs that lose their reservation. ``running`` has the names of
    jobs that may still run on the nodes of the window when it starts.
    """

    reserved: int
    running: tuple[str, ...]


def now(handle: Any = None) -> tuple[Shown, ...]:
    """The windows that are not over, the earliest first; raises OSError."""
    found = []
    for value in _ask(handle or flux.Flux(), "list", {})["windows"]:
        source = str(value.pop("source"))
        found.append(Shown(windows.read(value), source))
    return tuple(found)


def add(entry: WindowEntry) -> Added:
    """Add a window; raises OSError if the scheduler refuses it."""
    handle = flux.Flux()
    answer = _ask(handle, "add", entry.to_dict())
    running = _others(handle, answer["running"], entry)
    return Added(len(answer["reserved"]), tuple(str(JobID(jobid).f58) for jobid in running))


def remove(name: str) -> None:
    """Remove a window; raises OSError if the scheduler refuses that."""
    _ask(flux.Flux(), "remove", {"name": name})


def time_of(text: str) -> float:
    """The time in *text*, in seconds since the epoch; raises ValueError.

    *text* has digits alone, ISO 8601 or else what Flux reads as a time.
    """
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return windows.seconds_of_iso(text)
    except ValueError:
        if _BEGINS_AS_ISO.fullmatch(text):
            raise
    try:
        return float(parse_datetime(text).timestamp())
    except (OverflowError, OSError):
        raise ValueError("is out of range") from None


def seconds_of(text: str) -> float:
    """The seconds in a Flux Standard Duration; raises ValueError."""
    try:
        seconds = float(parse_fsd(text))
    except OverflowError:
        raise ValueError("is out of range") from None
    if not 0 < seconds < math.inf:
        raise ValueError("must be more than 0s and less than infinity")
    return seconds


def _ask(handle: Any, what: str, payload: dict[str, Any]) -> Any:
    return client.ask(handle, f"window-{what}", payload)


def _others(handle: Any, jobs: list[int], entry: WindowEntry) -> Iterable[int]:
    """Those of *jobs* that the window does not admit."""
    if not jobs or not (entry.users or entry.queues):
        return jobs
    users: set[Optional[int]] = {user_id(user) for user in entry.users}
    queues = Queues.of(handle.conf_get)
    listed = JobList(handle, ["userid", "queue"], ids=jobs, max_entries=0).jobs()
    admitted = {
        int(j.id)
        for j in listed
        if j.userid in users or not set(entry.queues).isdisjoint(queues.lineage(j.queue))
    }
    return [jobid for jobid in jobs if jobid not in admitted]
