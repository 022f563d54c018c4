"""Placing slots: how many fit in one scope of a node, and in which domains they sit.

Numbers say how many slots fit where a slot is an amount, or domains of one locality with nothing
beside them (see ``decided``); with links demanded, where it is one amount, and the GPUs are linked
in groups. They are counted, and each takes the best domains that leave enough for the others. For
other slots the number is an upper bound, and a search finds out.

An amount affects the others only by its size, not by the ids it takes inside its domain. What slots
take is therefore a choice of domains in which no domain promises more to the scopes inside it than
it has free. Scopes nest, so this condition is sufficient (Hall's theorem for a laminar family). The
search tries the choices depth first, the preferred one first, and abandons a branch as soon as some
domain is overdrawn. If links or memory of GPUs are demanded, numbers are not enough: there must
then be ids for what is chosen, see ids.py.

The search gives up when its effort is spent. It keeps its branches on a stack of its own, so
Python's recursion limit does not apply.
"""

from __future__ import annotations

from functools import partial
from typing import Callable, Collection, Iterable, Iterator, Mapping, Optional, Sequence

import attrs

from treepool.placement.effort import Effort, GaveUp, metered, remembered
from treepool.placement.gpus.graph import graph_of, is_clique
from treepool.placement.nodes.tree import Domain, NodeType
from treepool.placement.on_node.cover import nearest
from treepool.placement.on_node.ids import Ids, ids_of
from treepool.placement.on_node.ledger import Ledger, Take, how_often, rows_of
from treepool.placement.on_node.levels import (
    MAX_MEMO,
    amount_levels,
    asked_of,
    has_capacity,
    levels_of,
    usable_gpus,
)
from treepool.placement.request.need import SLOT, Need, Part, decided, least, only_amount
from treepool.rfc import idset

#: How many domains can be listed or compared at the effort of one choice.
_LOOKS = 8

#: How many domains, each the first that is left, can be taken at the effort of one choice.
_IN_A_ROW = 8


class OnNode:
    """What is left on a node of *node_type* where *cores* and *gpus* are free.

    With *local*, every amount and every group of domains must sit in a domain of level 0, see
    levels.levels_of(). With *plain*, domains come in the order of the tree. *effort* counts what it
    takes to know which domains of an idle node could give something.
    """

    def __init__(
        self, node_type: NodeType, cores: int, gpus: int, local: bool, plain: bool, effort: Effort
    ) -> None:
        self.node_type = node_type
        self.free = cores, gpus
        self.local = local
        self.plain = plain
        self.effort = effort
        self.ledger = Ledger(node_type, cores, gpus)
        #: How many domains were looked at.
        self.looks = 0

    # -- which domains

    def listed(self, scope: Domain, part: Part) -> list[Domain]:
        """The domains in *scope* that can now give *part*'s need once, in the order of the tree."""
        able, ledger = able_domains(self.node_type, part, self.effort), self.ledger
        self.effort.count(0)
        self.looks += len(able)
        ncores, ngpus = least(part.need)
        return [
            d
            for d in self.node_type.named.get(part.name, ())
            if d in able and d is not scope and scope in self.node_type.around[d]
            if (
                ledger.untouched(d)
                if part.whole
                else ledger.cores[d] >= ncores and ledger.gpus_in(d) >= ngpus
            )
        ]

    def groups(self, scope: Domain, part: Part, ordered: bool = False) -> list[list[Domain]]:
        """The domains in *scope* for *part*, divided into those that one slot may take together.

        If they are to be *ordered*, the preferred ones come first.
        """
        listed = self.listed(scope, part)
        if ordered and not self.plain:
            listed.sort(key=lambda d: self.ledger.path(d, scope))
        if not self.local or part.count.minimum == 1:
            return [listed]
        levels, members = self._group_levels(part), self._members(scope, listed)
        return [found for host, found in members.items() if levels.get(host) == 0]

    def first(self, scope: Domain, part: Part, domains: Sequence[Domain]) -> list[Domain]:
        """Those of *domains*, a group in *scope*, that a slot takes best."""
        each = part.count.minimum
        if self.plain or each == 1:
            return list(domains[:each])
        levels, members = self._group_levels(part), self._members(scope, domains)
        hosts = [d for d, found in members.items() if d in levels and len(found) >= each]
        least_level = min((levels[host] for host in hosts), default=0)
        hosts = [host for host in hosts if levels[host] == least_level]
        hosts.sort(key=lambda d: self.ledger.path(d, scope))
        return self._fewest(hosts[0], each, members) if hosts else list(domains[:each])

    def _members(self, scope: Domain, domains: Sequence[Domain]) -> dict[Domain, list[Domain]]:
        """Which of *domains* each host in *scope* has that has some."""
        members: dict[Domain, list[Domain]] = {}
        self.looks += len(domains)
        for domain in domains:
            for host in self.node_type.around[domain]:
                members.setdefault(host, []).append(domain)
                if host is scope:
                    break
        return members

    def _fewest(
        self, host: Domain, count: int, members: Mapping[Domain, Sequence[Domain]]
    ) -> list[Domain]:
        """*count* of the members of *host*, from as few and as near children of it as possible."""
        if members[host] == [host]:
            return [host]
        children = [c for c in host.children if c in members]
        children.sort(key=self.ledger.free_in)
        amounts = [(0, len(members[c])) for c in children]
        chosen: list[Domain] = []
        for i in nearest(host, children, amounts, (0, count)):
            share = min(amounts[i][1], count - len(chosen))
            chosen += self._fewest(children[i], share, members)
        return chosen

    def hosts(self, scope: Domain, need: Need) -> list[Domain]:
        """The domains that may give *need*'s amount when it is asked of *scope*."""
        if not (self.local and scope.children):
            return [scope]
        levels = amount_levels(self.node_type, need, scope, self.effort)
        within = levels if scope is self.node_type.root else scope.walk()
        return [host for host in within if levels.get(host) == 0]

    def _group_levels(self, part: Part) -> dict[Domain, int]:
        """The levels of the domains that could host *part*'s group, see levels.levels_of()."""

        def compute() -> dict[Domain, int]:
            able = able_domains(self.node_type, part, self.effort)

            def hosts(domain: Domain) -> bool:
                found = [b for b in domain.walk() if b in able]
                cored = not part.with_core or any(d.ncores for d in found)
                return cored and len(found) >= part.count.minimum

            return levels_of(self.node_type.root, hosts)

        return remembered(self.node_type.levels, MAX_MEMO, (part, "group"), compute)

    # -- how often

    def copies(self, scope: Domain, need: Need, most: int) -> int:
        """How often, up to *most*, *need* fits in *scope*; at most so often if not decided."""
        if not has_capacity(self.node_type, scope, need):
            return 0
        if need.takes_amount:
            amount = asked_of(scope, need)
            most = min(most, sum(self._amounts(host, amount) for host in self.hosts(scope, amount)))
        ncores, ngpus = least(need)
        for part in need.parts if most else ():
            groups = [self._times(group, part, most) for group in self.groups(scope, part)]
            most = min(most, sum(_slots_among(times, part, most) for times in groups))
            if part.whole and most:  # each takes at least what the smallest has
                ncores += part.count.minimum * min(d.ncores for times in groups for d in times)
                ngpus += part.count.minimum * min(d.ngpus for times in groups for d in times)
        if most and need.parts:
            left = self.ledger.cores[scope], self.ledger.gpus_in(scope)
            most = min(most, how_often(ncores, ngpus, *left))
        return most

    def _amounts(self, host: Domain, need: Need) -> int:
        """How often *need*'s amount fits in *host*, at most."""
        most, groups = self.ledger.copies(host, need), groups_of_gpus(self.node_type, need)
        if groups is not None:
            gpus = host.gpus & self.free[1] & usable_gpus(self.node_type, host, need)
            most = min(most, sum(idset.size(gpus & group) // need.gpus for group in groups))
        return most

    def _times(self, group: Iterable[Domain], part: Part, most: int) -> dict[Domain, int]:
        """How often, up to *most*, each domain of *group* can give what *part* asks of one."""
        if part.whole:
            return dict.fromkeys(group, 1)
        times = {domain: self.copies(domain, part.need, most) for domain in group}
        self.looks += 8 * len(times)
        return times

    # -- which of them

    def plan(self, scope: Domain, need: Need, number: int) -> list[Take]:
        """What *number* slots of *need* take in *scope* where numbers say that they fit."""
        amount = Take(scope, asked_of(scope, need), False)
        takes = [amount] * number if need.takes_amount else []
        for part in need.parts:
            left = number
            for group in self.groups(scope, part, ordered=True):
                given = self._shared(scope, part, group, left)
                left -= sum(given.values()) // part.count.minimum
                for domain, copies in given.items():
                    if part.whole:
                        takes += [Take(domain, part.need, True)] * copies
                    else:
                        takes += self.plan(domain, part.need, copies)
        return takes

    def _shared(
        self, scope: Domain, part: Part, group: Sequence[Domain], most: int
    ) -> dict[Domain, int]:
        """How often each domain of *group* gives to as many slots, up to *most*, as it can serve.

        Each slot takes the best of those that are left, if that leaves enough for the others:
        domains that could give to every slot that is left may be passed over only so often.
        """
        each = part.count.minimum
        given: dict[Domain, int] = {}
        if each == 1:
            for domain in group:
                if most and (domain.ncores or not part.with_core):
                    given.update(self._times([domain], part, most))
                    most -= given[domain]
            return given
        times = self._times(group, part, most)
        slots = _slots_among(times, part, most)
        if part.with_core:  # too many without a core would leave a slot without
            for domain in [d for d in times if not d.ncores][slots * (each - 1) :]:
                del times[domain]
        for left in range(slots, 0, -1):
            some = [domain for domain, most in times.items() if most]
            row = self.first(scope, part, some)
            spare = sum(min(times[d], left) for d in some) - left * each
            missed = [d for d in some if times[d] >= left and d not in row][spare:]
            row = (missed + sorted(row, key=lambda d: times[d] < left))[:each]
            for domain in row:
                times[domain] -= 1
                given[domain] = given.get(domain, 0) + 1
                if part.whole:
                    self.ledger.promise_whole(domain)
                else:
                    self.ledger.promise(domain, *least(part.need))
        return given


def _slots_among(times: Mapping[Domain, int], part: Part, most: int) -> int:
    """How many slots, at most *most*, can take domains for *part* that give so many *times*."""
    if part.with_core:
        most = min(most, sum(domain.ncores > 0 for domain in times))
    return rows_of([(number, 1) for number in times.values()], part.count.minimum, most)


#: What is still to do for a slot, as a linked list that branches of the search share. Each does
#: something in each possible way, and yields what remains to do each time.
_Tasks = Optional[tuple[Callable[["_Tasks"], Iterator["_Tasks"]], "_Tasks"]]


class Search:
    """A search for as many slots of *need* in *scope* as fit *here*, up to *most*.

    ``takes`` is what those take that it found, ``number`` their number. If links or memory of GPUs
    are demanded, ``ids`` are the ids that 1, 2, ... slots take. ``here.effort`` counts the choices,
    and what it takes to list and to compare domains for them.
    """

    def __init__(self, here: OnNode, scope: Domain, need: Need, most: int) -> None:
        self.here = here
        self.ledger = here.ledger
        self.effort = here.effort
        self.scope = scope
        self.need = need
        self.takes: list[Take] = []
        self.number = 0
        self.ids: list[Ids] = []
        #: The same of the branch where the search is; its last slot may not be complete.
        self._takes: list[Take] = []
        self._slots = 0
        try:
            most = here.copies(scope, need, most)
            here.looks = 0  # to count is arithmetic, once
            self._run(most)
        except GaveUp:
            self.effort.gave_up = True

    def _run(self, most: int) -> None:
        branches = [self._slot()]
        while branches and self.number < most:
            for tasks in branches[-1]:
                branches.append(tasks[0](tasks[1]) if tasks else self._slot())
                break
            else:
                branches.pop()

    def _slot(self) -> Iterator[_Tasks]:
        """Begin a slot when the last is complete, if there may be more slots than were found."""
        scope, need, here = self.scope, self.need, self.here
        self._count(4)
        if self._slots and not self._has_core():
            return
        found: list[Ids] = []
        if self._slots and need.has_gpu_demand:
            ids = ids_of(self._takes, here.node_type, *here.free, here.plain, self.effort)
            if ids is None:
                return
            found.append(ids)
        if self._slots > self.number:
            self.number, self.takes = self._slots, self._takes.copy()
            self.ids += found
        elif self._slots and self._slots + here.copies(scope, need, self.number) <= self.number:
            return
        self._slots += 1
        yield self._inside(scope, need, None)
        self._slots -= 1

    def _count(self, choices: int) -> None:
        """Count so many choices, and the looks at domains since the last time."""
        self.effort.count(choices + self.here.looks // _LOOKS)
        self.here.looks %= _LOOKS

    def _has_core(self) -> bool:
        """Whether the last slot has a core."""
        takes = (take for take in self._takes if take.slot == self._slots)
        return not self.need.with_core or any(take.scope.ncores for take in takes)

    def _inside(self, scope: Domain, need: Need, rest: _Tasks) -> _Tasks:
        """The tasks that meet *need* in *scope*, before *rest*: whole domains first."""
        if need.takes_amount:
            rest = partial(self._amount, scope, asked_of(scope, need)), rest
        for part in sorted(need.parts, key=lambda part: part.whole):
            rest = partial(self._domains, scope, part), rest
        return rest

    def _domains(self, scope: Domain, part: Part, rest: _Tasks) -> Iterator[_Tasks]:
        """Choose the domains in *scope* for *part*, of each group the preferred ones first."""
        self._count(2)
        for group in self.here.groups(scope, part, ordered=True):
            if len(group) >= part.count.minimum:
                first = self.here.first(scope, part, group)
                domains = list(dict.fromkeys([*first, *group]))
                yield from self._choices(part, part.count.minimum, domains, 0, rest)

    def _choices(
        self, part: Part, left: int, domains: Sequence[Domain], start: int, rest: _Tasks
    ) -> Iterator[_Tasks]:
        """Choose each of *domains* from *start* on, if enough follow it for all that are *left*."""
        ledger = self.ledger
        for i in range(start, len(domains) - left + 1):
            domain, after = domains[i], rest
            if self._is_like(domain, domains[start:i]):
                continue
            if left > 1:
                after = partial(self._choices, part, left - 1, domains, i + 1), rest
            if i > start or not left % _IN_A_ROW:
                self.effort.count()
            if not part.whole:
                yield self._inside(domain, part.need, after)
            elif ledger.promise_whole(domain):
                self._takes.append(Take(domain, part.need, True, self._slots))
                yield after
                self._takes.pop()
                ledger.release_whole(domain)

    def _amount(self, scope: Domain, need: Need, rest: _Tasks) -> Iterator[_Tasks]:
        """Take *need*'s amount from each of its hosts in *scope* in turn."""
        hosts = self.here.hosts(scope, need)
        hosts.sort(key=lambda host: self.ledger.path(host, scope))
        self.effort.count((len(hosts) + _LOOKS - 2) // _LOOKS)
        for i, host in enumerate(hosts):
            if self._is_like(host, hosts[:i]):
                continue
            self.effort.count(int(i > 0))
            if self.ledger.promise(host, need.cores, need.gpus):
                self._takes.append(Take(host, need, False, self._slots))
                yield rest
                self._takes.pop()
                self.ledger.release(host, need.cores, need.gpus)

    def _is_like(self, domain: Domain, others: Sequence[Domain]) -> bool:
        """Whether *domain* is interchangeable with a sibling among *others*, which did not do."""
        if self.need.has_gpu_demand:  # the GPUs themselves differ
            return False
        parent, shape = self.here.node_type.parent, self.ledger.shape
        siblings = [other for other in others if parent[other] is parent[domain]]
        self.effort.count(len(siblings) * (1 + len(domain.children)) // _LOOKS)
        return bool(siblings) and shape(domain) in map(shape, siblings)


@attrs.define(eq=False)
class Slots:
    """The ``number`` slots of ``need`` that fit in ``scope``; ``takes`` is what a search found.

    ``ids`` are the ids that 1, 2, ... of them take, if the search had to choose these. The
    ``local`` slots are taken first, if that leaves enough for the others.

    ``node`` is a node type, its free cores and GPUs, and how slots are placed, as for OnNode.
    """

    node: tuple[NodeType, int, int, bool, bool]
    scope: Domain
    need: Need
    number: int
    takes: Optional[Sequence[Take]] = None
    ids: Sequence[Ids] = ()
    local: Optional[Slots] = None

    def take(self, number: int) -> Ids:
        """What the first *number* slots take together."""
        if self.local is not None and self.local.number:
            if number <= self.local.number:
                return self.local.take(number)
            ids = self._take_after(self.local, number - self.local.number)
            if ids is not None:
                return ids
        if self.ids:
            return self.ids[number - 1]
        effort = Effort()
        if self.takes is None:
            takes = OnNode(*self.node, effort).plan(self.scope, self.need, number)
            if self.need.has_gpu_demand:  # only the GPUs of one slot must be joined
                takes = [attrs.evolve(take, slot=slot) for slot, take in enumerate(takes)]
        else:
            takes = [take for take in self.takes if take.slot <= number]
        node_type, cores, gpus, _, plain = self.node
        ids = ids_of(takes, node_type, cores, gpus, plain, effort)
        assert ids is not None, "more slots were counted than there are"
        return ids

    def _take_after(self, local: Slots, number: int) -> Optional[Ids]:
        """What all *local* slots and *number* others take; None if there are fewer others then."""
        node_type, cores, gpus, near, plain = self.node
        first = local.take(local.number)
        left = node_type, cores & ~first[0], gpus & ~first[1], near, plain
        others = slots_in(left, self.scope, self.need, number, Effort())
        if others.number < number:
            return None
        more = others.take(number)
        return first[0] | more[0], first[1] | more[1]


def slots_in(
    node: tuple[NodeType, int, int, bool, bool],
    scope: Domain,
    need: Need,
    most: int,
    effort: Effort,
) -> Slots:
    """The slots of *need* in *scope* of *node*, up to *most*; *effort* counts what this takes.

    Raises GaveUp if it is not known which domains of an idle node could give something.
    """
    node_type, cores, gpus, local, plain = node
    beside = need.takes_amount and bool(need.parts)
    amount = only_amount(need)
    grouped = amount is not None and groups_of_gpus(node_type, amount) is not None
    if grouped or (decided(need, local) and not (beside and node_type.root.mig)):
        if need.gpu_memory:
            gpus &= node_type.gpus_with(need.gpu_memory)
        here = OnNode(node_type, cores, gpus, local, plain, effort)
        return Slots(node, scope, need, here.copies(scope, need, most))
    part = effort.part()
    search = Search(OnNode(*node, part), scope, need, most)
    effort.add(part)
    return Slots(node, scope, need, search.number, search.takes, search.ids)


def able_domains(
    node_type: NodeType, part: Part, effort: Optional[Effort] = None
) -> frozenset[Domain]:
    """The domains of *part*'s locality that could give its need once on an idle node.

    The node type remembers them. *effort* counts what they took, once. Raises GaveUp if a search
    exceeds its bound.
    """
    root = node_type.root
    node = node_type, root.cores, root.gpus, False, False
    need, number = part.need, 1
    inner = need.parts[0] if need.parts else None
    if inner is not None and inner.name == SLOT:
        need, number = inner.need, inner.count.minimum
    #: Whether each domain is all that a slot takes, and must have a core.
    alone = part.with_core and part.count.minimum == 1

    def compute(spent: Effort) -> frozenset[Domain]:
        found = frozenset(d for d in node_type.named.get(part.name, ()) if able(d, spent))
        if spent.gave_up:
            raise GaveUp
        return found

    def able(domain: Domain, spent: Effort) -> bool:
        if alone and not domain.ncores:
            return False
        if part.whole and not (domain.whole and meets_demand(node_type, domain.gpus, need)):
            return False
        if inner is not None and inner.nslots and inner.name != SLOT:
            inside = able_domains(node_type, inner, spent) - {domain}
            return sum(domain in node_type.around[d] for d in inside) >= inner.count.minimum
        return slots_in(node, domain, need, number, spent).number >= number

    key = part.name, part.whole, alone, part.need
    return metered(node_type.able, MAX_MEMO, key, compute, effort)


def groups_of_gpus(node_type: NodeType, need: Need) -> Optional[Collection[int]]:
    """The groups of GPUs from one of which *need*'s GPUs must come; None if there are none."""
    graph = graph_of(node_type.links, need.demand) if need.gpus > 1 else None
    return None if graph is None else graph.groups


def meets_demand(node_type: NodeType, gpus: int, need: Need) -> bool:
    """Whether all *gpus* of a whole domain meet what *need* demands of them."""
    if gpus & ~node_type.gpus_with(need.gpu_memory):
        return False
    joined = graph_of(node_type.links, need.demand)
    return joined is None or is_clique(joined, gpus)
