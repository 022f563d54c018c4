"""Node policies: in which order nodes are tried, and what ``packing`` weighs, such as straddling.

A policy is one small class with one method. Nodes are ordered by ``policy.key(...)``, to which
``policy.straddle`` is added where a slot would not be local, and where it would be split
(candidates.split_on()); the lowest rank wins a tie. Under most policies locality comes before all
else.
"""

from __future__ import annotations

from typing import Optional

from treepool.placement.choose.mix import Mix
from treepool.placement.names import STRADDLE
from treepool.placement.nodes.state import NodeState
from treepool.placement.nodes.usable import PER_GPU
from treepool.placement.on_node.fit import Fit
from treepool.placement.request.need import Ask
from treepool.rfc import idset

#: More than a node has of any resource.
_MANY = 2 * idset.MAX_ID

#: A number above any policy's key.
ABOVE_KEYS = 1 << 80

#: How many times a GPU counts that becomes unusable: without a mix, and with one.
LOST, LOST_OF_MIX = 2, 6

#: Makes costs positive: a node has fewer than _MANY GPUs.
_OFFSET = LOST_OF_MIX * _MANY * PER_GPU

#: What it costs to break an idle node, in GPUs; and so many cores of it cost a GPU more.
BROKEN, CORES_OF_A_GPU = 12, 32


class Policy:
    """An order of nodes.

    ``straddle`` is what a slot adds to a node's key if it is not local. *gpus* is the weight of
    locality for Packing, and ``mix`` are the jobs to come.
    """

    name: str
    #: Whether nodes are never equal, because the rank alone decides.
    by_rank = False
    #: Whether it weighs locality against other costs: the option ``straddle``.
    weighs = False
    straddle = ABOVE_KEYS

    def __init__(self, gpus: float = STRADDLE, mix: Optional[Mix] = None) -> None:
        self.mix = mix or Mix()

    @property
    def passes(self) -> bool:
        """Whether locality comes before all else: local slots of all nodes, then the others."""
        return self.straddle == ABOVE_KEYS

    def key(self, state: NodeState, ask: Ask, gives: Optional[Fit]) -> int:
        """A non-negative number below 2^80; nodes with a lower one are used first for *ask*.

        *gives* is what the node can give to *ask*. It is None if that is not known yet. The key
        must then be a lower bound of the later key.
        """
        raise NotImplementedError


class BestFit(Policy):
    """Fewest free cores first, then fewest free GPUs: partly used nodes before fresh ones.

    Jobs gather on as few nodes as possible, so whole nodes remain for the jobs that need them.
    RFC 49's test vectors assume this policy.
    """

    name = "best-fit"

    def key(self, state: NodeState, ask: Ask, gives: Optional[Fit]) -> int:
        """(free cores, free GPUs)."""
        return state.ncores * _MANY + state.ngpus


class FirstFit(Policy):
    """Lowest rank first: the least surprising order, for sites that number nodes by wiring."""

    name = "first-fit"
    by_rank = True

    def key(self, state: NodeState, ask: Ask, gives: Optional[Fit]) -> int:
        """The same for all nodes."""
        return 0


class WorstFit(Policy):
    """Most free cores first, then most free GPUs: jobs spread out, each with room around it.

    It suits small jobs that compete for memory bandwidth or power. Fewer whole nodes remain.
    """

    name = "worst-fit"

    def key(self, state: NodeState, ask: Ask, gives: Optional[Fit]) -> int:
        """(free cores, free GPUs), from the most to the fewest."""
        return (_MANY - state.ncores) * _MANY + _MANY - state.ngpus


class Packing(Policy):
    """The node where the job costs later jobs the least.

    What is scarce are GPUs with cores beside them, *usable* for the jobs to come (mix.py). In GPUs,

        cost = usable + 2 * size + 2 * (lost - taken) + (broken, if the job breaks an idle node)
                                                      + (straddle, if a slot is not local)

    and with a mix 6 * (lost - taken): there it is known what others lose, not guessed.

    ``usable`` are those on the node before: the fullest node first, so that others drain. ``size``
    are all GPUs of the node: the smallest node first, so that large ones stay for the jobs that no
    other can serve. ``lost`` are those that are no longer usable afterwards, ``taken`` the GPUs
    that the first unit gets. The difference is what others lose without the job's having it, such
    as GPUs whose cores a job without GPUs takes. It is below zero where the job uses GPUs that are
    of little use to others. A job *breaks* an idle node if it needs only a part of it, and makes
    some of its GPUs unusable. That costs BROKEN, and the cores of the node, CORES_OF_A_GPU as one
    GPU. Otherwise jobs that waste a little less on them break the nodes with the most cores, which
    are all that some jobs can use. Fewest free cores decides between equal costs, and orders nodes
    without GPUs.
    """

    name = "packing"
    weighs = True

    def __init__(self, gpus: float = STRADDLE, mix: Optional[Mix] = None) -> None:
        super().__init__(gpus, mix)
        # One part more: of equal costs, the local one comes first.
        self.straddle = (round(gpus * PER_GPU) + 1) * _MANY

    def key(self, state: NodeState, ask: Ask, gives: Optional[Fit]) -> int:
        """(cost, free cores)."""
        mix = self.mix
        before = mix.usable(state)
        root = state.type.root
        own = root.open_gpus
        free = idset.size(state.gpus & own) * PER_GPU
        wasted, broken = before - free, False  # a job gains at most what is stranded
        if gives is not None and gives.steps:
            cores, gpus = gives.ids(0)
            taken = idset.size(gpus & own) * PER_GPU
            after = mix.usable_of(state.type, state.cores & ~cores, state.gpus & ~gpus)
            wasted = before - after - taken
            broken = state.idle and taken < free and after < before
        elif ask.exact:
            after = mix.most_usable(state, ask.min_gpus)
            wasted = before - after - ask.min_gpus * PER_GPU
        lost = LOST_OF_MIX if mix.kinds else LOST
        cost = _OFFSET + before + 2 * root.ngpus * PER_GPU + lost * wasted
        if broken:
            cost += BROKEN * PER_GPU + state.ncores * PER_GPU // CORES_OF_A_GPU
        return cost * _MANY + state.ncores


#: The policies, by their names in ``names.py``.
POLICIES: dict[str, type[Policy]] = {
    policy.name: policy for policy in (Packing, BestFit, FirstFit, WorstFit)
}
