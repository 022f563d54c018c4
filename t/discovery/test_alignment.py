"""When a task is not aligned with its allocation, and which reason is given.

The machine has 2 sockets of 2 NUMA nodes of 4 cores of 1 PU, and a GPU near each NUMA node.
"""

import pytest

from hwlocfile import Device, Made
from treepool.discovery.alignment import check
from treepool.discovery.binding import bind
from treepool.discovery.hwloc import read_hwloc
from treepool.discovery.task import Task
from treepool.rfc import idset

GPUS = [Device(f"0000:{i + 1}0:00.0", i, backends=[(f"cuda{i}", "CUDA")]) for i in range(4)]
MACHINE = read_hwloc(Made(smt=1, devices=GPUS).xml())
WITHOUT_GPUS = read_hwloc(Made(smt=1).xml())


def reasons(affinity, visible, cores, gpus="", index=0, tasks=1, machine=MACHINE, **more):
    task = Task(machine, idset.decode(cores), idset.decode(gpus), index, tasks)
    found = check(task, idset.decode(affinity), visible, **more)
    return {one.kind: one.message for one in found}


def test_a_task_on_just_its_jobs_cores_and_gpus_is_aligned():
    assert reasons("0-3", [0], "0-3", "0") == {}


def test_a_task_on_cores_of_others_is_not_aligned():
    found = reasons("2-5", [], "0-3")
    assert found["cores"] == "may run on cores 4-5; the job has cores 0-3"


def test_a_task_on_cores_that_the_site_keeps_is_not_aligned():
    task = Task(MACHINE, idset.decode("1-3"), system=1)
    found = [one.message for one in check(task, idset.decode("0-4"), [])]
    assert found[:2] == [
        "may run on cores 0, which the site keeps for the system",
        "may run on cores 4; the job has cores 1-3",
    ]
    assert [one.message for one in check(task, idset.decode("0-3"), [])] == found[:1]


def test_pus_outside_of_the_machines_cores_are_named():
    assert "PUs 100" in reasons("0-3,100", [], "0-3")["cores"]


def test_a_task_that_spans_numa_nodes_is_not_aligned_if_its_share_is_in_one():
    found = reasons("0-7", [], "0-7", index=1, tasks=2)
    assert found == {"numa": "spans NUMA nodes 0-1, though one would do"}


def test_a_share_that_is_in_two_may_span_two_but_not_four():
    assert reasons("0-7", [], "0-7") == {}
    found = reasons("0-15", [], "0-15", index=0, tasks=2)
    assert found == {"numa": "spans NUMA nodes 0-3, though 2 would do"}


def test_a_task_that_sees_gpus_of_others_is_not_aligned():
    assert reasons("0-3", [0, 1], "0-3", "0")["gpus"] == "sees GPUs 1; the job has GPUs 0"
    assert reasons("0-3", [1], "0-3")["gpus"] == "sees GPUs 1; the job has no GPU"


def test_a_task_without_the_variable_sees_all_gpus_of_the_node():
    assert reasons("0-3", None, "0-3", "0")["gpus"] == "sees GPUs 1-3; the job has GPUs 0"
    assert reasons("0-3", None, "0-3", machine=WITHOUT_GPUS) == {}


def test_a_task_that_sees_none_of_the_jobs_gpus_is_not_aligned():
    assert reasons("0-3", [], "0-3", "0")["gpus"] == "sees none of the job's GPUs 0"


def test_a_task_whose_gpu_is_in_another_socket_is_not_aligned():
    found = reasons("0-3", [2], "0-3", "2")
    assert found == {"socket": "its cores are in socket 0, its GPU 2 in socket 1"}


def test_a_gpu_in_another_numa_node_of_the_socket_is_aligned():
    assert reasons("0-3", [1], "0-3", "1") == {}


def test_a_task_uses_the_first_of_the_gpus_it_sees_as_many_as_its_share():
    assert reasons("12-15", [3, 0, 1, 2], "0-15", "0-3", 3, 4) == {}
    found = reasons("12-15", [0, 1, 2, 3], "0-15", "0-3", 3, 4)
    assert found == {"socket": "its cores are in socket 1, its GPU 0 in socket 0"}


def test_tasks_that_share_one_mask_and_all_gpus_are_not_aligned():
    message = "shares cores 0-3 and GPUs 0-1 with other tasks; its share is 2 cores and 1 GPU"
    for index in range(2):
        found = reasons("0-3", [0, 1], "0-3", "0-1", index, 2)
        assert found == {"shared": message}
    assert reasons("0-3", [0], "0-3", "0", 0, 2) == {}, "one GPU must be shared"
    assert reasons("0-3", [0, 1], "0-3", "0-1", 0, 1) == {}


def test_gpus_are_not_checked_if_the_variable_cannot_be_read():
    assert reasons("0-3", None, "0-3", "2", gpus_known=False) == {}


@pytest.mark.parametrize("tasks", range(1, 17))
@pytest.mark.parametrize("gpus", ["", "0-3"])
def test_tasks_that_bind_has_bound_are_aligned(tasks, gpus):
    for index in range(tasks):
        task = Task(MACHINE, MACHINE.cores, idset.decode(gpus), index, tasks)
        bound = bind(task)
        assert check(task, bound.pus, bound.gpus) == []
