"""What a machine has, from any source; names of memory tiers; superchips (GH200, MI300A), C2C GB/s.

Cores are physical cores. A core's id is its logical index among the cores that may be used, as
Flux counts them in R (RFC 20; hwloc's logical index). Sets of cores and GPUs are bitmasks of ids.
Memory is in bytes, bandwidth in GB/s.
"""

from __future__ import annotations

import re
from typing import Mapping, Optional

import attrs

from treepool.rfc import idset
from treepool.rfc.links import Links

#: Memory tiers that have a locality of their own, in the order in which they nest. A NUMA node's
#: ordinary memory counts as its domain's ``memory``.
TIERS = ("hbm", "cxl", "nvm", "gpumem")

#: Kinds of region that hwloc knows between a machine and a core, by their names as localities, in
#: the usual order from the outermost to the innermost.
KINDS = ("socket", "die", "numa", "group", "l3")

#: Models of GPU that form one chip with a CPU.
_SUPERCHIP = re.compile(r"\b(MI300A|GH200|GB200|GB300|GB10)\b", re.ASCII | re.IGNORECASE)

#: The prefix of the profile of a MIG instance, and of the locality that holds such instances.
MIG = "mig-"

#: The profile of a tile of Intel's GPUs.
TILE = "tile"

#: GB/s per direction of NVLink-C2C between a CPU and a GPU, by the model (NVIDIA's white papers).
_C2C = (
    (re.compile(r"\b(GH200|GB200|GB300)\b", re.ASCII | re.IGNORECASE), 450.0),
    (re.compile(r"\bGB10\b", re.ASCII | re.IGNORECASE), 300.0),
)


def c2c_gbps(model: str) -> float:
    """GB/s per direction between a GPU of this *model* and its CPU, if NVLink-C2C joins them."""
    return next((gbps for form, gbps in _C2C if form.search(model)), 0.0)


def has_assumed_c2c(model: str) -> bool:
    """Whether the C2C GB/s of this *model* are assumed: NVIDIA tells those of two GPUs together."""
    return re.search("GB[23]00", model, re.ASCII | re.IGNORECASE) is not None


def gib(size: int) -> int:
    """*size* in GiB, rounded to the nearest as in hwloc's lstopo."""
    return (size + (1 << 29)) >> 30


@attrs.frozen
class Region:
    """One object that holds cores: a package, die, NUMA node, group or L3 cache.

    ``kind`` is one of KINDS. ``memory`` is that of a NUMA node, or of any region, or the whole
    ``node``, of which the source knows no NUMA nodes; otherwise 0.
    """

    kind: str
    cores: int
    memory: int = 0


@attrs.frozen
class FarMemory:
    """Memory of a tier of its own (one of TIERS), near ``cores``: a NUMA node without PUs.

    ``cores`` is 0 if it is not known what the memory is near to.
    """

    tier: str
    cores: int
    memory: int


@attrs.frozen
class Gpu:
    """One GPU, or partition of one, as jobs see it.

    ``id`` is its id in R. ``vendor`` is "nvidia", "amd", "intel" or "". ``cores`` has the cores
    near it, 0 if not known. ``profile`` names the kind of MIG instance or partition, "" for a whole
    GPU. ``pci`` is its bus id (domain:bus:device.function), and ``uuid`` the vendor's name for it;
    "" if not known. ``number`` is that of the vendor's tools, -1 if not known.
    """

    id: int
    vendor: str = ""
    model: str = ""
    memory: int = 0
    cores: int = 0
    pci: str = ""
    profile: str = ""
    uuid: str = ""
    number: int = -1

    @property
    def shares_memory(self) -> bool:
        """Whether the GPU and a CPU share one memory, by its model (MI300A, GH200, GB200)."""
        return _SUPERCHIP.search(self.model) is not None


@attrs.frozen
class Machine:
    """The cores, regions, memory, GPUs and links of one node."""

    hostname: str
    #: Ids of the usable cores.
    cores: int
    regions: tuple[Region, ...] = ()
    #: The cores that the site keeps for the system: they are in the topo, and not in R.
    system: int = 0
    far_memory: tuple[FarMemory, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    #: None if nothing is known about links.
    links: Optional[Links] = None
    #: The types of links whose GB/s are assumed, because the model has no known rate.
    assumed: frozenset[str] = frozenset()
    #: The operating system's numbers of each core's PUs, by core id.
    pus: Mapping[int, tuple[int, ...]] = attrs.field(factory=dict)
    #: The cores of each NUMA node of ordinary memory, by the operating system's number.
    numa_nodes: Mapping[int, int] = attrs.field(factory=dict)
    #: How far NUMA nodes, by the operating system's numbers, are from each other: 10 is local.
    distances: Mapping[tuple[int, int], int] = attrs.field(factory=dict)
    #: True if all GPUs share one memory with the CPUs.
    unified_memory: bool = False
    #: True if NVSwitches join the GPUs.
    nvswitch: bool = False
    #: The NICs that are RDMA ports (InfiniBand, RoCE), by name.
    rdma_ports: frozenset[str] = frozenset()
    #: The cores of each kind ("pcore", "ecore", "lpcore"); empty if all are of one kind.
    core_kinds: Mapping[str, int] = attrs.field(factory=dict)
    #: True if there are CXL memory devices, whether or not they are used as memory.
    cxl: bool = False
    #: A line for whatever was left out or guessed.
    notes: tuple[str, ...] = ()
    #: A line for whatever is unusual and may be a fault of the node.
    warnings: tuple[str, ...] = ()

    @property
    def gpu_ids(self) -> int:
        """The ids of its GPUs (bitmask)."""
        return idset.from_ids(gpu.id for gpu in self.gpus)

    def with_warning(self, warning: str) -> Machine:
        """The machine with one more warning."""
        return attrs.evolve(self, warnings=(*self.warnings, warning))
