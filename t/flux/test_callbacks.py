"""A message that breaks something is answered and logged: it does not end the module."""

import json
import time

import pytest

from broker import HERE, Failed, Instance, key_of

FAULTY = str(HERE / "flux/schedulers/sched-faulty.py")

#: Sends a new priority of a job. After ``flux job urgency`` the job manager submits the job anew.
PRIORITIZE = """
import sys, flux, flux.job
jobs = [[flux.job.JobID(sys.argv[1]), int(sys.argv[2])]]
flux.Flux().rpc("sched.prioritize", {"jobs": jobs}, flags=flux.constants.FLUX_RPC_NORESPONSE)
"""


@pytest.fixture(scope="module")
def two():
    with Instance(2, 120, 8, key_of("rfc49-cluster-a")) as instance:
        yield instance
        instance.cancel_all()


@pytest.fixture
def broken(two, request):
    """The scheduler, in which a method raises, once: ``CLASS.METHOD:NUMBER OF THE CALL``."""
    two.load("--name=sched-treepool", FAULTY, f"breaks={request.param}", "policy=easy")
    two.scheduler = "sched-treepool"
    yield two
    two.cancel_all()


def told(broken, what):
    """Whether the scheduler says in one line what is broken."""
    return broken.soon(lambda: f"RuntimeError: {what} is broken\\n\\x1b" in broken.log())


def lives(broken, what):
    """Whether the scheduler says what is broken, and starts jobs all the same."""
    assert told(broken, what), broken.log()
    broken.wait(broken.submit("-n1", "-t1m"), "alloc", timeout=10)
    return True


def full(broken):
    job = broken.submit("-N2", "-n2", "--exclusive", "-t10m")
    broken.wait(job, "alloc")
    return job


@pytest.mark.parametrize("broken", ["Queue.prioritize:1"], indirect=True)
def test_a_new_priority(broken):
    first = full(broken)
    waits = broken.submit("-N2", "-n2", "--exclusive")
    broken.settle()
    broken.flux("python", "-c", PRIORITIZE, waits, "20")
    assert told(broken, "Queue.prioritize"), broken.log()
    broken.flux("cancel", first, waits)
    assert lives(broken, "Queue.prioritize")


@pytest.mark.parametrize("broken", ["Queue.remove:1"], indirect=True)
def test_a_job_that_is_cancelled(broken):
    first = full(broken)
    waits = broken.submit("-N2", "-n2", "--exclusive")
    broken.settle()
    broken.flux("cancel", waits)
    broken.wait(waits, "clean")
    broken.flux("cancel", first)
    assert lives(broken, "Queue.remove")


@pytest.mark.parametrize("broken", ["TreepoolScheduler.free:1"], indirect=True)
def test_what_a_job_gives_back(broken):
    job = broken.submit("-n1")
    broken.wait(job, "alloc")
    broken.flux("cancel", job)
    broken.wait(job, "clean")
    assert lives(broken, "TreepoolScheduler.free")


@pytest.mark.parametrize("broken", ["TreepoolScheduler.alloc:1"], indirect=True)
def test_a_submission_which_is_told(broken):
    job = broken.submit("-n1")
    assert "Scheduler.alloc is broken" in broken.wait(job, "exception")["note"]
    assert lives(broken, "TreepoolScheduler.alloc")


@pytest.mark.parametrize("broken", ["Queue.add:1"], indirect=True)
def test_a_submission_that_breaks_the_queue_is_told(broken):
    job = broken.submit("-n1")
    assert "Queue.add is broken" in broken.wait(job, "exception")["note"]
    broken.wait(broken.submit("-n1", "-t1m"), "alloc", timeout=10)


@pytest.mark.parametrize("broken", ["Queue.run:2"], indirect=True)
def test_a_pass(broken):
    broken.wait(broken.submit("-n1"), "alloc")
    later = broken.submit("-n1")
    broken.wait(later, "alloc", timeout=10)
    assert lives(broken, "Queue.run")


@pytest.mark.parametrize("broken", ["Queue.set_windows:2"], indirect=True)
def test_a_window_which_is_answered(broken):
    add = ("treepool", "window", "add", "--hosts=fake0", "--duration=1h")
    done = broken.run(*add, "--start=+1h", "--name=one")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Queue.set_windows is broken" in done.stderr and len(done.stderr.splitlines()) == 1
    broken.flux(*add, "--start=+4h", "--name=two")
    for name in ("one", "two"):
        broken.flux("treepool", "window", "remove", name)
    assert lives(broken, "Queue.set_windows")


@pytest.mark.parametrize("broken", ["Queue.set_rules:1"], indirect=True)
def test_a_configuration_which_is_answered(broken):
    with pytest.raises(Failed, match=r"Queue\.set_rules is broken"):
        broken.flux("config", "load", stdin=json.dumps({"sched-treepool": {"policy": "fifo"}}))
    broken.flux("config", "load", stdin="{}")
    assert lives(broken, "Queue.set_rules")


@pytest.mark.parametrize("broken", ["Pool.mark_down:2"], indirect=True)
def test_a_node_that_goes_down(broken):
    broken.flux("resource", "drain", "0")
    time.sleep(0.2)
    broken.flux("resource", "undrain", "0")
    assert lives(broken, "Pool.mark_down")
