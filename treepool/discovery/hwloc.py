"""A machine from hwloc XML: which cores may be used, kinds of cores (pcore, ecore), sockets, dies.

Cores are counted as in Flux, which reads the same XML for R (``flux R encode --xml``). PUs that may
not be used are left out, and so are cores that have no other PU. The remaining cores are counted
from zero in hwloc's order.
"""

from __future__ import annotations

from typing import Iterator, Optional, Union

from treepool.discovery import gpus as gpu_reader
from treepool.discovery.hwlocdistances import numa_distances
from treepool.discovery.hwloclinks import is_nvswitch, near_cores, rdma_ports, read_links
from treepool.discovery.hwlocmemory import read_memory
from treepool.discovery.hwlocxml import KNOWN, Object, Topology, bitmap, number, parse
from treepool.discovery.linking import XGMI_GBPS
from treepool.discovery.machine import Gpu, Machine, Region, has_assumed_c2c
from treepool.discovery.reports.report import assumed
from treepool.errors import InvalidHardware
from treepool.rfc import idset
from treepool.rfc.idset import union
from treepool.rfc.links import Wire

#: hwloc's types of objects that hold cores, by the kind of region they are.
_REGIONS = {"Package": "socket", "Die": "die", "Group": "group", "L3Cache": "l3"}

#: The name of a kind of cores by hwloc's CoreType: performance, efficient, low power.
_CORE_TYPES = {
    "IntelCore": "pcore",
    "IntelAtom": "ecore",
    "IntelLowPower": "lpcore",
    "AMDPerformance": "pcore",
    "AMDEfficiency": "ecore",
}


def read_hwloc(
    xml: Union[str, bytes], source: str = "hwloc XML", gpu_index: str = "vendor"
) -> Machine:
    """The machine that hwloc *xml* describes; *source* names it in messages.

    *gpu_index* says how GPUs are numbered, see ``gpus.py``. Raises InvalidHardware.
    """
    topology = parse(xml, source)
    cores = _Cores(topology.root)
    if not cores.pus:
        raise InvalidHardware(f"{source}: has no core that may be used")
    found = gpu_reader.find(topology.root, gpu_index)
    gpus = tuple(
        Gpu(
            *(gpu.id, gpu.vendor, gpu.model, gpu.memory, near_cores(gpu.device, cores.mask)),
            pci=gpu.pci,
            profile=gpu.profile,
            number=gpu.number,
        )
        for gpu in found
    )
    warnings = gpu_reader.warnings_on(found, topology.root)
    if topology.version > KNOWN:
        warnings.append(f"XML of version {topology.version} of hwloc's format is read as {KNOWN}'s")
    memory = read_memory(topology, cores.mask, gpus)
    regions = (*_regions(topology.root, cores), *memory.regions)
    infos = topology.root.infos
    links = read_links(topology, found, cores.mask, regions)
    wires = links.pairs().items() if links else ()
    nominal = {pair: wire for pair, wire in wires if wire == Wire("xgmi", XGMI_GBPS)}
    return Machine(
        hostname=infos.get("HostName", ""),
        cores=cores.mask(topology.root),
        regions=regions,
        far_memory=tuple(memory.far),
        gpus=gpus,
        links=links,
        assumed=assumed(nominal, gpus)
        | frozenset("c2c" for gpu in gpus if has_assumed_c2c(gpu.model)),
        nvswitch=any(map(is_nvswitch, topology.root.walk())),
        rdma_ports=rdma_ports(topology.root),
        core_kinds=_core_kinds(topology, cores),
        pus=cores.pus,
        numa_nodes=memory.numa_nodes(),
        distances=numa_distances(topology),
        unified_memory=bool(gpus) and all(gpu.shares_memory for gpu in gpus),
        cxl=any(far.tier == "cxl" for far in memory.far)
        or any(o.type == "OSDev" and o.subtype == "CXLMem" for o in topology.root.walk()),
        notes=(
            *cores.notes,
            *gpu_reader.notes_on(found, topology.root),
            *memory.notes(),
            *_notes_on_kinds(topology),
        ),
        warnings=(*warnings, *memory.warnings()),
    )


class _Cores:
    """The usable cores of a topology, and which of them an object holds."""

    def __init__(self, root: Object) -> None:
        usable = root.cpuset or 0
        for name in ("allowed_cpuset", "online_cpuset"):
            if name in root.attributes:
                usable &= bitmap(root.attributes[name])
        self.pus: dict[int, tuple[int, ...]] = {}
        self.notes: list[str] = []
        everything = list(root.walk())
        holders = [o for o in everything if o.type == "Core"]
        if not holders:
            holders = [o for o in everything if o.type == "PU"]
            self.notes.append("hwloc knows no cores here: each PU counts as one")
        left_out = 0
        for holder in holders:
            pus = tuple(
                pu.os_index
                for pu in holder.walk()
                if pu.type == "PU" and pu.os_index >= 0 and usable >> pu.os_index & 1
            )
            if pus:
                self.pus[len(self.pus)] = pus
            else:
                left_out += 1
        if left_out:
            self.notes.append(f"{left_out} cores are offline or not allowed, and are left out")
        self._masks: dict[int, int] = {}

    def mask(self, holder: Optional[Object]) -> int:
        """The cores of an object that has a cpuset, 0 for none.

        A core belongs to the object that has its lowest PU, so no core is in two siblings.
        """
        return self.in_cpuset(holder.cpuset) if holder is not None and holder.cpuset else 0

    def in_cpuset(self, cpuset: int) -> int:
        """The cores whose lowest PU is in *cpuset*."""
        if cpuset not in self._masks:
            inside = (core for core, pus in self.pus.items() if cpuset >> pus[0] & 1)
            self._masks[cpuset] = idset.from_ids(inside)
        return self._masks[cpuset]


def _regions(root: Object, cores: _Cores) -> Iterator[Region]:
    for holder in root.walk():
        kind = _REGIONS.get(holder.type)
        # A memory-side cache is not a region of its own: it has the cores of its NUMA node.
        if kind and cores.mask(holder) and holder.subtype != "MemorySideCache":
            yield Region(kind, cores.mask(holder))


def _core_kinds(topology: Topology, cores: _Cores) -> dict[str, int]:
    """The cores of each kind, if there are several kinds.

    Kinds are distinguished by type, otherwise by Linux's capacity or hwloc's efficiency. Cores with
    90 percent of the largest capacity are of the same kind as those that have it, and so are cores
    that only have another maximum frequency.
    """
    able = [number(k.infos.get("LinuxCapacity", "")) or k.efficiency for k in topology.cpu_kinds]
    most = max(able, default=0)
    found: list[tuple[str, int]] = []
    for kind, amount in zip(topology.cpu_kinds, able):
        name = _CORE_TYPES.get(kind.infos.get("CoreType", ""), "")
        if not name and amount >= 0:
            name = "pcore" if 10 * amount >= 9 * most else "ecore"
        mask = cores.in_cpuset(kind.cpuset) & ~union(mask for _, mask in found)
        if name and mask:
            found.append((name, mask))
    kinds = idset.gathered(found)
    return kinds if len(kinds) > 1 else {}


def _notes_on_kinds(topology: Topology) -> list[str]:
    """A line if kinds of cores differ in their frequency alone, so that they count as one."""
    told = ("CoreType", "LinuxCapacity")
    known = any(k.efficiency >= 0 or any(i in k.infos for i in told) for k in topology.cpu_kinds)
    if len(topology.cpu_kinds) < 2 or known:
        return []
    return ["cores differ in frequency alone: they count as of one kind"]
