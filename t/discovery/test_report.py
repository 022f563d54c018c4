"""hwloc and a vendor's tool together: the better source counts for each pair of devices."""

from __future__ import annotations

import pytest

from discovery.nodes import CONNECTX, MI250X
from hwlocfile import Device, Made
from treepool.discovery.hwloc import read_hwloc
from treepool.discovery.linking import PCIE_GBPS
from treepool.discovery.reports import nvidia
from treepool.discovery.reports.report import combined
from treepool.errors import InvalidHardware
from treepool.rfc import idset
from treepool.rfc.links import Nic, Wire


def node(*places, model="NVIDIA H100 80GB HBM3", nics=(), **form):
    """A node with a GPU below each of these NUMA nodes, and NICs (name, NUMA node)."""
    devices = [
        Device(f"0000:{i + 16:x}:00.0", place, backends=[(f"nvml{i}", "NVML")],
               infos={"GPUModel": model})
        for i, place in enumerate(places)
    ]  # fmt: skip
    devices += [
        Device(f"0000:{i + 64:x}:00.0", place, CONNECTX, [(name, "")])
        for i, (name, place) in enumerate(nics)
    ]
    return read_hwloc(Made(devices=devices, **form).xml())


def table(*lines):
    return "\n".join(lines) + "\n"


def report(*lines):
    return nvidia.read_topo(table(*lines))


def test_the_nearer_path_of_a_pair_counts_unless_it_has_nvlink():
    # nvidia-smi says SYS between NUMA nodes of one socket; hwloc does not see the NVLink.
    machine = combined(
        node(0, 1, 2),
        report("GPU0 GPU1 GPU2", "GPU0 X SYS NV4", "GPU1 SYS X SYS", "GPU2 NV4 SYS X"),
    )
    assert machine.links.pairs() == {
        (0, 1): Wire("pcie", PCIE_GBPS["SOCKET"]),
        (0, 2): Wire("nvlink", 100.0),
        (1, 2): Wire("pcie", PCIE_GBPS["SYS"]),
    }


def test_the_nearer_nic_counts_for_each_gpu():
    machine = combined(
        node(0, 1, nics=[("mlx5_0", 0)]),
        report("GPU0 GPU1 mlx5_0 mlx5_1", "GPU0 X SYS NODE SYS", "GPU1 SYS X SYS PXB"),
    )
    assert machine.links.nics == (Nic("mlx5_0", 0b01, "PHB"), Nic("mlx5_1", 0b10, "PXB"))


@pytest.mark.parametrize(
    ("model", "gbps"),
    [
        ("Tesla P100-SXM2-16GB", 4 * 20),
        ("NVIDIA H100 80GB HBM3", 4 * 25),
        ("NVIDIA B200", 4 * 50),
        ("NVIDIA GB200", 4 * 50),
        ("NVIDIA A40", 4 * 14),
        ("NVIDIA RTX A6000", 4 * 14),
        ("NVIDIA GeForce RTX 3090", 4 * 14),
        ("NVIDIA A100-SXM4-40GB", 4 * 25),
    ],
)
def test_the_speed_of_an_nvlink_depends_on_the_model(model, gbps):
    machine = combined(node(0, 0, model=model), report("GPU0 GPU1", "GPU0 X NV4", "GPU1 NV4 X"))
    assert machine.links.pairs() == {(0, 1): Wire("nvlink", gbps)}


@pytest.mark.parametrize(("word", "switched"), [("NV6", False), ("NV12", True), ("NV18", True)])
def test_more_nvlinks_than_a_gpu_has_are_behind_switches(word, switched):
    # Four H100 joined directly have six links to each other one: all 18 of a GPU.
    rows = [f"GPU{i} " + " ".join("X" if i == j else word for j in range(4)) for i in range(4)]
    assert report("GPU0 GPU1 GPU2 GPU3", *rows).nvswitch is switched


@pytest.mark.parametrize(
    "rows",
    [
        ["\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID", "GPU0\t X \t\t1\t\tN/A"],
        ["\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID", "GPU0\t X \tN/A\t1\t\tN/A"],
        ["      GPU0  CPU Affinity  NUMA Affinity", "GPU0   X                  1"],
        ["      GPU0  CPU Affinity  NUMA", "GPU0   X    N/A           1"],
        ["\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID", "GPU0\t X \t4-7,20-23\t\tN/A\t\tN/A"],
        ["\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID", "GPU0\t X \t4-7,20-23\t1\t\tN/A"],
    ],
)
def test_the_numa_column_says_where_a_gpu_is_if_no_cpus_are_named(rows):
    (gpu,) = combined(node(None), report(*rows)).gpus
    assert idset.encode(gpu.cores) == "4-7"


def folded(text):
    """The lines as a terminal of 80 columns shows them."""
    lines = []
    for line in text.expandtabs().split("\n"):
        lines += [line[i : i + 80] for i in range(0, len(line), 80)] or [""]
    return "\n".join(lines)


@pytest.mark.parametrize("gpus", range(4, 20))
@pytest.mark.parametrize("tail", ["\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID", ""])
def test_a_table_folded_at_80_columns_is_an_error_that_says_how_to_get_it_whole(gpus, tail):
    names = "".join(f"\tGPU{i}" for i in range(gpus))
    row = "\t0-31,64-95\t0\t\tN/A" if tail else ""
    rows = [f"GPU{i}" + "".join("\t X " if i == j else "\tNV12" for j in range(gpus)) + row
            for i in range(gpus)]  # fmt: skip
    text = table(names + tail, *rows, "", "Legend:", "", "  X    = Self")
    assert len(nvidia.read_topo(text).near) == gpus
    cut = folded(text)
    if cut == text.expandtabs():
        assert len(nvidia.read_topo(cut).near) == gpus
        return
    with pytest.raises(InvalidHardware) as raised:
        nvidia.read_topo(cut)
    assert "nvidia-smi topo -m > FILE" in str(raised.value)


def test_gpus_of_another_vendor_are_named():
    amd = Device("0000:10:00.0", 0, MI250X, [("rsmi0", "RSMI")])
    machine = read_hwloc(Made(devices=[amd]).xml())
    after = combined(machine, report("GPU0 CPU Affinity", "GPU0 X 0-3"))
    assert after.warnings == ("nvidia-smi is not used: gpus 0 are of amd, not nvidia",)
    assert after.links == machine.links


def test_a_report_of_another_node_is_not_used():
    after = combined(node(0, 1), report("GPU0", "GPU0 X"))
    assert after.warnings == ("gpus are 0-1, but nvidia-smi has 0: it is not used",)


def test_gpus_near_cpus_that_hwloc_does_not_show_are_named():
    lines = ["GPU0 GPU1 CPU Affinity", "GPU0 X SYS 0-7", "GPU1 SYS X 200-207"]
    after = combined(node(), report(*lines))
    assert after.warnings == (
        "nvidia-smi: gpus 1 are near CPUs that hwloc does not show: is it of this node?",
    )


def test_hwlocs_cores_near_a_gpu_count_and_others_of_the_report_are_told():
    text = report("GPU0 GPU1 CPU Affinity", "GPU0 X SYS 4-7", "GPU1 SYS X 4-7")
    machine = combined(node(0, 1), text)
    assert [idset.encode(gpu.cores) for gpu in machine.gpus] == ["0-3", "4-7"]
    (warning,) = machine.warnings
    assert warning == "gpu 0 is near cores 0-3, but near 4-7 for nvidia-smi"
