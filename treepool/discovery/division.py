"""Levels inside the smallest domains: gpulink, device, MIG, corekind; how cores are dealt to them.

All cores of a domain are equally near to each of its own GPUs. Each part of the GPUs therefore gets
an even share of the cores, in order.
"""

from __future__ import annotations

from typing import Iterator, Sequence

import attrs

from treepool.discovery.linking import cliques
from treepool.discovery.machine import MIG, Gpu, Machine
from treepool.rfc import idset
from treepool.rfc.idset import union

#: The levels: groups of GPUs joined by faster links, partitions of each GPU, MIG instances by their
#: profile, and kinds of cores.
GPULINK, DEVICE, COREKIND = "gpulink", "device", "corekind"


@attrs.define(eq=False)
class Domain:
    """A domain while the tree is built; memory in bytes, ``tiers`` by name."""

    name: str
    cores: int
    gpus: int = 0
    memory: int = 0
    tiers: dict[str, int] = attrs.field(factory=dict)
    children: list[Domain] = attrs.field(factory=list)

    @property
    def own_cores(self) -> int:
        """The cores that no nested domain has."""
        return self.cores & ~union(child.cores for child in self.children)

    @property
    def own_gpus(self) -> int:
        """The GPUs that no nested domain has."""
        return self.gpus & ~union(child.gpus for child in self.children)

    def walk(self) -> Iterator[Domain]:
        """This domain and all domains inside it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


def divide(root: Domain, machine: Machine, levels: Sequence[str], notes: list[str]) -> None:
    """Divide the domains of the tree by those of *levels* that are named above, and always by MIG.

    *notes* gets a line for each domain whose cores were dealt out.
    """
    for level, parts_of in (
        (GPULINK, _gpulinks),
        (DEVICE, _devices),
        (MIG, _instances),
        (COREKIND, _core_kinds),
    ):
        for domain in list(root.walk()) if level in (*levels, MIG) else ():
            parts = parts_of(domain, machine)
            if parts and level != COREKIND:
                where = f"{domain.name} {idset.encode(domain.cores)}"
                names = ", ".join(dict.fromkeys(part.name for part in parts))
                notes.append(f"the cores of {where} are dealt out evenly to its GPUs: {names}")
            domain.children += parts


def _gpulinks(domain: Domain, machine: Machine) -> list[Domain]:
    if machine.links is None or domain.children:
        return []
    groups = cliques(machine.links, domain.own_gpus)
    shares = _dealt(domain.own_cores, [1] * len(groups))
    return [Domain(GPULINK, cores, gpus) for cores, gpus in zip(shares, groups)]


def _devices(domain: Domain, machine: Machine) -> list[Domain]:
    devices = _by_device(domain, machine)
    shares = _dealt(domain.own_cores, [1] * len(devices))
    return [Domain(DEVICE, cores, _ids(gpus)) for cores, gpus in zip(shares, devices)]


def _instances(domain: Domain, machine: Machine) -> list[Domain]:
    """Each GPU has an even share of the cores, and each of its instances an even part of that."""
    devices = _by_device(domain, machine)
    found = []
    for share, gpus in zip(_dealt(domain.own_cores, [1] * len(devices)), devices):
        profiles: dict[str, list[Gpu]] = {}
        for gpu in gpus:
            profiles.setdefault(gpu.profile, []).append(gpu)
        shares = _dealt(share, [len(alike) for alike in profiles.values()])
        for (profile, alike), cores in zip(profiles.items(), shares):
            if profile.startswith(MIG):
                found.append(Domain(profile, cores, _ids(alike)))
    return found


def _core_kinds(domain: Domain, machine: Machine) -> list[Domain]:
    own = domain.own_cores
    kinds = {name: own & cores for name, cores in machine.core_kinds.items() if own & cores}
    # If all cores are of one kind, the only part has everything that the domain has.
    gpus = domain.own_gpus if len(kinds) == 1 else 0
    return [Domain(name, cores, gpus) for name, cores in kinds.items()]


def _by_device(domain: Domain, machine: Machine) -> list[list[Gpu]]:
    """The domain's own GPUs, those of one device together."""
    devices: dict[str, list[Gpu]] = {}
    for gpu in machine.gpus:
        if domain.own_gpus >> gpu.id & 1:
            number = str(gpu.number) if gpu.number >= 0 else gpu.profile
            devices.setdefault(gpu.pci or number or f"gpu {gpu.id}", []).append(gpu)
    return list(devices.values())


def _ids(gpus: Sequence[Gpu]) -> int:
    return idset.from_ids(gpu.id for gpu in gpus)


def _dealt(cores: int, parts: Sequence[int]) -> list[int]:
    """*cores* (bitmask) divided in order, in the proportions *parts*; the first get the rest."""
    listed, total = list(idset.iterate(cores)), sum(parts)
    size, more = divmod(len(listed), max(total, 1))
    found, begun = [], 0
    for number in parts:
        first, last = (n * size + min(n, more) for n in (begun, begun + number))
        found.append(idset.from_ids(listed[first:last]))
        begun += number
    return found
