"""The R (RFC 20) of a job; and of a pool: all nodes, those that are down, or what is allocated.

The key in the R of a job is cut to its ranks (RFC 49, "Allocated R"). A key of another writer is
carried along as it is, but for Fluxion's.
"""

from __future__ import annotations

import math
from typing import Any, Iterable, Optional, Sequence

import attrs

from treepool.placement.nodes.index import NodeIndex
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.state import Held
from treepool.placement.nodes.tree import NodeType
from treepool.rfc import hostlist, idset
from treepool.rfc.rset import MAX_TIME, ResourceSet, RLiteEntry, merge_entries, r_lite_entry
from treepool.rfc.scheduling import SOME, AllocatedIds, SchedulingKey, is_fluxion

#: When a job without a limit ends in an R of Fluxion's: the last second that C++'s clock can count.
#: Fluxion 0.54 ends jobs whose R has 0 there instead if 2**63 less their start, as a double, is too
#: large by rounding, which holds for every second start.
_NEVER = 9223372036.0


def all_R(inventory: Inventory) -> ResourceSet:
    """All that the nodes have, with the key as it was given, cut to the ranks that are left."""
    key, given = inventory.key, inventory.resource_set
    return attrs.evolve(given, scheduling=key.shared()) if key else given


def allocated_R(inventory: Inventory, index: NodeIndex) -> ResourceSet:
    """What is allocated, without the key; it may be nothing."""
    entries = []
    for state, ranks in idset.by_value(index.state_of, inventory.ranks).items():
        root = state.type.root
        cores, gpus = root.cores & ~state.cores, root.gpus & ~state.gpus
        if cores or gpus:
            entries.append(RLiteEntry(ranks, cores, gpus))
    return _with(inventory, entries)


def down_R(inventory: Inventory, index: NodeIndex) -> ResourceSet:
    """All that the nodes have that are down, without the key; they may be none."""
    down = (attrs.evolve(e, ranks=e.ranks & ~index.up) for e in inventory.resource_set.entries)
    return _with(inventory, (entry for entry in down if entry.ranks))


def _with(inventory: Inventory, entries: Iterable[RLiteEntry]) -> ResourceSet:
    """A resource set of *entries*, without key and nslots."""
    merged = merge_entries(entries)
    ranks = idset.union(entry.ranks for entry in merged)
    having = inventory.resource_set.properties.items()
    properties = {name: mask & ranks for name, mask in having if mask & ranks}
    hosts = tuple(inventory.hosts[rank] for rank in idset.iterate(ranks))
    return ResourceSet(merged, hosts, properties)


def job_R(
    inventory: Inventory,
    parts: Sequence[Held],
    nslots: int,
    starttime: float,
    expiration: float,
    keyed: bool,
) -> dict[str, Any]:
    """The RFC 20 R of a job that was given *parts*; with the key of its ranks if *keyed*.

    Otherwise it is as Fluxion writes it, which takes the job over only then.

    A job that has an end gets an ``expiration`` after its ``starttime``, whatever its duration.
    The result shares topos with the pool's own key: treat it as read-only below ``scheduling``.
    """
    ranks, hosts = idset.union(part[0] for part in parts), inventory.hosts
    execution: dict[str, Any] = {
        "R_lite": [r_lite_entry(idset.encode(having), *ids) for having, *ids in parts],
        "nodelist": [hostlist.encode([hosts[rank] for rank in idset.iterate(ranks)])],
        "nslots": nslots,
    }
    properties = _properties(inventory, ranks)
    if properties:
        execution["properties"] = properties
    execution["starttime"] = starttime
    # RFC 14 sets no limit to a duration. An end after MAX_TIME could not be read back, nor one that
    # is not after the start: of a duration that is lost when it is added to a time, or was over
    # before the job started.
    if expiration:
        expiration = min(max(expiration, math.nextafter(starttime, math.inf)), MAX_TIME)
    execution["expiration"] = expiration
    r: dict[str, Any] = {"version": 1, "execution": execution}
    if not keyed:
        execution["expiration"] = execution["expiration"] or _NEVER
        return r
    if inventory.key is not None:
        r["scheduling"] = _key_dict(inventory, inventory.key, parts, ranks)
        return r
    key = inventory.resource_set.scheduling
    # Fluxion's has what other jobs hold: it would not start in an instance inside the job, and ends
    # the job where it takes over.
    if key is not None and not is_fluxion(key):
        r["scheduling"] = key
    return r


def _key_dict(
    inventory: Inventory, key: SchedulingKey, parts: Sequence[Held], ranks: int
) -> dict[str, Any]:
    groups: dict[tuple[int, Optional[AllocatedIds]], int] = {}
    for some, cores, gpus in parts:
        for (i, node_type), having in inventory.kinds(some):
            told = _allocated(node_type, cores, gpus) if node_type is not None else None
            groups[i, told] = groups.get((i, told), 0) | having
    kinds = sorted((i, having & -having, having, told) for (i, told), having in groups.items())
    children = [key.children[i].of_job(idset.encode(some), told) for i, _, some, told in kinds]
    found = {"writer": key.writer, "children": children, **key.extra}
    fabric = inventory.fabric.cut(ranks) if inventory.fabric is not None else None
    if fabric is not None:
        found["fabric"] = fabric
    return found


def _allocated(node_type: NodeType, cores: int, gpus: int) -> Optional[AllocatedIds]:
    """The topo's ids of the *cores* and *gpus* that a job has on a node.

    None where the job has all that the pool had, if that is all of the node and the ids are the
    topo's first ones: Flux may number both from zero in a sub-instance, so a reader could not tell
    which others these are.
    """
    root, physical = node_type.root, node_type.physical
    ids = _topo_ids(cores, physical[0]), _topo_ids(gpus, physical[1])
    first = not any(mask & (mask + 1) for mask in ids)
    everything = cores == root.cores and gpus == root.gpus
    if first and everything and not node_type.partial:
        return None
    return SOME if node_type.unsure else AllocatedIds(*ids, *node_type.site)


def _properties(inventory: Inventory, ranks: int) -> dict[str, str]:
    """The properties that some of *ranks* (bitmask) have, and which of them, as RFC 22 text."""
    found = ((name, mask & ranks) for name, mask in inventory.inherited)
    return {name: idset.encode(mask) for name, mask in found if mask}


def _topo_ids(ids: int, physical: Optional[Sequence[int]]) -> int:
    """*ids* of R as the topo has them."""
    return ids if physical is None else idset.from_ids(physical[i] for i in idset.iterate(ids))
