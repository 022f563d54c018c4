"""Memory from hwloc XML: which NUMA node is ordinary, HBM, CXL, NVM or GPU memory, or is left out.

A NUMA node is a region if it is the ordinary memory of its cores. If several NUMA nodes have the
same cores, the first that is not known to be of a special tier is their ordinary memory. All others
are memory of a tier (``machine.TIERS``), or are left out.
"""

from __future__ import annotations

from typing import Mapping, Sequence

import attrs

from treepool.discovery.hwlocxml import MEMORY, CoresOf, Object, Topology, bitmap, number
from treepool.discovery.machine import FarMemory, Gpu, Region, gib
from treepool.rfc import idset
from treepool.rfc.findings import shown_ids

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


@attrs.define
class Memory:
    """The NUMA nodes that are regions, and the memory of special tiers."""

    regions: list[Region] = attrs.field(factory=list)
    far: list[FarMemory] = attrs.field(factory=list)
    #: The NUMA node of each region, by its cores.
    ordinary: dict[int, Object] = attrs.field(factory=dict)
    #: NUMA nodes that are left out, by the reason, and those whose tier is not known.
    left_out: dict[str, list[Object]] = attrs.field(factory=dict)
    unknown: list[Object] = attrs.field(factory=list)

    def keep(self, node: Object, cores: int) -> None:
        """Note that *node* is the ordinary memory of its *cores*."""
        self.ordinary[cores] = node
        self.regions.append(Region("numa", cores, _bytes(node)))

    def numa_nodes(self) -> dict[int, int]:
        """The cores of each region, by the operating system's number of its NUMA node."""
        return {node.os_index: c for c, node in self.ordinary.items() if node.os_index >= 0}

    def notes(self) -> list[str]:
        """A line for each reason to leave NUMA nodes out."""
        return [f"left out: NUMA {_shown(nodes)}, {why}" for why, nodes in self.left_out.items()]

    def warnings(self) -> list[str]:
        """A line about the NUMA nodes whose tier is not known."""
        if not self.unknown:
            return []
        gib = sum(map(_bytes, self.unknown)) >> 30
        what = f"NUMA {_shown(self.unknown)} ({gib} GiB)"
        return [f"left out: {what}, without own cores, and of unknown tier"]


def read_memory(topology: Topology, cores_of: CoresOf, gpus: Sequence[Gpu]) -> Memory:
    """The memory of the machine.

    The first NUMA node of its cores of which hwloc names no tier is their ordinary memory, and so
    is HBM of cores without other memory. The tier of all others is the one that hwloc names, or a
    GPU's, or follows from the bandwidth. They are near their cores, or those of the object around
    them; a GPU's is near the cores of the GPU.
    """
    found = Memory()
    usable, denied = _numa_nodes(topology.root)
    if denied:
        found.left_out["whose memory may not be used"] = denied
    others = []
    for node in usable:
        own = cores_of(node)
        why = "" if own else _useless(node)
        if why:
            found.left_out.setdefault(why, []).append(node)
        elif own and not _named_tier(node) and own not in found.ordinary:
            found.keep(node, own)
        else:
            others.append(node)
    near_gpu = _gpu_memory(others, gpus, cores_of)
    bandwidth = _bandwidths(topology)
    for node in others:
        tier, own = _named_tier(node), cores_of(node)
        near = own or cores_of(node.parent)
        if not tier and not own and node in near_gpu:
            tier, near = "gpumem", near_gpu[node]
        if tier == "gpumem":
            pci = node.infos.get("PCIBusID", "").lower()
            near = next((gpu.cores for gpu in gpus if pci and gpu.pci == pci), near)
        if not tier and near in found.ordinary:
            tier = _measured_tier(node, found.ordinary[near], bandwidth)
        if not tier:
            found.unknown.append(node)
        elif tier == "hbm" and own and own not in found.ordinary:
            found.keep(node, own)
        else:
            found.far.append(FarMemory(tier, near, _bytes(node)))
    return found


def _numa_nodes(root: Object) -> tuple[list[Object], list[Object]]:
    """The NUMA nodes that may be used, and those that may not, by the system's numbers."""
    nodes = [item for item in root.walk() if item.type == "NUMANode"]
    nodes.sort(key=lambda node: node.os_index)
    if "allowed_nodeset" not in root.attributes:
        return nodes, []
    allowed = bitmap(root.attributes["allowed_nodeset"])
    nodes = [node for node in nodes if node.os_index >= 0]
    usable = [node for node in nodes if allowed >> node.os_index & 1]
    return usable, [node for node in nodes if not allowed >> node.os_index & 1]


def _gpu_memory(
    nodes: Sequence[Object], gpus: Sequence[Gpu], cores_of: CoresOf
) -> dict[Object, int]:
    """The cores near those of *nodes* that have the size of a GPU's memory, or where all share it.

    hwloc does not say which belongs to which GPU: if they are as many, they are in one order.
    """
    shared = bool(gpus) and all(gpu.shares_memory for gpu in gpus)
    sizes = {gib(gpu.memory) for gpu in gpus if gpu.memory}
    found = [node for node in nodes if _named_tier(node) in ("", "gpumem")]
    found = [node for node in found if shared or gib(_bytes(node)) in sizes]
    if len(found) == len(gpus):
        return {node: gpu.cores for node, gpu in zip(found, gpus)}
    return {node: cores_of(node.parent) for node in found}


def _useless(node: Object) -> str:
    """Why a NUMA node without cores that may be used is left out, or ""."""
    lost = not _named_tier(node) and _has_lost_cpus(node)
    if set(node.attributes.get("complete_cpuset", "")) - set("0x,") or lost:
        return "none of whose CPUs is online and allowed"
    return "" if _bytes(node) else "without CPUs and memory"


def _has_lost_cpus(node: Object) -> bool:
    """Whether a NUMA node without CPUs had some before hwloc was restricted to others.

    It then is in a package or group that has none left, either. But a group in the machine that
    holds nothing else is one that hwloc made for memory that never had CPUs.
    """
    here = next((o for o in node.around() if o.type not in MEMORY), None)
    if here is None or here.parent is None or here.cpuset != 0:
        return False
    in_machine = here.type == "Group" and here.parent.parent is None
    return not (in_machine and len(here.children) == 1)


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


def _bandwidths(topology: Topology) -> dict[str, int]:
    """The bandwidth of each NUMA node that has one, by gp_index."""
    return {
        value.target: value.value
        for value in topology.memory_values
        if value.name in ("Bandwidth", "ReadBandwidth")
    }


def _bytes(node: Object) -> int:
    return number(node.attributes.get("local_memory", ""))


def _shown(nodes: Sequence[Object]) -> str:
    return shown_ids(idset.from_ids(node.os_index for node in nodes if node.os_index >= 0))
