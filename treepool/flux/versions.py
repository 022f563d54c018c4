"""All differences between flux-core 0.86, 0.87 and 0.88 that treepool compensates for.

The protocol, the scheduler's base class and the way pools are found (``pool-class=``, an R's
writer) are the same in all three. The code tests for features of flux-core, not for its version.
"""

from __future__ import annotations

import syslog
from copy import copy
from typing import Any

from flux.resource.ResourcePool import ResourcePool
from flux.resource.ResourcePoolImplementation import ResourcePoolImplementation


class AnyPool(ResourcePool):  # type: ignore[misc]  # flux has no types
    """flux-core's ResourcePool, which wraps whatever an implementation returns.

    The class of 0.86 accepts only allocations that are whole pools themselves, which treepool's
    are not, and its copies lose their class. From 0.87 on flux-core's class behaves like this one.
    """

    def alloc(self, jobid: int, request: Any) -> Any:
        """Allocate for job *jobid*; returns the allocation as a pool of this class."""
        return self._around(self.impl.alloc(jobid, request))

    def copy(self) -> Any:
        """An independent copy of this class."""
        return self._around(self.impl.copy())

    def _around(self, impl: Any) -> Any:
        other = copy(self)
        other.impl = impl
        return other


def tell_whose(pool: Any) -> None:
    """Log which implementation *pool* has, and its contents, if Flux's schedulers do not.

    From 0.87 on every implementation has a name, and their line ``ready:`` says this in the same
    words.
    """
    if not hasattr(ResourcePoolImplementation, "name"):
        pool.log(syslog.LOG_INFO, f"pool-class={pool.name} Rv{pool.version} {pool.dumps()}")
