"""Preemption: which jobs may be ended for which others (RFC 14, ``preemptible-after``).

A job says so itself, or its Flux queue does in table ``[sched-treepool.queues.NAME]``. What a job
says counts more. Option ``preempt-by`` names the queues whose jobs may preempt. Imports no flux.
"""

from __future__ import annotations

import json
import math
from typing import Any, Mapping, Optional

import attrs

from treepool.errors import InvalidJobspec, InvalidOption
from treepool.flux.waitopt import wait
from treepool.placement.plan.jobs import Terms
from treepool.rfc.findings import shown
from treepool.rfc.queues import inner

#: The attribute of a job (in ``attributes.system``), and the option of a queue.
ATTRIBUTE = "preemptible-after"


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

    def of_running(self, jobspec: str, events: str, queues_of: Any) -> tuple[float, float]:
        """Since when a job runs by its *events*, and after how many seconds it is preemptible.

        A job whose jobspec or events cannot be read is never preempted.
        """
        if not self.after and ATTRIBUTE not in jobspec and ATTRIBUTE not in events:
            return 0.0, math.inf  # as of nearly all jobs, of which there may be tens of thousands
        try:
            spec, since = json.loads(jobspec), 0.0
            for line in events.split("\n"):
                event = json.loads(line) if '"alloc"' in line or '"jobspec-update"' in line else {}
                if event.get("name") == "alloc":
                    since = float(event["timestamp"])
                if event.get("name") == "jobspec-update":
                    for key in (ATTRIBUTE, "queue"):
                        update = f"attributes.system.{key}"
                        if update in event["context"]:
                            spec["attributes"]["system"][key] = event["context"][update]
            queue = str(inner(spec, "attributes", "system").get("queue") or "")
            return since, self.terms(spec, queues_of(queue)).after if since else math.inf
        except Exception:  # users write jobspecs and events
            return 0.0, math.inf


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
