"""The cores and regions that sysfs tells of, in made trees and on this machine."""

import os
from pathlib import Path

import pytest

from discovery.fakesys import Cpu, check, read, regions, smt
from treepool.discovery.sysfs import read_sysfs
from treepool.rfc import idset

GIB = 1 << 30


def test_a_node_of_two_smt_sockets(fake):
    fake.cpus(smt(packages=2, cores=4))
    fake.nodes({0: [0, 1, 2, 3, 8, 9, 10, 11], 1: [4, 5, 6, 7, 12, 13, 14, 15]}, gib=96)
    machine = read(fake)
    assert machine.hostname == "n0"
    assert idset.encode(machine.cores) == "0-7"
    assert machine.pus[0] == (0, 8)
    assert machine.pus[7] == (7, 15)
    assert regions(machine, "socket") == ["0-3", "4-7"]
    assert regions(machine, "numa") == ["0-3", "4-7"]
    assert [r.memory for r in machine.regions if r.kind == "numa"] == [96 * GIB] * 2
    assert (machine.gpus, machine.far_memory, machine.links) == ((), (), None)
    assert (machine.notes, machine.warnings) == ((), ())


def test_nps4_is_four_numa_nodes_in_a_socket_and_l3_caches_in_these(fake):
    fake.cpus(smt(packages=1, cores=16, threads=1, l3=2))
    fake.nodes({n: range(4 * n, 4 * n + 4) for n in range(4)})
    machine = read(fake)
    assert regions(machine, "socket") == ["0-15"]
    assert regions(machine, "numa") == ["0-3", "4-7", "8-11", "12-15"]
    assert regions(machine, "l3") == [f"{n}-{n + 1}" for n in range(0, 16, 2)]


def test_sub_numa_clusters_number_cores_by_cluster_not_by_cpu(fake):
    """SNC2 as Intel's firmware has it: CPUs alternate between the two halves of a socket."""
    fake.cpus(smt(packages=1, cores=8, threads=1))
    fake.nodes({0: [0, 2, 4, 6], 1: [1, 3, 5, 7]})
    machine = read(fake)
    assert regions(machine, "numa") == ["0-3", "4-7"]
    assert [machine.pus[i] for i in range(8)] == [(0,), (2,), (4,), (6,), (1,), (3,), (5,), (7,)]


def test_cores_of_interleaved_sockets_are_numbered_socket_by_socket(fake):
    fake.cpus(smt(packages=2, cores=2, interleaved=True))
    machine = read(fake)
    assert machine.pus == {0: (0, 4), 1: (2, 6), 2: (1, 5), 3: (3, 7)}
    assert regions(machine, "socket") == ["0-1", "2-3"]


def test_dies_are_regions_where_a_socket_has_several(fake):
    fake.cpus(smt(packages=2, cores=4, dies=2))
    assert regions(read(fake), "die") == ["0-1", "2-3", "4-5", "6-7"]


def test_one_die_in_a_socket_is_no_region(fake):
    fake.cpus(smt(packages=2, cores=4, dies=1))
    assert regions(read(fake), "die") == []


def test_a_virtual_machine_of_one_core(fake):
    fake.cpus({0: Cpu(siblings=[0])})
    fake.nodes({0: [0]}, gib=2)
    machine = read(fake)
    assert machine.cores == 1
    assert machine.pus == {0: (0,)}
    assert [(r.kind, r.cores, r.memory) for r in machine.regions] == [
        ("socket", 1, 0),
        ("numa", 1, 2 * GIB),
    ]


def test_offline_cpus_are_left_out_and_the_rest_renumbered(fake):
    fake.cpus(smt(packages=2, cores=2), online=[0, 1, 3, 4, 7])
    machine = read(fake)
    assert machine.pus == {0: (0, 4), 1: (1,), 2: (3, 7)}
    assert regions(machine, "socket") == ["0-1", "2"]
    assert machine.notes == ("3 CPUs are offline or not allowed, and are left out",)


def test_each_cpu_tells_whether_it_is_online_where_the_list_is_missing(fake):
    fake.cpus(smt(packages=1, cores=4, threads=1), online=[0, 2, 3])
    (fake.root / "devices/system/cpu/online").unlink()
    (fake.root / "devices/system/cpu/cpu0/online").unlink()
    assert read(fake).pus == {0: (0,), 1: (2,), 2: (3,)}


def test_cpus_that_are_not_allowed_are_left_out(fake):
    fake.cpus(smt(packages=2, cores=2))
    fake.nodes({0: [0, 1, 4, 5], 1: [2, 3, 6, 7]})
    machine = read(fake, allowed={2, 6, 3, 99, -1})
    assert machine.pus == {0: (2, 6), 1: (3,)}
    assert regions(machine, "numa") == ["0-1"]
    assert machine.notes == (
        "5 CPUs are offline or not allowed, and are left out",
        "NUMA node 0 has no CPU that may be used: it is left out",
    )


def test_a_ragged_machine_keeps_its_odd_sizes(fake):
    cpus = smt(packages=1, cores=3, threads=1)
    cpus[3] = Cpu(package=1, core=0, siblings=[3, 4])
    cpus[4] = Cpu(package=1, core=0, siblings=[3, 4])
    fake.cpus(cpus)
    machine = read(fake)
    assert regions(machine, "socket") == ["0-2", "3"]
    assert machine.pus[3] == (3, 4)


def test_old_linux_calls_the_list_of_a_core_thread_siblings(fake):
    fake.cpus(smt(packages=1, cores=2))
    for n in range(4):
        topology = fake.root / f"devices/system/cpu/cpu{n}/topology"
        (topology / "core_cpus_list").rename(topology / "thread_siblings_list")
        (topology / "core_id").unlink()
    assert read(fake).pus == {0: (0, 2), 1: (1, 3)}


def test_without_siblings_the_ids_tell_which_pus_are_a_core(fake):
    fake.cpus({n: Cpu(package=n // 4, core=n % 2) for n in range(8)})
    assert read(fake).pus == {0: (0, 2), 1: (1, 3), 2: (4, 6), 3: (5, 7)}


def test_siblings_with_different_core_ids_are_two_cores(fake):
    fake.cpus({n: Cpu(core=n, siblings=[0, 1]) for n in range(2)})
    assert read(fake).pus == {0: (0,), 1: (1,)}


def test_cpus_without_any_topology_are_cores_of_one_socket(fake):
    fake.cpus({n: Cpu(package=None, core=None) for n in range(3)})
    machine = read(fake)
    assert machine.pus == {0: (0,), 1: (1,), 2: (2,)}
    assert regions(machine, "socket") == ["0-2"]


def test_numa_nodes_that_cut_across_sockets_are_left_out_with_a_warning(fake):
    fake.cpus(smt(packages=2, cores=2, threads=1))
    fake.nodes({0: [0], 1: [1, 2], 2: [3]})
    machine = read(fake)
    assert regions(machine, "numa") == ["0", "3"]
    assert machine.warnings == (
        "1 of 3 numa sets of CPUs overlap others in part and are left out, the first with CPUs 1-2",
    )


def test_a_cache_of_instructions_is_no_region(fake):
    fake.cpus(smt(packages=1, cores=2, threads=1, l3=2))
    for n in range(2):
        fake.write(f"devices/system/cpu/cpu{n}/cache/index2/type", "Instruction")
    assert regions(read(fake), "l3") == []


@pytest.mark.skipif(not Path("/sys/devices/system/cpu").is_dir(), reason="there is no sysfs")
def test_this_machine_has_the_cpus_that_are_online():
    machine = read_sysfs(allowed=os.sched_getaffinity(0))
    check(machine)
    assert {pu for pus in machine.pus.values() for pu in pus} <= os.sched_getaffinity(0)
    assert machine.hostname
