"""Which cores and GPUs slots take: chosen when somebody asks, for as many slots as are asked for.

How many slots there are is known. They are placed one after another, each in the best remaining
way; and together, if more fit than that finds room for.
"""

from __future__ import annotations

from typing import Callable, Iterator, Optional, Sequence, Union, overload

import attrs

from treepool.placement.effort import PER_REQUEST, UNLIMITED, Effort
from treepool.placement.nodes.tree import Domain, NodeType
from treepool.placement.on_node.amounts import amount_ids, lowest_ids
from treepool.placement.on_node.domains import SuitableDomains
from treepool.placement.on_node.ids import ids_of
from treepool.placement.on_node.ledger import Ledger, Take
from treepool.placement.on_node.levels import (
    amount_levels,
    asked_of,
    has_free,
    smallest_hosts,
    usable_gpus,
)
from treepool.placement.on_node.search import Search, able_domains
from treepool.placement.request.need import Need, takes_one

#: Cores and GPUs (bitmasks).
Ids = tuple[int, int]

#: What a slot takes where these cores and GPUs are free; None if it has no room.
_One = Callable[[int, int], Optional[Ids]]


@attrs.define(eq=False)
class Slots(Sequence[Ids]):
    """Slots of *need* in *scope*: *number* of them, whose ids are chosen when asked for.

    ``slots[i]`` is what the first i + 1 take together, of the free *cores* and *gpus*. With
    *local*, each is local. They keep no state: a state knows its fits, and a cycle would keep both.
    """

    node_type: NodeType
    cores: int
    gpus: int
    plain: bool
    scope: Domain
    need: Need
    number: int
    local: bool
    #: What 1, 2, ... slots take that were placed one after another.
    _taken: list[Ids] = attrs.field(factory=list, init=False)
    #: What so many slots take that a search placed together.
    _together: dict[int, Sequence[Take]] = attrs.field(factory=dict, init=False)
    #: What searches for the next ones may still take; nothing once there was no room.
    left: int = attrs.field(default=PER_REQUEST, init=False)

    def __len__(self) -> int:
        return self.number

    @overload
    def __getitem__(self, index: int) -> Ids: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Ids]: ...

    def __getitem__(self, index: Union[int, slice]) -> Union[Ids, Sequence[Ids]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self.number))]
        taken = self._taken
        one = self._one() if len(taken) <= index and self.left > 0 else None
        while one is not None and len(taken) <= index:
            cores, gpus = taken[-1] if taken else (0, 0)
            ids = one(self.cores & ~cores, self.gpus & ~gpus)
            if ids is None:
                one, self.left = None, 0
            else:
                taken.append((cores | ids[0], gpus | ids[1]))
        if index < len(taken):
            return taken[index]
        takes = self._together.get(index + 1)
        if takes is None:  # numbers have decided that there is room: the search never goes back
            takes = self.search(index + 1, self.cores, self.gpus, Effort(UNLIMITED))
            assert takes is not None, "more slots were counted than there are"
        return self.ids_of(takes, self.cores, self.gpus)

    def note(self, ids: Ids) -> None:
        """Count one slot more: with it they take *ids*. Nothing more is placed one by one then."""
        self.number += 1
        self.left = 0
        self._taken.append(ids)

    def note_takes(self, takes: Sequence[Take]) -> None:
        """Count one slot more: with it they take the ids of *takes*, placed together."""
        self.number += 1
        self.left = 0
        self._together[self.number] = takes

    def ids_of(self, takes: Sequence[Take], cores: int, gpus: int) -> Ids:
        """The ids of *takes* out of the free *cores* and *gpus*."""
        return ids_of(takes, self.node_type, cores, gpus, self.plain)

    def search(self, number: int, cores: int, gpus: int, effort: Effort) -> Optional[list[Take]]:
        """What *number* slots take together of the free *cores* and *gpus*."""
        search = Search(self.node_type, cores, gpus, self.local, self.plain, effort)
        return search.place(self.scope, self.need, number)

    def _one(self) -> _One:
        """Places slots one after another, each in the best remaining way."""
        need = self.need
        if not need.parts:
            return _Amounts(self, [self.scope], need)
        if not takes_one(need):
            return _Several(self)
        # What is taken from a domain only makes it come earlier, so the order of the first slot's
        # domains is that of all slots.
        (part,) = need.parts
        suitable = suitable_domains(self.node_type, self.cores, self.gpus, self.local)
        domains = (suitable.listed if self.plain else suitable.singly)(self.scope, part)
        return _whole(domains) if part.whole else _Amounts(self, domains, part.need)


def _whole(domains: Sequence[Domain]) -> _One:
    """Places slots that take one of *domains* each, the first of them first."""
    left = iter(domains)  # what is taken is never free again

    def one(cores: int, gpus: int) -> Optional[Ids]:
        free = (d for d in left if not (d.cores & ~cores or d.gpus & ~gpus))
        return next(((d.cores, d.gpus) for d in free), None)

    return one


class _Amounts:
    """Places slots that each take *need*'s amount from the first of *scopes* that has it.

    All slots take equally much from a scope, so placing one after another is exact.
    """

    def __init__(self, slots: Slots, scopes: Sequence[Domain], need: Need) -> None:
        self.node_type = slots.node_type
        self.plain = slots.plain
        self.local = slots.local
        self.scopes = scopes
        self.need = need
        #: What is free now, where the last slot was placed, and where others are to be placed. A
        #: domain comes first until it has given all that it can, see smallest_hosts.
        self.free = 0, 0
        self.last: Optional[tuple[Domain, Domain]] = None
        self.hosts = self._hosts()

    def __call__(self, cores: int, gpus: int) -> Optional[Ids]:
        """What the next slot takes."""
        self.free = cores, gpus
        while True:
            if self.last is not None:
                scope, host = self.last
                need = asked_of(scope, self.need)
                usable = gpus & usable_gpus(self.node_type, scope, need)
                if has_free(host, need, cores, usable):
                    return self._ids(scope, host, need, cores, gpus)
            self.last = next(self.hosts, None)
            if self.last is None:
                return None

    def _hosts(self) -> Iterator[tuple[Domain, Domain]]:
        """The scopes and the domains in each to take amounts from, one after another."""
        for scope in self.scopes:
            need = asked_of(scope, self.need)
            levels = amount_levels(self.node_type, need, scope)
            among = usable_gpus(self.node_type, scope, need)
            more = True
            while more:
                more = False
                for host in smallest_hosts(scope, need, levels, *self.free, among):
                    if self.local and levels[host]:
                        break
                    more = True
                    yield scope, host

    def _ids(self, scope: Domain, host: Domain, need: Need, cores: int, gpus: int) -> Ids:
        node_type, plain = self.node_type, self.plain
        if need.fair_share:
            take = Take(scope if plain else host, need, False)
            return ids_of([take], node_type, cores, gpus, plain)
        want, gpus = (need.gpus, need.cores), gpus & usable_gpus(node_type, scope, need)
        if plain:
            return lowest_ids(scope, want, cores, gpus)
        return amount_ids(host, want, cores, gpus, node_type.links)


class _Several:
    """Places slots that take several domains each, or an amount beside a domain."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        #: What the last slot took. A domain that gave something only comes earlier, so the same
        #: domains are the best until one of them has given all that it can.
        self.last: list[Take] = []

    def __call__(self, cores: int, gpus: int) -> Optional[Ids]:
        """What the next slot takes."""
        slots = self.slots
        if slots.need.takes_amount or not self.last or not self._again(cores, gpus):
            effort = Effort(slots.left)
            takes = slots.search(1, cores, gpus, effort)
            slots.left -= effort.tried
            if takes is None:
                return None
            self.last = takes
        return slots.ids_of(self.last, cores, gpus)

    def _again(self, cores: int, gpus: int) -> bool:
        """Whether the domains of the last slot have room for another."""
        node_type = self.slots.node_type
        return all(
            not take.whole
            and has_free(
                take.scope, take.need, cores, gpus & usable_gpus(node_type, take.scope, take.need)
            )
            for take in self.last
        )


def suitable_domains(node_type: NodeType, cores: int, gpus: int, local: bool) -> SuitableDomains:
    """The domains that suit where *cores* and *gpus* are free."""
    return SuitableDomains(node_type, Ledger(node_type, cores, gpus), local, able_domains)
