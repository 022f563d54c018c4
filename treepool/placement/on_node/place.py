"""The search: in which domains slots are placed that ask for several things, or for linked GPUs.

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
from typing import Callable, Iterator, Optional, Sequence, Union

import attrs

from treepool.placement.effort import Effort, GaveUp, metered, remembered
from treepool.placement.gpus.graph import graph_of, is_clique
from treepool.placement.nodes.tree import Domain, NodeType
from treepool.placement.on_node.cover import nearest
from treepool.placement.on_node.ids import ids_of
from treepool.placement.on_node.ledger import Ledger, Take, how_often
from treepool.placement.on_node.levels import (
    MAX_MEMO,
    amount_levels,
    asked_of,
    has_capacity,
    levels_of,
)
from treepool.placement.request.need import SLOT, Need, Part, is_apart, least

#: How many domains can be listed or compared at the effort of one choice.
_LOOKS = 8

#: How many domains, each the first that is left, can be taken at the effort of one choice.
_IN_A_ROW = 8


@attrs.frozen(eq=False)
class _Slots:
    """To do: place ``left`` slots of ``need`` in ``scope``."""

    scope: Domain
    need: Need
    left: int


@attrs.frozen(eq=False)
class _Amount:
    """To do: find ``need``'s amount in ``scope``."""

    scope: Domain
    need: Need
    slot: int


@attrs.frozen(eq=False)
class _Choice:
    """To do: choose ``left`` domains in ``scope`` for ``part``, for one slot.

    They are among the ``domains`` from ``start`` on, once these are listed.
    """

    scope: Domain
    part: Part
    slot: int
    left: int
    domains: Optional[Sequence[Domain]] = None
    start: int = 0


@attrs.frozen(eq=False)
class _Core:
    """To do: see that ``slot``, to which only whole domains can bring a core, has one."""

    slot: int


#: What is still to do, as a linked list that branches of the search share.
_Tasks = Optional[tuple[Union[_Slots, _Amount, _Choice, _Core], "_Tasks"]]


class Suitable:
    """Which domains can give what is asked of them now, and which of them are preferred.

    That is on a node of *node_type* where *cores* and *gpus* are free. With *local*, groups of
    domains sit in a domain of level 0, see levels.levels_of(). *effort* counts what it takes to
    know which domains of an idle node could.
    """

    def __init__(
        self, node_type: NodeType, cores: int, gpus: int, local: bool, effort: Effort
    ) -> None:
        self.node_type = node_type
        self.ledger = Ledger(node_type, cores, gpus)
        self.local = local
        self.able: Callable[[NodeType, Part], frozenset[Domain]]
        self.able = partial(able_domains, effort=effort)

    def singly(self, scope: Domain, part: Part) -> list[Domain]:
        """The domains in *scope* for *part*, each chosen on its own, the preferred first."""
        return sorted(self.listed(scope, part), key=lambda d: self.path(d, scope))

    def listed(self, scope: Domain, part: Part) -> list[Domain]:
        """The domains in *scope* that can currently give *part*'s need once."""
        able, ledger = self.able(self.node_type, part), self.ledger
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

    def groups(self, scope: Domain, part: Part) -> Iterator[list[Domain]]:
        """The suitable domains in each host that has enough of them, the preferred host first.

        In each list, the preferred domains come first. Without ``local``, all of them are in one.
        """
        suitable, count = self.listed(scope, part), part.count.minimum
        levels, members = self.group_levels(part), self.members(scope, suitable)
        hosts = [d for d in members if d in levels and len(members[d]) >= count]
        hosts.sort(key=lambda d: (levels[d], self.path(d, scope)))
        for host in hosts if self.local else hosts[:1]:
            if levels[host] == 0 or not self.local:
                first = self._fewest(host, count, members)
                among = members[host] if self.local else suitable
                yield first + [d for d in among if d not in first]

    def members(self, scope: Domain, domains: Sequence[Domain]) -> dict[Domain, list[Domain]]:
        """Which of *domains* each host in *scope* has that has some."""
        members: dict[Domain, list[Domain]] = {}
        for domain in domains:
            around = self.node_type.around[domain]
            for host in around[: around.index(scope) + 1]:
                members.setdefault(host, []).append(domain)
        return members

    def _fewest(
        self, host: Domain, count: int, members: dict[Domain, list[Domain]]
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

    def smallest(self, scope: Domain, need: Need) -> list[Domain]:
        """The domains that may give *need*'s amount when it is asked of *scope*."""
        if not self.local:
            return [scope]
        levels = amount_levels(self.node_type, need, scope)
        hosts = [d for d in scope.walk() if levels.get(d) == 0]
        return sorted(hosts, key=lambda d: self.path(d, scope)) if len(hosts) > 1 else hosts

    def path(self, domain: Domain, scope: Domain) -> list[tuple[int, int, int]]:
        """A sort key that orders domains as the walk down from *scope* reaches them."""
        steps = []
        for at in self.node_type.around[domain]:
            if at is scope:
                break
            steps.append((*self.ledger.free_in(at), self.node_type.order[at]))
        return steps[::-1]

    def group_levels(self, part: Part) -> dict[Domain, int]:
        """The levels of the domains that could host *part*'s group, see levels.levels_of()."""

        def compute() -> dict[Domain, int]:
            able = self.able(self.node_type, part)

            def hosts(domain: Domain) -> bool:
                found = [b for b in domain.walk() if b in able]
                cored = not part.with_core or any(d.ncores for d in found)
                return cored and len(found) >= part.count.minimum

            return levels_of(self.node_type.root, hosts)

        return remembered(self.node_type.levels, MAX_MEMO, (part, "group"), compute)


class Search:
    """A search for ways to place slots on a node of *node_type* where *cores* and *gpus* are free.

    With *local*, every amount and every group of domains must sit in a domain of level 0, see
    levels.levels_of(). With *plain*, domains are tried in the order of the tree. *effort* counts
    the choices, and what it takes to list and to compare domains for them.
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
        self.free = cores, gpus
        self.plain = plain
        self.effort = Effort() if effort is None else effort
        self.domains = Suitable(node_type, cores, gpus, local, self.effort)
        self.ledger = self.domains.ledger
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
        stack: list[Iterator[_Tasks]] = [iter([(_Slots(scope, need, number), None)])]
        try:
            while stack:
                for tasks in stack[-1]:
                    if tasks is not None:
                        stack.append(self._branches(*tasks))
                        break
                    if not self.has_gpu_demand or self._has_ids():
                        return self.takes
                else:
                    stack.pop()
        except GaveUp:
            self.effort.gave_up = True
        return None

    def _has_ids(self) -> bool:
        """Whether there are GPUs for all takes that meet the demand."""
        return ids_of(self.takes, self.node_type, *self.free, self.plain, self.effort) is not None

    def _branches(
        self, task: Union[_Slots, _Amount, _Choice, _Core], rest: _Tasks
    ) -> Iterator[_Tasks]:
        """Do *task* in each possible way, and yield the remaining tasks each time."""
        if isinstance(task, _Slots):
            yield from self._slot_ways(task, rest)
        elif isinstance(task, _Amount):
            yield from self._amount_ways(task, rest)
        elif isinstance(task, _Choice):
            listed = self._listed(task.scope, task.part) if task.domains is None else [task.domains]
            for domains in listed:
                yield from self._choice_ways(task, domains, rest)
        elif any(take.scope.ncores for take in self.takes if take.slot == task.slot):
            yield rest

    def _slot_ways(self, task: _Slots, rest: _Tasks) -> Iterator[_Tasks]:
        """Begin one of the slots, if so many may fit."""
        scope, need, left = task.scope, task.need, task.left
        self.effort.count(2 + 2 * len(self.ledger.cores) * len(need.parts) // _LOOKS)
        if not has_capacity(self.node_type, scope, need):
            return
        if left > 1 and self._room(scope, need, left) < left:
            return
        self.slots += 1
        after = (attrs.evolve(task, left=left - 1), rest) if left > 1 else rest
        after = (_Core(self.slots), after) if need.with_core else after
        yield self._inside(scope, need, after, self.slots)

    def _inside(self, scope: Domain, need: Need, rest: _Tasks, slot: int) -> _Tasks:
        """The tasks that meet *need* in *scope* for *slot*, before *rest*: whole domains first."""
        if need.takes_amount:
            rest = _Amount(scope, asked_of(scope, need), slot), rest
        parts = need.parts
        for part in sorted(parts, key=lambda p: p.whole) if len(parts) > 1 else parts:
            if part.name == SLOT:
                rest = _Slots(scope, part.need, part.count.minimum), rest
            else:
                rest = _Choice(scope, part, slot, part.count.minimum), rest
        return rest

    def _listed(self, scope: Domain, part: Part) -> Iterator[list[Domain]]:
        """Lists of domains to choose from; each list has the preferred domains first."""
        self.effort.count(1 + len(self.node_type.named.get(part.name, ())) // _LOOKS)
        if self.plain:
            yield self.domains.listed(scope, part)
        elif part.count.minimum == 1:
            yield self.domains.singly(scope, part)
        else:
            yield from self.domains.groups(scope, part)

    def _choice_ways(
        self, task: _Choice, domains: Sequence[Domain], rest: _Tasks
    ) -> Iterator[_Tasks]:
        """Choose each of the *domains* in turn, if enough follow it for the others."""
        scope, part, slot = task.scope, task.part, task.slot
        for i in range(task.start, len(domains) - task.left + 1):
            if self._like_an_earlier(domains, i, task.start):
                continue
            domain, after = domains[i], rest
            if task.left > 1:
                after = _Choice(scope, part, slot, task.left - 1, domains, i + 1), rest
            if i > task.start or not task.left % _IN_A_ROW:
                self.effort.count()
            if not part.whole:
                yield self._inside(domain, part.need, after, slot)
            elif self.ledger.promise_whole(domain):
                self.takes.append(Take(domain, part.need, True, slot))
                yield after
                self.takes.pop()
                self.ledger.release_whole(domain)

    def _amount_ways(self, task: _Amount, rest: _Tasks) -> Iterator[_Tasks]:
        """Take the amount from each of its hosts in turn."""
        need, hosts = task.need, self.domains.smallest(task.scope, task.need)
        self.effort.count((len(hosts) + _LOOKS - 2) // _LOOKS)
        for i, host in enumerate(hosts):
            if self._like_an_earlier(hosts, i, 0):
                continue
            self.effort.count(int(i > 0))
            if self.ledger.promise(host, need.cores, need.gpus):
                self.takes.append(Take(host, need, False, task.slot))
                yield rest
                self.takes.pop()
                self.ledger.release(host, need.cores, need.gpus)

    def _like_an_earlier(self, domains: Sequence[Domain], i: int, start: int) -> bool:
        """True if domains[i] is identical in shape to a sibling that was passed over before it."""
        if i == start or self.has_gpu_demand:  # with a demand, the GPUs themselves differ
            return False
        domain, parent = domains[i], self.node_type.parent[domains[i]]
        siblings = [d for d in domains[start:i] if self.node_type.parent[d] is parent]
        self.effort.count(len(siblings) * (1 + len(domain.children)) // _LOOKS)
        shape = self.ledger.shape(domain) if siblings else ()
        return any(self.ledger.shape(other) == shape for other in siblings)

    # -- how many slots may fit

    def _room(self, scope: Domain, need: Need, most: int) -> int:
        """An upper bound, at most *most*, of how many more slots of *need* fit in *scope*."""
        bounds, (ncores, ngpus) = [most], least(need)
        if need.takes_amount:
            amount = asked_of(scope, need)
            hosts = self.domains.smallest(scope, amount)
            bounds.append(sum(self.ledger.copies(host, amount) for host in hosts))
        for part in need.parts:
            if part.name != SLOT:
                domains, each = self.domains.listed(scope, part), least(part.need)
                if part.whole and domains:  # each takes at least what the smallest has
                    ncores += part.count.minimum * min(domain.ncores for domain in domains)
                    ngpus += part.count.minimum * min(domain.ngpus for domain in domains)
                times = (1 if part.whole else self._copies(domain, *each) for domain in domains)
                bounds.append(sum(min(n, most) for n in times) // part.count.minimum)
        return min(self._copies(scope, ncores, ngpus), *bounds)

    def _copies(self, domain: Domain, ncores: int, ngpus: int) -> int:
        """At most how often so much is left in *domain*, in slices of GPUs too."""
        return how_often(ncores, ngpus, self.ledger.cores[domain], self.ledger.gpus_in(domain))


def able_domains(
    node_type: NodeType, part: Part, effort: Optional[Effort] = None
) -> frozenset[Domain]:
    """The domains of *part*'s locality that could give its need once on an idle node.

    The node type remembers them. *effort* counts what they took, once. Raises GaveUp if a search
    exceeds its bound.
    """
    need, root = part.need, node_type.root
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
        if is_apart(need) and not need.has_gpu_demand:  # numbers decide, and cost less
            enough = domain.ncores >= need.cores and domain.ngpus >= need.gpus
            for inner in need.parts:
                inside = able_domains(node_type, inner, spent) - {domain}
                among = [d for d in inside if domain in node_type.around[d]]
                enough = len(among) >= inner.count.minimum
            return enough and has_capacity(node_type, domain, need)
        search = Search(node_type, root.cores, root.gpus, effort=spent)
        return search.place(domain, need) is not None

    key = part.name, part.whole, alone, need
    return metered(node_type.able, MAX_MEMO, key, compute, effort)


def meets_demand(node_type: NodeType, gpus: int, need: Need) -> bool:
    """Whether all *gpus* of a whole domain meet what *need* demands of them."""
    if gpus & ~node_type.gpus_with(need.gpu_memory):
        return False
    joined = graph_of(node_type.links, need.demand)
    return joined is None or is_clique(joined, gpus)
