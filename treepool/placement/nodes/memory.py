"""How much memory a domain has, by kind: local, CXL, and what a memory tier has of its own.

Localities named as in TIERS are memory tiers: kinds of memory that are no cores' ordinary one. A
tier is a domain inside the one that it is near to, with the same cores and GPUs, around all else in
it; its ``memory`` in the topo is the tier's capacity. HBM is as near as memory gets and counts as
local; CXL memory counts for who allows it; NVM and the memory of GPUs count for no request but one
that names them.
"""

from __future__ import annotations

from typing import Any, Mapping

import attrs

from treepool.rfc.topo import nested

#: Localities that are memory tiers.
TIERS = frozenset(("hbm", "cxl", "nvm", "gpumem"))


@attrs.frozen
class Amounts:
    """Bytes of memory in a domain, nested domains included.

    ``ordinary`` is what the domain lists, or what the domains in it have if that is more; ``hbm``
    and ``cxl`` what the tiers in it have, or it has as such a tier. ``own`` is what it lists.
    """

    ordinary: int
    hbm: int
    cxl: int
    own: int

    @property
    def local(self) -> int:
        """What a request for memory is met from."""
        return self.ordinary + self.hbm


def amounts_in(name: str, topo: Mapping[str, Any]) -> Amounts:
    """The memory in a domain called *name*, of which *topo* is the RFC 49 JSON."""
    own = int(topo.get("memory", 0)) << 30
    inside = [amounts_in(inner, item) for inner, item in nested(topo)]
    ordinary = sum(amounts.ordinary for amounts in inside)
    return Amounts(
        ordinary=ordinary if name in TIERS else max(own, ordinary),
        hbm=sum(amounts.hbm for amounts in inside) + (own if name == "hbm" else 0),
        cxl=sum(amounts.cxl for amounts in inside) + (own if name == "cxl" else 0),
        own=own,
    )
