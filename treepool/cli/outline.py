"""What ``treepool encode --dry-run`` prints: each kind of node as a tree, or as a JSON object."""

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
    host_of = _host_of(encoded)
    for number, kind in enumerate(encoded.kinds):
        if number:
            yield ""
        yield from map(printable, _kind(kind, _hosts(kind, host_of)))
        names = _properties(encoded, kind)
        if names:
            yield printable(f"  properties: {', '.join(names)}")
    if encoded.warnings:
        yield ""
    for warning in encoded.warnings:
        yield printable(f"warning: {warning}")


def facts(encoded: Encoded) -> Iterator[dict[str, Any]]:
    """The JSON objects about *encoded*: one for each kind, and the warnings, if there are any."""
    host_of = _host_of(encoded)
    for kind in encoded.kinds:
        links = kind.node.machine.links
        yield {
            "ranks": idset.encode(kind.ranks),
            "hosts": _hosts(kind, host_of),
            "topo": kind.node.topo,
            "links": None if links is None else links.to_dict(),
            "properties": _properties(encoded, kind),
            "notes": list(kind.node.notes),
            "warnings": list(kind.node.warnings),
        }
    if encoded.warnings:
        yield {"warnings": list(encoded.warnings)}


def _host_of(encoded: Encoded) -> dict[int, str]:
    return dict(zip(idset.iterate(encoded.R.ranks), encoded.R.hosts))


def _hosts(kind: Nodes, host_of: Mapping[int, str]) -> str:
    named = [host_of[rank] for rank in idset.iterate(kind.ranks) if rank in host_of]
    return hostlist.encode(named)


def _properties(encoded: Encoded, kind: Nodes) -> list[str]:
    return sorted(name for name, ranks in encoded.R.properties.items() if ranks & kind.ranks)


def _kind(kind: Nodes, hosts: str) -> Iterator[str]:
    count = "1 node" if (size := idset.size(kind.ranks)) == 1 else f"{size} nodes"
    of = f"{hosts} (rank {idset.encode(kind.ranks)})"
    yield f"{count}: {of}: {outline(kind.node.topo)}"
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
