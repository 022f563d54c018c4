"""MIG instances are GPU ids of their own, in localities named by their profile."""

import pytest

from hwlocfile import Device, Made
from treepool.discovery.describe import Describer
from treepool.discovery.hwloc import read_hwloc
from treepool.discovery.reports.mig import read_list, with_instances
from treepool.errors import InvalidHardware

TEXT = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-5a3)
  MIG 3g.40gb     Device  0: (UUID: MIG-c6d)
  MIG 1g.10gb     Device  1: (UUID: MIG-0f1)
  MIG 1g.10gb     Device  2: (UUID: MIG-0f2)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-7b9)
GPU 2: NVIDIA H100 80GB HBM3 (UUID: GPU-7ba)
"""

#: GPUs 0 and 1 in the first NUMA domain of six cores, GPU 2 in the second.
NODE = Made(
    packages=1,
    cores=6,
    devices=[
        Device(
            f"0000:0{i + 1}:00.0",
            numa,
            backends=[(f"nvml{i}", "NVML")],
            infos={"GPUModel": "H100"},
        )
        for i, numa in enumerate((0, 0, 1))
    ],
)


def described(text=TEXT, made=NODE):
    describer = Describer(instances=read_list(text))
    return describer.of_xml(made.xml().encode())


def test_each_instance_counts_and_a_divided_gpu_does_not():
    gpus = described().machine.gpus
    assert [(g.id, g.profile, g.memory >> 30) for g in gpus] == [
        (0, "mig-3g.40gb", 40),
        (1, "mig-1g.10gb", 10),
        (2, "mig-1g.10gb", 10),
        (3, "", 0),
        (4, "", 0),
    ]


def test_instances_are_in_localities_named_by_profile_with_a_share_of_cores():
    assert described().topo["numa"] == [
        {
            "cores": "0-5",
            "gpus": "0-3",
            "memory": 16,
            "mig-3g.40gb": [{"cores": "0", "gpus": "0"}],
            "mig-1g.10gb": [{"cores": "1-2", "gpus": "1-2"}],
        },
        {"cores": "6-11", "gpus": "4", "memory": 16},
    ]


def test_instances_can_be_grouped_by_their_gpu():
    describer = Describer(levels=["numa", "device"], instances=read_list(TEXT))
    numa = describer.of_xml(NODE.xml().encode()).topo["numa"]
    assert numa[0]["device"] == [
        {
            "mig-3g.40gb": [{"cores": "0", "gpus": "0"}],
            "mig-1g.10gb": [{"cores": "1-2", "gpus": "1-2"}],
        },
        {"cores": "3-5", "gpus": "3"},
    ]


def test_gpus_that_hwloc_does_not_know_are_taken_from_the_list():
    gpus = with_instances(read_hwloc(Made().xml()), read_list(TEXT)).gpus
    assert [gpu.uuid for gpu in gpus] == ["MIG-c6d", "MIG-0f1", "MIG-0f2", "GPU-7b9", "GPU-7ba"]
    assert {gpu.vendor for gpu in gpus} == {"nvidia"}


def test_links_join_whole_gpus_only():
    links = described().machine.links
    assert links.gpus == 0b11111 or links.gpus == 0b11000
    assert all(not mask & 0b111 for link in links.links for mask in link.among)
    assert [(device.memory, device.gpus) for device in links.devices] == [
        (40, 0b00001),
        (10, 0b00110),
        (0, 0b11000),
    ]


def test_a_list_of_another_node_is_not_used():
    node = described("GPU 0: NVIDIA H100 (UUID: x)\n")
    assert len(node.machine.gpus) == 3
    assert "nvidia-smi -L has 1 GPUs, the node 3: it is not used" in node.warnings


@pytest.mark.parametrize("profile", ["1g.10gb+me", "1g.24gb+me.all", "1g.24gb-me", "1c.2g.10gb"])
def test_every_form_of_a_profile_is_read(profile):
    (gpu,) = read_list(f"GPU 0: x\n  MIG {profile}  Device  0: (UUID: MIG-1)\n")
    assert [part.profile for part in gpu.instances] == [profile]


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "line 1: there is no GPU"),
        ("GPU 1: x\n", "line 1: GPU 1 where GPU 0 is expected"),
        ("".join(f"GPU {i}: x\n" for i in range(129)), "line 129: more than 128 GPUs"),
        (
            "GPU 0: x\n" + 65 * "  MIG 1g.5gb Device 0:\n",
            "line 66: more than 64 MIG devices of one",
        ),
        ("  MIG 1g.10gb Device 0: (x)\n", "line 1: a MIG device before the first GPU"),
        ("GPU 0: x\n  MIG huge Device 0: (x)\n", "line 2: 'huge' is not a profile such as 1g.10gb"),
        ("GPU 0: x\nrm -rf\n", "line 2: 'rm -rf' is neither GPU nor MIG device"),
    ],
)
def test_malformed_text_is_an_error_with_the_line(text, said):
    with pytest.raises(InvalidHardware, match=f"nvidia-smi -L: {said}"):
        read_list(text)
