"""The fabric from a site's files: a small file of each format, and errors in them."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from treepool.discovery.sites import read as sites
from treepool.errors import InvalidHardware
from treepool.rfc import hostlist, idset
from treepool.rfc.scheduling import WRITER, SchedulingKey

TREE = """
# a fat tree
SwitchName=leaf0 Nodes=n[0-1]   # two nodes
SwitchName=leaf1 nodes=n[2-3] LinkSpeed=900
SwitchName=leaf2 Nodes=n4
SwitchName=mid0 Switches=leaf[0-1]
SwitchName=top \\
  Switches=mid0,leaf2
"""

TREE_YAML = """
---
- topology: other
  flat: true
- topology: fat
  cluster_default: true
  tree:
    switches:
      - switch: top
        children: mid0,leaf2
      - switch: mid0
        children: leaf[0-1]
      - {switch: leaf0, nodes: "n[0-1]"}
      - {switch: leaf1, nodes: "n[2-3]"}
      - {switch: leaf2, nodes: n4}
"""

BLOCKS = """
BlockName=b0 Nodes=n[0-1]
BlockName=b1 Nodes=n[2-3]
BlockName=b2 Nodes=n[4-5]
BlockSizes=2,4
"""

BLOCKS_YAML = """
- topology: nvl
  block:
    block_sizes: [2, 4]
    blocks:
      - block: b0
        nodes: n[0-1]
      - block: b1
        nodes: n[2-3]
      - block: b2
        nodes: n[4-5]
"""

TABLE = """host,cell,switch
n0,c0,s0
n1, c0, s0
"n[2-3]",c0,s1
n4,c1,
"""

LABELS = '{"n0": {"cell": "c0", "switch": "s0"}, "n1": {"cell": "c0", "switch": "s1"}, "n2": {}}'

KUBERNETES = """{"kind": "List", "items": [
  {"metadata": {"name": "n0", "labels": {"network.topology.nvidia.com/leaf": "l0",
   "network.topology.nvidia.com/spine": "s0", "network.topology.nvidia.com/core": "k0",
   "kubernetes.io/arch": "arm64"}}},
  {"metadata": {"name": "n1", "labels": {"network.topology.nvidia.com/leaf": "l1",
   "network.topology.nvidia.com/spine": "s0", "network.topology.nvidia.com/core": "k0",
   "network.topology.nvidia.com/accelerator": "nvl7"}}}
]}"""

IBNETDISCOVER = """#
# Topology file: generated on Mon Jan  1 00:00:00 2024
#
vendid=0x2c9
devid=0xd2f0
sysimgguid=0x1
switchguid=0x1(1)
Switch\t41 "S-0000000000000001"\t\t# "MF0;leaf0:MQM8700/U1" enhanced port 0 lid 1 lmc 0
[1]\t"H-0000000000000011"[1](11) \t\t# "n0 HCA-1" lid 11 4xHDR
[2]\t"H-0000000000000012"[1](12) \t\t# "n1 mlx5_0" lid 12 4xHDR
[33]\t"S-0000000000000003"[1]\t\t# "MF0;spine0:MQM8700/U1" lid 3 4xHDR

Switch\t41 "S-0000000000000002"\t\t# "MF0;leaf1:MQM8700/U1" enhanced port 0 lid 2 lmc 0
[1]\t"H-0000000000000013"[1](13) \t\t# "n2 HCA-1" lid 13 4xHDR
[2]\t"H-0000000000000014"[1](14) \t\t# "n0 HCA-2" lid 14 4xHDR

vendid=0x2c9
Ca\t1 "H-0000000000000011"\t\t# "n0 HCA-1"
[1](11) \t"S-0000000000000001"[1]\t\t# lid 11 lmc 0 "MF0;leaf0:MQM8700/U1" lid 1 4xHDR
"""

NVIDIA_SMI = """==============NVSMI LOG==============
    Fabric
        State                             : Completed
        Status                            : Success
        CliqueId                          : {clique}
        ClusterUUID                       : {uuid}
"""

SHOWN = """SwitchName=top Level=2 LinkSpeed=1 Nodes=n[0-4] Switches=mid0,leaf2
SwitchName=mid0 Level=1 LinkSpeed=1 Nodes=n[0-3] Switches=leaf[0-1]
SwitchName=leaf0 Level=0 LinkSpeed=1 Nodes=n[0-1]
SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[2-3]
SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n4
"""

#: A file of each format.
SEEDS = (
    *(TREE, TREE_YAML, BLOCKS, BLOCKS_YAML, SHOWN),
    *(TABLE, LABELS, KUBERNETES, IBNETDISCOVER),
)


def fabric(text, hosts="n[0-5]"):
    names = hostlist.decode(hosts)
    return sites.fabric_of(sites.read(text, names), names, (1 << len(names)) - 1)


def leaf(name, ranks):
    return {"name": name, "ranks": ranks}


FAT_TREE = {
    "superspine": [
        {
            "name": "top",
            "spine": [{"name": "mid0", "switch": [leaf("leaf0", "0-1"), leaf("leaf1", "2-3")]}],
            "switch": [leaf("leaf2", "4")],
        }
    ]
}

NVL = {
    "block4": [
        {"name": "0", "block": [leaf("b0", "0-1"), leaf("b1", "2-3")]},
        {"name": "1", "block": [leaf("b2", "4-5")]},
    ]
}


@pytest.mark.parametrize("text", [SHOWN, "\n".join(SHOWN.splitlines()[::-1])])
def test_what_scontrol_shows_is_the_same_tree_in_any_order(text):
    found, warnings = fabric(text, "n[0-4]")
    assert (found, warnings) == (FAT_TREE, [])


def test_the_blocks_that_scontrol_shows_are_those_of_topology_conf():
    shown = "".join(
        f"BlockName=b{i} BlockIndex={i} Nodes=n[{2 * i}-{2 * i + 1}] BlockSize=2\n"
        for i in range(3)
    )
    shown += "AggregatedBlock=b[0-1] BlockIndex=3 Nodes=n[0-3] BlockSize=4\n"
    assert fabric(shown) == (NVL, [])


def test_a_switch_called_default_is_a_switch_because_slurm_has_no_defaults_for_them():
    found, _ = fabric("SwitchName=DEFAULT Nodes=n0\nSwitchName=a Nodes=n1\n", "n[0-1]")
    assert found == {"switch": [leaf("DEFAULT", "0"), leaf("a", "1")]}


def test_lines_that_are_not_understood_are_counted_and_the_others_are_read():
    text = (
        "SwitchName=a Nodes=n0\nSwitchName=b Nodes=n[1-\nFoo=1\nBlockSizes=x\nSwitchName=c Node=n2"
    )
    site = sites.read(text, ["n0", "n1"])
    assert list(site.locations) == ["n0"]
    assert site.left_out == ["4 lines not understood: 2, 3, 4, 5"]
    assert site.warnings[1] == "line 3: 'foo' does not begin a line"


@pytest.mark.parametrize("text", [TREE, TREE_YAML], ids=["conf", "yaml"])
def test_slurms_trees_are_switches_by_their_levels(text):
    found, warnings = fabric(text)
    assert found == FAT_TREE
    assert warnings[-1] == "hosts in no domain, which stand alone: n5"
    assert warnings[:-1] == (
        ["topology 'other' is flat, and is left out"] if "flat" in text else []
    )


@pytest.mark.parametrize("text", SEEDS)
def test_a_key_takes_the_fabric_of_every_format(text):
    found, _ = fabric(text)
    SchedulingKey.read({"writer": WRITER, "children": [], "fabric": found})


@pytest.mark.parametrize("text", [BLOCKS, BLOCKS_YAML], ids=["conf", "yaml"])
def test_slurms_blocks_are_grouped_by_the_larger_block_sizes(text):
    assert fabric(text) == (NVL, [])


def test_a_table_has_the_highest_locality_first_and_may_leave_one_out():
    found, warnings = fabric(TABLE, "n[0-4]")
    c0 = {"name": "c0", "switch": [leaf("s0", "0-1"), leaf("s1", "2-3")]}
    assert found == {"cell": [c0, leaf("c1", "4")]}
    assert warnings == []


def test_a_host_in_a_domain_with_others_inside_is_in_its_ranks():
    found, _ = fabric("host,cell,switch\nn0,c,s\nn1,c,\n", "n[0-1]")
    assert found == {"cell": [{"name": "c", "switch": [leaf("s", "0")], "ranks": "0-1"}]}


def test_labels_of_hosts_are_read_as_json():
    found, warnings = fabric(LABELS, "n[0-2]")
    assert found == {"cell": [{"name": "c0", "switch": [leaf("s0", "0"), leaf("s1", "1")]}]}
    assert warnings == ["hosts in no domain, which stand alone: n2"]


def test_kubernetes_nodes_have_the_labels_of_topograph():
    found, _ = fabric(KUBERNETES, "n[0-1]")
    second = {"name": "l1", "nvl": [leaf("nvl7", "1")]}
    spine = {"name": "s0", "switch": [leaf("l0", "0"), second]}
    assert found == {"superspine": [{"name": "k0", "spine": [spine]}]}


def test_ibnetdiscover_names_hosts_by_their_adapters_and_the_rail_of_most_counts():
    found, warnings = fabric(IBNETDISCOVER, "n[0-2]")
    assert found == {"switch": [leaf("leaf0", "0-1"), leaf("leaf1", "2")]}
    assert warnings == ["hosts without adapter 'HCA-1', placed by their others: n1"]


def rails(**switches):
    """The output for switches and what is on their ports: a host and its adapter, or a switch."""
    text = ""
    for switch, ports in switches.items():
        text += f'Switch\t41 "S-{switch}"\t\t# "MF0;{switch}:X/U1" lid 1\n'
        for number, port in enumerate(ports, 1):
            kind = "H" if " " in port else "S"
            text += f'[{number}]\t"{kind}-{port}"[1](1) \t\t# "{port}" lid 2\n'
        text += "\n"
    return text


def two_rails(lost=(), first=""):
    """Two pods of two leaves, one for each rail, below a spine each, without the *lost* ports."""
    ports = {}
    for pod in (0, 1):
        for rail in (1, 2):
            own = [f"n{2 * pod + i} HCA-{rail}" for i in (0, 1)]
            ports[f"p{pod}r{rail}"] = [port for port in own if port not in lost] + [f"s{pod}"]
    ports["s0"], ports["s1"] = ["p0r1", "p0r2"], ["p1r1", "p1r2"]
    storage = [f"n{i} mlx5_9" for i in range(4)]
    return rails(**({first: storage} if first else {}), **ports)


PODS = {"spine": [{"name": f"s{pod}", "switch": [leaf(f"p{pod}r1", ranks)]}
                  for pod, ranks in enumerate(["0-1", "2-3"])]}  # fmt: skip


def test_a_lost_cable_moves_no_host_and_rails_that_group_hosts_alike_do_not_disagree():
    assert fabric(two_rails(), "n[0-3]") == (PODS, [])
    found, warnings = fabric(two_rails(lost=["n1 HCA-1"]), "n[0-3]")
    # HCA-2 has most hosts now
    assert [spine["switch"][0]["ranks"] for spine in found["spine"]] == ["0-1", "2-3"]
    assert warnings == []
    found, warnings = fabric(two_rails(lost=["n1 HCA-1", "n2 HCA-2"]), "n[0-3]")
    assert found == PODS
    assert warnings == ["hosts without adapter 'HCA-1', placed by their others: n1"]


def test_a_storage_switch_that_is_listed_first_does_not_hold_the_cluster():
    text = two_rails(first="storage")
    found, warnings = fabric(text, "n[0-3]")
    assert found == PODS
    assert warnings == [
        "hosts whose adapters disagree, 'HCA-1' counts and not 'HCA-2', 'mlx5_9' "
        "(--rail chooses): n[2-3]"
    ]
    hosts = hostlist.decode("n[0-3]")
    found, _ = sites.fabric_of(sites.read(text, hosts, rail="mlx5_9"), hosts, 15)
    assert found == {"switch": [leaf("storage", "0-3")]}
    with pytest.raises(InvalidHardware, match=r"no adapter 'x'; there are: 'mlx5_9' of 4 hosts, "):
        sites.read(text, hosts, rail="x")
    with pytest.raises(InvalidHardware, match="has no adapters to choose from"):
        sites.read(TREE, hosts, rail="x")


def test_a_cable_in_the_wrong_switch_makes_no_rail_better():
    hosts = range(12)
    text = rails(
        a1=[f"n{i} HCA-1" for i in hosts if i < 6], b1=[f"n{i} HCA-1" for i in hosts if i >= 6],
        a2=[f"n{i} HCA-2" for i in hosts if i < 5], b2=[f"n{i} HCA-2" for i in hosts if i >= 6],
        c2=["n5 HCA-2"],
    )  # fmt: skip
    found, warnings = fabric(text, "n[0-11]")
    assert found == {"switch": [leaf("a1", "0-5"), leaf("b1", "6-11")]}
    assert warnings == []


def test_hosts_with_a_domain_in_their_names_are_those_of_R():
    text = rails(a=["n0.example.org HCA-1"], b=["n1.example.org HCA-1", "n1.example.org HCA-2"])
    assert fabric(text, "n[0-1]")[0] == {"switch": [leaf("a", "0"), leaf("b", "1")]}


def test_the_second_port_of_an_adapter_is_another_rail():
    text = rails(a=["n0 HCA-1", "n1 HCA-1"], b=["n0 HCA-1", "n1 HCA-1"])
    text = text.replace('"H-n0 HCA-1"[1]', '"H-n0 HCA-1"[2]', 1)
    assert set(sites.read(text, ["n0", "n1"], rail="HCA-1:2").locations) == {"n0", "n1"}


@pytest.mark.parametrize(
    ("descriptions", "names"),
    [
        (("MF0;leaf0:MQM8700/U1", "MF0;leaf1:MQM8700/U1"), ("leaf0", "leaf1")),
        (("MF0;dir1:CS7500/L01/U1", "MF0;dir1:CS7500/L02/U1"),
         ("dir1:CS7500/L01/U1", "dir1:CS7500/L02/U1")),
        (("SwitchIB Mellanox Technologies", "SwitchIB Mellanox Technologies"),
         ("SwitchIB Mellanox Technologies S-1", "SwitchIB Mellanox Technologies S-2")),
        (("", "leaf1"), ("S-1", "leaf1")),
    ],
)  # fmt: skip
def test_switches_are_told_apart_by_guid_and_called_by_what_is_their_own(descriptions, names):
    text = "".join(
        f'Switch\t41 "S-{i}"\t\t# "{text}" lid {i}\n[1]\t"H-{i}"[1](1) \t\t# "n{i} HCA-1" lid 9\n\n'
        for i, text in enumerate(descriptions, 1)
    )
    assert fabric(text, "n[1-2]")[0] == {"switch": [leaf(names[0], "0"), leaf(names[1], "1")]}


def test_spines_are_domains_where_the_cabling_is_a_tree():
    tree = {
        "l0": ["n0 HCA-1", "s0"], "l1": ["n1 HCA-1", "s0"],
        "l2": ["n2 HCA-1", "s1"], "l3": ["n3 HCA-1", "s1"],
        "s0": ["l0", "l1", "top"], "s1": ["l2", "l3", "top"], "top": ["s0", "s1"],
    }  # fmt: skip
    leaves = [leaf(f"l{i}", str(i)) for i in range(4)]
    assert fabric(rails(**tree), "n[0-3]")[0] == {
        "spine": [{"name": "s0", "switch": leaves[:2]}, {"name": "s1", "switch": leaves[2:]}]
    }
    fat = {**tree, "l0": ["n0 HCA-1", "s0", "s1"], "s1": ["l0", "l2", "l3", "top"]}
    assert fabric(rails(**fat), "n[0-3]")[0] == {"switch": leaves}


# -- several topologies in one file


def kubernetes(labels, *others):
    nodes = [{"kind": "Node", "metadata": {"name": n, "labels": of}} for n, of in labels.items()]
    return json.dumps({"kind": "List", "items": [*nodes, *others]})


TIER, DOMAIN = "fabric.topograph.run/tier-", "accelerator.topograph.run/domain"


def test_the_labels_of_topograph_1_are_tiers_from_the_node_outwards():
    text = kubernetes(
        {f"n{i}": {TIER + "0": f"l{i // 2}", TIER + "1": "s0", "a": "b"} for i in range(4)}
    )
    spine = {"name": "s0", "switch": [leaf("l0", "0-1"), leaf("l1", "2-3")]}
    assert fabric(text, "n[0-3]")[0] == {"spine": [spine]}


@pytest.mark.parametrize("label", [DOMAIN, "nvidia.com/gpu.clique"])
def test_nvlink_domains_are_above_the_switches_that_they_hold(label):
    text = kubernetes({f"n{i}": {TIER + "0": f"l{i // 2}", label: "uuid.1"} for i in range(4)})
    assert fabric(text, "n[0-3]")[0] == {
        "nvl": [{"name": "uuid.1", "switch": [leaf("l0", "0-1"), leaf("l1", "2-3")]}]
    }


KUEUE = {
    "kind": "Topology",
    "metadata": {"name": "default"},
    "spec": {"levels": [{"nodeLabel": "cloud.com/topology-block"}, {"nodeLabel": "cloud.com/rack"},
                        {"nodeLabel": "kubernetes.io/hostname"}]},
}  # fmt: skip


def test_the_levels_of_a_kueue_topology_are_localities():
    labels = {
        f"n{i}": {"cloud.com/topology-block": "b0", "cloud.com/rack": f"r{i // 2}"}
        for i in range(4)
    }
    racks = [leaf("r0", "0-1"), leaf("r1", "2-3")]
    text = kubernetes(labels, KUEUE)
    assert fabric(text, "n[0-3]")[0] == {"block": [{"name": "b0", "rack": racks}]}
    with pytest.raises(InvalidHardware, match="no topology 'x'; there are: 'default'"):
        sites.read(text, ["n0"], "x")


def test_labels_that_are_not_known_are_named():
    text = kubernetes({"n0": {"rack": "r0", "kubernetes.io/hostname": "n0", "zone": "z"}})
    with pytest.raises(InvalidHardware, match=r"no node of R has a label .* are: 'rack', 'zone'$"):
        fabric(text, "n0")


def yaml(**blocks):
    """A tree of two leaves below a spine each, and a topology of blocks, by name and hosts."""
    listed = "".join(
        f"      - {{block: {name}, nodes: '{hosts}'}}\n" for name, hosts in blocks.items()
    )
    return f"""
- topology: ib
  cluster_default: true
  tree:
    switches:
      - {{switch: s0, children: "l[0-1]"}}
      - {{switch: l0, nodes: "n[0-1]"}}
      - {{switch: l1, nodes: "n[2-3]"}}
- topology: nvl
  block:
    blocks:
{listed}- topology: daisy
  ring: {{}}
"""


def test_topologies_that_nest_are_merged_whichever_is_inside():
    inside, warnings = fabric(yaml(b0="n0", b1="n1", b2="n[2-3]"), "n[0-3]")
    blocks = [leaf("b0", "0"), leaf("b1", "1")]
    assert inside == {"spine": [{"name": "s0", "switch": [
        {"name": "l0", "block": blocks}, {"name": "l1", "block": [leaf("b2", "2-3")]}
    ]}]}  # fmt: skip
    assert warnings == ["topology 'daisy' is ring, and is left out"]
    hosts = hostlist.decode("n[0-3]")
    found = sites.read(yaml(b0="n[0-3]"), hosts).locations["n0"]
    assert [locality for locality, _ in found] == ["spine", "block", "switch"]


def test_topologies_that_cross_are_refused_with_two_domains_and_one_may_be_chosen():
    text = yaml(b0="n0", b1="n[1-2]", b2="n3")
    with pytest.raises(InvalidHardware) as raised:
        fabric(text, "n[0-3]")
    assert str(raised.value) == (
        "switch 'l0' of topology 'ib' and block 'b1' of 'nvl' cross: choose one with --topology"
    )
    assert sites.read(text, ["n1"], "nvl").locations == {"n1": (("block", "b1"),)}
    assert sites.read(text, ["n1"], "ib").locations == {"n1": (("spine", "s0"), ("switch", "l0"))}
    with pytest.raises(InvalidHardware, match="topology 'daisy' is ring, which has no domains"):
        sites.read(text, ["n1"], "daisy")
    with pytest.raises(InvalidHardware, match="has no topologies with names to choose from"):
        sites.read(TABLE, ["n1"], "daisy")


def test_nvidia_smi_reports_the_nvlink_domain_of_a_host():
    uuid = "a1b2c3d4-0000-0000-0000-000000000001"
    none = "00000000-0000-0000-0000-000000000000"
    said = [(uuid, 7), (uuid, 7), (uuid, 8), (none, 0), ("N/A", "N/A")]
    texts = {
        f"n{i}": NVIDIA_SMI.format(uuid=u, clique=clique) for i, (u, clique) in enumerate(said)
    }
    hosts = hostlist.decode("n[0-4]")
    found, warnings = sites.fabric_of(sites.nvlink(texts.items(), hosts), hosts, 31)
    assert found == {"nvl": [leaf(f"{uuid}.7", "0-1"), leaf(f"{uuid}.8", "2")]}
    assert warnings == ["hosts in no domain, which stand alone: n[3-4]"]


def test_cray_names_contain_cabinet_chassis_and_blade():
    hosts = ["x1000c0s0b0n0", "x1000c0s0b1n0", "x1000c1s0b0n0", "x1001c0s7b0n1", "login1"]
    found, warnings = sites.fabric_of(sites.cray(hosts), hosts, idset.decode("4-8"))
    assert [cabinet["name"] for cabinet in found["cabinet"]] == ["x1000", "x1001"]
    first = found["cabinet"][0]["chassis"][0]
    assert first == {"name": "x1000c0", "blade": [leaf("x1000c0s0", "4-5")]}
    assert warnings == ["hosts in no domain, which stand alone: login1"]


def test_hosts_with_two_locations_are_named_and_the_first_counts():
    found, warnings = fabric("SwitchName=a Nodes=n[0-1]\nSwitchName=b Nodes=n[1-2]\n", "n[0-2]")
    assert found == {"switch": [leaf("a", "0-1"), leaf("b", "2")]}
    assert warnings == ["hosts with more than one location, the first of which counts: n1"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("hello", "neither Slurm's topology.conf or topology.yaml, nor a table"),
        ("SwitchName=a Nodes=n[0-", "line 1: "),
        ("RingName=r Nodes=n[0-3]", "ring 'r' has no domains"),
        ("SwitchName=a Nodes=n0\nSwitchName=a Nodes=n1", "line 2: a second switch 'a'"),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a Nodes=n0", "is below itself"),
        (
            "SwitchName=a Switches=c\nSwitchName=b Switches=c",
            "line 2: switch 'c' is below 'a', too",
        ),
        ("BlockSizes=x", "line 1: block sizes are numbers of nodes"),
        ("- topology: a\n  block: {blocks: [], block_sizes: true}\n", "block sizes are numbers"),
        (f"- topology: a\n  block: {{blocks: [], block_sizes: [0x{'f' * 6000}]}}\n", "block sizes"),
        ('- topology: a\n  block: {blocks: [{block: !!int ""}]}\n', "not valid YAML: "),
        ("- topology: a\n  block: {blocks: [{block: !!timestamp x}]}\n", "not valid YAML: "),
        ("host,cell,name\nn0,c,x\n", "host 'n0': 'name' cannot be the name of a locality"),
        ('{"n0": {"cell": "c", "ranks": "x"}}', "'ranks' cannot be the name of a locality"),
        ('{"n0": {"": "c"}}', "'' cannot be the name of a locality"),
        (
            "host,cell\nn0," + "c" * 129 + "\n",
            "host 'n0': the name of its 'cell' is longer than 128 characters",
        ),
        ("host," + ",".join("l" * 17) + "\n" + ",".join("n" * 18), "host 'n' is in more than 16"),
        ("n0,c0,s0\nn1,c0,s0\n", "line 1: must name the columns, host first, not 'n0'"),
        ("host,rack\nn0", "line 2: 1 columns, the first line has 2"),
        ("host,rack\nn[0-,r", "line 2: "),
        ('{"n0": 3}', "/n0: must be an object of localities and names"),
        ('{"n\\u001b[31m": 3}', r"/n\x1b[31m: must be an object of localities and names"),
        ("[3]", "must be an object of hosts, not an array"),
        ("{", "file of labels: line 1 column 2"),
        ("- topology: a\n  tree: &x {}\n  block: *x\n", "YAML with aliases is not read"),
        ("\u202e\n---\n- topology: a\n", r"not valid YAML: expected a single document"),
        (
            "- topology: a\n  flat: true\n",
            "switches or blocks: topology 'a' is flat, and is left out",
        ),
        ("- topology: a\n  tree: {switches: 3}\n", "topology 'a': must have a list of switches"),
        (
            "- topology: a\n  tree: {switches: [{switch: s, nodes: [1]}]}\n",
            "must be a list of hosts",
        ),
    ],
)
def test_malformed_files_are_an_error_of_one_line_that_says_where(text, problem):
    with pytest.raises(InvalidHardware) as raised:
        fabric(text)
    assert problem in str(raised.value)
    assert str(raised.value).isprintable()


def test_a_block_may_have_a_number_as_its_name_and_one_block_size():
    block = "- topology: a\n  block: {block_sizes: 2, blocks: [{block: %s, nodes: n0}]}\n"
    assert fabric(block % 7, "n0") == ({"block": [leaf("7", "0")]}, [])
    ((large,),) = (found for found in fabric(block % f"0x{'f' * 6000}", "n0")[0].values())
    assert large["name"] == "an integer of 24000 bits"


def cost_of(text, hosts, ranks=1):
    """The fabric in *text*, or the error, and the most memory that it took, in bytes."""
    tracemalloc.start()
    try:
        found = sites.fabric_of(sites.read(text, hosts), hosts, ranks)[0]
    except InvalidHardware as e:
        found = str(e)
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return found, peak


def nested(levels, hosts):
    """Switches inside each other, each with the hosts that function *hosts* gives."""
    lines = (f"SwitchName=s{i} Switches=s{i + 1} Nodes={hosts(i)}" for i in range(levels - 1))
    return "\n".join([*lines, f"SwitchName=s{levels - 1} Nodes={hosts(levels - 1)}"])


def test_hosts_in_many_nested_switches_cost_what_their_names_do():
    text = nested(16, lambda i: "n[1-50000]" if i == 15 else "")
    found, peak = cost_of(text, hostlist.decode("n[1-50000]"), (1 << 50000) - 1)
    for _ in range(16):
        ((domain,),) = (value for value in found.values() if isinstance(value, list))
        found = domain
    assert found == {"name": "s15", "ranks": "0-49999"}
    assert peak < 50e6


@pytest.mark.parametrize("levels", [17, 62])
def test_more_levels_than_a_fabric_may_have_are_refused(levels):
    text = nested(levels, lambda i: f"n{i}")
    assert cost_of(text, ["n99", f"n{levels - 1}"])[0] == (
        f"switch 's{levels - 1}' is below 16 others, or more"
    )


def test_hosts_of_nested_switches_are_limited_level_by_level(monkeypatch):
    monkeypatch.setattr(sites, "_MAX_WRITTEN", 6)
    text = nested(3, lambda i: f"n{i},n{i + 3}")
    hosts = hostlist.decode("n[0-5]")
    assert cost_of(text, hosts, 63)[0]["superspine"]
    assert cost_of(text + ",n6", [*hosts, "n6"], 127)[0] == (
        "more than 6 hosts in domains that have both hosts and domains inside, level by level"
    )
