"""A crash between an R and its event, and errors of treepool's own, end no job that runs."""

import json
from collections import Counter

import pytest

from broker import Instance

#: As in a system instance, jobs outlive the instance.
OUTLIVE = {"FLUX_DISABLE_JOB_CLEANUP": "1"}

DENIED = "a scheduler that crashed has written its R"

#: Is the scheduler's peer for a moment: when it leaves, the job manager takes no more allocations.
INTRUDER = (
    "import flux; flux.Flux().rpc('job-manager.sched-ready', {'mode': 'unlimited'}, nodeid=0).get()"
)

#: How many jobs have an R, and how many of these the event that goes with it.
COUNT = """
import flux
from flux.job import JobID, job_list
handle, jobs, allocated = flux.Flux(), 0, 0
for job in job_list(handle, max_entries=0, attrs=["state"]).get_jobs():
    try:
        flux.kvs.get(handle, JobID(job["id"]).kvs + ".R")
    except OSError:
        continue
    asked = {"id": job["id"], "keys": ["eventlog"], "flags": 0}
    jobs += 1
    allocated += '"alloc"' in handle.rpc("job-info.lookup", asked).get()["eventlog"]
print(jobs, allocated)
"""

#: Loads sched-treepool with one line of Python in it that breaks something.
PLANTED = """
import flux.scheduler
import TreePool  # makes treepool importable
{}
from treepool.flux.sched import mod_main
"""


def R_of(cores):
    """What a crash leaves that comes before the job manager is told."""
    children = {"core": cores}
    execution = {"R_lite": [{"rank": "0", "children": children}], "nodelist": ["n0"]}
    return json.dumps({"version": 1, "execution": {**execution, "starttime": 0, "expiration": 0}})


def submit_many(instance, number, seconds=0.1):
    simulated = f"--setattr=system.exec.test.run_duration={seconds}s"
    instance.flux("submit", "--quiet", f"--cc=1-{number}", simulated, "-n1", "true")


def with_R(instance):
    """How many jobs have an R, and how many of these were allocated."""
    return tuple(map(int, instance.flux("python", "-c", COUNT).split()))


def ended(instance):
    """How many jobs ended in which way."""
    return Counter(instance.flux("jobs", "-a", "-c0", "-no", "{status}").split())


@pytest.fixture
def crashed(tmp_path):
    """Starts an instance of eight cores again in which jobs wait of which some have an R already.

    Gets the cores in these Rs, and how many other jobs there are; returns the jobs with an R.
    """
    options = [f"-Sstatedir={tmp_path}"]
    begun = []

    def start(cores, others):
        with Instance(1, 8, 0, env=OUTLIVE, options=options) as before:
            before.flux("queue", "stop", "--quiet")
            bad = [before.submit("-n1") for _ in cores]
            if others:
                submit_many(before, others)
            for job, ids in zip(bad, cores):
                before.set_R(job, R_of(ids))
        after = Instance(1, 8, 0, env=OUTLIVE, options=options)
        begun.append(after)
        after.load("sched-treepool")
        return after, bad

    yield start
    for instance in begun:
        instance.cancel_all()
        instance.close()


def test_a_job_that_has_an_R_already_is_denied_and_all_others_run(crashed):
    instance, bad = crashed(["0", "0", "0-3", "2-5", "9"], 40)
    instance.flux("queue", "start", "--quiet")
    for job in bad:
        assert DENIED in instance.wait(job, "exception")["note"]
    instance.flux("queue", "drain", "--timeout=30")
    assert ended(instance) == {"COMPLETED": 40, "FAILED": len(bad)}
    assert instance.soon(lambda: instance.resources("free") == (1, 8, 0))


def test_a_scheduler_that_the_job_manager_has_given_up_starts_nothing_and_says_so():
    with Instance(1, 8, 0) as instance:
        instance.load("sched-treepool")
        instance.flux("resource", "drain", "0")
        submit_many(instance, 60)
        last = instance.submit("-n1")
        assert instance.waits(last)
        instance.flux("python", "-c", INTRUDER)
        instance.flux("resource", "undrain", "0")
        assert instance.soon(lambda: "has given this scheduler up" in instance.log())
        jobs, _ = with_R(instance)
        assert 0 < jobs < 30, "it stopped soon"
        said = instance.run("treepool", "explain", last).stdout
        assert "the job manager has given the scheduler up" in said
        assert "flux module reload sched-treepool" in said
        said = instance.run("treepool", "explain", "--instance", "slot/core=1").stdout
        assert "the job manager has given the scheduler up" in said
        assert "the job manager has given the scheduler up" in instance.flux("treepool", "status")
        instance.load("sched-treepool")
        instance.wait(last, "alloc")
        instance.flux("cancel", last)
        instance.flux("queue", "drain", "--timeout=30")
        assert ended(instance) == {"COMPLETED": 60, "CANCELED": 1}


@pytest.fixture
def planted(small, idle, tmp_path):
    """Loads a broken sched-treepool while a job runs, which must go on; returns the instance."""
    small.load("sched-treepool")
    small.first = small.submit("-n1")
    small.wait(small.first, "alloc")

    def load(line):
        script = tmp_path / "planted.py"
        script.write_text(PLANTED.format(line))
        small.flux("module", "remove", "sched-treepool")
        small.flux("dmesg", "-C")
        small.run("module", "load", "--name=sched-treepool", script)
        return small

    yield load
    if "sched-treepool" in small.flux("module", "list"):
        small.flux("module", "remove", "sched-treepool")
    assert small.state(small.first) == "R", "no job ends because treepool fails"
    small.load("sched-treepool")
    job = small.submit("-n1")
    small.wait(job, "alloc")
    assert small.placed(job) != small.placed(small.first)


FOLLOW = "import treepool.placement.plan.queue as q; q.Queue.follow = lambda self: {}['planted']"
ASK = "import treepool.flux.heldback as h; h.HeldBack.ask = lambda *_: {}['planted']"
UNWRITTEN = "flux.scheduler.kvs_commit_async = lambda h, _kvstxn: h.rpc('kvs.none')"
RENAMED = (
    "S = flux.scheduler.Scheduler; S._acquire = S._acquire_resources; del S._acquire_resources"
)


@pytest.mark.parametrize("line", [FOLLOW, ASK], ids=["follow", "ask"])
def test_an_error_of_treepool_at_its_load_ends_the_module_alone(planted, line):
    instance = planted(line)
    assert instance.soon(lambda: "sched-treepool" not in instance.flux("module", "list"))
    assert "jobs run on" in instance.log() and "KeyError: 'planted'" in instance.log()
    assert "scheduler-restart" not in instance.flux("job", "eventlog", instance.first)


def test_a_KVS_that_takes_no_R_ends_the_module_alone_however_many_jobs_start(planted):
    instance = planted(UNWRITTEN)
    instance.flux("queue", "stop", "--quiet")
    submit_many(instance, 3)
    instance.flux("queue", "start", "--quiet")  # three Rs are on their way
    assert instance.soon(lambda: "sched-treepool" not in instance.flux("module", "list"))
    assert "KVS commit failed" in instance.log() and "jobs run on" in instance.log()
    instance.load("sched-treepool")
    assert instance.soon(lambda: ended(instance)["COMPLETED"] >= 3)


def test_a_flux_that_lacks_a_private_name_is_told_by_that_name(planted):
    instance = planted(RENAMED)
    assert "has no _acquire_resources" in instance.log()
    assert "sched-treepool" not in instance.flux("module", "list")
