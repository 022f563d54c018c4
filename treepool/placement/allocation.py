"""Allocations: what a job got, as it is kept, and its R."""

from __future__ import annotations

import json
from typing import Any, Iterable, Optional

from treepool.placement.choose.fitness import (
    Fitness,
    of_job,
    shares_of,
    spread_of,
)
from treepool.placement.choose.selection import Selection
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.parts import on_hosts, short_form, where
from treepool.placement.nodes.resource_sets import job_R
from treepool.placement.nodes.state import Held
from treepool.rfc import idset
from treepool.rfc.rset import by_resources


class Allocation:
    """What a job got: its resources, its number of slots, and its R.

    ``parts`` groups the ranks by what they give, ascending by rank. Each part is (ranks, cores,
    GPUs), three bitmasks. ``starttime`` and ``expiration`` are in seconds since
    the epoch, 0 when unset. ``Pool.alloc`` sets both for a job that has an end; a scheduler that
    starts the job later sets them again. The R has no key unless it is *keyed*.
    """

    __slots__ = ("parts", "nslots", "starttime", "expiration", "_inventory", "_keyed")

    def __init__(
        self, inventory: Inventory, parts: tuple[Held, ...], nslots: int, keyed: bool = True
    ) -> None:
        self.parts = parts
        self.nslots = nslots
        self.starttime = 0.0
        self.expiration = 0.0
        self._inventory = inventory
        self._keyed = keyed

    @property
    def ranks(self) -> tuple[int, ...]:
        """The allocated ranks, ascending."""
        return tuple(idset.iterate(idset.union(ranks for ranks, _, _ in self.parts)))

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of the allocated nodes, in the order of ``ranks``."""
        return tuple(self._inventory.hosts[rank] for rank in self.ranks)

    def set_starttime(self, starttime: float) -> None:
        """Set when the resources become valid, in seconds since the epoch."""
        self.starttime = starttime

    def set_expiration(self, expiration: float) -> None:
        """Set when the resources stop being valid, in seconds since the epoch; 0 means never."""
        self.expiration = expiration

    def to_dict(self) -> dict[str, Any]:
        """The job's R (RFC 20), with the key cut to the allocated ranks (RFC 49, Allocated R)."""
        times = self.starttime, self.expiration
        return job_R(self._inventory, self.parts, self.nslots, *times, self._keyed)

    def encode(self) -> str:
        """The job's R as JSON text."""
        return json.dumps(self.to_dict())

    def dumps(self) -> str:
        """The resources in Flux's short form, such as ``rank[0-1]/core[0-3],gpu0``."""
        return short_form(self.parts)

    @property
    def summary(self) -> str:
        """The resources for people, such as ``n[17-18]/core[0-3],gpu0``; see ``on_hosts``."""
        return on_hosts(self.parts, self._inventory)

    def where(self, ranks: int) -> str:
        """The hosts of *ranks* (bitmask), such as ``n[17-18]``; see ``on_hosts``."""
        return where(ranks, self._inventory)

    def fitness(self, ideal: Optional[Fitness] = None) -> Fitness:
        """How good the placement is as it is, or measured against *ideal* (see Pool.fitness)."""
        inventory, spread = self._inventory, None
        ranks = idset.union(part[0] for part in self.parts)
        if inventory.fabric is not None and idset.size(ranks) > 1:
            spread = spread_of(inventory, ranks)
        return of_job(shares_of(self.parts, self.nslots, inventory), ideal, spread)

    def __repr__(self) -> str:
        return f"<Allocation {self.dumps()}>"


def parts_of(selection: Selection) -> tuple[Held, ...]:
    """What *selection* takes: ranks with equal ids grouped together, ascending by lowest rank."""
    return together((grant.ranks, *grant.ids) for grant in selection.grants)


def together(parts: Iterable[Held]) -> tuple[Held, ...]:
    """*parts* as those of one holder: one for all ranks with equal ids, by their lowest rank."""
    found = [(ranks, cores, gpus) for (cores, gpus), ranks in by_resources(parts).items()]
    return tuple(sorted(found, key=lambda part: part[0] & -part[0]))
