"""Cores that are kept for jobs with GPUs: the option ``gpu_cores`` of a pool.

So many cores near each GPU are not there for jobs without GPUs. Such a job sees the node as it
would be if its R lacked them, so that every rule of placement holds on what is left.
"""

from __future__ import annotations

from treepool.placement.effort import remembered
from treepool.placement.nodes.state import NodeState
from treepool.placement.nodes.tree import Domain, NodeType, part_of
from treepool.rfc import idset

#: How many numbers of cores are remembered: a site has one.
_MAX_NUMBERS = 4


def kept_cores(node_type: NodeType, number: int) -> int:
    """The cores (bitmask) that are only for jobs with GPUs, *number* near each GPU.

    They are the lowest free ones of the smallest domain of the GPU that has any left: those that
    jobs with GPUs take first.
    """
    return _kept(node_type.root, number)[0]


def kept_in(state: NodeState, number: int) -> int:
    """How many free cores of a node in *state* are only for jobs with GPUs."""
    return idset.size(state.cores & kept_cores(state.type, number)) if number else 0


def _kept(domain: Domain, number: int) -> tuple[int, int]:
    """The cores that are kept in *domain*, and how many more are to be kept around it."""
    kept, more = 0, number * idset.size(domain.own_gpus)
    for child in domain.children:
        cores, left = _kept(child, number)
        kept |= cores
        more += left
    own = idset.take_lowest(domain.cores & ~kept, more)
    return kept | own, more - idset.size(own)


def without_kept(node_type: NodeType, number: int) -> NodeType:
    """*node_type* as jobs without GPUs see it."""

    def cut() -> NodeType:
        kept = kept_cores(node_type, number)
        if not kept:
            return node_type
        return part_of(node_type, node_type.root.cores & ~kept, node_type.root.gpus)

    return remembered(node_type.seen, _MAX_NUMBERS, number, cut)


def state_without_kept(state: NodeState, number: int) -> NodeState:
    """*state* as jobs without GPUs see it."""
    seen = without_kept(state.type, number)
    return NodeState(seen, state.cores & seen.root.cores, state.gpus)
