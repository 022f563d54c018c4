"""Decisions for inspection: what a pool would choose, and in numbers of what is free why nothing.

A decision reports exactly the choice that an allocation would get. It allocates nothing.
"""

from __future__ import annotations

from typing import Mapping, Optional

import attrs

from treepool.errors import Reason
from treepool.placement.choose.choice import Situation, members, narrowed
from treepool.placement.choose.selection import Choice, Selection
from treepool.placement.nodes.state import NodeState, StateTable
from treepool.placement.nodes.tree import NodeType, part_of
from treepool.placement.on_node.fit import Fit, fit, seen
from treepool.placement.request.need import Ask
from treepool.placement.request.vertices import Request
from treepool.placement.why.infeasible import KEPT, telling_kept, why_infeasible
from treepool.rfc import idset


@attrs.frozen(eq=False)
class Looked:
    """Nodes in one state: ``ranks`` (ascending) that are up and may serve the request.

    ``found`` is what each node could give, None for nothing. ``key`` is the policy's key: nodes
    with a lower key are tried first, and the lowest rank wins a tie.
    """

    state: NodeState
    ranks: tuple[int, ...]
    found: Optional[Fit]
    key: int


@attrs.frozen(eq=False)
class Decision:
    """What a pool would choose for a request now.

    ``request`` is the request with its open questions settled: its constraint names the property
    that the nodes share, and its counts below the slot have their values. ``looked`` are all nodes
    that may serve it, in the policy's order. If the policy has passes, nodes with local slots are
    tried first, in this order, then the others. ``selection`` is None if the nodes are not enough.
    """

    request: Request
    looked: tuple[Looked, ...]
    selection: Optional[Selection]


def decide(situation: Situation, choice: Choice) -> Decision:
    """The decision that reports *choice* in *situation*."""
    inventory, index, policy = situation.inventory, situation.index, situation.policy
    ask, within = choice.request.ask, inventory.matching(choice.request.constraint)
    looked, split = [], situation.split(choice.request)
    for state, held in index.buckets.items():
        ranks = tuple(idset.iterate(held & within))
        if ranks:
            found = fit(state, ask)
            key = policy.key(state, ask, found)
            if found is not None and found.segments[0].remote and not policy.passes:
                key += policy.straddle
            key += policy.straddle if state.type in split else 0
            looked.append(Looked(state, ranks, found, key))
    looked.sort(key=lambda one: (one.key, one.ranks[0]))
    return Decision(choice.request, tuple(looked), choice.selection)


def ranks_down(situation: Situation) -> tuple[int, ...]:
    """The ranks that are down, ascending."""
    return tuple(idset.iterate(situation.inventory.ranks & ~situation.index.up))


def why_insufficient(situation: Situation, request: Request) -> Optional[Reason]:
    """Which free resources the nodes that are up lack now.

    None if no single number explains it, as when slots fit, but not where the request wants them.
    """
    return _why(situation, request, situation.index.buckets)


def why_passed_over(situation: Situation, request: Request, state: NodeState) -> Optional[Reason]:
    """Which free resources a node in *state* lacks to give anything.

    None if no single number explains it.
    """
    ranks = situation.index.buckets.get(state, 0)
    anywhere = attrs.evolve(request, constraint=None, same=None)
    return _why(situation, anywhere, {state: ranks & -ranks})


def _why(
    situation: Situation, request: Request, buckets: Mapping[NodeState, int]
) -> Optional[Reason]:
    """Why a pool of idle nodes could not serve *request* that have what is free in *buckets*.

    They are without the cores that are kept from it.
    """
    types: list[Optional[NodeType]] = [None] * len(situation.inventory.types)
    there = 0
    for state, ranks in buckets.items():
        if state.idle or not request.ask.whole:
            there |= ranks
            part = free_part(state, request.ask)
            for rank in idset.iterate(ranks):
                types[rank] = part
    asked, request = request, attrs.evolve(request, ask=attrs.evolve(request.ask, spare=0))
    inventory = attrs.evolve(situation.inventory, types=types, states=StateTable())
    tried = [request]
    if request.same is not None and request.same.required:
        tried = [narrowed(request, name) for name in members(request.same.family, inventory)]
    if not any(inventory.matching(one.constraint) & there for one in tried):
        return None
    idle = Situation(inventory, inventory.idle_index, situation.policy)
    if request.same is None and idle.choice(request).selection is not None:
        return None
    reason = telling_kept(why_infeasible(request, inventory), asked, situation.inventory)
    return reason.said(reason.message.replace(KEPT, "a part of each is taken"))


def free_part(state: NodeState, ask: Ask) -> NodeType:
    """A node type that has only what is free in *state* for a job that asks for *ask*."""
    state = seen(state, ask)
    return part_of(state.type, state.cores, state.gpus)
