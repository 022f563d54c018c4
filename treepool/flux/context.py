"""What the parts of the scheduler module share, see sched.py. Imports no flux."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from treepool.flux.config import Configuration
from treepool.flux.numbers import Numbers
from treepool.placement.plan.queue import Queue
from treepool.placement.pool import Pool

if TYPE_CHECKING:  # they import flux
    from treepool.flux.runner import Inbox, Runner

#: The user of a job, its Flux queue and its bank, "" for none.
Origin = tuple[int, str, str]


@attrs.frozen(eq=False)
class Context:
    """The module as its parts see it, from when there is a pool.

    ``handle`` and ``log`` are those of flux-core's Scheduler. ``inbox`` does in their order what
    the job manager told, and whatever belongs between that. ``origins`` are those of the jobs that
    have resources, by id.
    """

    handle: Any
    log: Any
    runner: Runner
    inbox: Inbox
    queue: Queue
    configuration: Configuration
    numbers: Numbers
    origins: dict[int, Origin]

    @property
    def pool(self) -> Pool:
        """The pool of the instance."""
        return self.queue.pool
