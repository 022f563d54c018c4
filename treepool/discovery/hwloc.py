"""A machine from hwloc XML: what its objects mean to a scheduler.

Cores are counted as in Flux, which reads the same XML for R (``flux R encode --xml``). PUs that may
not be used are left out, and so are cores that have no other PU. The remaining cores are counted
from zero in hwloc's order.
"""

from __future__ import annotations

import re
from typing import Iterator, Mapping, Optional, Union

from treepool.discovery import gpus as gpu_reader
from treepool.discovery.hwlocdistances import numa_distances
from treepool.discovery.hwloclinks import is_nvswitch, near_cores, rdma_ports, read_links
from treepool.discovery.hwlocxml import Object, Topology, bitmap, number, parse
from treepool.discovery.machine import FarMemory, Gpu, Machine, Region
from treepool.errors import InvalidHardware
from treepool.rfc import idset
from treepool.rfc.findings import shown_ids
from treepool.rfc.idset import union

#: hwloc's types of objects that hold cores, by the kind of region they are.
_REGIONS = {"Package": "socket", "Die": "die", "Group": "group", "L3Cache": "l3"}

#: The tier by hwloc's subtype of a NUMA node, in upper case.
_TIERS = {
    "DRAM": "",
    "HBM": "hbm",
    "MCDRAM": "hbm",
    "NVM": "nvm",
    "CXL": "cxl",
    "CXL-DRAM": "cxl",
    "CXL-HBM": "cxl",
    "CXL-NVM": "cxl",
    "GPUMEMORY": "gpumem",
}

#: The name of a kind of cores by hwloc's CoreType: performance, efficient, low power.
_CORE_TYPES = {
    "IntelCore": "pcore",
    "IntelAtom": "ecore",
    "IntelLowPower": "lpcore",
    "AMDPerformance": "pcore",
    "AMDEfficiency": "ecore",
}

#: Models of GPU that form one chip with a CPU.
_SUPERCHIP = re.compile(r"\b(MI300A|GH200|GB200|GB300|GB10)\b", re.ASCII | re.IGNORECASE)


def read_hwloc(
    xml: Union[str, bytes], source: str = "hwloc XML", gpu_index: str = "vendor"
) -> Machine:
    """The machine that hwloc *xml* describes; *source* names it in messages.

    *gpu_index* says how GPUs are numbered, see ``gpus.py``. Raises InvalidHardware.
    """
    return machine_of(parse(xml, source), source, gpu_index)


def machine_of(topology: Topology, source: str, gpu_index: str = "vendor") -> Machine:
    """The machine of a parsed *topology*."""
    cores = _Cores(topology.root)
    if not cores.pus:
        raise InvalidHardware(f"{source}: has no core that may be used")
    warnings: list[str] = []
    found = gpu_reader.find(topology.root, gpu_index)
    gpus = tuple(_placed(gpu, cores) for gpu in found)
    if found and all(gpu.osdev is gpu.device for gpu in found):
        warnings.append(
            f"{len(found)} GPUs are known from the PCI bus only: hwloc was built without their "
            "vendor's library, and Flux does not see them in this XML"
        )
    notes = [*cores.notes, *gpu_reader.notes_on(found, topology.root)]
    numa, far, numa_nodes = _memory(topology, cores, gpus, notes, warnings)
    regions = (*_regions(topology.root, cores), *numa)
    infos = topology.root.infos
    return Machine(
        hostname=infos.get("HostName", ""),
        cores=cores.mask(topology.root),
        regions=regions,
        far_memory=tuple(far),
        gpus=gpus,
        links=read_links(topology, found, cores.mask, regions),
        nvswitch=any(map(is_nvswitch, topology.root.walk())),
        rdma_ports=rdma_ports(topology.root),
        core_kinds=_core_kinds(topology, cores),
        pus=cores.pus,
        numa_nodes=numa_nodes,
        distances=numa_distances(topology),
        unified_memory=_unified(gpus),
        cxl=any(tier.tier == "cxl" for tier in far) or _has_cxl(topology.root),
        notes=tuple(notes),
        warnings=tuple(warnings),
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
        #: The core of each PU, by the PU's number.
        self._core: dict[int, int] = {}
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
                core = len(self.pus)
                self.pus[core] = pus
                self._core.update((pu, core) for pu in pus)
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


def _placed(found: gpu_reader.FoundGpu, cores: _Cores) -> Gpu:
    """The GPU with the cores near it."""
    near = near_cores(found.device, cores.mask)
    return Gpu(
        found.id, found.vendor, found.model, found.memory, near, found.pci, profile=found.profile
    )


def _regions(root: Object, cores: _Cores) -> Iterator[Region]:
    for holder in root.walk():
        kind = _REGIONS.get(holder.type)
        # A memory-side cache is not a region of its own: it has the cores of its NUMA node.
        if kind and cores.mask(holder) and holder.subtype != "MemorySideCache":
            yield Region(kind, cores.mask(holder))


def _core_kinds(topology: Topology, cores: _Cores) -> dict[str, int]:
    """The cores of each kind, if there are several kinds.

    Kinds are told apart by type, otherwise by what a core can do: Linux's capacity or hwloc's
    efficiency. Cores that can do 90 percent of what the best can are of the same kind as these, and
    so are cores that only have another maximum frequency.
    """
    able = [number(k.infos.get("LinuxCapacity", "")) or k.efficiency for k in topology.cpu_kinds]
    most = max(able, default=0)
    found: dict[str, int] = {}
    for kind, amount in zip(topology.cpu_kinds, able):
        name = _CORE_TYPES.get(kind.infos.get("CoreType", ""), "")
        if not name and amount >= 0:
            name = "pcore" if 10 * amount >= 9 * most else "ecore"
        mask = cores.in_cpuset(kind.cpuset) & ~union(found.values())
        if name and mask:
            found[name] = found.get(name, 0) | mask
    return found if len(found) > 1 else {}


def _memory(
    topology: Topology,
    cores: _Cores,
    gpus: tuple[Gpu, ...],
    notes: list[str],
    warnings: list[str],
) -> tuple[list[Region], list[FarMemory], dict[int, int]]:
    """The NUMA nodes that are regions, the memory of tiers of their own, and Machine.numa_nodes.

    Of several NUMA nodes with the same cores one is their ordinary memory: the first that is not
    known to be of a special tier. What is left out, and why, is added to *notes* and *warnings*.
    """
    left_out: dict[str, list[Object]] = {}
    allowed = topology.root.attributes.get("allowed_nodeset")
    nodes = [
        o
        for o in topology.root.walk()
        if o.type == "NUMANode" and (allowed is None or _in(bitmap(allowed), o.os_index))
    ]
    nodes.sort(key=lambda node: node.os_index)
    bandwidth = {
        value.target: value.value
        for value in topology.memory_values
        if value.name in ("Bandwidth", "ReadBandwidth")
    }
    regions: list[Region] = []
    far: list[FarMemory] = []
    ordinary: dict[int, Object] = {}
    others: list[tuple[Object, str]] = []
    for node in nodes:
        tier = _named_tier(node)
        near = cores.mask(node)
        if not near and set(node.attributes.get("complete_cpuset", "")) - set("0x,"):
            left_out.setdefault("none of whose CPUs is online and allowed", []).append(node)
        elif not near and not _bytes(node):
            left_out.setdefault("without CPUs and memory", []).append(node)
        elif near and not tier and near not in ordinary:
            ordinary[near] = node
            regions.append(Region("numa", near, _bytes(node)))
        else:
            others.append((node, tier))
    gpu_memory = [
        node for node, tier in others if tier in ("", "gpumem") and _like_a_gpu(node, gpus)
    ]
    unknown: list[Object] = []
    for node, tier in others:
        near = cores.mask(node) or cores.mask(node.parent)
        if not tier and node in gpu_memory and not cores.mask(node):
            # hwloc does not say which of them belongs to which GPU; each GPU has one.
            which = gpu_memory.index(node)
            near = gpus[which].cores if len(gpu_memory) == len(gpus) else near
            tier = "gpumem"
        if tier == "gpumem":
            pci = node.infos.get("PCIBusID", "").lower()
            near = next((gpu.cores for gpu in gpus if pci and gpu.pci == pci), near)
        first = ordinary.get(near)
        if not tier and first is not None:
            tier = _measured_tier(node, first, bandwidth)
        if not tier:
            unknown.append(node)
            continue
        if near not in ordinary and cores.mask(node) and tier == "hbm":
            # This is the only memory of these cores, such as HBM without DRAM.
            ordinary[near] = node
            regions.append(Region("numa", near, _bytes(node)))
            continue
        far.append(FarMemory(tier, near, _bytes(node)))
    notes += [f"left out: NUMA {_shown(nodes)}, {why}" for why, nodes in left_out.items()]
    if unknown:
        gib = sum(map(_bytes, unknown)) >> 30
        warnings.append(
            f"left out: NUMA {_shown(unknown)} ({gib} GiB), without own cores, and of unknown tier"
        )
    numbered = {node.os_index: near for near, node in ordinary.items() if node.os_index >= 0}
    return regions, far, numbered


def _shown(nodes: list[Object]) -> str:
    return shown_ids(idset.from_ids(node.os_index for node in nodes if node.os_index >= 0))


def _named_tier(node: Object) -> str:
    """The tier of a NUMA node if hwloc names it; otherwise, and for ordinary memory, ""."""
    tier = _TIERS.get(node.subtype.upper(), "")
    if tier:
        return tier
    if "CXLDevice" in node.infos:
        return "cxl"
    if node.infos.get("DAXType", "").upper() == "NVM":
        return "nvm"
    return "gpumem" if "PCIBusID" in node.infos else ""


def _measured_tier(node: Object, ordinary: Object, bandwidth: Mapping[str, int]) -> str:
    """The tier of a NUMA node, by its bandwidth relative to its cores' *ordinary* memory."""
    here = bandwidth.get(node.attributes.get("gp_index", ""), 0)
    there = bandwidth.get(ordinary.attributes.get("gp_index", ""), 0)
    # hwloc also calls memory of twice the bandwidth high-bandwidth memory. Slower memory may be of
    # any kind.
    return "hbm" if there and here >= 2 * there else ""


def _like_a_gpu(node: Object, gpus: tuple[Gpu, ...]) -> bool:
    """Whether a NUMA node is a GPU's memory: it has that size, or all GPUs share memory."""
    return _unified(gpus) or any(gpu.memory == _bytes(node) for gpu in gpus if gpu.memory)


def _bytes(node: Object) -> int:
    return number(node.attributes.get("local_memory", ""))


def _in(mask: int, index: int) -> bool:
    return index >= 0 and bool(mask >> index & 1)


def _unified(gpus: tuple[Gpu, ...]) -> bool:
    """Whether every GPU shares its memory with the CPU."""
    return bool(gpus) and all(_SUPERCHIP.search(gpu.model) for gpu in gpus)


def _has_cxl(root: Object) -> bool:
    """Whether there is a CXL memory device, whether or not Linux uses it as memory."""
    return any(o.type == "OSDev" and o.subtype == "CXLMem" for o in root.walk())
