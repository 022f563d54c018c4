"""Which GPUs a program sees: the environment variables that the vendors' libraries read.

Each library numbers the GPUs of its vendor from zero, whatever other GPUs the node has.

CUDA numbers them in the order of their PCI bus ids if CUDA_DEVICE_ORDER says so. MIG instances have
ids in R, and Flux lists these, but CUDA only knows instances by their UUIDs.

ROCm applies two filters in sequence. ROCR_VISIBLE_DEVICES numbers all GPUs. Then
HIP_VISIBLE_DEVICES (CUDA_VISIBLE_DEVICES if that is unset) numbers the GPUs that pass the first
filter. On AMD's GPUs the same list in both variables would therefore hide GPUs.

Level Zero (Intel) reads a mask, so its GPUs stay in their order, and an empty mask hides nothing.
Each tile is a device with a number where ZE_FLAT_DEVICE_HIERARCHY is FLAT, and each GPU where it is
COMPOSITE.

Where a job is *contained*, its programs see no GPUs but its own, and all these variables number
them from zero in the order of their ids in R. flux-core says so by CONTAINED (PR 7806).
"""

from __future__ import annotations

import re
from typing import Iterator, Mapping, Optional, Sequence

from treepool.discovery.machine import MIG, TILE
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
BESIDE = {CUDA: {ORDER: BY_BUS}, MASK: {"ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1"}}

#: The variables that hide nothing if they are empty. CUDA and ROCR then hide all GPUs.
_UNSET_IF_EMPTY = (HIP, MASK)

#: The variable by which flux-core says that a job is kept from all that it has not.
CONTAINED = "FLUX_EXEC_CONSTRAINED_RESOURCES"

#: Most GPUs in a list; the libraries support fewer.
_MAX_LISTED = 1024

_NUMBER = re.compile(r"\s*([+-]?)(\d{1,9})\s*", re.ASCII)


def is_contained(environment: Mapping[str, str]) -> bool:
    """Whether *environment* is that of a job that is kept from all that it has not."""
    return environment.get(CONTAINED, "") not in ("", "0")


def seen(
    environment: Mapping[str, str],
    vendor: str,
    node: int = 0,
    uuids: Mapping[int, str] = {},
    numbered: Optional[Sequence[int]] = None,
) -> Optional[tuple[int, ...]]:
    """The ids of the *vendor*'s GPUs that a program with this *environment* sees, in its order.

    None if it sees all GPUs of the node. *node* has the ids of all GPUs of the node (bitmask), 0 if
    not known, and *uuids* their names. *numbered* has the GPUs that the library numbers from zero,
    in order, and a program sees no others; without it their numbers are their ids. As in the
    libraries, a list ends at the first that is not a GPU. Raises InvalidHardware for GPUs that are
    given neither by number nor by a known name.
    """
    if numbered is not None:
        by_number = {i: uuids[gpu] for i, gpu in enumerate(numbered) if gpu in uuids}
        everything = (1 << len(numbered)) - 1
        found = seen(environment, vendor, everything, by_number) if numbered else ()
        return tuple(numbered if found is None else (numbered[i] for i in found))
    passed: Optional[tuple[int, ...]] = None
    for variables in READ[vendor]:
        if passed is None:
            passed = _listed(environment, variables, node, uuids)
        elif passed:
            chosen = _listed(environment, variables, (1 << len(passed)) - 1)
            passed = passed if chosen is None else tuple(passed[i] for i in chosen)
    return passed


def settings(
    gpus: Sequence[int],
    vendor: str,
    environment: Mapping[str, str],
    uuids: Mapping[int, str] = {},
    numbered: Optional[Sequence[int]] = None,
    alone: bool = True,
) -> dict[str, str]:
    """The variables with which a program sees only *gpus* (ids) of the *vendor*, in this order.

    The caller sets them on top of *environment*. *uuids* are used instead of numbers; *numbered* is
    as in ``seen``. If the vendor is not *alone* on the node, variables that others read are left
    out. For no *gpus* the result is {} if nothing can hide all.
    """
    filters = READ[vendor]
    number = {gpu: i for i, gpu in enumerate(numbered or ())}
    values = [",".join(uuids.get(gpu, str(number.get(gpu, gpu))) for gpu in gpus)]
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
    uuids: Mapping[int, str] = {},
) -> Optional[tuple[int, ...]]:
    """The numbers in the first of *variables* that is set, None if they hide nothing.

    A list ends at the first number that is not in *valid* (bitmask; 0 allows any); a mask has no
    order, and no end. CUDA takes as much of a UUID as is unique.
    """
    name = next((n for n in variables if environment.get(n)), variables[0])
    text = environment.get(name)
    if text is None or (not text and name in _UNSET_IF_EMPTY):
        return None
    found: list[int] = []
    for word in text.split(",", _MAX_LISTED)[:_MAX_LISTED] if text.strip() else ():
        word = word.strip()
        named = [gpu for gpu, uuid in uuids.items() if len(word) > 4 and uuid.startswith(word)]
        match = _NUMBER.fullmatch(word if len(named) != 1 else str(named[0]))
        if match is None:
            raise InvalidHardware(f"{name} does not name GPUs by number: {quoted(word)}")
        number = int(match[2])
        # Such large numbers are not GPUs, and would make bitmasks of unlimited size.
        bad = match[1] == "-" or number >= _MAX_LISTED or (valid and not valid >> number & 1)
        if name == MASK and (bad or number in found):
            continue
        if bad:
            break
        if number in found:  # the libraries then show no GPU at all
            return ()
        found.append(number)
    return tuple(sorted(found) if name == MASK else found)


# -- a task, whose node may have GPUs of several vendors


def seen_by(task: Task, environment: Mapping[str, str]) -> Optional[tuple[int, ...]]:
    """The GPUs that a program of *task* sees with this *environment*; None for all of the node.

    Without the GPUs of others that no variable can hide, see ``notes``. Raises InvalidHardware as
    ``seen`` does, and if the variables cannot mean the GPUs of R.
    """
    found: list[int] = []
    for vendor, numbered in _numbers(task, environment).items():
        if _hides(vendor) or _of(task.gpus, numbered):
            one = seen(environment, vendor, task.node_gpus, _uuids(task, vendor), numbered)
            if one is None:
                return None
            found += one
    return tuple(found)


def given_to(task: Task, environment: Mapping[str, str]) -> Optional[tuple[int, ...]]:
    """The GPUs that somebody has given *task* already; None if it may have all of its job.

    Flux's job shell lists all of the job's ids in CUDA's variable, whose ever they are.
    """
    shell = ",".join(map(str, idset.iterate(task.gpus)))
    if len(_numbers(task, environment)) > 1 and environment.get(CUDA) == shell:
        return None
    return seen_by(task, environment)


def settings_of(
    task: Task, gpus: Sequence[int], environment: Mapping[str, str]
) -> Mapping[str, str]:
    """The variables with which a program of *task* sees only *gpus* (ids), in this order.

    Raises InvalidHardware if they cannot mean the GPUs of R.
    """
    numbers = _numbers(task, environment)
    made: dict[str, str] = {}
    for vendor, numbered in numbers.items():
        mine = [gpu for gpu in gpus if numbered is None or gpu in numbered]
        uuids, alone = _uuids(task, vendor), len(numbers) == 1
        made.update(settings(mine, vendor, environment, uuids, numbered, alone))
    return {**made, HIERARCHY: _hierarchy(task)} if MASK in made else made


def notes(task: Task, gpus: int, environment: Mapping[str, str]) -> Iterator[str]:
    """What no variable can do for a program of *task* that is to see only *gpus* (bitmask)."""
    there_are = task.gpus
    if task.contained is None:
        there_are |= idset.from_ids(gpu.id for gpu in task.machine.gpus)
    for vendor, numbered in _numbers(task, environment).items():
        there = _of(there_are, numbered)
        if there and not gpus & there and not _hides(vendor):
            yield f"GPUs {shown_ids(there)} stay visible: {MASK} cannot hide all GPUs"


def unordered(task: Task, environment: Mapping[str, str]) -> Iterator[str]:
    """What *environment* lacks for the numbers of the task's GPUs to be those of R."""
    for vendor, numbered in _numbers(task, environment).items():
        variable = READ[vendor][0][0]
        beside = dict(BESIDE.get(variable, {}))
        if variable == MASK:
            beside[HIERARCHY] = _hierarchy(task)
        for name, value in beside.items() if _of(task.gpus, numbered) else ():
            if environment.get(name) != value:
                yield f"{name} is not {value}: GPU numbers may mean other GPUs"


def _numbers(task: Task, environment: Mapping[str, str]) -> Mapping[str, Optional[tuple[int, ...]]]:
    """The vendors of the node's GPUs, and the GPUs that the library of each numbers from zero.

    None for those whose numbers are their ids, as on a node with GPUs of one vendor. GPUs that only
    R's key knows are taken to be of that vendor. Raises InvalidHardware if GPUs could be mistaken.
    """
    gpus = [gpu for gpu in task.machine.gpus if gpu.vendor or gpu.pci or gpu.model]
    vendors = [vendor for vendor in READ if any(gpu.vendor == vendor for gpu in gpus)]
    if not vendors:
        return {"amd" if ROCR in environment else "nvidia": task.contained}
    theirs = any(gpu.vendor == "intel" and task.gpus >> gpu.id & 1 for gpu in gpus)
    if theirs and environment.get(HIERARCHY, "") not in ("", _hierarchy(task)):
        raise InvalidHardware(f"{HIERARCHY} is not {_hierarchy(task)}, by which R counts GPUs")
    if len(vendors) == 1 and all(gpu.vendor in vendors for gpu in gpus):
        return {vendors[0]: task.contained}
    known = idset.from_ids(gpu.id for gpu in gpus if gpu.vendor in vendors)
    if task.contained is not None:
        known &= task.gpus
    elif not task.node_gpus or known & (known + 1):
        known = 0
    if task.gpus & ~known:
        raise InvalidHardware("the node's GPUs are of several vendors, and some are not known")
    return {
        vendor: tuple(gpu.id for gpu in gpus if gpu.vendor == vendor and known >> gpu.id & 1)
        for vendor in vendors
    }


def _of(gpus: int, numbered: Optional[Sequence[int]]) -> int:
    """Those of *gpus* (bitmask) that are *numbered*; all if numbers are ids."""
    return gpus if numbered is None else gpus & idset.from_ids(numbered)


def _hierarchy(task: Task) -> str:
    """The value of HIERARCHY with which Level Zero's devices are the GPUs of R.

    GPUs without tiles are whole devices, also where hwloc cannot tell how many tiles they have.
    """
    return "FLAT" if any(gpu.profile == TILE for gpu in task.machine.gpus) else "COMPOSITE"


def _uuids(task: Task, vendor: str) -> Mapping[int, str]:
    """The UUIDs of the GPUs if the *vendor*'s library needs them, otherwise {}."""
    gpus = task.machine.gpus
    divided = vendor == "nvidia" and any(gpu.profile.startswith(MIG) for gpu in gpus)
    return {gpu.id: gpu.uuid for gpu in gpus if gpu.uuid} if divided else {}
