"""Words for parts of nodes: a domain, what it has, how it is divided; links of GPUs."""

from __future__ import annotations

from typing import Collection, Optional

from treepool.placement.nodes.tree import NODE, Domain, NodeType
from treepool.rfc import idset
from treepool.rfc.links import Links
from treepool.view.words import count, listed, plain, size

#: The sign between a number and the thing it counts.
TIMES = "\N{MULTIPLICATION SIGN}"

#: How many kinds of sibling a description distinguishes, and how deep it goes.
_MAX_KINDS, _MAX_DEPTH = 4, 6


def title(node_type: NodeType, domain: Domain) -> str:
    """The name of *domain* and its number among the node's domains of that name: "numa 3"."""
    if domain.name == NODE:
        return NODE
    return f"{plain(domain.name)} {node_type.named[domain.name].index(domain)}"


def amounts(domain: Domain, storage: int = 0) -> str:
    """What *domain* has in total: "120 cores, 8 GPUs, 1 TiB, storage 2 TiB"."""
    found = [count(domain.ncores, "core")]
    if domain.gpus:
        found.append(count(idset.size(domain.gpus), "GPU"))
    if domain.memory:
        found.append(size(domain.memory))
    if storage:
        found.append(f"storage {size(storage)}")
    return ", ".join(found)


def makeup(domain: Domain, depth: int = _MAX_DEPTH) -> str:
    """How *domain* is divided, in words such as 2 socket, each 4 numa (15 cores, 1 GPU).

    Empty if it is not divided.
    """
    kinds: dict[str, int] = {}
    for child in domain.children:
        below = makeup(child, depth - 1) if depth else "…"
        if not below:
            inside = f" ({amounts(child)})"
        elif " + " in below:
            inside = f" {TIMES} [{below}]"
        else:
            inside = f" {TIMES} {below}"
        kind = f"{plain(child.name)}{inside}"
        kinds[kind] = kinds.get(kind, 0) + 1
    parts = [f"{number:,} {kind}" for kind, number in list(kinds.items())[:_MAX_KINDS]]
    if len(kinds) > _MAX_KINDS:
        parts.append(f"{len(kinds) - _MAX_KINDS:,} other kinds")
    return " + ".join(parts)


def links_shown(links: Optional[Links], assumed: Collection[str] = ()) -> list[str]:
    """What is known about the GPUs of a kind of node: a line for each model, link, nearest NIC.

    The speeds of links of the types *assumed* were not told.
    """
    if links is None:
        return []
    found = [_device(d.model, d.memory, d.gpus) for d in links.devices]
    for link in links.links:
        groups = ", ".join(_bracketed(group) for group in link.among[:16])
        more = ", …" if len(link.among) > 16 else ""
        pairs = " pairs" if all(idset.size(group) == 2 for group in link.among) else ""
        # The real speed of PCIe depends on facts that are not known; the figure only orders paths.
        pcie = link.type == "pcie"
        speed = "nominal " if pcie else "assumed " if link.type in assumed else ""
        what = f"{plain(link.type)}{pairs} {speed}{link.gbps:g} GB/s"
        found.append(f"{what} among GPUs {groups}{more}")
    nics: dict[str, list[str]] = {}
    for nic in links.nics:
        near = f"nearest to {_gpus(nic.gpus)} ({plain(nic.path)})"
        nics.setdefault(near, []).append(plain(nic.name))
    for near, names in nics.items():
        found.append(f"NIC{'s' * (len(names) > 1)} {', '.join(names)} {near}")
    for device in links.devices:
        if device.c2c:
            speed = "assumed " if "c2c" in assumed else ""
            pair = f"each of {_gpus(device.gpus)} and its CPU"
            found.append(f"c2c {speed}{device.c2c:g} GB/s between {pair}")
    if links.distances is not None:
        distances = links.distances.values[0]
        first = " ".join(map(str, distances[:16])) + " …" * (len(distances) > 16)
        domains = f"{plain(links.distances.locality)} domains"
        found.append(f"distances between {domains}, of the first to each: {first}")
    return found


def gpu_links(links: Optional[Links], gpu: int) -> str:
    """What is known about one GPU: "A100 80 GiB; nvlink 50 GB/s to 1; NIC mlx5_0 (PIX)"."""
    if links is None:
        return ""
    bit = 1 << gpu
    found = [
        f"{plain(d.model)}{f' {d.memory} GiB' if d.memory else ''}"
        for d in links.devices
        if d.gpus & bit
    ]
    for link in links.links:
        peers = idset.union(group & ~bit for group in link.among if group & bit)
        if peers:
            found.append(f"{plain(link.type)} {link.gbps:g} GB/s to {_gpus(peers)}")
    found += [
        f"nearest NIC {plain(nic.name)} ({plain(nic.path)})" for nic in links.nics if nic.gpus & bit
    ]
    return "; ".join(found)


def _device(model: str, memory: int, gpus: int) -> str:
    return f"{_gpus(gpus)}: {plain(model)}{f', {memory} GiB' if memory else ''}"


def _gpus(mask: int) -> str:
    return f"GPU{'s' if mask & (mask - 1) else ''} {listed(idset.encode(mask))}"


def _bracketed(mask: int) -> str:
    return "{" + listed(idset.encode(mask)) + "}"
