"""The MIG instances of NVIDIA GPUs, from ``nvidia-smi -L``: their ids, memory and NICs.

hwloc does not report MIG. The text has a line for each GPU, in the order of NVML's index. A line
for each of its MIG devices follows. Jobs use these devices:

    GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-5a3...)
      MIG 1g.10gb     Device  0: (UUID: MIG-c6d...)
      MIG 2g.20gb     Device  1: (UUID: MIG-0f1...)
    GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-7b9...)

Each instance has a GPU id in R, in this order. A GPU that is divided has no id itself. CUDA does
not number instances, and knows them only by their UUIDs.
"""

from __future__ import annotations

import re
from typing import Mapping, Sequence, Union

import attrs

from treepool.discovery.machine import MIG, Gpu, Machine
from treepool.errors import InvalidHardware
from treepool.rfc import idset
from treepool.rfc.findings import shown
from treepool.rfc.links import MAX_GPUS, Device, Link, Links, Nic
from treepool.rfc.quote import amount

#: Longest text accepted, in characters; 16 GPUs with seven instances each need 16 KiB.
MAX_TEXT = 1 << 20

#: Most instances of one GPU.
MAX_INSTANCES = 64

_UUID = r"(?:.*?\(UUID: ([\w/-]{1,100})\))?"
_GPU = re.compile(rf"GPU (\d{{1,4}}): {_UUID}", re.ASCII)
_INSTANCE = re.compile(rf"\s+MIG (\S{{1,40}})\s+Device\s+\d{{1,4}}:{_UUID}", re.ASCII)
_PROFILE = re.compile(r"(?:\d+c\.)?\d+g\.(\d+)gb(?:[+-][a-z.]+)?", re.ASCII)

#: A profile at the end of the name of a model, as in a100_1g.5gb.
_AT_END = re.compile(
    r"(?:^|[_.: -]|mig)((?:\d{1,2}c\.)?\d{1,2}g)\.?(\d{1,3}gb(?:[+-][a-z.]{1,9})*)$",
    re.ASCII | re.IGNORECASE,
)


@attrs.frozen
class Instance:
    """A MIG instance: its profile and its UUID, "" if the text does not have it."""

    profile: str
    uuid: str = ""


@attrs.frozen
class ListedGpu:
    """A GPU that NVML counts: its UUID and its MIG instances, none if it is not divided."""

    uuid: str = ""
    instances: tuple[Instance, ...] = ()


def read_list(text: str) -> list[ListedGpu]:
    """The GPUs of a node, by NVML's index; raises InvalidHardware, with the line."""
    if len(text) > MAX_TEXT:
        raise InvalidHardware(f"nvidia-smi -L: more than {MAX_TEXT >> 20} MiB of text")
    found: list[ListedGpu] = []
    for number, line in enumerate(text.split("\n"), 1):
        gpu, instance = _GPU.match(line), _INSTANCE.match(line)
        where = f"nvidia-smi -L: line {number}"
        if gpu:
            if len(found) >= MAX_GPUS:
                raise InvalidHardware(f"{where}: more than {MAX_GPUS} GPUs")
            if int(gpu.group(1)) != len(found):
                expected = f"where GPU {len(found)} is expected"
                raise InvalidHardware(f"{where}: GPU {gpu.group(1)} {expected}")
            found.append(ListedGpu(gpu.group(2) or ""))
        elif instance:
            profile = instance.group(1)
            if not found:
                raise InvalidHardware(f"{where}: a MIG device before the first GPU")
            if len(found[-1].instances) >= MAX_INSTANCES:
                raise InvalidHardware(f"{where}: more than {MAX_INSTANCES} MIG devices of one GPU")
            if not _PROFILE.fullmatch(profile):
                raise InvalidHardware(f"{where}: {shown(profile)} is not a profile such as 1g.10gb")
            last = found[-1]
            added = (*last.instances, Instance(profile, instance.group(2) or ""))
            found[-1] = attrs.evolve(last, instances=added)
        elif line.strip() and not line.strip().startswith(("No devices", "Unable")):
            raise InvalidHardware(f"{where}: {shown(line.strip())} is neither GPU nor MIG device")
    if not found:
        raise InvalidHardware("nvidia-smi -L: line 1: there is no GPU")
    return found


def told(listed: Sequence[ListedGpu]) -> str:
    """How many GPUs and instances are *listed*."""
    number = sum(len(gpu.instances) for gpu in listed)
    return f"{amount(len(listed), 'GPU')}, {amount(number, 'MIG instance')}"


def profile_in(kind: str) -> tuple[str, str]:
    """The model in a name such as ``a100_1g.5gb``, and the locality of its MIG instances or ""."""
    match = _AT_END.search(kind)
    if match is None:
        return kind, ""
    model = re.sub(r"[_.: -]*(mig)?[_.: -]*$", "", kind[: match.start()], flags=re.IGNORECASE)
    return model, f"{MIG}{match[1]}.{match[2]}".lower()


def memory_of(profile: str) -> int:
    """The bytes of memory of an instance of this profile, or locality, by its name."""
    match = _PROFILE.fullmatch(profile[len(MIG) :] if profile.startswith(MIG) else profile)
    return int(match[1]) << 30 if match else 0


def with_instances(machine: Machine, listed: Sequence[ListedGpu]) -> Machine:
    """*machine* with the MIG instances of *listed* in place of the GPUs that have any.

    The GPUs of *machine* have NVML's ids. If hwloc knows no GPUs, those of *listed* are added.
    """
    whole = {gpu.id: gpu for gpu in machine.gpus}
    if not whole:
        whole = {i: Gpu(i, "nvidia") for i in range(len(listed))}
    if any(gpu.vendor not in ("", "nvidia") for gpu in machine.gpus):
        return machine.with_warning(
            "nvidia-smi -L is not used: the node has GPUs of another vendor"
        )
    if set(whole) != set(range(len(listed))):
        return machine.with_warning(
            f"nvidia-smi -L has {len(listed)} GPUs, the node {len(whole)}: it is not used"
        )
    gpus: list[Gpu] = []
    #: The new ids that replace each old id.
    ids: dict[int, list[int]] = {}
    for old, listed_gpu in enumerate(listed):
        parts: Sequence[Union[ListedGpu, Instance]] = listed_gpu.instances or [listed_gpu]
        ids[old] = list(range(len(gpus), len(gpus) + len(parts)))
        for part in parts:
            gpu = attrs.evolve(whole[old], id=len(gpus), uuid=part.uuid)
            if isinstance(part, Instance):
                memory = memory_of(part.profile)
                gpu = attrs.evolve(gpu, profile=f"{MIG}{part.profile}", memory=memory)
            gpus.append(gpu)
    links = machine.links and _renumbered(machine.links, ids, gpus)
    return attrs.evolve(machine, gpus=tuple(gpus), links=links)


def _renumbered(links: Links, ids: Mapping[int, Sequence[int]], gpus: Sequence[Gpu]) -> Links:
    """*links* with the new ids. Instances have no links, but they have the NICs of their GPU."""

    def whole(mask: int) -> int:
        return idset.from_ids(ids[i][0] for i in idset.iterate(mask) if len(ids[i]) == 1)

    def all_of(mask: int) -> int:
        return idset.from_ids(new for i in idset.iterate(mask) for new in ids[i])

    kept = []
    for link in links.links:
        among = tuple(mask for mask in map(whole, link.among) if mask & (mask - 1))
        if among:
            kept.append(Link(link.type, link.gbps, among))
    devices = []
    for device in links.devices:
        by_kind: dict[tuple[str, int], int] = {}
        for i in idset.iterate(all_of(device.gpus)):
            gpu = gpus[i]
            name = f"{device.model} {gpu.profile}" if gpu.profile else device.model
            memory = gpu.memory >> 30 if gpu.profile else device.memory
            by_kind[name, memory] = by_kind.get((name, memory), 0) | 1 << i
        devices += [
            Device(name, memory, mask, device.c2c) for (name, memory), mask in by_kind.items()
        ]
    nics = tuple(Nic(nic.name, all_of(nic.gpus), nic.path) for nic in links.nics)
    return Links(tuple(kept), nics, tuple(devices))
