"""The ledger: how much of each domain is free and not yet promised, while slots are placed.

A promise to a scope reduces the cores of every domain around the scope. It reduces the GPUs only
within the scope's realm (NodeType.realm), because slices of GPUs and full GPUs are counted apart.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable

import attrs

from treepool.placement.nodes.tree import Domain, NodeType
from treepool.placement.request.need import MANY, Need
from treepool.rfc import idset


@attrs.define(eq=False)
class Take:
    """What a slot takes: all of ``scope``, or ``need``'s amount from somewhere inside it.

    ``slot`` is a number that all takes of one slot share.
    """

    scope: Domain
    need: Need
    whole: bool
    slot: int = 0


def how_often(ncores: int, ngpus: int, cores: int, gpus: int) -> int:
    """How often an amount fits where *cores* and *gpus* are left; MANY for an empty amount."""
    times = MANY
    if ncores:
        times = cores // ncores
    if ngpus:
        times = min(times, gpus // ngpus)
    return times


def rows_of(copies: Iterable[tuple[int, int]], each: int, most: int = MANY) -> int:
    """How many slots, at most *most*, can take *each* distinct domains of those that give copies.

    *copies* are pairs: how often a domain can give, and how many such domains there are. So many
    slots n can just if the domains give n times as often as a slot takes, each of them at most n
    times (Gale and Ryser, for equal rows).
    """
    copies = list(copies)
    while True:
        slots = sum(min(times, most) * domains for times, domains in copies) // each
        if slots >= most:
            return most
        most = slots


class _Left(dict[Domain, int]):
    """What is left of each domain: at first what *free* says, once somebody asks."""

    def __init__(self, free: Callable[[Domain], int]) -> None:
        self.free = free

    def __missing__(self, domain: Domain) -> int:
        found = self[domain] = self.free(domain)
        return found


class Ledger:
    """How many cores and GPUs of each domain are free and not promised to a scope inside it."""

    def __init__(self, node_type: NodeType, cores: int, gpus: int) -> None:
        self.around = node_type.around
        self.order = node_type.order
        self.realm = node_type.realm
        self.cores = _Left(lambda domain: idset.size(domain.cores & cores))
        self.gpus = _Left(lambda domain: idset.size(domain.open_gpus & gpus))

    def copies(self, domain: Domain, need: Need) -> int:
        """How often *need*'s amount is left in *domain*."""
        return how_often(need.cores, need.gpus, self.cores[domain], self.gpus[domain])

    def promise(self, scope: Domain, ncores: int, ngpus: int) -> bool:
        """Set aside an amount in *scope*; if it is not available, change nothing, return False."""
        realm = self.realm[scope]
        for domain in self.around[scope]:
            if self.cores[domain] < ncores:
                return False
            if self.gpus[domain] < ngpus and self.realm[domain] is realm:
                return False
        self.release(scope, -ncores, -ngpus)
        return True

    def release(self, scope: Domain, ncores: int, ngpus: int) -> None:
        """Undo a promise."""
        realm = self.realm[scope]
        for domain in self.around[scope]:
            self.cores[domain] += ncores
            if self.realm[domain] is realm:
                self.gpus[domain] += ngpus

    def promise_whole(self, domain: Domain) -> bool:
        """Set aside all of *domain*; if some of it is in use, change nothing and return False."""
        if domain.mig and not self.untouched(domain):
            return False
        if not self.promise(domain, domain.ncores, domain.ngpus):
            return False
        for inner in domain.mig:
            self.release(inner, 0, -inner.ngpus)
        return True

    def release_whole(self, domain: Domain) -> None:
        """Undo the promise of a whole domain."""
        self.release(domain, domain.ncores, domain.ngpus)
        for inner in domain.mig:
            self.release(inner, 0, inner.ngpus)

    def untouched(self, domain: Domain) -> bool:
        """Whether nothing of *domain* is taken or promised."""
        return (
            self.cores[domain] == domain.ncores
            and self.gpus[domain] == domain.ngpus
            and (not domain.mig or all(self.gpus[d] == d.ngpus for d in domain.mig))
        )

    def gpus_in(self, domain: Domain) -> int:
        """The GPUs left in *domain*, slices included."""
        gpus = self.gpus[domain]
        return gpus + sum(self.gpus[inner] for inner in domain.mig) if domain.mig else gpus

    def free_in(self, domain: Domain) -> tuple[int, int]:
        """How much is left in *domain*, GPUs first: domains with the least left are used first."""
        return self.gpus[domain], self.cores[domain]

    def path(self, domain: Domain, scope: Domain) -> list[tuple[int, int, int]]:
        """A sort key that orders domains as a walk down from *scope* reaches them.

        The walk first enters the child with the fewest GPUs left, then the fewest cores, then the
        lowest id.
        """
        around = self.around[domain]
        inside = around[: around.index(scope)]
        return [(*self.free_in(at), self.order[at]) for at in reversed(inside)]

    def shape(self, domain: Domain) -> tuple[Any, ...]:
        """A value that is equal for domains that are interchangeable, as far as numbers go."""
        inside = sorted(self.shape(child) for child in domain.children)
        own = domain.name, domain.whole, domain.memory, domain.cxl, domain.capacity or -1
        return (*own, domain.ncores, domain.ngpus, *self.free_in(domain), *inside)
