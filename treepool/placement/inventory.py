"""The inventory: what a pool's nodes are, fixed as long as the nodes stay.

Everything about a rank that a job needs is looked up here by rank: its type, its host, its place
in the key, its properties. Copies of a pool share one inventory.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Iterable, Mapping, Optional, Sequence

import attrs

from treepool.errors import InvalidKey
from treepool.placement.index import NodeIndex
from treepool.placement.linkset import compile_links
from treepool.placement.rankset import RankSet
from treepool.placement.state import NodeState, StateTable
from treepool.placement.tree import NodeType, compile_topo, flat_topo
from treepool.rfc import constraint as rfc31
from treepool.rfc import hostlist, idset
from treepool.rfc.constraint import Constraint
from treepool.rfc.findings import shown_ids
from treepool.rfc.links import Links, canonical
from treepool.rfc.rset import ResourceSet, RLiteEntry, merge_entries
from treepool.rfc.scheduling import KeyEntry, SchedulingKey, is_treepool

#: How many constraints' rank sets are remembered.
MAX_CONSTRAINTS = 256

#: A set of ranks (ascending) that give the same cores and GPUs (bitmasks) to a job.
Part = tuple[tuple[int, ...], int, int]


@attrs.define(eq=False, slots=False)
class Inventory:
    """The nodes of a resource set, by rank; lists are indexed by rank, None where there is none.

    ``key`` covers every rank: those without an entry of their own got a flat one. It is None if
    R has no key of ours; R's ``scheduling`` is then carried along as it is.
    """

    resource_set: ResourceSet
    key: Optional[SchedulingKey]
    types: list[Optional[NodeType]]
    hosts: list[str]
    entries: list[int]
    names: list[tuple[str, ...]]
    states: StateTable = attrs.field(factory=StateTable)

    @classmethod
    def of(cls, resource_set: ResourceSet, width: int = 0) -> Inventory:
        """The inventory of *resource_set*; raises InvalidKey if its key fits other ranks.

        Its lists have room for *width* ranks or more, for jobs on ranks that are gone.
        """
        ranks = resource_set.ranks
        width = max(ranks.bit_length(), width)
        key = None
        if is_treepool(resource_set.scheduling):
            assert resource_set.scheduling is not None
            key = SchedulingKey.read(resource_set.scheduling).map_to(ranks)
            key = _covering(key, resource_set.entries)
        entries = [-1] * width
        for i, entry in enumerate(key.children if key else ()):
            for rank in idset.iterate(entry.ranks):
                entries[rank] = i
        hosts = [""] * width
        for rank, host in zip(idset.iterate(ranks), resource_set.hosts):
            hosts[rank] = host
        types = _types(resource_set.entries, key, entries, _allocated(key, width))
        names = _names(resource_set.properties, width)
        return cls(resource_set, key, types, hosts, entries, names)

    @property
    def ranks(self) -> int:
        """All ranks, as a bitmask."""
        return self.resource_set.ranks

    @cached_property
    def node_types(self) -> dict[NodeType, RankSet]:
        """Each kind of node and the ranks that are of it."""
        found: dict[NodeType, RankSet] = {}
        for rank, node_type in enumerate(self.types):
            if node_type is not None:
                found.setdefault(node_type, RankSet()).add(rank)
        return found

    @cached_property
    def localities(self) -> tuple[str, ...]:
        """The names of all localities, sorted."""
        return tuple(sorted({name for t in self.node_types for name in t.localities}))

    @cached_property
    def host_ranks(self) -> dict[str, int]:
        """For each host name the bitmask of its ranks (one, unless brokers share a host)."""
        found: dict[str, int] = {}
        for rank in idset.iterate(self.ranks):
            host = self.hosts[rank]
            found[host] = found.get(host, 0) | 1 << rank
        return found

    @cached_property
    def _matching(self) -> dict[Constraint, RankSet]:
        return {}

    def matching(self, constraint: Optional[Constraint]) -> Optional[RankSet]:
        """The ranks that satisfy *constraint*; None stands for all of them."""
        if constraint is None:
            return None
        found = self._matching.get(constraint)
        if found is None:
            if len(self._matching) >= MAX_CONSTRAINTS:
                self._matching.clear()
            mask = rfc31.evaluate(
                constraint,
                self.ranks,
                self.resource_set.properties,
                lambda host: self.host_ranks.get(host, 0),
            )
            found = self._matching[constraint] = RankSet.from_mask(mask)
        return found

    @cached_property
    def idle_index(self) -> NodeIndex:
        """An index in which every rank is idle and up, for questions of feasibility."""
        up = bytearray(t is not None for t in self.types)
        return NodeIndex(self.idle_states(), up)

    def idle_states(self) -> list[Optional[NodeState]]:
        """The state of every rank when nothing is allocated."""
        idle = {t: self.states.get(t, t.root.cores, t.root.gpus) for t in self.node_types}
        return [None if t is None else idle[t] for t in self.types]

    def without(self, ranks: int) -> Inventory:
        """The inventory of the nodes that are not in bitmask *ranks*."""
        kept = self.ranks & ~ranks
        old = self.resource_set
        entries = merge_entries(
            attrs.evolve(e, ranks=e.ranks & kept) for e in old.entries if e.ranks & kept
        )
        properties = {name: mask & kept for name, mask in old.properties.items() if mask & kept}
        gone = set(idset.iterate(ranks))
        return Inventory(
            attrs.evolve(
                old,
                entries=entries,
                hosts=tuple(self.hosts[r] for r in idset.iterate(kept)),
                properties=properties,
                scheduling=self.key.trim(kept).to_dict() if self.key else old.scheduling,
            ),
            self.key.trim(kept) if self.key else None,
            [None if rank in gone else t for rank, t in enumerate(self.types)],
            self.hosts,
            _entries_after(self.key, kept, self.entries),
            self.names,
            self.states,
        )

    def r_dict(
        self, parts: Sequence[Part], nslots: int, starttime: float, expiration: float
    ) -> dict[str, Any]:
        """The RFC 20 R of a job that was given *parts*.

        Topos are shared with the pool's own key, not copied: treat the result as read-only below
        ``scheduling``.
        """
        if len(parts) == 1:
            ranks = parts[0][0]
        else:
            ranks = tuple(sorted({rank for part in parts for rank in part[0]}))
        execution: dict[str, Any] = {
            "R_lite": _r_lite(parts),
            "nodelist": [hostlist.encode([self.hosts[rank] for rank in ranks])],
            "nslots": nslots,
        }
        properties = _by_value(ranks, self.names)
        if properties:
            found: dict[str, list[int]] = {}
            for names, having in properties.items():
                for name in names:
                    found.setdefault(name, []).extend(having)
            if found:
                execution["properties"] = {
                    name: idset.encode_ids(sorted(found[name])) for name in sorted(found)
                }
        execution["starttime"] = starttime
        execution["expiration"] = expiration
        r: dict[str, Any] = {"version": 1, "execution": execution}
        if self.key is not None:
            r["scheduling"] = self._key_dict(self.key, ranks)
            allocated = self._allocated_cores(parts)
            if allocated:
                r["scheduling"]["allocated"] = allocated
        elif self.resource_set.scheduling is not None:
            r["scheduling"] = self.resource_set.scheduling
        return r

    def _key_dict(self, key: SchedulingKey, ranks: tuple[int, ...]) -> dict[str, Any]:
        children = [
            {"ranks": idset.encode_ids(having), "topo": key.children[i].topo}
            for i, having in sorted(_by_value(ranks, self.entries).items())
        ]
        return {"writer": key.writer, "children": children, **key.extra}

    def _allocated_cores(self, parts: Sequence[Part]) -> list[dict[str, Any]]:
        """Which cores of the topo *parts* have, where that is not the first ones."""
        groups: dict[int, list[int]] = {}
        for ranks, cores, _ in parts:
            for physical, having in self._by_physical(ranks).items():
                ids = cores
                if physical is not None:
                    ids = idset.from_ids(physical[core] for core in idset.iterate(cores))
                if ids & (ids + 1):
                    groups.setdefault(ids, []).extend(having)
        return [
            {"ranks": idset.encode_ids(sorted(ranks)), "cores": idset.encode(cores)}
            for cores, ranks in groups.items()
        ]

    def _by_physical(
        self, ranks: tuple[int, ...]
    ) -> Mapping[Optional[tuple[int, ...]], Sequence[int]]:
        """The *ranks* grouped by NodeType.physical."""
        if not self._renumbered:
            return {None: ranks}
        groups: dict[Optional[tuple[int, ...]], list[int]] = {}
        for rank in ranks:
            node_type = self.types[rank]
            groups.setdefault(node_type.physical if node_type else None, []).append(rank)
        return groups

    @cached_property
    def _renumbered(self) -> bool:
        """Whether R counts the cores of any node from zero and the topo does not."""
        return any(node_type.physical is not None for node_type in self.node_types)


def _by_value(ranks: Iterable[int], values: Sequence[Any]) -> dict[Any, list[int]]:
    """The *ranks* grouped by their value in the list *values*."""
    groups: dict[Any, list[int]] = {}
    for rank in ranks:
        groups.setdefault(values[rank], []).append(rank)
    return groups


def _r_lite(parts: Iterable[Part]) -> list[dict[str, Any]]:
    entries = []
    for ranks, cores, gpus in parts:
        children = {"core": idset.encode(cores)}
        if gpus:
            children["gpu"] = idset.encode(gpus)
        entries.append({"rank": idset.encode_ids(ranks), "children": children})
    return entries


def _covering(key: SchedulingKey, entries: Iterable[RLiteEntry]) -> SchedulingKey:
    """*key* with a flat entry for the ranks that have none."""
    covered = key.ranks
    flat = [
        KeyEntry(e.ranks & ~covered, flat_topo(e.cores, e.gpus))
        for e in entries
        if e.ranks & ~covered
    ]
    return attrs.evolve(key, children=(*key.children, *flat)) if flat else key


def _allocated(key: Optional[SchedulingKey], width: int) -> list[int]:
    """For every rank the topo's ids of its cores as the key tells them, 0 where it does not."""
    cores = [0] * width
    for entry in key.allocated if key else ():
        for rank in idset.iterate(entry.ranks):
            cores[rank] = entry.cores
    return cores


def _physical(cores: int, allocated: int) -> Optional[tuple[int, ...]]:
    """The topo's ids of an R_lite entry's *cores*, in their order; None if they are the same ids.

    Flux counts the cores of a sub-instance's nodes from zero, and what is allocated there keeps
    those ids; other tools may leave or cut them.
    """
    if not allocated or cores & ~allocated == 0:
        return None
    if idset.size(cores) == idset.size(allocated):
        physical = dict(zip(idset.iterate(cores), idset.iterate(allocated)))
        return tuple(physical.get(core, -1) for core in range(cores.bit_length()))
    raise InvalidKey(
        f"/scheduling/allocated: cores {shown_ids(allocated)} are not those of R_lite,"
        f" {shown_ids(cores)}, which are not as many either"
    )


def _types(
    r_lite: Iterable[RLiteEntry],
    key: Optional[SchedulingKey],
    entries: list[int],
    allocated: list[int],
) -> list[Optional[NodeType]]:
    """The type of every rank: one object for equal topo and equal R_lite children."""
    types: list[Optional[NodeType]] = [None] * len(entries)
    topos = [entry.topo for entry in key.children] if key else []
    texts = [canonical(topo) for topo in topos]
    links = [key.links_of(topo) for topo in topos] if key else []
    known: dict[tuple[Optional[str], int, int, int], NodeType] = {}
    for entry in r_lite:
        here: dict[tuple[int, int], NodeType] = {}
        for rank in idset.iterate(entry.ranks):
            i, ids = entries[rank], allocated[rank]
            found = here.get((i, ids))
            if found is None:
                name = (texts[i] if i >= 0 else None, entry.cores, entry.gpus, ids)
                found = known.get(name)
                if found is None:
                    topo, connected = (topos[i], links[i]) if i >= 0 else (None, None)
                    table = compile_links(connected, entry.gpus) if connected else None
                    physical = _physical(entry.cores, ids)
                    memory = _gpu_memory(connected)
                    found = compile_topo(topo, entry.cores, entry.gpus, physical, table, memory)
                    known[name] = found
                here[i, ids] = found
            types[rank] = found
    return types


def _gpu_memory(links: Optional[Links]) -> dict[int, int]:
    """The bytes of memory of each GPU of which the link table says it, by id."""
    return {
        gpu: device.memory << 30
        for device in (links.devices if links is not None else ())
        for gpu in idset.iterate(device.gpus)
        if device.memory
    }


def _names(properties: Mapping[str, int], width: int) -> list[tuple[str, ...]]:
    """For every rank the names of the properties that a job's R passes on (RFC 20: no ``+``)."""
    names: list[tuple[str, ...]] = [()] * width
    for name, ranks in properties.items():
        if name.startswith("+"):
            continue
        longer: dict[tuple[str, ...], tuple[str, ...]] = {}
        for rank in idset.iterate(ranks):
            old = names[rank]
            names[rank] = longer.setdefault(old, (*old, name))
    return names


def _entries_after(key: Optional[SchedulingKey], kept: int, entries: list[int]) -> list[int]:
    """The places of the key's entries once those without a rank in *kept* are gone."""
    if key is None:
        return entries
    place: dict[int, int] = {-1: -1}
    for i, entry in enumerate(key.children):
        if entry.ranks & kept:
            place[i] = len(place) - 1
    return [place.get(i, -1) for i in entries]
