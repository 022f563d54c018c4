"""The R of a pool (RFC 20): of all nodes, of those that are down, or of what is allocated."""

from __future__ import annotations

from typing import Iterable

import attrs

from treepool.placement.nodes.index import NodeIndex
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.rankset import ranks_of
from treepool.rfc import idset
from treepool.rfc.rset import ResourceSet, RLiteEntry, merge_entries


def all_R(inventory: Inventory) -> ResourceSet:
    """All that the nodes have, with the key as it was given, cut to the ranks that are left."""
    key, given = inventory.key, inventory.resource_set
    return attrs.evolve(given, scheduling=key.to_dict()) if key else given


def allocated_R(inventory: Inventory, index: NodeIndex) -> ResourceSet:
    """What is allocated, without the key; it may be nothing."""
    entries = []
    for state, ranks in ranks_of(index.state_of, inventory.ranks).items():
        root = state.type.root
        cores, gpus = root.cores & ~state.cores, root.gpus & ~state.gpus
        if cores or gpus:
            entries.append(RLiteEntry(ranks.mask(), cores, gpus))
    return _with(inventory, entries)


def down_R(inventory: Inventory, index: NodeIndex) -> ResourceSet:
    """All that the nodes have that are down, without the key; they may be none."""
    up = idset.from_flags(index.up)
    down = (attrs.evolve(e, ranks=e.ranks & ~up) for e in inventory.resource_set.entries)
    return _with(inventory, (entry for entry in down if entry.ranks))


def _with(inventory: Inventory, entries: Iterable[RLiteEntry]) -> ResourceSet:
    """A resource set of *entries*, without key and nslots."""
    merged = merge_entries(entries)
    ranks = idset.union(entry.ranks for entry in merged)
    having = inventory.resource_set.properties.items()
    properties = {name: mask & ranks for name, mask in having if mask & ranks}
    hosts = tuple(inventory.hosts[rank] for rank in idset.iterate(ranks))
    return ResourceSet(merged, hosts, properties)
