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
from pathlib import Path
from typing import Iterator, Sequence

import attrs

from treepool.discovery.hwlocxml import Object, number

#: Ways to number GPUs.
GPU_INDEX = ("vendor", "pci", "hwloc")

#: hwloc's backends whose devices are GPUs, most detailed first. Flux counts all but LevelZero's
#: (flux-core's rhwloc).
_BACKENDS = ("NVML", "RSMI", "CUDA", "LevelZero", "OpenCL")

#: PCI vendors of GPUs, in the order in which their GPUs are numbered.
VENDORS = {"10de": "nvidia", "1002": "amd", "8086": "intel"}

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


def find(root: Object, gpu_index: str = "vendor") -> list[FoundGpu]:
    """All GPUs below *root*, in the order of their ids."""
    by_device: dict[Object, list[Object]] = {}
    plain: list[Object] = []
    for item in root.walk():
        if item.type == "OSDev" and item.backend in _BACKENDS:
            if not any(part.backend == item.backend for part in item.children):
                by_device.setdefault(item.above("PCIDev") or item, []).append(item)
        elif item.type == "PCIDev":
            match = _PCI_TYPE.match(item.attributes.get("pci_type", ""))
            if match and is_compute(match.group(1), match.group(2)):
                plain.append(item)
    if by_device:
        placed = _on_the_bus(by_device, plain)
        found = [gpu for device, osdevs in placed.items() for gpu in _gpus_of(device, osdevs)]
    else:
        # hwloc was built without a vendor's library, so it only shows the bus.
        found = [_gpu(device, device) for device in plain]
    found = _numbered(found, gpu_index)
    for i, gpu in enumerate(found):
        gpu.id = i
    return found


def _on_the_bus(
    by_device: dict[Object, list[Object]], plain: Sequence[Object]
) -> dict[Object, list[Object]]:
    """*by_device*, with the GPUs of a vendor that are beside their PCI devices moved to these.

    NVIDIA's driver tells OpenCL the number of a device where hwloc (up to 2.13) expects the number
    and the function. In virtual machines, where that number is often not 0, hwloc therefore finds
    the host bridge alone. GPUs that are not alike stay there, because each could be any of them.
    """
    moved: dict[Object, Object] = {}
    for code, vendor in VENDORS.items():
        lost = [o for o in by_device if o.type == "OSDev" and _vendor(o, [o]) == vendor]
        free = [o for o in plain if o not in by_device and f"[{code}:" in o.attributes["pci_type"]]
        if len(lost) == len(free) and len({_first([o], "GPUModel") for o in lost}) == 1:
            moved.update(zip(lost, free))
    return {moved.get(device, device): osdevs for device, osdevs in by_device.items()}


def _gpus_of(device: Object, osdevs: Sequence[Object]) -> Iterator[FoundGpu]:
    """The GPUs of one PCI device, from the backend that distinguishes the most."""
    by_backend = [[o for o in osdevs if o.backend == name] for name in _BACKENDS]
    chosen = max(by_backend, key=len)
    for osdev in chosen:
        above = osdev.above("OSDev")
        gpu = _gpu(device, osdev, [osdev, *chosen, *osdevs, *([above] if above else ())])
        if len(chosen) > 1:
            gpu.profile = _profile(gpu.vendor, len(chosen))
            # A tile reports its own memory. Other partitions report that of the whole device.
            gpu.memory //= 1 if above else len(chosen)
        yield gpu


def _profile(vendor: str, parts: int) -> str:
    """The profile of one of *parts* partitions of a GPU."""
    if vendor == "intel":
        return "tile"
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
    return next((v for v in ("nvidia", "amd", "intel") if v in word), "")


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
            f"{known} known from the PCI bus only: hwloc has no backend of the vendor (is its "
            "package of plugins installed?), and Flux does not see them in this XML"
        )
    everything = list(root.walk())
    if not any(item.type == "OSDev" and item.backend == "RSMI" for item in everything):
        counted = [gpu.device for gpu in found]
        types = (
            (item, _PCI_TYPE.match(item.attributes.get("pci_type", ""))) for item in everything
        )
        vga = [
            bus
            for item, kind in types
            if kind and (kind[1], kind[2]) == ("0300", "1002") and item not in counted
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
    backends = {o.backend for gpu in found for o in gpu.device.walk() if o.backend in _BACKENDS}
    if backends == {"LevelZero"}:
        notes.append("Flux does not count GPUs that LevelZero alone reports")
    return notes


# -- without hwloc


def bus_ids(devices: Path = Path("/sys/bus/pci/devices")) -> list[str]:
    """The PCI bus ids of the whole node's GPUs, from Linux's /sys; [] if there are none.

    This is for tasks inside a job that is itself a Flux instance. There hwloc is often restricted
    to the job's part of the node, and lacks the GPUs near the rest. R and CUDA_VISIBLE_DEVICES
    still count these GPUs. The order is that of ``--gpu-index vendor``: NVIDIA's first, then AMD's,
    then Intel's. GPUs that are reserved for virtual machines are left out, and so are virtual
    functions.
    """
    try:
        names = os.listdir(devices)
    except OSError:
        return []
    vendors = list(VENDORS)
    found = []
    for name in names:
        vendor, kind = _hex(devices / name / "vendor"), _hex(devices / name / "class")[:4]
        if is_compute(kind, vendor) and not _is_virtual(devices / name):
            found.append((vendors.index(vendor), bus_order(name), name))
    return [name for _, _, name in sorted(found)]


def _hex(file: Path) -> str:
    """The hexadecimal number in a file of /sys, without 0x; "" if it cannot be read."""
    try:
        return file.read_text("ascii").strip()[2:]
    except (OSError, ValueError):
        return ""


def _is_virtual(device: Path) -> bool:
    driver = os.path.basename(os.path.realpath(device / "driver"))
    return driver == "vfio-pci" or os.path.lexists(device / "physfn")
