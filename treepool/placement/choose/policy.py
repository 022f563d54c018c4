"""Node policies: the order in which nodes are tried. A policy is one small class with one method.

Nodes are ordered by ``(not local, policy.key(...), rank)``: locality comes before the policy, and
the lowest rank wins a tie.
"""

from __future__ import annotations

from typing import Optional

from treepool.errors import InvalidOption
from treepool.placement.choose.fitness import DEFAULT, Share, Weights, on_node
from treepool.placement.nodes.state import NodeState
from treepool.placement.on_node.fit import Fit
from treepool.placement.request.need import Ask, Need

#: More than a node has of any resource.
_MANY = 1 << 20


class Policy:
    """An order of nodes; ``weights`` are the weights of fitness, for a policy that uses it."""

    name: str
    #: Whether nodes are never equal, because the rank alone decides.
    by_rank = False

    def __init__(self, weights: Weights = DEFAULT) -> None:
        self.weights = weights

    def key(self, state: NodeState, ask: Ask, found: Optional[Fit]) -> int:
        """A non-negative number below 2^80; nodes with a lower one are used first for *ask*.

        *found* is what the node can give to *ask*. It is None if that is not known yet. The key
        must then be a lower bound of the later key.
        """
        raise NotImplementedError


class BestFit(Policy):
    """Fewest free cores first, then fewest free GPUs: partly used nodes before fresh ones.

    Jobs gather on as few nodes as possible, so whole nodes remain for the jobs that need them.
    RFC 49's test vectors assume this policy.
    """

    name = "best-fit"

    def key(self, state: NodeState, ask: Ask, found: Optional[Fit]) -> int:
        """(free cores, free GPUs)."""
        return state.ncores * _MANY + state.ngpus


class FirstFit(Policy):
    """Lowest rank first: the least surprising order, for sites that number nodes by wiring."""

    name = "first-fit"
    by_rank = True

    def key(self, state: NodeState, ask: Ask, found: Optional[Fit]) -> int:
        """The same for all nodes."""
        return 0


class WorstFit(Policy):
    """Most free cores first, then most free GPUs: jobs spread out, each with room around it.

    It suits small jobs that compete for memory bandwidth or power. Fewer whole nodes remain.
    """

    name = "worst-fit"

    def key(self, state: NodeState, ask: Ask, found: Optional[Fit]) -> int:
        """(free cores, free GPUs), from the most to the fewest."""
        return (_MANY - state.ncores) * _MANY + _MANY - state.ngpus


class GpuSparing(BestFit):
    """Best fit; a job without GPUs takes nodes without free GPUs first.

    It keeps cores beside free GPUs for jobs that need both.
    """

    name = "gpu-sparing"

    def key(self, state: NodeState, ask: Ask, found: Optional[Fit]) -> int:
        """(has free GPUs that the job does not need, free cores, free GPUs)."""
        spare = state.ngpus > 0 and not _asks_gpus(ask.group.need)
        return super().key(state, ask, found) + (_MANY * _MANY if spare else 0)


class MinSpan(BestFit):
    """Nodes that can host the most of the request first: the job spans the fewest nodes.

    It suits jobs whose slots communicate much. Taking the largest shares first gives the fewest
    nodes. Best fit decides between equal nodes.
    """

    name = "min-span"

    def key(self, state: NodeState, ask: Ask, found: Optional[Fit]) -> int:
        """(units hosted, from the most to the fewest; free cores, free GPUs)."""
        if found is None:
            return 0
        units = found.local or len(found.steps)  # local units are used first
        return (_MANY - units) * _MANY * _MANY + super().key(state, ask, found)


class BestLocality(BestFit):
    """The node where a slot sits best first, by its fitness: links and memory; see fitness.py.

    It suits sites where the speed of a job matters more than room for the next one: it uses a fresh
    node if that gives a better place. Best fit decides between equal nodes.
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

    Raises InvalidOption, which lists the known policies.
    """
    if isinstance(name, str) and name in POLICIES:
        return POLICIES[name](weights)
    raise InvalidOption(f"unknown policy {name!r:.60}, known: {', '.join(POLICIES)}")
