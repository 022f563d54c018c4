"""Slots in one scope of a node: how many there are, and which cores and GPUs they take.

Numbers say how many there are where a slot is an amount, or domains of one locality; otherwise they
are placed one after another, and together by a search if that finds fewer than numbers allow. The
ids are chosen when somebody asks for them. Each slot is placed in the best remaining way; if that
leaves no room for all that were counted, or takes long, they are placed together.
"""

from __future__ import annotations

from itertools import islice
from typing import Iterator, Mapping, Optional, Sequence

import attrs

from treepool.placement.effort import Effort, GaveUp
from treepool.placement.nodes.tree import Domain, NodeType
from treepool.placement.on_node.ids import Ids, ids_in, ids_of
from treepool.placement.on_node.ledger import Take, how_often, rows_of
from treepool.placement.on_node.levels import (
    amount_levels,
    asked_of,
    smallest_hosts,
    usable_gpus,
)
from treepool.placement.on_node.place import Search, Suitable
from treepool.placement.request.need import Need, Part, decided, is_apart, takes_one
from treepool.rfc import idset
from treepool.rfc.idset import union


@attrs.define(eq=False)
class _Free:
    """The cores and GPUs (bitmasks) that the slots so far have left."""

    cores: int
    gpus: int


@attrs.frozen(eq=False)
class Task:
    """To place slots of *need* in *scope*, where *cores* and *gpus* of the node are free.

    With *local*, each is to be in the smallest kind of domain; with *plain*, the tree does not
    matter. It does not know the state: a state knows its fits, and a cycle would keep both.
    """

    node_type: NodeType
    cores: int
    gpus: int
    scope: Domain
    need: Need
    local: bool
    plain: bool

    def counted(self, most: int, effort: Effort) -> Optional[int]:
        """How many slots fit, up to *most*; None if numbers do not decide that.

        *effort* counts what it takes to know which domains of an idle node could give something.
        """
        need, scope = self.need, self.scope
        beside = need.takes_amount and bool(need.parts)
        if not decided(need, self.local) or (beside and self.node_type.root.mig):
            return None  # slices are not counted beside other GPUs
        if not need.parts:
            return min(most, self._copies(scope, asked_of(scope, need)))
        slots = self._slots_in(scope, need, most, self._suitable(effort))
        if not beside:
            return slots
        # Each slot takes its amount beside so much in domains, all of it in the scope.
        (part,) = need.parts
        each, inner = part.count.minimum, part.need
        both = need.cores + each * inner.cores, need.gpus + each * inner.gpus
        free = (scope.cores & self.cores, scope.open_gpus & self.gpus)
        return min(slots, how_often(*both, *map(idset.size, free)))

    def _slots_in(self, scope: Domain, need: Need, most: int, suitable: Suitable) -> int:
        """How many times, up to *most*, the parts of *need*, or its amount, fit in *scope*."""
        if not need.parts:
            return min(most, self._copies(scope, asked_of(scope, need)))
        (part,) = need.parts
        groups = self._groups(scope, part, most, suitable)
        return min(most, sum(_slots_among(group, part, most) for group in groups))

    def _copies(self, scope: Domain, need: Need) -> int:
        """How often *need*'s amount is free in *scope*, or in its smallest kinds of domain."""
        return sum([times for _, times in self._hosts(scope, need)])

    def _hosts(self, scope: Domain, need: Need) -> list[tuple[Domain, int]]:
        """The domains in *scope* that may give *need*'s amount, and how often each can."""
        levels = amount_levels(self.node_type, need, scope)
        cores, gpus = self.cores, self.gpus & usable_gpus(self.node_type, scope, need)
        if not self.local:
            hosts = [scope] if scope in levels else []
        elif scope is self.node_type.root:
            hosts = [host for host, level in levels.items() if level == 0]
        else:
            hosts = [host for host in scope.walk() if levels.get(host) == 0]

        def times(host: Domain) -> int:
            free = idset.size(host.cores & cores), idset.size(host.gpus & gpus)
            return how_often(need.cores, need.gpus, *free)

        return [(host, times(host)) for host in hosts]

    def _groups(
        self, scope: Domain, part: Part, most: int, suitable: Suitable
    ) -> list[Mapping[Domain, int]]:
        """The domains in *scope* for *part*, divided into those that one slot may take together.

        It says how often, up to *most*, each can give.
        """
        groups = [(suitable.listed if self.plain else suitable.singly)(scope, part)]
        if self.local and part.count.minimum > 1:
            levels, members = suitable.group_levels(part), suitable.members(scope, groups[0])
            groups = [found for host, found in members.items() if levels.get(host) == 0]

        def times(domain: Domain) -> int:
            return 1 if part.whole else self._slots_in(domain, part.need, most, suitable)

        return [{domain: times(domain) for domain in group} for group in groups]

    def _suitable(self, effort: Effort) -> Suitable:
        return Suitable(self.node_type, self.cores, self.gpus, self.local, effort)

    # -- which of them

    def one_by_one(self, effort: Effort) -> Iterator[Ids]:
        """What 1, 2, ... slots take, each in the best remaining way; *effort* counts searches."""
        free = _Free(self.cores, self.gpus)
        for takes in self._ways(free, effort):
            while True:
                ids = self._ids(takes, free, effort)
                if ids is None:
                    break
                free.cores, free.gpus = free.cores & ~ids[0], free.gpus & ~ids[1]
                yield self.cores & ~free.cores, self.gpus & ~free.gpus
                if not is_apart(self.need):  # else a domain that gave something only comes earlier
                    break

    def _ids(self, takes: Sequence[Take], free: _Free, effort: Effort) -> Optional[Ids]:
        """The ids of *takes* in what is *free*, None if they have no room."""
        node_type, cores, gpus = self.node_type, free.cores, free.gpus
        if not is_apart(self.need):
            return ids_of(takes, node_type, cores, gpus, self.plain, effort)
        found = []
        for take in takes:
            if not (take.whole or self.plain or self.local or takes_one(self.need)):
                host = next(self._best_hosts(take.scope, take.need, free), None)
                take = attrs.evolve(take, scope=host or take.scope)
            ids = ids_in(take, node_type, cores, gpus, self.plain, effort)
            if ids is None:
                return None
            found.append(ids)
        return union(ids[0] for ids in found), union(ids[1] for ids in found)

    def _ways(self, free: _Free, effort: Effort) -> Iterator[list[Take]]:
        """What a slot takes, the best first, and what others do when that has no more room."""
        need = self.need
        if not takes_one(need):
            while True:
                takes = self.searched(1, effort, free)
                if takes is None:
                    return
                yield takes
        scopes, whole = [self.scope], False
        if need.parts:  # the order of the first slot's domains is that of all slots
            (part,) = need.parts
            suitable, whole, need = self._suitable(effort), part.whole, part.need
            scopes = (suitable.listed if self.plain else suitable.singly)(self.scope, part)
        for scope in scopes:
            if whole or self.plain:
                yield [Take(scope, need if whole else asked_of(scope, need), whole)]
            else:
                for host in self._best_hosts(scope, asked_of(scope, need), free):
                    yield [Take(host, asked_of(scope, need), False)]

    def _best_hosts(self, scope: Domain, need: Need, free: _Free) -> Iterator[Domain]:
        """The domains in *scope* that give *need*'s amount, one after another."""
        node_type = self.node_type
        levels, usable = amount_levels(node_type, need, scope), usable_gpus(node_type, scope, need)
        while True:
            hosts = smallest_hosts(node_type, scope, need, levels, free.cores, free.gpus, usable)
            if not hosts or (self.local and levels[hosts[0]]):
                return
            yield from hosts

    def searched(
        self, number: int, effort: Effort, free: Optional[_Free] = None
    ) -> Optional[list[Take]]:
        """What *number* slots take together of what is *free*, by a search."""
        cores, gpus = (free.cores, free.gpus) if free else (self.cores, self.gpus)
        search = Search(self.node_type, cores, gpus, self.local, self.plain, effort)
        return search.place(self.scope, self.need, number)

    def ids_of(self, takes: Sequence[Take], effort: Effort) -> Optional[Ids]:
        """The ids of *takes* that slots take together; *effort* counts the search for GPUs."""
        return ids_of(takes, self.node_type, self.cores, self.gpus, self.plain, effort)

    def together(self, number: int) -> list[Take]:
        """What *number* slots take together where numbers say that they fit.

        Each domain in turn gives as often as it can.
        """
        scope, need = self.scope, self.need
        takes = self._takes(scope, need, number, self._suitable(Effort()))
        if need.takes_amount and need.parts:
            takes += [Take(scope, asked_of(scope, need), False)] * number
        return takes

    def _takes(self, scope: Domain, need: Need, number: int, suitable: Suitable) -> list[Take]:
        """*number* times what the parts of *need*, or its amount, take in *scope*."""
        if not need.parts:
            return self._amounts(scope, asked_of(scope, need), number, suitable)
        (part,) = need.parts
        takes: list[Take] = []
        left = number
        for group in self._groups(scope, part, number, suitable):
            slots = _slots_among(group, part, left)
            left, times = left - slots, slots * part.count.minimum
            for domain, copies in _with_cores(group, part, slots).items():
                given = min(copies, slots, times)
                times -= given
                if part.whole:
                    takes += [Take(domain, part.need, True)] * given
                else:
                    takes += self._takes(domain, part.need, given, suitable)
        return takes

    def _amounts(self, scope: Domain, need: Need, number: int, suitable: Suitable) -> list[Take]:
        """*number* times the amount of *need*, of which each domain gives as often as it can."""
        takes: list[Take] = []
        for host, copies in sorted(
            self._hosts(scope, need), key=lambda found: suitable.path(found[0], scope)
        ):
            takes += [Take(host, need, False)] * min(copies, number - len(takes))
        return takes


def _slots_among(group: Mapping[Domain, int], part: Part, most: int) -> int:
    """How many slots, at most *most*, can take domains for *part* in *group*."""
    if part.with_core:
        most = min(most, sum(domain.ncores > 0 for domain in group))
    return rows_of([(times, 1) for times in group.values()], part.count.minimum, most)


def _with_cores(group: Mapping[Domain, int], part: Part, slots: int) -> Mapping[Domain, int]:
    """*group* without whole domains that would leave one of the *slots* without a core."""
    if not part.with_core:
        return group
    coreless = [domain for domain in group if not domain.ncores]
    dropped = coreless[slots * (part.count.minimum - 1) :]
    return {domain: times for domain, times in group.items() if domain not in dropped}


@attrs.define(eq=False)
class Slots:
    """The *number* slots of a task. Their ids are chosen when somebody asks."""

    task: Task
    number: int
    #: What 1, 2, ... slots take together, as far as that is known, and what more of them do: the
    #: iterator goes once there are none, because thousands of fits are remembered.
    taken: list[Ids] = attrs.field(factory=list)
    more: Optional[Iterator[Ids]] = None
    #: The effort that is left to choose more; 0 once no more can be placed one after another.
    left: int = 0

    @classmethod
    def of(cls, task: Task, most: int, effort: Effort) -> Slots:
        """The slots of *task*, up to *most*; *effort* counts the search for them."""
        number, part = task.counted(most, effort) if most else 0, effort.part()
        if number is not None:
            return cls(task, number, left=part.limit)
        taken: list[Ids] = []
        try:
            taken += islice(task.one_by_one(part), most)
            while 0 < len(taken) < most:
                takes = task.searched(len(taken) + 1, part)
                ids = None if takes is None else task.ids_of(takes, part)
                if ids is None:
                    break
                taken.append(ids)
        except GaveUp:
            part.gave_up = True
        effort.add(part)
        return cls(task, len(taken), taken)

    def take(self, number: int) -> Ids:
        """What the first *number* slots take together."""
        taken = self.taken
        while self.left and len(taken) < number:
            if self.more is None:
                self.more = self.task.one_by_one(Effort(self.left))
            ids = next(self.more, None)
            if ids is not None:
                taken.append(ids)
            if ids is None or len(taken) == self.number:
                self.more, self.left = None, 0
        if number <= len(taken):
            return taken[number - 1]
        found = self.task.ids_of(self.task.together(number), Effort())
        assert found is not None, "more slots were counted than there are"
        return found
