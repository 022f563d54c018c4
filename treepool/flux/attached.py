"""Whether the job manager still takes allocations: when it is asked, and what follows if not.

The job manager gives a scheduler up at an answer that it does not expect. It does not say so, and
keeps the connection: each later allocation comes back at once as a final free, and what is
annotated is lost. Without a check the scheduler would write an R for each job that waits, one after
another, on the same cores.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from treepool.flux.callbacks import then
from treepool.flux.context import Context
from treepool.flux.submissions import Submissions

#: The RPC that counts the requests that the job manager has sent and that have no answer.
ASKED = "job-manager.alloc-query"

#: What is logged once it has given the scheduler up.
_LOST = (
    "the job manager has given this scheduler up (its own messages say why): no job starts until "
    "the scheduler is loaded again (flux module reload sched-treepool)"
)

#: Seconds: a job that ends so soon after its start may have come back.
_SOON = 1.0


class Attached:
    """Asks the job manager when a job may have come back: has it forgotten one of *submissions*?"""

    def __init__(self, context: Context, submissions: Submissions) -> None:
        self._context = context
        self._submissions = submissions
        #: The jobs that started a moment ago, and when (monotonic seconds); some may have ended.
        self._young: set[int] = set()
        self._order: deque[tuple[float, int]] = deque()
        self._asking = False
        #: Whether the job manager takes no more allocations.
        self.lost = False

    def told(self, jobid: int) -> None:
        """The job manager is being told that job *jobid* has resources."""
        now = time.monotonic()
        while self._order and self._order[0][0] < now - _SOON:
            self._young.discard(self._order.popleft()[1])
        self._order.append((now, jobid))
        self._young.add(jobid)

    def ended(self, jobid: int) -> None:
        """Job *jobid* gives back the last of what it has."""
        waiting = self._submissions.last()
        if jobid not in self._young or waiting is None or self._asking or self.lost:
            return
        self._asking = True
        # What the job manager sent before its answer is in the inbox before the judgement.
        handle, put = self._context.handle, self._context.inbox.put
        then(handle, handle.rpc(ASKED), lambda answer: put(lambda: self._judge(answer, waiting)))

    def asked(self) -> None:
        """The job manager asks for an allocation: it has not given up."""
        self.lost = False

    def _judge(self, answer: Any, waiting: int) -> None:
        """The request of job *waiting* has no answer: has the job manager forgotten it?"""
        self._asking = False
        if answer.get()["alloc_pending"] == 0 and waiting in self._submissions:
            self.lost = True
            self._context.log.error(_LOST)
