"""Zero configuration: an instance whose R has no key gets one from what its brokers hold."""

import json
import os
import signal

import pytest

from broker import Instance
from commandline import run_process
from hwlocfile import Device, Made

MODULE = "sched-treepool"

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
    (tmp_path / "modprobe.d").mkdir()
    toml = run_process("flux-env", "--modprobe", "policy=easy").out
    (tmp_path / "modprobe.d" / "treepool.toml").write_text(toml)
    env = {"FLUX_MODPROBE_PATH_APPEND": str(tmp_path)}
    with brokers(path, env=env) as instance:
        instance.scheduler = MODULE
        # At the start of the instance only rank 0 is up, if that.
        job = instance.shape("slot=4/node/numa{x}")
        assert instance.placed(job) == [("0-3", "4-7", "")]
        assert instance.soon(lambda: instance.stats()["hwloc"]["nodes"] == 4)


def test_a_job_waits_for_topology_and_a_silent_broker_is_flat_after_a_while(tmp_path):
    path = tmp_path / "node.xml"
    path.write_text(NODE.xml())
    with brokers(path, size=2) as instance:
        pid = int(instance.flux("exec", "-r1", "flux", "getattr", "broker.pid"))
        instance.flux("module", "remove", "sched-simple")
        os.kill(pid, signal.SIGSTOP)
        try:
            instance.load(MODULE)
            job = instance.shape("slot=1/numa{x}")
            assert instance.placed(job) == [("0", "4-7", "")]
            # Nobody knows yet whether rank 1 has an l3: the job is not refused.
            unknown = instance.shape("slot=1/l3{x}")
            assert instance.stats()["hwloc"]["waiting"] == 1
            warned = "topology: rank 1 is flat: its broker did not answer in time"
            assert instance.soon(lambda: warned in instance.log(), seconds=20)
        finally:
            os.kill(pid, signal.SIGCONT)
        said = instance.wait(unknown, "exception")["note"]
        assert "unknown resource type 'l3'" in said
        assert instance.placed(instance.shape("slot=1/[core=12;gpu=1]"))[0][0] in "01"


def test_hardware_that_R_does_not_agree_with_is_flat():
    with Instance(4, 500, 0) as instance:  # fake cores, more than any real node
        instance.load(MODULE)
        known(instance)
        assert "R has cores" in instance.log()
        assert "which its hwloc topology does not" in instance.log()
        assert instance.placed(instance.submit("-n1", "-c400")) == [("0", "0-399", "")]
