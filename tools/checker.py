"""What a run of Flux did, judged from outside: from R, eventlogs and times alone, and no treepool.

A record is what was read of an instance when all was over, and what those who ran it noted:

================  ===============================================================================
``cluster``       ``nodes``, and ``cores`` and ``gpus`` of each; the ``key``'s ``topos`` as JSON,
                  and its ``fabric`` if it has one; the ``parents`` of virtual queues
``jobs``          ``id``, ``events`` (the eventlog), ``R`` (or null), ``wanted`` (from the jobspec)
``submitted``     ids that ingest gave out
``resource``      the resource module's eventlog: drain and undrain
``gone``          [ranks, from, to or null]: excluded, or their brokers were lost
``windows``       ``ranks``, ``start`` and ``end``, ``queues`` that may use them; ``added`` and
                  ``removed`` (or null), when that had been said
``answers``       of each question: ``time``, ``question``, ``seconds``, how many of them the module
                  did ``work`` (or null), whether it was ``starting``, and the ``error`` (a name of
                  errno, or null)
``steps``         the module's longest steps, in seconds of CPU time, read before each reload
``housekeeping``  [job id, rank, start, end or null], as the scripts themselves noted
``stops``         [time, time, "stop" or "crash"]: when there was no instance
``promises``      by job id, of jobs that ran up to their limits while nothing else happened: the
                  start that they were ``told`` first (or null), and when they ``started``; their
                  ``queue`` and its ``policy``
``problems``      what else went wrong, as texts
``quiet``         after all jobs were over: ``time``, nodes, cores, GPUs ``allocated`` and ``free``
================  ===============================================================================

``wanted`` has ``cores``, ``gpus``, ``nodes`` as [least, most] where that is known, ``ranks`` as
[first, last] allowed by a constraint, ``infeasible`` if no cluster could serve it, its ``queue``,
and of the fabric: ``within`` [a level], ``groups`` of [level, so many nodes], ``spread`` over
[level, so many domains, nodes in each]. Times are
seconds since the epoch, all of one clock. The kinds of violation are in KINDS.
"""

import json
import math
from itertools import chain

import attrs

from records import away, domains, exceptions, holds_of, hosts, ids, parts_of, refused, times

KINDS = {
    "overlap": "two jobs hold a core or GPU at the same time",
    "leak": "something is allocated when all jobs are over",
    "lost": "a job is not there, did not end, or ended otherwise than it should",
    "stuck": "a job that can run waits although nothing else does",
    "drained": "a job got a node that was drained, excluded or down",
    "window": "a job reaches into a window that is not for it",
    "slow": "the module took too long to answer, or for one step",
    "unanswered": "a question got no answer, or an error that it should not get",
    "amount": "a job got more or less than it asked, or elsewhere",
    "invalid": "an R does not validate",
    "key": "the key is not cut to the ranks of R, or not the cluster's",
    "problem": "those who ran it could not go on as they should",
    "late": "a job started later than it was told",
    "passed": "a job passed one that was ahead of it in a fifo queue",
    "order": "the events of a job are not in an order that makes sense",
}

#: Seconds between a drain and the last allocation that may have been under way. A scheduler takes
#: messages in their order: with housekeeping that frees 1,152 nodes one by one, on a busy machine
#: of 2 cores, it was up to 4 seconds behind, and the alloc event up to 7.
DRAIN_GRACE = 10.0

#: Seconds before a crash in which Flux may forget a job and keep one that came after it: the ingest
#: of each broker gives out ids, and job events are committed in batches.
FORGOTTEN = 1.0

#: Seconds by which the end of a job in R may differ from what was planned.
ROUNDING = 0.001

#: Seconds that a start may take on a busy machine: the module, the job manager, the job's shell.
LATE_GRACE = 3.0

#: Seconds by which the alloc events of two jobs may be in another order than the jobs.
ORDER_GRACE = 1.0

#: Seconds that a job may wait while nothing runs: the scheduler may just be reloading.
PATIENCE = 15.0


#: Seconds of the module's own work in which a question must be answered that needs none.
PROMPT = 0.1

#: Refusals of questions that are right: the module is being reloaded, too many are open.
REFUSALS = (None, "ENOSYS", "EAGAIN")


NOTHING = {"execution": {"R_lite": []}}


@attrs.frozen
class Violation:
    """One thing that must not be; ``kind`` is one of KINDS."""

    kind: str
    text: str

    def __str__(self):
        return f"{self.kind}: {self.text}"


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
        *windows(record),
        *slow(record),
        *unanswered(record),
        *amounts(record),
        *keys(record),
        *order(record),
        *invalid(record, validate),
        *late(record["promises"]),
        *passed(record),
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
        "ranks excluded or lost": sum(len(ids(ranks)) for ranks, _, _ in record.get("gone", ())),
        "windows": len(record.get("windows", ())),
        "answers": len(record.get("answers", ())),
        "of modules that were starting": sum(a["starting"] for a in record.get("answers", ())),
        "promised starts": sum(job["told"] is not None for job in record["promises"].values()),
        "quiet checks": len(record["quiet"]),
        "Rs checked": sum(job["R"] is not None for job in record["jobs"]) if validate else 0,
    }
    return counts, violations


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


def passed(record):
    """Jobs that started before one of equal priority that was submitted before them.

    Of those of a virtual queue and its parent none passes the first, either.
    """
    parents, latest = record["cluster"].get("parents", {}), {}
    for jobid, job in sorted(record["promises"].items(), key=lambda item: int(item[0])):
        if job.get("policy") == "fifo":
            line = parents.get(job["queue"], job["queue"])
            last, started = latest.get(line), job["started"]
            if last is not None and started < last[0] - ORDER_GRACE:
                text = f"passed job {last[1]}, which started {last[0] - started:.3f} s later"
                yield Violation("passed", f"job {jobid} of {job['queue']} {text}")
            if last is None or started > last[0]:
                latest[line] = started, jobid


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
        freed = "free" in when or refused(job) < math.inf
        if "alloc" in when and "clean" in when and not freed:
            yield Violation("leak", f"job {job['id']} is clean and was never freed")
    cluster = record["cluster"]
    spans = away({**record, "resource": ()})
    for quiet in record["quiet"]:
        missing = sum(any(a < quiet["time"] < b for a, b in found) for found in spans.values())
        whole = [(cluster["nodes"] - missing) * n for n in (1, cluster["cores"], cluster["gpus"])]
        if any(quiet["allocated"]) or list(quiet["free"]) != whole:
            text = f"allocated {quiet['allocated']}, free {quiet['free']} of {whole}"
            yield Violation("leak", f"at {quiet['time']:.3f} with no job left: {text}")


def lost(record):
    """Jobs that are not there, did not end, or did not end as they should."""
    there = {job["id"]: job for job in record["jobs"] if job["events"]}
    crashes = [(down, up) for down, up, kind in record["stops"] if kind == "crash"]
    came = sorted((jobid, times(job)["submit"]) for jobid, job in there.items())
    for jobid in record["submitted"]:
        if jobid in there:
            continue
        # Flux forgets a job that comes between the last checkpoint and the end of its processes.
        older = max((when for other, when in came if other < jobid), default=0)
        newer = min((when for other, when in came if other > jobid), default=math.inf)
        if not any(older < down <= newer + FORGOTTEN for down, _ in crashes):
            yield Violation("lost", f"job {jobid} was submitted and is not there")
    gone = away({**record, "resource": ()})
    for jobid, job in there.items():
        when, wanted = times(job), job["wanted"]
        if "clean" not in when:
            yield Violation("lost", f"job {jobid} did not end: {job['events'][-1]['name']}")
        if "alloc" in when and job["R"] is None:
            yield Violation("lost", f"job {jobid} has no R")
        fatal = [e for e in exceptions(job) if e[1] == 0 and e[0] != "cancel"]
        if wanted.get("infeasible"):
            cancelled = any(e[0] == "cancel" for e in exceptions(job))
            if "alloc" in when or not (fatal or cancelled):
                yield Violation("lost", f"job {jobid} can never run and was not refused")
            continue
        for kind, _, note, time in fatal:
            # Flux ends jobs that run when the broker is killed.
            alloc = when.get("alloc", math.inf)
            ran = any(alloc <= up and down <= time for down, up in crashes)
            ranks = chain.from_iterable(ranks for ranks, _, _ in parts_of(job["R"] or NOTHING))
            left = any(a <= time + 1 and b >= alloc for r in ranks for a, b in gone.get(r, ()))
            # It had an R and no alloc event in the checkpoint: flux-core would not allocate it.
            denied = kind == "alloc" and "has written its R" in note
            torn = any(when["submit"] <= up and down <= time for down, up in crashes)
            if not (kind == "exec" and ran) and not (denied and torn) and not left:
                yield Violation("lost", f"job {jobid} could run and got: {kind}: {note}")


def stuck(record, holds):
    """Jobs that wait although nothing is allocated or drained and the instance is up."""
    busy = [(hold.start, hold.end) for hold in holds]
    busy += [(down, up) for down, up, _ in record["stops"]]
    busy += list(chain.from_iterable(away(record).values()))
    busy += [(w["added"], w["removed"] or w["end"]) for w in record.get("windows", ())]
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


def drained(record):
    """Allocations of nodes that were drained or gone, longer ago than what may be under way."""
    spans = away(record)
    for job in record["jobs"]:
        alloc = times(job).get("alloc")
        if job["R"] is None or alloc is None:
            continue
        for rank in chain.from_iterable(ranks for ranks, _, _ in parts_of(job["R"])):
            for start, end in spans.get(rank, ()):
                if start + DRAIN_GRACE < alloc < end:
                    text = f"rank {rank} {alloc - start:.1f} s after it was drained or gone"
                    yield Violation("drained", f"job {job['id']} got {text}")


def windows(record):
    """Allocations that reach into a window that was known before, and is not for their queue."""
    parents = record["cluster"].get("parents", {})
    for job in record["jobs"] if record.get("windows") else ():
        alloc = times(job).get("alloc")
        if job["R"] is None or alloc is None:
            continue
        ranks = {rank for part, _, _ in parts_of(job["R"]) for rank in part}
        until = job["R"]["execution"].get("expiration") or math.inf
        for window in record["windows"]:
            known = window["added"] + DRAIN_GRACE < alloc < (window["removed"] or math.inf)
            meets = alloc < window["end"] and until > window["start"] + ROUNDING
            queue = job["wanted"].get("queue")
            for_it = not {queue, parents.get(queue)}.isdisjoint(window["queues"])
            if known and meets and not for_it and ranks & set(ids(window["ranks"])):
                text = f"{alloc:.3f} to {until:.3f} on {window['ranks']}, kept from "
                text += f"{window['start']:.3f} to {window['end']:.3f}"
                yield Violation("window", f"job {job['id']} has {text}")


def slow(record):
    """Answers for which the module worked too long, and steps that were too long.

    A module that starts answers after flux-core's handshake, in which it takes over what runs.
    """
    for answer in record.get("answers", ()):
        prompt = answer["starting"] or (answer["work"] or 0) <= PROMPT
        if answer["question"] == "ping" and not prompt:
            text = f"{answer['seconds']:.3f} s, {answer['work']:.3f} of them the module's work"
            yield Violation("slow", f"an answer at {answer['time']:.3f} took {text}")
    for step in record.get("steps", ()):
        if step > PROMPT:
            yield Violation("slow", f"a step took {step:.3f} s of CPU time")


def unanswered(record):
    """Questions without an answer that is right."""
    for answer in record.get("answers", ()):
        if answer["error"] not in REFUSALS:
            text = f"{answer['question']} at {answer['time']:.3f}: {answer['error']}"
            yield Violation("unanswered", text)


def amounts(record):
    """Jobs that got another number of cores, GPUs or nodes than asked, or ranks not allowed."""
    fabric = list(domains(record["cluster"].get("fabric", {})))
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
        for text in misplaced(wanted, [r for ranks, _, _ in parts for r in ranks], fabric):
            yield Violation("amount", f"job {job['id']} ({wanted.get('form')}) got {text}")


def misplaced(wanted, ranks, fabric):
    """What a job on *ranks* has other than it wanted of the *fabric*, as texts."""
    for name in {"within", "groups", "spread"} & set(wanted):
        level, *numbers = wanted[name]
        counts = [len(of & set(ranks)) for at, _, of in fabric if at == level and of & set(ranks)]
        right = {
            "within": len(counts) == 1,
            "groups": not any(count % number for number in numbers for count in counts),
            "spread": [len(counts), *counts] == numbers[:1] + len(counts) * numbers[1:],
        }
        if not right[name] or sum(counts) != len(ranks):
            yield f"{counts} nodes of the domains of {level}, asked {name} {numbers}"


def keys(record):
    """Keys of jobs for other ranks than R_lite's, or with other topologies than the cluster's."""
    topos = record["cluster"]["topos"]
    fabric = list(domains(record["cluster"].get("fabric", {})))
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
        told = (job["R"].get("scheduling") or {}).get("fabric", {})
        cut = {(level, path, of & set(ranks)) for level, path, of in fabric if of & set(ranks)}
        if set(domains(told)) != cut:
            yield Violation("key", f"{name} has a fabric of {sorted(map(str, domains(told)))[:9]}")
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
