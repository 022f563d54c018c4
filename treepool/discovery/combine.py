"""A machine together with what ``nvidia-smi topo -m`` printed on it."""

from __future__ import annotations

import attrs

from treepool.discovery.machine import Gpu, Machine
from treepool.discovery.nvidia import Near, NvidiaTopology
from treepool.rfc import idset
from treepool.rfc.links import Links


def with_nvidia(machine: Machine, told: NvidiaTopology) -> Machine:
    """*machine* with the links, NICs and GPU localities of *told*, whose GPU ids are NVML's.

    Where hwloc knows no GPUs those of *told* are added. Where both know a locality and differ,
    hwloc's holds and a warning says so. A machine with other GPUs than *told* is left as it is,
    with a warning: the text is of another node.
    """
    gpus = {gpu.id: gpu for gpu in machine.gpus}
    if not told.near:
        return _warned(machine, "nvidia-smi names no GPU")
    if not gpus:
        gpus = {i: Gpu(i, "nvidia") for i in told.near}
    if set(gpus) != set(told.near):
        here, there = (idset.encode(idset.from_ids(ids)) for ids in (gpus, told.near))
        return _warned(machine, f"gpus are {here}, but nvidia-smi has {there}: it is not used")
    warnings = []
    for i, near in sorted(told.near.items()):
        cores = _cores(machine, near)
        if not gpus[i].cores:
            gpus[i] = attrs.evolve(gpus[i], cores=cores)
        elif cores and cores != gpus[i].cores:
            ours, theirs = idset.encode(gpus[i].cores), idset.encode(cores)
            warnings.append(f"gpu {i} is near cores {ours}, but near {theirs} for nvidia-smi")
    old = machine.links or Links()
    links = Links(told.links.links, told.links.nics or old.nics, old.devices)
    return attrs.evolve(
        machine,
        gpus=tuple(gpus[i] for i in sorted(gpus)),
        links=links,
        notes=(*machine.notes, *told.notes),
        warnings=(*machine.warnings, *warnings),
    )


def _cores(machine: Machine, near: Near) -> int:
    """The cores that have one of the PUs near a GPU; 0 if they are all of the machine's."""
    found = idset.from_ids(
        core for core, pus in machine.pus.items() if any(near.pus >> pu & 1 for pu in pus)
    )
    return 0 if found == machine.cores else found


def _warned(machine: Machine, warning: str) -> Machine:
    return attrs.evolve(machine, warnings=(*machine.warnings, warning))
