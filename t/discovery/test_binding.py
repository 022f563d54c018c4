"""What a task is bound to: its share of its job's cores and GPUs, on made-up machines.

The machine of most tests has 2 packages of 2 NUMA nodes of 4 cores of 2 PUs: cores 0 to 15, whose
PUs are the core's number, and 16 more.
"""

import re

import attrs
import pytest

from depth import some
from hwlocfile import Device, Made
from treepool.discovery.binding import bind, nic_settings, numactl_option
from treepool.discovery.hwloc import read_hwloc
from treepool.discovery.task import (
    Task,
    has_instances,
    has_renumbered_gpus,
    task_of,
    with_ids_of_node,
)
from treepool.errors import InvalidHardware, InvalidInput, InvalidR
from treepool.rfc import idset
from treepool.rfc.links import Links, Nic, digest
from treepool.rfc.rset import ResourceSet


def gpu(pci, numa, kind="0302 [10de:1db1] [10de:1212] a1", backend="CUDA"):
    return Device(f"0000:{pci}:00.0", numa, kind, [(f"dev{pci}", backend)])


#: GPU i is near NUMA node 3 - i, as on some real nodes.
CROSSED = [gpu(f"{i + 1}0", 3 - i) for i in range(4)]


def machine(devices=(), **more):
    return read_hwloc(Made(devices=devices, **more).xml())


def ids(text):
    return idset.decode(text)


def R(cores, gpus="", rank="0", scheduling=None):
    children = {"core": cores, **({"gpu": gpus} if gpus else {})}
    execution = {"R_lite": [{"rank": rank, "children": children}]}
    execution["nodelist"] = [f"n[{rank}]"]
    value = {"version": 1, "execution": execution}
    if scheduling:
        value["scheduling"] = {"writer": "TreePool", **scheduling}
    return ResourceSet.read(value)


def bound(cores, gpus="", index=0, tasks=1, devices=CROSSED, **how):
    task = Task(machine(devices), ids(cores), ids(gpus), index, tasks)
    return bind(task, **how)


def shown(binding):
    return idset.encode(binding.cores), binding.gpus


# -- cores


def test_a_task_gets_all_pus_of_its_cores():
    assert idset.encode(bound("2-5", index=1, tasks=2).pus) == "4-5,20-21"


def test_an_affinity_to_some_of_the_jobs_cores_stays():
    """``-o cpu-affinity=per-task`` sets one, and so does ``map:`` with single PUs."""
    found = bound("0-7", index=0, tasks=2, affinity=ids("6,22-23"))
    assert (idset.encode(found.cores), idset.encode(found.pus)) == ("6-7", "6,22-23")


@pytest.mark.parametrize("affinity", ["0-31", "0-7,16-23", "8-9", ""])
def test_the_share_replaces_any_other_affinity(affinity):
    found = bound("0-7", index=1, tasks=2, affinity=ids(affinity))
    assert idset.encode(found.pus) == "4-7,20-23"


def test_binding_twice_changes_nothing():
    once = bound("0-15", "0-3", 2, 4)
    again = bound("0-15", "0-3", 2, 4, affinity=once.pus, visible=once.gpus)
    assert again == once


# -- GPUs


def test_each_task_gets_the_gpu_nearest_to_its_cores():
    found = [shown(bound("0-15", "0-3", i, 4)) for i in range(4)]
    assert found == [("0-3", (3,)), ("4-7", (2,)), ("8-11", (1,)), ("12-15", (0,))]


def test_the_nearest_gpu_comes_first_then_those_of_the_socket():
    assert bound("4-5", "0-3").gpus == (2, 3, 0, 1)


def test_a_gpu_near_more_of_the_cores_is_nearer():
    assert bound("2-6", "2-3").gpus == (2, 3)
    assert bound("1-5", "2-3").gpus == (3, 2)


def test_equally_near_gpus_are_ordered_by_their_ids():
    pair = [gpu("20", 0), gpu("10", 0)]
    assert bound("0-1", "0-1", devices=pair).gpus == (0, 1)


def test_a_gpu_in_an_unknown_location_is_nearer_than_one_in_another_socket():
    devices = [gpu("10", 3), gpu("20", None)]
    assert bound("0-3", "0-1", devices=devices).gpus == (1, 0)


@pytest.mark.parametrize("tasks", some([1, 2, 3, 4, 5, 7, 8, 16, 40], 3))
@pytest.mark.parametrize("gpus", ["0", "0-1", "1,3", "0-2", "0-3"])
def test_together_the_tasks_use_each_gpu_and_each_has_one(tasks, gpus):
    found = [bound("0-15", gpus, i, tasks).gpus for i in range(tasks)]
    assert all(found)
    assert idset.from_ids(gpu for part in found for gpu in part) == ids(gpus)
    count = idset.size(ids(gpus))
    if tasks <= count:
        assert sum(map(len, found)) == count
    else:
        uses = [sum(gpu in part for part in found) for gpu in idset.iterate(ids(gpus))]
        assert max(uses) - min(uses) <= 1


def test_gpus_that_the_shell_gave_a_task_stay_and_are_ordered_by_distance():
    """``-o gpu-affinity=per-task`` gives it some."""
    assert bound("0-15", "0-3", 0, 2, visible=(0, 3)).gpus == (3, 0)


def test_very_many_gpus_and_tasks_are_divided_in_order():
    task = Task(machine(), ids("0-15"), ids("0-1023"), 4095, 4096)
    assert bind(task).gpus == (1023,)


# -- memory


@pytest.mark.parametrize(
    "memory, distances, cores, bind_option, preferred",
    [
        ([16, 0, 16, 0], {}, "0-3", "--membind=0", "--preferred=0"),
        ([16, 0, 16, 0], {}, "0-15", "--membind=0,2", "--preferred=0"),
        ([16, 0, 16, 0], {}, "2-7", "--membind=0", "--preferred=0"),
        # None of the task's nodes has memory: those of its socket, else all others.
        ([16, 0, 16, 0], {}, "12-15", "--membind=2", "--preferred=2"),
        ([16, 16, 0, 0], {}, "12-15", "--membind=0-1", "--preferred=0"),
        # As distances are known, the nearest.
        ([16, 16, 0, 0], {(3, 0): 32, (3, 1): 22}, "12-15", "--membind=1", "--preferred=1"),
        # hwloc knows the size of none.
        ([0, 0, 0, 0], {}, "12-15", "--membind=3", "--preferred=3"),
    ],
)
def test_memory_policies_name_numa_nodes_that_have_memory(
    memory, distances, cores, bind_option, preferred
):
    """Linux refuses a policy with others, and the task would not start."""
    sizes = iter(memory)
    text = re.sub(r'(local_memory=")\d+', lambda m: f"{m[1]}{next(sizes) << 30}", Made().xml())
    here = attrs.evolve(read_hwloc(text), distances=distances)
    found = bind(Task(here, ids(cores)))
    assert numactl_option(here, found, "bind") == bind_option
    assert numactl_option(here, found, "interleave") == bind_option.replace("membind", "interleave")
    assert numactl_option(here, found, "preferred") == preferred


def test_numa_nodes_of_other_tiers_are_not_bound_to():
    here = machine(extra_memory=[(0, 16, "HBM"), (None, 64, "CXL-DRAM")])
    assert here.numa_nodes.keys() == {0, 1, 2, 3}


def test_a_policy_for_unknown_numa_nodes_is_an_error():
    here = read_hwloc(
        '<topology version="2.0"><object type="Machine" cpuset="0x1" allowed_cpuset="0x1">'
        '<object type="Core" cpuset="0x1"><object type="PU" os_index="0" cpuset="0x1"/></object>'
        "</object></topology>"
    )
    found = bind(Task(here, 1))
    assert numactl_option(here, found, "local") == "--localalloc"
    with pytest.raises(InvalidHardware, match="bind: the NUMA nodes of this node are not known"):
        numactl_option(here, found, "bind")


# -- which cores and GPUs R means


def test_a_rank_that_r_lacks_is_named():
    with pytest.raises(InvalidR, match="R has ranks 3-4, not 5"):
        task_of(R("0-3", rank="3-4"), 5, machine())


def test_cores_that_the_machine_lacks_are_named():
    with pytest.raises(InvalidR, match="rank 0 has cores 8-19, but this machine only 0-15"):
        task_of(R("8-19"), 0, machine())


@pytest.mark.parametrize("index, tasks", [(1, 1), (-1, 1), (0, 0), (0, 5000)])
def test_impossible_task_numbers_are_refused(index, tasks):
    with pytest.raises(InvalidInput, match="there is no local task"):
        task_of(R("0-3"), 0, machine(), index, tasks)


def test_more_gpus_than_any_node_has_are_refused():
    with pytest.raises(InvalidR, match="more than any node"):
        task_of(R("0-3", "0-3000"), 0, machine())


NUMA = [{"cores": f"{4 * i}-{4 * i + 3}", "gpus": str(3 - i)} for i in range(4)]
TOPO = {"socket": [{"numa": NUMA[:2]}, {"numa": NUMA[2:]}]}


def key(allocated=None, topo=TOPO):
    more = {"allocated": [{"ranks": "0", "cores": allocated}]} if allocated else {}
    return {"children": [{"ranks": "0", "topo": topo}], **more}


def test_in_a_subinstance_with_a_bound_broker_r_and_the_machine_have_the_same_ids():
    part = machine(allowed=range(8, 16))
    task = task_of(R("4-5", scheduling=key("12-13")), 0, part, instance_cores=8)
    assert idset.encode(bind(task).pus) == "12-13"


def test_in_a_subinstance_with_an_unbound_broker_the_key_says_which_cores():
    task = task_of(R("4-5", scheduling=key("12-13")), 0, machine(), instance_cores=8)
    assert idset.encode(bind(task).pus) == "12-13,28-29"


def test_a_key_without_allocated_means_the_first_cores():
    task = task_of(R("0-1", scheduling=key()), 0, machine(), instance_cores=8)
    assert idset.encode(task.cores) == "0-1"


@pytest.mark.parametrize("scheduling, cores", [(None, "0-1"), (key(), "4-5")])
def test_a_task_whose_cores_are_unknown_is_an_error(scheduling, cores):
    with pytest.raises(InvalidHardware, match="among 8 of the node's 16 cores, and no key says"):
        task_of(R(cores, scheduling=scheduling), 0, machine(), instance_cores=8)


def test_the_key_says_which_cores_are_near_gpus_that_the_machine_lacks():
    task = task_of(R("4-7", "0-3", scheduling=key()), 0, machine())
    assert bind(task).gpus[0] == 2


def test_the_key_says_which_gpus_a_contained_subinstance_counts_from_zero():
    # The job's GPUs 0 and 1 are GPUs 1 and 3 of the node, near cores 8-11 and 0-3.
    for cores, first in (("0-3", 1), ("8-11", 0)):
        told = key(cores)
        told["allocated"][0]["gpus"] = "1,3"
        for node in (machine(), machine(CROSSED)):
            task = task_of(R("0-3", "0-1", scheduling=told), 0, node, instance_cores=8)
            assert idset.encode(task.cores) == cores
            assert bind(task).gpus[0] == first


def test_in_a_contained_subinstance_the_bus_has_the_ids_that_the_key_gives():
    # A device cgroup leaves NVML the job's GPUs 1 and 3 of the node, and it counts from zero.
    told_ids = {**key("8-11")["allocated"][0], "gpus": "1,3"}
    told = R("0-3", "0-1", scheduling={**key("8-11"), "allocated": [told_ids]})
    devices = [
        Device(CROSSED[i].pci, CROSSED[i].numa, backends=[(f"nvml{n}", "NVML")])
        for n, i in enumerate((1, 3))
    ]
    buses = [device.pci for device in CROSSED]
    node = with_ids_of_node(machine(devices), buses, has_renumbered_gpus(told, 0))
    assert bind(task_of(told, 0, node, instance_cores=8)).gpus == (0, 1)
    assert not has_renumbered_gpus(R("0-3", "0-1", scheduling=key("8-11")), 0)


def test_the_machine_overrides_the_key_about_cores_near_a_gpu():
    straight = {"numa": [{"cores": f"{4 * i}-{4 * i + 3}", "gpus": str(i)} for i in range(4)]}
    task = task_of(R("4-7", "0-3", scheduling=key(topo=straight)), 0, machine(CROSSED))
    assert bind(task).gpus[0] == 2


@pytest.mark.parametrize("backend", ["nvml", "rsmi"])
def test_in_a_subinstance_gpus_have_the_numbers_of_their_vendors_tools(backend):
    # The bus has a GPU that a container hides; rsmi's order is not that of the bus.
    devices = [
        Device(f"0000:{bus}:00.0", numa, backends=[(f"{backend}{n}", backend.upper())])
        for bus, numa, n in (("60", 0, 1), ("40", 3, 2))
    ]
    found = with_ids_of_node(machine(devices), ["0000:20:00.0", "0000:40:00.0", "0000:60:00.0"])
    assert [(gpu.id, gpu.cores) for gpu in found.gpus] == [(1, ids("0-3")), (2, ids("12-15"))]


def test_gpus_that_are_not_on_the_bus_of_the_whole_node_are_dropped():
    found = with_ids_of_node(machine(CROSSED), ["0000:20:00.0"])
    assert [(gpu.id, gpu.pci) for gpu in found.gpus] == [(0, "0000:20:00.0")]
    assert with_ids_of_node(machine(CROSSED), []).gpus == ()


def test_each_partition_of_a_gpu_has_a_number_on_the_whole_node():
    """The GPUs that hwloc dropped are assumed to have as many partitions."""
    devices = [
        Device(f"0000:{i + 1}0:00.0", i, "1200 [1002:74a0] [1002:74a0] 00", backends)
        for i, backends in enumerate(
            [[(f"rsmi{2 * i + n}", "RSMI") for n in (0, 1)] for i in (0, 1)]
        )
    ]
    found = with_ids_of_node(machine(devices[1:]), [device.pci for device in devices])
    assert [(gpu.id, gpu.cores) for gpu in found.gpus] == [(2, ids("4-7")), (3, ids("4-7"))]


# -- cores that the system keeps


def test_cores_that_the_system_does_not_allow_are_left_out_before_tasks_share():
    # The job has cores 0-7. A cpuset of the system has cores 0 and 1, which are PUs 0, 1, 16, 17.
    allowed = ids("2-15,18-31")
    shares = [
        bound("0-7", index=i, tasks=2, affinity=allowed & ids("0-7,16-23"), allowed=allowed)
        for i in range(2)
    ]
    assert [idset.encode(one.cores) for one in shares] == ["2-4", "5-7"]
    assert shares[0].pus == ids("2-4,18-20")


def test_the_other_pu_of_a_core_is_used_if_one_is_kept():
    assert bound("0-1", allowed=ids("0-15")).pus == ids("0-1")


def test_a_cpuset_without_any_core_of_the_job_is_ignored():
    assert idset.encode(bound("0-3", allowed=ids("12-13")).cores) == "0-3"


# -- NICs


def with_nics(rdma_ports=(), **gpus_of):
    nics = tuple(Nic(name, ids(text), "NODE") for name, text in gpus_of.items())
    return attrs.evolve(machine(), links=Links(nics=nics), rdma_ports=frozenset(rdma_ports))


def test_nics_are_listed_beginning_with_those_of_the_first_gpu():
    node = with_nics(["mlx5_0", "mlx5_1"], mlx5_0="0-1", mlx5_1="0-1", hsn0="2")
    names = ["NCCL_IB_HCA", "UCX_NET_DEVICES"]
    assert nic_settings(node, [0], names) == {
        "NCCL_IB_HCA": "=mlx5_0,mlx5_1",
        "UCX_NET_DEVICES": "mlx5_0:1,mlx5_1:1",
    }
    # The second GPU begins with the other NIC, so that both are used.
    assert nic_settings(node, [1], ["NCCL_IB_HCA"]) == {"NCCL_IB_HCA": "=mlx5_1,mlx5_0"}
    assert nic_settings(node, [2, 0], ["UCX_NET_DEVICES"]) == {
        "UCX_NET_DEVICES": "hsn0,mlx5_0:1,mlx5_1:1"
    }
    assert nic_settings(node, [2], []) == {}


def test_a_variable_without_a_nic_is_an_error():
    node = with_nics(hsn0="0")
    with pytest.raises(InvalidHardware, match="NCCL_IB_HCA: no RDMA port is known"):
        nic_settings(node, [0], ["NCCL_IB_HCA"])
    with pytest.raises(InvalidHardware, match="UCX_NET_DEVICES: no NIC is known"):
        nic_settings(node, [1], ["UCX_NET_DEVICES"])


def test_the_nics_of_the_key_are_used_because_the_job_was_placed_by_them():
    topo = {"cores": "0-15", "gpus": "0-3"}
    table = {"nics": [{"name": "mlx5_7", "gpus": "0-3", "path": "PIX"}]}
    key = {"children": [{"ranks": "0", "topo": topo}], "links": {digest(topo): table}}
    task = task_of(R("0-3", "0", scheduling=key), 0, machine(CROSSED))
    assert task.machine.links.nics_of(0) == ("mlx5_7",)


def test_instances_of_a_job_are_known_by_its_key():
    topo = {"cores": "0-15", "gpus": "0-3", "mig-1g.10gb": [{"cores": "0-3", "gpus": "0-1"}]}
    key = {"children": [{"ranks": "0", "topo": topo}]}
    assert has_instances(R("0-3", "1", scheduling=key), 0)
    assert not has_instances(R("0-3", "2", scheduling=key), 0)
    assert not has_instances(R("0-3", "1"), 0)
