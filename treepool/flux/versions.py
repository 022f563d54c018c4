"""What flux-core 0.86, 0.87 and 0.88 do differently and treepool makes up for: this, no more.

The protocol, the scheduler's base class and how pools are found (``pool-class=``, an R's writer)
are the same in all three. What counts is what flux-core has, not which version it says it is.
"""

from __future__ import annotations

import syslog
from copy import copy
from typing import Any

from flux.resource.ResourcePool import ResourcePool
from flux.resource.ResourcePoolImplementation import ResourcePoolImplementation


class AnyPool(ResourcePool):  # type: ignore[misc]  # flux has no types
    """flux-core's ResourcePool, around whatever an implementation returns.

    That of 0.86 takes no allocation that is not a whole pool itself, as treepool's are not, and
    loses the class of what it copies; from 0.87 on it does as this does.
    """

    def alloc(self, jobid: int, request: Any) -> Any:
        """Allocate for job *jobid*; what it got, as a pool of this class."""
        return self._around(self.impl.alloc(jobid, request))

    def copy(self) -> Any:
        """An independent copy of this class."""
        return self._around(self.impl.copy())

    def _around(self, impl: Any) -> Any:
        other = copy(self)
        other.impl = impl
        return other


def tell_whose(pool: Any) -> None:
    """Log whose implementation *pool* is, and what is in it, where Flux's schedulers do not.

    Their line ``ready:`` does, in the same words, from 0.87 on, where every implementation has a
    name.
    """
    if not hasattr(ResourcePoolImplementation, "name"):
        pool.log(syslog.LOG_INFO, f"pool-class={pool.name} Rv{pool.version} {pool.dumps()}")
