"""From a machine to its topo: which levels become localities by default and by ``--levels``.

A level is a kind of region (``machine.KINDS``) or one of three that divide the smallest domains
further (``division.py``): ``gpulink``, the groups of GPUs joined by faster links; ``device``, the
partitions of one GPU; ``corekind``, the cores of each kind, in localities called ``pcore``,
``ecore`` and so on. Domains nest by the cores they hold, not by their kind: depending on the
machine, packages are inside NUMA nodes or NUMA nodes inside packages.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Optional, Sequence

import attrs

from treepool.discovery.division import COREKIND, DEVICE, GPULINK, Domain, divide
from treepool.discovery.machine import KINDS, TIERS, Gpu, Machine, gib
from treepool.errors import InvalidHardware
from treepool.rfc import idset
from treepool.rfc.links import MAX_DISTANCE, MAX_DOMAINS, Distances, Links
from treepool.rfc.topo import read

#: What ``--levels`` may name.
LEVELS = (*KINDS, GPULINK, DEVICE, COREKIND)

#: The levels used by default, where they add information.
DEFAULT = ("socket", "numa")


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
    root = Domain("node", machine.cores)
    for kind, cores in _nesting(machine, kinds):
        _insert(root, Domain(kind, cores), warnings)
    for gpu in machine.gpus:
        _place_gpu(root, gpu, warnings)
    for region in machine.regions:
        if region.memory:
            _around(root, region.cores).memory += region.memory
    for far in machine.far_memory:
        tiers = _around(root, far.cores).tiers
        tiers[far.tier] = tiers.get(far.tier, 0) + far.memory
    notes += (
        f"the GB/s of {kind} are assumed: the model of the GPUs has no known rate"
        for kind in sorted(machine.assumed)
    )
    divide(root, machine, (COREKIND,) if levels is None else levels, notes)
    _warn_of_uneven(root, warnings)
    topo = _json(root)
    distances = _distances(topo, machine)
    if distances is not None:
        links = attrs.evolve(machine.links or Links(), distances=distances)
        machine = attrs.evolve(machine, links=links)
    return NodeTopo(machine, topo, tuple(notes), tuple(warnings))


def _distances(topo: Mapping[str, Any], machine: Machine) -> Optional[Distances]:
    """The distances between those domains of *topo* that are NUMA nodes.

    None if they are not known, or all equal.
    """
    number_of = {cores: number for number, cores in machine.numa_nodes.items()}
    domains = list(read(topo).walk())
    for name in dict.fromkeys(domain.locality for domain in domains):
        cores = sorted((d.cores for d in domains if d.locality == name), key=idset.lowest)
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
    """The kinds that a topo has by default. *notes* gets a line for each that is left out."""
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
        elif kind in DEFAULT or _gpu_groups(machine, [*have, masks]) > _gpu_groups(machine, have):
            chosen.append(kind)
            have.append(masks)
        else:
            notes.append(f"{kind} is left out (--levels names what is to be there)")
    return chosen


def _masks(machine: Machine, kind: str) -> set[int]:
    return {region.cores for region in machine.regions if region.kind == kind and region.cores}


def _gpu_groups(machine: Machine, kinds: list[set[int]]) -> int:
    """The number of groups into which regions of *kinds* separate the GPUs."""
    groups = set()
    for gpu in machine.gpus:
        around = [m for masks in kinds for m in masks if gpu.cores and gpu.cores & ~m == 0]
        groups.add(min(around, key=idset.size, default=machine.cores))
    return len(groups)


def _nesting(machine: Machine, kinds: Sequence[str]) -> Iterator[tuple[str, int]]:
    """The regions of *kinds* as (kind, cores), outermost first."""
    found = {(k, cores) for k in kinds for cores in _masks(machine, k)}
    yield from sorted(
        found, key=lambda r: (-idset.size(r[1]), idset.lowest(r[1]), kinds.index(r[0]))
    )


# -- building the tree


def _insert(root: Domain, new: Domain, warnings: list[str]) -> None:
    """Insert *new* into the smallest domain around its cores."""
    parent = _around(root, new.cores)
    what = f"{new.name} of cores {idset.encode(new.cores)}"
    if any(child.cores & new.cores for child in parent.children):
        warnings.append(f"{what} crosses other domains, and is left out")
    elif any(d.name == new.name and d.cores & new.cores for d in root.walk()):
        warnings.append(f"{what} is inside another {new.name}, and is left out")
    else:
        parent.children.append(new)


def _around(root: Domain, cores: int) -> Domain:
    """The smallest domain around *cores*; the node if there are no cores."""
    return list(_path(root, cores))[-1]


def _path(here: Optional[Domain], cores: int) -> Iterator[Domain]:
    """The domains around *cores*, the node first; the node alone if there are no cores."""
    while here is not None:
        yield here
        here = next((c for c in here.children if cores and not cores & ~c.cores), None)


def _place_gpu(root: Domain, gpu: Gpu, warnings: list[str]) -> None:
    """Add *gpu* to the smallest domain around the cores near it, and to all enclosing domains."""
    if root.children and not gpu.cores:
        warnings.append(f"gpu {gpu.id} is near no part of the node: it belongs to the node itself")
    for domain in _path(root, gpu.cores):
        domain.gpus |= 1 << gpu.id


def _warn_of_uneven(root: Domain, warnings: list[str]) -> None:
    """Warn of domains of one name with different cores or GPUs, often a wrong BIOS setting."""
    sizes: dict[str, set[tuple[int, int]]] = {}
    for domain in root.walk():
        sizes.setdefault(domain.name, set()).add(
            (idset.size(domain.cores), idset.size(domain.gpus))
        )
    for name, different in sizes.items():
        for what, sizes_of in zip(("cores", "GPUs"), map(set, zip(*different))):
            if len(sizes_of) > 1:
                numbers = ", ".join(map(str, sorted(sizes_of)))
                warnings.append(f"uneven: domains of {name} have {numbers} {what}")


# -- JSON


def _json(domain: Domain) -> dict[str, Any]:
    """The RFC 49 JSON of a domain, in the form of flux-core's encoder (rhwloc_treepool.c).

    A domain without nested ones lists what it has, others list the GPUs that no nested domain has.
    A domain with cores that no nested one has lists all that it has, because flux-core's TreePool
    looks at nothing inside a domain that lists cores.
    """
    out: dict[str, Any] = {}
    inner = domain
    nested = domain.children
    if domain.own_cores or not nested:
        out["cores"] = idset.encode(domain.cores)
    gpus = domain.gpus if "cores" in out else domain.own_gpus
    if gpus:
        out["gpus"] = idset.encode(gpus)
    memory = gib(domain.memory)
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
            item["memory"] = gib(domain.tiers[tier])
            item.setdefault("cores", idset.encode(domain.cores))
            if domain.gpus:
                item.setdefault("gpus", idset.encode(domain.gpus))
            out[tier] = [item]
            return out
    for child in sorted(nested, key=lambda c: idset.lowest(c.cores) if c.cores else 1 << 30):
        out.setdefault(child.name, []).append(_json(child))
    return out


def _listed_memory(domain: Domain) -> int:
    return gib(domain.memory) + sum(_listed_memory(child) for child in domain.children)
