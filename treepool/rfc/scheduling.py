"""The scheduling key of RFC 49: the topology of the nodes of an R, by rank.

The key stands in an R as ``scheduling``, or alone. It says which ranks have which topo; the topo
itself stays the JSON it was, because RFC 49 has every allocation carry it along unchanged.
"""

from __future__ import annotations

from typing import Any, Mapping, Optional, Union

import attrs

from treepool.errors import InvalidKey, Problem
from treepool.rfc import idset, linktable, topo
from treepool.rfc.findings import Findings, Readers, plain_json, shown_ids
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
        findings.check(InvalidKey)
        return tables

    @ranks.default
    def _all_ranks(self) -> int:
        return union(entry.ranks for entry in self.children)

    @classmethod
    def read(cls, key: Union[Mapping[str, Any], str]) -> SchedulingKey:
        """The key in a dict or JSON text.

        Raises InvalidKey with the first problem and its JSON pointer in the key.
        """
        findings = Findings()
        new = read_into(findings, plain_json(key, InvalidKey, "scheduling key"), "")
        findings.check(InvalidKey)
        assert new is not None
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
        return findings.problems()

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
    reader = _Reader(findings)
    readers: Readers = {
        "writer": lambda v, at: findings.one_of(v, at, (WRITER,)),
        "children": lambda v, at: findings.items(v, at, reader.entry),
        "allocated": lambda v, at: findings.items(v, at, reader.allocated),
        "links": lambda v, at: linktable.read_tables(findings, v, at),
    }
    found = findings.members(key, at, readers, required=("writer",))
    if len(findings) > known or not isinstance(key, dict):
        return None
    extra = {k: v for k, v in key.items() if k not in ("writer", "children", "allocated")}
    children, allocated = tuple(found.get("children", ())), tuple(found.get("allocated", ()))
    return SchedulingKey(children, WRITER, extra, allocated, found.get("links", {}))


class _Reader:
    """Reads the entries of one key, and keeps which ranks have one."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.ranks = self.allocated_ranks = 0

    def entry(self, value: object, at: str) -> KeyEntry:
        """An entry of ``children``."""
        readers: Readers = {
            "ranks": self.findings.idset,
            "topo": lambda v, at: topo.check(v, at, self.findings),
        }
        ranks = self.findings.members(value, at, readers, required=readers).get("ranks", 0)
        if ranks & self.ranks:
            twice = shown_ids(ranks & self.ranks)
            self.findings.note(f"{at}/ranks", f"ranks {twice} are in an earlier entry too")
        self.ranks |= ranks
        entry = value if isinstance(value, dict) else {}
        others = {k: v for k, v in entry.items() if k not in readers}
        return KeyEntry(ranks, entry.get("topo", {}), others)

    def allocated(self, value: object, at: str) -> AllocatedCores:
        """An entry of ``allocated``, about ranks that have an entry of ``children``."""
        ids = self.findings.idset
        readers: Readers = {
            "ranks": ids,
            "cores": ids,
            "site": lambda v, at: self.findings.members(v, at, {"cores": ids, "gpus": ids}),
        }
        found = self.findings.members(value, at, readers, required=("ranks", "cores"))
        ranks, site = found.get("ranks", 0), found.get("site", {})
        if ranks & self.allocated_ranks:
            twice = shown_ids(ranks & self.allocated_ranks)
            self.findings.note(f"{at}/ranks", f"ranks {twice} are in an earlier entry too")
        elif ranks & ~self.ranks:
            stray = shown_ids(ranks & ~self.ranks)
            self.findings.note(f"{at}/ranks", f"ranks {stray} are in no entry of children")
        self.allocated_ranks |= ranks
        return AllocatedCores(
            ranks, found.get("cores", 0), site.get("cores", 0), site.get("gpus", 0)
        )
