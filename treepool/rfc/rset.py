"""Resource sets: R version 1 of RFC 20.

Where RFC 20 is silent: a rank is in one entry of R_lite only, because flux-core adds up the
resources of several but never writes such an R. Kinds of ``children`` other than core and gpu are
errors, because what is allocated here would not say who has them. Unknown keys of R and of
``execution`` are ignored, as in flux-core. A property may only name ranks of R_lite, as there; one
of no ranks is dropped, as there. R_lite may be empty, as there: ``resource.exclude`` can name every
node. Such an R may have no ``nodelist``.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Optional, Union

import attrs

from treepool.errors import InvalidHostlist, InvalidKey, InvalidR, Problem
from treepool.rfc import hostlist, idset, scheduling, schema
from treepool.rfc.findings import Findings, integer, number, place, plain_json, shown, shown_ids
from treepool.rfc.idset import union
from treepool.rfc.scheduling import SchedulingKey

#: RFC 20: characters a property name may not have.
ILLEGAL_IN_PROPERTY = frozenset("!&'\"^`|()")

#: Latest time read, in seconds since the epoch.
MAX_TIME = 1e15


@attrs.frozen
class RLiteEntry:
    """Nodes with the same resources: bitmasks of their ranks, cores and GPUs."""

    ranks: int
    cores: int
    gpus: int = 0


@attrs.frozen
class ResourceSet:
    """An R (RFC 20): which cores and GPUs of which nodes.

    ``entries`` are as ``merge_entries`` makes them, ``hosts`` has one name per rank, in rank
    order, ``properties`` the bitmask of ranks by property name. ``nslots`` is the number of task
    slots of an allocation. Times are in seconds since the epoch, 0 if unset. ``scheduling`` is as
    given, the key of whatever scheduler wrote it.
    """

    entries: tuple[RLiteEntry, ...]
    hosts: tuple[str, ...]
    properties: Mapping[str, int] = attrs.field(factory=dict)
    nslots: Optional[int] = None
    starttime: float = 0.0
    expiration: float = 0.0
    scheduling: Optional[Mapping[str, Any]] = None
    #: All ranks, as bitmask.
    ranks: int = attrs.field(init=False, repr=False, eq=False)

    @ranks.default
    def _all_ranks(self) -> int:
        return union(entry.ranks for entry in self.entries)

    @classmethod
    def read(cls, R: Union[Mapping[str, Any], str]) -> ResourceSet:
        """The R in a dict or JSON text.

        Raises InvalidR with the first problem and its JSON pointer, or InvalidKey if that is in
        a scheduling key of treepool.
        """
        value = plain_json(R, InvalidR, "R")
        findings = Findings()
        new = _Reader(findings).read(value)
        if new is None:
            first = _merged(findings, value)[0]
            in_key = first.pointer.split("/")[1:2] == ["scheduling"]
            raise (InvalidKey if in_key else InvalidR)(str(first))
        return new

    @classmethod
    def problems(cls, R: Union[Mapping[str, Any], str]) -> list[Problem]:
        """Everything wrong with an R and its scheduling key, in the order of places.

        None if ``read`` accepts it.
        """
        try:
            value = plain_json(R, InvalidR, "R")
        except InvalidR as e:
            return [Problem("", str(e))]
        findings = Findings()
        _Reader(findings).read(value)
        return _merged(findings, value)

    def key(self) -> Optional[SchedulingKey]:
        """The RFC 49 key that rides along, for just the ranks of this R; None if there is none.

        ``scheduling`` of another scheduler is no key. Raises InvalidKey.
        """
        if self.scheduling is None or not scheduling.is_treepool(self.scheduling):
            return None
        return SchedulingKey.read(self.scheduling).map_to(self.ranks)

    def to_dict(self) -> dict[str, Any]:
        """The R as RFC 20 JSON, with the times always there, as flux-core writes it."""
        execution: dict[str, Any] = {"R_lite": [_entry_to_dict(entry) for entry in self.entries]}
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
    """*entries*, of disjoint ranks, with those of equal resources in one, by lowest rank."""
    ranks: dict[tuple[int, int], int] = {}
    for entry in entries:
        resources = entry.cores, entry.gpus
        ranks[resources] = ranks.get(resources, 0) | entry.ranks
    merged = [RLiteEntry(mask, *resources) for resources, mask in ranks.items()]
    return tuple(sorted(merged, key=lambda entry: idset.lowest(entry.ranks)))


def _entry_to_dict(entry: RLiteEntry) -> dict[str, Any]:
    children = {"core": idset.encode(entry.cores)}
    if entry.gpus:
        children["gpu"] = idset.encode(entry.gpus)
    return {"rank": idset.encode(entry.ranks), "children": children}


def _merged(findings: Findings, value: Any) -> list[Problem]:
    return findings.merged(schema.violations(value, "rfc20-rset"))


class _Reader:
    """Reads one R, noting what is wrong with it."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings

    def read(self, R: object) -> Optional[ResourceSet]:
        """The resource set, or None once problems have been noted."""
        if not isinstance(R, dict):
            self.findings.misformed("", f"must be an object, not {shown(R)}")
            return None
        version = R.get("version")
        if not integer(version) or version != 1:
            self.findings.misformed("/version" if "version" in R else "", "version must be 1")
        execution = R.get("execution")
        if not isinstance(execution, dict):
            self.findings.misformed("/execution" if "execution" in R else "", "must be an object")
            execution = {}
        known = len(self.findings)
        entries = self.R_lite(execution)
        # What names ranks is compared with those of R_lite only if all of these could be read.
        ranks = union(e.ranks for e in entries) if len(self.findings) == known else None
        hosts = self.hosts(execution, ranks)
        properties = self.properties(execution, ranks)
        nslots = self.nslots(execution)
        starttime, expiration = self.times(execution)
        self.scheduling(R, ranks)
        if len(self.findings):
            return None
        return ResourceSet(
            merge_entries(entries),
            tuple(hosts),
            properties,
            nslots,
            starttime,
            expiration,
            R.get("scheduling"),
        )

    def R_lite(self, execution: dict[str, Any]) -> list[RLiteEntry]:
        """The entries of ``R_lite``, those that could be read."""
        at = "/execution/R_lite"
        items = execution.get("R_lite")
        if not isinstance(items, list):
            self.findings.misformed(at if "R_lite" in execution else "/execution", "no R_lite")
            return []
        entries: list[RLiteEntry] = []
        seen = 0
        for i, item in enumerate(items):
            if self.findings.enough:
                break
            entry = self.entry(item, f"{at}/{i}")
            if entry is None:
                continue
            if entry.ranks & seen:
                twice = shown_ids(entry.ranks & seen)
                self.findings.note(f"{at}/{i}/rank", f"ranks {twice} are in an earlier entry too")
            seen |= entry.ranks
            entries.append(entry)
        return entries

    def entry(self, item: object, at: str) -> Optional[RLiteEntry]:
        """One entry of ``R_lite``, or None if its keys are not those of RFC 20."""
        children = item.get("children") if isinstance(item, dict) else None
        if not isinstance(item, dict) or "rank" not in item or not isinstance(children, dict):
            self.findings.misformed(at, "must have rank and children")
            return None
        if "core" not in children or not children.keys() <= {"core", "gpu"}:
            self.findings.misformed(f"{at}/children", "must have core, may have gpu")
            return None
        ranks = self.findings.idset(item["rank"], f"{at}/rank")
        cores = self.findings.idset(children["core"], f"{at}/children/core")
        gpus = 0
        if "gpu" in children:
            gpus = self.findings.idset(children["gpu"], f"{at}/children/gpu")
        return RLiteEntry(ranks, cores, gpus)

    def hosts(self, execution: dict[str, Any], ranks: Optional[int]) -> list[str]:
        """The names in ``nodelist``, as many as there are ranks."""
        at = "/execution/nodelist"
        items = execution.get("nodelist", [] if execution.get("R_lite") == [] else None)
        if not isinstance(items, list):
            self.findings.misformed(at if "nodelist" in execution else "/execution", "no nodelist")
            return []
        known = len(self.findings)
        size = idset.MAX_ID if ranks is None else idset.size(ranks)
        hosts: list[str] = []
        for i, item in enumerate(items):
            if len(hosts) > size or self.findings.enough:
                break
            if isinstance(item, str):
                try:
                    hosts += hostlist.decode(item)
                except InvalidHostlist as e:
                    self.findings.note(f"{at}/{i}", str(e))
            else:
                self.findings.misformed(f"{at}/{i}", f"must be a string, not {shown(item)}")
        if ranks is not None and len(self.findings) == known and len(hosts) != size:
            more = " or more" if len(hosts) > size else ""
            self.findings.note(at, f"has {len(hosts)}{more} hosts for the {size} ranks of R_lite")
        return hosts

    def properties(self, execution: dict[str, Any], ranks: Optional[int]) -> dict[str, int]:
        """``properties`` by name, without those of no rank."""
        at = "/execution/properties"
        items = execution.get("properties", {})
        if not isinstance(items, dict):
            self.findings.misformed(at, f"must be an object, not {shown(items)}")
            return {}
        properties: dict[str, int] = {}
        for name, value in items.items():
            if self.findings.enough:
                break
            self.property_name(name, at)
            mask = self.findings.idset(value, place(at, name), empty=True)
            if ranks is not None and mask & ~ranks:
                stray = shown_ids(mask & ~ranks)
                self.findings.note(place(at, name), f"ranks {stray} are not in R_lite")
            if mask:
                properties[name] = mask
        return properties

    def property_name(self, name: object, at: str) -> None:
        """Check the name of a property (RFC 20: UTF-8, and not all characters)."""
        if not isinstance(name, str) or not name:
            self.findings.note(place(at, name), "a property needs a name")
            return
        illegal = sorted(ILLEGAL_IN_PROPERTY.intersection(name))
        if illegal:
            message = f"a property name may not have {' '.join(illegal)}"
            self.findings.note(place(at, name), message)
        if any("\ud800" <= c <= "\udfff" for c in name):
            self.findings.note(place(at, name), "a property name must be valid UTF-8")

    def nslots(self, execution: dict[str, Any]) -> Optional[int]:
        """``nslots``, if it is there."""
        if "nslots" not in execution:
            return None
        nslots = execution["nslots"]
        if not integer(nslots) or nslots < 1:
            self.findings.misformed("/execution/nslots", "must be a positive integer")
            return None
        return int(nslots)

    def times(self, execution: dict[str, Any]) -> tuple[float, float]:
        """``starttime`` and ``expiration``, 0 if unset."""
        starttime = self.time(execution, "starttime")
        expiration = self.time(execution, "expiration")
        if starttime and expiration and expiration <= starttime:
            self.findings.note("/execution/expiration", "must be greater than starttime")
        return starttime, expiration

    def time(self, execution: dict[str, Any], name: str) -> float:
        value = execution.get(name, 0.0)
        if not number(value) or not 0 <= value <= MAX_TIME:
            self.findings.misformed(f"/execution/{name}", "must be a time in seconds")
            return 0.0
        return float(value)

    def scheduling(self, R: dict[str, Any], ranks: Optional[int]) -> None:
        """Check ``scheduling``, in depth if it is a key of treepool."""
        if "scheduling" not in R:
            return
        value = R["scheduling"]
        if not isinstance(value, dict) or not isinstance(value.get("writer", ""), str):
            self.findings.misformed("/scheduling", "must be an object, its writer a string")
        elif scheduling.is_treepool(value):
            key = scheduling.read_into(self.findings, value, "/scheduling")
            if key is not None and ranks is not None:
                try:
                    key.map_to(ranks)
                except InvalidKey as e:
                    self.findings.note("/scheduling/children", str(e))
