"""Jobs whose nodes must be alike: the same driver, firmware, or whatever a property tells.

A property family is all properties that begin alike up to a colon: ``driver:550`` and
``driver:560`` are of the family driver. A job that asks for the same driver is tried on the
nodes of each member in turn.
"""

from __future__ import annotations

from typing import Iterator, Optional

import attrs

from treepool.placement.nodes.index import NodeIndex
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.request.vertices import Request
from treepool.rfc.constraint import Constraint


def alternatives(
    request: Request, inventory: Inventory, index: NodeIndex
) -> Iterator[Optional[Constraint]]:
    """The constraints under which *request* is to be tried, one after another.

    Just its own, unless its nodes must be alike: then, of the members of the family, the one with
    the fewest free cores on its nodes first, then the fewest free GPUs (best fit: what is free in
    large remains so); and last, if alike nodes are only preferred, any nodes. The pool takes the
    first of those that serve it best.
    """
    same = request.same
    if same is None:
        yield request.constraint
        return
    found = [_with(request.constraint, name) for name in members(same.family, inventory)]
    free = {constraint: _free(constraint, inventory, index) for constraint in found}
    yield from sorted(found, key=lambda constraint: free[constraint])
    if not same.required:
        yield request.constraint


def members(family: str, inventory: Inventory) -> list[str]:
    """The properties of *family* that some node has, sorted."""
    prefix = family + ":"
    return sorted(name for name in inventory.resource_set.properties if name.startswith(prefix))


def narrowed(request: Request, name: str) -> Request:
    """*request* for the nodes with property *name* only."""
    return attrs.evolve(request, constraint=_with(request.constraint, name), same=None)


def _with(constraint: Optional[Constraint], name: str) -> Constraint:
    one = Constraint("properties", (name,))
    return one if constraint is None else Constraint("and", parts=(one, constraint))


def _free(constraint: Constraint, inventory: Inventory, index: NodeIndex) -> tuple[int, int]:
    """The free cores and GPUs of all up nodes that satisfy *constraint*."""
    within = inventory.matching(constraint)
    cores = gpus = 0
    for state, ranks in index.buckets.items():
        count = ranks.count(within)
        cores += state.ncores * count
        gpus += state.ngpus * count
    return cores, gpus
