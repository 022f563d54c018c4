"""The scheduling key of RFC 49: topos by rank, ``allocated`` ids, how ranks map to those of an R.

The key is the value of ``scheduling`` in an R, or a document of its own. It says which ranks have
which topo. The topo itself stays JSON, because RFC 49 copies it unchanged into every allocation.

The file has more than 300 lines because a key is read, moved to other ranks and written here.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Sequence, Union

import attrs

from treepool.errors import InvalidKey, Problem
from treepool.rfc import document, fabric, idset, topo
from treepool.rfc.fabric import FabricDomain
from treepool.rfc.findings import Findings, Readers, plain_json, shown, shown_ids
from treepool.rfc.hostlist import MAX_HOSTS
from treepool.rfc.idset import union
from treepool.rfc.links import Links, digest, read_tables
from treepool.rfc.topo import Topo

#: Moves a rank set, both as bitmasks.
Move = Callable[[int], int]

#: RFC 49: the writer of every key in this form.
WRITER = "TreePool"

#: Most ranks in ``allocated`` beside ``children``: as many as an R may have.
MAX_TOLD = MAX_HOSTS

#: RFC 20: the writer of a key that names none, which is a graph in JSON Graph Format (RFC 40).
FLUXION = "fluxion"


@attrs.frozen
class AllocatedIds:
    """The ids, in the topo, of the cores and GPUs that a node of an allocation has (bitmasks).

    The other ids of the topo stayed with the enclosing instance, except ``site_cores`` and
    ``site_gpus``, which no instance has because the site keeps them for the operating system.
    Without ``gpus``, these have the same ids in R. Without ``cores``, the node has a part of the
    topo, and nobody knows which.
    """

    cores: int
    gpus: int = 0
    site_cores: int = 0
    site_gpus: int = 0

    def fits(self, cores: int, gpus: int) -> bool:
        """Whether they can be those of a node of R with these *cores* and *gpus*: as many."""
        same = not gpus or not self.gpus or idset.size(gpus) == idset.size(self.gpus)
        return same and idset.size(cores) == idset.size(self.cores)

    def to_dict(self) -> dict[str, Any]:
        """The JSON of ``allocated`` in an entry of ``children``."""
        found: dict[str, Any] = {"cores": idset.encode(self.cores)}
        if self.gpus:
            found["gpus"] = idset.encode(self.gpus)
        if self.site_cores or self.site_gpus:
            site = {"cores": self.site_cores, "gpus": self.site_gpus}
            found["site"] = {name: idset.encode(mask) for name, mask in site.items() if mask}
        return found


#: A part of a node, not known which.
SOME = AllocatedIds(0)


@attrs.frozen
class KeyEntry:
    """The nodes of one kind: their ranks as bitmask, and their topo, which must not be changed.

    ``allocated`` says what of the topo each of them has in an allocation, None if it has all that
    the enclosing instance had there, with the same ids. ``extra`` has the keys of the entry that
    RFC 49 and treepool do not define, unchanged. ``tree`` is what the topo says; by default it is
    read, which raises InvalidKey for a malformed one.
    """

    ranks: int
    topo: Mapping[str, Any]
    extra: Mapping[str, Any] = attrs.field(factory=dict)
    allocated: Optional[AllocatedIds] = None
    tree: Topo = attrs.field(repr=False, eq=False, kw_only=True)

    @tree.default
    def _read(self) -> Topo:
        return topo.read(self.topo)

    def to_dict(self) -> dict[str, Any]:
        """The entry as RFC 49 JSON."""
        return self.of_job(idset.encode(self.ranks), self.allocated)

    def of_job(self, ranks: str, allocated: Optional[AllocatedIds]) -> dict[str, Any]:
        """The same for *ranks* (an RFC 22 idset), of which an allocation has *allocated*."""
        entry = {"ranks": ranks, "topo": self.topo, **self.extra}
        if allocated is not None:
            entry["allocated"] = allocated.to_dict()
        return entry


@attrs.frozen
class SchedulingKey:
    """A scheduling key (RFC 49). ``extra`` has the keys that RFC 49 does not define, unchanged.

    Entries have disjoint, non-empty ranks. Ranks without an entry are flat nodes. ``allocated`` of
    an entry is treepool's own addition: when an instance starts on an allocation, Flux counts the
    cores of each node from zero in R_lite, and with contained resources (flux-core PR 7806) the
    GPUs, too, but leaves the topo unchanged. ``allocated`` says which cores and GPUs of the topo
    these are, wherever the job has fewer than the pool had or not the first ones. It is in the
    entry because other readers renumber ``children`` and nothing else.
    ``extra`` also has treepool's ``links`` as they were read; ``tables`` has what they say.
    ``fabric`` is the tree above the nodes, None if the key has none; see fabric.py.
    """

    children: tuple[KeyEntry, ...]
    writer: str = WRITER
    extra: Mapping[str, Any] = attrs.field(factory=dict)
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

    def fitting(self, nodes: Iterable[tuple[int, int, int]]) -> SchedulingKey:
        """The key for an R of *nodes*: ranks, and the cores and GPUs of each, as bitmasks.

        What ``allocated`` says is dropped where R has other numbers of cores and GPUs: a scheduler
        between this one and the one that wrote it did not know it. The node then has some part.
        """
        if all(entry.allocated in (None, SOME) for entry in self.children):
            return self
        has = {rank: ids for ranks, *ids in nodes for rank in idset.iterate(ranks)}
        children = []
        for entry in self.children:
            told, odd = entry.allocated, 0
            if told is not None and told != SOME:
                ranks = (rank for rank in idset.iterate(entry.ranks) if rank in has)
                odd = idset.from_ids(rank for rank in ranks if not told.fits(*has[rank]))
            parts = (entry.ranks & ~odd, told), (odd, SOME)
            children += [attrs.evolve(entry, ranks=r, allocated=of) for r, of in parts if r]
        return attrs.evolve(self, children=tuple(children))

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
        return attrs.evolve(
            self,
            children=tuple(attrs.evolve(e, ranks=ranks) for e, ranks in children if ranks),
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
    """Whether *scheduling* of an R is a graph for Fluxion, see ``is_treepool``."""
    return (
        "graph" in scheduling
        and str(scheduling.get("writer", FLUXION)).partition(":")[0] == FLUXION
    )


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
    children = _with_allocated(found.get("children", ()), found.get("allocated", ()))
    above = found.get("fabric")
    if above is not None:
        _check_names(findings, children, above, f"{at}/fabric")
        if len(findings) > known:
            return None
    return SchedulingKey(children, WRITER, extra, above, found.get("links", {}))


#: The keys of a key that ``extra`` does not have.
_OWN = ("writer", "children", "allocated", "fabric")


def _with_allocated(
    children: Sequence[KeyEntry], told: Sequence[tuple[int, AllocatedIds]]
) -> tuple[KeyEntry, ...]:
    """*children* with what ``allocated`` beside them says of ranks: the form of treepool 0.1.

    If it is about other ranks than *children*, a reader that did not know it has renumbered these.
    """
    if not told:
        return tuple(children)
    many = sum(idset.size(ranks) for ranks, _ in told) > MAX_TOLD
    if many or union(ranks for ranks, _ in told) & ~union(entry.ranks for entry in children):
        return tuple(attrs.evolve(e, allocated=e.allocated or SOME) for e in children)
    of = {rank: ids for ranks, ids in told for rank in idset.iterate(ranks)}
    named, found = idset.from_ids(of), []
    for entry in children:
        here = entry.ranks & named if entry.allocated is None else 0
        parts: dict[AllocatedIds, list[int]] = {}
        for rank in idset.iterate(here):
            parts.setdefault(of[rank], []).append(rank)
        if entry.ranks & ~here:
            found.append(attrs.evolve(entry, ranks=entry.ranks & ~here))
        for ids, ranks in parts.items():
            found.append(attrs.evolve(entry, ranks=idset.from_ids(ranks), allocated=ids))
    return tuple(found)


def _check_names(
    findings: Findings, children: Iterable[KeyEntry], above: FabricDomain, at: str
) -> None:
    """Note each locality that is in a topo of *children* and in the fabric *above*."""
    names = above.localities()
    for i, entry in enumerate(children):
        for name in names & entry.tree.localities:
            names.discard(name)
            findings.note(
                at, f"locality {shown(name)} is in the topo of entry {i} of children, too"
            )


class _Reader:
    """Reads the entries of one key, and keeps which ranks have one."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.ranks = self.allocated_ranks = 0
        ids = findings.idset
        self.part_readers: Readers = {
            "cores": lambda v, at: ids(v, at, empty=True),
            "gpus": ids,
            "site": lambda v, at: findings.members(v, at, {"cores": ids, "gpus": ids}),
        }

    def entry(self, value: object, at: str) -> KeyEntry:
        """An entry of ``children``."""
        readers: Readers = {
            "ranks": self.findings.idset,
            "topo": lambda v, at: topo.read_into(self.findings, v, at),
            "allocated": self.part,
        }
        found = self.findings.members(value, at, readers, required=("ranks", "topo"))
        ranks = found.get("ranks", 0)
        self.findings.repeated(f"{at}/ranks", "ranks", ranks & self.ranks)
        self.ranks |= ranks
        entry = value if isinstance(value, dict) else {}
        others = {k: v for k, v in entry.items() if k not in readers}
        tree = found.get("topo") or topo.read({})
        allocated = found.get("allocated")
        return KeyEntry(ranks, entry.get("topo", {}), others, allocated, tree=tree)

    def allocated(self, value: object, at: str) -> tuple[int, AllocatedIds]:
        """An entry of ``allocated`` beside ``children``: ranks, and what each of them has."""
        readers = {"ranks": self.findings.idset, **self.part_readers}
        found = self.findings.members(value, at, readers, required=("ranks", "cores"))
        ranks = found.get("ranks", 0)
        self.findings.repeated(f"{at}/ranks", "ranks", ranks & self.allocated_ranks)
        self.allocated_ranks |= ranks
        return ranks, _allocated_ids(found)

    def part(self, value: object, at: str) -> AllocatedIds:
        """``allocated`` of an entry of ``children``."""
        return _allocated_ids(self.findings.members(value, at, self.part_readers, ("cores",)))


def _allocated_ids(found: Mapping[str, Any]) -> AllocatedIds:
    site = found.get("site", {})
    ids = (part.get(name, 0) for part in (found, site) for name in ("cores", "gpus"))
    return AllocatedIds(*ids)
