"""Preemption: which jobs may be ended for which others (RFC 14, ``preemptible-after``).

A job says so itself, or its Flux queue does in table ``[sched-treepool.queues.NAME]``. What a job
says counts more. Option ``preempt-by`` names the queues whose jobs may preempt. Imports no flux.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import Any, Mapping, Optional

import attrs

from treepool.errors import InvalidJobspec, InvalidOption
from treepool.flux.waitopt import wait
from treepool.placement.plan.jobs import Terms
from treepool.rfc.findings import shown
from treepool.rfc.queues import inner

#: The attribute of a job (in ``attributes.system``), and the option of a queue.
ATTRIBUTE = "preemptible-after"

#: What matters of a job that runs: where, for whom, and whether others may end it.
_KEPT = "queue", "bank", ATTRIBUTE


@attrs.frozen
class Preemption:
    """By queue, after how many seconds its jobs are preemptible; the queues ``by`` whose jobs
    others may be preempted, None for all."""

    after: Mapping[str, float] = attrs.field(factory=dict)
    by: Optional[frozenset[str]] = None

    def terms(self, jobspec: object, queues: tuple[str, ...]) -> Terms:
        """The terms of a job of *queues*, its own last. Raises InvalidJobspec."""
        system = inner(jobspec, "attributes", "system")
        after = math.inf
        for queue in queues:
            after = self.after.get(queue, after)
        if ATTRIBUTE in system:
            after = _seconds(system[ATTRIBUTE])
        allowed = self.by is None or not self.by.isdisjoint(queues)
        return Terms(after, allowed and after == math.inf)

    def of_running(self, started: Started, queues: tuple[str, ...]) -> tuple[float, float]:
        """Since when a job of *queues* runs, and after how many seconds it is preemptible.

        A job of which that cannot be read is never preempted.
        """
        after = math.inf
        with suppress(InvalidJobspec):
            after = self.terms({"attributes": {"system": started.system}}, queues).after
        return started.since, after if started.since else math.inf


@attrs.frozen
class Started:
    """What is kept of a job that runs: ``attributes.system`` of its jobspec, as far as it matters,
    and since when it runs (0: not known)."""

    system: Mapping[str, Any] = attrs.field(factory=dict)
    since: float = 0.0

    @classmethod
    def read(cls, jobspec: str, events: str) -> Started:
        """A job by the texts of its *jobspec* and *events*; nothing if they cannot be read."""
        if not any(f'"{key}"' in jobspec or f"system.{key}" in events for key in _KEPT):
            return cls()  # as of nearly all jobs, of which there may be tens of thousands
        try:
            system, since = dict(inner(json.loads(jobspec), "attributes", "system")), 0.0
            for line in events.split("\n"):
                event = json.loads(line) if '"alloc"' in line or '"jobspec-update"' in line else {}
                if event.get("name") == "alloc":
                    since = float(event["timestamp"])
                if event.get("name") == "jobspec-update":
                    prefix = "attributes.system."
                    updates = {key: event["context"].get(prefix + key) for key in _KEPT}
                    system.update((key, it) for key, it in updates.items() if it is not None)
            return cls({key: system[key] for key in _KEPT if key in system}, since)
        except Exception:  # users write jobspecs and events
            return cls()

    @property
    def queue(self) -> str:
        """Its Flux queue, "" if it is in none."""
        return str(self.system.get("queue") or "")

    @property
    def bank(self) -> str:
        """Its bank, "" if it has none."""
        return str(self.system.get("bank") or "")


def duration(text: str) -> float:
    """The seconds in *text*, a number alone (as in RFC 14) or with a unit; raises InvalidOption."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = wait(text)
    if not 0 <= seconds < math.inf:
        raise InvalidOption(f"{shown(text)} is not a time such as 10m, 1.5h or 90s")
    return seconds


def _seconds(value: object) -> float:
    try:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise InvalidOption(f"must be a number of seconds, not {shown(value)}")
        return duration(str(value))
    except (InvalidOption, OverflowError) as e:
        raise InvalidJobspec(f"/attributes/system/{ATTRIBUTE}: {e}") from None
