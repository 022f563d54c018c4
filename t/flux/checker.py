"""What a run of Flux did, judged from outside: from R, eventlogs and times alone, and no treepool.

A record is what was read of an instance when all was over, and what those who ran it noted:

================  ===============================================================================
``cluster``       ``nodes``, and ``cores`` and ``gpus`` of each; the ``key``'s ``topos`` as JSON
``jobs``          ``id``, ``events`` (the eventlog), ``R`` (or null), ``wanted`` (from the jobspec)
``submitted``     ids that ingest gave out
``resource``      the resource module's eventlog: drain and undrain
``housekeeping``  [job id, rank, start, end or null], as the scripts themselves noted
``stops``         [time, time, "stop" or "crash"]: when there was no instance
``promises``      by job id, of jobs that ran up to their limits while nothing else happened: the
                  start that they were ``told`` first (or null), and when they ``started``
``problems``      what else went wrong, as texts
``quiet``         after all jobs were over: ``time``, nodes, cores, GPUs ``allocated`` and ``free``
================  ===============================================================================

``wanted`` has ``cores``, ``gpus``, ``nodes`` as [least, most] where that is known, ``ranks`` as
[first, last] allowed by a constraint, ``infeasible`` if no cluster could serve it. Times are
seconds since the epoch, all of one clock. The kinds of violation are in KINDS.
"""

import bisect
import json
import math
import re
from itertools import chain

import attrs

KINDS = {
    "overlap": "two jobs hold a core or GPU at the same time",
    "leak": "something is allocated when all jobs are over",
    "lost": "a job is not there, did not end, or ended otherwise than it should",
    "stuck": "a job that can run waits although nothing else does",
    "drained": "a job got a node that was drained",
    "amount": "a job got more or less than it asked, or elsewhere",
    "invalid": "an R does not validate",
    "key": "the key is not cut to the ranks of R, or not the cluster's",
    "problem": "those who ran it could not go on as they should",
    "late": "a job started later than it was told",
    "order": "the events of a job are not in an order that makes sense",
}

#: Seconds between a drain and the last allocation that may have been under way. A scheduler takes
#: messages in their order: with housekeeping that frees 1,152 nodes one by one, on a busy machine
#: of 2 cores, it was up to 4 seconds behind, and the alloc event up to 7.
DRAIN_GRACE = 10.0

#: Seconds that a start may take on a busy machine: the module, the job manager, the job's shell.
LATE_GRACE = 3.0

#: Seconds that a job may wait while nothing runs: the scheduler may just be reloading.
PATIENCE = 15.0


@attrs.frozen
class Violation:
    """One thing that must not be; ``kind`` is one of KINDS."""

    kind: str
    text: str

    def __str__(self):
        return f"{self.kind}: {self.text}"


@attrs.frozen
class Hold:
    """What a job has of a rank, from start up to and without end; cores and gpus are bitmasks."""

    jobid: int
    rank: int
    start: float
    end: float
    cores: int
    gpus: int


def check(record, validate=None):
    """(counts of what was looked at, violations) of *record*.

    *validate* is given an R and returns what is wrong with it, as texts.
    """
    holds = list(holds_of(record))
    violations = [
        *overlaps(holds),
        *leaks(record),
        *lost(record),
        *stuck(record, holds),
        *drained(record),
        *amounts(record),
        *keys(record),
        *order(record),
        *invalid(record, validate),
        *late(record["promises"]),
        *(Violation("problem", text) for text in record.get("problems", ())),
    ]
    counts = {
        "jobs": len(record["submitted"]),
        "allocated": sum(job["R"] is not None for job in record["jobs"]),
        "events": sum(len(job["events"]) for job in record["jobs"]) + len(record["resource"]),
        "holds checked": len(holds),
        "drain events": sum(e["name"] == "drain" for e in record["resource"]),
        "housekeeping": len(record["housekeeping"]),
        "stops": sum(kind == "stop" for _, _, kind in record["stops"]),
        "crashes": sum(kind == "crash" for _, _, kind in record["stops"]),
        "promised starts": sum(job["told"] is not None for job in record["promises"].values()),
        "quiet checks": len(record["quiet"]),
        "Rs checked": sum(job["R"] is not None for job in record["jobs"]) if validate else 0,
    }
    return counts, violations


# -- reading


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
        free = when.get("free", math.inf)
        after = bisect.bisect_right(stops, free)
        limit = stops[after] if after < len(stops) else math.inf
        for ranks, cores, gpus in parts_of(job["R"]):
            for rank in ranks:
                run = [e for s, e in scripts.get((job["id"], rank), ()) if s >= free and e <= limit]
                end = max([free, *run])
                yield Hold(job["id"], rank, when["alloc"], end, cores, gpus)


# -- what must not be


def late(jobs, grace=LATE_GRACE):
    """Jobs that started later than the start they were told first, by more than *grace* seconds.

    *jobs* has ``told`` (or null) and ``started`` by id. None may run beyond its limit, and no node
    may fail.
    """
    for jobid, job in jobs.items():
        if job["told"] is not None and job["started"] - job["told"] > grace:
            text = (
                f"was told {job['told']:.3f} and started {job['started'] - job['told']:.3f} s later"
            )
            yield Violation("late", f"job {jobid} {text}")


def overlaps(holds):
    """Pairs of holds of one rank that share an id and a moment."""
    by_rank = {}
    for hold in holds:
        by_rank.setdefault(hold.rank, []).append(hold)
    for rank, held in sorted(by_rank.items()):
        live = []
        for hold in sorted(held, key=lambda h: (h.start, h.jobid)):
            live = [other for other in live if other.end > hold.start]
            for other in live:
                cores, gpus = other.cores & hold.cores, other.gpus & hold.gpus
                if cores or gpus:
                    text = f"rank {rank} cores {cores:#x} gpus {gpus:#x}"
                    yield Violation("overlap", f"jobs {other.jobid} and {hold.jobid}: {text}")
            live.append(hold)


def leaks(record):
    """Allocations that were never freed, and what is not free when all is quiet."""
    for job in record["jobs"]:
        when = times(job)
        if "alloc" in when and "clean" in when and "free" not in when:
            yield Violation("leak", f"job {job['id']} is clean and was never freed")
    cluster = record["cluster"]
    whole = [cluster["nodes"] * n for n in (1, cluster["cores"], cluster["gpus"])]
    for quiet in record["quiet"]:
        if any(quiet["allocated"]) or list(quiet["free"]) != whole:
            text = f"allocated {quiet['allocated']}, free {quiet['free']} of {whole}"
            yield Violation("leak", f"at {quiet['time']:.3f} with no job left: {text}")


def lost(record):
    """Jobs that are not there, did not end, or did not end as they should."""
    there = {job["id"]: job for job in record["jobs"] if job["events"]}
    for jobid in record["submitted"]:
        if jobid not in there:
            yield Violation("lost", f"job {jobid} was submitted and is not there")
    crashes = [(down, up) for down, up, kind in record["stops"] if kind == "crash"]
    for jobid, job in there.items():
        when, wanted = times(job), job["wanted"]
        if "clean" not in when:
            yield Violation("lost", f"job {jobid} did not end: {job['events'][-1]['name']}")
        if "alloc" in when and job["R"] is None:
            yield Violation("lost", f"job {jobid} has no R")
        refused = [e for e in exceptions(job) if e[1] == 0 and e[0] != "cancel"]
        if wanted.get("infeasible"):
            cancelled = any(e[0] == "cancel" for e in exceptions(job))
            if "alloc" in when or not (refused or cancelled):
                yield Violation("lost", f"job {jobid} can never run and was not refused")
            continue
        for kind, _, note, time in refused:
            # Flux ends jobs that run when the broker is killed.
            alloc = when.get("alloc", math.inf)
            ran = any(alloc <= up and down <= time for down, up in crashes)
            if not (kind == "exec" and ran):
                yield Violation("lost", f"job {jobid} could run and got: {kind}: {note}")


def stuck(record, holds):
    """Jobs that wait although nothing is allocated or drained and the instance is up."""
    busy = [(hold.start, hold.end) for hold in holds]
    busy += [(down, up) for down, up, _ in record["stops"]]
    busy += list(chain.from_iterable(drains(record).values()))
    ends = [event["timestamp"] for job in record["jobs"] for event in job["events"]]
    last = max([*ends, *(quiet["time"] for quiet in record["quiet"])], default=0.0)
    gaps, free_from = [], 0.0
    for start, end in sorted(busy):
        if start - free_from > PATIENCE:
            gaps.append((free_from, start))
        free_from = max(free_from, end)
    gaps.append((free_from, last))
    for job in record["jobs"]:
        when = times(job)
        if "priority" not in when or job["wanted"].get("infeasible"):
            continue
        given = [t for name in ("alloc", "exception", "clean") if (t := when.get(name))]
        until = min([*given, last])
        for start, end in gaps:
            waited = min(end, until) - max(start, when["priority"])
            if waited > PATIENCE:
                text = f"waited {waited:.1f} s from {max(start, when['priority']):.3f}"
                yield Violation("stuck", f"job {job['id']} {text} with nothing allocated")


def drains(record):
    """Per rank, the (from, to) in which it was drained."""
    found, since = {}, {}
    for event in record["resource"]:
        for rank in ids(event["context"].get("idset", "")) if "context" in event else ():
            if event["name"] == "drain":
                since.setdefault(rank, event["timestamp"])
            elif event["name"] == "undrain" and rank in since:
                found.setdefault(rank, []).append((since.pop(rank), event["timestamp"]))
    for rank, start in since.items():
        found.setdefault(rank, []).append((start, math.inf))
    return found


def drained(record):
    """Allocations of nodes that were drained, longer ago than what may be under way."""
    spans = drains(record)
    for job in record["jobs"]:
        alloc = times(job).get("alloc")
        if job["R"] is None or alloc is None:
            continue
        for rank in chain.from_iterable(ranks for ranks, _, _ in parts_of(job["R"])):
            for start, end in spans.get(rank, ()):
                if start + DRAIN_GRACE < alloc < end:
                    text = f"rank {rank} {alloc - start:.1f} s after it was drained"
                    yield Violation("drained", f"job {job['id']} got {text}")


def amounts(record):
    """Jobs that got another number of cores, GPUs or nodes than asked, or ranks not allowed."""
    for job in record["jobs"]:
        if job["R"] is None:
            continue
        parts, wanted = parts_of(job["R"]), job["wanted"]
        got = {
            "nodes": sum(len(ranks) for ranks, _, _ in parts),
            "cores": sum(len(ranks) * bin(cores).count("1") for ranks, cores, _ in parts),
            "gpus": sum(len(ranks) * bin(gpus).count("1") for ranks, _, gpus in parts),
        }
        for name, number in got.items():
            least, most = wanted.get(name) or (0, math.inf)
            if not least <= number <= most:
                text = f"{number} {name}, asked {least} to {most}"
                yield Violation("amount", f"job {job['id']} ({wanted.get('form')}) got {text}")
        first, last = wanted.get("ranks") or (0, math.inf)
        stray = [r for ranks, _, _ in parts for r in ranks if not first <= r <= last]
        if stray:
            yield Violation("amount", f"job {job['id']} got rank {stray[0]}, not {first}-{last}")


def keys(record):
    """Keys of jobs for other ranks than R_lite's, or with other topologies than the cluster's."""
    topos = record["cluster"]["topos"]
    for job in record["jobs"]:
        if job["R"] is None:
            continue
        name = f"job {job['id']}"
        ranks = sorted(rank for part, _, _ in parts_of(job["R"]) for rank in part)
        if len(set(ranks)) != len(ranks):
            yield Violation("key", f"{name} has a rank twice in R_lite")
        if hosts(job["R"]["execution"]["nodelist"]) != ranks:
            yield Violation("key", f"{name} has hosts that are not its ranks")
        children = (job["R"].get("scheduling") or {}).get("children") or []
        if sorted(rank for child in children for rank in ids(child["ranks"])) != ranks:
            told = [child["ranks"] for child in children]
            yield Violation("key", f"{name} has a key of ranks {told}")
        if any(json.dumps(child["topo"], sort_keys=True) not in topos for child in children):
            yield Violation("key", f"{name} has a topology that is not the cluster's")


#: Events that a job has once at most, in this order as far as it has them.
_SEQUENCE = ("submit", "alloc", "start", "finish", "free", "clean")


def order(record):
    """Jobs whose events came twice, out of order, or after the end."""
    for job in record["jobs"]:
        names = [event["name"] for event in job["events"]]
        known = [name for name in names if name in _SEQUENCE]
        stamps = [event["timestamp"] for event in job["events"]]
        if known != sorted(set(known), key=_SEQUENCE.index):
            yield Violation("order", f"job {job['id']}: {' '.join(known)}")
        if stamps != sorted(stamps):
            yield Violation("order", f"job {job['id']}: times go back")


def invalid(record, validate):
    """Rs in which *validate* finds something."""
    for job in record["jobs"] if validate else ():
        for problem in validate(job["R"]) if job["R"] is not None else ():
            yield Violation("invalid", f"R of job {job['id']}: {problem}")
