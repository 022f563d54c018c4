"""``treepool explain`` for jobs and shapes on the running instance: the scheduler is asked."""

from __future__ import annotations

import time
from argparse import Namespace
from typing import Any, Optional

import attrs

from treepool.cli import instance
from treepool.cli.screen import DONE, NO, USAGE, Stop, draw, out
from treepool.errors import InvalidInput
from treepool.placement.allocation import Allocation, short_form
from treepool.rfc.shape import format_shape
from treepool.view import windows
from treepool.view.explain import ALLOCATED, Explanation, explain
from treepool.view.jobstory import answer_to_shape, story
from treepool.view.status import domains_of

#: States in which a job has had what it wanted.
_SERVED = ("RUN", "CLEANUP", "INACTIVE")


def explain_job(name: str) -> int:
    """Explain where the job called *name* stands; returns the exit status."""
    jobid = instance.job_named(name)
    facts, parts = instance.facts(jobid, name)
    live: Optional[Any] = None
    if parts or facts.waits_for_resources:
        live = instance.look()
        facts = attrs.evolve(facts, domains=domains_of(live.pool.inventory.types, parts))
    now = time.time()
    out("\n".join(story(facts, now)))
    if live is not None and facts.waits_for_resources:
        assert facts.answer is not None
        entry = windows.behind(str(facts.answer["reason"]), live.windows)
        if entry is not None:
            out(f"     it may not reach into {windows.line(entry, now)}")
        spec = instance.jobspec_of(jobid)
        if spec is not None:
            _details(_told(live, jobid, spec, name))
    return DONE if facts.state in _SERVED and facts.started else NO


def explain_shape(arguments: Namespace, resources: list[Any], constraints: Any) -> int:
    """Explain what a shape would get of the running instance; returns the exit status."""
    question: dict[str, Any] = {"resources": resources}
    if arguments.duration is not None:
        question["duration"] = instance.seconds("--duration", arguments.duration)
    if constraints is not None:
        question["constraints"] = constraints
    if arguments.queue is not None:
        question["queue"] = arguments.queue
    if arguments.locality != "preferred":  # the default is the instance's own
        question["options"] = {"locality": arguments.locality}
    answer, parts = instance.ask(question)
    out("\n".join(answer_to_shape(arguments.shape, answer, short_form(parts), time.time())))
    if answer["verdict"] == "now":
        return DONE
    if answer["verdict"] == "held back":
        return NO
    system = {"constraints": constraints, "treepool": question.get("options")}
    spec = {"resources": resources, "attributes": {"system": system}}
    _details(_told(instance.look(), -1, spec, arguments.shape))
    return NO


def _told(live: Any, jobid: int, spec: dict[str, Any], name: str) -> Explanation:
    """Why *spec* gets what it gets of what is free, whatever the queue says."""
    system = (spec.get("attributes") or {}).get("system") or {}
    resources = spec.get("resources") or []
    held = {
        job.id: Allocation(live.pool.inventory, job.held, 1)
        for job in live.jobs
        if job.held and live.pool.has_job(job.id) and job.id != jobid
    }
    try:
        return explain(
            live.pool,
            f"{name}: {format_shape(resources)}",
            resources,
            system.get("constraints"),
            held,
            system.get("treepool"),
            {job.id: job.name for job in live.jobs},
            live.drained,
        )
    except InvalidInput as e:
        raise Stop(f"{name:.40}: {e}", USAGE) from None


def _details(told: Explanation) -> None:
    """Which nodes lack what; nothing if what is free would do, and only others come first."""
    if told.verdict != ALLOCATED:
        from treepool.view.explaintext import details

        draw(lambda width: details(told, width))
