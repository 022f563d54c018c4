"""What a running job has and the scheduler cannot read is nobody else's until the job is over."""

import json
import subprocess

import pytest

from schemas import conforms


@pytest.fixture(autouse=True)
def loaded(four):
    four.load("sched-treepool")
    yield
    four.cancel_all()


def lose_R(four, job):
    """Let the KVS have no R of *job*."""
    four.flux("kvs", "unlink", f"{four.flux('job', 'id', '--to=kvs', job)}.R")


def running(four, *words):
    job = four.submit(*words)
    four.wait(job, "alloc")
    return job


def test_a_job_whose_R_says_that_it_has_what_another_has(four):
    # Both are damaged: the first R is gone, the second one says what the first job has.
    first, second = (running(four, "-N1", "-n1", "--exclusive") for _ in range(2))
    R = four.R(first)
    lose_R(four, first)
    four.set_R(second, json.dumps(R))
    four.load("sched-treepool")
    both = four.submit("-N3", "-n3", "--exclusive")
    assert four.waits(both)
    four.flux("cancel", second)
    assert four.placed(both) == [("1-3", "0-7", "0-1")]
    assert four.state(first) == "R"
    other = four.submit("-n1")
    assert four.waits(other)
    four.flux("cancel", first)
    assert four.placed(other) == [("0", "0", "")]


def test_the_nodes_of_a_job_that_ends_because_of_a_reload_outlast_another_reload(four):
    stubborn = "trap '' TERM; for i in $(seq 12); do sleep 0.5; done"
    job = four.flux("submit", "-N1", "-n1", "--exclusive", "sh", "-c", stubborn)
    four.wait(job, "shell.start", path="guest.exec.eventlog")
    R = four.R(job)
    R["execution"]["R_lite"][0]["children"]["core"] = "0-99"
    four.set_R(job, json.dumps(R))
    four.load("sched-treepool")
    assert "reallocate" in four.wait(job, "exception")["note"]
    after = four.submit("-N4", "-n4", "--exclusive")
    four.load("sched-treepool")
    assert four.waits(after)
    four.wait(after, "alloc", timeout=40)
    assert four.flux("jobs", "-no", "{state}", job) == "INACTIVE"


def held_back(four):
    """A job whose node is held back because its R is gone, and how often hello was said by then."""
    job = running(four, "-N1", "-n1", "--exclusive")
    lose_R(four, job)
    four.load("sched-treepool")
    assert four.soon(lambda: "held back: rank0/core[0-7],gpu[0-1]" in four.ready())
    return job, four.log().count("scheduler: hello")


def test_jobs_that_come_and_go_do_not_keep_back_what_is_free_again(four):
    job, hellos = held_back(four)
    held = "fake0/core[0-7],gpu[0-1]"
    lines = four.flux("treepool", "status").splitlines()
    assert f"held back for jobs whose R cannot be read: {held}" in lines
    facts = [json.loads(line) for line in four.flux("treepool", "status", "--json").splitlines()]
    (told,) = (fact for fact in facts if "held_back" in fact)
    conforms(told, "status-held-back")
    four.flux("cancel", job)
    short = "--setattr=system.exec.test.run_duration=0.1s"
    script = f"for i in $(seq 60); do flux submit --quiet --wait {short} -n1 true; done"
    others = subprocess.Popen(["sh", "-c", script], env=four.env)
    try:
        given_back = four.soon(lambda: "nothing is held back any more" in four.log(), 15)
        assert given_back and others.poll() is None
        assert four.log().count("scheduler: hello") <= hellos + 1
    finally:
        others.kill()
        others.wait()
