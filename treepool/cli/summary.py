"""The contents of a valid file in one line: nodes, kinds of nodes, the localities of each."""

from __future__ import annotations

from collections import Counter
from typing import Any, Mapping, Sequence

from treepool.errors import InvalidInput
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.tree import NodeType
from treepool.rfc import idset
from treepool.rfc.rset import ResourceSet
from treepool.rfc.scheduling import SchedulingKey
from treepool.rfc.shape import format_shape
from treepool.rfc.topo import ids, walk

#: Most kinds of nodes that are described; the others are only counted.
MAX_KINDS = 4


def of_R(R: Mapping[str, Any]) -> str:
    """The contents of a valid *R*, as treepool reads it."""
    inventory = Inventory.of(ResourceSet.read(R))
    kinds = [(len(ranks), _of_type(t)) for t, ranks in inventory.node_types.items()]
    text = f"{_number(idset.size(inventory.ranks), 'node')}: {_kinds(kinds)}"
    if inventory.key is None:
        scheduling = inventory.resource_set.scheduling
        if scheduling is None:
            return f"{text}; no scheduling key"
        return f"{text}; the scheduling key is for {scheduling.get('writer', 'fluxion')}, not us"
    return text


def of_key(key: Mapping[str, Any]) -> str:
    """The contents of the topos in a valid scheduling *key*."""
    entries = SchedulingKey.read(key).children
    if not entries:
        return "all nodes are flat"
    kinds = [(idset.size(entry.ranks), _of_topo(entry.topo)) for entry in entries]
    return f"{_number(sum(size for size, _ in kinds), 'rank')}: {_kinds(kinds)}"


def of_resources(resources: list[dict[str, Any]]) -> str:
    """A valid resource list as an equivalent shape."""
    try:
        return format_shape(resources)
    except InvalidInput:  # such as a slot without a label, which occurs in flux-core's tests
        return "no shape can say what it asks for"


def _kinds(kinds: Sequence[tuple[int, str]]) -> str:
    shown = [f"{count} x [{text}]" for count, text in kinds[:MAX_KINDS]]
    if len(kinds) > MAX_KINDS:
        shown.append(f"{len(kinds) - MAX_KINDS} more kinds")
    return ", ".join(shown)


def _of_type(node_type: NodeType) -> str:
    root = node_type.root
    localities = Counter(domain.name for domain in root.walk() if domain is not root)
    return _described(root.cores, root.gpus, localities)


def _of_topo(topo: Mapping[str, Any]) -> str:
    return _described(*ids(topo), Counter(name for name, _ in walk(topo)))


def _described(cores: int, gpus: int, localities: Mapping[str, int]) -> str:
    parts = [_number(idset.size(cores), "core")]
    if gpus:
        parts.append(_number(idset.size(gpus), "GPU"))
    parts += [f"{count} {name}" for name, count in localities.items()]
    return ", ".join(parts)


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
