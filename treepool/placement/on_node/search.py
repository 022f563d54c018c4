"""The search: in which domains the parts of a need are met.

An amount affects the others only by its size, not by the ids it takes inside its domain. A match is
therefore a choice of domains in which no domain promises more to the scopes inside it than it has
free. Scopes nest, so this condition is sufficient (Hall's theorem for a laminar family). The search
tries the choices depth first, the preferred one first, and abandons a branch as soon as some domain
is overdrawn. If links or memory of GPUs are demanded, numbers are not enough: a match then also
needs an assignment of GPUs to slots, see gpus/assignment.py.

The search is exact: if it finds no way, there is none. It may also give up, see effort.py. It keeps
its branches on a stack of its own, so Python's recursion limit does not apply.

The file has more than 300 lines because able_domains() and the search call each other.
"""

from __future__ import annotations

from functools import partial
from typing import Iterator, Optional, Union

import attrs

from treepool.placement.effort import Effort, GaveUp
from treepool.placement.gpus.assignment import assign
from treepool.placement.gpus.graph import graph_of, is_clique
from treepool.placement.memo import remembered
from treepool.placement.nodes.tree import Domain, NodeType
from treepool.placement.on_node.domains import SuitableDomains
from treepool.placement.on_node.gpu_assignment import claims_of, demanded
from treepool.placement.on_node.ledger import Ledger, Take, how_often
from treepool.placement.on_node.levels import MAX_MEMO, asked_of, has_capacity
from treepool.placement.request.need import SLOT, Need, Part, least


@attrs.frozen(eq=False)
class _Amount:
    """To do: find ``need``'s amount in ``scope``, several times.

    ``hosts`` are the domains that may give it, None if not listed yet. Those before ``start`` have
    already given their part.
    """

    scope: Domain
    need: Need
    times: int
    slot: int
    hosts: Optional[list[Domain]] = None
    start: int = 0


@attrs.frozen(eq=False)
class _Choice:
    """To do: choose ``left`` more domains for ``part`` in ``scope``.

    ``domains`` are the domains to choose from, None if not listed yet. Those before ``start`` are
    already chosen or passed over.
    """

    scope: Domain
    part: Part
    left: int
    near: bool
    slot: int
    domains: Optional[list[Domain]] = None
    start: int = 0


@attrs.frozen(eq=False)
class _Core:
    """To do: see that ``slot``, to which only whole domains can bring a core, has one."""

    slot: int


_Task = Union[_Amount, _Choice, _Core]

#: How many domains can be listed or compared at the effort of one choice.
_LOOKS = 8

#: What is still to do, as a linked list that branches of the search share.
_Tasks = Optional[tuple[_Task, "_Tasks"]]


class Search:
    """A search for ways to meet needs on a node of *node_type* where *cores* and *gpus* are free.

    With *local*, every amount and every group of domains must sit in a domain of level 0, see
    levels.levels_of(). With *plain*, domains are tried in the order of the tree. *effort* counts
    the choices, and what it takes to list and to compare domains for them; once it is spent, the
    search raises GaveUp.
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

    def one(self, scope: Domain, part: Part) -> bool:
        """Meet *part*, its count at the minimum, in *scope*; ``takes`` then says how."""
        self.has_gpu_demand = part.need.has_gpu_demand
        return self._first(self._begin(scope, part, None))

    def meets(self, scope: Domain, need: Need) -> bool:
        """Meet *need* once in *scope*; ``takes`` then says how."""
        self.has_gpu_demand = need.has_gpu_demand
        return self._first(self._inside(scope, need, None, 0))

    def _first(self, tasks: _Tasks) -> bool:
        return next(self._ways(tasks), False)

    def several(self, scope: Domain, part: Part, count: int) -> bool:
        """Meet *count* slots of *part* in *scope*, with backtracking over earlier slots."""
        self.has_gpu_demand = part.need.has_gpu_demand
        failed: set[tuple[int, object]] = set()
        single = attrs.evolve(part, count=attrs.evolve(part.count, minimum=1, maximum=1, ids=()))
        stack = [self._ways(self._begin(scope, single, None))]
        while stack:
            if next(stack[-1], False):
                if len(stack) == count:
                    return True
                key = (len(stack), self._standing())
                if key not in failed and self.room_for(scope, part) >= count - len(stack):
                    failed.add(key)
                    stack.append(self._ways(self._begin(scope, single, None)))
            else:
                stack.pop()
        return False

    def _standing(self) -> object:
        """A value that is equal for situations in which the same needs can still be met."""
        self.effort.count(1 + len(self.ledger.cores) // _LOOKS)
        if not self.has_gpu_demand:
            return self.ledger.shape(self.node_type.root)
        slots: dict[int, list[int]] = {}
        for take in self.takes:
            slots.setdefault(take.slot, []).append(id(take.scope))
        return tuple(sorted(map(tuple, slots.values())))

    def room_for(self, scope: Domain, part: Part) -> int:
        """An upper bound of how many more slots of *part* fit in *scope*."""
        need = part.need
        self.effort.count(1 + len(self.ledger.cores) * len(need.parts) // _LOOKS)
        ncores, ngpus = least(need)
        bounds = [self._copies(scope, ncores, ngpus)] if ncores or ngpus else []
        if self.local and need.takes_amount:
            hosts = self.domains.smallest(scope, asked_of(scope, need))
            bounds.append(sum(self._copies(d, need.cores, need.gpus) for d in hosts))
        for inner in need.parts:
            if inner.name == SLOT:
                continue
            domains = self.domains.listed(scope, inner)
            if inner.whole:
                copies = len(domains)
            else:
                copies = sum(self._copies(d, *least(inner.need)) for d in domains)
            bounds.append(copies // inner.count.minimum)
        return min(bounds) if bounds else 0

    def _copies(self, domain: Domain, ncores: int, ngpus: int) -> int:
        """How often an amount is left in *domain*; MANY for an empty amount."""
        return how_often(ncores, ngpus, self.ledger.cores[domain], self.ledger.gpus_in(domain))

    # -- the search

    def _begin(self, scope: Domain, part: Part, rest: _Tasks, slot: int = 0) -> _Tasks:
        """The tasks that meet *part* in *scope* for *slot*, before *rest*."""
        if part.name != SLOT:
            # The domains of one slot must be close to each other; domains above slots need not be.
            near = all(inner.name != SLOT for inner in _all_parts(part.need))
            return _Choice(scope, part, part.count.minimum, near, slot), rest
        root = self.node_type.root
        if part.count.minimum > root.ncores + root.ngpus:  # more slots than the node can have
            return self._never(scope), rest
        if not has_capacity(self.node_type, scope, part.need):
            return self._never(scope), rest
        if not (part.need.parts or self.has_gpu_demand):  # one task for all slots
            return _Amount(scope, asked_of(scope, part.need), part.count.minimum, 0), rest
        for _ in range(part.count.minimum):
            self.slots += 1
            rest = (_Core(self.slots), rest) if part.need.with_core else rest
            rest = self._inside(scope, part.need, rest, self.slots)
        return rest

    def _inside(self, scope: Domain, need: Need, rest: _Tasks, slot: int) -> _Tasks:
        """The tasks that meet *need* in *scope* for *slot*, before *rest*: whole domains first."""
        if not has_capacity(self.node_type, scope, need):
            return self._never(scope), rest
        if need.takes_amount:
            rest = _Amount(scope, asked_of(scope, need), 1, slot), rest
        for part in sorted(need.parts, key=lambda p: p.whole):
            rest = self._begin(scope, part, rest, slot)
        return rest

    def _never(self, scope: Domain) -> _Task:
        """A task that no node can do."""
        return _Amount(scope, Need(cores=self.node_type.root.ncores + 1), 1, 0)

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
        if tasks is None:
            yield None
            return
        task, rest = tasks
        if isinstance(task, _Amount):
            yield from self._amount_ways(task, rest)
        elif isinstance(task, _Core):
            if any(take.scope.ncores for take in self.takes if take.slot == task.slot):
                yield rest
        elif task.domains is not None:
            yield from self._choice_ways(task, task.domains, rest)
        else:
            for domains in self._listed(task):
                # evolve() would take a tenth of the time of a fit.
                listed = _Choice(task.scope, task.part, task.left, task.near, task.slot, domains)
                yield from self._choice_ways(listed, domains, rest)

    def _amount_ways(self, task: _Amount, rest: _Tasks) -> Iterator[_Tasks]:
        """The ways to do *task*: the first host gives as many as it can, then one less, etc."""
        need = task.need
        hosts = self._hosts(task) if task.hosts is None else task.hosts
        copies = [self._copies(host, need.cores, need.gpus) for host in hosts]
        after = sum(copies[task.start :])
        self.effort.count(1 + len(hosts) // _LOOKS)
        for i in range(task.start, len(hosts)):
            if after < task.times:
                return
            after -= copies[i]
            if self._like_an_earlier(hosts, i, task.start):
                continue
            for times in range(min(task.times, copies[i]), max(0, task.times - after - 1), -1):
                amount = times * need.cores, times * need.gpus
                self.effort.count()
                if self.ledger.promise(hosts[i], *amount):
                    self.takes += [Take(hosts[i], need, False, task.slot)] * times
                    left = task.times - times
                    more = attrs.evolve(task, times=left, hosts=hosts, start=i + 1)
                    yield (more, rest) if left else rest
                    del self.takes[-times:]
                    self.ledger.release(hosts[i], *amount)

    def _hosts(self, task: _Amount) -> list[Domain]:
        """The domains that may give *task*'s amount, the preferred first."""
        return self.domains.smallest(task.scope, task.need) if self.local else [task.scope]

    def _choice_ways(self, task: _Choice, domains: list[Domain], rest: _Tasks) -> Iterator[_Tasks]:
        part = task.part
        for i in range(task.start, len(domains) - task.left + 1):
            if self._like_an_earlier(domains, i, task.start):
                continue
            domain = domains[i]
            after = rest
            if task.left > 1:
                after = attrs.evolve(task, left=task.left - 1, start=i + 1), rest
            self.effort.count()
            if not part.whole:
                yield self._inside(domain, part.need, after, task.slot)
            elif self.ledger.promise_whole(domain):
                self.takes.append(Take(domain, part.need, True, task.slot))
                yield after
                self.takes.pop()
                self.ledger.release_whole(domain)

    def _listed(self, task: _Choice) -> Iterator[list[Domain]]:
        """Lists of domains to choose ``left`` from; each list has the preferred domains first."""
        part, count = task.part, task.left
        self.effort.count(1 + len(self.node_type.named.get(part.name, ())) // _LOOKS)
        if self.plain:
            yield self.domains.listed(task.scope, part)
        elif count == 1 or not task.near:
            yield self.domains.singly(task.scope, part)
        else:
            yield from self.domains.groups(task.scope, part, count)

    def _assigned(self) -> bool:
        """Whether all takes can be given GPUs that meet the demand."""
        _, claims, free = claims_of(self.node_type, self.takes, self.gpus)
        graph = graph_of(self.node_type.links, demanded(self.takes))
        return assign(claims, graph, free, self.effort.count) is not None

    def _like_an_earlier(self, domains: list[Domain], i: int, start: int) -> bool:
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
        try:
            domains = node_type.named.get(part.name, ())
            return frozenset(d for d in domains if able(d, spent)), spent.tried
        except GaveUp:
            return None, spent.tried

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
        return Search(node_type, root.cores, root.gpus, effort=spent).meets(domain, need)

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


def _all_parts(need: Need) -> Iterator[Part]:
    for part in need.parts:
        yield part
        yield from _all_parts(part.need)
