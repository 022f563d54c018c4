"""The cover: the fewest children of a domain that together have an amount, and near each other.

All sets of as few children as may do are compared, unless these are more than _MOST_SETS. Then it
is the largest children that are taken, and with distances sets of near ones are compared to these.
"""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import Iterable, Sequence

from treepool.placement.nodes.tree import Domain
from treepool.placement.on_node.levels import Amount

#: Most sets of children that are compared: those of four of twelve.
_MOST_SETS = 500

#: Most distances that are added up if there are more sets; 16 of 32 children need half of them.
_MOST_STEPS = 32_768


def nearest(
    host: Domain,
    children: Sequence[Domain],
    amounts: Sequence[Amount],
    want: Amount,
    beside: Sequence[Domain] = (),
) -> list[int]:
    """The indexes of the fewest *children* of *host* whose *amounts* cover *want*.

    All of them together must. Among equally few, the children nearest to each other and to those
    *beside* are taken: first by the largest distance, then by the sum of distances, then by their
    order. If there are too many sets to compare, there may be fewer or nearer ones.
    """
    useful = [i for i, amount in enumerate(amounts) if any(amount)]

    def covers(chosen: Iterable[int]) -> bool:
        enough = not want[0] or sum([amounts[i][0] for i in chosen]) >= want[0]
        return enough and sum([amounts[i][1] for i in chosen]) >= want[1]

    def far(chosen: Iterable[int]) -> tuple[int, int]:
        here = [*beside, *(children[i] for i in chosen)] if host.apart else []
        steps = [host.apart[a][b] for i, a in enumerate(here) for b in here[:i]]
        return max(steps, default=0), sum(steps)

    def largest(among: Iterable[int], kind: int, have: int) -> list[int]:
        """The fewest of *among* that have what is wanted of a *kind*, with what others *have*."""
        taken = []
        for i in sorted(among, key=lambda i: (-amounts[i][kind], -amounts[i][1 - kind], i)):
            if have >= want[kind]:
                break
            taken.append(i)
            have += amounts[i][kind]
        return taken

    some, alone = (largest(useful, kind, 0) if want[kind] else [] for kind in (0, 1))
    least = max(len(some), len(alone))
    rest = set(useful).difference(some)
    some += largest(rest, 1, sum(amounts[i][1] for i in some)) if some else alone
    for count in range(least, len(some) + 1):
        if comb(len(useful), count) <= _MOST_SETS:
            covering = filter(covers, combinations(useful, count))
            first = next(covering, None)
            if first is not None:
                return list(min([first, *covering], key=far) if host.apart else first)
    some.sort()
    if not host.apart:
        return some

    def grown(first: int) -> list[int]:
        """As many as in *some*: *first*, and each time the one nearest to the others."""
        chosen, near = [first], [*beside, children[first]]
        steps = {i: (0, 0) for i in useful if i != first}
        while len(chosen) < len(some):
            for row in [host.apart[domain] for domain in near]:
                for i, (most, total) in steps.items():
                    steps[i] = max(most, row[children[i]]), total + row[children[i]]
            chosen.append(min(steps, key=lambda i: (*steps[i], i)))
            del steps[chosen[-1]]
            near = [children[chosen[-1]]]
        return sorted(chosen)

    starts = useful[: max(1, _MOST_STEPS // (len(useful) * len(some)))]
    return min([*filter(covers, map(grown, starts)), some], key=far)
