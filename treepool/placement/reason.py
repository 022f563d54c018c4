"""Why a request is infeasible, in the words of the person who made it.

Called only for requests that an idle pool does not serve. Finds the number that does not fit and
what the largest of its kind would be.
"""

from __future__ import annotations

from typing import Iterable

import attrs

from treepool.placement.fit import compute
from treepool.placement.inventory import Inventory
from treepool.placement.request import Ask, Need, Request
from treepool.placement.state import NodeState
from treepool.placement.tree import NodeType
from treepool.rfc import idset
from treepool.rfc.count import Count


def why_infeasible(request: Request, inventory: Inventory) -> str:
    """One line on why an idle pool of *inventory* could not serve *request*."""
    within = inventory.matching(request.constraint)
    if within is not None and not within:
        return "no node satisfies the constraints"
    matching = " that satisfies the constraints" if within is not None else ""
    types: dict[NodeType, int] = {}
    for node_type, ranks in inventory.node_types.items():
        count = len(ranks) if within is None else sum(1 for _ in ranks.ascending(within))
        if count:
            types[node_type] = count
    slots = {t: _slots_on(t, request.ask) for t in types}
    if not any(slots.values()):
        return _why_no_node(request.ask, list(types), matching)
    if request.nodes is None:
        room = sum(slots[t] * count for t, count in types.items())
        return f"{_asks(request.slots, 'slot')}: there is room for {room} on all nodes together"
    nodes = sum(count for t, count in types.items() if slots[t])
    if request.spans:
        wanted = f"{request.slots.minimum} x {request.nodes.minimum} = "
        wanted = f"{wanted if request.slots.minimum > 1 else ''}"
        total = request.slots.minimum * request.nodes.minimum
        return (
            f"{total} nodes are asked for"
            f"{f' ({wanted[:-3]})' if wanted else ''}: {nodes} can host what each must give"
        )
    return f"{_asks(request.nodes, 'node')}: {nodes} can host what each must give"


def _slots_on(node_type: NodeType, ask: Ask) -> int:
    """How many slots an idle node of *node_type* hosts."""
    found = compute(NodeState(node_type, node_type.root.cores, node_type.root.gpus), ask)
    return 0 if found is None else len(found.steps)


def _asks(count: Count, what: str) -> str:
    number = str(count.minimum) if count.fixed else count.text()
    return f"1 {what} is asked for" if number == "1" else f"{number} {what}s are asked for"


def _why_no_node(ask: Ask, types: list[NodeType], matching: str) -> str:
    """Why no idle node of *types* serves *ask*."""
    single = attrs.evolve(ask, slots=Count(1, 1), fill=True, locality="preferred")
    if any(_slots_on(t, single) for t in types):
        many = attrs.evolve(ask, slots=Count(1, None), fill=True, locality="preferred")
        most = max(_slots_on(t, many) for t in types)
        return (
            f"{_asks(ask.slots, 'slot')} per node: the most that one{matching} can host is {most}"
        )
    need = ask.need
    if need.domain is None:
        return _why_no_room(
            "slot", need, "node", [(t.root.cores, t.root.gpus) for t in types], matching
        )
    name, wanted = need.domain.name, need.domain.count
    found = [d for t in types for d in t.domains(name)]
    if not found:
        return f"no node{matching} has a locality named {name}"
    whole = [d for d in found if d.whole]
    if not whole:
        return f"no {name} is whole: the enclosing instance kept a part of each"
    least = Need(need.domain.min_cores, need.domain.min_gpus)
    enough = [
        d for d in whole if idset.size(d.cores) >= least.cores and idset.size(d.gpus) >= least.gpus
    ]
    if not enough:
        return _why_no_room(name, least, name, [(d.cores, d.gpus) for d in whole], matching)
    most = max(sum(d in enough for d in t.domains(name)) for t in types)
    return f"the slot asks {wanted} whole {name} domains of one node: the most on one is {most}"


def _why_no_room(
    who: str, need: Need, place: str, rooms: Iterable[tuple[int, int]], matching: str
) -> str:
    """Why none of *rooms* (cores and GPUs) holds *need*."""
    sizes = [(idset.size(cores), idset.size(gpus)) for cores, gpus in rooms]
    cores, gpus = max(s[0] for s in sizes), max(s[1] for s in sizes)
    if need.cores > cores:
        return (
            f"{who} asks {_number(need.cores, 'core')}: the largest {place}{matching} has {cores}"
        )
    if need.gpus > gpus:
        return f"{who} asks {_number(need.gpus, 'GPU')}: the largest {place}{matching} has {gpus}"
    both = f"{_number(need.cores, 'core')} and {_number(need.gpus, 'GPU')}"
    return f"no {place}{matching} has {both} together, as the {who} asks"


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
