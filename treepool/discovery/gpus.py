"""Which devices count as GPUs, by vendor and PCI class, and which ids jobs see (``--gpu-index``).

Flux's job shell puts the GPU ids of R into ``CUDA_VISIBLE_DEVICES``, with ``CUDA_DEVICE_ORDER`` set
to ``PCI_BUS_ID``. On NVIDIA's GPUs id i must therefore be the i-th GPU in the order of PCI bus ids,
which is also NVML's index. On AMD's GPUs it is the index of rsmi (ROCm SMI). flux-core uses the
order of hwloc's tree for R, which often differs. ``--gpu-index`` selects the order:

``vendor``
    NVIDIA's by PCI bus id, then AMD's by rsmi index, then others by PCI bus id.
``pci``
    All by PCI bus id; partitions of one GPU in their order.
``hwloc``
    In the order of hwloc's tree, as in flux-core.
"""

from __future__ import annotations

import os
import re
from itertools import chain, islice
from pathlib import Path
from typing import Iterator, Sequence

import attrs

from treepool.discovery.hwlocxml import Object, number
from treepool.discovery.machine import TILE

#: Ways to number GPUs.
GPU_INDEX = ("vendor", "pci", "hwloc")

#: hwloc's backends whose devices are GPUs, most detailed first. Flux counts all but LevelZero's
#: (flux-core's rhwloc).
_BACKENDS = ("NVML", "RSMI", "CUDA", "LevelZero", "OpenCL")

#: PCI vendors of GPUs, in the order in which their GPUs are numbered.
VENDORS = {"10de": "nvidia", "1002": "amd", "8086": "intel"}

#: A part of the name by which a vendor calls itself, in lower case.
_MAKERS = {"nvidia": "nvidia", "amd": "amd", "advanced micro": "amd", "intel": "intel"}

#: PCI classes of a vendor's compute GPUs: VGA and 3D controllers, other displays, accelerators.
#: A VGA controller is a compute GPU only if it is NVIDIA's; AMD's and Intel's are for consoles.
#: Intel's accelerators are not GPUs.
_CLASSES = {
    "nvidia": ("0300", "0302"),
    "amd": ("0302", "0380", "1200"),
    "intel": ("0380",),
}

_PCI_TYPE = re.compile(r"([0-9a-f]{4}) \[([0-9a-f]{4}):([0-9a-f]{4})\]", re.ASCII)
_BUS_ID = re.compile(r"([0-9a-f]{1,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-9a-f])", re.ASCII)
_DIGITS = re.compile(r"\d+", re.ASCII)

#: The name of a GPU's mode by its number of partitions (AMD's compute partition modes).
_PARTITIONS = {2: "dpx", 3: "tpx", 4: "qpx", 6: "cpx", 8: "cpx"}

#: Most objects at one device that are asked for a GPU's model and memory.
_MOST_TOLD = 16

#: Infos of hwloc's backends with the memory of a GPU.
_SIZES = (
    "CUDAGlobalMemorySize",
    "RSMIVRAMSize",
    "LevelZeroHBMSize",
    "LevelZeroDDRSize",
    "OpenCLGlobalMemorySize",
)


@attrs.define(eq=False)
class FoundGpu:
    """A GPU, or a partition of one: the objects that represent it, and what they say.

    ``osdev`` is the object of the backend that counts it, or the PCI device if there is none.
    """

    device: Object
    osdev: Object
    vendor: str
    model: str
    memory: int
    pci: str
    profile: str = ""
    id: int = -1

    @property
    def number(self) -> int:
        """The number that NVML or rsmi has for it, whatever CPUs hwloc may use; -1 if none."""
        return _own_number(self) if self.osdev.backend in ("NVML", "RSMI") else -1


def find(root: Object, gpu_index: str = "vendor") -> list[FoundGpu]:
    """All GPUs below *root*, in the order of their ids."""
    osdevs, plain = [], []
    for item in root.walk():
        if item.type == "OSDev" and item.backend in _BACKENDS:
            if not any(part.backend == item.backend for part in item.children):
                osdevs.append(item)
        elif item.type == "PCIDev":
            match = _PCI_TYPE.match(item.attributes.get("pci_type", ""))
            if match and is_compute(match.group(1), match.group(2)):
                plain.append(item)
    if osdevs:
        placed = _placed(osdevs, plain)
        by_device: dict[Object, list[Object]] = {}
        for osdev in osdevs:
            if osdev in placed:
                by_device.setdefault(placed[osdev], []).append(osdev)
        found = [gpu for device, parts in by_device.items() for gpu in _gpus_of(device, parts)]
    else:
        # hwloc has no vendor's backend, so it only shows the bus.
        found = [_gpu(device, device) for device in plain]
    found = _numbered(found, gpu_index)
    for i, gpu in enumerate(found):
        gpu.id = i
    return found


def _placed(osdevs: Sequence[Object], plain: Sequence[Object]) -> dict[Object, Object]:
    """The device of each of *osdevs* that counts, among them the *plain* PCI devices."""
    by_vendor: dict[str, list[Object]] = {}
    for osdev in osdevs:
        vendor = _vendor(osdev, [osdev]) or _vendor(osdev.above("PCIDev") or osdev, [])
        by_vendor.setdefault(vendor, []).append(osdev)
    placed: dict[Object, Object] = {}
    for vendor, shown in by_vendor.items():
        own = [device for device in plain if _vendor(device, []) == vendor]
        first, *others = _views(shown)
        placed.update(zip(first, _devices(first, vendor, own)))
        unseen = set(own) - set(placed.values())
        for osdev in chain(*others):
            device = osdev.above("PCIDev")
            if device in unseen:
                unseen.remove(device)
                placed[osdev] = device
    return placed


def _views(osdevs: Sequence[Object]) -> list[list[Object]]:
    """Those of *osdevs*, all of one vendor, that each backend (and platform of OpenCL) shows.

    The first is the most detailed. Others show the same GPUs again, not always at the same place.
    """
    views: dict[tuple[int, str], list[Object]] = {}
    for osdev in osdevs:
        platform = osdev.name.partition("d")[0] if osdev.backend == "OpenCL" else ""
        views.setdefault((_BACKENDS.index(osdev.backend), platform), []).append(osdev)
    return [views[key] for key in sorted(views)]


def _devices(view: Sequence[Object], vendor: str, own: Sequence[Object]) -> list[Object]:
    """The PCI device of each GPU of a *view*, or the GPU itself if that is not known.

    OpenCL's GPUs may be at a bridge, at another device, or all at one. NVIDIA's driver tells it the
    number of a device, where hwloc expects number and function, and ROCm's has no PCI domains. They
    are then taken for the vendor's *own* PCI devices, if these are as many, and all alike.
    """
    found = [osdev.above("PCIDev") or osdev for osdev in view]
    alike = len({_first([osdev], "GPUModel") for osdev in view}) == 1
    if view[0].backend == "OpenCL" and len(own) == len(view) and alike and set(own) != set(found):
        return [*own]
    return [
        osdev if device.type == "PCIDev" and _vendor(device, []) != vendor else device
        for device, osdev in zip(found, view)
    ]


def _gpus_of(device: Object, parts: Sequence[Object]) -> Iterator[FoundGpu]:
    """The GPUs at one device: all of it, or its *parts*."""
    others = (o for o in device.walk() if o.type == "OSDev" and o.backend in _BACKENDS)
    told = [*parts[:_MOST_TOLD], *islice(others, _MOST_TOLD)]
    for osdev in parts:
        above = osdev.above("OSDev")
        gpu = _gpu(device, osdev, [osdev, *told, *([above] if above else ())])
        if len(parts) > 1:
            gpu.profile = _profile(gpu.vendor, len(parts))
            # A tile reports its own memory. Other partitions report that of the whole device.
            gpu.memory //= 1 if above else len(parts)
        yield gpu


def _profile(vendor: str, parts: int) -> str:
    """The profile of one of *parts* partitions of a GPU."""
    if vendor == "intel":
        return TILE
    return _PARTITIONS.get(parts, "") if vendor == "amd" else f"{parts}-part"


def _gpu(device: Object, osdev: Object, objects: Sequence[Object] = ()) -> FoundGpu:
    pci = device.attributes.get("pci_busid", "")
    return FoundGpu(
        device,
        osdev,
        _vendor(device, objects),
        _first(objects, "GPUModel", "LevelZeroModel", "LevelZeroBrand")
        or _first([device], "PCIDevice")
        or device.name,
        _memory(objects),
        pci.lower() if _BUS_ID.fullmatch(pci.lower()) else "",
    )


def _numbered(found: list[FoundGpu], gpu_index: str) -> list[FoundGpu]:
    if gpu_index == "hwloc":
        return found
    place = {id(gpu): i for i, gpu in enumerate(found)}
    by_bus = sorted(found, key=lambda gpu: (bus_order(gpu.pci), _own_number(gpu), place[id(gpu)]))
    if gpu_index == "pci":
        return by_bus
    ordered: list[FoundGpu] = []
    for vendor in (*VENDORS.values(), ""):
        group = [gpu for gpu in by_bus if gpu.vendor == vendor]
        if all(gpu.osdev.backend == "RSMI" for gpu in group):
            group.sort(key=_own_number)
        ordered += group
    return ordered


def bus_order(pci: str) -> tuple[int, ...]:
    """Sort key for PCI bus ids; a device without one comes last."""
    match = _BUS_ID.fullmatch(pci)
    return tuple(int(part, 16) for part in match.groups()) if match else (1 << 40,)


def _own_number(gpu: FoundGpu) -> int:
    """The number in a backend's name for a device, such as 3 in rsmi3."""
    match = _DIGITS.search(gpu.osdev.name) if gpu.osdev.type == "OSDev" else None
    return int(match.group()[:9]) if match else 0


def is_compute(kind: str, vendor: str) -> bool:
    """Whether a PCI device of this class and vendor, each four hex digits, is a compute GPU."""
    return kind in _CLASSES.get(VENDORS.get(vendor, ""), ())


def _vendor(device: Object, objects: Sequence[Object]) -> str:
    match = _PCI_TYPE.match(device.attributes.get("pci_type", ""))
    if match and match.group(2) in VENDORS:
        return VENDORS[match.group(2)]
    word = _first(objects, "GPUVendor", "LevelZeroVendor").lower()
    return next((vendor for part, vendor in _MAKERS.items() if part in word), "")


def _first(objects: Sequence[Object], *names: str) -> str:
    """The first of the infos of these *names*, in their order, that one of *objects* has."""
    found = (o.infos.get(name, "").strip() for name in names for o in objects)
    return next(filter(None, found), "")


def _memory(objects: Sequence[Object]) -> int:
    """Memory in bytes; hwloc's backends give KiB."""
    return number(_first(objects, *_SIZES)) << 10


def warnings_on(found: Sequence[FoundGpu], root: Object) -> list[str]:
    """What may be wrong with the GPUs: known from the bus alone, or not told from a console."""
    warnings = []
    if found and all(gpu.osdev.type == "PCIDev" for gpu in found):
        known = "1 GPU is" if len(found) == 1 else f"{len(found)} GPUs are"
        warnings.append(
            f"{known} known from the PCI bus only, and not to Flux in this XML: hwloc has no "
            "backend of the vendor (is its package of plugins installed?)"
        )
    everything = list(root.walk())
    if not any(item.type == "OSDev" and item.backend == "RSMI" for item in everything):
        counted = [gpu.device for gpu in found]
        vga = [
            bus
            for item in everything
            if (kind := _PCI_TYPE.match(item.attributes.get("pci_type", "")))
            if kind.group(1, 2) == ("0300", "1002") and item not in counted
            if _BUS_ID.fullmatch(bus := item.attributes.get("pci_busid", "").lower())
        ]
        if vga:
            warnings.append(
                f"AMD display devices are not counted as GPUs: {', '.join(vga[:8])}; an hwloc with "
                "RSMI tells GPUs such as MI50 and W7900 from consoles"
            )
    return warnings


def notes_on(found: Sequence[FoundGpu], root: Object) -> list[str]:
    """What an administrator should know about the ids of the GPUs."""
    notes = []
    if [gpu.osdev for gpu in find(root, "hwloc")] != [gpu.osdev for gpu in found]:
        notes.append("GPU ids are not in the order of hwloc's tree, which flux-core takes")
    devices = {gpu.device for gpu in found}
    backends = {o.backend for device in devices for o in device.walk() if o.backend in _BACKENDS}
    if backends == {"LevelZero"}:
        notes.append("Flux does not count GPUs that LevelZero alone reports")
    return notes


# -- without hwloc


def bus_ids(devices: Path = Path("/sys/bus/pci/devices")) -> list[str]:
    """The PCI bus ids of the whole node's GPUs, from Linux's /sys; [] if there are none.

    This is for tasks inside a job that is itself a Flux instance. There hwloc is often restricted
    to the job's part of the node, and lacks the GPUs near the rest. R and CUDA_VISIBLE_DEVICES
    still count these GPUs. NVIDIA's come first, then AMD's, then Intel's. GPUs with the driver for
    virtual machines (vfio-pci) or consoles (nouveau) are left out, and so are virtual functions.
    """
    try:
        names = os.listdir(devices)
    except OSError:
        return []
    vendors = list(VENDORS)
    found = []
    for name in names:
        vendor, kind = _hex(devices / name / "vendor"), _hex(devices / name / "class")[:4]
        if is_compute(kind, vendor) and _is_usable(devices / name):
            found.append((vendors.index(vendor), bus_order(name), name))
    return [name for _, _, name in sorted(found)]


def _hex(file: Path) -> str:
    """The hexadecimal number in a file of /sys, without 0x; "" if it cannot be read."""
    try:
        return file.read_text("ascii").strip()[2:]
    except (OSError, ValueError):
        return ""


def _is_usable(device: Path) -> bool:
    driver = os.path.basename(os.path.realpath(device / "driver"))
    return driver not in ("vfio-pci", "nouveau") and not os.path.lexists(device / "physfn")
