"""The search: in which domains slots are placed that ask for several things, or for linked GPUs.

An amount affects the others only by its size, not by the ids it takes inside its domain. A match is
therefore a choice of domains in which no domain promises more to the scopes inside it than it has
free. Scopes nest, so this condition is sufficient (Hall's theorem for a laminar family). The search
tries the choices depth first, the preferred one first, and abandons a branch as soon as some domain
is overdrawn. If links or memory of GPUs are demanded, numbers are not enough: a match then also
needs an assignment of GPUs to slots, see gpus/assignment.py.

Slots are placed one after another. If they are *uniform*, that is if each takes k domains of one
locality and perhaps an amount beside them, several are placed at once: what counts then is only how
often each domain gives. The slots can be dealt out to the domains exactly if none gives more often
than there are slots, and all together give k times as often (Gale and Ryser, for equal rows). Where
that alone decides, the search never goes back.

The search is exact: if it finds no way, there is none. It may also give up, see effort.py. It keeps
its branches on a stack of its own, so Python's recursion limit does not apply.
"""

from __future__ import annotations

from functools import partial
from typing import Iterator, Mapping, Optional, Sequence, Union

import attrs

from treepool.placement.effort import Effort, GaveUp, remembered
from treepool.placement.gpus.assignment import assign
from treepool.placement.gpus.graph import graph_of, is_clique
from treepool.placement.nodes.tree import Domain, NodeType
from treepool.placement.on_node.domains import SuitableDomains
from treepool.placement.on_node.ids import claims_of, demanded
from treepool.placement.on_node.ledger import Ledger, Take, how_often
from treepool.placement.on_node.levels import MAX_MEMO, asked_of, has_capacity
from treepool.placement.request.need import SLOT, Need, Part, is_uniform, least


@attrs.frozen(eq=False)
class _Slots:
    """To do: place ``left`` slots of ``need`` in ``scope``."""

    scope: Domain
    need: Need
    left: int


@attrs.frozen(eq=False)
class _Amount:
    """To do: find ``need``'s amount in ``scope``, several times.

    ``hosts`` are the domains that may give it, None if not listed yet. Those before ``start`` have
    already given their part.
    """

    scope: Domain
    need: Need
    times: int
    slot: int = 0
    hosts: Optional[list[Domain]] = None
    start: int = 0


@attrs.frozen(eq=False)
class _Choice:
    """To do: choose the domains in ``scope`` that ``part`` asks for, for one slot."""

    scope: Domain
    part: Part
    slot: int


@attrs.frozen(eq=False)
class _Groups:
    """To do: choose the domains that ``part`` asks for, for ``left`` slots.

    Each of ``groups`` has domains that one slot may take together, the preferred first, and how
    often each can give. ``beside`` is what the slots take besides.
    """

    part: Part
    left: int
    groups: Sequence[Mapping[Domain, int]]
    beside: Optional[_Amount]


@attrs.frozen(eq=False)
class _Deal:
    """To do: have ``domains`` give what ``part`` asks of each, ``times`` times in all.

    Each gives at most as often as ``most`` says. Those before ``start`` already gave. ``beside`` is
    what must be left beside them.
    """

    part: Part
    times: int
    domains: Sequence[Domain]
    most: Sequence[int]
    slot: int = 0
    beside: Optional[_Amount] = None
    start: int = 0


@attrs.frozen(eq=False)
class _Core:
    """To do: see that ``slot``, to which only whole domains can bring a core, has one."""

    slot: int


_Task = Union[_Slots, _Amount, _Choice, _Groups, _Deal, _Core]

#: How many domains can be listed or compared at the effort of one choice.
_LOOKS = 8

#: What is still to do, as a linked list that branches of the search share.
_Tasks = Optional[tuple[_Task, "_Tasks"]]


class Search:
    """A search for ways to place slots on a node of *node_type* where *cores* and *gpus* are free.

    With *local*, every amount and every group of domains must sit in a domain of level 0, see
    levels.levels_of(). With *plain*, domains are tried in the order of the tree. *effort* counts
    the choices, and what it takes to list and to compare domains for them; once it is spent, the
    search gives up.
    """

    def __init__(
        self,
        node_type: NodeType,
        cores: int,
        gpus: int,
        local: bool = False,
        plain: bool = False,
        effort: Optional[Effort] = None,
    ) -> None:
        self.node_type = node_type
        self.ledger = Ledger(node_type, cores, gpus)
        self.effort = Effort() if effort is None else effort
        able = partial(able_domains, effort=self.effort)
        self.domains = SuitableDomains(node_type, self.ledger, local, able)
        self.gpus = gpus
        self.local = local
        self.plain = plain
        self.takes: list[Take] = []
        #: Whether links or memory are demanded of some GPUs.
        self.has_gpu_demand = False
        #: How many slots have been begun; the count numbers the slots.
        self.slots = 0

    def place(self, scope: Domain, need: Need, number: int = 1) -> Optional[list[Take]]:
        """What *number* slots of *need* in *scope* take.

        None if the search finds no way; ``effort.gave_up`` says whether there may be one.
        """
        self.has_gpu_demand = need.has_gpu_demand
        try:
            found = next(self._ways((_Slots(scope, need, number), None)), False)
        except GaveUp:
            self.effort.gave_up = True
            return None
        return self.takes if found else None

    # -- how many slots fit

    def _room(self, scope: Domain, need: Need, most: int) -> int:
        """An upper bound, at most *most*, of how many more slots of *need* fit in *scope*."""
        self.effort.count(1 + len(self.ledger.cores) * len(need.parts) // _LOOKS)
        bounds, (ncores, ngpus) = [most], least(need)
        if need.takes_amount:
            bounds.append(self._left(scope, asked_of(scope, need)))
        for part in need.parts:
            if part.name != SLOT:
                domains = self.domains.listed(scope, part)
                if part.whole and domains:  # each takes at least what the smallest has
                    ncores += part.count.minimum * min(domain.ncores for domain in domains)
                    ngpus += part.count.minimum * min(domain.ngpus for domain in domains)
                times = (min(self._times(domain, part), most) for domain in domains)
                bounds.append(sum(times) // part.count.minimum)
        return min(self._copies(scope, ncores, ngpus), *bounds)

    def _times(self, domain: Domain, part: Part) -> int:
        """At most how often *domain* can give what *part* asks of it."""
        if part.whole:
            return 1
        if part.need.parts:
            return self._copies(domain, *least(part.need))
        return self._left(domain, asked_of(domain, part.need))

    def _copies(self, domain: Domain, ncores: int, ngpus: int) -> int:
        """At most how often so much is left in *domain*, in slices of GPUs too."""
        return how_often(ncores, ngpus, self.ledger.cores[domain], self.ledger.gpus_in(domain))

    def _left(self, scope: Domain, need: Need) -> int:
        """How often *need*'s amount is left in *scope*."""
        return sum(self.ledger.copies(host, need) for host in self._hosts(scope, need))

    def _hosts(self, scope: Domain, need: Need) -> list[Domain]:
        """The domains that may give *need*'s amount when it is asked of *scope*."""
        return self.domains.smallest(scope, need) if self.local else [scope]

    # -- the search

    def _ways(self, tasks: _Tasks) -> Iterator[bool]:
        """Yield True for each way to do *tasks*; ledger and takes reflect it until the next one."""
        stack = [self._branches(tasks)]
        while stack:
            for rest in stack[-1]:
                if rest is not None:
                    stack.append(self._branches(rest))
                    break
                if not self.has_gpu_demand or self._assigned():
                    yield True
            else:
                stack.pop()

    def _branches(self, tasks: _Tasks) -> Iterator[_Tasks]:
        """Do the first of *tasks* in each possible way, and yield the remaining tasks each time."""
        assert tasks is not None
        task, rest = tasks
        if isinstance(task, _Slots):
            yield from self._slot_ways(task, rest)
        elif isinstance(task, _Groups):
            yield from self._group_ways(task, rest)
        elif isinstance(task, _Deal):
            yield from self._deal_ways(task, rest)
        elif isinstance(task, _Amount):
            yield from self._amount_ways(task, rest)
        elif isinstance(task, _Choice):
            for domains in self._listed(task):
                once = [1] * len(domains)
                yield _Deal(task.part, task.part.count.minimum, domains, once, task.slot), rest
        elif any(take.scope.ncores for take in self.takes if take.slot == task.slot):
            yield rest  # a _Core

    def _slot_ways(self, task: _Slots, rest: _Tasks) -> Iterator[_Tasks]:
        """Begin one of the slots, if so many may fit."""
        scope, need, left = task.scope, task.need, task.left
        if not has_capacity(self.node_type, scope, need):
            return
        if not (need.parts or self.has_gpu_demand):  # one task for all slots
            yield _Amount(scope, asked_of(scope, need), left), rest
            return
        if left > 1 and self._room(scope, need, left) < left:
            return
        if left > 1 and is_uniform(need):
            yield self._together(scope, need, left, rest)
            return
        self.slots += 1
        after = (attrs.evolve(task, left=left - 1), rest) if left > 1 else rest
        after = (_Core(self.slots), after) if need.with_core else after
        yield self._inside(scope, need, after, self.slots)

    def _together(self, scope: Domain, need: Need, number: int, rest: _Tasks) -> _Tasks:
        """The tasks that place *number* uniform slots of *need* at once, before *rest*."""
        (part,), beside = need.parts, None
        if need.takes_amount:
            beside = _Amount(scope, asked_of(scope, need), number)
            rest = beside, rest
        domains = self.domains.listed if self.plain else self.domains.singly
        groups = self.domains.grouped(scope, part, domains(scope, part))
        times = [{d: self._times(d, part) for d in group} for group in groups]
        return _Groups(part, number, times, beside), rest

    def _group_ways(self, task: _Groups, rest: _Tasks) -> Iterator[_Tasks]:
        """The ways to do *task*: the first group has as many slots as it can, then one less."""
        part, left, beside = task.part, task.left, task.beside
        room = [slots_among(group, part, left) for group in task.groups]
        self.effort.count(1 + sum(map(len, task.groups)) // _LOOKS)
        for i, number in _shares(left, room, 0):
            more = attrs.evolve(task, left=left - number, groups=task.groups[i + 1 :])
            after = (more, rest) if number < left else rest
            domains = _with_cores(task.groups[i], part, number)
            most = [min(copies, number) for copies in domains.values()]
            times = number * part.count.minimum
            yield _Deal(part, times, list(domains), most, beside=beside), after

    def _deal_ways(self, task: _Deal, rest: _Tasks) -> Iterator[_Tasks]:
        """The ways to do *task*: the first domain gives as often as it can, then once less, etc."""
        part, domains, beside = task.part, task.domains, task.beside
        if beside is not None:
            self.effort.count(1 + len(domains) // _LOOKS)
            if self._left(beside.scope, beside.need) < beside.times:
                return
        for i, times in _shares(task.times, task.most, task.start):
            if self._like_an_earlier(domains, i, task.start):
                continue
            domain, left = domains[i], task.times - times
            after = (attrs.evolve(task, times=left, start=i + 1), rest) if left else rest
            self.effort.count()
            if times > 1:
                yield _Amount(domain, asked_of(domain, part.need), times), after
            elif not part.whole:
                yield self._inside(domain, part.need, after, task.slot)
            elif self.ledger.promise_whole(domain):
                self.takes.append(Take(domain, part.need, True, task.slot))
                yield after
                self.takes.pop()
                self.ledger.release_whole(domain)

    def _inside(self, scope: Domain, need: Need, rest: _Tasks, slot: int) -> _Tasks:
        """The tasks that meet *need* in *scope* for *slot*, before *rest*: whole domains first."""
        if need.takes_amount:
            rest = _Amount(scope, asked_of(scope, need), 1, slot), rest
        for part in sorted(need.parts, key=lambda p: p.whole):
            if part.name == SLOT:
                rest = _Slots(scope, part.need, part.count.minimum), rest
            else:
                rest = _Choice(scope, part, slot), rest
        return rest

    def _amount_ways(self, task: _Amount, rest: _Tasks) -> Iterator[_Tasks]:
        """The ways to do *task*: the first host gives as many as it can, then one less, etc."""
        need = task.need
        hosts = task.hosts
        if hosts is None:
            hosts = sorted(
                self._hosts(task.scope, need), key=lambda d: self.domains.path(d, task.scope)
            )
        copies = [self.ledger.copies(host, need) for host in hosts]
        self.effort.count(1 + len(hosts) // _LOOKS)
        for i, times in _shares(task.times, copies, task.start):
            if self._like_an_earlier(hosts, i, task.start):
                continue
            amount = times * need.cores, times * need.gpus
            self.effort.count()
            if self.ledger.promise(hosts[i], *amount):
                self.takes += [Take(hosts[i], need, False, task.slot)] * times
                left, after = task.times - times, rest
                if left:
                    after = attrs.evolve(task, times=left, hosts=hosts, start=i + 1), rest
                yield after
                del self.takes[-times:]
                self.ledger.release(hosts[i], *amount)

    def _listed(self, task: _Choice) -> Iterator[list[Domain]]:
        """Lists of domains to choose from; each list has the preferred domains first."""
        part, count = task.part, task.part.count.minimum
        self.effort.count(1 + len(self.node_type.named.get(part.name, ())) // _LOOKS)
        if self.plain:
            yield self.domains.listed(task.scope, part)
        elif count == 1:
            yield self.domains.singly(task.scope, part)
        else:
            yield from self.domains.groups(task.scope, part, count)

    def _assigned(self) -> bool:
        """Whether all takes can be given GPUs that meet the demand."""
        _, claims, free = claims_of(self.node_type, self.takes, self.gpus)
        graph = graph_of(self.node_type.links, demanded(self.takes))
        return assign(claims, graph, free, self.effort.count) is not None

    def _like_an_earlier(self, domains: Sequence[Domain], i: int, start: int) -> bool:
        """True if domains[i] is identical in shape to a sibling that was passed over before it."""
        if i == start or self.has_gpu_demand:  # with a demand, the GPUs themselves differ
            return False
        domain, compared, alike = domains[i], 0, False
        parent, shape = self.node_type.parent[domain], None
        for other in domains[start:i]:
            if self.node_type.parent[other] is parent:
                compared += 1
                shape = shape or self.ledger.shape(domain)
                alike = self.ledger.shape(other) == shape
                if alike:
                    break
        self.effort.count(compared * (1 + len(domain.children)) // _LOOKS)
        return alike


def _shares(times: int, most: Sequence[int], start: int) -> Iterator[tuple[int, int]]:
    """Who gives next, from *start* on, and how often, so that the others can give the rest."""
    after = sum(most[start:])
    for i in range(start, len(most)):
        if after < times:
            return
        after -= most[i]
        for share in range(min(times, most[i]), max(0, times - after - 1), -1):
            yield i, share


def slots_among(group: Mapping[Domain, int], part: Part, most: int) -> int:
    """How many slots, at most *most*, can take domains for *part* in *group*.

    So many slots n can just if the domains give n times as often as a slot takes, each of them at
    most n times (Gale and Ryser, for equal rows).
    """
    if part.with_core:
        most = min(most, sum(domain.ncores > 0 for domain in group))
    while True:
        slots = sum(min(times, most) for times in group.values()) // part.count.minimum
        if slots >= most:
            return most
        most = slots


def _with_cores(group: Mapping[Domain, int], part: Part, slots: int) -> Mapping[Domain, int]:
    """*group* without whole domains that would leave one of the *slots* without a core."""
    if not part.with_core:
        return group
    coreless = [domain for domain in group if not domain.ncores]
    dropped = coreless[slots * (part.count.minimum - 1) :]
    return {domain: times for domain, times in group.items() if domain not in dropped}


def able_domains(
    node_type: NodeType, part: Part, effort: Optional[Effort] = None
) -> frozenset[Domain]:
    """The domains of *part*'s locality that could give its need once on an idle node.

    The node type remembers them. *effort* counts what they took, once. Raises GaveUp if a search
    exceeds its bound.
    """
    #: Whether each domain is all that a slot takes, and must have a core.
    alone = part.with_core and part.count.minimum == 1
    key = part.name, part.whole, alone, part.need

    def compute() -> tuple[Optional[frozenset[Domain]], int]:
        spent = Effort()
        found = frozenset(d for d in node_type.named.get(part.name, ()) if able(d, spent))
        return None if spent.gave_up else found, spent.tried

    def able(domain: Domain, spent: Effort) -> bool:
        if part.whole and not domain.whole:
            return False
        if alone and not domain.ncores:
            return False
        if part.whole and not meets_demand(node_type, domain.gpus, part.need):
            return False
        need = part.need
        if not (need.parts or need.has_gpu_demand):  # a search costs as much as the node is large
            enough = domain.ncores >= need.cores and domain.ngpus >= need.gpus
            return enough and has_capacity(node_type, domain, need)
        root = node_type.root
        search = Search(node_type, root.cores, root.gpus, effort=spent)
        return search.place(domain, need) is not None

    found, units = remembered(node_type.able, MAX_MEMO, key, compute)
    if effort is not None and units and key not in effort.counted:
        effort.counted.add(key)
        effort.count(units)
    if found is None:
        raise GaveUp
    return found


def meets_demand(node_type: NodeType, gpus: int, need: Need) -> bool:
    """Whether all *gpus* of a whole domain meet what *need* demands of them."""
    if gpus & ~node_type.gpus_with(need.gpu_memory):
        return False
    joined = graph_of(node_type.links, need.demand)
    return joined is None or is_clique(joined, gpus)
