"""The fabric as JSON, ``scheduling.fabric`` of a key: the tree above the nodes; names, limits.

    {"cell": [{"name": "x1000", "switch": [{"name": "x1000c0r1", "ranks": "0-15"},
                                           {"name": "x1000c0r3", "ranks": "16-31"}]},
              {"name": "x1001", "switch": [{"ranks": "32-47"}, {"ranks": "48-63"}]}]}

A domain is a JSON object with an optional ``name`` and either ``ranks``, or nested localities, or
both; ``ranks`` then includes those of the nested domains. The fabric itself has this form, too: it
is the root, and ranks that are in none of its domains stand alone below it. As in a topo, any other
key whose value is an array of objects is the name of a locality; all other keys are kept and
ignored. Siblings are disjoint.

Sets of ranks are runs here, not bitmasks: 15,000 switches of a machine with a million nodes would
need a gigabyte of bits.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, Mapping, Optional

import attrs

from treepool.errors import InvalidIdset
from treepool.rfc import idset, topo
from treepool.rfc.findings import Findings, pointer_to, shown_ids

#: Ranks as ascending runs that do not touch: first rank, and the rank after the last.
Runs = tuple[tuple[int, int], ...]

#: The keys of a domain that are not localities.
KEYS = ("name", "ranks")

#: Names that a locality of a fabric cannot have.
RESERVED = topo.RESERVED | frozenset(KEYS)

#: Most domains in a fabric.
MAX_DOMAINS = 1 << 17

#: Longest name of a domain, in characters.
MAX_NAME = 128


@attrs.frozen
class FabricDomain:
    """A domain of a fabric, or the whole fabric.

    ``ranks`` are all ranks in it, those of nested domains included. ``inner`` are the nested
    domains by their locality. ``extra`` has the keys that treepool does not define, unchanged.
    """

    ranks: Runs
    inner: tuple[tuple[str, tuple[FabricDomain, ...]], ...] = ()
    name: Optional[str] = None
    extra: Mapping[str, Any] = attrs.field(factory=dict)

    def children(self) -> Iterator[tuple[str, FabricDomain]]:
        """The domains directly inside, each with its locality."""
        for locality, domains in self.inner:
            for domain in domains:
                yield locality, domain

    def localities(self) -> set[str]:
        """The names of all localities in the domain."""
        names = {locality for locality, _ in self.inner}
        return names.union(*(inner.localities() for _, inner in self.children() if inner.inner))

    def mask(self) -> int:
        """The ranks as a bitmask."""
        return idset.from_runs(self.ranks)

    def moved(self, move: Callable[[int], int]) -> Optional[FabricDomain]:
        """The domain with its ranks mapped by *move*, without domains that are then empty.

        *move* maps a bitmask. It keeps the order of ranks, and either drops ranks or renumbers
        them. None if no rank is left.
        """
        old = self.mask()
        new = move(old)
        same = new & ~old == 0
        pairs = ((rank, rank) for rank in idset.iterate(new))
        return self._moved(dict(pairs if same else zip(idset.iterate(old), idset.iterate(new))))

    def _moved(self, to: Mapping[int, int]) -> Optional[FabricDomain]:
        ranks = (to[rank] for first, end in self.ranks for rank in range(first, end) if rank in to)
        runs = tuple(idset.runs_of_ids(ranks))
        if not runs:
            return None
        inner = []
        for locality, domains in self.inner:
            kept = tuple(d for d in (domain._moved(to) for domain in domains) if d is not None)
            if kept:
                inner.append((locality, kept))
        return attrs.evolve(self, ranks=runs, inner=tuple(inner))

    def to_dict(self) -> dict[str, Any]:
        """The domain as JSON; ``ranks`` only where the nested domains do not have all of them."""
        below = tuple(idset.merged(run for _, domain in self.children() for run in domain.ranks))
        return written(
            self.name,
            "" if below == self.ranks and self.inner else idset.encode_runs(self.ranks),
            {name: [domain.to_dict() for domain in domains] for name, domains in self.inner},
            self.extra,
        )


def written(
    name: Optional[str], ranks: str, inner: Mapping[str, Any], extra: Mapping[str, Any]
) -> dict[str, Any]:
    """A domain as JSON. *ranks* is empty if they are those of the domains in *inner*."""
    return {
        **({} if name is None else {"name": name}),
        **({"ranks": ranks} if ranks else {}),
        **inner,
        **extra,
    }


def read(findings: Findings, value: object, at: str) -> FabricDomain:
    """The fabric in *value*, at JSON pointer *at*.

    Problems are noted in *findings*, and the result is then of no use.
    """
    reader = _Reader(findings)
    root = reader.domain(value, at, ())
    if reader.domains > MAX_DOMAINS:
        findings.note(at, f"has more than {MAX_DOMAINS} domains")
    return root


class _Reader:
    """Reads one fabric, and counts its domains."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.domains = -1  # the root is not one

    def domain(self, value: object, at: str, inside: tuple[str, ...]) -> FabricDomain:
        """domain: '{' ["name" ':' string] ["ranks" ':' idset] (locality ':' '[' domain* ']')* '}'

        *inside* has the localities around the domain.
        """
        self.domains += 1
        if not isinstance(value, dict):
            self.findings.mistyped(at, "an object", value)
            return FabricDomain(())
        inner: list[tuple[str, tuple[FabricDomain, ...]]] = []
        placed: list[tuple[str, FabricDomain]] = []
        extra: dict[str, Any] = {}
        nested = False
        for name, items in value.items():
            if name in KEYS or self.findings.enough:
                continue
            key = pointer_to(at, name)
            if not isinstance(name, str) or not topo.is_locality(items):
                self.findings.unread(value, at, name, KEYS)
                extra[name] = items
                continue
            nested = True
            if topo.check_locality(self.findings, name, key, inside, RESERVED):
                domains = tuple(self.siblings(items, key, (*inside, name)))
                inner.append((name, domains))
                placed += [(f"{key}/{i}", domain) for i, domain in enumerate(domains)]
        below = self.disjoint(placed) if placed else ()  # most domains have no other inside
        ranks = below
        if "ranks" in value:
            ranks = self.ranks(value["ranks"], f"{at}/ranks", below)
        elif not nested and inside:
            self.findings.note(at, "has neither ranks nor domains inside")
        if "name" in value:
            text = self.findings.string(value["name"], f"{at}/name", least=1)
            if len(text) > MAX_NAME:
                self.findings.note(f"{at}/name", f"is longer than {MAX_NAME} characters")
        return FabricDomain(ranks, tuple(inner), value.get("name"), extra)

    def siblings(
        self, items: list[Any], key: str, inside: tuple[str, ...]
    ) -> Iterator[FabricDomain]:
        for i, item in enumerate(items):
            if self.domains <= MAX_DOMAINS and not self.findings.enough:
                yield self.domain(item, f"{key}/{i}", inside)

    def ranks(self, value: object, at: str, below: Runs) -> Runs:
        """The ranks in idset *value*, which include those *below*."""
        text = self.findings.string(value, at)
        if not isinstance(value, str):
            return below
        try:
            runs = tuple(idset.merged(idset.decode_runs(text)))
        except InvalidIdset as e:
            self.findings.note(at, str(e))
            return below
        if not runs:
            self.findings.note(at, "must have at least one id")
        together = tuple(idset.merged((*runs, *below))) if below else runs
        if together != runs:
            lacking = shown_ids(idset.from_runs(below) & ~idset.from_runs(runs))
            self.findings.note(at, f"lacks {lacking}, which domains inside have")
        return together

    def disjoint(self, placed: list[tuple[str, FabricDomain]]) -> Runs:
        """All ranks of the domains *placed*, each with its pointer. Notes ranks that two share."""
        runs = sorted((run, i) for i, (_, domain) in enumerate(placed) for run in domain.ranks)
        last, owner = -1, -1
        noted: set[int] = set()
        for (first, end), i in runs:
            if first < last and i not in noted and not self.findings.enough:
                noted.add(i)
                at, domain = placed[i]
                sibling_at, sibling = placed[owner]
                both = shown_ids(domain.mask() & sibling.mask())
                self.findings.note(at, f"ranks {both} also in the sibling at {sibling_at}")
            if end > last:
                last, owner = end, i
        return tuple(idset.merged(run for run, _ in runs))
