"""The scheduler's numbers in Prometheus' text exposition format, for a textfile collector."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

#: Name, type, help, and where the number is in the answer to ``sched-treepool.numbers``.
_METRICS = (
    ("jobs_placed_total", "counter", "Jobs started since the module was loaded", "jobs.placed"),
    ("jobs_refused_total", "counter", "Jobs that can never run", "jobs.refused"),
    ("jobs_failed_total", "counter", "Jobs on which the scheduler failed", "jobs.failed"),
    ("jobs_held_back", "gauge", "Jobs that wait for the topology of nodes", "jobs.held_back"),
    ("jobs_with_resources", "gauge", "Jobs that have resources", "running_jobs"),
    ("windows", "gauge", "Windows that are open or to come", "windows"),
    ("free_cores", "gauge", "Free cores of nodes that are up", "free.cores"),
    ("free_gpus", "gauge", "Free GPUs of nodes that are up", "free.gpus"),
    ("fragmented_cores", "gauge", "Free cores in no whole domain", "free.cores_fragmented"),
    ("fragmented_gpus", "gauge", "Free GPUs in no whole domain", "free.gpus_fragmented"),
    ("stranded_gpus", "gauge", "Free GPUs that expected jobs cannot use", "free.gpus_stranded"),
    ("node_states", "gauge", "Different states of nodes", "states"),
    ("holdings", "gauge", "Jobs, reservations and windows in the plan", "holdings"),
    ("searches_given_up_total", "counter", "Searches that were given up", "given_up"),
    ("questions", "gauge", "Questions of commands that are open", "questions"),
    ("passes_total", "counter", "Passes over the queue", "passes.count"),
    ("pass_worst_seconds", "gauge", "Longest pass", "passes.worst"),
    ("step_worst_seconds", "gauge", "Longest step, in CPU time", "steps.worst"),
    ("discovered_nodes", "gauge", "Nodes that sent their topology", "hwloc.nodes"),
    ("undiscovered_nodes", "gauge", "Nodes whose topology is to come", "hwloc.waiting"),
)

#: The same of each queue.
_OF_QUEUES = (
    ("queue_waiting_jobs", "gauge", "Jobs that wait in a queue", "waiting"),
    ("queue_reserved_jobs", "gauge", "Those that have a reservation", "reserved"),
)


def text(numbers: Mapping[str, Any]) -> Iterator[str]:
    """The lines for *numbers*."""
    for name, kind, help_text, path in _METRICS:
        value: Any = numbers
        for part in path.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is not None:
            yield from _head(name, kind, help_text)
            yield f"treepool_{name} {value:.10g}"
    passes = numbers.get("passes") or {}
    yield from _head("pass_seconds", "gauge", "Duration of the last passes, by quantile")
    for quantile, key in (("0.5", "median"), ("0.99", "p99")):
        yield f'treepool_pass_seconds{{quantile="{quantile}"}} {passes.get(key, 0):.10g}'
    for name, kind, help_text, key in _OF_QUEUES:
        yield from _head(name, kind, help_text)
        for queue, found in (numbers.get("queues") or {}).items():
            yield f'treepool_{name}{{queue="{_escaped(queue)}"}} {found[key]:.10g}'


def _head(name: str, kind: str, help_text: str) -> Iterator[str]:
    yield f"# HELP treepool_{name} {help_text}"
    yield f"# TYPE treepool_{name} {kind}"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
