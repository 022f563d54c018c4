"""The fabric, compiled: domains above the nodes, ranks that stand alone, what a job's R has of it.

Domains are numbered, parents before children; domain 0 is the root. What is known of them are lists
by number, so that counting what is free in each (census.py) is plain arithmetic.

A rank that is directly in a domain that also has nested domains *stands alone* there. It has a
domain of its own, without a locality: it then is what any other domain is to the choice of nodes.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Container, Iterable, Iterator, Mapping, Optional, Sequence

from treepool.placement.effort import remembered
from treepool.rfc import idset
from treepool.rfc.fabric import FabricDomain, written

#: The number of the root.
ROOT = 0

#: For how many sets of ranks the domains are remembered: more than a site has constraints in use.
_MAX_SETS = 256


class Fabric:
    """A tree of domains above the nodes of a pool; the lists are by the number of the domain.

    ``locality`` is "" for the root and for ranks that stand alone. ``height`` is how many levels of
    domains are inside: 0 for those that only have nodes, the *leaves*. ``lowest`` is the lowest
    rank, ``size`` the number of ranks, and ``place`` the place among siblings by lowest rank, in
    which order ``children`` are. The domains inside a domain have the numbers after its
    own, up to ``end``. ``homes`` has the leaves of each rank. A rank has one leaf, unless the
    domains are the members of a property family, which need not be disjoint.
    """

    def __init__(self, width: int) -> None:
        self.parent: list[int] = []
        self.children: list[list[int]] = []
        self.locality: list[str] = []
        self.name: list[Optional[str]] = []
        self.height: list[int] = []
        self.lowest: list[int] = []
        self.size: list[int] = []
        self.place: list[int] = []
        self.end: list[int] = []
        #: The ranks of each leaf, ascending; none for others.
        self.ranks: list[Sequence[int]] = []
        self.homes: list[tuple[int, ...]] = [()] * width
        self.extra: list[Mapping[str, Any]] = []
        self._named: dict[str, bytearray] = {}
        self._within: dict[str, bytearray] = {}
        self._sizes: dict[tuple[str, frozenset[Any]], list[int]] = {}
        #: By leaf, the lowest rank, and all ranks less that (bitmask).
        self._shapes: dict[int, tuple[int, int]] = {}
        self._having: dict[int, frozenset[int]] = {}

    @classmethod
    def of(cls, root: FabricDomain, ranks: int, width: int) -> Fabric:
        """The fabric *root* of a pool that has the *ranks* (bitmask), all below *width*."""
        new = cls(width)
        new._add("", root, -1, idset.iterate(ranks))
        return new

    @classmethod
    def of_sets(cls, sets: Mapping[str, int], width: int) -> Fabric:
        """A fabric of one level: a domain for each of *sets*, by name. Their order, not their
        lowest rank, decides between equal ones."""
        new = cls(width)
        new._new("", None, -1, {})
        for place, (name, members) in enumerate(sets.items()):
            leaf = new._new("", name, ROOT, {})
            new._leaf(leaf, members)
            new.lowest[leaf] = place
        new._close(ROOT)
        return new

    def __len__(self) -> int:
        return len(self.parent)

    @cached_property
    def localities(self) -> tuple[str, ...]:
        """The names of the localities, the highest first."""
        depth: dict[str, int] = {}
        for domain, name in enumerate(self.locality):
            if name:
                depth[name] = max(depth.get(name, 0), len(self.paths[domain]))
        return tuple(sorted(depth, key=lambda name: (depth[name], name)))

    @cached_property
    def paths(self) -> list[tuple[int, ...]]:
        """Each domain and all around it, the smallest first and the root last."""
        chains: list[tuple[int, ...]] = []
        for domain, parent in enumerate(self.parent):
            chains.append((domain, *chains[parent]) if parent >= 0 else (domain,))
        return chains

    def having(self, ranks: int) -> Container[int]:
        """The domains that have some of *ranks* (bitmask), all if that is EVERY."""
        if ranks == idset.EVERY:
            return range(len(self))

        def having() -> frozenset[int]:
            leaves = {leaf for rank in idset.iterate(ranks) for leaf in self.homes[rank]}
            return frozenset(domain for leaf in leaves for domain in self.paths[leaf])

        return remembered(self._having, _MAX_SETS, ranks, having)

    def part(self, leaf: int, ranks: int) -> int:
        """Those of *ranks* (bitmask) that are in *leaf*."""
        low, members = self._shapes[leaf]
        return (ranks >> low & members) << low

    def leaves_of(self, ranks: int) -> Iterator[tuple[int, int]]:
        """The leaves of *ranks* (bitmask), of which each has one, with those that are in each."""
        while ranks:
            leaf = self.homes[idset.lowest(ranks)][0]
            here = self.part(leaf, ranks)
            yield leaf, here
            ranks ^= here

    def around(self, domain: int) -> tuple[int, ...]:
        """*domain* and all domains around it, without the root, the smallest first."""
        return self.paths[domain][:-1]

    def named(self, locality: str) -> bytearray:
        """By domain, whether it is a domain of *locality*; "" means all directly in the pool."""
        flags = self._named.get(locality)
        if flags is None:
            values, value = (self.locality, locality) if locality else (self.parent, ROOT)
            flags = self._named[locality] = bytearray(one == value for one in values)
        return flags

    def within(self, locality: str) -> bytearray:
        """By domain, whether it is a domain of *locality* or is in one."""
        flags = self._within.get(locality)
        if flags is None:
            flags = self._within[locality] = self.named(locality).copy()
            for domain in range(1, len(flags)):
                flags[domain] |= flags[self.parent[domain]]
        return flags

    def inside(self, domain: int) -> range:
        """*domain* and all domains in it, parents first."""
        return range(domain, self.end[domain])

    def named_in(self, domain: int, locality: str) -> list[int]:
        """The domains of *locality* in *domain*, which may be one itself."""
        named = self.named(locality)
        return [inner for inner in self.inside(domain) if named[inner]]

    def leaves(self, domain: int) -> Iterator[int]:
        """The leaves in *domain*, which may be one itself."""
        return (inner for inner in self.inside(domain) if not self.height[inner])

    def ranks_in(self, domain: int) -> Iterator[int]:
        """All ranks in *domain*."""
        for leaf in self.leaves(domain):
            yield from self.ranks[leaf]

    def shown(self, domain: int) -> str:
        """*domain* in words: its locality and name, or its lowest rank if it has no name."""
        if not self.locality[domain]:
            return f"rank {self.lowest[domain]}" if domain else "the pool"
        name = self.name[domain]
        return f"{self.locality[domain]} {name or f'of rank {self.lowest[domain]}'}"

    def spanned(self, ranks: int, locality: str) -> int:
        """How many domains of *locality* the *ranks* (bitmask) span: a rank in none is one."""
        found, alone = set(), 0
        for leaf, here in self.leaves_of(ranks):
            around = [d for d in self.around(leaf) if self.locality[d] == locality]
            found.update(around[:1])
            alone += 0 if around else idset.size(here)
        return len(found) + alone

    def highest(self, ranks: int) -> set[int]:
        """The domains directly below the root that *ranks* (bitmask) are in."""
        return {self.paths[leaf][-2] for leaf, _ in self.leaves_of(ranks)}

    def sizes(
        self, locality: str, kinds: frozenset[Any], types: Sequence[Optional[Any]]
    ) -> Sequence[int]:
        """How many nodes of some *kinds* the domains of *locality* have, the largest first.

        *types* has the kind of each rank.
        """
        key = locality, kinds
        sizes = self._sizes.get(key)
        if sizes is None:
            counts = (
                sum(types[rank] in kinds for rank in self.ranks_in(domain))
                for domain, name in enumerate(self.locality)
                if name == locality
            )
            sizes = self._sizes[key] = sorted(filter(None, counts), reverse=True)
        return sizes

    def cut(self, ranks: int) -> Optional[dict[str, Any]]:
        """``scheduling.fabric`` for some *ranks* (bitmask): without domains that are empty."""
        having = dict(self.leaves_of(ranks))
        # A domain says all its ranks if some of them stand alone there.
        mixed = {self.parent[leaf] for leaf in having if not self.locality[leaf]}
        for leaf, those in list(having.items()) if mixed else ():
            for domain in mixed.intersection(self.around(leaf)):
                having[domain] = having.get(domain, 0) | those
        inner: dict[int, dict[str, list[Any]]] = {}
        # Children have higher numbers than their parents, so all of a domain's come before it.
        for domain in sorted({d for leaf in having for d in self.around(leaf)}, reverse=True):
            if self.locality[domain]:
                one = written(
                    self.name[domain],
                    idset.encode(having.get(domain, 0)),
                    _ordered(inner.get(domain, {})),
                    self.extra[domain],
                )
                around = inner.setdefault(self.parent[domain], {})
                around.setdefault(self.locality[domain], []).append(one)
        tree = written(None, "", _ordered(inner.get(ROOT, {})), self.extra[ROOT])
        return tree if inner else None

    # -- compiling

    def _new(
        self, locality: str, name: Optional[str], parent: int, extra: Mapping[str, Any]
    ) -> int:
        number = len(self.parent)
        self.parent.append(parent)
        self.children.append([])
        self.locality.append(locality)
        self.name.append(name)
        self.height.append(0)
        self.lowest.append(-1)
        self.size.append(0)
        self.place.append(0)
        self.end.append(number + 1)
        self.ranks.append(())
        self.extra.append(extra)
        if parent >= 0:
            self.children[parent].append(number)
        return number

    def _leaf(self, number: int, members: int) -> None:
        ranks = self.ranks[number] = list(idset.iterate(members))
        self.lowest[number] = ranks[0] if ranks else -1
        self.size[number] = len(ranks)
        low = max(0, self.lowest[number])
        self._shapes[number] = low, members >> low
        home: dict[tuple[int, ...], tuple[int, ...]] = {}  # most ranks share one tuple
        for rank in ranks:
            old = self.homes[rank]
            self.homes[rank] = home.setdefault(old, (*old, number))

    def _close(self, number: int) -> None:
        """Set what follows from the children of domain *number*."""
        children = self.children[number]
        if children:
            self.height[number] = 1 + max(self.height[child] for child in children)
            self.lowest[number] = min(self.lowest[child] for child in children)
            self.size[number] = sum(self.size[child] for child in children)
            self.end[number] = self.end[children[-1]]
            children.sort(key=self.lowest.__getitem__)
            for place, child in enumerate(children):
                self.place[child] = place

    def _add(
        self, locality: str, domain: FabricDomain, parent: int, alone: Iterable[int] = ()
    ) -> None:
        """Add *domain* and all in it. *alone* are more ranks that may stand alone in it."""
        number = self._new(locality, domain.name, parent, domain.extra)
        if not domain.inner and parent >= 0:
            self._leaf(number, idset.from_runs(domain.ranks))
            return
        ranks = (rank for first, end in domain.ranks for rank in range(first, end))
        for inner, child in sorted(domain.children(), key=lambda pair: pair[1].ranks):
            self._add(inner, child, number)
        for rank in (*ranks, *alone):
            if not self.homes[rank]:
                self._leaf(self._new("", None, number, {}), 1 << rank)
        self._close(number)


def _ordered(inner: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """*inner*, whose domains were met in descending order, in ascending order."""
    return {name: domains[::-1] for name, domains in reversed(list(inner.items()))}
