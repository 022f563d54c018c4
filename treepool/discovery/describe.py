"""Which nodes are alike: what the digest of hwloc XML ignores. Alike nodes are read only once."""

from __future__ import annotations

import hashlib
import re
from typing import Optional, Sequence

import attrs

from treepool.discovery.hwloc import read_hwloc
from treepool.discovery.levels import NodeTopo, topo_of
from treepool.discovery.linking import joins_too_many
from treepool.discovery.machine import Machine, gib
from treepool.discovery.reports.mig import ListedGpu, with_instances
from treepool.discovery.reports.report import ToolReport, combined

#: Most topos in the cache; more than any site has kinds of node.
MAX_KNOWN = 1024

#: XML that differs between nodes of one kind but does not describe topology: names, addresses,
#: serial numbers, and the number of available pages of each size.
_OF_ONE_NODE = re.compile(
    rb'<info name="(?:HostName|OS[A-Za-z]*|Address|NodeGUID|SysImageGUID|SerialNumber|'
    rb"LinuxDeviceID|LinuxCgroup|Port\d+(?:LID|LMC|GID\d+)|AMDUUID|NVIDIAUUID|AMDSerial|NVIDIASerial|"
    rb'XGMIHiveID|Kernel[A-Za-z]*|DMI[A-Za-z]*|ProcessName|hwlocVersion)" value="[^"]*"/>'
    rb"|<page_type [^>]*/>"
)
_MEMORY = re.compile(rb'(local_memory|total_memory)="(\d{1,20})(KiB)?"')
_HOST_NAME = re.compile(rb'<info name="HostName" value="([^"]*)"/>')


def digest(xml: bytes) -> bytes:
    """The SHA-256 of hwloc *xml* without what differs between nodes of one kind.

    Sizes of memory count in GiB, as in a topo: the kernel keeps some more or less on each node.
    """
    alike = _MEMORY.sub(_in_gib, _OF_ONE_NODE.sub(b"", xml))
    return hashlib.sha256(alike).digest()


def _in_gib(size: re.Match[bytes]) -> bytes:
    unit = 1 << (10 if size[3] else 0)
    return b'%s="%d"' % (size[1], gib(int(size[2]) * unit))


@attrs.define
class Describer:
    """Reads hwloc XML into topos, all with the same ``levels`` and ``gpu_index``.

    See ``levels.topo_of`` and ``gpus.find`` for these. ``reports`` are those of vendors' tools on
    nodes with GPUs, and ``instances`` has the MIG instances of their GPUs (mig.py).
    """

    levels: Optional[Sequence[str]] = None
    gpu_index: str = "vendor"
    reports: Sequence[ToolReport] = ()
    instances: Sequence[ListedGpu] = ()
    #: How many XML documents were parsed because they were not in the cache.
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
        """The topo of nodes whose XML has the digest *name*; None if it is not in the cache."""
        return self._known.get(name)

    def _of_machine(self, machine: Machine) -> NodeTopo:
        for report in self.reports:
            machine = combined(machine, report)
        if self.instances and machine.gpus:
            machine = with_instances(machine, self.instances)
        if joins_too_many(machine.links, [gpu.model for gpu in machine.gpus]):
            machine = machine.with_warning(
                "hwloc says that xGMI joins all GPUs, but it counts one link for every pair: "
                "--amd-smi says which are joined"
            )
        return topo_of(machine, self.levels)
