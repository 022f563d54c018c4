"""A slow, obvious allocator, to check the real one against.

Written from doc/design.md alone: sets of ids, a scan of all nodes for every question,
every combination tried where the rule says "as few as possible". Nothing here is remembered from
one call to the next, and nothing is shared with treepool.placement.

The design says which domains and ids a slot takes that is an amount, whole domains of one kind, or
an amount from one domain of a kind (``Simple``). Of all else it says only what a job must get: how
many slots on which nodes (``exhaustive``), any ids that meet the request will do.

Where doc/design.md is open, the docstrings say what was decided.
"""

from __future__ import annotations

import hashlib
import json
import re
from fractions import Fraction
from itertools import combinations, product
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Optional

from placement import abovenodes
from placement import wanted as requests
from placement.abovenodes import Above as Fabric
from placement.abovenodes import Nodes, Plain
from placement.exhaustive import Above, Exhaustive, TooBig, slot_of, some_share
from placement.wanted import (
    TIERS,
    Demand,
    Growing,
    Need,
    Part,
    Wanted,
    ids,
    largest,
    smallest,
    tier_memory,
    topo_memory,
    topo_storage,
    valid,
)
from treepool.errors import (
    InfeasibleRequest,
    InsufficientResources,
    InvalidJobspec,
    Reason,
)
from treepool.rfc import count, hostlist, idset
from treepool.rfc.count import Count
from treepool.rfc.jobspec import from_resources
from treepool.rfc.shape import parse_shape

#: What no locality can be called.
RESERVED = ("node", "slot", "core", "cores", "gpu", "gpus", "memory", "storage", "ranks", "topo")


def text(numbers: Iterable[int]) -> str:
    """The RFC 22 text of *numbers*."""
    return idset.encode_ids(sorted(numbers))


class Ids(NamedTuple):
    """Cores and GPUs."""

    cores: frozenset[int] = frozenset()
    gpus: frozenset[int] = frozenset()

    def __or__(self, other: Ids) -> Ids:  # type: ignore[override]
        return Ids(self.cores | other.cores, self.gpus | other.gpus)

    def __and__(self, other: Ids) -> Ids:
        return Ids(self.cores & other.cores, self.gpus & other.gpus)

    def __sub__(self, other: Ids) -> Ids:
        return Ids(self.cores - other.cores, self.gpus - other.gpus)

    def __bool__(self) -> bool:
        return bool(self.cores or self.gpus)

    def issubset(self, other: Ids) -> bool:
        return self.cores <= other.cores and self.gpus <= other.gpus

    def lowest(self, cores: int, gpus: int) -> Ids:
        """The lowest *cores* and *gpus* of these."""
        return Ids(
            frozenset(sorted(self.cores)[:cores]),
            frozenset(sorted(self.gpus)[:gpus]),
        )


NOTHING = Ids()


def ids_of(resources: dict[str, str]) -> Ids:
    """The ids of the ``children`` of an R_lite entry."""
    return Ids(frozenset(ids(resources["core"])), frozenset(ids(resources.get("gpu", ""))))


# ---- The tree of a node ----


class Domain:
    """A domain, or the node: the ids in it that R has, and the domains nested in it.

    It is whole if the enclosing instance *kept* none of the ids that the topo lists in it. The node
    is always whole. ``memory``,
    ``cxl`` (in it and around it) and ``storage`` are in bytes; ``tier`` is what a memory tier has
    itself. ``realm`` is the MIG domain that it is or is in, or the node. ``links`` is the node's.
    """

    def __init__(
        self,
        name: str,
        topo: dict[str, Any],
        owned: Ids,
        links: Optional[Table] = None,
        around: Optional[Domain] = None,
        cxl_around: int = 0,
        kept: Ids = NOTHING,
        far: Optional[Far] = None,
    ) -> None:
        listed = listed_in(topo)
        self.links = links
        self.top: Domain = around.top if around else self
        self.realm: Domain = around.realm if around and not name.startswith("mig-") else self
        self.cxl = cxl_around + tier_memory(topo, RESERVED, name, "cxl")
        self.tier = topo.get("memory", 0) << 30 if name in TIERS else None
        cxl_around += topo.get("memory", 0) << 30 if name == "cxl" else 0
        self.name = name
        self.ids = owned if name == "node" else listed & owned
        self.whole = name == "node" or not listed & kept
        self.memory = topo_memory(topo, RESERVED, name)
        self.storage = topo_storage(topo, RESERVED)
        nested = [
            Domain(inner, item, owned, links, self, cxl_around, kept, far)
            for inner, items in topo.items()
            if inner not in RESERVED
            for item in items
        ]
        self.children = sorted((d for d in nested if d.ids), key=Domain.place)
        self.far = far
        #: Of a node: the jobs that are expected there, as text.
        self.mix = ""
        #: Where the memory that it is, or that is in it, has its places in the matrix of *far*.
        self.places: list[int] = (far.place(topo) if far else []) or [
            place for child in nested for place in child.places
        ]
        self.own = self.ids
        for child in self.children:
            self.own -= child.ids

    @property
    def gpus(self) -> frozenset[int]:
        """The GPUs that may be given to who asks this domain for some: no slices of others'."""
        inside = (d.ids.gpus for d in self.walk() if d.realm is not self.realm)
        return self.ids.gpus.difference(*inside)

    def apart(self, some: Iterable[Domain]) -> tuple[int, int]:
        """How far *some* of its children are from each other: the farthest two, and the sum."""
        if self.far is None or len(self.children) < 3:
            return 0, 0
        far = self.far
        if not all(child.places for child in self.children):
            return 0, 0
        steps = [far.between(a.places, b.places) for a, b in combinations(list(some), 2)]
        return max(steps, default=0), sum(steps)

    def has_memory(self, memory: int, cxl: bool) -> bool:
        return self.memory + (self.cxl if cxl else 0) >= memory

    def place(self) -> tuple[float, float]:
        """Order of siblings: by lowest core, those without cores last, then by lowest GPU."""
        infinity = float("inf")
        return min(self.ids.cores, default=infinity), min(self.ids.gpus, default=infinity)

    def walk(self) -> Iterator[Domain]:
        yield self
        for child in self.children:
            yield from child.walk()


class Far:
    """The distances that the key has between the domains of a locality of *topo*.

    *listed* is the same topo with the ids of R.
    """

    def __init__(self, topo: dict[str, Any], listed: dict[str, Any], table: dict[str, Any]) -> None:
        self.values = table["values"]
        self.name = table["locality"]
        lowest = [min(listed_in(d).cores, default=1 << 40) for d in self.of(topo)]
        ours = [id(domain) for domain in self.of(listed)]
        self.order = [ours[i] for i in sorted(range(len(ours)), key=lambda i: lowest[i])]

    def of(self, topo: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The domains of that locality in *topo*."""
        for name, items in topo.items():
            for item in items if name not in RESERVED else ():
                if name == self.name:
                    yield item
                yield from self.of(item)

    def place(self, topo: dict[str, Any]) -> list[int]:
        """Which of them is *topo*; none if the matrix is not about them."""
        known = len(self.order) == len(self.values) and id(topo) in self.order
        return [self.order.index(id(topo))] if known else []

    def between(self, a: list[int], b: list[int]) -> int:
        """The average distance between two sets of places, in thousandths."""
        both = [self.values[i][j] + self.values[j][i] for i in a for j in b]
        return 1000 * sum(both) // (2 * len(both))


def listed_in(topo: dict[str, Any]) -> Ids:
    """All ids *topo* mentions, at any depth."""
    found = Ids(frozenset(ids(topo.get("cores", ""))), frozenset(ids(topo.get("gpus", ""))))
    for name, items in topo.items():
        if name not in RESERVED:
            for item in items:
                found |= listed_in(item)
    return found


#: Added to the ids that R has not, where R counts from zero those it has.
NOT_OURS = 4096

#: For "cores" and "gpus": how R calls what the topo calls otherwise, or the reverse.
Move = dict[str, dict[int, int]]


def in_ids_of_R(topo: dict[str, Any], move: Move) -> dict[str, Any]:
    """*topo* with its cores and GPUs as R calls them: by *move*."""
    found: dict[str, Any] = {}
    for name, value in topo.items():
        if move.get(name):
            found[name] = text(move[name].get(one, NOT_OURS + one) for one in ids(value))
        elif name in RESERVED:
            found[name] = value
        else:
            found[name] = [in_ids_of_R(item, move) for item in value]
    return found


def names_in(topo: dict[str, Any]) -> set[str]:
    """The localities of *topo*, also those that R has nothing of."""
    names = set(topo) - set(RESERVED)
    return names.union(*(names_in(item) for name in names for item in topo[name]))


# ---- Links between GPUs ----


class Table:
    """A key's link table of one kind of node, as its JSON says; nothing is known beyond it."""

    def __init__(self, table: dict[str, Any]) -> None:
        self.table = table
        self.pairs: dict[frozenset[int], tuple[float, str]] = {}
        for link in table.get("links", []):
            for among in link["among"]:
                for pair in combinations(ids(among), 2):
                    self.pairs[frozenset(pair)] = link["gbps"], link["type"]
        self.distances: Optional[dict[str, Any]] = table.get("distances")
        paths = ("PIX", "PXB", "PHB", "NODE", "SOCKET", "SYS")
        self.paths = {
            gpu: paths.index(nic["path"])
            for nic in table.get("nics", [])
            for gpu in ids(nic["gpus"])
        }
        self.memory = {
            gpu: device["memory"] << 30
            for device in table.get("devices", [])
            for gpu in ids(device["gpus"])
        }

    def gbps(self, a: int, b: int) -> float:
        return self.pairs.get(frozenset((a, b)), (0, ""))[0]

    def path(self, gpu: int) -> int:
        return self.paths.get(gpu, 6)

    def joined(self, gpus: Iterable[int], demand: Demand) -> bool:
        """Whether any two of *gpus* are linked as *demand* says."""
        links = [self.pairs.get(frozenset(pair), (0, "")) for pair in combinations(gpus, 2)]
        return all(gbps >= demand.gbps and demand.kind in ("", kind) for gbps, kind in links)

    def tells(self, gpus: frozenset[int], demand: Demand) -> bool:
        """Whether some two of *gpus* cannot be exchanged for each other."""

        def seen_from(a: int, b: int) -> list[Any]:
            others = sorted(gpus - {a, b})
            return [(self.gbps(a, c), self.joined((a, c), demand)) for c in others] + [self.path(a)]

        return any(seen_from(a, b) != seen_from(b, a) for a, b in combinations(gpus, 2))

    def best(
        self,
        gpus: frozenset[int],
        number: int,
        demand: Demand,
        touched: Callable[[frozenset[int], bool], list[int]],
    ) -> frozenset[int]:
        """The best *number* of *gpus* that are joined, by the rule "which GPUs" of doc/design.md.

        *touched* says how many domains of each level some GPUs touch, the lowest first; with
        the cores of the slot, if it has them.
        """

        def measures(some: frozenset[int], taken: bool) -> Any:
            links = [Fraction(self.gbps(a, b)) for a, b in combinations(some, 2)]
            paths = [self.path(gpu) for gpu in some]
            return (
                -min(links, default=0),
                -sum(links),
                touched(some, taken),
                max(paths, default=0),
                sum(paths),
            )

        def rank(chosen: tuple[int, ...]) -> Any:
            some = frozenset(chosen)
            return measures(some, True), measures(gpus - some, False), chosen

        sets = combinations(sorted(gpus), number)
        return frozenset(min((c for c in sets if self.joined(c, demand)), key=rank))


def renumbered(value: Any, move: dict[int, int]) -> Any:
    """A link table, or a part of it, with its GPUs called as *move* says; others are left out."""
    if isinstance(value, list):
        return [renumbered(item, move) for item in value]
    if not isinstance(value, dict):
        return value
    found = {name: renumbered(item, move) for name, item in value.items()}
    for name in {"among", "gpus"} & set(value):
        several = isinstance(value[name], list)
        sets = [
            text(move[gpu] for gpu in ids(one) if gpu in move)
            for one in (value[name] if several else [value[name]])
        ]
        found[name] = sets if several else sets[0]
    return found


#: What is known where there is no table.
NO_TABLE = Table({})


def seen_by(scope: Domain, demand: Demand, free: Ids) -> Ids:
    """What of *free* an amount that is asked of *scope* may have."""
    known = (scope.links or NO_TABLE).memory
    gpus = free.gpus & scope.realm.gpus
    return Ids(free.cores, frozenset(g for g in gpus if known.get(g, 0) >= demand.memory))


# ---- RFC 31 constraints ----


def satisfies(constraint: dict[str, Any], rank: int, host: str, properties: set[str]) -> bool:
    """RFC 31. As in librlist no properties match, no hosts and no ranks do not, no "or" does."""

    def holds(operator: str, values: list[Any]) -> bool:
        if operator == "properties":
            return all(
                v[1:] not in properties if v.startswith("^") else v in properties for v in values
            )
        if operator == "hostlist":
            return any(host in hostlist.decode(v) for v in values)
        if operator == "ranks":
            return any(rank in ids(v) for v in values)
        parts = [satisfies(v, rank, host, properties) for v in values]
        if operator == "or":
            return any(parts) or not parts
        return all(parts) if operator == "and" else not all(parts)

    return all(holds(operator, values) for operator, values in constraint.items())


# ---- One slot on one node ----


class Simple(NamedTuple):
    """What a slot takes of a node when doc/design.md says which ids.

    ``unit`` None: *cores* and *gpus* of one domain; of one in a domain called ``within``, if that
    is not None. Else *units* whole domains called *unit*, each with at least *cores* and *gpus*.
    The domains have at least *memory*. ``share``: the GPUs bring their share of cores.
    """

    cores: int = 0
    gpus: int = 0
    unit: Optional[str] = None
    units: int = 0
    memory: int = 0
    within: Optional[str] = None
    share: bool = False
    demand: Demand = Demand()


def simple(need: Need) -> Optional[Simple]:
    """*need* as a Simple, None if it is more."""
    if not need.parts:
        if not (need.cores or need.gpus):
            return None
        return Simple(need.cores, need.gpus, memory=need.memory, share=need.share)
    if len(need.parts) > 1 or need != Need(parts=need.parts, a_core=need.a_core):
        return None
    part = need.parts[0]
    each = part.need
    if each.parts or each.storage or not part.count.fixed:
        return None
    if part.whole:
        units = smallest(part.count)
        cores = max(each.cores, part.a_core and units == 1)
        return Simple(cores, each.gpus, part.name, units, each.memory)
    if smallest(part.count) > 1:
        return None
    return Simple(each.cores, each.gpus, memory=each.memory, within=part.name, share=each.share)


def units_in(domain: Domain, need: Simple, free: Ids) -> list[Domain]:
    """The whole, entirely free, big enough domains that *need* is about, in tree order."""
    return [
        d
        for d in domain.walk()
        if d.name == need.unit
        and d.whole
        and d.ids.issubset(free)
        and len(d.ids.cores) >= need.cores
        and len(d.gpus) >= need.gpus
        and (
            d.tier >= need.memory
            if d.tier is not None
            else d.has_memory(need.memory, need.demand.cxl)
        )
        and fits_whole(d, need.demand)
    ]


def fits_whole(domain: Domain, demand: Demand) -> bool:
    """Whether all GPUs in *domain* are as demanded."""
    table = domain.links or NO_TABLE
    large = all(table.memory.get(gpu, 0) >= demand.memory for gpu in domain.ids.gpus)
    return large and (not demand.links or table.joined(domain.ids.gpus, demand))


def supply(domain: Domain, need: Simple, free: Ids) -> tuple[int, int]:
    """How much *domain* can give towards *need*: (GPUs, cores), or (0, domains)."""
    if need.unit is not None:
        return 0, len(units_in(domain, need, free))
    here = domain.ids & free
    return len(here.gpus), len(here.cores)


def amount(need: Simple) -> tuple[int, int]:
    return (need.gpus, need.cores) if need.unit is None else (0, need.units)


def covers(have: tuple[int, int], want: tuple[int, int]) -> bool:
    return have[0] >= want[0] and have[1] >= want[1]


def can_host(domain: Domain, need: Simple, free: Ids) -> bool:
    if need.unit is None:
        if not domain.has_memory(need.memory, need.demand.cxl):
            return False
        if need.demand.links and need.gpus > 1:
            table = domain.links or NO_TABLE
            sets = combinations(sorted(domain.ids.gpus & free.gpus), need.gpus)
            if not any(table.joined(gpus, need.demand) for gpus in sets):
                return False
    return covers(supply(domain, need, free), amount(need))


def level(domain: Domain, need: Simple, idle: Ids) -> int:
    """How far *domain* is from the smallest kind that can host *need* idle: how many kinds are in
    it, one in the other, of which some domain can, here or elsewhere on the node."""
    top = domain.top if need.unit else domain.realm
    everywhere = [d for d in top.walk() if need.unit or d.realm is top]
    return kinds_in(domain, {d.name for d in everywhere if can_host(d, need, idle)})


def kinds_in(domain: Domain, kinds: set[str]) -> int:
    """How many of *kinds* are in *domain*, one in the other."""
    return max((kinds_in(c, kinds) + (c.name in kinds) for c in domain.children), default=0)


def split_on(want: Wanted, nodes: dict[int, Node]) -> set[int]:
    """The ranks on which a slot would be split between domains of a kind of which one could have
    it on another node that the job may use, if all were idle; an amount of it is enough."""
    found: set[int] = set()
    roots = {
        rank: node.root
        for rank, node in nodes.items()
        if satisfies(want.constraints, rank, node.host, node.properties)
    }
    for cores, gpus, memory in amounts_of(slot_of(want.group).need) if want.across else ():
        demand = want.demand if gpus else Demand(cxl=want.demand.cxl)
        need = Simple(cores, gpus, memory=memory, demand=demand)
        able = {
            rank: [
                d
                for d in root.walk()
                if d.realm is root and can_host(d, need, seen_by(root, demand, root.ids))
            ]
            for rank, root in roots.items()
        }
        kinds = {d.name for some in able.values() for d in some}
        found |= {
            rank for rank, some in able.items() if some and all(kinds_in(d, kinds) for d in some)
        }
    return found


def amounts_of(need: Need) -> Iterator[tuple[int, int, int]]:
    """The amounts in *need*: cores, GPUs, memory. Memory asked of a tier is not asked in it."""
    if need.cores or need.gpus:
        yield need.cores, need.gpus, need.memory
    for part in need.parts:
        for cores, gpus, memory in amounts_of(part.need) if not part.whole else ():
            yield cores, gpus, 0 if part.name in TIERS else memory


def fullest_first(domains: Iterable[Domain], free: Ids) -> list[Domain]:
    """By fewest free GPUs, then fewest free cores, then lowest id."""

    def key(domain: Domain) -> tuple[Any, ...]:
        return len(domain.gpus & free.gpus), len(domain.ids.cores & free.cores), domain.place()

    return sorted(domains, key=key)


def way_down(domain: Domain, free: Ids) -> Iterator[Domain]:
    """*domain* and all in it, as one comes to them who goes into the fullest first."""
    yield domain
    for child in fullest_first(domain.children, free):
        yield from way_down(child, free)


def place(root: Domain, need: Simple, free: Ids, plain: bool, local: bool) -> Optional[Placed]:
    """One slot, None if it does not fit.

    *plain*: the lowest ids, whatever the tree says. *local*: in a smallest kind of domain or not
    at all.
    """
    scopes = [root]
    if need.within is not None:
        found = root.walk() if plain else way_down(root, free)
        scopes = [d for d in found if d.name == need.within]
    for scope in scopes:
        found = place_in(scope, need, free, plain, local)
        if found is not None:
            return found
    return None


def place_in(scope: Domain, need: Simple, free: Ids, plain: bool, local: bool) -> Optional[Placed]:
    """One slot in *scope*."""
    top, idle, all_free = scope, scope.top.ids, free
    if need.unit is None:
        demand = need.demand if need.gpus else Demand()
        free, idle = seen_by(scope, demand, free), seen_by(scope, demand, idle)
        if scope.tier is not None:
            if scope.tier < need.memory:
                return None
            need = need._replace(memory=0)
        top = scope.realm
    hosts = {}
    for d in scope.walk():
        if (need.unit or d.realm is top) and can_host(d, need, free):
            how_far = 0 if plain else level(d, need, idle)
            if not (local and how_far):
                hosts[d] = how_far
    if plain:
        return Placed(lowest(scope, need, free), scope) if scope in hosts else None
    if not hosts:
        return None
    best = {d for d, how_far in hosts.items() if how_far == min(hosts.values())}
    host = walk_down(scope, best, all_free)
    return Placed(take(host, need, amount(need), free), host)


class Placed(NamedTuple):
    """What a slot takes, and the domain it is in."""

    ids: Ids
    host: Domain


def lowest(scope: Domain, need: Simple, free: Ids) -> Ids:
    """The lowest ids, or the first domains, of *scope*."""
    if need.unit is None:
        taken = (scope.ids & free).lowest(need.cores, need.gpus)
        if need.demand.links and need.gpus > 1:
            table = scope.links or NO_TABLE
            sets = combinations(sorted(scope.ids.gpus & free.gpus), need.gpus)
            first = next(gpus for gpus in sets if table.joined(gpus, need.demand))
            taken = Ids(taken.cores, frozenset(first))
        return taken
    taken = NOTHING
    for unit in units_in(scope, need, free)[: need.units]:
        taken |= unit.ids
    return taken


def walk_down(domain: Domain, goals: set[Domain], free: Ids) -> Domain:
    """The last of *goals* on the way down into the fullest child that has one."""
    onward = [c for c in domain.children if goals & set(c.walk())]
    return walk_down(fullest_first(onward, free)[0], goals, free) if onward else domain


def take(domain: Domain, need: Simple, want: tuple[int, int], free: Ids) -> Ids:
    """*want* out of *domain*, from as few of its children as possible after its own ids."""
    if need.unit is not None:
        return take_units(domain, need, want[1], free)
    here = domain.ids.gpus & free.gpus
    demand = need.demand if want[0] > 1 else Demand()
    if want[0] and domain.links and domain.links.tells(here, demand):

        def touched(gpus: frozenset[int], taken: bool) -> list[int]:
            cores = take_cores(domain, gpus, want[1], free) if taken else frozenset()
            return domains_with(domain, Ids(cores, gpus))

        gpus = domain.links.best(here, want[0], demand, touched)
    else:
        gpus = take_gpus(domain, want, free)
    return Ids(take_cores(domain, gpus, want[1], free), gpus)


def domains_with(host: Domain, some: Ids) -> list[int]:
    """How many domains of each level in *host* have *some*: first those with nothing inside.

    A GPU in no domain of a level counts as one of its own.
    """

    def height(domain: Domain) -> int:
        return max((height(child) + 1 for child in domain.children), default=0)

    found = []
    for level in range(height(host)):
        there = [d for d in host.walk() if d is not host and height(d) == level]
        loose = some.gpus.difference(*(d.ids.gpus for d in there))
        found.append(sum(bool(d.ids & some) for d in there) + len(loose))
    return found


def take_units(domain: Domain, need: Simple, want: int, free: Ids) -> Ids:
    """*want* whole domains."""
    if want and domain.name == need.unit:
        return domain.ids
    ordered = fullest_first(domain.children, free)
    amounts = [supply(child, need, free) for child in ordered]
    taken = NOTHING
    chosen = fewest(amounts, amounts, (0, want), lambda c: domain.apart(ordered[i] for i in c))
    shares = deal(want, [amounts[i][1] for i in chosen])
    for i, share in zip(chosen, shares):
        taken |= take_units(ordered[i], need, share, free)
    return taken


def take_gpus(domain: Domain, want: tuple[int, int], free: Ids) -> frozenset[int]:
    """Which GPUs a slot takes of *domain*, which is to give *want*: GPUs and cores.

    They come from the fewest domains: its children that also give cores, and each GPU that is in
    no child counts as one. Of those, from such whose GPUs have their cores beside them, then from
    those with the most GPUs in children.
    """

    def fed(gpus: int, cores: int) -> int:
        """How many of a source's GPUs have a part of the slot's cores beside them."""
        return min(gpus, cores * want[0] // want[1]) if want[1] else gpus

    own = domain.own & free
    has = len(own.gpus), len(own.cores)
    ordered = fullest_first(domain.children, free)
    amounts = [(len(d.ids.gpus & free.gpus), len(d.ids.cores & free.cores)) for d in ordered]
    beside = [(fed(*have), have[1]) for have in amounts]
    found = []
    for loose in range(min(has[0], want[0]) + 1):
        rest = want[0] - loose, max(0, want[1] - has[1])
        if sum(number for number, _ in amounts) >= rest[0]:
            some = fewest(amounts, beside, rest, lambda c: domain.apart(ordered[i] for i in c))
            all_fed = fed(loose, has[1]) == loose and sum(beside[i][0] for i in some) >= rest[0]
            found.append((loose + len(some), not all_fed, loose, some))
    _, _, loose, chosen = min(found)
    sources = [(loose, has[1]), *(amounts[i] for i in chosen)]
    gpus = deal(want[0], [fed(*have) for have in sources])
    more = deal(want[0] - sum(gpus), [have[0] - n for have, n in zip(sources, gpus)])
    gpus = [n + beyond for n, beyond in zip(gpus, more)]
    cores = in_proportion(want[1], gpus, [have[1] for have in sources])
    taken = own.lowest(0, gpus[0]).gpus
    for i, number, beside in zip(chosen, gpus[1:], cores[1:]):
        if number:
            taken |= take_gpus(ordered[i], (number, beside), free)
    return taken


def in_proportion(want: int, gpus: list[int], cores: list[int]) -> list[int]:
    """*want* cores from sources that have *cores*, in proportion to the *gpus* each gives.

    A source that has less than its proportion gives all, and the others give more. Those that
    give no GPUs give in order what is left then.
    """
    given = [0] * len(gpus)
    open_ = [i for i, number in enumerate(gpus) if number]
    left = want
    while open_:
        total = sum(gpus[i] for i in open_)
        shares = {i: Fraction(left * gpus[i], total) for i in open_}
        short = [i for i in open_ if shares[i] > cores[i]]
        if not short:
            for i in open_:
                given[i] = int(shares[i])
            left -= sum(given[i] for i in open_)
            remainders = sorted(open_, key=lambda i: given[i] - shares[i])
            for i in remainders[:left]:
                given[i] += 1
            return given
        for i in short:
            given[i] = cores[i]
            left -= cores[i]
            open_.remove(i)
    for i, number in enumerate(gpus):
        if not number:
            given[i] = min(cores[i], left)
            left -= given[i]
    return given


def take_cores(domain: Domain, gpus: frozenset[int], want: int, free: Ids) -> frozenset[int]:
    """*want* cores of *domain* for a slot that has *gpus*, or all that it has if it has fewer.

    Those in no child and the children that have some of the GPUs give in proportion to these;
    what is then left comes from the fewest of the other children.
    """
    own = domain.own & free
    ordered = fullest_first(domain.children, free)
    having = [d for d in ordered if d.ids.gpus & gpus]
    number = [len(domain.own.gpus & gpus), *(len(d.ids.gpus & gpus) for d in having)]
    has = [len(own.cores), *(len(d.ids.cores & free.cores) for d in having)]
    shares = in_proportion(want, number, has)
    taken = own.lowest(shares[0], 0).cores
    for child, share in zip(having, shares[1:]):
        taken |= take_cores(child, gpus, share, free)
    others = [d for d in ordered if d not in having]
    return taken | from_fewest(domain, having, others, gpus, want - len(taken), free)


def from_fewest(
    domain: Domain,
    beside: list[Domain],
    ordered: list[Domain],
    gpus: frozenset[int],
    want: int,
    free: Ids,
) -> frozenset[int]:
    """*want* cores of as few domains as possible, or all that there are.

    They are near to those *beside*, which are children of *domain* too.
    """
    amounts = [(0, len(d.ids.cores & free.cores)) for d in ordered]
    want = min(want, sum(cores for _, cores in amounts))

    def apart(chosen: tuple[int, ...]) -> tuple[int, int]:
        return domain.apart([*beside, *(ordered[i] for i in chosen)])

    chosen = fewest(amounts, amounts, (0, want), apart)
    taken: frozenset[int] = frozenset()
    for i, share in zip(chosen, deal(want, [amounts[i][1] for i in chosen])):
        taken |= take_cores(ordered[i], gpus, share, free)
    return taken


def fewest(
    amounts: list[tuple[int, int]],
    fed: list[tuple[int, int]],
    want: tuple[int, int],
    apart: Callable[[tuple[int, ...]], tuple[int, int]],
) -> tuple[int, ...]:
    """The fewest that cover *want*: which of *amounts*, the first such in their order.

    Among equally few, those come first that cover it with what is *fed*, then those least *apart*.
    """
    for number in range(len(amounts) + 1):
        for have in (fed, amounts):
            covering = [
                chosen
                for chosen in combinations(range(len(amounts)), number)
                if covers((sum(have[i][0] for i in chosen), sum(have[i][1] for i in chosen)), want)
            ]
            if covering:
                return min(covering, key=lambda chosen: (apart(chosen), chosen))
    raise AssertionError("the domain does not cover what is wanted")


def deal(want: int, amounts: list[int]) -> list[int]:
    """*want* from sources in order, each giving as much as it can."""
    given = []
    for have in amounts:
        given.append(min(have, want))
        want -= given[-1]
    return given


# ---- Slots on one node ----


def together(
    root: Domain, need: Simple, free: Ids, number: int, plain: bool, local: bool
) -> Optional[Ids]:
    """What *number* slots take: each with a core for its GPUs, then one after another with as
    much of the GPUs' share of cores as is free where the slot is."""
    before, slots = free, []
    for _ in range(number):
        slot = place(root, need, free, plain, local)
        if slot is None:
            return None
        slots.append(slot)
        free -= slot.ids
    for slot in slots:
        if need.share:
            host = slot.host
            free |= slot.ids
            share = fair_share(host, need.gpus, before)
            share = min(share, len(host.ids.cores & free.cores))
            shared = need._replace(cores=share)
            ids = lowest if plain else _take_amount
            free -= ids(host, shared, seen_by(slot.host, need.demand, free))
    return before - free


def fair_share(host: Domain, gpus: int, free: Ids) -> int:
    """The cores that *gpus* of *host* bring, where *free* is free before the job's slots."""
    realm = host.realm
    left = len(cores_of(realm) & free.cores) * gpus // len(realm.gpus & free.gpus)
    return max(1, min(len(cores_of(host)) * gpus // len(host.gpus), left))


def cores_of(domain: Domain) -> frozenset[int]:
    """The cores of *domain* without those of the MIG domains in it."""
    of_slices = (d.ids.cores for d in domain.walk() if d.realm is not domain.realm)
    return domain.ids.cores.difference(*of_slices)


def _take_amount(host: Domain, need: Simple, free: Ids) -> Ids:
    return take(host, need, amount(need), free)


def rows(
    root: Domain, need: Simple, free: Ids, plain: bool, local: bool, most: Optional[int]
) -> list[Ids]:
    """What 1, 2, ... slots take: one after another; if that is less than there is room for with
    a core for each, those beyond it are placed together."""
    found: list[Ids] = []
    taken = NOTHING
    while most is None or len(found) < most:
        slot = together(root, need, free - taken, 1, plain, local)
        if slot is None:
            break
        taken |= slot
        found.append(taken)
    while need.share and (most is None or len(found) < most):
        more = together(root, need, free, len(found) + 1, plain, local)
        if more is None:
            break
        found.append(more)
    return found


class Given(NamedTuple):
    """A unit of what a node can give: how many slots it is, and whether all of them are local."""

    slots: int
    local: bool


class Offer(NamedTuple):
    """What a node can give: ``units`` in the order in which it gives them.

    ``step(n)`` is what the first n take; None: any ids that meet the request.
    """

    units: list[Given]
    step: Callable[[int], Optional[Ids]]

    @property
    def local(self) -> int:
        """How many units are given before the first that is not local."""
        return next((i for i, u in enumerate(self.units) if not u.local), len(self.units))


def offer(root: Domain, want: Wanted, free: Ids) -> Offer:
    """What the node *root* can give for *want*, of which *free* is free."""
    none = Offer([], lambda n: NOTHING)
    if want.whole and (free != root.ids or not free):
        return none
    if want.group.name == "slot" and want.group.need.storage > root.storage:
        return none
    need = simple(want.group.need._replace(storage=0)) if want.group.name == "slot" else None
    if need and need.units > 1 and want.group.need.a_core and some_cold(root, need.unit):
        need = None  # which of them bring the cores is open
    if need:
        need = need._replace(demand=want.demand)
    if (
        want.whole
        and want.group.name == "slot"
        and want.spans
        and not fits_whole(root, want.demand)
    ):
        return none
    if want.group.need == Need():
        return Offer([Given(1, True)], lambda n: root.ids)
    found = settled(root, want, need, free) if need else open_ended(root, want, free)
    return found._replace(step=lambda n: root.ids) if want.whole else found


def some_cold(root: Domain, name: Optional[str]) -> bool:
    """Whether some domain called *name* has no cores."""
    return any(d.name == name and not d.ids.cores for d in root.walk())


def settled(root: Domain, want: Wanted, need: Simple, free: Ids) -> Offer:
    """As doc/design.md says which ids."""
    most = want.group.count.maximum
    if need.demand.links and ((need.gpus > 1 and most != 1) or need.units > 1):
        raise TooBig  # the first that come are not the most there are, see test_gpu_link
    plain = want.locality == "none"
    local = rows(root, need, free, plain, not plain, most)
    total = local
    if want.locality == "preferred":
        total = rows(root, need, free, plain, False, most)

    def step(n: int) -> Ids:
        """All that can be local, and then others, if that leaves enough for them."""
        if n <= len(local):
            return local[n - 1]
        first = local[-1] if local else NOTHING
        others = rows(root, need, free - first, plain, False, n - len(local))
        return first | others[-1] if len(others) == n - len(local) else total[n - 1]

    return Offer(slots_of(len(local), len(total)), step)


def slots_of(local: int, total: int) -> list[Given]:
    """Slots, of which so many may be local."""
    return [Given(1, i < local) for i in range(max(local, total))]


def open_ended(root: Domain, want: Wanted, free: Ids) -> Offer:
    """Raises TooBig if there is too much to try; as which demands of GPUs count."""
    if (want.demand.links or want.demand.memory) and takes_gpus(want.group):
        raise TooBig
    group, most = want.group, want.group.count.maximum
    above = Above(root, free, want.locality, want.demand.cxl)
    if group.name == "slot":
        local = (above.anywhere if want.locality == "none" else above.near).most(group, most)
        total = above.anywhere.most(group, most) if want.locality == "preferred" else local
        return Offer(slots_of(local, total), lambda n: None)
    return Offer([Given(u.slots, u.local) for u in above.units(group)], lambda n: None)


# ---- Nodes ----


class Node:
    """A node of the pool. *told* is what an allocated R says of it."""

    def __init__(
        self,
        rank: int,
        host: str,
        properties: set[str],
        topo: Any,
        owned: Ids,
        links: Optional[Table],
        told: Optional[Told] = None,
    ) -> None:
        self.rank = rank
        self.host = host
        self.properties = properties
        self.topo = topo
        #: The topo's ids of R's cores and GPUs, where R counts others.
        self.physical: Move = {"cores": {}, "gpus": {}}
        if told is not None:
            both = ("cores", owned.cores, told.cores), ("gpus", owned.gpus, told.gpus)
            for name, ours, theirs in both:
                if len(ours) == len(theirs):
                    self.physical[name] = dict(zip(sorted(ours), sorted(theirs)))
        move = {
            name: {one: ours for ours, one in physical.items()}
            for name, physical in self.physical.items()
        }
        if links is not None and move["gpus"]:
            links = Table(renumbered(links.table, move["gpus"]))
        #: Whether the key says what an enclosing instance gave of this node.
        self.inside = told is not None
        listed = in_ids_of_R(topo or {}, move) if any(move.values()) else topo or {}
        lacking = listed_in(topo or {}) - Ids(frozenset(owned.cores), owned.gpus)
        #: What the site keeps, in the ids of the topo.
        self.site = lacking if told is None else told.site
        kept = NOTHING
        if told is not None:
            away = [NOT_OURS if move[name] else 0 for name in ("cores", "gpus")]
            site = Ids(
                frozenset(core + away[0] for core in told.site.cores),
                frozenset(gpu + away[1] for gpu in told.site.gpus),
            )
            kept = listed_in(listed) - owned - site
        far = Far(topo, listed, links.distances) if links and links.distances else None
        self.root = Domain("node", listed, owned, links, kept=kept, far=far)


#: What each rank gives.
Taken = dict[int, Ids]


class Served(NamedTuple):
    """What a request gets: on each rank some units, and their ids (None: any that meet the
    request); and the number of its slots. ``want`` is the request with the counts it gets."""

    want: Wanted
    units: dict[int, list[Given]]
    ids: dict[int, Optional[Ids]]
    nslots: int

    @property
    def extent(self) -> tuple[int, ...]:
        """How large it is, the outermost count first."""
        units = sum(map(len, self.units.values()))
        if self.want.nodes is None:
            return units, self.nslots
        if self.want.spans:
            return self.nslots, len(self.units)
        return len(self.units), units, self.nslots


#: How many values of counts below the slot are tried.
MOST_VALUES = 300


def serve(
    want: Wanted,
    nodes: dict[int, Node],
    free: dict[int, Ids],
    policy: str,
    fabric: Optional[Fabric] = None,
) -> Optional[Served]:
    """What a request gets of the nodes in *free*; None if it can not be served.

    A count below the slot is the same for all slots: the largest with which the job is as large
    as it is with all of them at their minimum, one count after another. Where all slots must be
    local, every combination of values is tried, as a smaller amount may have fewer places.
    """
    if want.locality == "required" and want.growing:
        return serve_local(want, nodes, free, policy, fabric)
    best = serve_fixed(want, nodes, free, policy, fabric)
    if best is None:
        return None
    for growing in want.growing:
        for number in reversed(values_of(growing, nodes)):
            found = serve_fixed(best.want.grown(growing, number), nodes, free, policy, fabric)
            if found is not None and found.extent == best.extent:
                best = found
                break
    return best


def serve_local(
    want: Wanted,
    nodes: dict[int, Node],
    free: dict[int, Ids],
    policy: str,
    fabric: Optional[Fabric],
) -> Optional[Served]:
    best: Optional[Served] = None
    values = [list(reversed(values_of(growing, nodes))) for growing in want.growing]
    combined = 1
    for some in values:
        combined *= len(some)
    if combined > MOST_VALUES:
        raise TooBig
    for numbers in product(*values):
        fixed = want
        for growing, number in zip(want.growing, numbers):
            fixed = fixed.grown(growing, number)
        found = serve_fixed(fixed, nodes, free, policy, fabric)
        if found is not None and (best is None or found.extent > best.extent):
            best = found
    return best


def values_of(growing: Growing, nodes: dict[int, Node]) -> list[int]:
    """The values that some node could have room for; the least is one of them."""

    def room(root: Domain) -> int:
        if growing.what == "core":
            return len(root.ids.cores)
        if growing.what == "gpu":
            return len(root.ids.gpus)
        return sum(d.name == growing.what for d in root.walk())

    found = valid(growing.count, max(room(node.root) for node in nodes.values()))
    if len(found) > MOST_VALUES:
        raise TooBig
    return found or [smallest(growing.count)]


def serve_fixed(
    want: Wanted,
    nodes: dict[int, Node],
    free: dict[int, Ids],
    policy: str,
    fabric: Optional[Fabric] = None,
) -> Optional[Served]:
    """What a request gets with its counts below the slot as they are."""
    if fabric is not None and (want.levels or want.at_most or want.locality != "none"):
        return serve_above(want, nodes, free, policy, fabric)
    offers = {
        rank: offer(nodes[rank].root, want, free[rank])
        for rank in free
        if satisfies(want.constraints, rank, nodes[rank].host, nodes[rank].properties)
    }
    split = split_on(want, nodes)
    if want.nodes is None:
        return fill(want, offers, nodes, free, policy, split)
    return distinct(want, offers, nodes, free, policy, split)


def serve_above(
    want: Wanted, nodes: dict[int, Node], free: dict[int, Ids], policy: str, fabric: Fabric
) -> Optional[Served]:
    """The same where there is a fabric."""
    allowed = {
        rank
        for rank in free
        if satisfies(want.constraints, rank, nodes[rank].host, nodes[rank].properties)
    }
    offers = {rank: offer(nodes[rank].root, want, free[rank]) for rank in allowed}
    split = split_on(want, nodes)

    def on(ranks: set[int], want: Wanted = want) -> Optional[Nodes]:
        some = {rank: free[rank] for rank in ranks if rank in allowed}
        found = serve_fixed(want._replace(levels=(), at_most=None), nodes, some, policy)
        if found is None:
            return None
        if want.nodes is None:
            units = {rank: len(given) for rank, given in found.units.items()}
        else:
            units = dict.fromkeys(found.units, 1)
        local = all(unit.local for given in found.units.values() for unit in given)
        return Nodes(units, local, found.extent, found)

    def of_number(ranks: set[int], number: int) -> Optional[Nodes]:
        exactly = Count(number, number)
        if want.nodes is None:
            return on(ranks, want._replace(units=exactly))
        return on(ranks, want._replace(nodes=exactly, units=Count(1, 1)))

    def room(rank: int, local: bool) -> int:
        if rank not in allowed or (local and rank in split):
            return 0
        found = offers[rank]
        if want.nodes is None:
            return found.local if local else len(found.units)
        number = largest(want.group.count, len(found.units))
        return int(number is not None and (not local or found.local >= number))

    def free_in(ranks: set[int]) -> tuple[int, int]:
        some = [free[rank] for rank in ranks if rank in allowed]
        return sum(len(f.cores) for f in some), sum(len(f.gpus) for f in some)

    def equal(ranks: set[int], rank: int) -> set[int]:
        if policy == "first-fit":
            return {rank}
        alone = on({rank})
        assert alone is not None

        def place(rank: int) -> Any:
            number = (
                alone.number
                if want.nodes is None
                else largest(want.group.count, len(offers[rank].units))
            )
            given = offers[rank].units[:number]
            slots = {unit.slots for unit in given}
            if want.nodes is not None:
                slots = {sum(unit.slots for unit in given)}
            # Whether slots are local or split is for the order of the policy to say; but a node
            # has two places in it if only some of its units are local.
            places = 1 if want.nodes is not None else len({unit.local for unit in given})
            local = all(unit.local for unit in given)
            first = Unit(local, None, rank in split)
            stands = order(policy, first, nodes[rank].root, free[rank], 0)
            return sorted(slots), len(given), places, stands

        given = offers[rank].units[: alone.number]
        if want.nodes is None and len({(unit.slots, unit.local) for unit in given}) > 1:
            return {rank}
        return {
            r
            for r in ranks & allowed
            if (there := on({r})) is not None
            and there.extent == alone.extent
            and place(r) == place(rank)
        }

    def idle(ranks: set[int]) -> int:
        return sum(r in free and free[r] == nodes[r].root.ids for r in ranks)

    counted = not all(
        part.count.fixed for part in parts_to_slot(want.group)[int(want.nodes is None) :]
    )
    plain = Plain(on, of_number, room, free_in, equal, idle, counted)
    named = bool(want.levels or want.at_most)
    if named:
        found = abovenodes.named(fabric, plain, want)
    else:
        found = abovenodes.rule(fabric, plain)
    if found is None:
        return None
    if found.one is not None and not named:
        return found.one.answer  # type: ignore[no-any-return]
    answers = [of_number(ranks, number) for ranks, number in found.shares]
    answers += found.parts
    units: dict[int, list[Given]] = {}
    ids: dict[int, Optional[Ids]] = {}
    nslots = 0
    for answer in answers:
        assert answer is not None
        units.update(answer.answer.units)
        ids.update(answer.answer.ids)
        nslots += answer.answer.nslots
    if named:
        nslots = found.slots if want.spans else nslots
    elif want.spans:
        whole = on(allowed)
        assert whole is not None
        nslots = whole.answer.nslots
    return Served(want, units, ids, nslots)


def parts_to_slot(part: Part) -> list[Part]:
    """*part* and those in it, down to the slot."""
    return [part] if part.name == "slot" else [part, *parts_to_slot(part.need.parts[0])]


#: How many GPUs fuller a node must be for a slot to straddle: policy packing.
STRADDLE = 10

#: Usable GPUs are counted in so many parts of a GPU.
PARTS = 1024

#: What it costs to break an idle node, in GPUs; and so many of its cores cost as much as a GPU.
BROKEN, CORES = 12, 32


class Unit(NamedTuple):
    """What a policy knows of the first unit on a node.

    ``given`` is what the unit takes, None if any ids that meet the request will do. ``split``: it
    would be in one domain on another kind of node.
    """

    local: bool
    given: Optional[Ids]
    split: bool


def order(policy: str, unit: Unit, node: Domain, free: Ids, rank: int) -> tuple[int, ...]:
    """Where a node stands: the lowest is used first."""
    cores, gpus = len(free.cores), len(free.gpus)
    remote = (not unit.local) + unit.split
    if policy == "packing":
        return cost(unit, node, free), cores, rank
    if policy == "first-fit":
        return remote, rank
    if policy == "worst-fit":
        return remote, -cores, -gpus, rank
    return remote, cores, gpus, rank


def cost(unit: Unit, node: Domain, free: Ids) -> int:
    """What the jobs to come lose if *unit* gets its place, in parts of a GPU.

    Raises TooBig if it is open which ids the unit takes.
    """
    if unit.given is None:
        raise TooBig
    before, after = usable(node, free), usable(node, free - unit.given)
    taken = len(unit.given.gpus & node.gpus)
    broken = free == node.ids and taken < len(node.gpus) and after < before
    wasted = before - after - PARTS * taken
    found = before + (6 if node.mix else 2) * wasted + 2 * len(node.gpus) * PARTS
    if broken:
        found += BROKEN * PARTS + len(free.cores) * PARTS // CORES
    return found + ((not unit.local) + unit.split) * (STRADDLE * PARTS + 1)


class Coming(NamedTuple):
    """A kind of job to come on a node: its share of what all kinds ask for, each GPU counted as
    often as there are GPUs that the job needs on one node, and the ids that host it, one of each
    smallest domain that could if the node were idle."""

    share: Fraction
    cores: int
    gpus: int
    places: list[Ids]


def coming(node: Domain) -> list[Coming]:
    """The jobs that are expected on *node*. Raises TooBig if it is open which ids a kind takes."""
    asked: list[tuple[Fraction, int, int]] = []
    total = Fraction(0)
    names = {d.name for d in node.walk()} - {"node"}
    for kind in re.split(r",(?=[0-9.]+\*)", node.mix):
        number, _, shape = kind.partition("*")
        weight = Fraction(number)
        spec = from_resources(parse_shape(shape))
        named = named_gpus(spec["resources"])
        try:
            want = requests.wanted(spec, names, "preferred", around_nodes(spec["resources"]))
        except InvalidJobspec:
            total += weight * named
            continue
        slots = smallest(want.units) if want.nodes is None or want.spans else 1
        nodes = 1 if want.nodes is None else smallest(want.nodes)
        if any(level.name == "slot" for level in want.levels):
            slots = 1  # they are a level
        for level in want.levels:
            nodes *= smallest(level.count)
        units = 1 if want.nodes is None else smallest(want.group.count)
        offered = offer(node, want, node.ids)
        if len(offered.units) < units:
            total += weight * named * named / (slots * nodes)
            continue
        given = offered.step(units)
        if given is None:
            raise TooBig
        gpus = len(given.gpus & node.gpus)
        weight *= slots * nodes * gpus * gpus
        total += weight
        asked.append((weight, len(given.cores), gpus))
    return [
        Coming(weight / total, cores, gpus, [d.ids for d in smallest_with(node, cores, gpus)])
        for weight, cores, gpus in asked
        if gpus
    ]


def around_nodes(vertices: list[dict]) -> set[str]:
    """The types of the vertices that a node stands below, but slot."""
    found = set()
    for vertex in vertices:
        below = vertex.get("with", [])
        found |= around_nodes(below)
        if "'node'" in str(below) and vertex["type"] != "slot":
            found.add(vertex["type"])
    return found


def named_gpus(vertices: list[dict]) -> int:
    """The least number of GPUs that *vertices* name."""
    found = 0
    for vertex in vertices:
        inside = 1 if vertex["type"] == "gpu" else named_gpus(vertex.get("with", []))
        found += inside * smallest(count.parse(vertex["count"]))
    return found


def smallest_with(node: Domain, cores: int, gpus: int) -> list[Domain]:
    """The domains that have so much, and are not divided into domains of which some have."""

    def has(d: Domain) -> bool:
        return len(d.ids.cores) >= cores and len(d.ids.gpus & node.gpus) >= gpus

    able = [d for d in node.walk() if has(d)]
    return [d for d in able if not kinds_in(d, {one.name for one in able})]


def usable(node: Domain, free: Ids) -> int:
    """The free GPUs that have their fair share of free cores beside them, in parts of a GPU.

    With a mix: those that as many jobs of a kind as fit would take, on average over the kinds.
    """
    if node.mix:
        found = Fraction(0)
        for kind in coming(node):
            for place in kind.places:
                jobs = len(place.gpus & node.gpus & free.gpus) // kind.gpus
                if kind.cores:
                    jobs = min(jobs, len(place.cores & free.cores) // kind.cores)
                found += kind.share * jobs * kind.gpus
        return round(PARTS * found)
    used: dict[int, int] = {}
    for here in beside(node, node):
        share = min(len(i.cores) // len(i.gpus) for i in (here, Ids(node.ids.cores, node.gpus)))
        share, left = max(1, share), here & free
        used[share] = used.get(share, 0) + min(len(left.gpus) * share, len(left.cores))
    return sum(cores * PARTS // share for share, cores in used.items())


def beside(domain: Domain, node: Domain) -> Iterator[Ids]:
    """The GPUs of the node, each with the cores in the smallest domain that has some for it."""
    inner = [child for child in domain.children if child.ids.gpus & node.gpus]
    own = here = Ids(domain.ids.cores, domain.ids.gpus & node.gpus)
    for child in inner:
        own -= child.ids
    if not all(child.ids.cores for child in inner) or (own.gpus and not own.cores):
        inner, own = [], here
    for child in inner:
        yield from beside(child, node)
    if own.gpus:
        yield own


def takes_gpus(part: Part) -> bool:
    """Whether *part* may take GPUs: whole domains do if they have any."""
    return part.whole or part.need.gpus > 0 or any(takes_gpus(p) for p in part.need.parts)


def fill(
    want: Wanted,
    offers: dict[int, Offer],
    nodes: dict[int, Node],
    free: dict[int, Ids],
    policy: str,
    split: set[int],
) -> Optional[Served]:
    """Units on any nodes: first those of most slots, and of these the local ones of all nodes."""

    def key(rank: int, unit: Given) -> tuple[Any, ...]:
        first = Unit(unit.local, offers[rank].step(1), rank in split)
        return -unit.slots, order(policy, first, nodes[rank].root, free[rank], rank)

    found = [(key(rank, unit), rank) for rank in offers for unit in offers[rank].units]
    number = largest(want.units, len(found))
    if number is None:
        return None
    ranks = [rank for _, rank in sorted(found)[:number]]
    return served(want, {rank: ranks.count(rank) for rank in ranks}, offers)


def served(
    want: Wanted, units: dict[int, int], offers: dict[int, Offer], number: Optional[int] = None
) -> Served:
    """So many *units* of each rank's offer; *number* is the number of slots, if they span nodes."""
    given = {rank: offers[rank].units[:n] for rank, n in units.items()}
    if number is None:
        number = sum(unit.slots for some in given.values() for unit in some)
    ids = {rank: offers[rank].step(n) for rank, n in units.items()}
    return Served(want, given, ids, number)


def distinct(
    want: Wanted,
    offers: dict[int, Offer],
    nodes: dict[int, Node],
    free: dict[int, Ids],
    policy: str,
    split: set[int],
) -> Optional[Served]:
    """A number of distinct nodes; those that can give more come first."""
    assert want.nodes is not None
    units = {}
    for rank, found in offers.items():
        number = largest(want.group.count, len(found.units))
        if number is not None:
            units[rank] = number

    def key(rank: int) -> tuple[Any, ...]:
        given = offers[rank].units[: units[rank]]
        slots = sum(unit.slots for unit in given)
        local = all(unit.local for unit in given)
        all_of_it = Unit(local, offers[rank].step(units[rank]), rank in split)
        place = order(policy, all_of_it, nodes[rank].root, free[rank], rank)
        return -len(given), -slots, place

    ranks = sorted(units, key=key)
    if not want.spans:
        number = largest(want.nodes, len(ranks))
        return (
            None if number is None else served(want, {r: units[r] for r in ranks[:number]}, offers)
        )
    slots = largest(want.units, len(ranks) // smallest(want.nodes))
    if slots is None:
        return None
    per_slot = largest(want.nodes, len(ranks) // slots)
    assert per_slot is not None
    return served(want, {rank: units[rank] for rank in ranks[: slots * per_slot]}, offers, slots)


# ---- The pool ----


class ReferencePool:
    """What Pool must do. *R* is a valid RFC 20 object."""

    def __init__(
        self,
        R: dict[str, Any],
        locality: str = "preferred",
        policy: str = "packing",
        mix: str = "",
    ) -> None:
        self.R = R
        self.locality = locality
        self.policy = policy
        owned = {
            rank: ids_of(entry["children"])
            for entry in R["execution"]["R_lite"]
            for rank in ids(entry["rank"])
        }
        hosts = [h for item in R["execution"]["nodelist"] for h in hostlist.decode(item)]
        topos = topo_by_rank(R.get("scheduling"), sorted(owned))
        self.topos = topos
        told = allocated_by_rank(R.get("scheduling"), sorted(owned))
        self.nodes = {
            rank: Node(
                rank,
                host,
                properties_of(R, rank),
                topos.get(rank),
                owned[rank],
                table_of(R, topos.get(rank)),
                told.get(rank),
            )
            for rank, host in zip(sorted(owned), hosts)
        }
        for node in self.nodes.values():
            node.root.mix = mix
        self.free_ids = {rank: node.root.ids for rank, node in self.nodes.items()}
        self.up = set(self.nodes)
        self.fabric = self.fabric_now()
        self.jobs: dict[int, Taken] = {}

    def fabric_now(self) -> Optional[Fabric]:
        """The tree above the nodes that are left."""
        scheduling = self.R.get("scheduling", {})
        known = {rank for e in scheduling.get("children", []) for rank in ids(e["ranks"])}
        known |= abovenodes.Above("", scheduling.get("fabric", {})).ranks
        owned = sorted(
            rank for entry in self.R["execution"]["R_lite"] for rank in ids(entry["rank"])
        )
        return abovenodes.fabric_of(self.R, set(self.nodes), rank_in_R(known, owned))

    def localities(self) -> set[str]:
        found = (names_in(t) for rank, t in self.topos.items() if t and rank in self.nodes)
        return set().union(*found)

    def wanted(self, jobspec: dict[str, Any]) -> Wanted:
        deepest: dict[str, int] = {}
        for d in self.fabric.walk() if self.fabric else ():
            if d.name not in ("", "alone"):
                deepest[d.name] = max(deepest.get(d.name, 0), d.depth)
        above = sorted(deepest, key=lambda name: (deepest[name], name))
        return requests.wanted(jobspec, self.localities(), self.locality, above)

    def check_feasibility(self, want: Wanted) -> None:
        idle = {rank: node.root.ids for rank, node in self.nodes.items()}
        if serve(want, self.nodes, idle, self.policy, self.fabric) is None:
            raise InfeasibleRequest(Reason("together", "no way"))

    def serve(self, want: Wanted) -> Served:
        """What a job would get now."""
        free = {rank: self.free_ids[rank] for rank in self.up}
        found = serve(want, self.nodes, free, self.policy, self.fabric)
        if found is None:
            self.check_feasibility(want)
            raise InsufficientResources(Reason("in-use", "not now"))
        return found

    def meets(self, expected: Served, rank: int, given: Ids) -> bool:
        """Whether *given* on *rank* is as *expected*, nothing missing and nothing too much."""
        want, units = expected.want, expected.units[rank]
        root, cxl = self.nodes[rank].root, want.demand.cxl
        if want.whole and given != root.ids:
            return False
        local = want.locality != "none" and all(unit.local for unit in units)
        all_taken = not (some_share(want.group.need) or want.whole)
        search = Exhaustive(root, given, local, all_taken, cxl)
        if want.group.name == "slot":
            return search.possible(want.group.times(len(units)))
        above = Above(root, self.free_ids[rank], want.locality, cxl)
        slot = slot_of(want.group)
        return any(
            search.shared(slot, shares)
            for shares in above.choices(want.group, len(units), sum(u.slots for u in units))
        )

    def register(self, jobid: int, taken: Taken) -> None:
        for rank, given in taken.items():
            assert given.issubset(self.free_ids[rank])
            self.free_ids[rank] -= given
        self.jobs[jobid] = dict(taken)

    def free(self, jobid: int, ranks: Optional[Iterable[int]] = None) -> None:
        held = self.jobs[jobid]
        for rank in list(held if ranks is None else ranks):
            given = held.pop(rank)
            if rank in self.nodes:
                self.free_ids[rank] |= given
        if not held:
            del self.jobs[jobid]

    def mark_down(self, ranks: Iterable[int]) -> None:
        self.up -= set(ranks)

    def mark_up(self, ranks: Iterable[int]) -> None:
        self.up |= set(ranks) & set(self.nodes)

    def remove_ranks(self, ranks: Iterable[int]) -> None:
        for rank in set(ranks) & set(self.nodes):
            del self.nodes[rank], self.free_ids[rank]
            self.up.discard(rank)
        self.fabric = self.fabric_now()

    def job_R(self, taken: Taken, slots: int) -> dict[str, Any]:
        """The R of a job, without times; hosts expanded, and topos by rank."""
        properties: dict[str, str] = {}
        for name in self.R["execution"].get("properties", {}):
            having = [rank for rank in taken if name in self.nodes[rank].properties]
            if having and not name.startswith("+"):
                properties[name] = text(having)
        R = {
            "R_lite": r_lite(taken),
            "hosts": [self.nodes[rank].host for rank in sorted(taken)],
            "nslots": slots,
            "properties": properties,
        }
        if self.R.get("scheduling", {}).get("writer") == "TreePool":
            R["topos"] = {rank: self.key_topo(rank) for rank in taken}
            R["allocated"] = {
                rank: Told(cores, gpus, self.nodes[rank].site)
                for rank, given in taken.items()
                for cores in [self.physical(rank, "cores", given.cores)]
                for gpus in [self.physical(rank, "gpus", given.gpus)]
                if cores != set(range(len(cores)))
                or gpus != set(range(len(gpus)))
                or given != self.nodes[rank].root.ids
                or self.nodes[rank].inside
            }
        return R

    def physical(self, rank: int, name: str, taken: Iterable[int]) -> set[int]:
        """The topo's ids of the cores or GPUs *taken*."""
        known = self.nodes[rank].physical[name]
        return {known.get(one, one) for one in taken}

    def key_topo(self, rank: int) -> dict[str, Any]:
        """The topo an allocation's key has for *rank*: a flat one if the pool's key has none."""
        node = self.nodes[rank]
        if node.topo is not None:
            return node.topo
        flat = {"cores": text(node.root.ids.cores)}
        return {**flat, "gpus": text(node.root.ids.gpus)} if node.root.ids.gpus else flat


def r_lite(taken: Taken) -> list[dict[str, Any]]:
    """Ranks that give the same in one entry, ascending."""
    groups: dict[Ids, list[int]] = {}
    for rank in sorted(taken):
        groups.setdefault(taken[rank], []).append(rank)
    entries = []
    for given, ranks in groups.items():
        children = {"core": text(given.cores)}
        if given.gpus:
            children["gpu"] = text(given.gpus)
        entries.append({"rank": text(ranks), "children": children})
    return entries


def properties_of(R: dict[str, Any], rank: int) -> set[str]:
    properties = R["execution"].get("properties", {})
    return {name for name, having in properties.items() if rank in ids(having)}


def table_of(R: dict[str, Any], topo: Optional[dict[str, Any]]) -> Optional[Table]:
    """The link table that the key of *R* has for nodes with *topo*."""
    scheduling = R.get("scheduling", {})
    if topo is None or scheduling.get("writer") != "TreePool":
        return None
    text = json.dumps(topo, sort_keys=True, separators=(",", ":"))
    table = scheduling.get("links", {}).get(hashlib.sha256(text.encode()).hexdigest())
    return None if table is None else Table(table)


def topo_by_rank(scheduling: Optional[dict[str, Any]], ranks: list[int]) -> dict[int, Any]:
    """The topo of each rank that has one; as many other ranks map by sorted position."""
    if scheduling is None or scheduling.get("writer") != "TreePool":
        return {}
    entries = scheduling.get("children", [])
    topos = {rank: entry["topo"] for entry in entries for rank in ids(entry["ranks"])}
    move = rank_in_R(topos, ranks)
    return {move[old]: topo for old, topo in topos.items()}


class Told(NamedTuple):
    """What an allocated R says of a node, in the topo's ids: what it has, and the site keeps."""

    cores: set[int]
    gpus: set[int]
    site: Ids


def told_by(entry: dict[str, Any]) -> Told:
    """What an ``allocated`` says."""
    site = entry.get("site", {})
    kept = (frozenset(ids(site.get(name, ""))) for name in ("cores", "gpus"))
    return Told(ids(entry["cores"]), ids(entry.get("gpus", "")), Ids(*kept))


def told_in(scheduling: dict[str, Any]) -> dict[int, Told]:
    """What a key tells of its ranks: in their entry of children, or beside these (treepool 0.1)."""
    beside = [(entry["ranks"], entry) for entry in scheduling.get("allocated", [])]
    inside = [(e["ranks"], e["allocated"]) for e in scheduling["children"] if "allocated" in e]
    return {rank: told_by(entry) for ranks, entry in beside + inside for rank in ids(ranks)}


def allocated_by_rank(scheduling: Optional[dict[str, Any]], ranks: list[int]) -> dict[int, Told]:
    """What the key tells of each rank that an enclosing instance allocated."""
    if scheduling is None or scheduling.get("writer") != "TreePool":
        return {}
    entries = scheduling.get("children", [])
    move = rank_in_R([rank for entry in entries for rank in ids(entry["ranks"])], ranks)
    return {move[rank]: told for rank, told in told_in(scheduling).items()} if entries else {}


def rank_in_R(known: Iterable[int], ranks: list[int]) -> dict[int, int]:
    """What R calls the ranks that a key knows: the same, or as many others by position."""
    known = sorted(known)
    if set(known) <= set(ranks):
        return {rank: rank for rank in known}
    assert len(known) == len(ranks)
    return dict(zip(known, ranks))
