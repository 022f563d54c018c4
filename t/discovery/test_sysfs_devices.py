"""The memory without CPUs, GPUs, NICs and CXL devices that sysfs tells of, in made trees."""

import pytest

from discovery.fakesys import (
    BMC,
    CXL_MEMORY,
    GH200,
    H100,
    MAX1550,
    MI50,
    MI300A,
    read,
    regions,
    smt,
)
from treepool.rfc import idset

GIB = 1 << 30


# ---- Memory without CPUs ----


def far(machine):
    return [(f.tier, idset.encode(f.cores), f.memory // GIB) for f in machine.far_memory]


def test_memory_of_twice_the_bandwidth_is_hbm(two_nodes):
    two_nodes.hmat(1, 100000)
    two_nodes.hmat(2, 200000)
    machine = read(two_nodes)
    assert far(machine) == [("hbm", "2-3", 32)]
    assert regions(machine, "numa") == ["0-1", "2-3"]
    assert not machine.cxl


def test_memory_of_less_than_twice_the_bandwidth_is_of_no_known_tier(two_nodes):
    two_nodes.hmat(1, 100000)
    two_nodes.hmat(2, 199999)
    machine = read(two_nodes)
    assert far(machine) == []
    assert machine.warnings == (
        "NUMA node 2 (32 GiB) has no CPUs, and nothing tells its tier: it is left out",
    )


def test_initiators_tell_where_memory_is_before_distances_do(two_nodes):
    two_nodes.hmat(0, 100000)
    two_nodes.hmat(2, 400000, initiators=[0])
    assert far(read(two_nodes)) == [("hbm", "0-1", 32)]


def test_memory_as_near_to_one_node_as_to_another_is_near_to_both(two_nodes):
    two_nodes.write("devices/system/node/node2/distance", "14 14 10")
    two_nodes.hmat(0, 100000)
    two_nodes.hmat(2, 400000)
    assert far(read(two_nodes)) == [("hbm", "0-3", 32)]


def test_memory_behind_a_dax_device_of_a_cxl_region_is_cxl(two_nodes):
    region = "devices/platform/ACPI0017:00/root0/decoder0.0/region0"
    two_nodes.link("bus/cxl/devices/region0", region)
    two_nodes.write(f"{region}/dax_region0/dax0.0/target_node", 2)
    two_nodes.link("bus/dax/devices/dax0.0", f"{region}/dax_region0/dax0.0")
    machine = read(two_nodes)
    assert far(machine) == [("cxl", "2-3", 32)]
    assert machine.cxl


def test_memory_at_the_addresses_of_a_cxl_region_is_cxl(two_nodes):
    """Firmware gave the region to Linux as ordinary memory, so there is no DAX device."""
    two_nodes.write("devices/system/memory/block_size_bytes", "80000000")
    two_nodes.write("bus/cxl/devices/region3/resource", "0x1080000000")
    (two_nodes.root / "devices/system/node/node2/memory33").mkdir()
    assert far(read(two_nodes)) == [("cxl", "2-3", 32)]


def test_memory_behind_a_dax_device_of_an_nvdimm_is_nvm(two_nodes):
    device = "devices/LNXSYSTM:00/ACPI0012:00/ndbus0/region0/dax0.0"
    two_nodes.write(f"{device}/target_node", 2)
    two_nodes.link("bus/dax/devices/dax0.0", device)
    assert far(read(two_nodes)) == [("nvm", "2-3", 32)]


def test_memory_of_the_node_that_a_gpu_is_of_is_the_gpus(two_nodes):
    two_nodes.pci("0009:01:00.0", GH200, numa=2)
    machine = read(two_nodes)
    assert far(machine) == [("gpumem", "2-3", 32)]
    assert idset.encode(machine.gpus[0].cores) == "2-3"
    assert machine.unified_memory


def test_a_node_without_cpus_or_memory_is_nothing(two_nodes):
    two_nodes.memory(2, 0)
    machine = read(two_nodes)
    assert (machine.far_memory, machine.warnings) == ((), ())


def test_far_memory_near_to_cpus_that_are_not_allowed_is_left_out(two_nodes):
    two_nodes.hmat(1, 100000)
    two_nodes.hmat(2, 400000)
    machine = read(two_nodes, allowed={0, 1})
    assert far(machine) == []
    assert "NUMA node 2 (32 GiB) is near to no CPU that may be used: it is left out" in (
        machine.notes
    )


@pytest.mark.parametrize("where", ["pci", "bus"])
def test_cxl_devices_are_noticed_though_not_in_use(fake, where):
    fake.cpus(smt(packages=1, cores=1))
    assert not read(fake).cxl
    if where == "pci":
        fake.pci("0000:35:00.0", CXL_MEMORY)
    else:
        fake.link("bus/cxl/devices/mem0", "devices/pci0000:34/mem0")
    assert read(fake).cxl


# ---- GPUs ----


def test_gpu_ids_follow_bus_order_and_nvidia_comes_first(two_nodes):
    two_nodes.pci("0000:07:00.0", MAX1550, numa=0)
    two_nodes.pci("0001:01:00.0", H100, numa=1)
    two_nodes.pci("0000:c1:00.0", H100, numa=0)
    two_nodes.pci("0000:03:00.0", MI50, numa=1)
    two_nodes.pci("0000:1a:00.0", H100, numa=1)
    two_nodes.pci("0000:02:00.0", BMC, numa=0)
    found = [(g.id, g.vendor, g.pci, idset.encode(g.cores)) for g in read(two_nodes).gpus]
    assert found == [
        (0, "nvidia", "0000:1a:00.0", "2-3"),
        (1, "nvidia", "0000:c1:00.0", "0-1"),
        (2, "nvidia", "0001:01:00.0", "2-3"),
        (3, "amd", "0000:03:00.0", "2-3"),
        (4, "intel", "0000:07:00.0", "0-1"),
    ]


def test_a_gpu_of_no_node_is_near_to_nothing_known(two_nodes):
    two_nodes.pci("0000:1a:00.0", H100, numa=-1, cpus="0-3")
    assert read(two_nodes).gpus[0].cores == 0


def test_a_gpu_of_no_node_is_near_to_all_cores_where_there_is_one_node(fake):
    fake.cpus(smt(packages=1, cores=4))
    fake.nodes({0: range(8)})
    fake.pci("0000:1a:00.0", H100, numa=-1)
    assert idset.encode(read(fake).gpus[0].cores) == "0-3"


def test_a_gpu_of_a_node_that_is_not_there_is_near_to_its_cpus(two_nodes):
    two_nodes.pci("0000:1a:00.0", H100, numa=7, cpus="1-2")
    assert idset.encode(read(two_nodes).gpus[0].cores) == "1-2"


def test_virtual_functions_and_gpus_for_virtual_machines_are_no_gpus(two_nodes):
    place = two_nodes.pci("0000:1a:00.0", H100, numa=0)
    virtual = two_nodes.pci("0000:1a:00.4", H100, numa=0)
    two_nodes.link(f"{virtual}/physfn", place)
    passed = two_nodes.pci("0000:2a:00.0", H100, numa=0)
    two_nodes.link(f"{passed}/driver", "bus/pci/drivers/vfio-pci")
    machine = read(two_nodes)
    assert [gpu.pci for gpu in machine.gpus] == ["0000:1a:00.0"]
    assert machine.notes == ("GPU 0000:2a:00.0 is kept for virtual machines: it is left out",)


def test_partitions_of_an_amd_gpu_count_each(two_nodes):
    for bus in (1, 2):
        place = two_nodes.pci(f"0000:{bus:02x}:00.0", MI300A, numa=bus - 1)
        two_nodes.write(f"{place}/current_compute_partition", "TPX")
        two_nodes.write(f"{place}/mem_info_vram_total", 96 * GIB)
    nodes = "devices/virtual/kfd/kfd/topology/nodes"
    two_nodes.write(f"{nodes}/0/gpu_id", 0)
    for part in range(6):
        two_nodes.write(f"{nodes}/{part + 1}/gpu_id", 4711 + part)
        place = part % 3 << 28 | 1 + part // 3 << 8
        text = f"cpu_cores_count 0\nlocation_id {place}\ndomain 0"
        two_nodes.write(f"{nodes}/{part + 1}/properties", text)
    machine = read(two_nodes)
    assert [(g.id, g.pci[5:7], g.profile, g.memory // GIB) for g in machine.gpus] == [
        *[(i, "01", "tpx", 32) for i in range(3)],
        *[(i, "02", "tpx", 32) for i in range(3, 6)],
    ]
    assert machine.gpus[0].model == "MI300A"
    assert machine.unified_memory


def test_an_amd_gpu_in_one_part_is_whole(two_nodes):
    place = two_nodes.pci("0000:01:00.0", MI300A, numa=0)
    two_nodes.write(f"{place}/current_compute_partition", "SPX")
    assert [gpu.profile for gpu in read(two_nodes).gpus] == [""]


# ---- NICs ----


def nics(machine):
    return [(n.name, idset.encode(n.gpus), n.path) for n in machine.links.nics]


def test_the_nearest_nic_of_a_gpu_is_the_one_below_its_switch(two_nodes):
    for bus, numa in ((0x10, 0), (0x80, 1)):
        switch = f"pci0000:{bus:02x}/0000:{bus:02x}:01.0/0000:{bus + 1:02x}:00.0"
        port = f"{switch}/0000:{bus + 2:02x}"
        two_nodes.pci(f"0000:{bus + 3:02x}:00.0", H100, numa=numa, above=f"{port}:00.0")
        two_nodes.nic(f"0000:{bus + 4:02x}:00.0", f"mlx5_{numa}", numa=numa, above=f"{port}:01.0")
    assert nics(read(two_nodes)) == [("mlx5_0", "0", "PIX"), ("mlx5_1", "1", "PIX")]


@pytest.mark.parametrize(
    ("above", "numa", "path"),
    [
        ("pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0/0000:13:00.0", 0, "PIX"),
        ("pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0", 0, "PXB"),
        ("pci0000:10/0000:10:01.0", 0, "PXB"),
        ("pci0000:10/0000:10:02.0", 0, "PHB"),
        ("pci0000:20/0000:20:01.0", 0, "NODE"),
        ("pci0000:80/0000:80:01.0", 1, "SYS"),
    ],
)
def test_paths_are_in_the_words_of_nvidia_smi(two_nodes, above, numa, path):
    deep = "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0/0000:13:00.0/0000:14:00.0"
    two_nodes.pci("0000:15:00.0", H100, numa=0, above=deep)
    two_nodes.nic("0000:f0:00.0", "mlx5_0", numa=numa, above=above)
    assert nics(read(two_nodes)) == [("mlx5_0", "0", path)]


def test_a_nic_is_named_for_infiniband_before_its_network_name(two_nodes):
    two_nodes.pci("0000:1a:00.0", H100, numa=0)
    place = two_nodes.nic("0000:1b:00.0", "ib0", group="net", numa=0)
    assert nics(read(two_nodes)) == [("ib0", "0", "NODE")]
    (two_nodes.root / place / "infiniband/mlx5_0").mkdir(parents=True)
    assert nics(read(two_nodes)) == [("mlx5_0", "0", "NODE")]


def test_there_are_no_links_without_gpus(two_nodes):
    two_nodes.nic("0000:1b:00.0", "mlx5_0", numa=0)
    assert read(two_nodes).links is None
