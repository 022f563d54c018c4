"""Intel's Xe Link: hwloc's matrix and ``xpu-smi topology -m``, for GPUs of two tiles (Aurora)."""

from __future__ import annotations

import attrs
import pytest

from discovery.nodes import numbers_of
from hwlocfile import Device, Made, distances
from treepool.discovery.hwloc import read_hwloc
from treepool.discovery.reports.intel import read_topo
from treepool.discovery.reports.report import combined
from treepool.errors import InvalidHardware
from treepool.rfc import idset
from treepool.rfc.links import Wire

PVC = "0380 [8086:0bd6] [8086:0000] 2f"
GPUS = 6
TILES = [(gpu, tile) for gpu in range(GPUS) for tile in range(2)]


def word(a, b):
    """Tiles of one number are joined by Xe Link, those of a GPU inside it, others through them."""
    if a == b:
        return "S"
    return "MDF" if a[0] == b[0] else "XL16" if a[1] == b[1] else "XL*"


def table(tiles=TILES, word=word, cpus=lambda tile: "0-3" if tile[0] < 3 else "4-7"):
    names = [f"GPU {gpu}/{tile}" for gpu, tile in tiles]
    lines = ["         " + "|".join(names) + "|CPU Affinity"]
    for name, one in zip(names, tiles):
        cells = "|".join(word(one, other).ljust(7) for other in tiles)
        lines.append(f"{name} |{cells}|{cpus(one)}")
    return "\n".join(lines) + "\n"


def machine(matrix=True):
    """What hwloc says: the tiles of each GPU inside it, and MB/s between those that links join."""
    made = Made(numas=1, smt=1, devices=[
        Device(f"0000:{0x18 + gpu:02x}:00.0", gpu // 3, PVC,
               [(f"ze{gpu}", "LevelZero"), *((f"ze{gpu}.{i}", "LevelZero") for i in range(2))],
               {"LevelZeroVendor": "Intel(R) Corporation", "LevelZeroModel": "Max 1550"})
        for gpu in range(GPUS)
    ])  # fmt: skip
    if matrix:
        every = numbers_of(made.xml(), "OSDev")
        tiles = [number for i, number in enumerate(every) if i % 3]
        mbps = [105_600 if word(a, b) == "XL16" else 0 for a in TILES for b in TILES]
        made = attrs.evolve(made, more=distances("XeLinkBandwidth", "OSDev", tiles, mbps))
    return read_hwloc(made.xml())


LINKS = {
    (i, j): Wire("xelink", 200.0) if a[0] == b[0] else Wire("xelink", pytest.approx(105.6))
    for i, a in enumerate(TILES)
    for j, b in enumerate(TILES)
    if i < j and word(a, b) != "XL*"
}


def found(pairs):
    return {pair: wire for pair, wire in pairs.items() if wire.type != "pcie"}


def test_hwloc_alone_and_with_xpu_smi_and_xpu_smi_alone_give_the_same_links():
    assert len(machine().gpus) == 12
    assert found(machine().links.pairs()) == LINKS
    assert read_topo(table()).pairs == LINKS
    for matrix in (False, True):
        after = combined(machine(matrix), read_topo(table()))
        assert after.links.pairs() == LINKS
        assert after.warnings == ()


def test_the_cpus_near_a_tile_place_it_where_hwloc_cannot():
    bare = read_hwloc(Made(numas=1, smt=1).xml())
    after = combined(bare, read_topo(table()))
    assert [idset.encode(gpu.cores) for gpu in after.gpus[::6]] == ["0-3", "4-7"]
    assert {gpu.vendor for gpu in after.gpus} == {"intel"}


def test_gpus_without_tiles_and_paths_on_pcie():
    text = "       GPU 0|GPU 1|CPU Affinity\nGPU 0 |S |NODE |0-3\nGPU 1 |NODE |S|\n"
    report = read_topo(text)
    assert report.pairs == {(0, 1): Wire("pcie", 10.0)}
    assert report.near == {0: 15, 1: 0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: there is no table with a row for each GPU"),
        ("GPU 0|GPU 0|CPU Affinity\n", "line 1: a GPU has two columns"),
        ("GPU 0|x|CPU Affinity\n", "line 1: 'x' is not the name of a GPU"),
        ("GPU 0|GPU 1|CPU Affinity\nGPU 0|S|0-3\n", "line 2: not the only row of GPU 0"),
        ("GPU 0|GPU 1|CPU Affinity\nGPU 0|S|?|0\n", "line 2: '?' is not a path between two GPUs"),
        ("GPU 0|GPU 1|CPU Affinity\nGPU 0|S|MDF|0-\n", "line 2: '0-' is not a list of CPUs"),
        ("GPU 0|GPU 1|CPU Affinity\nGPU 0|S|MDF|0\n", "no table with a row for each GPU"),
        ("GPU 0|GPU 1|CPU Affinity\nGPU 7|S|MDF|0\n", "line 2: 'GPU 7' is not a GPU"),
        (table([(i, 0) for i in range(129)]), "over 128"),
    ],
)
def test_malformed_text_is_an_error_of_one_line(text, message):
    with pytest.raises(InvalidHardware) as raised:
        read_topo(text)
    assert message in str(raised.value) and "\n" not in str(raised.value)
