"""Links between pairs of GPUs, and the graph that they form on a real node."""

from __future__ import annotations

from itertools import combinations
from typing import Iterable

from treepool.rfc.links import Wire

NV1, NV2, NV4 = (Wire("nvlink", 25.0 * n) for n in (1, 2, 4))
PIX, SYS = Wire("pcie", 16.0), Wire("pcie", 8.0)

#: An 8-GPU node of V100s: two quads of mixed links, and one link of each GPU to the other quad.
CUBE_MESH = {
    (0, 1): NV1, (0, 2): NV1, (0, 3): NV2, (0, 4): NV2, (1, 2): NV2, (1, 3): NV1, (1, 5): NV2,
    (2, 3): NV2, (2, 6): NV1, (3, 7): NV1, (4, 5): NV1, (4, 6): NV1, (4, 7): NV2, (5, 6): NV2,
    (5, 7): NV1, (6, 7): NV2,
}  # fmt: skip


def joined(*groups: Iterable[int], wire: Wire = NV4) -> dict[tuple[int, int], Wire]:
    """The same link for all pairs within each group of GPUs."""
    return {pair: wire for group in groups for pair in combinations(sorted(group), 2)}
