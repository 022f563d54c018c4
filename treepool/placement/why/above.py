"""Why no domains above the nodes can serve a request: the first number that does not fit.

For example "no switch has 9 nodes: the largest has 8", or "the request asks for 20 nodes in 2
switch domains at most: those with the most have 16, and it needs 3".
"""

from __future__ import annotations

from typing import Optional

from treepool.errors import Code, Reason
from treepool.placement.choose.choice import Situation
from treepool.placement.choose.policy import BestFit
from treepool.placement.choose.spread import Spread
from treepool.placement.nodes.fabric_tree import ROOT
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.request.form import Fill
from treepool.placement.request.vertices import Request
from treepool.placement.why.shortage import plural


def why_not_above(request: Request, inventory: Inventory) -> Reason:
    """Why the domains of an idle pool cannot serve *request*, though nodes can."""
    names = [level.name for level in request.levels if not level.groups]
    if request.at_most is not None:
        names.append(request.at_most.locality)
    fabric = inventory.fabric
    missing = [name for name in names if fabric is None or name not in fabric.locality]
    if missing or fabric is None:
        return Reason("locality", f"no node is in a {missing[0]}", missing[0])
    idle = Situation(inventory, inventory.idle_index, BestFit())
    why = _Why(request, idle.spread(request))
    for depth in reversed(range(len(request.levels) + 1)):
        if depth and request.levels[depth - 1].groups:
            continue
        name = request.levels[depth - 1].name if depth else ""
        reason = why.why_not(name, depth)
        if reason is not None:
            return reason
    message = "no way was found to have all that is asked of the domains above the nodes"
    return Reason("together", message)


class _Why:
    """What is missing in the domains of a request's levels."""

    def __init__(self, request: Request, spread: Spread) -> None:
        self.request = request
        self.spread = spread
        self.fabric = spread.fabric

    def why_not(self, name: str, depth: int) -> Optional[Reason]:
        """Why no domain called *name*, or the pool, can give the levels from *depth* on.

        None if one can.
        """
        spread = self.spread
        domains = self.fabric.named_in(ROOT, name) if name else [ROOT]
        if any(spread.copies(domain, depth) for domain in domains):
            return None
        where, whole = f"no {name}" if name else "the pool", False
        if depth < len(self.request.levels):
            wanted, what, rooms = self.named(depth, domains)
            code: Code = "domains"
        else:
            whole = bool(self.request.levels) and self.request.levels[-1].whole
            wanted, what, rooms = self.nodes(domains)
            code = "slots" if isinstance(self.request.form, Fill) else "nodes"
        if whole and max(rooms) >= wanted:
            message = f"{where} can be taken whole: some of its nodes cannot serve it"
            return Reason("whole", message, name)
        has = "has" if "node" in what or "domain" in what else "has room for"
        few, at_most = spread.rooms.few, self.request.at_most
        if at_most is not None and max(rooms) >= wanted:
            most, kind = max(few(domain).number for domain in domains), f"{at_most.locality} domain"
            limit = f"in {at_most.domains} {plural(at_most.domains, kind)} at most"
            limit += ", balanced" if at_most.balanced else ""
            message = f"{where} {has} {wanted} {what} {limit}: the most that one {has} is {most}"
            if not name:
                asked = f"the request asks for {wanted} {what} {limit}"
                have = has.replace("has", "have")
                message = f"{asked}: those with the most {have} {most}{self.needed()}"
            return Reason(code, message, name or at_most.locality, wanted, most)
        message = f"the request asks for {wanted} {what}: {where} {has} {max(rooms)}"
        if name:
            message = f"{where} {has} {wanted} {what}: the largest {has} {max(rooms)}"
        return Reason(code, message, name or "pool", wanted, max(rooms))

    def needed(self) -> str:
        """How many domains of the limited locality the request needs, if there are so many."""
        units, at_most, left = self.spread.rooms.units, self.request.at_most, self.spread.rooms.each
        assert at_most is not None
        if at_most.balanced:
            return ""
        rooms = (units(d).number for d in self.fabric.named_in(ROOT, at_most.locality))
        for number, room in enumerate(sorted(rooms, reverse=True), 1):
            left -= room
            if left <= 0:
                return f", and it needs {number}"
        return ""

    def named(self, depth: int, domains: list[int]) -> tuple[int, str, list[int]]:
        """What the level at *depth* asks of each of *domains*, and how much of it each has."""
        spread, level = self.spread, self.request.levels[depth]
        wanted = level.count.minimum
        if level.groups:
            return (
                wanted,
                plural(wanted, level.name),
                [spread.copies(d, depth + 1) for d in domains],
            )
        rooms = [
            sum(
                spread.copies(inner, depth + 1) > 0
                for inner in self.fabric.named_in(domain, level.name)
            )
            for domain in domains
        ]
        alone = all(spread.copies(i, depth + 1) for i in self.fabric.named_in(ROOT, level.name))
        suited = "" if alone else " that can give what is asked"
        return wanted, f"{plural(wanted, f'{level.name} domain')}{suited}", rooms

    def nodes(self, domains: list[int]) -> tuple[int, str, list[int]]:
        """The nodes or units that each innermost domain is to give, and how many each has."""
        spread = self.spread
        rooms = [spread.rooms.units(domain).number for domain in domains]
        if isinstance(self.request.form, Fill):
            return spread.rooms.each, plural(spread.rooms.each, self.request.ask.group.name), rooms
        sizes = [sum(1 for _ in spread.fabric.ranks_in(domain)) for domain in domains]
        suited = " that can serve it" if max(sizes) > max(rooms) else ""
        return spread.rooms.each, f"{plural(spread.rooms.each, 'node')}{suited}", rooms
