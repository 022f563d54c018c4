"""Which GPUs a program sees: the environment variables that the vendors' libraries read.

Each library numbers the GPUs of its vendor from zero, whatever other GPUs the node has.

CUDA numbers them in the order of their PCI bus ids if CUDA_DEVICE_ORDER says so. MIG instances have
ids in R, and Flux lists these, but CUDA only knows instances by their UUIDs.

ROCm applies two filters in sequence. ROCR_VISIBLE_DEVICES numbers all GPUs. Then
HIP_VISIBLE_DEVICES (CUDA_VISIBLE_DEVICES if that is unset) numbers the GPUs that pass the first
filter. On AMD's GPUs the same list in both variables would therefore hide GPUs.

Level Zero (Intel) reads a mask, so its GPUs stay in their order, and an empty mask hides nothing.
Each tile is a device with a number where ZE_FLAT_DEVICE_HIERARCHY is FLAT; where it is COMPOSITE,
the mask names a device (all its tiles) or DEVICE.TILE.

Where a job is *contained*, its programs see no GPUs but its own, and all these variables number
them from zero in the order of their ids in R. flux-core says so by CONTAINED (PR 7806).
"""

from __future__ import annotations

import re
from typing import Iterator, Mapping, Optional, Sequence

from treepool.discovery.machine import MIG, TILE, Gpu
from treepool.discovery.task import Task
from treepool.errors import InvalidHardware
from treepool.rfc import idset
from treepool.rfc.findings import shown_ids
from treepool.rfc.quote import quoted

CUDA, HIP, ROCR = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"
MASK = "ZE_AFFINITY_MASK"

#: The variable for CUDA's order of GPUs and its value, which Flux's job shell also sets.
ORDER, BY_BUS = "CUDA_DEVICE_ORDER", "PCI_BUS_ID"

#: The variable that says what Level Zero's devices are.
HIERARCHY = "ZE_FLAT_DEVICE_HIERARCHY"

#: The variables that the library of each vendor reads: filters, each of the GPUs that pass the one
#: before, and in each filter variables of which the first that is set counts.
READ = {"nvidia": ((CUDA,),), "amd": ((ROCR,), (HIP, CUDA)), "intel": ((MASK,),)}

#: What must be set beside a variable, so that its numbers are those of R.
BESIDE = {CUDA: {ORDER: BY_BUS}, MASK: {"ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1", HIERARCHY: "FLAT"}}

#: The variables that hide nothing if they are empty. CUDA and ROCR then hide all GPUs.
_UNSET_IF_EMPTY = (HIP, MASK)

#: The variable by which flux-core says that a job is kept from all that it has not.
CONTAINED = "FLUX_EXEC_CONSTRAINED_RESOURCES"

#: Most GPUs in a list; the libraries support fewer.
_MAX_LISTED = 1024

_NUMBER = re.compile(r"\s*([+-]?)(\d{1,9})\s*", re.ASCII)
_MASKED = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)


def is_contained(environment: Mapping[str, str]) -> bool:
    """Whether *environment* is that of a job that is kept from all that it has not."""
    return environment.get(CONTAINED, "") not in ("", "0")


def seen(
    environment: Mapping[str, str],
    vendor: str,
    node: int = 0,
    names: Mapping[int, str] = {},
    numbered: Optional[Sequence[int]] = None,
) -> Optional[tuple[int, ...]]:
    """The ids of the *vendor*'s GPUs that a program with this *environment* sees, in its order.

    None if it sees all GPUs of the node. *node* has the ids of all GPUs of the node (bitmask), 0 if
    not known, and *names* the words other than numbers that mean them. *numbered* has the GPUs that
    the library numbers from zero, in order, and a program sees no others; without it their numbers
    are their ids. As in the libraries, a list ends at the first that is not a GPU. Raises
    InvalidHardware for GPUs that are given neither by number nor by a known name.
    """
    if numbered is not None:
        by_number = {i: names[gpu] for i, gpu in enumerate(numbered) if gpu in names}
        everything = (1 << len(numbered)) - 1
        found = seen(environment, vendor, everything, by_number) if numbered else ()
        return tuple(numbered if found is None else (numbered[i] for i in found))
    passed: Optional[tuple[int, ...]] = None
    for variables in READ[vendor]:
        if passed is None:
            passed = _listed(environment, variables, node, names)
        elif passed:
            chosen = _listed(environment, variables, (1 << len(passed)) - 1)
            passed = passed if chosen is None else tuple(passed[i] for i in chosen)
    return passed


def settings(
    gpus: Sequence[int],
    vendor: str,
    environment: Mapping[str, str],
    names: Mapping[int, str] = {},
    numbered: Optional[Sequence[int]] = None,
    alone: bool = True,
) -> dict[str, str]:
    """The variables with which a program sees only *gpus* (ids) of the *vendor*, in this order.

    The caller sets them on top of *environment*. *names* are used instead of numbers; *numbered* is
    as in ``seen``. If the vendor is not *alone* on the node, variables that others read are left
    out. For no *gpus* the result is {} if nothing can hide all.
    """
    filters = READ[vendor]
    number = {gpu: i for i, gpu in enumerate(numbered or ())}
    values = [",".join(names.get(gpu, str(number.get(gpu, gpu))) for gpu in gpus)]
    values += [",".join(map(str, range(len(gpus))))] * (len(filters) - 1)
    if not gpus:
        filters, values = filters[-1:] if _hides(vendor) else (), ["-1"]
    made = {}
    for variables, value in zip(filters, values):
        chosen = [n for n in variables if n == variables[-1] or n in environment]
        made.update(dict.fromkeys(chosen if alone else variables[:1], value))
    for name in list(made):
        beside = BESIDE.get(name, {}).items()
        made.update({other: environment.get(other) or value for other, value in beside})
    return made


def _hides(vendor: str) -> bool:
    """Whether the variables of the *vendor* can hide all its GPUs."""
    return READ[vendor][0] != (MASK,)


def _listed(
    environment: Mapping[str, str],
    variables: Sequence[str],
    valid: int,
    names: Mapping[int, str] = {},
) -> Optional[tuple[int, ...]]:
    """The numbers in the first of *variables* that is set, None if they hide nothing.

    A list ends at the first number that is not in *valid* (bitmask; 0 allows any).
    """
    name = next((n for n in variables if environment.get(n)), variables[0])
    text = environment.get(name)
    if text is None or (not text and name in _UNSET_IF_EMPTY):
        return None
    words = [w.strip() for w in text.split(",", _MAX_LISTED)[:_MAX_LISTED]] if text.strip() else []
    return (_masked if name == MASK else _in_order)(name, words, valid, names)


def _masked(
    name: str, words: Sequence[str], valid: int, names: Mapping[int, str]
) -> tuple[int, ...]:
    """The numbers that a mask has; others mean nothing. A device means all its tiles."""
    for word in words:
        if not _MASKED.fullmatch(word):
            raise _unreadable(name, word)
    every = idset.iterate(valid) if valid else range(_MAX_LISTED)
    named = ((number, names.get(number, str(number))) for number in every)
    return tuple(n for n, word in named if word in words or word.split(".")[0] in words)


def _in_order(
    name: str, words: Sequence[str], valid: int, names: Mapping[int, str]
) -> tuple[int, ...]:
    """The numbers in a list up to the first that is not in *valid*.

    CUDA takes as much of a UUID as is unique.
    """
    found: list[int] = []
    for word in words:
        named = [gpu for gpu, uuid in names.items() if len(word) > 4 and uuid.startswith(word)]
        match = _NUMBER.fullmatch(word if len(named) != 1 else str(named[0]))
        if match is None:
            raise _unreadable(name, word)
        number = int(match[2])
        # Such large numbers are not GPUs, and would make bitmasks of unlimited size.
        if match[1] == "-" or number >= _MAX_LISTED or (valid and not valid >> number & 1):
            break
        if number in found:  # the libraries then show no GPU at all
            return ()
        found.append(number)
    return tuple(found)


def _unreadable(name: str, word: str) -> InvalidHardware:
    return InvalidHardware(f"{name} does not name GPUs by number: {quoted(word)}")


# -- a task, whose node may have GPUs of several vendors


def seen_by(task: Task, environment: Mapping[str, str]) -> Optional[tuple[int, ...]]:
    """The GPUs that a program of *task* sees with this *environment*; None for all of the node.

    Without the GPUs of others that no variable can hide, see ``notes``. Raises InvalidHardware as
    ``seen`` does, and if the number of a GPU among those of its vendor is not known.
    """
    numbers = _numbers(task, environment)
    found: list[int] = []
    for vendor, numbered in numbers.items():
        if not _hides(vendor) and not _of(task.gpus, numbered):
            one: Optional[Sequence[int]] = ()
        else:
            names = _names(task, vendor, environment)
            one = seen(environment, vendor, task.node_gpus, names, numbered)
        if one is None:
            return None
        found += one
    return (*found, *idset.iterate(_strangers(numbers, task.gpus)))


def settings_of(
    task: Task, gpus: Sequence[int], environment: Mapping[str, str]
) -> Mapping[str, str]:
    """The variables with which a program of *task* sees only *gpus* (ids), in this order.

    Raises InvalidHardware if the number of a GPU among those of its vendor is not known.
    """
    numbers = _numbers(task, environment)
    environment = {**environment, HIERARCHY: _hierarchy(task, environment)}
    made: dict[str, str] = {}
    for vendor, numbered in numbers.items():
        mine = [gpu for gpu in gpus if numbered is None or gpu in numbered]
        names = _names(task, vendor, environment)
        alone = len(numbers) == 1
        made.update(settings(mine, vendor, environment, names, numbered, alone))
    return made


def notes(task: Task, gpus: int, environment: Mapping[str, str]) -> Iterator[str]:
    """What no variable can do for a program of *task* that is to see only *gpus* (bitmask)."""
    numbers = _numbers(task, environment)
    there_are = task.gpus
    if task.contained is None:
        there_are |= idset.from_ids(gpu.id for gpu in task.machine.gpus)
    for vendor, numbered in numbers.items():
        there = _of(there_are, numbered)
        if there and not gpus & there and not _hides(vendor):
            yield f"GPUs {shown_ids(there)} stay visible: {MASK} cannot hide all GPUs"
    strangers = _strangers(numbers, there_are)
    if strangers:
        whose = f"GPUs {shown_ids(strangers)} stay as they are"
        yield f"{whose}: no variable of their vendor is known"


def unordered(task: Task, environment: Mapping[str, str]) -> Iterator[str]:
    """What *environment* lacks for the numbers of the task's GPUs to be those of R."""
    settled = {HIERARCHY: _hierarchy(task, environment)}
    for vendor, numbered in _numbers(task, environment).items():
        beside = BESIDE.get(READ[vendor][0][0], {}) if _of(task.gpus, numbered) else {}
        for name, value in beside.items():
            value = settled.get(name, value)
            if environment.get(name) != value:
                yield f"{name} is not {value}: GPU numbers may mean other GPUs"


def _numbers(task: Task, environment: Mapping[str, str]) -> Mapping[str, Optional[tuple[int, ...]]]:
    """The vendors of the node's GPUs, and the GPUs that the library of each numbers from zero.

    None for those whose numbers are their ids, as on a node with GPUs of one vendor.
    """
    gpus = task.machine.gpus
    vendors = [vendor for vendor in READ if any(gpu.vendor == vendor for gpu in gpus)]
    if not vendors:
        return {"amd" if ROCR in environment else "nvidia": task.contained}
    if len(vendors) == 1 and all(gpu.vendor or not _is_known(gpu) for gpu in gpus):
        return {vendors[0]: task.contained}
    numbered = _all_known(task, "are of several vendors")
    return {
        vendor: tuple(gpu.id for gpu in gpus if gpu.vendor == vendor and numbered >> gpu.id & 1)
        for vendor in vendors
    }


def _all_known(task: Task, why: str) -> int:
    """The GPUs that the libraries number (bitmask).

    Raises InvalidHardware, with *why* it matters, if the numbers could be those of other GPUs.
    """
    if task.contained is not None:
        return task.gpus
    known = idset.from_ids(gpu.id for gpu in task.machine.gpus if _is_known(gpu))
    if not task.node_gpus or known & (known + 1) or task.gpus & ~known:
        raise InvalidHardware(f"the node's GPUs {why}, and some are not known")
    return known


def _is_known(gpu: Gpu) -> bool:
    """Whether hwloc knows the GPU, and not only the key of R."""
    return bool(gpu.vendor or gpu.pci or gpu.model)


def _of(gpus: int, numbered: Optional[Sequence[int]]) -> int:
    """Those of *gpus* (bitmask) that are *numbered*; all if numbers are ids."""
    return gpus if numbered is None else gpus & idset.from_ids(numbered)


def _strangers(numbers: Mapping[str, Optional[Sequence[int]]], gpus: int) -> int:
    """Those of *gpus* (bitmask) that no library numbers."""
    for numbered in numbers.values():
        gpus &= ~_of(gpus, numbered)
    return gpus


def _hierarchy(task: Task, environment: Mapping[str, str]) -> str:
    """The value of HIERARCHY with which Level Zero's devices are the GPUs of R, or the one chosen.

    GPUs without tiles are whole devices, also where hwloc cannot tell how many tiles they have.
    """
    tiles = any(gpu.profile == TILE for gpu in task.machine.gpus)
    return environment.get(HIERARCHY) or ("FLAT" if tiles else "COMPOSITE")


def _names(task: Task, vendor: str, environment: Mapping[str, str]) -> Mapping[int, str]:
    """The words other than numbers that mean the GPUs of the *vendor*: UUIDs, or tiles."""
    gpus = task.machine.gpus
    if vendor == "nvidia":
        divided = any(gpu.profile.startswith(MIG) for gpu in gpus)
        return {gpu.id: gpu.uuid for gpu in gpus if gpu.uuid} if divided else {}
    if vendor != "intel" or environment.get(HIERARCHY) != "COMPOSITE":
        return {}
    tiles_of: dict[str, list[int]] = {}
    for gpu in gpus:
        if gpu.profile == TILE:
            tiles_of.setdefault(gpu.pci, []).append(gpu.id)
    numbered = _all_known(task, "have tiles") if tiles_of else 0
    devices = [tiles for tiles in tiles_of.values() if idset.from_ids(tiles) & numbered]
    return {
        tile: f"{number}.{part}"
        for number, tiles in enumerate(devices)
        for part, tile in enumerate(tiles)
    }
