"""hwloc XML is read as the machine that a person sees in its lstopo picture."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import examples
from discovery.nodes import SHARED, OneNode, numbers_of
from hwlocfile import Device, Made
from treepool.discovery.hwloc import read_hwloc
from treepool.discovery.levels import topo_of
from treepool.discovery.machine import Gpu, Machine, Region
from treepool.errors import InvalidHardware
from treepool.rfc import idset
from treepool.rfc.idset import union
from treepool.rfc.rset import ResourceSet
from work import Lines

DATA = Path(__file__).parent / "data"
REAL = SHARED / "hwloc"

NVIDIA = "0302 [10de:1db1] [10de:1212] a1"
AMD = "0380 [1002:66a1] [1002:0834] 02"


def gpu_ids(made, **options):
    """The ids of the GPUs at each PCI bus id."""
    found = {}
    for gpu in read_hwloc(made.xml(), **options).gpus:
        found.setdefault(gpu.pci, []).append(gpu.id)
    return found


def topo(made, levels=None):
    return topo_of(read_hwloc(made.xml()), levels).topo


# -- cores and regions


def test_the_same_machine_is_read_from_hwloc_1_2_and_3():
    made = Made(devices=[Device("0000:03:00.0", 1, backends=[("cuda0", "CUDA")])])
    machines = [read_hwloc(made.xml(version)) for version in (1, 2, 3)]
    topos = [topo_of(machine).topo for machine in machines]
    assert topos[0] == topos[1] == topos[2]
    assert topos[0] == {
        "socket": [
            {
                "numa": [
                    {"cores": "0-3", "memory": 16},
                    {"cores": "4-7", "gpus": "0", "memory": 16},
                ]
            },
            {"numa": [{"cores": "8-11", "memory": 16}, {"cores": "12-15", "memory": 16}]},
        ]
    }
    assert {m.hostname for m in machines} == {"made1"}


def test_cores_that_may_not_be_used_are_left_out_and_the_rest_count_from_zero():
    # PUs 0 and 16 are core 0. Core 1 has one PU left.
    allowed = set(range(1, 16)) | set(range(18, 32))
    made = Made(allowed=allowed)
    machine = read_hwloc(made.xml())
    assert idset.size(machine.cores) == 15
    assert machine.pus[0] == (1,)
    assert machine.notes[0] == "1 cores are offline or not allowed, and are left out"
    assert topo(made)["socket"][0]["numa"][0]["cores"] == "0-2"


def test_a_machine_without_cores_counts_pus():
    made = Made(smt=1)
    text = re.sub(
        r'<object type="Core"[^>]*>\n(<object type="PU"[^>]*>\n</object>\n)</object>',
        r"\1",
        made.xml(),
    )
    assert "Core" not in text
    assert idset.encode(read_hwloc(text).cores) == "0-15"


# -- levels


def test_levels_that_add_nothing_are_included_if_they_are_named():
    made = Made(packages=1, numas=1)
    assert topo(made, ["socket", "numa"]) == {
        "socket": [{"numa": [{"cores": "0-3", "memory": 16}]}]
    }


def test_memory_of_a_level_that_is_left_out_belongs_to_the_domain_of_its_cores():
    assert topo(Made(), ["socket"]) == {
        "socket": [{"cores": "0-7", "memory": 32}, {"cores": "8-15", "memory": 32}]
    }


def with_memory_of_all(text, number):
    """*text* with one more NUMA node, of all cores and 16 GiB."""
    whole = re.search(r'cpuset="(0x[0-9a-f]+)"', text).group(1)
    return text.replace(
        '<object type="Package"',
        f'<object type="NUMANode" os_index="{number}" local_memory="{1 << 34}" cpuset="{whole}">'
        '</object><object type="Package"',
        1,
    )


def test_the_memory_of_a_node_is_all_that_is_in_it():
    text = with_memory_of_all(Made().xml().replace("0x0000000f", "0x0000001f"), 4)
    l3s = [{"cores": f"{i}-{i + 3}", "memory": 16} for i in (0, 4, 8, 12)]
    assert topo_of(read_hwloc(text), ["socket", "l3"]).topo == {
        "memory": 16 + 4 * 16,
        "socket": [{"l3": l3s[:2]}, {"l3": l3s[2:]}],
    }


def test_numa_nodes_around_sockets_nest_the_other_way():
    text = Made(packages=2, numas=1).xml(3)
    text = re.sub(r'<object type="NUMANode"[^>]*>\n</object>\n', "", text)
    text = with_memory_of_all(text, 0)
    assert topo_of(read_hwloc(text), ["socket", "numa"]).topo == {
        "numa": [{"memory": 16, "socket": [{"cores": "0-3"}, {"cores": "4-7"}]}]
    }


def test_a_level_that_separates_gpus_is_included_by_default():
    # Each L3 cache of a socket has a GPU of its own, as on MI250X nodes.
    made = Made(
        packages=1,
        numas=2,
        smt=1,
        devices=[
            Device("0000:0a:00.0", 0, backends=[("rsmi0", "RSMI")]),
            Device("0000:0b:00.0", 1, backends=[("rsmi1", "RSMI")]),
        ],
    )
    text = re.sub(r'<object type="NUMANode"[^>]*>\n</object>\n', "", made.xml())
    assert topo_of(read_hwloc(text)).topo == {
        "group": [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1"}]
    }


def test_levels_that_cross_are_left_out_with_a_warning():
    text = Made(packages=1, numas=1, cores=4, smt=1).xml()
    text = text.replace(
        '<object type="Core"',
        '<object type="Die" cpuset="0x3"></object>'
        '<object type="Group" cpuset="0x6"></object><object type="Core"',
        1,
    )
    node = topo_of(read_hwloc(text), ["die", "group"])
    assert node.topo == {"group": [{"cores": "0-3", "memory": 16, "die": [{"cores": "0-1"}]}]}
    assert "group of cores 1-2 crosses other domains, and is left out" in node.warnings


def test_domains_of_different_sizes_give_a_warning():
    made = Made(packages=1, allowed=set(range(7)) | set(range(8, 15)))
    warnings = topo_of(read_hwloc(made.xml())).warnings
    assert warnings == ("uneven: domains of numa have 3, 4 cores",)


# -- memory


@pytest.mark.parametrize(
    "subtype, tier",
    [
        ("HBM", "hbm"),
        ("MCDRAM", "hbm"),
        ("CXL-DRAM", "cxl"),
        ("NVM", "nvm"),
        ("GPUMemory", "gpumem"),
    ],
)
def test_memory_of_another_tier_is_a_locality_inside_the_domain_it_is_near_to(subtype, tier):
    made = Made(numas=1, extra_memory=[(1, 64, subtype)])
    assert topo(made)["socket"] == [
        {"cores": "0-3", "memory": 16},
        {"cores": "4-7", "memory": 16, tier: [{"cores": "4-7", "memory": 64}]},
    ]


def test_a_domain_with_others_inside_lists_the_gpus_that_none_of_these_has():
    devices = [
        Device("0000:01:00.0", 0, backends=[("cuda0", "CUDA")]),
        Device("0000:02:00.0", package=0, backends=[("cuda1", "CUDA")]),
        Device("0000:03:00.0", backends=[("cuda2", "CUDA")]),
    ]
    found = topo(Made(memory=0, devices=devices))
    numa = [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7"}]
    assert found["socket"][0] == {"gpus": "1", "numa": numa}
    assert found["gpus"] == "2" and "cores" not in found


def test_a_domain_with_cores_that_no_domain_inside_has_lists_everything():
    # flux-core's TreePool does not look into a domain that lists cores.
    gpus = Gpu(0, cores=0b011), Gpu(1, cores=0b111)
    numas = Region("numa", 0b011), Region("numa", 0b100)
    machine = Machine("host", 0b1111, numas, gpus=gpus)
    assert topo_of(machine).topo == {
        "cores": "0-3",
        "gpus": "0-1",
        "numa": [{"cores": "0-1", "gpus": "0"}, {"cores": "2"}],
    }


def test_memory_of_a_tier_near_nothing_belongs_to_the_node():
    made = Made(packages=1, numas=1, extra_memory=[(None, 256, "CXL-DRAM")])
    assert topo(made) == {"cores": "0-3", "memory": 16, "cxl": [{"cores": "0-3", "memory": 256}]}
    assert read_hwloc(made.xml()).cxl


@pytest.mark.parametrize(("mbps", "tiers"), [(200, {"hbm"}), (199, set())])
def test_the_bandwidth_says_the_tier_if_hwloc_does_not_name_it(mbps, tiers):
    made = Made(packages=1, numas=1, smt=1, extra_memory=[(0, 8, "")])
    text = made.xml()
    numbers = numbers_of(text, "NUMANode")
    more = (
        '<memattr name="Bandwidth">'
        + "".join(
            f'<memattr_value target_obj_type="NUMANode" target_obj_gp_index="{n}" value="{value}"/>'
            for n, value in zip(numbers, (100, mbps))
        )
        + "</memattr>"
    )
    text = text.replace("</topology>", more + "</topology>")
    assert {(far.tier, far.cores) for far in read_hwloc(text).far_memory} == {
        (tier, 0xF) for tier in tiers
    }


def test_memory_of_an_unknown_tier_is_left_out_with_a_warning():
    machine = read_hwloc(Made(numas=1, extra_memory=[(1, 64, "")]).xml())
    assert machine.far_memory == ()
    assert machine.warnings == (
        "left out: NUMA 100 (64 GiB), without own cores, and of unknown tier",
    )


# -- GPUs


def test_nvidia_gpus_are_numbered_by_pci_bus_id_and_not_in_the_order_of_the_tree():
    made = Made(
        devices=[
            Device("0000:c1:00.0", 0, backends=[("nvml1", "NVML")]),
            Device("0000:41:00.0", 3, backends=[("nvml0", "NVML")]),
        ]
    )
    assert gpu_ids(made) == {"0000:41:00.0": [0], "0000:c1:00.0": [1]}
    assert gpu_ids(made, gpu_index="hwloc") == {"0000:c1:00.0": [0], "0000:41:00.0": [1]}
    assert topo(made)["socket"][1]["numa"][1]["gpus"] == "0"


def test_pci_bus_ids_are_compared_as_numbers_with_their_domain_first():
    made = Made(
        devices=[
            Device("10000:01:00.0", 0, backends=[("nvml0", "NVML")]),
            Device("0002:01:00.0", 1, backends=[("nvml1", "NVML")]),
            Device("0001:f1:00.0", 2, backends=[("nvml2", "NVML")]),
        ]
    )
    assert gpu_ids(made) == {"0001:f1:00.0": [0], "0002:01:00.0": [1], "10000:01:00.0": [2]}


def test_compute_gpus_without_a_backend_are_found_on_the_bus():
    made = Made(
        devices=[
            Device("0000:03:00.0", 0, NVIDIA),
            Device("0000:04:00.0", 0, "0300 [1a03:2000] [15d9:1b55] 41"),
            Device("0000:05:00.0", 0, "0300 [1002:515e] [0014:0019] 02"),
        ]
    )
    machine = read_hwloc(made.xml())
    assert [gpu.pci for gpu in machine.gpus] == ["0000:03:00.0"]
    assert machine.warnings[0].startswith("1 GPU is known from the PCI bus only")


def moved(made, to=None):
    """The XML of *made* with OpenCL's GPUs not in their PCI devices: beside them, or all in *to*.

    So do virtual machines, where the driver tells OpenCL the number of a device and hwloc expects
    number and function; and nodes whose GPUs differ in the PCI domain alone, which ROCm leaves out.
    """
    root = ElementTree.fromstring(made.xml())
    devices = [item for item in root.iter("object") if item.get("type") == "PCIDev"]
    bridge = {device: item for item in root.iter("object") for device in item}
    target = next((item for item in devices if item.get("pci_busid") == to), None)
    for device in devices:
        for osdev in device.findall("object"):
            if osdev.get("name").startswith("opencl"):
                device.remove(osdev)
                (bridge[device] if target is None else target).append(osdev)
    return ElementTree.tostring(root, "unicode")


NVIDIA_GPU = {"GPUVendor": "NVIDIA Corporation", "GPUModel": "H100"}
AMD_GPU = {"GPUVendor": "Advanced Micro Devices, Inc.", "GPUModel": "MI300A"}


def virtual(*backends, kind=NVIDIA, infos=NVIDIA_GPU, more=()):
    """Two GPUs in sockets 0 and 1, the higher bus id first; * in a backend's name is its number."""
    devices = [
        Device(bus, numa, kind, [(b[0].replace("*", str(i)), b[1]) for b in backends], infos)
        for i, (bus, numa) in enumerate([("0000:a0:1c.0", 0), ("0000:10:1c.0", 3)])
    ]
    return Made(devices=[*devices, *more])


IDE = Device("0000:00:01.1", 0, "0101 [8086:7010] [1af4:1100] 00")
OPENCL = ("opencl0d*", "OpenCL")


@pytest.mark.parametrize("index", ["vendor", "pci"])
@pytest.mark.parametrize(
    "text",
    [
        moved(virtual(OPENCL)),
        moved(virtual(OPENCL, more=[IDE]), IDE.pci),
        moved(virtual(OPENCL), "0000:a0:1c.0"),
        moved(virtual(OPENCL, ("nvml*", "NVML"), ("cuda*", "CUDA"))),
        moved(virtual(OPENCL, ("opencl1d*", "OpenCL"))),
        moved(virtual(OPENCL, ("cuda*", "CUDA"), more=[IDE]), IDE.pci),
    ],
    ids=["beside", "at another device", "all at one", "NVML too", "two platforms", "CUDA, and IDE"],
)
def test_gpus_that_opencl_shows_at_a_wrong_place_are_where_they_are(index, text):
    machine = read_hwloc(text, gpu_index=index)
    found = [(gpu.id, gpu.pci, gpu.cores, gpu.model, gpu.profile) for gpu in machine.gpus]
    assert found == [
        (0, "0000:10:1c.0", 0xF000, "H100", ""),
        (1, "0000:a0:1c.0", 0xF, "H100", ""),
    ]
    assert machine.warnings == ()
    assert {gpu.vendor for gpu in machine.gpus} == {"nvidia"}


@pytest.mark.parametrize("backends", [[OPENCL], [OPENCL, ("rsmi*", "RSMI")]])
def test_amd_gpus_that_opencl_shows_all_at_one_device_count_each(backends):
    text = moved(virtual(*backends, kind=AMD, infos=AMD_GPU), "0000:a0:1c.0")
    found = {(gpu.pci, gpu.cores, gpu.vendor, gpu.profile) for gpu in read_hwloc(text).gpus}
    assert found == {("0000:10:1c.0", 0xF000, "amd", ""), ("0000:a0:1c.0", 0xF, "amd", "")}


@pytest.mark.parametrize(
    ("kind", "backend", "parts"),
    [
        (AMD, "RSMI", ["rsmi0", "rsmi1"]),
        ("0380 [8086:0bd5] [8086:0000] 2f", "LevelZero", ["ze0", "ze0.0", "ze0.1"]),
    ],
)
def test_parts_of_the_only_gpu_that_a_backend_may_see_stay_in_it(kind, backend, parts):
    seen = Device("0000:10:00.0", 0, kind, [(part, backend) for part in parts])
    made = Made(devices=[seen, Device("0000:90:00.0", 3, kind)])
    found = [(gpu.pci, gpu.cores) for gpu in read_hwloc(made.xml()).gpus]
    assert found == [("0000:10:00.0", 0xF)] * 2


def test_gpus_that_only_another_platform_or_backend_shows_count():
    platforms = [
        Device(f"0000:{n}0:00.0", 0, "0380 [8086:56c0] [8086:0000] 08", [(name, "OpenCL")])
        for n, name in enumerate(("opencl0d0", "opencl1d0", "opencl1d1"), 1)
    ]
    assert len(read_hwloc(Made(devices=platforms).xml()).gpus) == 3
    nvml = Device("0000:10:00.0", 0, NVIDIA, [("nvml0", "NVML"), ("cuda0", "CUDA")])
    cuda = Device("0000:90:00.0", 3, NVIDIA, [("cuda1", "CUDA")])
    found = [(gpu.id, gpu.pci) for gpu in read_hwloc(Made(devices=[nvml, cuda]).xml()).gpus]
    assert found == [(0, nvml.pci), (1, cuda.pci)]


def test_gpus_at_a_wrong_place_that_differ_are_not_mistaken_for_each_other():
    made = virtual(OPENCL)
    other = attrs.evolve(made.devices[1], infos={**NVIDIA_GPU, "GPUModel": "L4"})
    machine = read_hwloc(moved(attrs.evolve(made, devices=[made.devices[0], other])))
    assert {(gpu.cores, gpu.model) for gpu in machine.gpus} == {(0xF, "H100"), (0xF000, "L4")}
    assert [gpu.pci for gpu in machine.gpus] == ["", ""]


def test_a_gpu_that_is_not_near_any_domain_belongs_to_the_node():
    made = Made(devices=[Device("0000:03:00.0", None, backends=[("nvml0", "NVML")])])
    node = topo_of(read_hwloc(made.xml()))
    assert node.topo["gpus"] == "0"
    assert "gpu 0 is near no part of the node: it belongs to the node itself" in node.warnings


# -- hostile files


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "is empty"),
        ("no xml", "is not XML: it begins with 'no xml'"),
        (b"\x1f\x8b\x08\x00", "is compressed by gzip: unpack it first"),
        ("Machine (16GB total)\n  Package L#0", "is the text that lstopo prints: write XML"),
        ('{"version": 1}', "is JSON"),
        ("<topology", "line 1 column 1: unclosed token"),
        ("<topology>", "no element found"),
        ("<html/>", "the document is <html>, not <topology>"),
        ("<topology/>", "has no object of type Machine"),
        ('<topology><object type="Machine"/></topology>', "the machine has no cpuset"),
        ('<topology><object type="Machine" cpuset="0xf...f"/></topology>', "not a bitmap of hwloc"),
        ('<topology><object type="Machine" cpuset="-0x1"/></topology>', "not a bitmap of hwloc"),
        ('<topology><object type="Machine" cpuset="0x1"/></topology>', "no core that may be used"),
        ("<topology>" + '<object type="Machine" cpuset="0x1">' * 200, "nested too deep"),
        ('<?xml version="1.0" encoding="klingon"?><topology/>', "unknown encoding"),
    ],
)
def test_xml_that_is_not_a_topology_is_an_error_of_one_line(text, message):
    with pytest.raises(InvalidHardware) as e:
        read_hwloc(text, "node.xml")
    assert message in str(e.value)
    assert str(e.value).startswith("node.xml: ")
    assert "\n" not in str(e.value)


def test_entities_are_refused():
    bomb = '<!DOCTYPE t [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><topology>&b;</topology>'
    with pytest.raises(InvalidHardware, match=r"EntitiesForbidden: refused"):
        read_hwloc(bomb)
    outside = '<!DOCTYPE t [<!ENTITY a SYSTEM "file:///etc/passwd">]><topology>&a;</topology>'
    with pytest.raises(InvalidHardware, match=r"refused"):
        read_hwloc(outside)


def test_xml_larger_than_any_node_is_refused_unread():
    with pytest.raises(InvalidHardware, match="100 MiB of XML is more than a node needs"):
        read_hwloc(b"<topology>" + b" " * (100 << 20))


# -- what holds for every machine


def check(node):
    """The properties that a topo has, whatever the machine."""
    machine, topo = node.machine, node.topo
    cores, gpus = [], []

    def walk(domain):
        nested = [d for k, v in domain.items() if isinstance(v, list) for d in v]
        inner = [walk(d) for d in nested]
        mine = idset.decode(domain.get("cores", "")), idset.decode(domain.get("gpus", ""))
        below = [sum(masks) for masks in zip(*inner)] if inner else [0, 0]
        # Nested domains do not overlap, and the ids listed around them include theirs.
        assert below[0] == union(c for c, _ in inner)
        assert below[1] == union(g for _, g in inner)
        cores.append((mine[0] or below[0]) & ~below[0])
        gpus.append((mine[1] or below[1]) & ~below[1])
        return mine[0] | below[0], mine[1] | below[1]

    everything = walk(topo)
    assert everything[0] == machine.cores
    # Each core and each GPU is in exactly one smallest domain.
    assert sum(cores) == machine.cores
    assert sum(gpus) == everything[1] == sum(1 << gpu.id for gpu in machine.gpus)


def served_near_each_gpu(node):
    """One core and one GPU come from the domain of that GPU, for each GPU in turn."""
    pool = OneNode(node)
    assert ResourceSet.problems(json.dumps(pool.R)) == []
    near = {gpu.id: gpu.cores or node.machine.cores for gpu in node.machine.gpus}
    shape = "slot/[core;gpu]" if near else "slot/core"
    # The file of a DGX-2 has fewer cores than GPUs.
    jobs = max(min(len(near), idset.size(node.machine.cores)), 1)
    rest = max(len(near) - jobs, 0)
    for _ in range(jobs):
        children = pool.alloc(shape)
        for gpu in idset.iterate(idset.decode(children.get("gpu", ""))):
            assert idset.decode(children["core"]) & ~near.pop(gpu) == 0
    assert len(near) == rest


made_machines = st.builds(
    Made,
    packages=st.integers(1, 3),
    numas=st.integers(1, 3),
    cores=st.integers(2, 5),
    smt=st.integers(1, 2),
    l3=st.booleans(),
    devices=st.lists(
        st.builds(
            Device,
            pci=st.builds("000{}:{:02x}:00.0".format, st.integers(0, 3), st.integers(0, 255)),
            numa=st.integers(0, 8),
            backends=st.sampled_from(
                [
                    [("nvml0", "NVML")],
                    [("cuda0", "CUDA"), ("nvml0", "NVML")],
                    [("rsmi0", "RSMI"), ("rsmi1", "RSMI")],
                ]
            ),
        ),
        max_size=5,
        unique_by=lambda device: device.pci,
    ),
    extra_memory=st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 64), st.sampled_from(["HBM", "CXL", "NVM"])),
        max_size=2,
    ),
)
levels = st.none() | st.lists(st.sampled_from(["socket", "numa", "l3", "gpulink"]), unique=True)


@given(made_machines, st.sampled_from([1, 2, 3]), levels)
@settings(max_examples=examples(100), deadline=None)
def test_each_core_and_gpu_is_in_one_smallest_domain(made, version, levels):
    made = attrs.evolve(
        made,
        devices=[attrs.evolve(d, numa=d.numa % (made.packages * made.numas)) for d in made.devices],
    )
    node = topo_of(read_hwloc(made.xml(version)), levels)
    check(node)
    few = made.cores > sum(2 for d in made.devices)
    if few and levels is None:
        served_near_each_gpu(node)


# -- real machines

SYNTHETIC = {
    "smt-2x2x2x2x2.xml": {
        "socket": [
            {"numa": [{"cores": "0-3", "memory": 1}, {"cores": "4-7", "memory": 1}]},
            {"numa": [{"cores": "8-11", "memory": 1}, {"cores": "12-15", "memory": 1}]},
        ]
    },
}


@pytest.mark.parametrize("name", SYNTHETIC)
def test_synthetic_topologies_of_lstopo(name):
    node = topo_of(read_hwloc((DATA / name).read_bytes()))
    assert node.topo == SYNTHETIC[name]
    check(node)
    served_near_each_gpu(node)


#: What lstopo draws, written down by a person.
PICTURES = json.loads((DATA / "pictures.json").read_text())


@pytest.mark.skipif(not REAL.is_dir(), reason="../shared/hwloc is not here")
@pytest.mark.parametrize("name", PICTURES)
def test_a_real_machine_is_what_its_picture_shows(name):
    node = topo_of(read_hwloc((REAL / name).read_bytes(), name))
    assert node.topo == PICTURES[name]
    check(node)
    served_near_each_gpu(node)


def test_the_work_is_linear_in_the_gpus_that_one_device_claims_to_be():
    backends = [(f"opencl0d{i}", "OpenCL") for i in range(500)]
    xml = Made(packages=1, numas=1, devices=[Device("0000:10:00.0", 0, backends=backends)]).xml()
    with Lines() as work:
        read_hwloc(xml)
    assert work.count < 1500 * xml.count("<object")


def test_the_work_is_linear_in_the_nics_of_the_machine():
    def work(many):
        kind = "0207 [15b3:1017] [15b3:0123] 00"
        nics = [
            Device(f"{i:04x}:00:00.0", None, kind, [(f"mlx5_{i}", "OpenFabrics")])
            for i in range(1, many)
        ]
        xml = Made(packages=1, numas=1, devices=[Device("0000:10:00.0"), *nics]).xml()
        with Lines() as work:
            read_hwloc(xml)
        return work.count

    assert work(400) < 5 * work(100)


# -- what an administrator is told


AMD_VGA = "0300 [1002:66a1] [1002:0834] 02"


def test_amd_gpus_of_display_class_are_named_where_hwloc_cannot_tell_them_from_consoles():
    cards = [Device("0000:03:00.0", 0, AMD_VGA), Device("0000:83:00.0", 2, AMD_VGA)]
    machine = read_hwloc(Made(devices=cards).xml())
    assert machine.gpus == ()
    assert "not counted as GPUs: 0000:03:00.0, 0000:83:00.0" in machine.warnings[0]
    told = [attrs.evolve(card, backends=[(f"rsmi{i}", "RSMI")]) for i, card in enumerate(cards)]
    machine = read_hwloc(Made(devices=told).xml())
    assert (len(machine.gpus), machine.warnings) == (2, ())


def test_memory_that_may_not_be_used_is_told():
    text = re.sub(r'allowed_nodeset="0x[0-9a-f]+"', 'allowed_nodeset="0x3"', Made().xml())
    assert 'allowed_nodeset="0x3"' in text
    notes = read_hwloc(text).notes
    assert "left out: NUMA 2-3, whose memory may not be used" in notes


def test_a_format_of_a_later_version_is_read_with_a_warning():
    text = re.sub(r'<topology version="[^"]*"', '<topology version="4.0"', Made().xml())
    machine = read_hwloc(text)
    assert machine.cores == read_hwloc(Made().xml()).cores
    assert machine.warnings == ("XML of version 4 of hwloc's format is read as 3's",)


def test_cores_that_differ_in_frequency_alone_are_told_to_count_as_one_kind():
    kinds = "".join(
        f'<cpukind cpuset="0x{mask:08x}"><info name="FrequencyMaxMHz" value="{mhz}"/></cpukind>'
        for mask, mhz in ((0x00FF00FF, 3000), (0xFF00FF00, 2000))
    )
    machine = read_hwloc(attrs.evolve(Made(), more=kinds).xml())
    assert machine.core_kinds == {}
    assert "cores differ in frequency alone: they count as of one kind" in machine.notes
