"""What ``treepool replay --add`` adds to a cluster: nodes like others, their names and domains."""

from __future__ import annotations

from typing import Any, Sequence

import attrs

from treepool.errors import InvalidOption
from treepool.placement.nodes.inventory import Inventory
from treepool.rfc import idset
from treepool.rfc.fabric import FabricDomain
from treepool.rfc.findings import shown, shown_ids
from treepool.rfc.quote import did_you_mean
from treepool.rfc.rset import MAX_RANKS, ResourceSet, RLiteEntry, merge_entries


def added(resource_set: ResourceSet, number: int, like: str) -> ResourceSet:
    """*resource_set* and *number* more nodes like *like*: a rank, a host or a property.

    They have the cores, GPUs, topo and properties of that node, and ranks above all others. In the
    fabric they are in new domains, as large as those of that node. Raises InvalidOption if *like*
    names no node, or nodes that differ.
    """
    rank = _rank(resource_set, like)
    first = resource_set.mask.bit_length()
    if first + number > MAX_RANKS:
        raise InvalidOption(f"a cluster has at most {MAX_RANKS} ranks")
    new = ((1 << number) - 1) << first
    taken = set(resource_set.hosts)
    names = [f"added{i}" for i in range(1, len(taken) + number + 1)]
    alike = next(entry for entry in resource_set.entries if entry.ranks >> rank & 1)
    more = RLiteEntry(new, alike.cores, alike.gpus)
    properties = {
        name: mask | new if mask >> rank & 1 else mask
        for name, mask in resource_set.properties.items()
    }
    return attrs.evolve(
        resource_set,
        entries=merge_entries([*resource_set.entries, more]),
        hosts=(*resource_set.hosts, *[name for name in names if name not in taken][:number]),
        properties=properties,
        scheduling=_scheduling(resource_set, rank, range(first, first + number)),
    )


def _rank(resource_set: ResourceSet, like: str) -> int:
    """The node that *like* names, or the first of several that are alike."""
    if like.isascii() and like.isdigit() and len(like) < 12:
        if not resource_set.mask >> int(like) & 1:
            raise InvalidOption(f"rank {int(like)} is not in the cluster")
        return int(like)
    if like in resource_set.hosts:
        return resource_set.ranks[resource_set.hosts.index(like)]
    ranks = resource_set.properties.get(like, 0)
    if not ranks:
        known = (*resource_set.properties, *resource_set.hosts[:1000])
        have = ", ".join(map(shown, list(resource_set.properties)[:8])) or "none"
        hint = did_you_mean(like, known)
        raise InvalidOption(
            f"{shown(like)} is no rank, host or property of the cluster{hint}; properties: {have}"
        )
    types = Inventory.of(resource_set).types
    kinds = {types[rank] for rank in idset.iterate(ranks)}
    if len(kinds) > 1:
        raise InvalidOption(
            f"the nodes with property {shown(like)} (ranks {shown_ids(ranks)}) are of "
            f"{len(kinds)} kinds: give a rank or a host"
        )
    return idset.lowest(ranks)


def _scheduling(resource_set: ResourceSet, rank: int, new: range) -> Any:
    """The scheduling key with ranks *new*, which are as *rank*."""
    key = resource_set.key()
    if key is None:
        return resource_set.scheduling
    mask = idset.from_ids(new)
    children = tuple(
        attrs.evolve(entry, ranks=entry.ranks | mask) if entry.ranks >> rank & 1 else entry
        for entry in key.children
    )
    root = key.fabric
    if root is not None:
        inner = dict(root.inner)
        for locality, domains in _like(root, rank, new).inner:
            inner[locality] += domains
        together = idset.runs(root.mask() | (mask if inner != dict(root.inner) else 0))
        root = attrs.evolve(root, ranks=tuple(together), inner=tuple(inner.items()))
    return attrs.evolve(key, children=children, fabric=root).to_dict()


def _like(domain: FabricDomain, rank: int, new: Sequence[int]) -> FabricDomain:
    """A domain of ranks *new*, divided as *domain* is where it has *rank*."""
    runs = tuple(idset.runs_of_ids(new))
    for locality, child in domain.children():
        if child.mask() >> rank & 1:
            size = idset.size(child.mask())
            parts = [_like(child, rank, new[i : i + size]) for i in range(0, len(new), size)]
            return FabricDomain(runs, ((locality, tuple(parts)),))
    return FabricDomain(runs)
