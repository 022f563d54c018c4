"""A slow, obvious allocator, to check the real one against.

Written from DESIGN's "Placement rules" alone: sets of ids, a scan of all nodes for every question,
every combination tried where the rule says "as few as possible". Nothing here is remembered from
one call to the next, and nothing is shared with treepool.placement.

Where DESIGN is open, the docstrings say what was decided.
"""

from __future__ import annotations

import copy
from itertools import combinations
from typing import Any, Iterable, Iterator, NamedTuple, Optional

from treepool.errors import InfeasibleRequest, InsufficientResources, InvalidJobspec
from treepool.rfc import count, hostlist, idset

#: What no locality can be called.
RESERVED = ("node", "slot", "core", "cores", "gpu", "gpus", "memory", "storage", "ranks", "topo")


def ids(text: str) -> set[int]:
    """The ids of RFC 22 *text*."""
    return set(idset.iterate(idset.decode(text)))


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

    It is whole if R has all ids that the topo lists in it. The node is always whole.
    """

    def __init__(self, name: str, topo: dict[str, Any], owned: Ids, whole: bool = False) -> None:
        listed = listed_in(topo)
        self.name = name
        self.ids = owned if name == "node" else listed & owned
        self.whole = name == "node" or listed.issubset(owned)
        nested = [
            Domain(inner, item, owned)
            for inner, items in topo.items()
            if inner not in RESERVED
            for item in items
        ]
        self.children = sorted((d for d in nested if d.ids), key=Domain.place)
        self.own = self.ids
        for child in self.children:
            self.own -= child.ids

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


def names_in(topo: dict[str, Any]) -> set[str]:
    """The localities of *topo*, also those that R has nothing of."""
    names = set(topo) - set(RESERVED)
    return names.union(*(names_in(item) for name in names for item in topo[name]))


# ---- What is wanted ----


class Need(NamedTuple):
    """What a slot takes from one node.

    ``unit`` None: *cores* and *gpus* of one domain. Else *units* whole domains called *unit*, each
    with at least *cores* and *gpus*.
    """

    cores: int = 0
    gpus: int = 0
    unit: Optional[str] = None
    units: int = 0


class Wanted(NamedTuple):
    """What a jobspec asks for.

    ``nodes`` is None if slots may fill any node. ``spans``: the slot is above the node.
    ``whole``: entire, idle nodes.
    """

    need: Need
    slots: Any
    nodes: Any
    spans: bool
    whole: bool
    locality: str
    constraints: dict[str, Any]


def refuse(vertex: dict[str, Any], why: str) -> None:
    raise InvalidJobspec(f"{vertex['type']}: {why}")


def wanted(jobspec: dict[str, Any], localities: Iterable[str], locality: str) -> Wanted:
    """What *jobspec* asks of a pool with *localities* whose mode is *locality*."""
    system = jobspec["attributes"]["system"]
    options = system.get("treepool", {})
    if set(options) - {"locality"}:
        raise InvalidJobspec("treepool: unknown option")
    locality = options.get("locality", locality)
    if locality not in ("preferred", "required", "none"):
        raise InvalidJobspec("treepool: unknown locality")
    return Wanted(
        *vertices(jobspec["resources"], set(localities)), locality, system.get("constraints", {})
    )


def vertices(
    resources: list[dict[str, Any]], localities: set[str]
) -> tuple[Need, Any, Any, bool, bool]:
    """The need, slots, nodes, spans and whole of a resource list."""
    top = only(resources, localities)
    if top["type"] == "node":
        if not top.get("with"):
            refuse(top, "nothing below")
        slot = only(top["with"], localities)
        if slot["type"] != "slot":
            refuse(slot, "only a slot can be below a node that is not in a slot")
        need = need_of(slot["with"], localities)
        return need, slot["count"], top["count"], False, bool(top.get("exclusive"))
    if top["type"] != "slot":
        refuse(top, "not above a slot")
    if [v["type"] for v in top["with"]] == ["node"]:
        node = only(top["with"], localities)
        if not node.get("with"):
            if node.get("exclusive") is False:
                refuse(node, "nothing of it is asked for")
            return Need(), top["count"], node["count"], True, True
        whole = bool(node.get("exclusive"))
        need = need_of(node["with"], localities, 0 if whole else 1)
        return need, top["count"], node["count"], True, whole
    return need_of(top["with"], localities), top["count"], None, False, False


def only(siblings: list[dict[str, Any]], localities: set[str]) -> dict[str, Any]:
    if len(siblings) != 1:
        refuse(siblings[1], "beside another")
    checked(siblings[0], localities)
    return siblings[0]


def checked(vertex: dict[str, Any], localities: set[str]) -> None:
    """Refuse what has no meaning here."""
    if vertex["type"] not in localities | {"node", "slot", "core", "gpu"}:
        refuse(vertex, "unknown")
    if "unit" in vertex or "id" in vertex:
        refuse(vertex, "unit or id")
    if vertex["type"] in ("slot", "core", "gpu") and vertex.get("exclusive") is False:
        refuse(vertex, "always exclusive")


def need_of(below: list[dict[str, Any]], localities: set[str], a_core: int = 1) -> Need:
    """The need of the vertices *below* a slot, or below a node in a slot.

    *a_core* is 1 where each whole domain must have a core, because no slot can be without.
    """
    for vertex in below:
        checked(vertex, localities)
    if len(below) == 1 and below[0]["type"] in localities:
        return unit_of(below[0], localities, a_core)
    amounts: dict[str, int] = {}
    for vertex in below:
        kind = vertex["type"]
        if kind not in ("core", "gpu") or kind in amounts or vertex.get("with"):
            refuse(vertex, "not here")
        amounts[kind] = smallest(vertex["count"])
    if "core" not in amounts:
        refuse(below[0], "gpu without core")
    return Need(amounts["core"], amounts.get("gpu", 0))


def unit_of(vertex: dict[str, Any], localities: set[str], a_core: int) -> Need:
    children = vertex.get("with", [])
    if not vertex.get("exclusive", not children):
        refuse(vertex, "not exclusive")
    if smallest(vertex["count"]) != largest(vertex["count"], 1 << 20):
        refuse(vertex, "range")
    least = need_of(children, localities) if children else Need()
    if least.unit is not None:
        refuse(children[0], "nested")
    return Need(max(a_core, least.cores), least.gpus, vertex["type"], smallest(vertex["count"]))


# ---- RFC 14 counts and RFC 31 constraints ----


def valid(spec: Any, upto: int) -> list[int]:
    """The valid values of RFC 14 count *spec* up to *upto*, ascending."""
    spec = count.parse(spec).spec()
    if isinstance(spec, int):
        values = [spec]
    elif isinstance(spec, str):
        values = sorted(ids(spec))
    else:
        values = [spec["min"]]
        operator, operand = spec.get("operator", "+"), spec.get("operand", 1)
        while values[-1] <= upto:
            last = values[-1]
            following = {"+": last + operand, "*": last * operand, "^": last**operand}[operator]
            values.append(following)
        values = [v for v in values if v <= spec.get("max", upto)]
    return [v for v in values if v <= upto]


def largest(spec: Any, upto: int) -> Optional[int]:
    return max(valid(spec, upto), default=None)


def smallest(spec: Any) -> int:
    return count.parse(spec).minimum


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


def units_in(domain: Domain, need: Need, free: Ids) -> list[Domain]:
    """The whole, entirely free, big enough domains that *need* is about, in tree order."""
    return [
        d
        for d in domain.walk()
        if d.name == need.unit
        and d.whole
        and d.ids.issubset(free)
        and len(d.ids.cores) >= need.cores
        and len(d.ids.gpus) >= need.gpus
    ]


def supply(domain: Domain, need: Need, free: Ids) -> tuple[int, int]:
    """How much *domain* can give towards *need*: (GPUs, cores), or (0, domains)."""
    if need.unit is not None:
        return 0, len(units_in(domain, need, free))
    here = domain.ids & free
    return len(here.gpus), len(here.cores)


def amount(need: Need) -> tuple[int, int]:
    return (need.gpus, need.cores) if need.unit is None else (0, need.units)


def covers(have: tuple[int, int], want: tuple[int, int]) -> bool:
    return have[0] >= want[0] and have[1] >= want[1]


def can_host(domain: Domain, need: Need, free: Ids) -> bool:
    return covers(supply(domain, need, free), amount(need))


def level(domain: Domain, need: Need, idle: Ids) -> int:
    """How far *domain*, which can host *need* idle, is from the smallest kind that can: 0 if no
    nested domain can, else one more than the highest level of those that can."""
    nested = [level(c, need, idle) for c in domain.children if can_host(c, need, idle)]
    return max(nested) + 1 if nested else 0


def fullest_first(domains: Iterable[Domain], free: Ids) -> list[Domain]:
    """By fewest free GPUs, then fewest free cores, then lowest id."""

    def key(domain: Domain) -> tuple[Any, ...]:
        here = domain.ids & free
        return len(here.gpus), len(here.cores), domain.place()

    return sorted(domains, key=key)


def place(root: Domain, need: Need, free: Ids, locality: str) -> Optional[tuple[Ids, bool]]:
    """The ids of one slot, and whether it is local: in the smallest kind of domain. None if the
    slot does not fit."""
    if not can_host(root, need, free):
        return None
    if locality == "none":
        if need.unit is None:
            return (root.ids & free).lowest(need.cores, need.gpus), True
        taken = NOTHING
        for unit in units_in(root, need, free)[: need.units]:
            taken |= unit.ids
        return taken, True
    hosts = {d: level(d, need, root.ids) for d in root.walk() if can_host(d, need, free)}
    best = min(hosts.values())
    domain = root
    while True:
        onward = [c for c in domain.children if any(hosts.get(d) == best for d in c.walk())]
        if not onward:
            return take(domain, need, amount(need), free), best == 0
        domain = fullest_first(onward, free)[0]


def take(domain: Domain, need: Need, want: tuple[int, int], free: Ids) -> Ids:
    """*want* out of *domain*, from as few of its children as possible after its own ids."""
    if want == (0, 0):
        return NOTHING
    if domain.name == need.unit:
        return domain.ids
    own = domain.own & free if need.unit is None else NOTHING
    own_amount = len(own.gpus), len(own.cores)
    rest = max(0, want[0] - own_amount[0]), max(0, want[1] - own_amount[1])
    children = fewest(fullest_first(domain.children, free), rest, need, free)
    amounts = [own_amount] + [supply(child, need, free) for child in children]
    gpus = deal(want[0], [a[0] for a in amounts])
    # Cores come from the sources that gave GPUs before any other.
    order = [i for i, n in enumerate(gpus) if n] + [i for i, n in enumerate(gpus) if not n]
    cores = dict(zip(order, deal(want[1], [amounts[i][1] for i in order])))
    taken = own.lowest(cores[0], gpus[0])
    for i, child in enumerate(children, 1):
        taken |= take(child, need, (gpus[i], cores[i]), free)
    return taken


def fewest(
    children: list[Domain], want: tuple[int, int], need: Need, free: Ids
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


def slots_on(root: Domain, want: Wanted, free: Ids) -> list[tuple[Ids, bool]]:
    """The slots that fit on a node one after another: their ids, and whether they are local."""
    if want.whole and (free != root.ids or not free):
        return []
    if want.whole and want.need == Need():
        return [(free, True)]
    slots = []
    while True:
        slot = place(root, want.need, free, want.locality)
        if slot is None or (want.locality == "required" and not slot[1]):
            return slots
        slots.append(slot)
        free -= slot[0]


# ---- Nodes ----


class Node:
    """A node of the pool."""

    def __init__(self, rank: int, host: str, properties: set[str], topo: Any, owned: Ids) -> None:
        self.rank = rank
        self.host = host
        self.properties = properties
        self.topo = topo
        self.root = Domain("node", topo or {}, owned)


#: What each rank gives.
Taken = dict[int, Ids]


def serve(
    want: Wanted, nodes: dict[int, Node], free: dict[int, Ids]
) -> Optional[tuple[Taken, int]]:
    """What a request gets of the nodes in *free*, and the number of its slots; None if it can not
    be served."""
    slots = {
        rank: slots_on(nodes[rank].root, want, free[rank])
        for rank in free
        if satisfies(want.constraints, rank, nodes[rank].host, nodes[rank].properties)
    }
    if want.nodes is None:
        return fill(want, slots, free)
    return distinct(want, slots, nodes, free)


def fit_order(free: dict[int, Ids], rank: int) -> tuple[int, int, int]:
    """Best-fit: fewest free cores, fewest free GPUs, lowest rank."""
    return len(free[rank].cores), len(free[rank].gpus), rank


def fill(
    want: Wanted, slots: dict[int, list[tuple[Ids, bool]]], free: dict[int, Ids]
) -> Optional[tuple[Taken, int]]:
    """Slots on any nodes: first the local ones of all nodes, then the others."""
    order = sorted(slots, key=lambda rank: fit_order(free, rank))
    found = [
        (rank, taken)
        for pass_is_local in (True, False)
        for rank in order
        for taken, local in slots[rank]
        if local == pass_is_local
    ]
    number = largest(want.slots, len(found))
    if number is None:
        return None
    result: Taken = {}
    for rank, taken in found[:number]:
        result[rank] = result.get(rank, NOTHING) | taken
    return result, number


def distinct(
    want: Wanted,
    slots: dict[int, list[tuple[Ids, bool]]],
    nodes: dict[int, Node],
    free: dict[int, Ids],
) -> Optional[tuple[Taken, int]]:
    """A number of distinct nodes."""
    chosen: dict[int, list[tuple[Ids, bool]]] = {}
    for rank, found in slots.items():
        number = largest(1 if want.spans else want.slots, len(found))
        if number is not None:
            chosen[rank] = found[:number]
    order = sorted(
        chosen,
        key=lambda rank: (not all(local for _, local in chosen[rank]), fit_order(free, rank)),
    )
    if want.spans:
        nslots = largest(want.slots, len(order) // smallest(want.nodes))
        if nslots is None:
            return None
        per_slot = largest(want.nodes, len(order) // nslots)
        assert per_slot is not None
        order = order[: nslots * per_slot]
    else:
        number = largest(want.nodes, len(order))
        if number is None:
            return None
        order = order[:number]
        nslots = sum(len(chosen[rank]) for rank in order)
    result: Taken = {}
    for rank in order:
        result[rank] = nodes[rank].root.ids if want.whole else NOTHING
        for taken, _ in chosen[rank]:
            result[rank] |= taken
    return result, nslots


# ---- The pool ----


class ReferencePool:
    """What Pool must do. *R* is a valid RFC 20 object."""

    def __init__(self, R: dict[str, Any], locality: str = "preferred") -> None:
        self.R = R
        self.locality = locality
        owned = {
            rank: ids_of(entry["children"])
            for entry in R["execution"]["R_lite"]
            for rank in ids(entry["rank"])
        }
        hosts = [h for item in R["execution"]["nodelist"] for h in hostlist.decode(item)]
        topos = topo_by_rank(R.get("scheduling"), sorted(owned))
        self.topos = topos
        self.nodes = {
            rank: Node(rank, host, properties_of(R, rank), topos.get(rank), owned[rank])
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
        return wanted(jobspec, self.localities(), self.locality)

    def check_feasibility(self, want: Wanted) -> None:
        idle = {rank: node.root.ids for rank, node in self.nodes.items()}
        if serve(want, self.nodes, idle) is None:
            raise InfeasibleRequest

    def alloc(self, jobid: int, want: Wanted) -> tuple[Taken, int]:
        """What the job gets, and its number of slots."""
        found = serve(want, self.nodes, {rank: self.free_ids[rank] for rank in self.up})
        if found is None:
            self.check_feasibility(want)
            raise InsufficientResources
        self.register(jobid, found[0])
        return found

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

    def job_R(self, taken: Taken, nslots: int) -> dict[str, Any]:
        """The R of a job, without times; hosts expanded, and topos by rank."""
        properties: dict[str, str] = {}
        for name in self.R["execution"].get("properties", {}):
            having = [rank for rank in taken if name in self.nodes[rank].properties]
            if having and not name.startswith("+"):
                properties[name] = text(having)
        R = {
            "R_lite": r_lite(taken),
            "hosts": [self.nodes[rank].host for rank in sorted(taken)],
            "nslots": nslots,
            "properties": properties,
        }
        if self.R.get("scheduling", {}).get("writer") == "TreePool":
            R["topos"] = {rank: self.key_topo(rank) for rank in taken}
        return R

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


def topo_by_rank(scheduling: Optional[dict[str, Any]], ranks: list[int]) -> dict[int, Any]:
    """The topo of each rank that has one; as many other ranks map by sorted position."""
    if scheduling is None or scheduling.get("writer") != "TreePool":
        return {}
    entries = scheduling.get("children", [])
    topos = {rank: entry["topo"] for entry in entries for rank in ids(entry["ranks"])}
    if set(topos) <= set(ranks):
        return topos
    assert len(topos) == len(ranks)
    return {rank: topos[old] for rank, old in zip(ranks, sorted(topos))}
