"""How much memory a domain has, by kind: local, CXL, and the own memory of a memory tier.

Localities with a name in TIERS are memory tiers: memory other than the ordinary memory of cores. A
tier is a domain inside the domain that it is near to. It has the same cores and GPUs, and encloses
everything else in that domain. Its ``memory`` in the topo is the capacity of the tier. HBM is the
nearest memory and counts as local. CXL memory counts for requests that allow it. NVM and GPU memory
count only for requests that name them.
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

    ``ordinary`` is the larger of what the domain lists and what the domains in it have. ``hbm`` and
    ``cxl`` are the memory of such tiers in the domain, itself included. ``own`` is what the domain
    lists.
    """

    ordinary: int
    hbm: int
    cxl: int
    own: int

    @property
    def local(self) -> int:
        """The bytes that count for a request for memory."""
        return self.ordinary + self.hbm


def amounts_in(name: str, topo: Mapping[str, Any]) -> Amounts:
    """The memory in a domain called *name* with the RFC 49 JSON *topo*."""
    own = int(topo.get("memory", 0)) << 30
    inside = [amounts_in(inner, item) for inner, item in nested(topo)]
    ordinary = sum(amounts.ordinary for amounts in inside)
    return Amounts(
        ordinary=ordinary if name in TIERS else max(own, ordinary),
        hbm=sum(amounts.hbm for amounts in inside) + (own if name == "hbm" else 0),
        cxl=sum(amounts.cxl for amounts in inside) + (own if name == "cxl" else 0),
        own=own,
    )
