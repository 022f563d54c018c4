"""What an ordinary user learns of a job in each state that Flux gives it, and of a real instance.

``told.py`` has what people are told of jobs that the scheduler has.
"""

import json
import os

import pytest

from broker import GUEST, Instance, key_of
from features import needs_private_mode
from schemas import conforms


def guest(instance, *words, userid=GUEST["FLUX_HANDLE_USERID"]):
    """The finished process of ``flux treepool WORDS...``, run by a guest."""
    asking = instance.with_env(**{**GUEST, "FLUX_HANDLE_USERID": str(userid)})
    return asking.run("treepool", *words)


def explained(instance, job, status=1):
    """What a guest is told of *job*: the lines; and it is right for programs."""
    done, json_done = guest(instance, "explain", job), guest(instance, "explain", job, "--json")
    assert (done.returncode, done.stderr, json_done.returncode) == (status, "", status)
    line = json.loads(json_done.stdout)
    conforms(line, "explain-job")
    assert line["job"] == job
    return done.stdout.splitlines()


def asked(instance, shape="slot/core", *words):
    """What a guest is told of a shape: the text; and it is right for programs."""
    done = guest(instance, "explain", "--instance", shape, *words)
    line = json.loads(guest(instance, "explain", "--instance", shape, "--json", *words).stdout)
    conforms(line, "explain-instance")
    assert done.returncode == ("would start now" not in done.stdout)
    return done.stdout


@pytest.fixture(scope="module")
def busy():
    """Four nodes, two queues of policy easy, debug the default: a job on three nodes."""
    conf = [
        "queues.batch.requires=[]",
        "queues.debug.requires=[]",
        'policy.jobspec.defaults.system.queue="debug"',
    ]
    with Instance(4, 120, 8, key_of("rfc49-cluster-a"), conf=conf) as instance:
        instance.load("sched-treepool", "policy=easy")
        instance.flux("queue", "start", "--all", "--quiet")
        words = ("--queue=batch", "-t1h", "-N3", "-n3", "--exclusive", "--job-name=train")
        instance.wide = instance.submit(*words)
        instance.wait(instance.wide, "alloc")
        yield instance


@pytest.fixture
def conf(busy):
    """The configuration of the instance, which it has again afterwards."""
    conf = json.loads(busy.flux("config", "get"))
    yield conf
    busy.flux("config", "load", stdin=json.dumps(conf))


def test_a_guest_is_told_what_the_owner_is_and_what_flux_says(busy):
    for words in (["status"], ["status", "--gpus", "--jobs", "--json"], ["show", "--instance"]):
        done = guest(busy, *words)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines() == busy.flux("treepool", *words).splitlines()
    job, *_ = map(json.loads, guest(busy, "status", "--jobs", "--json").stdout.splitlines())
    assert (job["job"], job["name"], job["nodes"]) == (busy.wide, "train", 3)
    assert job["summary"] == busy.annotation(busy.wide, "resource_summary")
    assert explained(busy, busy.wide, 0)[0].startswith(f"job {busy.wide}: runs since ")
    head = busy.submit("--queue=batch", "-t1h", "-N4", "-n4", "--exclusive")
    busy.wait(head, "priority")
    assert explained(busy, head)[0].startswith(f"job {head}: waits: 1 of 4 nodes free now, 4 at ")
    assert busy.soon(lambda: busy.annotation(head, "t_estimate"))
    assert "eta:" in busy.flux("jobs", "-no", "{contextual_info}", head)
    busy.flux("cancel", head)


@needs_private_mode
def test_in_private_mode_a_guest_sees_only_that_something_is_used_and_his_own_jobs(busy, conf):
    busy.flux("config", "load", stdin=json.dumps({**conf, "access": {"private-mode": True}}))
    *gpus, last = map(
        json.loads, guest(busy, "status", "--jobs", "--gpus", "--json").stdout.splitlines()
    )
    assert last["totals"]["cores_used"] == 3 * 120
    assert {gpu["job"] for gpu in gpus} == {"", "other"}
    done = guest(busy, "explain", busy.wide)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    job = busy.submit("-n1", "--urgency=0")
    busy.wait(job, "priority")
    done = guest(busy, "explain", job, userid=os.getuid())
    assert done.stdout.startswith(f"job {job}: is held: its urgency is 0"), done.stderr
    busy.flux("cancel", job)


def test_a_queue_that_is_stopped_starts_no_job_and_one_that_is_disabled_accepts_none(busy):
    busy.flux("queue", "stop", "--quiet", "--message=cooling", "debug")
    job = busy.submit("-n1")
    busy.wait(job, "priority")
    lines = explained(busy, job)
    assert lines[0] == f"job {job}: waits: queue debug is stopped (cooling)"
    assert "until an administrator starts it" in lines[1]
    assert asked(busy).startswith("slot/core: would wait: queue debug is stopped (cooling)\n")
    assert "would start now" in asked(busy, "slot/core", "--queue=batch")
    busy.flux("cancel", job)
    busy.flux("queue", "start", "--quiet", "debug")
    busy.flux("queue", "disable", "--quiet", "--message=closed", "debug")
    assert asked(busy) == "slot/core: would be refused: queue debug is disabled (closed)\n"
    busy.flux("queue", "enable", "debug")


def test_a_job_that_is_held_by_flux_is_told_by_what(busy):
    held = busy.submit("-n1", "--urgency=0")
    depends = busy.submit("-n1", f"--dependency=afterok:{busy.wide}")
    later = busy.submit("-n1", "--begin-time=+1h")
    busy.wait(held, "priority")
    for job, said in (
        (held, "is held: its urgency is 0"),
        (depends, "waits: it depends on after-success="),
        (later, "waits: it depends on the time: "),
    ):
        assert explained(busy, job)[0].startswith(f"job {job}: {said}")
    busy.flux("cancel", held, depends, later)


def test_jobs_that_are_over_and_one_that_there_is_not(busy):
    job = busy.submit("-n1", seconds=0.1)
    busy.wait(job, "clean")
    assert explained(busy, job, 0)[0].startswith(f"job {job}: is over: it completed at ")
    job = busy.submit("-n121", "-N1")
    busy.wait(job, "clean")
    text = "\n".join(explained(busy, job))
    assert "alloc: each node is to host 121 slots: the most that fits is 120" in text
    assert "it never had resources" in text
    done = guest(busy, "explain", "ƒ1111")
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no such job" in done.stderr


def test_a_job_that_is_over_while_housekeeping_has_its_nodes(small):
    small.load("sched-treepool")
    keeping = {"job-manager": {"housekeeping": {"command": ["sleep", "60"]}}}
    small.flux("config", "load", stdin=json.dumps(keeping))
    job = small.submit("-t1m", seconds=0.1)
    small.wait(job, "clean")
    told = explained(small, job, 0)
    assert told[0].startswith(f"job {job}: is over, and is being cleaned up: it completed at ")
    assert told[1].strip() == "next: fake0/core0 is free when housekeeping is done"
    small.flux("config", "load", stdin="{}")
    small.flux("housekeeping", "kill", "--all")
    over = f"job {job}: is over: it "
    assert small.soon(lambda: small.flux("treepool", "explain", job).startswith(over))


def test_a_job_is_explained_by_the_queue_that_it_was_moved_to_and_if_that_is_gone():
    conf = ['queues.fast.requires=["fast"]', "queues.slow.requires=[]"]
    env = {"TREEPOOL_TEST_PROPERTIES": '{"fast": "1"}'}
    with Instance(2, 8, 0, conf=conf, env=env) as instance:
        instance.load("sched-treepool")
        instance.flux("queue", "start", "--all", "--quiet")
        assert "on fake0/core" in asked(instance, "slot/core", "--queue=slow")
        assert "on fake1/core" in asked(instance, "slot/core", "--queue=fast")
        assert "infeasible" in asked(instance, "node=2/slot/core", "--queue=fast")
        full = instance.submit("--queue=slow", "-N2", "-n2", "--exclusive", "-t1h")
        instance.wait(full, "alloc")
        job = instance.submit("--queue=slow", "-n1", "-t1h")

        def nodes():
            """How many nodes the explanation is about."""
            done = instance.run("treepool", "explain", "--json", job)
            return json.loads(done.stdout)["explanation"]["nodes"]

        assert instance.soon(lambda: nodes() == 2)
        instance.flux("update", job, "queue=fast")
        assert instance.soon(lambda: nodes() == 1)
        instance.flux("config", "load", stdin='{"queues": {"slow": {"requires": []}}}')
        instance.load("sched-treepool")  # which the job manager does not send the job any more
        gone = "waits: queue fast is stopped (the configuration does not have it any more)\n"
        assert instance.soon(lambda: gone in instance.run("treepool", "explain", job).stdout)


def test_a_job_that_the_scheduler_has_not_been_sent(small, idle):
    small.load("sched-treepool", "queue-depth=2")
    *_, last = (small.submit("-t1h", "-N2", "-n2", "--exclusive") for _ in range(5))
    small.wait(last, "priority")
    lines = explained(small, last)
    assert lines[0] == f"job {last}: waits: the job manager has not sent it to the scheduler"


def test_without_sched_treepool_a_guest_is_told_so_and_the_owner_is_served(small):
    small.load("sched-simple")
    other = "this instance runs sched-simple, not sched-treepool"
    for words in (["status"], ["show", "--instance"]):
        done = guest(small, *words)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"{other}, and only its owner" in done.stderr
        assert f"\n{other} (for an instance that does: flux alloc" in small.flux("treepool", *words)
    assert "fake0" in small.flux("treepool", "alloc", "slot=1/core=1")
    assert "only its owner" in guest(small, "alloc", "slot=1/core=1").stderr
    done = small.run("treepool", "window", "list")
    assert done.returncode == 2
    assert done.stderr.startswith(f"treepool window: {other} (for an instance")
