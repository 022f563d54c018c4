"""``nvidia-smi topo -m``: the links between a node's GPUs are read from every form of its text."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treepool.discovery.linking import PCIE_GBPS
from treepool.discovery.reports.nvidia import MAX_TEXT, read_topo
from treepool.errors import InvalidHardware
from treepool.rfc import idset
from treepool.rfc.links import PATHS, Link, Links, Nic, Wire

DATA = Path(__file__).parent / "data"
PAIRS = (DATA / "topo-nvlink-pairs.txt").read_text()
MESH = (DATA / "topo-v100-cube-mesh.txt").read_text()


def ids(text):
    return idset.decode(text)


def table(header, *rows):
    """A text with these lines, tabs between words."""
    return "\n".join("\t".join(line.split()) for line in (header, *rows)) + "\n"


#: The advice if a terminal has folded the lines of the text.
FOLDED = "; a table that a terminal has folded cannot be read: nvidia-smi topo -m > FILE"

TWO = table(
    "GPU0 GPU1 NIC0 CPU Affinity NUMA Affinity",
    "GPU0 X NV4 PIX 0-3 0",
    "GPU1 NV4 X SYS 4-7 1",
    "NIC0 PIX SYS X",
)


def test_nvlink_bridges_with_blanks_numa_columns_and_a_legend_of_nics():
    node = read_topo(PAIRS)
    assert node.links.kind == "pairs"
    assert node.links.links == (
        Link("nvlink", 300.0, (0b0011, 0b1100)),
        Link("pcie", 8.0, (0b0101, 0b1001, 0b0110, 0b1010)),
    )
    assert node.links.nics == (
        Nic("mlx5_0", 0b0010, "PIX"),
        Nic("mlx5_0", 0b0001, "NODE"),
        Nic("mlx5_bond_0", 0b1100, "PXB"),
    )
    assert node.near[1] == ids("0-31,64-95")
    assert node.near[2] == ids("32-63,96-127")
    assert node.notes == ()


def test_a_mesh_with_tabs_underlined_names_and_nics_by_their_names():
    node = read_topo(MESH)
    assert node.links.kind == "mesh"
    pairs = node.links.pairs()
    assert len(pairs) == 28
    assert pairs[0, 1] == Wire("nvlink", 25) and pairs[0, 3] == Wire("nvlink", 50)
    assert pairs[0, 5] == Wire("pcie", PCIE_GBPS["SYS"])
    assert node.links.nics == tuple(Nic(f"mlx5_{i}", 3 << 2 * i, "PIX") for i in range(4))
    assert node.near[7] == ids("20-39,60-79")


@pytest.mark.parametrize("text", [PAIRS, MESH, TWO])
def test_line_ends_and_text_around_the_table_make_no_difference(text):
    node = read_topo(text)
    assert read_topo(text.replace("\n", "\r\n")) == node
    assert read_topo(text.encode()) == node
    assert read_topo("\ufeff" + text) == node
    assert read_topo(f"$ nvidia-smi topo -m\n\n{text}$ exit\n") == node
    assert read_topo(text.replace("\t", "   ")) == node
    assert read_topo(text.rstrip("\n")) == node


def test_paths_order_pairs_and_are_slower_than_every_nvlink():
    assert list(PCIE_GBPS) == list(PATHS)
    speeds = [PCIE_GBPS[path] for path in PATHS]
    for path, gbps in PCIE_GBPS.items():
        node = read_topo(table("GPU0 GPU1", f"GPU0 X {path}", f"GPU1 {path} X"))
        assert node.links.links == (Link("pcie", gbps, (3,)),)
    assert speeds == sorted(set(speeds), reverse=True)
    one = read_topo(table("GPU0 GPU1", "GPU0 X NV1", "GPU1 NV1 X")).links.links[0]
    assert one.gbps == 25 and one.gbps > speeds[0]


@pytest.mark.parametrize(("old", "new"), [("SOC", "SYS"), ("PSB", "PIX")])
def test_words_of_older_drivers_are_understood(old, new):
    texts = [table("GPU0 GPU1", f"GPU0 X {word}", f"GPU1 {word} X") for word in (old, new)]
    assert read_topo(texts[0]) == read_topo(texts[1])


def test_unknown_values_of_the_driver_are_left_out():
    node = read_topo(table("GPU0 GPU1 NIC0 CPU Affinity NUMA Affinity GPU NUMA ID",
                           "GPU0 X N/A N/A N/A N/A N/A", "GPU1 N/A X N/A N/A"))  # fmt: skip
    assert node.links == Links()
    assert node.near == {0: 0, 1: 0}


def test_the_numa_node_of_a_gpus_own_memory_is_ignored():
    node = read_topo(table("GPU0 CPU Affinity NUMA Affinity GPU NUMA ID", "GPU0 X 0-71 0 1"))
    assert node.near == {0: ids("0-71")}


@pytest.mark.parametrize(
    ("words", "near"),
    [
        ("0-0,2-2,4-4 0", 0b10101),
        ("8,0-3 0-1", 0b100001111),
        ("0-3", 0b1111),
        ("", 0),
    ],
)
def test_lists_of_cpus_and_nodes_come_in_many_forms(words, near):
    node = read_topo(table("GPU0 CPU Affinity NUMA Affinity", f"GPU0 X {words}"))
    assert node.near == {0: near}


@pytest.mark.parametrize("text", ["No devices were found\n", "\nNo devices found.\n"])
def test_a_node_without_gpus_has_no_links(text):
    assert read_topo(text).links == Links()
    assert read_topo(text).near == {}


def test_the_slower_link_counts_and_a_note_says_so_if_two_rows_differ():
    node = read_topo(table("GPU0 GPU1", "GPU0 X NV4", "GPU1 NV2 X"))
    assert node.links.pairs() == {(0, 1): Wire("nvlink", 50.0)}
    assert node.notes == (
        "GPU0 and GPU1 are joined by NV4 one way and NV2 the other: the slower counts",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1 column 1: no line has column names such as GPU0"),
        ("GPU0 X\n", "line 1 column 1: no line has column names such as GPU0"),
        ("GPU0 GPU1\nGPU0 X NV1\n",
         f"line 3 column 1: the text ends without a row of GPU1{FOLDED}"),
        ("GPU0 GPU1\nGPU0 X\n",
         f"line 2 column 6: 'X' ends a row of 1 words, not 2 or more{FOLDED}"),
        ("  GPU0 GPU1\nGPU0 X NVX\nGPU1 NVX X\n",
         "line 2 column 8: 'NVX' is not a path between two devices"),
        ("GPU0 GPU1\nGPU0 X NV0\nGPU1 NV0 X\n",
         "line 2 column 8: 'NV0' is not a number of NVLinks"),
        ("GPU0 GPU1\nGPU0 X X\nGPU1 X X\n",
         "line 2 column 8: 'X' is not a path between two devices"),
        ("GPU0 NIC0\nGPU0 X X\n", "line 2 column 8: 'X' is not a path between two devices"),
        ("GPU0\nGPU0 SYS\n",
         "line 2 column 6: 'SYS' must be X, because its row and column are both GPU0"),
        ("GPU0\nGPU0 X 0-3\n", f"line 2 column 8: '0-3' is after the last column{FOLDED}"),
        ("GPU0 GPU0\nGPU0 X X\n", "line 1 column 6: 'GPU0' has a column already"),
        ("GPU0\nGPU1 X\n", f"line 2 column 1: 'GPU1' is not a column of this table{FOLDED}"),
        ("GPU0 GPU1\nGPU0 X PIX\nGPU0 X PIX\n", "line 3 column 1: 'GPU0' has a row already"),
        ("GPU128\nGPU128 X\n", "line 1 column 1: 'GPU128' is not among GPU0 to GPU127"),
        ("GPU0 CPU Affinity Speed\nGPU0 X\n",
         f"line 1 column 19: 'Speed' is not a column that comes after the devices{FOLDED}"),
        ("GPU0 CPU Affinity\nGPU0 X 3-1\n",
         "line 2 column 8: '3-1' has 3-1, which does not ascend or is above 65535"),
        ("GPU0 CPU Affinity\nGPU0 X 0-999999\n",
         "line 2 column 8: '0-999999' has 0-999999, which does not ascend or is above 65535"),
        ("GPU0 CPU Affinity\nGPU0 X 0x3\n",
         "line 2 column 8: '0x3' is not a list of numbers such as 0-3,8"),
        ("GPU0 a\x01\nGPU0 X PIX\n", "line 1 column 6: 'a\\x01' is not the name of a device"),
        ("GPU0\nGPU0 X\nNIC0: " + "a" * 200,
         "line 3 column 7: '" + "a" * 57 + "...' is not the name of a NIC"),
        ("GPU0 " + "b " * 40_000,
         "line 1 column 32768: the line is too long for a table of one node"),
        ("x" * (MAX_TEXT + 1),
         "line 1 column 1: more than 1 MiB of text is not a table of one node"),
    ],
    ids=range(22),
)  # fmt: skip
def test_malformed_text_is_an_error_with_its_line_and_column(text, message):
    with pytest.raises(InvalidHardware) as raised:
        read_topo(text)
    assert str(raised.value) == f"nvidia-smi: {message}"


@st.composite
def nodes(draw):
    """Words for the pairs of some GPUs and for NICs, and the text that has them."""
    gpus, nics = draw(st.integers(1, 6)), draw(st.integers(0, 3))
    words = st.sampled_from(["NV1", "NV4", *PATHS])
    pairs = {pair: draw(words) for pair in combinations(range(gpus), 2)}
    near = [[draw(st.sampled_from(PATHS)) for _ in range(nics)] for _ in range(gpus)]
    names = [f"GPU{i}" for i in range(gpus)] + [f"NIC{i}" for i in range(nics)]
    gap = draw(st.sampled_from(["\t", "  ", "\t\t", " \t"]))
    lines = [gap + gap.join(names)]
    for i in range(gpus):
        cells = ["X" if i == j else pairs[min(i, j), max(i, j)] for j in range(gpus)]
        lines.append(gap.join([names[i], *cells, *near[i]]))
    return pairs, near, "\n".join(lines)


@given(nodes())
@settings(deadline=None)
def test_each_word_of_a_table_becomes_a_link_or_a_nic(node):
    pairs, near, text = node
    read = read_topo(text).links
    for pair, wire in read.pairs().items():
        word = pairs[pair]
        nvlinks = word.startswith("NV")
        assert wire.type == ("nvlink" if nvlinks else "pcie")
        assert wire.gbps == (25 * int(word[2:]) if nvlinks else PCIE_GBPS[word])
    assert len(read.pairs()) == len(pairs)
    for gpu, row in enumerate(near):
        mine = [(nic.name, nic.path) for nic in read.nics if nic.gpus >> gpu & 1]
        least = min(row, key=PATHS.index, default="")
        assert mine == [(f"NIC{i}", path) for i, path in enumerate(row) if path == least]


LEGEND = (
    "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe and the SMP interconnect\n"
    "  PIX  = Connection traversing at most a single PCIe bridge\n"
)
NVLINKS = "  NV#  = Connection traversing a bonded set of # NVLinks\n"


def test_a_table_without_nvlink_is_refused_and_the_right_option_named():
    text = "GPU0 GPU1\nGPU0 X SYS\nGPU1 SYS X\n" + LEGEND
    assert read_topo(text + NVLINKS).pairs
    with pytest.raises(InvalidHardware, match=r"line 5 column 1: .*\(-mp\).*topo -m$"):
        read_topo(text)
