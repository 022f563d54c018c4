"""Spare nodes: which nodes of a pool are missed least, and which is the nearest to one that failed.

Those of the most frequent kind, and of these the ones in the smallest domains of the fabric, the
last first: whole domains stay whole, and no kind is used up.
"""

from __future__ import annotations

from typing import Iterator

from treepool.placement.nodes.inventory import Inventory
from treepool.rfc import idset


def preferred(inventory: Inventory, among: int, number: int) -> int:
    """The *number* of nodes (bitmask) *among* these that are missed least, fewer if there are."""
    chosen = 0
    for area in _areas(inventory, among) if number > 0 else ():
        while area and number:
            last = 1 << area.bit_length() - 1
            chosen, area, number = chosen | last, area ^ last, number - 1
    return chosen


def _areas(inventory: Inventory, among: int) -> Iterator[int]:
    """*among* (bitmask) in parts, those first that are missed least."""
    fabric = inventory.fabric
    leaves: list[int] = []
    if fabric is not None:
        order = [(size, -number) for number, size in enumerate(fabric.size)]
        paths = fabric.paths
        leaves = sorted(fabric.leaves(0), key=lambda leaf: [order[d] for d in paths[leaf][::-1]])
    for ranks in sorted(inventory.node_types.values(), key=idset.size, reverse=True):
        if fabric is None:
            yield ranks & among
        elif ranks & among:
            yield from (fabric.part(leaf, ranks & among) for leaf in leaves)


def nearest(inventory: Inventory, spares: int, failed: int, number: int) -> int:
    """The *number* of *spares* (bitmask) that are the nearest to some *failed* node in the fabric;
    where nothing is known, the first of them."""
    fabric, order = inventory.fabric, list(idset.iterate(spares))
    if fabric is not None:
        paths, homes = fabric.paths, fabric.homes
        around = [set(paths[leaf]) for leaf, _ in fabric.leaves_of(failed)]
        shared = {
            leaf: max((len(those.intersection(paths[leaf])) for those in around), default=0)
            for leaf, _ in fabric.leaves_of(spares)
        }
        order.sort(key=lambda rank: -shared[homes[rank][0]])
    return idset.from_ids(order[:number])
