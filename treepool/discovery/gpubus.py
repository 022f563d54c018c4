"""The GPUs on the PCI bus of the whole node, from Linux's /sys.

This is for tasks inside a job that is itself a Flux instance. There hwloc is often restricted to
the job's part of the node, and lacks the GPUs near the rest. R and CUDA_VISIBLE_DEVICES still count
these GPUs.
"""

from __future__ import annotations

import os
from pathlib import Path

from treepool.discovery.gpus import VENDORS, bus_order, is_compute


def bus_ids(devices: Path = Path("/sys/bus/pci/devices")) -> list[str]:
    """The PCI bus ids of the node's GPUs in the order of their ids; [] if there are none.

    The order is that of ``--gpu-index vendor``: NVIDIA's first, then AMD's, then Intel's. GPUs that
    are reserved for virtual machines are left out, and so are virtual functions.
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
