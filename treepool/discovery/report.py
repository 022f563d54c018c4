"""What a vendor's tool says of a node's GPUs, and the machine of hwloc with that added to it.

The tool knows the links between its GPUs and hwloc the node around them. Where both know something,
the tool's word counts for NVLink and xGMI, and the nearer path for PCIe and NICs: hwloc's PCI tree
tells NUMA nodes of one socket from two sockets, which the tools do not, and a tool sees switches
that hwloc was not allowed to.
"""

from __future__ import annotations

import re
from typing import Mapping, Optional, Sequence

import attrs

from treepool.discovery.binding import cores_of
from treepool.discovery.links import Pairs, nearest_nics
from treepool.discovery.machine import Gpu, Machine
from treepool.rfc import idset
from treepool.rfc.idset import union
from treepool.rfc.links import MAX_GBPS, PATHS, Links, Nic, Wire

#: GB/s per direction of one NVLink, for NVLink 2 to 4 (V100, A100, H100), and for other versions by
#: the model of the GPUs.
NVLINK_GBPS = 25.0
_NVLINK_OF_MODEL = (
    (re.compile(r"\bG?B[123]00", re.ASCII | re.IGNORECASE), 50.0),
    (re.compile(r"\bP100", re.ASCII | re.IGNORECASE), 20.0),
)

#: GB/s of an xGMI link if the tool only tells its weight: nominal, it puts paths in order.
XGMI_GBPS = 50.0


@attrs.frozen
class Told:
    """What *tool* says of GPUs, by its ids, which ``pci`` translates if it has their bus ids.

    ``near`` has the PUs near a GPU, and ``numa`` the NUMA nodes (bitmasks of the operating
    system's numbers); 0 if not known. ``paths`` has the path from each GPU to each NIC of
    ``nics``, "" if not known. ``nominal`` are pairs of which no bandwidth is known. ``notes`` has
    a line for everything doubtful.
    """

    tool: str
    vendor: str
    pairs: Pairs = attrs.field(factory=dict)
    near: Mapping[int, int] = attrs.field(factory=dict)
    numa: Mapping[int, int] = attrs.field(factory=dict)
    pci: Mapping[int, str] = attrs.field(factory=dict)
    nics: Sequence[str] = ()
    paths: Mapping[int, Sequence[str]] = attrs.field(factory=dict)
    nominal: frozenset[tuple[int, int]] = frozenset()
    nvswitch: bool = False
    notes: tuple[str, ...] = ()

    @property
    def links(self) -> Links:
        """The link table of this alone."""
        return Links.from_matrix(self.pairs, nearest_nics(self.nics, self.paths))


def combined(machine: Machine, told: Told) -> Machine:
    """*machine* with the links, NICs and GPU localities of *told*.

    If hwloc knows no GPUs, the GPUs of *told* are added. If both know a GPU's locality and they
    differ, hwloc's is used and a warning says so. If the GPUs of the machine and of *told* differ,
    the text is from another node: the machine stays as it is, with a warning.
    """
    others = idset.from_ids(gpu.id for gpu in machine.gpus if gpu.vendor not in ("", told.vendor))
    if others:
        makers = ", ".join(sorted({g.vendor for g in machine.gpus if others >> g.id & 1}))
        what = f"gpus {idset.encode(others)} are of {makers}"
        return _warned(machine, f"{told.tool} is not used: {what}, not {told.vendor}")
    if not told.near:
        return _warned(machine, f"{told.tool} names no GPU")
    gpus = {gpu.id: gpu for gpu in machine.gpus}
    if not gpus:
        gpus = {i: Gpu(i, told.vendor, pci=told.pci.get(i, "")) for i in told.near}
    ids = _ids(gpus, told)
    if ids is None:
        here, there = (idset.encode(idset.from_ids(some)) for some in (gpus, told.near))
        there += " on other buses" if here == there else ""
        return _warned(machine, f"gpus are {here}, but {told.tool} has {there}: it is not used")
    warnings = []
    for i, pus in sorted(told.near.items()):
        gpu, cores = gpus[ids[i]], cores_of(machine, pus)
        if not cores:
            nodes = idset.iterate(told.numa.get(i, 0))
            cores = union(machine.numa_nodes.get(node, 0) for node in nodes)
        cores = 0 if cores == machine.cores else cores
        if not gpu.cores:
            gpus[gpu.id] = attrs.evolve(gpu, cores=cores)
        elif cores and cores != gpu.cores:
            ours, theirs = idset.encode(gpu.cores), idset.encode(cores)
            what = f"gpu {gpu.id} is near cores {ours}, but near {theirs} for {told.tool}"
            warnings.append(what)
    old = machine.links or Links()
    nics = nearest_nics(told.nics, {ids[i]: row for i, row in told.paths.items()})
    return attrs.evolve(
        machine,
        gpus=tuple(gpus[i] for i in sorted(gpus)),
        links=Links.from_matrix(_pairs(old, told, ids, gpus), _nearer(old.nics, nics), old.devices),
        nvswitch=machine.nvswitch or told.nvswitch,
        notes=(*machine.notes, *told.notes),
        warnings=(*machine.warnings, *warnings),
    )


def _ids(gpus: Mapping[int, Gpu], told: Told) -> Optional[Mapping[int, int]]:
    """The id in R of each GPU of *told*, by its id there; None if they are not the same GPUs.

    Partitions of a GPU are functions of its PCI device for some tools, and all function 0 in
    others.
    """
    at: dict[str, list[int]] = {}
    for i, gpu in sorted(gpus.items()):
        at.setdefault(gpu.pci.partition(".")[0], []).append(i)
    found = {}
    for i in sorted(told.near):
        place = at.get(told.pci.get(i, "").partition(".")[0], [])
        if told.pci and place:
            found[i] = place.pop(0)
    if len(found) == len(gpus) == len(told.near):
        return found
    known = len(told.pci) == len(told.near) and all(gpu.pci for gpu in gpus.values())
    return None if known or set(gpus) != set(told.near) else {i: i for i in gpus}


def _pairs(
    old: Links, told: Told, ids: Mapping[int, int], gpus: Mapping[int, Gpu]
) -> Mapping[tuple[int, int], Wire]:
    """The link of each pair, from hwloc's *old* table and *told*."""
    pairs = old.pairs()
    for (a, b), wire in told.pairs.items():
        pair = (min(ids[a], ids[b]), max(ids[a], ids[b]))
        known = pairs.get(pair)
        gbps = wire.gbps
        if wire.type == "nvlink":
            gbps *= _per_nvlink(gpus[pair[0]].model) / NVLINK_GBPS
        elif (a, b) in told.nominal and known is not None and known.type == wire.type:
            gbps *= known.gbps / XGMI_GBPS
        elif wire.type == "pcie" and known is not None and known.type == "pcie":
            gbps = max(gbps, known.gbps)
        pairs[pair] = Wire(wire.type, min(gbps, MAX_GBPS))
    return pairs


def _per_nvlink(model: str) -> float:
    return next((gbps for form, gbps in _NVLINK_OF_MODEL if form.search(model)), NVLINK_GBPS)


def _nearer(ours: Sequence[Nic], theirs: Sequence[Nic]) -> tuple[Nic, ...]:
    """The NICs nearest to each GPU: *ours*, or *theirs* where they are nearer."""

    def distances(nics: Sequence[Nic]) -> dict[int, int]:
        return {gpu: PATHS.index(nic.path) for nic in nics for gpu in idset.iterate(nic.gpus)}

    here, there, far = distances(ours), distances(theirs), len(PATHS)
    nearer = idset.from_ids(gpu for gpu in there if there[gpu] < here.get(gpu, far))
    kept = [attrs.evolve(nic, gpus=nic.gpus & ~nearer) for nic in ours]
    kept += [attrs.evolve(nic, gpus=nic.gpus & nearer) for nic in theirs]
    return tuple(nic for nic in kept if nic.gpus)


def _warned(machine: Machine, warning: str) -> Machine:
    return attrs.evolve(machine, warnings=(*machine.warnings, warning))
