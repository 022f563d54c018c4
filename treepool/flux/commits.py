"""flux-core's scheduler, which ends only when the job manager knows all that it has allocated.

Otherwise the KVS could hold an R of a job that the job manager does not know of. It would find that
R after a restart, and refuse the job's allocation from then on.
"""

from __future__ import annotations

from typing import Any

from flux.scheduler import Scheduler

from treepool.flux.callbacks import Timer
from treepool.flux.garbage import let_go

#: Seconds that the module waits at unload for allocations that are being written.
_LAST_WORDS = 10.0


class Committer(Scheduler):  # type: ignore[misc]  # flux has no types
    """Counts the allocations that are being written to the KVS."""

    def __init__(self, h: Any, *args: str) -> None:
        super().__init__(h, *args)
        self._committing = 0
        #: Whether this module is being unloaded.
        self.ending = False

    def end(self) -> None:
        """The module is being unloaded: refuse what it has not answered."""

    def run(self) -> None:
        """Run the module until it is unloaded and no allocation is on its way."""
        super().run()
        self.ending = True
        self.end()
        if self._committing:
            stop = Timer(self.handle, self.stop)
            stop.set(_LAST_WORDS)
            self.handle.reactor_run()
            stop.stop()

    def alloc_success(self, msg: Any, R: Any, annotations: Any = None) -> None:
        """Write a job's R to the KVS, then tell the job manager."""
        super().alloc_success(msg, R, annotations)
        self._committing += 1

    def _alloc_commit_continuation(self, future: Any, args: Any) -> None:  # no hook: counted
        super()._alloc_commit_continuation(future, args)
        let_go(future)
        self._committing -= 1
        if self.ending and not self._committing:
            self.stop()
