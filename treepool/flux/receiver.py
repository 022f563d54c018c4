"""flux-core's scheduler, whose requests by the job manager wait in an inbox.

flux-core's class acts on each request when it arrives. Here it is only put into the inbox, so that
questions that come behind a thousand of them are answered soon.
"""

from __future__ import annotations

from typing import Any, Callable

from flux.scheduler import AllocRequest

from treepool.flux import nesting
from treepool.flux.callbacks import then
from treepool.flux.commits import Committer
from treepool.flux.hello import held_of
from treepool.flux.runner import Inbox, Runner


class Receiver(Committer):
    """Calls ``alloc``, ``free``, ``cancel`` and ``prioritize`` in the order of the requests."""

    def __init__(self, h: Any, *args: str) -> None:
        nesting.allow()  # a request that cannot be read ends the module
        super().__init__(h, *args)
        self.runner = Runner(h, self.idle)
        self.inbox = Inbox(h, self.runner, self.start_schedule)
        #: How many series of requests to cancel are not done yet: no job may start.
        self.cancelling = 0
        #: Whether more of the last series may be on their way.
        self._asking = False

    def idle(self) -> None:
        """Nothing is left to do now."""

    def _handle_alloc(self, msg: Any) -> None:  # no hook: acted on later
        self._act_later(self._take_alloc, msg)

    def _handle_free(self, msg: Any) -> None:  # no hook
        self._act_later(self._take_free, msg)

    def _handle_cancel(self, msg: Any) -> None:  # no hook
        self._await_cancels()
        self._act_later(lambda _, told: self.cancel(told["id"]), msg)

    def _handle_prioritize(self, msg: Any) -> None:  # no hook
        self._act_later(lambda _, told: self.prioritize(told.get("jobs", [])), msg)

    def _act_later(self, act: Callable[[Any, Any], None], msg: Any) -> None:
        self.inbox.put(lambda: act(msg, msg.payload))

    def _take_alloc(self, msg: Any, told: Any) -> None:
        names = "id", "priority", "userid", "t_submit", "jobspec"
        request = AllocRequest(self, msg)
        try:
            self.alloc(request, *(told[name] for name in names))
        except Exception as e:
            request.deny(f"the scheduler failed on this job: {e}")
            raise

    def _take_free(self, msg: Any, told: Any) -> None:
        self.free(told["id"], held_of(told["R"]["execution"]), told.get("final", False))

    def _await_cancels(self) -> None:
        """Start no job until the job manager has sent all it cancels now.

        When a queue is stopped, the job manager cancels one pending request after another. A pass
        between two of them would start jobs that those cancelled first were holding back. All
        arrive before the answer to a question that is asked now. Those that arrive after the answer
        are another series, even if the first one still waits in the inbox.
        """
        if not self._asking:
            self._asking = True
            self.cancelling += 1
            then(self.handle, self.handle.rpc("job-manager.getinfo"), self._on_cancels)

    def _on_cancels(self, _future: Any) -> None:
        self._asking = False
        self.inbox.put(self._end_cancels)

    def _end_cancels(self) -> None:
        self.cancelling -= 1
