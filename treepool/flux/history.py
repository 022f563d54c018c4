"""The option ``mix = "history"``: when past jobs are read, and what the log says of their mix.

They are read once, in a task that works for a quarter of the time at most. The mix then stays until
the module or the configuration is reloaded: what a job gets does not depend on who looked when.
"""

from __future__ import annotations

from typing import Any, Callable, Generator, Mapping, Optional

from treepool.flux.callbacks import then
from treepool.flux.pastjobs import PastJobs, past_jobs
from treepool.flux.runner import Runner, Work
from treepool.placement.choose.pastmix import past_mix
from treepool.placement.pool import Pool

#: How long reading pauses, as a multiple of the work.
_PAUSE = 3

#: Seconds between two tries to get a list of the jobs, and how many there are: the module that has
#: it may be loaded later than this one.
_AGAIN, _TRIES = 1.0, 60

#: Seconds for which a task waits that is woken when something comes.
_LONG = 60.0


class History:
    """Reads the past jobs, and tells *found* the mix of those that the nodes of *pool* serve."""

    def __init__(
        self, handle: Any, log: Any, runner: Runner, pool: Pool, found: Callable[[str], None]
    ) -> None:
        self._handle = handle
        self._log = log
        self._pool = pool
        self._found = found
        self._task = runner.task("history", self._work, _PAUSE)
        self._wanted = False
        #: Whether the past jobs were ever asked for.
        self.begun = False

    def read(self) -> None:
        """Begin to read."""
        self._wanted = self.begun = True
        self._task.wake()

    def _work(self) -> Work:
        while self._wanted:
            self._wanted = False
            yield from self._read()

    def _read(self) -> Work:
        for tries in range(_TRIES):
            try:
                past = yield from self._past()
                break
            except OSError as e:
                if not tries:
                    self._log.info(f"mix: past jobs are not known yet: {e.strerror or e}")
                yield _AGAIN
        else:
            self._log.error("mix: past jobs are not known, nobody answers")
            return
        mix = yield from past_mix(past.counts, self._pool.inventory)
        jobs = f"{len(past)} past jobs" + f" ({past.unread} more unreadable)" * (past.unread > 0)
        if mix.kinds:
            self._log.info(f'mix: of {jobs}, {mix}: "{mix.text}"')
        else:
            self._log.info(f"mix: none, as none of {jobs} asked for GPUs that are here")
        self._found(mix.text)

    def _past(self) -> Generator[Optional[float], None, PastJobs]:
        work = past_jobs(self._send)
        while True:
            try:
                future = next(work)
            except StopIteration as e:
                past: PastJobs = e.value
                return past
            while not future.is_ready():
                yield _LONG
            yield None

    def _send(self, topic: str, payload: Mapping[str, Any]) -> Any:
        future = self._handle.rpc(topic, payload)
        then(self._handle, future, lambda _: self._task.wake())
        return future
