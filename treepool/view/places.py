"""Places: where slots sit on a node, which are local, and what smaller domains lack, in words."""

from __future__ import annotations

from functools import lru_cache
from typing import Iterable, Optional

import attrs

from treepool.placement.choose.choice import Situation
from treepool.placement.gpus.best_set import best_set
from treepool.placement.nodes.distances import farthest
from treepool.placement.nodes.index import NodeIndex
from treepool.placement.nodes.link_table import smallest_link
from treepool.placement.nodes.parts import ranks_in
from treepool.placement.nodes.state import Held, NodeState
from treepool.placement.nodes.tree import NodeType, around
from treepool.placement.on_node.cover import nearest
from treepool.placement.on_node.fit import Fit, assess, most_units, seen
from treepool.placement.on_node.levels import amount_levels, usable_gpus
from treepool.placement.request.need import SLOT, Ask, Need
from treepool.placement.request.vertices import Request
from treepool.rfc import idset
from treepool.rfc.count import Count
from treepool.view.nodewords import title
from treepool.view.words import count

#: For so many asks their form that fills a node is remembered.
MAX_ASKS = 1 << 10


@attrs.frozen
class Place:
    """Where a slot sits: the smallest domain around all it has, and what it has (bitmasks).

    ``local`` says that no smaller kind of domain of the idle node could have hosted it. ``gbps`` is
    the bandwidth of the slowest link between its GPUs, and ``best`` the same for the best such GPUs
    on an idle node. Both are None if there is nothing to report. ``spans`` says how many domains
    inside ``domain`` it spans if there are distances between these: the farthest two are ``apart``
    so much, and on an idle node as many could be ``nearest``.
    """

    domain: str
    cores: int
    gpus: int
    local: bool
    gbps: Optional[float] = None
    best: Optional[float] = None
    spans: str = ""
    apart: float = 0
    nearest: float = 0


def settled(situation: Situation, request: Request, parts: Iterable[Held]) -> Ask:
    """The ask of *request* with the counts below the slot that a job has which holds *parts*.

    They are the largest that fit where only *parts* are free.
    """
    if not request.growing:
        return request.ask
    inventory = situation.inventory
    states: list[Optional[NodeState]] = [None] * len(inventory.types)
    for ranks, cores, gpus in parts:
        for rank in idset.iterate(ranks):
            node_type = inventory.types[rank]
            assert node_type is not None
            states[rank] = inventory.states.get(node_type, cores, gpus)
    index = NodeIndex(states, ranks_in(parts))
    return Situation(inventory, index, situation.policy).choice(request).request.ask


def local_slots(node_type: NodeType, cores: int, gpus: int, ask: Ask) -> tuple[int, int]:
    """How many slots of *ask* the *cores* and *gpus* of a node make up, and how many are local.

    The slots are placed once more, on a node where only these ids are free: first as many as fit,
    then as many as fit in the smallest kind of domain that the idle node could offer. The result
    therefore does not depend on the rules by which the ids were chosen.
    """
    if ask.whole:
        return ask.group.nslots, ask.group.nslots
    state = NodeState(node_type, cores, gpus)
    local = _room(state, ask, "required")
    most = most_units(state, _filling(ask, "preferred"))
    return (local if local == most else _room(state, ask, "preferred")), local


def _filled(state: NodeState, ask: Ask, locality: str) -> Fit:
    """What *state* gives to as many slots of *ask* as fit with that *locality*."""
    return assess(state, _filling(ask, locality))


@lru_cache(MAX_ASKS)
def _filling(ask: Ask, locality: str) -> Ask:
    """*ask* for as many slots as fit, with that *locality*."""
    group = attrs.evolve(ask.group, count=Count(1, None))
    return attrs.evolve(ask, group=group, fill=True, locality=locality)


def _room(state: NodeState, ask: Ask, locality: str) -> int:
    """How many slots these are."""
    gives = _filled(state, ask, locality)
    return gives.nslots(-1) if gives.steps else 0


def smallest(node_type: NodeType, ask: Ask) -> list[str]:
    """The smallest kinds of domain that an idle node could offer to a slot of *ask*.

    Empty if the slot names localities itself, or asks for the whole node.
    """
    need = _amount(ask)
    if need is None:
        return []
    levels = amount_levels(seen(NodeState(node_type, 0, 0), ask).type, need)
    return list(dict.fromkeys(domain.name for domain, level in levels.items() if not level))


def too_little(state: NodeState, ask: Ask) -> Optional[tuple[str, int]]:
    """What the node as a whole lacks for one slot of *ask*, and how much of it is free.

    None if the cause is not a plain shortage of some amount.
    """
    state, need = seen(state, ask), _amount(ask)
    if need is None:
        return None
    if state.ncores < need.cores:
        return f"needs {count(need.cores, 'core')}", state.ncores
    free = idset.size(state.gpus & usable_gpus(state.type, state.type.root, need))
    return (f"needs {count(need.gpus, 'GPU')}", free) if free < need.gpus else None


def shortage(state: NodeState, ask: Ask) -> Optional[str]:
    """What the smallest kinds of domain lack for slots of *ask*; None if it is not an amount."""
    state, need = seen(state, ask), _amount(ask)
    if need is None:
        return None
    levels = amount_levels(state.type, need)
    domains = [domain for domain, level in levels.items() if not level]
    if not domains:
        return None
    kinds = " or ".join(dict.fromkeys(domain.name for domain in domains))
    usable = state.gpus & usable_gpus(state.type, state.type.root, need)
    free = [(idset.size(d.cores & state.cores), idset.size(d.gpus & usable)) for d in domains]
    cores, gpus = max(c for c, _ in free), max(g for _, g in free)
    if cores < need.cores:
        return f"needs {count(need.cores, 'core')} in one {kinds}: the largest has {cores} free"
    if gpus < need.gpus:
        return (
            f"needs {count(need.gpus, 'GPU')} in one {kinds}: the most that one has free is {gpus}"
        )
    if not any(c >= need.cores and g >= need.gpus for c, g in free):
        both = f"{count(need.cores, 'core')} and {count(need.gpus, 'GPU')}"
        return f"needs {both} in one {kinds}: none has both free"
    room = _room(state, ask, "required")
    wanted = ask.group.count.minimum
    if room < wanted:
        return f"needs {wanted} slots, each in one {kinds}: there is room for {room}"
    return None


def _amount(ask: Ask) -> Optional[Need]:
    """The amount that each slot of *ask* asks for; None if it asks for anything else."""
    need = ask.group.need
    if ask.group.name != SLOT or need.parts or not need.takes_amount or ask.whole:
        return None
    return need


def slot_places(node_type: NodeType, cores: int, gpus: int, ask: Ask) -> list[Place]:
    """Where the slots of *ask* sit that together have *cores* and *gpus* of a node.

    The slots are placed once more, one after another, where nothing else is free. If that does not
    give the same ids, the result is one place for all slots. There are none in a whole node.
    """
    if ask.whole:
        return []
    state = NodeState(node_type, cores, gpus)
    places: list[Place] = []
    had_cores = had_gpus = 0
    gives = _filled(state, ask, "preferred")
    for step in range(len(gives.steps)) if ask.group.name == SLOT else ():
        step_cores, step_gpus = gives.ids(step)
        if had_cores & ~step_cores or had_gpus & ~step_gpus:
            return [_place(node_type, cores, gpus, ask)]
        places.append(_place(node_type, step_cores & ~had_cores, step_gpus & ~had_gpus, ask))
        had_cores, had_gpus = step_cores, step_gpus
    if (had_cores, had_gpus) != (cores, gpus):
        return [_place(node_type, cores, gpus, ask)]
    return places


def _place(node_type: NodeType, cores: int, gpus: int, ask: Ask) -> Place:
    domain = around(node_type.root, cores, gpus)
    slots, local = local_slots(node_type, cores, gpus, ask)
    gbps = best = None
    ngpus = idset.size(gpus)
    if node_type.links is not None and slots == 1 and ngpus > 1:
        gbps = smallest_link(node_type.links, gpus)
        ideal = best_set(node_type.links, node_type.root.gpus, ngpus)
        best = None if ideal is None else smallest_link(node_type.links, ideal)
    place = Place(title(node_type, domain), cores, gpus, local >= slots, gbps, best)
    inside = [d for d in domain.children if d.cores & cores or d.gpus & gpus]
    if slots > 1 or len(inside) < 2 or not domain.apart:
        return place
    each = [(0, 1)] * len(domain.children)
    ideal_inside = nearest(domain, domain.children, each, (0, len(inside)))
    return attrs.evolve(
        place,
        spans=count(len(inside), inside[0].name),
        apart=farthest(domain.apart, inside),
        nearest=farthest(domain.apart, [domain.children[i] for i in ideal_inside]),
    )
