"""Loads: how often each domain gives to the slots of a layout, and tables of the best loads."""

from __future__ import annotations

from typing import Callable, Iterator, Optional, Union

import attrs

from treepool.placement.nodes.tree import Domain


@attrs.frozen(eq=False)
class Load:
    """Domain ``point`` gives ``times`` times."""

    point: Domain
    times: int


#: Loads, as a tree whose inner nodes are pairs; None means no loads. Most are never read, so some
#: are functions that compute the loads on demand.
Loads = Union[None, Load, tuple["Loads", "Loads"], Callable[[], "Loads"]]

#: Indexed by the number of slots, or of times that domains give: the largest possible number of
#: other amounts, and the loads that allow it. None where that many do not fit.
Table = list[Optional[tuple[int, Loads]]]


def together(one: Table, other: Table, upto: int) -> Table:
    """The combined table of two disjoint domains, up to index *upto*."""
    found: Table = [None] * min(len(one) + len(other) - 1, upto + 1)
    for i, first in enumerate(one):
        if first is None:
            continue
        for j, second in enumerate(other[: len(found) - i]):
            if second is None:
                continue
            amounts = first[0] + second[0]
            best = found[i + j]
            if best is None or best[0] < amounts:
                found[i + j] = amounts, (first[1], second[1])
    return found


def flat(loads: Loads) -> Iterator[Load]:
    """The loads in a tree of loads."""
    stack = [loads]
    while stack:
        found = stack.pop()
        if isinstance(found, Load):
            yield found
        elif callable(found):
            stack.append(found())
        elif found is not None:
            stack += found
