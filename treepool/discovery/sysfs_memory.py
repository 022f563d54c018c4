"""The NUMA nodes of a sysfs tree, and what tier of memory those without CPUs are."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Iterable, Mapping, Sequence

import attrs

from treepool.discovery import sysfs_files as files
from treepool.rfc import idset

#: NUMA node numbers read; Linux has 1024.
MAX_NODES = 1 << 10

#: Devices of one kind looked at.
_MAX_DEVICES = 1 << 8

_MEM_TOTAL = re.compile(r"^Node \d+ MemTotal:\s+(\d{1,15}) kB", re.ASCII | re.MULTILINE)


@attrs.frozen
class Node:
    """One NUMA node: its memory in bytes and the bitmask of its PUs, online ones all.

    ``folder`` is its own in sysfs. ``near`` is 0 or the bitmask of the nodes with PUs that a node
    without is near to.
    """

    number: int
    folder: Path
    pus: int
    memory: int
    near: int = 0


def read_nodes(system: Path, warnings: list[str]) -> dict[int, Node]:
    """The NUMA nodes below *system* (/sys/devices/system/node), by number, ascending.

    A node without PUs is near to the nodes that its firmware names as initiators, as hwloc has it,
    or else to those with the least distance. Adds to *warnings* which nodes cannot be read.
    """
    present = files.numbers(system, "node", MAX_NODES)
    online = files.read_list(system / "online")
    if online is not None:
        present = [n for n in present if online >> n & 1]
    nodes: dict[int, Node] = {}
    for number in present:
        folder = system / f"node{number}"
        pus = files.read_list(folder / "cpulist")
        if pus is None:
            warnings.append(f"NUMA node {number} does not tell its CPUs: it is left out")
            continue
        nodes[number] = Node(number, folder, pus, _memory(folder))
    busy = idset.from_ids(node.number for node in nodes.values() if node.pus)
    for number, node in nodes.items():
        if not node.pus and node.memory:
            near = _initiators(node) & busy or _nearest(node, present, busy)
            nodes[number] = attrs.evolve(node, near=near)
    return nodes


def _memory(folder: Path) -> int:
    match = _MEM_TOTAL.search(files.read_text(folder / "meminfo") or "")
    return int(match.group(1)) << 10 if match else 0


def _initiators(node: Node) -> int:
    """The nodes that reach this one best, as the firmware's HMAT tells."""
    return idset.from_ids(files.numbers(node.folder / "access0/initiators", "node", MAX_NODES))


def _nearest(node: Node, online: Sequence[int], busy: int) -> int:
    """The nodes of *busy* at the least distance; a node's distances are in order of *online*."""
    words = (files.read_text(node.folder / "distance") or "").split()
    if len(words) != len(online) or not all(w.isdigit() and len(w) < 6 for w in words):
        return 0
    distances = {n: int(w) for n, w in zip(online, words) if busy >> n & 1}
    least = min(distances.values(), default=0)
    return idset.from_ids(n for n, distance in distances.items() if distance == least)


def tier_of(node: Node, nodes: Mapping[int, Node], backing: Mapping[int, str]) -> str:
    """The tier of a *node* without PUs, "" if nothing tells that it is a special one.

    *backing* is what ``backing_tiers`` found. High-bandwidth memory is what has twice the read
    bandwidth of the memory of the node it is near to, as hwloc has it.
    """
    if node.number in backing:
        return backing[node.number]
    here = _bandwidth(node)
    there = max((_bandwidth(nodes[n]) for n in idset.iterate(node.near)), default=0)
    return "hbm" if there and here >= 2 * there else ""


def _bandwidth(node: Node) -> int:
    """MB/s of reading from the nearest CPU, 0 if not known."""
    return max(0, files.read_int(node.folder / "access0/initiators/read_bandwidth") or 0)


def backing_tiers(root: Path, nodes: Iterable[Node], gpu_nodes: Iterable[int]) -> dict[int, str]:
    """The tiers of NUMA nodes whose memory is known to be some device's, by node number.

    CXL and non-volatile memory are known by the DAX device it comes through, or by the CXL region
    at its addresses; a GPU's, by the GPU being of that node (*gpu_nodes*).
    """
    tiers = dict.fromkeys(gpu_nodes, "gpumem")
    regions = root / "bus/cxl/devices"
    names = [f"region{n}" for n in files.numbers(regions, "region", _MAX_DEVICES)]
    block = _hex(root / "devices/system/memory/block_size_bytes")
    special = [node for node in nodes if not node.pus]
    for name in names:
        start = files.read_int(regions / name / "resource")
        if block and start is not None:
            first = f"memory{-(-start // block)}"
            tiers.update((n.number, "cxl") for n in special if os.path.lexists(n.folder / first))
    dax = root / "bus/dax/devices"
    for name in files.names(dax)[:_MAX_DEVICES]:
        target = files.read_int(dax / name / "target_node")
        if target is None:
            continue
        # The device's place tells who has the memory: a CXL region, or an NVDIMM bus.
        path = os.path.realpath(dax / name).split(os.sep)
        if any(part.startswith("ndbus") for part in path):
            tiers[target] = "nvm"
        elif any(part in names for part in path):
            tiers[target] = "cxl"
    return tiers


def _hex(path: Path) -> int:
    """The number in a file that Linux writes in hexadecimal without 0x, 0 if there is none."""
    text = files.read_text(path) or ""
    return int(text, 16) if re.fullmatch(r"[0-9a-fA-F]{1,16}", text) else 0


def has_cxl(root: Path) -> bool:
    """Whether there is a CXL memory device, whether or not Linux uses it as memory."""
    return bool(files.numbers(root / "bus/cxl/devices", "mem", _MAX_DEVICES))
