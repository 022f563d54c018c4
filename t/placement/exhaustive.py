"""Whether a need can be met at all on a node: every choice of domains tried.

Counts below the slot are fixed here. Those on and above it are chosen by each domain for itself
(``Above``).

What an amount takes inside its domain makes no difference to the others but by its number, so a
choice of domains is possible if no domain has to give more than it has. For small nodes only.
"""

from __future__ import annotations

from itertools import combinations, product
from typing import Any, Iterator, NamedTuple, Optional

from placement.wanted import Need, Part, largest, smallest

#: Choices tried before it is given up.
PATIENCE = 5_000

#: The cores of the largest node that is tried at all.
MOST_CORES = 48


class TooBig(Exception):
    """There is too much to try."""


#: What is left of each domain, in the order of the tree: (cores, GPUs).
Left = tuple[tuple[int, int], ...]


class Exhaustive:
    """All ways to meet a need on the node *root*, of which *free* is free.

    *local*: every amount is in a domain of the smallest kind that could have it if the node were
    idle, and the domains of a slot that are asked together are in such a domain too. *all_taken*:
    nothing may be left.
    """

    def __init__(
        self,
        root: Any,
        free: Any,
        local: bool = False,
        all_taken: bool = False,
        cxl: bool = False,
    ) -> None:
        self.domains = list(root.walk())
        number = {d: i for i, d in enumerate(self.domains)}
        self.inside = [frozenset(number[b] for b in d.walk()) for d in self.domains]
        self.around = [
            [i for i, inside in enumerate(self.inside) if j in inside] for j in number.values()
        ]
        self.realm = [number[d.realm] for d in self.domains]
        self.cxl = cxl
        self.idle = tuple((len(d.ids.cores), len(d.gpus)) for d in self.domains)
        self.start: Left = tuple(
            (len(d.ids.cores & free.cores), len(d.gpus & free.gpus)) for d in self.domains
        )
        if self.idle[0][0] > MOST_CORES:
            raise TooBig
        self.storage = root.storage
        self.local = local
        self.all_taken = all_taken
        self.tried = 0
        self.known: dict[Any, bool] = {}

    def possible(self, part: Part, place: int = 0) -> bool:
        """Whether *part*, its counts at their minimum, can be met in the domain at *place*."""
        return self.can(self.tasks_of(place, part), self.start)

    def most(self, part: Part, upto: Optional[int], place: int = 0) -> int:
        """How many of *part* there can be at *place*, but not more than *upto*."""
        number = 0
        while (upto is None or number < upto) and self.possible(part.times(number + 1), place):
            number += 1
        return number

    def shared(self, slot: Part, shares: list[Share]) -> bool:
        """Whether each domain in *shares* can hold what it says."""
        tasks: tuple[Any, ...] = ()
        for place, number in shares:
            if number is None:
                tasks += (("take", place, None),)
            else:
                tasks += self.tasks_of(place, slot.times(number))
        return self.can(tasks, self.start)

    # -- tasks: ("amount", place, need), ("choose", place, part) and ("take", place, None);
    # ("bring", place, part) is to choose domains that bring a core, ("slot", place, need) to do
    # what a slot needs, of which one part must bring a core

    def tasks_of(self, place: int, part: Part) -> tuple[Any, ...]:
        if part.name == "slot":
            number = smallest(part.count)
            if number > self.idle[0][0]:
                return (("never",),)  # every slot has a core
            if part.need.a_core:
                return (("slot", place, part.need),) * number
            return self.tasks_in(place, part.need) * number
        return (("choose", place, part),)

    def tasks_in(self, place: int, need: Need) -> tuple[Any, ...]:
        domain = self.domains[place]
        if domain.tier is None:
            enough = domain.has_memory(need.memory, self.cxl)
        else:
            enough = domain.tier >= need.memory
            need = need._replace(memory=0)
        if not enough or need.storage > self.storage:
            return (("never",),)
        tasks = tuple(task for part in need.parts for task in self.tasks_of(place, part))
        return (*tasks, ("amount", place, need)) if need.cores or need.gpus else tasks

    def with_core(self, tasks: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        """*tasks*, with each choice of domains in its turn to bring a core."""
        for i, (kind, *what) in enumerate(tasks):
            if kind == "choose":
                yield (*tasks[:i], ("bring", *what), *tasks[i + 1 :])

    def can(self, tasks: tuple[Any, ...], left: Left) -> bool:
        if ("never",) in tasks:
            return False
        if not tasks:
            gpus = sum(left[i][1] for i in {*self.realm})
            return not self.all_taken or (left[0][0], gpus) == (0, 0)
        key = (tasks, left)
        if key not in self.known:
            self.tried += 1
            if self.tried > PATIENCE:
                raise TooBig
            self.known[key] = any(self.can(*way) for way in self.ways(tasks[0], tasks[1:], left))
        return self.known[key]

    def ways(self, task: Any, rest: Any, left: Left) -> Iterator[tuple[Any, Left]]:
        """What is to do and what is left after each way to do *task*."""
        kind, place, what = task
        if kind == "take":
            remaining = self.without(left, place)
            if remaining:
                yield rest, remaining
            return
        if kind == "slot":
            for tasks in self.with_core(self.tasks_in(place, what)):
                yield tasks + rest, left
            return
        if kind == "amount":
            for host in self.hosts(place, what):
                remaining = self.less(left, host, (what.cores, what.gpus))
                if remaining:
                    yield rest, remaining
            return
        for chosen in combinations(self.options(place, what, left), smallest(what.count)):
            if self.local and not has_slot(what) and not self.close(what, chosen):
                continue
            if not what.whole:
                inner = sum((self.tasks_in(i, what.need) for i in chosen), ())
                for tasks in self.with_core(inner) if kind == "bring" else [inner]:
                    yield tasks + rest, left
                continue
            if kind == "bring" and not any(self.domains[i].ids.cores for i in chosen):
                continue
            remaining = left
            for i in chosen:
                remaining = remaining and self.without(remaining, i)
            if remaining:
                yield rest, remaining

    def without(self, left: Left, place: int) -> Optional[Left]:
        """What is left after all of the domain at *place* is taken; None if some of it was."""
        remaining = self.less(left, place, self.idle[place])
        for i in self.slices_in(place):
            remaining = remaining and self.less(remaining, i, (0, self.idle[i][1]))
        return remaining

    def options(self, place: int, part: Part, left: Left) -> list[int]:
        """The domains that are called as *part* says in the domain at *place*."""
        return [
            i
            for i in sorted(self.inside[place] - {place})
            if self.domains[i].name == part.name
            and (not part.whole or (self.untouched(i, left) and self.able(i, part)))
        ]

    def slices_in(self, place: int) -> list[int]:
        """The MIG domains inside the domain at *place*."""
        inside = self.inside[place] - {place}
        return [i for i in sorted(inside) if self.realm[i] == i]

    def untouched(self, place: int, left: Left) -> bool:
        return all(left[i] == self.idle[i] for i in (place, *self.slices_in(place)))

    def able(self, place: int, part: Part) -> bool:
        """Whether a domain could give what *part* asks of each if it were idle."""
        domain = self.domains[place]
        if part.whole and not domain.whole:
            return False
        if part.a_core and smallest(part.count) == 1 and not domain.ids.cores:
            return False
        if (place, part) not in self.known:
            idle = Exhaustive(self.domains[0], self.domains[0].ids, cxl=self.cxl)
            self.known[place, part] = idle.can(idle.tasks_in(place, part.need), idle.start)
        return self.known[place, part]

    def less(self, left: Left, place: int, amount: tuple[int, int]) -> Optional[Left]:
        """What is left after *amount* is taken from the domain at *place*; None if it has less."""
        remaining = list(left)
        for i in self.around[place]:
            gpus = amount[1] if self.realm[i] == self.realm[place] else 0
            remaining[i] = remaining[i][0] - amount[0], remaining[i][1] - gpus
            if min(remaining[i]) < 0:
                return None
        return tuple(remaining)

    def hosts(self, place: int, need: Need) -> list[int]:
        """Where an amount asked of the domain at *place* may come from."""

        def could(i: int) -> bool:
            cores, gpus = self.idle[i]
            enough = cores >= need.cores and gpus >= need.gpus
            enough = enough and self.realm[i] == self.realm[place]
            return enough and self.domains[i].has_memory(need.memory, self.cxl)

        if not self.local:
            return [place]
        return [i for i in self.inside[place] if self.is_smallest(i, could)]

    def is_smallest(self, place: int, could: Any) -> bool:
        """Whether the domain at *place* could, and has none in it of a kind of which some could."""
        kinds = {d.name for i, d in enumerate(self.domains) if could(i)}
        inside = (self.domains[i].name for i in self.inside[place] - {place})
        return could(place) and kinds.isdisjoint(inside)

    def close(self, part: Part, chosen: tuple[int, ...]) -> bool:
        """Whether *chosen* are all in a smallest domain that could have so many for *part*."""
        able = {i for i, d in enumerate(self.domains) if d.name == part.name and self.able(i, part)}

        def could(i: int) -> bool:
            inside = able & self.inside[i]
            cored = not part.a_core or any(self.domains[j].ids.cores for j in inside)
            return cored and len(inside) >= len(chosen)

        return len(chosen) == 1 or any(
            self.is_smallest(i, could) and self.inside[i] >= set(chosen)
            for i in range(len(self.domains))
        )


def has_slot(part: Part) -> bool:
    return any(p.name == "slot" or has_slot(p) for p in part.need.parts)


# ---- Counts on and above the slot ----


class Unit(NamedTuple):
    """What the domain at ``place`` gives: a number of what is asked of it (domains, or slots), and
    the slots in all; ``local`` if each slot is in a smallest kind of domain."""

    place: int
    number: int
    slots: int
    local: bool


#: Slots in a domain; or None: the domain is taken entirely.
Share = tuple[int, Optional[int]]


class Above:
    """What the domains above the slots give, each the largest valid count that it can."""

    def __init__(self, root: Any, free: Any, mode: str, cxl: bool) -> None:
        self.mode = mode
        self.anywhere = Exhaustive(root, free, cxl=cxl)
        self.near = Exhaustive(root, free, local=True, cxl=cxl)

    def units(self, part: Part, place: int = 0) -> list[Unit]:
        """What each domain that *part* is about, in the domain at *place*, gives; the best first.

        More slots come first, then local ones.
        """
        options = self.anywhere.options(place, part, self.anywhere.start)
        found = [self.unit(i, part.need.parts[0]) for i in options]
        return sorted((u for u in found if u), key=lambda u: (-u.slots, not u.local))

    def unit(self, place: int, inner: Part) -> Optional[Unit]:
        """What the domain at *place* gives of *inner*."""
        if inner.name == "slot":
            return self.slots(place, inner)
        units = self.units(inner, place)
        number = largest(inner.count, len(units))
        if number is None:
            return None
        chosen = units[:number]
        return Unit(place, number, sum(u.slots for u in chosen), all(u.local for u in chosen))

    def slots(self, place: int, part: Part) -> Optional[Unit]:
        """How many slots the domain at *place* gives: not local only if these are more."""
        most = part.count.maximum
        local = anyhow = None
        if self.mode != "none":
            local = largest(part.count, self.near.most(part, most, place))
        if self.mode != "required":
            anyhow = largest(part.count, self.anywhere.most(part, most, place))
        if anyhow is not None and (local is None or anyhow > local):
            return Unit(place, anyhow, anyhow, self.mode == "none")
        return None if local is None else Unit(place, local, local, True)

    def choices(self, part: Part, number: int, slots: int, place: int = 0) -> Iterator[list[Share]]:
        """All ways to choose *number* domains that give *slots* in all: what each must hold."""
        for chosen in combinations(self.units(part, place), number):
            if sum(u.slots for u in chosen) == slots:
                for shares in product(*(self.shares(part, u) for u in chosen)):
                    yield [share for inside in shares for share in inside]

    def shares(self, part: Part, unit: Unit) -> list[list[Share]]:
        """What the domain that gives *unit* must hold, in each way to choose in it."""
        inner = part.need.parts[0]
        if part.whole:
            return [[(unit.place, None)]]
        if inner.name == "slot":
            return [[(unit.place, unit.slots)]]
        return list(self.choices(inner, unit.number, unit.slots, unit.place))


def slot_of(part: Part) -> Part:
    """The slots in *part*, or *part*."""
    while part.name != "slot":
        (part,) = part.need.parts
    return part


def some_share(need: Need) -> bool:
    """Whether GPUs bring their share of cores somewhere in *need*."""
    return need.share or any(some_share(p.need) for p in need.parts)
