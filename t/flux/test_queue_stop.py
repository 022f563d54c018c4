"""Stopping a queue cancels its pending requests one by one: no pass between two starts a job."""

import pytest

from broker import Instance

#: Jobs that only the first one of their queue holds back.
BEHIND = 40


@pytest.fixture
def two():
    """Two nodes of 32 cores; a job on one of them, one that needs both, and many that need none."""
    with Instance(2, 32, 0) as instance:
        instance.load("sched-treepool")
        instance.wait(instance.submit("-N1", "-n1", "-c1"), "alloc")
        instance.head = instance.submit("-N2", "-n2", "--exclusive")
        for _ in range(BEHIND):
            instance.last = instance.submit("-n1", "-c1")
        instance.settle()
        yield instance


def running(instance):
    instance.settle()
    return len(instance.flux("jobs", "-no", "{id}", "--filter=running").splitlines())


def test_a_job_that_the_first_one_holds_back_does_not_start_while_its_queue_is_stopped(two):
    for _ in range(3):
        assert running(two) == 1
        two.flux("queue", "stop", "--quiet")
        assert running(two) == 1
        two.flux("queue", "start", "--quiet")
    assert running(two) == 1


def test_jobs_start_after_the_one_that_held_them_back_was_cancelled(two):
    two.flux("cancel", two.head)
    two.wait(two.last, "alloc")
    assert running(two) == 1 + BEHIND
