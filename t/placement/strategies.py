"""Random clusters, requests and histories.

Clusters are small and odd: what can go wrong on a tree goes wrong on one of a dozen cores. All of
it is JSON, as treepool gets it: an R, jobspecs, and steps that name both.
"""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any, Optional, Sequence

import attrs
from hypothesis import strategies as st

from treepool.rfc import hostlist, idset
from treepool.rfc.links import digest

#: Real localities and a site's own, outermost first.
LOCALITIES = ("blade", "socket", "numa", "l3", "l2")

POLICIES = ("packing", "best-fit", "first-fit", "worst-fit")

#: Jobs that a site may expect; on some nodes there are none of a kind.
MIXES = (
    "3*slot/[core=2;gpu=1],1*slot/node{x}",
    "1*slot/gpu=1,2*slot/numa{x},0.5*slot/socket{x}",
    "2*slot/[core=3;gpu=2],1*slot/core=2,4*node/slot=2/[core=1;gpu=1]",
    "1*slot/[core=1;gpu=1],7*slot/[core=40;gpu=9],2*slot/numa/[core=2;gpu=1]",
    "1*slot/core=1",
    "1*switch=2/node=3/slot=2/[core=1;gpu=1],3*slot=4/gpu=1,2*slot=2/node=3/gpu=1,1*slot/rack{x}",
    "1*node=1-2/slot=1-3/[core=1;gpu=1],2*slot=2-4/[core=1-2;gpu=2],1*numa=1-2/slot=2+/gpu=1",
    "1*slot=2/switch=1+/node=2/[core=2;gpu=2],2*slot=5/[core=40;gpu=9],1*slot=3/gpu=1-2",
)

PROPERTIES = ("fast", "big", "+local", "old", "driver:550", "driver:560")

#: Low ranks, and those at the edges of what the pool keeps together.
RANKS = (*range(15), 1023, 1024, 2047, 2048, 3071)

Draw = Any
JSON = dict[str, Any]


def some(*values: Any) -> st.SearchStrategy[Any]:
    """One of *values*; repeat one to make it likelier, the first is the simplest."""
    return st.sampled_from(values)


def subsets(values: Any) -> st.SearchStrategy[list[Any]]:
    """A part of *values*, their order kept, seldom empty or all."""
    values = list(values)
    masks = st.integers(0, (1 << len(values)) - 1)
    return masks.map(lambda mask: [v for i, v in enumerate(values) if mask >> i & 1])


def host(rank: int) -> str:
    """The host of a rank; hosts do not ascend with ranks."""
    return f"n{9000 - rank}"


def idset_text(ids: Any) -> str:
    """The RFC 22 text of *ids*."""
    return idset.encode_ids(sorted(ids))


# ---- Nodes ----


@attrs.define
class Sketch:
    """A domain before its ids are dealt: how many of its own, and the domains inside by name.

    A domain with neither says only how much memory it has.
    """

    cores: int
    gpus: int
    inside: list[tuple[str, Sketch]] = attrs.field(factory=list)
    memory: int = 0


@attrs.define
class Kind:
    """A kind of node: its topo (None: flat) and the ids it has, whatever R owns of them."""

    topo: Optional[JSON]
    cores: list[int]
    gpus: list[int]


@st.composite
def regular(draw: Draw) -> Sketch:
    """A node all of whose sides are alike, as most nodes are."""
    names = draw(subsets(LOCALITIES)) or ["numa"]
    leaf = Sketch(draw(some(2, 1, 3, 4)), draw(some(1, 0, 0, 2)), memory=draw(some(0, 0, 2)))
    for name in reversed(names):
        leaf = Sketch(
            0, 0, [(name, leaf)] * draw(some(2, 1, 2, 3) if len(names) < 3 else some(2, 1))
        )
    return leaf


@st.composite
def ragged(draw: Draw, names: tuple[str, ...] = LOCALITIES, budget: int = 3) -> Sketch:
    """A node whose sides differ, in depth and in kind, with resources on every level."""
    sketch = Sketch(draw(some(0, 0, 1, 2)), draw(some(0, 0, 0, 1)))
    while len(sketch.inside) < budget and draw(some(True, True, True, False)):
        place = draw(st.integers(0, len(names) - 1))
        below = names[place + 1 :]
        if below and draw(st.booleans()):
            inner = draw(ragged(below, 2))
        else:
            inner = Sketch(draw(some(2, 0, 1, 3)), draw(some(1, 0, 0, 2)))
        inner.memory = draw(some(0, 0, 0, 1, 2, 5))
        sketch.inside.append((names[place], inner))
    return sketch


@st.composite
def large(draw: Draw) -> Sketch:
    """A node as large as they come: up to 256 cores and 24 GPUs, in few kinds of domain."""
    inner = Sketch(draw(some(16, 48, 64)), draw(some(0, 1, 4, 6)), memory=draw(some(0, 256)))
    sockets = [("socket", inner)] * draw(some(2, 4))
    return Sketch(0, 0, sockets) if draw(st.booleans()) else Sketch(inner.cores, inner.gpus)


@st.composite
def broad(draw: Draw, names: tuple[str, ...] = LOCALITIES[1:4]) -> Sketch:
    """A node with enough domains that there is much to choose from, no two alike."""
    sketch = Sketch(draw(some(0, 0, 0, 1)), draw(some(0, 0, 0, 1)))
    for _ in range(draw(some(3, 2, 4, 5) if len(names) == 3 else some(2, 3, 4))):
        if len(names) > 1 and draw(some(False, False, True)):
            sketch.inside.append((names[0], draw(broad(names[1:]))))
        else:
            inner = Sketch(draw(some(2, 1, 3, 4, 5)), draw(some(1, 0, 0, 2)))
            sketch.inside.append((draw(st.sampled_from(names)), inner))
    return sketch


@st.composite
def rich(draw: Draw, names: tuple[str, ...] = LOCALITIES[1:4]) -> Sketch:
    """A small node in which most of what may be asked can be had: each domain has two or three of
    the next kind in it, and those have cores."""
    sketch = Sketch(0, 0, memory=draw(some(0, 0, 1, 2, 5)))
    if len(names) == 1 or (len(names) == 2 and draw(some(False, True))):
        sketch.cores, sketch.gpus = draw(some(2, 1, 3, 4, 2, 0)), draw(some(1, 0, 0, 2))
    if names and (len(names) > 1 or draw(some(False, False, True))):
        kind = draw(some(0, 0, 0, 1)) if len(names) > 1 else 0
        for _ in range(draw(some(2, 2, 1, 3) if len(names) == 3 else some(1, 2))):
            sketch.inside.append((names[kind], draw(rich(names[kind + 1 :]))))
    if not sketch.inside and not sketch.cores:
        sketch.cores = 2
    return sketch


@st.composite
def kinds(draw: Draw) -> Kind:
    """A kind of node."""
    return draw(dealt(draw(st.one_of(regular(), rich(), ragged(), rich(), ragged(), large()))))


@st.composite
def dealt(draw: Draw, sketch: Sketch, flat: bool = True) -> Kind:
    """A kind of node like *sketch*, with ids; without a topo perhaps, if it may be *flat*."""
    ncores, ngpus = _totals(sketch)
    if not ncores:
        sketch.cores = ncores = 2
    gap = draw(some(0, 0, 1, 5))
    core_ids = [gap + i for i in range(ncores)]
    gpu_ids = list(range(ngpus))
    if draw(some(True, False, False)):
        core_ids = draw(st.permutations(core_ids))
    if draw(st.booleans()):  # package 0 has GPUs 4-5
        gpu_ids = draw(st.permutations(gpu_ids))
    kind = Kind(None, sorted(core_ids), sorted(gpu_ids))
    if not flat or draw(some(True, True, True, True, True, False)):
        mentions = draw(some("own", "nothing on the node", "all", "what no other has"))
        kind.topo = _topo(sketch, iter(core_ids), iter(gpu_ids), mentions)[0]
        if draw(some(False, False, True)):
            within = kind.topo
            if draw(st.booleans()):  # a disk that is close to some of the cores
                within = next((v[0] for v in within.values() if isinstance(v, list)), within)
            within["storage"] = [
                {"path": "/mnt/nvme", "capacity": 2, "unit": "TiB"},
                {"path": "/mnt/disk", "capacity": draw(some(1, 4)), "unit": "TB"},
            ]
        if draw(some(False, False, True)):
            kind.topo["memory"] = draw(some(8, 2, 256))
        if draw(some(False, False, True)):
            _add_slices(draw, kind.topo)
        if draw(some(False, False, True)):
            _add_tiers(draw, kind.topo)
    return kind


#: What is not a locality in a topo.
PLAIN = ("cores", "gpus", "memory", "storage")


def _domains(topo: JSON) -> list[JSON]:
    """The domains in *topo*, and it."""
    inside = [item for name in topo if name not in PLAIN for item in topo[name]]
    return [topo, *(found for item in inside for found in _domains(item))]


def _listed(topo: JSON, what: str) -> list[int]:
    """The ids of *what* that are listed anywhere in *topo*."""
    masks = [idset.decode(domain.get(what, "")) for domain in _domains(topo)]
    return sorted({i for mask in masks for i in idset.iterate(mask)})


def _add_slices(draw: Draw, topo: JSON) -> None:
    """Make some of the GPUs of a domain slices of one, near some of its cores."""
    innermost = [d for d in _domains(topo) if set(d) <= set(PLAIN) and d.get("gpus")]
    if not innermost:
        return
    domain = draw(st.sampled_from(innermost))
    for name in ("mig-1g.10gb", "mig-2g.20gb")[: draw(some(1, 1, 2))]:
        taken = {id_ for item in _domains(domain)[1:] for id_ in _listed(item, "gpus")}
        gpus = [gpu for gpu in _listed(domain, "gpus") if gpu not in taken]
        taken = {id_ for item in _domains(domain)[1:] for id_ in _listed(item, "cores")}
        cores = [core for core in _listed(domain, "cores") if core not in taken]
        slices = draw(subsets(gpus)) or gpus[:1]
        if slices:
            item = {"gpus": idset_text(slices)}
            near = draw(subsets(cores)) or cores[:1]
            domain[name] = [{**item, "cores": idset_text(near)} if near else item]


def _add_tiers(draw: Draw, topo: JSON) -> None:
    """Put memory of other kinds near a domain: around all else in it."""
    domain = draw(st.sampled_from(_domains(topo)))
    for name in draw(subsets(("hbm", "cxl", "nvm"))):
        if name in {key for item in _domains(topo) for key in item}:
            continue
        tier = {key: domain.pop(key) for key in [*domain] if key not in PLAIN}
        tier["memory"] = draw(some(3, 1, 8))
        for what in ("cores", "gpus"):
            listed = sorted({*_listed(domain, what), *_listed(tier, what)})
            if listed:
                tier[what] = idset_text(listed)
        domain[name] = [tier]


@st.composite
def link_tables(draw: Draw, gpus: list[int]) -> JSON:
    """What connects *gpus*, and what they are, as a key says it."""
    wires: dict[tuple[str, int], list[str]] = {}
    kinds = draw(st.lists(some(("nvlink", 50), ("nvlink", 25), ("pcie", 8), None), min_size=1))
    for pair in combinations(gpus, 2):
        wire = draw(st.sampled_from(kinds))
        if wire is not None:
            wires.setdefault(wire, []).append(idset_text(pair))
    table: JSON = {
        "links": [{"type": t, "gbps": gbps, "among": among} for (t, gbps), among in wires.items()]
    }
    near = draw(subsets(gpus))
    if near and draw(some(False, False, True)):
        table["nics"] = [{"name": "n0", "gpus": idset_text(near), "path": draw(some("PIX", "SYS"))}]
    large = draw(subsets(gpus))
    small = [gpu for gpu in gpus if gpu not in large]
    sizes = [(large, 80), (small, draw(some(40, 0)))]
    if draw(some(False, True)):
        table["devices"] = [
            {"model": "gpu", "memory": size, "gpus": idset_text(having)}
            for having, size in sizes
            if having
        ]
    return table


def add_links(draw: Draw, key: JSON) -> None:
    """Give *key* a link table for some of its topos."""
    for entry in key["children"]:
        gpus = _listed(entry["topo"], "gpus")
        table: JSON = {}
        if 1 < len(gpus) < 9 and draw(some(False, True)):
            table = draw(link_tables(gpus))
        names = [name for name in LOCALITIES if 2 < len(_named(entry["topo"], name)) < 9]
        if names and draw(some(False, True)):
            name = draw(st.sampled_from(names))
            table["distances"] = draw(distances(name, len(_named(entry["topo"], name))))
        if table:
            key.setdefault("links", {})[digest(entry["topo"])] = table


@st.composite
def distances(draw: Draw, locality: str, number: int) -> JSON:
    """Distances between so many domains of *locality*, as a key has them."""
    values = [[10] * number for _ in range(number)]
    for i, j in combinations(range(number), 2):
        values[i][j] = draw(some(21, 12, 31))
        values[j][i] = draw(some(values[i][j], values[i][j], 21))
    return {"locality": locality, "values": values}


@st.composite
def distant_nodes(draw: Draw) -> JSON:
    """One node of four to seven domains, side by side or in pairs, and their distances."""
    number, cores = draw(some(6, 4, 5, 7)), draw(some(2, 1, 3))
    gpus = draw(subsets(range(number))) if draw(st.booleans()) else []
    domains = [{"cores": idset_text(range(cores * i, cores * i + cores))} for i in range(number)]
    for gpu, i in enumerate(gpus):
        domains[i]["gpus"] = str(gpu)
    topo: JSON = {"numa": domains}
    if draw(some(False, False, True)):
        topo = {"socket": [{"numa": domains[i : i + 2]} for i in range(0, number, 2)]}
    owned = {0: (list(range(cores * number)), list(range(len(gpus))))}
    table = {"distances": draw(distances("numa", number))}
    return R_of(owned, {0: topo}, links={digest(topo): table})


@st.composite
def linked_nodes(draw: Draw) -> JSON:
    """One node of two to four NUMA domains with GPUs, on sockets perhaps, that are linked.

    The GPUs of the first may be in none, as flux-core's encoder writes those near no NUMA domain.
    """
    number, cores, gpus = draw(some(3, 4, 2)), draw(some(3, 2, 4)), draw(some(2, 1))
    domains = [
        {
            "cores": idset_text(range(cores * i, cores * i + cores)),
            "gpus": idset_text(range(gpus * i, gpus * i + gpus)),
        }
        for i in range(number)
    ]
    topo: JSON = {"numa": domains}
    if draw(some(False, False, True)):
        topo = {"socket": [{"numa": domains[i : i + 2]} for i in range(0, number, 2)]}
    if draw(some(False, False, True)):
        del domains[0]["gpus"]
    ids = list(range(number * gpus))
    alike = [{"type": "nvlink", "gbps": 50, "among": [idset_text(ids)]}]
    table = draw(st.one_of(st.just({"links": alike}), link_tables(ids)))
    near = draw(subsets(ids))
    if near:
        table["nics"] = [{"name": "n0", "gpus": idset_text(near), "path": "PIX"}]
    owned = {0: (list(range(cores * number)), ids)}
    return R_of(owned, {0: topo}, links={digest(topo): table})


def _named(topo: JSON, name: str) -> list[JSON]:
    """The domains of that locality in *topo*."""
    inner = [(key, item) for key, items in topo.items() if key not in PLAIN for item in items]
    found = [item for key, item in inner if key == name]
    return found + [deep for _, item in inner for deep in _named(item, name)]


def _totals(sketch: Sketch) -> tuple[int, int]:
    inner = [_totals(s) for _, s in sketch.inside]
    return sketch.cores + sum(c for c, _ in inner), sketch.gpus + sum(g for _, g in inner)


def _topo(
    sketch: Sketch, core_ids: Any, gpu_ids: Any, mentions: str
) -> tuple[JSON, list[int], list[int]]:
    """The topo of *sketch*, and all ids in it.

    *mentions* says which ids a domain lists: always all, or none if those in it are not its own, or
    its own alone.
    """
    topo: JSON = {"memory": sketch.memory} if sketch.memory else {}
    cores: list[int] = []
    gpus: list[int] = []
    for name, inner in sketch.inside:
        within = "own" if mentions == "nothing on the node" else mentions
        item, inner_cores, inner_gpus = _topo(inner, core_ids, gpu_ids, within)
        topo.setdefault(name, []).append(item)
        cores += inner_cores
        gpus += inner_gpus
    cores += [next(core_ids) for _ in range(sketch.cores)]
    gpus += [next(gpu_ids) for _ in range(sketch.gpus)]
    if mentions == "what no other has":
        for what, ids, number in (("cores", cores, sketch.cores), ("gpus", gpus, sketch.gpus)):
            if number:
                topo[what] = idset_text(ids[-number:])
    if mentions == "all" or (mentions == "own" and sketch.cores):
        topo["cores"] = idset_text(cores)
    if mentions == "all" or (mentions == "own" and sketch.gpus):
        topo["gpus"] = idset_text(gpus)
    return topo, cores, gpus


# ---- Clusters ----


@st.composite
def clusters(draw: Draw, most: int = 8) -> JSON:
    """The R of a cluster of 1 to *most* nodes of a few kinds."""
    dozen = most >= 8 and draw(some(False, False, False, False, False, False, False, True))
    found = draw(st.lists(kinds(), min_size=12 if dozen else 1, max_size=12 if dozen else 3))
    size = 12 if dozen else min(most, draw(some(2, 1, 3, 3, 4, 5, 6, 8)))
    if draw(some(False, True)):
        ranks = list(range(size))
    else:
        ranks = sorted(
            draw(st.lists(st.integers(0, 14), min_size=size, max_size=size, unique=True))
        )
    kind_of = {rank: draw(st.integers(0, len(found) - 1)) for rank in ranks}
    owned = {}
    for number, kind in enumerate(found):
        variants = [(kind.cores, kind.gpus)]
        if draw(some(False, False, True)):  # the rest is the system's, or the enclosing instance's
            variants.append(_part(draw, kind))
        for rank in ranks:
            if kind_of[rank] == number:
                owned[rank] = variants[draw(st.integers(0, len(variants) - 1))]
    key: Optional[JSON] = None
    if draw(some(True, True, True, True, True, True, True, False)):
        key = draw(keys(found, kind_of, owned))
        add_links(draw, key)
    R = without_key(owned)
    if key and named_ranks(key) & ~idset.from_ids(ranks):
        R["execution"]["starttime"] = 1.0
    properties = {
        name: idset_text(having) for name in PROPERTIES if (having := draw(subsets(ranks)))
    }
    if properties:
        R["execution"]["properties"] = properties
    if key is not None:
        R["scheduling"] = key
    return R


def named_ranks(key: JSON) -> int:
    """The ranks that *key* names. Only in an allocated R may they be those of an outer instance."""
    return idset.union(idset.decode(child["ranks"]) for child in key["children"])


def _part(draw: Draw, kind: Kind) -> tuple[list[int], list[int]]:
    """Some of the cores and GPUs of a node."""
    return draw(subsets(kind.cores)) or kind.cores[:1], draw(subsets(kind.gpus))


def add_allocated(draw: Draw, key: JSON, owned: Owned, move: dict[int, int]) -> None:
    """Make *key* that of an allocated R perhaps: it says which cores of the topos were given.

    *move* says what the key calls the ranks that it covers. Flux counts the cores from zero, and
    perhaps the GPUs: so does *owned* then, on some ranks or all.
    """
    told = []
    if draw(some(False, False, True)):
        for rank in move:
            if draw(some(True, True, False)):
                cores, gpus = owned[rank]
                entry = {"ranks": idset_text([move[rank]]), "cores": idset_text(cores)}
                if gpus and draw(some(True, True, False)):
                    entry["gpus"] = idset_text(gpus)
                    if draw(st.booleans()):
                        gpus = list(range(len(gpus)))
                told.append(entry)
                if draw(st.booleans()):
                    cores = list(range(len(cores)))
                owned[rank] = cores, gpus
    if told and draw(st.booleans()):
        key["allocated"] = told  # as treepool 0.1 wrote it
    elif told:
        by_rank = {entry.pop("ranks"): entry for entry in told}
        children = []
        for entry in key["children"]:
            ranks = [idset_text([rank]) for rank in idset.iterate(idset.decode(entry["ranks"]))]
            rest = [int(rank) for rank in ranks if rank not in by_rank]
            children += [{**entry, "ranks": idset_text(rest)}] if rest else []
            for rank in ranks:
                if rank in by_rank:
                    children.append({**entry, "ranks": rank, "allocated": by_rank[rank]})
        key["children"] = children


@st.composite
def broad_nodes(draw: Draw) -> JSON:
    """The R of a single node with many domains."""
    kind = draw(dealt(draw(broad())))
    owned = {0: (kind.cores, kind.gpus)}
    if draw(some(False, False, False, True)):
        owned[0] = _part(draw, kind)
    if kind.topo is None:
        return without_key(owned)
    key: JSON = {"children": [{"ranks": "0", "topo": kind.topo}]}
    add_allocated(draw, key, owned, {0: 0})
    add_links(draw, key)
    return R_of(owned, {}, **key)


@st.composite
def rich_nodes(draw: Draw) -> JSON:
    """The R of one or two small nodes in which there is something of everything."""
    kind = draw(dealt(draw(rich()), flat=False))
    nodes = draw(some([0], [0], [0, 1]))
    owned = dict.fromkeys(nodes, (kind.cores, kind.gpus))
    if draw(some(False, False, False, True)):
        owned[0] = _part(draw, kind)
    key: JSON = {"children": [{"ranks": idset_text(nodes), "topo": kind.topo}]}
    add_allocated(draw, key, owned, {rank: rank for rank in nodes})
    add_links(draw, key)
    return R_of(owned, {}, **key)


@st.composite
def uneven_clusters(draw: Draw) -> JSON:
    """The R of a handful of nodes no two alike, of a few domains each."""
    found = []
    for _ in range(draw(some(4, 3, 5, 6))):
        sizes = draw(st.lists(st.tuples(some(2, 1, 3, 4), some(0, 1, 2)), min_size=1, max_size=3))
        inside = [("numa", Sketch(cores, gpus)) for cores, gpus in sizes]
        found.append(draw(dealt(Sketch(0, 0, inside), flat=False)))
    owned = {rank: (kind.cores, kind.gpus) for rank, kind in enumerate(found)}
    return R_of(owned, {rank: kind.topo for rank, kind in enumerate(found)})


@st.composite
def irregular_nodes(draw: Draw, most: int = 1) -> JSON:
    """The R of 1 to *most* kinds of node whose domains would be alike, if the site did not keep a
    core of some of them, and some did not have other numbers of GPUs."""
    owned, topos = {}, {}
    for rank in range(draw(st.integers(1, most))):
        names = draw(
            some(("socket", "numa"), ("numa",), ("socket", "numa", "l3"), ("socket", "l3"))
        )
        cores, gpus = draw(some(2, 3, 4)), draw(some(1, 0, 2))

        def domains(names: Sequence[str], cores: int, gpus: int) -> Sketch:
            if not names:
                return Sketch(cores, draw(some(gpus, gpus, 0, 2)) if gpus else 0)
            number = 2 if len(names) > 1 else draw(some(2, 3))
            inside = [(names[0], domains(names[1:], cores, gpus)) for _ in range(number)]
            return Sketch(0, 0, inside)

        kind = draw(dealt(domains(names, cores, gpus), flat=False))
        lowest = [
            ids[0] for d in _domains(kind.topo) if (ids := _listed(d, "cores")) and len(ids) > 1
        ]
        kept = draw(subsets(sorted({*lowest})))
        owned[rank] = [core for core in kind.cores if core not in kept], kind.gpus
        topos[rank] = kind.topo
    return R_of(owned, topos)


@st.composite
def blades(draw: Draw) -> JSON:
    """The R of one to three nodes of sockets, on blades perhaps, that have L3 domains of cores."""
    owned, topos = {}, {}
    for rank in range(draw(some(1, 2, 3))):
        sockets = []
        for _ in range(draw(some(2, 3, 1, 4))):
            sizes = draw(st.lists(some(2, 1, 3, 4), min_size=1, max_size=2))
            sockets.append(("socket", Sketch(0, 0, [("l3", Sketch(size, 0)) for size in sizes])))
        if draw(some(False, False, True)):
            half = len(sockets) // 2
            sides = [part for part in (sockets[:half], sockets[half:]) if part]
            sockets = [("blade", Sketch(0, 0, part)) for part in sides]
        kind = draw(dealt(Sketch(0, 0, sockets), flat=False))
        owned[rank] = (kind.cores, kind.gpus)
        topos[rank] = kind.topo
    return R_of(owned, topos)


@st.composite
def keys(
    draw: Draw,
    found: list[Kind],
    kind_of: dict[int, int],
    owned: Owned,
) -> JSON:
    """The key of a cluster; if it covers all ranks it may number them as an outer instance did.

    If it says what was allocated, the cores in *owned* may be numbered anew.
    """
    entries = {}
    for number, kind in enumerate(found):
        ranks = [rank for rank, k in kind_of.items() if k == number]
        if kind.topo is not None and ranks:
            entries[number] = ranks
    covered = sorted(rank for ranks in entries.values() for rank in ranks)
    move = {rank: rank for rank in covered}
    if covered == sorted(kind_of) and draw(some(False, False, True)):
        outer = draw(
            st.lists(st.integers(3, 30), min_size=len(covered), max_size=len(covered), unique=True)
        )
        if not set(outer) <= set(covered):
            move = dict(zip(covered, sorted(outer)))
    children = [
        {"ranks": idset_text(move[r] for r in ranks), "topo": found[number].topo}
        for number, ranks in entries.items()
    ]
    key: JSON = {"writer": "TreePool", "children": children}
    add_allocated(draw, key, owned, move)
    if draw(some(False, False, True)):
        key["site"] = {"anything": [1, 2]}
    if draw(some(False, True)):
        known = covered if move != {rank: rank for rank in covered} else sorted(kind_of)
        if known:
            key["fabric"] = draw(fabrics([move.get(rank, rank) for rank in known]))
    return key


@st.composite
def with_fabric(draw: Draw, R: JSON) -> JSON:
    """*R*, half of the time with a fabric if it has a key without one."""
    key = R.get("scheduling")
    if key is None or "fabric" in key or draw(st.booleans()):
        return R
    ranks = list(idset.iterate(named_ranks(key))) or ranks_of(R)  # as the key numbers them
    return {**R, "scheduling": {**key, "fabric": draw(fabrics(ranks))}}


@st.composite
def fabrics(draw: Draw, ranks: list[int], names: Sequence[str] = ("cell", "switch")) -> JSON:
    """A fabric of one level for each of *names*, or of fewer, over some of *ranks*."""
    ranks = list(ranks) if draw(some(True, True, False)) else draw(st.permutations(ranks))

    def inside(ranks: list[int], names: Sequence[str]) -> JSON:
        number = draw(st.integers(1, min(4, len(ranks))))
        cuts = sorted(draw(subsets(range(1, len(ranks))))[: number - 1])
        parts = [ranks[a:b] for a, b in zip([0, *cuts], [*cuts, len(ranks)])]
        if len(parts) > 1 and draw(some(False, False, True)):
            del parts[draw(st.integers(0, len(parts) - 1))]  # these stand alone
        domains = []
        for part in parts:
            if len(names) > 1 and draw(some(True, True, True, False)):
                domain = {**inside(part, names[1:]), "ranks": idset_text(part)}
            else:
                domain = {"ranks": idset_text(part)}
            domains.append({"name": f"{names[0]}{len(domains)}", **domain})
        return {names[0]: domains}

    return inside(ranks, names)


#: The cores and GPUs that each rank has.
Owned = dict[int, tuple[list[int], list[int]]]


def R_of(owned: Owned, topos: dict[int, JSON], **key: Any) -> JSON:
    """The R of some nodes, of which the key has *topos*, and what else it says."""
    children = [{"ranks": str(rank), "topo": topo} for rank, topo in topos.items()]
    return {
        **without_key(owned),
        "scheduling": {"writer": "TreePool", "children": children, **key},
    }


def without_key(owned: Owned) -> JSON:
    """The R of some nodes, without times."""
    hosts = hostlist.encode([host(rank) for rank in sorted(owned)])
    return {"version": 1, "execution": {"R_lite": _r_lite(owned), "nodelist": [hosts]}}


def _r_lite(owned: Owned) -> list[JSON]:
    groups: dict[tuple[str, str], list[int]] = {}
    for rank, (cores, gpus) in sorted(owned.items()):
        groups.setdefault((idset_text(cores), idset_text(gpus)), []).append(rank)
    return [
        {"rank": idset_text(ranks), "children": {"core": c, **({"gpu": g} if g else {})}}
        for (c, g), ranks in groups.items()
    ]


#: The names of localities, and of those inside each.
Names = dict[str, list[str]]


def localities(R: JSON) -> Names:
    """The localities in the key of *R*, also those that R has nothing of."""
    found: dict[str, set[str]] = {}

    def add(topo: JSON, outer: tuple[str, ...]) -> None:
        for name, items in topo.items():
            if name not in PLAIN:
                found.setdefault(name, set())
                for above in outer:
                    found[above].add(name)
                for item in items:
                    add(item, (*outer, name))

    for entry in R.get("scheduling", {}).get("children", []):
        add(entry["topo"], ())
    return {name: sorted(found[name]) for name in sorted(found)}


def above(R: JSON) -> set[str]:
    """The localities in the fabric of *R*."""

    def inside(domain: JSON) -> set[str]:
        lists = {name: value for name, value in domain.items() if isinstance(value, list)}
        return set(lists).union(*(inside(d) for value in lists.values() for d in value))

    return inside(R.get("scheduling", {}).get("fabric", {}))


def ranks_of(R: JSON) -> list[int]:
    """The ranks of *R*."""
    masks = [idset.decode(entry["rank"]) for entry in R["execution"]["R_lite"]]
    return sorted(rank for mask in masks for rank in idset.iterate(mask))


# ---- Requests ----


def vertex(kind: str, count: Any, below: Any = None, **keys: Any) -> JSON:
    """An RFC 14 resource vertex."""
    made = {"type": kind, "count": count, **keys}
    if kind == "slot":
        made["label"] = "task"
    return {**made, "with": below} if below else made


def counts(most: int) -> st.SearchStrategy[Any]:
    """RFC 14 counts of all forms, mostly the small fixed ones."""
    fixed = st.integers(1, most)
    pairs = st.tuples(fixed, st.integers(0, most))
    ranges = st.one_of(
        pairs.map(lambda p: {"min": p[0], "max": sum(p), "operator": "+", "operand": 1}),
        fixed.map(lambda n: {"min": n}),
        pairs.map(lambda p: f"{p[0]}-{p[0] + p[1] + 1}"),
    )
    steps = st.one_of(
        pairs.map(lambda p: {"min": p[0], "max": 2 * sum(p), "operator": "+", "operand": 2}),
        pairs.map(lambda p: {"min": p[0], "operator": "*", "operand": 2}),
        pairs.map(lambda p: {"min": p[0] + 1, "max": 40, "operator": "^", "operand": 2}),
        st.sampled_from(("1,3", "2,5", "1,4,9", "1-2,6")),
    )
    return st.one_of(fixed, fixed, fixed, ranges, steps)


@st.composite
def flat(draw: Draw, small: bool = False) -> list[JSON]:
    """Cores, and GPUs perhaps; or GPUs alone; and seldom capacities."""
    cores: Any = some(1, 2, 1, 3)
    if not small:
        cores = some(1, 2, 3, 4, 1, 2, 5, 7)
    cores = draw(cores)
    gpus = draw(some(0, 0, 1, 0, 2) if small else some(0, 1, 0, 2, 0, 3))
    if draw(some(False, False, False, True)):
        cores = draw(counts(cores))
    if gpus and draw(some(False, False, False, True)):
        gpus = draw(counts(gpus))
    found = [vertex("core", cores)] + ([vertex("gpu", gpus)] if gpus else [])
    if gpus and draw(some(False, False, True)):
        found = found[1:]
    found += draw(capacities())
    return found[::-1] if draw(some(False, False, True)) else found


@st.composite
def capacities(draw: Draw, often: bool = False) -> list[JSON]:
    """Memory or storage, in all units; seldom anything, unless *often*."""
    found = []
    if draw(some(often, False, False, often, True)):
        number, keys = draw(
            some(
                (1, {}),
                (2, {"unit": "GiB"}),
                (2, {"unit": "GB"}),
                (5000, {"unit": "MB"}),
                ({"min": 3}, {}),
                (1 << 33, {"unit": "B"}),
            )
        )
        found.append(vertex("memory", number, **keys))
    if draw(some(False, False, False, often, False, False, True)):
        number, unit = draw(some((1, "TB"), (2, "TiB"), (3, "TB"), (2000, "GiB"), (2049, "GiB")))
        found.append(vertex("storage", number, unit=unit))
    return found


@st.composite
def needs(draw: Draw, names: Names) -> list[JSON]:
    """What stands below a slot: most often what doc/design.md says the ids of."""
    form = draw(some("flat", "domains", "any", "hard", "any", "flat", "domains", "any", "hard"))
    if not names or form == "flat":
        return draw(flat())
    if form == "any":
        return draw(any_needs(names))
    if form == "hard":
        return [vertex(draw(st.sampled_from([*names])), 1, draw(flat(small=True)))]
    name, number = draw(st.sampled_from([*names])), draw(some(1, 1, 1, 2, 2, 3))
    if draw(some(False, False, False, True)):
        number = draw(counts(number))
    form = draw(some("exclusive", "childless", "minimum", "capacities"))
    if form == "capacities":
        return [vertex(name, number, draw(capacities(often=True)))]
    if form == "minimum":
        return [vertex(name, number, draw(flat(small=True)), exclusive=True)]
    return [vertex(name, number, exclusive=True) if form == "exclusive" else vertex(name, number)]


@st.composite
def any_needs(draw: Draw, names: Names, depth: int = 2) -> list[JSON]:
    """What may stand below a slot or a locality: localities in localities, amounts beside them."""
    found = []
    for _ in range(draw(some(1, 1, 2)) if depth and names else 0):
        name = draw(st.sampled_from([*names]))
        number = draw(some(1, 1, 1, 2, {"min": 1, "max": 3}, {"min": 1}, "1,3"))
        if draw(some(False, False, False, True)):
            number = draw(counts(2))
        within = names  # seldom of any use
        if draw(some(True, True, True, True, True, False)):
            within = {inner: names[inner] for inner in names[name] if inner in names}
        form = draw(some("whole", "childless", "capacities", "minimum", *["in it"] * 4))
        if form == "whole":
            found.append(vertex(name, number, exclusive=True))
        elif form == "childless":
            found.append(vertex(name, number))
        elif form == "capacities":
            found.append(vertex(name, number, draw(capacities(often=True))))
        elif form == "minimum":
            below = draw(st.one_of(any_needs(within, depth - 1), capacities(often=True)))
            found.append(vertex(name, number, below, exclusive=True))
        else:
            below = draw(any_needs(within, depth - 1))
            found.append(vertex(name, number, below, **draw(some({}, {"exclusive": False}))))
    if not found:
        return draw(flat(small=True))
    beside = draw(some("nothing", "nothing", "amounts", "capacities"))
    if beside == "nothing":
        return found
    return found + draw(flat(small=True) if beside == "amounts" else capacities(often=True))


@st.composite
def broad_needs(draw: Draw, names: Names) -> list[JSON]:
    """What stands below a slot that may need many domains."""
    if names and draw(some(False, False, True)):
        return [vertex(draw(st.sampled_from([*names])), draw(some(2, 1, 3, 4)), exclusive=True)]
    gpus = draw(some(2, 1, 0, 3, 4))
    cores = vertex("core", draw(some(*range(2, 13), 1)))
    return [cores, vertex("gpu", gpus)] if gpus else [cores]


def kinds_in(vertices: list[JSON]) -> set[str]:
    """The types of *vertices*."""
    return {one["type"] for one in vertices}


@st.composite
def resources(draw: Draw, names: Names, size: int) -> list[JSON]:
    """A resource list that a form covers, for a cluster of *size* nodes."""
    form = draw(some("slot", "slot", "slot", "node", "above", "above", "span", "span whole"))
    if form == "slot":
        return [vertex("slot", draw(counts(4)), draw(needs(names)))]
    shared = draw(some({}, {}, {"exclusive": True}, {"exclusive": False}))
    if form in ("node", "above"):
        below = draw(needs(names))
        above = []
        if form == "above" and names:
            above = [draw(st.sampled_from([*names]))]
            inside = names[above[0]]
            if inside and draw(some(True, True, False)):
                above.insert(0, draw(st.sampled_from(inside)))
            inside = names[above[0]]
            below = draw(needs({name: names[name] for name in inside}) if inside else flat(True))
        below = vertex("slot", draw(counts(2)), below)
        if above:
            for name in above:
                keys = draw(some({}, {}, {}, {"exclusive": True}, {"exclusive": False}))
                below = vertex(name, draw(counts(2)), [below], **keys)
            if draw(st.booleans()):
                return [below]
        return [vertex("node", draw(counts(max(1, size - 1))), [below], **shared)]
    nslots, per_slot = draw(counts(max(1, size // 2))), draw(counts(2 if size > 2 else 1))
    if form == "span":
        node = vertex("node", per_slot, draw(needs(names)), **shared)
    else:
        below = draw(some([], [], [], draw(capacities()), draw(flat())))
        node = vertex("node", per_slot, below, exclusive=True)
        if not kinds_in(below) & {"core", "gpu"} and draw(st.booleans()):
            del node["exclusive"]
    return [vertex("slot", nslots, [node])]


@st.composite
def rich_resources(draw: Draw, names: Names, size: int) -> list[JSON]:
    """A resource list with localities in it, for nodes in which there is something of them."""
    if draw(st.booleans()):
        return [vertex("slot", draw(counts(2)), draw(any_needs(names)))]
    return draw(resources(names, size))


@st.composite
def with_ranges(draw: Draw, made: list[JSON]) -> list[JSON]:
    """*made* with ranges in the place of some of its counts, the least values small."""
    found = []
    for one in made:
        one = {**one, "with": draw(with_ranges(one["with"]))} if "with" in one else {**one}
        if one["type"] not in ("memory", "storage") and draw(some(True, True, False)):
            least = draw(some(1, 1, 2))
            most = draw(some({"max": least + draw(some(1, 2, 3, 6))}, {}))
            step = draw(
                some(
                    {},
                    {"operator": "+", "operand": 1},
                    {"operator": "+", "operand": 2},
                    {"operator": "*", "operand": 2},
                )
            )
            one["count"] = {"min": least, **most, **step}
            if draw(some(False, False, False, True)):
                one["count"] = draw(
                    some("1,3", "1-2,4", "2,3", {"min": 2, "operator": "^", "operand": 2})
                )
        found.append(one)
    return found


@st.composite
def slots_in_sockets(draw: Draw) -> list[JSON]:
    """A number of slots in each of some sockets, of some blades or nodes perhaps."""
    at_most = {"min": 1, "max": draw(some(4, 2, 3, 8))}
    steps = some(at_most, at_most, at_most, {"min": 1, "operator": "*", "operand": 2}, "1,3", 1, 2)
    made = vertex("slot", draw(steps), [vertex("core", draw(some(1, 1, 2, 3, {"min": 1})))])
    domains = some(1, 2, {"min": 1}, {"min": 1, "max": 2}, "1,3", {"min": 2, "max": 3})
    shared = some({}, {}, {}, {"exclusive": True})
    made = vertex("socket", draw(domains), [made], **draw(shared))
    if draw(some(False, False, True)):
        made = vertex("blade", draw(domains), [made], **draw(shared))
    if draw(some(True, False)):
        made = vertex("node", draw(some(1, 1, 2, {"min": 1})), [made])
    return [made]


@st.composite
def constraints(draw: Draw, ranks: list[int], depth: int = 2) -> JSON:
    """An RFC 31 constraint that often leaves something to choose from."""
    operator = draw(some("properties", "hostlist", "ranks", "not", "and", "or"))
    if operator == "properties":
        names = st.sampled_from([sign + name for name in PROPERTIES for sign in ("", "^")])
        return {operator: draw(st.lists(names, max_size=2))}
    if operator == "hostlist":
        return {operator: [hostlist.encode([host(r) for r in draw(subsets(ranks))] + ["x"])]}
    if operator == "ranks":
        return {operator: [idset_text({*draw(subsets(ranks)), 99})]}
    if not depth:
        return {}
    return {operator: draw(st.lists(constraints(ranks, depth - 1), max_size=2))}


def jobspec(
    resources: list[JSON], constraints: Any = None, locality: Any = None, options: Any = None
) -> JSON:
    """A jobspec that asks for *resources*."""
    system: JSON = {"duration": 0.0}
    if constraints is not None:
        system["constraints"] = constraints
    if locality is not None or options:
        system["treepool"] = {**({} if locality is None else {"locality": locality})}
        system["treepool"].update(options or {})
    return {
        "version": 1,
        "resources": resources,
        "tasks": [],
        "attributes": {"system": system},
    }


@st.composite
def jobspecs(draw: Draw, R: JSON) -> JSON:
    """A jobspec that a form covers, for the cluster *R*."""
    constraint = None
    if draw(some(False, False, False, True)):
        constraint = draw(constraints(ranks_of(R)))
    locality = draw(some(None, None, None, "preferred", "required", "none"))
    made = draw(resources(localities(R), len(ranks_of(R))))
    return jobspec(made, constraint, locality, draw(job_options(R)))


@st.composite
def domain_options(draw: Draw, R: JSON) -> JSON:
    """Options of a job about the domains above the nodes that it may span, if there are any."""
    found: JSON = {}
    names = sorted(above(R))
    options = (("within",), ("switches",), ("segment",), ("within", "switches"))
    for option in draw(some(*options)) if names else ():
        number = draw(some(2, 1, 3))
        if option == "switches":
            found[option] = number
        else:
            name = draw(some(*names))
            found[option] = f"{name}:{number}" if number > 1 or option == "segment" else name
    if names and draw(some(False, False, True)):
        found["wait"] = 60
    return found


@st.composite
def job_options(draw: Draw, R: JSON) -> JSON:
    """Options of a job about its GPUs, its memory, and domains above the nodes; often none."""
    found: JSON = draw(domain_options(R)) if draw(some(False, False, True)) else {}
    if draw(some(False, False, True)):
        found["gpu_link"] = draw(some(25, 50, 8, "nvlink", "xgmi"))
    if draw(some(False, False, False, True)):
        found["gpu_memory"] = draw(some(40, 41, 80, 81))
    if draw(some(False, False, True)):
        found["allow_cxl"] = draw(some(True, False))
    return found


@st.composite
def any_jobspecs(draw: Draw, R: JSON) -> JSON:
    """A jobspec of any form for the cluster *R*, with ranges, domains above the nodes, and options
    of all kinds; it may be invalid, or more than the cluster has."""
    names, size = localities(R), len(ranks_of(R))
    made = draw(st.one_of(resources(names, size), rich_resources(names, size)))
    if draw(st.booleans()):
        made = draw(with_ranges(made))
    domains = sorted(above(R))
    if domains and draw(st.booleans()):
        name, number = draw(some(*domains)), draw(counts(2))
        if draw(st.booleans()):
            made = [vertex(name, number, made)]
        elif made[0]["type"] == "slot":
            made = [{**made[0], "with": [vertex(name, number, made[0]["with"])]}]
    options = draw(job_options(R))
    if draw(some(False, False, True)):
        options["same"] = draw(some("driver", "driver:preferred"))
    locality = draw(some(None, "required", "required", "preferred"))
    return jobspec(made, None, locality, options)


@st.composite
def hard_needs(draw: Draw, names: Sequence[str], depth: int = 2) -> list[JSON]:
    """What stands below a slot that takes several things of domains of some of *names*."""
    found = []
    for _ in range(draw(some(2, 3, 1))):
        name = draw(st.sampled_from(names))
        inner = names[names.index(name) + 1 :]
        below = [vertex("core", draw(some(1, 2, 3, {"min": 1, "max": 4}, {"min": 2})))]
        if inner and depth and draw(st.booleans()):
            below = draw(hard_needs(inner, depth - 1))
        whole = draw(some({}, {}, {}, {"exclusive": True}))
        found.append(vertex(name, draw(some(1, 2, 3, {"min": 1, "max": 3})), below, **whole))
    if draw(st.booleans()):
        found.append(vertex("core", draw(some(1, 3, {"min": 1, "max": 9}))))
    if draw(some(False, False, True)):
        found.append(vertex("gpu", draw(some(1, 2, {"min": 1}))))
    return found


@st.composite
def hard_jobspecs(draw: Draw, names: Sequence[str]) -> JSON:
    """A jobspec that needs a search, on nodes below switches that have domains of *names*."""
    slots = some(1, 2, 3, 5, {"min": 1, "max": 6}, {"min": 2})
    made = [vertex("slot", draw(slots), draw(hard_needs(names)))]
    if draw(st.booleans()):
        made = [vertex("node", draw(some(1, 2, {"min": 1})), made)]
    if draw(some(False, False, True)):
        made = [vertex("switch", draw(some(1, 2, {"min": 1})), made)]
    options: JSON = {}
    given = {
        "same": ("driver", "driver:preferred"),
        "within": ("switch", "switch:2"),
        "wait": (30,),
    }
    for name, values in given.items():
        if draw(some(False, False, True)):
            options[name] = draw(some(*values))
    return jobspec(made, None, draw(some(None, "required", "preferred")), options)


# ---- Histories ----


@st.composite
def occupations(draw: Draw, R: JSON) -> Optional[JSON]:
    """The R of a job that holds ids at random, or None."""
    held = {}
    for entry in R["execution"]["R_lite"]:
        cores = list(idset.iterate(idset.decode(entry["children"]["core"])))
        gpus = list(idset.iterate(idset.decode(entry["children"].get("gpu", ""))))
        for rank in idset.iterate(idset.decode(entry["rank"])):
            taken = draw(subsets(cores))
            if taken:
                held[rank] = taken, draw(subsets(gpus))
    if not held:
        return None
    return without_key(held)


@attrs.frozen
class Step:
    """One call in a history: ``what`` says which; the rest is its argument."""

    what: str
    spec: Any = None
    number: int = 0
    ranks: tuple[int, ...] = ()


@st.composite
def steps(draw: Draw, R: JSON) -> Step:
    """A call that a scheduler might make on the cluster *R*."""
    what = draw(
        some(
            *["alloc"] * 9, *["free"] * 3, *["free some"] * 2, "down", "up", "up", "copy", "remove"
        )
    )
    if what == "alloc":
        return Step(what, draw(jobspecs(R)))
    number = draw(st.integers(0, 20))
    if what == "remove":
        return Step(what, ranks=(draw(st.sampled_from(ranks_of(R))),))
    return Step(what, number=number, ranks=tuple(draw(subsets(ranks_of(R)))))


def mixes(policy: str, R: JSON) -> st.SearchStrategy[str]:
    """The jobs to come that a pool of *R* with *policy* may be told of, or none."""
    text = json.dumps(R.get("scheduling", {}))
    lacking = [name for name in ("numa", "socket", "switch", "rack") if f'"{name}"' not in text]
    known = [mix for mix in MIXES if not any(name in mix for name in lacking)]
    return some("", *known) if policy == "packing" else st.just("")


@attrs.frozen
class History:
    """A cluster, the pool's mode, what is taken to begin with, and calls."""

    R: JSON
    locality: str
    occupied: Optional[JSON]
    steps: list[Step]
    policy: str = "packing"
    mix: str = ""


@st.composite
def histories(draw: Draw) -> History:
    """What may happen to a pool."""
    R = draw(clusters().flatmap(with_fabric))
    locality = draw(some("preferred", "preferred", "required", "none"))
    occupied = draw(occupations(R)) if draw(st.booleans()) else None
    length = draw(some(8, 4, 12, 16))
    made = st.lists(steps(R), min_size=length, max_size=length)
    policy = draw(some("packing", *POLICIES))
    return History(R, locality, occupied, draw(made), policy, draw(mixes(policy, R)))
