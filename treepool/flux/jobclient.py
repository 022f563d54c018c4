"""What Flux and its scheduler tell about a job, for commands."""

from __future__ import annotations

import errno
from typing import Any, Mapping, Optional

import flux
from flux.job.info import resulttostr, statetostr
from flux.job.list import job_list_id

from treepool.flux import client, live, nesting
from treepool.placement.allocation import short_form
from treepool.view.jobstory import Closed, Facts

_ATTRIBUTES = (
    "urgency",
    "priority",
    "state",
    "queue",
    "t_run",
    "t_cleanup",
    "expiration",
    "dependencies",
    "annotations",
    "result",
    "exception_type",
    "exception_note",
)


def facts(jobid: int, name: str) -> tuple[Facts, list[Any]]:
    """What is known of job *jobid*, called *name*, and what it holds; raises OSError."""
    nesting.allow()  # for annotations
    handle = flux.Flux()
    try:
        job = job_list_id(handle, jobid, list(_ATTRIBUTES)).get_job()
    except OSError as e:
        if e.errno == errno.ENOENT:
            raise OSError(errno.ENOENT, "there is no such job") from None
        raise
    state = statetostr(job["state"])
    answer = _answer(handle, jobid) if state in ("SCHED", "RUN", "INACTIVE") else None
    parts = list(live.parts_of((answer or {}).get("parts", ())))
    exception = job.get("exception_type", "")
    if exception and job.get("exception_note"):
        exception = f"{exception}: {job['exception_note']}"
    closed = _closed(handle, job.get("queue")) if state == "SCHED" else Closed()
    found = Facts(
        name=name,
        state=state,
        urgency=int(job.get("urgency", 16)),
        priority=int(job.get("priority", 16)),
        queue=str(job.get("queue", "")),
        started=float(job.get("t_run", 0)),
        over=float(job.get("t_cleanup", 0)),
        expiration=float((answer or {}).get("expiration") or job.get("expiration", 0)),
        dependencies=tuple(map(str, job.get("dependencies", ()))),
        result=resulttostr(job["result"]) if "result" in job else "",
        exception=str(exception),
        stopped=closed.stopped,
        stopped_parent=closed.stopped_parent,
        answer=answer,
        placement=short_form(parts),
        fitness=live.fitness_in(job.get("annotations")),
    )
    return found, parts


def ask(question: Mapping[str, Any]) -> tuple[Any, Closed]:
    """What a shape would get, see doc/questions.md, and its queue; raises OSError."""
    handle = flux.Flux()
    answer = client.ask(handle, "ask", question)
    return answer, _closed(handle, answer.get("queue", question.get("queue")))


def _answer(handle: Any, jobid: int) -> Optional[Mapping[str, Any]]:
    try:
        found: Mapping[str, Any] = client.ask(handle, "job", {"id": jobid})
    except OSError as e:
        if e.errno == errno.ENOSYS:
            return None
        raise
    return found


def _closed(handle: Any, queue: Optional[str]) -> Closed:
    payload = {"name": queue} if queue else {}
    try:
        status = handle.rpc("job-manager.queue-status", payload, nodeid=0).get()
    except OSError as e:
        if e.errno != errno.EINVAL:
            raise
        status = {}  # the configuration has the queue no more, but the scheduler has its jobs
    stopped = None if status.get("start", True) else str(status.get("stop_reason", ""))
    parent = str(status["parent"]) if status.get("blocked") == "parent" else ""
    return Closed(
        str(queue or ""),
        _closed(handle, parent).stopped if parent else stopped,
        None if status.get("enable", True) else str(status.get("disable_reason", "")),
        parent,
    )
