"""The jobs that a replay started, and how long they waited by account, queue and class of size."""

from __future__ import annotations

from typing import Any, Callable, Iterable

import attrs

from treepool.placement.allocation import Allocation
from treepool.view.jobs import Job
from treepool.view.tally import Waits
from treepool.view.trace import TraceJob


@attrs.frozen
class Started:
    """A job that started at ``start`` (seconds of the trace) on so many nodes, cores and GPUs."""

    job: TraceJob
    start: float
    nodes: int
    cores: int
    gpus: int

    @classmethod
    def of(cls, job: TraceJob, start: float, allocation: Allocation) -> Started:
        """*job*, which started with *allocation*."""
        held = Job.of(job.name, job.shape, allocation)
        return cls(job, start, len(held.ranks), held.ncores, held.ngpus)

    def to_dict(self) -> dict[str, Any]:
        """The job as a JSON object; times are those of the trace."""
        job = self.job
        return {
            "job": job.name,
            "queue": job.queue,
            "account": job.account,
            "submit": job.submit,
            "start": self.start,
            "end": self.start + job.runs,
            "nodes": self.nodes,
            "cores": self.cores,
            "gpus": self.gpus,
        }


#: What jobs can be grouped by, and the group of a job: a key to sort by, and a name.
GROUPS: dict[str, Callable[[Started], tuple[int, str]]] = {
    "account": lambda one: (0, one.job.account or "-"),
    "queue": lambda one: (0, one.job.queue or "-"),
    "size": lambda one: _class_of(one.cores, "core"),
    "gpus": lambda one: _class_of(one.gpus, "GPU"),
}


def waits_by(kind: str, started: Iterable[Started]) -> dict[str, Waits]:
    """How long the jobs of each group waited, in the order of the groups; *kind* is of GROUPS."""
    groups: dict[tuple[int, str], list[float]] = {}
    for one in started:
        groups.setdefault(GROUPS[kind](one), []).append(max(0.0, one.start - one.job.submit))
    return {name: Waits.of(waits) for (_, name), waits in sorted(groups.items())}


def _class_of(number: int, unit: str) -> tuple[int, str]:
    """The class of a *number*: none, 1, 2 to 4, 5 to 16, 17 to 64, ..."""
    most = 1
    while most < number:
        most *= 4
    if number < 2:
        return number, f"{number or 'no'} {unit}{'' if number == 1 else 's'}"
    return most, f"{most // 4 + 1}-{most} {unit}s"
