"""``flux treepool snapshot`` of real instances: it answers as they do, and tells no secrets."""

import json
import os
import pwd

import pytest

from broker import GUEST, Instance, key_of
from commandline import run_process
from schemas import validator

#: What no anonymous snapshot may have: names of jobs, users and windows, and what jobs run with.
SECRETS = ("alices-train", "window-of-alice", "SECRET", "hunter2", "the-program", "/the/folder")


def name_of(userid):
    """The name of a user, or the number if there is none."""
    try:
        return pwd.getpwuid(userid).pw_name
    except KeyError:
        return str(userid)


OWNER, OTHER = name_of(os.getuid()), name_of(int(GUEST["FLUX_HANDLE_USERID"]))


@pytest.fixture(scope="module")
def busy():
    """Four nodes, two queues: three jobs have resources, others wait; one without a limit."""
    conf = ["queues.batch.requires=[]", "queues.debug.requires=[]"]
    conf.append('sched-treepool.queues.debug.policy="fifo"')
    with Instance(4, 120, 8, key_of("rfc49-cluster-a"), conf=conf) as instance:
        instance.load("sched-treepool", "policy=easy", "node-policy=best-fit")
        instance.flux("queue", "start", "--all", "--quiet")
        private = ("--job-name=alices-train", "--env=SECRET=hunter2", "--cwd=/the/folder")
        run = {"command": ("the-program", "--token=hunter2")}
        batch = ("--queue=batch", *private)
        instance.wide = instance.submit(*batch, "-t1h", "-N2", "-n2", "--exclusive", **run)
        instance.part = instance.submit("--queue=debug", "-t30m", "-n3", "-c9", "-g1", **run)
        instance.endless = instance.submit("--queue=debug", "-n1", "-c4", **run)
        instance.head = instance.submit(*batch, "-t1h", "-N2", "-n2", "--exclusive", **run)
        instance.next = instance.submit(*batch, "-t2h", "-N2", "-n2", "--exclusive", **run)
        instance.held = instance.submit("--queue=batch", "-n1", "--urgency=0")
        instance.wait(instance.endless, "alloc")
        instance.shaped = instance.shape(
            "node=2/slot=8/[core=15;gpu=1]", "--queue=batch", "-t20m", "--locality=required"
        )
        instance.flux("treepool", "window", "add", "--hosts=fake3", "--start=+3h", "--duration=1h",
                      "--name=window-of-alice", "--user", GUEST["FLUX_HANDLE_USERID"])  # fmt: skip
        instance.flux("resource", "drain", "0", "alices-train broke it")
        assert instance.waits(instance.next, instance.shaped)
        assert instance.soon(lambda: instance.annotation(instance.head, "t_estimate"))
        yield instance


def taken(instance, *words):
    """A snapshot, and what was said of it."""
    done = instance.run("treepool", "snapshot", *words, "-")
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    validator("snapshot").validate(value)
    return value, done


@pytest.fixture(scope="module")
def owners(busy, tmp_path_factory):
    """The file with the owner's snapshot."""
    path = tmp_path_factory.mktemp("snapshot") / "now.json"
    said = busy.flux("treepool", "snapshot", path)
    assert said == f"{path}: 4 nodes; 3 jobs with resources, 3 waiting; 1 window"
    return path


def treepool(*words):
    """What treepool prints without Flux: an object for each line."""
    done = run_process(*map(str, words), "--json")
    assert done.err == ""
    return done.json


def test_the_nodes_the_jobs_and_their_ends_are_those_of_the_instance(busy, owners):
    value = json.loads(owners.read_text())
    assert value["options"]["policy"] == "best-fit"
    assert value["queues"] == {
        "": {"policy": "easy", "depth": 1},
        "batch": {},
        "debug": {"policy": "fifo", "depth": 1},
    }
    assert (value["down"], value["drained"]) == ("0", "0")
    assert [job["job"] for job in value["running"]] == ["job1", "job2", "job3"]
    assert [job["job"] for job in value["pending"]] == ["job4", "job5", "job6"]
    assert {job["user"] for job in (*value["running"], *value["pending"])} == {"user1"}
    for name, job in zip(("wide", "part", "endless"), value["running"]):
        R = busy.R(getattr(busy, name))["execution"]
        assert [[e["rank"], e["children"]["core"], e["children"].get("gpu", "")]
                for e in R["R_lite"]] == job["parts"]  # fmt: skip
        assert job.get("end", 0) == pytest.approx(R["expiration"], abs=0.01)
    shaped = value["pending"][2]
    assert (shaped["shape"], shaped["limit"]) == ("node=2/slot=8/[core=15;gpu]", 1200)
    assert shaped["options"] == {"locality": "required"}
    assert (shaped["queue"], shaped["priority"]) == ("batch", 16)


def test_jobs_that_wait_start_when_the_instance_says(busy, owners):
    (line,) = treepool("replay", "--snapshot", owners)
    start = {one["job"]: one["start"] for one in line["starts"]}
    reserved = float(busy.annotation(busy.head, "t_estimate"))
    assert start["job4"] == pytest.approx(reserved, abs=2)


def test_no_name_is_in_it_unless_names_are_asked_for(busy, owners):
    text = owners.read_text()
    assert [word for word in SECRETS if word in text] == []
    assert [user for user in (OWNER, OTHER) if f'"{user}"' in text] == []
    value, done = taken(busy, "--names")
    assert [job["job"] for job in value["pending"]] == [
        busy.flux("job", "id", "--to=f58plain", job) for job in (busy.head, busy.next, busy.shaped)
    ]
    assert value["running"][0]["name"] == value["pending"][0]["name"] == "alices-train"
    assert (value["windows"][0]["name"], value["windows"][0]["users"]) == (
        "window-of-alice",
        [OTHER],
    )
    assert {job["user"] for job in value["pending"]} == {OWNER}
    for secret in ("hunter2", "/the/folder"):
        assert secret not in done.stdout


def test_a_stopped_queue_is_in_it(busy):
    busy.flux("queue", "stop", "--quiet", "batch")
    try:
        value, _ = taken(busy)
        assert value["queues"]["batch"] == {"stopped": True}
        done = run_process("replay", "--snapshot", "-", stdin=json.dumps(value).encode())
        assert "not replayed: 3 jobs of stopped queues" in done.err
    finally:
        busy.flux("queue", "start", "--quiet", "batch")
