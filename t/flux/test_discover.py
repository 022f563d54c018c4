"""Zero configuration: an instance whose R has no key gets one from what its brokers hold."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from broker import Instance
from hwlocfile import Device, Made, in_place

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


@pytest.fixture(scope="module")
def brokers(tmp_path_factory):
    """``brokers(size)`` is an instance of brokers that all believe to be on a node like NODE."""
    path = tmp_path_factory.mktemp("hwloc") / "node.xml"
    path.write_text(NODE.xml())
    return lambda size, **more: Instance(0, size=size, env=in_place(path), **more)


def known(instance):
    """Wait until every broker was asked; returns the statistics."""

    def answered():
        stats = instance.stats()
        return stats if stats["hwloc"] and not stats["hwloc"]["waiting"] else None

    return instance.soon(answered)


def test_an_instance_without_a_key_has_the_topology_of_its_hardware_also_where_brokers_are_late(
    brokers,
):
    with brokers(4, conf=["modules.alternatives.sched=sched-treepool"]) as instance:
        instance.scheduler = MODULE
        # At the start of the instance only rank 0 is up, if that.
        job = instance.shape("slot=4/node/numa{x}")
        assert instance.placed(job) == [("0-3", "4-7", "")]
        assert instance.soon(lambda: instance.stats()["hwloc"]["nodes"] == 4)
        assert instance.stats()["hwloc"]["parsed"] == 1, "nodes are alike"
        assert instance.soon(lambda: instance.stats()["localities"]) == ["numa", "socket"]
        assert "topology: numa, socket (hwloc of 4 nodes)" in instance.log()
        assert instance.placed(instance.submit("-n1", "-c2", "-g1")) == [("0", "0-1", "1")]
        last = instance.submit("-n1", "-c2", "-g1")
        assert instance.placed(last) == [("0", "12-13", "0")], "beside its GPU"
        (entry,) = instance.R(last)["scheduling"]["children"]
        domain = {"cores": "12-15", "gpus": "0", "memory": 16}
        assert (entry["ranks"], entry["topo"]["socket"][1]["numa"][1]) == ("0", domain)
        instance.load(MODULE)
        known(instance)
        assert instance.resources("allocated") == (4, 20, 2)
        encoded = instance.flux("treepool", "encode", "--instance", "--levels", "socket")
        (entry,) = json.loads(encoded)["scheduling"]["children"]
        assert (entry["ranks"], len(entry["topo"]["socket"])) == ("0-3", 2)
        instance.load(MODULE, "discover=off")
        unknown = instance.wait(instance.shape("slot=1/numa{x}"), "exception")["note"]
        assert "unknown resource type 'numa'" in unknown
        instance.cancel_all()


@pytest.fixture(scope="module")
def pair(brokers):
    """Two brokers; ``silence()`` stops rank 1, ``wake()`` lets it go on."""
    with brokers(2) as instance:
        pid = int(instance.flux("exec", "-r1", "flux", "getattr", "broker.pid"))
        instance.silence = lambda: os.kill(pid, signal.SIGSTOP)
        instance.wake = lambda: os.kill(pid, signal.SIGCONT)
        yield instance


@pytest.fixture
def two(pair):
    """The same without a scheduler; both go on at the end, and no job is left."""
    loaded = [line.split()[0] for line in pair.flux("module", "list").splitlines()]
    for name in (name for name in loaded if name.startswith("sched-")):
        pair.flux("module", "remove", name)
    pair.flux("dmesg", "-C")
    yield pair
    pair.wake()
    pair.cancel_all()


def load_faulty(instance, *words):
    """Load the faulty scheduler."""
    instance.load(f"--name={MODULE}", FAULTY, *words)
    instance.scheduler = MODULE


def answers(instance):
    """How many brokers told their topology, once there are that many as brokers."""
    return instance.soon(lambda: instance.stats()["hwloc"]["nodes"] == 2)


#: Asks whether a job can run; prints None, or why not.
CHECK = """
import flux, json, sys
try:
    print(flux.Flux().rpc("feasibility.check", {"jobspec": json.load(sys.stdin)}).get())
except OSError as e:
    print(e.strerror)
"""


def test_jobs_and_questions_wait_while_a_broker_has_not_answered(two):
    two.silence()
    load_faulty(two, "timeout=600")  # however busy this machine is
    assert two.soon(lambda: two.stats()["hwloc"]["nodes"] == 1)
    demand = "--setattr=system.treepool.same_numa=require"
    plain = two.submit("-n1", "--urgency=10")
    unknown = two.shape("slot=1/l3{x}")
    demands = two.submit(demand, "-n1", "-c4")
    cancelled = two.submit("-n1")
    whole = two.submit("-N2", "-n2", "--exclusive")
    assert two.waits(plain, unknown, demands, cancelled, whole)
    assert two.stats()["hwloc"]["waiting"] == 1
    done = two.run("treepool", "explain", "--instance", "slot=1/numa{x}")
    said = "slot=1/numa{x}: waits: the topology of some nodes is not known yet\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, said, "")
    jobspec = two.flux("submit", "--dry-run", demand, "-n1", "-c5", "true")
    assert two.flux("python", "-c", CHECK, stdin=jobspec) == "None", "it might run there"
    two.flux("cancel", cancelled)
    two.wait(cancelled, "clean")
    two.urgency(whole, 31)
    assert two.soon(lambda: two.stats()["pending_jobs"] == 4)
    two.wake()
    assert answers(two)
    assert two.placed(whole) == [("0-1", "0-15", "0-1")]
    assert "unknown resource type 'l3'" in two.wait(unknown, "exception")["note"]
    said = two.flux("python", "-c", CHECK, stdin=jobspec)
    assert said == "no numa domain has 5 cores: the largest has 4"
    two.flux("cancel", whole)
    assert two.placed(demands)[0][1] == "4-7"
    two.wait(plain, "alloc")


def test_a_demand_outlives_a_reload(two):
    # Found while nodes were flat, the demand of one NUMA domain would be met by any cores.
    two.load(MODULE)
    known(two)
    holders = [two.shape("slot=1/numa=4/[core=2]", "--requires=rank:0")]
    holders.append(two.submit("-N1", "-n1", "--exclusive"))
    for job in holders:
        two.wait(job, "alloc")
    job = two.submit("--setattr=system.treepool.level=numa", "-n1", "-c4")
    assert two.waits(job)
    two.load(MODULE)
    known(two)
    assert two.waits(job)
    two.flux("cancel", holders[0])
    assert two.placed(job)[0][1] in ("0-3", "4-7", "8-11", "12-15")


def test_a_silent_broker_is_flat_after_a_while_and_its_late_answer_counts(two):
    two.silence()
    load_faulty(two, "timeout=2")
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


def test_a_broker_without_a_good_answer_is_asked_again_when_its_node_comes_up(two):
    load_faulty(two, "bad-answers=1", "timeout=10")
    assert two.soon(lambda: "is flat: a bad answer" in two.log())
    assert two.soon(lambda: two.stats()["hwloc"]["waiting"] == 0)
    assert two.stats()["hwloc"]["nodes"] == 0
    demand = "--setattr=system.treepool.same_numa=require"
    runs = two.submit(demand, "-n1", "-c12")
    two.wait(runs, "alloc")  # a flat node is one NUMA domain
    whole = two.submit("-N2", "-n2", "--exclusive")
    waits = two.submit(demand, "-n1", "-c5")
    assert two.waits(whole, waits)
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


@pytest.fixture(scope="module")
def eight(brokers):
    """Eight brokers."""
    with brokers(8) as instance:
        yield instance


def test_of_many_nodes_that_are_alike_one_sends_its_xml(eight):
    one = len(eight.flux("python", "-c", XML).strip())
    every = loaded_with_few(eight, 8)
    assert (every["nodes"], every["digests"]) == (8, 0)
    assert every["xml-bytes"] >= 8 * one
    stats = loaded_with_few(eight, 1)
    assert (stats["nodes"], stats["digests"], stats["parsed"]) == (8, 7, 1)
    # Rank 0, and perhaps one more that told its digest before that XML came.
    assert stats["xml-bytes"] < 2.5 * one
    assert eight.soon(lambda: eight.stats()["localities"]) == ["numa", "socket"]
    told = eight.flux("exec", "-r", "all", "flux", "treepool", "digest").split()
    assert len(told) == 8
    assert len(set(told)) == 1


def test_answers_that_are_late_reach_no_other_request(eight):
    eight.flux("dmesg", "-C")
    load_faulty(eight, "few=1", "digest=4")
    assert eight.soon(lambda: eight.stats()["hwloc"]["nodes"] == 8, 20)
    jobs = []
    for _ in range(8):  # while the late answers come
        jobs += [eight.submit("-n1") for _ in range(8)]
        time.sleep(0.5)
    assert [eight.R(job)["version"] for job in jobs] == 64 * [1]
    assert eight.stats()["hwloc"]["digests"] == 0
    assert "callback" not in eight.log()
    eight.cancel_all()


XML = "import flux; print(flux.Flux().rpc('resource.topo-get').get_str())"
