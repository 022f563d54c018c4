"""The inventory: the nodes of a pool, which satisfy a constraint, which properties jobs inherit.

It holds what does not depend on jobs: the type of each rank, its host, its place in the key, and
its properties. It does not change until nodes are removed. Copies of a pool share one inventory.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import Any, Iterable, Iterator, Optional

import attrs

from treepool.placement.effort import remembered
from treepool.placement.nodes.compile import flat_topo
from treepool.placement.nodes.fabric_tree import Fabric
from treepool.placement.nodes.index import NodeIndex
from treepool.placement.nodes.node_types import types_of
from treepool.placement.nodes.state import NodeState, StateTable
from treepool.placement.nodes.tree import NodeType
from treepool.rfc import constraint as rfc31
from treepool.rfc import hostlist, idset
from treepool.rfc.constraint import Constraint
from treepool.rfc.hostindex import HostIndex
from treepool.rfc.idset import union
from treepool.rfc.rset import ResourceSet, RLiteEntry, merge_entries
from treepool.rfc.scheduling import KeyEntry, SchedulingKey

#: For how many families of properties the members are remembered.
MAX_FAMILIES = 16

#: How many constraints' rank sets are remembered.
MAX_CONSTRAINTS = 256


#: The place of a node's entry in the key, -1 for none, and its type, None if it was removed.
Kind = tuple[int, Optional[NodeType]]


@attrs.define(eq=False, slots=False)
class Inventory:
    """The nodes of a resource set. The lists are by rank, with a type of None if there is no node.

    ``key`` covers every rank: a rank without an entry in R has a flat one. ``key`` is None if R has
    no treepool key; R's ``scheduling`` is then passed on unchanged.
    """

    resource_set: ResourceSet
    key: Optional[SchedulingKey]
    types: list[Optional[NodeType]]
    hosts: list[str]
    entries: list[int]
    states: StateTable = attrs.field(factory=StateTable)
    #: Answers of choose.candidates.split_on().
    split: dict[Any, frozenset[NodeType]] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, resource_set: ResourceSet, width: int = 0) -> Inventory:
        """The inventory of *resource_set*; raises InvalidKey if its key fits other ranks.

        It has room for at least *width* ranks, because jobs may still hold ranks that were removed.
        """
        ranks = resource_set.mask
        width = max(ranks.bit_length(), width)
        key = resource_set.key()
        if key is not None:
            key = _covering(key, resource_set.entries)
        entries = [-1] * width
        for i, entry in enumerate(key.children if key else ()):
            for rank in idset.iterate(entry.ranks):
                entries[rank] = i
        hosts = [""] * width
        for rank, host in zip(idset.iterate(ranks), resource_set.hosts):
            hosts[rank] = host
        types = types_of(resource_set.entries, key, entries)
        return cls(resource_set, key, types, hosts, entries)

    @property
    def ranks(self) -> int:
        """All ranks, as a bitmask."""
        return self.resource_set.mask

    def hosts_of(self, ranks: int) -> list[str]:
        """The hosts of *ranks* (bitmask), ascending by rank; "" for a rank that has none."""
        known = len(self.hosts)
        return [self.hosts[rank] if rank < known else "" for rank in idset.iterate(ranks)]

    def hostlist(self, ranks: int) -> str:
        """The hosts of *ranks* (bitmask), each once, as a hostlist; ranks without one add none."""
        return hostlist.encode(dict.fromkeys(filter(None, self.hosts_of(ranks))))

    @cached_property
    def several(self) -> frozenset[str]:
        """The hosts that several ranks have, as where brokers are started for a test."""
        counts = Counter(self.hosts)
        return frozenset(host for host, number in counts.items() if number > 1 and host)

    @cached_property
    def node_types(self) -> dict[NodeType, int]:
        """Each node type and its ranks (bitmask)."""
        return idset.by_value(self.types, self.ranks)

    @cached_property
    def _kinds(self) -> dict[Kind, int]:
        ranks: dict[Kind, list[int]] = {}
        for rank, kind in enumerate(zip(self.entries, self.types)):
            ranks.setdefault(kind, []).append(rank)
        return {kind: idset.from_ids(those) for kind, those in ranks.items()}

    def kinds(self, ranks: int) -> Iterator[tuple[Kind, int]]:
        """The kinds of *ranks* (bitmask), each with those of them that are of it."""
        while ranks:
            rank = idset.lowest(ranks)
            kind = self.entries[rank], self.types[rank]
            here = self._kinds[kind] & ranks
            yield kind, here
            ranks ^= here

    @cached_property
    def localities(self) -> tuple[str, ...]:
        """The names of all localities, sorted."""
        return tuple(sorted({name for t in self.node_types for name in t.localities}))

    @property
    def known(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names of the localities on the nodes, and of those above them, the highest first."""
        return self.localities, self.fabric.localities if self.fabric is not None else ()

    @cached_property
    def has_mig(self) -> bool:
        """Whether some node has MIG domains."""
        return any(node_type.root.mig for node_type in self.node_types)

    @cached_property
    def fabric(self) -> Optional[Fabric]:
        """The tree above the nodes; None if the key has none."""
        if self.key is None or self.key.fabric is None:
            return None
        return Fabric.of(self.key.fabric, self.ranks, len(self.types))

    @cached_property
    def inherited(self) -> list[tuple[str, int]]:
        """The properties that the R of a job inherits, sorted, each with its ranks (bitmask).

        They are all except those with a leading ``+`` (RFC 20).
        """
        having = sorted(self.resource_set.properties.items())
        return [(name, mask) for name, mask in having if not name.startswith("+")]

    @cached_property
    def _families(self) -> dict[str, Fabric]:
        return {}

    def family(self, name: str) -> Fabric:
        """The members of property family *name* (``driver:550``), as domains of one level."""

        def members() -> Fabric:
            having = sorted(self.resource_set.properties.items())
            sets = {n: mask for n, mask in having if n.startswith(name + ":")}
            return Fabric.of_sets(sets, len(self.types))

        return remembered(self._families, MAX_FAMILIES, name, members)

    @cached_property
    def _host_index(self) -> HostIndex:
        return HostIndex(self.hosts, self.ranks)

    @cached_property
    def _matching(self) -> dict[Constraint, int]:
        return {}

    def matching(self, constraint: Optional[Constraint]) -> int:
        """The ranks that satisfy *constraint* (bitmask); without one, EVERY."""
        if constraint is None:
            return idset.EVERY

        def evaluated() -> int:
            properties = self.resource_set.properties
            return rfc31.evaluate(constraint, self.ranks, properties, self._host_index.matching)

        return remembered(self._matching, MAX_CONSTRAINTS, constraint, evaluated)

    @cached_property
    def idle_index(self) -> NodeIndex:
        """An index in which every rank is idle and up, to decide feasibility."""
        return NodeIndex(self.idle_states(), union(self.node_types.values()))

    def idle_states(self) -> list[Optional[NodeState]]:
        """The state of every rank when nothing is allocated."""
        idle: dict[Optional[NodeType], Optional[NodeState]] = {None: None}
        for node_type in self.node_types:
            root = node_type.root
            idle[node_type] = self.states.get(node_type, root.cores, root.gpus)
        return list(map(idle.__getitem__, self.types))

    def without(self, ranks: int) -> Inventory:
        """The inventory of the nodes that are not in bitmask *ranks*."""
        kept = self.ranks & ~ranks
        old = self.resource_set
        key = self.key.trim(kept) if self.key else None
        entries = merge_entries(
            attrs.evolve(e, ranks=e.ranks & kept) for e in old.entries if e.ranks & kept
        )
        properties = {name: mask & kept for name, mask in old.properties.items() if mask & kept}
        types = self.types.copy()
        for rank in idset.iterate(ranks):
            types[rank] = None
        return Inventory(
            attrs.evolve(
                old,
                entries=entries,
                hosts=tuple(self.hosts[r] for r in idset.iterate(kept)),
                properties=properties,
                scheduling=key.shared() if key else old.scheduling,
            ),
            key,
            types,
            self.hosts,
            _entries_after(self.key, kept, self.entries),
            self.states,
        )


def _covering(key: SchedulingKey, entries: Iterable[RLiteEntry]) -> SchedulingKey:
    """*key* with a flat entry for the ranks that have none."""
    covered = key.described
    flat = [
        KeyEntry(e.ranks & ~covered, flat_topo(e.cores, e.gpus))
        for e in entries
        if e.ranks & ~covered
    ]
    return attrs.evolve(key, children=(*key.children, *flat)) if flat else key


def _entries_after(key: Optional[SchedulingKey], kept: int, entries: list[int]) -> list[int]:
    """The places of the key's entries after those without a rank in *kept* are removed."""
    if key is None:
        return entries
    place: dict[int, int] = {-1: -1}
    for i, entry in enumerate(key.children):
        if entry.ranks & kept:
            place[i] = len(place) - 1
    return [place.get(i, -1) for i in entries]
