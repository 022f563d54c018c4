"""Machines of other forms: partitions and tiles of GPUs, superchips, kinds of cores.

Each is made up from the public description that its test names. Real files of these machines were
tried too, if they are public.
"""

from __future__ import annotations

import re

import pytest

from discovery.nodes import MI300A, OneNode, with_matrix
from hwlocfile import Device, Made
from treepool.discovery import properties
from treepool.discovery.hwloc import read_hwloc
from treepool.discovery.levels import topo_of

PVC = "0380 [8086:0bd6] [8086:0000] 2f"
SWITCH = "0680 [10de:1ac2] [0000:0000] a1"


def described(made, levels=None):
    return topo_of(read_hwloc(made.xml()), levels)


def allocated(node, shape):
    """The cores and GPUs that a pool of this one node gives, by R_lite."""
    return OneNode(node).alloc(shape)


# -- hwloc 3


def partitions(count):
    """Four MI300A of *count* partitions each, one per NUMA node (AMD's partition modes)."""
    return Made(
        packages=4,
        numas=1,
        cores=6,
        devices=[
            Device(
                f"000{i}:01:00.0",
                i,
                MI300A,
                [(f"rsmi{count * i + part}", "RSMI") for part in range(count)],
                {"RSMIVRAMSize": "11796032", "GPUModel": "AMD Instinct MI300A"},
            )
            for i in range(4)
        ],
    )


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize(("count", "profile"), [(1, ""), (3, "tpx"), (6, "cpx")])
def test_partitions_are_gpus_in_the_xml_of_every_version_of_hwloc(version, count, profile):
    machine = read_hwloc(partitions(count).xml(version))
    assert len(machine.gpus) == 4 * count
    assert {gpu.profile for gpu in machine.gpus} == {profile}
    assert {gpu.memory for gpu in machine.gpus} == {(11796032 << 10) // count}
    assert machine.hostname == "made1"
    assert machine.unified_memory
    assert not machine.warnings


# -- NVSwitch


def gpus(backend, switches=()):
    """Four GPUs, and NVSwitches beside them."""
    found = [Device(f"0000:{i + 1:02x}:00.0", 0, backends=[(f"{backend.lower()}{i}", backend)])
             for i in range(4)]  # fmt: skip
    return [*found, *(Device(f"0000:{i:02x}:00.0", 1, SWITCH) for i in switches)]


@pytest.mark.parametrize(
    ("made", "there"),
    [
        (
            with_matrix("NVLinkBandwidth", 150_000, gpus("NVML")),
            False,
        ),  # H100, joined directly
        (with_matrix("XGMIBandwidth", 150_000, gpus("RSMI")), False),  # MI300A
        (
            with_matrix("NVLinkBandwidth", 150_000, gpus("NVML", [0x61, 0x62])),
            True,
        ),  # a DGX-2
    ],
)
def test_gpus_are_on_an_nvswitch_if_there_is_one(made, there):
    machine = read_hwloc(made.xml())
    assert machine.links.kind == "all-to-all"
    assert ("nvswitch" in properties.of_machine(machine)) is there


# -- levels


def test_two_devices_in_one_domain_share_its_cores():
    made = Made(
        packages=1,
        numas=1,
        cores=7,
        devices=[
            Device(f"0000:0{i}:00.0", 0, MI300A, [(f"rsmi{2 * i + p}", "RSMI") for p in (0, 1)])
            for i in (0, 1)
        ],
    )
    assert described(made, ["device"]).topo["device"] == [
        {"cores": "0-3", "gpus": "0-1"},
        {"cores": "4-6", "gpus": "2-3"},
    ]


TILES = {"LevelZeroVendor": "Intel(R) Corporation", "LevelZeroModel": "Data Center GPU Max 1550"}


def intel(*backends, infos=TILES):
    return Made(numas=1, devices=[Device("0000:18:00.0", 1, PVC, backends, infos)])


@pytest.mark.parametrize("version", [2, 3])
def test_levelzero_devices_are_gpus_and_so_are_their_tiles(version):
    # hwloc's topology-levelzero.c: ze0 is the device, ze0.0 and ze0.1 are its tiles, inside it.
    made = intel(("ze0", "LevelZero"), ("ze0.0", "LevelZero"), ("ze0.1", "LevelZero"),
                 infos={**TILES, "LevelZeroHBMSize": "67108864"})  # fmt: skip
    machine = read_hwloc(made.xml(version))
    assert [(g.id, g.vendor, g.model, g.profile, g.memory >> 30) for g in machine.gpus] == [
        (0, "intel", "Data Center GPU Max 1550", "tile", 64),
        (1, "intel", "Data Center GPU Max 1550", "tile", 64),
    ]
    assert machine.warnings == ()
    assert "Flux does not count GPUs that LevelZero alone reports" in machine.notes
    assert described(made, ["socket", "device"]).topo["socket"][1]["device"] == [
        {"cores": "4-7", "gpus": "0-1"}
    ]


def test_tiles_that_opencl_shows_do_not_have_the_profiles_of_amd():
    made = intel(("opencl0d0", "OpenCL"), ("opencl0d1", "OpenCL"))
    assert {gpu.profile for gpu in read_hwloc(made.xml()).gpus} == {"tile"}


# -- superchips


def superchip(model, gpus, nodes, gib):
    """Sockets with one or two GPUs each, whose memory is in NUMA nodes without CPUs.

    Linux has eight such nodes for each GPU, for MIG, and most of them are empty (NVIDIA's Grace
    tuning guide, numactl).
    """
    memory = [(None, gib if i % 8 == 0 else 0, "") for i in range(nodes)]
    devices = [
        Device(
            f"000{i}:01:00.0", i // 2, backends=[(f"nvml{i}", "NVML")], infos={"GPUModel": model}
        )
        for i in range(gpus)
    ]
    return Made(packages=2, numas=1, devices=devices, extra_memory=memory)


@pytest.mark.parametrize("model", ["NVIDIA GH200 480GB", "NVIDIA GB200", "NVIDIA GB300"])
def test_memory_of_superchips_gives_one_note_and_no_warning(model):
    node = described(superchip(model, 4, 32, 184))
    assert node.machine.unified_memory
    assert node.warnings == ()
    (note,) = [note for note in node.notes if "NUMA" in note]
    assert note.startswith("left out: NUMA 101-107,109-115")
    assert sorted(far.memory >> 30 for far in node.machine.far_memory) == [184] * 4
    (device,) = node.machine.links.devices
    assert (device.c2c, device.gpus) == (450, 0b1111)


def test_memory_of_fewer_gpus_than_there_are_is_near_none_of_them():
    machine = read_hwloc(superchip("NVIDIA GH200 480GB", 4, 16, 96).xml())
    assert [far.cores for far in machine.far_memory] == [machine.cores] * 2


def test_memory_that_hwloc_holds_in_a_group_of_its_own_is_of_the_gpus():
    """What hwloc 2 makes of sierra.xml: nodes without CPUs are each in a group in the machine."""
    text = superchip("NVIDIA GH200 480GB", 2, 9, 96).xml()
    node = r'<object type="NUMANode" cpuset="0x0+" .*\n</object>\n'
    inside, count = re.subn(node, r'<object type="Group" cpuset="0x0">\n\g<0></object>\n', text)
    assert count == 9
    assert read_hwloc(inside) == read_hwloc(text)
    assert [far.memory >> 30 for far in read_hwloc(inside).far_memory] == [96, 96]


def test_fast_memory_in_a_group_of_its_own_is_not_that_of_cpus_that_were_taken_away():
    """hwloc's form of a KNL node of hwloc 1 (its 64intel64-fakeKNL-SNC4-hybrid.v1tov2.xml)."""
    text = Made(numas=1, extra_memory=[(0, 8, "MCDRAM"), (1, 8, "MCDRAM")]).xml()
    node = r'<object type="NUMANode" [^>]*(os_index[^>]*"MCDRAM"[^>]*)>\n</object>\n'
    empty = 'cpuset="0x0" complete_cpuset="0x0"'
    group = rf'<object type="Group" {empty}>\n<object type="NUMANode" {empty} \1>\n</object>'
    inside, count = re.subn(node, f"{group}</object>\n", text)
    assert count == 2
    assert [(far.tier, far.memory >> 30) for far in read_hwloc(inside).far_memory] == [
        ("hbm", 8),
        ("hbm", 8),
    ]


def test_a_gpu_whose_chip_is_called_like_a_superchip_does_not_share_memory():
    model = {"GPUModel": "GB202 [GeForce RTX 5090]"}
    made = Made(devices=[Device("0000:01:00.0", 0, backends=[("nvml0", "NVML")], infos=model)])
    assert not read_hwloc(made.xml()).unified_memory


# -- NUMA nodes without CPUs


def test_a_numa_node_whose_cpus_are_not_allowed_is_left_out_with_a_note():
    # A cpuset of Linux allows only one of two NUMA nodes of four cores.
    text = Made(packages=2, numas=1, smt=1, allowed=range(4)).xml()
    text = text.replace('cpuset="0x000000f0" complete', 'cpuset="0x00000000" complete')
    machine = read_hwloc(text)
    assert "left out: NUMA 1, none of whose CPUs is online and allowed" in machine.notes
    assert machine.warnings == ()


# -- kinds of cores


def kinds(*found):
    """cpukind elements, as hwloc 2.4 and newer write them: (cpuset, efficiency, infos)."""
    return "".join(
        f'<cpukind cpuset="{cpuset:#x}" forced_efficiency="{efficiency}">'
        + "".join(f'<info name="{name}" value="{value}"/>' for name, value in infos.items())
        + "</cpukind>\n"
        for cpuset, efficiency, infos in found
    )


HYBRID = Made(
    packages=1,
    numas=1,
    cores=6,
    smt=1,
    more=kinds((0b111100, 0, {"CoreType": "IntelAtom"}), (0b11, 1, {"CoreType": "IntelCore"})),
)


def test_performance_and_efficient_cores_are_localities():
    node = described(HYBRID)
    assert node.topo == {"memory": 16, "pcore": [{"cores": "0-1"}], "ecore": [{"cores": "2-5"}]}
    assert allocated(node, "slot/pcore/core=2") == {"core": "0-1"}
    assert allocated(node, "slot/ecore/core=1") == {"core": "2"}


def test_a_slot_does_not_mix_kinds_of_cores_unless_it_must():
    node = described(HYBRID)
    assert allocated(node, "slot/core=2") == {"core": "0-1"}
    assert allocated(node, "slot/core=4") == {"core": "2-5"}
    assert allocated(node, "slot/core=5")["core"] == "0-4"


def test_clusters_of_different_capacity_are_kinds():
    # Like a DGX Spark (GB10): two clusters of five small cores, and two of five large ones.
    # The clusters run at slightly different speeds, and hwloc 2 ranks each kind.
    capacity = [(0x1F, 718), (0x1F << 10, 731), (0x1F << 5, 997), (0x1F << 15, 1024)]
    more = kinds(*((pus, i, {"LinuxCapacity": able}) for i, (pus, able) in enumerate(capacity)))
    node = described(Made(packages=1, numas=1, cores=20, smt=1, more=more))
    assert node.topo["ecore"] == [{"cores": "0-4,10-14"}]
    assert node.topo["pcore"] == [{"cores": "5-9,15-19"}]


def test_a_core_of_two_kinds_belongs_to_the_first():
    more = kinds((0b11, 0, {"CoreType": "IntelAtom"}), (0b1111, 1, {"CoreType": "IntelCore"}))
    node = described(Made(packages=1, numas=1, smt=1, more=more))
    assert node.topo == {"memory": 16, "ecore": [{"cores": "0-1"}], "pcore": [{"cores": "2-3"}]}
