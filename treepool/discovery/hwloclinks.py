"""The link table of a node from hwloc XML: which NICs count, which cores a GPU or NIC is near."""

from __future__ import annotations

import re
from itertools import combinations, takewhile
from typing import Hashable, Optional, Sequence

from treepool.discovery import linking
from treepool.discovery.gpus import FoundGpu
from treepool.discovery.hwlocxml import MEMORY, CoresOf, Distances, Object, Topology, number
from treepool.discovery.linking import DeviceAt
from treepool.discovery.machine import Region, c2c_gbps, gib
from treepool.rfc import idset
from treepool.rfc.links import MAX_GPUS, Device, Links, Wire

_NETWORK = re.compile(r"02[0-9a-f]{2} ", re.ASCII)
_PORT_STATE = re.compile(r"Port\d{1,3}State", re.ASCII)

#: hwloc's type of OS devices that are RDMA ports (InfiniBand, RoCE): a number in hwloc 1 and 2, a
#: bit of a set in hwloc 3.
_RDMA_TYPE, _RDMA_BIT = 3, 1 << 5


def read_links(
    topology: Topology, gpus: Sequence[FoundGpu], cores_of: CoresOf, regions: Sequence[Region]
) -> Optional[Links]:
    """The link table of *gpus*, in the order of their ids; None without, or with too many.

    hwloc's matrices say which GPUs are joined; the other pairs have the PCIe path between their
    places, and each GPU the NICs on the shortest paths. *regions* has the NUMA nodes and sockets.
    """
    if not 0 < len(gpus) <= MAX_GPUS:
        return None
    ids, matrices = _ids(gpus), list(filter(_usable, topology.distances))
    near = {gpu.id: near_cores(gpu.device, cores_of) for gpu in gpus}
    fast = linking.fast_pairs(matrices, ids, _switch_keys(topology.root, gpus))
    for pair, wire in fast.items():
        if linking.is_nominal(wire):
            fast[pair] = Wire(wire.type, linking.xgmi_gbps(pair, gpus[pair[0]].model, near))
    fast.update(_tiles(gpus))
    places = _Places(topology.root, cores_of, regions)
    return linking.table(
        fast,
        {gpu.id: places.of(str(gpu.id), gpu.device) for gpu in gpus},
        [places.of(name, device) for name, device in _nics(topology.root)],
        _devices(gpus),
        linking.routed_pairs(matrices, ids),
    )


class _Places:
    """Where devices are, by the bridges and the objects around them.

    A device is in the smallest NUMA node and socket with all cores of the object that its bus is
    attached to. If no CPU of that object may be used, others of the NUMA node or socket perhaps
    may.
    """

    def __init__(self, root: Object, cores_of: CoresOf, regions: Sequence[Region]) -> None:
        self._cores_of = cores_of
        memory = [item for item in root.walk() if item.type in MEMORY]
        #: The objects (by id) that are or have memory.
        self._with_memory = {id(o) for item in memory for o in (item, item.parent)}
        #: The cores of NUMA nodes and sockets, and those of them around some cores.
        self._regions = {(r.kind, r.cores) for r in regions}
        self._inside: dict[tuple[str, int], Optional[int]] = {}

    def of(self, key: str, device: Object) -> DeviceAt:
        """Where *device*, called *key*, is."""
        around = [*device.around()]
        near = self._cores_of(next((o for o in around if o.cpuset is not None), None))
        bridges = [*takewhile(lambda o: o.type == "Bridge", around)]
        with_memory = next((o for o in around if id(o) in self._with_memory), None)
        numa = self._around("numa", near, with_memory)
        socket = self._around("socket", near, device.above("Package"))
        return DeviceAt(key, tuple(bridges[::-1]), numa, socket)

    def _around(self, kind: str, near: int, holder: Optional[Object]) -> Hashable:
        if not near:
            return holder and (self._cores_of(holder) or holder)
        if (kind, near) not in self._inside:
            around = (cores for k, cores in self._regions if k == kind and not near & ~cores)
            self._inside[kind, near] = min(around, key=idset.size, default=None)
        return self._inside[kind, near]


def _tiles(gpus: Sequence[FoundGpu]) -> linking.Pairs:
    """The pairs of tiles of one Intel GPU."""
    tiles = [gpu for gpu in gpus if gpu.vendor == "intel" and gpu.profile]
    pairs = [(a.id, b.id) for a, b in combinations(tiles, 2) if a.device is b.device]
    return dict.fromkeys(pairs, Wire("xelink", linking.TILES_GBPS))


def near_cores(device: Object, cores_of: CoresOf) -> int:
    """The cores of the object that the bus of a device is attached to; 0 if it is the machine."""
    here = next((o for o in device.around() if o.cpuset), None)
    return 0 if here is None or here.type == "Machine" else cores_of(here)


def _ids(gpus: Sequence[FoundGpu]) -> dict[str, int]:
    """The GPU ids of the objects that represent GPUs, by the objects' keys in matrices."""
    ids: dict[str, int] = {}
    several = [gpu.device for gpu in gpus]
    for gpu in gpus:
        if several.count(gpu.device) > 1:
            objects = [gpu.osdev]  # the PCI device represents all its partitions
        else:
            objects = [gpu.device, *gpu.device.walk()]
        for item in objects:
            if "gp_index" in item.attributes:
                ids[_key(item)] = gpu.id
    return ids


def _switch_keys(root: Object, gpus: Sequence[FoundGpu]) -> frozenset[str]:
    """The keys of the PCI devices that are not GPUs. Those of them in a matrix are switches."""
    devices = {id(gpu.device) for gpu in gpus}
    return frozenset(
        _key(item) for item in root.walk() if item.type == "PCIDev" and id(item) not in devices
    )


def is_nvswitch(item: Object) -> bool:
    """Whether a PCI device is an NVSwitch. hwloc without NVML shows only its class and vendor."""
    kind = item.attributes.get("pci_type", "").lower()
    return item.type == "PCIDev" and (item.subtype == "NVSwitch" or kind.startswith("0680 [10de:"))


def _key(item: Object) -> str:
    return f"{item.type}:{item.attributes.get('gp_index', '')}"


def _usable(matrix: Distances) -> bool:
    """Whether a matrix is square, and about distinct objects that have a gp_index."""
    size = len(matrix.objects)
    return matrix.by_gp and len(matrix.values) == size**2 and len(set(matrix.objects)) == size


def _nics(root: Object) -> list[tuple[str, Object]]:
    """The NICs that jobs communicate through, best first, without those for console or service.

    RDMA ports that are down are left out if others are up, then NICs that are known to be less than
    half as fast as the fastest, then NICs without RDMA if others have it.
    """
    found: list[tuple[Object, float, str, Object]] = []
    for device in root.walk():
        if device.type == "PCIDev" and _NETWORK.match(device.attributes.get("pci_type", "")):
            ports = [o for o in device.walk() if o.type == "OSDev" and _printable(o.name)]
            ports.sort(key=lambda port: (not _is_rdma(port), port.name))
            if ports:
                name = _printable(ports[0].name)
                found.append((ports[0], _speed(device), name, device))
    if any(_is_up(port) for port, _, _, _ in found):
        found = [nic for nic in found if _is_up(nic[0]) is not False]
    fastest = max((speed for _, speed, _, _ in found), default=0.0)
    # hwloc rounds: twice the speed of half the lanes may be a little less than that of all lanes.
    kept = [nic for nic in found if nic[1] and 2.01 * nic[1] >= fastest]
    if not any(_is_rdma(nic[0]) for nic in kept):  # a speed of 0 is not known: a virtual function
        kept += [nic for nic in found if not nic[1] and _is_rdma(nic[0])]
    kept = [nic for nic in kept if _is_rdma(nic[0])] or kept or found
    kept.sort(key=lambda nic: (-nic[1], nic[2]))
    return [(name, device) for _, _, name, device in kept]


def rdma_ports(root: Object) -> frozenset[str]:
    """The names of the NICs that are RDMA ports."""
    return frozenset(_printable(o.name) for o in root.walk() if o.type == "OSDev" and _is_rdma(o))


def _is_up(port: Object) -> Optional[bool]:
    """Whether an RDMA port is active, which is state 4 in Linux; None if not known."""
    states = [value for name, value in port.infos.items() if _PORT_STATE.fullmatch(name)]
    return any(state.startswith("4") for state in states) if states else None


def _is_rdma(port: Object) -> bool:
    kind = number(port.attributes.get("osdev_type", ""))
    return kind == _RDMA_TYPE or bool(kind & _RDMA_BIT)


def _speed(device: Object) -> float:
    """The speed of the device's PCI link in GB/s, 0 if hwloc does not know it."""
    try:
        speed = float(device.attributes.get("pci_link_speed", "0"))
    except ValueError:
        return 0.0
    return speed if 0 <= speed < 1e6 else 0.0


def _devices(gpus: Sequence[FoundGpu]) -> list[Device]:
    names = (f"{_printable(gpu.model)} {gpu.profile}".strip()[:128] for gpu in gpus)
    kinds = idset.gathered(
        ((name, gib(g.memory)), 1 << g.id) for name, g in zip(names, gpus) if name
    )
    return [Device(name, memory, ids, c2c_gbps(name)) for (name, memory), ids in kinds.items()]


def _printable(text: str) -> str:
    return "".join(c for c in text if c.isprintable())[:100].strip()
