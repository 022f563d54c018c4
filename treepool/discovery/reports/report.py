"""What a vendor's tool reports, and what counts if hwloc differs; GB/s of NVLink by GPU model.

The tool knows the links between the GPUs, and hwloc knows the node around them. If both know a
link, the tool's figure is used for NVLink and xGMI, and the nearer path for PCIe and NICs. hwloc's
PCI tree shows whether two NUMA nodes are in one socket, which the tools do not report. A tool sees
PCI switches that hwloc may not read.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Mapping, Optional, Sequence

import attrs

from treepool.discovery.binding import cores_of
from treepool.discovery.linking import Pairs, PairSet, has_xgmi_rate, nearest_nics, xgmi_gbps
from treepool.discovery.machine import Gpu, Machine
from treepool.rfc import idset
from treepool.rfc.idset import union
from treepool.rfc.links import MAX_GBPS, PATHS, Links, Nic, Wire
from treepool.rfc.quote import amount

#: GB/s per direction of one NVLink: of NVLink 2 to 4 (V100, A100, H100), and of other versions by
#: the model of the GPUs.
NVLINK_GBPS = 25.0
_NVLINK_OF_MODEL = (
    (re.compile(r"\bG?B[123]00", re.ASCII | re.IGNORECASE), 50.0),
    (re.compile(r"\bP100", re.ASCII | re.IGNORECASE), 20.0),
    # Of GA102: A40, A4500 to A6000, RTX 3090.
    (re.compile(r"\b(A40|A[456][05]00|RTX 3090)\b", re.ASCII | re.IGNORECASE), 14.0),
)


#: Models whose NVLinks are known to have NVLINK_GBPS.
_NVLINK_KNOWN = re.compile(
    r"\b(V100|GV100|G?H[128]0{1,2}|A[138]00|A30|TITAN|Quadro|RTX [68]000|RTX 20[78]0)",
    re.ASCII | re.IGNORECASE,
)

_WITH_NVLINK = (_NVLINK_KNOWN, *(form for form, _ in _NVLINK_OF_MODEL))


@attrs.frozen
class ToolReport:
    """What *tool* reports on GPUs, by its own ids of them.

    ``pci`` has the bus ids of the GPUs, if the tool prints them. ``near`` has the PUs near a GPU,
    and ``numa`` the NUMA nodes (bitmasks of the operating system's numbers); 0 if not known.
    ``paths`` has the path from each GPU to each NIC of ``nics``, "" if not known. ``nominal`` are
    the pairs whose bandwidth is not known, and ``routed`` those that are joined through other GPUs.
    ``notes`` has a line for everything doubtful.
    """

    tool: str
    vendor: str
    pairs: Pairs = attrs.field(factory=dict)
    near: Mapping[int, int] = attrs.field(factory=dict)
    numa: Mapping[int, int] = attrs.field(factory=dict)
    pci: Mapping[int, str] = attrs.field(factory=dict)
    nics: Sequence[str] = ()
    paths: Mapping[int, Sequence[str]] = attrs.field(factory=dict)
    nominal: PairSet = frozenset()
    routed: PairSet = frozenset()
    nvswitch: bool = False
    notes: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """How many GPUs and links the report has."""
        kinds = Counter(wire.type for wire in self.pairs.values())
        joined = [f"{amount(number, 'pair')} joined by {kind}" for kind, number in kinds.items()]
        joined += [f"{len(self.routed)} only through other GPUs"] * bool(self.routed)
        return f"{amount(len(self.near), 'GPU')}; {', '.join(joined) or 'no links'}"

    @property
    def links(self) -> Links:
        """The link table that follows from the report alone."""
        return Links.from_matrix(self.pairs, nearest_nics(self.nics, self.paths))


def combined(machine: Machine, report: ToolReport) -> Machine:
    """*machine* with the links and NICs of *report*, and the cores near its GPUs.

    If hwloc knows no GPUs, those of *report* are added. If *report* has other GPUs, it is of
    another node: the machine stays as it is, with a warning. Otherwise its ids are replaced by
    those in R. hwloc's cores near a GPU count, with a warning if *report* has others; links and
    NICs are those of hwloc with the report's faster or nearer ones.
    """
    others = [gpu for gpu in machine.gpus if gpu.vendor not in ("", report.vendor)]
    if others:
        makers = ", ".join(sorted({gpu.vendor for gpu in others}))
        what = f"gpus {idset.encode(idset.from_ids(gpu.id for gpu in others))} are of {makers}"
        return machine.with_warning(f"{report.tool} is not used: {what}, not {report.vendor}")
    if not report.near:
        return machine.with_warning(f"{report.tool} names no GPU")
    gpus = {gpu.id: gpu for gpu in machine.gpus}
    if not gpus:
        gpus = {i: Gpu(i, report.vendor, pci=report.pci.get(i, "")) for i in report.near}
    ids = _ids(gpus, report)
    if ids is None:
        here, there = (idset.encode(idset.from_ids(some)) for some in (gpus, report.near))
        there += " on other buses" if here == there else ""
        what = f"gpus are {here}, but {report.tool} has {there}"
        return machine.with_warning(f"{what}: it is not used")
    report = _with_ids(report, ids)
    warnings = _place(gpus, machine, report)
    old = machine.links or Links()
    pairs = _pairs(old.pairs(), report, gpus)
    nics = _nearer(old.nics, nearest_nics(report.nics, report.paths))
    doubtful = {
        pair: pairs[pair]
        for pair, wire in report.pairs.items()
        if wire.type == "nvlink" or pair in report.nominal
    }
    rest = machine.assumed - {wire.type for wire in report.pairs.values()}
    return attrs.evolve(
        machine,
        gpus=tuple(gpus[i] for i in sorted(gpus)),
        links=Links.from_matrix(pairs, nics, old.devices),
        assumed=rest | assumed(doubtful, list(gpus.values())),
        nvswitch=machine.nvswitch or report.nvswitch,
        notes=(*machine.notes, *report.notes),
        warnings=(*machine.warnings, *warnings),
    )


def _ids(gpus: Mapping[int, Gpu], report: ToolReport) -> Optional[Mapping[int, int]]:
    """The id in R of each GPU of *report*, by its id there; None if they are not the same GPUs.

    Some tools report the partitions of a GPU as functions of its PCI device, and others report all
    of them as function 0.
    """
    at: dict[str, list[int]] = {}
    for i, gpu in sorted(gpus.items()):
        at.setdefault(gpu.pci.partition(".")[0], []).append(i)
    found = {}
    for i in sorted(report.near):
        here = at.get(report.pci.get(i, "").partition(".")[0], [])
        if report.pci and here:
            found[i] = here.pop(0)
    if len(found) == len(gpus) == len(report.near):
        return found
    known = len(report.pci) == len(report.near) and all(gpu.pci for gpu in gpus.values())
    return None if known or set(gpus) != set(report.near) else {i: i for i in gpus}


def _with_ids(report: ToolReport, ids: Mapping[int, int]) -> ToolReport:
    """*report* with new *ids* of its GPUs."""

    def pair(old: tuple[int, int]) -> tuple[int, int]:
        a, b = ids[old[0]], ids[old[1]]
        return min(a, b), max(a, b)

    return attrs.evolve(
        report,
        pairs={pair(old): wire for old, wire in report.pairs.items()},
        near={ids[i]: report.near[i] for i in sorted(report.near)},
        numa={ids[i]: nodes for i, nodes in report.numa.items() if i in ids},
        paths={ids[i]: row for i, row in report.paths.items()},
        nominal=frozenset(map(pair, report.nominal)),
        routed=frozenset(map(pair, report.routed)),
    )


def _place(gpus: dict[int, Gpu], machine: Machine, report: ToolReport) -> list[str]:
    """Add the cores near *gpus* where hwloc does not know them; warnings where it knows others."""
    warnings, elsewhere = [], 0
    for i, pus in report.near.items():
        nodes = idset.iterate(report.numa.get(i, 0))
        cores = cores_of(machine, pus) or union(machine.numa_nodes.get(node, 0) for node in nodes)
        elsewhere |= bool(pus and not cores) << i
        cores = 0 if cores == machine.cores else cores
        if not gpus[i].cores:
            gpus[i] = attrs.evolve(gpus[i], cores=cores)
        elif cores and cores != gpus[i].cores:
            ours, theirs = idset.encode(gpus[i].cores), idset.encode(cores)
            what = f"gpu {i} is near cores {ours}, but near {theirs} for {report.tool}"
            warnings.append(what)
    if elsewhere:
        what = f"gpus {idset.encode(elsewhere)} are near CPUs that hwloc does not show"
        warnings.append(f"{report.tool}: {what}: is it of this node?")
    return warnings


def _pairs(pairs: Pairs, report: ToolReport, gpus: Mapping[int, Gpu]) -> Pairs:
    """The link of each pair, from those of hwloc, which are changed, and *report*."""
    for pair in report.routed:
        pairs.pop(pair, None)
    for pair, wire in report.pairs.items():
        known, gbps, model = pairs.get(pair), wire.gbps, gpus[pair[0]].model
        if wire.type == "nvlink":
            gbps = gbps * per_nvlink(model) / NVLINK_GBPS
        elif pair in report.nominal:
            gbps = xgmi_gbps(pair, model, {i: gpus[i].cores for i in pair})
        elif wire.type == "pcie" and known is not None and known.type == "pcie":
            gbps = max(gbps, known.gbps)
        pairs[pair] = Wire(wire.type, min(gbps, MAX_GBPS))
    return pairs


def per_nvlink(model: str) -> float:
    """GB/s per direction of one NVLink of GPUs of this *model*."""
    return next((gbps for form, gbps in _NVLINK_OF_MODEL if form.search(model)), NVLINK_GBPS)


def assumed(pairs: Mapping[tuple[int, int], Wire], gpus: Sequence[Gpu]) -> frozenset[str]:
    """The types of links among *pairs* of *gpus* whose models have no known rate."""
    model_of = {gpu.id: gpu.model for gpu in gpus}
    kinds = {(wire.type, model_of.get(a, "")) for (a, _), wire in pairs.items()}
    return frozenset(
        kind
        for kind, model in kinds
        if (kind == "nvlink" and not any(f.search(model) for f in _WITH_NVLINK))
        or (kind == "xgmi" and not has_xgmi_rate(model))
    )


def _nearer(ours: Sequence[Nic], theirs: Sequence[Nic]) -> tuple[Nic, ...]:
    """The NICs nearest to each GPU: *ours*, or *theirs* where they are nearer."""

    def distances(nics: Sequence[Nic]) -> dict[int, int]:
        return {gpu: PATHS.index(nic.path) for nic in nics for gpu in idset.iterate(nic.gpus)}

    here, there, far = distances(ours), distances(theirs), len(PATHS)
    nearer = idset.from_ids(gpu for gpu in there if there[gpu] < here.get(gpu, far))
    kept = [attrs.evolve(nic, gpus=nic.gpus & ~nearer) for nic in ours]
    kept += [attrs.evolve(nic, gpus=nic.gpus & nearer) for nic in theirs]
    return tuple(nic for nic in kept if nic.gpus)
