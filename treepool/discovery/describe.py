"""Topos of many nodes, from hwloc XML and nvidia-smi: equal hwloc XML is read only once."""

from __future__ import annotations

import hashlib
import re
from typing import Optional, Sequence

import attrs

from treepool.discovery.binding import cores_of
from treepool.discovery.hwloc import read_hwloc
from treepool.discovery.levels import NodeTopo, topo_of
from treepool.discovery.machine import Gpu, Machine
from treepool.discovery.mig import with_instances
from treepool.discovery.nvidia import NvidiaTopology
from treepool.rfc import idset
from treepool.rfc.links import Links

#: Most topos in the cache; no site has so many kinds of node.
MAX_KNOWN = 1024

#: XML that differs between nodes of one kind and does not describe topology: names, addresses,
#: serial numbers, and the number of available pages of each size.
_OF_ONE_NODE = re.compile(
    rb'<info name="(?:HostName|OS[A-Za-z]*|Address|NodeGUID|SysImageGUID|SerialNumber|'
    rb"LinuxDeviceID|LinuxCgroup|Port\d+[A-Za-z0-9]*|AMDUUID|NVIDIAUUID|AMDSerial|NVIDIASerial|"
    rb'XGMIHiveID|Kernel[A-Za-z]*|DMI[A-Za-z]*|ProcessName|hwlocVersion)" value="[^"]*"/>'
    rb"|<page_type [^>]*/>"
)
_HOST_NAME = re.compile(rb'<info name="HostName" value="([^"]*)"/>')


def digest(xml: bytes) -> bytes:
    """The SHA-256 of all in hwloc *xml* that nodes which are alike have in common."""
    return hashlib.sha256(_OF_ONE_NODE.sub(b"", xml)).digest()


@attrs.define
class Describer:
    """Reads hwloc XML into topos, all with the same ``levels`` and ``gpu_index``.

    See ``levels.topo_of`` and ``gpus.find`` for these. ``nvidia`` is what nvidia-smi reported on
    nodes with GPUs, and ``instances`` has the MIG instances of their GPUs (mig.py).
    """

    levels: Optional[Sequence[str]] = None
    gpu_index: str = "vendor"
    nvidia: Optional[NvidiaTopology] = None
    instances: Sequence[Sequence[str]] = ()
    #: How many XMLs were parsed, because they were not in the cache.
    parsed: int = attrs.field(init=False, default=0)
    _known: dict[bytes, NodeTopo] = attrs.field(init=False, factory=dict)

    def of_xml(self, xml: bytes, source: str = "hwloc XML") -> NodeTopo:
        """The topo of the node that hwloc *xml* describes; raises InvalidHardware."""
        name = digest(xml)
        known = self._known.get(name)
        if known is None:
            known = self._of_machine(read_hwloc(xml, source, self.gpu_index))
            self.parsed += 1
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[name] = known
        host = _HOST_NAME.search(xml)
        if host is None:
            return known
        hostname = host.group(1).decode("utf-8", "replace")
        return attrs.evolve(known, machine=attrs.evolve(known.machine, hostname=hostname))

    def known(self, name: bytes) -> Optional[NodeTopo]:
        """The topo of nodes whose XML has the digest *name*; None if none was read, or lately."""
        return self._known.get(name)

    def _of_machine(self, machine: Machine) -> NodeTopo:
        others = any(gpu.vendor != "nvidia" for gpu in machine.gpus)
        if self.nvidia is not None and not others:
            machine = with_nvidia(machine, self.nvidia)
        if self.instances and machine.gpus and not others:
            machine = with_instances(machine, self.instances)
        return topo_of(machine, self.levels)


def with_nvidia(machine: Machine, told: NvidiaTopology) -> Machine:
    """*machine* with the links, NICs and GPU localities of *told*, whose GPU ids are NVML's.

    If hwloc knows no GPUs, the GPUs of *told* are added. If both know a GPU's locality and they
    differ, hwloc's is used and a warning says so. If the GPUs of the machine and of *told* differ,
    the text is from another node: the machine stays as it is, with a warning.
    """
    gpus = {gpu.id: gpu for gpu in machine.gpus}
    if not told.near:
        return _warned(machine, "nvidia-smi names no GPU")
    if not gpus:
        gpus = {i: Gpu(i, "nvidia") for i in told.near}
    if set(gpus) != set(told.near):
        here, there = (idset.encode(idset.from_ids(ids)) for ids in (gpus, told.near))
        return _warned(machine, f"gpus are {here}, but nvidia-smi has {there}: it is not used")
    warnings = []
    for i, pus in sorted(told.near.items()):
        cores = cores_of(machine, pus)
        cores = 0 if cores == machine.cores else cores
        if not gpus[i].cores:
            gpus[i] = attrs.evolve(gpus[i], cores=cores)
        elif cores and cores != gpus[i].cores:
            ours, theirs = idset.encode(gpus[i].cores), idset.encode(cores)
            warnings.append(f"gpu {i} is near cores {ours}, but near {theirs} for nvidia-smi")
    old = machine.links or Links()
    links = Links(told.links.links, told.links.nics or old.nics, old.devices)
    return attrs.evolve(
        machine,
        gpus=tuple(gpus[i] for i in sorted(gpus)),
        links=links,
        notes=(*machine.notes, *told.notes),
        warnings=(*machine.warnings, *warnings),
    )


def _warned(machine: Machine, warning: str) -> Machine:
    return attrs.evolve(machine, warnings=(*machine.warnings, warning))
