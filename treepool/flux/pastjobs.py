"""Which past jobs of an instance count (the latest that started), how many, what each asked for.

The list of jobs tells which they are, and job-info what each asked for, which guests may read of
their own jobs alone. ``treepool advise --mix-from instance`` is made from it.
"""

from __future__ import annotations

import json
from collections import Counter, deque

import attrs

from treepool.flux.libflux import Broker, Future
from treepool.placement.choose.pastmix import shape_of

#: Most jobs that are looked at, and most requests in flight.
MAX_JOBS, IN_FLIGHT = 10_000, 16

#: Longest answer with a jobspec that is read, in characters: users put whole files into jobspecs.
#: And the longest text of the resources in it.
_LONGEST, _LONGEST_RESOURCES = 1 << 17, 1 << 12


@attrs.define
class PastJobs:
    """How often each shape was asked for; ``unread`` jobs could not be read."""

    counts: Counter[str] = attrs.field(factory=Counter)
    unread: int = 0
    #: The shapes by the text of the resources: most jobs ask for what others did.
    _shapes: dict[str, str] = attrs.field(factory=dict)

    def __len__(self) -> int:
        return sum(self.counts.values())

    def add(self, answer: str) -> None:
        """Count the job whose jobspec is in the *answer* of job-info; raises if it has none."""
        if len(answer) > _LONGEST:
            raise ValueError("the jobspec is too long")
        resources = json.loads(json.loads(answer)["jobspec"])["resources"]
        text = json.dumps(resources)
        if len(text) > _LONGEST_RESOURCES:
            raise ValueError("the resources are too long")
        if text not in self._shapes:
            self._shapes[text] = shape_of(resources)
        self.counts[self._shapes[text]] += 1


def past_jobs(handle: Broker) -> PastJobs:
    """Ask for the past jobs; raises OSError."""
    started = {"t_run": [">0"]}
    which = {"max_entries": MAX_JOBS, "attrs": [], "constraint": started}
    listed = handle.rpc("job-list.list", which, nodeid=0).get()["jobs"]
    jobs, asked, past = deque(job["id"] for job in listed), deque[Future](), PastJobs()
    while jobs or asked:
        while jobs and len(asked) < IN_FLIGHT:
            lookup = {"id": jobs.popleft(), "keys": ["jobspec"], "flags": 0}
            asked.append(handle.rpc("job-info.lookup", lookup, nodeid=0))
        try:
            past.add(asked.popleft().get_str())
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            past.unread += 1
    return past
