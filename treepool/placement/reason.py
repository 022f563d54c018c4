"""Why a request is infeasible, in the words of the person who made it.

Called only for requests that an idle pool does not serve. Finds the first number that does not
fit and what the largest of its kind would be: "no numa domain has 20 cores: the largest has 15".
"""

from __future__ import annotations

from typing import Callable, Optional, Sequence

import attrs

from treepool.placement.alike import members, narrowed
from treepool.placement.fit import compute
from treepool.placement.inventory import Inventory
from treepool.placement.match import able_domains
from treepool.placement.need import SLOT, Ask, Need, Part
from treepool.placement.request import Request
from treepool.placement.state import NodeState
from treepool.placement.tree import Domain, NodeType
from treepool.rfc.count import Count

_ANY = Count(1, None)


def why_infeasible(request: Request, inventory: Inventory) -> str:
    """One line on why an idle pool of *inventory* could not serve *request*."""
    if request.same is not None:
        return _why_not_alike(request, inventory)
    within = inventory.matching(request.constraint)
    if within is not None and not within:
        return "no node satisfies the constraints"
    types: dict[NodeType, int] = {}
    for node_type, ranks in inventory.node_types.items():
        count = len(ranks) if within is None else sum(1 for _ in ranks.ascending(within))
        if count:
            types[node_type] = count
    units = {t: _units_on(t, request.ask) for t in types}
    among = " that satisfy the constraints" if within is not None else ""
    if not any(units.values()):
        return _Node(request.ask, list(types), inventory).why()
    if request.nodes is None:
        room = sum(units[t] * count for t, count in types.items())
        unit = request.ask.group.name
        return (
            f"the request asks {_number(request.units, unit)}:"
            f" all nodes{among} together have room for {room}"
        )
    able = sum(count for t, count in types.items() if units[t])
    if request.spans:
        least = request.units.minimum * request.nodes.minimum
        wanted = f"{least} nodes" if least > 1 else "1 node"
        if request.units.minimum > 1 and request.nodes.minimum > 1:
            wanted += f" ({request.units.minimum} slots of {request.nodes.minimum})"
    else:
        wanted = _number(request.nodes, "node")
    return f"the request asks {wanted}: of those{among or ' in the pool'}, {able} can serve it"


def _why_not_alike(request: Request, inventory: Inventory) -> str:
    """The reason that holds for the largest set of nodes that are alike."""
    assert request.same is not None
    family = request.same.family
    found = [narrowed(request, name) for name in members(family, inventory)]
    if not found:
        return f"no node has a property {family}:..., and all are to have the same"
    sizes = [len(inventory.matching(r.constraint) or ()) for r in found]
    largest = found[max(range(len(found)), key=lambda i: sizes[i])]
    return f"on nodes of the same {family}: {why_infeasible(largest, inventory)}"


def _units_on(node_type: NodeType, ask: Ask) -> int:
    """How many units of *ask* an idle node of *node_type* hosts."""
    found = compute(NodeState(node_type, node_type.root.cores, node_type.root.gpus), ask)
    return 0 if found is None else len(found.steps)


class _Node:
    """The search for what no single node of some types can give."""

    def __init__(self, ask: Ask, types: Sequence[NodeType], inventory: Inventory) -> None:
        self.ask = ask
        self.types = types
        self.inventory = inventory

    def why(self) -> str:
        """Why no node can give what is asked of one node."""
        group = self.ask.group
        one = attrs.evolve(group, count=Count(1, 1))
        if self.able(one):
            most = max(self.units(attrs.evolve(group, count=_ANY)))
            wanted = _number(group.count, group.name)
            if group.count.minimum > most:
                return f"each node is to host {wanted}: the most that fits is {most}"
            return f"each node is to host {wanted}: none is up to {most}, the most that fits"
        reason = None
        if group.name == SLOT:
            reason = self.why_not(group.need, "node", lambda t: [t.root])
        else:
            reason = self.why_no_part(one, "node", lambda t: [t.root])
        if reason is not None:
            return reason
        if self.ask.locality == "required":
            return "no node has a smallest domain for each slot, as locality=required asks"
        return "no way was found to have all parts of a slot on one node"

    def able(self, group: Part) -> bool:
        """Whether some node can give *group*, its count at the minimum, whatever the locality."""
        return any(self.units(group))

    def units(self, group: Part) -> list[int]:
        ask = attrs.evolve(self.ask, group=group, fill=True)
        return [_units_on(t, ask) for t in self.types]

    def why_not(
        self, need: Need, where: str, scopes: Callable[[NodeType], Sequence[Domain]]
    ) -> Optional[str]:
        """Why no scope, each a domain of *where*, meets *need*; None if no single part tells."""
        if need.storage:
            largest = max(t.storage for t in self.types)
            if largest < need.storage:
                have = f"the largest has {_bytes(largest)}" if largest else "none says it has any"
                return f"no node has storage of {_bytes(need.storage)}: {have}"
        for part in need.parts:
            reason = self.why_no_part(part, where, scopes)
            if reason is not None:
                return reason
        return self.why_no_amount(need, where, [d for t in self.types for d in scopes(t)])

    def why_no_part(
        self, part: Part, where: str, scopes: Callable[[NodeType], Sequence[Domain]]
    ) -> Optional[str]:
        """Why no scope has the domains that *part* asks."""
        if part.name == SLOT:
            return self.why_not(part.need, where, scopes)
        name = part.name

        def inside(node_type: NodeType) -> list[Domain]:
            return [d for s in scopes(node_type) for d in s.walk() if d.name == name]

        found = [d for t in self.types for d in inside(t)]
        if not found:
            if any(name in t.localities for t in self.types):
                return f"no {where} has a {name} domain with cores or GPUs of this pool"
            return f"no {where} has a {name} domain"
        if part.whole and not any(d.whole for d in found):
            return f"no {name} domain is whole: the enclosing instance kept a part of each"
        able = [d for t in self.types for d in able_domains(t, part)]
        if not able:
            only = [d for d in found if d.whole or not part.whole]
            reason = self.why_not(part.need, name, lambda t: [d for d in inside(t) if d in only])
            return reason or f"no {name} domain has room for what each is to give"
        most = max(
            sum(1 for d in scope.walk() if d in able) for t in self.types for scope in scopes(t)
        )
        if most < part.count.minimum:
            kind = "whole " if part.whole else ""
            suited = " that can give what is asked" if part.need != Need() else ""
            wanted = _number(part.count, f"{kind}{name} domain")
            return f"each {where} is to give {wanted}{suited}: the most that one has is {most}"
        if part.whole and not any(d.ncores for d in able):
            return f"no {name} domain has cores, and a job needs one on each of its nodes"
        return None

    def why_no_amount(self, need: Need, where: str, scopes: Sequence[Domain]) -> Optional[str]:
        """Why none of *scopes* has *need*'s amount."""
        place = where if where == "node" else f"{where} domain"
        sizes = (
            ("core", need.cores, max(d.ncores for d in scopes)),
            ("GPU", need.gpus, max(d.ngpus for d in scopes)),
        )
        for what, wanted, largest in sizes:
            if wanted > largest:
                return f"no {place} has {_amount(wanted, what)}: the largest has {largest}"
        memory = max(d.memory for d in scopes)
        if need.memory > memory:
            have = f"the largest has {_bytes(memory)}" if memory else "none says how much it has"
            return f"no {place} has {_bytes(need.memory)} of memory: {have}"
        enough = (
            d.ncores >= need.cores and d.ngpus >= need.gpus and d.memory >= need.memory
            for d in scopes
        )
        if any(enough):
            return None
        asked = [_amount(n, what) for what, n, _ in sizes if n]
        asked += [f"{_bytes(need.memory)} of memory"] if need.memory else []
        return f"no {place} has {' and '.join(asked)} together"


def _number(count: Count, what: str) -> str:
    return _amount(count.minimum, what) if count.fixed else f"{count.text()} {what}s"


def _amount(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _bytes(amount: int) -> str:
    """An amount in the largest binary unit that leaves a number of 1 or more."""
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
    exponent = max(0, min(len(units) - 1, (amount.bit_length() - 1) // 10))
    text = f"{amount / (1 << 10 * exponent):.1f}"
    return f"{text[:-2] if text.endswith('.0') else text} {units[exponent]}"
