"""The planted bugs, by the room in which they are."""

from planted.counts import COUNTS
from planted.fabric import FABRIC
from planted.flux import FLUX
from planted.mutant import Mutant
from planted.other import OTHER
from planted.plan import PLAN
from planted.pool import POOL

#: All planted bugs, by room.
ROOMS = {
    "pool": POOL,
    "plan": PLAN,
    "fabric": FABRIC,
    "counts": COUNTS,
    "flux": FLUX,
    "other": OTHER,
}

__all__ = ["ROOMS", "Mutant"]
