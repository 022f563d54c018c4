"""The answers to questions, and what private mode hides: jobs, why one waits, what a shape gets.

The requests and answers are documented in doc/questions.md. With ``access.private-mode`` (see
flux-config-access(5)) a guest learns of no job of others, as from ``flux jobs``, but the id of one
that his own waits for, which its annotations have, too. What he asks about and has not submitted
gets no estimate: on one node it would be the end of the job there.
"""

from __future__ import annotations

import errno
import time
from functools import partial
from itertools import islice
from typing import Any, Callable, Generator, Iterable, Iterator, Mapping

from flux.util import parse_fsd

from treepool.errors import (
    InfeasibleRequest,
    InsufficientResources,
    InvalidIdset,
    InvalidInput,
    InvalidJobspec,
    refused,
)
from treepool.flux.annotate import name_of
from treepool.flux.callbacks import Refused
from treepool.flux.context import Context
from treepool.flux.outlook import PRIVATE, Estimate, Outlook, Planned
from treepool.flux.questions import Answer, Asker, Questions, request_watcher
from treepool.flux.submissions import Submission, Submissions, opens
from treepool.flux.totals import totals
from treepool.flux.windows import Windows
from treepool.placement.allocation import Allocation, parts_of
from treepool.placement.held import HELD_BACK, ByRank, Job, add_held, alike, domains_of
from treepool.placement.nodes.parts import on_hosts, ranks_in
from treepool.placement.nodes.state import Held
from treepool.placement.plan.jobs import Waiting
from treepool.placement.plan.reason import is_ahead, why_waiting
from treepool.placement.plan.windows import Window
from treepool.rfc import idset, jobspec
from treepool.rfc.queues import Queues, inner
from treepool.rfc.quote import did_you_mean

#: The requests are ``sched-treepool.look``, ``.jobs``, ``.job``, ``.ask``, ``.try``,
#: ``.numbers``, ``.totals`` and ``.window-list``.
TOPIC = "sched-treepool."

#: The key of Flux's configuration that hides jobs from other users.
_PRIVATE = "access.private-mode"

#: Jobs in one response; and of jobs on many nodes, ranks in one response. Where they are in words
#: takes longer.
_JOBS, _RANKS = 256, 4096
_PLACED, _RANKS_PLACED = 64, 1024

#: Where a table ``policy`` has the attributes of jobs that do not give them.
_DEFAULTS = "jobspec", "defaults", "system"

#: Most jobs ahead in the queue that are counted.
_MOST_COUNTED = 1000

#: A priority as of a job with the default urgency, which is the highest of a guest; the urgency
#: with which a job comes before all others, and its priority; a job id after all others.
_PRIORITY, _EXPEDITED, _HIGHEST, _NEW = 16, 31, (1 << 32) - 1, (1 << 62) - 1


class Answers:
    """Answers the questions about the instance.

    *numbers* makes the answer to the question of this name, in steps.
    """

    def __init__(
        self,
        context: Context,
        submissions: Submissions,
        windows: Windows,
        numbers: Callable[[], Generator[None, None, dict[str, Any]]],
    ) -> None:
        self._context, self._queue, self._pool = context, context.queue, context.pool
        self._submissions = submissions
        self._windows = windows
        self._report = numbers
        self._questions = Questions(context.handle, context.runner)
        self.outlook = Outlook(context.queue)
        answers = {
            "look": self._look,
            "jobs": self._jobs,
            "job": self._job,
            "ask": self._ask,
            "try": self._try,
            "numbers": self._numbers,
            "totals": self._totals,
            "window-list": self._window_list,
        }
        take = self._questions.take
        self._watchers = [
            request_watcher(context.handle, f"{TOPIC}{name}", partial(take, answer=answer))
            for name, answer in answers.items()
        ]

    def __len__(self) -> int:
        return len(self._questions)

    def end(self) -> None:
        """Refuse what is open, because the module is being unloaded."""
        self._questions.end()

    def stats(self, msg: Any) -> None:
        """Answer ``stats-get``, which has no version."""
        self._questions.take(msg, self._numbers)

    def _sees_all(self, asker: Asker) -> bool:
        """Whether *asker* may see jobs of others."""
        return asker.privileged or not self._context.configuration.get(_PRIVATE, False)

    def _sees(self, asker: Asker) -> Callable[[int], bool]:
        """Tells which jobs *asker* may see."""
        if self._sees_all(asker):
            return lambda _: True
        return lambda jobid: self._submissions.user_of(jobid) == asker.userid

    # -- the instance

    def _look(self, payload: Mapping[str, Any], asker: Asker) -> Answer:
        """The nodes, then the jobs that have resources, some in each response.

        What jobs have that *asker* may not see is told together, without an end.
        """
        pool, sees = self._pool, self._sees(asker)
        down = idset.encode(pool.ranks & ~pool.up)
        kept = pool.job(HELD_BACK)
        yield {
            "R": pool.to_dict(),
            "down": down,
            "options": pool.options,
            "held_back": _shown(kept.parts if kept is not None else ()),
            "preemptible": dict(zip(("cores", "gpus"), self._queue.profile.yielding)),
            "rules": {
                name: {"policy": rule.policy, "depth": rule.shown_depth}
                for name, rule in self._context.configuration.options.rules.items()
            },
        }
        others: ByRank = {}
        for some in self._running(_JOBS, _RANKS):
            listed = []
            for jobid, job in some:
                if sees(jobid):
                    shown = {"id": jobid, "parts": _shown(job.parts), "expiration": job.end_time}
                    listed.append(shown)
                else:
                    add_held(others, job.parts)
            yield {"jobs": listed} if listed else None
        together = alike(others)
        while together:
            first, together = together[:_JOBS], together[_JOBS:]
            yield {"jobs": [{"id": None, "parts": _shown(first), "expiration": 0}]}

    def _jobs(self, payload: Mapping[str, Any], asker: Asker) -> Answer:
        """The jobs that have resources, and where each is in words, some in each response."""
        sees = self._sees(asker)
        for some in self._running(_PLACED, _RANKS_PLACED):
            yield {"jobs": [{"id": i, **self._placed(job.parts)} for i, job in some if sees(i)]}

    def _running(self, most: int, ranks: int) -> Iterator[list[tuple[int, Job]]]:
        """The jobs that have resources now: at most so many at a time, and on so many *ranks*."""
        pool, found, size = self._pool, list[tuple[int, Job]](), 0
        for jobid, _ in pool.job_end_times():
            job = pool.job(jobid)
            if job is None or jobid == HELD_BACK:
                continue
            found.append((jobid, job))
            size += sum(idset.size(those) for those, _, _ in job.parts)
            if len(found) == most or size >= ranks:
                yield found
                found, size = [], 0
        yield found

    # -- a job

    def _job(self, payload: Mapping[str, Any], asker: Asker) -> Answer:
        jobid = payload.get("id")
        if not isinstance(jobid, int) or isinstance(jobid, bool):
            raise Refused(errno.EPROTO, "/id: must be an integer")
        yield from self._context.inbox.emptied()  # it may have been submitted a moment ago
        if jobid == HELD_BACK or not self._sees(asker)(jobid):
            yield {"state": "unknown"}
            return
        job, has = self._queue.jobs.get(jobid), self._pool.job(jobid)
        submission = self._submissions.get(jobid)
        if has is not None:
            yield {"state": "running", **self._placed(has.parts), "expiration": has.end_time}
        elif job is not None:
            known = yield from self._why(job, asker)
            if self._queue.jobs.get(jobid) is job:
                yield {"state": "waiting", **known}
            else:  # it started meanwhile, was cancelled, or has another priority
                yield from self._job(payload, asker)
        elif submission is not None:
            window = submission.window
            yield {"state": "deferred", **({} if window is None else _waits_for(window))}
        else:
            yield {"state": "unknown"}

    def _why(self, job: Waiting, asker: Asker) -> Generator[None, None, dict[str, Any]]:
        queue = self._queue
        ahead, policy = 0, ""
        for name, rule, jobs in queue.lines():
            if name == job.queue:
                policy = rule.policy
                for other in islice(jobs, _MOST_COUNTED):
                    if other.place >= job.place:
                        break
                    ahead += 1
        yield
        reason = yield from why_waiting(queue, job, time.time(), name_of)
        start = yield from self.outlook.start(job)
        first = queue.ahead(job)
        return {
            "reason": str(reason),
            **reason.facts,
            **_estimated(start),
            "reserved": job.jobid in queue.reservations,
            "queue": job.queue,
            "policy": policy,
            "ahead": ahead if self._sees_all(asker) else None,
            "behind": None if first is None else first.jobid,
            "fits": self._fits(job),
        }

    def _fits(self, job: Waiting) -> bool:
        """Whether what is free now would do for *job*, so that only others come before it."""
        return self._pool.choice(job.request).selection is not None

    # -- a shape

    def _ask(self, payload: Mapping[str, Any], asker: Asker) -> Answer:
        """What a job would get now or when, if it were submitted now."""
        pool, queue = self._pool, self._queue
        spec = _spec(payload, self._context.configuration.queues)
        system = spec["attributes"]["system"]
        said = {
            "queue": system["queue"],
            "constraints": system.get("constraints"),
            "options": system.get("treepool"),
        }
        if self._submissions.defers:
            yield {**said, "verdict": "deferred"}
            return
        priority = _priority(payload.get("urgency", _PRIORITY), asker)
        try:
            asked = Submission(None, _NEW, priority, asker.userid, time.time(), spec)
            job, window = self._submissions.waiting(asked)
            yield None
            pool.check_feasibility(job.relaxed)
        except (InvalidInput, InfeasibleRequest) as e:
            if self._submissions.defers_refused:
                yield {**said, "verdict": "deferred"}
            elif isinstance(e, InfeasibleRequest):
                yield {**said, "verdict": "infeasible", "reason": str(e), **e.reason.facts}
            else:
                raise
            return
        yield None
        if window is not None and window.start > time.time():
            yield {**said, "verdict": "later", **_waits_for(window), **self._placed(())}
            return
        first = queue.ahead(job)
        if first is not None:
            reason = is_ahead(name_of(first.jobid))
        else:
            selection = yield from queue.selection(job)
            if selection is not None:
                allocation = Allocation(pool.inventory, parts_of(selection), selection.nslots)
                yield {
                    **said,
                    "verdict": "now",
                    **self._placed(allocation.parts),
                    "nslots": allocation.nslots,
                    "fitness": pool.fitness(allocation, job.request).total,
                }
                return
            reason = yield from why_waiting(queue, job, time.time(), name_of)
        planned = Planned(PRIVATE)
        if self._sees_all(asker):
            planned = yield from self.outlook.start_of_new(job)
        fits = self._fits(job)
        told = {"verdict": "later", "reason": str(reason), **reason.facts, "fits": fits}
        yield {**said, **told, **_estimated(planned.start), **self._placed(planned.parts)}

    # -- several shapes

    def _try(self, payload: Mapping[str, Any], asker: Asker) -> Answer:
        """What each of several jobs would get of what is free, after those before it."""
        jobs = payload.get("jobs")
        if not (jobs and isinstance(jobs, list) and all(isinstance(one, dict) for one in jobs)):
            raise Refused(errno.EPROTO, "/jobs: must be a list of at least one object")
        pool = self._pool.copy()
        for jobid, job in enumerate(jobs, _NEW):
            try:
                spec = _jobspec(job, job.get("constraints"), job.get("options"))
                got = pool.alloc(jobid, pool.parse_resource_request(spec))
            except (InvalidInput, InfeasibleRequest, InsufficientResources) as e:
                yield refused(e)
            else:
                R = {"R": got.to_dict()} if payload.get("R") else {}
                where = [got.where(ranks) for ranks, _, _ in got.parts]
                yield {"parts": _shown(got.parts), "where": where, "nslots": got.nslots, **R}

    def _placed(self, parts: tuple[Held, ...]) -> dict[str, Any]:
        """What a job has or would have: for programs, by hosts, and in words."""
        inventory = self._pool.inventory
        return {
            "parts": _shown(parts),
            "hosts": inventory.hostlist(ranks_in(parts)),
            "summary": on_hosts(parts, inventory),
            "domains": domains_of(inventory.types, parts),
        }

    # -- numbers

    def _numbers(self, payload: Mapping[str, Any], asker: Asker) -> Answer:
        if not self._sees_all(asker):
            raise Refused(errno.EPERM, "they count the jobs of others, which are private here")
        yield (yield from self._report())

    def _totals(self, payload: Mapping[str, Any], asker: Asker) -> Answer:
        drained, by_user = payload.get("drained", []), payload.get("users", False)
        if not isinstance(drained, list) or not all(isinstance(one, str) for one in drained):
            raise Refused(errno.EPROTO, "/drained: must be a list of idsets")
        if not isinstance(by_user, bool):
            raise Refused(errno.EPROTO, "/users: must be true or false")
        if by_user and not asker.privileged:
            raise Refused(errno.EPERM, "totals of users are for the owner of the instance")
        try:
            ranks = list(map(idset.decode, drained))
        except InvalidIdset as e:
            raise Refused(errno.EINVAL, f"/drained: {e}") from None
        yield from self._context.inbox.emptied()  # nodes may have been drained a moment ago
        kept, waits = self._pool.job(HELD_BACK), self._submissions.waits()
        queues, user_of = self._context.configuration.queues, self._submissions.user_of
        told = yield from totals(self._queue, queues, waits, ranks, user_of if by_user else None)
        told["held_back"] = self._placed(kept.parts if kept is not None else ())
        if not self._sees_all(asker):  # these count the jobs of others
            del told["waiting"], told["reserved"]
        yield told

    # -- windows

    def _window_list(self, payload: Mapping[str, Any], asker: Asker) -> Answer:
        yield {"windows": self._windows.listed()}


def _spec(payload: Mapping[str, Any], queues: Queues) -> dict[str, Any]:
    """The jobspec of a question, with what flux-core adds to those of jobs.

    Raises Refused, or InvalidJobspec.
    """
    name = payload.get("queue", inner(queues.policy, *_DEFAULTS).get("queue", ""))
    known = queues.tables
    if not isinstance(name, str) or (name not in known and (name or known)):
        raise Refused(errno.EINVAL, f"/queue: {_no_queue(name, known)}")
    defaults = queues.policy_in(name, *_DEFAULTS)
    constraints = payload.get("constraints", defaults.get("constraints"))
    requires = queues.requires(name)
    if requires:
        given = [] if constraints is None else [constraints]
        constraints = {"and": [{"properties": requires}, *given]}
    options = payload.get("options", defaults.get("treepool"))
    spec = _jobspec(payload, constraints, options, defaults.get("duration", 0))
    spec["attributes"]["system"]["queue"] = name
    return spec


def _jobspec(
    payload: Mapping[str, Any], constraints: Any, options: Any, otherwise: object = 0
) -> dict[str, Any]:
    """The jobspec of a question about a job, which lasts for *otherwise* unless it says how long.

    Raises InvalidJobspec.
    """
    duration = payload.get("duration", 0)
    if not isinstance(duration, (int, float)) or not 0 <= duration < 1e9:
        raise InvalidJobspec("/duration: must be a number of seconds from 0 to 1e9")
    if duration == 0:
        duration = parse_fsd(str(otherwise))
    resources = payload.get("resources")
    if not isinstance(resources, list):
        raise InvalidJobspec("/resources: must be a list")
    return jobspec.from_resources(resources, duration, constraints, options)


def _priority(urgency: object, asker: Asker) -> int:
    """The priority that Flux gives a job of this *urgency*, unless a plugin gives another."""
    if type(urgency) is not int or not 1 <= urgency <= _EXPEDITED:
        raise Refused(errno.EINVAL, f"/urgency: must be an integer from 1 to {_EXPEDITED}")
    if urgency > _PRIORITY and not asker.privileged:
        raise Refused(errno.EPERM, f"/urgency: above {_PRIORITY} is for the owner of the instance")
    return _HIGHEST if urgency == _EXPEDITED else urgency


def _no_queue(name: object, queues: Mapping[str, Any]) -> str:
    """What is wrong with *name*, which is none of the instance's *queues*."""
    known = f"{', '.join(sorted(queues)):.200}"
    if not queues:
        return "this instance has no queues"
    if name == "":
        return f"is missing, and there is no default: name one of {known} (--queue)"
    return f"not one of this instance's queues ({known}){did_you_mean(name, queues)}"


def _waits_for(window: Window) -> dict[str, Any]:
    """What is told of a job that waits for *window* to open."""
    reason = opens(window, time.time())
    return {"reason": str(reason), **reason.facts, **_estimated(window.start)}


def _estimated(start: Estimate) -> dict[str, Any]:
    """The estimate of a start, and why there is none."""
    is_known = not isinstance(start, str)
    return {"t_estimate": start if is_known else None, "no_estimate": None if is_known else start}


def _shown(parts: Iterable[Held]) -> list[list[str]]:
    """What a job has as idsets: ranks, and cores and GPUs on each of them."""
    return [list(map(idset.encode, part)) for part in parts]
