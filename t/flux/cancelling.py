"""Run by Flux's Python: checks of how a scheduler without a broker waits for all cancels."""

from unittest.mock import Mock, patch

import checks
from steps import Alone, scheduler_of_two_jobs

from treepool.flux.runner import Inbox, Precedence, Runner


class Cancelled:
    """A scheduler that is told to cancel jobs it does not have; ``passes`` counts its passes."""

    def __init__(self):
        self.passes, self.answers = 0, []
        scheduler = self.scheduler = scheduler_of_two_jobs()
        scheduler._h = Mock(rpc=lambda topic: Mock(then=self.answers.append), pollevents=lambda: 0)
        scheduler._asking = False
        scheduler._cancels = Precedence(5.0)
        self.reactor = Alone()
        scheduler.inbox = Inbox(self.reactor, Runner(self.reactor, Mock()), Mock())
        scheduler._intake.held.cancel = Mock(return_value=None)
        scheduler.queue.run = self.run

    def run(self):
        self.passes += 1
        yield

    def cancel(self):
        """A request to cancel arrives."""
        self.scheduler._handle_cancel(Mock(topic="sched.cancel", payload={"id": 99}))

    def answer(self):
        """The job manager says that all it had to cancel has been sent."""
        self.answers.pop(0)(Mock())

    def empty(self):
        self.reactor.run()

    def has_passed(self):
        """Whether a pass may come now."""
        before = self.passes
        list(self.scheduler.schedule())
        return self.passes > before


def check_jobs_that_are_cancelled_after_others_but_before_these_are_done_hold_passes_back():
    case = Cancelled()
    case.cancel()
    case.answer()  # it waits in the inbox, behind the cancel
    case.cancel()
    assert len(case.answers) == 1
    case.empty()
    assert not case.has_passed()  # more of the second series may come
    case.answer()
    assert not case.has_passed()
    case.empty()
    assert case.has_passed()


def check_who_always_cancels_takes_half_of_the_time_from_passes_and_no_more():
    case, now, passed = Cancelled(), [1000.0], []
    with patch("treepool.flux.runner.time.monotonic", lambda: now[0]):
        for _ in range(200):
            now[0] += 0.1
            case.cancel()
            case.answer()
            case.cancel()
            case.empty()
            passed.append(case.has_passed())
    assert case.scheduler.cancelling
    assert 80 <= sum(passed) <= 120, passed


if __name__ == "__main__":
    checks.run(globals())
