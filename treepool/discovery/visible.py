"""Which GPUs a program sees: the environment variables that the vendors' libraries read.

CUDA numbers all GPUs of the node, in the order of their PCI bus ids if CUDA_DEVICE_ORDER says so.
ROCm applies two filters in sequence. ROCR_VISIBLE_DEVICES numbers all GPUs of the node. Then
HIP_VISIBLE_DEVICES (CUDA_VISIBLE_DEVICES if that is unset) numbers the GPUs that pass the first
filter. On AMD's GPUs the same list in both variables would therefore hide GPUs.

MIG instances have ids in R, and Flux lists these, but CUDA only knows instances by their UUIDs.

Where a job is *contained*, its programs see no GPUs but its own, and all these variables number
them from zero in the order of their ids in R. flux-core says so by CONTAINED (PR 7806).
"""

from __future__ import annotations

import re
from typing import Mapping, Optional, Sequence

from treepool.discovery.machine import MIG, Machine
from treepool.errors import InvalidHardware
from treepool.rfc.quote import quoted

CUDA, HIP, ROCR = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"

#: The variable for CUDA's order of GPUs and its value, which Flux's job shell also sets.
ORDER, BY_BUS = "CUDA_DEVICE_ORDER", "PCI_BUS_ID"

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
    amd: bool,
    node: int = 0,
    uuids: Mapping[int, str] = {},
    contained: Optional[Sequence[int]] = None,
) -> Optional[tuple[int, ...]]:
    """The ids of the GPUs that a program with this *environment* sees, in its order.

    None if it sees all GPUs of the node. *node* has the ids of all GPUs of the node (bitmask), 0 if
    not known, and *uuids* their names. In a job that is contained, *contained* has its GPUs in
    order, and a program sees no others. As in the libraries, a list ends at the first that is not a
    GPU. Raises InvalidHardware for GPUs that are given neither by number nor by a known name.
    """
    if contained is not None:
        names = {i: uuids[gpu] for i, gpu in enumerate(contained) if gpu in uuids}
        found = seen(environment, amd, (1 << len(contained)) - 1, names) if contained else ()
        return tuple(contained if found is None else (contained[i] for i in found))
    passed = _listed(environment, ROCR, node) if amd else None
    # An empty value means no GPUs for CUDA, and is the same as unset for HIP.
    name = next((n for n in (HIP, CUDA) if environment.get(n)), "") if amd else CUDA
    if passed is None:
        return _listed(environment, name, node, uuids)
    chosen = _listed(environment, name, (1 << len(passed)) - 1) if passed else None
    return passed if chosen is None else tuple(passed[i] for i in chosen)


def uuids_of(machine: Machine) -> Mapping[int, str]:
    """The UUIDs of the GPUs of *machine* if CUDA needs them, otherwise {}."""
    divided = any(gpu.profile.startswith(MIG) for gpu in machine.gpus)
    return {gpu.id: gpu.uuid for gpu in machine.gpus if gpu.uuid} if divided else {}


def settings(
    gpus: Sequence[int],
    amd: bool,
    environment: Mapping[str, str],
    uuids: Mapping[int, str] = {},
    contained: Optional[Sequence[int]] = None,
) -> Mapping[str, str]:
    """The variables with which a program sees only *gpus* (ids), in this order.

    The caller sets them on top of *environment*. *uuids* are names to use instead of numbers;
    *contained* is as in ``seen``.
    """
    number = {gpu: i for i, gpu in enumerate(contained or ())}
    ids = ",".join(uuids.get(gpu, str(number.get(gpu, gpu))) for gpu in gpus) or "-1"
    settings = {CUDA: ids}
    if amd and gpus:
        settings = {ROCR: ids, CUDA: ",".join(map(str, range(len(gpus))))}
    if amd and HIP in environment:
        settings[HIP] = settings[CUDA]
    return {**settings, ORDER: environment.get(ORDER) or BY_BUS}


def _listed(
    environment: Mapping[str, str], name: str, valid: int, uuids: Mapping[int, str] = {}
) -> Optional[tuple[int, ...]]:
    """The numbers in variable *name* up to the first not in *valid* (bitmask; 0 allows any).

    CUDA takes as much of a UUID as is unique.
    """
    text = environment.get(name)
    if text is None:
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
        if match[1] == "-" or number >= _MAX_LISTED or (valid and not valid >> number & 1):
            break
        if number in found:  # the libraries then show no GPU at all
            return ()
        found.append(number)
    return tuple(found)
