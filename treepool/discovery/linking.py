"""A link table: GB/s of PCIe paths (PIX to SYS), xGMI and Xe Link; nearest NICs; groups of GPUs.

Each reader of hardware reports which GPUs are joined by NVLink or xGMI, and how near the others are
on PCIe. This module combines both into one table (``rfc/links.py``), in which faster links replace
slower ones.
"""

from __future__ import annotations

import re
from typing import Collection, Hashable, Iterable, Mapping, Optional, Sequence

import attrs

from treepool.discovery.hwlocxml import Distances
from treepool.rfc import idset
from treepool.rfc.links import MAX_GBPS, PATHS, Device, Links, Nic, Wire

#: GB/s in the table for a pair of GPUs joined only by PCIe. The values are nominal: they order the
#: paths, all below the slowest NVLink, and are not measurements. The real figure depends on the
#: generation of PCIe, its width and the processor.
PCIE_GBPS = {"PIX": 16.0, "PXB": 14.0, "PHB": 12.0, "NODE": 10.0, "SOCKET": 9.0, "SYS": 8.0}

#: The type of link in each of hwloc's matrices of bandwidths.
MATRICES = {"NVLinkBandwidth": "nvlink", "XGMIBandwidth": "xgmi", "XeLinkBandwidth": "xelink"}

#: hwloc's matrix of the number of xGMI links from one GPU to another.
HOPS = "XGMIHops"

#: The MB/s that hwloc has for any xGMI link: the real figure is not known.
_FLAT_XGMI = 100_000

#: GB/s per direction of what joins two AMD GPUs directly, by their model, where no tool knows it:
#: one link, two between MI300A (AMD's CDNA 2, 3 and 4 white papers). Nominal for other models.
XGMI_GBPS = 50.0
_XGMI_OF_MODEL = (
    (re.compile(r"MI300A", re.ASCII | re.IGNORECASE), 128.0),
    (re.compile(r"MI3[02]\dX", re.ASCII | re.IGNORECASE), 64.0),
    (re.compile(r"MI35\d", re.ASCII | re.IGNORECASE), 76.8),
)

#: Models of two GPUs in one module, and GB/s between these: four links.
_MODULE, _MODULE_GBPS = re.compile(r"MI250", re.ASCII | re.IGNORECASE), 200.0

#: Most of these GPUs that can be joined with each other.
_MOST_JOINED = 4

#: GB/s per direction of a lane of Xe Link (53 Gb/s), and between the tiles of one GPU. Nominal.
XELINK_LANE_GBPS, TILES_GBPS = 6.6, 200.0

Pairs = dict[tuple[int, int], Wire]

#: Pairs of GPUs, the lower id first.
PairSet = frozenset[tuple[int, int]]


@attrs.frozen
class DeviceAt:
    """Where a GPU or NIC is: its key, the bridges above it, and its NUMA node and socket.

    All but the key are any values that tell one from another. ``bridges`` has the outermost first,
    which is the host bridge; ``numa`` and ``socket`` are None if they are not known.
    """

    key: str
    bridges: tuple[Hashable, ...] = ()
    numa: Hashable = None
    socket: Hashable = None


def table(
    fast: Pairs,
    gpus: Mapping[int, DeviceAt],
    nics: Sequence[DeviceAt] = (),
    devices: Iterable[Device] = (),
    routed: PairSet = frozenset(),
) -> Links:
    """Everything known about one node: the *fast* links, PCIe for the other pairs, NICs.

    *gpus* has the position of each GPU, by id. A NIC's key is its name. Pairs that are *routed*
    through other GPUs have no link of their own.
    """
    paths = {gpu: [path(at, nic) for nic in nics] for gpu, at in gpus.items()}
    nearest = nearest_nics([nic.key for nic in nics], paths)
    pairs = {**pcie_pairs(gpus), **fast}
    direct = {pair: wire for pair, wire in pairs.items() if pair not in routed}
    return Links.from_matrix(direct, nearest, devices)


def xgmi_gbps(pair: tuple[int, int], model: str, near: Mapping[int, int]) -> float:
    """GB/s of the xGMI between a *pair* of GPUs of this *model* that no tool knows.

    *near* has the cores near each GPU, 0 if not known. The two GPUs of a module have consecutive
    ids, and are near the same cores.
    """
    a, b = pair
    if _MODULE.search(model) and a // 2 == b // 2 and near.get(a, 0) == near.get(b, 0):
        return _MODULE_GBPS
    return next((gbps for form, gbps in _XGMI_OF_MODEL if form.search(model)), XGMI_GBPS)


def joins_too_many(links: Optional[Links], models: Sequence[str]) -> bool:
    """Whether *links* join more GPUs of these *models* with each other than a GPU has links for."""
    size = len(models)
    wires = [] if links is None else list(links.pairs().values())
    joined = sum(wire.type == "xgmi" for wire in wires) == size * (size - 1) // 2
    return joined and size > _MOST_JOINED and all(map(_MODULE.search, models))


def has_xgmi_rate(model: str) -> bool:
    """Whether the GB/s of a link of this *model* are known."""
    return any(form.search(model) for form in (_MODULE, *(form for form, _ in _XGMI_OF_MODEL)))


def fast_pairs(
    matrices: Iterable[Distances], ids: Mapping[str, int], switches: Collection[str] = ()
) -> Pairs:
    """The pairs joined by NVLink, xGMI or Xe Link, from square matrices of MB/s.

    *ids* has the GPU ids of objects of the matrices, *switches* the objects that are NVSwitches.

    Two GPUs on NVSwitches have the bandwidth into switches of the slower one, in addition to links
    that join them directly. All NVSwitches of a node count as one: hwloc only knows the links that
    end at a GPU, not those between switches, and also treats switches as ports of one. (A DGX-2 has
    six on each of two boards; all its 16 GPUs have equal links.) If both directions have a figure,
    the smaller counts. Other objects are left out, and the diagonals have no meaning.
    """
    pairs: Pairs = {}
    for matrix in matrices:
        if matrix.name in MATRICES:
            for pair, mbps in _joined(matrix, ids, switches).items():
                wire = Wire(MATRICES[matrix.name], min(mbps / 1000, MAX_GBPS))
                if pair not in pairs or pairs[pair].gbps < wire.gbps:
                    pairs[pair] = wire
    return pairs


def routed_pairs(matrices: Iterable[Distances], ids: Mapping[str, int]) -> PairSet:
    """The pairs whose xGMI goes through other GPUs: it takes two links, or more."""
    return frozenset(
        pair
        for matrix in matrices
        if matrix.name == HOPS
        for pair, hops in _joined(matrix, ids, ()).items()
        if hops > 1
    )


def is_nominal(wire: Wire) -> bool:
    """Whether hwloc does not know the GB/s of a link of its matrices."""
    return wire == Wire("xgmi", _FLAT_XGMI / 1000)


def path(a: DeviceAt, b: DeviceAt) -> str:
    """How near two devices are on PCIe, in the words of ``nvidia-smi topo``.

    PIX: at most one switch is between them. PXB: several switches are between them, but not the
    host bridge. PHB: the host bridge is between them. NODE: they are under two host bridges of one
    NUMA node. SYS: the host bridges are of two sockets, or this is not known. SOCKET, which
    ``nvidia-smi`` does not know, lies between: two NUMA nodes of one socket (SNC, NPS).
    """
    shared = 0
    for above_a, above_b in zip(a.bridges, b.bridges):
        if above_a != above_b:
            break
        shared += 1
    if shared == 0:
        if a.numa and a.numa == b.numa:
            return "NODE"
        return "SOCKET" if a.socket and a.socket == b.socket else "SYS"
    if shared == 1:
        return "PHB"
    # Below the port into a shared switch each device has one more bridge: the switch's port to it.
    # Any further bridges belong to another switch.
    return "PIX" if max(len(a.bridges), len(b.bridges)) - shared <= 1 else "PXB"


def pcie_pairs(gpus: Mapping[int, DeviceAt]) -> Pairs:
    """All pairs of *gpus*, by id, joined by PCIe, with nominal GB/s (PCIE_GBPS)."""
    ordered = sorted(gpus.items())
    return {
        (a, b): Wire("pcie", PCIE_GBPS[path(at_a, at_b)])
        for i, (a, at_a) in enumerate(ordered)
        for b, at_b in ordered[i + 1 :]
    }


def nearest_nics(names: Sequence[str], paths: Mapping[int, Sequence[str]]) -> tuple[Nic, ...]:
    """The NICs nearest to each GPU, from its path to each of *names*, "" for an unknown path.

    Several NICs that are equally near all count (dual rail); see Links.nics_of().
    """
    found: dict[tuple[int, int], int] = {}
    for gpu, row in paths.items():
        known = [(PATHS.index(word), nic) for nic, word in enumerate(row) if word]
        nearest = min(known, default=(0, 0))[0]
        for distance, nic in known:
            if distance == nearest:
                found[nic, distance] = found.get((nic, distance), 0) | 1 << gpu
    return tuple(
        Nic(names[nic], gpus, PATHS[distance]) for (nic, distance), gpus in sorted(found.items())
    )


def cliques(links: Links, within: int) -> tuple[int, ...]:
    """The groups into which faster links divide the GPUs *within* (bitmask); () if they do not.

    Only NVLink and xGMI count. A bandwidth divides the GPUs if the links of at least that bandwidth
    form groups in which each GPU is joined to each other, and no such link leaves a group. Of
    several such bandwidths the lowest is used, because it gives the largest groups. A GPU without
    such a link is a group of its own. Pairs and islands therefore divide the GPUs. PCIe does not,
    nor do a mesh and an NVSwitch, which join all of them.
    """
    fast = {
        pair: wire.gbps
        for pair, wire in links.pairs().items()
        if wire.type != "pcie" and within >> pair[0] & 1 and within >> pair[1] & 1
    }
    for least in sorted(set(fast.values())):
        groups = _groups((pair for pair, gbps in fast.items() if gbps >= least), within)
        if len(groups) > 1:
            return groups
    return ()


def _groups(pairs: Iterable[tuple[int, int]], within: int) -> tuple[int, ...]:
    """The cliques that *pairs* form, by lowest GPU; () if *pairs* do not form cliques."""
    group = {gpu: 1 << gpu for gpu in idset.iterate(within)}
    for a, b in pairs:
        group[a] |= 1 << b
        group[b] |= 1 << a
    # All members of a clique have the same neighbours, themselves included.
    if any(group[member] != mask for mask in group.values() for member in idset.iterate(mask)):
        return ()
    return tuple(sorted(set(group.values()), key=idset.lowest))


def _joined(
    matrix: Distances, ids: Mapping[str, int], switches: Collection[str]
) -> dict[tuple[int, int], float]:
    """MB/s between the GPUs of *matrix* that it joins, directly or through switches."""
    size = len(matrix.objects)
    # Several backends may add objects for one GPU; the first object counts.
    rows: dict[int, int] = {}
    for row, key in enumerate(matrix.objects):
        if key in ids:
            rows.setdefault(ids[key], row)
    through = [row for row, key in enumerate(matrix.objects) if key in switches]

    def between(a: int, b: int) -> float:
        there, back = matrix.values[a * size + b], matrix.values[b * size + a]
        return min(there, back) or max(there, back)

    into = {gpu: sum(between(row, switch) for switch in through) for gpu, row in rows.items()}
    found: dict[tuple[int, int], float] = {}
    ordered = sorted(rows)
    for i, a in enumerate(ordered):
        for b in ordered[i + 1 :]:
            mbps = between(rows[a], rows[b]) + min(into[a], into[b])
            if mbps:
                found[a, b] = mbps
    return found
