"""From a machine to its topo: which levels become localities, and what belongs in which domain.

A level is a kind of region (``machine.KINDS``), or what divides the smallest domains further:
``gpulink``, the groups of GPUs joined by faster links; ``device``, the partitions of one GPU;
``corekind``, the cores of each kind, in localities called ``pcore``, ``ecore`` and so on. Domains
nest by the cores they hold, whatever their kind: packages inside NUMA nodes or NUMA nodes inside
packages, depending on the machine.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Optional, Sequence

import attrs

from treepool.discovery.links import cliques
from treepool.discovery.machine import KINDS, MIG, TIERS, Gpu, Machine
from treepool.errors import InvalidHardware
from treepool.rfc import idset
from treepool.rfc.idset import union
from treepool.rfc.links import MAX_DISTANCE, MAX_DOMAINS, Distances, Links
from treepool.rfc.topo import ids, walk

#: The level made of links between GPUs.
GPULINK = "gpulink"

#: The level made of the partitions of each GPU, and the level made of kinds of cores.
DEVICE, COREKIND = "device", "corekind"

#: What ``--levels`` may name.
LEVELS = (*KINDS, GPULINK, DEVICE, COREKIND)

#: The levels used by default, where they add information.
DEFAULT = ("socket", "numa")

_GIB = 1 << 30


@attrs.define(eq=False)
class _Domain:
    """A domain while the tree is built; memory in bytes, ``tiers`` by name."""

    name: str
    cores: int
    gpus: int = 0
    memory: int = 0
    tiers: dict[str, int] = attrs.field(factory=dict)
    children: list[_Domain] = attrs.field(factory=list)


@attrs.frozen
class NodeTopo:
    """A machine's RFC 49 topo, with a line for whatever was merged, left out or is unusual."""

    machine: Machine
    topo: dict[str, Any]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def topo_of(machine: Machine, levels: Optional[Sequence[str]] = None) -> NodeTopo:
    """The topo of *machine* with these *levels*.

    Levels that are named are included if the machine has them. By default the topo includes socket
    and numa, where they add information, any other level that separates GPUs, and kinds of cores.
    Raises InvalidHardware for an unknown level.
    """
    for level in levels or ():
        if level not in LEVELS:
            raise InvalidHardware(f"no level is called {level!r}; there are {', '.join(LEVELS)}")
    notes, warnings = list(machine.notes), list(machine.warnings)
    kinds = _chosen(machine, notes) if levels is None else [k for k in levels if k in KINDS]
    root = _Domain("node", machine.cores)
    for kind, cores in _nesting(machine, kinds):
        _insert(root, _Domain(kind, cores), warnings)
    for gpu in machine.gpus:
        _place_gpu(root, gpu, warnings)
    for region in machine.regions:
        if region.kind == "numa":
            _around(root, region.cores).memory += region.memory
    for far in machine.far_memory:
        tiers = _around(root, far.cores).tiers
        tiers[far.tier] = tiers.get(far.tier, 0) + far.memory
    named = (COREKIND,) if levels is None else levels
    for level, divide in (
        (GPULINK, _add_gpulinks),
        (DEVICE, _add_devices),
        (MIG, _add_instances),
        (COREKIND, _add_core_kinds),
    ):
        if level in named or level == MIG:
            for domain in list(_walk(root)):
                divide(domain, machine, notes)
    _warn_of_uneven(root, warnings)
    topo = _json(root)
    distances = _distances(topo, machine)
    if distances is not None:
        links = attrs.evolve(machine.links or Links(), distances=distances)
        machine = attrs.evolve(machine, links=links)
    return NodeTopo(machine, topo, tuple(notes), tuple(warnings))


def _distances(topo: Mapping[str, Any], machine: Machine) -> Optional[Distances]:
    """How far the domains of *topo* that are NUMA nodes are apart; None if that tells nothing."""
    number_of = {cores: number for number, cores in machine.numa_nodes.items()}
    for name in dict.fromkeys(name for name, _ in walk(topo)):
        cores = sorted((ids(d)[0] for n, d in walk(topo) if n == name), key=idset.lowest)
        nodes = [number_of.get(mask, -1) for mask in cores]
        if set(nodes) == set(number_of.values()) and 2 < len(nodes) <= MAX_DOMAINS:
            far = machine.distances
            rows = [[min(far.get((a, b), 0), MAX_DISTANCE) for b in nodes] for a in nodes]
            others = {far for i, row in enumerate(rows) for far in row[:i] + row[i + 1 :]}
            if len(others) > 1 and 0 not in others:
                return Distances(name, tuple(map(tuple, rows)))
    return None


# -- which levels


def _chosen(machine: Machine, notes: list[str]) -> list[str]:
    """The kinds that a topo has by default; adds to *notes* which were left out, and why."""
    chosen: list[str] = []
    have: list[set[int]] = []
    for kind in (*DEFAULT, *(k for k in KINDS if k not in DEFAULT)):
        masks = _masks(machine, kind)
        if not masks:
            continue
        if masks == {machine.cores}:
            notes.append(f"{kind} is the whole node, and is left out")
        elif masks in have:
            same = chosen[have.index(masks)]
            notes.append(f"each {kind} is a {same}, and is merged with it")
        elif kind in DEFAULT or _separates_gpus(machine, masks, have):
            chosen.append(kind)
            have.append(masks)
        else:
            notes.append(f"{kind} is left out (--levels names what is to be there)")
    return chosen


def _masks(machine: Machine, kind: str) -> set[int]:
    return {region.cores for region in machine.regions if region.kind == kind and region.cores}


def _separates_gpus(machine: Machine, masks: set[int], have: list[set[int]]) -> bool:
    """Whether some of *masks* separate GPUs that the kinds in *have* do not."""
    return len(_gpu_groups(machine, [*have, masks])) > len(_gpu_groups(machine, have))


def _gpu_groups(machine: Machine, kinds: list[set[int]]) -> set[int]:
    """The smallest region of *kinds* around each GPU, each once."""
    groups = set()
    for gpu in machine.gpus:
        around = [m for masks in kinds for m in masks if gpu.cores and gpu.cores & ~m == 0]
        groups.add(min(around, key=idset.size, default=machine.cores))
    return groups


def _nesting(machine: Machine, kinds: Sequence[str]) -> Iterator[tuple[str, int]]:
    """The regions of *kinds* as (kind, cores), outermost first."""
    found = {(k, cores) for k in kinds for cores in _masks(machine, k)}
    yield from sorted(
        found, key=lambda r: (-idset.size(r[1]), idset.lowest(r[1]), kinds.index(r[0]))
    )


# -- building the tree


def _insert(root: _Domain, new: _Domain, warnings: list[str]) -> None:
    """Insert *new* into the smallest domain around its cores."""
    parent = _around(root, new.cores)
    if any(child.cores & new.cores for child in parent.children):
        cores = idset.encode(new.cores)
        warnings.append(f"{new.name} of cores {cores} crosses other domains, and is left out")
        return
    if any(d.name == new.name and d.cores & new.cores for d in _walk(root)):
        cores = idset.encode(new.cores)
        warnings.append(
            f"{new.name} of cores {cores} is inside another {new.name}, and is left out"
        )
        return
    parent.children.append(new)


def _around(root: _Domain, cores: int) -> _Domain:
    """The smallest domain around *cores*; the node if there are no cores."""
    here = root
    while cores:
        inside = next((c for c in here.children if c.cores and cores & ~c.cores == 0), None)
        if inside is None:
            break
        here = inside
    return here


def _place_gpu(root: _Domain, gpu: Gpu, warnings: list[str]) -> None:
    """Add *gpu* to the smallest domain around the cores near it, and to all enclosing domains."""
    here: Optional[_Domain] = root
    if root.children and not gpu.cores:
        warnings.append(f"gpu {gpu.id} is near no part of the node: it belongs to the node itself")
    while here is not None:
        here.gpus |= 1 << gpu.id
        here = next(
            (c for c in here.children if gpu.cores and gpu.cores & ~c.cores == 0),
            None,
        )


def _add_gpulinks(domain: _Domain, machine: Machine, notes: list[str]) -> None:
    """Divide a domain's own GPUs into groups joined by faster links, each with a share of cores."""
    own = domain.gpus & ~union(child.gpus for child in domain.children)
    groups = cliques(machine.links, own) if machine.links is not None else ()
    if not domain.children:
        _divide(domain, GPULINK, groups, "groups of linked GPUs", notes)


def _add_devices(domain: _Domain, machine: Machine, notes: list[str]) -> None:
    """Group the partitions among a domain's own GPUs by device, each with a share of cores."""
    own = domain.gpus & ~union(child.gpus for child in domain.children)
    groups: dict[str, int] = {}
    for gpu in machine.gpus:
        if own >> gpu.id & 1 and gpu.pci:
            groups[gpu.pci] = groups.get(gpu.pci, 0) | 1 << gpu.id
    if domain.name != GPULINK or len(groups) > 1:
        _divide(domain, DEVICE, tuple(groups.values()), "devices", notes)


def _divide(domain: _Domain, name: str, groups: Sequence[int], what: str, notes: list[str]) -> None:
    """Give each of *groups* of a domain's GPUs a domain called *name* of its own.

    All cores of a domain are equally near to each of its GPUs, so they are dealt out evenly, in
    order.
    """
    cores = domain.cores & ~union(child.cores for child in domain.children)
    for gpus, mine in zip(groups, _dealt(list(idset.iterate(cores)), max(len(groups), 1))):
        domain.children.append(_Domain(name, idset.from_ids(mine), gpus))
    if groups:
        where = f"{domain.name} {idset.encode(domain.cores)}"
        notes.append(f"the cores of {where} are dealt out evenly to its {len(groups)} {what}")


def _add_core_kinds(domain: _Domain, machine: Machine, notes: list[str]) -> None:
    """Divide a domain's own cores by their kind."""
    own = domain.cores & ~union(child.cores for child in domain.children)
    kinds = {name: own & cores for name, cores in machine.core_kinds.items() if own & cores}
    if len(kinds) > 1:
        domain.children += [_Domain(name, cores) for name, cores in kinds.items()]
    elif kinds and own == domain.cores and not domain.children:
        (name,) = kinds
        domain.children.append(_Domain(name, own, domain.gpus))


def _add_instances(domain: _Domain, machine: Machine, notes: list[str]) -> None:
    """Put a domain's own MIG instances into domains named by their profile, with cores.

    Each GPU, divided or not, has an even share of the cores. Each instance has an even share of its
    GPU's cores.
    """
    own = domain.gpus & ~union(child.gpus for child in domain.children)
    gpus = [gpu for gpu in machine.gpus if own >> gpu.id & 1]
    if not any(gpu.profile.startswith(MIG) for gpu in gpus):
        return
    cores = list(idset.iterate(domain.cores & ~union(child.cores for child in domain.children)))
    devices: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        devices.setdefault(gpu.pci or str(gpu.id), []).append(gpu)
    for instances, share in zip(devices.values(), _dealt(cores, len(devices))):
        profiles: dict[str, list[Gpu]] = {}
        for gpu in instances:
            profiles.setdefault(gpu.profile, []).append(gpu)
        parts = iter(_dealt(share, len(instances)))
        for profile, alike in profiles.items():
            mine = [core for _ in alike for core in next(parts)]
            if profile.startswith(MIG):
                ids = idset.from_ids(gpu.id for gpu in alike)
                domain.children.append(_Domain(profile, idset.from_ids(mine), ids))
    notes.append(
        f"the cores of {domain.name} {idset.encode(domain.cores)} are dealt out evenly to its GPUs "
        "and their MIG instances"
    )


def _dealt(cores: Sequence[int], shares: int) -> list[Sequence[int]]:
    """*cores* in order, in *shares* even parts; the first parts may have one more."""
    size, more = divmod(len(cores), shares)
    starts = [i * size + min(i, more) for i in range(shares + 1)]
    return [cores[a:b] for a, b in zip(starts, starts[1:])]


def _walk(domain: _Domain) -> Iterator[_Domain]:
    yield domain
    for child in domain.children:
        yield from _walk(child)


def _warn_of_uneven(root: _Domain, warnings: list[str]) -> None:
    """Warn of domains of one name with different cores or GPUs, often a wrong BIOS setting."""
    sizes: dict[str, set[tuple[int, int]]] = {}
    for domain in _walk(root):
        sizes.setdefault(domain.name, set()).add(
            (idset.size(domain.cores), idset.size(domain.gpus))
        )
    for name, different in sizes.items():
        for what, sizes_of in zip(("cores", "GPUs"), map(set, zip(*different))):
            if len(sizes_of) > 1:
                numbers = ", ".join(map(str, sorted(sizes_of)))
                warnings.append(f"uneven: domains of {name} have {numbers} {what}")


# -- JSON


def _json(domain: _Domain) -> dict[str, Any]:
    """The RFC 49 JSON of a domain; it does not repeat what nested domains list in full."""
    out: dict[str, Any] = {}
    inner = domain
    nested = domain.children
    if domain.cores & ~union(c.cores for c in nested) or not nested:
        out["cores"] = idset.encode(domain.cores)
    if domain.gpus & ~union(c.gpus for c in nested):
        out["gpus"] = idset.encode(domain.gpus)
    memory = _gib(domain.memory)
    if memory and nested:
        memory += sum(_listed_memory(child) for child in nested)
    if memory:
        out["memory"] = memory
    for tier in TIERS:
        if tier in domain.tiers:
            # Memory near a domain is near everything in it, so a tier encloses the rest.
            rest = {t: m for t, m in domain.tiers.items() if TIERS.index(t) > TIERS.index(tier)}
            inner = attrs.evolve(domain, memory=0, tiers=rest)
            item = _json(inner)
            item["memory"] = _gib(domain.tiers[tier])
            item.setdefault("cores", idset.encode(domain.cores))
            if domain.gpus:
                item.setdefault("gpus", idset.encode(domain.gpus))
            out[tier] = [item]
            return out
    for child in sorted(nested, key=lambda c: idset.lowest(c.cores) if c.cores else 1 << 30):
        out.setdefault(child.name, []).append(_json(child))
    return out


def _listed_memory(domain: _Domain) -> int:
    return _gib(domain.memory) + sum(_listed_memory(child) for child in domain.children)


def _gib(size: int) -> int:
    """*size* in GiB, rounded to the nearest as in hwloc's lstopo."""
    return (size + _GIB // 2) // _GIB
