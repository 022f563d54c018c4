"""``treepool verify`` without Flux: this process, or another one, against an R and hwloc XML."""

import os
import subprocess
import sys

import pytest

from commandline import bare_environment, run_process
from hwlocfile import Device, Made
from made import nodes

HERE = sorted(os.sched_getaffinity(0))
FIRST = HERE[0]


def allocated(cores, gpus=""):
    return nodes("7", cores, gpus)


@pytest.fixture
def verify(write):
    """The result of verifying on a machine of all PUs up to the highest here, with two GPUs."""
    gpus = [Device(f"0000:{i}1:00.0", 0, backends=[(f"cuda{i}", "CUDA")]) for i in range(2)]
    node = Made(packages=1, numas=1, cores=max(HERE) + 1, smt=1, devices=gpus).xml()
    xml = str(write(node, "node.xml"))

    def verify(cores, *options, gpus="", **environment):
        R = str(write(allocated(cores, gpus), "R.json"))
        environment.setdefault("CUDA_VISIBLE_DEVICES", "-1")
        return run_process("verify", "--R", R, "--xml", xml, *options, **environment)

    return verify


ALL = f"0-{max(HERE)}" if max(HERE) else "0"


def test_aligned_is_status_0(verify):
    result = verify(ALL)
    assert (result.status, result.out) == (0, "local task 0 of 1 on n7: aligned\n")


@pytest.mark.skipif(len(HERE) < 2, reason="needs two cores")
def test_not_aligned_is_status_1_with_a_line_for_each_reason(verify):
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    result = verify(str(FIRST), CUDA_VISIBLE_DEVICES="0,1", gpus="1", **order)
    assert (result.status, result.err) == (1, "")
    cores, gpus = result.out.splitlines()
    assert "n7: not aligned: may run on cores " in cores
    assert "n7: not aligned: sees GPUs 0; the job has GPUs 1" in gpus


def test_json_is_one_line_with_the_facts(verify):
    result = verify(ALL, "--json", CUDA_VISIBLE_DEVICES="1", gpus="0-1", FLUX_JOB_ID="f1")
    (line,) = result.json
    assert line["job"] == "f1"
    assert line["rank"] == 7
    assert line["host"] == "n7"
    assert line["task"] is None
    assert line["aligned"] is True
    assert line["allocated"] == {"cores": ALL, "gpus": "0-1"}
    assert line["gpus"] == [1]
    assert line["reasons"] == []


def test_gpus_in_an_order_that_nobody_told_are_noted(verify):
    note = "note: CUDA_DEVICE_ORDER is not PCI_BUS_ID"
    assert note in verify(ALL, gpus="0", CUDA_VISIBLE_DEVICES="0").out
    told = verify(ALL, gpus="0", CUDA_VISIBLE_DEVICES="0", CUDA_DEVICE_ORDER="PCI_BUS_ID")
    assert note not in told.out


def test_gpus_named_otherwise_than_by_number_are_not_compared(verify):
    result = verify(ALL, gpus="0", CUDA_VISIBLE_DEVICES="GPU-8932f937")
    assert result.status == 0
    assert "note: CUDA_VISIBLE_DEVICES does not name GPUs by number" in result.out


@pytest.fixture
def sleeper():
    """A process that has two threads, each on a PU of its own, and sees GPU 1."""
    code = (
        "import os, sys, threading, time\n"
        "def pin(pu):\n    os.sched_setaffinity(0, [pu])\n"
        "def other():\n    pin(int(sys.argv[2])); print('ready', flush=True); time.sleep(60)\n"
        "pin(int(sys.argv[1])); threading.Thread(target=other).start(); time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(FIRST), str(HERE[-1])],
        env={**bare_environment(), "CUDA_VISIBLE_DEVICES": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    yield process.pid
    process.kill()
    process.communicate()


def test_a_process_is_verified_with_all_its_threads_and_its_environment(verify, sleeper):
    result = verify(ALL, "--pid", str(sleeper), "--json", gpus="1")
    (line,) = result.json
    assert line["cores"].replace("-", ",").split(",")[0] == str(FIRST)
    assert str(HERE[-1]) in line["cores"]
    assert line["gpus"] == [1]
    assert result.status == 0


def test_a_process_outside_a_job_says_so(sleeper):
    assert run_process("verify").is_one_line_error("not in a Flux job", status=2)
    result = run_process("verify", "--pid", str(sleeper), FLUX_JOB_ID="f1")
    assert result.is_one_line_error("not in a Flux job", status=2)
