"""Slurm's view of nodes as hardware: ``scontrol show node`` and ``gres.conf``."""

from __future__ import annotations

import pytest

from treepool.discovery import slurmhosts, slurmnodes
from treepool.discovery.key import Nodes, encode_into, encode_new
from treepool.discovery.levels import topo_of
from treepool.discovery.slurmlines import File
from treepool.errors import InvalidHardware, InvalidHostlist
from treepool.rfc import idset
from treepool.rfc.links import Wire
from treepool.rfc.rset import ResourceSet
from work import Lines


def scontrol(*names, gres="gpu:a100:4(S:0-1)"):
    """What scontrol prints of nodes, each in several lines."""
    return "".join(
        f"NodeName={name} Arch=x86_64 CoresPerSocket=8\n"
        f"   CPUAlloc=0 CPUEfctv=32 CPUTot=32 CPULoad=0.07\n"
        f"   AvailableFeatures=(null)\n   Gres={gres}\n"
        f"   NodeAddr={name} NodeHostName={name} Version=25.05.1\n"
        f"   OS=Linux 5.14.0 #1 SMP Mon Jan 1 00:00:00 UTC 2024\n"
        f"   RealMemory=512000 AllocMem=0 FreeMem=500000 Sockets=2 Boards=1\n"
        f"   State=IDLE ThreadsPerCore=2 TmpDisk=0\n\n"
        for name in names
    )


PAIRS = """
# two NVLink pairs
NodeName=n[0-1] Name=gpu Type=a100 File=/dev/nvidia0 Cores=0-7  Links=-1,12,0,0
NodeName=n[0-1] Name=gpu Type=a100 File=/dev/nvidia1 Cores=0-7  Links=12,-1,0,0
NodeName=n[0-1] Name=gpu Type=a100 File=/dev/nvidia[2-3] Cores=8-15
"""


def read(*texts, wanted=()):
    return slurmnodes.read([File(text) for text in texts], wanted)


#: Files that begin a fuzzer's.
SEEDS = (
    "NodeName=DEFAULT Sockets=2 CoresPerSocket = 4 \\\n RealMemory=9\nNodeName=n0 CoreSpecCount=1",
    "NodeName=n CPUs=7 Gres=gpu:a100_1g.5gb:2\nName=gpu Type=1g.5gb MultipleFiles=/dev/nvidia0,/x",
)


def topo(*texts):
    ((hosts, machine),) = read(*texts).machines
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
    kinds = read(scontrol("n0", "n1", "n2") + scontrol("c0", gres="(null)"), PAIRS).machines
    assert [hosts for hosts, _ in kinds] == [("n0", "n1"), ("n2",), ("c0",)]
    assert [len(machine.gpus) for _, machine in kinds] == [4, 4, 0]


def test_what_gres_conf_leaves_to_autodetect_is_told_and_so_is_another_number_of_gpus():
    ((_, machine),) = read(scontrol("n0"), "AutoDetect=nvml\n").machines
    assert (len(machine.gpus), machine.links) == (4, None)
    assert "AutoDetect" in machine.notes[0]
    ((_, machine),) = read(scontrol("n0"), "Name=gpu File=/dev/nvidia[0-2]\n").machines
    assert machine.warnings == ("gres.conf has 3 GPUs, the node 4: it is not used",)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([""], "no node: no line NodeName="),
        ([PAIRS], "no node: no line NodeName="),
        (["NodeName=n[0- CoresPerSocket=2"], "line 1: "),
        (
            ["NodeName=DEFAULT Sokets=2\nNodeName=n0"],
            "NodeName=DEFAULT: line 1: 'Sokets' is no key",
        ),
        (["NodeName=n0 CoresPerSocket=x Sockets=2"], "line 1: corespersocket 'x' is not a number"),
        (["NodeName=n0 CoresPerSocket=9999 Sockets=2"], "line 1: 2 sockets of 9999 cores"),
        (["NodeName=n[0-9999999] CoresPerSocket=1 Sockets=1"], "line 1: "),
    ],
)
def test_malformed_text_is_an_error_of_one_line(texts, message):
    with pytest.raises(InvalidHardware) as raised:
        read(*texts)
    assert message in str(raised.value) and "\n" not in str(raised.value)


def described(*texts, wanted=()):
    """The topos by the first host of each kind, and what was told of all."""
    found = read(*texts, wanted=wanted)
    return {hosts[0]: topo_of(machine) for hosts, machine in found.machines}, found


def test_a_node_called_default_gives_values_to_the_lines_after_it():
    text = (
        "NodeName=a\nNodeName=DEFAULT Sockets=2 CoresPerSocket=4 Gres=gpu:2\nNodeName=b[0-1]\n"
        'NodeName=c CoresPerSocket=8 Gres=""\nnodename=default CoresPerSocket=2\nNodeName=d\n'
    )
    nodes, found = described(text)
    assert {n: idset.size(node.machine.cores) for n, node in nodes.items()} == {
        "a": 1, "b0": 8, "c": 16, "d": 4
    }  # fmt: skip
    assert [len(node.machine.gpus) for node in nodes.values()] == [0, 2, 0, 2]
    assert found.told == "5 of 5 nodes"


@pytest.mark.parametrize(
    ("line", "sockets", "cores"),
    [
        ("", 1, 1),
        ("CPUs=8", 1, 8),
        ("Procs=8 ThreadsPerCore=2", 1, 4),
        ("CPUs=8 CoresPerSocket=2", 4, 8),
        ("CPUs=8 CoresPerSocket=2 ThreadsPerCore=2", 2, 4),
        ("Sockets=2 CPUs=8 CoresPerSocket=4 ThreadsPerCore=2", 2, 8),
        ("CoresPerSocket=6", 1, 6),
        ("Boards=2 CoresPerSocket=2", 2, 4),
        ("Boards=2 SocketsPerBoard=2 Sockets=1 CoresPerSocket=2", 4, 8),
        ("Sockets=0 CoresPerSocket=0 ThreadsPerCore=0", 1, 1),
    ],
)
def test_what_a_node_leaves_out_has_slurms_default(line, sockets, cores):
    nodes, _ = described(f"NodeName=n {line}\nNodeName=other Sockets=2 CoresPerSocket=99\n")
    assert len(nodes["n"].topo.get("socket", [0])) == sockets
    assert idset.size(nodes["n"].machine.cores) == cores


@pytest.mark.parametrize(
    ("text", "levels", "topo"),
    [
        ("SlurmdParameters=numa_node_as_socket\nNodeName=n {}", None, "numa"),
        ("NodeName=n {} Parameters=l3cache_as_socket", ["l3"], "l3"),
        ("NodeName=n {}", None, "socket"),
    ],
)
def test_what_slurm_calls_a_socket_may_be_a_numa_node_or_a_cache(text, levels, topo):
    found = read(text.format("Sockets=4 CoresPerSocket=2 RealMemory=8192"))
    node = topo_of(found.machines[0][1], levels).topo
    assert [domain["cores"] for domain in node[topo]] == ["0-1", "2-3", "4-5", "6-7"]
    assert node.get("memory", sum(d.get("memory", 0) for d in node[topo])) == 8


KEPT = "NodeName=n Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=8192 "


@pytest.mark.parametrize(
    ("more", "kept"),
    [
        ("CoreSpecCount=3", "3,6-7"),
        ("CoreSpecCount=3\nSchedulerParameters=bf_continue,spec_cores_first", "0-1,4"),
        ("CPUSpecList=0,14-15", "0,7"),
        ("CPUs=8 CPUSpecList=0,7", "0,7"),
        ("CPUTot=16 CPUAlloc=0 CPUEfctv=14", "7"),
        ("CPUTot=16 CPUEfctv=12 CoreSpecCount=2 CPUSpecList=0-3", "0-1"),
    ],
)
def test_cores_of_the_system_are_in_the_topo_and_not_in_R(more, kept):
    nodes, _ = described(KEPT + more)
    encoded = encode_new([Nodes(1, nodes["n"])], ["n"])
    (entry,) = encoded.R.entries
    assert idset.encode(0xFF & ~entry.cores) == kept
    assert [socket["cores"] for socket in nodes["n"].topo["socket"]] == ["0-3", "4-7"]
    assert encoded.warnings == ()
    assert f"cores {kept} are kept for the system, and are not in R" in nodes["n"].notes


def test_memory_of_the_system_is_not_that_of_jobs():
    nodes, _ = described(KEPT + "MemSpecLimit=4096")
    assert [socket["memory"] for socket in nodes["n"].topo["socket"]] == [2, 2]


def test_an_R_with_cores_of_the_system_is_warned_of():
    nodes, _ = described(KEPT + "CoreSpecCount=1")
    R = ResourceSet.read(encode_new([Nodes(1, described(KEPT)[0]["n"])], ["n"]).R.to_dict())
    warnings = encode_into(R, [Nodes(1, nodes["n"])]).warnings
    assert warnings == ("ranks 0: cores 7 are in R but kept for the system",)


MIG = r"""
NodeName=n Name=gpu Type=a100_1g.5gb Cores=0-3 MultipleFiles=\
/dev/nvidia0,/dev/nvidia-caps/nvidia-cap[21-22]
NodeName=n Name=gpu Type=a100_3g.20gb Cores=0-3 MultipleFiles=\
/dev/nvidia0,/dev/nvidia-caps/nvidia-cap[3-4]
NodeName=n Name=gpu Type=a100 File=/dev/nvidia1 Cores=4-7 Links=0,0,-1,4
NodeName=n Name=gpu Type=a100 File=/dev/nvidia2 Cores=4-7 Links=0,0,4,-1
"""  # fmt: skip


def test_mig_instances_are_in_localities_and_no_whole_gpus():
    line = (
        "NodeName=n Sockets=2 CoresPerSocket=4 Gres=gpu:a100_1g.5gb:1,gpu:a100_3g.20gb:1,gpu:a100:2"
    )
    nodes, _ = described(line, MIG)
    assert nodes["n"].topo["socket"][0] == {
        "mig-1g.5gb": [{"cores": "0-1", "gpus": "0"}],
        "mig-3g.20gb": [{"cores": "2-3", "gpus": "1"}],
    }  # fmt: skip
    assert nodes["n"].machine.links.pairs() == {(2, 3): Wire("nvlink", 100.0)}
    assert nodes["n"].warnings == ()


@pytest.mark.parametrize(
    ("gres", "kinds"),
    [
        ("gpu:2", ["", ""]),
        ("gpu", [""]),
        ("gpu:3090:2(S:0,2)", ["3090"] * 2),
        ("gpu:tesla:1,gpu:kepler:2(S:0-1),mps:400,bandwidth:l:no_consume:4G",
         ["tesla", "kepler", "kepler"]),
        ("shard:gpu:4,nic:2", []),
        ("GPU:a100:no_consume:1", ["a100"]),
        ("(null)", []),
    ],
)  # fmt: skip
def test_gpus_are_told_from_other_resources(gres, kinds):
    nodes, _ = described(f"NodeName=n Gres={gres}")
    assert [gpu.model for gpu in nodes["n"].machine.gpus] == kinds


@pytest.mark.parametrize("kind", ["a100_1g.5gb", "1g.5gb", "nvidia_a100_mig_1g.5gb", "A100-1G5GB"])
def test_mig_instances_of_slurm_conf_alone_are_known_by_their_type(kind):
    nodes, _ = described(f"NodeName=n CPUs=7 Gres=gpu:{kind}:7,gpu:v100:no_consume:1")
    assert nodes["n"].topo["mig-1g.5gb"] == [{"cores": "0-3", "gpus": "0-6"}]
    assert nodes["n"].topo["gpus"] == "0-7"
    assert {gpu.vendor for gpu in nodes["n"].machine.gpus} == {"nvidia"}


def test_mig_instances_without_a_profile_are_left_out_by_name():
    gres = "Name=gpu Type=a100 MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap[21-22]\n" * 2
    nodes, _ = described("NodeName=n CPUs=4 Gres=gpu:a100:2", gres)
    assert nodes["n"].machine.gpus == ()
    assert nodes["n"].warnings == (
        "2 MIG instances left out: the type says no profile, as in a100_1g.5gb",
    )


@pytest.mark.parametrize(
    ("line", "vendor"),
    [
        ("Type=max_1550 File=/dev/dri/renderD128", "intel"),
        ("Type=mi250x File=/dev/dri/renderD128", "amd"),
        ("Type=gfx90a File=/dev/dri/card0", "amd"),
        ("File=/dev/dri/renderD128", ""),
        ("Type=big File=/dev/dri/renderD128", ""),
        ("Type=big File=/dev/nvidia0", "nvidia"),
        ("Type=l40s File=/dev/dri/renderD128", "nvidia"),
        ("File=/dev/dri/renderD128 Flags=amd_gpu_env", "amd"),
    ],
)
def test_the_type_says_who_makes_a_gpu_and_a_render_node_does_not(line, vendor):
    nodes, _ = described("NodeName=n Gres=gpu:1", f"Name=gpu {line}")
    assert [gpu.vendor for gpu in nodes["n"].machine.gpus] == [vendor]


def test_lines_that_are_not_understood_and_nodes_of_the_future_are_counted():
    text = (
        "ClusterName=x\nNodeName=a[1-2] CPUs=2\nNodeName=b CPUs=2 Sokets=1\n"
        "NodeName=c CPUs=x\nNodeName=f[1-3] State=FUTURE\nPartitionName=p Nodes=ALL\nNodeName=a2\n"
    )
    nodes, found = described(text, "NodeName=z Name=gpu File=/dev/nvidia0\n")
    assert list(nodes) == ["a1"]
    assert found.told == (
        "2 of 7 nodes; 3 with State=FUTURE left out; 1 of gres.conf alone left out; "
        "1 named twice, the first line counts; 2 lines not understood: 3, 4; 1 line with other keys"
    )
    assert found.warnings == (
        "line 3: 'Sokets' is no key of nodename (did you mean 'sockets'?)",
        "line 4: cpus 'x' is not a number",
    )
    assert "f1" in described(text, wanted=["f1"])[0]


def test_cores_that_are_cpus_of_linux_are_known_and_others_are_warned_of():
    node = "NodeName=n Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 Gres=gpu:3"
    gres = "Name=gpu File=/dev/nvidia0 CPUs=0-3,8-11\nName=gpu File=/dev/nvidia1 CPUs=4-7,12-15\n"
    nodes, _ = described(node, gres + "Name=gpu File=/dev/nvidia2 Cores=0-99\n")
    assert [idset.encode(gpu.cores) for gpu in nodes["n"].machine.gpus] == ["0-3", "4-7", ""]
    assert nodes["n"].warnings[:3] == (
        "Cores=0-3,8-11 of gres.conf: these are CPUs as Linux counts them, of cores 0-3",
        "Cores=4-7,12-15 of gres.conf: these are CPUs as Linux counts them, of cores 4-7",
        "Cores=0-99 of gres.conf: the node has no such cores",
    )


def test_a_line_without_nodename_is_of_the_nodes_that_have_such_gpus():
    text = "NodeName=a Gres=gpu:iris:1\nNodeName=b Gres=gpu:orin:1\nNodeName=c CPUs=2\n"
    nodes, _ = described(text, "Name=gpu Type=orin File=/dev/dri/renderD128\n")
    models = {name: [gpu.model for gpu in node.machine.gpus] for name, node in nodes.items()}
    assert models == {"a": ["iris"], "b": ["orin"], "c": []}
    nodes, _ = described("NodeName=c CPUs=2\n", "Name=gpu File=/dev/nvidia[0-1]\n")
    assert len(nodes["c"].machine.gpus) == 2


def test_autodetect_may_be_off_for_some_nodes():
    gres = "AutoDetect=nvml\nNodeName=b AutoDetect=off Name=gpu File=/dev/nvidia0\n"
    nodes, _ = described("NodeName=a Gres=gpu:1\nNodeName=b Gres=gpu:1", gres)
    assert ["AutoDetect" in " ".join(node.notes) for node in nodes.values()] == [True, False]


def test_the_rate_of_a_model_that_nobody_knows_is_marked_as_assumed():
    gres = "Name=gpu Type={} File=/dev/nvidia0 Links=-1,4\nName=gpu Type={} File=/dev/nvidia1\n"
    for kind, assumed in (("a100", False), ("gb200", False), ("r200", True)):
        nodes, _ = described("NodeName=n CPUs=2 Gres=gpu:2", gres.replace("{}", kind))
        assert ("the GB/s of nvlink are assumed" in " ".join(nodes["n"].notes)) is assumed


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
