"""The scheduling key of RFC 49: the topology of the nodes of an R, by rank.

The key stands in an R as ``scheduling``, or alone. It says which ranks have which topo; the topo
itself stays the JSON it was, because RFC 49 has every allocation carry it along unchanged.
"""

from __future__ import annotations

from typing import Any, Mapping, Optional, Union

import attrs

from treepool.errors import InvalidKey, Problem
from treepool.rfc import idset, linktable, schema, topo
from treepool.rfc.findings import Findings, plain_json, shown, shown_ids
from treepool.rfc.idset import union
from treepool.rfc.links import Links, digest
from treepool.rfc.renumber import Move, by_position, from_zero
from treepool.rfc.topo import RESERVED

__all__ = ["RESERVED", "WRITER", "KeyEntry", "SchedulingKey", "is_treepool", "read_into"]

#: RFC 49: the writer of every key in this form.
WRITER = "TreePool"


@attrs.frozen
class KeyEntry:
    """The nodes of one kind: their ranks as bitmask, and their topo, to be left as it is.

    ``extra`` has the keys of the entry that RFC 49 does not define, untouched.
    """

    ranks: int
    topo: Mapping[str, Any]
    extra: Mapping[str, Any] = attrs.field(factory=dict)

    def to_dict(self, ranks: Optional[str] = None) -> dict[str, Any]:
        """The entry as RFC 49 JSON, for *ranks* (an RFC 22 idset) if given, else for its own."""
        text = idset.encode(self.ranks) if ranks is None else ranks
        return {"ranks": text, "topo": self.topo, **self.extra}


@attrs.frozen
class AllocatedCores:
    """The ids, in the topo, of the cores that some nodes of an allocation have (bitmasks).

    The enclosing instance kept the topo's other ids, but for those that no instance has because
    the site keeps them for the operating system: ``site_cores`` and ``site_gpus``.
    """

    ranks: int
    cores: int
    site_cores: int = 0
    site_gpus: int = 0


def allocated_entry(ranks: str, cores: int, site_cores: int, site_gpus: int) -> dict[str, Any]:
    """An entry of ``allocated`` as it stands in a key, see AllocatedCores."""
    entry: dict[str, Any] = {"ranks": ranks, "cores": idset.encode(cores)}
    if site_cores or site_gpus:
        site = {"cores": site_cores, "gpus": site_gpus}
        entry["site"] = {name: idset.encode(mask) for name, mask in site.items() if mask}
    return entry


@attrs.frozen
class SchedulingKey:
    """A scheduling key (RFC 49); ``extra`` has the keys of other specifications, untouched.

    Entries have disjoint, non-empty ranks. Ranks without an entry are flat nodes. ``allocated``
    is treepool's own addition: when an instance starts on an allocation, Flux counts the cores of
    each node from zero in R_lite, but leaves the topo as it is. It tells which cores of the topo
    they are, wherever the job has less than the pool had or they are not the first ones.
    ``extra`` has treepool's ``links`` too, as they were read, and ``tables`` what they say.
    """

    children: tuple[KeyEntry, ...]
    writer: str = WRITER
    extra: Mapping[str, Any] = attrs.field(factory=dict)
    allocated: tuple[AllocatedCores, ...] = ()
    #: The link tables by the digest of their topo. A key made without them reads them from
    #: ``extra``, and raises InvalidKey if they are malformed.
    tables: Mapping[str, Links] = attrs.field(repr=False, eq=False)
    #: All ranks that have an entry, as bitmask.
    ranks: int = attrs.field(init=False, repr=False, eq=False)

    @tables.default
    def _tables_of_extra(self) -> Mapping[str, Links]:
        if "links" not in self.extra:
            return {}
        findings = Findings()
        tables = linktable.read_tables(findings, self.extra["links"], "/links")
        for problem in findings.merged(()):
            raise InvalidKey(str(problem))
        return tables

    @ranks.default
    def _all_ranks(self) -> int:
        return union(entry.ranks for entry in self.children)

    @classmethod
    def read(cls, key: Union[Mapping[str, Any], str]) -> SchedulingKey:
        """The key in a dict or JSON text.

        Raises InvalidKey with the first problem and its JSON pointer in the key.
        """
        value = plain_json(key, InvalidKey, "scheduling key")
        findings = Findings()
        new = read_into(findings, value, "")
        if new is None:
            raise InvalidKey(str(_merged(findings, value)[0]))
        return new

    @classmethod
    def problems(cls, key: Union[Mapping[str, Any], str]) -> list[Problem]:
        """Everything wrong with a key, in the order of its places; none if ``read`` accepts it."""
        try:
            value = plain_json(key, InvalidKey, "scheduling key")
        except InvalidKey as e:
            return [Problem("", str(e))]
        findings = Findings()
        read_into(findings, value, "")
        return _merged(findings, value)

    def to_dict(self) -> dict[str, Any]:
        """The key as RFC 49 JSON. The topos are this key's own, not copies."""
        children = [entry.to_dict() for entry in self.children]
        key = {"writer": self.writer, "children": children, **self.extra}
        if self.allocated:
            key["allocated"] = [
                allocated_entry(idset.encode(a.ranks), a.cores, a.site_cores, a.site_gpus)
                for a in self.allocated
            ]
        return key

    def links_of(self, topo: Mapping[str, Any]) -> Optional[Links]:
        """What connects the GPUs of a node with this *topo*; None if the key does not say."""
        return self.tables.get(digest(topo)) if self.tables else None

    def trim(self, ranks: int) -> SchedulingKey:
        """The key of an allocation on bitmask *ranks* (RFC 49, "Allocated R")."""
        return self._moved(lambda old: old & ranks)

    def renumber(self, within: Optional[int] = None) -> SchedulingKey:
        """The key with ranks counted from zero (RFC 49, "Sub-instance Initialization").

        A rank becomes its position in bitmask *within*, which has all ranks of the key and is by
        default just these. It must be given for a key that leaves out flat nodes.
        """
        move = from_zero(self.ranks if within is None else within)
        return self._moved(move)

    def map_to(self, ranks: int) -> SchedulingKey:
        """The key for an R that has just *ranks*.

        The key as it is if it is about those ranks, cut to them if it is about more: Flux takes
        the ranks that ``resource.exclude`` names out of R_lite, not out of the key. If it has as
        many others, they are what the enclosing instance called them, and change by sorted
        position: Flux renumbers R_lite of a sub-instance, not the key. Raises InvalidKey, naming
        both sets, if it is none of these.
        """
        return self if self.ranks & ~ranks == 0 else self._moved(self._move_to(ranks))

    def ranks_in(self, ranks: int) -> tuple[int, ...]:
        """For each of ``children`` its ranks in an R that has just *ranks*, 0 if there are none.

        Raises InvalidKey as ``map_to`` does.
        """
        move = self._move_to(ranks)
        return tuple(move(entry.ranks) for entry in self.children)

    def _move_to(self, ranks: int) -> Move:
        """What becomes of a set of this key's ranks in an R that has just *ranks*."""
        if self.ranks & ~ranks == 0:
            return lambda old: old
        if ranks & ~self.ranks == 0:
            return lambda old: old & ranks
        if idset.size(self.ranks) == idset.size(ranks):
            return by_position(self.ranks, ranks)
        raise InvalidKey(
            f"the key has ranks {shown_ids(self.ranks)}, which are neither among the ranks "
            f"{shown_ids(ranks)} of R_lite nor as many"
        )

    def _moved(self, move: Move) -> SchedulingKey:
        """The key with other ranks, without entries that have none left."""
        children = ((entry, move(entry.ranks)) for entry in self.children)
        allocated = ((entry, move(entry.ranks)) for entry in self.allocated)
        return attrs.evolve(
            self,
            children=tuple(attrs.evolve(e, ranks=ranks) for e, ranks in children if ranks),
            allocated=tuple(attrs.evolve(a, ranks=ranks) for a, ranks in allocated if ranks),
        )


def is_treepool(scheduling: object) -> bool:
    """Whether *scheduling* of an R is for this scheduler.

    RFC 20: the scheme of the URI ``writer`` names the scheduler, fluxion if there is no writer.
    """
    writer = scheduling.get("writer") if isinstance(scheduling, Mapping) else None
    return isinstance(writer, str) and writer.partition(":")[0] == WRITER


def read_into(findings: Findings, key: object, at: str) -> Optional[SchedulingKey]:
    """The key *key*, which stands at JSON pointer *at*, or None once problems have been noted."""
    known = len(findings)
    if not isinstance(key, dict):
        findings.misformed(at, f"must be an object, not {shown(key)}")
        return None
    if key.get("writer") != WRITER:
        findings.misformed(f"{at}/writer" if "writer" in key else at, f"writer must be {WRITER}")
    entries = key.get("children", [])
    if not isinstance(entries, list):
        findings.misformed(f"{at}/children", f"must be an array, not {shown(entries)}")
        return None
    children: list[KeyEntry] = []
    seen = 0
    for i, entry in enumerate(entries):
        if findings.enough:
            break
        ranks = _entry(findings, entry, f"{at}/children/{i}")
        if ranks & seen:
            twice = shown_ids(ranks & seen)
            findings.note(f"{at}/children/{i}/ranks", f"ranks {twice} are in an earlier entry too")
        if ranks:
            others = {k: v for k, v in entry.items() if k not in ("ranks", "topo")}
            children.append(KeyEntry(ranks, entry.get("topo", {}), others))
        seen |= ranks
    allocated = _allocated(findings, key.get("allocated", []), f"{at}/allocated", seen)
    tables = linktable.read_tables(findings, key.get("links", {}), f"{at}/links")
    if len(findings) > known:
        return None
    extra = {k: v for k, v in key.items() if k not in ("writer", "children", "allocated")}
    return SchedulingKey(tuple(children), WRITER, extra, allocated, tables)


def _allocated(
    findings: Findings, value: object, at: str, ranks: int
) -> tuple[AllocatedCores, ...]:
    """The entries of ``allocated``, about disjoint sets of *ranks*."""
    if not isinstance(value, list):
        findings.misformed(at, f"must be an array, not {shown(value)}")
        return ()
    found: list[AllocatedCores] = []
    seen = 0
    for i, entry in enumerate(value):
        if findings.enough:
            break
        if not isinstance(entry, dict) or not entry.keys() >= {"ranks", "cores"}:
            findings.misformed(f"{at}/{i}", "must be an object with the keys ranks and cores")
            continue
        site = entry.get("site", {})
        if not isinstance(site, dict):
            findings.misformed(f"{at}/{i}/site", f"must be an object, not {shown(site)}")
            continue
        here = findings.idset(entry["ranks"], f"{at}/{i}/ranks")
        if here & seen or here & ~ranks:
            wrong = shown_ids(here & seen or here & ~ranks)
            why = "in an earlier entry too" if here & seen else "in no entry of children"
            findings.note(f"{at}/{i}/ranks", f"ranks {wrong} are {why}")
        cores = findings.idset(entry["cores"], f"{at}/{i}/cores")
        kept = [
            findings.idset(site[name], f"{at}/{i}/site/{name}") if name in site else 0
            for name in ("cores", "gpus")
        ]
        found.append(AllocatedCores(here, cores, *kept))
        seen |= here
    return tuple(found)


def _entry(findings: Findings, entry: object, at: str) -> int:
    """Check one entry of ``children``; its ranks as bitmask, 0 if it has none that can be read."""
    if not isinstance(entry, dict):
        findings.misformed(at, f"must be an object, not {shown(entry)}")
        return 0
    if not entry.keys() >= {"ranks", "topo"}:
        findings.misformed(at, "must have the keys ranks and topo")
    if "topo" in entry:
        topo.check(entry["topo"], f"{at}/topo", findings)
    return findings.idset(entry["ranks"], f"{at}/ranks") if "ranks" in entry else 0


def _merged(findings: Findings, value: Any) -> list[Problem]:
    return findings.merged(schema.violations(value, "rfc49-scheduling"))
