"""Names, help texts and labels of the metrics that ``treepool status --prometheus`` prints."""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping

from treepool.rfc.quote import printable
from treepool.view.jobs import UserLine

#: Name, type, help, and where the number is in the answer to ``sched-treepool.numbers``.
_METRICS = (
    ("jobs_placed_total", "counter", "Jobs started since the module was loaded", "jobs.placed"),
    ("jobs_refused_total", "counter", "Jobs that can never run", "jobs.refused"),
    ("jobs_failed_total", "counter", "Jobs on which the scheduler failed", "jobs.failed"),
    ("jobs_preempted_total", "counter", "Jobs that were ended for others", "jobs.preempted"),
    (
        "jobs_deferred",
        "gauge",
        "Jobs that wait for the topology of nodes, or for their window",
        "jobs.deferred",
    ),
    ("jobs_with_resources", "gauge", "Jobs that have resources", "running_jobs"),
    ("windows", "gauge", "Windows that are open or to come", "windows"),
    ("stranded_gpus", "gauge", "Free GPUs that expected jobs cannot use", "free.gpus_stranded"),
    ("node_states", "gauge", "Different states of nodes", "states"),
    ("holdings", "gauge", "Jobs, reservations and windows in the plan", "holdings"),
    ("searches_given_up_total", "counter", "Searches that were given up", "given_up"),
    ("questions", "gauge", "Questions of commands that are open", "questions"),
    ("pass_worst_seconds", "gauge", "Longest pass", "passes.worst"),
    ("step_worst_seconds", "gauge", "Longest step, in CPU time", "steps.worst"),
    ("long_steps_total", "counter", "Steps of more than 20 ms of CPU time", "steps.long"),
    ("discovered_nodes", "gauge", "Nodes that sent their topology", "hwloc.nodes"),
    ("undiscovered_nodes", "gauge", "Nodes whose topology is to come", "hwloc.waiting"),
)

#: Durations: name, help, where in the numbers they are, and by which quantile the numbers in there.
_SUMMARIES = (
    ("pass_seconds", "Passes over the queue", "passes", (("0.5", "median"), ("0.99", "p99"))),
    ("step_seconds", "Steps of work, in CPU time", "steps", ()),
)

#: What is counted in each state: its name, and what it is for people.
_COUNTED = (("nodes", "Nodes"), ("cores", "Cores"), ("gpus", "GPUs"))

#: What users have: name, help, and where it is in a UserLine.
_OF_USERS = (
    ("user_nodes", "Nodes on which a user has something", "nodes"),
    ("user_cores", "Cores that a user has", "cores"),
    ("user_gpus", "GPUs that a user has", "gpus"),
    ("user_running_jobs", "Jobs of a user that have resources", "running"),
    ("user_waiting_jobs", "Jobs of a user that wait", "waiting"),
)


def text(
    numbers: Mapping[str, Any],
    totals: Mapping[str, Any],
    users: Iterable[UserLine] = (),
) -> Iterator[str]:
    """The lines for *numbers*, *totals* and, if they were asked for, the totals of *users*."""
    version = {"version": str(numbers.get("version", ""))}
    yield from _metric("build_info", "gauge", "The version of treepool", [(version, 1)])
    for name, kind, about, path in _METRICS:
        value: Any = numbers
        for part in path.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is not None:
            yield from _metric(name, kind, about, [({}, value)])
    for name, about, path, quantiles in _SUMMARIES:
        found = numbers[path]
        yield from _metric(
            name, "summary", about, [({"quantile": q}, found[key]) for q, key in quantiles]
        )
        for suffix in ("sum", "count"):
            yield _sample(f"{name}_{suffix}", {}, found[suffix])
    yield from _resources(totals)
    waiting, reserved = totals["waiting"].items(), totals["reserved"].items()
    yield from _metric(
        "waiting_jobs",
        "gauge",
        "Jobs that wait, by queue and reason",
        [({"queue": q, "reason": code}, n) for q, codes in waiting for code, n in codes.items()],
    )
    yield from _metric(
        "reserved_jobs",
        "gauge",
        "Jobs that wait and have a reservation",
        [({"queue": queue}, number) for queue, number in reserved],
    )
    users = list(users)
    for name, about, key in _OF_USERS if users else ():
        samples = [({"user": line.user}, getattr(line, key)) for line in users]
        yield from _metric(name, "gauge", about, samples)


def _resources(totals: Mapping[str, Any]) -> Iterator[str]:
    """Nodes, cores and GPUs by state: of all, and of each queue, kind of node and domain."""
    levels = totals["levels"].items()
    groups: tuple[tuple[str, str, list[tuple[Mapping[str, str], Any]]], ...] = (
        ("", "by state", [({}, totals["all"])]),
        ("queue_", "of a queue", [({"queue": q}, of) for q, of in totals["queues"].items()]),
        ("kind_", "of a kind of node", [({"kind": k}, of) for k, of in totals["kinds"].items()]),
        (
            "domain_",
            "of a domain above the nodes",
            [
                ({"level": level, "domain": name}, counts)
                for level, of in levels
                for name, counts in of["inside"].items()
            ],
        ),
    )
    for prefix, whose, found in groups:
        for what, named in _COUNTED:
            samples = [
                ({**labels, "state": state}, number)
                for labels, counts in found
                for state, number in counts[what].items()
            ]
            yield from _metric(f"{prefix}{what}", "gauge", f"{named} {whose}", samples)
    states = [
        ({"level": level, "state": state}, number)
        for level, of in levels
        for state, number in of["domains"].items()
    ]
    yield from _metric("domains", "gauge", "Domains above the nodes, by level and state", states)
    largest = [({"level": level}, of["largest"]) for level, of in levels]
    about = "The most free nodes in one domain"
    yield from _metric("domain_free_nodes_max", "gauge", about, largest)


def _metric(
    name: str, kind: str, about: str, samples: Iterable[tuple[Mapping[str, str], float]]
) -> Iterator[str]:
    """The lines of a metric."""
    yield f"# HELP treepool_{name} {about}"
    yield f"# TYPE treepool_{name} {kind}"
    for labels, value in samples:
        yield _sample(name, labels, value)


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"treepool_{name}{{{shown}}} {value:.10g}" if shown else f"treepool_{name} {value:.10g}"


def _escaped(label: str) -> str:
    return printable(label).replace("\\", "\\\\").replace('"', '\\"')
