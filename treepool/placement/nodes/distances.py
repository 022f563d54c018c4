"""How far the domains of a node are from each other, where the key has distances.

The key gives distances between the domains of one locality, which have the memory. Two other
domains are as far apart as the memory in or around them, on average.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, Hashable, Mapping, Sequence, TypeVar

from treepool.rfc import idset
from treepool.rfc.links import Distances
from treepool.rfc.topo import ids, nested, walk

D = TypeVar("D", bound=Hashable)

#: Distances are in thousandths, so that averages are integers and sums are exact.
_UNIT = 1000

#: For each domain of some siblings, its distance to each of them; empty if all are as far apart.
Apart = Mapping[D, Mapping[D, int]]

#: The memory in or around each domain of a topo, by the id() of its JSON: places in a matrix.
Places = Mapping[int, Sequence[int]]


def places_in(topo: Mapping[str, Any], distances: Distances) -> Places:
    """The places of all domains in *topo*; empty if *distances* are not about its domains."""
    bases = [item for name, item in walk(topo) if name == distances.locality]
    bases.sort(key=lambda d: idset.lowest(cores) if (cores := ids(d)[0]) else idset.MAX_ID)
    if len(bases) != len(distances.values):
        return {}
    place = {id(item): i for i, item in enumerate(bases)}
    found: dict[int, Sequence[int]] = {}

    def visit(item: Mapping[str, Any], around: Sequence[int]) -> Sequence[int]:
        own = [place[id(item)]] if id(item) in place else []
        inside = [visit(inner, own or around) for _, inner in nested(item)]
        here = own or list(chain.from_iterable(inside))
        found[id(item)] = here or around
        return here

    visit(topo, ())
    return found


def apart(siblings: Sequence[tuple[D, Sequence[int]]], distances: Distances) -> Apart[D]:
    """How far *siblings*, each with its places, are apart; there is no choice between two."""
    if len(siblings) < 3 or not all(places for _, places in siblings):
        return {}

    def mean(a: Sequence[int], b: Sequence[int]) -> int:
        return sum(_UNIT * distances.values[i][j] for i in a for j in b) // (len(a) * len(b))

    found = {one: {other: mean(a, b) for other, b in siblings} for one, a in siblings}
    between = {found[one][other] for one in found for other in found if one is not other}
    return found if len(between) > 1 else {}
