"""Rooms: how much of a request each domain of a fabric can host.

A unit of room is what the request counts: a slot, a domain above the slot, or a node. Where the
request names localities above the nodes, there is one more table for each of these levels: how
often a domain can host the level and all inside it.

All tables are kept up to date from the census of the fabric: only leaves in which something
changed are counted anew.
"""

from __future__ import annotations

from typing import Callable, Iterable, Optional, Sequence

from treepool.placement.choose.tables import Above, Copies, Few, Fitting, Innermost, Table
from treepool.placement.nodes.census import Census
from treepool.placement.nodes.index import NodeIndex
from treepool.placement.nodes.rankset import RankSet
from treepool.placement.nodes.state import NodeState
from treepool.placement.request.job_options import Within
from treepool.placement.request.need import Level

#: How many units a node in a state can host, and how many of them with all slots local.
Value = Callable[[NodeState], tuple[int, int]]


class Rooms(Table):
    """The room in each domain of a census on the ranks of *within* (None: all).

    ``units`` and ``local`` are the units that *value* gives of the states of the up ranks in each
    domain. ``levels`` has the table of each of *levels*, the outermost first, and last that of
    *each* units at least in the innermost domains. With *at_most*, these units are in so few
    domains, and ``few`` says how many can be.
    """

    def __init__(
        self,
        census: Census,
        within: Optional[RankSet],
        value: Value,
        levels: Sequence[Level] = (),
        each: int = 1,
        at_most: Optional[Within] = None,
    ) -> None:
        super().__init__(census.fabric, self._fitting)
        self.census = census
        self.within = within
        self.value = value
        self.few = None if at_most is None else Few(self, at_most)
        self.levels = self._tables(levels, each) if levels or at_most else []
        #: Free cores and GPUs of the ranks in *within*; those of the census if that is all.
        self._free = [(0, 0)] * len(census.fabric) if within is not None else []
        #: Leaves counted so far, for tests that count work instead of time.
        self.counted = 0
        #: Where in the log of the census the next change is; below its start before the first.
        self._seen = -1

    def follow(self, index: NodeIndex) -> None:
        """Apply the changes of the census since the last call."""
        census, fabric, within = self.census, self.fabric, self.within
        seen = self._seen - census.log_start
        leaves: Iterable[int]
        if seen >= 0:
            leaves = set(census.log[seen:])
        elif within is None or self._seen >= 0:
            leaves = [d for d in range(1, len(fabric)) if fabric.ranks[d]]
        else:  # nothing is in the others, and nothing was
            leaves = {d for rank in within if rank < len(fabric.homes) for d in fabric.homes[rank]}
        self._seen = census.log_start + len(census.log)
        changed: set[int] = set()
        for leaf in leaves:
            self._count(leaf, index)
            changed.update(fabric.paths[leaf])
        self.reorder(changed)
        if self.few is not None:
            self.few.update(changed)
        for table in reversed(self.levels):
            table.update(changed)

    def tables(self, levels: Sequence[Level], each: int) -> list[Above]:
        """The tables of *levels*, counted anew."""
        found = self._tables(levels, each)
        for table in reversed(found):
            table.update(range(len(self.fabric)))
        return found

    def _tables(self, levels: Sequence[Level], each: int) -> list[Above]:
        whole = bool(levels) and levels[-1].whole
        found: list[Above] = [Innermost(self.few or self, each, whole)]
        for level in reversed(levels):
            found.insert(0, Copies(found[0], level))
        return found

    def _count(self, leaf: int, index: NodeIndex) -> None:
        self.counted += 1
        units = local = cores = gpus = 0
        if self.within is None:
            for state, number in self.census.held[leaf].items():
                all_, near = self.value(state)
                units += number * all_
                local += number * near
        else:
            for rank in self.fabric.ranks[leaf]:
                found = index.state_of[rank]
                if found is not None and index.up[rank] and rank in self.within:
                    all_, near = self.value(found)
                    units += all_
                    local += near
                    cores += found.ncores
                    gpus += found.ngpus
            cores -= self._free[leaf][0]
            gpus -= self._free[leaf][1]
        units -= self.units[leaf]
        local -= self.local[leaf]
        for domain in self.fabric.paths[leaf]:
            self.units[domain] += units
            self.local[domain] += local
            if self.within is not None:
                old = self._free[domain]
                self._free[domain] = old[0] + cores, old[1] + gpus

    def _fitting(self, domain: int, remote: bool) -> Fitting:
        free = self._free[domain] if self.within is not None else self.census.free(domain)
        return Fitting(remote, *free, self.fabric.lowest[domain], domain)
