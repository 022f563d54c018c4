"""The GPUs, NICs and CXL memory on the PCI buses of a sysfs tree.

The id of a GPU is its place in the order of PCI bus ids among its vendor's, NVIDIA's first, which
is what jobs see in ``CUDA_VISIBLE_DEVICES`` under ``CUDA_DEVICE_ORDER=PCI_BUS_ID``. AMD's driver
tells in sysfs how many partitions a GPU is in; MIG instances are not in sysfs.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Callable, Iterable, Sequence

import attrs

from treepool.discovery import sysfs_files as files
from treepool.discovery.machine import Gpu
from treepool.rfc.links import Nic

#: PCI vendors of GPUs, in the order in which their GPUs are numbered.
VENDORS = {0x10DE: "nvidia", 0x1002: "amd", 0x8086: "intel"}

#: PCI classes of compute GPUs. A VGA controller (0x0300) is one only from NVIDIA, whose VGA and
#: 3D controllers CUDA counts alike; from others it is a console.
_GPU_CLASSES = {
    "nvidia": (0x0300, 0x0302),
    "amd": (0x0302, 0x0380, 0x1200),
    "intel": (0x0380,),
}

_CXL_MEMORY = 0x0502

#: Models that share one memory with the CPU (superchips), by vendor and device. sysfs tells no
#: models, so these are the only ones that are named.
_SUPERCHIPS = {(0x1002, 0x74A0): "MI300A", (0x10DE, 0x2342): "GH200", (0x10DE, 0x2348): "GH200"}

#: PCI functions looked at; a large node has some hundreds.
_MAX_FUNCTIONS = 1 << 12

#: GPUs, NICs and partitions of one GPU that are counted; no node has a tenth of it.
_MAX_GPUS, _MAX_NICS, _MAX_PARTITIONS = 1 << 10, 1 << 9, 1 << 6

_BUS_ID = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.ASCII)
_HOST_BRIDGE = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}", re.ASCII)
_NIC_NAME = re.compile(r"[\w.@-]{1,64}", re.ASCII)


@attrs.frozen
class Function:
    """One PCI function. ``kind`` is its class and subclass, ``numa`` its node or -1.

    ``path`` is its place below the host bridge, ``pus`` the bitmask of PUs near it.
    """

    address: str
    order: tuple[int, ...]
    folder: Path
    kind: int
    vendor: int
    device: int
    numa: int
    pus: int
    path: tuple[str, ...]


def read_functions(root: Path) -> list[Function]:
    """The GPUs, network and memory controllers on the PCI buses, in bus order.

    Virtual functions are left out: what they are of is counted.
    """
    devices = root / "bus/pci/devices"
    found = []
    for name in files.names(devices)[:_MAX_FUNCTIONS]:
        match = _BUS_ID.fullmatch(name)
        kind = (files.read_int(devices / name / "class") or 0) >> 8
        if match is None or kind >> 8 not in (0x02, 0x03, 0x05, 0x12):
            continue
        if not os.path.lexists(devices / name / "physfn"):
            order = tuple(int(part, 16) for part in match.groups())
            found.append(_function(devices / name, order, kind))
    return sorted(found, key=lambda function: function.order)


def _function(folder: Path, order: tuple[int, ...], kind: int) -> Function:
    numa = files.read_int(folder / "numa_node")
    path = os.path.realpath(folder).split(os.sep)
    bridges = [i for i, part in enumerate(path) if _HOST_BRIDGE.fullmatch(part)]
    return Function(
        address=folder.name,
        order=order,
        folder=folder,
        kind=kind,
        vendor=files.read_int(folder / "vendor") or 0,
        device=files.read_int(folder / "device") or 0,
        numa=-1 if numa is None else numa,
        pus=files.read_list(folder / "local_cpulist") or 0,
        path=tuple(path[bridges[0] :]) if bridges else (),
    )


def is_gpu(function: Function) -> bool:
    """Whether a function is a compute GPU."""
    return function.kind in _GPU_CLASSES.get(VENDORS.get(function.vendor, ""), ())


def has_cxl(functions: Iterable[Function]) -> bool:
    """Whether one of *functions* is CXL memory."""
    return any(function.kind == _CXL_MEMORY for function in functions)


def gpu_functions(functions: Iterable[Function], notes: list[str]) -> list[Function]:
    """The GPUs among *functions* in the order of their ids.

    Adds to *notes* which are kept from jobs: those handed to virtual machines.
    """
    vendors = list(VENDORS)
    found = []
    for function in functions:
        if not is_gpu(function):
            continue
        if os.path.basename(os.path.realpath(function.folder / "driver")) == "vfio-pci":
            notes.append(f"GPU {function.address} is kept for virtual machines: it is left out")
        else:
            found.append(function)
    found.sort(key=lambda function: (vendors.index(function.vendor), function.order))
    return found[:_MAX_GPUS]


def make_gpus(
    root: Path, functions: Sequence[Function], near: Callable[[Function], int]
) -> tuple[list[Gpu], list[Function]]:
    """The GPUs that *functions* are, and the function of each: a partitioned one is several.

    *near* tells the cores near a function. Memory is told by AMD's driver only.
    """
    partitions = _partitions(root)
    gpus: list[Gpu] = []
    origin: list[Function] = []
    for function in functions:
        parts = partitions.get(function.order[:3], 1) if function.vendor == 0x1002 else 1
        parts = min(parts, _MAX_PARTITIONS)
        mode = (files.read_text(function.folder / "current_compute_partition") or "").lower()
        if not re.fullmatch(r"[a-z]{1,8}", mode):
            mode = f"{parts}-part"
        for _ in range(parts):
            memory = files.read_int(function.folder / "mem_info_vram_total") or 0
            gpus.append(
                Gpu(
                    id=len(gpus),
                    vendor=VENDORS[function.vendor],
                    model=_SUPERCHIPS.get((function.vendor, function.device), ""),
                    memory=max(0, memory) // parts,
                    cores=near(function),
                    pci=function.address,
                    profile=mode if parts > 1 else "",
                )
            )
            origin.append(function)
    return gpus, origin


def unified_memory(gpus: Sequence[Gpu]) -> bool:
    """Whether every GPU is of a kind that shares its memory with the CPU."""
    return bool(gpus) and all(gpu.model in _SUPERCHIPS.values() for gpu in gpus)


def _partitions(root: Path) -> dict[tuple[int, ...], int]:
    """How many GPUs AMD's compute driver (KFD) sees at each domain, bus and device."""
    nodes = root / "devices/virtual/kfd/kfd/topology/nodes"
    found: dict[tuple[int, ...], int] = {}
    for number in files.numbers(nodes, "", _MAX_FUNCTIONS):
        if not files.read_int(nodes / str(number) / "gpu_id"):
            continue  # a CPU
        text = files.read_text(nodes / str(number) / "properties") or ""
        words = dict(re.findall(r"^(domain|location_id) (\d{1,12})$", text, re.MULTILINE))
        if len(words) == 2:
            # Above bus, device and function are bits for the partition.
            place = int(words["location_id"]) & 0xFFFF
            key = (int(words["domain"]), place >> 8, place >> 3 & 0x1F)
            found[key] = found.get(key, 0) + 1
    return found


#: How near a NIC is, nearest first, in the words of ``nvidia-smi topo``.
_NEARNESS = ("PIX", "PXB", "PHB", "NODE", "SYS")


def nearest_nics(functions: Iterable[Function], gpus: Sequence[Function]) -> list[Nic]:
    """The NICs nearest to each of *gpus* (by id), in bus order; none if there are no GPUs."""
    nics = []
    for function in functions:
        name = _nic_name(function)
        if name:
            nics.append((name, function))
    if not nics:
        return []
    del nics[_MAX_NICS:]
    found: dict[tuple[int, int], int] = {}
    for gpu, place in enumerate(gpus):
        steps = [_nearness(place, nic) for _, nic in nics]
        least = min(steps)
        for i, step in enumerate(steps):
            if step == least:
                found[i, step] = found.get((i, step), 0) | 1 << gpu
    return [Nic(nics[i][0], mask, _NEARNESS[step]) for (i, step), mask in sorted(found.items())]


def _nic_name(function: Function) -> str:
    """The name of a network controller as Linux calls it, InfiniBand's first; "" if none."""
    if function.kind >> 8 != 0x02:
        return ""
    for group in ("infiniband", "net"):
        for name in files.names(function.folder / group):
            if _NIC_NAME.fullmatch(name):
                return name
    return ""


def _nearness(one: Function, other: Function) -> int:
    """How far apart two functions are, as an index of _NEARNESS."""
    pairs = enumerate(zip(one.path, other.path))
    shorter = min(len(one.path), len(other.path))
    common = next((i for i, (a, b) in pairs if a != b), shorter)
    if common >= 2:
        # Below one switch, each is its port of the switch away from what they share.
        return 0 if max(len(one.path), len(other.path)) - common <= 2 else 1
    if common == 1:
        return 2
    return 3 if one.numa == other.numa >= 0 else 4
