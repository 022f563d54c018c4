"""Jobs whose nodes must share a property, such as the same driver or firmware.

A property family is all properties with the same prefix before a colon: ``driver:550`` and
``driver:560`` belong to the family ``driver``. A job that asks for the same driver is tried on the
nodes of each member of the family in turn.
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
    """The constraints under which to try *request*, in order.

    There is one constraint for each member of the family that ``same`` asks for: first the member
    with the fewest free cores on its nodes, then the fewest free GPUs (best fit: large free areas
    remain). If the same property is only preferred, the request's own constraint comes last. The
    pool takes the first of the best selections.
    """
    same = request.same
    assert same is not None
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
    """*request* restricted to the nodes with property *name*."""
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
