"""What ``treepool encode --dry-run`` prints: each kind of node as a tree, in plain text."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Optional

from treepool.cli.screen import printable
from treepool.discovery.key import Encoded, Nodes, outline
from treepool.discovery.machine import Machine
from treepool.rfc import hostlist, idset
from treepool.rfc.links import Links
from treepool.rfc.topo import nested

#: Most groups of GPUs shown for one kind of link.
_MOST = 8


def lines(encoded: Encoded) -> Iterator[str]:
    """The lines about *encoded*, printable."""
    host_of = dict(zip(idset.iterate(encoded.R.ranks), encoded.R.hosts))
    for number, kind in enumerate(encoded.kinds):
        if number:
            yield ""
        yield from map(printable, _kind(kind, host_of))
        names = sorted(n for n, ranks in encoded.R.properties.items() if ranks & kind.ranks)
        if names:
            yield printable(f"  properties: {', '.join(names)}")
    if encoded.warnings:
        yield ""
    for warning in encoded.warnings:
        yield printable(f"warning: {warning}")


def _kind(kind: Nodes, host_of: Mapping[int, str]) -> Iterator[str]:
    ranks = list(idset.iterate(kind.ranks))
    hosts = hostlist.encode([host_of[rank] for rank in ranks if rank in host_of])
    count = "1 node" if len(ranks) == 1 else f"{len(ranks)} nodes"
    yield f"{count}: {hosts} (rank {idset.encode(kind.ranks)}): {outline(kind.node.topo)}"
    yield from _domain("node", kind.node.topo, "", kind.node.machine)
    links = kind.node.machine.links
    if links is not None:
        yield from _links(links)
    for note in kind.node.notes:
        yield f"  note: {note}"
    for warning in kind.node.warnings:
        yield f"  warning: {warning}"


def _domain(
    name: str, topo: Mapping[str, Any], indent: str, machine: Machine, last: Optional[bool] = None
) -> Iterator[str]:
    branch = "" if last is None else "└─ " if last else "├─ "
    words = [f"{indent}{branch}{name}"]
    if "cores" in topo:
        words.append(f"cores {topo['cores']}")
    if "gpus" in topo:
        words.append(f"gpus {topo['gpus']}{_models(topo['gpus'], machine)}")
    if "memory" in topo:
        words.append(f"{topo['memory']} GiB")
    yield "  ".join(words)
    inside = list(nested(topo))
    below = indent + ("" if last is None else "   " if last else "│  ")
    for i, (kind, item) in enumerate(inside):
        count = sum(1 for k, _ in inside[:i] if k == kind)
        label = f"{kind} {count}" if sum(k == kind for k, _ in inside) > 1 else kind
        yield from _domain(label, item, below, machine, i == len(inside) - 1)


def _models(ids: str, machine: Machine) -> str:
    wanted = set(idset.iterate(idset.decode(ids)))
    found = {
        " ".join(word for word in (gpu.model, gpu.profile) if word)
        for gpu in machine.gpus
        if gpu.id in wanted
    } - {""}
    return f" ({', '.join(sorted(found))})" if found else ""


def _links(links: Links) -> Iterator[str]:
    if links.links:
        yield f"  links ({links.kind}):"
    for link in links.links:
        shown = [f"[{idset.encode(mask)}]" for mask in link.among[:_MOST]]
        if len(link.among) > _MOST:
            shown.append(f"and {len(link.among) - _MOST} more")
        # The real speed of PCIe depends on facts that are not known; the figure only orders paths.
        speed = "nominal " if link.type == "pcie" else ""
        yield f"    {link.type} {speed}{link.gbps:g} GB/s among gpus {' '.join(shown)}"
    for nic in links.nics:
        yield f"  nic {nic.name} is nearest to gpus {idset.encode(nic.gpus)} ({nic.path})"
    if links.distances is not None:
        rows = links.distances.values
        yield f"  distances between {links.distances.locality} domains, of the first to each:"
        yield f"    {' '.join(map(str, rows[0]))}"
