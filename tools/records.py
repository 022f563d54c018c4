"""Reads the parts of a soak's record, for checker.py: idsets, times, what was held when."""

import bisect
import math
import re
from itertools import chain

import attrs

#: The exception of a job whose R a scheduler refuses when it is loaded.
RESTART = "scheduler-restart"


@attrs.frozen
class Hold:
    """What a job has of a rank, from start up to and without end; cores and gpus are bitmasks."""

    jobid: int
    rank: int
    start: float
    end: float
    cores: int
    gpus: int


def ids(text):
    """The ids of an RFC 22 idset, brackets allowed."""
    ranges = (part.partition("-") for part in text.strip("[]").split(",") if part)
    return [i for a, dash, b in ranges for i in range(int(a), int(b if dash else a) + 1)]


def mask(text):
    """The bitmask of an idset."""
    return sum(1 << i for i in ids(text))


def hosts(nodelist):
    """The numbers of hosts in a list of RFC 29 hostlists, all with one prefix."""
    parts = chain.from_iterable(re.findall(r"[A-Za-z]+(\[[^]]*\]|\d+)", text) for text in nodelist)
    return [number for part in parts for number in ids(part)]


def times(job):
    """The time of the first event of each name."""
    found = {}
    for event in job["events"]:
        found.setdefault(event["name"], event["timestamp"])
    return found


def exceptions(job):
    """(type, severity, note, time) of the job's exceptions."""
    return [
        (e["context"]["type"], e["context"]["severity"], e["context"].get("note"), e["timestamp"])
        for e in job["events"]
        if e["name"] == "exception"
    ]


def refused(job):
    """When a scheduler that was loaded refused the R that the job had; infinity if none did.

    Then nobody frees it.
    """
    return min([t for kind, _, _, t in exceptions(job) if kind == RESTART], default=math.inf)


def parts_of(R):
    """(ranks, cores, GPUs) of each R_lite entry; the latter as bitmasks."""
    return [
        (ids(e["rank"]), mask(e["children"].get("core", "")), mask(e["children"].get("gpu", "")))
        for e in R["execution"]["R_lite"]
    ]


def holds_of(record):
    """What was held when: from alloc to free, or to the end of housekeeping on that rank.

    What a stop cuts short is over then, because housekeeping does not outlive the instance.
    """
    scripts = {}
    for jobid, rank, start, end in record["housekeeping"]:
        if end is not None:
            scripts.setdefault((jobid, rank), []).append((start, end))
    stops = sorted(stop for stop, _, _ in record["stops"])
    for job in record["jobs"]:
        when = times(job)
        if job["R"] is None or "alloc" not in when:
            continue
        free = when.get("free", refused(job))
        after = bisect.bisect_right(stops, free)
        limit = stops[after] if after < len(stops) else math.inf
        for ranks, cores, gpus in parts_of(job["R"]):
            for rank in ranks:
                run = [e for s, e in scripts.get((job["id"], rank), ()) if s >= free and e <= limit]
                end = max([free, *run])
                yield Hold(job["id"], rank, when["alloc"], end, cores, gpus)


def away(record):
    """Per rank, the (from, to) in which it was drained or excluded, or its broker was lost."""
    found, since = {}, {}
    for event in record["resource"]:
        for rank in ids(event["context"].get("idset", "")) if "context" in event else ():
            if event["name"] == "drain":
                since.setdefault(rank, event["timestamp"])
            elif event["name"] == "undrain" and rank in since:
                found.setdefault(rank, []).append((since.pop(rank), event["timestamp"]))
    for rank, start in since.items():
        found.setdefault(rank, []).append((start, math.inf))
    for ranks, start, end in record.get("gone", ()):
        for rank in ids(ranks):
            found.setdefault(rank, []).append((start, math.inf if end is None else end))
    return found


def domains(fabric, above=()):
    """(level, name, ranks) of each domain of an RFC 49 tree; *above* are the names above it."""
    for level, siblings in fabric.items():
        for domain in siblings if isinstance(siblings, list) else ():
            path = (*above, domain.get("name", ""))
            nested = list(domains(domain, path))
            own = chain(ids(domain.get("ranks", "")), *(ranks for _, _, ranks in nested))
            yield from nested
            yield level, path, frozenset(own)
