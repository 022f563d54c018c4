"""Run by Flux's Python: checks of how tasks share the time, with a clock that stands still."""

import math
import time
from unittest.mock import Mock, patch

import checks
from flux.constants import FLUX_POLLIN

import TreePool  # noqa: F401 (makes treepool importable)
from treepool.flux.runner import Inbox, Runner


class Alone:
    """A reactor with nothing but timers, and a clock that goes on when one goes off."""

    def __init__(self):
        self.now, self.timers, self.messages, self.log = 1000.0, {}, 0, Mock()

    def timer_watcher_create(self, _after, callback):
        timer = Mock()
        timer.reset = lambda after: self.timers.update({timer: (self.now + after, callback)})
        timer.stop = lambda: self.timers.pop(timer, None)
        return timer

    def pollevents(self):
        return FLUX_POLLIN if self.messages else 0

    def run(self, until=math.inf):
        """Let timers go off, each at its time, and messages arrive, which take a millisecond."""
        with patch.object(time, "monotonic", lambda: self.now):
            while self.timers or self.messages:
                if self.messages:
                    self.messages, self.now = self.messages - 1, self.now + 0.001
                timer = min(self.timers, key=lambda t: self.timers[t][0], default=None)
                if timer is None or (self.messages and self.timers[timer][0] > self.now):
                    continue
                when, callback = self.timers[timer]
                if when > until:
                    break
                del self.timers[timer]
                self.now = max(self.now, when)
                callback()


class Turns:
    """Tasks of a runner, and who worked when; a step takes so many seconds.

    A turn has two."""

    def __init__(self):
        self.reactor, self.steps = Alone(), []
        self.runner = Runner(self.reactor, lambda: self.steps.append(("idle", self.reactor.now)))

    STEP = 0.0015

    def begin(self, name, waits=None, count=10**9, pause=0.0):
        """Begin a task of so many steps, each of which yields *waits*."""

        def work():
            for _ in range(count):
                self.reactor.now += self.STEP
                self.steps.append((name, self.reactor.now))
                yield waits

        task = self.runner.task(name, work, pause)
        with patch.object(time, "monotonic", lambda: self.reactor.now):
            task.wake()
        return task

    def until(self, seconds):
        self.reactor.run(self.reactor.now + seconds)

    def count(self, name):
        return sum(who == name for who, _ in self.steps)


def check_tasks_have_turns_of_equal_length():
    turns = Turns()
    for name in "abc":
        turns.begin(name)
    turns.until(1.0)
    assert "".join(who for who, _ in turns.steps).startswith(30 * "aabbcc")


def check_messages_go_first_but_every_task_has_a_turn_each_hundredth_of_a_second():
    turns = Turns()
    turns.begin("pass")
    turns.begin("annotations")
    turns.reactor.messages = 1000
    while turns.reactor.messages:
        turns.until(0.001)
    for name in ("pass", "annotations"):
        times = [when for who, when in turns.steps if who == name]
        assert 200 <= len(times) <= 350, "a turn of two steps in ten milliseconds of messages"
        assert max(later - when for when, later in zip(times, times[1:])) < 0.02


def check_a_task_that_pauses_has_its_share_and_no_more():
    turns = Turns()
    turns.begin("questions", waits=0.0, pause=3.0)
    turns.until(1.0)
    assert 0.24 <= turns.STEP * turns.count("questions") <= 0.26
    turns.begin("pass")
    turns.until(1.0)
    assert 0.7 <= turns.STEP * turns.count("pass") <= 0.85


def check_a_task_that_waits_goes_on_in_time_or_when_it_is_woken():
    turns = Turns()
    task = turns.begin("windows", waits=5.0)
    turns.until(1.0)
    assert turns.count("windows") == 1
    with patch.object(time, "monotonic", lambda: turns.reactor.now):
        task.wake(1.0)
    turns.until(1.1)
    assert turns.count("windows") == 2
    turns.until(5.1)
    assert turns.count("windows") == 3


def check_work_that_fails_is_told_and_begun_anew_a_second_later_while_others_go_on():
    turns, times = Turns(), []

    def work():
        times.append(turns.reactor.now)
        raise RuntimeError("broken")
        yield

    task = turns.runner.task("pass", work)
    with patch.object(time, "monotonic", lambda: turns.reactor.now):
        task.wake()
    turns.begin("inbox", count=100)
    turns.until(2.5)
    assert turns.count("inbox") == 100
    assert [round(when - times[0]) for when in times] == [0, 1, 2]
    assert "pass (running.py:" in turns.reactor.log.call_args.args[1]


def check_what_is_put_into_the_inbox_is_done_once_and_in_order():
    reactor, done, changed = Alone(), [], Mock()
    inbox = Inbox(reactor, Runner(reactor, Mock()), changed)
    left = iter([True, True, False])
    inbox.put(lambda: [done.append("part"), next(left)][1])
    inbox.put(lambda: done.append("last"))
    assert done == []
    asked = inbox.emptied()
    next(asked)
    inbox.put(lambda: done.append("later"))
    reactor.run()
    assert done == ["part", "part", "part", "last", "later"]
    assert not list(asked)
    assert changed.called


if __name__ == "__main__":
    checks.run(globals())
