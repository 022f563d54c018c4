"""Link tables of real kinds of node, as data: which GPUs are linked, and how near the NICs are."""

from __future__ import annotations

from treepool.placement.nodes.link_table import LinkTable, compile_links
from treepool.rfc.links import Links, Nic, Wire

#: Pairs by bandwidth in GB/s; those not listed have ``rest``.
Pairs = dict[float, list[tuple[int, int]]]


def table(count: int, kind: str, pairs: Pairs, rest: float = 0, nics: tuple[Nic, ...] = ()):
    """The table of GPUs 0 to *count* - 1; pairs of PCIe where *rest* says so."""
    wires = {pair: Wire(kind, gbps) for gbps, listed in pairs.items() for pair in listed}
    for b in range(count):
        for a in range(b):
            if rest and (a, b) not in wires:
                wires[a, b] = Wire("pcie", rest)
    found = compile_links(Links.from_matrix(wires, nics), (1 << count) - 1)
    assert isinstance(found, LinkTable)
    return found


def every_pair(count: int) -> list[tuple[int, int]]:
    return [(a, b) for b in range(count) for a in range(b)]


#: DGX-1 with V100: two quads of four, each all linked, and a link from each GPU to one of the
#: other quad. The double links (NV2) form a ring 0-3-2-1-5-6-7-4.
CUBE_MESH = table(
    8,
    "nvlink",
    {
        50: [(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)],
        25: [(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)],
    },
)

#: Four MI250X of two GPUs (GCDs) each: 200 GB/s inside, 100 or 50 between some.
_MI250X: Pairs = {
    200: [(0, 1), (2, 3), (4, 5), (6, 7)],
    100: [(0, 6), (2, 4)],
    50: [(0, 2), (4, 6), (1, 3), (1, 5), (3, 7), (5, 7)],
}
MI250X = table(8, "xgmi", _MI250X)

#: The same where each odd GPU has a NIC on it, as on HPE's EX235a blades.
MI250X_NICS = table(
    8,
    "xgmi",
    _MI250X,
    nics=(
        *(Nic(f"hsn{i}", 1 << 2 * i + 1, "PIX") for i in range(4)),
        *(Nic(f"far{i}", 1 << 2 * i, "NODE") for i in range(4)),
    ),
)

#: HGX with NVSwitch: any two alike.
NVSWITCH = table(8, "nvlink", {450: every_pair(8)})

#: Cards joined two by two by NVLink bridges, all on PCIe.
PAIRS_4 = table(4, "nvlink", {300: [(0, 1), (2, 3)]}, rest=32)
PAIRS_8 = table(8, "nvlink", {300: [(0, 1), (2, 3), (4, 5), (6, 7)]}, rest=32)

#: PCIe alone, faster within each socket's four.
PCIE = table(8, "pcie", {32: [*every_pair(4), *((a + 4, b + 4) for a, b in every_pair(4))]}, 16)

#: Four MI300A: any two alike (XGMIBandwidth in hwloc's view of such a node), whole or in thirds.
MI300A_SPX = table(4, "xgmi", {100: every_pair(4)})
MI300A_TPX = table(12, "xgmi", {100: every_pair(12)})
