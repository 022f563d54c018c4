"""What happens to jobs that wait when something about them changes."""

import json
import time

import pytest

HOUR = 3600


@pytest.fixture(params=["fifo", "easy", "conservative"])
def waiting(small, request):
    """An instance in which a job has one of two nodes, and the next job needs both."""
    small.load("sched-treepool", f"policy={request.param}")
    small.policy = request.param
    small.first = small.submit("-t1h", "-N1", "-n1", "--exclusive", "--requires=rank:0")
    small.wait(small.first, "alloc")
    small.head = small.submit("-t1h", "-N2", "-n2", "--exclusive")
    small.settle()
    yield small
    small.run("queue", "start", "--all")
    small.cancel_all()


def estimate(instance, job):
    """In how many hours from now *job* says that it will start, rounded; None if it does not."""
    said = instance.annotation(job, "t_estimate")
    return round((float(said) - time.time()) / HOUR) if said else None


def test_the_next_job_has_what_was_kept_for_one_that_is_cancelled(waiting):
    job = waiting.submit("-t10h", "-n1")
    waiting.settle()
    assert waiting.state(job) == "S"
    waiting.flux("cancel", waiting.head)
    assert waiting.placed(job) == [("1", "0", "")]
    assert estimate(waiting, job) is None


def test_one_that_is_overtaken_has_a_later_estimate(waiting):
    assert estimate(waiting, waiting.head) == 1
    other = waiting.submit("-t2h", "-N2", "-n2", "--exclusive", "--urgency=31")
    assert waiting.soon(lambda: estimate(waiting, other) == 1)
    assert waiting.soon(lambda: estimate(waiting, waiting.head) == 3)
    waiting.flux("cancel", other)
    assert waiting.soon(lambda: estimate(waiting, waiting.head) == 1)


def test_one_that_is_held_holds_nobody_and_loses_its_estimate(waiting):
    waiting.flux("job", "urgency", waiting.head, "hold")
    job = waiting.submit("-t10h", "-n1")
    assert waiting.placed(job) == [("1", "0", "")]
    assert estimate(waiting, waiting.head) is None
    waiting.flux("cancel", waiting.first)
    waiting.flux("cancel", job)
    waiting.flux("job", "urgency", waiting.head, "16")
    assert waiting.placed(waiting.head) == [("0-1", "0-7", "0-1")]


def test_a_time_limit_made_shorter_counts(waiting):
    job = waiting.submit("-t10h", "-n1")
    waiting.settle()
    assert waiting.state(job) == "S"
    waiting.flux("update", job, "duration=10m")
    waiting.settle()
    assert waiting.state(job) == ("S" if waiting.policy == "fifo" else "R")


def test_a_running_job_that_gets_a_minute_ends_a_minute_later(waiting):
    had = waiting.R(waiting.first)["execution"]
    assert had["expiration"] == had["starttime"] + HOUR
    waiting.flux("update", waiting.first, "duration=+1m")
    changes = waiting.flux("job", "eventlog", "--format=json", waiting.first).splitlines()
    [change] = [json.loads(line) for line in changes if "resource-update" in line]
    assert change["context"]["expiration"] == had["expiration"] + 60


def test_a_queue_that_is_stopped_and_started_again_goes_on(waiting):
    waiting.flux("queue", "stop", "--all")
    waiting.flux("cancel", waiting.first)
    waiting.wait(waiting.first, "clean")
    assert waiting.soon(lambda: waiting.stats()["pending_jobs"] == 0)
    waiting.settle()
    assert waiting.state(waiting.head) == "S"
    waiting.flux("queue", "start", "--all")
    assert waiting.placed(waiting.head) == [("0-1", "0-7", "0-1")]


def test_a_running_job_that_never_ends_any_more_takes_the_estimate_away(waiting):
    waiting.flux("update", waiting.first, "duration=0")
    assert waiting.soon(lambda: estimate(waiting, waiting.head) is None)
    waiting.flux("cancel", waiting.first)
    waiting.wait(waiting.head, "alloc")


def test_many_jobs_cancelled_while_they_start_leave_nothing_behind(waiting):
    waiting.flux("cancel", waiting.first, waiting.head)
    simulated = "--setattr=system.exec.test.run_duration=1h"
    waiting.flux("submit", simulated, "--cc=1-60", "-t1h", "-n1", "-c2", "true")
    waiting.cancel_all()
    assert waiting.soon(lambda: waiting.resources("allocated") == (0, 0, 0))
    stats = waiting.stats()
    assert (stats["running_jobs"], stats["pending_jobs"]) == (0, 0)
    assert waiting.resources("free") == (2, 16, 4)
