"""The scheduling key of RFC 49: topos by rank, ``allocated`` ids, how ranks map to those of an R.

The key is the value of ``scheduling`` in an R, or a document of its own. It says which ranks have
which topo. The topo itself stays JSON, because RFC 49 copies it unchanged into every allocation.

The file has more than 300 lines because a key is read, moved to other ranks and written here.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Union

import attrs

from treepool.errors import InvalidKey, Problem
from treepool.rfc import document, fabric, idset, topo
from treepool.rfc.fabric import FabricDomain
from treepool.rfc.findings import Findings, Readers, plain_json, shown, shown_ids
from treepool.rfc.idset import union
from treepool.rfc.links import Links, digest, read_tables

#: Moves a rank set, both as bitmasks.
Move = Callable[[int], int]

#: RFC 49: the writer of every key in this form.
WRITER = "TreePool"

#: RFC 20: the writer of a key that names none, which is a graph in JSON Graph Format (RFC 40).
FLUXION = "fluxion"


@attrs.frozen
class KeyEntry:
    """The nodes of one kind: their ranks as bitmask, and their topo, which must not be changed.

    ``extra`` has the keys of the entry that RFC 49 does not define, unchanged.
    """

    ranks: int
    topo: Mapping[str, Any]
    extra: Mapping[str, Any] = attrs.field(factory=dict)

    def to_dict(self, ranks: Optional[str] = None) -> dict[str, Any]:
        """The entry as RFC 49 JSON, for *ranks* (an RFC 22 idset) or by default its own."""
        text = idset.encode(self.ranks) if ranks is None else ranks
        return {"ranks": text, "topo": self.topo, **self.extra}


@attrs.frozen
class AllocatedIds:
    """The ids, in the topo, of the cores and GPUs that some nodes of an allocation have (bitmasks).

    The other ids of the topo stayed with the enclosing instance, except ``site_cores`` and
    ``site_gpus``, which no instance has because the site keeps them for the operating system.
    Without ``gpus``, these have the same ids in R.
    """

    ranks: int
    cores: int
    gpus: int = 0
    site_cores: int = 0
    site_gpus: int = 0


def allocated_entry(
    ranks: str, cores: int, gpus: int, site_cores: int, site_gpus: int
) -> dict[str, Any]:
    """An entry of ``allocated`` in a key, see AllocatedIds."""
    entry: dict[str, Any] = {"ranks": ranks, "cores": idset.encode(cores)}
    if gpus:
        entry["gpus"] = idset.encode(gpus)
    if site_cores or site_gpus:
        site = {"cores": site_cores, "gpus": site_gpus}
        entry["site"] = {name: idset.encode(mask) for name, mask in site.items() if mask}
    return entry


@attrs.frozen
class SchedulingKey:
    """A scheduling key (RFC 49). ``extra`` has the keys that RFC 49 does not define, unchanged.

    Entries have disjoint, non-empty ranks. Ranks without an entry are flat nodes. ``allocated``
    is treepool's own addition: when an instance starts on an allocation, Flux counts the cores of
    each node from zero in R_lite, and with contained resources (flux-core PR 7806) the GPUs, too,
    but leaves the topo unchanged. ``allocated`` says which cores and GPUs of the topo these are,
    wherever the job has fewer than the pool had or not the first ones.
    ``extra`` also has treepool's ``links`` as they were read; ``tables`` has what they say.
    ``fabric`` is the tree above the nodes, None if the key has none; see fabric.py.
    """

    children: tuple[KeyEntry, ...]
    writer: str = WRITER
    extra: Mapping[str, Any] = attrs.field(factory=dict)
    allocated: tuple[AllocatedIds, ...] = ()
    fabric: Optional[FabricDomain] = None
    #: The link tables by the digest of their topo. By default they are read from ``extra``, which
    #: raises InvalidKey if they are malformed.
    tables: Mapping[str, Links] = attrs.field(repr=False, eq=False)
    #: All ranks in the fabric, as bitmask.
    above: int = attrs.field(init=False, repr=False, eq=False)
    #: All ranks that have an entry or are in the fabric, as bitmask.
    mask: int = attrs.field(init=False, repr=False, eq=False)

    @tables.default
    def _tables_of_extra(self) -> Mapping[str, Links]:
        if "links" not in self.extra:
            return {}
        findings = Findings()
        tables = read_tables(findings, self.extra["links"], "/links")
        findings.check(InvalidKey)
        return tables

    @above.default
    def _ranks_of_the_fabric(self) -> int:
        return self.fabric.mask() if self.fabric is not None else 0

    @mask.default
    def _all_ranks(self) -> int:
        return self.described | self.above

    @property
    def ranks(self) -> tuple[int, ...]:
        """All ranks that have an entry or are in the fabric, ascending."""
        return tuple(idset.iterate(self.mask))

    @property
    def described(self) -> int:
        """All ranks that have an entry, as bitmask."""
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
        """All problems of a key, in the order of their places; none if ``read`` accepts it."""
        try:
            value = plain_json(key, InvalidKey, "scheduling key")
        except InvalidKey as e:
            return [Problem("", str(e))]
        findings = Findings()
        read_into(findings, value, "")
        return findings.problems()

    def to_dict(self) -> dict[str, Any]:
        """The key as RFC 49 JSON, which is the caller's own."""
        key: dict[str, Any] = document.copied(self.shared())
        return key

    def shared(self) -> dict[str, Any]:
        """``to_dict`` to look at only: it has this key's own topos, not copies."""
        children = [entry.to_dict() for entry in self.children]
        key = {"writer": self.writer, "children": children, **self.extra}
        if self.fabric is not None:
            key["fabric"] = self.fabric.to_dict()
        if self.allocated:
            key["allocated"] = [
                allocated_entry(idset.encode(a.ranks), a.cores, a.gpus, a.site_cores, a.site_gpus)
                for a in self.allocated
            ]
        return key

    def links_of(self, topo: Mapping[str, Any]) -> Optional[Links]:
        """The links between the GPUs of a node with this *topo*; None if the key has none."""
        return self.tables.get(digest(topo)) if self.tables else None

    def trim(self, ranks: int) -> SchedulingKey:
        """The key of an allocation on bitmask *ranks* (RFC 49, "Allocated R")."""
        return self._moved(lambda old: old & ranks)

    def renumber(self, within: Optional[int] = None) -> SchedulingKey:
        """The key with ranks counted from zero (RFC 49, "Sub-instance Initialization").

        Each rank becomes its position in bitmask *within*, which includes all ranks of the key. The
        default is exactly these ranks. A key that leaves out flat nodes needs *within*.
        """
        move = idset.from_zero(self.mask if within is None else within)
        return self._moved(move)

    def map_to(self, ranks: int, allocated: bool = False) -> SchedulingKey:
        """The key for an R that has exactly *ranks*; *allocated* tells that it is that of a job.

        - ``children`` and ``fabric`` are cut to *ranks*, each by its own ranks.
        - In an *allocated* R, Flux has renumbered R_lite for a sub-instance, but not the key, and
          then removed the ranks in ``resource.exclude``. A key that has ranks which R_lite lacks,
          and as many as R_lite had before that, maps by sorted position. Where the ranks of
          ``children`` include those of ``fabric``, or the reverse, the positions are the same.

        Raises InvalidKey if ``children`` or ``fabric`` has ranks, but none of R.
        """
        for problem in self.misplaced(ranks, allocated):
            raise InvalidKey(str(problem))
        if self.mask & ~ranks == 0:
            return self
        return self._moved(*(move for _, _, move in self._moves(ranks, allocated)))

    def misplaced(self, ranks: int, allocated: bool = False) -> Iterator[Problem]:
        """Why ``map_to`` refuses R: each of ``children`` and ``fabric`` that is about others."""
        for name, own, move in self._moves(ranks, allocated):
            if own and ranks and not own & ranks and not move(own):
                others = f"ranks {shown_ids(own)}, none of which is among ranks {shown_ids(ranks)}"
                yield Problem(f"/{name}", f"has {others} of R_lite")

    def strays(self, ranks: int, allocated: bool = False) -> Iterator[Problem]:
        """The ranks of ``children`` and of ``fabric`` that an R lacks which has exactly *ranks*."""
        for name, own, move in self._moves(ranks, allocated):
            if own & ~ranks and move(own) == own & ranks:
                what = "rank" if idset.size(own & ~ranks) == 1 else "ranks"
                yield Problem(f"/{name}", f"{what} {shown_ids(own & ~ranks)} not in R_lite")

    def ranks_in(self, ranks: int, allocated: bool = False) -> tuple[int, ...]:
        """The ranks of each of ``children`` in an R that has exactly *ranks*; see ``map_to``."""
        (_, _, move), _ = self._moves(ranks, allocated)
        return tuple(move(entry.ranks) for entry in self.children)

    def _moves(self, ranks: int, allocated: bool) -> tuple[tuple[str, int, Move], ...]:
        """Of ``children`` and ``fabric``: the name, the ranks, and how they map to an R's *ranks*.

        *allocated* is as in ``map_to``.
        """
        below, above = self.described, self.above
        together = not (below & ~above and above & ~below)
        parts = ("children", below), ("fabric", above)
        return tuple(
            (name, own, _move(self.mask if together else own, ranks, allocated))
            for name, own in parts
        )

    def _moved(self, move: Move, above: Optional[Move] = None) -> SchedulingKey:
        """The key with its ranks mapped by *move*, without entries that are then empty.

        The ranks of the fabric are mapped by *above*, by default in the same way.
        """
        children = ((entry, move(entry.ranks)) for entry in self.children)
        allocated = ((entry, move(entry.ranks)) for entry in self.allocated)
        return attrs.evolve(
            self,
            children=tuple(attrs.evolve(e, ranks=ranks) for e, ranks in children if ranks),
            allocated=tuple(attrs.evolve(a, ranks=ranks) for a, ranks in allocated if ranks),
            fabric=self.fabric.moved(above or move) if self.fabric is not None else None,
        )


def _move(own: int, ranks: int, allocated: bool) -> Move:
    """How *own* ranks of a key map to those of an R that has exactly *ranks*, see ``map_to``."""
    if allocated and own & ~ranks:
        if ranks.bit_length() <= idset.size(own):
            position = idset.from_zero(own)
            return lambda old: position(old) & ranks
        if idset.size(own) == idset.size(ranks):
            return idset.by_position(own, ranks)
    return lambda old: old & ranks


def is_treepool(scheduling: object) -> bool:
    """Whether *scheduling* of an R is for this scheduler.

    RFC 20: the scheme of the URI ``writer`` names the scheduler; the default is fluxion.
    """
    writer = scheduling.get("writer") if isinstance(scheduling, Mapping) else None
    return isinstance(writer, str) and writer.partition(":")[0] == WRITER


def is_fluxion(scheduling: Mapping[str, Any]) -> bool:
    """Whether *scheduling* of an R is for Fluxion, see ``is_treepool``."""
    return str(scheduling.get("writer", FLUXION)).partition(":")[0] == FLUXION


def read_into(findings: Findings, key: object, at: str) -> Optional[SchedulingKey]:
    """The key in *key*, at JSON pointer *at*; None if problems were noted in *findings*."""
    known = len(findings)
    reader = _Reader(findings)
    readers: Readers = {
        "writer": lambda v, at: findings.one_of(v, at, (WRITER,)),
        "children": lambda v, at: findings.items(v, at, reader.entry),
        "allocated": lambda v, at: findings.items(v, at, reader.allocated),
        "links": lambda v, at: read_tables(findings, v, at),
        "fabric": lambda v, at: fabric.read(findings, v, at),
    }
    found = findings.members(key, at, readers, required=("writer",))
    if len(findings) > known or not isinstance(key, dict):
        return None
    extra = {k: v for k, v in key.items() if k not in _OWN}
    children, allocated = tuple(found.get("children", ())), tuple(found.get("allocated", ()))
    above = found.get("fabric")
    if above is not None:
        _check_names(findings, children, above, f"{at}/fabric")
        if len(findings) > known:
            return None
    return SchedulingKey(children, WRITER, extra, allocated, above, found.get("links", {}))


#: The keys of a key that ``extra`` does not have.
_OWN = ("writer", "children", "allocated", "fabric")


def _check_names(
    findings: Findings, children: Iterable[KeyEntry], above: FabricDomain, at: str
) -> None:
    """Note each locality that is in a topo of *children* and in the fabric *above*."""
    names = above.localities()
    for i, entry in enumerate(children):
        for name in names.intersection(d.locality for d in topo.read(entry.topo).walk()):
            names.discard(name)
            findings.note(
                at, f"locality {shown(name)} is in the topo of entry {i} of children, too"
            )


class _Reader:
    """Reads the entries of one key, and keeps which ranks have one."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.ranks = self.allocated_ranks = 0

    def entry(self, value: object, at: str) -> KeyEntry:
        """An entry of ``children``."""
        readers: Readers = {
            "ranks": self.findings.idset,
            "topo": lambda v, at: topo.read_into(self.findings, v, at),
        }
        ranks = self.findings.members(value, at, readers, required=readers).get("ranks", 0)
        self.findings.repeated(f"{at}/ranks", "ranks", ranks & self.ranks)
        self.ranks |= ranks
        entry = value if isinstance(value, dict) else {}
        others = {k: v for k, v in entry.items() if k not in readers}
        return KeyEntry(ranks, entry.get("topo", {}), others)

    def allocated(self, value: object, at: str) -> AllocatedIds:
        """An entry of ``allocated``, about ranks that have an entry of ``children``."""
        ids = self.findings.idset
        readers: Readers = {
            "ranks": ids,
            "cores": ids,
            "gpus": ids,
            "site": lambda v, at: self.findings.members(v, at, {"cores": ids, "gpus": ids}),
        }
        found = self.findings.members(value, at, readers, required=("ranks", "cores"))
        ranks, site = found.get("ranks", 0), found.get("site", {})
        self.findings.repeated(f"{at}/ranks", "ranks", ranks & self.allocated_ranks)
        if ranks & ~self.ranks:
            stray = shown_ids(ranks & ~self.ranks)
            self.findings.note(f"{at}/ranks", f"ranks {stray} are in no entry of children")
        self.allocated_ranks |= ranks
        return AllocatedIds(
            ranks,
            found.get("cores", 0),
            found.get("gpus", 0),
            site.get("cores", 0),
            site.get("gpus", 0),
        )
