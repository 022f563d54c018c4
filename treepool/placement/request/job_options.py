"""Job options: treepool's own options of a job, ``attributes.system.treepool`` of its jobspec.

==================  ==============================================================================
``locality``        ``preferred``, ``required`` or ``none``: see DESIGN, "Which node"
``level``           the name of a locality: each slot sits in one domain of it
``topology_policy`` Kubernetes' names for both: ``none``, ``best-effort``, ``restricted``,
                    ``single-numa-node``
``topology_scope``  ``slot`` (the default) or ``node``: with a level, all slots on a node sit in
                    one domain
``same_numa``       ``prefer`` or ``require``: the slot's cores in one NUMA domain
``gpu_link``        minimum GB/s between any two GPUs of a slot, or the type: ``nvlink``, ``xgmi``
``gpu_memory``      minimum GiB of each GPU
``unified_memory``  true: only nodes whose CPUs and GPUs share one memory
``allow_cxl``       true: CXL memory counts for ``memory``
``same``            a family of properties, such as ``driver`` for ``driver:550``, ``driver:560``:
                    all nodes have the same one. ``driver:prefer``: if possible
==================  ==============================================================================
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional, Sequence

import attrs

from treepool.errors import InvalidJobspec
from treepool.rfc.findings import number, shown
from treepool.rfc.spelling import did_you_mean

#: Values of ``locality``, see DESIGN "Which node".
LOCALITIES = ("preferred", "required", "none")

#: Kubernetes' topology manager policies, as locality modes. The last also implies a level.
POLICIES = {
    "none": "none",
    "best-effort": "preferred",
    "restricted": "required",
    "single-numa-node": "required",
}

#: The property that ``unified_memory`` asks for; ``treepool encode --properties`` writes it.
UNIFIED = "unified-memory"

_PLACE = "/attributes/system/treepool"

#: The largest values accepted: 1,000 times the hardware of today.
_MAX_GBPS, _MAX_GIB = 1_000_000, 1 << 20


@attrs.frozen
class Same:
    """All nodes must share one property that begins with ``family`` and a colon.

    If this is not ``required``, any nodes may be used when no such nodes can serve the request.
    """

    family: str
    required: bool = True


@attrs.frozen
class JobOptions:
    """What a job's options ask for; see the module's docstring. ``gpu_memory`` is in bytes."""

    locality: str
    level: Optional[str] = None
    whole_node: bool = False
    gpu_gbps: float = 0.0
    gpu_link_type: str = ""
    gpu_memory: int = 0
    unified_memory: bool = False
    allow_cxl: bool = False
    same: Optional[Same] = None


def read(options: Mapping[str, Any], localities: Sequence[str], locality: str) -> JobOptions:
    """What *options* ask for, on a pool that has *localities* and the mode *locality*.

    Raises InvalidJobspec with the JSON pointer of the option.
    """
    for name, value in options.items():
        if name not in _CHECKS:
            known = ", ".join(sorted(_CHECKS))
            hint = did_you_mean(name, list(_CHECKS))
            raise InvalidJobspec(f"{_PLACE}: unknown option {shown(name)}{hint}, known: {known}")
        problem = _CHECKS[name](value)
        if problem:
            raise InvalidJobspec(f"{_PLACE}/{name}: {shown(value)} is not {problem}")
    policy = options.get("topology_policy")
    if policy is not None and "locality" in options:
        raise InvalidJobspec(f"{_PLACE}/topology_policy: says the same as locality: give one")
    link = options.get("gpu_link", 0)
    level = _level(options, localities)
    whole_node = options.get("topology_scope") == "node"
    if whole_node and level is None and not _one_numa(options):
        raise InvalidJobspec(f"{_PLACE}/topology_scope: node needs a level, or single-numa-node")
    return JobOptions(
        locality=_locality(options, locality),
        level=level,
        whole_node=whole_node and level is not None,
        gpu_gbps=0.0 if isinstance(link, str) else float(link),
        gpu_link_type=link if isinstance(link, str) else "",
        gpu_memory=int(options.get("gpu_memory", 0)) << 30,
        unified_memory=options.get("unified_memory", False),
        allow_cxl=options.get("allow_cxl", False),
        same=_same(options["same"]) if "same" in options else None,
    )


def _locality(options: Mapping[str, Any], locality: str) -> str:
    """The mode that *options* ask for, under any of its names; *locality* if they ask for none."""
    policy = options.get("topology_policy")
    mode: Optional[str] = POLICIES[policy] if policy else options.get("locality")
    if options.get("same_numa") == "prefer":
        if mode == "none":
            raise InvalidJobspec(f"{_PLACE}/same_numa: prefer contradicts locality none")
        if mode is None and locality == "none":
            return "preferred"
    return mode or locality


def _one_numa(options: Mapping[str, Any]) -> bool:
    """Whether each slot must sit in one NUMA domain."""
    single = options.get("topology_policy") == "single-numa-node"
    return single or options.get("same_numa") == "require"


def _level(options: Mapping[str, Any], localities: Sequence[str]) -> Optional[str]:
    """The locality that each slot must sit in, None for any domain."""
    level: Optional[str] = options.get("level")
    if _one_numa(options):
        if level not in (None, "numa"):
            raise InvalidJobspec(f"{_PLACE}/level: {shown(level)}, but one NUMA domain is required")
        # Without a numa locality in the key, each socket counts as one NUMA domain; without
        # sockets, the node does.
        return next((name for name in ("numa", "socket") if name in localities), None)
    if level is not None and level not in localities:
        known = ", ".join(localities) or "none, nodes are flat"
        raise InvalidJobspec(f"{_PLACE}/level: {shown(level)} is no locality; there are {known}")
    return level


def _same(text: str) -> Same:
    family, _, mode = text.partition(":")
    return Same(family, mode != "prefer")


def _one_of(*known: str) -> Callable[[object], str]:
    def check(value: object) -> str:
        return "" if value in known else f"one of {', '.join(known)}"

    return check


def _check_name(value: object) -> str:
    good = isinstance(value, str) and 0 < len(value) <= 64
    return "" if good else "the name of a locality"


def _check_link(value: object) -> str:
    if isinstance(value, str):
        return "" if value in ("nvlink", "xgmi") else "nvlink, xgmi or a number of GB/s"
    good = isinstance(value, (int, float)) and number(value) and 0 < value <= _MAX_GBPS
    return "" if good else "nvlink, xgmi or a number of GB/s"


def _check_memory(value: object) -> str:
    good = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MAX_GIB
    return "" if good else "a number of GiB"


def _check_flag(value: object) -> str:
    return "" if isinstance(value, bool) else "true or false"


def _check_same(value: object) -> str:
    if isinstance(value, str) and len(value) <= 64 and value.isprintable():
        family, colon, mode = value.partition(":")
        if family and mode in (("prefer", "require") if colon else ("",)):
            return ""
    return "the family of a property, such as driver or driver:prefer"


#: For each option, a function that returns what a value should be, or "" if the value is valid.
_CHECKS: dict[str, Callable[[object], str]] = {
    "locality": _one_of(*LOCALITIES),
    "level": _check_name,
    "topology_policy": _one_of(*POLICIES),
    "topology_scope": _one_of("slot", "node"),
    "same_numa": _one_of("prefer", "require"),
    "gpu_link": _check_link,
    "gpu_memory": _check_memory,
    "unified_memory": _check_flag,
    "allow_cxl": _check_flag,
    "same": _check_same,
}
