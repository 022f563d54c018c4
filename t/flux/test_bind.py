"""``treepool bind`` and ``verify`` in real jobs, on the first two cores of this machine.

The GPUs are in R and its key alone: GPU 1 near core 0, GPU 0 near core 1.
"""

import json
import os

import pytest

from broker import Instance
from made import nodes

needs_two = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
pytestmark = needs_two

TOPO = {"numa": [{"cores": "0", "gpus": "1"}, {"cores": "1", "gpus": "0"}]}

#: Says what a program started by ``bind`` has: PUs and variables.
TELL = (
    "import json, os; names = ('CUDA_VISIBLE_DEVICES', 'CUDA_DEVICE_ORDER'); print(json.dumps(["
    "os.environ['FLUX_TASK_RANK'], sorted(os.sched_getaffinity(0)), "
    "*map(os.environ.get, names)]))"
)


@pytest.fixture(scope="module")
def instance():
    """One node with the cores 0 and 1 of this machine, and two GPUs that are not there."""
    with Instance(R=nodes("0", "0-1", "0-1", TOPO)) as instance:
        yield instance


def told(instance, *options):
    """What the tasks of a job say that runs TELL under ``treepool bind``, by rank."""
    words = [*options, "flux", "treepool", "bind", "--", "python3", "-c", TELL]
    lines = instance.flux("run", *words).splitlines()
    return {int(task): rest for task, *rest in map(json.loads, lines)}


def test_each_task_is_pinned_to_its_share_with_the_nearest_gpu(instance):
    found = told(instance, "-n2", "-c1", "-g1")
    assert found == {0: [[0], "1", "PCI_BUS_ID"], 1: [[1], "0", "PCI_BUS_ID"]}


def test_what_the_shell_gave_each_task_stays(instance):
    options = ["-n2", "-c1", "-g1", "-o", "gpu-affinity=per-task"]
    found = told(instance, *options, "-o", "cpu-affinity=map:1;0")
    assert {task: (pus, gpus) for task, (pus, gpus, _) in found.items()} == {
        0: ([1], "0"),
        1: ([0], "1"),
    }


def test_more_tasks_than_cores_share_them(instance):
    words = ["-N1", "--tasks-per-node=4", "--exclusive"]
    found = told(instance, *words)
    assert [pus for pus, *_ in (found[i] for i in range(4))] == [[0], [0], [1], [1]]
    assert [gpus for _, gpus, _ in (found[i] for i in range(4))] == ["1", "1", "0", "0"]


# -- verify


def verified(instance, *words):
    """Status and lines of a job that runs ``treepool verify``."""
    done = instance.run("run", *words)
    return done.returncode, sorted(done.stdout.splitlines())


def test_what_bind_did_verifies(instance):
    options = ["-n2", "-c1", "-g1"]
    status, lines = verified(
        instance, *options, "flux", "treepool", "bind", "--", "flux", "treepool", "verify"
    )
    assert (status, lines) == (0, ["task 0 on n0: aligned", "task 1 on n0: aligned"])


def test_a_task_that_sees_a_foreign_gpu_does_not(instance):
    status, lines = verified(
        instance,
        *["-n1", "-c1", "-g1", "sh", "-c"],
        "CUDA_VISIBLE_DEVICES=0,1 flux treepool verify --json",
    )
    found = json.loads(lines[0])
    assert (status, found["aligned"], found["task"]) == (1, False, 0)
    assert found["allocated"] == {"cores": "0", "gpus": "1"}
    assert [reason["kind"] for reason in found["reasons"]] == ["gpus"]


def test_another_process_of_the_job_is_verified_by_its_pid(instance):
    script = (
        "sleep 30 & pid=$!; flux treepool verify --pid $pid; echo $?; "
        "taskset -pc 0,1 $pid >/dev/null; flux treepool verify --pid $pid; echo $?; kill $pid"
    )
    said = instance.flux("run", "-n1", "-c1", "sh", "-c", script).splitlines()
    assert said[:2] == ["task 0 on n0: aligned", "0"]
    assert "may run on cores 1" in said[2]
    assert said[3] == "1"


# -- an instance inside a job


def test_in_an_instance_inside_a_job_cores_are_those_of_the_job(instance):
    """The first job has core 0, so that the instance has core 1, and calls it core 0."""
    first = instance.flux("submit", "-n1", "-c1", "sleep", "60")
    instance.wait(first, "start")
    try:
        command = ["flux", "treepool", "bind", "--", "python3", "-c", TELL]
        options = ["-n1", "-c1", "-g1", "-o", "cpu-affinity=off"]
        said = instance.flux("alloc", *options, "flux", "run", "-n1", "-c1", "-g1", *command)
    finally:
        instance.cancel_all()
    assert json.loads(said.splitlines()[-1]) == ["0", [1], "0", "PCI_BUS_ID"]


# -- several nodes


@pytest.fixture(scope="module")
def pair():
    """Two brokers, each of which thinks that it has cores 0 and 1."""
    with Instance(size=2, R=nodes("0-1", "0-1", nodelist=["fake[0-1]"])) as two:
        yield two


def test_each_node_has_as_many_tasks_as_the_taskmap_says(pair):
    """Three tasks on two nodes: two on the one, one on the other, which has both cores."""
    words = ["-N2", "-n3", "--exclusive", "--taskmap=cyclic"]
    found = told(pair, *words)
    assert [found[i][0] for i in range(3)] == [[0], [0, 1], [1]]
