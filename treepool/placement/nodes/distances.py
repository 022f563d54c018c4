"""How far the domains of a node are from each other, where the key has distances.

The key gives distances between the domains of one locality, which have the memory. Two other
domains are as far apart as the memory in them, on average of both directions.
"""

from __future__ import annotations

from itertools import chain
from typing import Callable, Hashable, Mapping, Sequence, TypeVar

from treepool.rfc import idset
from treepool.rfc.links import MAX_DOMAINS, Distances
from treepool.rfc.topo import Topo

D = TypeVar("D", bound=Hashable)

#: Distances are in thousandths, so that averages are integers and sums are exact.
_UNIT = 1000

#: For each domain of some siblings, its distance to each of them; empty if all are as far apart.
Apart = Mapping[D, Mapping[D, int]]

#: The memory in each domain of a topo: places in a matrix.
Places = Mapping[Topo, Sequence[int]]


def places_in(topo: Topo, distances: Distances) -> Places:
    """The places of all domains in *topo*; empty if *distances* are not about its domains."""
    bases = [domain for domain in topo.walk() if domain.locality == distances.locality]
    bases.sort(key=lambda d: idset.lowest(d.cores) if d.cores else idset.MAX_ID)
    if len(bases) != len(distances.values):
        return {}
    place = {domain: i for i, domain in enumerate(bases)}
    places: dict[Topo, Sequence[int]] = {}

    def visit(domain: Topo) -> Sequence[int]:
        inside = list(chain.from_iterable(visit(inner) for inner in domain.inside))
        places[domain] = [place[domain]] if domain in place else inside
        return places[domain]

    visit(topo)
    return places


def farthest(among: Apart[D], some: Sequence[D]) -> float:
    """The largest distance between *some* siblings, 10 being local; 0 if it is not known."""
    steps = (among[one][other] for i, one in enumerate(some) for other in some[:i] if among)
    return max(steps, default=0) / _UNIT


def nearness(among: Apart[D]) -> Callable[[D, D], float]:
    """How near two siblings are: 1 if they are the same, 0 if none are farther, or not known."""
    most = max((max(row.values()) for row in among.values()), default=0)

    def near(one: D, other: D) -> float:
        if one is other or not among:
            return float(one is other)
        return (most - among[one][other]) / max(1, most - among[one][one])

    return near


def apart(siblings: Sequence[tuple[D, Sequence[int]]], distances: Distances) -> Apart[D]:
    """How far *siblings*, each with its places, are apart; there is no choice between two.

    Only where memory is shared are there more siblings than distances; these are not compared.
    """
    different = {tuple(places) for _, places in siblings}
    if not 2 < len(siblings) <= MAX_DOMAINS or len(different) < 2 or () in different:
        return {}

    def mean(a: Sequence[int], b: Sequence[int]) -> int:
        both = (distances.values[i][j] + distances.values[j][i] for i in a for j in b)
        return _UNIT * sum(both) // (2 * len(a) * len(b))

    found = {one: {other: mean(a, b) for other, b in siblings} for one, a in siblings}
    between = {found[one][other] for one in found for other in found if one is not other}
    return found if len(between) > 1 else {}
