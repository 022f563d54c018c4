"""Whether a need can be met at all on a node: every choice of domains tried.

What an amount takes inside its domain makes no difference to the others but by its number, so a
choice of domains is possible if no domain has to give more than it has (test_exact tries all sets
of ids as well). For small nodes only.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, Iterator, Optional

from placement.wanted import Need, Part, smallest, valid
from treepool.rfc.count import Count

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

    *local*: every amount is in a smallest domain that could have it if the node were idle, and
    the domains of a slot that are asked together are in such a domain too. *all_taken*: nothing
    may be left.
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

    def possible(self, part: Part) -> bool:
        """Whether *part*, its counts at their minimum, can be met."""
        return self.can(self.tasks_of(0, part), self.start)

    def most(self, part: Part, upto: Optional[int]) -> int:
        """How many of *part* there can be, but not more than *upto*."""
        number = 0
        while (upto is None or number < upto) and self.possible(part.times(number + 1)):
            number += 1
        return number

    def grown(self, part: Part) -> Part:
        """*part* with each count inside that is a range at its largest, the outer ones first."""
        upto = max(len(self.domains), self.idle[0][0])
        for path in ranges(part):
            values = valid(at(part, path).count, upto)
            larger = (with_count(part, path, number) for number in reversed(values))
            part = next(p for p in larger if self.possible(p))
        return part

    # -- tasks: ("amount", place, need) and ("choose", place, part)

    def tasks_of(self, place: int, part: Part) -> tuple[Any, ...]:
        if part.name == "slot":
            number = smallest(part.count)
            if number > self.idle[0][0]:
                return (("never",),)  # every slot has a core
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
                inner = (self.tasks_in(i, what.need) for i in chosen)
                yield sum(inner, ()) + rest, left
                continue
            remaining: Optional[Left] = left
            for i in chosen:
                remaining = remaining and self.less(remaining, i, self.idle[i])
                for j in self.slices_in(i):
                    remaining = remaining and self.less(remaining, j, (0, self.idle[j][1]))
            if remaining:
                yield rest, remaining

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
        if part.a_core and not domain.ids.cores:
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
        return could(place) and not any(could(i) for i in self.inside[place] - {place})

    def close(self, part: Part, chosen: tuple[int, ...]) -> bool:
        """Whether *chosen* are all in a smallest domain that could have so many for *part*."""
        able = {i for i, d in enumerate(self.domains) if d.name == part.name and self.able(i, part)}

        def could(i: int) -> bool:
            return len(able & self.inside[i]) >= len(chosen)

        return len(chosen) == 1 or any(
            self.is_smallest(i, could) and self.inside[i] >= set(chosen)
            for i in range(len(self.domains))
        )


def has_slot(part: Part) -> bool:
    return any(p.name == "slot" or has_slot(p) for p in part.need.parts)


# ---- Counts inside a part, by the way that leads to them ----


def ranges(part: Part) -> Iterator[tuple[int, ...]]:
    """The ways to the counts inside *part* that can be larger, the outer ones first.

    What a whole domain must have at least stays at its minimum; slots in one do not.
    """
    for i, inner in enumerate(part.need.parts):
        if not part.whole or inner.name == "slot":
            if not inner.count.fixed:
                yield (i,)
            yield from ((i, *path) for path in ranges(inner))


def at(part: Part, path: tuple[int, ...]) -> Part:
    for i in path:
        part = part.need.parts[i]
    return part


def with_count(part: Part, path: tuple[int, ...], number: int) -> Part:
    if not path:
        return part._replace(count=Count(number, number))
    parts = list(part.need.parts)
    parts[path[0]] = with_count(parts[path[0]], path[1:], number)
    return part._replace(need=part.need._replace(parts=tuple(parts)))


def nslots(part: Part) -> int:
    """How many slots *part* has, its counts at their minimum."""
    each = 1 if part.name == "slot" else sum(nslots(p) for p in part.need.parts)
    return smallest(part.count) * each


def some_share(need: Need) -> bool:
    """Whether GPUs bring their share of cores somewhere in *need*."""
    return need.share or any(some_share(p.need) for p in need.parts)
