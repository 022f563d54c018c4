"""Link tables: what connects the GPUs of a node type, and when that gives no reason to choose."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Mapping, Optional

import attrs

from treepool.rfc import idset
from treepool.rfc.links import MAX_GPUS, PATHS, Links


@attrs.frozen(eq=False)
class LinkTable:
    """What connects the GPUs of a node type; make it with compile_links().

    ``ids`` are the GPU ids, ascending; ``gpus`` is the same set as a bitmask. ``gbps[i][j]`` is the
    bandwidth between ids[i] and ids[j] in GB/s, 0 where no link is known. ``types[i][j]`` is the
    type of that link, "" if there is none. ``paths[i]`` is the distance from ids[i] to its nearest
    NIC, an index of PATHS; it is len(PATHS) if there is no NIC.
    """

    gpus: int
    ids: tuple[int, ...]
    gbps: tuple[tuple[float, ...], ...]
    types: tuple[tuple[str, ...], ...]
    paths: tuple[int, ...]
    #: ``gbps`` in whole numbers of some unit: sums of them are exact, and so are comparisons.
    links: tuple[tuple[int, ...], ...] = attrs.field(init=False)
    #: For each of ``ids``, the GPUs (bitmask) to which it has links of each bandwidth and type.
    partners: tuple[Mapping[tuple[float, str], int], ...] = attrs.field(init=False)
    #: The different bandwidths between two GPUs in GB/s, ascending.
    speeds: tuple[float, ...] = attrs.field(init=False)
    #: Answers of gpus.best_set.best_set().
    memo: dict[Any, Any] = attrs.field(factory=dict)
    #: Answers of gpus.best_set: which GPUs are interchangeable, by host.
    alike: dict[Any, Any] = attrs.field(factory=dict)
    #: Answers of gpus.graph.graph_of().
    graphs: dict[Any, Any] = attrs.field(factory=dict)
    #: The place of each GPU id in ``ids``.
    place: dict[int, int] = attrs.field(init=False)

    @links.default
    def _exact(self) -> tuple[tuple[int, ...], ...]:
        unit = max(Fraction(gbps).denominator for row in self.gbps for gbps in row)
        return tuple(tuple(int(Fraction(gbps) * unit) for gbps in row) for row in self.gbps)

    @partners.default
    def _partners(self) -> tuple[Mapping[tuple[float, str], int], ...]:
        return tuple(
            idset.gathered(
                ((gbps, type), 1 << other)
                for other, gbps, type in zip(self.ids, *rows)
                if other != gpu
            )
            for gpu, *rows in zip(self.ids, self.gbps, self.types)
        )

    @speeds.default
    def _speeds(self) -> tuple[float, ...]:
        return tuple(sorted({gbps for having in self.partners for gbps, _ in having}))

    @place.default
    def _places(self) -> dict[int, int]:
        return {gpu: i for i, gpu in enumerate(self.ids)}

    def links_in(self, gpus: int) -> list[int]:
        """The ``links`` of all pairs of *gpus*."""
        places = [self.place[gpu] for gpu in idset.iterate(gpus)]
        return [self.links[i][j] for n, i in enumerate(places) for j in places[:n]]


def compile_links(links: Links, gpus: int) -> Optional[LinkTable]:
    """The table of *links* for a node whose GPUs in R are bitmask *gpus*.

    None if there is no basis for a choice: fewer than two GPUs, more than MAX_GPUS, or GPUs without
    a known link and with equal paths to a NIC.
    """
    ids = tuple(idset.iterate(gpus))
    if not 1 < len(ids) <= MAX_GPUS:
        return None
    place = {gpu: i for i, gpu in enumerate(ids)}
    gbps = [[0.0] * len(ids) for _ in ids]
    types = [[""] * len(ids) for _ in ids]
    known = False
    for pair, wire in links.pairs().items():
        if pair[0] in place and pair[1] in place:
            i, j = place[pair[0]], place[pair[1]]
            gbps[i][j] = gbps[j][i] = wire.gbps
            types[i][j] = types[j][i] = wire.type
            known = True
    paths = [len(PATHS)] * len(ids)
    for nic in links.nics:
        for i, gpu in enumerate(ids):
            if nic.gpus >> gpu & 1:
                paths[i] = min(paths[i], PATHS.index(nic.path))
    if not known and len(set(paths)) == 1:
        return None
    rows = tuple(tuple(row) for row in gbps)
    return LinkTable(gpus, ids, rows, tuple(tuple(row) for row in types), tuple(paths))


def smallest_link(table: LinkTable, chosen: int) -> Optional[float]:
    """The bandwidth of the slowest pair of the GPUs *chosen*, in GB/s.

    0 if some pair has no known link, None if there are fewer than two GPUs.
    """
    places = [table.place[gpu] for gpu in idset.iterate(chosen)]
    pairs = (table.gbps[i][j] for n, i in enumerate(places) for j in places[:n])
    return min(pairs, default=None)
