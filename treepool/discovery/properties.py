"""RFC 20 properties of a node's hardware, for constraints: their names, such as gpu-h100, cxl."""

from __future__ import annotations

import re

from treepool.discovery.machine import Machine

_WORD = re.compile(r"[A-Za-z0-9]+", re.ASCII)

#: What carries no information at the beginning of a word: the vendor, and that it is a GPU. LSF
#: writes names in one word: NVIDIAA100, TeslaV100.
_NOISE = re.compile(r"^(nvidia|amd|tesla|radeon|instinct|intel|corporation|gpu)+", re.ASCII)

#: The usual short names of models: A100, H100, MI250X, V100, GH200, L40S.
_MODEL = re.compile(r"[a-z]{1,3}\d{2,4}[a-z]{0,2}", re.ASCII)


def of_machine(machine: Machine) -> frozenset[str]:
    """The properties of one node.

    ``gpu-vendor-nvidia``, ``gpu-v100`` (the model's usual name), ``gpus-4`` (the number of GPUs),
    ``gpu-profile-tpx`` (of partitions), ``unified-memory``, ``nvswitch``, ``cxl``, and one such as
    ``memory-hbm`` for each tier of memory other than ordinary memory. They contain no colon,
    because ``flux submit --requires`` takes the text before a colon as an operator.
    """
    names = {f"memory-{far.tier}" for far in machine.far_memory}
    for gpu in machine.gpus:
        told = (
            ("vendor-", gpu.vendor),
            ("", model_name(gpu.model)),
            ("profile-", _plain(gpu.profile)),
        )
        names |= {f"gpu-{what}{name}" for what, name in told if name}
    if machine.gpus:
        names.add(f"gpus-{len(machine.gpus)}")
    has = {
        "unified-memory": machine.unified_memory,
        "nvswitch": machine.nvswitch,
        "cxl": machine.cxl,
    }
    return frozenset(names | {name for name, there in has.items() if there})


def model_name(model: str) -> str:
    """The usual name of a GPU model, in lower case: v100 for "Tesla V100-SXM2-16GB"."""
    words = [_NOISE.sub("", word.lower()) for word in _WORD.findall(model)]
    for word in words:
        if _MODEL.fullmatch(word):
            return word
    return "-".join(word for word in words if word)[:40]


def _plain(text: str) -> str:
    return "-".join(_WORD.findall(text.lower()))[:40]
