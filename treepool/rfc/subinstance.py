"""The R of a sub-instance, from the R that the enclosing instance allocated for it.

RFC 49, "Sub-instance Initialization": ranks count from zero, both in R_lite and in the key. Ids of
cores and GPUs stay, so they mean the same in R_lite and in the topo. (When a sub-instance starts
from the R of its job, the resource module of flux-core also counts the *cores* of a node from zero,
and with contained resources the GPUs, and leaves the key unchanged.)
"""

from __future__ import annotations

from typing import Any, Mapping, Union

import attrs

from treepool.rfc import idset
from treepool.rfc.rset import ResourceSet


def subinstance(R: Union[Mapping[str, Any], str]) -> dict[str, Any]:
    """The zero-origin R for an instance started on allocated *R*, a dict or JSON text.

    Each rank becomes its position among the ranks of *R*. Hosts, times and the ids of cores and
    GPUs stay. ``nslots`` is dropped, because the result is an inventory, not an allocation.
    Properties with a leading ``+`` are dropped, because they describe the enclosing instance
    (RFC 20). The key of another scheduler is copied unchanged. Raises InvalidR or InvalidKey.
    """
    allocated = ResourceSet.read(R)
    move = idset.from_zero(allocated.ranks)
    key = allocated.key()
    return attrs.evolve(
        allocated,
        entries=tuple(attrs.evolve(e, ranks=move(e.ranks)) for e in allocated.entries),
        properties={
            name: move(ranks)
            for name, ranks in allocated.properties.items()
            if not name.startswith("+")
        },
        nslots=None,
        scheduling=(
            allocated.scheduling if key is None else key.renumber(allocated.ranks).to_dict()
        ),
    ).to_dict()
