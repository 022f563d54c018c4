"""The layout: how many slots fit when each needs domains of one locality, by arithmetic alone.

A slot needs ``k`` distinct domains of a locality, an amount or all of each, and perhaps one other
amount from anywhere. For n slots, a layout says how many times each domain gives, and how many of
the other amounts each host gives. Slots can be dealt out to the domains exactly when no domain
gives more than n times and all domains together give n * k times (Gale and Ryser, for equal rows).
No search is needed: a domain counts min(copies in it, n) times.

With ``local``, the domains of a slot sit in one *group* (a domain of level 0 for k of them). What
each domain gives comes from one *point* in it (a domain of level 0 for that amount). The other
amount comes from one *host* (a domain of level 0 for it); see levels.levels_of(). Groups do not
overlap, nor do points, nor hosts. The best layout can therefore be computed from the leaves up: for
each number of slots with their domains in a subtree, the most other amounts that still fit there.
"""

from __future__ import annotations

from functools import partial
from typing import Callable, Iterable, Optional, Sequence

import attrs

from treepool.placement.nodes.tree import Domain, NodeType
from treepool.placement.on_node.domains import SuitableDomains
from treepool.placement.on_node.ledger import Ledger, Take, how_often
from treepool.placement.on_node.levels import asked_of
from treepool.placement.on_node.loads import Load, Loads, Table, flat, together
from treepool.placement.request.need import Need, Part

_UNFIT = "that many slots do not fit"

#: For each domain: the points in it, and how often each can give.
_Points = Sequence[tuple[Domain, Iterable[tuple[Domain, int]]]]


class Layout:
    """The layouts of slots of *need* in *scope*, out of the free *cores* and *gpus* of a node.

    *able* says which domains of an idle node could give what a part asks of each. ``applies`` is
    False where arithmetic cannot decide and a search is needed.
    """

    def __init__(
        self,
        node_type: NodeType,
        cores: int,
        gpus: int,
        scope: Domain,
        need: Need,
        local: bool,
        able: Callable[[NodeType, Part], frozenset[Domain]],
    ) -> None:
        (part,) = need.parts
        self.node_type = node_type
        self.free = cores, gpus
        self.ledger = Ledger(node_type, cores, gpus)
        self.scope = scope
        self.need = asked_of(scope, need)
        self.part = part
        self.wanted = part.count.minimum
        self.domains = SuitableDomains(node_type, self.ledger, local, able)
        #: The domains that may give, the preferred ones first.
        self.order = self.domains.singly(scope, part)
        #: For each domain: the points in it (or itself), and how often each can give. ``copies``
        #: has the sum for each domain.
        self.points = {d: self._points(d, local) for d in self.order}
        self.copies = {d: sum(points.values()) for d, points in self.points.items()}
        self.domain_of = {p: d for d, points in self.points.items() for p in points}
        self.groups = self._groups(local)
        self.hosts = self._hosts(local)
        self.applies = self._applies()
        #: The domains on the paths from the root to those that give.
        self.on_the_way: set[Domain] = set()
        for domain in (*self.order, *self.domain_of, *self.groups, *self.hosts):
            self.on_the_way.update(node_type.around[domain])

    # -- points, groups and hosts

    def _points(self, domain: Domain, local: bool) -> dict[Domain, int]:
        """The points in *domain* where the part may be met, and how often."""
        if self.part.whole:
            return {domain: 1}
        need = asked_of(domain, self.part.need)
        points = self.domains.smallest(domain, need) if local else [domain]
        cores, gpus = self.ledger.cores, self.ledger.gpus
        return {
            point: how_often(need.cores, need.gpus, cores[point], gpus[point]) for point in points
        }

    def _groups(self, local: bool) -> dict[Domain, list[Domain]]:
        """For each domain that a slot's domains may share: the domains to choose from in it."""
        if not local or self.wanted == 1:
            return {self.scope: self.order} if len(self.order) >= self.wanted else {}
        levels = self.domains.group_levels(self.part)
        groups: dict[Domain, list[Domain]] = {}
        for domain in self.order:
            around = self.node_type.around[domain]
            inside = around[: around.index(self.scope) + 1]
            group = next((at for at in inside if levels.get(at) == 0), None)
            if group is not None:
                groups.setdefault(group, []).append(domain)
        return groups

    def _hosts(self, local: bool) -> list[Domain]:
        """The domains that may give the other amount."""
        if not self.need.takes_amount:
            return []
        return self.domains.smallest(self.scope, self.need) if local else [self.scope]

    def _applies(self) -> bool:
        """Whether domains are equal in size, or no other amount is asked.

        No two of them overlap, as no locality is inside itself: the reader of keys refuses that.
        """
        if not self.need.takes_amount:
            return True
        one_realm = not self.node_type.root.mig
        return one_realm and (
            not self.part.whole or len({(d.ncores, d.ngpus) for d in self.order}) < 2
        )

    # -- how many slots

    def takes(self, count: int) -> Optional[list[Take]]:
        """The takes of *count* slots, None if that many do not fit."""
        loads = self._loads(count)
        if loads is None:
            return None
        ledger = Ledger(self.node_type, *self.free)
        takes = []
        for load in loads:
            each = self.part.need
            if not self.part.whole:
                each = asked_of(self.domain_of[load.point], each)
            takes += [Take(load.point, each, self.part.whole)] * load.times
            if self.part.whole:
                kept = ledger.promise_whole(load.point)
            else:
                kept = ledger.promise(load.point, load.times * each.cores, load.times * each.gpus)
            assert kept, _UNFIT
        beside = attrs.evolve(self.need, parts=())
        left = count if self.need.takes_amount else 0
        for host in self.hosts:
            while left and ledger.promise(host, self.need.cores, self.need.gpus):
                takes.append(Take(host, beside, False))
                left -= 1
        assert not left, _UNFIT
        return takes

    def _loads(self, count: int) -> Optional[list[Load]]:
        """How often each domain gives for *count* slots; None if that many do not fit."""
        if sum(self._capacity(domains, count) for domains in self.groups.values()) < count:
            return None
        if not self.need.takes_amount:
            return list(flat(self._in_order(self.groups.values(), count)))
        if self.scope in self.groups:
            index = count * self.wanted
            table = self._by_times(self.scope, count, index)
        else:
            index = count
            table = self._by_slots(self.scope, count)
        found = table[index] if len(table) > index else None
        return None if found is None or found[0] < count else list(flat(found[1]))

    def _capacity(self, domains: list[Domain], upto: int) -> int:
        """How many slots, at most *upto*, can have their domains among *domains*."""
        low, high = 0, upto
        if self.part.with_core:
            high = min(upto, sum(d.ncores > 0 for d in domains))
        while low < high:
            middle = (low + high + 1) // 2
            given = sum(min(self.copies[d], middle) for d in domains)
            if given >= middle * self.wanted:
                low = middle
            else:
                high = middle - 1
        return low

    def _in_order(self, groups: Iterable[list[Domain]], count: int) -> Loads:
        """Loads for *count* slots, which must fit: group by group, domain by domain."""
        loads: Loads = None
        for domains in groups:
            slots = self._capacity(domains, count)
            count -= slots
            if self.part.with_core:
                domains = _leaving_cores(domains, slots * (self.wanted - 1))
            loads = loads, self._fill(domains, slots, slots * self.wanted)
        return loads

    def _fill(self, domains: list[Domain], each: int, times: int) -> Loads:
        """Loads of *times* in total, at most *each* per domain, from the first of *domains* on."""
        points = [(d, self.points[d].items()) for d in domains]
        return self._fill_points(points, each, times)

    def _fill_points(self, points: _Points, each: int, times: int) -> Loads:
        """Loads of *times* in total, at most *each* per domain, from the first of *points* on."""
        loads: Loads = None
        for _, inside in points:
            left = min(each, times)
            for point, copies in inside:
                given = min(copies, left)
                left, times = left - given, times - given
                if given:
                    loads = loads, Load(point, given)
        return loads

    # -- layouts with another amount

    def _by_slots(self, domain: Domain, upto: int) -> Table:
        """The table of *domain*, indexed by the number of slots whose groups are in it."""
        if domain in self.groups:
            table: Table = []
            for slots in range(upto + 1):
                inside = self._by_times(domain, slots, slots * self.wanted)
                enough = len(inside) > slots * self.wanted
                table.append(inside[slots * self.wanted] if enough else None)
            return table
        if domain in self.hosts:
            groups = [g for d, g in self.groups.items() if self.domains.within(d, domain)]
            room = sum(self._capacity(group, upto) for group in groups)
            return [
                (self._beside(domain, slots * self.wanted), partial(self._in_order, groups, slots))
                for slots in range(min(room, upto) + 1)
            ]
        return self._children(domain, upto, lambda child: self._by_slots(child, upto))

    def _by_times(self, domain: Domain, slots: int, upto: int) -> Table:
        """The table of *domain* in a group, by how often domains in it give to *slots* slots."""
        if domain in self.domain_of:
            most = sum(self._beside(d, 0) for d in self.hosts if self.domains.within(d, domain))
            copies = self.points[self.domain_of[domain]][domain]
            return [
                (min(most, self._beside(domain, times)), Load(domain, times) if times else None)
                for times in range(min(copies, slots, upto) + 1)
            ]
        if domain in self.hosts:
            inside = self._points_in(domain)
            room = sum(min(sum(copies for _, copies in points), slots) for _, points in inside)
            return [
                (self._beside(domain, times), partial(self._fill_points, inside, slots, times))
                for times in range(min(room, upto) + 1)
            ]
        upto = min(upto, slots) if domain in self.copies else upto
        return self._children(domain, upto, lambda child: self._by_times(child, slots, upto))

    def _children(self, domain: Domain, upto: int, table_of: Callable[[Domain], Table]) -> Table:
        """The combined table of the children of *domain*, up to index *upto*."""
        table: Table = [(0, None)]
        for child in domain.children:
            if child in self.on_the_way:
                table = together(table, table_of(child), upto)
        return table

    def _points_in(self, scope: Domain) -> _Points:
        """The points in *scope*, grouped by the domains that they are in."""
        found = []
        for domain in self.order:
            points = [p for p in self.points[domain].items() if self.domains.within(p[0], scope)]
            if points:
                found.append((domain, points))
        return found

    def _beside(self, domain: Domain, times: int) -> int:
        """How many of the other amounts fit in *domain* when domains in it give *times* times."""
        cores, gpus = self.ledger.cores[domain], self.ledger.gpus[domain]
        if times:
            each = self.part.need
            first = self.order[0]
            unit = (first.ncores, first.ngpus) if self.part.whole else (each.cores, each.gpus)
            cores, gpus = cores - times * unit[0], gpus - times * unit[1]
        return how_often(self.need.cores, self.need.gpus, cores, gpus)


def _leaving_cores(domains: list[Domain], most: int) -> list[Domain]:
    """*domains* with only the first *most* of those that have no cores."""
    coreless = [d for d in domains if not d.ncores]
    dropped = set(coreless[most:])
    return [d for d in domains if d not in dropped]
