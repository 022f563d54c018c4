"""Which GPUs a program sees: the environment variables that the vendors' libraries read.

CUDA numbers all GPUs of the node, in the order of their PCI bus ids if CUDA_DEVICE_ORDER says so.
ROCm has two filters in a row: ROCR_VISIBLE_DEVICES numbers all GPUs of the node, then
HIP_VISIBLE_DEVICES (CUDA_VISIBLE_DEVICES if that is unset) numbers those that the first one let
through. So on AMD's GPUs one and the same list in both would hide GPUs.
"""

from __future__ import annotations

import re
from typing import Mapping, Optional, Sequence

from treepool.errors import InvalidHardware

CUDA, HIP, ROCR = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"

#: How CUDA numbers GPUs; Flux's job shell sets it, too.
ORDER, BY_BUS = "CUDA_DEVICE_ORDER", "PCI_BUS_ID"

#: Most GPUs in a list; the libraries know fewer.
_MAX_LISTED = 1024

_NUMBER = re.compile(r"\s*([+-]?)(\d{1,9})\s*", re.ASCII)


def seen(environment: Mapping[str, str], amd: bool, node: int = 0) -> Optional[tuple[int, ...]]:
    """The ids of the GPUs that a program with this *environment* sees, in its order.

    None if nothing keeps any of the node's from it. *node* are the ids of all GPUs of the node
    (bitmask), 0 if not known. As in the libraries, a list ends at the first number that is no GPU.
    Raises InvalidHardware for GPUs that are not named by number.
    """
    passed = _listed(environment, ROCR, node) if amd else None
    # Empty is none for CUDA, and as good as unset for HIP.
    name = next((n for n in (HIP, CUDA) if environment.get(n)), "") if amd else CUDA
    if passed is None:
        return _listed(environment, name, node)
    chosen = _listed(environment, name, (1 << len(passed)) - 1) if passed else None
    return passed if chosen is None else tuple(passed[i] for i in chosen)


def settings(gpus: Sequence[int], amd: bool, environment: Mapping[str, str]) -> Mapping[str, str]:
    """The variables with which a program sees just *gpus* (ids), in this order.

    *environment* is what they are put over.
    """
    ids = ",".join(map(str, gpus)) or "-1"
    settings = {CUDA: ids}
    if amd and gpus:
        settings = {ROCR: ids, CUDA: ",".join(map(str, range(len(gpus))))}
    if amd and HIP in environment:
        settings[HIP] = settings[CUDA]
    return {**settings, ORDER: environment.get(ORDER) or BY_BUS}


def _listed(environment: Mapping[str, str], name: str, valid: int) -> Optional[tuple[int, ...]]:
    """The numbers in variable *name* up to the first not in *valid* (bitmask; 0: any goes)."""
    text = environment.get(name)
    if text is None:
        return None
    found: list[int] = []
    for word in text.split(",", _MAX_LISTED)[:_MAX_LISTED] if text.strip() else ():
        match = _NUMBER.fullmatch(word)
        if match is None:
            raise InvalidHardware(f"{name} does not name GPUs by number: {word.strip()[:20]!r}")
        number = int(match[2])
        # Numbers as large as these are no GPU, and would make bitmasks of any size.
        if match[1] == "-" or number >= _MAX_LISTED or (valid and not valid >> number & 1):
            break
        if number in found:  # the libraries then show none at all
            return ()
        found.append(number)
    return tuple(found)
