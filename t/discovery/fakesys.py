"""Makes sysfs trees: the files that treepool reads of a machine, and hwloc for comparison."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, Iterable, Optional, Sequence

import attrs
from defusedxml import ElementTree

from treepool.discovery.machine import Machine
from treepool.discovery.sysfs import read_sysfs
from treepool.rfc import idset

#: Class, vendor and device of PCI functions.
H100 = ("0x030200", "0x10de", "0x2330")
GH200 = ("0x030200", "0x10de", "0x2342")
MI300A = ("0x120000", "0x1002", "0x74a0")
MI50 = ("0x038000", "0x1002", "0x66a1")
MAX1550 = ("0x038000", "0x8086", "0x0bd5")
BMC = ("0x030000", "0x1a03", "0x2000")
CONNECTX = ("0x020700", "0x15b3", "0x1021")
CXL_MEMORY = ("0x050210", "0x1af4", "0x0d93")


@attrs.define
class Cpu:
    """One PU as topology/ and cache/ tell it; what is None has no file."""

    package: Optional[int] = 0
    die: Optional[int] = None
    core: Optional[int] = 0
    siblings: Optional[Iterable[int]] = None
    #: Numbers of the PUs that share the cache of a level.
    caches: dict[int, Iterable[int]] = attrs.Factory(dict)
    cluster: Optional[Iterable[int]] = None


def text(ids: Iterable[int]) -> str:
    """A list of CPUs or nodes as Linux writes it."""
    return idset.encode(idset.from_ids(ids))


class FakeSys:
    """A tree below *folder*/sys."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "sys"

    def write(self, path: str, content: Any) -> Path:
        """One file, with the newline that Linux ends it with."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            file.write_bytes(content)
        else:
            file.write_text(f"{content}\n")
        return file

    def link(self, path: str, target: str) -> Path:
        """A link to another place of the tree, made if it is not there."""
        (self.root / target).mkdir(parents=True, exist_ok=True)
        link = self.root / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(self.root / target)
        return link

    def cpus(self, cpus: dict[int, Cpu], online: Optional[Iterable[int]] = None) -> None:
        """The CPUs, all of them online unless told otherwise.

        Where hwloc reads a mask and treepool a list of the same, both are written.
        """
        online = sorted(cpus) if online is None else sorted(online)
        base = "devices/system/cpu"
        self.write(f"{base}/online", text(online))
        self.write(f"{base}/possible", text(cpus))
        self.write(f"{base}/present", text(cpus))
        for number, cpu in cpus.items():
            folder = f"{base}/cpu{number}"
            (self.root / folder).mkdir(parents=True)
            if number not in online:
                self.write(f"{folder}/online", 0)
                continue
            self.write(f"{folder}/online", 1)
            (self.root / folder / "topology").mkdir()
            for name, value in (
                ("physical_package_id", cpu.package),
                ("die_id", cpu.die),
                ("core_id", cpu.core),
            ):
                if value is not None:
                    self.write(f"{folder}/topology/{name}", value)
            together = [n for n in online if cpus[n].package == cpu.package]
            self._set(f"{folder}/topology/package_cpus", together)
            if cpu.die is not None:
                together = [n for n in together if cpus[n].die == cpu.die]
                self._set(f"{folder}/topology/die_cpus", together)
            if cpu.siblings is not None:
                self._set(f"{folder}/topology/core_cpus", set(cpu.siblings) & set(online))
            if cpu.cluster is not None:
                self._set(f"{folder}/topology/cluster_cpus", set(cpu.cluster) & set(online))
            for index, (level, shared) in enumerate(sorted(cpu.caches.items())):
                cache = f"{folder}/cache/index{index}"
                self.write(f"{cache}/level", level)
                self.write(f"{cache}/type", "Unified")
                self.write(f"{cache}/size", "1024K")
                self._set(f"{cache}/shared_cpu", set(shared) & set(online), "_list", "_map")

    def _set(self, path: str, ids: Iterable[int], as_list: str = "_list", mask: str = "") -> None:
        bits = idset.from_ids(ids)
        self.write(path + as_list, idset.encode(bits))
        words = [f"{bits >> shift & 0xFFFFFFFF:08x}" for shift in range(0, 256, 32)]
        self.write(path + mask, ",".join(reversed(words)))

    def nodes(
        self,
        nodes: dict[int, Iterable[int]],
        gib: int = 64,
        distances: Optional[dict[int, Sequence[int]]] = None,
    ) -> None:
        """NUMA nodes with the CPUs of each; 10 to itself and 20 to others unless told."""
        base = "devices/system/node"
        self.write(f"{base}/online", text(nodes))
        for number, cpus in nodes.items():
            folder = f"{base}/node{number}"
            self._set(f"{folder}/cpu", cpus, "list", "map")
            self.memory(number, gib)
            row = (distances or {}).get(number, [10 if n == number else 20 for n in sorted(nodes)])
            self.write(f"{folder}/distance", " ".join(map(str, row)))

    def memory(self, node: int, gib: int) -> None:
        """How much memory a NUMA node has."""
        lines = f"Node {node} MemTotal:       {gib << 20} kB\nNode {node} MemFree:  1 kB"
        self.write(f"devices/system/node/node{node}/meminfo", lines)

    def hmat(self, node: int, bandwidth: int, initiators: Iterable[int] = ()) -> None:
        """What the firmware tells of a node: MB/s, and who reaches it best."""
        folder = f"devices/system/node/node{node}/access0/initiators"
        self.write(f"{folder}/read_bandwidth", bandwidth)
        for number in initiators:
            self.link(f"{folder}/node{number}", f"devices/system/node/node{number}")

    def pci(
        self,
        address: str,
        what: tuple[str, str, str],
        numa: int = -1,
        cpus: Optional[str] = None,
        above: str = "",
    ) -> str:
        """A PCI function below the bridges *above* ("pci0000:00/0000:00:01.0"); its folder."""
        place = f"devices/{above or 'pci' + address[:7]}/{address}"
        for name, value in zip(("class", "vendor", "device"), what):
            self.write(f"{place}/{name}", value)
        self.write(f"{place}/numa_node", numa)
        if cpus is not None:
            self.write(f"{place}/local_cpulist", cpus)
        self.link(f"bus/pci/devices/{address}", place)
        return place

    def nic(self, address: str, name: str, group: str = "infiniband", **more: Any) -> str:
        """A NIC that Linux calls *name*."""
        place = self.pci(address, CONNECTX, **more)
        (self.root / place / group / name).mkdir(parents=True)
        return place


def smt(
    packages: int,
    cores: int,
    threads: int = 2,
    dies: int = 0,
    l3: int = 0,
    interleaved: bool = False,
) -> dict[int, Cpu]:
    """The CPUs of a usual machine: first one thread of every core, then the others.

    *cores* are those of a package, *l3* those that share a level 3 cache. Interleaved, a package
    has every so many'th core.
    """
    total = packages * cores
    found = {}
    for number in range(total * threads):
        core = number % total
        package = core % packages if interleaved else core // cores
        within = core // packages if interleaved else core % cores
        siblings = [core + total * t for t in range(threads)]
        caches: dict[int, Iterable[int]] = {1: siblings, 2: siblings}
        if l3:
            same = [
                c
                for c in range(total)
                if (c % packages if interleaved else c // cores) == package
                and (c // packages if interleaved else c % cores) // l3 == within // l3
            ]
            caches[3] = [c + total * t for c in same for t in range(threads)]
        die = None if not dies else within * dies // cores
        found[number] = Cpu(package, die, within, siblings, caches)
    return found


def hwloc_cores(folder: Path, restrict: Optional[int] = None) -> list[tuple[int, ...]]:
    """The PUs of each core of the tree below *folder*, in hwloc's logical order."""
    command = ["lstopo-no-graphics", "--of", "xml"]
    if restrict is not None:
        command += ["--restrict", hex(restrict)]
    environment = {
        "PATH": "/usr/bin:/bin:/usr/local/bin",
        "HWLOC_COMPONENTS": "linux,stop",
        "HWLOC_FSROOT": str(folder),
        "HWLOC_HIDE_ERRORS": "2",
        "HWLOC_THISSYSTEM": "0",
    }
    done = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=True)
    tree = ElementTree.fromstring(done.stdout, forbid_dtd=False)
    return [
        tuple(
            sorted(int(pu.get("os_index")) for pu in core.iter("object") if pu.get("type") == "PU")
        )
        for core in tree.iter("object")
        if core.get("type") == "Core"
    ]


def two_sockets(folder: Path) -> FakeSys:
    """Two sockets of two cores, and a node 2 without CPUs, nearer to the second."""
    fake = FakeSys(folder)
    fake.cpus(smt(packages=2, cores=2, threads=1))
    rows = {0: [10, 21, 24], 1: [21, 10, 14], 2: [24, 14, 10]}
    fake.nodes({0: [0, 1], 1: [2, 3], 2: []}, gib=32, distances=rows)
    return fake


def read(fake: FakeSys, **options: Any) -> Machine:
    """The machine of a tree."""
    return read_sysfs(fake.root, hostname="n0", **options)


def regions(machine: Machine, kind: str) -> list[str]:
    """The core ids of each region of a kind, as idsets."""
    return [idset.encode(region.cores) for region in machine.regions if region.kind == kind]


def check(machine: Machine) -> None:
    """What holds of every machine: regions nest, and each core is in one socket."""
    cores = idset.size(machine.cores)
    assert machine.cores == (1 << cores) - 1
    assert sorted(machine.pus) == list(range(cores))
    every = [pu for pus in machine.pus.values() for pu in pus]
    assert len(set(every)) == len(every)
    masks = [region.cores for region in machine.regions]
    for one in masks:
        assert one and not one & ~machine.cores
        assert all(one & other in (0, one, other) for other in masks)
    sockets = [region.cores for region in machine.regions if region.kind == "socket"]
    for core in range(cores):
        assert sum(mask >> core & 1 for mask in sockets) == 1
    for kind in ("socket", "die", "numa", "l3"):
        same = [region.cores for region in machine.regions if region.kind == kind]
        assert sum(map(idset.size, same)) == idset.size(sum(same))
    assert [gpu.id for gpu in machine.gpus] == list(range(len(machine.gpus)))
