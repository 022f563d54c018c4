"""Windows: nodes that an administrator takes out, or keeps for some jobs, for a time."""

from __future__ import annotations

from typing import Iterable

import attrs

from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.state import Held
from treepool.placement.plan.future import Holder
from treepool.rfc import idset


@attrs.frozen
class Window:
    """Nodes that only some jobs may use from ``start`` up to ``end``, in seconds since the epoch.

    ``ranks`` is a bitmask. Jobs of ``users`` (numeric user ids) and of ``queues`` may use them. If
    both are empty, no job may, as for maintenance. All other jobs must end before ``start``.
    """

    name: str
    ranks: int
    start: float
    end: float
    users: frozenset[int] = frozenset()
    queues: frozenset[str] = frozenset()

    def admits(self, user: int, queue: str) -> bool:
        """Whether a job of *user* in *queue* may use the nodes."""
        return user in self.users or queue in self.queues

    def parts(self, inventory: Inventory) -> tuple[Held, ...]:
        """All cores and GPUs of the nodes."""
        return tuple(
            (tuple(idset.iterate(mask)), node_type.root.cores, node_type.root.gpus)
            for node_type, ranks in inventory.node_types.items()
            for mask in (ranks.mask() & self.ranks,)
            if mask
        )


def admitting(windows: Iterable[Window], user: int, queue: str) -> frozenset[Holder]:
    """The names of those *windows* whose nodes a job of *user* in *queue* may use."""
    return frozenset(window.name for window in windows if window.admits(user, queue))
