"""Which NICs are nearest to a GPU, on made-up nodes that are built like real ones."""

from __future__ import annotations

import pytest

from discovery.nodes import CONNECTX, MI250X
from hwlocfile import Device, Made
from treepool.discovery.describe import Describer
from treepool.discovery.hwloc import read_hwloc
from treepool.discovery.key import Nodes, encode_new
from treepool.rfc.links import Nic

CASSINI = "0200 [17db:0501] [1590:0371] 02"
ETHERNET = "0200 [8086:1521] [15d9:088e] 01"


def gpu(place, numa, **where):
    """The GPU of that number, below a NUMA node."""
    return Device(f"0000:{place + 16:x}:00.0", numa, MI250X, [(f"rsmi{place}", "RSMI")], **where)


def nic(name, numa, speed=31.5, kind=CONNECTX, state=None, **where):
    infos = {} if state is None else {"Port1State": state}
    bus = f"0000:{sum(map(ord, name)) % 64 + 64:x}:{len(where):02x}.0"
    return Device(bus, numa, kind, [(name, "")], infos, speed, **where)


def nics(*devices, version=2, **form):
    made = Made(devices=devices, **form)
    return read_hwloc(made.xml(version)).links.nics


def test_gpus_and_nics_below_l3_caches_of_one_numa_node_are_near():
    # Like MI250X nodes (OLCF's Frontier User Guide shows one): a socket of four NUMA nodes, each of
    # two L3 caches. Each cache has a GPU, and one of the two has a NIC.
    devices = [gpu(i, i // 2, l3=i % 2) for i in range(8)]
    devices += [nic(f"hsn{i}", i, kind=CASSINI, l3=1) for i in range(4)]
    assert nics(*devices, packages=1, numas=4, l3s=2) == (
        Nic("hsn0", 0b00000010, "PHB"),
        Nic("hsn0", 0b00000001, "NODE"),
        Nic("hsn1", 0b00001000, "PHB"),
        Nic("hsn1", 0b00000100, "NODE"),
        Nic("hsn2", 0b00100000, "PHB"),
        Nic("hsn2", 0b00010000, "NODE"),
        Nic("hsn3", 0b10000000, "PHB"),
        Nic("hsn3", 0b01000000, "NODE"),
    )


def test_rounding_does_not_drop_a_nic_of_half_the_lanes():
    # hwloc's figures for PCIe 5.0 of 8 and 16 lanes: twice the first is less than the second.
    found = nics(
        gpu(0, 0, switch="a"),
        nic("mlx5_0", 0, speed=31.507692, switch="a"),
        nic("mlx5_1", 2, speed=63.015385),
    )
    assert found == (Nic("mlx5_0", 1, "PIX"),)


def test_an_rdma_port_of_unknown_speed_is_preferred_to_a_slow_nic():
    """Linux knows no speed of a virtual function, as virtual machines have one."""
    virtio = nic("eth0", 0, 0.25, "0200 [1af4:1041] [1af4:1100] 01")
    assert nics(gpu(0, 0), nic("mlx5_0", 3, speed=0), virtio) == (Nic("mlx5_0", 1, "SYS"),)


def test_virtual_functions_beside_their_port_and_services_without_a_speed_are_not_for_jobs():
    port, virtual = nic("mlx5_0", 0, 31.5), nic("mlx5_1", 0, speed=0)
    assert [found.name for found in nics(gpu(0, 0), port, virtual)] == ["mlx5_0"]
    fast, service = nic("ens1", 3, 15.75, ETHERNET), nic("eno1", 0, 0, ETHERNET)
    assert [found.name for found in nics(gpu(0, 0), fast, service)] == ["ens1"]
    assert [found.name for found in nics(gpu(0, 0), service)] == ["eno1"]


@pytest.mark.parametrize("version", [2, 3])
def test_a_port_that_is_down_is_not_preferred_however_fast(version):
    devices = [gpu(0, 0), nic("mlx5_0", 0, 63.0, state="1"), nic("mlx5_1", 3, 31.5, state="4")]
    assert nics(*devices, version=version) == (Nic("mlx5_1", 1, "SYS"),)


def test_if_no_port_is_up_an_rdma_port_is_preferred_to_the_service_network():
    devices = [gpu(0, 0), nic("mlx5_0", 0, state="1"), nic("eno1", 0, 31.5, ETHERNET)]
    assert nics(*devices) == (Nic("mlx5_0", 1, "PHB"),)


def test_a_nic_on_the_same_socket_is_nearer_than_one_on_another():
    # SNC4 and NPS4: the NIC is in another NUMA node of the socket.
    found = nics(gpu(0, 2), gpu(1, 5), nic("mlx5_0", 0), packages=2, numas=4)
    assert found == (Nic("mlx5_0", 0b01, "SOCKET"), Nic("mlx5_0", 0b10, "SYS"))
    pairs = read_hwloc(
        Made(packages=2, numas=4, devices=[gpu(0, 0), gpu(1, 3), gpu(2, 4)]).xml()
    ).links.pairs()
    assert pairs[0, 1].gbps > pairs[0, 2].gbps == pairs[1, 2].gbps


def test_all_nics_of_a_dual_rail_count_and_are_spread_over_gpus():
    devices = [gpu(i, 0) for i in range(4)]
    devices += [nic(f"mlx5_{i}", 0, switch=f"s{i}") for i in range(2)]
    links = read_hwloc(Made(devices=devices).xml()).links
    assert links.nics == (Nic("mlx5_0", 0b1111, "NODE"), Nic("mlx5_1", 0b1111, "NODE"))
    assert [links.nics_of(i)[0] for i in range(4)] == ["mlx5_0", "mlx5_1", "mlx5_0", "mlx5_1"]


def port(ranks, state):
    """Nodes whose first NIC is in this *state*; 4 is active."""
    made = Made(devices=[gpu(0, 0), nic("mlx5_0", 0, state=state), nic("mlx5_1", 3, state="4")])
    return Nodes(ranks, Describer().of_xml(made.xml().encode()))


def test_the_nics_of_the_lowest_rank_count_if_two_nodes_differ():
    nodes = [port(0b01, "4"), port(0b10, "1")]
    for listed in (nodes, nodes[::-1]):
        (table,) = encode_new(listed, ["a", "b"]).R.key().tables.values()
        assert table.nics == (Nic("mlx5_0", 1, "PHB"),)


def test_a_port_that_is_down_on_one_node_does_not_remove_the_links_of_the_others():
    encoded = encode_new([port(1, "1"), port(0b110, "4")], ["a", "b", "c"])
    (table,) = encoded.R.key().tables.values()
    assert table.nics == (Nic("mlx5_0", 1, "PHB"),)
    assert any("ranks 0: other NICs" in warning for warning in encoded.warnings)


def test_links_of_nodes_with_one_topo_are_left_out_if_they_differ():
    made = (Made(devices=[gpu(0, 0, **way), gpu(1, 0, **way)]) for way in ({}, {"switch": "a"}))
    nodes = [Nodes(1 << i, Describer().of_xml(one.xml().encode())) for i, one in enumerate(made)]
    encoded = encode_new(nodes, ["a", "b"])
    assert not encoded.R.key().tables
    told = "2 kinds of links among nodes of one topo: their links are left out"
    assert told in encoded.warnings
