"""Which ranks are of one node type, by topo and R_lite; which ids of R are which of the topo."""

from __future__ import annotations

from typing import Any, Optional, Sequence

from treepool.errors import InvalidKey
from treepool.placement.nodes.compile import Tree, compile_topo, tree_of
from treepool.placement.nodes.link_table import compile_links
from treepool.placement.nodes.tree import NodeType
from treepool.rfc import idset
from treepool.rfc.links import Links, canonical
from treepool.rfc.rset import RLiteEntry
from treepool.rfc.scheduling import AllocatedIds, SchedulingKey

#: Most domains of all kinds of node together: so many, and so many more for each rank. A kind is a
#: topo and what R has of it; Each takes 5 us and 0.5 KB.
FIRST_DOMAINS, DOMAINS_PER_RANK = 1 << 16, 64


def types_of(
    r_lite: Sequence[RLiteEntry],
    key: Optional[SchedulingKey],
    entries: list[int],
) -> list[Optional[NodeType]]:
    """The type of every rank: one object per topo and R_lite children, None without a node.

    ``entries[rank]`` is the place of the rank's entry in *key*, -1 if it has none. What *key* says
    of allocated ids fits *r_lite*. Raises InvalidKey if there are too many domains.
    """
    types: list[Optional[NodeType]] = [None] * len(entries)
    topos = [entry.topo for entry in key.children] if key else []
    first: dict[str, int] = {}
    equal = [first.setdefault(canonical(topo), i) for i, topo in enumerate(topos)]
    links = [key.links_of(topo) for topo in topos] if key else []
    trees: dict[int, Tree] = {}
    ranks = sum(idset.size(entry.ranks) for entry in r_lite)
    most = left = FIRST_DOMAINS + DOMAINS_PER_RANK * ranks

    def compiled(entry: RLiteEntry, i: int, told: Optional[AllocatedIds]) -> NodeType:
        nonlocal left
        topo, connected = (topos[i], links[i]) if i >= 0 else (None, None)
        if key is not None and i >= 0:
            if i not in trees:
                trees[i] = tree_of(key.children[i].tree)
            left -= trees[i][0].size
            if left < 0:
                what = f"more than {most} domains on all kinds of node together"
                raise InvalidKey(f"/scheduling/children: {what}")
        cores = _physical(entry.cores, told.cores) if told is not None else None
        gpus = _physical(entry.gpus, told.gpus) if told is not None else None
        if connected is not None and gpus is not None:
            connected = connected.renumbered(gpus)
        return compile_topo(
            topo,
            entry.cores,
            entry.gpus,
            (cores, gpus),
            compile_links(connected, entry.gpus) if connected else None,
            _gpu_memory(connected),
            told,
            connected.distances if connected else None,
            trees[i] if i >= 0 else None,
        )

    for entry in r_lite:  # no two of them have equal resources
        known: dict[tuple[Any, ...], NodeType] = {}
        found: Optional[NodeType] = None
        last = -2
        for rank in idset.iterate(entry.ranks):
            i = entries[rank]
            if i != last:  # most ranks are like the one before
                last = i
                told = key.children[i].allocated if key is not None and i >= 0 else None
                name = equal[i] if i >= 0 else -1, told
                found = known.get(name)
                if found is None:
                    found = known[name] = compiled(entry, i, told)
            types[rank] = found
    return types


def _physical(ids: int, allocated: int) -> Optional[tuple[int, ...]]:
    """The topo's ids of an R_lite entry's *ids*, in their order; None if they are the same ids.

    Flux numbers the cores of a sub-instance's nodes from zero, perhaps the GPUs, too, and
    allocations there keep these ids. Other tools may keep the topo's ids. Without *allocated*, they
    are not known to be others.
    """
    if ids == allocated or idset.size(ids) != idset.size(allocated):
        return None
    physical = dict(zip(idset.iterate(ids), idset.iterate(allocated)))
    return tuple(physical.get(one, -1) for one in range(ids.bit_length()))


def _gpu_memory(links: Optional[Links]) -> dict[int, int]:
    """The memory in bytes of each GPU for which the link table gives it, by id."""
    return {
        gpu: device.memory << 30
        for device in (links.devices if links is not None else ())
        for gpu in idset.iterate(device.gpus)
        if device.memory
    }
