"""``treepool explain`` on the running instance: what it asks and prints, and its exit status."""

from __future__ import annotations

import time
from argparse import Namespace
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Mapping, Optional

from treepool.cli import files, instance
from treepool.cli.screen import DONE, NO, USAGE, Stop, draw, out, out_json, plain
from treepool.placement.nodes.parts import short_form
from treepool.rfc.shape import format_shape, unlabelled
from treepool.rfc.windows import WindowEntry
from treepool.view import windows
from treepool.view.jobstory import answer_to_shape, story

if TYPE_CHECKING:  # with the engine, which only a job that waits needs
    from treepool.view.explain import Explanation

#: The keys of ``attributes.system`` that an answer has, and their names there.
_ANSWERED = {"constraints": "constraints", "treepool": "options"}

#: States in which a job has had what it wanted.
_SERVED = ("RUN", "CLEANUP", "INACTIVE")


def explain_job(arguments: Namespace) -> int:
    """Explain where a job of the instance stands; returns the exit status."""
    name = arguments.word
    with instance.asking(f"job {name:.40}: "):
        from treepool.flux import client

        try:
            jobid = client.job_id(name)
        except ValueError:
            raise Stop(f"{name:.40}: is not a job id", USAGE) from None
        facts = client.facts(jobid, name)
    told: Optional[Explanation] = None
    window: Optional[WindowEntry] = None
    spec: Optional[dict[str, Any]] = None
    answer = facts.answer or {}
    is_early = answer.get("code") == "opens"
    if is_early or facts.waits_for_resources:
        with instance.asking():
            window = windows.behind(answer, lambda: (w.entry for w in client.windows_now()))
    if facts.waits_for_resources and _is_told(answer, arguments):
        with suppress(OSError):  # this user may not read it
            spec = client.jobspec_of(jobid)
        told = None if spec is None else _told(instance.look(), jobid, spec, name)
    if arguments.json:
        fact = plain(facts)
        fact = {"job": fact.pop("name"), **fact, "window": window, "explanation": _json(told)}
        out_json(fact)
    else:
        now = time.time()
        out(*story(facts, now))
        if facts.state == "SCHED" and facts.answer is None and facts.stopped is None:
            with instance.asking():
                other = client.other_scheduler()
            if other:
                out(f"     {other}")
        if window is not None:
            how = "was submitted for" if is_early else "may not reach into"
            out(f"     it {how} {windows.line(window, now)}")
        _details(told, arguments.verbose)
    return DONE if facts.state in _SERVED and facts.started else NO


def explain_request(arguments: Namespace, name: str, spec: Mapping[str, Any]) -> int:
    """Explain what jobspec *spec*, called *name*, would get of the running instance.

    Returns the exit status.
    """
    with instance.asking():
        from treepool.flux import client, joboptions, sent

        try:
            answer, closed = client.ask_for(client.question(spec))
        except OSError as e:
            raise OSError(e.errno, joboptions.named(e.strerror or str(e))) from None
    first = client.conditions(spec)
    parts = sent.parts_of(answer.get("parts", ()))
    told: Optional[Explanation] = None
    if answer["verdict"] not in ("now", "deferred") and _is_told(answer, arguments):
        # With what the queue requires, and the site's defaults.
        given = {name: answer.get(key) for name, key in _ANSWERED.items()}
        system = {**spec["attributes"]["system"], **given}
        whole = {"resources": spec["resources"], "attributes": {"system": system}}
        told = _told(instance.look(), -1, whole, name)
    if arguments.json:
        now = answer["verdict"] == "now"
        placed = {"placement": short_form(parts) if now else "", "hosts": answer["hosts"]}
        fact = {"shape": name, "answer": answer, **placed}
        state = {name: value for name, value in plain(closed).items() if name != "queue"}
        out_json({**fact, **state, "explanation": _json(told)})
    else:
        out(*answer_to_shape(name, answer, closed, time.time(), first))
        _details(told, arguments.verbose)
    starts = answer["verdict"] == "now" and closed.is_open
    return DONE if starts else NO


def _is_told(answer: Mapping[str, Any], arguments: Namespace) -> bool:
    """Whether it is told which nodes lack what: to people only if what is free would not do."""
    return bool(arguments.json) or not answer.get("fits", False)


def _told(live: Any, jobid: int, spec: dict[str, Any], name: str) -> Explanation:
    """Why *spec* of job *name*, or of a shape (*jobid* -1), gets what it gets of what is free."""
    from treepool.view.explain import explain

    system = (spec.get("attributes") or {}).get("system") or {}
    resources = spec.get("resources") or []
    held = {
        running.id: running.job
        for running in live.jobs
        if running.job.parts and live.pool.has_job(running.id) and running.id != jobid
    }
    with files.naming(f"{name:.40}", USAGE):
        return explain(
            live.pool,
            name if jobid < 0 else f"{name}: {format_shape(unlabelled(resources))}",
            resources,
            system.get("constraints"),
            held,
            system.get("treepool"),
            live.drained,
            live.drains,
        )


def _json(told: Optional[Explanation]) -> Optional[dict[str, Any]]:
    if told is None:
        return None
    from treepool.view.explainfacts import facts

    return facts(told)


def _details(told: Optional[Explanation], verbose: bool) -> None:
    """Which nodes lack what; nothing if what is free would do, and only others come first."""
    if told is not None and not told.is_allocated:
        from treepool.view.explaintext import details

        draw(lambda width: details(told, width, verbose))
