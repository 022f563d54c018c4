"""Resource sets: R version 1 of RFC 20, what is refused or ignored in it; R of a sub-instance.

Where RFC 20 is silent:

- A rank is in one entry of R_lite only. flux-core adds up the resources of several, but never
  writes such an R. Only what a running job holds is read as flux-core reads it (``merge_entries``):
  refusing that would give resources in use to others.
- Kinds of ``children`` other than core and gpu are errors, because an allocation made here could
  not say who has them.
- As in flux-core, unknown keys of R and of ``execution`` are ignored, a property may only name
  ranks of R_lite, and a property without ranks is dropped.
- As in flux-core, R_lite may be empty, because ``resource.exclude`` can name every node. Such an R
  needs no ``nodelist``.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Optional, Union

import attrs

from treepool.errors import InvalidHostlist, InvalidKey, InvalidR, Problem
from treepool.rfc import document, hostlist, idset, scheduling
from treepool.rfc.constraint import FORBIDDEN
from treepool.rfc.findings import Findings, Readers, plain_json, pointer_to, shown_ids
from treepool.rfc.idset import union
from treepool.rfc.scheduling import SchedulingKey

#: Ranks are below this number, several times the nodes of the largest machine. Pools keep lists by
#: rank: a rank of 4,000,000 would cost 300 MB.
MAX_RANKS = hostlist.MAX_HOSTS

#: Latest time read, in seconds since the epoch.
MAX_TIME = 10**15


@attrs.frozen
class RLiteEntry:
    """Nodes with the same resources: bitmasks of their ranks, cores and GPUs."""

    ranks: int
    cores: int
    gpus: int = 0


@attrs.frozen
class ResourceSet:
    """An R (RFC 20): which cores and GPUs of which nodes.

    ``entries`` are as ``merge_entries`` makes them. ``hosts`` has one name per rank, in rank order.
    ``properties`` has the bitmask of ranks by property name. ``nslots`` is the number of task slots
    of an allocation. Times are in seconds since the epoch, 0 if unset. ``scheduling`` is the value
    as it was given, of any scheduler.
    """

    entries: tuple[RLiteEntry, ...]
    hosts: tuple[str, ...]
    properties: Mapping[str, int] = attrs.field(factory=dict)
    nslots: Optional[int] = None
    starttime: float = 0.0
    expiration: float = 0.0
    scheduling: Optional[Mapping[str, Any]] = None
    #: A value of ``scheduling``, and the key that it is, because reading a key takes long.
    _read_key: Optional[tuple[Mapping[str, Any], SchedulingKey]] = attrs.field(
        default=None, repr=False, eq=False
    )
    #: All ranks, as bitmask.
    mask: int = attrs.field(init=False, repr=False, eq=False)

    @mask.default
    def _all_ranks(self) -> int:
        return union(entry.ranks for entry in self.entries)

    @property
    def ranks(self) -> tuple[int, ...]:
        """All ranks, ascending."""
        return tuple(idset.iterate(self.mask))

    @classmethod
    def read(cls, R: Union[Mapping[str, Any], str]) -> ResourceSet:
        """The R in a dict or JSON text.

        Raises InvalidR with the first problem and its JSON pointer, or InvalidKey if that problem
        is in the scheduling key.
        """
        findings = Findings()
        new = _Reader(findings).read(plain_json(R, InvalidR, "R"))
        if new is None:
            first = findings.problems()[0]
            in_key = first.pointer.split("/")[1:2] == ["scheduling"]
            raise (InvalidKey if in_key else InvalidR)(str(first))
        return new

    @classmethod
    def problems(cls, R: Union[Mapping[str, Any], str]) -> list[Problem]:
        """All problems of an R and its scheduling key, in the order of their places.

        There are none if ``read`` accepts it.
        """
        try:
            value = plain_json(R, InvalidR, "R")
        except InvalidR as e:
            return [Problem("", str(e))]
        findings = Findings()
        _Reader(findings).read(value)
        return findings.problems()

    @property
    def allocated(self) -> bool:
        """Whether this was allocated to a job, also if it is now the R of an instance in that job.

        Flux keeps the start time of the job then, but not ``nslots``.
        """
        return self.starttime > 0

    def key(self) -> Optional[SchedulingKey]:
        """The RFC 49 key in ``scheduling``, for exactly the ranks of this R.

        None if there is none, or if it is the key of another scheduler. Raises InvalidKey.
        """
        if self.scheduling is None or not scheduling.is_treepool(self.scheduling):
            return None
        if self._read_key is not None and self._read_key[0] is self.scheduling:
            key = self._read_key[1]
        else:
            key = SchedulingKey.read(self.scheduling)
        parts = ((e.ranks, e.cores, e.gpus) for e in self.entries)
        return key.map_to(self.mask, self.allocated).fitting(parts)

    def to_dict(self) -> dict[str, Any]:
        """The R as RFC 20 JSON. The times are always there, as in what flux-core writes.

        It is the caller's own, as is every JSON that a public method returns.
        """
        R: dict[str, Any] = document.copied(self.shared())
        return R

    def shared(self) -> dict[str, Any]:
        """``to_dict`` to look at only: it has this R's own ``scheduling``, not a copy."""
        r_lite = [r_lite_entry(idset.encode(e.ranks), e.cores, e.gpus) for e in self.entries]
        execution: dict[str, Any] = {"R_lite": r_lite}
        if self.nslots is not None:
            execution["nslots"] = self.nslots
        execution["starttime"] = self.starttime
        execution["expiration"] = self.expiration
        execution["nodelist"] = [hostlist.encode(self.hosts)] if self.hosts else []
        properties = {name: idset.encode(m) for name, m in sorted(self.properties.items()) if m}
        if properties:
            execution["properties"] = properties
        R: dict[str, Any] = {"version": 1, "execution": execution}
        if self.scheduling is not None:
            R["scheduling"] = self.scheduling
        return R


def merge_entries(entries: Iterable[RLiteEntry]) -> tuple[RLiteEntry, ...]:
    """*entries* with disjoint ranks, ordered by rank, after joining those with equal resources.

    A rank that is in several of *entries* has the resources of all of them, as in flux-core.
    """
    merged = by_resources((entry.ranks, entry.cores, entry.gpus) for entry in entries)
    made = (RLiteEntry(mask, *resources) for resources, mask in merged.items())
    return tuple(sorted(made, key=lambda entry: idset.lowest(entry.ranks)))


def by_resources(parts: Iterable[tuple[int, int, int]]) -> dict[tuple[int, int], int]:
    """The ranks that have each set of cores and GPUs; *parts* are (ranks, cores, GPUs).

    All are bitmasks. A rank that is in several of *parts* has the resources of all of them.
    """
    found: dict[tuple[int, int], int] = {}
    seen = 0
    for ranks, cores, gpus in parts:
        again, seen = ranks & seen, ranks | seen
        for ids in [ids for ids, mask in found.items() if mask & again] if again else ():
            mask, more = found.pop(ids), (ids[0] | cores, ids[1] | gpus)
            if mask & ~again:
                found[ids] = found.get(ids, 0) | (mask & ~again)
            found[more] = found.get(more, 0) | (mask & again)
        if ranks != again:
            found[cores, gpus] = found.get((cores, gpus), 0) | (ranks ^ again)
    return found


def r_lite_entry(ranks: str, cores: int, gpus: int) -> dict[str, Any]:
    """An entry of ``R_lite`` for *ranks* (an RFC 22 idset)."""
    children = {"core": idset.encode(cores)}
    if gpus:
        children["gpu"] = idset.encode(gpus)
    return {"rank": ranks, "children": children}


class _Reader:
    """Reads one R, and notes what is wrong with it."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        #: The ranks of R_lite; None unless all of them could be read.
        self.ranks: Optional[int] = None
        #: The treepool key, once it is read; see ResourceSet.
        self.key: Optional[tuple[Mapping[str, Any], SchedulingKey]] = None
        self._seen = 0
        self._starttime = 0.0

    def read(self, R: object) -> Optional[ResourceSet]:
        """The resource set, or None once problems have been noted."""
        readers: Readers = {
            "version": lambda v, at: self.findings.one_of(v, at, (1,)),
            "execution": self.execution,
            "scheduling": self.scheduling,
        }
        members = self.findings.members(R, "", readers, required=("version", "execution"))
        if len(self.findings):
            return None
        execution = members["execution"]
        return ResourceSet(
            merge_entries(execution["R_lite"]),
            tuple(execution.get("nodelist", ())),
            {name: ranks for name, ranks in execution.get("properties", {}).items() if ranks},
            execution.get("nslots"),
            execution.get("starttime", 0.0),
            execution.get("expiration", 0.0),
            members.get("scheduling"),
            self.key,
        )

    def execution(self, value: object, at: str) -> dict[str, Any]:
        """What is in ``execution``, by key."""
        no_node = isinstance(value, dict) and value.get("R_lite") == []
        readers: Readers = {
            "R_lite": self.R_lite,
            "nodelist": self.hosts,
            "properties": lambda v, at: self.findings.values(v, at, self.property_ranks),
            "nslots": lambda v, at: self.findings.integer(v, at, least=1),
            "starttime": lambda v, at: self.findings.number(v, at, 0, MAX_TIME),
            "expiration": lambda v, at: self.findings.number(v, at, 0, MAX_TIME),
        }
        required = ("R_lite",) if no_node else ("R_lite", "nodelist")
        members = self.findings.members(value, at, readers, required)
        self._starttime = members.get("starttime", 0.0)
        for name in members.get("properties", {}):
            if self.findings.enough:
                break
            self.property_name(name, f"{at}/properties")
        if 0 < members.get("expiration", 0) <= members.get("starttime", 0):
            self.findings.note(f"{at}/expiration", "must be greater than starttime")
        return members

    def R_lite(self, value: object, at: str) -> list[RLiteEntry]:
        """The entries of ``R_lite``, with disjoint ranks."""
        known = len(self.findings)
        entries = self.findings.items(value, at, self.entry)
        if len(self.findings) == known:
            self.ranks = self._seen
        return entries

    def entry(self, value: object, at: str) -> RLiteEntry:
        """One entry of ``R_lite``."""
        readers: Readers = {"rank": self.findings.idset, "children": self.children}
        members = self.findings.members(value, at, readers, required=readers)
        ranks = members.get("rank", 0)
        if ranks >> MAX_RANKS:
            highest = ranks.bit_length() - 1
            self.findings.note(f"{at}/rank", f"rank {highest} is above the limit {MAX_RANKS - 1}")
        self.findings.repeated(f"{at}/rank", "ranks", ranks & self._seen)
        self._seen |= ranks
        return RLiteEntry(ranks, *members.get("children", (0, 0)))

    def children(self, value: object, at: str) -> tuple[int, int]:
        """The cores and GPUs of an entry."""
        readers = {"core": self.findings.idset, "gpu": self.findings.idset}
        members = self.findings.members(value, at, readers, required=("core",), closed=True)
        return members.get("core", 0), members.get("gpu", 0)

    def hosts(self, value: object, at: str) -> list[str]:
        """The names in ``nodelist``, as many as there are ranks."""
        known = len(self.findings)
        size = idset.MAX_ID if self.ranks is None else idset.size(self.ranks)
        hosts: list[str] = []

        def add(item: object, at: str) -> None:
            if len(hosts) <= size:
                try:
                    hosts.extend(hostlist.decode(self.findings.string(item, at)))
                except InvalidHostlist as e:
                    self.findings.note(at, str(e))

        self.findings.items(value, at, add)
        if self.ranks is not None and len(self.findings) == known and len(hosts) != size:
            more = " or more" if len(hosts) > size else ""
            self.findings.note(at, f"has {len(hosts)}{more} hosts for the {size} ranks of R_lite")
        return hosts

    def property_ranks(self, value: object, at: str) -> int:
        """The ranks that have a property."""
        ranks = self.findings.idset(value, at, empty=True)
        if self.ranks is not None and ranks & self.ranks != ranks:  # no step is as wide as R's set
            self.findings.note(at, f"ranks {shown_ids(ranks & ~self.ranks)} are not in R_lite")
        return ranks

    def property_name(self, name: str, at: str) -> None:
        """Check the name of a property (RFC 20: UTF-8, without some characters)."""
        illegal = sorted(FORBIDDEN.intersection(name))
        if not name:
            self.findings.note(pointer_to(at, name), "a property needs a name")
        if illegal:
            message = f"a property name may not have {' '.join(illegal)}"
            self.findings.note(pointer_to(at, name), message)
        if any("\ud800" <= c <= "\udfff" for c in name):
            self.findings.note(pointer_to(at, name), "a property name must be valid UTF-8")

    def scheduling(self, value: object, at: str) -> object:
        """``scheduling`` as it is; if it is a key of treepool, the whole key is checked."""
        self.findings.members(value, at, {"writer": self.findings.string})
        if scheduling.is_treepool(value):
            key = scheduling.read_into(self.findings, value, at)
            if key is not None and isinstance(value, dict):
                self.key = value, key
            if key is not None and self.ranks is not None:
                for problem in key.misplaced(self.ranks, self._starttime > 0):
                    self.findings.note(at + problem.pointer, problem.message)
        return value


def subinstance(R: Union[Mapping[str, Any], str]) -> dict[str, Any]:
    """The zero-origin R for an instance started on allocated *R*, a dict or JSON text.

    RFC 49, "Sub-instance Initialization": ranks count from zero, both in R_lite and in the key. Ids
    of cores and GPUs stay, so they mean the same in R_lite and in the topo. (When a sub-instance
    starts from the R of its job, the resource module of flux-core also counts the *cores* of a node
    from zero, and with contained resources the GPUs, and leaves the key unchanged.)

    Each rank becomes its position among the ranks of *R*. Hosts and times stay. ``nslots`` is
    dropped, because the result is an inventory, not an allocation. Properties with a leading ``+``
    are dropped, because they describe the enclosing instance (RFC 20). The key of another scheduler
    is copied unchanged. Raises InvalidR or InvalidKey.
    """
    allocated = ResourceSet.read(R)
    move = idset.from_zero(allocated.mask)
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
            allocated.scheduling if key is None else key.renumber(allocated.mask).to_dict()
        ),
    ).to_dict()
