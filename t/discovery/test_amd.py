"""``rocm-smi --showtopo`` and ``amd-smi topology``: which links join an AMD node's GPUs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import attrs
import pytest

from discovery.nodes import MI250X, numbers_of
from hwlocfile import Device, Made, distances
from treepool.discovery.describe import Describer
from treepool.discovery.hwloc import read_hwloc
from treepool.discovery.linking import PCIE_GBPS, cliques
from treepool.discovery.reports.amd import read_topo
from treepool.discovery.reports.report import combined
from treepool.errors import InvalidHardware
from treepool.rfc import idset
from treepool.rfc.links import Wire

#: GB/s of the pairs of GPUs of a node of four MI250X that links join: four those of one module
#: (AMD's CDNA 2 white paper), two or one the others. All other pairs are two links apart.
DOCUMENTED = Path(__file__).parents[2] / "doc" / "nodes" / "mi250x.json"
MODULES = [(0, 1), (2, 3), (4, 5), (6, 7)]
LINKS = {
    **dict.fromkeys(MODULES, 200),
    **dict.fromkeys([(0, 6), (2, 4)], 100),
    **dict.fromkeys([(0, 2), (1, 3), (1, 5), (3, 7), (4, 6), (5, 7)], 50),
}


def bus(i):
    return f"0000:{0xC1 + i:02x}:00.0"


def weight(a, b):
    pair = (min(a, b), max(a, b))
    return 0 if a == b else 15 if pair in LINKS else 30


def hops(a, b):
    """What the tools print: one hop for every pair that xGMI joins, however far apart."""
    return int(a != b)


def bandwidth(a, b):
    gbps = LINKS.get((min(a, b), max(a, b)))
    return "N/A" if a == b else f"50000-{gbps * 1000}" if gbps else "0-0"


def kind(a, b):
    return "XGMI"


def rows(names, cell, own):
    width = max(map(len, names)) + 1
    lines = ["".ljust(width) + " ".join(name.ljust(12) for name in names)]
    for i, name in enumerate(names):
        cells = (own if i == j else str(cell(i, j)) for j in range(len(names)))
        lines.append(name.ljust(width) + " ".join(c.ljust(12) for c in cells))
    return "\n".join(lines) + "\n"


def rocm(count=8, kind=kind, weight=weight):
    names = [f"GPU{i}" for i in range(count)]
    text = f"\n{' ROCm System Management Interface ':=^90}\n"
    for title, cell in (("Weight", weight), ("Hops", hops),
                        ("Link Type", kind)):  # fmt: skip
        text += f"{f' {title} between two GPUs ':=^90}\n{rows(names, cell, '0')}\n"
    text += f"{' Numa Nodes ':=^90}\n"
    for i in range(count):
        text += f"GPU[{i}]\t\t: (Topology) Numa Node: {i // 2}\n"
        text += f"GPU[{i}]\t\t: (Topology) Numa Affinity: {i // 2}\n"
    return text + f"{' End of ROCm SMI Log ':=^90}\n"


def amd_smi(count=8):
    names = [bus(i) for i in range(count)]
    tables = {
        "ACCESS TABLE": (lambda a, b: "ENABLED", "ENABLED"),
        "WEIGHT TABLE": (weight, "0"),
        "HOPS TABLE": (hops, "0"),
        "LINK TYPE TABLE": (kind, "SELF"),
        "NUMA BW TABLE": (bandwidth, "N/A"),
    }
    return "".join(f"{name}:\n{rows(names, *cells)}\n" for name, cells in tables.items())


def as_json(count=8):
    return json.dumps(
        [
            {
                "gpu": a,
                "bdf": bus(a),
                "links": [
                    {
                        "gpu": b,
                        "bdf": bus(b),
                        "weight": weight(a, b),
                        "link_status": "ENABLED",
                        "link_type": "SELF" if a == b else kind(a, b),
                        "num_hops": hops(a, b),
                        "bandwidth": bandwidth(a, b),
                    }
                    for b in range(count)
                ],
            }
            for a in range(count)
        ]
    )


def devices(count, model="AMD INSTINCT MI250X"):
    return [
        Device(bus(i), i // 2, MI250X, [(f"rsmi{i}", "RSMI")], {"GPUModel": model})
        for i in range(count)
    ]


def machine(count=8, matrices=True, model="AMD INSTINCT MI250X"):
    """What hwloc says: the number of links between GPUs, and a flat 100 GB/s for all of them."""
    made = Made(devices=devices(count, model), packages=1, numas=4)
    if matrices:
        numbers = numbers_of(made.xml(), "OSDev")
        pairs = [(a, b) for a in range(count) for b in range(count)]
        apart = distances("XGMIHops", "OSDev", numbers, [weight(*pair) // 15 for pair in pairs])
        flat = [1_000_000 if a == b else 100_000 for a, b in pairs]
        more = apart + distances("XGMIBandwidth", "OSDev", numbers, flat)
        made = attrs.evolve(made, more=more)
    return read_hwloc(made.xml())


def found(machine):
    return {pair: wire.gbps for pair, wire in machine.links.pairs().items()}


@pytest.mark.parametrize("matrices", [False, True])
@pytest.mark.parametrize("text", [amd_smi(), as_json()])
def test_the_bandwidths_of_amd_smi_give_the_documented_links(text, matrices):
    after = combined(machine(matrices=matrices), read_topo(text))
    (table,) = json.loads(DOCUMENTED.read_text())["scheduling"]["links"].values()
    assert after.links.to_dict()["links"] == table["links"]
    assert found(after) == LINKS
    assert cliques(after.links, 0xFF) == (0b11, 0b1100, 0b110000, 0b11000000)
    assert after.warnings == ()


@pytest.mark.parametrize(
    "after",
    [
        machine(),
        combined(machine(), read_topo(rocm())),
        combined(machine(matrices=False), read_topo(rocm())),
        combined(machine(), read_topo(re.sub("50000-\\d+", "0-0", amd_smi()))),
    ],
    ids=["hwloc", "rocm-smi", "rocm-smi alone", "amd-smi without rates"],
)
def test_without_bandwidths_the_same_pairs_are_joined_and_those_of_a_module_best(after):
    assert found(after) == {pair: 200 if gbps == 200 else 50 for pair, gbps in LINKS.items()}
    assert {wire.type for wire in after.links.pairs().values()} == {"xgmi"}


def test_gpus_that_are_two_links_apart_are_not_joined_whatever_is_printed_as_their_rate():
    text = amd_smi().replace("0-0 ", "50000-50000 ")
    assert set(read_topo(text).pairs) == set(LINKS)
    assert set(read_topo(text.replace("0-0", "N/A")).pairs) == set(LINKS)
    weights_alone = re.sub("HOPS TABLE:(.*\n){10}", "", text)
    assert "HOPS" not in weights_alone and set(read_topo(weights_alone).pairs) == set(LINKS)


def test_the_column_that_says_far_counts_whichever_it_is(monkeypatch):
    flat = {"weight": lambda a, b: 15 * (a != b), "bandwidth": lambda a, b: "N/A"}
    for column, cell in (
        ("hops", lambda a, b: 0 if a == b else 2 - ((min(a, b), max(a, b)) in LINKS)),
        ("weight", weight),
        ("bandwidth", bandwidth),
    ):
        with monkeypatch.context() as patch:
            for name, other in {"hops": hops, **flat, column: cell}.items():
                patch.setattr(f"{__name__}.{name}", other)
            for text in (amd_smi(), as_json()):
                report = read_topo(text)
                assert (set(report.pairs), len(report.routed)) == (set(LINKS), 28 - len(LINKS))
    assert read_topo(amd_smi()).told == (
        "8 GPUs; 12 pairs joined by xgmi, 16 only through other GPUs"
    )


def test_where_hwloc_alone_counts_one_link_for_every_pair_a_warning_says_what_tells():
    numbers = numbers_of(Made(devices=devices(8), packages=1, numas=4).xml(), "OSDev")
    flat = [int(a != b) for a in range(8) for b in range(8)]
    rates = [100_000 * one for one in flat]
    more = distances("XGMIHops", "OSDev", numbers, flat)
    more += distances("XGMIBandwidth", "OSDev", numbers, rates)
    xml = Made(devices=devices(8), packages=1, numas=4, more=more).xml()
    (warning,) = Describer().of_xml(xml.encode()).warnings
    assert "--amd-smi says which are joined" in warning
    assert Describer(reports=[read_topo(rocm())]).of_xml(xml.encode()).warnings == ()


@pytest.mark.parametrize(
    ("model", "gbps"),
    [("AMD Instinct MI300X", 64), ("Aqua Vanjaram [Instinct MI300A]", 128), ("MI355X", 76.8),
     ("deon Instinct MI50 32GB", 50)],
)  # fmt: skip
def test_a_rate_that_no_tool_knows_is_that_of_the_model(model, gbps):
    assert found(machine(2, model=model)) == {(0, 1): gbps}


def test_a_cell_that_fills_its_column_is_cut_from_the_next():
    text = (
        amd_smi(4)
        .replace("50000-200000 ", "100000-200000")
        .replace("50000-50000  ", "100000-100000")
    )
    assert "100000-200000100000" in text
    assert read_topo(text).pairs[0, 1] == Wire("xgmi", 200.0)
    assert read_topo(text).pairs[0, 2] == Wire("xgmi", 100.0)


def test_the_weight_of_a_pcie_path_says_whether_it_crosses_sockets():
    pairs = read_topo(
        rocm(3, lambda a, b: "PCIE", lambda a, b: 0 if a == b else 40 if a + b == 1 else 72)
    ).links.pairs()
    assert pairs == {
        (0, 1): Wire("pcie", PCIE_GBPS["NODE"]),
        (0, 2): Wire("pcie", PCIE_GBPS["SYS"]),
        (1, 2): Wire("pcie", PCIE_GBPS["SYS"]),
    }


def test_numa_nodes_say_which_cores_are_near_a_gpu():
    bare = read_hwloc(Made(packages=1, numas=4).xml())
    after = combined(bare, read_topo(rocm()))
    assert [idset.encode(gpu.cores) for gpu in after.gpus[::2]] == ["0-3", "4-7", "8-11", "12-15"]
    assert {gpu.vendor for gpu in after.gpus} == {"amd"}


def test_gpus_are_identified_by_their_bus_ids_and_not_by_their_order():
    # hwloc's rsmi numbers these two the other way round.
    devices = [Device(bus(i), i, MI250X, [(f"rsmi{1 - i}", "RSMI")]) for i in range(2)]
    devices.append(Device(bus(2), 2, MI250X, [("rsmi2", "RSMI")]))
    machine = read_hwloc(Made(packages=1, numas=4, devices=devices).xml())
    report = read_topo(amd_smi(3))
    assert (report.pairs[0, 2].gbps, (1, 2) in report.pairs) == (50, False)
    assert {pair: w.gbps for pair, w in combined(machine, report).links.pairs().items()
            if w.type == "xgmi"} == {(0, 1): 200, (1, 2): 50}  # fmt: skip


def test_a_report_with_other_bus_ids_is_not_used():
    report = read_topo(amd_smi().replace("0000:c", "0001:c"))
    after = combined(machine(), report)
    assert after.links == machine().links
    assert after.warnings == ("gpus are 0-7, but amd-smi has 0-7 on other buses: it is not used",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: there is no table of link types between GPUs"),
        ("LINK TYPE TABLE:\nGPU1 GPU0\n", "line 2: 'GPU1' is not GPU 0; a table that a terminal"),
        (
            "LINK TYPE TABLE:\nGPU0 GPU1\nGPU0 SELF\n",
            "line 3: 'GPU0' does not begin a row of 2 GPUs; a",
        ),
        ("LINK TYPE TABLE:\n0000:01:00.0 0000:01:00.0\n", "line 2: two columns have one name"),
        (rocm(129), "line 4: GPU 128 is not among 0 to 127"),
        (re.sub("\nGPU2 .*", "", rocm(4)), "line 9: the table ends without a row of GPU2; a table"),
        (re.sub("(\nGPU2 .*)", r"\1\1", rocm(4)), "line 8: GPU2 has a row already"),
        (rocm(4) + "LINK TYPE TABLE:\nGPU0\n", "line 35: the columns are not those of line 4"),
        ("GPU[128] : (Topology) Numa Node: 1\n", "line 1: GPU 128 is not among 0 to 127"),
        ("[]", "must not be empty"),
        ("[7]", "/0: must be an object, not 7"),
        ('[{"gpu": 0}]', "/0: key 'links' is missing"),
        ('[{"gpu": 1, "links": []}, {"gpu": 1, "links": []}]', "/1: GPU 1 is there already"),
        ('[{"gpu": 999, "links": []}]', "/0/gpu: must be at least 0 and at most 127, not 999"),
        ("[" * 100_000, "amd-smi: nested deeper than 64 levels"),
    ],
)
def test_malformed_text_is_an_error_of_one_line(text, message):
    with pytest.raises(InvalidHardware) as raised:
        read_topo(text)
    assert message in str(raised.value) and "\n" not in str(raised.value)


def test_the_slower_link_counts_if_the_two_rows_differ():
    text = rocm(2, lambda a, b: "XGMI" if a < b else "PCIE")
    assert read_topo(text).pairs == {(0, 1): Wire("pcie", PCIE_GBPS["NODE"])}


@pytest.mark.parametrize("text", [re.sub("GPU.0.*\n", "", rocm(1)), amd_smi(1), as_json(1)])
def test_one_gpu_alone_has_no_links(text):
    assert (read_topo(text).pairs, list(read_topo(text).near)) == ({}, [0])
