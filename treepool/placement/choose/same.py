"""Jobs whose nodes must share a property, such as the same driver or firmware.

A property family is all properties with the same prefix before a colon: ``driver:550`` and
``driver:560`` belong to the family ``driver``. Its members are the domains of a fabric of one level
(``Inventory.family``), so what each of them can host is known as it is of switches (rooms.py).
"""

from __future__ import annotations

from typing import Optional

import attrs

from treepool.placement.choose.rooms import Rooms
from treepool.placement.nodes.fabric import ROOT
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.request.vertices import Request
from treepool.rfc.constraint import Constraint


def members(family: str, inventory: Inventory) -> list[str]:
    """The properties of *family* that some node has, sorted."""
    fabric = inventory.family(family)
    return [fabric.name[domain] or "" for domain in fabric.children[ROOT]]


def by_fit(rooms: Rooms, wanted: int, local: bool) -> list[int]:
    """The members of a family with room for *wanted* units: the one with the fewest free cores on
    its nodes first, then the fewest free GPUs (best fit: large free areas remain). If *local*,
    those with room for *wanted* local units come before the others."""
    able = [d for d in rooms.fabric.children[ROOT] if rooms(d).number >= wanted]
    return sorted(able, key=lambda d: rooms.fitting(d, wanted if local else 0))


def narrowed(request: Request, name: str) -> Request:
    """*request* restricted to the nodes with property *name*."""
    return attrs.evolve(request, constraint=_with(request.constraint, name), same=None)


def _with(constraint: Optional[Constraint], name: str) -> Constraint:
    one = Constraint("properties", (name,))
    return one if constraint is None else Constraint("and", parts=(one, constraint))
