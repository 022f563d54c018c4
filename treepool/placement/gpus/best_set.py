"""Which GPUs of a node work best together: by links, domains, NICs, and what stays free for others.

Sets of g free GPUs are compared by these criteria, in this order:

1. Slowest link: the set whose slowest pair has the highest bandwidth, in GB/s.
2. All links: the set whose pairs have the largest sum of bandwidths. Of four GPUs on MI250X
   modules, where no four are all linked, these are two whole modules, not one half of each of four.
3. Domains: the set that touches the fewest domains with its cores and GPUs, first of the lowest
   level (domains with nothing inside), then of the next. A GPU in no domain of a level counts as a
   domain of its own there.
4. Path to the network: the set with the shortest worst path from a GPU to its nearest NIC, then
   the smallest sum of the paths. A path is a number: PIX (0), PXB, PHB, NODE, SOCKET, SYS (5).
5. GPUs left free: the set that leaves the best GPUs, by the same criteria. A one-GPU job therefore
   takes a GPU whose partner is already in use, and splits a free pair only if it must.
6. Ids: the lowest.

The first two are worth most, and all sets are compared by them if these are not too many. GPUs that
are alike, such as those of a domain on an NVSwitch, are interchangeable, so only one of them is
tried: a large regular node has as few sets as a small one. Of too many, those are compared that
begin with one GPU and add, each time, the one with the best links to the others.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import Any, Callable, Iterator, Mapping, Optional

import attrs

from treepool.placement.effort import Effort, GaveUp, metered, remembered
from treepool.placement.gpus.graph import MAX_MEMO, Graph, graph_of, joined_sets
from treepool.placement.nodes.link_table import LinkTable
from treepool.placement.nodes.tree import Domain
from treepool.placement.request.need import Demand
from treepool.rfc import idset
from treepool.rfc.idset import union

#: Links of any bandwidth and type.
ANY = Demand()

#: The cores (a bitmask) that go with a set of GPUs.
Beside = Callable[[int], int]

#: Most sets that are compared: those of five of twelve.
_MOST_SETS = 800

#: Most links that are added up to compare sets, those of 800 sets of eight; and most that are
#: looked at to find some if there are too many sets: three sets of 32 of 64 GPUs.
_MOST_LINKS, _MOST_STEPS = 24_576, 6_144

#: How many links are added up at the effort of one choice, and how many are looked at.
_ADDED, _LOOKED_AT = 128, 32


def best_set(
    table: LinkTable,
    free: int,
    number: int,
    demand: Demand = ANY,
    host: Optional[Domain] = None,
    beside: Beside = lambda gpus: 0,
    effort: Optional[Effort] = None,
) -> Optional[int]:
    """The best set of *number* of the GPUs *free* (bitmasks); None if no set meets *demand*.

    *host* is the domain that they are taken from, and *beside* returns the cores that a slot with
    some GPUs takes there. Without a *host*, domains do not count. The table remembers all that
    does not depend on cores; *effort* counts that once. Raises GaveUp if it takes too long to find
    any set that meets *demand*.
    """
    free &= table.gpus
    #: The sets with equal links in order, as if they took no cores.
    levels, ranked = metered(
        table.memo,
        MAX_MEMO,
        (host, free, number, demand),
        lambda spent: _ranked(table, free, number, demand, host, spent),
        effort,
    )
    best: Any = None
    for touched, rank, chosen in ranked:  # a set never gets a better place by its cores
        if best is not None and best <= (touched, rank):
            break
        place = _touched(levels, chosen, beside(chosen)), rank, chosen
        best = place if best is None else min(best, place)
    return None if best is None else best[2]


def indifferent(table: LinkTable, free: int, demand: Demand = ANY) -> bool:
    """Whether all of the GPUs *free* are interchangeable: they have equal links and NIC paths.

    The order of the tree then decides. If any two of these GPUs meet *demand*, all pairs do.
    """
    free &= table.gpus
    paths: set[int] = set()
    links: set[tuple[float, bool]] = set()
    for gpu in idset.iterate(free):
        place = table.place[gpu]
        paths.add(table.paths[place])
        for (gbps, type), partners in table.partners[place].items():
            if partners & free:
                links.add((gbps, demand.met_by(gbps, type)))
        if len(paths) > 1 or len(links) > 1:
            return False
    return True


#: The domains inside a host, by the number of levels inside them: the lowest level first.
_Levels = list[list[Domain]]


def _ranked(
    table: LinkTable, free: int, number: int, demand: Demand, host: Optional[Domain], effort: Effort
) -> tuple[_Levels, list[Any]]:
    """The domains in *host*, and the sets that are best by criteria 1 and 2 with their place by 3
    and by 4 to 6, in order."""
    levels: _Levels = []
    if host is not None:
        _add(host, levels)
        del levels[-1]

    def paths(gpus: int) -> tuple[int, int]:
        """The worst path of *gpus* to a NIC, and the sum of the paths."""
        found = [table.paths[table.place[gpu]] for gpu in idset.iterate(gpus)]
        return max(found, default=0), sum(found)

    def rank(chosen: int) -> object:
        left = free & ~chosen
        links = table.links_in(left)
        left_is = -min(links, default=0), -sum(links), _touched(levels, left, 0), paths(left)
        return paths(chosen), left_is, tuple(idset.iterate(chosen))

    sets = _best(table, free, number, demand, host, effort)
    return levels, sorted((_touched(levels, chosen, 0), rank(chosen), chosen) for chosen in sets)


def _add(domain: Domain, levels: _Levels) -> int:
    """Add *domain* and those in it to *levels*; its level."""
    level = max((_add(child, levels) + 1 for child in domain.children), default=0)
    levels += [[] for _ in range(level + 1 - len(levels))]
    levels[level].append(domain)
    return level


def _touched(levels: _Levels, gpus: int, cores: int) -> list[int]:
    """How many domains of each level *gpus* and *cores* touch, or GPUs that are in none."""
    return [
        sum(bool(d.gpus & gpus or d.cores & cores) for d in some)
        + idset.size(gpus & ~union(d.gpus for d in some))
        for some in levels
    ]


def _best(
    table: LinkTable, free: int, number: int, demand: Demand, host: Optional[Domain], effort: Effort
) -> list[int]:
    """The sets that are best by criteria 1 and 2; none if none meets *demand*.

    Of GPUs that are interchangeable, only those with the lowest ids are in them.
    """
    graph, known = _fastest(table, free, number, demand, effort)
    alike = remembered(table.alike, MAX_MEMO, host, lambda: _alike(table, host))
    size, pairs = idset.size(free), max(1, number * (number - 1) // 2)
    most = min(_MOST_SETS, _MOST_LINKS // pairs)
    sets = _some(graph, free, number, effort, most, alike)
    if sets is None or len(sets) == most:
        starts = [gpu for gpu in idset.iterate(free) if idset.lowest(alike[gpu] & free) == gpu]
        starts = starts[: max(1, _MOST_STEPS // (size * number))]
        effort.tried += len(starts) * number * size // _LOOKED_AT
        sets = [found for start in starts for found in _grown(table, graph, free, start, number)]
    sets = sets or known or list(islice(joined_sets(graph, free, number, effort), 1))
    if not sets:
        return []

    def worth(chosen: int) -> tuple[int, int]:
        links = table.links_in(chosen)
        return min(links, default=0), sum(links)

    valued = [(worth(chosen), chosen) for chosen in sets]
    highest, _ = max(valued)
    best = [chosen for value, chosen in valued if value == highest]
    best = best[: max(1, _MOST_LINKS // (size**2 or 1))]  # each is judged by what it leaves
    effort.tried += (len(sets) * pairs + len(best) * size**2 // 2) // _ADDED
    return best


def _fastest(
    table: LinkTable, free: int, number: int, demand: Demand, effort: Effort
) -> tuple[Graph, list[int]]:
    """The fastest links that join some set, in addition to *demand*, and such a set if one was
    looked for: criterion 1. If there is not enough *effort*, faster links may do."""
    graph: Graph = _graph(table, demand)
    known: list[int] = []
    speeds = table.speeds if number > 1 else ()
    first, last = 0, len(speeds)  # speeds[:first] do
    kinds = sum(map(len, table.partners))
    while first < last and effort.allows(kinds // _LOOKED_AT):
        middle = (first + last) // 2
        faster = _graph(table, attrs.evolve(demand, gbps=max(speeds[middle], demand.gbps)))
        found = _some(faster, free, number, effort)
        if found:
            graph, known, first = faster, found, middle + 1
        else:
            last = middle
    return graph, known


def _some(
    graph: Graph,
    free: int,
    number: int,
    effort: Effort,
    most: int = 1,
    alike: Optional[Mapping[int, int]] = None,
) -> Optional[list[int]]:
    """Up to *most* joined sets of *number* of the GPUs *free*; None if it takes too long."""
    part = effort.part()
    found: Optional[list[int]] = None
    with suppress(GaveUp):
        found = list(islice(joined_sets(graph, free, number, part, alike), most))
    effort.tried += part.tried
    return found


def _grown(table: LinkTable, graph: Graph, free: int, start: int, number: int) -> Iterator[int]:
    """The joined set of *number* of the GPUs *free* that *start* and its best partners are."""
    chosen, row = 1 << start, table.links[table.place[start]]
    #: The slowest link and the sum of the links of the others to those chosen.
    left = {
        gpu: (row[table.place[gpu]], row[table.place[gpu]])
        for gpu in idset.iterate(free & graph.neighbours(start))
    }
    while left and idset.size(chosen) < number:
        best = max(left, key=lambda gpu: (*left[gpu], -gpu))
        chosen, row = chosen | 1 << best, table.links[table.place[best]]
        left = {
            gpu: (min(slowest, row[table.place[gpu]]), total + row[table.place[gpu]])
            for gpu, (slowest, total) in left.items()
            if graph.neighbours(best) >> gpu & 1
        }
    if idset.size(chosen) == number:
        yield chosen


def _graph(table: LinkTable, demand: Demand) -> Graph:
    graph = graph_of(table, demand)
    assert graph is not None
    return graph


def _alike(table: LinkTable, host: Optional[Domain]) -> dict[int, int]:
    """For each GPU of *host*, those that are interchangeable with it (a bitmask): their links to
    all others there and their paths to a NIC are equal, and no domain there has only one."""
    gpus = table.gpus if host is None else table.gpus & host.gpus
    links = {
        gpu: {link: some & gpus for link, some in partners.items() if some & gpus}
        for gpu, partners in zip(table.ids, table.partners)
        if gpus >> gpu & 1
    }
    marks = {gpu: (table.paths[table.place[gpu]], id(_home(host, gpu))) for gpu in links}

    def twins(v: int, w: int) -> bool:
        if marks[v] != marks[w] or links[v].keys() != links[w].keys():
            return False
        others = ~(1 << v | 1 << w)
        return all(not (links[v][link] ^ links[w][link]) & others for link in links[v])

    classes: dict[int, int] = {}
    for v in links:
        first = next((w for w in classes if twins(v, w)), v)
        classes[first] = classes.get(first, 0) | 1 << v
    return {gpu: some for some in classes.values() for gpu in idset.iterate(some)}


def _home(host: Optional[Domain], gpu: int) -> Optional[Domain]:
    """The innermost domain of *host* that has *gpu*."""
    for child in host.children if host is not None else ():
        if child.gpus >> gpu & 1:
            return _home(child, gpu)
    return host
