"""What a jobspec asks for, read for the reference: the forms of doc/design.md, rule by rule.

A resource list is covered by a form if no rule below refuses it. Each rule looks at all vertices
by itself, so that one can be checked against the design without the others.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Iterable, Iterator, NamedTuple, Optional

from treepool.errors import InvalidJobspec
from treepool.rfc import count, idset
from treepool.rfc.count import Count

AMOUNTS = ("core", "gpu", "memory", "storage")

#: Bytes in each unit of memory and storage, which RFC 14 leaves open.
UNITS = {
    "B": 1,
    "kB": 10**3,
    **{f"{letter}B": 10 ** (3 * i) for i, letter in enumerate("KMGTPE", 1)},
    **{f"{letter}iB": 2 ** (10 * i) for i, letter in enumerate("KMGTPE", 1)},
}

#: Localities that are kinds of memory.
TIERS = ("hbm", "cxl", "nvm", "gpumem")

Vertex = dict[str, Any]


class Need(NamedTuple):
    """What is taken together: an amount from one domain, and parts. ``share``: GPUs bring their
    fair share of cores, of which ``cores`` is the least. ``memory`` and ``storage`` in bytes.
    ``a_core``: of the whole domains in it, at least one has a core."""

    cores: int = 0
    gpus: int = 0
    share: bool = False
    memory: int = 0
    storage: int = 0
    parts: tuple[Part, ...] = ()
    a_core: bool = False


class Part(NamedTuple):
    """A number of slots, or of distinct domains ``name``, with ``need`` in each.

    ``whole``: entire domains that have at least ``need``. ``a_core``: these domains are all that a
    slot takes, so one of them has a core.
    """

    name: str
    count: Count
    whole: bool
    need: Need
    a_core: bool = False

    def times(self, number: int) -> Part:
        """The same, with this count."""
        return self._replace(count=Count(number, number))


class Demand(NamedTuple):
    """What a job demands of its GPUs: GB/s and type of the links between any two of a slot's, and
    bytes of memory of each; and whether CXL memory counts for it."""

    gbps: float = 0
    kind: str = ""
    memory: int = 0
    cxl: bool = False

    @property
    def links(self) -> bool:
        return bool(self.gbps or self.kind)


class Growing(NamedTuple):
    """A count below the slot that is a range: of ``what`` (core, gpu, or a locality).

    ``path`` leads to it: the places, among the parts of each need, from the slot's need on. For a
    locality the last place is its own.
    """

    path: tuple[int, ...]
    what: str
    count: Count


def with_value(need: Need, growing: Growing, number: int) -> Need:
    """*need* with *number* for the count *growing*."""

    def changed(need: Need, path: tuple[int, ...]) -> Need:
        if not path:
            if growing.what == "core":
                return need._replace(cores=number)
            return need._replace(gpus=number)
        parts = list(need.parts)
        part = parts[path[0]]
        if len(path) == 1 and growing.what not in AMOUNTS:
            parts[path[0]] = part.times(number)
        else:
            parts[path[0]] = part._replace(need=changed(part.need, path[1:]))
        return need._replace(parts=tuple(parts))

    return changed(need, growing.path)


class Level(NamedTuple):
    """So many distinct domains ``name`` above the nodes, or slots or segments, which may share
    domains; of ``whole`` domains all nodes are taken."""

    name: str
    count: Count
    whole: bool = False

    @property
    def groups(self) -> bool:
        return self.name in ("slot", "segment")


class Wanted(NamedTuple):
    """What a jobspec asks for.

    ``group`` is what one node gives: slots, or the domains above them; ``units`` how many of
    those (of slots, if ``spans``) are asked in all, unless a node is above. ``nodes`` is None if
    they may be on any node. ``spans``: the slot is above the node. ``whole``: entire, idle nodes.
    Counts below the slot are at their minimum in ``group``; ``growing`` are those that are ranges,
    in the order in which they are given their largest value. ``levels`` are the localities above
    the nodes that are named, from the top, and the slots if some stand below them; each innermost
    domain gives what ``nodes`` and ``units`` say. ``at_most``: a locality, and of how many of its
    domains all nodes are. ``across``: the job itself says how near its slots are to be, so kinds of
    node are compared, too.
    """

    group: Part
    units: Count
    nodes: Optional[Count]
    spans: bool
    whole: bool
    locality: str
    constraints: dict[str, Any]
    demand: Demand = Demand()
    growing: tuple[Growing, ...] = ()
    levels: tuple[Level, ...] = ()
    at_most: Optional[tuple[str, int]] = None
    across: bool = False

    def grown(self, growing: Growing, number: int) -> Wanted:
        """The same with *number* for the count *growing*."""

        def inside(part: Part) -> Part:
            if part.name == "slot":
                return part._replace(need=with_value(part.need, growing, number))
            (inner,) = part.need.parts
            return part._replace(need=part.need._replace(parts=(inside(inner),)))

        return self._replace(group=inside(self.group))


# ---- RFC 14 counts ----


def ids(text: str) -> set[int]:
    """The ids of RFC 22 *text*."""
    return set(idset.iterate(idset.decode(text)))


def valid(number: Count, upto: int) -> list[int]:
    """The valid values of RFC 14 count *number* up to *upto*, ascending."""
    spec = number.spec()
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


def largest(number: Count, upto: int) -> Optional[int]:
    return max(valid(number, upto), default=None)


def smallest(number: Count) -> int:
    return number.minimum


# ---- The rules ----


def wanted(
    jobspec: dict[str, Any], localities: Iterable[str], locality: str, fabric: Iterable[str] = ()
) -> Wanted:
    """What *jobspec* asks of a pool with *localities* whose mode is *locality*.

    *fabric* are the localities above the nodes, the highest first. That the job waits for a close
    place is for whoever knows the time.
    """
    ordered = list(fabric)
    above = set(ordered)
    system = jobspec["attributes"]["system"]
    options = system.get("treepool", {})
    known = {"locality", "gpu_link", "gpu_memory", "allow_cxl", "within", "segment"}
    known |= {"wait", "switches"}
    if set(options) - known:
        raise InvalidJobspec("treepool: unknown option")
    locality = options.get("locality", locality)
    if locality not in ("preferred", "required", "none"):
        raise InvalidJobspec("treepool: unknown locality")
    if "wait" in options:
        rule(options.get("locality") != "none", "a locality to wait for")
        locality = "preferred" if locality == "none" else locality
    check(jobspec["resources"], set(localities), above)
    link = options.get("gpu_link", 0)
    demand = Demand(
        0 if isinstance(link, str) else link,
        link if isinstance(link, str) else "",
        options.get("gpu_memory", 0) * UNITS["GiB"],
        options.get("allow_cxl", False),
    )
    found = read(jobspec["resources"], locality, system.get("constraints", {}), above)
    if "segment" in options:
        found = segmented(found, options["segment"], above)
    limits = []
    if "within" in options:
        name, _, number = options["within"].partition(":")
        rule(name in above, "a locality above the nodes")
        limits.append((name, int(number or 1), True))
    if "switches" in options:
        rule(ordered, "a locality above the nodes")
        limits.append((ordered[-1], options["switches"], "wait" not in options))
    if len(limits) == 2 and limits[0][0] == limits[1][0]:  # whoever keeps the smaller keeps both
        limits = limits[:1] if "wait" in options else [min(limits)]
    several = [limit for limit in limits if limit[1] > 1]
    rule(len(several) < 2, "one limit")
    rule(not several or not found.levels, "a limit, or localities that are named")
    rule(not several or not counted(found), "as many on each node")
    for name, number, demanded in limits:
        if demanded and number > 1:
            found = found._replace(at_most=(name, number))
        elif demanded:
            found = found._replace(levels=(Level(name, Count(1, 1)), *found.levels))
    across = bool({"locality", "wait"} & set(options)) and locality != "none"
    return found._replace(demand=demand, across=across)


def counted(found: Wanted) -> bool:
    """Whether nodes may give different numbers of slots, or of the domains around them."""
    part, several = found.group, found.nodes is not None and not found.group.count.fixed
    while part.name != "slot":
        (part,) = part.need.parts
        several = several or not part.count.fixed
    return several


def segmented(found: Wanted, segment: str, above: set[str]) -> Wanted:
    """*found* with its nodes in groups."""
    name, _, size = segment.rpartition(":")
    rule(name in above, "a locality above the nodes")
    rule(not any(level.groups for level in found.levels), "no other localities below the slot")
    rule(found.nodes is not None and found.nodes.fixed, "a number of nodes")
    rule(not found.spans or found.units.fixed, "a number of nodes")
    assert found.nodes is not None
    nodes = smallest(found.nodes) * (smallest(found.units) if found.spans else 1)
    rule(nodes % int(size) == 0, "whole segments")
    groups = Count(nodes // int(size), nodes // int(size))
    return found._replace(
        levels=(*found.levels, Level("segment", groups), Level(name, Count(1, 1))),
        nodes=Count(int(size), int(size)),
    )


class Place(NamedTuple):
    """A vertex, those above it from the top, and those beside it."""

    vertex: Vertex
    above: list[Vertex]
    beside: list[Vertex]

    @property
    def kind(self) -> str:
        return self.vertex["type"]

    @property
    def children(self) -> list[Vertex]:
        return self.vertex.get("with", [])

    @property
    def below_slot(self) -> bool:
        return any(v["type"] == "slot" for v in self.above)

    @property
    def exclusive(self) -> Optional[bool]:
        return self.vertex.get("exclusive")


def places(resources: list[Vertex], above: Iterable[Vertex] = ()) -> Iterator[Place]:
    """All vertices, those above before those below."""
    for vertex in resources:
        yield Place(vertex, [*above], [v for v in resources if v is not vertex])
        yield from places(vertex.get("with", []), [*above, vertex])


def check(resources: list[Vertex], localities: set[str], fabric: set[str]) -> None:
    """Raise InvalidJobspec if no form covers *resources*."""
    everything = list(places(resources))
    rule(sum(p.kind == "slot" for p in everything) == 1, "exactly one slot")
    for p in everything:
        rule(p.kind in {"node", "slot", *AMOUNTS} | localities | fabric, "only known types")
        rule("id" not in p.vertex, "nothing is asked for by id")
        if "unit" in p.vertex:
            rule(p.kind in ("memory", "storage"), "units on capacities only")
            rule(p.vertex["unit"] in UNITS, "only known units")
        rule(p.kind != "slot" or p.children, "a slot has something in it")  # RFC 14
        if p.kind in ("slot", "core", "gpu"):
            rule(p.exclusive is not False, "never shared")
        if p.kind in ("memory", "storage"):
            rule(p.exclusive is None, "never taken")
        if p.below_slot:
            check_below(p, localities, fabric)
        else:
            around = kinds(p.above)
            rule(p.kind not in fabric or around <= fabric, "nothing is around it but others")
            rule(p.kind not in fabric or not p.exclusive, "taken below the slot only")
            rule(not p.beside, "one way down to the slot")
            rule(p.kind == "slot" or p.kind not in AMOUNTS, "nothing is taken above the slot")
            rule(p.kind != "node" or around <= fabric, "the node is at the top")


def check_below(p: Place, localities: set[str], fabric: set[str]) -> None:
    """The rules for what is below the slot."""
    if p.kind in AMOUNTS:
        rule(not p.children, "nothing below an amount")
        rule(p.kind not in kinds(p.beside), "an amount is said once")
    if p.kind == "node" or p.kind in fabric:
        rule(kinds(p.above) <= {"slot", *fabric}, "nothing is around it but slots and others")
        rule(not p.beside, "nothing beside a node")
    if p.kind in fabric:
        inside = kinds(p.children)
        rule(inside <= {"node", *fabric} and (inside or is_whole(p.vertex)), "nodes are in it")
        rule(not is_whole(p.vertex) or inside <= {"node"}, "all of it is taken")
    if p.kind == "node" or p.kind in localities | fabric:
        said = kinds(p.children) - {"memory", "storage"}
        rule(said or p.exclusive is not False, "something is taken of it")
    above = p.above[-1]
    if above["type"] == "slot" or not is_whole(above):
        asked = {"core", "gpu", "node"} | localities | fabric
        rule(asked & kinds([p.vertex, *p.beside]), "capacities alone are nothing")


def rule(holds: Any, what: str) -> None:
    if not holds:
        raise InvalidJobspec(what)


def kinds(vertices: list[Vertex]) -> set[str]:
    return {v["type"] for v in vertices}


def is_whole(vertex: Vertex) -> bool:
    """Whether all of a domain or node below the slot is taken.

    If it says so; or if it says neither that nor what to take of it: memory and storage are only
    what it must have (RFC 14, use case 2.6).
    """
    return vertex.get("exclusive", not kinds(vertex.get("with", [])) - {"memory", "storage"})


# ---- What a covered list means ----


def read(
    resources: list[Vertex], locality: str, constraints: dict[str, Any], fabric: set[str]
) -> Wanted:
    """The meaning of *resources*, which a form covers."""
    named = [p for p in places(resources) if p.kind in fabric]
    if named:
        slot = next(p for p in places(resources) if p.kind == "slot")
        whole = any(is_whole(p.vertex) for p in named if p.below_slot)
        found = read(without(resources, fabric), locality, constraints, set())
        if whole:
            found = found._replace(whole=True)
        above, below = (
            [
                Level(p.kind, count.parse(p.vertex["count"]), is_whole(p.vertex) and p.below_slot)
                for p in named
                if p.below_slot == side
            ]
            for side in (False, True)
        )
        slots = [Level("slot", count.parse(slot.vertex["count"])), *below] if below else []
        return found._replace(levels=(*above, *slots))
    slot = next(p for p in places(resources) if p.kind == "slot")
    number = count.parse(slot.vertex["count"])
    if kinds(slot.children) == {"node"}:
        node = slot.children[0]
        nodes, whole = count.parse(node["count"]), is_whole(node)
        below = node.get("with", [])
        need = need_of(below, False) if whole else need_of_slot(below)
        group = Part("slot", Count(1, 1), False, need)
        ranges = () if whole else tuple(ranges_in(below))
        return Wanted(group, number, nodes, True, whole, locality, constraints, growing=ranges)
    group = Part("slot", number, False, need_of_slot(slot.children))
    nodes, whole = None, False
    for vertex in reversed(slot.above):
        if vertex["type"] == "node":
            nodes, whole = count.parse(vertex["count"]), bool(vertex.get("exclusive"))
        else:
            entire = bool(vertex.get("exclusive"))
            group = Part(vertex["type"], count.parse(vertex["count"]), entire, Need(parts=(group,)))
    ranges = tuple(ranges_in(slot.children))
    return Wanted(group, group.count, nodes, False, whole, locality, constraints, growing=ranges)


def without(resources: list[Vertex], fabric: set[str]) -> list[Vertex]:
    """*resources* without the localities above the nodes; of a whole one all nodes are asked."""
    found = []
    for vertex in resources:
        inner = without(vertex.get("with", []), fabric)
        if vertex["type"] not in fabric:
            found.append({**vertex, **({"with": inner} if "with" in vertex else {})})
        elif is_whole(vertex):
            node = {"type": "node", "count": {"min": 1}}
            found += [{**(inner[0] if inner else node), "exclusive": True}]
        else:
            found += inner
    return found


def ranges_in(vertices: list[Vertex]) -> Iterator[Growing]:
    """The counts below the slot that may be larger: level by level, each in the order written.

    What stands below a whole domain is a minimum.
    """
    level: list[tuple[tuple[int, ...], list[Vertex]]] = [((), vertices)]
    while level:
        following = []
        for path, siblings in level:
            places = iter(range(len(siblings)))
            for vertex in siblings:
                if vertex["type"] in ("memory", "storage"):
                    continue
                number = count.parse(vertex["count"])
                own = path if vertex["type"] in AMOUNTS else (*path, next(places))
                if not number.fixed:
                    yield Growing(own, vertex["type"], number)
                if vertex["type"] not in AMOUNTS and not is_whole(vertex):
                    following.append((own, vertex.get("with", [])))
        level = following


def need_of_slot(vertices: list[Vertex]) -> Need:
    """The need of a slot. It has a core (RFC 20 wants one on each node), be it of an amount or of a
    whole domain."""
    need = need_of(vertices)
    return need if amount_of_cores(need) else marked(need)._replace(a_core=True)


def amount_of_cores(need: Need) -> bool:
    """Whether *need* asks for a number of cores somewhere."""
    return need.cores > 0 or any(amount_of_cores(p.need) for p in need.parts if not p.whole)


def marked(need: Need) -> Need:
    """*need* with ``a_core`` on its whole domains if all of them are of one part."""
    if len(need.parts) > 1:
        return need
    (part,) = need.parts
    if part.whole:
        part = part._replace(a_core=True)
    elif part.count.fixed and smallest(part.count) == 1:
        part = part._replace(need=marked(part.need))
    return need._replace(parts=(part,))


def need_of(vertices: list[Vertex], taken: bool = True) -> Need:
    """The need of sibling *vertices*; if they are not *taken*, they are a minimum."""
    amount = {v["type"]: v for v in vertices if v["type"] in AMOUNTS}
    cores, gpus = (smallest_of(amount.get(kind)) for kind in ("core", "gpu"))
    memory, storage = (capacity(amount.get(kind)) for kind in ("memory", "storage"))
    parts = tuple(part_of(v) for v in vertices if v["type"] not in AMOUNTS)
    share = taken and gpus > 0 and "core" not in amount
    return Need(1 if share else cores, gpus, share, memory, storage, parts)


def part_of(vertex: Vertex) -> Part:
    whole = is_whole(vertex)
    need = need_of(vertex.get("with", []), not whole)
    return Part(vertex["type"], count.parse(vertex["count"]), whole, need)


def smallest_of(vertex: Optional[Vertex]) -> int:
    return smallest(count.parse(vertex["count"])) if vertex else 0


def capacity(vertex: Optional[Vertex]) -> int:
    return smallest_of(vertex) * UNITS[vertex.get("unit", "GiB")] if vertex else 0


def topo_memory(topo: dict[str, Any], reserved: Iterable[str], name: str = "node") -> int:
    """The bytes of local memory in *topo*, the domain *name*: what it lists or what is nested in
    it, if that is more; and HBM. What tiers list is not ordinary memory."""
    return ordinary_memory(topo, reserved, name) + tier_memory(topo, reserved, name, "hbm")


def ordinary_memory(topo: dict[str, Any], reserved: Iterable[str], name: str) -> int:
    inside = sum(ordinary_memory(item, reserved, n) for n, item in inner(topo, reserved))
    return inside if name in TIERS else max(inside, int(topo.get("memory", 0)) * UNITS["GiB"])


def tier_memory(topo: dict[str, Any], reserved: Iterable[str], name: str, tier: str) -> int:
    """What domains called *tier* list, in *topo* or being it."""
    own = int(topo.get("memory", 0)) * UNITS["GiB"] if name == tier else 0
    return own + sum(tier_memory(item, reserved, n, tier) for n, item in inner(topo, reserved))


def inner(topo: dict[str, Any], reserved: Iterable[str]) -> list[tuple[str, dict[str, Any]]]:
    return [(name, item) for name in topo if name not in reserved for item in topo[name]]


def topo_storage(topo: dict[str, Any], reserved: Iterable[str]) -> int:
    """The bytes of the largest storage anywhere in *topo*."""
    nested = (item for name, items in topo.items() if name not in reserved for item in items)
    here = (
        int(Fraction(s["capacity"]) * UNITS[s.get("unit", "GiB")]) for s in topo.get("storage", [])
    )
    return max([*here, *(topo_storage(t, reserved) for t in nested)], default=0)
