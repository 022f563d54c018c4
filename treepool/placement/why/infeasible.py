"""Why a request is infeasible, in the words of the person who made it.

This module is used only for requests that an idle pool cannot serve. It reports the first number
that does not fit, and the largest available one: "no numa domain has 20 cores: the largest has 15".
"""

from __future__ import annotations

from typing import Callable, Optional, Sequence

import attrs

from treepool.errors import Code, Reason
from treepool.placement.choose.choice import members, narrowed
from treepool.placement.effort import GaveUp
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.kept import kept_cores, without_kept
from treepool.placement.nodes.state import NodeState
from treepool.placement.nodes.tree import Domain, NodeType
from treepool.placement.on_node.fit import fit
from treepool.placement.on_node.place import able_domains
from treepool.placement.request.form import Fill, Span
from treepool.placement.request.need import SLOT, Ask, Need, Part
from treepool.placement.request.slot import needs_in, without_link_demand
from treepool.placement.request.vertices import Request
from treepool.placement.why.above import why_not_above
from treepool.placement.why.shortage import links, size, why_no_amount, why_no_whole
from treepool.placement.why.unsatisfied import unsatisfied
from treepool.rfc import idset
from treepool.rfc.count import Count
from treepool.rfc.quote import amount

_ANY = Count(1, None)

#: Why a domain is not whole on an idle node.
KEPT = "the enclosing instance kept a part of each"


def why_infeasible(request: Request, inventory: Inventory) -> Reason:
    """Why an idle pool of *inventory* could not serve *request*."""
    try:
        return telling_kept(_why(request, inventory), request, inventory)
    except GaveUp:  # to find the reason takes more searches than to find that there is no way
        return Reason("together", "no way was found to have all that is asked")


def telling_kept(reason: Reason, request: Request, inventory: Inventory) -> Reason:
    """*reason*, which also says so if cores of *inventory* are kept from *request*."""
    spare = request.ask.spare
    kept = spare and any(kept_cores(t, spare) for t in inventory.node_types)
    if kept and reason.code != "constraint":
        return reason.said(f"{reason}, without the cores that are kept for jobs with GPUs")
    return reason


def _why(request: Request, inventory: Inventory, given: Optional[int] = None) -> Reason:
    """Why an idle pool of *inventory* could not serve *request*.

    *given* are the ranks (bitmask) that satisfy the constraints of its job, if these are others.
    """
    if request.same is not None and request.same.required:
        return _why_not_same(request, inventory)
    within = inventory.matching(request.constraint)
    if not within:
        which = unsatisfied(request.constraint, inventory.matching)
        return Reason("constraint", f"no node satisfies the constraints{which}")
    types = _types_for(request, inventory)
    units = {t: _units_on(t, request.ask) for t in types}
    reason = None
    if not any(units.values()):
        reason = _Node(request.ask, list(types), inventory).why()
    elif request.above:
        reason = why_not_above(request, inventory)
    if reason is not None:
        only = "counting only nodes that satisfy the constraints"
        others = inventory.ranks & ~(within if given is None else given)
        return reason.said(f"{reason}, {only}") if others else reason
    among = " that satisfy the constraints" if within != idset.EVERY else ""
    form = request.form
    if isinstance(form, Fill):
        room = sum(units[t] * count for t, count in types.items())
        unit = request.ask.group.name
        asked = f"the request asks for {_number(form.slots, unit)}"
        message = f"{asked}: all nodes{among} together have room for {room}"
        code: Code = "slots" if unit == SLOT else "domains"
        return Reason(code, message, "pool", form.least, room)
    able = sum(count for t, count in types.items() if units[t])
    if isinstance(form, Span):
        least = request.least_asks
        wanted = f"{least} nodes" if least > 1 else "1 node"
        if form.slots.minimum > 1 and form.nodes.minimum > 1:
            wanted += f" ({form.slots.minimum} slots of {form.nodes.minimum})"
    else:
        least, wanted = form.least, _number(form.nodes, "node")
    of = f"of those{among or ' in the pool'}, {able} can serve it"
    return Reason("nodes", f"the request asks for {wanted}: {of}", "pool", least, able)


def _why_not_same(request: Request, inventory: Inventory) -> Reason:
    """The reason for the member of the property family whose nodes have the most room."""
    assert request.same is not None
    family = request.same.family
    found = [narrowed(request, name) for name in members(family, inventory)]
    if not found:
        message = f"no node has a property {family}:..., and all are to have the same"
        return Reason("constraint", message, family)

    def room(one: Request) -> tuple[int, int]:
        types = _types_for(one, inventory)
        able = sum(_units_on(t, one.ask) * count for t, count in types.items())
        return able, sum(types.values())

    reason = _why(max(found, key=room), inventory, inventory.matching(request.constraint))
    return reason.said(f"on nodes of the same {family}: {reason}")


def _types_for(request: Request, inventory: Inventory) -> dict[NodeType, int]:
    """How many nodes of each type satisfy the constraints of *request*."""
    within = inventory.matching(request.constraint)
    types = {t: idset.size(ranks & within) for t, ranks in inventory.node_types.items()}
    return {without_kept(t, request.ask.spare): n for t, n in types.items() if n}


def _units_on(node_type: NodeType, ask: Ask) -> int:
    """How many units of *ask* an idle node of *node_type* hosts."""
    idle = NodeState(node_type, node_type.root.cores, node_type.root.gpus)
    found = fit(idle, attrs.evolve(ask, spare=0))  # the type is without what is kept from the job
    return 0 if found is None else len(found.steps)


class _Node:
    """The search for a part of an ask that no single node of some types can give."""

    def __init__(self, ask: Ask, types: Sequence[NodeType], inventory: Inventory) -> None:
        self.ask = ask
        self.types = types
        self.inventory = inventory

    def why(self) -> Reason:
        """Why no node can give all that is asked of one node."""
        group = self.ask.group
        one = attrs.evolve(group, count=Count(1, 1))
        if self.able(one):
            most = max(self.units(attrs.evolve(group, count=_ANY)))
            wanted = _number(group.count, group.name)
            have = f"the most that fits is {most}"
            if group.count.minimum <= most:
                have = f"none is up to {most}, the most that fits"
            code: Code = "slots" if group.name == SLOT else "domains"
            message = f"each node is to host {wanted}: {have}"
            return Reason(code, message, "node", group.count.minimum, most)
        reason = None
        if group.name == SLOT:
            reason = self.why_not(group.need, "node", lambda t: [t.root])
        else:
            reason = self.why_no_part(one, "node", lambda t: [t.root])
        if reason is None and group.whole and group.name == SLOT:
            reason = why_no_whole(group.need, "node", [(t, t.root) for t in self.types])
        if reason is None and group.need.has_gpu_demand:
            reason = self.why_not_chosen(one)
        if reason is not None:
            return reason
        if self.ask.locality == "required":
            message = "no node has a smallest domain for each slot, as locality=required asks"
            return Reason("locality", message, "node")
        return Reason(
            "together", "no way was found to have all parts of a slot on one node", "node"
        )

    def why_not_chosen(self, group: Part) -> Optional[Reason]:
        """Why no GPUs meet the demand, though there are enough GPUs without it."""
        demand = next((need.demand for need in needs_in(group.need) if need.demand), None)
        if demand is None or not self.able(
            attrs.evolve(group, need=without_link_demand(group.need))
        ):
            return None
        message = f"no way was found to have all GPUs of a slot joined by {links(demand)}"
        return Reason("links", message, "node")

    def able(self, group: Part) -> bool:
        """Whether some node can give *group* at least once."""
        return any(self.units(group))

    def units(self, group: Part) -> list[int]:
        ask = attrs.evolve(self.ask, group=group, fill=True)
        return [_units_on(t, ask) for t in self.types]

    def why_not(
        self, need: Need, where: str, scopes: Callable[[NodeType], Sequence[Domain]]
    ) -> Optional[Reason]:
        """Why none of *scopes* (*where* domains) meets *need*; None if unexplained."""
        if need.storage:
            largest = max(t.storage for t in self.types)
            if largest < need.storage:
                have = f"the largest has {size(largest)}" if largest else "none says it has any"
                message = f"no node has storage of {size(need.storage, least=True)}: {have}"
                return Reason("storage", message, "node", need.storage, largest)
        for part in need.parts:
            reason = self.why_no_part(part, where, scopes)
            if reason is not None:
                return reason
        return why_no_amount(need, where, [(t, d) for t in self.types for d in scopes(t)])

    def why_no_part(
        self, part: Part, where: str, scopes: Callable[[NodeType], Sequence[Domain]]
    ) -> Optional[Reason]:
        """Why none of *scopes* (*where* domains) has the domains that *part* asks for."""
        if part.name == SLOT:
            return self.why_not(part.need, where, scopes)
        name, kind = part.name, f"{part.name} domain"

        def inside(node_type: NodeType) -> list[Domain]:
            return [d for s in scopes(node_type) for d in s.walk() if d.name == name and d is not s]

        found = [d for t in self.types for d in inside(t)]
        if not found:
            elsewhere = any(name in t.named for t in self.types)
            gone = not elsewhere and any(name in t.localities for t in self.types)
            with_ids = " with cores or GPUs of this pool" if gone else ""
            return Reason("locality", f"no {where} has a {kind}{with_ids}", name)
        if part.whole and not any(d.whole for d in found):
            return Reason("whole", f"no {kind} is whole: {KEPT}", kind)
        able = [d for t in self.types for d in able_domains(t, part)]
        if not able:
            only = [d for d in found if d.whole or not part.whole]
            reason = self.why_not(part.need, name, lambda t: [d for d in inside(t) if d in only])
            if part.whole and not reason:
                reason = why_no_whole(
                    part.need, kind, [(t, d) for t in self.types for d in inside(t)]
                )
            if not (reason or any(d.ncores for d in found)):
                message = f"no {kind} has a core, and a slot needs one: ask for core=1 beside it"
                return Reason("cores", message, kind, 1, 0)
            none = f"no {kind} has room for what each is to give"
            return reason or Reason("together", none, kind)
        most = max(
            sum(1 for d in scope.walk() if d in able and d is not scope)
            for t in self.types
            for scope in scopes(t)
        )
        if most < part.count.minimum:
            suited = " that can give what is asked" if part.need != Need() else ""
            wanted = _number(part.count, f"{'whole ' if part.whole else ''}{kind}") + suited
            message = f"each {where} is to give {wanted}: the most that one has is {most}"
            return Reason("domains", message, name, part.count.minimum, most)
        if part.whole and not any(d.ncores for d in able):
            message = f"no {kind} has cores, and a job needs one on each of its nodes"
            return Reason("cores", message, kind, 1, 0)
        return None


def _number(count: Count, what: str) -> str:
    return amount(count.minimum, what) if count.fixed else f"{count.text()} {what}s"
