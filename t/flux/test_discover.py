"""Zero configuration: an instance whose R has no key gets one from what its brokers hold."""

import json
import os
import signal
from pathlib import Path

import pytest

from broker import Instance
from hwlocfile import Device, Made

MODULE = "sched-treepool"
FAULTY = Path(__file__).parent / "schedulers" / "sched-faulty.py"

#: Two sockets of two NUMA domains with four cores each. GPU 0, the first in the order of PCI bus
#: ids, is in the last NUMA domain.
NODE = Made(
    devices=[
        Device("0000:c1:00.0", 0, backends=[("nvml0", "NVML")]),
        Device("0000:41:00.0", 3, backends=[("nvml1", "NVML")]),
    ]
)


def brokers(path, size=4, **more):
    """An instance of some brokers that all believe to be on the node that *path* describes."""
    env = {
        "FLUX_HWLOC_XMLFILE": str(path),
        "FLUX_HWLOC_XMLFILE_NOT_THISSYSTEM": "1",
        **more.pop("env", {}),
    }
    return Instance(0, size=size, env=env, **more)


def known(instance):
    """Wait until every broker was asked; returns the statistics."""

    def answered():
        stats = instance.stats()
        return stats if stats["hwloc"] and not stats["hwloc"]["waiting"] else None

    return instance.soon(answered)


@pytest.fixture(scope="module")
def instance(tmp_path_factory):
    path = tmp_path_factory.mktemp("hwloc") / "node.xml"
    path.write_text(NODE.xml())
    with brokers(path) as instance:
        instance.load(MODULE)
        yield instance


def test_the_localities_are_those_of_the_hardware(instance):
    stats = known(instance)
    assert instance.soon(lambda: instance.stats()["localities"]) == ["numa", "socket"]
    assert stats["hwloc"]["nodes"] == 4
    assert "topology: numa, socket (hwloc of 4 nodes)" in instance.log()


def test_xml_of_nodes_that_are_alike_is_read_once(instance):
    assert known(instance)["hwloc"]["parsed"] == 1


def test_a_gpu_comes_with_cores_of_its_own_domain(instance):
    known(instance)
    assert instance.placed(instance.submit("-n1", "-c2", "-g1")) == [("0", "0-1", "1")]
    assert instance.placed(instance.submit("-n1", "-c2", "-g1")) == [("0", "12-13", "0")]
    instance.cancel_all()


def test_the_R_of_a_job_has_the_key(instance):
    known(instance)
    R = instance.R(instance.shape("slot=1/numa{x}"))
    (entry,) = R["scheduling"]["children"]
    assert entry["ranks"] == "0"
    assert entry["topo"]["socket"][1]["numa"][1] == {"cores": "12-15", "gpus": "0", "memory": 16}
    instance.cancel_all()


def test_a_reload_loses_nothing(instance):
    known(instance)
    before = instance.placed(instance.shape("slot=6/[core=2;gpu=1]"))
    instance.load(MODULE)
    known(instance)
    after = instance.placed(instance.shape("slot=2/[core=2;gpu=1]"))
    assert instance.resources("allocated") == (4, 16, 8)
    assert not {tuple(x) for x in before} & {tuple(x) for x in after}
    instance.cancel_all()
    assert instance.resources("allocated") == (0, 0, 0)


def test_off_keeps_to_the_key_in_R(instance):
    instance.load(MODULE, "discover=off")
    assert instance.stats()["localities"] == []
    job = instance.shape("slot=1/numa{x}")
    assert "unknown resource type 'numa'" in instance.wait(job, "exception")["note"]
    instance.load(MODULE)


def test_encode_reads_the_running_instance(instance):
    result = instance.run("treepool", "encode", "--instance", "--levels", "socket")
    assert result.returncode == 0, result.stderr
    (entry,) = json.loads(result.stdout)["scheduling"]["children"]
    assert entry["ranks"] == "0-3"
    assert len(entry["topo"]["socket"]) == 2
    local = instance.run("treepool", "encode", "--local", "--dry-run")
    assert "cores 12-15  gpus 0" in local.stdout


def test_brokers_that_come_up_later_are_asked_then(tmp_path):
    path = tmp_path / "node.xml"
    path.write_text(NODE.xml())
    conf = ["modules.alternatives.sched=sched-treepool"]
    with brokers(path, conf=conf) as instance:
        instance.scheduler = MODULE
        # At the start of the instance only rank 0 is up, if that.
        job = instance.shape("slot=4/node/numa{x}")
        assert instance.placed(job) == [("0-3", "4-7", "")]
        assert instance.soon(lambda: instance.stats()["hwloc"]["nodes"] == 4)


@pytest.fixture
def two(tmp_path):
    """Two brokers; ``silence()`` stops rank 1, ``wake()`` lets it go on."""
    path = tmp_path / "node.xml"
    path.write_text(NODE.xml())
    with brokers(path, size=2) as instance:
        pid = int(instance.flux("exec", "-r1", "flux", "getattr", "broker.pid"))
        instance.silence = lambda: os.kill(pid, signal.SIGSTOP)
        instance.wake = lambda: os.kill(pid, signal.SIGCONT)
        instance.flux("module", "remove", "sched-simple")
        yield instance
        instance.wake()


def load_faulty(instance, *words):
    """Load the faulty scheduler."""
    instance.load(FAULTY, *words)
    instance.scheduler = FAULTY.stem


def answers(instance):
    """How many brokers told their topology, once there are that many as brokers."""
    return instance.soon(lambda: instance.stats()["hwloc"]["nodes"] == 2)


@pytest.mark.parametrize(
    "demand", ["same_numa=require", "topology_policy=single-numa-node", "level=numa"]
)
def test_a_demand_outlives_a_reload(two, demand):
    # Found while nodes were flat, the demand of one NUMA domain would be met by any cores.
    two.load(MODULE)
    known(two)
    holders = [two.shape("slot=1/numa=4/[core=2]", "--requires=rank:0")]
    holders.append(two.submit("-N1", "-n1", "--exclusive"))
    for job in holders:
        two.wait(job, "alloc")
    job = two.submit(f"--setattr=system.treepool.{demand}", "-n1", "-c4")
    two.settle()
    assert two.state(job) == "S"
    for _ in range(2):
        two.load(MODULE)
        known(two)
        two.settle()
        assert two.state(job) == "S"
    two.flux("cancel", holders[0])
    assert two.placed(job)[0][1] in ("0-3", "4-7", "8-11", "12-15")


def test_every_job_is_held_while_a_broker_has_not_answered(two):
    two.silence()
    load_faulty(two, "timeout=60")
    assert two.soon(lambda: two.stats()["hwloc"]["nodes"] == 1)
    plain = two.submit("-n1", "--urgency=10")
    unknown = two.shape("slot=1/l3{x}")
    demands = two.submit("--setattr=system.treepool.same_numa=require", "-n1", "-c4")
    cancelled = two.submit("-n1")
    whole = two.submit("-N2", "-n2", "--exclusive")
    two.settle()
    stats = two.stats()
    assert (stats["hwloc"]["waiting"], stats["pending_jobs"]) == (1, 5)
    assert [two.state(job) for job in (plain, unknown, demands, cancelled, whole)] == ["S"] * 5
    two.flux("cancel", cancelled)
    two.wait(cancelled, "clean")
    two.flux("job", "urgency", whole, "31")
    two.settle()  # the job manager tells the scheduler a moment later
    two.wake()
    assert answers(two)
    assert two.placed(whole) == [("0-1", "0-15", "0-1")]
    assert "unknown resource type 'l3'" in two.wait(unknown, "exception")["note"]
    two.flux("cancel", whole)
    assert two.placed(demands)[0][1] == "4-7"
    two.wait(plain, "alloc")


def test_what_a_shape_would_get_is_not_told_while_a_broker_has_not_answered(two):
    two.silence()
    two.load(MODULE)
    assert two.soon(lambda: two.stats()["hwloc"]["nodes"] == 1)
    for shape in ("slot=1/numa{x}", "node=2{x}/slot/core"):
        done = two.run("treepool", "explain", "--instance", shape)
        said = f"{shape}: waits: the topology of some nodes is not known yet\n"
        assert (done.returncode, done.stdout, done.stderr) == (1, said, "")
    two.wake()
    assert answers(two)
    assert "would start now" in two.flux("treepool", "explain", "--instance", "slot=1/numa{x}")


CHECK = """
import flux, json, sys
try:
    print(flux.Flux().rpc("feasibility.check", {"jobspec": json.load(sys.stdin)}).get())
except OSError as e:
    print(e.strerror)
"""


def test_any_job_might_run_on_a_broker_that_has_not_answered(two):
    two.silence()
    two.load(MODULE)
    words = ("submit", "--dry-run", "--setattr=system.treepool.same_numa=require", "-n1", "-c5")
    jobspec = two.flux(*words, "true")
    assert two.flux("python", "-c", CHECK, stdin=jobspec) == "None"
    two.wake()
    assert answers(two)
    said = two.flux("python", "-c", CHECK, stdin=jobspec)
    assert said == "no numa domain has 5 cores: the largest has 4"


def test_a_silent_broker_is_flat_after_a_while_and_its_late_answer_counts(two):
    two.silence()
    load_faulty(two, "timeout=2", "retries=20,50")
    job = two.shape("slot=1/numa{x}")
    unknown = two.shape("slot=1/l3{x}")
    warned = "topology: rank 1 is flat: its broker did not answer in time"
    assert two.soon(lambda: warned in two.log(), seconds=20)
    assert two.placed(job) == [("0", "4-7", "")]
    assert "unknown resource type 'l3'" in two.wait(unknown, "exception")["note"]
    stats = two.stats()["hwloc"]
    assert (stats["nodes"], stats["parsed"], stats["waiting"]) == (1, 1, 0)
    across = two.submit("-n1", "-c4", "--requires=rank:1")
    waits = two.submit("--setattr=system.treepool.level=numa", "--requires=rank:1", "-n1", "-c4")
    assert "1" in two.placed(across)[0]
    assert "numa" in two.wait(waits, "exception")["note"]  # as far as is known
    two.wake()
    assert answers(two)
    assert two.placed(two.shape("slot=3/numa{x}", "--requires=rank:1")) == [("1", "4-15", "0")]
    assert two.log().count(warned) == 1


def test_that_nodes_are_flat_is_said_once_however_many_answers_come(tmp_path):
    path = tmp_path / "node.xml"
    path.write_text(Made(packages=1, numas=1, l3=False).xml())
    with brokers(path, size=2) as instance:
        pid = int(instance.flux("exec", "-r1", "flux", "getattr", "broker.pid"))
        instance.flux("module", "remove", "sched-simple")
        os.kill(pid, signal.SIGSTOP)
        load_faulty(instance, "timeout=2", "retries=4,4")
        assert instance.soon(lambda: "rank 1 is flat" in instance.log(), seconds=20)
        os.kill(pid, signal.SIGCONT)
        assert answers(instance)
        assert instance.soon(lambda: not instance.stats()["hwloc"]["waiting"])
        assert instance.log().count("topology: none, nodes are flat") == 1


def test_a_hello_that_takes_long_is_not_held_against_the_brokers(two):
    load_faulty(two, "timeout=1", "retries=", "hello-takes=3")
    assert answers(two)
    assert "did not answer in time" not in two.log()


def test_a_broker_whose_answer_was_an_error_is_asked_again(two):
    load_faulty(two, "retries=5,5,5", "bad-answers=3", "timeout=10")
    assert two.soon(lambda: "is flat: a bad answer" in two.log())
    assert answers(two)
    assert two.placed(two.shape("slot=8/numa{x}")) == [("0-1", "0-15", "0-1")]


def test_a_broker_without_a_good_answer_is_asked_again_when_its_node_comes_up(two):
    load_faulty(two, "retries=", "bad-answers=1", "timeout=10")
    assert two.soon(lambda: "is flat: a bad answer" in two.log())
    assert two.soon(lambda: two.stats()["hwloc"]["waiting"] == 0)
    assert two.stats()["hwloc"]["nodes"] == 0
    demand = "--setattr=system.treepool.same_numa=require"
    runs = two.submit(demand, "-n1", "-c12")
    two.wait(runs, "alloc")  # a flat node is one NUMA domain
    whole = two.submit("-N2", "-n2", "--exclusive")
    waits = two.submit(demand, "-n1", "-c5")
    two.settle()
    assert (two.state(whole), two.state(waits)) == ("S", "S")
    two.flux("resource", "drain", "1", "testing")
    two.flux("resource", "undrain", "1")
    assert two.soon(lambda: two.stats()["hwloc"]["nodes"] == 1)
    # What waited is judged again: now there are NUMA domains.
    assert "no numa domain has 5 cores" in two.wait(waits, "exception")["note"]
    two.flux("cancel", runs)
    assert two.placed(whole) == [("0-1", "0-15", "0-1")]
    two.flux("cancel", whole)
    assert two.placed(two.shape("slot=4/numa{x}")) == [("1", "0-15", "0-1")]


def test_hardware_that_R_does_not_agree_with_is_flat():
    with Instance(4, 500, 0) as instance:  # fake cores, more than any real node
        instance.load(MODULE)
        known(instance)
        assert "R has cores" in instance.log()
        assert "which its hwloc topology does not" in instance.log()
        assert instance.placed(instance.submit("-n1", "-c400")) == [("0", "0-399", "")]


# -- many nodes


def loaded_with_few(instance, few):
    load_faulty(instance, f"few={few}", "timeout=60")
    stats = instance.soon(lambda: (s := instance.stats()["hwloc"])["waiting"] == 0 and s, 30)
    assert stats, instance.log()
    return stats


def test_of_many_nodes_that_are_alike_one_sends_its_xml(tmp_path):
    path = tmp_path / "node.xml"
    path.write_text(NODE.xml())
    with brokers(path, size=6) as instance:
        one = len(instance.flux("python", "-c", XML).strip())
        every = loaded_with_few(instance, 6)
        assert (every["nodes"], every["digests"]) == (6, 0)
        assert every["xml-bytes"] >= 6 * one
        stats = loaded_with_few(instance, 1)
        assert (stats["nodes"], stats["digests"], stats["parsed"]) == (6, 5, 1)
        # Rank 0, and perhaps one more that told its digest before that XML came.
        assert stats["xml-bytes"] < 2.5 * one
        assert instance.soon(lambda: instance.stats()["localities"]) == ["numa", "socket"]
        told = instance.flux("exec", "-r", "all", "flux", "treepool", "digest").split()
        assert len(told) == 6
        assert len(set(told)) == 1


XML = "import flux; print(flux.Flux().rpc('resource.topo-get').get_str())"


def test_where_nodes_cannot_tell_a_digest_all_send_their_xml(tmp_path):
    path = tmp_path / "node.xml"
    path.write_text(NODE.xml())
    with brokers(path, size=4) as instance:
        load_faulty(instance, "few=0", "timeout=60", "no-digests")
        assert instance.soon(lambda: instance.stats()["hwloc"]["nodes"] == 4, 30)
        assert instance.stats()["hwloc"]["digests"] == 0
