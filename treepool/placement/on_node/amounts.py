"""Amounts: which cores and GPUs of a domain are taken, near each other and from few domains.

An amount that no smaller domain can host spans as few child domains as possible, see cover.py. GPUs
come from domains with free cores beside them. Cores come from the domains of the chosen GPUs, level
by level, in proportion to the GPUs; other domains give cores only after that.
"""

from __future__ import annotations

from typing import Iterable, Optional, Sequence

from treepool.placement.effort import Effort
from treepool.placement.gpus.best_set import ANY, best_set, indifferent
from treepool.placement.gpus.graph import graph_of, lowest_joined
from treepool.placement.nodes.link_table import LinkTable
from treepool.placement.nodes.tree import Domain, lowest_id
from treepool.placement.on_node.cover import nearest
from treepool.placement.on_node.levels import Amount, free_in
from treepool.placement.request.need import Demand
from treepool.rfc import idset


def lowest_ids(domain: Domain, want: Amount, cores: int, gpus: int) -> tuple[int, int]:
    """The lowest free cores and GPUs of *domain* that make up *want*, regardless of the tree."""
    return (
        idset.take_lowest(domain.cores & cores, want[1]),
        idset.take_lowest(domain.gpus & gpus, want[0]),
    )


def amount_ids(
    domain: Domain,
    want: Amount,
    cores: int,
    gpus: int,
    links: Optional[LinkTable],
    demand: Optional[Demand],
    effort: Effort,
) -> tuple[int, int]:
    """The cores and GPUs of *domain* that make up *want*; *domain* must have *want* free.

    The GPUs are chosen first. With *links*, they are the best set that meets *demand*; such a set
    must exist. If the links do not distinguish the GPUs, they come from as few child domains as
    GPUs and cores together need. The cores are then chosen near the GPUs. Once *effort* is spent,
    sets are not compared.
    """
    links = links if want[0] else None
    if links is None and not domain.children:
        return lowest_ids(domain, want, cores, gpus)
    free = domain.gpus & gpus

    def cores_beside(taken: int) -> int:
        return cores_near(domain, taken, want[1], cores, gpus)

    if links is None or indifferent(links, free, demand or ANY):
        links = demand = None
    graph = graph_of(links, demand)
    if links is not None and not effort.spent:
        taken = best_set(links, free, want[0], demand or ANY, domain, cores_beside, effort) or 0
    elif graph is not None:
        taken = lowest_joined(graph, free, want[0], effort)
    else:
        taken = _best_gpus(domain, want, cores, gpus)
    return cores_beside(taken), taken


def _best_gpus(domain: Domain, want: Amount, cores: int, gpus: int) -> int:
    """The GPUs of *want*: at each level, from the fewest domains that together have *want*."""
    if not (want[0] and domain.children):
        return idset.take_lowest(domain.gpus & gpus, want[0])
    own = idset.size(domain.own_gpus & gpus), idset.size(domain.own_cores & cores)
    children = _fullest_first(domain.children, cores, gpus)
    amounts = [free_in(child, cores, gpus) for child in children]
    loose, sources = _sources(domain, children, amounts, own, want)
    amounts = [(loose, own[1])] + [amounts[i] for i in sources]
    given_gpus = _deal_gpus(want, amounts)
    given_cores = deal_beside(want[1], given_gpus, [have for _, have in amounts])
    taken = idset.take_lowest(domain.own_gpus & gpus, given_gpus[0])
    for place, i in enumerate(sources, 1):
        amount = given_gpus[place], given_cores[place]
        taken |= _best_gpus(children[i], amount, cores, gpus)
    return taken


def _sources(
    domain: Domain,
    children: Sequence[Domain],
    amounts: Sequence[Amount],
    own: Amount,
    want: Amount,
) -> tuple[int, list[int]]:
    """How many GPUs in no child, and which *children*, together have *want*: the fewest of both.

    Each GPU in no child counts as a domain. Of equally few, those are taken that have each GPU's
    share of the cores beside it, then those with most GPUs in children.
    """
    fed = [(_fed(amount, want), amount[1]) for amount in amounts]
    most, most_fed = sum(g for g, _ in amounts), sum(g for g, _ in fed)
    found: list[tuple[int, bool, int, list[int]]] = []
    for loose in range(max(0, want[0] - most), min(own[0], want[0]) + 1):
        less = want[0] - loose, max(0, want[1] - own[1])
        sources = nearest(domain, children, amounts, less)
        better = sources
        if fed != amounts and most_fed >= less[0]:
            better = nearest(domain, children, fed, less)
        beside = most_fed >= less[0] and len(better) == len(sources)
        all_fed = beside and _fed((loose, own[1]), want) == loose
        chosen = better if beside else sources
        found.append((loose + len(chosen), not all_fed, loose, chosen))
    _, _, loose, sources = min(found)
    return loose, sources


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
    as they have cores. The cores in no child come next, then as few other children as possible,
    near those with GPUs.
    """
    if not host.children or not wanted:
        return idset.take_lowest(host.cores & cores, wanted)
    near = _fullest_first((d for d in host.children if d.gpus & taken), cores, gpus)
    have = [idset.size(host.own_cores & cores), *(idset.size(d.cores & cores) for d in near)]
    beside = [idset.size(host.own_gpus & taken), *(idset.size(d.gpus & taken) for d in near)]
    own, *shares = deal_beside(wanted, beside, have)
    chosen = idset.take_lowest(host.own_cores & cores, own)
    left = wanted - own - sum(shares)
    if left:
        others = [d for d in host.children if d.cores & cores and not d.gpus & taken]
        others = _fullest_first(others, cores, gpus)
        amounts = [idset.size(d.cores & cores) for d in others]
        sources = nearest(host, others, [(0, amount) for amount in amounts], (0, left), near)
        near += [others[i] for i in sources]
        shares += deal(left, [amounts[i] for i in sources])
    for child, share in zip(near, shares):
        chosen |= cores_near(child, taken, share, cores, gpus)
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
