"""The interface of Flux's ResourceSet, for any class that can return its R.

Flux asks pools for node lists, counts and unions as if they were its own sets. Such calls are rare,
so they are answered by flux-core's own set, made from the R.
"""

from __future__ import annotations

import json
from typing import Any

from flux.resource.ResourceSetImplementation import ResourceSetImplementation
from flux.resource.Rv1Set import Rv1Set


class SetView(ResourceSetImplementation):  # type: ignore[misc]  # flux has no types
    """A flux.resource.ResourceSetImplementation whose answers come from its ``to_dict``."""

    version = 1

    def to_dict(self) -> dict[str, Any]:
        """The R."""
        raise NotImplementedError

    def to_set(self) -> Rv1Set:
        """The resources as one of flux-core's own sets."""
        return Rv1Set(self.to_dict())

    def encode(self) -> str:
        """The R as JSON text."""
        return json.dumps(self.to_dict())

    def dumps(self) -> str:
        """The resources in Flux's short form."""
        return str(self.to_set().dumps())

    def nodelist(self) -> Any:
        """The hosts, as a flux.hostlist.Hostlist."""
        return self.to_set().nodelist()

    def ranks(self) -> Any:
        """The ranks, as a flux.idset.IDset."""
        return self.to_set().ranks()

    def get_properties(self) -> Any:
        """The RFC 20 properties, as JSON text."""
        return self.to_set().get_properties()

    def nnodes(self) -> int:
        """How many nodes there are."""
        return int(self.to_set().nnodes())

    def count(self, name: str) -> int:
        """How many resources of type *name* ("core" or "gpu") there are."""
        return int(self.to_set().count(name))

    def copy(self) -> Any:
        """A set of the same resources."""
        return self.to_set()

    def copy_ranks(self, ranks: Any) -> Rv1Set:
        """A set of the resources on *ranks*."""
        return self.to_set().copy_ranks(ranks)

    def copy_constraint(self, constraint: Any) -> Rv1Set:
        """A set of the nodes that satisfy an RFC 31 *constraint*."""
        return self.to_set().copy_constraint(constraint)

    def union(self, rset: Any) -> Rv1Set:
        """The resources that are here or in *rset*."""
        return self.to_set().union(_set_of(rset))

    def intersect(self, rset: Any) -> Rv1Set:
        """The resources that are here and in *rset*."""
        return self.to_set().intersect(_set_of(rset))

    def diff(self, rset: Any) -> Rv1Set:
        """The resources that are here and not in *rset*."""
        return self.to_set().diff(_set_of(rset))

    def append(self, rset: Any) -> None:
        """Refused: trees cannot be added to a pool."""
        raise NotImplementedError("resources cannot be added to a pool with a topology")

    add = append

    def remove_ranks(self, ranks: Any) -> None:
        """Refused, unless a subclass implements it."""
        raise NotImplementedError("what a job got is not changed")


def _set_of(rset: Any) -> Any:
    return rset.to_set() if isinstance(rset, SetView) else rset
