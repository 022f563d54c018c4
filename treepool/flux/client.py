"""What commands ask the running instance, how long they wait, which forms of time they accept.

doc/questions.md describes the questions to ``sched-treepool``.
"""

from __future__ import annotations

import errno
import math
import os
import pwd
import re
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Optional, Sequence

import attrs

from treepool.flux import libflux, sent
from treepool.flux.libflux import Broker, Future, job_name, job_result, job_state
from treepool.flux.libflux import job_id as job_id
from treepool.placement.nodes.parts import short_form
from treepool.rfc import idset, times
from treepool.rfc.queues import Queues, inner
from treepool.view import jobstory
from treepool.view.jobstory import GIVEN_UP, GONE, OFFLINE, Closed, Facts

if TYPE_CHECKING:
    from treepool.rfc.windows import WindowEntry

#: The requests are called ``sched-treepool.NAME``.
TOPIC = "sched-treepool."

#: Seconds that the scheduler may take for each answer.
PATIENCE = 60.0

#: The module that answers.
_OURS = "sched-treepool"

#: The severity of an exception that ends no job.
_WARNING = 5

#: How a user gets what another scheduler does not have, and how an administrator where none runs.
_OWN = "for an instance that does: flux alloc -N1 --conf=modules.alternatives.sched=sched-treepool"
_LOAD = "an administrator loads one: flux module load sched-treepool"

#: A text that must be ISO 8601: Flux reads 2027-01-01T25:00 as 20:27 of the same day.
_BEGINS_AS_ISO = re.compile(r"\d{4}-\S*")

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

#: flux-core's number for a value with later updates, decoded (FLUX_JOB_LOOKUP_CURRENT and _DECODE).
_CURRENT = 2 | 1


@attrs.frozen
class Shown:
    """A window, where it is kept ("kvs" or "configuration"), and which hosts of it are not up."""

    entry: WindowEntry
    source: str
    down: str = ""


@attrs.frozen
class Added:
    """What a new window affects.

    ``hosts`` are those of the window, which the scheduler may have chosen. ``reserved`` counts the
    waiting jobs that lose their reservation. ``running`` has the ids of jobs that may still run on
    the nodes of the window when it starts.
    """

    hosts: str
    reserved: int
    running: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the running jobs."""
        return tuple(job_name(jobid) for jobid in self.running)


def connected() -> Broker:
    """The environment's instance (FLUX_URI); raises OSError if there is none."""
    libflux.allow_depth()  # for jobspecs and annotations
    return _connected(os.environ.get("FLUX_URI"))


@lru_cache(maxsize=1)
def _connected(uri: Optional[str]) -> Broker:
    """The instance at *uri*; a command connects once."""
    try:
        return Broker(uri, PATIENCE)
    except OSError as e:
        raise OSError(errno.ENOTCONN, f"no Flux instance: {e.strerror or e}") from None


def ask(handle: Broker, name: str, payload: Optional[Mapping[str, Any]] = None) -> Any:
    """The answer to one question; raises OSError."""
    try:
        return handle.rpc(TOPIC + name, dict(payload or {}), nodeid=0).get()
    except OSError as e:
        raise _explained(handle, e) from None


def answers(
    handle: Broker, name: str, payload: Optional[Mapping[str, Any]] = None
) -> Iterator[Any]:
    """The answers to a question that has several; raises OSError."""
    try:
        yield from handle.watch(TOPIC + name, dict(payload or {}), nodeid=0)
    except OSError as e:
        raise _explained(handle, e) from None


def other_scheduler() -> str:
    """Which scheduler runs in place of sched-treepool, and how to have that; "" if that runs.

    Raises OSError.
    """
    name = _scheduler(connected())
    return "" if name == _OURS else "{} ({})".format(*_absent(name))


def _scheduler(handle: Broker) -> str:
    """The module that is the scheduler, "" if none is loaded."""
    modules = handle.rpc("module.list", nodeid=0).get()["mods"]
    return next((str(m["name"]) for m in modules if "sched" in m["services"]), "")


def _absent(name: str) -> tuple[str, str]:
    """What to say where *name* is the scheduler, and what then helps."""
    if not name:
        return "this instance has no scheduler", _LOAD
    if name == _OURS:
        return f"{name} has just been loaded", "ask again"
    return f"this instance runs {name:.40}, not {_OURS}", _OWN


def unasked(handle: Broker) -> tuple[str, str]:
    """Why sched-treepool has no answer: it does not run, or is too old; and what then helps."""
    try:
        version = handle.rpc(f"{TOPIC}stats-get", nodeid=0).get()["version"]
    except OSError as e:
        if e.errno == errno.ENOSYS:
            return _absent(_scheduler(handle))
        version = ""  # it is there, and refuses to tell this user
    except (KeyError, TypeError):
        version = "0.1"  # no other version leaves it out
    name = f"sched-treepool {version:.40}".rstrip()
    why = f"this instance runs {name}, which does not know what this command asks"
    return why, "flux module reload sched-treepool loads the installed version"


def _explained(handle: Broker, error: OSError) -> OSError:
    if error.errno == errno.ENOSYS:
        why, hint = unasked(handle)
        return OSError(errno.ENOSYS, f"{why} ({hint})")
    if error.errno == errno.ETIMEDOUT:
        return OSError(errno.ETIMEDOUT, f"sched-treepool did not answer in {PATIENCE:.0f} seconds")
    return error


@lru_cache(maxsize=None)
def user_name(userid: int) -> str:
    """The name of a user; the id as a text if he has none here."""
    try:
        return pwd.getpwuid(userid).pw_name
    except KeyError:
        return str(userid)


def totals(handle: Broker, users: bool = False) -> Any:
    """The answer to the question for totals, with those of *users* if asked for; raises OSError."""
    drained = handle.rpc("resource.status", nodeid=0).get().get("drain") or {}
    ranks = idset.union(map(idset.decode, drained))
    return ask(handle, "totals", {"drained": [idset.encode(ranks)], "users": users})


# -- jobs and shapes


def list_jobs(
    handle: Broker, attributes: Sequence[str], states: Sequence[str], most: int = 0
) -> Future:
    """Asks for the jobs of all users in *states* (pending, running): at most so many, 0 for all."""
    constraint = {"and": [{"states": states}]}
    asked = {"max_entries": most, "attrs": attributes, "since": 0.0, "constraint": constraint}
    return handle.rpc("job-list.list", asked)


def look_up(handle: Broker, jobid: int, key: str) -> Future:
    """Asks for the value of *key* of a job, with later updates."""
    return handle.rpc("job-info.lookup", {"id": jobid, "keys": [key], "flags": _CURRENT})


def jobspec_of(jobid: int) -> dict[str, Any]:
    """The jobspec of a job, with later updates; raises OSError if it is not readable."""
    jobspec = look_up(connected(), jobid, "jobspec").get().get("jobspec")
    if not isinstance(jobspec, dict):
        raise OSError(errno.ENOENT, "it has no jobspec")
    return jobspec


def facts(jobid: int, name: str) -> Facts:
    """What is known of job *jobid*, called *name*; raises OSError."""
    handle = connected()
    try:
        job = handle.rpc("job-list.list-id", {"id": jobid, "attrs": _ATTRIBUTES}).get()["job"]
    except OSError as e:
        if e.errno == errno.ENOENT:
            raise OSError(errno.ENOENT, "there is no such job") from None
        raise
    state = job_state(job["state"])
    answer = _answer(handle, jobid) if state in ("SCHED", "RUN", "INACTIVE") else None
    placed = {name: (answer or {}).get(name, "") for name in ("hosts", "summary", "domains")}
    exception = job.get("exception_type", "")
    if exception and job.get("exception_note"):
        exception = f"{exception}: {job['exception_note']}"
    queue = job.get("queue")
    status = _queue_status(handle, queue) if state == "SCHED" else {}
    closed = _closed(handle, queue, status or {})
    # A scheduler that has a job of a queue that is gone starts it all the same.
    if status is None and (answer or {}).get("state") not in ("waiting", "deferred"):
        closed = attrs.evolve(closed, stopped=GONE)
    if answer is not None:
        closed = _answered(closed)
    return Facts(
        name=name,
        state=state,
        urgency=int(job.get("urgency", 16)),
        priority=int(job.get("priority", 16)),
        queue=str(job.get("queue", "")),
        started=float(job.get("t_run", 0)),
        over=float(job.get("t_cleanup", 0)),
        expiration=float((answer or {}).get("expiration") or job.get("expiration", 0)),
        dependencies=tuple(map(str, job.get("dependencies", ()))),
        result=job_result(job["result"]) if "result" in job else "",
        exception=str(exception),
        stopped=closed.stopped,
        stopped_parent=closed.stopped_parent,
        answer=answer,
        placement=short_form(sent.parts_of((answer or {}).get("parts", ()))),
        **placed,
        fitness=fitness_in(job.get("annotations")),
    )


def fitness_in(annotations: Any) -> Optional[float]:
    """The fitness in the *annotations* of a job, None if there is none."""
    try:
        return min(1.0, max(0.0, float(annotations["sched"]["locality"])))
    except (KeyError, TypeError, ValueError):
        return None


def question(spec: Mapping[str, Any], urgency: int = 16) -> dict[str, Any]:
    """The question about a job with jobspec *spec*; one that is held (urgency 0) is as released."""
    system = inner(spec, "attributes", "system")
    names = {"duration": "duration", "queue": "queue", "constraints": "constraints"}
    names["treepool"] = "options"
    found = {asked: system[name] for name, asked in names.items() if name in system}
    if urgency not in (0, 16):
        found["urgency"] = urgency
    return {"resources": spec.get("resources"), **found}


def conditions(spec: Mapping[str, Any], urgency: int = 16) -> list[str]:
    """What keeps a job with jobspec *spec* away from the scheduler at first, in words."""
    found = inner(spec, "attributes", "system").get("dependencies")
    known = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    shown = [f"{one.get('scheme')}={one.get('value')}" for one in known]
    return jobstory.conditions(shown, urgency == 0, time.time())


def tries(specs: Sequence[Mapping[str, Any]], with_R: bool) -> Optional[list[Any]]:
    """What jobs with these jobspecs would get of what is free, each after those before it.

    None if no sched-treepool tells it, or not of so many at once; raises OSError.
    """
    asked = {"jobs": list(map(question, specs)), "R": with_R}
    try:
        return list(answers(connected(), "try", asked))
    except OSError as e:
        if e.errno in (errno.ENOSYS, errno.EMSGSIZE):
            return None
        raise


def ask_for(question: Mapping[str, Any]) -> tuple[Any, Closed]:
    """What a job would get, and its queue; raises OSError."""
    handle = connected()
    answer = _worded(ask(handle, "ask", question))
    closed = queue_closed(handle, answer.get("queue", question.get("queue")))
    return answer, _answered(closed)


def _worded(answer: Any) -> Any:
    """*answer* with where the job is in words, also if it is nowhere."""
    return {"hosts": "", "summary": "", **answer}


def required_by(queue: str) -> list[str]:
    """The properties that jobs of a Flux queue need; raises OSError if there is no such queue."""
    queues = Queues.of(connected().configured)
    if queue not in queues.tables:
        known = ", ".join(queues.tables) or "none"
        raise OSError(
            errno.EINVAL, f"--queue: {queue!r:.60} is not a queue; there are {known:.200}"
        )
    return queues.requires(queue)


def given_up(handle: Broker) -> Optional[str]:
    """Why sched-treepool, which answers, starts no job; None if it does. Raises OSError."""
    queue = next(iter(Queues.of(handle.configured).tables), None)
    stopped = _answered(queue_closed(handle, queue)).stopped
    return stopped if stopped == GIVEN_UP else None


def _answered(closed: Closed) -> Closed:
    """*closed*, where a scheduler has answered: it is offline only because it was given up."""
    return attrs.evolve(closed, stopped=GIVEN_UP) if closed.stopped == OFFLINE else closed


def _answer(handle: Broker, jobid: int) -> Optional[Mapping[str, Any]]:
    try:
        found: Mapping[str, Any] = _worded(ask(handle, "job", {"id": jobid}))
    except OSError as e:
        if e.errno == errno.ENOSYS:
            return None
        raise
    return found


def queue_closed(handle: Broker, queue: Optional[str]) -> Closed:
    """Whether a Flux queue, or the only one, is stopped or disabled, and why; raises OSError."""
    return _closed(handle, queue, _queue_status(handle, queue) or {})


def _closed(handle: Broker, queue: Optional[str], status: Mapping[str, Any]) -> Closed:
    stopped = None if status.get("start", True) else str(status.get("stop_reason", ""))
    parent = str(status["parent"]) if status.get("blocked") == "parent" else ""
    return Closed(
        str(queue or ""),
        queue_closed(handle, parent).stopped if parent else stopped,
        None if status.get("enable", True) else str(status.get("disable_reason", "")),
        parent,
    )


def _queue_status(handle: Broker, queue: Optional[str]) -> Optional[Mapping[str, Any]]:
    """What Flux says of a queue, or of the only one; None if the configuration does not have it."""
    payload = {"name": queue} if queue else {}
    try:
        status: Mapping[str, Any] = handle.rpc("job-manager.queue-status", payload, nodeid=0).get()
    except OSError as e:
        if e.errno != errno.EINVAL:
            raise
        return None
    return status


# -- windows


def windows_now(handle: Optional[Broker] = None) -> tuple[Shown, ...]:
    """The windows that are not over, the earliest first; raises OSError."""
    told = ask(handle or connected(), "window-list")["windows"]
    places = ((str(value["source"]), str(value.get("down", ""))) for value in told)
    return tuple(Shown(entry, *place) for entry, place in zip(sent.windows_in(told), places))


def add_window(entry: WindowEntry, replaces: bool = False, test: bool = False) -> Added:
    """Add a window, or change one, or only say what that would affect (*test*).

    Raises OSError if the scheduler refuses it.
    """
    how = {name: True for name, is_so in (("replaces", replaces), ("test", test)) if is_so}
    answer = ask(connected(), "window-add", {**entry.to_dict(), **how})
    return Added(answer["hosts"], len(answer["reserved"]), tuple(answer["running"]))


def end_at(jobid: int, when: float, window: str) -> None:
    """Let a running job end at *when* at the latest, and warn its user; raises OSError."""
    handle = connected()
    execution = look_up(handle, jobid, "R").get()["R"]["execution"]
    duration = max(when, time.time() + 1.0) - float(execution["starttime"])
    update = {"id": jobid, "updates": {"attributes.system.duration": duration}}
    handle.rpc("job-manager.update", update).get()
    note = f"ends at {times.clock(when, time.time())} for window {window}"
    raised = {"id": jobid, "type": "window", "severity": _WARNING, "note": note}
    handle.rpc("job-manager.raise", raised).get()


# -- times as Flux reads them


def time_of(text: str) -> float:
    """The time in *text*, in seconds since the epoch; raises ValueError.

    *text* has digits alone, ISO 8601 or else what Flux reads as a time.
    """
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return times.seconds_of_iso(text)
    except ValueError:
        if _BEGINS_AS_ISO.fullmatch(text):
            raise
    from flux.util import parse_datetime  # which takes 60 ms of CPU

    try:
        return float(parse_datetime(text).timestamp())
    except (OverflowError, OSError):
        raise ValueError("is out of range") from None


def seconds_of(text: str) -> float:
    """The seconds in a Flux Standard Duration; raises ValueError."""
    from flux.util import parse_fsd

    try:
        seconds = float(parse_fsd(text))
    except OverflowError:
        raise ValueError("is out of range") from None
    if not 0 < seconds < math.inf:
        raise ValueError("must be more than 0s and less than infinity")
    return seconds
