"""Warnings about a scheduling key (RFC 49): what is legal in it, but probably a mistake.

    /scheduling/writer: the scheduler is called 'TreePool', not 'treepool', so the key is ignored
    /scheduling/children: rank 5 has no entry, so its node has no topology
    /scheduling/children/0/topo: cores 8-11 are not in R_lite of rank 3 ...
    /scheduling/children/0/topo: lacks cores 8-11 of rank 3 ...
    /scheduling/children/0/allocated: 8 cores, but R_lite of rank 3 has 4 cores ...
    /scheduling/children/0/topo/mem: unknown key, ignored; the key that matters is 'memory'

``treepool validate`` and the log of the Flux module show these lines. They are about valid keys
only; ``SchedulingKey.problems`` has the problems of others.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, Iterable, Iterator, Mapping

import attrs

from treepool.rfc import idset, topo
from treepool.rfc.findings import Findings, Unknown, pointer_to, shown, shown_ids
from treepool.rfc.idset import union
from treepool.rfc.links import digest
from treepool.rfc.quote import nearest
from treepool.rfc.rset import ResourceSet
from treepool.rfc.scheduling import SOME, WRITER, SchedulingKey, is_treepool, read_into

#: Most warnings about one key. A last one says that there are more.
MAX_WARNINGS = 20

#: Most pairs of an entry of R_lite and an entry of the key that are compared. A million pairs take
#: a second, and a cluster has few kinds of nodes.
MAX_PAIRS = 1 << 16

#: Most different unknown keys that are compared with the known ones. These take 20 ms.
MAX_NAMES = 500


def warnings(resource_set: ResourceSet, strays: bool = False) -> list[str]:
    """One short line for each probable mistake in the key of *resource_set*.

    With *strays*, ranks of the key that R lacks are among them; in an instance the site may have
    excluded these. Each line starts with the JSON pointer of its place in R. There are at most
    MAX_WARNINGS lines, and one that says so. There are none for an R without a key, or with an
    invalid one.
    """
    scheduling = resource_set.scheduling
    if scheduling is None:
        return []
    if not is_treepool(scheduling):
        return _limited(_writer(scheduling))
    unknown: list[Unknown] = []
    key = read_into(Findings(unknown), scheduling, "/scheduling")
    if key is None:
        return []
    place = resource_set.mask, resource_set.allocated
    if next(key.misplaced(*place), None):
        return []
    check = _Check(key, resource_set, key.ranks_in(*place))
    stray = (f"/scheduling{problem}" for problem in key.strays(*place) if strays)
    return _limited(chain(stray, check.lines(), _misspelt(unknown)))


def key_warnings(key: Mapping[str, Any]) -> list[str]:
    """What a scheduling *key* warns of, without an R."""
    unknown: list[Unknown] = []
    return [] if read_into(Findings(unknown), key, "") is None else _limited(_misspelt(unknown))


def _limited(lines: Iterable[str]) -> list[str]:
    """The first MAX_WARNINGS of *lines*, and a line that says so if there are more."""
    kept: list[str] = []
    for line in lines:
        if len(kept) == MAX_WARNINGS:
            return [*kept, "/scheduling: more warnings, not shown"]
        kept.append(line)
    return kept


def _writer(scheduling: Mapping[str, Any]) -> Iterator[str]:
    """A warning if a key names no writer, or misspells treepool's name."""
    if "writer" not in scheduling and "children" in scheduling:
        yield f"/scheduling: key 'writer', {WRITER!r}, is missing, so the key is ignored"
    writer = scheduling.get("writer")
    name = writer.partition(":")[0] if isinstance(writer, str) else ""
    plain = name.translate({ord(c): None for c in "-_ "})
    if nearest(plain, (WRITER.casefold(),)):
        yield (
            f"/scheduling/writer: the scheduler is called {WRITER!r}, not {shown(name)}, "
            "so the key is ignored"
        )


@attrs.frozen
class _Check:
    """Compares a key with its R. ``ranks`` are those of each entry of the key, as in R_lite."""

    key: SchedulingKey
    resource_set: ResourceSet
    ranks: tuple[int, ...]

    @property
    def allocated(self) -> bool:
        """Whether R is an allocation, which may have less than the key describes."""
        told = any(entry.allocated is not None for entry in self.key.children)
        return self.resource_set.nslots is not None or told

    def lines(self) -> Iterator[str]:
        yield from self.uncovered()
        yield from self.unfit()
        if not self.allocated:
            yield from self.unused_tables()
            yield from self.other_ids()

    def uncovered(self) -> Iterator[str]:
        """Ranks without an entry, in a key that has entries for other ranks."""
        lacking = self.resource_set.mask & ~union(self.ranks)
        if not lacking or not self.key.children:
            return
        one = idset.size(lacking) == 1
        ranks = f"rank {shown_ids(lacking)} has" if one else f"ranks {shown_ids(lacking)} have"
        nodes = "its node has" if one else "their nodes have"
        yield f"/scheduling/children: {ranks} no entry, so {nodes} no topology"

    def unfit(self) -> Iterator[str]:
        """Allocated ids that cannot be those of R, and are ignored."""
        beside = (self.resource_set.scheduling or {}).get("allocated", ())  # as treepool 0.1 wrote
        strange = union(idset.decode(item["ranks"]) for item in beside) & ~self.key.described
        if strange:
            yield (
                f"/scheduling/allocated: ranks {shown_ids(strange)} are in no entry of children, "
                "so it is ignored"
            )
        pairs = 0
        for i, (entry, ranks) in enumerate(zip(self.key.children, self.ranks)):
            told = entry.allocated
            if told is None or told == SOME:
                continue
            for r_lite in self.resource_set.entries:
                pairs += 1
                if pairs > MAX_PAIRS:
                    return
                here = r_lite.ranks & ranks
                if here and not told.fits(r_lite.cores, r_lite.gpus):
                    at = (
                        "/scheduling/allocated" if beside else f"/scheduling/children/{i}/allocated"
                    )
                    rank = f"rank{'' if idset.size(here) == 1 else 's'} {shown_ids(here)}"
                    has, given = _number(r_lite.cores, r_lite.gpus), _number(told.cores, told.gpus)
                    yield f"{at}: {given}, but R_lite of {rank} has {has}, so it is ignored"

    def unused_tables(self) -> Iterator[str]:
        """Link tables without a topo, and distances that do not fit the topo of their table."""
        if not self.key.tables:
            return
        used = {digest(entry.topo): entry.tree for entry in self.key.children}
        for name, table in self.key.tables.items():
            at, far = pointer_to("/scheduling/links", name), table.distances
            if name not in used:
                yield f"{at}: no topo of the key has this digest, so the table is not used"
            elif far:
                domains = sum(d.locality == far.locality for d in used[name].walk())
                if domains != len(far.values):
                    what = f"{shown(far.locality)} has {domains} domains, not {len(far.values)}"
                    yield f"{at}/distances: {what}, so they are not used"

    def other_ids(self) -> Iterator[str]:
        """Ids of a topo that R_lite lacks on some node of its entry, or has alone."""
        pairs = 0
        for i, (entry, ranks) in enumerate(zip(self.key.children, self.ranks)):
            if not ranks:
                continue
            there = entry.tree
            if not there.cores and not there.gpus:
                continue
            for r_lite in self.resource_set.entries:
                pairs += 1
                if pairs > MAX_PAIRS:
                    yield "/scheduling/children: too many entries to compare all ids with R_lite"
                    return
                here = r_lite.ranks & ranks
                if not here:
                    continue
                at = f"/scheduling/children/{i}/topo"
                rank = f"rank{'' if idset.size(here) == 1 else 's'} {shown_ids(here)}"
                absent = _ids(there.cores & ~r_lite.cores, there.gpus & ~r_lite.gpus)
                if absent:
                    so = "and are left to the operating system"
                    yield f"{at}: {absent} are not in R_lite of {rank}, {so}"
                alone = _ids(
                    r_lite.cores & ~there.cores if there.cores else 0,
                    r_lite.gpus & ~there.gpus if there.gpus else 0,
                )
                if alone:
                    yield f"{at}: lacks {alone} of {rank}, which are in no domain"


def _number(cores: int, gpus: int) -> str:
    """The numbers of cores and GPUs in words."""
    kinds = (idset.size(cores), "core"), (idset.size(gpus), "GPU")
    return " and ".join(f"{n} {what}{'s' * (n != 1)}" for n, what in kinds if n)


def _ids(cores: int, gpus: int) -> str:
    """Sets of ids of cores and GPUs in words, "" if both are empty."""
    kinds = ("cores", cores), ("GPUs", gpus)
    return " and ".join(f"{what} {shown_ids(ids)}" for what, ids in kinds if ids)


def _misspelt(unknown: Iterable[Unknown]) -> Iterator[str]:
    """Those of the *unknown* keys of a key that look like a known one. Each name comes once."""
    meant: dict[tuple[str, tuple[str, ...]], str] = {}
    for where, name, known, values in unknown:
        if (name, known) in meant:
            continue
        if len(meant) >= MAX_NAMES:
            return
        right = nearest(name, known)
        meant[name, known] = right
        if right in values:  # the known key is there too, so this one is something else
            continue
        if right and known is topo.DEFINED:
            yield f"{where}: a locality of this name; RFC 49 calls it {right!r}"
        elif right:
            yield f"{where}: unknown key, ignored; the key that matters is {right!r}"
        elif known is topo.KEYS and _like_domains(values[name]):
            yield f"{where}: unknown key, ignored; a locality is an array of objects"


def _like_domains(value: object) -> bool:
    """Whether *value*, which is not a locality, looks like an attempt at one."""
    if isinstance(value, dict):
        return any(key in value for key in (*topo.KEYS, *topo.DEFINED))
    return (
        isinstance(value, list)
        and bool(value)
        and isinstance(value[0], str)
        and value[0][:1].isdecimal()
    )
