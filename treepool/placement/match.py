"""The matcher: in which domains the parts of a need are met. Exact: a no means there is no way.

Which ids an amount takes inside its domain does not matter for the others, only how many, so a
match is a choice of domains such that in every domain what is promised to all scopes inside it is
not more than what is free there. Scopes nest, so this condition is enough (Hall's theorem for a
laminar family). The matcher searches these choices depth first, the preferred one first, and
gives up a branch as soon as some domain is overdrawn.
"""

from __future__ import annotations

from typing import Iterator, Optional, Union

import attrs

from treepool.placement.need import SLOT, Need, Part, least
from treepool.placement.spread import amount_levels, fewest, levels_of, remembered
from treepool.placement.tree import Domain, NodeType
from treepool.rfc import idset

#: Choices tried before a search is given up, about 0.2 s. The known forms need a few dozen; only a
#: contrived mix of localities, on a node most of which is taken, comes near.
BUDGET = 5_000


#: More than any count there is on a node.
_UNBOUNDED = 1 << 20


class TooHard(Exception):
    """The search was given up; whether there is a match is not known."""


@attrs.frozen(eq=False)
class Take:
    """What a match takes: all of ``scope``, or ``need``'s amount from somewhere inside it."""

    scope: Domain
    need: Need
    whole: bool


@attrs.frozen(eq=False)
class _Amount:
    """To do: find ``need``'s amount in ``scope``, several times."""

    scope: Domain
    need: Need
    times: int


@attrs.frozen(eq=False)
class _Choice:
    """To do: choose ``left`` more domains for ``part`` in ``scope``.

    ``options`` are the domains to choose from, None if not listed yet, of which those before
    ``start`` have been chosen or passed over.
    """

    scope: Domain
    part: Part
    left: int
    near: bool
    options: Optional[list[Domain]] = None
    start: int = 0


_Task = Union[_Amount, _Choice]

#: What is still to do, as a linked list that branches of the search share.
_Tasks = Optional[tuple[_Task, "_Tasks"]]


class Ledger:
    """How many cores and GPUs of each domain are free and not promised to a scope inside it."""

    __slots__ = ("cores", "gpus", "parent")

    def __init__(self, node_type: NodeType, cores: int, gpus: int) -> None:
        self.parent = node_type.parent
        self.cores = {d: idset.size(d.cores & cores) for d in self.parent}
        self.gpus = {d: idset.size(d.gpus & gpus) for d in self.parent}

    def promise(self, scope: Domain, ncores: int, ngpus: int) -> bool:
        """Set aside an amount of *scope*; False, and nothing changes, if it is not there."""
        domain: Optional[Domain] = scope
        while domain is not None:
            if self.cores[domain] < ncores or self.gpus[domain] < ngpus:
                return False
            domain = self.parent[domain]
        self.release(scope, -ncores, -ngpus)
        return True

    def release(self, scope: Domain, ncores: int, ngpus: int) -> None:
        """Undo a promise."""
        domain: Optional[Domain] = scope
        while domain is not None:
            self.cores[domain] += ncores
            self.gpus[domain] += ngpus
            domain = self.parent[domain]

    def free_in(self, domain: Domain) -> tuple[int, int]:
        """How much is left in *domain*, GPUs first: the order in which domains are used up."""
        return self.gpus[domain], self.cores[domain]

    def shape(self, domain: Domain) -> tuple[object, ...]:
        """A value that is equal for domains between which the matcher need not tell."""
        inside = sorted(repr(self.shape(child)) for child in domain.children)
        return (
            domain.name,
            domain.whole,
            domain.memory,
            domain.ncores,
            domain.ngpus,
            *self.free_in(domain),
            tuple(inside),
        )


class Matcher:
    """A search for ways to meet needs on a node of *node_type* where *cores* and *gpus* are free.

    With *local*, every amount and every group of domains must sit in a domain of level 0, see
    spread.levels_of(). With *plain*, domains are tried in the order of the tree. After *budget*
    choices the search raises TooHard.
    """

    def __init__(
        self,
        node_type: NodeType,
        cores: int,
        gpus: int,
        local: bool = False,
        plain: bool = False,
        budget: int = BUDGET,
    ) -> None:
        self.node_type = node_type
        self.ledger = Ledger(node_type, cores, gpus)
        self.local = local
        self.plain = plain
        self.takes: list[Take] = []
        self.tried = 0
        self.budget = budget

    def one(self, scope: Domain, part: Part) -> bool:
        """Meet *part*, its count at the minimum, in *scope*; ``takes`` then says how."""
        return self._first(self._begin(scope, part, None))

    def meets(self, scope: Domain, need: Need) -> bool:
        """Meet *need* once in *scope*; ``takes`` then says how."""
        return self._first(self._inside(scope, need, None))

    def _first(self, tasks: _Tasks) -> bool:
        return self._next(self._ways(tasks))

    def _next(self, ways: Iterator[bool]) -> bool:
        """Whether there is one more of *ways*, which is then current."""
        try:
            return next(ways, False)
        except RecursionError:  # hundreds of choices, one inside the other
            raise TooHard from None

    def several(self, scope: Domain, part: Part, count: int) -> bool:
        """Meet *count* slots of *part* in *scope*, going back over slots met before if need be."""
        failed: set[tuple[int, object]] = set()
        single = attrs.evolve(part, count=attrs.evolve(part.count, minimum=1, maximum=1, ids=()))
        stack = [self._ways(self._begin(scope, single, None))]
        while stack:
            if self._next(stack[-1]):
                if len(stack) == count:
                    return True
                key = (len(stack), self.ledger.shape(self.node_type.root))
                if key not in failed and self.room_for(scope, part) >= count - len(stack):
                    failed.add(key)
                    stack.append(self._ways(self._begin(scope, single, None)))
            else:
                stack.pop()
        return False

    def room_for(self, scope: Domain, part: Part) -> int:
        """An upper bound of how many more slots of *part* fit in *scope*."""
        need = part.need
        ncores, ngpus = least(need)
        bounds = []
        if ncores:
            bounds.append(self.ledger.cores[scope] // ncores)
        if ngpus:
            bounds.append(self.ledger.gpus[scope] // ngpus)
        if self.local and need.takes_amount:
            levels = amount_levels(self.node_type, need)
            hosts = [d for d in levels if not levels[d] and self._within(d, scope)]
            bounds.append(sum(self._copies(d, need.cores, need.gpus) for d in hosts))
        for inner in need.parts:
            if inner.name == SLOT:
                continue
            domains = self._options_in(scope, inner)
            if inner.whole:
                copies = len(domains)
            else:
                copies = sum(self._copies(d, *least(inner.need)) for d in domains)
            bounds.append(copies // inner.count.minimum)
        return min(bounds) if bounds else 0

    def _copies(self, domain: Domain, ncores: int, ngpus: int) -> int:
        """How often an amount is left in *domain*; of nothing, more than any count."""
        bounds = [self.ledger.cores[domain] // ncores] if ncores else []
        bounds += [self.ledger.gpus[domain] // ngpus] if ngpus else []
        return min(bounds) if bounds else _UNBOUNDED

    # -- the search

    def _begin(self, scope: Domain, part: Part, rest: _Tasks) -> _Tasks:
        """The tasks that meet *part* in *scope*, before *rest*."""
        if part.name != SLOT:
            # Domains that slots sit inside of need not be close to each other; a slot's must.
            near = all(inner.name != SLOT for inner in _all_parts(part.need))
            return _Choice(scope, part, part.count.minimum, near), rest
        root = self.node_type.root
        if part.count.minimum > root.ncores + root.ngpus:  # more slots than could ever be
            return self._never(scope), rest
        if not self._has_capacity(scope, part.need):
            return self._never(scope), rest
        if not part.need.parts and not self.local:  # one promise for all slots
            return _Amount(scope, part.need, part.count.minimum), rest
        for _ in range(part.count.minimum):
            rest = self._inside(scope, part.need, rest)
        return rest

    def _inside(self, scope: Domain, need: Need, rest: _Tasks) -> _Tasks:
        """The tasks that meet *need* in *scope*, before *rest*: whole domains first."""
        if not self._has_capacity(scope, need):
            return self._never(scope), rest
        if need.takes_amount:
            rest = _Amount(scope, need, 1), rest
        for part in sorted(need.parts, key=lambda p: p.whole):
            rest = self._begin(scope, part, rest)
        return rest

    def _has_capacity(self, scope: Domain, need: Need) -> bool:
        """Whether *scope* has the memory, and the node the storage; no domain in it has more."""
        return need.memory <= scope.memory and need.storage <= self.node_type.storage

    def _never(self, scope: Domain) -> _Task:
        """A task that no node can do."""
        return _Amount(scope, Need(cores=self.node_type.root.ncores + 1), 1)

    def _ways(self, tasks: _Tasks) -> Iterator[bool]:
        """True for each way to do *tasks*; ledger and takes are as it says while it is current."""
        if tasks is None:
            yield True
            return
        task, rest = tasks
        if isinstance(task, _Amount):
            yield from self._amount_ways(task, rest)
        elif task.options is not None:
            yield from self._choice_ways(task, task.options, rest)
        else:
            for options in self._options(task):
                listed = attrs.evolve(task, options=options)
                yield from self._choice_ways(listed, options, rest)

    def _amount_ways(self, task: _Amount, rest: _Tasks) -> Iterator[bool]:
        need, scope = task.need, task.scope
        hosts = [scope]
        if self.local:
            levels = amount_levels(self.node_type, need)
            hosts = [d for d in levels if levels[d] == 0 and self._within(d, scope)]
            hosts.sort(key=lambda d: self._path(d, scope))
        for i, host in enumerate(hosts):
            if self._like_an_earlier(hosts, i, 0):
                continue
            amount = task.times * need.cores, task.times * need.gpus
            self._count()
            if self.ledger.promise(host, *amount):
                self.takes += [Take(host, need, False)] * task.times
                yield from self._ways(rest)
                del self.takes[-task.times :]
                self.ledger.release(host, *amount)

    def _choice_ways(self, task: _Choice, options: list[Domain], rest: _Tasks) -> Iterator[bool]:
        part = task.part
        for i in range(task.start, len(options) - task.left + 1):
            if self._like_an_earlier(options, i, task.start):
                continue
            domain = options[i]
            after = rest
            if task.left > 1:
                after = attrs.evolve(task, left=task.left - 1, start=i + 1), rest
            self._count()
            if not part.whole:
                yield from self._ways(self._inside(domain, part.need, after))
            elif self.ledger.promise(domain, domain.ncores, domain.ngpus):
                self.takes.append(Take(domain, part.need, True))
                yield from self._ways(after)
                self.takes.pop()
                self.ledger.release(domain, domain.ncores, domain.ngpus)

    def _count(self) -> None:
        self.tried += 1
        if self.tried > self.budget:
            raise TooHard

    def _like_an_earlier(self, options: list[Domain], i: int, start: int) -> bool:
        """True if options[i] differs in nothing from a sibling that was passed over before it."""
        if i == start:
            return False
        parent, shape = self.node_type.parent[options[i]], None
        for other in options[start:i]:
            if self.node_type.parent[other] is parent:
                shape = shape or self.ledger.shape(options[i])
                if self.ledger.shape(other) == shape:
                    return True
        return False

    # -- which domains, in which order

    def _options(self, task: _Choice) -> Iterator[list[Domain]]:
        """Lists of domains of which ``left`` are to be chosen; each one's first are preferred."""
        part, count = task.part, task.left
        options = self._options_in(task.scope, part)
        if len(options) < count:
            return
        if self.plain:
            yield options
        elif count == 1 or not task.near:
            yield sorted(options, key=lambda d: self._path(d, task.scope))
        else:
            yield from self._groups(task.scope, part, count, options)

    def _groups(
        self, scope: Domain, part: Part, count: int, options: list[Domain]
    ) -> Iterator[list[Domain]]:
        """The options of each domain that can host the whole group, the preferred group first."""
        levels = group_levels(self.node_type, part)
        held: dict[Domain, list[Domain]] = {}
        for option in options:
            domain: Optional[Domain] = option
            while domain is not None:
                held.setdefault(domain, []).append(option)
                domain = None if domain is scope else self.node_type.parent[domain]
        hosts = [d for d in held if d in levels and len(held[d]) >= count]
        hosts.sort(key=lambda d: (levels[d], self._path(d, scope)))
        if not hosts:
            return
        if not self.local:
            first = self._fewest(hosts[0], count, held)
            yield first + [d for d in options if d not in first]
            return
        for host in hosts:
            if levels[host] == 0:
                first = self._fewest(host, count, held)
                yield first + [d for d in held[host] if d not in first]

    def _fewest(self, host: Domain, count: int, held: dict[Domain, list[Domain]]) -> list[Domain]:
        """*count* of the options held in *host*, from as few of its children as possible."""
        if held[host] == [host]:
            return [host]
        children = [c for c in host.children if c in held]
        children.sort(key=self.ledger.free_in)
        amounts = [(0, len(held[c])) for c in children]
        chosen: list[Domain] = []
        for i in fewest(amounts, (0, count)):
            share = min(amounts[i][1], count - len(chosen))
            chosen += self._fewest(children[i], share, held)
        return chosen

    def _options_in(self, scope: Domain, part: Part) -> list[Domain]:
        """The domains in *scope* that can give *part*'s need once, as things stand."""
        able = able_domains(self.node_type, part)
        cores, gpus = self.ledger.cores, self.ledger.gpus
        ncores, ngpus = least(part.need)
        found = []
        for d in self.node_type.named.get(part.name, ()):
            if d not in able or d is scope or not self._within(d, scope):
                continue
            if part.whole:
                free = cores[d] == d.ncores and gpus[d] == d.ngpus
            else:
                free = cores[d] >= ncores and gpus[d] >= ngpus
            if free:
                found.append(d)
        return found

    def _within(self, domain: Domain, scope: Domain) -> bool:
        at: Optional[Domain] = domain
        while at is not None:
            if at is scope:
                return True
            at = self.node_type.parent[at]
        return False

    def _path(self, domain: Domain, scope: Domain) -> list[tuple[int, int, int]]:
        """A sort key that puts domains in the order in which the walk down reaches them."""
        steps = []
        while domain is not scope:
            parent = self.node_type.parent[domain]
            assert parent is not None
            steps.append((*self.ledger.free_in(domain), parent.children.index(domain)))
            domain = parent
        return steps[::-1]


def able_domains(node_type: NodeType, part: Part) -> frozenset[Domain]:
    """The domains of *part*'s locality that could give its need once on an idle node."""

    def compute() -> frozenset[Domain]:
        return frozenset(d for d in node_type.named.get(part.name, ()) if able(d))

    def able(domain: Domain) -> bool:
        if (part.whole and not domain.whole) or (part.with_core and not domain.ncores):
            return False
        matcher = Matcher(node_type, node_type.root.cores, node_type.root.gpus)
        try:
            return matcher.meets(domain, part.need)
        except TooHard:
            return False

    found = remembered(node_type, (part.name, part.whole, part.with_core, part.need), compute)
    assert isinstance(found, frozenset)
    return found


def group_levels(node_type: NodeType, part: Part) -> dict[Domain, int]:
    """The levels of the domains that could host *part*'s group, see spread.levels_of()."""

    def compute() -> dict[Domain, int]:
        able = able_domains(node_type, part)
        inside = {d: sum(b in able for b in d.walk()) for d in node_type.parent}
        return levels_of(node_type.root, lambda d: inside[d] >= part.count.minimum)

    found = remembered(node_type, (part, "group"), compute)
    assert isinstance(found, dict)
    return found


def _all_parts(need: Need) -> Iterator[Part]:
    for part in need.parts:
        yield part
        yield from _all_parts(part.need)
