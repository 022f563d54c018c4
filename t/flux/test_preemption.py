"""Preemptible jobs in a real broker: who ends, for whom, what both are told, after a reload."""

import json

import pytest

from broker import Instance

#: Jobs of queue standby may be ended at once; those of queue trial end nobody.
CONF = [
    "queues.batch.requires=[]",
    "queues.standby.requires=[]",
    "queues.trial.requires=[]",
    'sched-treepool.queues.standby.preemptible-after="0s"',
    'sched-treepool.preempt-by=["batch"]',
]


@pytest.fixture(scope="module")
def shared():
    """Two nodes of 4 cores, with policy easy."""
    with Instance(2, 4, 0, conf=CONF) as instance:
        instance.load("sched-treepool", "policy=easy")
        instance.flux("queue", "start", "--all", "--quiet")
        yield instance


@pytest.fixture
def instance(shared):
    yield shared
    shared.cancel_all()


def submit(instance, queue, *words, **more):
    return instance.submit(f"--queue={queue}", "-n1", "-c4", *words, **more)


def ended(instance, job):
    """The exception with which *job* ended."""
    instance.wait(job, "clean")
    return instance.wait(job, "exception")


def full(instance, *words):
    """Jobs of queue standby that hold both nodes, the second one younger."""
    first = submit(instance, "standby", *words)
    instance.wait(first, "alloc")
    second = submit(instance, "standby", *words)
    instance.wait(second, "alloc")
    return first, second


def test_the_younger_of_two_ends_and_both_are_told(instance):
    first, second = full(instance)
    wants = submit(instance, "batch")
    said = ended(instance, second)
    assert (said["type"], said["severity"]) == ("preempt", 0)
    assert said["note"] == f"preempted by {wants} of queue batch"
    instance.wait(wants, "alloc")
    assert instance.state(first) == "R"
    assert instance.annotation(wants, "preempts") == second


def test_a_job_of_a_queue_that_may_not_preempt_waits(instance):
    _, second = full(instance)
    wants = submit(instance, "trial")
    instance.settle()
    assert instance.state(wants) == "S"
    also = submit(instance, "batch")
    ended(instance, second)
    instance.wait(also, "alloc")
    assert instance.state(wants) == "S"


def test_a_job_says_it_itself_and_what_it_says_counts_more_than_its_queue(instance):
    safe = submit(instance, "standby", "--setattr=preemptible-after=3600")
    instance.wait(safe, "alloc")
    short = submit(instance, "batch", "--setattr=preemptible-after=0")
    instance.wait(short, "alloc")
    submit(instance, "batch")
    assert ended(instance, short)["type"] == "preempt"
    assert instance.state(safe) == "R"


def test_what_is_no_time_is_refused(instance):
    job = submit(instance, "batch", "--setattr=preemptible-after=soon")
    note = instance.wait(job, "exception")["note"]
    assert note == (
        "/attributes/system/preemptible-after: 'soon' is not a time such as 10m, 1.5h or 90s"
    )


def test_after_a_reload_it_is_known_which_jobs_are_preemptible(instance):
    first, second = full(instance)
    instance.flux("module", "reload", "sched-treepool", "policy=easy")
    instance.flux("queue", "start", "--all", "--quiet")
    submit(instance, "batch")
    assert ended(instance, second)["type"] == "preempt"
    assert instance.state(first) == "R"


def test_numbers_count_them(instance):
    before = numbers(instance)
    _, second = full(instance)
    submit(instance, "batch")
    ended(instance, second)
    assert numbers(instance) == before + 1


def numbers(instance):
    said = json.loads(instance.flux("module", "stats", "sched-treepool"))
    return said["jobs"]["preempted"]
