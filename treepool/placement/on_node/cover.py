"""The cover: the fewest children of a domain that together have an amount, and near each other.

This is a small covering problem, and it is solved exactly. Among equally few children, the nearest
to each other are taken, if the key has distances.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate, combinations, islice
from math import comb
from typing import Iterable, Sequence

from treepool.placement.nodes.tree import Domain
from treepool.placement.on_node.levels import Amount

#: Most sets of children whose distances are compared: those of four of twelve.
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

    Among equally few, the children nearest to each other and to those *beside* are taken: first by
    the largest distance, then by the sum of distances, then by their order. If there are more than
    _MOST_SETS sets, only some are compared. Each of these starts with one child and adds the
    nearest remaining one until it is large enough; _MOST_STEPS limits how many are tried.
    """
    found = fewest(amounts, want)
    if not (host.apart and found) or len(found) + len(beside) < 2:
        return found
    useful = [i for i, amount in enumerate(amounts) if any(amount)]

    def far(chosen: Iterable[int]) -> tuple[int, int]:
        here = [*beside, *(children[i] for i in chosen)]
        steps = [host.apart[a][b] for i, a in enumerate(here) for b in here[:i]]
        return max(steps), sum(steps)

    def far_from(child: Domain, others: Sequence[Domain]) -> tuple[int, int]:
        steps = [host.apart[child][other] for other in others]
        return max(steps), sum(steps)

    def grown(first: int) -> list[int]:
        chosen = [first]
        steps = {i: far_from(children[i], [*beside, children[first]]) for i in useful if i != first}
        while len(chosen) < len(found):
            chosen.append(min(steps, key=lambda i: (*steps[i], i)))
            del steps[chosen[-1]]
            row = host.apart[children[chosen[-1]]]
            for i, (most, total) in steps.items():
                steps[i] = max(most, row[children[i]]), total + row[children[i]]
        return sorted(chosen)

    sets: Iterable[Iterable[int]] = combinations(useful, len(found))
    if comb(len(useful), len(found)) > _MOST_SETS:
        starts = max(1, _MOST_STEPS // (len(useful) * len(found)))
        sets = [*map(grown, useful[:starts]), found]
    covering = (
        chosen
        for chosen in sets
        if all(sum(amounts[i][kind] for i in chosen) >= want[kind] for kind in (0, 1))
    )
    return list(min(covering, key=far))


def fewest(amounts: Sequence[Amount], want: Amount) -> list[int]:
    """The indexes of the fewest *amounts* that cover *want*; among equals, the first in order.

    All amounts together must cover *want*. Amounts of the second kind alone are chosen by sorting.
    For m amounts with some of the first kind, of which g are wanted, the tables have m * k * g
    numbers, where k amounts are needed.
    """
    goal = want[0]
    mixed = [amount for amount in amounts if goal and amount[0]]
    plain = sorted(second for first, second in amounts if second and not (goal and first))
    # tables[k][i][g]: the most of the second kind that exactly k of mixed[i:] give together with at
    # least g of the first; -1 if they cannot.
    tables = [[[0] + [-1] * goal] * (len(mixed) + 1)]
    sums = _sums(plain, len(plain))

    def most(count: int, i: int, g: int) -> int:
        """The most of the second kind that *count* give, some of mixed[i:] and others in *sums*."""
        best = -1
        for k in range(max(0, count - len(sums) + 1), min(count, len(tables) - 1) + 1):
            if tables[k][i][g] >= 0:
                best = max(best, tables[k][i][g] + sums[count - k])
        return best

    count = 0
    while most(count, 0, goal) < want[1]:
        count += 1
        if count > len(amounts):
            raise ValueError("the amounts do not cover what is wanted")
        if count <= len(mixed):
            tables.append(_with_one_more(tables[-1], mixed, goal))
    chosen = []
    place, (g, needed) = 0, want
    for i, (first, second) in enumerate(amounts):
        if not count:
            break
        if goal and first:
            place += 1
        elif second:
            del plain[bisect_left(plain, second)]
        else:
            continue  # one that gives nothing is not among the fewest
        sums = _sums(plain, count)
        rest = most(count - 1, place, max(0, g - first))
        if rest >= 0 and rest + second >= needed:
            chosen.append(i)
            count, g, needed = count - 1, max(0, g - first), max(0, needed - second)
    return chosen


def _sums(ascending: Sequence[int], most: int) -> list[int]:
    """The sums of the 0, 1, 2, ... largest numbers, up to *most* of them."""
    return [0, *accumulate(islice(reversed(ascending), most))]


def _with_one_more(
    before: Sequence[Sequence[int]], amounts: Sequence[Amount], goal: int
) -> list[list[int]]:
    """The table that follows *before*, see fewest()."""
    table = [[-1] * (goal + 1) for _ in range(len(amounts) + 1)]
    for i in range(len(amounts) - 1, -1, -1):
        first, second = amounts[i]
        for g in range(goal + 1):
            rest = before[i + 1][max(0, g - first)]
            table[i][g] = max(table[i + 1][g], rest + second if rest >= 0 else -1)
    return table
