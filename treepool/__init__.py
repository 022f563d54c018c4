"""treepool: topology-aware scheduling for the Flux resource manager.

Reads and writes the RFC 49 scheduling key, builds a locality tree per kind of node, places jobs so
that the cores and GPUs of a task slot are close, and emits the job's R. What is listed in
``__all__``, and ``treepool.errors``, is public; the rest is private and may change.
"""

from __future__ import annotations

from typing import Any

from treepool import errors
from treepool.placement.allocation import Allocation
from treepool.placement.pool import Pool
from treepool.placement.request.vertices import Request
from treepool.rfc.rset import ResourceSet
from treepool.rfc.scheduling import SchedulingKey
from treepool.rfc.shape import format_shape, parse_shape
from treepool.rfc.subinstance import subinstance

__version__ = "0.1.0"

__all__ = [
    "Allocation",
    "Pool",
    "Request",
    "ResourceSet",
    "SchedulingKey",
    "errors",
    "format_shape",
    "parse_shape",
    "subinstance",
]


def __getattr__(name: str) -> Any:
    # Flux imports ``pool_class`` of the module that ``pool-class=treepool`` names. It needs Flux,
    # which everything else does without, so it is imported only when asked for.
    if name == "pool_class":
        from treepool.flux.pool import pool_class

        return pool_class
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
