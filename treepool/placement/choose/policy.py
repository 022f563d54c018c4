"""Node policies: in which order nodes are tried. A policy is one small class with one method.

The order of two nodes is that of ``(not local, policy.key(...), rank)``: locality comes before
fit, and ties break to the lowest rank.
"""

from __future__ import annotations

from typing import Optional

from treepool.errors import InvalidOption
from treepool.placement.choose.fitness import DEFAULT, Share, Weights, on_node
from treepool.placement.nodes.state import NodeState
from treepool.placement.on_node.fit import Fit
from treepool.placement.request.need import Ask, Need

#: More than a node has of anything.
_MANY = 1 << 20


class Policy:
    """An order of nodes; ``weights`` are those of fitness, for a policy that goes by it."""

    name: str

    def __init__(self, weights: Weights = DEFAULT) -> None:
        self.weights = weights

    def key(self, state: NodeState, ask: Ask, found: Optional[Fit]) -> int:
        """A non-negative number below 2^80; nodes with a lower one are used first for *ask*.

        *found* is what the node can give to *ask*. It is None when that is not known yet; the
        key must then not be higher than it will be.
        """
        raise NotImplementedError


class BestFit(Policy):
    """Fewest free cores first, then fewest free GPUs: partly used nodes before fresh ones.

    Jobs gather on as few nodes as possible, so that whole nodes stay whole for those who need
    them (RFC 49's test vectors assume this policy).
    """

    name = "best-fit"

    def key(self, state: NodeState, ask: Ask, found: Optional[Fit]) -> int:
        """(free cores, free GPUs)."""
        return state.ncores * _MANY + state.ngpus


class FirstFit(Policy):
    """Lowest rank first: the least surprising order, for sites that number nodes by wiring."""

    name = "first-fit"

    def key(self, state: NodeState, ask: Ask, found: Optional[Fit]) -> int:
        """The same for all."""
        return 0


class WorstFit(Policy):
    """Most free cores first, then most free GPUs: jobs spread out, each with room around it.

    For small jobs that fight over memory bandwidth or power; costs whole nodes.
    """

    name = "worst-fit"

    def key(self, state: NodeState, ask: Ask, found: Optional[Fit]) -> int:
        """(free cores, free GPUs), from the most to the fewest."""
        return (_MANY - state.ncores) * _MANY + _MANY - state.ngpus


class GpuSparing(BestFit):
    """Best fit, but jobs that ask no GPUs use nodes that have none free before all others.

    Keeps cores beside free GPUs for the jobs that will need both.
    """

    name = "gpu-sparing"

    def key(self, state: NodeState, ask: Ask, found: Optional[Fit]) -> int:
        """(has free GPUs though none is asked, free cores, free GPUs)."""
        spare = state.ngpus > 0 and not _asks_gpus(ask.group.need)
        return super().key(state, ask, found) + (_MANY * _MANY if spare else 0)


class MinSpan(BestFit):
    """Nodes that can host the most of the request first: the job spans the fewest nodes.

    For jobs that talk much among their slots. Taking the largest shares first is the least
    number of nodes; among equals best fit.
    """

    name = "min-span"

    def key(self, state: NodeState, ask: Ask, found: Optional[Fit]) -> int:
        """(units hosted, from the most to the fewest; free cores, free GPUs)."""
        if found is None:
            return 0
        units = found.local or len(found.steps)  # the local ones have their turn first
        return (_MANY - units) * _MANY * _MANY + super().key(state, ask, found)


class BestLocality(BestFit):
    """The node where a slot sits best first, by its fitness: links and memory; see fitness.py.

    For sites where a job's speed matters more than room for the next: fresh nodes are broken for
    a better place. Among equals best fit.
    """

    name = "best-locality"

    def key(self, state: NodeState, ask: Ask, found: Optional[Fit]) -> int:
        """(1 - fitness in steps of 1/1000, free cores, free GPUs)."""
        if found is None:
            return 0
        step = found.steps[0]
        share = Share(state.type, 1, step.cores, step.gpus, step.nslots)
        misfit = round(1000 * (1 - on_node(share, self.weights).total))
        return misfit * _MANY * _MANY + super().key(state, ask, found)


def _asks_gpus(need: Need) -> bool:
    return need.gpus > 0 or any(_asks_gpus(part.need) for part in need.parts)


POLICIES: dict[str, type[Policy]] = {
    policy.name: policy
    for policy in (BestFit, FirstFit, WorstFit, GpuSparing, MinSpan, BestLocality)
}


def policy_named(name: object, weights: Weights = DEFAULT) -> Policy:
    """The policy called *name*, with the *weights* of fitness.

    Raises InvalidOption listing the known ones.
    """
    if isinstance(name, str) and name in POLICIES:
        return POLICIES[name](weights)
    raise InvalidOption(f"unknown policy {name!r:.60}, known: {', '.join(POLICIES)}")
