"""A slow, obvious allocator, to check the real one against.

Written from DESIGN's "Placement rules" alone: sets of ids, a scan of all nodes for every question,
every combination tried where the rule says "as few as possible". Nothing here is remembered from
one call to the next, and nothing is shared with treepool.placement.

DESIGN says which domains and ids a slot takes that is an amount, whole domains of one kind, or an
amount from one domain of a kind (``Simple``). Of all else it says only what a job must get: how
many slots on which nodes (``exhaustive``), any ids that meet the request will do.

Where DESIGN is open, the docstrings say what was decided.
"""

from __future__ import annotations

import copy
import hashlib
import json
from itertools import combinations
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Optional

from placement import wanted as requests
from placement.exhaustive import Exhaustive, TooBig, nslots, some_share
from placement.wanted import (
    TIERS,
    Demand,
    Need,
    Wanted,
    ids,
    largest,
    smallest,
    tier_memory,
    topo_memory,
    topo_storage,
)
from treepool.errors import InfeasibleRequest, InsufficientResources
from treepool.rfc import hostlist, idset

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

    It is whole if R has all ids that the topo lists in it. The node is always whole. ``memory``,
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
        self.whole = name == "node" or listed.issubset(owned)
        self.memory = topo_memory(topo, RESERVED, name)
        self.storage = topo_storage(topo, RESERVED)
        nested = [
            Domain(inner, item, owned, links, self, cxl_around)
            for inner, items in topo.items()
            if inner not in RESERVED
            for item in items
        ]
        self.children = sorted((d for d in nested if d.ids), key=Domain.place)
        self.own = self.ids
        for child in self.children:
            self.own -= child.ids

    @property
    def gpus(self) -> frozenset[int]:
        """The GPUs that may be given to who asks this domain for some: no slices of others'."""
        inside = (d.ids.gpus for d in self.walk() if d.realm is not self.realm)
        return self.ids.gpus.difference(*inside)

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


def listed_in(topo: dict[str, Any]) -> Ids:
    """All ids *topo* mentions, at any depth."""
    found = Ids(frozenset(ids(topo.get("cores", ""))), frozenset(ids(topo.get("gpus", ""))))
    for name, items in topo.items():
        if name not in RESERVED:
            for item in items:
                found |= listed_in(item)
    return found


#: Added to the ids of cores that R has not, where R counts from zero those it has.
NOT_OURS = 4096


def in_ids_of_R(topo: dict[str, Any], move: dict[int, int]) -> dict[str, Any]:
    """*topo* with its cores as R calls them: by *move*."""
    found: dict[str, Any] = {}
    for name, value in topo.items():
        if name == "cores":
            found[name] = text(move.get(core, NOT_OURS + core) for core in ids(value))
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
        self.pairs: dict[frozenset[int], tuple[float, str]] = {}
        for link in table.get("links", []):
            for among in link["among"]:
                for pair in combinations(ids(among), 2):
                    self.pairs[frozenset(pair)] = link["gbps"], link["type"]
        paths = ("PIX", "PXB", "PHB", "NODE", "SYS")
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
        return self.paths.get(gpu, 5)

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

    def best(self, gpus: frozenset[int], number: int, demand: Demand) -> frozenset[int]:
        """The best *number* of *gpus* that are joined, by the rules of linkset.py."""

        def rank(chosen: tuple[int, ...]) -> Any:
            inside = [self.gbps(a, b) for a, b in combinations(chosen, 2)]
            left = [self.gbps(a, b) for a, b in combinations(sorted(gpus - {*chosen}), 2)]
            paths = [self.path(gpu) for gpu in chosen]
            return (
                -min(inside, default=0),
                max(paths, default=0),
                sum(paths),
                sorted(left, reverse=True) and [-n for n in self.counts(left)],
                [-n for n in self.counts(inside)],
                chosen,
            )

        sets = combinations(sorted(gpus), number)
        return frozenset(min((c for c in sets if self.joined(c, demand)), key=rank))

    def counts(self, found: list[float]) -> list[int]:
        """How many pairs have the largest bandwidth there is, the next, and so on."""
        values = {gbps for gbps, _ in self.pairs.values()}
        return [found.count(value) for value in sorted(values, reverse=True)]


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
    """What a slot takes of a node when DESIGN says which ids.

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
    if len(need.parts) > 1 or need != Need(parts=need.parts):
        return None
    part = need.parts[0]
    each = part.need
    if each.parts or each.storage or not part.count.fixed:
        return None
    if part.whole:
        cores = max(each.cores, part.a_core)
        return Simple(cores, each.gpus, part.name, smallest(part.count), each.memory)
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
    """How far *domain*, which can host *need* idle, is from the smallest kind that can: 0 if no
    nested domain can, else one more than the highest level of those that can."""
    nested = [
        level(c, need, idle)
        for c in domain.children
        if c.realm is domain.realm or need.unit
        if can_host(c, need, idle)
    ]
    return max(nested) + 1 if nested else 0


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
    top, idle = scope, scope.top.ids
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
    host = walk_down(scope, best, free)
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
        gpus = domain.links.best(here, want[0], demand)
    else:
        gpus = take_gpus(domain, need, want, free)
    return Ids(take_cores(domain, gpus, want[1], free), gpus)


def take_units(domain: Domain, need: Simple, want: int, free: Ids) -> Ids:
    """*want* whole domains."""
    if want and domain.name == need.unit:
        return domain.ids
    children = fewest(fullest_first(domain.children, free), (0, want), need, free)
    taken = NOTHING
    shares = deal(want, [supply(child, need, free)[1] for child in children])
    for child, share in zip(children, shares):
        taken |= take_units(child, need, share, free)
    return taken


def take_gpus(domain: Domain, need: Simple, want: tuple[int, int], free: Ids) -> frozenset[int]:
    """Which GPUs a slot takes of *domain*, which is to give *want* of both kinds.

    Before all GPUs are known no core is given to any child; to find the fewest children further
    in, those with GPUs count on all the cores they can.
    """
    own = domain.own & free
    rest = max(0, want[0] - len(own.gpus)), max(0, want[1] - len(own.cores))
    children = fewest(fullest_first(domain.children, free), rest, need, free)
    amounts = [(len(own.gpus), len(own.cores))] + [supply(c, need, free) for c in children]
    gpus = deal(want[0], [a[0] for a in amounts])
    order = [i for i, n in enumerate(gpus) if n] + [i for i, n in enumerate(gpus) if not n]
    cores = dict(zip(order, deal(want[1], [amounts[i][1] for i in order])))
    taken = own.lowest(0, gpus[0]).gpus
    for i, child in enumerate(children, 1):
        if gpus[i]:
            taken |= take_gpus(child, need, (gpus[i], cores[i]), free)
    return taken


def take_cores(host: Domain, gpus: frozenset[int], want: int, free: Ids) -> frozenset[int]:
    """Cores of *host* for a slot that has *gpus*: where these are before anywhere else.

    First from the smallest domains that hold some of the GPUs, then from the smallest of those
    that are larger, and so on up to *host*. How large such a domain is: how many others are in
    it, one inside the other. Each time cores in no nested domain come first, then those of the
    fewest nested domains.
    """
    holders = [d for d in host.walk() if d.ids.gpus & gpus] or [host]

    def size(domain: Domain) -> int:
        return max((size(d) + 1 for d in domain.children if d in holders), default=0)

    taken: frozenset[int] = frozenset()
    for step in range(size(host) + 1):
        around = fullest_first([d for d in holders if size(d) == step], free)
        for domain in around:
            own = (domain.own & free).cores
            taken |= frozenset(sorted(own)[: want - len(taken)])
        others = [d for domain in around for d in domain.children if d not in holders]
        taken |= from_fewest(others, want - len(taken), free)
    return taken


def from_fewest(domains: list[Domain], want: int, free: Ids) -> frozenset[int]:
    """*want* cores of as few *domains* as possible, or all that there are."""
    everything = frozenset(core for d in domains for core in (d.ids & free).cores)
    if len(everything) <= want:
        return everything
    chosen = fewest(fullest_first(domains, free), (0, want), Simple(), free)
    taken: frozenset[int] = frozenset()
    for domain, share in zip(chosen, deal(want, [len((d.ids & free).cores) for d in chosen])):
        taken |= take_cores(domain, frozenset(), share, free)
    return taken


def fewest(
    children: list[Domain], want: tuple[int, int], need: Simple, free: Ids
) -> tuple[Domain, ...]:
    """The fewest *children* that cover *want*; the first such in the order of *children*."""
    for number in range(len(children) + 1):
        for chosen in combinations(children, number):
            amounts = [supply(child, need, free) for child in chosen]
            if covers((sum(a[0] for a in amounts), sum(a[1] for a in amounts)), want):
                return chosen
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
            of_slices = (d.ids.cores for d in host.walk() if d.realm is not host.realm)
            cores = host.ids.cores.difference(*of_slices)
            share = max(1, len(cores) * need.gpus // len(host.gpus))
            share = min(share, len(host.ids.cores & free.cores))
            shared = need._replace(cores=share)
            ids = lowest if plain else _take_amount
            free -= ids(host, shared, seen_by(slot.host, need.demand, free))
    return before - free


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


class Offer(NamedTuple):
    """What a node can give: how many units, of which the first ``local`` may be local.

    ``step(n)`` is what n units take (None: any ids that meet the request), and their slots.
    """

    local: int
    total: int
    step: Callable[[int], tuple[Optional[Ids], int]]


def offer(root: Domain, want: Wanted, free: Ids) -> Offer:
    """What the node *root* can give for *want*, of which *free* is free."""
    none = Offer(0, 0, lambda n: (NOTHING, 0))
    if want.whole and (free != root.ids or not free):
        return none
    if want.group.name == "slot" and want.group.need.storage > root.storage:
        return none
    need = simple(want.group.need._replace(storage=0)) if want.group.name == "slot" else None
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
        return Offer(1, 1, lambda n: (root.ids, 1))
    found = settled(root, want, need, free) if need else open_ended(root, want, free)
    if not want.whole:
        return found
    return found._replace(step=lambda n: (root.ids, found.step(n)[1]))


def settled(root: Domain, want: Wanted, need: Simple, free: Ids) -> Offer:
    most = want.group.count.maximum
    if need.demand.links and ((need.gpus > 1 and most != 1) or need.units > 1):
        raise TooBig  # the first that come are not the most there are, see test_gpu_link
    plain = want.locality == "none"
    local = rows(root, need, free, plain, not plain, most)
    total = local
    if want.locality == "preferred":
        total = rows(root, need, free, plain, False, most)
    return Offer(
        len(local), len(total), lambda n: ((local if n <= len(local) else total)[n - 1], n)
    )


def open_ended(root: Domain, want: Wanted, free: Ids) -> Offer:
    """Raises TooBig if there is too much to try; as which demands of GPUs count."""
    if want.demand.links or want.demand.memory:
        raise TooBig
    group, most = want.group, want.group.count.maximum
    cxl = want.demand.cxl
    anywhere = Exhaustive(root, free, cxl=cxl)
    near = Exhaustive(root, free, local=True, cxl=cxl)
    local = (anywhere if want.locality == "none" else near).most(group, most)
    total = anywhere.most(group, most) if want.locality == "preferred" else local

    def step(number: int) -> tuple[Optional[Ids], int]:
        search = near if want.locality == "required" else anywhere
        return None, nslots(search.grown(group.times(number)))

    return Offer(local, total, step)


# ---- Nodes ----


class Node:
    """A node of the pool. *told* are the topo's ids of its cores, if the key says them."""

    def __init__(
        self,
        rank: int,
        host: str,
        properties: set[str],
        topo: Any,
        owned: Ids,
        links: Optional[Table],
        told: Optional[set[int]] = None,
    ) -> None:
        self.rank = rank
        self.host = host
        self.properties = properties
        self.topo = topo
        #: The topo's id of each core of R, where R counts others.
        self.physical: dict[int, int] = {}
        if told is not None and len(told) == len(owned.cores):
            self.physical = dict(zip(sorted(owned.cores), sorted(told)))
        move = {core: ours for ours, core in self.physical.items()}
        self.root = Domain(
            "node", in_ids_of_R(topo or {}, move) if move else topo or {}, owned, links
        )


#: What each rank gives.
Taken = dict[int, Ids]


class Served(NamedTuple):
    """What a request gets: on each rank a number of units, and their ids (None: any that meet the
    request); and the number of its slots."""

    units: dict[int, int]
    ids: dict[int, Optional[Ids]]
    nslots: int


def serve(
    want: Wanted, nodes: dict[int, Node], free: dict[int, Ids], policy: str
) -> Optional[Served]:
    """What a request gets of the nodes in *free*; None if it can not be served."""
    offers = {
        rank: offer(nodes[rank].root, want, free[rank])
        for rank in free
        if satisfies(want.constraints, rank, nodes[rank].host, nodes[rank].properties)
    }
    if want.nodes is None:
        return fill(want, offers, free, policy)
    return distinct(want, offers, free, policy)


def order(policy: str, want: Wanted, hosted: int, free: Ids, rank: int) -> tuple[int, ...]:
    """Where a node that can host so many units stands: the lowest is used first."""
    cores, gpus = len(free.cores), len(free.gpus)
    if policy == "first-fit":
        return (rank,)
    if policy == "worst-fit":
        return -cores, -gpus, rank
    if policy == "gpu-sparing":
        return int(gpus > 0 and not asks_gpus(want.group.need)), cores, gpus, rank
    if policy == "min-span":
        return -hosted, cores, gpus, rank
    return cores, gpus, rank


def asks_gpus(need: Need) -> bool:
    return need.gpus > 0 or any(asks_gpus(part.need) for part in need.parts)


def fill(
    want: Wanted, offers: dict[int, Offer], free: dict[int, Ids], policy: str
) -> Optional[Served]:
    """Units on any nodes: first the local ones of all nodes, then the others."""
    most = want.units.maximum

    def key(rank: int) -> tuple[int, ...]:
        # The local ones have their turn first, so they say how far a node goes.
        hosted = offers[rank].local or offers[rank].total
        hosted = hosted if most is None else min(hosted, most)
        return order(policy, want, hosted, free[rank], rank)

    ranks = sorted(offers, key=key)
    found = [rank for rank in ranks for _ in range(offers[rank].local)]
    found += [rank for rank in ranks for _ in range(offers[rank].total - offers[rank].local)]
    number = largest(want.units, len(found))
    if number is None:
        return None
    return served({rank: found[:number].count(rank) for rank in found[:number]}, offers)


def served(units: dict[int, int], offers: dict[int, Offer], number: Optional[int] = None) -> Served:
    """So many *units* of each rank's offer; *number* is the number of slots, if they span nodes."""
    given = {rank: offers[rank].step(n) for rank, n in units.items()}
    if number is None:
        number = sum(slots for _, slots in given.values())
    return Served(units, {rank: ids for rank, (ids, _) in given.items()}, number)


def distinct(
    want: Wanted, offers: dict[int, Offer], free: dict[int, Ids], policy: str
) -> Optional[Served]:
    """A number of distinct nodes."""
    assert want.nodes is not None
    units = {}
    for rank, found in offers.items():
        number = largest(want.group.count, found.total)
        if number is not None:
            units[rank] = number
    ranks = sorted(
        units,
        key=lambda rank: (
            units[rank] > offers[rank].local,
            order(policy, want, 1, free[rank], rank),
        ),
    )
    if not want.spans:
        number = largest(want.nodes, len(ranks))
        return None if number is None else served({r: units[r] for r in ranks[:number]}, offers)
    slots = largest(want.units, len(ranks) // smallest(want.nodes))
    if slots is None:
        return None
    per_slot = largest(want.nodes, len(ranks) // slots)
    assert per_slot is not None
    return served({rank: units[rank] for rank in ranks[: slots * per_slot]}, offers, slots)


# ---- The pool ----


class ReferencePool:
    """What Pool must do. *R* is a valid RFC 20 object."""

    def __init__(
        self, R: dict[str, Any], locality: str = "preferred", policy: str = "best-fit"
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
        self.free_ids = {rank: node.root.ids for rank, node in self.nodes.items()}
        self.up = set(self.nodes)
        self.jobs: dict[int, Taken] = {}

    def copy(self) -> ReferencePool:
        new = copy.copy(self)
        new.nodes = dict(self.nodes)
        new.free_ids = dict(self.free_ids)
        new.up = set(self.up)
        new.jobs = {jobid: dict(taken) for jobid, taken in self.jobs.items()}
        return new

    def localities(self) -> set[str]:
        found = (names_in(t) for rank, t in self.topos.items() if t and rank in self.nodes)
        return set().union(*found)

    def wanted(self, jobspec: dict[str, Any]) -> Wanted:
        return requests.wanted(jobspec, self.localities(), self.locality)

    def check_feasibility(self, want: Wanted) -> None:
        idle = {rank: node.root.ids for rank, node in self.nodes.items()}
        if serve(want, self.nodes, idle, self.policy) is None:
            raise InfeasibleRequest

    def serve(self, want: Wanted) -> Served:
        """What a job would get now."""
        free = {rank: self.free_ids[rank] for rank in self.up}
        found = serve(want, self.nodes, free, self.policy)
        if found is None:
            self.check_feasibility(want)
            raise InsufficientResources
        return found

    def meets(self, want: Wanted, rank: int, units: int, given: Ids) -> bool:
        """Whether *given* on *rank* is as many units, nothing missing and nothing too much."""
        root = self.nodes[rank].root
        if want.whole and given != root.ids:
            return False
        group = want.group.times(units)
        locality = want.locality == "required"
        cxl = want.demand.cxl
        group = Exhaustive(root, self.free_ids[rank], locality, cxl=cxl).grown(group)
        shares = some_share(group.need) or want.whole
        return Exhaustive(root, given, locality, not shares, cxl).possible(group)

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
                rank: physical
                for rank, given in taken.items()
                if (physical := self.physical(rank, given.cores)) != set(range(len(given.cores)))
            }
        return R

    def physical(self, rank: int, cores: Iterable[int]) -> set[int]:
        """The topo's ids of *cores*."""
        known = self.nodes[rank].physical
        return {known.get(core, core) for core in cores}

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


def allocated_by_rank(
    scheduling: Optional[dict[str, Any]], ranks: list[int]
) -> dict[int, set[int]]:
    """The topo's ids of each rank's cores where the key tells them."""
    if scheduling is None or scheduling.get("writer") != "TreePool":
        return {}
    entries = scheduling.get("children", [])
    move = rank_in_R([rank for entry in entries for rank in ids(entry["ranks"])], ranks)
    return {
        move[rank]: ids(entry["cores"])
        for entry in scheduling.get("allocated", [])
        for rank in ids(entry["ranks"])
    }


def rank_in_R(known: Iterable[int], ranks: list[int]) -> dict[int, int]:
    """What R calls the ranks that a key knows: the same, or as many others by position."""
    known = sorted(known)
    if set(known) <= set(ranks):
        return {rank: rank for rank in known}
    assert len(known) == len(ranks)
    return dict(zip(known, ranks))
