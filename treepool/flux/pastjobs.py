"""Which past jobs of an instance count (the latest that started), how many, what each asked for.

The list of jobs tells which they are, and job-info what each asked for, which guests may read of
their own jobs alone. ``treepool advise --mix-from instance`` is made from it.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from typing import Any, Callable, Generator, Mapping

import attrs

from treepool.placement.choose.pastmix import shape_of

#: Most jobs that are looked at, and most requests in flight.
MAX_JOBS, IN_FLIGHT = 10_000, 16

#: Longest answer with a jobspec that is read, in characters: users put whole files into jobspecs.
#: And the longest text of the resources in it.
_LONGEST, _LONGEST_RESOURCES = 1 << 17, 1 << 12

#: Sends a request to a service, and returns the future of its answer.
Send = Callable[[str, Mapping[str, Any]], Any]


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


def past_jobs(send: Send) -> Generator[Any, None, PastJobs]:
    """Ask for the past jobs with *send*. Yields the futures to wait for; raises OSError."""
    started = {"t_run": [">0"]}
    which = {"max_entries": MAX_JOBS, "attrs": [], "constraint": started}
    listed = send("job-list.list", which)
    yield listed
    jobs = deque(job["id"] for job in listed.get()["jobs"])
    past, asked = PastJobs(), deque[Any]()
    while jobs or asked:
        while jobs and len(asked) < IN_FLIGHT:
            lookup = {"id": jobs.popleft(), "keys": ["jobspec"], "flags": 0}
            asked.append(send("job-info.lookup", lookup))
        yield asked[0]
        try:
            past.add(asked.popleft().get_str())
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            past.unread += 1
    return past
