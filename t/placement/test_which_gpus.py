"""Which GPUs a slot of one to eight gets on an idle node of each kind: the table of the guide."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from depth import examples
from made import alloc, nodes
from placement.duel import Duel
from placement.strategies import History, Step, jobspec, occupations
from placement.test_against_reference import SETTINGS
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.links import Links, Wire
from treepool.rfc.shape import parse_shape

DOC = Path(__file__).parents[2] / "doc"


def node(domains: int, cores: int, gpus: int, links: dict[tuple[int, int], Wire], name="socket"):
    """An R of one node: *domains* of as many cores and GPUs each, and the wire of each pair."""
    parts = [
        {"cores": f"{i * cores}-{i * cores + cores - 1}",
         "gpus": idset.encode_ids(range(i * gpus, i * gpus + gpus))}
        for i in range(domains)
    ]  # fmt: skip
    ids = f"0-{domains * cores - 1}", f"0-{domains * gpus - 1}"
    return nodes("0", *ids, {name: parts}, Links.from_matrix(links))


def alike(count: int, kind: str, gbps: float) -> dict[tuple[int, int], Wire]:
    return dict.fromkeys(combinations(range(count), 2), Wire(kind, gbps))


def pcie(count: int, fast: dict[tuple[int, int], Wire]) -> dict[tuple[int, int], Wire]:
    """*fast*, and PCIe between all others: of one socket, which has half of the GPUs, or of two."""
    near, far = Wire("pcie", 10), Wire("pcie", 8)
    half = count // 2
    rest = {
        (a, b): near if a // half == b // half else far for a, b in combinations(range(count), 2)
    }
    return {**rest, **fast}


DOUBLE, SINGLE = Wire("nvlink", 50), Wire("nvlink", 25)
CUBE_MESH = {
    **dict.fromkeys([(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)], DOUBLE),
    **dict.fromkeys([(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)], SINGLE),
}

#: An R of one node of each kind.
NODES: dict[str, dict[str, Any]] = {
    "MI250X": json.loads((DOC / "nodes" / "mi250x.json").read_text()),
    "MI300A": node(4, 24, 1, alike(4, "xgmi", 128), "numa"),
    "MI300X": node(2, 48, 4, alike(8, "xgmi", 64)),
    "DGX-1 (V100)": node(2, 20, 4, pcie(8, CUBE_MESH)),
    "DGX-2": node(2, 24, 8, alike(16, "nvlink", 150)),
    "DGX H100": node(2, 56, 4, alike(8, "nvlink", 450)),
    "8 on PCIe": node(2, 32, 4, pcie(8, {})),
    "4 NVLink pairs": node(
        2, 32, 4, pcie(8, dict.fromkeys([(0, 1), (2, 3), (4, 5), (6, 7)], Wire("nvlink", 112)))
    ),
}


def granted(R: dict[str, Any], number: int) -> str:
    """The ids of the GPUs that a slot of *number* GPUs and as many cores gets; "" if none can."""
    pool = Pool(R)
    if number > idset.size(idset.decode(R["execution"]["R_lite"][0]["children"]["gpu"])):
        return ""
    given = alloc(pool, 1, f"slot=1/[core={number};gpu={number}]").to_dict()
    return given["execution"]["R_lite"][0]["children"]["gpu"]


def row(name: str) -> str:
    return f"| {name} | " + " | ".join(granted(NODES[name], k) for k in range(1, 9)) + " |"


def test_the_guide_has_the_gpus_that_are_granted_on_each_node():
    text = (DOC / "topology.md").read_text()
    assert [row(name) for name in NODES if row(name) not in text] == []


@settings(SETTINGS, max_examples=examples(200))
@given(st.data())
def test_what_is_granted_beside_other_jobs_is_what_the_reference_says(data):
    R = NODES[data.draw(st.sampled_from([name for name in NODES if name != "DGX-2"]))]
    duel = Duel(History(R, "preferred", data.draw(occupations(R)), []))
    for number in data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)):
        duel.do(Step("alloc", jobspec(parse_shape(f"slot/[core={number};gpu={number}]"))))
