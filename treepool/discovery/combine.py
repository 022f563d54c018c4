"""Combine a machine with the output of ``nvidia-smi topo -m`` on it."""

from __future__ import annotations

import attrs

from treepool.discovery.machine import Gpu, Machine
from treepool.discovery.nvidia import Near, NvidiaTopology
from treepool.rfc import idset
from treepool.rfc.links import Links


def with_nvidia(machine: Machine, told: NvidiaTopology) -> Machine:
    """*machine* with the links, NICs and GPU localities of *told*, whose GPU ids are NVML's.

    If hwloc knows no GPUs, the GPUs of *told* are added. If both know a GPU's locality and they
    differ, hwloc's is used and a warning says so. If the GPUs of the machine and of *told* differ,
    the text is from another node: the machine stays as it is, with a warning.
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
    """The cores that have one of the PUs near a GPU; 0 if these are all cores of the machine."""
    found = idset.from_ids(
        core for core, pus in machine.pus.items() if any(near.pus >> pu & 1 for pu in pus)
    )
    return 0 if found == machine.cores else found


def _warned(machine: Machine, warning: str) -> Machine:
    return attrs.evolve(machine, warnings=(*machine.warnings, warning))
