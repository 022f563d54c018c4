"""What is told of a job, or of a shape, of a running instance: where it stands, what comes next."""

from __future__ import annotations

import re
from typing import Any, Iterator, Mapping, Optional, Sequence

import attrs

from treepool.rfc.times import clock
from treepool.view.words import MAX_LIST, count, listed, plain

_DEFERRED = "waits: the topology of some nodes is not known yet"

#: A dependency on the time, in seconds since the epoch.
_BEGIN = re.compile(r"begin-time=(\d{1,12}(?:\.\d*)?)")

#: Seconds by which an estimate may lie back: the scheduler does not make it anew for each answer.
_LATE = 60.0

#: Why the scheduler has no estimate (``no_estimate`` in doc/questions.md).
_NO_ESTIMATE = {
    "nodes": "it needs nodes that are down or drained",
    "unlimited": "jobs without a time limit hold what it needs",
    "ahead": "a job ahead of it has no estimate either",
    "many": "too many jobs are ahead of it",
    "search": "the search for a place was given up",
    "private": "this instance does not tell when jobs of others end",
}

#: Why no job starts.
NO_SCHEDULER = "no scheduler is loaded"

#: Why a queue is stopped: no scheduler is loaded (Flux's words); the job manager takes nothing from
#: the one that is loaded; Flux does not know the queue any more.
OFFLINE = "Scheduler is offline"
GIVEN_UP = "the job manager has given the scheduler up, see flux dmesg"
GONE = "the configuration does not have it any more"

#: How a job that is over ended.
_RESULTS = {
    "COMPLETED": "it completed",
    "FAILED": "it failed",
    "CANCELED": "it was cancelled",
    "TIMEOUT": "it reached its time limit",
}


@attrs.frozen
class Closed:
    """Why a Flux queue ("" where there are none) starts no job, and why it accepts none.

    Each is "" if no reason was given, None if it does. ``stopped_parent`` is the parent of a
    virtual queue, if that is stopped and the queue itself is not; otherwise "".
    """

    queue: str = ""
    stopped: Optional[str] = None
    disabled: Optional[str] = None
    stopped_parent: str = ""

    @property
    def is_open(self) -> bool:
        """Whether jobs that are submitted now may start."""
        return self.stopped is None and self.disabled is None


@attrs.frozen
class Facts:
    """What Flux and the scheduler tell of a job; times are in seconds since the epoch, 0 if unset.

    ``state`` and ``result`` are Flux's words. ``stopped`` and ``stopped_parent`` tell of the job's
    queue, see Closed. ``answer`` is what the scheduler tells (doc/questions.md), None if it cannot
    be asked. ``placement`` is in Flux's short form, ``summary`` the same by hosts, for people;
    ``hosts`` is a hostlist. ``domains`` are those that it has on its nodes.
    """

    name: str
    state: str
    urgency: int = 16
    priority: int = 16
    queue: str = ""
    started: float = 0.0
    over: float = 0.0
    expiration: float = 0.0
    dependencies: Sequence[str] = ()
    result: str = ""
    exception: str = ""
    stopped: Optional[str] = None
    stopped_parent: str = ""
    answer: Optional[Mapping[str, Any]] = None
    placement: str = ""
    hosts: str = ""
    summary: str = ""
    domains: str = ""
    fitness: Optional[float] = None

    @property
    def waits_for_resources(self) -> bool:
        """Whether the scheduler has the job in its queue, and no other job must start first."""
        answer = self.answer or {}
        return (
            self.state == "SCHED"
            and answer.get("state") == "waiting"
            and answer.get("behind") is None
        )


def story(facts: Facts, now: float) -> Iterator[str]:
    """The lines: first what the job does, then what happens next."""
    teller = _TELLERS.get(facts.state)
    if teller is None:
        yield f"job {facts.name}: its state is {plain(facts.state)}"
    else:
        head, *rest = teller(facts, now)
        yield f"job {facts.name}: {head}"
        for line in rest:
            yield f"     {line}"


def _depend(facts: Facts, now: float) -> Iterator[str]:
    yield f"waits: it depends on {_depends(facts.dependencies, now) or 'what a plugin has added'}"
    yield "next: when that is there, it gets its priority and enters the queue"


def _depends(dependencies: Sequence[str], now: float) -> str:
    return listed(", ".join(_dependency(text, now) for text in dependencies))


def conditions(dependencies: Sequence[str], held: bool, now: float) -> list[str]:
    """What a job to come would wait for before the scheduler has it."""
    found = [f"it depends on {_depends(dependencies, now)}"] if dependencies else []
    return [*found, "it is held: its urgency is 0"] if held else found


def _dependency(text: str, now: float) -> str:
    begin = _BEGIN.fullmatch(text)
    return f"the time: {clock(float(begin[1]), now)}" if begin else plain(text, MAX_LIST)


def _priority(facts: Facts, now: float) -> Iterator[str]:
    yield "waits: it has no priority yet, which a plugin of the job manager gives"
    yield "next: when it has one, it enters the queue"


def _sched(facts: Facts, now: float) -> Iterator[str]:
    if facts.priority == 0:
        if facts.urgency == 0:
            yield "is held: its urgency is 0"
            yield f"next: nothing, until flux job urgency {facts.name} default releases it"
        else:
            yield "is held: its priority is 0, as a plugin of the job manager decided"
            yield "next: nothing, until the plugin gives it another priority"
    elif facts.stopped is not None:
        yield f"waits: {_stopped(facts.queue, facts.stopped_parent, facts.stopped)}"
        yield _until_started(facts.stopped_parent or facts.queue, facts.stopped)
    elif facts.answer is None:
        yield "waits: the scheduler of this instance gives no reason"
    elif facts.answer["state"] == "waiting":
        yield f"waits: {plain(str(facts.answer['reason']), MAX_LIST)}"
        yield from _outlook(facts, facts.answer, now)
    elif facts.answer["state"] == "deferred" and "reason" in facts.answer:
        yield f"waits: {plain(str(facts.answer['reason']), MAX_LIST)}"
        yield f"next: it starts at {clock(facts.answer['t_estimate'], now)}, or soon after"
    elif facts.answer["state"] == "deferred":
        yield _DEFERRED
        yield "next: it enters the queue when their brokers have answered"
    elif facts.answer["state"] == "unknown":
        yield "waits: the job manager has not sent it to the scheduler"
        yield "next: it is sent now, or with queue-depth, when others leave the scheduler's queue"
    else:  # it changes at this moment
        yield "is on its way between the job manager and the scheduler: ask again"


def _queue(name: str) -> str:
    return f"queue {plain(name)}" if name else "the queue"


def _stopped(queue: str, parent: str, why: str) -> str:
    if why == OFFLINE:
        return NO_SCHEDULER
    if why == GIVEN_UP:
        return why
    which = f"queue {plain(parent)}, the parent of {plain(queue)}," if parent else _queue(queue)
    return f"{which} is stopped{_why(why)}"


def _until_started(queue: str, why: str) -> str:
    if why == OFFLINE:
        return "next: nothing, until an administrator loads one (flux module load sched-treepool)"
    if why == GIVEN_UP:
        again = "flux module reload sched-treepool"
        return f"next: nothing, until an administrator loads it again ({again})"
    if why == GONE:
        return "next: nothing, until the configuration has it again (flux config reload)"
    start = f"flux queue start {plain(queue)}".rstrip()
    return f"next: nothing, until an administrator starts it ({start})"


def _why(reason: str) -> str:
    return f" ({plain(reason, MAX_LIST)})" if reason else ""


def _outlook(facts: Facts, answer: Mapping[str, Any], now: float) -> Iterator[str]:
    """When a job in the queue will start."""
    ahead, policy = answer["ahead"], answer["policy"]
    before = "" if ahead is None else f"{count(ahead, 'job')} ahead of it, "
    line = answer["queue"]
    inside = f" in the order of {plain(line)}" if line != facts.queue else ""
    yield f"{_queue(facts.queue)}{inside}: {before}policy {policy}"
    start = answer["t_estimate"]
    if start is None:
        yield f"next: when it starts cannot be told{_why_no_estimate(answer)}"
    elif start <= now - _LATE:
        yield "next: it starts as soon as others make room: they are late"
    elif answer["reserved"]:
        yield f"next: it starts at {clock(start, now)} at the latest, if no node fails"
    else:
        yield f"next: it starts about {clock(start, now)}, if those before it use all their time"


def _why_no_estimate(answer: Mapping[str, Any]) -> str:
    why = _NO_ESTIMATE.get(answer.get("no_estimate") or "")
    return f": {why}" if why else ""


def _run(facts: Facts, now: float) -> Iterator[str]:
    since = f" since {clock(facts.started, now)}" if facts.started else ""
    yield f"runs{since}"
    if facts.summary:
        where = f", in {facts.domains}" if facts.domains else ""
        yield f"on {listed(facts.summary)}{where}"
    if facts.fitness is not None:
        best = ": an idle cluster could not do better" if facts.fitness >= 0.995 else ""
        yield f"fitness {facts.fitness:.2f} of 1{best}"
    if facts.expiration:
        yield f"next: it ends at {clock(facts.expiration, now)} at the latest"
    else:
        yield "next: it ends when it is done: it has no time limit"


def _cleanup(facts: Facts, now: float) -> Iterator[str]:
    yield "is over, and is being cleaned up"
    yield "next: its resources are free when epilog and housekeeping are done"


def _inactive(facts: Facts, now: float) -> Iterator[str]:
    when = f" at {clock(facts.over, now)}" if facts.over else ""
    cleaning = facts.answer is not None and facts.answer["state"] == "running"
    so = ", and is being cleaned up" if cleaning else ""
    yield f"is over{so}: {_RESULTS.get(facts.result, plain(facts.result))}{when}"
    if facts.exception and facts.exception != "cancel":  # that it was, is said already
        yield plain(facts.exception, MAX_LIST)
    if not facts.started:
        yield "it never had resources"
    if cleaning:
        yield f"next: {listed(facts.summary)} is free when housekeeping is done"


_TELLERS = {
    "DEPEND": _depend,
    "PRIORITY": _priority,
    "SCHED": _sched,
    "RUN": _run,
    "CLEANUP": _cleanup,
    "INACTIVE": _inactive,
}


def answer_to_shape(
    shape: str,
    answer: Mapping[str, Any],
    closed: Closed,
    now: float,
    first: Sequence[str] = (),
) -> list[str]:
    """What a job of *shape* would get, as the scheduler says, unless its queue is *closed*.

    *first* are conditions under which the scheduler has it at all.
    """
    lines = _answer(shape, answer, closed, now)
    return lines + [f"     but first: {plain(one, MAX_LIST)}" for one in first if len(lines) > 1]


def _answer(shape: str, answer: Mapping[str, Any], closed: Closed, now: float) -> list[str]:
    shown, queue = plain(shape, MAX_LIST), _queue(closed.queue)
    if answer["verdict"] == "deferred":
        return [f"{shown}: {_DEFERRED}"]
    if answer["verdict"] == "infeasible":
        return [f"{shown}: infeasible: {plain(str(answer['reason']), MAX_LIST)}"]
    if closed.disabled is not None:
        return [f"{shown}: would be refused: {queue} is disabled{_why(closed.disabled)}"]
    if closed.stopped is not None:
        stopped = _stopped(closed.queue, closed.stopped_parent, closed.stopped)
        start = _until_started(closed.stopped_parent or closed.queue, closed.stopped)
        return [f"{shown}: would wait: {stopped}", f"     {start}"]
    if answer["verdict"] == "now":
        return [
            f"{shown}: would start now",
            f"     on {listed(answer['summary'])}",
            f"     fitness {answer['fitness']:.2f} of 1",
        ]
    lines = [f"{shown}: would wait: {plain(str(answer['reason']), MAX_LIST)}"]
    start = answer["t_estimate"]
    if start is None:
        lines.append(f"     when it would start cannot be told{_why_no_estimate(answer)}")
    else:
        lines.append(f"     it would start about {clock(start, now)}")
        if answer.get("summary"):
            lines[-1] += f" on {listed(answer['summary'])}"
    return lines
