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

import attrs

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


@attrs.frozen
class Library:
    """The library of a *vendor* on a node: which GPUs it numbers, and the names that it needs.

    Without ``numbered`` the numbers are ids in R, among those of all GPUs of the ``node`` (bitmask,
    0 if not known). Otherwise it numbers the GPUs ``numbered`` from zero, in order, and no program
    sees others. ``uuids`` has names by id, which are used instead of numbers. If the vendor is not
    ``alone`` on the node, variables that others read are not set.
    """

    vendor: str
    node: int = 0
    uuids: Mapping[int, str] = attrs.field(factory=dict)
    numbered: Optional[tuple[int, ...]] = None
    alone: bool = True

    @property
    def hides_all(self) -> bool:
        """Whether its variables can hide all its GPUs."""
        return READ[self.vendor][0] != (MASK,)

    def of(self, gpus: int) -> int:
        """Those of *gpus* (bitmask) that it numbers."""
        return gpus if self.numbered is None else gpus & idset.from_ids(self.numbered)

    def seen(self, environment: Mapping[str, str]) -> Optional[tuple[int, ...]]:
        """The ids of the GPUs that a program with this *environment* sees, in its order.

        Each filter numbers from zero the GPUs that pass the one before. None if it sees all GPUs of
        the node. Raises InvalidHardware for GPUs that are given neither by number nor by a name.
        """
        passed = self.numbered
        for variables in READ[self.vendor]:
            if passed is None:
                passed = _listed(environment, variables, self.node, self.uuids)
            elif passed:
                names = {i: self.uuids[gpu] for i, gpu in enumerate(passed) if gpu in self.uuids}
                chosen = _listed(environment, variables, (1 << len(passed)) - 1, names)
                passed = passed if chosen is None else tuple(passed[i] for i in chosen)
        return passed

    def settings(self, gpus: Sequence[int], environment: Mapping[str, str]) -> dict[str, str]:
        """The variables with which a program sees only *gpus* (ids), in this order.

        The caller sets them on top of *environment*. The result is {} if nothing can hide all.
        """
        number = {gpu: i for i, gpu in enumerate(self.numbered or ())}
        listed = ",".join(self.uuids.get(gpu, str(number.get(gpu, gpu))) for gpu in gpus)
        first, *others = READ[self.vendor]
        values = [(first, listed)]
        values += ((variables, ",".join(map(str, range(len(gpus))))) for variables in others)
        if not gpus:
            values = [([first, *others][-1], "-1")] if self.hides_all else []
        made = {}
        for variables, value in values:
            chosen = [n for n in variables if n == variables[-1] or n in environment]
            for name in chosen if self.alone else variables[:1]:
                made[name] = value
                beside = BESIDE.get(name, {}).items()
                made.update({other: environment.get(other) or value for other, value in beside})
        return made


def _listed(
    environment: Mapping[str, str], variables: Sequence[str], valid: int, uuids: Mapping[int, str]
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
    ``Library.seen`` does, and if the variables cannot mean the GPUs of R.
    """
    found: list[int] = []
    for library in _libraries(task, environment):
        if library.hides_all or library.of(task.gpus):
            one = library.seen(environment)
            if one is None:
                return None
            found += one
    return tuple(found)


def given_to(task: Task, environment: Mapping[str, str]) -> Optional[tuple[int, ...]]:
    """The GPUs that somebody has given *task* already; None if it may have all of its job.

    Flux's job shell lists all of the job's ids in CUDA's variable, whose ever they are.
    """
    shell = ",".join(map(str, idset.iterate(task.gpus)))
    if len(_libraries(task, environment)) > 1 and environment.get(CUDA) == shell:
        return None
    return seen_by(task, environment)


def settings_of(
    task: Task, gpus: Sequence[int], environment: Mapping[str, str]
) -> Mapping[str, str]:
    """The variables with which a program of *task* sees only *gpus* (ids), in this order.

    Raises InvalidHardware if they cannot mean the GPUs of R.
    """
    made: dict[str, str] = {}
    for library in _libraries(task, environment):
        mine = [gpu for gpu in gpus if library.of(1 << gpu)]
        made.update(library.settings(mine, environment))
    return {**made, HIERARCHY: _hierarchy(task)} if MASK in made else made


def notes(task: Task, gpus: int, environment: Mapping[str, str]) -> Iterator[str]:
    """What no variable can do for a program of *task* that is to see only *gpus* (bitmask)."""
    there_are = task.gpus
    if task.contained is None:
        there_are |= task.machine.gpu_ids
    for library in _libraries(task, environment):
        there = library.of(there_are)
        if there and not gpus & there and not library.hides_all:
            yield f"GPUs {shown_ids(there)} stay visible: {MASK} cannot hide all GPUs"


def unordered(task: Task, environment: Mapping[str, str]) -> Iterator[str]:
    """What *environment* lacks for the numbers of the task's GPUs to be those of R."""
    for library in _libraries(task, environment):
        variable = READ[library.vendor][0][0]
        beside = dict(BESIDE.get(variable, {}))
        if variable == MASK:
            beside[HIERARCHY] = _hierarchy(task)
        for name, value in beside.items() if library.of(task.gpus) else ():
            if environment.get(name) != value:
                yield f"{name} is not {value}: GPU numbers may mean other GPUs"


def _libraries(task: Task, environment: Mapping[str, str]) -> list[Library]:
    """The libraries of the vendors of the node's GPUs.

    On a node with GPUs of one vendor, or with none that is known, a GPU's number is its id, or its
    place in a contained job. On others, each library numbers the GPUs of its vendor in the order of
    their ids, for which all ids up to the task's must be known. GPUs that only R's key knows are
    taken to be of the vendor of the others. Raises InvalidHardware if GPUs could be mistaken.
    """
    gpus = [gpu for gpu in task.machine.gpus if gpu.vendor or gpu.pci or gpu.model]
    makers = {gpu.vendor for gpu in gpus}
    vendors = [v for v in READ if v in makers] or ["amd" if ROCR in environment else "nvidia"]
    theirs = any(gpu.vendor == "intel" and task.gpus >> gpu.id & 1 for gpu in gpus)
    if theirs and environment.get(HIERARCHY, "") not in ("", _hierarchy(task)):
        raise InvalidHardware(f"{HIERARCHY} is not {_hierarchy(task)}, by which R counts GPUs")
    numbered = dict.fromkeys(vendors, task.contained)
    if len(makers) > 1:
        known = idset.from_ids(gpu.id for gpu in gpus if gpu.vendor)
        if task.contained is not None:
            known &= task.gpus
        elif not task.node_gpus or known & (known + 1):
            known = 0
        if task.gpus & ~known:
            raise InvalidHardware("the node's GPUs are of several vendors, and some are not known")
        for vendor in vendors:
            own = (gpu.id for gpu in gpus if gpu.vendor == vendor and known >> gpu.id & 1)
            numbered[vendor] = tuple(own)
    divided = any(gpu.profile.startswith(MIG) for gpu in task.machine.gpus)
    uuids = {gpu.id: gpu.uuid for gpu in task.machine.gpus if gpu.uuid and divided}
    return [
        Library(
            vendor, task.node_gpus, uuids if vendor == "nvidia" else {}, those, len(vendors) == 1
        )
        for vendor, those in numbered.items()
    ]


def _hierarchy(task: Task) -> str:
    """The value of HIERARCHY with which Level Zero's devices are the GPUs of R.

    GPUs without tiles are whole devices, also where hwloc cannot tell how many tiles they have.
    """
    return "FLAT" if any(gpu.profile == TILE for gpu in task.machine.gpus) else "COMPOSITE"
