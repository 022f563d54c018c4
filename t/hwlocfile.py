"""Writes hwloc XML of made-up machines, in the form of hwloc 1, 2 or 3."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterable, Mapping, Optional, Sequence
from xml.sax.saxutils import quoteattr

import attrs

from treepool.discovery import libhwloc
from treepool.errors import InvalidHardware


def in_place(path: Path) -> dict[str, str]:
    """Variables with which Flux takes the machine of the file *path* for the one that it is on."""
    return {"FLUX_HWLOC_XMLFILE": str(path), "FLUX_HWLOC_XMLFILE_NOT_THISSYSTEM": "1"}


def has_library() -> bool:
    """Whether hwloc's C library is installed."""
    try:
        return libhwloc.local_xml() != b""
    except InvalidHardware:
        return False


@attrs.frozen
class Device:
    """A PCI device below NUMA node ``numa`` (an index; None: below the machine, or a ``package``).

    ``backends`` are the OS devices on it, as (name, backend); ze0.1 is inside ze0. ``infos`` belong
    to each of them; sizes are in KiB. ``l3`` says below which L3 cache of the NUMA node it is,
    ``switch`` behind which PCI switch.
    """

    pci: str
    numa: Optional[int] = None
    kind: str = "0302 [10de:1db1] [10de:1212] a1"
    backends: Sequence[tuple[str, str]] = ()
    infos: Mapping[str, str] = attrs.field(factory=dict)
    speed: float = 15.75
    l3: Optional[int] = None
    switch: str = ""
    package: Optional[int] = None


@attrs.frozen
class Made:
    """A machine: ``packages`` of ``numas`` NUMA nodes of ``cores`` cores of ``smt`` PUs.

    ``memory`` is GiB per NUMA node. PUs are numbered as Linux does: the first PU of each core
    first. ``extra_memory`` are more NUMA nodes: (index of the NUMA node they are beside, or None
    for the machine, GiB, subtype). ``allowed`` are PU numbers, None for all.
    """

    packages: int = 2
    numas: int = 2
    cores: int = 4
    smt: int = 2
    memory: int = 16
    devices: Sequence[Device] = ()
    extra_memory: Sequence[tuple[Optional[int], int, str]] = ()
    allowed: Optional[Iterable[int]] = None
    host: str = "made1"
    l3: bool = True
    l3s: int = 1
    more: str = ""

    def xml(self, version: int = 2) -> str:
        """The XML, as hwloc *version* writes it."""
        return _Writer(self, version).text()


class _Writer:
    def __init__(self, made: Made, version: int) -> None:
        self.made = made
        self.version = version
        self.gp = 0
        self.ncores = made.packages * made.numas * made.cores
        self.lines: list[str] = []

    def text(self) -> str:
        dtd = "hwloc.dtd" if self.version == 1 else "hwloc2.dtd"
        number = {1: "", 2: ' version="2.0"', 3: ' version="3.0"'}[self.version]
        body = self.machine()
        return (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "{dtd}">\n'
            f"<topology{number}>\n{body}{self.made.more}"
            f"{info('HostName', self.made.host) if self.version == 3 else ''}</topology>\n"
        )

    def machine(self) -> str:
        made = self.made
        allowed = (
            self.pus(range(self.ncores))
            if made.allowed is None
            else sum(1 << pu for pu in set(made.allowed))
        )
        inside = "" if self.version == 3 else info("HostName", made.host)
        for package in range(made.packages):
            inside += self.package(package)
        inside += self.far(None) + self.devices(None)
        return self.object("Machine", inside, range(self.ncores), allowed_cpuset=_set(allowed))

    def package(self, package: int) -> str:
        made = self.made
        numas = range(package * made.numas, (package + 1) * made.numas)
        inside = "".join(self.numa(n) for n in numas)
        cores = range(numas.start * made.cores, numas.stop * made.cores)
        inside += self.devices(None, package=package)
        kind = "Socket" if self.version == 1 else "Package"
        return self.object(kind, inside, cores, os_index=package)

    def numa(self, numa: int) -> str:
        made = self.made
        cores = range(numa * made.cores, (numa + 1) * made.cores)
        each = made.cores // made.l3s
        inside = ""
        for l3 in range(made.l3s):
            near = cores[l3 * each : (l3 + 1) * each if l3 + 1 < made.l3s else made.cores]
            part = "".join(self.core(core) for core in near) + self.devices(numa, l3)
            kind = "Cache" if self.version == 1 else "L3Cache"
            extra = {"depth": 3, "cache_size": 1 << 20}
            inside += self.object(kind, part, near, **extra) if made.l3 else part
        memory = {"os_index": numa, "local_memory": made.memory << 30}
        if self.version == 1:
            return self.object("NUMANode", inside + self.devices(numa), cores, **memory)
        inside = self.object("NUMANode", "", cores, **memory) + self.far(numa) + inside
        return self.object("Group", inside + self.devices(numa), cores)

    def core(self, core: int) -> str:
        pus = "".join(
            self.object(
                "PU",
                "",
                None,
                os_index=core + i * self.ncores,
                cpuset=_set(1 << core + i * self.ncores),
            )
            for i in range(self.made.smt)
        )
        return self.object("Core", pus, [core], os_index=core)

    def far(self, numa: Optional[int]) -> str:
        made = self.made
        cores = None if numa is None else range(numa * made.cores, (numa + 1) * made.cores)
        found = ""
        for i, (beside, size, subtype) in enumerate(made.extra_memory):
            if beside == numa:
                found += self.object(
                    "NUMANode",
                    "",
                    () if cores is None else cores,
                    os_index=100 + i,
                    local_memory=size << 30,
                    subtype=subtype,
                )
        return found

    def devices(
        self, numa: Optional[int], l3: Optional[int] = None, package: Optional[int] = None
    ) -> str:
        """The devices there: those behind a switch, and others below a host bridge each."""
        here = [d for d in self.made.devices if (d.numa, d.l3, d.package) == (numa, l3, package)]
        found = "".join(self.device(d) for d in here if not d.switch)
        found = self.bridge(found) if found else ""
        for switch in dict.fromkeys(d.switch for d in here if d.switch):
            ports = "".join(self.bridge(self.device(d)) for d in here if d.switch == switch)
            found += self.bridge(self.bridge(self.bridge(ports)))
        return found

    def bridge(self, inside: str) -> str:
        return self.object("Bridge", inside, None, bridge_type="0-1", depth=0)

    def device(self, device: Device) -> str:
        inside = "".join(
            self.backend(device, name, backend)
            for name, backend in device.backends
            if "." not in name
        )
        return self.object(
            "PCIDev",
            inside,
            None,
            pci_busid=device.pci,
            pci_type=device.kind,
            pci_link_speed=device.speed,
        )

    def backend(self, device: Device, name: str, backend: str) -> str:
        """An OS device, as hwloc writes it: Backend was an info before it became the subtype."""
        latest = self.version == 3
        inside = info("Backend", backend) if backend and not latest else ""
        for key, value in device.infos.items():
            inside += info(key, f"{value}KiB" if latest and key.endswith("Size") else value)
        for part, its in device.backends:
            if part.startswith(f"{name}."):
                inside += self.backend(device, part, its)
        fabric = name.startswith("mlx5_")
        kind = (32 if fabric else 12) if latest else (3 if fabric else 5)
        subtype = {"subtype": backend} if backend and latest else {}
        return self.object("OSDev", inside, None, name=name, osdev_type=kind, **subtype)

    def object(
        self, kind: str, inside: str, cores: Optional[Iterable[int]], **attributes: Any
    ) -> str:
        self.gp += 1
        sets = {}
        if cores is not None:
            cores = list(cores)
            whole = _set(self.pus(cores))
            nodes = _set(1 << attributes["os_index"] if kind == "NUMANode" else self.nodes(cores))
            sets = {
                "cpuset": whole,
                "complete_cpuset": whole,
                "nodeset": nodes,
                "complete_nodeset": nodes,
            }
        elif kind == "PU":
            nodes = _set(self.nodes([attributes["os_index"] % self.ncores]))
            sets = {"complete_cpuset": attributes["cpuset"], "nodeset": nodes}
            sets["complete_nodeset"] = nodes
        if kind == "Machine":
            sets["allowed_nodeset"] = sets["nodeset"]
        numbers = {} if self.version == 1 else {"gp_index": self.gp}
        words = {**sets, **attributes, **numbers}
        text = " ".join(f"{name}={quoteattr(str(value))}" for name, value in words.items())
        return f'<object type="{kind}" {text}>\n{inside}</object>\n'

    def nodes(self, cores: Iterable[int]) -> int:
        """The NUMA nodes, by os_index, that *cores* are in, and those beside them."""
        made, found = self.made, 0
        whole = set(cores) == set(range(self.ncores))
        numas = {core // made.cores for core in cores}
        for numa in numas:
            found |= 1 << numa
        for i, (beside, _, _) in enumerate(made.extra_memory):
            if beside in numas or (beside is None and whole):
                found |= 1 << 100 + i
        return found

    def pus(self, cores: Iterable[int]) -> int:
        return sum(1 << core + i * self.ncores for core in cores for i in range(self.made.smt))


def distances(name: str, kind: str, objects: Sequence[int], values: Sequence[int]) -> str:
    """A matrix among the objects of these gp_index, for ``Made.more``; *values* row by row."""
    indexes, numbers = ("".join(f"{n} " for n in found) for found in (objects, values))
    return (
        f'<distances2 type="{kind}" nbobjs="{len(objects)}" kind="9" name={quoteattr(name)} '
        f'indexing="gp">\n<indexes length="{len(indexes)}">{indexes}</indexes>\n'
        f'<u64values length="{len(numbers)}">{numbers}</u64values>\n</distances2>\n'
    )


def info(name: str, value: str) -> str:
    """An info element."""
    return f"<info name={quoteattr(name)} value={quoteattr(value)}/>\n"


def _set(mask: int) -> str:
    words = []
    while True:
        words.append(f"0x{mask & 0xFFFFFFFF:08x}")
        mask >>= 32
        if not mask:
            return ",".join(reversed(words))
