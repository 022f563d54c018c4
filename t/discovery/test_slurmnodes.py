"""Slurm's view of nodes as hardware: ``scontrol show node`` and ``gres.conf``."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import examples
from treepool.discovery import slurmhosts, slurmnodes
from treepool.discovery.levels import topo_of
from treepool.errors import InvalidHardware, InvalidHostlist
from treepool.rfc.links import Wire
from work import Lines


def scontrol(*names, sockets=2, cores=8, gres="gpu:a100:4(S:0-1)", memory=512000):
    """What scontrol prints of nodes, each in several lines."""
    return "".join(
        f"NodeName={name} Arch=x86_64 CoresPerSocket={cores}\n"
        f"   CPUAlloc=0 CPUEfctv=32 CPUTot=32 CPULoad=0.07\n"
        f"   AvailableFeatures=(null)\n   Gres={gres}\n"
        f"   NodeAddr={name} NodeHostName={name} Version=25.05.1\n"
        f"   OS=Linux 5.14.0 #1 SMP Mon Jan 1 00:00:00 UTC 2024\n"
        f"   RealMemory={memory} AllocMem=0 FreeMem=500000 Sockets={sockets} Boards=1\n"
        f"   State=IDLE ThreadsPerCore=2 TmpDisk=0\n\n"
        for name in names
    )


PAIRS = """
# two NVLink pairs
NodeName=n[0-1] Name=gpu Type=a100 File=/dev/nvidia0 Cores=0-7  Links=-1,12,0,0
NodeName=n[0-1] Name=gpu Type=a100 File=/dev/nvidia1 Cores=0-7  Links=12,-1,0,0
NodeName=n[0-1] Name=gpu Type=a100 File=/dev/nvidia[2-3] Cores=8-15
"""


def topo(*texts):
    ((hosts, machine),) = slurmnodes.read(texts)
    return hosts, topo_of(machine)


def test_sockets_cores_memory_and_gpus_are_as_slurm_says():
    hosts, node = topo(scontrol("n0", "n1"), PAIRS)
    assert hosts == ("n0", "n1")
    assert node.topo == {
        "socket": [
            {"cores": "0-7", "gpus": "0-1", "memory": 250},
            {"cores": "8-15", "gpus": "2-3", "memory": 250},
        ]
    }
    assert node.machine.links.pairs() == {(0, 1): Wire("nvlink", 300.0)}
    assert [(d.model, d.gpus) for d in node.machine.links.devices] == [("a100", 15)]
    assert {gpu.vendor for gpu in node.machine.gpus} == {"nvidia"}
    assert node.warnings == ()


@pytest.mark.parametrize("text", [
    scontrol("n0").replace("\n   ", " "),  # scontrol -o
    "NodeName=n0 Boards=1 SocketsPerBoard=2 CoresPerSocket=8 RealMemory=512000 \\\n"
    "  ThreadsPerCore=2 Gres=gpu:a100:4 # slurm.conf\n",
])  # fmt: skip
def test_other_forms_say_the_same(text):
    assert topo(text, PAIRS)[1].topo == topo(scontrol("n0"), PAIRS)[1].topo


def test_cores_near_gpus_are_numa_domains_where_they_divide_the_node_and_groups_otherwise():
    four = "".join(f"Name=gpu File=/dev/nvidia{i} Cores={4 * i}-{4 * i + 3}\n" for i in range(4))
    assert topo(scontrol("n0"), four)[1].topo["socket"][1] == {
        "numa": [{"cores": "8-11", "gpus": "2", "memory": 125},
                 {"cores": "12-15", "gpus": "3", "memory": 125}]
    }  # fmt: skip
    two = "".join(f"Name=gpu File=/dev/nvidia{i} Cores={2 * i}-{2 * i + 1}\n" for i in range(2))
    node = topo(scontrol("n0", gres="gpu:2"), two)[1]
    groups = [{"cores": "0-1", "gpus": "0"}, {"cores": "2-3", "gpus": "1"}]
    assert node.topo["socket"][0]["group"] == groups


def test_nodes_are_alike_if_slurm_says_so_and_gres_conf_too():
    kinds = slurmnodes.read([scontrol("n0", "n1", "n2") + scontrol("c0", gres="(null)"), PAIRS])
    assert [hosts for hosts, _ in kinds] == [("n0", "n1"), ("n2",), ("c0",)]
    assert [len(machine.gpus) for _, machine in kinds] == [4, 4, 0]


def test_what_gres_conf_leaves_to_autodetect_is_told_and_so_is_another_number_of_gpus():
    ((_, machine),) = slurmnodes.read([scontrol("n0"), "AutoDetect=nvml\n"])
    assert (len(machine.gpus), machine.links) == (4, None)
    assert "AutoDetect" in machine.notes[0]
    ((_, machine),) = slurmnodes.read([scontrol("n0"), "Name=gpu File=/dev/nvidia[0-2]\n"])
    assert machine.warnings == ("gres.conf has 3 GPUs, the node 4: it is not used",)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([""], "no node with CoresPerSocket="),
        ([PAIRS], "no node with CoresPerSocket="),
        (["NodeName=n[0- CoresPerSocket=2"], "line 1: "),
        (["NodeName=n0 CoresPerSocket=x Sockets=2"], "line 1: corespersocket 'x' is not a number"),
        (["NodeName=n0 CoresPerSocket=9999 Sockets=2"], "line 1: 2 sockets of 9999 cores"),
        (
            [scontrol("n0"), "Name=gpu Cores=0-99 File=/dev/nvidia0"],
            "Cores='0-99': the node has 16",
        ),
        (
            [scontrol("n0"), "Name=gpu Cores=x File=/dev/nvidia0"],
            "Cores='x' is not a list of cores",
        ),
        ([scontrol("n0"), "Name=gpu File=/dev/nvidia[0-500]"], "more than 128 GPUs"),
        (["NodeName=n[0-9999999] CoresPerSocket=1 Sockets=1"], "line 1: "),
    ],
)
def test_malformed_text_is_an_error_of_one_line(texts, message):
    with pytest.raises(InvalidHardware) as raised:
        slurmnodes.read(texts)
    assert message in str(raised.value) and "\n" not in str(raised.value)


WORDS = st.sampled_from(
    ["NodeName=n0", "Name=gpu", "CoresPerSocket=2", "Sockets=2", "File=/dev/nvidia[0-1]",
     "Links=1,2", "Cores=0-1", "Gres=gpu:2", "Count=3", "RealMemory=9", "\n", "#", "\\", "x"]
)  # fmt: skip


@given(st.text() | st.lists(WORDS, max_size=20).map(" ".join))
@settings(max_examples=examples(300), deadline=None)
def test_any_text_is_read_or_refused(text):
    try:
        for _, machine in slurmnodes.read([text]):
            topo_of(machine)
    except InvalidHardware as e:
        assert "\n" not in str(e)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2"),
        ("r[2,1]n[01-2]-ib,a[3,1]", "r2n01-ib r2n02-ib r1n01-ib r1n02-ib a3 a1"),
        ("[1-2][3-4],,b", "13 14 23 24 b"),
        ("a[0-1][0-1][0-1]", "a000 a001 a010 a011 a100 a101 a110 a111"),
    ],
)
def test_in_slurms_lists_several_brackets_are_a_product(text, plain):
    assert slurmhosts.decode(text) == plain.split()


@pytest.mark.parametrize("text", ["[0-99]" * 50, "h" + "[0]" * 100_000, "h[1][", "h[2-1],i[1]"])
def test_of_slurms_lists_malformed_and_oversized_ones_are_refused_at_once(text):
    with Lines() as work, pytest.raises(InvalidHostlist):
        slurmhosts.decode(text)
    assert work.count < 4_000_000
