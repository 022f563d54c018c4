"""The spread: which ids of a domain an amount takes.

An amount that no smaller domain can host spans as few child domains as possible. This is a small
covering problem, and it is solved exactly. Among equally few, those nearest to each other are
taken, if the key has distances. GPUs come from domains with free cores beside them.
Cores come from the domains of the chosen GPUs, level by level, in proportion to the GPUs; other
domains give cores only after that.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate, combinations, islice
from math import comb
from typing import Iterable, Optional, Sequence

from treepool.placement.gpus.best_set import ANY, best_set, indifferent
from treepool.placement.nodes.links import LinkTable
from treepool.placement.nodes.tree import Domain, lowest_id
from treepool.placement.on_node.levels import Amount, free_in
from treepool.placement.request.need import Demand
from treepool.rfc import idset

#: Most sets of children whose distances are compared: those of four of twelve.
_MOST_SETS = 500

#: Most distances that are looked at where there are more sets; 16 of 32 children need half of it.
_MOST_STEPS = 32_768


def lowest_ids(domain: Domain, want: Amount, cores: int, gpus: int) -> tuple[int, int]:
    """The lowest free cores and GPUs of *domain* that make up *want*, regardless of the tree."""
    return (
        idset.take_lowest(domain.cores & cores, want[1]),
        idset.take_lowest(domain.gpus & gpus, want[0]),
    )


def spread(
    domain: Domain,
    want: Amount,
    cores: int,
    gpus: int,
    links: Optional[LinkTable] = None,
    demand: Optional[Demand] = None,
) -> tuple[int, int]:
    """The cores and GPUs of *domain* that make up *want*; *domain* must have *want* free.

    The GPUs are chosen first. With *links*, they are the best set that meets *demand*; such a set
    must exist. If the links do not distinguish the GPUs, they come from as few child domains as
    GPUs and cores together need. The cores are then chosen near the GPUs.
    """
    linked = links is not None and want[0] > 0
    if not linked and not domain.children:
        return lowest_ids(domain, want, cores, gpus)
    free = domain.gpus & gpus
    demand = ANY if demand is None else demand
    if linked and links is not None and not indifferent(links, free, demand):
        taken = best_set(links, free, want[0], demand) or 0
    else:
        taken = _spread_gpus(domain, want, cores, gpus)
    return cores_near(domain, taken, want[1], cores, gpus), taken


def _spread_gpus(domain: Domain, want: Amount, cores: int, gpus: int) -> int:
    """The GPUs of *want*: at each level, from the fewest children that together have *want*.

    Among equally few children, those that have each GPU's share of the cores beside it are
    preferred.
    """
    if not want[0]:
        return 0
    own = idset.size(domain.own_gpus & gpus), idset.size(domain.own_cores & cores)
    less = max(0, want[0] - own[0]), max(0, want[1] - own[1])
    children = _fullest_first(domain.children, cores, gpus)
    amounts = [free_in(child, cores, gpus) for child in children]
    sources = nearest(domain, children, amounts, less)
    fed = [(_fed(amount, want), amount[1]) for amount in amounts]
    if sum(g for g, _ in fed) >= less[0]:
        better = nearest(domain, children, fed, less)
        sources = better if len(better) == len(sources) else sources
    amounts = [own] + [amounts[i] for i in sources]
    given_gpus = _deal_gpus(want, amounts)
    given_cores = deal_beside(want[1], given_gpus, [have for _, have in amounts])
    taken = idset.take_lowest(domain.own_gpus & gpus, given_gpus[0])
    for place, i in enumerate(sources, 1):
        amount = given_gpus[place], given_cores[place]
        taken |= _spread_gpus(children[i], amount, cores, gpus)
    return taken


def _fed(amount: Amount, want: Amount) -> int:
    """How many GPUs of *amount* have their share of *want*'s cores beside them."""
    return min(amount[0], amount[1] * want[0] // want[1]) if want[1] else amount[0]


def _deal_gpus(want: Amount, amounts: Sequence[Amount]) -> list[int]:
    """Deal *want*'s GPUs out to sources in order, first where cores are free beside the GPUs.

    GPUs without cores beside them are used only when no other GPUs are left.
    """
    given = deal(want[0], [_fed(amount, want) for amount in amounts])
    rest = [have - taken for (have, _), taken in zip(amounts, given)]
    return [n + more for n, more in zip(given, deal(want[0] - sum(given), rest))]


def deal_beside(wanted: int, gpus: Sequence[int], cores: Sequence[int]) -> list[int]:
    """Deal *wanted* cores out to sources in proportion to the *gpus* that each gives.

    A source gives at most the *cores* it has. The other sources with GPUs give what it lacks, again
    in proportion. Sources without GPUs give only what is still missing, in order. Shares are
    rounded down; the remaining cores go to the sources with the largest remainders, the first
    source first among equals.
    """
    given = [0] * len(cores)
    dealt = [i for i, number in enumerate(gpus) if number]
    left = wanted
    while dealt:
        total = sum(gpus[i] for i in dealt)
        short = [i for i in dealt if cores[i] * total < left * gpus[i]]
        if not short:
            break
        for i in short:
            given[i] = cores[i]
        left -= sum(cores[i] for i in short)
        dealt = [i for i in dealt if i not in short]
    if dealt:
        total = sum(gpus[i] for i in dealt)
        for i in dealt:
            given[i] = left * gpus[i] // total
        rest = left - sum(given[i] for i in dealt)
        for i in sorted(dealt, key=lambda i: -(left * gpus[i] % total))[:rest]:
            given[i] += 1
        return given
    others = [0 if gpus[i] else have for i, have in enumerate(cores)]
    return [n + more for n, more in zip(given, deal(left, others))]


def cores_near(host: Domain, taken: int, wanted: int, cores: int, gpus: int) -> int:
    """*wanted* free cores of *host* near the GPUs *taken*; all its free cores if it has fewer.

    At each level, the children with some of the GPUs give cores in proportion to these GPUs, as far
    as they have cores. The cores in no child come next, then as few other children as possible.
    """
    here = host.gpus & taken
    if not here:
        return _cores_of(host, wanted, cores, gpus)
    near = _fullest_first((c for c in host.children if c.gpus & taken), cores, gpus)
    others = [child for child in host.children if not child.gpus & taken]
    own_gpus = idset.size(host.own_gpus & taken)
    have = [idset.size(host.own_cores & cores), *(idset.size(d.cores & cores) for d in near)]
    beside = [own_gpus, *(idset.size(d.gpus & taken) for d in near)]
    shares = deal_beside(wanted, beside, have)
    chosen = idset.take_lowest(host.own_cores & cores, shares[0])
    for child, share in zip(near, shares[1:]):
        chosen |= cores_near(child, taken, share, cores, gpus)
    left = wanted - sum(shares)
    return chosen | _from_fewest(host, others, left, cores, gpus, near) if left else chosen


def _cores_of(domain: Domain, wanted: int, cores: int, gpus: int) -> int:
    """*wanted* free cores of *domain*, which must have them: its own, then of few children."""
    chosen = idset.take_lowest(domain.own_cores & cores, wanted)
    left = wanted - idset.size(chosen)
    if not left:
        return chosen
    return chosen | _from_fewest(domain, domain.children, left, cores, gpus)


def _from_fewest(
    host: Domain,
    domains: Iterable[Domain],
    wanted: int,
    cores: int,
    gpus: int,
    beside: Sequence[Domain] = (),
) -> int:
    """*wanted* free cores from as few of *domains* as possible; they must have them.

    *domains* are children of *host*, and so are those *beside* which they are to be near.
    """
    domains = _fullest_first((d for d in domains if d.cores & cores), cores, gpus)
    amounts = [idset.size(domain.cores & cores) for domain in domains]
    sources = nearest(host, domains, [(0, amount) for amount in amounts], (0, wanted), beside)
    chosen = 0
    for i, share in zip(sources, deal(wanted, [amounts[i] for i in sources])):
        chosen |= _cores_of(domains[i], share, cores, gpus)
    return chosen


def _fullest_first(domains: Iterable[Domain], cores: int, gpus: int) -> list[Domain]:
    """*domains* by fewest free GPUs, then fewest free cores, then lowest id."""
    return sorted(domains, key=lambda d: (free_in(d, cores, gpus), lowest_id(d)))


def deal(wanted: int, amounts: Sequence[int]) -> list[int]:
    """Deal *wanted* out to sources in order; each gives as much as it can."""
    given = []
    for amount in amounts:
        given.append(min(wanted, amount))
        wanted -= given[-1]
    return given


def nearest(
    host: Domain,
    children: Sequence[Domain],
    amounts: Sequence[Amount],
    want: Amount,
    beside: Sequence[Domain] = (),
) -> list[int]:
    """The indexes of the fewest *children* of *host* whose *amounts* cover *want*.

    Among equally few, those nearest to each other and to the children *beside*: the largest
    distance counts, then the sum. Among equals, the first in order. If there are very many
    combinations, those are compared that each grow from one child by the nearest next, as many as
    _MOST_STEPS allows.
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

    options: Iterable[Iterable[int]] = combinations(useful, len(found))
    if comb(len(useful), len(found)) > _MOST_SETS:
        starts = max(1, _MOST_STEPS // (len(useful) * len(found)))
        options = [*map(grown, useful[:starts]), found]
    covering = (
        chosen
        for chosen in options
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
        """The same of exactly *count*, some of mixed[i:] and the others of those in *sums*."""
        from_mixed = range(max(0, count - len(sums) + 1), min(count, len(tables) - 1) + 1)
        found = ((tables[k][i][g], sums[count - k]) for k in from_mixed)
        return max((one + other for one, other in found if one >= 0), default=-1)

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
