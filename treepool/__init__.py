"""treepool: topology-aware scheduling for the Flux resource manager.

Reads and writes the RFC 49 scheduling key, builds a locality tree per kind of node, places jobs so
that the cores and GPUs of a task slot are close, and emits the job's R. What is listed in
``__all__``, and ``treepool.errors``, is public; the rest is private and may change.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treepool import errors
    from treepool.discovery.encode import encode
    from treepool.discovery.key import Encoded
    from treepool.library import Allocation, Free, Pool
    from treepool.placement.choose.fitness import Fitness
    from treepool.placement.request.vertices import Request
    from treepool.rfc.rset import ResourceSet, subinstance
    from treepool.rfc.scheduling import SchedulingKey
    from treepool.rfc.shape import format_shape, parse_shape

__version__ = "0.2.0"

__all__ = [
    "Allocation",
    "Encoded",
    "Fitness",
    "Free",
    "Pool",
    "Request",
    "ResourceSet",
    "SchedulingKey",
    "encode",
    "errors",
    "format_shape",
    "parse_shape",
    "subinstance",
]


#: Where the public names are. Each is imported when it is first used, so that a command loads only
#: what it needs. Flux imports ``pool_class`` from a module that ``pool-class=`` names; it
#: needs Flux, which everything else does without.
_HOMES = {
    "Allocation": "treepool.library",
    "Encoded": "treepool.discovery.key",
    "Fitness": "treepool.placement.choose.fitness",
    "Free": "treepool.library",
    "Pool": "treepool.library",
    "Request": "treepool.placement.request.vertices",
    "ResourceSet": "treepool.rfc.rset",
    "SchedulingKey": "treepool.rfc.scheduling",
    "encode": "treepool.discovery.encode",
    "format_shape": "treepool.rfc.shape",
    "parse_shape": "treepool.rfc.shape",
    "pool_class": "treepool.flux.pool",
    "subinstance": "treepool.rfc.rset",
}


if not TYPE_CHECKING:  # so that a checker of types knows which names there are

    def __getattr__(name: str) -> Any:
        if name == "errors":
            return import_module("treepool.errors")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
