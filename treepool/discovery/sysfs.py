"""A machine from Linux sysfs alone: the fallback where there is neither hwloc nor a broker.

What sysfs does not tell stays unknown: models of GPUs (but for superchips), links between GPUs,
MIG instances. The same machine read from hwloc XML has the same cores, with the same ids.
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import AbstractSet, Mapping, Optional, Sequence

from treepool.discovery import sysfs_cpu, sysfs_memory, sysfs_pci
from treepool.discovery.machine import KINDS, FarMemory, Gpu, Machine, Region
from treepool.discovery.sysfs_cpu import Nest
from treepool.discovery.sysfs_memory import Node
from treepool.discovery.sysfs_pci import Function
from treepool.rfc import idset
from treepool.rfc.links import Links


def read_sysfs(
    root: Path = Path("/sys"),
    hostname: Optional[str] = None,
    allowed: Optional[AbstractSet[int]] = None,
) -> Machine:
    """The machine whose sysfs is mounted (or copied) at *root*.

    *hostname* is that of this machine if not given. *allowed* are the numbers of the PUs that may
    be used, as the process's affinity tells; as in hwloc, the others are as if they were not there,
    and the cores that are left are numbered from zero. A file that is missing or makes no sense
    means that something is not known. Raises InvalidHardware if no CPU can be found, is online or
    is allowed.
    """
    notes: list[str] = []
    warnings: list[str] = []
    cpu = root / "devices/system/cpu"
    usable = sysfs_cpu.usable_pus(cpu, allowed, notes)
    threads = sysfs_cpu.read_threads(cpu, usable)
    cores = sysfs_cpu.find_cores(threads)
    nodes = sysfs_memory.read_nodes(root / "devices/system/node", warnings)

    nest = Nest(cores)
    packages, dies = sysfs_cpu.package_sets(threads, cores)
    nest.add("socket", packages)
    memory = _add_nodes(nest, nodes, usable, notes, warnings)
    _add(nest, "die", dies, warnings)
    caches = sysfs_cpu.cache_sets(cpu, cores, usable)
    _add(nest, "l3", caches.pop(3, []), warnings)
    for level in sorted(caches, reverse=True):
        # No region, but the order of cores follows these, too.
        nest.add("", caches[level])

    ids = _Ids(cores, nest.order())
    functions = sysfs_pci.read_functions(root)
    gpus, origin = _gpus(root, functions, nodes, ids, notes)
    nics = sysfs_pci.nearest_nics(functions, origin)
    far = _far_memory(root, nodes, origin, ids, notes, warnings)
    return Machine(
        hostname=platform.node() if hostname is None else hostname,
        cores=ids.cores,
        regions=_regions(nest, memory, ids),
        far_memory=tuple(far),
        gpus=tuple(gpus),
        links=Links(nics=tuple(nics)) if nics else None,
        pus=ids.pus,
        numa_nodes={node.number: ids.of_pus(node.pus & usable) for node in memory},
        unified_memory=sysfs_pci.unified_memory(gpus),
        cxl=sysfs_memory.has_cxl(root)
        or sysfs_pci.has_cxl(functions)
        or any(memory.tier == "cxl" for memory in far),
        notes=tuple(notes),
        warnings=tuple(warnings),
    )


class _Ids:
    """The ids of cores, which have so far been numbered by their lowest PU."""

    def __init__(self, cores: Sequence[tuple[int, ...]], order: Sequence[int]) -> None:
        self.pus = {i: cores[core] for i, core in enumerate(order)}
        #: The bitmask of all ids.
        self.cores = (1 << len(cores)) - 1
        self._of_core = {core: i for i, core in enumerate(order)}
        self._of_lowest_pu = {pus[0]: i for i, pus in self.pus.items()}

    def of_cores(self, members: Sequence[int]) -> int:
        """The bitmask of ids of cores numbered by their lowest PU."""
        return idset.from_ids(self._of_core[core] for core in members)

    def of_pus(self, pus: int) -> int:
        """The bitmask of ids of the cores in a set of PUs, which need not all be usable."""
        found = (self._of_lowest_pu.get(pu, -1) for pu in idset.iterate(pus))
        return idset.from_ids(i for i in found if i >= 0)


def _add(nest: Nest, kind: str, sets: Sequence[int], warnings: list[str]) -> list[bool]:
    accepted = nest.add(kind, sets)
    # A set without a core of its own is no loss; one that overlaps others is.
    refused = [pus for pus, fits in zip(sets, accepted) if pus and not fits]
    if refused:
        first = idset.encode(refused[0])
        shown = first if len(first) <= 40 else first[:37] + "..."
        warnings.append(
            f"{len(refused)} of {len(sets)} {kind} sets of CPUs overlap others in part and are "
            f"left out, the first with CPUs {shown}"
        )
    return accepted


def _add_nodes(
    nest: Nest, nodes: Mapping[int, Node], usable: int, notes: list[str], warnings: list[str]
) -> list[Node]:
    """Put in the NUMA nodes with PUs; those that fit, in the order in which they are in."""
    busy = [node for node in nodes.values() if node.pus & usable]
    notes += [
        f"NUMA node {node.number} has no CPU that may be used: it is left out"
        for node in nodes.values()
        if node.pus and not node.pus & usable
    ]
    accepted = _add(nest, "numa", [node.pus & usable for node in busy], warnings)
    return [node for node, fits in zip(busy, accepted) if fits]


def _regions(nest: Nest, memory: Sequence[Node], ids: _Ids) -> tuple[Region, ...]:
    amounts = iter([node.memory for node in memory])
    found = [
        Region(kind, ids.of_cores(members), next(amounts) if kind == "numa" else 0)
        for kind, members in nest.sets()
        if kind
    ]
    found.sort(key=lambda region: (KINDS.index(region.kind), idset.lowest(region.cores)))
    return tuple(found)


def _node_pus(node: Node, nodes: Mapping[int, Node]) -> int:
    """The PUs of a NUMA node, or of the ones it is near to if it has none."""
    pus = node.pus
    for number in idset.iterate(node.near):
        pus |= nodes[number].pus
    return pus


def _far_memory(
    root: Path,
    nodes: Mapping[int, Node],
    gpus: Sequence[Function],
    ids: _Ids,
    notes: list[str],
    warnings: list[str],
) -> list[FarMemory]:
    """The memory of NUMA nodes without PUs, where its tier is known."""
    backing = sysfs_memory.backing_tiers(root, nodes.values(), [gpu.numa for gpu in gpus])
    found = []
    for node in nodes.values():
        if node.pus or not node.memory:
            continue
        tier = sysfs_memory.tier_of(node, nodes, backing)
        size = f"{node.memory >> 30} GiB"
        cores = ids.of_pus(_node_pus(node, nodes))
        if not tier:
            warnings.append(
                f"NUMA node {node.number} ({size}) has no CPUs, and nothing tells its tier: "
                "it is left out"
            )
        elif node.near and not cores:
            notes.append(
                f"NUMA node {node.number} ({size}) is near to no CPU that may be used: "
                "it is left out"
            )
        else:
            found.append(FarMemory(tier, cores, node.memory))
    return found


def _gpus(
    root: Path,
    functions: Sequence[Function],
    nodes: Mapping[int, Node],
    ids: _Ids,
    notes: list[str],
) -> tuple[list[Gpu], list[Function]]:
    """The GPUs, and the PCI function of each."""
    single = sum(1 for node in nodes.values() if node.pus) <= 1

    def near(function: Function) -> int:
        if function.numa in nodes:
            return ids.of_pus(_node_pus(nodes[function.numa], nodes))
        if function.numa >= 0:
            return ids.of_pus(function.pus)
        # Linux then lists all CPUs, which on a machine of several nodes says nothing.
        return ids.cores if single else 0

    return sysfs_pci.make_gpus(root, sysfs_pci.gpu_functions(functions, notes), near)
