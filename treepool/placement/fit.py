"""The fit: which ids a request takes from a node in a given state.

Everything here is a pure function of (state, ask). A slot goes into the smallest domain that can
host it, found by walking down from the node; among equals into the one that leaves whole domains
whole. See DESIGN "Placement rules".
"""

from __future__ import annotations

from typing import Optional

import attrs

from treepool.placement.request import Ask, Need
from treepool.placement.spread import Supply, spread
from treepool.placement.state import MAX_FITS, NodeState
from treepool.placement.tree import Domain, NodeType
from treepool.rfc import idset


@attrs.frozen(eq=False)
class Fit:
    """What a node in some state can give to an ask.

    ``steps[i]`` holds the cores and GPUs (bitmasks) of the first i + 1 slots together; the first
    ``local`` slots sit each in the smallest kind of domain that the node, idle, could offer. When
    the number of slots per node is fixed by the request, ``local`` is all of them or none.
    """

    steps: tuple[tuple[int, int], ...]
    local: int


#: Calls of compute(), for tests that count work instead of time.
computed = 0


def fit(state: NodeState, ask: Ask) -> Optional[Fit]:
    """What *state* can give to *ask*, None if nothing; remembered on the state."""
    try:
        return state.fits[ask]
    except KeyError:
        if len(state.fits) >= MAX_FITS:
            state.fits.clear()
        found = state.fits[ask] = compute(state, ask)
        return found


def compute(state: NodeState, ask: Ask) -> Optional[Fit]:
    """What *state* can give to *ask*, None if nothing, worked out afresh."""
    global computed
    computed += 1
    if ask.whole and not (state.idle and (state.cores or state.gpus)):
        return None
    steps, local = _slots(state, ask)
    if ask.locality == "required":
        steps = steps[:local]
    if not ask.fill:
        wanted = ask.slots.largest(len(steps))
        if wanted is None:
            return None
        steps = steps[:wanted]
        local = wanted if local >= wanted else 0
    if not steps:
        return None
    if ask.whole:
        steps = [(state.cores, state.gpus)] * len(steps)
    return Fit(tuple(steps), local)


def _slots(state: NodeState, ask: Ask) -> tuple[list[tuple[int, int]], int]:
    """The slots that fit one after another, and how many of them are local."""
    most = ask.slots.maximum
    supply = Supply(ask.need)
    if ask.whole and supply.asks_nothing:
        return [(state.cores, state.gpus)], 1
    levels = idle_levels(state.type, ask.need)
    cores, gpus = state.cores, state.gpus
    steps: list[tuple[int, int]] = []
    local = 0
    while most is None or len(steps) < most:
        placed = place(state.type.root, supply, levels, cores, gpus, ask.locality == "none")
        if placed is None:
            break
        slot_cores, slot_gpus, level = placed
        # Slots are alike and only use things up, so once one is not local none after it is.
        local += level == 0
        cores &= ~slot_cores
        gpus &= ~slot_gpus
        steps.append((state.cores & ~cores, state.gpus & ~gpus))
    return steps, local


def place(
    root: Domain,
    supply: Supply,
    levels: dict[Domain, int],
    cores: int,
    gpus: int,
    ignore_tree: bool,
) -> Optional[tuple[int, int, int]]:
    """One slot: the cores and GPUs it takes out of the free *cores* and *gpus*, and its level.

    The level is 0 when no smaller domain could host the slot on an idle node, see idle_levels().
    """
    if ignore_tree:
        if not supply.covered_by(root, cores, gpus):
            return None
        return (*supply.first(root, cores, gpus), 0)
    best: dict[Domain, int] = {}
    _find_hosts(root, supply, levels, cores, gpus, best)
    if root not in best:
        return None
    level = best[root]
    domain = root
    while True:
        options = [c for c in domain.children if best.get(c) == level]
        if not options:
            return (*spread(domain, supply, cores, gpus), level)
        domain = min(options, key=lambda c: free_in(c, cores, gpus))


def free_in(domain: Domain, cores: int, gpus: int) -> tuple[int, int]:
    """How much is free in *domain*, GPUs first: the order in which domains are used up."""
    return idset.size(domain.gpus & gpus), idset.size(domain.cores & cores)


def _find_hosts(
    domain: Domain,
    supply: Supply,
    levels: dict[Domain, int],
    cores: int,
    gpus: int,
    best: dict[Domain, int],
) -> None:
    """Fill *best*: for each domain that can host a slot, the lowest level of a host within it."""
    if not supply.covered_by(domain, cores, gpus):
        return
    lowest = levels[domain]
    for child in domain.children:
        _find_hosts(child, supply, levels, cores, gpus, best)
        lowest = min(lowest, best.get(child, lowest))
    best[domain] = lowest


def idle_levels(node_type: NodeType, need: Need) -> dict[Domain, int]:
    """For each domain that could host *need* on an idle node, how far it is from the smallest.

    0 when no nested domain could host it; else one more than the highest level among those that
    could. On a regular tree the level counts the kinds of domain from the smallest that fits.
    """
    levels = node_type.levels.get(need)
    if levels is None:
        if len(node_type.levels) >= MAX_FITS:
            node_type.levels.clear()
        levels = node_type.levels[need] = {}
        _add_levels(node_type.root, Supply(need), levels)
    return levels


def _add_levels(domain: Domain, supply: Supply, levels: dict[Domain, int]) -> None:
    if not supply.covered_by(domain, domain.cores, domain.gpus):
        return
    for child in domain.children:
        _add_levels(child, supply, levels)
    levels[domain] = max((levels[c] + 1 for c in domain.children if c in levels), default=0)
