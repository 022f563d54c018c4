"""Node states: what is free on a node, interned so that equal nodes share one object.

At any moment, most nodes of a cluster are in few states. What a request would take from a node
depends only on the state of the node, so it is computed once per state and remembered there.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Collection

from treepool.placement.nodes.tree import NodeType
from treepool.rfc import idset

#: A set of ranks that give the same cores and GPUs to a job: all three are bitmasks.
Held = tuple[int, int, int]

#: How many fits a state remembers: more than a site has different requests at one time (a replay of
#: 4,500 jobs with 64 instead spent a tenth of its time on computing them again).
MAX_FITS = 256

#: How many states are kept that no node is in; and how many are looked at together when there are
#: more: with their fits, a thousand take 7 ms to drop.
_MAX_STATES, _AT_A_TIME = 4096, 256


class NodeState:
    """The cores and GPUs (bitmasks) that are free on a node of some type.

    ``ncores`` and ``ngpus`` are their numbers, and ``idle`` says whether nothing on the node is
    allocated. ``fits`` remembers what assess() returned per ask, and ``usable`` what usable()
    returned (-1: not asked yet).
    """

    __slots__ = ("type", "cores", "gpus", "ncores", "ngpus", "idle", "usable", "fits")

    def __init__(self, node_type: NodeType, cores: int, gpus: int) -> None:
        self.type = node_type
        self.cores = cores
        self.gpus = gpus
        self.ncores = idset.size(cores)
        self.ngpus = idset.size(gpus)
        self.idle = cores == node_type.root.cores and gpus == node_type.root.gpus
        self.usable = -1
        self.fits: dict[Any, Any] = {}


class StateTable:
    """The interned states, one per (type, free cores, free GPUs)."""

    __slots__ = ("_states",)

    def __init__(self) -> None:
        #: In the order in which they were made, or were last seen to be in use.
        self._states: OrderedDict[tuple[NodeType, int, int], NodeState] = OrderedDict()

    def __len__(self) -> int:
        return len(self._states)

    def get(self, node_type: NodeType, cores: int, gpus: int) -> NodeState:
        """The one state with these free cores and GPUs."""
        key = (node_type, cores, gpus)
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = NodeState(node_type, cores, gpus)
        return state

    def less(self, state: NodeState, cores: int, gpus: int) -> NodeState:
        """*state* after *cores* and *gpus* are taken."""
        return self.get(state.type, state.cores & ~cores, state.gpus & ~gpus)

    def more(self, state: NodeState, cores: int, gpus: int) -> NodeState:
        """*state* after *cores* and *gpus* are given back."""
        return self.get(state.type, state.cores | cores, state.gpus | gpus)

    def forget(self, used: Collection[NodeState]) -> None:
        """Drop the oldest states that are not in *used* if there are many, a few at a time.

        A state that is dropped while a copy of the pool still uses it may be created a second
        time. That is harmless: choices depend on what is free, not on the object.
        """
        many = len(self._states) - max(_MAX_STATES, 2 * len(used))
        for _ in range(min(many, _AT_A_TIME)):
            key, state = self._states.popitem(last=False)
            if state in used:
                self._states[key] = state
