"""What sched-treepool tells of the instance as a whole, and of its jobs, for ``treepool status``.

The scheduler counts and names, so that nothing here needs the engine. Where it cannot be asked,
live.py makes the same of what Flux tells.
"""

from __future__ import annotations

import errno
from itertools import islice
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Optional

from treepool.flux import client, sent
from treepool.flux.libflux import job_name, job_state
from treepool.placement.nodes.parts import short_form
from treepool.rfc import hostlist, idset
from treepool.view import words
from treepool.view.jobs import Job, JobLine, Running
from treepool.view.totals import MAX_DRAINS, Drained, LocalityLine, Overview, Totals, by_reason

if TYPE_CHECKING:
    from treepool.flux.libflux import Future
    from treepool.placement.nodes.state import Held

#: Most reasons of drained nodes whose hosts are asked for; a question has an end.
_REASONS = 64

_ATTRIBUTES = ("userid", "name", "state", "t_submit", "t_run", "expiration", "annotations")


def overview() -> Optional[Overview]:
    """The instance of the environment; None if it does not run a sched-treepool that tells it.

    Raises OSError.
    """
    handle = client.connected()
    reasons = drain_reasons(handle.rpc("resource.status", nodeid=0).get())
    drained = by_reason(reasons)
    first = [ranks for ranks, _ in drained[:_REASONS]]
    rest = idset.union(ranks for ranks, _ in drained[_REASONS:])
    question = {"drained": list(map(idset.encode, [*first, rest]))}
    try:
        found = client.ask(handle, "totals", question)
    except OSError as e:
        if e.errno == errno.ENOSYS:
            return None
        raise
    drains = (_drained(one, why) for one, (_, why) in zip(found["drained"], drained[:_REASONS]))
    return Overview(
        _totals(found),
        found["cores_kept"],
        (found["preemptible"]["cores"], found["preemptible"]["gpus"]),
        tuple(_locality(name, level) for name, level in found["levels"].items()) or None,
        _held_back(found["held_back"]),
        tuple(known.entry for known in client.windows_now(handle)),
        tuple(islice((one for one in drains if one.ranks), MAX_DRAINS)),
        client.given_up(handle),
    )


def drain_reasons(status: Mapping[str, Any]) -> dict[str, str]:
    """Why which ranks (idset) are drained, from the answer of ``resource.status``."""
    found = (status.get("drain") or {}).items()
    return {
        ranks: str(why.get("reason") or "") if isinstance(why, dict) else "" for ranks, why in found
    }


def job_lines() -> Optional[list[JobLine]]:
    """A line for each job that runs or waits; None if no sched-treepool tells where they are.

    Raises OSError.
    """
    handle = client.connected()
    listed = list_jobs(["running", "pending"])
    placed: dict[int, Mapping[str, Any]] = {}
    try:
        for answer in client.answers(handle, "jobs"):
            placed.update((int(job["id"]), job) for job in answer["jobs"])
    except OSError as e:
        if e.errno == errno.ENOSYS:
            return None
        raise
    nowhere: dict[str, Any] = {"parts": (), "hosts": "", "summary": "", "domains": ""}
    lines = []
    for job in sorted(listed.get()["jobs"], key=lambda job: int(job["id"])):
        where = placed.get(int(job["id"]), nowhere)
        running = running_of(job, sent.parts_of(where["parts"]))
        lines.append(JobLine.of(running, where["hosts"], where["summary"], where["domains"]))
    return lines


def list_jobs(states: list[str], most: int = 0) -> Future:
    """Asks for jobs in *states*, at most so many, 0 for all: ``running_of`` takes each."""
    return client.list_jobs(client.connected(), _ATTRIBUTES, states, most)


def running_of(job: Mapping[str, Any], parts: Iterable[Held]) -> Running:
    """The *job* of a list, which has these *parts*."""
    annotations = job.get("annotations")
    sched = annotations.get("sched") if isinstance(annotations, dict) else None
    sched = sched if isinstance(sched, dict) else {}
    jobid, title = int(job["id"]), str(job.get("name", ""))
    return Running(
        Job(job_name(jobid), title, tuple(parts)),
        client.user_name(int(job["userid"])),
        title,
        job_state(job["state"]),
        since=float(job.get("t_run", 0)) or float(job.get("t_submit", 0)),
        note=str(sched.get("reason_pending", "")),
        fitness=client.fitness_in(annotations),
        id=jobid,
        due=float(job.get("expiration", 0) if "t_run" in job else sched.get("t_estimate") or 0),
    )


def _totals(found: Mapping[str, Any]) -> Totals:
    nodes, cores, gpus = (found["all"][what] for what in ("nodes", "cores", "gpus"))
    return Totals(
        nodes=sum(nodes.values()),
        idle=nodes["free"],
        partly=nodes["partial"],
        full=nodes["allocated"],
        down=nodes["down"],
        drained=nodes["drained"],
        cores=sum(cores.values()),
        cores_free=cores["free"],
        cores_used=cores["allocated"],
        gpus=sum(gpus.values()),
        gpus_free=gpus["free"],
        gpus_used=gpus["allocated"],
        gpus_stranded=found["gpus_stranded"],
    )


def _locality(name: str, level: Mapping[str, Any]) -> LocalityLine:
    domains = level["domains"]
    with_idle = domains["free"] + domains["partial"]
    where = words.plain(level["where"])
    return LocalityLine(
        words.plain(name), sum(domains.values()), with_idle, level["largest"], where
    )


def _held_back(told: Mapping[str, Any]) -> tuple[str, str, str]:
    return short_form(sent.parts_of(told["parts"])), told["hosts"], told["summary"]


def _drained(told: Mapping[str, Any], reason: str) -> Drained:
    ranks = tuple(idset.iterate(idset.decode(told["ranks"])))
    return Drained(ranks, tuple(hostlist.decode(told["hosts"])), reason)
