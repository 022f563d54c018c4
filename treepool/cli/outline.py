"""What ``treepool encode --dry-run`` prints: kinds of node and the fabric, as trees or as JSON."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Any, Iterable, Iterator, Mapping, Optional

from treepool.discovery.key import Encoded, Nodes, outline
from treepool.discovery.machine import Machine
from treepool.rfc import hostlist, idset
from treepool.rfc.fabric import FabricDomain
from treepool.rfc.topo import Topo, read
from treepool.view.nodewords import links_shown

#: Most domains of the fabric that are shown.
_MOST_DOMAINS = 64


def lines(encoded: Encoded) -> Iterator[str]:
    """The lines about *encoded*: parts with an empty line between them."""
    host_of = _host_of(encoded)
    parts: list[Iterable[str]] = [
        (*_kind(kind, _hosts(kind.ranks, host_of)), *_property_lines(encoded, kind))
        for kind in encoded.kinds
    ]
    fabric = _fabric(encoded)
    if fabric is not None:
        parts.append(_fabric_lines(fabric, host_of))
    if encoded.warnings:
        parts.append(f"warning: {warning}" for warning in encoded.warnings)
    if encoded.read:
        parts.append(f"read {line}" for line in encoded.read)
    for number, part in enumerate(parts):
        if number:
            yield ""
        yield from part


def facts(encoded: Encoded) -> Iterator[dict[str, Any]]:
    """The JSON objects about *encoded*: one for each kind, then the others, if any."""
    host_of = _host_of(encoded)
    for kind in encoded.kinds:
        yield {
            "ranks": idset.encode(kind.ranks),
            "hosts": _hosts(kind.ranks, host_of),
            "topo": kind.node.topo,
            "links": kind.node.machine.links,
            "properties": _properties(encoded, kind),
            "notes": list(kind.node.notes),
            "warnings": list(kind.node.warnings),
        }
    fabric = _fabric(encoded)
    if fabric is not None:
        yield {"fabric": fabric}
    if encoded.warnings:
        yield {"warnings": list(encoded.warnings)}
    if encoded.read:
        yield {"read": list(encoded.read)}


def _host_of(encoded: Encoded) -> dict[int, str]:
    return dict(zip(idset.iterate(encoded.R.mask), encoded.R.hosts))


def _hosts(ranks: int, host_of: Mapping[int, str]) -> str:
    return hostlist.encode([host_of[rank] for rank in idset.iterate(ranks) if rank in host_of])


def _fabric(encoded: Encoded) -> Optional[FabricDomain]:
    key = encoded.R.key()
    return None if key is None else key.fabric


def _property_lines(encoded: Encoded, kind: Nodes) -> Iterator[str]:
    names = _properties(encoded, kind)
    if names:
        yield f"  properties: {', '.join(names)}"


def _properties(encoded: Encoded, kind: Nodes) -> list[str]:
    return sorted(name for name, ranks in encoded.R.properties.items() if ranks & kind.ranks)


def _kind(kind: Nodes, hosts: str) -> Iterator[str]:
    count = "1 node" if (size := idset.size(kind.ranks)) == 1 else f"{size} nodes"
    of = f"{hosts} (rank {idset.encode(kind.ranks)})"
    yield f"{count}: {of}: {outline(kind.node.topo)}"
    yield from _drawn(_domain("node", read(kind.node.topo), kind.node.machine))
    for line in links_shown(kind.node.machine.links, kind.node.machine.assumed):
        yield f"  {line}"
    for note in kind.node.notes:
        yield f"  note: {note}"
    for warning in kind.node.warnings:
        yield f"  warning: {warning}"


#: A tree to draw: the text of its root, and the trees below.
_Tree = tuple[str, list[Any]]


def _drawn(tree: _Tree, indent: str = "", last: Optional[bool] = None) -> Iterator[str]:
    text, inside = tree
    branch = "" if last is None else "└─ " if last else "├─ "
    yield f"{indent}{branch}{text}"
    below = indent + ("" if last is None else "   " if last else "│  ")
    for number, one in enumerate(inside, 1):
        yield from _drawn(one, below, number == len(inside))


def _domain(label: str, topo: Topo, machine: Machine) -> _Tree:
    words = [label]
    cores = topo.cores & ~idset.union(inner.cores for inner in topo.inside)
    gpus = topo.gpus & ~idset.union(inner.gpus for inner in topo.inside)
    if cores:
        words.append(f"cores {idset.encode(cores)}")
    if gpus:
        words.append(f"gpus {idset.encode(gpus)}{_models(gpus, machine)}")
    if topo.memory:
        words.append(f"{topo.memory >> 30} GiB")
    trees = []
    kinds = Counter(domain.locality for domain in topo.inside)
    seen: Counter[str] = Counter()
    for domain in topo.inside:
        kind = domain.locality
        trees.append(_domain(f"{kind} {seen[kind]}" if kinds[kind] > 1 else kind, domain, machine))
        seen[kind] += 1
    return "  ".join(words), trees


def _fabric_lines(fabric: FabricDomain, host_of: Mapping[int, str]) -> Iterator[str]:
    found = list(islice(_drawn(_above("fabric", fabric, host_of)), _MOST_DOMAINS + 2))
    yield from found[: _MOST_DOMAINS + 1]
    if len(found) > _MOST_DOMAINS + 1:
        yield "... and more domains"


def _above(label: str, domain: FabricDomain, host_of: Mapping[int, str]) -> _Tree:
    """A domain above the nodes, with the nodes that are in no domain inside it."""
    inside = [_above(name, one, host_of) for name, one in domain.children()]
    text = f"{label} {domain.name}" if domain.name else label
    ranks = domain.mask() & ~idset.union(one.mask() for _, one in domain.children())
    if ranks:
        text += f"  {_hosts(ranks, host_of)} (rank {idset.encode(ranks)})"
    return text, inside


def _models(ids: int, machine: Machine) -> str:
    found = {
        " ".join(word for word in (gpu.model, gpu.profile) if word)
        for gpu in machine.gpus
        if ids >> gpu.id & 1
    } - {""}
    return f" ({', '.join(sorted(found))})" if found else ""
