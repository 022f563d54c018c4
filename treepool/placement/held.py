"""What jobs hold, what may be taken or given back, and what changed since a reader last looked."""

from __future__ import annotations

from typing import Any, Generic, Iterable, Mapping, Optional, Sequence, TypeVar, Union

import attrs

from treepool.errors import PoolConflict
from treepool.placement.allocation import Allocation
from treepool.placement.choose.fitness import memory_domains
from treepool.placement.nodes.index import NodeIndex
from treepool.placement.nodes.parts import ranks_in, short_form
from treepool.placement.nodes.state import Held
from treepool.placement.nodes.tree import Domain
from treepool.rfc import idset
from treepool.rfc.rset import ResourceSet, RLiteEntry, by_resources

#: The id under which a pool holds what belongs to no job that is known; no job has it
#: (FLUX_JOBID_ANY).
HELD_BACK = (1 << 64) - 1

#: What callers may pass as an R: an RFC 20 object, its JSON text, or an object already read.
AnyR = Union[Mapping[str, Any], str, ResourceSet, Allocation]


@attrs.frozen
class Job:
    """What a live job holds, and when it ends (seconds since the epoch; 0 means never)."""

    parts: tuple[Held, ...]
    end_time: float


def ending(jobs: Mapping[int, Job], old: float, new: float) -> dict[int, Job]:
    """*jobs*, by id, of which those that end at *old*, as their pool did, end at *new* with it.

    Flux gives them that end as well, and tells no scheduler of it.
    """
    return {
        jobid: attrs.evolve(job, end_time=new) if job.end_time == old else job
        for jobid, job in jobs.items()
    }


def read_held(R: AnyR) -> tuple[tuple[Held, ...], float]:
    """The parts of *R* and its expiration."""
    if isinstance(R, Allocation):
        return R.parts, R.expiration
    resource_set = R if isinstance(R, ResourceSet) else ResourceSet.read(R)
    return held_in(resource_set.entries), resource_set.expiration


def held_in(entries: Iterable[RLiteEntry]) -> tuple[Held, ...]:
    """What R_lite *entries* have, as parts."""
    return tuple((entry.ranks, entry.cores, entry.gpus) for entry in entries)


#: What is held on each rank, as cores and GPUs (bitmasks).
ByRank = dict[int, tuple[int, int]]


def add_held(found: ByRank, parts: Iterable[Held]) -> None:
    """Add *parts* to what is *found* on each rank."""
    for ranks, cores, gpus in parts:
        for rank in idset.iterate(ranks):
            before = found.get(rank, (0, 0))
            found[rank] = before[0] | cores, before[1] | gpus


def alike(found: ByRank) -> list[Held]:
    """The parts that *found* adds up to: one for all ranks with the same ids."""
    ranks: dict[tuple[int, int], list[int]] = {}
    for rank in sorted(found):
        ranks.setdefault(found[rank], []).append(rank)
    return [(idset.from_ids(those), cores, gpus) for (cores, gpus), those in ranks.items()]


def domains_of(types: Sequence[Any], parts: Iterable[Held]) -> str:
    """The memory domains that a job uses on the nodes of *parts*; *types* is by rank."""
    return "; ".join(sorted({_domains(types, part) for part in parts} - {""}))


def _domains(types: Sequence[Any], part: Held) -> str:
    """The memory domains that a job uses on the first node of *part*."""
    ranks, cores, gpus = part
    first = idset.lowest(ranks)
    node_type = types[first] if first < len(types) else None
    if node_type is None:
        return ""
    found: Sequence[Domain] = [
        d for d in memory_domains(node_type) if d.cores & cores or d.gpus & gpus
    ]
    if found == [node_type.root] or not found:
        return ""
    domains = memory_domains(node_type)
    return f"{found[0].name} {idset.encode_ids([domains.index(d) for d in found])}"


def held_on(ranks: int, parts: Iterable[Held]) -> tuple[Held, ...]:
    """What *parts* have on *ranks* (bitmask): a job may still hold ranks that the pool has lost."""
    here = ((having & ranks, cores, gpus) for having, cores, gpus in parts)
    return tuple(part for part in here if part[0])


def held_without(jobid: int, parts: tuple[Held, ...], freed: tuple[Held, ...]) -> tuple[Held, ...]:
    """*parts* without the ranks of *freed*; *parts* and *freed* must agree on these ranks."""
    having, everywhere, gone = by_resources(parts), ranks_in(parts), 0
    for ranks, cores, gpus in freed:
        other = ranks & ~having.get((cores, gpus), 0)
        if other & everywhere:
            first = other & everywhere & -(other & everywhere)
            held = short_form(held_on(first, parts))
            raise PoolConflict(f"job {jobid}: R is not what it holds on {held}")
        if other:
            raise PoolConflict(f"job {jobid}: rank {idset.lowest(other)} is not in its allocation")
        gone |= ranks
    return held_on(~gone, parts)


def check_free(jobid: int, parts: tuple[Held, ...], index: NodeIndex) -> None:
    """Raise PoolConflict for job *jobid* unless all of *parts* is in the pool, and free."""
    for ranks, cores, gpus in parts:
        there = 0
        for state, here in index.states(ranks):
            there |= here
            first, root = here & -here, state.type.root
            if cores & ~root.cores or gpus & ~root.gpus:
                missing = short_form([(first, cores & ~root.cores, gpus & ~root.gpus)])
                raise PoolConflict(f"job {jobid}: {missing} is not in the pool")
            if cores & ~state.cores or gpus & ~state.gpus:
                taken = short_form([(first, cores & ~state.cores, gpus & ~state.gpus)])
                raise PoolConflict(f"job {jobid}: {taken} is allocated already")
        if there != ranks:
            unknown = idset.lowest(ranks & ~there)
            raise PoolConflict(f"job {jobid}: rank {unknown} is not in the pool")


def are_free(parts: Iterable[Held], index: NodeIndex) -> bool:
    """Whether all ranks of *parts* are up, and what they have there is free."""
    for ranks, cores, gpus in parts:
        if ranks & ~index.up:
            return False
        for state, _ in index.states(ranks):
            if cores & ~state.cores or gpus & ~state.gpus:
                return False
    return True


T = TypeVar("T")

#: Entries that are kept for readers, at least.
_MAX_ENTRIES = 4096


def of_rank(rank: int) -> int:
    """The entry in a pool's journal for a *rank* that went up or down."""
    return -1 - rank


class Journal(Generic[T]):
    """The latest entries; a reader remembers ``end`` and later asks for those ``since`` then.

    Entries of a pool are job ids and, as negative numbers, ranks (``of_rank``).
    """

    __slots__ = ("_entries", "_start")

    def __init__(self) -> None:
        self._entries: list[T] = []
        self._start = 0

    @property
    def end(self) -> int:
        """The number of entries so far."""
        return self._start + len(self._entries)

    def note(self, entries: Sequence[T]) -> None:
        """Add *entries*; an empty sequence means that anything may have changed."""
        if not entries or len(entries) > _MAX_ENTRIES:
            self._start = self.end + max(1, len(entries))
            self._entries.clear()
            return
        self._entries.extend(entries)
        if len(self._entries) > 2 * _MAX_ENTRIES:  # the newest remain, for readers that keep up
            excess = len(self._entries) - _MAX_ENTRIES
            del self._entries[:excess]
            self._start += excess

    def since(self, position: int) -> Optional[Sequence[T]]:
        """The entries from *position* on; None if anything may have changed since then."""
        if position < self._start:
            return None
        return self._entries[position - self._start :]
